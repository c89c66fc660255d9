#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernel language for the target c.
[ -z "${CHECK_QUICK-}" ] || exit 77
KL_ONLY=c exec sh "${srcdir:?}/tests/kl/compile.sh" "${builddir:?}/kl-c"
