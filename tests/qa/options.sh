#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The table of environment variables and kiln-env(7) must name the same ones.
set -eu
export LC_ALL=C
cd "${srcdir:-$(dirname "$0")/../..}"
page=man/kiln-env.7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -e "$page" ] || {
	echo "$page is not here" >&2
	exit 1
}
grep -o '"KILN_[A-Z0-9_]*"' base/options.def | tr -d '"' | sort \
	>"$work/table"
sed -n 's/^\.It Ev \(KILN_[A-Z0-9_]*\).*/\1/p' "$page" | sort >"$work/page"
cmp -s "$work/table" "$work/page" && exit
comm -23 "$work/table" "$work/page" | sed "s|\$|: not in $page|" >&2
comm -13 "$work/table" "$work/page" |
	sed "s|\$|: in $page, but not in base/options.def|" >&2
exit 1
