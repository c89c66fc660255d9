#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Measures kiln beside its peers on this machine, in one run, and prints a
# table in Markdown for bench/RESULTS.md.
#
# usage: bench/bench.sh [BUILD]     (a built tree; default: build)
#
# BENCH_PEER    the folder of bench/setup.sh (default: BUILD/peer)
# BENCH_ROUNDS  each program runs so often, the best counts (default: 3)
# BENCH_EPOCHS  of the training jobs (default: 5)
#
# Both sides are run in turn, so that what else the machine does hits both.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
peer=${BENCH_PEER:-$build/peer}
rounds=${BENCH_ROUNDS:-3}
epochs=${BENCH_EPOCHS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Settings of this shell must not slow the peers down.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS
unset OMP_NUM_THREADS MKL_NUM_THREADS KILN_CPU_WORKERS KILN_DEVICE

fail()
{
	echo "bench: $*" >&2
	exit 1
}

say()
{
	echo "bench: $*" >&2
}

[ -x "$build/tools/kiln" ] || fail "$build/tools/kiln is missing; build first"
[ -x "$peer/bin/python" ] || fail "$peer is no peer; run bench/setup.sh"
python=$peer/bin/python

compile() # SOURCE FLAGS...: a program in $work
{
	source=$1
	shift
	${CC:-cc} -O2 -std=gnu11 -I"$top/include" "$top/bench/$source.c" \
		-o "$work/$source" "$@"
}

compile mlp_products -L"$build/.libs" -lkiln -Wl,-rpath,"$build/.libs"
have_openblas=1
compile openblas -lopenblas 2>/dev/null || {
	say "OpenBLAS is missing (Debian: libopenblas-dev); its rows are empty"
	have_openblas=
}

kiln_side() # ROUND
{
	for threads in 1 2; do
		say "round $1: kiln, $threads threads"
		KILN_CPU_WORKERS=$threads "$build/tools/kiln" bench --json \
			--device cpu >"$work/kiln-ops-$threads-$1.json"
		KILN_CPU_WORKERS=$threads "$work/mlp_products" \
			>"$work/kiln-products-$threads-$1.json"
	done
	say "round $1: kiln, training"
	KILN_CPU_WORKERS=2 "$build/examples/fashion" --json --quiet \
		--device cpu --epochs "$epochs" >"$work/kiln-fashion-2-$1.json"
}

peer_side() # ROUND
{
	for threads in 1 2; do
		say "round $1: PyTorch, $threads threads"
		OMP_NUM_THREADS=$threads "$python" -W ignore \
			"$top/bench/ops_torch.py" --threads "$threads" \
			>"$work/torch-ops-$threads-$1.json"
		[ -z "$have_openblas" ] ||
			OPENBLAS_NUM_THREADS=$threads "$work/openblas" \
			>"$work/openblas-ops-$threads-$1.json"
	done
	say "round $1: PyTorch, training"
	OMP_NUM_THREADS=2 "$python" -W ignore "$top/bench/fashion_torch.py" \
		--threads 2 --epochs "$epochs" \
		>"$work/torch-fashion-2-$1.json" 2>"$work/torch-fashion.log" ||
		cat "$work/torch-fashion.log" >&2
}

round=1
while [ "$round" -le "$rounds" ]; do
	kiln_side "$round"
	peer_side "$round"
	round=$((round + 1))
done
"$python" "$top/bench/table.py" "$work"
