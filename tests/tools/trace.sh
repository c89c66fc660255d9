#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln trace: what is in a trace, whatever becomes of the program, the disk and
# the command itself; exit statuses.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
kiln=$build/tools/kiln
planned=$build/tests/tools/planned
# shellcheck source=tests/tools/await.sh
. "$top/tests/tools/await.sh"
work=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$work"' EXIT
bad=0
device=${KILN_TEST_DEVICE-cpu}
unset KILN_DEVICE KILN_TEST_DEVICE KILN_TRACE KILN_TRACE_LIMIT || :
# The traced programs may end with memory in use.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

[ -x "$kiln" ] || {
	echo "the kiln command is not built"
	exit 77
}
python3 -c '' 2>/dev/null || {
	echo "python3 is not here"
	exit 77
}

complain()
{
	echo "$*" >&2
	bad=1
}

# trace STATUS ARGUMENT...: runs kiln trace, output in $work/out and err
trace()
{
	want=$1 got=0
	shift
	rm -f "$work/t.json"
	"$kiln" trace -o "$work/t.json" "$@" >"$work/out" 2>"$work/err" ||
		got=$?
	[ "$got" = "$want" ] || {
		complain "trace $*: status $got, not $want"
		cat "$work/err" >&2
	}
	left=$(find "$work" -name '*.parts-*' -o -name '*.new-*')
	[ -z "$left" ] || complain "trace $*: left $left"
}

# check [killed]: the trace is sound; its figures are in $work/sum
check()
{
	python3 "$top/tests/tools/trace.py" "$work/t.json" "$@" \
		>"$work/sum" 2>"$work/why" || {
		complain "the trace is not sound: $(cat "$work/why")"
		: >"$work/sum"
	}
}

# figure LINE...: is among them
figure()
{
	for line; do
		grep -qxF -- "$line" "$work/sum" ||
			complain "no \"$line\" in: $(tr '\n' ';' <"$work/sum")"
	done
}

told()
{
	grep -qF -- "$1" "$work/err" ||
		complain "\"$1\" was not told: $(cat "$work/err")"
}

# ---- what is in it ----

trace 0 "$planned" open "$device" window outer chain 40 window inner \
	chain 10 close close window empty close print text
check
# ones is full; 39 and 9 times neg
figure "submit 50" "launch 50" "window 3" "process_name 1" \
	"name full" "name neg" "name outer" "name inner" "name empty"
[ "$device" = cuda ] || figure "clock device"
grep -q '^driver [1-9]' "$work/sum" || complain "no call of the driver"
grep -q '^memory [1-9]' "$work/sum" || complain "no count of the memory"
[ "$(cat "$work/out")" = text ] ||
	complain "the program's output is \"$(cat "$work/out")\""
told "50 submissions, 50 launches, 3 windows"

# Small ops run at the call; the null device has a trace too.
trace 0 "$planned" open "$device" ops 300
check
figure "submit 300" "launch 300"
if "$kiln" info | grep -q null; then
	trace 0 "$planned" open null ops 20 chain 5
	check
	figure "submit 25" "launch 25"
fi

# What is refused or skipped has not run.
KILN_FAULT=launch:5:KILN_ERR_DRIVER
export KILN_FAULT
trace 0 "$planned" open "$device" fail 10
unset KILN_FAULT
check killed
figure "submit 10"
# There the device goes on with the rest until the failure is seen.
if [ "${device%%:*}" = cuda ]; then
	grep -qx "launch [1-9]" "$work/sum" ||
		complain "what failed was launched: $(cat "$work/sum")"
else
	figure "launch 4"
fi

# Each process has its part: one that forks, and two behind a shell.
trace 0 "$planned" open cpu ops 10 fork open cpu ops 7
check
figure "process_name 2" "submit 17"
trace 0 "$planned" open cpu ops 4 again open cpu ops 3
check
figure "process_name 2" "process_labels 1" "submit 7" "launch 7"
# shellcheck disable=SC2016 # for the inner shell
trace 0 sh -c '"$1" open cpu ops 4; cd /; exec "$1" open cpu ops 3' sh \
	"$planned"
check
figure "process_name 2" "submit 7"

trace 4 --json "$planned" print words open "$device" ops 5 status 4
python3 - "$work/out" <<'PY' || complain "the summary is wrong"
import json, sys
with open(sys.argv[1]) as file:
    summary = json.load(file)
(process,) = summary["processes"]
assert summary["status"] == 4
assert process["program"] == "planned"
assert process["submissions"] == process["launches"] == 5
assert process["stopped"] is None
assert summary["unreadable"] == 0
PY
told words

# ---- ends ----

trace 137 "$planned" open "$device" chain 30 die
check killed
figure "submit 30" "launch 30"
trace 0 true
told "opened no kiln device"
check
trace 127 "$work/nowhere"
[ ! -e "$work/t.json" ] || complain "a program that is not there has a trace"
trace 126 "$work"
trace 2
trace 2 --nonsense true
trace 2 --limit 5 true
trace 2 --limit 1x true
trace 2 --from "$work" true

# The command itself is killed: what was gathered is still there.
"$kiln" trace -o "$work/t.json" "$planned" open cpu ops 20 print up wait \
	>"$work/out" 2>"$work/err" &
