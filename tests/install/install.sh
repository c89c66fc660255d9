#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs into a staging folder, moves it elsewhere and looks at it as a
# distribution or a site would: C and C++ users through pkg-config, shared and
# static; SONAME and NEEDED; links; the command and its pages; two copies in
# one process.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain()
{
	echo "install: $*" >&2
	bad=1
}

[ -z "${SANITIZER_CFLAGS-}" ] || {
	echo "a sanitized library is not for installing"
	exit 77
}
make -C "$build" install DESTDIR="$work/stage" MAKEFLAGS= \
	>"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	complain "make install fails"
	exit 1
}

# The tree must work where it lies after a move: look only there.
prefix=$(sed -n 's/^prefix=//p' "$build/kiln.pc")
libdir=$(find "$work/stage" -name 'libkiln.so' | sed 's|/[^/]*$||')
libdir=${libdir#"$work/stage$prefix/"}
root=$work/moved
mv "$work/stage$prefix" "$root"
PKG_CONFIG_PATH=$root/$libdir/pkgconfig
export PKG_CONFIG_PATH
kiln_pc()
{
	pkg-config --define-variable=prefix="$root" \
		--define-variable=exec_prefix="$root" \
		--define-variable=libdir="$root/$libdir" \
		--define-variable=includedir="$root/include" "$@" kiln
}

pkg-config --validate kiln || complain "kiln.pc is not valid"
[ "$(pkg-config --modversion kiln)" = \
	"$(sed -n 's/^package //p' "$top/VERSION")" ] ||
	complain "kiln.pc has another version than VERSION"

# compile OUTPUT LANGUAGE COMPILER FLAG...
compile()
{
	output=$1
	language=$2
	shift 2
	# shellcheck disable=SC2086 # lists of words
	"$@" -x "$language" -Wall -Wextra -Werror \
		"$top/tests/install/hello.c" -x none -o "$work/$output" \
		$flags || complain "$output does not compile"
}

# runs OUTPUT: with no other library to be found
runs()
{
	[ ! -x "$work/$1" ] || "$work/$1" || complain "$1 fails"
}

flags="$(kiln_pc --cflags --libs) -Wl,-rpath,$root/$libdir"
# shellcheck disable=SC2086 # a compiler with flags
compile shared-c c ${CC:-cc}
# shellcheck disable=SC2086
compile shared-cxx c++ ${CXX:-c++}
runs shared-c
runs shared-cxx
if [ -e "$root/$libdir/libkiln.a" ]; then
	cp -r "$root/$libdir" "$work/static"
	rm -f "$work"/static/libkiln.so*
	flags=$(kiln_pc --cflags --libs --static |
		sed "s|-L$root/$libdir|-L$work/static|")
	# shellcheck disable=SC2086
	compile static-c c ${CC:-cc} -static-libgcc
	# shellcheck disable=SC2086
	compile static-cxx c++ ${CXX:-c++} -static-libgcc
	runs static-c
	runs static-cxx
	if readelf -d "$work/static-c" | grep -q 'NEEDED.*libkiln'; then
		complain "the static program needs libkiln.so"
	fi
fi

library=$root/$libdir/libkiln.so
IFS=: read -r current revision age <<-END
$(sed -n 's/^libtool //p' "$top/VERSION")
END
: "$revision"
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libkiln.so.$((current - age))" ] ||
	complain "SONAME is $soname, not libkiln.so.$((current - age))"
for name in $(readelf -d "$library" |
	sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $name in
	libc.so.* | libm.so.* | ld-linux-* | libhwloc.so.* | \
	liburing.so.* | liblzma.so.*) ;;
	*) complain "libkiln.so needs $name" ;;
	esac
done
readelf -d "$library" | grep -q NODELETE ||
	complain "libkiln.so is not linked -z nodelete"

find "$root" -type l >"$work/links"
while read -r link; do
	case $(readlink "$link") in
	/*) complain "$link is absolute" ;;
	esac
	[ -e "$link" ] || complain "$link leads nowhere"
done <"$work/links"

find "$root/bin" -type f 2>/dev/null >"$work/commands" || :
while read -r command; do
	name=${command##*/}
	[ -e "$root/share/man/man1/$name.1" ] ||
		complain "$name has no man page"
	for option in --help --version; do
		LD_LIBRARY_PATH=$root/$libdir "$command" $option \
			>"$work/out" 2>&1 || complain "$name $option fails"
		[ -s "$work/out" ] || complain "$name $option is silent"
	done
done <"$work/commands"
find "$root/share/man" -name '*.[0-9]' 2>/dev/null >"$work/pages" || :
while read -r page; do
	target=$(sed -n '1s/^\.so //p' "$page")
	[ -z "$target" ] || [ -e "$root/share/man/$target" ] ||
		complain "$page leads to $target, which is not here"
done <"$work/pages"

# shellcheck disable=SC2086
${CC:-cc} -Wall -Wextra -Werror -I"$root/include" \
	"$top/tests/install/two.c" -o "$work/two" -ldl
cp "$library" "$work/libkiln-copy.so"
"$work/two" "$library" "$work/libkiln-copy.so" ||
	complain "two copies in one process do not work"
exit $bad
