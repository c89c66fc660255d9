#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Published pools and the folder that they lie in: killed processes leave
# nothing that lasts, full, read-only and missing folders stop nobody, and
# containers that share the folder leave each other's segments alone.
set -eu
# shellcheck source=tests/tools/common.sh
. "${srcdir:-.}/tests/tools/common.sh"

# ---- P46: killed 200 times in the middle of work ----
for round in $(seq 200); do
	start "$publisher" cpu
	kill -9 "$pid"
	wait "$pid" 2>/dev/null || :
	[ "$(names)" = 1 ] || {
		say "round $round: $(names) names"
		break
	}
done
exec 9>&-
start "$publisher" null
[ "$(names)" = 1 ] || say "the next start leaves $(names) names"
stop
[ "$(names)" = 0 ] || say "$(names) names after it has ended"

# So does a look.
start "$publisher" cpu
kill -9 "$pid"
wait "$pid" 2>/dev/null || :
exec 9>&-
status 0
has out 'no process publishes its pools'
[ "$(names)" = 0 ] || say "kiln pool leaves $(names) names"

# ---- no such folder, none that can be written ----
for folder in "$work/none" /dev/null /proc/self; do
	KILN_SHM_DIR=$folder KILN_LOG=warn start "$publisher" null
	stop
	[ "$(grep -c "pools are not published: $folder/" "$work/log")" = 1 ] ||
		say "$folder: $(cat "$work/log")"
done
# It is told to those who ask, no one else.
KILN_SHM_DIR=$work/none start "$publisher" null
stop
[ ! -s "$work/log" ] || say "unasked: $(cat "$work/log")"

# ---- in namespaces of our own ----
if ! unshare -rm true 2>/dev/null; then
	echo "skipped: no mount namespaces: full and read-only folders"
	exit $bad
fi

# A folder of 1 MiB has room for one.
cat >"$work/small.sh" <<'END'
set -eu
mount -t tmpfs -o size=1m none "$KILN_SHM_DIR"
for i in 1 2 3; do
	mkfifo "$work/in$i"
	KILN_LOG=warn "$publisher" null <"$work/in$i" >"$work/ready$i" \
		2>"$work/log$i" &
	eval "pid$i=$!"
	eval "exec $((i + 2))>\"$work/in$i\""
	until grep -qs ready "$work/ready$i"; do
		kill -0 $! || exit 3
		sleep 0.05
	done
done
ls "$KILN_SHM_DIR" >"$work/small.names"
"$kiln" pool >"$work/small.list"
exec 3>&- 4>&- 5>&-
wait $pid1 && wait $pid2 && wait $pid3
END
export work publisher kiln
unshare -rm sh "$work/small.sh" || say "in 1 MiB: exit status $?"
[ "$(wc -l <"$work/small.names")" = 1 ] ||
	say "in 1 MiB: $(cat "$work/small.names")"
[ ! -s "$work/log1" ] || say "in 1 MiB: $(cat "$work/log1")"
for i in 2 3; do
	grep -q "pools are not published: $KILN_SHM_DIR/kiln-.*: space: No \
space left on device (needed [0-9]* bytes, available [0-9]*)" "$work/log$i" ||
		say "in 1 MiB: $(cat "$work/log$i")"
	[ "$(wc -l <"$work/log$i")" = 1 ] || say "told more than once"
done

cat >"$work/ro.sh" <<'END'
mount -t tmpfs -o ro none "$KILN_SHM_DIR" &&
	KILN_LOG=warn "$publisher" null </dev/null >/dev/null 2>"$work/log"
END
unshare -rm sh "$work/ro.sh" || say "read-only: exit status $?"
grep -q 'open: Read-only file system' "$work/log" ||
	say "read-only: $(cat "$work/log")"

# ---- two containers: each with its own process 1 ----
if ! unshare -Upfr --mount-proc true 2>/dev/null; then
	echo "skipped: no namespaces for process numbers"
	exit $bad
fi
start unshare -Upfr --mount-proc --kill-child "$publisher" null
first=$pid
exec 8>&9
mv "$work/in" "$work/in.first"
start unshare -Upfr --mount-proc --kill-child "$publisher" null
second=$pid
[ "$(names)" = 2 ] || say "two containers, $(names) segments"
status 0
[ "$(grep -c '^ *1 ' "$work/out")" = 2 ] || say "$(cat "$work/out")"
[ "$(names)" = 2 ] || say "a look removes the segment of a container"
status 2 1
has err 'several processes have number 1'
for segment in "$KILN_SHM_DIR"/kiln-*; do
	status 0 "${segment##*/}"
	has out 'process 1  publisher'
done
# One is killed: the other one's next start removes what is left of it alone.
kill -9 "$first"
wait "$first" 2>/dev/null || :
# shellcheck disable=SC2317 # called by await
only_one()
{
	status 0 && [ "$(names)" = 1 ]
}
await only_one || say "one of two containers is gone: $(names) segments"
exec 8>&-
pid=$second
stop
[ "$(names)" = 0 ] || say "$(names) segments after both"
exit $bad
