#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Vectors of reductions and softmax on a software Vulkan device as if it had no
# subgroups; with them, conform.sh has these.
set -eu
# shellcheck source=tests/vulkan/vectors.sh
. "${srcdir:?}/tests/vulkan/vectors.sh"
KILN_VULKAN_HIDE=subgroupSupportedOperations
export KILN_VULKAN_HIDE
run_vectors 'float_reduce bool activation'
