#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Some files of vectors on a software Vulkan device; all of them, where
# KILN_VULKAN_ALL is set, take a quarter of an hour.
set -eu
# shellcheck source=tests/vulkan/vectors.sh
. "${srcdir:?}/tests/vulkan/vectors.sh"
run_vectors 'activation bool int index matmul float_shape float_reduce
	typed/create typed/inplace typed/denormal typed/matmul typed/large
	typed/errors_index typed/rankmix'
