#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# differ itself: options and exit status, that differences and other statuses
# are seen, and that a failed case can be repeated alone. The null driver, which
# reads zeros and looks at no index, is the reference that is wrong.
set -eu
differ=${builddir:-build}/tests/differ
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
unset KILN_DEVICE

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
	# shellcheck disable=SC2086 # a command with options, or none
	${KILN_EMULATOR-} "$differ" "$@" >"$work/out" 2>"$work/err" || came=$?
	[ "$came" = "$expected" ] ||
		say "differ $*: expected exit status $expected, came $came"
}

# has FILE TEXT: the text is in what the last run wrote
has()
{
	grep -qF -- "$2" "$work/$1" ||
		say "expected \"$2\" in std$1, came: $(cat "$work/$1")"
}

# The same seed makes the same cases; another, or none, makes others.
status 0 --device cpu --seed 5 --rounds 3 --method 'float_a[bd][sd]'
has out 'seed 5,'
grep -q '^[1-9][0-9]* passed, 0 failed, 0 skipped$' "$work/out" ||
	say "last line: $(tail -n 1 "$work/out")"
wrong='--device cpu --reference null --method float_exp --dtype f32'
# shellcheck disable=SC2086 # several options
{
	status 1 $wrong --seed 5
	cp "$work/out" "$work/first"
	status 1 $wrong --seed 5
	cmp -s "$work/out" "$work/first" || say "not repeated by its seed"
	status 1 $wrong --seed 6
	! cmp -s "$work/out" "$work/first" || say "seeds make no difference"
	status 1 $wrong
	sed -n 's/^seed \([0-9]*\),.*/\1/p' "$work/out" >"$work/seed"
	cp "$work/out" "$work/first"
	status 1 $wrong --seed "$(cat "$work/seed")"
	cmp -s "$work/out" "$work/first" || say "the seed told is not it"
	status 1 $wrong --seed 5
}

# What differs is shown, and how to have that case alone.
has out 'FAIL float_exp/f32/'
has out 'elements differ'
repeat=$(sed -n 's/^FAIL .*(differ \(.*\))$/\1/p' "$work/out" | head -n 1)
id=$(printf '%s\n' "$repeat" | sed "s/.*--case '\(.*\)'/\1/")
eval "status 1 $repeat"
has out "FAIL $id "
has out '0 passed, 1 failed, 0 skipped'
status 0 --device cpu --seed 5 --case "$id"
has out '1 passed, 0 failed, 0 skipped'

# An index out of range that only one of them tells.
status 1 --device cpu --reference null --seed 5 --method bool_gather
has out 'KILN_ERR_INDEX'

# What is listed must not agree.
echo 'unsupported float_exp not on this device' >"$work/expect"
status 0 --device cpu --reference null --seed 5 --case "$id" \
	--expect "$work/expect"
has out '0 passed, 0 failed, 1 skipped'
status 1 --device cpu --seed 5 --case "$id" --expect "$work/expect"
has out 'listed as unsupported (not on this device), but agrees'
echo 'maybe float_exp' >"$work/expect"
status 2 --device cpu --expect "$work/expect"
has err "$work/expect:1:"

# One object, and nothing else.
status 0 --device cpu --seed 5 --case "$id" --json
has out '"passed": 1'
[ "$(head -n 1 "$work/out")" = '{' ] || say "not JSON: $(cat "$work/out")"
status 1 --device cpu --reference null --seed 5 --case "$id" --json
has out "\"id\": \"$id\""

# Usage and devices.
status 2 --no-such-option
status 2 --device cpu operand
status 2 --device cpu --seed x
status 2 --device cpu --rounds 0
status 2 --device cpu --case float_exp
status 2 --device cpu --method no_such
has err 'no case of that name'
status 2 --device nonsense
has err 'nonsense'
status 2 --device cpu --reference nonsense
has err 'nonsense'
status 2 --device cpu --reference-isa nonsense
has err 'nonsense'
status 2 --device null
has err 'computes nothing'

status 0 --help
has out 'usage: differ'
status 0 --version
has out 'differ (kiln)'

# All methods that the vectors' runner has, but for those without a result.
status 0 --list
sort "$work/out" >"$work/list"
"${builddir:-build}/tests/conform" --list | sort |
	grep -vx 'seed\|sync\|flush\|memory_cleanup' >"$work/due"
cmp -s "$work/list" "$work/due" ||
	say "not the methods of conform: $(diff "$work/list" "$work/due")"
exit $bad
