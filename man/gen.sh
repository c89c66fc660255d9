#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the man pages that derive from the source: section 3 from the public
# headers, kiln-ops(7) from the op registry, kiln-env(7) from the option
# table. Without an option it says which pages differ from those in man/ and
# fails if there are any; --write brings them up to date.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd)
cd "$top"
# Of the last change to what the pages say.
date="November 29, 2026"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new=$work/pages
mkdir "$new"

# fill TEMPLATE: replaces a line @NAME@ by the file NAME of $work
fill()
{
	awk -v dir="$work" -v date="$date" '
	/^@[A-Z]+@$/ {
		path = dir "/" substr($0, 2, length($0) - 2)
		while ((getline line <path) > 0)
			print line
		next
	}
	{ gsub(/@DATE@/, date); print }' "$1"
}

# The headers, each once. status.h comes first: its table explains the errors
# of all pages.
headers=$(awk -F'|' '!/^#/ && !seen[$2]++ { print "include/kiln/" $2 }' \
	man/families.txt)
# shellcheck disable=SC2086 # a list of names
awk -v out="$new" -v date="$date" -v examples=man/examples \
	-f man/gen.awk man/families.txt $headers
mv "$new/rules.mdoc" "$work/RULES"
awk -v kind=ops -f man/rows.awk kernels/ops.def >"$work/OPS"
awk -v kind=options -f man/rows.awk base/options.def >"$work/OPTIONS"
fill man/kiln-ops.7.in >"$new/kiln-ops.7"
fill man/kiln-env.7.in >"$new/kiln-env.7"

# Pages of section 3 in man/ that no header asks for any more.
stale()
{
	for page in man/kiln_*.3; do
		[ ! -e "$page" ] || [ -e "$new/${page##*/}" ] || echo "$page"
	done
}

if [ "${1-}" = --write ]; then
	stale | while read -r page; do
		rm "$page"
	done
	for page in "$new"/*; do
		cmp -s "$page" "man/${page##*/}" || cp "$page" man/
	done
	exit
fi

bad=0
for page in "$new"/*; do
	cmp -s "$page" "man/${page##*/}" && continue
	echo "man/${page##*/} is not what man/gen.sh --write makes" >&2
	bad=1
done
for page in $(stale); do
	echo "$page: no header declares it; man/gen.sh --write removes it" >&2
	bad=1
done
exit $bad
