#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# traces.sh [BUILD] - what the pools need for each recorded trace, as a table
# for RESULTS.md: with memory mapped into reserved addresses and without, on
# the null device: but for the time no figure depends on the machine.
# A target is met by the ratio where the driver's calls, at the costs of
# kiln-replay(1), take no more than 2 % of the time of the recorded program.
# The time of an allocation and its free is the median of BENCH_ROUNDS replays (default: 5).
set -eu
export LC_ALL=C
top=$(cd "$(dirname "$0")/.." && pwd)
kiln=${1:-$top/build}/tools/kiln
rounds=${BENCH_ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -x "$kiln" ] || {
	echo "$kiln is not built" >&2
	exit 1
}

# number NAME FILE: the first number of that name in a JSON object
number()
{
	sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2" | head -n 1
}

# row TRACE PAGES TARGET TORCH: a row of the table; TORCH is the ratio of
# PyTorch's allocator, see bench/traces/README.md
row()
{
	file=$top/bench/traces/$1.trace.xz
	: >"$work/times"
	for _ in $(seq "$rounds"); do
		"$kiln" replay --device null --pages "$2" --cost --json \
			"$file" >"$work/out"
		number ns_per_allocation_and_free "$work/out" >>"$work/times"
	done
	time=$(sort -n "$work/times" |
		awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
	awk -v trace="$1" -v pages="$2" -v target="$3" -v torch="$4" \
		-v ns="$time" \
		-v live="$(number peak_live_bytes "$work/out")" \
		-v reserved="$(number peak_reserved_bytes "$work/out")" \
		-v calls="$(number driver_calls "$work/out")" \
		-v cost="$(sed -n '/"cost": {/,$p' "$work/out" |
			sed -n 's/^ *"seconds": \([0-9.e+-]*\),*$/\1/p' |
			head -n 1)" \
		-v share="$(number share_of_recorded "$work/out")" '
		BEGIN {
			ratio = reserved / live
			printf "| %s | %s | %.0f | %.4f | %s | %s | %s | " \
				"%d | %.1f ms | %.2f %% | %.0f ns |\n", trace,
				pages, reserved, ratio, torch, target,
				ratio <= target && share <= 0.02 ? "yes" \
				: "no", calls,
				1e3 * cost, 100 * share, ns
		}'
}

cat <<'END'
| trace | pages | peak reserved | over peak live | PyTorch's | target | met | driver calls | their time | of the recorded | alloc + free |
|---|---|---|---|---|---|---|---|---|---|---|
END
row gpt2_train mapped 1.02 1.074
row resnet_train mapped 1.02 1.015
row embed_infer mapped 1.05 1.271
row serving_mixed mapped 1.08 1.149
# Without mapping: PyTorch's with expandable segments and 5 % more.
row gpt2_train plain 1.128 1.074
row resnet_train plain 1.066 1.015
row embed_infer plain 1.335 1.271
row serving_mixed plain 1.206 1.149
