#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Fails on a function of more than 100 lines.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"
limit=100

ctags --version 2>/dev/null | grep -q Universal || {
	echo "universal-ctags is not here"
	exit 77
}
find base kernels drivers alloc sched lib tools examples bench tests \
	\( -name '*.[ch]' -o -name '*.kl' \) | sort |
ctags -L - --langmap=C:.c.h.kl --languages=C --kinds-C=f -x \
	--_xformat='%F %n %e %N' |
awk -v limit=$limit '
	$3 - $2 + 1 > limit {
		printf "%s:%d: %s has %d lines, more than %d\n", $1, $2, $4, \
			$3 - $2 + 1, limit
		bad = 1
	}
	{ seen++ }
	END {
		if (!seen) {
			print "no function was seen at all"
			bad = 1
		}
		exit bad
	}' >&2
