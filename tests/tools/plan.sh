#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln plan: figures of programs whose needs are known, limits, ends, and the
# example's figure beside what its device says.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
kiln=$build/tools/kiln
planned=$build/tests/tools/planned
# shellcheck source=tests/tools/await.sh
. "$top/tests/tools/await.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
unset KILN_DEVICE KILN_PAGE_BYTES KILN_POOL_CAP_BYTES || :
export TMPDIR="$work/tmp"
# The planned programs end with memory in use: that is what is planned.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
mkdir "$TMPDIR"

[ -x "$kiln" ] || {
	echo "the kiln command is not built"
	exit 77
}
"$kiln" plan --as null true >/dev/null 2>"$work/err" || :
if grep -q 'no driver for plans' "$work/err"; then
	echo "this build has no null driver"
	exit 77
fi

complain()
{
	echo "$*" >&2
	bad=1
}

# plan STATUS ARGUMENT...: runs kiln plan --json, output in $work/out and err
plan()
{
	want=$1 got=0
	shift
	"$kiln" plan --json "$@" >"$work/out" 2>"$work/err" || got=$?
	[ "$got" = "$want" ] || {
		complain "plan $*: status $got, not $want"
		cat "$work/err" >&2
	}
	[ -z "$(ls "$TMPDIR")" ] || complain "plan $*: left $(ls "$TMPDIR")"
}

# expect NAME VALUE...: the values of that name in the output, in order; what
# is told of single pools stands further to the right
expect()
{
	name=$1
	shift
	have=$(sed -n "s/^ \{2,6\}\"$name\": \"*\([^\",]*\)\"*,*$/\1/p" "$work/out" |
		tr '\n' ' ')
	[ "$have" = "$* " ] || complain "$name is \"$have\", not \"$*\""
}

says()
{
	grep -qF -- "$1" "$work/err" ||
		complain "\"$(cat "$work/err")\" lacks \"$1\""
}

# ---- figures ----

plan 0 --as cuda "$planned" open auto keep 1000000 flash 3000000 keep 500000
expect target cuda
expect selector cuda:0
expect peak_live_bytes 4000000
expect largest_request_bytes 3000000
expect end 'ended with status 0'

plan 0 --as vulkan "$planned" open cuda:1 keep 100 steps 3 open cpu keep 300
expect selector cuda:1 cpu:0
# A step holds 250 floats beside what is kept.
expect peak_live_bytes 1100 300
expect steps 3 0

# What it prints goes to standard error: the plan alone is on stdout.
plan 0 --as cpu "$planned" print hello open null keep 1
says hello
expect target cpu
expect selector null:0
grep -q hello "$work/out" && complain "the program's words are in the plan"
"$kiln" plan --as cpu "$planned" open cpu keep 5000000 >"$work/out" \
	2>"$work/err" || complain "a plan in text failed"
grep -q '^  peak live  *5000000 bytes' "$work/out" || complain "no peak live"
grep -q '^Not in these figures:' "$work/out" || complain "no what is not in it"

plan 0 --as cuda "$planned" open cuda keep 10 fork open cuda keep 20 steps 2
expect peak_live_bytes 10 1020
expect steps 0 2

# ---- limits ----

plan 0 --as cuda --steps 5 "$planned" open cuda keep 1000 steps 5 \
	keep 1000000 steps 0
expect steps 5
expect peak_live_bytes 2000
expect end 'ended after its steps'
plan 0 --as cuda --steps 5 "$planned" stubborn open cuda steps 0
expect steps 5
plan 0 --as cuda --time 2.5 "$planned" open cuda keep 1000 wait
expect peak_live_bytes 1000
expect end 'ended at the limit of time'
# A child that works is ended with its parent.
plan 0 --as cuda --steps 3 "$planned" fork open cuda steps 0
expect steps 3
process=$(sed -n 's/^ *"process": \([0-9]*\),$/\1/p' "$work/out")
# shellcheck disable=SC2317 # called by await
has_ended()
{
	! grep -qs '^State:[[:space:]]*[RSDTtI]' "/proc/$process/status"
}
await has_ended || complain "process $process was left behind"
plan 0 --as cuda --steps 5 "$planned" open cuda steps 5
expect end 'ended after its steps'

# ---- ends ----

plan 1 --as cuda "$planned" open cuda keep 7 status 4
says 'ended with status 4'
expect peak_live_bytes 7
plan 1 --as cuda "$planned" open cuda keep 7 die
says 'died of signal 9'
expect peak_live_bytes 7
plan 1 --as cuda true
says 'opened no kiln device'
[ ! -s "$work/out" ] || complain "a plan of nothing was printed"
plan 1 --as cuda "$work/nothing"
says 'No such file'
plan 1 --as cuda "$planned" open abacus
says '"abacus" is no device selector'
# A signal is passed on and ends the plan, which says so far.
for signal in TERM INT; do
	rm "$work/err"
	"$kiln" plan --json --as cuda "$planned" open cuda keep 9 print ready \
		wait >"$work/out" 2>"$work/err" &
	pid=$!
	await grep -qs ready "$work/err" || complain "it is not ready"
	kill -$signal $pid
	got=0
	wait $pid || got=$?
	[ $got = 1 ] || complain "after SIG$signal: status $got"
	says 'ended by a signal'
	expect peak_live_bytes 9
done
# Neither does a second one, while a program that will not end is ended.
rm "$work/err"
"$kiln" plan --as cuda "$planned" stubborn open cuda print ready wait \
	>"$work/out" 2>"$work/err" &
pid=$!
await grep -qs ready "$work/err" || complain "it is not ready"
kill -TERM $pid
sleep 0.5
kill -TERM $pid
wait $pid || :
[ -z "$(ls "$TMPDIR")" ] || complain "a signal left $(ls "$TMPDIR")"

# ---- the command line ----

plan 2
plan 2 --as cuda
plan 2 --as abacus true
says '"abacus"'
plan 2 true
plan 2 --as cuda --steps 0 true
plan 2 --as cuda --steps -1 true
plan 2 --as cuda --steps 5x true
plan 2 --as cuda --time 0 true
plan 2 --as cuda --time nan true
plan 2 --as cuda --what true
"$kiln" help plan >/dev/null || complain "no help"
"$kiln" plan --version | grep -q '^kiln ' || complain "no version"
# Options of the program are its own.
plan 0 --as cuda sh -c "\"$planned\" open cuda keep 3" --json
expect peak_live_bytes 3

# ---- the example ----

example=$build/examples/fashion
if [ -x "$example" ] && [ -e /usr/share/datasets/fashion-mnist ]; then
	KILN_DEVICE=null "$example" --steps 20 --json >"$work/own"
	own=$(sed -n 's/^  "reserved_bytes": \([0-9]*\),$/\1/p' "$work/own")
	plan 0 --as null "$example" --steps 20
	expect peak_reserved_bytes "$own"
else
	echo "the example or its data are not here"
fi
exit $bad
