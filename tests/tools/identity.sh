#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Cards through the drivers themselves: kiln info with the stub libraries of
# CUDA and Vulkan, as far as this build has the drivers. See identity.py.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)

command -v python3 >/dev/null || {
	echo "python3 is not here"
	exit 77
}
exec python3 "$top/tests/tools/identity.py" "$build/tools/kiln" \
	"$build/tests/stubs/.libs" "$top/tests/machines"
