#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A software Vulkan device against the CPU driver: every method, some dtypes;
# all of them where DIFFER_ROUNDS says how many cases of each, which takes
# minutes for each round. DIFFER_SEED: other cases.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
differ=${builddir:?}/tests/differ
seed=${DIFFER_SEED-1}
code=0
"$differ" --device vulkan:cpu --method bool_not --rounds 1 > /dev/null ||
	code=$?
[ $code != 2 ] || {
	echo "no software Vulkan device"
	exit 77
}
[ -z "${DIFFER_ROUNDS-}" ] || exec "$differ" --device vulkan:cpu \
	--seed "$seed" --rounds "$DIFFER_ROUNDS"
for dtype in f32 i16 bool; do
	"$differ" --device vulkan:cpu --seed "$seed" --rounds 1 \
		--dtype "$dtype"
done
# What a network starts from is the same, bit for bit.
exec "$differ" --device vulkan:cpu --seed "$seed" --rounds 8 --exact \
	--method float_random --dtype f32
