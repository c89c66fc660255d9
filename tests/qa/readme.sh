#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The README's first C program compiles, runs and is as short as it says.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```c$/ { on = 1; next }
	/^```/ { if (on) exit }
	on' "$top/README.md" >"$work/hello.c"
# Lines of the program itself, without includes.
lines=$(grep . "$work/hello.c" | grep -cv '^#include' || :)
if [ "$lines" -lt 1 ] || [ "$lines" -gt 15 ]; then
	echo "the README's program has $lines lines, not 1 to 15" >&2
	exit 1
fi
# shellcheck disable=SC2086 # lists of words
${CC:-cc} -Wall -Wextra -Werror ${SANITIZER_CFLAGS-} -I"$top/include" \
	"$work/hello.c" -o "$work/hello" -L"$build/.libs" -lkiln \
	-Wl,-rpath,"$build/.libs"
KILN_DEVICE=cpu "$work/hello" >"$work/out" || {
	echo "the README's program failed:" >&2
	cat "$work/out" >&2
	exit 1
}
[ -s "$work/out" ] || {
	echo "the README's program printed nothing" >&2
	exit 1
}
