#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Vectors of reductions on a software Vulkan device: with its subgroups, as
# conform.sh has them, and as if it had none.
set -eu
# shellcheck source=tests/vulkan/vectors.sh
. "${srcdir:?}/tests/vulkan/vectors.sh"
run_vectors typed/reduce
KILN_VULKAN_HIDE=subgroupSupportedOperations
export KILN_VULKAN_HIDE
run_vectors 'float_reduce typed/reduce bool int'