pid=$!
await grep -q up "$work/out"
child=$(cat "/proc/$pid/task/$pid/children")
kill -9 $pid
# shellcheck disable=SC2086 # one number, and a blank
kill -9 $child
wait $pid 2>/dev/null || :
parts=$(echo "$work"/*.parts-*)
"$kiln" trace -o "$work/t.json" --from "$parts" 2>"$work/err" ||
	complain "--from fails: $(cat "$work/err")"
check killed
figure "submit 20" "launch 20"
rm -rf "$parts"

# ---- no room ----

trace 0 --limit 192K "$planned" open cpu ops 4000 print on
[ "$(cat "$work/out")" = on ] || complain "the program did not go on"
told "was not traced to its end: the limit is reached"
check killed
grep -q '^launch [1-9]' "$work/sum" || complain "nothing before the limit"
trace 0 --json --limit 192K "$planned" open cpu ops 4000 fork open cpu ops 7
python3 - "$work/out" <<'PY' || complain "the child has no trace of its own"
import json, sys
with open(sys.argv[1]) as file:
    parent, child = json.load(file)["processes"]
if parent["stopped"] is None:
    parent, child = child, parent
assert parent["stopped"] is not None
assert child["stopped"] is None
assert child["submissions"] == child["launches"] == 7
PY

trace 0 sh -c 'ulimit -f 400 && exec "$@"' sh "$planned" open cpu ops 9000 \
	print on
[ "$(cat "$work/out")" = on ] || complain "the program did not go on"
told "was not traced to its end: File too large"
check killed

mkdir "$work/small"
if mount -t tmpfs -o size=2m tmpfs "$work/small" 2>/dev/null; then
	mounted=$work/small
	got=0
	"$kiln" trace -o "$work/small/t.json" "$planned" open cpu ops 30000 \
		print on >"$work/out" 2>"$work/err" || got=$?
	[ "$got" = 1 ] || complain "a full disk: status $got"
	[ "$(cat "$work/out")" = on ] || complain "the program did not go on"
	told "No space left on device"
	"$kiln" trace -o "$work/t.json" --from "$work"/small/*.parts-* \
		2>"$work/err" || complain "--from: $(cat "$work/err")"
	check killed
	rm -rf "$work"/small/*.parts-*
else
	echo "no file system can be mounted here: not tried on a full one"
fi

# ---- a program that takes the trace's descriptor for a file of its own ----

head -c 300000 /dev/zero | tr '\0' x >"$work/same"
cp "$work/same" "$work/own"
trace 0 "$planned" open cpu ops 4 seize "$work/own" ops 4000 print on
[ "$(cat "$work/out")" = on ] || complain "the program did not go on"
cmp "$work/own" "$work/same" || complain "the program's file is written to"
told "was not traced to its end: Bad file descriptor"
check killed
trace 0 "$planned" open cpu ops 4 seize "$work/own" fork open cpu ops 7 seized
cmp "$work/own" "$work/same" || complain "the program's file is written to"
check
figure "process_name 2" "submit 11"

# ---- names that somebody else has taken ----

# The shell becomes the command, whose number it has planted.
echo kept >"$work/victim"
# shellcheck disable=SC2016 # for the inner shell
trace_as()
{
	sh -c 'ln -s "$1/victim" "$1/t.json.new-$$"
		ln -s "$1/victim" "$1/t.json.new-$$.0"
		exec "$2" trace -o "$1/t.json" "$3" open cpu ops 5' sh \
		"$work" "$kiln" "$planned" 2>"$work/err" ||
		complain "a planted link: status $?: $(cat "$work/err")"
}
trace_as
[ "$(cat "$work/victim")" = kept ] || complain "a planted link was followed"
[ "$(find "$work" -name 't.json.new-*' -type l | wc -l)" = 2 ] ||
	complain "what was not ours is gone"
rm -f "$work"/t.json.new-*
check
figure "submit 5"

# ---- a program's name with an escape sequence ----

escape=$(printf '\033')
ln -s "$planned" "$work/evil${escape}[31m"
trace 0 --limit 192K "$work/evil${escape}[31m" open cpu ops 4000
told "(evil?[31m) was not traced"
grep -qF "$escape" "$work/err" && complain "the terminal gets an escape"

# ---- no place ----

for place in "$work/nowhere/t.json" "$kiln/t.json" "$work" /dev/full; do
	got=0
	"$kiln" trace -o "$place" touch "$work/ran" 2>"$work/err" || got=$?
	[ "$got" = 1 ] || complain "-o $place: status $got"
	[ ! -e "$work/ran" ] || complain "-o $place: the program has run"
	told "$place"
done

# What --from cannot make leaves what is there as it was.
from()
{
	got=0
	"$kiln" trace -o "$1" --from "$2" 2>"$work/err" || got=$?
	[ "$got" = 1 ] || complain "--from $2 -o $1: status $got"
}
mkdir "$work/empty" "$work/broken"
echo old >"$work/t.json"
echo nonsense >"$work/broken/process.1.0"
for folder in "$work/empty" "$work/broken" "$work/nowhere"; do
	from "$work/t.json" "$folder"
	told "$folder"
done
[ "$(cat "$work/t.json")" = old ] || complain "the old trace is gone"
mkfifo "$work/fifo"
KILN_TRACE=$work/broken/process "$planned" open cpu ops 4
"$kiln" trace --json -o "$work/t.json" --from "$work/broken" \
	>"$work/out" 2>"$work/err" || complain "--from fails beside a bad file"
grep -q '"unreadable": 1' "$work/out" || complain "no bad file is counted"
from "$work/fifo" "$work/broken"
told "no regular file"
[ -p "$work/fifo" ] || complain "the FIFO is gone"
exit $bad
