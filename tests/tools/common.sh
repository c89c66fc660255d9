# shellcheck shell=sh disable=SC2034 # for those who read it
# SPDX-License-Identifier: Apache-2.0
#
# Read by the tests of kiln pool: a folder of published pools of their own,
# processes that publish, and shorthands.
export LC_ALL=C
top=$(cd "${srcdir:-.}" && pwd)
# shellcheck source=tests/tools/await.sh
. "$top/tests/tools/await.sh"
build=$(cd "${builddir:-build}" && pwd)
kiln=$build/tools/kiln
publisher=$build/tests/tools/publisher
work=$(mktemp -d)
KILN_SHM_DIR=$work/shm
export KILN_SHM_DIR
mkdir "$KILN_SHM_DIR"
bad=0
started=

# Ends what start has started.
finish()
{
	# shellcheck disable=SC2086 # a list
	[ -z "$started" ] || kill -9 $started 2>/dev/null || :
	rm -rf "$work"
}
trap finish EXIT

say()
{
	echo "$*" >&2
	bad=1
}

is_ready()
{
	grep -qs ready "$work/ready" || ! kill -0 "$pid" 2>/dev/null
}

# start COMMAND...: in the background, until it is ready; its number is $pid.
# It ends with the other end of the pipe, which descriptor 9 holds.
start()
{
	rm -f "$work/in" "$work/ready"
	mkfifo "$work/in"
	"$@" <"$work/in" >"$work/ready" 2>"$work/log" 8>&- 9>&- &
	pid=$!
	started="$started $pid"
	exec 9>"$work/in"
	await is_ready || :
	grep -qs ready "$work/ready" ||
		say "$* is not ready: $(cat "$work/log")"
}

# stop: ends what was started last, in its own way
stop()
{
	exec 9>&-
	wait "$pid" || say "process $pid ends with $?"
}

# status EXPECTED ARGUMENT...: runs kiln pool and checks its exit status
status()
{
	expected=$1
	shift
	came=0
	"$kiln" pool "$@" >"$work/out" 2>"$work/err" || came=$?
	[ "$came" = "$expected" ] ||
		say "pool $*: exit status $came, not $expected:" \
			"$(head -n 3 "$work/err")"
	[ "$expected" != 2 ] || [ ! -s "$work/out" ] ||
		say "pool $*: writes to stdout: $(head -n 1 "$work/out")"
}

# has FILE TEXT: the text is in what the last run wrote
has()
{
	grep -qF -- "$2" "$work/$1" ||
		say "expected \"$2\" in std$1: $(head -n 20 "$work/$1")"
}

# json: what the last run wrote is strict JSON
json()
{
	python3 -c '
import json, sys
def never(text):
	raise ValueError(text)
json.loads(sys.stdin.buffer.read().decode("utf-8"), parse_constant=never)
' <"$work/out" || say "not strict JSON: $(head -n 5 "$work/out")"
}

names()
{
	find "$KILN_SHM_DIR" -name 'kiln-*' | wc -l
}
