#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs one file of vectors on the CPU driver at each instruction-set level that
# the machine has and on the null driver. CHECK_QUICK=1: only as the machine is.
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

# Whether the machine has the level that is set: a device opens only then.
has_level()
{
	# shellcheck disable=SC2086 # a command with options, or none
	case $(${KILN_EMULATOR-} "$conform" --device cpu /dev/null 2>&1) in
	*"is more than CPU, system and build offer"*) return 1 ;;
	esac
}

run "CPU" --device cpu "$1"
[ -z "${CHECK_QUICK-}" ] || exit 0
for level in baseline avx2; do
	KILN_CPU_ISA=$level
	export KILN_CPU_ISA
	if has_level; then
		run "CPU, $level" --device cpu "$1"
	else
		echo "== CPU, $level: not here"
	fi
done
unset KILN_CPU_ISA
run "null" --device null "$1"
