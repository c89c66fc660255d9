# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# Read by others, whose $work is a folder of their own: from here on the loader
# finds Mesa's software device alone, with a queue family for transfers.

mesa=
for place in /etc /usr/local/share /usr/share; do
	for file in "$place"/vulkan/icd.d/lvp_icd*.json; do
		[ ! -f "$file" ] || mesa=$(sed -n \
			's/.*"library_path": *"\([^"]*\)".*/\1/p' "$file")
	done
done
[ -n "$mesa" ] || {
	echo "no software Vulkan device: mesa-vulkan-drivers is not installed"
	exit 77
}
stub=$(cd "${builddir:?}/tests/stubs/.libs" && pwd)/transfers.so
cat > "$work/transfers.json" <<JSON
{
	"file_format_version": "1.0.0",
	"ICD": { "library_path": "$stub", "api_version": "1.3.0" }
}
JSON
# The second name is of older loaders.
VK_DRIVER_FILES=$work/transfers.json
VK_ICD_FILENAMES=$VK_DRIVER_FILES
KILN_STUB_ICD=$mesa
export VK_DRIVER_FILES VK_ICD_FILENAMES KILN_STUB_ICD
