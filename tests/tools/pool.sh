#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln pool: what it shows in each form, of a process that runs, is stopped,
# has ended, or is another user's; exit statuses; hostile names; full disks.
set -eu
# shellcheck source=tests/tools/common.sh
. "${srcdir:-.}/tests/tools/common.sh"

metrics() # NUMBER of samples at least
{
	count=$(python3 "$top/tests/tools/openmetrics.py" <"$work/out") ||
		count=0
	[ "$count" -ge "$1" ] ||
		say "$count samples, not $1: $(head -n 5 "$work/out")"
}

# ---- nobody there ----
status 0
has out 'no process publishes its pools'
status 0 --json
has out '"processes": []'
json
status 0 --openmetrics
metrics 0
status 2 999999999
has err 'no process 999999999 publishes its pools'
status 2 kiln-0-1-0123456789abcdef

# ---- usage ----
status 2 --no-such-option
status 2 --map
status 2 --svg
status 2 --svg "$work/x.svg"
status 2 1 2
status 2 1 --json --map
status 2 --openmetrics --watch
for seconds in abc 0 -1 1e3 4000 . nan; do
	status 2 --watch="$seconds"
	has err "\"$seconds\""
done
status 0 --help
has out 'kiln pool PROCESS'
status 0 --version

# ---- a process ----
start "$publisher" cpu
# 30 of 40 tensors stay. The first snapshot is older, the next one may be late.
# shellcheck disable=SC2317 # called by await
shows_all()
{
	"$kiln" pool "$pid" --json | grep -q '^ *"slices": 30,'
}
await shows_all || say "30 slices are never shown"
status 0
has out "$pid"
has out 'publisher'
status 0 "$pid"
has out "process $pid  publisher"
has out 'cpu:0'
has out 'largest holes'
has out 'exclusive'
status 0 "$pid" --json
json
has out '"selector": "cpu:0"'
python3 - "$work/out" <<'END' || say "the account does not add up"
import json, sys
device = json.load(open(sys.argv[1]))["devices"][0]
parts = ("live_bytes", "cached_bytes", "padding_bytes")
assert sum(device[part] for part in parts) == device["reserved_bytes"]
assert device["reserved_bytes"] > 0
# No op here needs memory of its own.
assert device["slices"] == 30, device["slices"]
for name in parts + ("reserved_bytes",):
	assert sum(pool[name] for pool in device["pools"]) == device[name]
pages = device["pages"]
mapped = sum(page["bytes"] - page["unmapped_bytes"] for page in pages)
assert mapped == device["reserved_bytes"], mapped
assert sum(page["live_bytes"] for page in pages) == device["live_bytes"]
assert all(sum(cell) == 1000 for page in pages for cell in page["cells"])
END
status 0 "$pid" --openmetrics
metrics 30
has out 'kiln_device_driver_calls_total{'
status 0 --openmetrics
metrics 30
segment=$(basename "$KILN_SHM_DIR"/kiln-*)
status 0 "$segment"

# ---- the map ----
status 0 "$pid" --map
has out '####'
has out '# used'
if LC_ALL=C grep -q "$(printf '[\033\200-\377]')" "$work/out"; then
	say "the map is not plain ASCII in a pipe"
fi
if locale -a 2>/dev/null | grep -qi '^c\.utf-\?8$'; then
	LC_ALL=C.UTF-8 status 0 "$pid" --map
	has out '████'
fi
if command -v script >/dev/null; then
	TERM=xterm script -qec "$kiln pool $pid --map" /dev/null \
		>"$work/out" </dev/null || say "--map on a terminal: $?"
	has out "$(printf '\033[32m')"
	NO_COLOR=1 TERM=xterm script -qec "$kiln pool $pid --map" /dev/null \
		>"$work/out" </dev/null || say "--map on a terminal: $?"
	if grep -q "$(printf '\033')" "$work/out"; then
		say "NO_COLOR: colour all the same"
	fi
fi

# ---- the picture ----
echo old >"$work/p.svg"
ln -s p.svg "$work/link.svg"
status 0 "$pid" --svg "$work/link.svg"
[ -h "$work/link.svg" ] || say "--svg replaces a link"
python3 -c 'import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])' \
	"$work/p.svg" || say "the picture is not well-formed"
grep -q 'process '"$pid" "$work/p.svg" || say "whose picture is it?"
[ "$(find "$work" -name '*.svg*' | wc -l)" = 2 ] || say "--svg leaves files"
status 1 "$pid" --svg "$work/no/such/folder.svg"
has err 'No such file'
status 1 "$pid" --svg /dev/full
has err 'No space left'
[ -c /dev/full ] || say "/dev/full is gone"

