#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The library must not end or signal the process, print to its output or
# change its settings: looks for such names among those that it imports.
set -eu
library=${builddir:-build}/.libs/libkiln.so

[ -e "$library" ] || {
	echo "$library is not here" >&2
	exit 1
}
never='abort|exit|_exit|_Exit|quick_exit|__assert_fail|__assert_perror_fail
	|printf|__printf_chk|vprintf|__vprintf_chk|puts|putchar|putc|perror
	|stdout|raise|kill|signal|sigaction|bsd_signal|setlocale|uselocale
	|fesetround|fesetenv|feenableexcept|srand|srandom|setenv|putenv
	|unsetenv|chdir|umask|system|popen|atexit'
found=$(${NM:-nm} -D --undefined-only "$library" | awk '{ print $NF }' |
	sed 's/@.*//' | grep -Ex "$(echo "$never" | tr -d ' \t\n')" || :)
[ -z "$found" ] && exit
for name in $found; do
	echo "$library calls $name" >&2
done
exit 1
