#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first 50 steps of the training example while a call of the driver fails:
# on CUDA's library without a GPU the library's calls, on a Vulkan device in
# software each pass through the driver's sites of faults, which its calls are.
# Either the run ends with the error, or its parameters are what they are
# without a fault. Some calls are failed; with TRAINING_SWEEP=all each one,
# which takes half an hour on CUDA and hours on Vulkan.
set -eu
builddir=${builddir:-.}
[ -z "${CHECK_QUICK-}${SANITIZER_CFLAGS-}" ] ||
	{ echo "skipped: takes too long here"; exit 77; }
unset KILN_DEVICE KILN_FAULT KILN_STUB_CUDA
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
said=$data/said

fail()
{
	echo "training.sh: $*" >&2
	tail -n 3 "$said" >&2
	exit 1
}

# word N: its four bytes, the highest one first
word()
{
	for shift in 24 16 8 0; do
		# shellcheck disable=SC2059 # the format is the byte
		printf "\\$(printf %03o $(($1 >> shift & 255)))"
	done
}

# pictures NAME COUNT
pictures()
{
	{
		word 2051 && word "$2" && word 28 && word 28
		awk -v n=$(($2 * 784)) 'BEGIN {
			for (i = 0; i < n; i++) printf "%c", 32 + i * i % 95
		}'
	} | gzip > "$data/$1-images-idx3-ubyte.gz"
	{
		word 2049 && word "$2"
		awk -v n="$2" 'BEGIN {
			for (i = 0; i < n; i++) printf "%c", i % 9 + 1
		}'
	} | gzip > "$data/$1-labels-idx1-ubyte.gz"
}

# train DEVICE: its status
train()
{
	code=0
	timeout 120 "$builddir/examples/fashion" --quiet --checksum \
		--device "$1" --data "$data" --epochs 1 --batch 8 --steps 50 \
		> "$said" 2>&1 || code=$?
}

# What a run may come to where a call of it fails; told: how many said so.
expect_told()
{
	case $code in
	0) [ "$(grep checksum "$said")" = "$good" ] || fail "$*: other results" ;;
	1 | 2)
		grep -q 'fashion: .*KILN_ERR_' "$said" || fail "$*: no error told"
		told=$((told + 1))
		;;
	*) fail "$*: status $code" ;;
	esac
}

# next N: the first calls, then every so many
next()
{
	if [ "${TRAINING_SWEEP-}" = all ] || [ "$1" -lt 8 ]; then
		echo $(($1 + 1))
	else
		echo $(($1 + $1 / stride + 1))
	fi
}

# sweep DEVICE CALLS WHAT: arm N makes the Nth call fail
sweep()
{
	n=1
	runs=0
	told=0
	while [ "$n" -le "$2" ]; do
		arm "$n"
		train "$1"
		expect_told "$1, $3, call $n of $2"
		runs=$((runs + 1))
		n=$(next "$n")
	done
	[ "$told" -gt 0 ] || fail "$1, $3: no run has failed"
	tested=yes
	echo "$1, $3: $runs of $2 calls, $told told"
}

# right DEVICE: without a fault; what its parameters are then
right()
{
	train "$1"
	[ $code = 0 ] || fail "$1: status $code"
	good=$(grep checksum "$said")
}

# sweep_cuda RESULT [SETTING]: each result of CUDA's is a number
sweep_cuda()
{
	result=$1
	setting=${2-}
	arm()
	{
		export KILN_STUB_CUDA="${setting:+$setting }fail=*:$1:$result"
	}
	export KILN_STUB_CUDA="$setting"
	KILN_STUB_CUDA_CALLS=$data/calls
	export KILN_STUB_CUDA_CALLS
	right cuda
	unset KILN_STUB_CUDA_CALLS
	sweep cuda "$(cat "$data/calls")" "result $result"
	unset KILN_STUB_CUDA
}

# sweep_vulkan STATUS: as many passes as are known to be more than there are
sweep_vulkan()
{
	status=$1
	arm()
	{
		export KILN_FAULT="*:$1:$status"
	}
	right vulkan:cpu
	sweep vulkan:cpu "${TRAINING_MOST-5000}" "$status"
	unset KILN_FAULT
}

tested=no
pictures train 400
pictures t10k 40
library=$builddir/tests/stubs/.libs
if [ -e "$library/libcuda.so.1" ]; then
	old=${LD_LIBRARY_PATH-}
	export LD_LIBRARY_PATH="$library${old:+:$old}"
	stride=4
	sweep_cuda 719 async=1
	sweep_cuda 2
	export LD_LIBRARY_PATH="$old"
fi
if "$builddir/tools/kiln" info --device vulkan:cpu > /dev/null 2>&1; then
	stride=1
	sweep_vulkan KILN_ERR_DEVICE_LOST
else
	echo "no software Vulkan device"
fi
[ $tested = yes ] || exit 77
