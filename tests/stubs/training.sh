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

# swept WHAT CALLS: that the faults were met at all
swept()
{
	[ "$told" -gt 0 ] || fail "$1: no run has failed"
	tested=yes
	echo "$1, $runs of $2, $told told"
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

# sweep_cuda RESULT [SETTING]: each result of CUDA's is a number
sweep_cuda()
{
	export KILN_STUB_CUDA="${2-}"
	KILN_STUB_CUDA_CALLS=$data/calls
	export KILN_STUB_CUDA_CALLS
	train cuda
	unset KILN_STUB_CUDA_CALLS
	[ $code = 0 ] || fail "cuda: status $code"
	good=$(grep checksum "$said")
	calls=$(cat "$data/calls")
	n=1
	runs=0
	told=0
	while [ "$n" -le "$calls" ]; do
		export KILN_STUB_CUDA="${2:+$2 }fail=*:$n:$1"
		train cuda
		expect_told "call $n of $calls, result $1"
		runs=$((runs + 1))
		n=$(next "$n")
	done
	unset KILN_STUB_CUDA
	swept "cuda: result $1" "$calls calls"
}

# sweep_vulkan STATUS: through some hundred passes more than there are
sweep_vulkan()
{
	train vulkan:cpu
	[ $code = 0 ] || fail "vulkan:cpu: status $code"
	good=$(grep checksum "$said")
	n=1
	runs=0
	told=0
	most=${TRAINING_MOST-5000}
	while [ "$n" -le "$most" ]; do
		export KILN_FAULT="*:$n:$1"
		train vulkan:cpu
		expect_told "pass $n, $1"
		runs=$((runs + 1))
		n=$(next "$n")
	done
	unset KILN_FAULT
	swept "vulkan:cpu: $1" "the first $most passes"
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
