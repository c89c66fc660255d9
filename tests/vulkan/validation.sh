#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the Vulkan driver on a software device under the validation layer, with
# its checks of threads and of barriers: it must have nothing to say.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
[ -z "${SANITIZER_CFLAGS-}" ] || exit 77
layer=VK_LAYER_KHRONOS_validation
found=
for folder in /usr/share /usr/local/share /etc; do
	file=$folder/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
	[ ! -f "$file" ] || found=$file
done
[ -n "$found" ] || {
	echo "no validation layer: vulkan-validationlayers is not installed"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/vk_layer_settings.txt" <<SETTINGS
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.log_filename = stdout
khronos_validation.disables =
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
SETTINGS
VK_LAYER_SETTINGS_PATH=$work/vk_layer_settings.txt
VK_INSTANCE_LAYERS=$layer
VK_LOADER_DEBUG=layer
KILN_CACHE_DIR=$work/cache
export VK_LAYER_SETTINGS_PATH VK_INSTANCE_LAYERS VK_LOADER_DEBUG KILN_CACHE_DIR

# run COMMAND...: its output is looked through, and shown where it fails
run()
{
	echo "== $*"
	code=0
	"$@" > "$work/out" 2> "$work/err" || code=$?
	[ $code != 77 ] || {
		cat "$work/out"
		exit 77
	}
	[ $code = 0 ] || {
		tail -20 "$work/out"
		exit 1
	}
	grep -q "$layer" "$work/err" || {
		echo "the layer was not loaded"
		exit 1
	}
	if grep -E 'Validation (Error|Warning)|VUID-|UNASSIGNED-|SYNC-' \
		"$work/out" "$work/err" > "$work/said"; then
		head -20 "$work/said"
		exit 1
	fi
}

CK_RUN_CASE=device
export CK_RUN_CASE
run "${builddir:?}/tests/unit/t_vulkan"
CK_RUN_CASE=limits
run "$builddir/tests/unit/t_vulkan"
unset CK_RUN_CASE
run "$builddir/tests/unit/t_vulkan_gpu"
for vectors in kiln matmul index float_reduce; do
	run "$builddir/tests/conform" --device vulkan:cpu \
		"${srcdir:?}/tests/vectors/$vectors.jsonl"
done
# What is hidden is not enabled either, so what needs it would be told of.
run "$builddir/tests/unit/t_vulkan_lacks"
KILN_VULKAN_HIDE=shaderFloat64
export KILN_VULKAN_HIDE
for vectors in kiln matmul float_elementwise; do
	run "$builddir/tests/conform" --device vulkan:cpu \
		--expect "$srcdir/tests/vulkan/no_f64.expect" \
		"$srcdir/tests/vectors/$vectors.jsonl"
done
unset KILN_VULKAN_HIDE
CK_RUN_CASE=windows
KILN_TEST_DEVICE=vulkan:cpu
export KILN_TEST_DEVICE
run "$builddir/tests/unit/t_profile"
unset CK_RUN_CASE
run "$builddir/tests/unit/t_graph"
[ -f "$builddir/tests/stubs/.libs/transfers.so" ] || {
	echo "no queue family for transfers: configure found no vulkan.pc"
	exit 0
}
# Last, since the device is another one from here on.
# shellcheck source=tests/vulkan/second_family.sh
. "$srcdir/tests/vulkan/second_family.sh"
CK_RUN_CASE=staging
export CK_RUN_CASE
run "$builddir/tests/unit/t_vulkan_gpu"
KILN_VULKAN_STAGING=1
export KILN_VULKAN_STAGING
CK_RUN_CASE=transfer
run "$builddir/tests/unit/t_transfer"
