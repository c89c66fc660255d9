#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# spirv.sh SRC OUT NAME SOURCE DEFINITION...: compiles a kernel to OUT/NAME.spv.
# OUT/opids.h has the numbers of the ops. KL_VALIDATE=1 has spirv-val look at
# the module; what glslangValidator was given then stays as OUT/NAME.comp.
# With -DKL_FUSE products and sums may be contracted.
set -u
src=$1 out=$2 name=$3 file=$4
shift 4
fuse=0
for definition; do
	[ "$definition" != -DKL_FUSE ] || fuse=1
done

fail()
{
	echo "spirv.sh: $name: $1" >&2
	exit 1
}

# shellcheck disable=SC2086 # a command with options, or none
${CC_FOR_BUILD:-cc} -E -P -x c -undef -nostdinc -I"$src" -DKL_GLSL "$@" \
	-include "$out/opids.h" "$src/$file" > "$out/$name.i" ||
	fail preprocessor
cat "$src/kernels/kl/glsl.head" "$out/$name.i" > "$out/$name.comp"
glslangValidator --quiet --target-env vulkan1.2 -V -o "$out/$name.raw" \
	"$out/$name.comp" || fail glslangValidator
spirv-dis "$out/$name.raw" | awk -v fuse=$fuse -f "$src/kernels/kl/spirv.awk" |
	spirv-as --target-env vulkan1.2 -o "$out/$name.spv" - ||
	fail spirv-as
if [ -n "${KL_VALIDATE-}" ]; then
	spirv-val --target-env vulkan1.2 --scalar-block-layout \
		"$out/$name.spv" || fail spirv-val
else
	rm -f "$out/$name.comp"
fi
rm -f "$out/$name.i" "$out/$name.raw"
