#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The CPU driver's levels against its baseline: elementwise ops bit for bit,
# the rest within its bounds. The null driver computes nothing to compare; its
# shapes and statuses are in the vectors' tests.
# DIFFER_SEED and DIFFER_ROUNDS: other cases, or more.
set -eu
differ=${builddir:-build}/tests/differ
seed=${DIFFER_SEED-1}
rounds=${DIFFER_ROUNDS-2}

echo "null: left out, it computes nothing"
ran=0
for level in avx512 avx2; do
	KILN_CPU_ISA=$level
	export KILN_CPU_ISA
	code=0
	# shellcheck disable=SC2086 # a command with options, or none
	${KILN_EMULATOR-} "$differ" --device cpu --exact \
		--reference-isa baseline --seed "$seed" --rounds "$rounds" ||
		code=$?
	[ $code != 2 ] || continue
	[ $code = 0 ] || exit $code
	ran=1
	[ -z "${CHECK_QUICK-}" ] || break
done
[ $ran = 1 ] || {
	echo "this machine has no level above the baseline"
	exit 77
}
