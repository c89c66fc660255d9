#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Four sets must be one: the functions that the headers declare with KILN_API,
# those in the version map, those that the shared library exports, and those
# that have a man page. The archive's global names must be the same.
# With --write the map is made from the headers.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$top"

# The preprocessed declarations: the name before the first parenthesis after
# each mark of KILN_API.
headers()
{
	echo '#include <kiln/kiln.h>' |
	${CC:-cc} -E -P -Iinclude -x c - | tr '\n' ' ' |
	sed 's/__attribute__((visibility("default")))/\
@/g' | sed -n '/^@/{
		s/^@//
		s/__attribute__ *(([^()]*))//g
		s/^[^(]*[^A-Za-z0-9_(]\([a-z0-9_]*\) *(.*/\1/p
	}' | sort -u
}

if [ "${1-}" = --write ]; then
	headers >"$work/headers"
	{
		echo '# Made by tests/qa/exports.sh --write from the headers.'
		printf 'KILN_0 {\nglobal:\n'
		sed 's/.*/\t&;/' "$work/headers"
		printf 'local:\n\t*;\n};\n'
	} >"$work/map"
	cp "$work/map" lib/kiln.map
	exit
fi

headers >"$work/headers"
sed -n 's/^\t\(kiln_[a-z0-9_]*\);$/\1/p' lib/kiln.map | sort -u >"$work/map"
${NM:-nm} -D --defined-only "$build/.libs/libkiln.so" |
	awk '$2 != "A" { print $NF }' | sed 's/@.*//' | sort -u >"$work/nm"
for page in man/kiln*.3; do
	name=${page##*/}
	[ ! -e "$page" ] || echo "${name%.3}"
done | sort -u >"$work/files"
# A page of its own or a link, and named in the page that it leads to.
while read -r name; do
	page=man/$name.3
	target=$(sed -n '1s/^\.so man3\///p' "$page")
	[ -z "$target" ] || page=man/$target
	if [ ! -e "$page" ]; then
		echo "man/$name.3 leads to $page, which is not here" >&2
	elif grep -q "^\.Nm $name\( ,\)*$" "$page"; then
		echo "$name"
	elif [ -n "$target" ] || grep -qx "$name" "$work/headers"; then
		echo "$page does not name $name" >&2
	fi
done <"$work/files" | sort -u >"$work/pages"

bad=0
compare() # SET WHAT
{
	comm -23 "$work/headers" "$work/$1" | sed "s|\$|: not in $2|" >&2
	comm -13 "$work/headers" "$work/$1" |
		sed "s|\$|: in $2, but no header declares it|" >&2
	cmp -s "$work/headers" "$work/$1" || bad=1
}
[ -s "$work/headers" ] || {
	echo "no header declares anything" >&2
	exit 1
}
compare map "lib/kiln.map (tests/qa/exports.sh --write)"
compare nm "the exports of libkiln.so"
# Pages that are no function's (overviews) are let pass.
grep -v '^kiln_api$\|^kiln$' "$work/pages" >"$work/pages.functions" || :
compare pages.functions "the man pages"
if [ -e "$build/libkiln.a" ]; then
	${NM:-nm} -g --defined-only "$build/libkiln.a" |
		awk 'NF == 3 { print $NF }' | sort -u >"$work/archive"
	compare archive "the global names of libkiln.a"
fi
exit $bad
