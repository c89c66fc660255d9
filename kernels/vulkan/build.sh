#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh SRC OUT: compiles all kernels of the Vulkan driver to SPIR-V and
# packs them: OUT/spirv.bin has the modules, one behind the other, and
# OUT/spirv_table.h a row for each: KILNI_SPIRV(name, offset, bytes).
# build.sh --list: their names, sources and definitions.
set -eu

list()
{
	for bytes in 1 2 4 8; do
		echo "turn${bytes}_0 kernels/vulkan/turn.kl -DKL_BYTES=$bytes"
	done
	echo "rows16_0 kernels/vulkan/rows.kl"
	for form in 0 1 2; do
		for bytes in 1 2 4 8; do
			echo "gather${bytes}_$form kernels/kl/gather.kl" \
				"-DKL_BYTES=$bytes -DKL_FORM=$form"
		done
		# flex32 and bool(u8) are stored as f32 and bool are.
		for dtype in 0 1 3 4 5 6 7 8 9 10 11 12 13 15; do
			echo "ew${dtype}_$form kernels/kl/ew.kl" \
				"-DKL_DTYPE=$dtype -DKL_FORM=$form"
		done
	done
	for dtype in 0 1 3 4 5 6 7 8 9 10 11 12 13 15; do
		echo "scatter${dtype}_0 kernels/vulkan/scatter.kl" \
			"-DKL_DTYPE=$dtype"
		[ $dtype -gt 4 ] || echo "softmax${dtype}_0" \
			"kernels/vulkan/softmax.kl -DKL_DTYPE=$dtype"
		for fold in 0 1 2 3; do
			# There is no sum of bools.
			[ $dtype -lt 13 ] || [ $fold = 3 ] || continue
			echo "reduce${dtype}_$fold kernels/vulkan/reduce.kl" \
				"-DKL_DTYPE=$dtype -DKL_FOLD=$fold"
		done
	done
	for dtype in 0 1 3 4 9 10 11 12; do
		echo "matmul${dtype}_0 kernels/vulkan/matmul.kl" \
			"-DKL_DTYPE=$dtype -DKL_FUSE"
		for size in 1 2 3 4; do
			# The largest tiles only where they gain.
			[ $size -lt 4 ] || [ $dtype = 1 ] || [ $dtype = 3 ] ||
				[ $dtype = 4 ] || continue
			echo "matmul${dtype}_$size kernels/vulkan/tiles.kl" \
				"-DKL_DTYPE=$dtype -DKL_SIZE=$size -DKL_FUSE"
		done
	done
}

[ "$1" != --list ] || {
	list
	exit
}
src=$1 out=$2
mkdir -p "$out/modules"
awk -f "$src/kernels/kl/opids.awk" "$src/kernels/ops.def" \
	> "$out/modules/opids.h"
list | xargs -P "${KILN_JOBS:-$(nproc)}" -L 1 \
	sh "$src/kernels/kl/spirv.sh" "$src" "$out/modules"

list | {
	offset=0
	: > "$out/spirv.bin.tmp"
	: > "$out/spirv_table.tmp"
	while read -r name _; do
		bytes=$(wc -c < "$out/modules/$name.spv")
		cat "$out/modules/$name.spv" >> "$out/spirv.bin.tmp"
		echo "KILNI_SPIRV(\"$name\", $offset, $bytes)" \
			>> "$out/spirv_table.tmp"
		offset=$((offset + bytes))
	done
}
mv "$out/spirv.bin.tmp" "$out/spirv.bin"
mv "$out/spirv_table.tmp" "$out/spirv_table.h"
rm -rf "$out/modules"
