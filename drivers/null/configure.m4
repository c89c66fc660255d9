# SPDX-License-Identifier: Apache-2.0
KILN_DRIVER([null], [the null driver])
