#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernel language for the target ptx.
[ -z "${CHECK_QUICK-}" ] || exit 77
KL_ONLY=ptx exec sh "${srcdir:?}/tests/kl/compile.sh" "${builddir:?}/kl-ptx"
