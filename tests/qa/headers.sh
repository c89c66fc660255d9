#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles each installed header alone, as C11 and as C++17, with gcc and
# clang where they are here. The compiler of the build is always used.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"
bad=0
flags='-Iinclude -fsyntax-only -Wall -Wextra -Wpedantic -Wundef -Werror'

# try COMPILER STANDARD LANGUAGE
try()
{
	command -v "${1%% *}" >/dev/null || return 0
	for header in include/kiln/*.h; do
		name=${header#include/}
		# shellcheck disable=SC2086 # lists of words
		printf '#include <%s>\n#include <%s>\nextern int unit;\n' \
			"$name" "$name" |
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
