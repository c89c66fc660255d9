#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first 50 steps of the training example while a call of the driver fails:
# with CUDA's library without a GPU ("stub") the library's calls, on a device
# each pass through the driver's sites of faults, which its calls are. Either
# the run ends with the error, or its parameters are what they are without.
#
# TRAINING_DEVICES: where (default: stub vulkan:cpu); TRAINING_STATUS: what fails
# on a device (default: it is lost). Some calls are failed; TRAINING_EACH=N takes
# each Nth, from number TRAINING_FIRST on: with 1 half an hour on the stub and two
# hours on Vulkan in software. TRAINING_JOBS runs go side by side.
set -eu
builddir=${builddir:-.}
[ -z "${CHECK_QUICK-}${SANITIZER_CFLAGS-}" ] ||
	{ echo "skipped: takes too long here"; exit 77; }
unset KILN_DEVICE KILN_FAULT KILN_STUB_CUDA
jobs=${TRAINING_JOBS-1}
for number in "$jobs" "${TRAINING_EACH-1}" "${TRAINING_FIRST-1}"; do
	[ "$number" -ge 1 ] || { echo "training.sh: $number is not 1 or more"; exit 2; }
done
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
	if [ -n "${TRAINING_EACH-}" ]; then
		echo $(($1 + TRAINING_EACH))
	elif [ "$1" -lt 8 ]; then
		echo $(($1 + 1))
	else
		echo $(($1 + $1 / stride + 1))
	fi
}

# part JOB DEVICE WHAT: its share of the runs, each with its Nth call failed,
# until one has fewer calls
part()
{
	job=$1
	said=$data/said.$job
	n=${TRAINING_FIRST-1}
	turn=0
	runs=0
	told=0
	last=0
	while :; do
		turn=$((turn + 1))
		if [ $((turn % jobs)) = "$job" ]; then
			arm "$n"
			train "$2"
			if ! reached "$n"; then
				[ $code = 0 ] || fail "$2, $3: status $code"
				break
			fi
			expect_told "$2, $3, call $n"
			runs=$((runs + 1))
			last=$n
		fi
		n=$(next "$n")
	done
	echo "$runs $told $last" > "$data/part.$job"
}

# sweep DEVICE WHAT
sweep()
{
	running=
	broken=
	for job in $(seq 0 $((jobs - 1))); do
		part "$job" "$@" &
		running="$running $!"
	done
	for one in $running; do
		wait "$one" || broken=yes
	done
	[ -z "$broken" ] || exit 1
	cat "$data"/part.* | awk -v what="$1, $2" '
		{ runs += $1; told += $2; if ($3 > last) last = $3 }
		END {
			print what ": " runs " runs to call " last ", " told " told"
			exit !(told && runs)
		}' || fail "$1, $2: no run has failed"
	rm "$data"/part.*
	tested=yes
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
	reached()
	{
		[ "$1" -le "$calls" ]
	}
	export KILN_STUB_CUDA="$setting"
	KILN_STUB_CUDA_CALLS=$data/calls
	export KILN_STUB_CUDA_CALLS
	right cuda
	unset KILN_STUB_CUDA_CALLS
	calls=$(cat "$data/calls")
	sweep cuda "result $result"
	unset KILN_STUB_CUDA
}

# sweep_sites DEVICE STATUS
sweep_sites()
{
	status=$2
	arm()
	{
		export KILN_FAULT="*:$1:$status"
	}
	reached()
	{
		grep -q 'injected fault' "$said"
	}
	# One of the faults is a device that does not answer any more.
	export KILN_LOG=debug KILN_VULKAN_TIMEOUT_MS=2000
	right "$1"
	sweep "$1" "$status"
	unset KILN_FAULT KILN_LOG KILN_VULKAN_TIMEOUT_MS
}

sweep_stub()
{
	library=$builddir/tests/stubs/.libs
	[ -e "$library/libcuda.so.1" ] || return 0
	old=${LD_LIBRARY_PATH-}
	export LD_LIBRARY_PATH="$library${old:+:$old}"
	stride=4
	sweep_cuda 719 async=1
	sweep_cuda 2
	export LD_LIBRARY_PATH="$old"
}

sweep_device()
{
	if "$builddir/tools/kiln" info --device "$1" > /dev/null 2>&1; then
		stride=1
		sweep_sites "$1" "${TRAINING_STATUS-KILN_ERR_DEVICE_LOST}"
	else
		echo "no device $1"
	fi
}

tested=no
pictures train 400
pictures t10k 40
for device in ${TRAINING_DEVICES-stub vulkan:cpu}; do
	case $device in
	stub) sweep_stub ;;
	*) sweep_device "$device" ;;
	esac
done
[ $tested = yes ] || exit 77
