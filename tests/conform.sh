#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs one file of vectors on the CPU driver at each instruction-set level (a
# level that the machine lacks is the next lower one) and on the null driver.
# CHECK_QUICK=1: only as the machine is.
set -eu
conform=${builddir:-build}/tests/conform

# run WHAT ARGUMENT...
run()
{
	what=$1
	shift
	echo "== $what"
	# shellcheck disable=SC2086 # a command with options, or none
	${KILN_EMULATOR-} "$conform" "$@"
}

run "CPU" --device cpu "$1"
[ -z "${CHECK_QUICK-}" ] || exit 0
for level in baseline avx2; do
	KILN_CPU_ISA=$level
	export KILN_CPU_ISA
	run "CPU, $level" --device cpu "$1"
done
unset KILN_CPU_ISA
run "null" --device null "$1"
