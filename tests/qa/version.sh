#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# VERSION and include/kiln/version.h must give the same version.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"

package=$(sed -n 's/^package //p' VERSION)
part() { sed -n "s/^#define KILN_VERSION_$1 //p" include/kiln/version.h; }
header=$(part MAJOR).$(part MINOR).$(part PATCH)
[ "$package" = "$header" ] && exit
echo "VERSION says $package, include/kiln/version.h $header" >&2
exit 1