# ---- full disks ----
for form in '' --json --openmetrics --map '--watch=0.1'; do
	came=0
	# shellcheck disable=SC2086 # none or one word
	"$kiln" pool "$pid" $form >/dev/full 2>"$work/err" || came=$?
	[ "$came" = 1 ] || say "to /dev/full $form: exit status $came"
	has err 'writing to stdout'
	[ "$(wc -l <"$work/err")" = 1 ] || say "$form: $(cat "$work/err")"
done

# ---- stopped, as in a debugger ----
kill -STOP "$pid"
for form in '' --map --json --openmetrics; do
	# shellcheck disable=SC2086
	status 0 "$pid" $form
done
status 0
has out "$pid"
status 0 "$pid" --json
before=$(sed -n 's/^ *"age_seconds": \([0-9.]*\).*/\1/p' "$work/out" |
	head -n 1)
sleep 0.3
status 0 "$pid" --json
after=$(sed -n 's/^ *"age_seconds": \([0-9.]*\).*/\1/p' "$work/out" |
	head -n 1)
awk -v a="$before" -v b="$after" 'BEGIN { exit !(b >= a + 0.25) }' ||
	say "the age does not grow: $before, $after"
kill -CONT "$pid"

# ---- watching ----
: >"$work/blocks"
: >"$work/lines"
"$kiln" pool "$pid" --watch 0.1 >"$work/blocks" 2>"$work/err" 9>&- &
watch=$!
"$kiln" pool "$pid" --json --watch=0.1 >"$work/lines" 2>"$work/err.json" \
	9>&- &
watch_json=$!
# shellcheck disable=SC2317 # called by await
shows_thrice()
{
	[ "$(grep -c "^process $pid" "$work/blocks")" -ge 3 ] &&
		[ "$(wc -l <"$work/lines")" -ge 3 ]
}
await shows_thrice || say "--watch: $(cat "$work/blocks" "$work/lines")"
stop
wait $watch || say "--watch ends with $?"
wait $watch_json || say "--watch --json ends with $?"
has err "process $pid has ended"
if grep -q "$(printf '\033')" "$work/blocks"; then
	say "--watch redraws a pipe"
fi
while read -r line; do
	printf '%s\n' "$line" >"$work/out"
	json
done <"$work/lines"
[ "$(names)" = 0 ] || say "a process that ended leaves its segment"

# ---- hostile names ----
name=$(printf 'a"b\\\n\001<\303\251\377>')
ln -s "$publisher" "$work/$name"
start "$work/$name" null
status 0 --json
json
status 0 "$pid" --json
json
status 0
[ "$(wc -l <"$work/out")" = 2 ] || say "a name breaks the list"
status 0 "$pid" --openmetrics
metrics 20
has out 'program="a\"b\\\n'
status 0 "$pid" --svg "$work/p.svg"
python3 -c 'import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])' \
	"$work/p.svg" || say "the picture is not well-formed"

# ---- another user's ----
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$work" && chmod 1777 "$KILN_SHM_DIR"
	came=0
	setpriv --reuid 65534 --clear-groups "$kiln" pool "$pid" \
		>"$work/out" 2>"$work/err" || came=$?
	if grep -q 'ermission denied' "$work/err" &&
		! grep -q 'belongs to user' "$work/err"; then
		echo "skipped: nobody may not run $kiln"
	else
		[ $came = 1 ] || say "another user's: exit status $came"
		has err "process $pid belongs to user 0"
		has err 'Permission denied'
		setpriv --reuid 65534 --clear-groups "$kiln" pool --json \
			>"$work/out" || say "the list fails for nobody"
		json
		has out '"program": null'
		has out 'Permission denied'
	fi
else
	echo "skipped: only root can become another user"
fi
stop

# ---- of another version ----
start "$publisher" null
segment=$(basename "$KILN_SHM_DIR"/kiln-*)
printf '\007' | dd of="$KILN_SHM_DIR/$segment" bs=1 seek=8 conv=notrunc \
	2>/dev/null
status 1 "$pid"
has err 'has version 7, this library reads version 1'
status 0
has out 'has version 7'
stop

# ---- switched off ----
KILN_POOL_PUBLISH=0 start "$publisher" null
[ "$(names)" = 0 ] || say "KILN_POOL_PUBLISH=0 publishes"
status 2 "$pid"
stop
exit $bad
