#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The runner as a command: exit statuses, the line that names a bad input, the
# list of what a device cannot do, and that failures are seen as such.
set -eu
conform=${builddir:-build}/tests/conform
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

say()
{
	echo "$1" >&2
	bad=1
}

# status EXPECTED ARGUMENT...: runs it and checks the exit status
status()
{
	expected=$1
	shift
	came=0
	"$conform" "$@" >"$work/out" 2>"$work/err" || came=$?
	[ "$came" = "$expected" ] ||
		say "conform $*: expected exit status $expected, came $came"
}

# has FILE TEXT: the text is in what the last run wrote
has()
{
	grep -qF -- "$2" "$work/$1" ||
		say "expected \"$2\" in std$1, came: $(cat "$work/$1")"
}

one='{"dtype":"f32","shape":[2],"data":[1,2]}'
two='{"dtype":"f32","shape":[2],"data":[2,4]}'
six='{"dtype":"f32","shape":[2],"data":[2,6]}'

# add RESULT: a case
add()
{
	printf '{"id":"add","op":"float_add","in":{"lhs":%s,"rhs":%s},' \
		"$one" "$one"
	printf '"attrs":{},"out":[%s],"rtol":0,"atol":0}\n' "$1"
}

add "$two" >"$work/good"
add "$six" >"$work/wrong"
echo '{"id":"x","op":"no_such","in":{},"attrs":{},"out":[]}' >"$work/other"

status 0 --device cpu "$work/good"
[ "$(tail -n 1 "$work/out")" = "1 passed, 0 failed, 0 skipped" ] ||
	say "last line: $(tail -n 1 "$work/out")"
status 1 --device cpu "$work/good" "$work/wrong" "$work/other"
has out 'FAIL add'
has out '[1] expected 6, came 4'
[ "$(tail -n 1 "$work/out")" = "1 passed, 1 failed, 1 skipped" ] ||
	say "last line: $(tail -n 1 "$work/out")"
status 1 --device cpu --json "$work/wrong"
has out '"failed": 1'
has out '"id": "add"'
status 0 --device cpu --json "$work/good"
has out '"failures": []'

# Values do not count on a device that does not compute; shapes do.
status 0 --device null "$work/wrong"
has out 'values: unchecked'
add '{"dtype":"f32","shape":[1,2],"data":[2,4]}' >"$work/shape"
status 1 --device null "$work/shape"
has out 'expected f32[1, 2], came f32[2]'
add '{"dtype":"f64","shape":[2],"data":[2,4]}' >"$work/dtype"
status 1 --device null "$work/dtype"
has out 'expected f64[2], came f32[2]'

# A refusal that does not come, and one that does where none was expected.
printf '{"id":"e","op":"float_add","in":{"lhs":%s,"rhs":%s},"attrs":{},%s}\n' \
	"$one" "$one" '"expect":"error"' >"$work/refusal"
status 1 --device cpu "$work/refusal"
has out 'expected a refusal, came success'
printf '{"id":"e","op":"softmax","in":{"tensor":%s},%s,"out":[%s]}\n' \
	"$one" '"attrs":{"dim":3}' "$one" >"$work/refused"
status 1 --device cpu "$work/refused"
has out 'expected success, came KILN_ERR_INVALID'

# What is listed as unsupported must not pass.
echo 'unsupported float_add not on this device' >"$work/expect"
status 0 --device cpu --expect "$work/expect" "$work/wrong"
has out '0 passed, 0 failed, 1 skipped'
status 1 --device cpu --expect "$work/expect" "$work/good"
has out 'listed as unsupported (not on this device), but passes'
# The CPU keeps denormals.
echo 'flushed float_add not where they are flushed' >"$work/expect"
status 0 --device cpu --expect "$work/expect" "$work/good"
echo 'maybe float_add' >"$work/expect"
status 2 --expect "$work/expect" "$work/good"
has err "$work/expect:1:"

# Signed zeros differ only where that is asked for.
printf '{"id":"z","op":"float_neg","in":{"tensor":%s},"attrs":{},%s}\n' \
	'{"dtype":"f32","shape":[1],"data":[0]}' \
	'"out":[{"dtype":"f32","shape":[1],"data":[0]}]' >"$work/zero"
status 0 --device cpu "$work/zero"
status 1 --device cpu --signed-zero "$work/zero"

# Usage, files and malformed lines: one line that says where.
status 2
status 2 --no-such-option
status 2 "$work/absent.jsonl"
has err "$work/absent.jsonl: No such file"
status 2 "$work"
status 2 --device nonsense "$work/good"
has err 'nonsense'
{
	add "$two"
	echo
	echo '{"id":"cut","op":'
} >"$work/cut"
status 2 "$work/cut"
has err "$work/cut:3:"
[ "$(wc -l <"$work/err")" = 1 ] || say "more than one line: $(cat "$work/err")"
{
	add "$two"
	add '{"dtype":"f32","shape":[3],"data":[2,4]}'
} >"$work/short"
status 2 "$work/short"
has err "$work/short:2: data is not a list of 3 elements"

status 0 --help
has out 'usage: conform'
status 0 --version
has out 'conform (kiln)'
status 0 --list
has out 'float_add'
exit $bad
