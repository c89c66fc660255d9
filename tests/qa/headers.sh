#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles each installed header alone, and what its structs begin as, as C11
# and as C++17, with gcc and clang where they are here. The compiler of the build
# is always used.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"
bad=0
flags='-Iinclude -fsyntax-only -Wall -Wextra -Wpedantic -Wundef -Werror'

# begun HEADER: a struct kiln_name that begins as KILN_NAME_INIT, for each
begun()
{
	sed -n 's/^#define KILN_\([A-Z_]*\)_INIT\>.*/\1/p' "$1" | awk '{
		name = tolower($1)
		print "void begin_" name "(void);"
		print "void begin_" name "(void) {"
		print "struct kiln_" name " x = KILN_" $1 "_INIT;"
		print "(void)x; }"
	}'
}

# try COMPILER STANDARD LANGUAGE
try()
{
	command -v "${1%% *}" >/dev/null || return 0
	for header in include/kiln/*.h; do
		name=${header#include/}
		# shellcheck disable=SC2086 # lists of words
		{
			printf '#include <%s>\n#include <%s>\n' "$name" "$name"
			echo 'extern int unit;'
			begun "$header"
		} |
			$1 -std="$2" -x "$3" $flags - || {
			echo "$name alone is not $2 for $1" >&2
			bad=1
		}
	done
}

for cc in "${CC:-cc}" gcc clang; do
	try "$cc" c11 c
done
for cxx in "${CXX:-c++}" g++ clang++; do
	try "$cxx" c++17 c++
done
exit $bad
