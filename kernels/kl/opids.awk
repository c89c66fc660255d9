# SPDX-License-Identifier: Apache-2.0
# Numbers the rows of kernels/ops.def as enum kilni_op does, for GLSL.
/^KILNI_(EW1|EW2|CMP|PRED|EWX|REDUCE|OTHER)\(/ {
	sub(/^[A-Z0-9_]*\(/, "")
	sub(/,.*/, "")
	printf "#define KL_OP_%s %du\n", $0, n++
}
