#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs shellcheck on every shell script.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"

command -v shellcheck >/dev/null || {
	echo "shellcheck is not here"
	exit 77
}
find run check .ci/run tests bench examples tools -type f 2>/dev/null |
while read -r file; do
	case $(head -c 16 "$file" | head -n 1) in
	'#!/bin/sh' | '#!/bin/bash' | '# shellcheck'*) echo "$file" ;;
	esac
done | xargs shellcheck -x >&2
