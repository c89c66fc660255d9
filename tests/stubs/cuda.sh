#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The CUDA driver on a library without a GPU (cuda.c): what is refused and how
# that is told, conformance and the promises of drivers. CHECK_QUICK=1: a part
# of it.
set -eu
builddir=${builddir:-.}
srcdir=${srcdir:-.}
LD_LIBRARY_PATH=$builddir/tests/stubs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset KILN_STUB_CUDA KILN_DEVICE
walk=$builddir/tests/stubs/walk
# A library that fails keeps what it was to free.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS

fail()
{
	echo "cuda.sh: $*" >&2
	exit 1
}

# expect TEXT SETTINGS: kiln cannot open the device, and says so
expect()
{
	said=$(KILN_STUB_CUDA=$2 KILN_LOG=error "$builddir/tests/conform" \
		--device cuda "$srcdir/tests/vectors/matmul.jsonl" 2>&1) &&
		fail "opened with $2"
	case $said in
	*"$1"*) ;;
	*) fail "with $2: no \"$1\" in: $said" ;;
	esac
}

expect "offers CUDA 10.2, kiln needs 11.0" version=10020
expect "CUDA_ERROR_NO_DEVICE" devices=0
expect "compute capability 7.0, kiln needs 7.5" capability=70
expect "cuInit: CUDA_ERROR_UNKNOWN" fail=cuInit:1:999
expect "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" fail=cuInit:1:803
expect "CUDA_ERROR_OUT_OF_MEMORY" fail=cuDevicePrimaryCtxRetain:1:2
echo "refusals: as they should be"

# images CAPABILITY [SETTINGS]: the kinds of image that such a device takes
images()
{
	rm -f "$taken"
	KILN_STUB_CUDA="capability=$1 ${2-}" KILN_STUB_CUDA_IMAGES=$taken \
		KILN_LOG=warn "$walk" cuda > "$taken.said" 2>&1 ||
		fail "capability $1, ${2-}: $(cat "$taken.said")"
	sort -u "$taken" | tr '\n' ' '
}

# Machine code of the same major number and no later minor one; else PTX.
taken=$(mktemp)
trap 'rm -f "$taken" "$taken.said"' EXIT
made=$(LC_ALL=C sed -n '/^$/q; s/^ew1_0[.]\([0-9]*\) .*/\1/p' \
	"$builddir/cuda-ptx/texts.bin" | tr '\n' ' ')
for row in 75: 80:80 86:80 89:89,80 90:90 100: 120:; do
	wanted=ptx
	for c in $(echo "${row#*:}" | tr , ' '); do
		case " $made" in *" $c "*) wanted=sm_$c; break;; esac
	done
	got=$(images "${row%:*}")
	[ "$got" = "$wanted " ] || fail "capability ${row%:*}: $got, not $wanted"
done
echo "images: as the devices need them (cubins: ${made:-none})"

# A cubin that is refused is told once; PTX does the work.
for result in 200 209 300; do
	[ -n "$made" ] || break
	got=$(images "${made%% *}" "fail=cuModuleLoadData:1:$result")
	[ "$got $(grep -c "refuses the cubin" "$taken.said")" = "ptx  1" ] ||
		fail "a cubin refused with $result: $got $(cat "$taken.said")"
done

# No memory for one is no refusal: the next one is a cubin again.
if [ -n "$made" ]; then
	got=$(images "${made%% *}" "fail=cuModuleLoadData:1:2")
	case $got in
	*"refuses the cubin"* | ptx*) fail "no memory for a cubin: $got" ;;
	esac
fi

# A module that the driver refuses is the op's error, a fault the device's.
for result in 218:KILN_ERR_DRIVER 222:KILN_ERR_DRIVER_TOO_OLD \
	209:KILN_ERR_UNSUPPORTED; do
	setting="capability=75 fail=cuModuleLoadData:2:${result%%:*}"
	said=$(KILN_STUB_CUDA=$setting "$walk" cuda)
	[ "$said" = "${result#*:}" ] || fail "module, ${result%%:*}: $said"
done
for call in cuLaunchKernel cuEventRecord cuMemcpyDtoHAsync_v2; do
	said=$(KILN_STUB_CUDA=fail=$call:3:700 "$walk" cuda)
	[ "$said" = KILN_ERR_DEVICE_LOST ] || fail "$call, 700: $said"
done
echo "modules and faults: told"
# What follows takes ten minutes and more under a sanitizer.
[ -z "${SANITIZER_CFLAGS-}" ] || exit 0

# The first time each kernel is a launch of its own.
export KILN_CUDA_BATCH=0
for settings in "" "async=1" "async=20 writes=0 vmm=0"; do
	echo "== conformance, settings: $settings"
	KILN_STUB_CUDA=$settings "$builddir/tests/conform" --device cuda \
		"$srcdir"/tests/vectors/*.jsonl \
		"$srcdir"/tests/vectors/typed/*.jsonl > "$taken.said" ||
		fail "vectors: $(grep -v '^skip' "$taken.said" | tail -n 5)"
	tail -n 1 "$taken.said"
	said=$(KILN_STUB_CUDA=$settings "$builddir/tests/unit/t_drivers") ||
		fail "drivers: $said"
	case $said in
	*"only the tables of cuda"*) fail "$said" ;;
	esac
	said=$(KILN_STUB_CUDA=$settings KILN_TEST_DEVICE=cuda \
		"$builddir/tests/unit/t_profile") || fail "windows: $said"
	KILN_CUDA_BATCH=1
	[ -z "${CHECK_QUICK-}" ] || break
done
