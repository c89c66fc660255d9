#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The runner's table against the documentation of the ops: every contract
# method that ops.h names in brackets can be run, and what the table has
# beyond them is only what belongs to other headers.
set -eu
conform=${builddir:-build}/tests/conform
header=${srcdir:-$(dirname "$0")/../..}/include/kiln/ops.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

"$conform" --list >"$work/list"
sort "$work/list" >"$work/runs"
sort -u "$work/list" | cmp -s - "$work/runs" || {
	echo "a method is in the table twice" >&2
	bad=1
}
tr '\n*' '  ' <"$header" | grep -o '\[[a-z][a-z0-9_, ]*\]' |
	tr -d '[] ' | tr ',' '\n' |
	grep -E '_|elu|sigmoid|softm' | sort -u >"$work/named"
cat >"$work/others" <<END
bool_from_data
bool_into_data
float_from_data
float_into_data
flush
int_from_data
int_into_data
memory_cleanup
seed
sync
END
sort -u "$work/named" "$work/others" >"$work/due"
for name in $(comm -13 "$work/runs" "$work/due"); do
	echo "$name: named in ops.h, but not run" >&2
	bad=1
done
for name in $(comm -23 "$work/runs" "$work/due"); do
	echo "$name: run, but not named in ops.h" >&2
	bad=1
done
exit $bad
