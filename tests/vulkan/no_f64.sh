#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Vectors on a software Vulkan device that is taken to have no 64-bit floats.
# What it refuses of other dtypes is in no_f64.expect.
set -eu
# shellcheck source=tests/vulkan/vectors.sh
. "${srcdir:?}/tests/vulkan/vectors.sh"
KILN_VULKAN_HIDE=shaderFloat64
export KILN_VULKAN_HIDE
run_vectors 'float_elementwise float_reduce index matmul typed/compare
	typed/cast typed/inplace typed/errors_index' \
	--expect "$srcdir/tests/vulkan/no_f64.expect"
