# SPDX-License-Identifier: Apache-2.0
KILN_DRIVER([cpu], [the CPU driver])
