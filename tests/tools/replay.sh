#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln replay: a recorded trace on the null and the CPU device, whose peak an
# independent sum confirms; small traces with known results; bad files.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
kiln=$build/tools/kiln
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
unset KILN_DEVICE KILN_PAGE_BYTES KILN_POOL_CAP_BYTES || :

[ -x "$kiln" ] || {
	echo "the kiln command is not built"
	exit 77
}

complain()
{
	echo "$*" >&2
	bad=1
}

# member FILE NAME: the number of that name at the top level of an object
member()
{
	sed -n "s/^  \"$2\": \([0-9.e+-]*\),*$/\1/p" "$1"
}

# expect FILE NAME VALUE
expect()
{
	[ "$(member "$1" "$2")" = "$3" ] ||
		complain "$1: $2 is \"$(member "$1" "$2")\", not $3"
}

# has_driver NAME
has_driver()
{
	"$kiln" info --json | grep -q "\"selector\": \"$1:"
}

# account FILE: what its requests add up to, whoever serves them
account()
{
	xz -dc "$1" | awk '
		$1 == "a" { size[$2] = $3; live += $3; taken++ }
		$1 == "f" { live -= size[$2]; freed++ }
		live > peak { peak = live }
		END { printf "%d %d %.0f\n", taken, freed, peak }'
}

# recorded FILE NAME: a number of the trace's first line
recorded()
{
	xz -dc "$1" | sed -n "1s/.*\"$2\": \([0-9]*\).*/\1/p"
}

# ---- a recorded trace ----

trace=$top/bench/traces/resnet_train.trace.xz
command -v xz >/dev/null || {
	echo "xz is not here"
	exit 77
}
account "$trace" >"$work/account"
read -r taken freed peak <"$work/account"
[ "$peak" = "$(recorded "$trace" peak_requested)" ] ||
	complain "the sum over $trace is $peak"
for device in null cpu; do
	has_driver $device || continue
	out=$work/$device.json
	"$kiln" replay --device $device --json "$trace" >"$out" || {
		complain "replay on $device failed"
		continue
	}
	expect "$out" allocations "$taken"
	expect "$out" frees "$freed"
	expect "$out" peak_live_bytes "$peak"
	# The account of the peaks cannot be below what was asked for.
	awk -v a="$(member "$out" peak_reserved_bytes)" -v b="$peak" \
		-v r="$(member "$out" ratio)" \
		'BEGIN { d = a / b - r; exit !(a >= b && d * d < 1e-9) }' ||
		complain "$device: peak reserved or ratio is wrong"
done
has_driver null || exit $bad

# ---- small traces ----

export KILN_DEVICE=null
small=$work/small.trace
# write LINE...: a trace of these lines behind an empty object
write()
{
	printf '# {}\n' >"$small"
	for line; do
		printf '%s\n' "$line" >>"$small"
	done
}

write 'a 5 1000 0' 'a 18446744073709551615 24 3' 'f 5' 'a 5 0 0' 'a 6 100 63'
"$kiln" replay --json --map "$small" >"$work/small.json" ||
	complain "a small trace failed"
expect "$work/small.json" allocations 4
expect "$work/small.json" frees 1
expect "$work/small.json" peak_live_bytes 1024
write
"$kiln" replay --json --map --cost "$small" >"$work/small.json" ||
	complain "an empty trace failed"
expect "$work/small.json" allocations 0
expect "$work/small.json" peak_reserved_bytes 0

# The trace is read once, so that it may come out of a pipe.
write 'a 1 1000000 0' 'a 2 5000000 1' 'f 1' 'f 2'
mkfifo "$work/pipe"
"$kiln" replay --json --map "$small" >"$work/file.json" ||
	complain "a small trace failed"
cat "$small" >"$work/pipe" &
writer=$!
timeout 60 "$kiln" replay --json --map "$work/pipe" >"$work/pipe.json" || {
	complain "a trace in a pipe failed"
	kill "$writer" 2>/dev/null || :
}
for name in allocations peak_live_bytes peak_reserved_bytes; do
	expect "$work/pipe.json" $name "$(member "$work/file.json" $name)"
done
[ "$(sed -n '/"worst"/,$p' "$work/pipe.json")" = \
	"$(sed -n '/"worst"/,$p' "$work/file.json")" ] ||
	complain "another worst moment out of a pipe"

# In a pipe, text has no progress and no control characters.
write 'a 1 1000000 0' 'f 1'
"$kiln" replay --map --cost=map=0,alloc=1.5 "$small" >"$work/text" \
	2>"$work/err" || complain "text failed"
[ ! -s "$work/err" ] || complain "a pipe got progress"
grep -q '^peak live  *1000000 bytes' "$work/text" || complain "no peak live"
grep -q 'alloc 1.5 free 35 create 9 map 0' "$work/text" || complain "no costs"
if tr -d '\n -~' <"$work/text" | grep -q .; then
	complain "control characters in text"
fi

# A concatenation of two xz files is one text.
printf '# {}\na 1 5 0\n' | xz >"$work/two.xz"
printf 'f 1\na 2 6 0\n' | xz >>"$work/two.xz"
"$kiln" replay --json "$work/two.xz" >"$work/two.json" ||
	complain "concatenated xz failed"
expect "$work/two.json" peak_live_bytes 6

# ---- bad files ----

# refuse STATUS TEXT ARGUMENT...: kiln replay fails so, and says so
refuse()
{
	want=$1 text=$2
	shift 2
	got=0
	"$kiln" replay "$@" >"$work/out" 2>"$work/err" || got=$?
	[ "$got" = "$want" ] || complain "replay $*: status $got, not $want"
	grep -qF -- "$text" "$work/err" ||
		complain "replay $*: \"$(cat "$work/err")\" lacks \"$text\""
	[ ! -s "$work/out" ] || complain "replay $*: wrote to stdout"
}

# wrong TEXT LINE...: a trace of these lines is refused with that text
wrong()
{
	message=$1
	shift
	write "$@"
	refuse 1 "$message" "$small"
}

wrong 'line 2: 7 is not live' 'f 7'
wrong 'line 4: 7 is not live' 'a 7 1 0' 'f 7' 'f 7'
wrong 'line 3: 7 is live already' 'a 7 1 0' 'a 7 1 0'
wrong 'line 3: the live bytes exceed' 'a 1 18446744073709551615 0' 'a 2 1 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 18446744073709551616 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 -5 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 0x5 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 05 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1  5 0'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 5'
wrong 'line 2: is not "a ID BYTES STREAM"' 'a 1 5 0 '
wrong 'line 2: stream 64' 'a 1 5 64'
wrong 'line 2: is not "f ID"' 'f x'
wrong 'line 2: is not "f ID"' 'f 1 2'
wrong 'line 2: is neither' ''
wrong 'line 2: is neither' '# {}'
wrong 'line 2: is neither' 'x 1'
wrong 'line 2: the line is too long' "$(printf 'a 1%5000s' '')"
# The device refuses: more than a terabyte, a size that cannot be rounded.
wrong 'line 3: 2199023255552 bytes' 'a 1 1 0' 'a 2 2199023255552 0'
wrong 'line 2: 18446744073709551615 bytes' 'a 1 18446744073709551615 0'

# file TEXT: refuses a file of these bytes
file()
{
	printf %b "$2" >"$small"
	refuse 1 "$1" "$small"
}
file 'the file is empty' ''
file 'line 1: the line has no end' '# {}'
file 'line 1: does not begin with' 'a 1 2 0\n'
file 'line 1: no JSON' '# {\n'
file 'line 1: no JSON object' '# []\n'
file 'line 1: "secs" is no time' '# {"secs": -1}\n'
file 'line 1: "secs" is no time' '# {"secs": "long"}\n'
file 'line 1: "allocs" is no count' '# {"allocs": -1}\n'
file 'line 1: "name" is no string' '# {"name": 5}\n'
file 'line 2: the line has no end' '# {}\na 1 2 0'
file 'line 2: is neither' '# {}\na 1 2\00000\n'
file '1 allocations where the first line says 2' '# {"allocs": 2}\na 1 2 0\n'
file '0 frees where the first line says 1' '# {"frees": 1}\na 1 2 0\n'

size=$(wc -c <"$trace")
head -c $((size / 2)) "$trace" >"$work/cut.xz"
refuse 1 'the xz data is cut off' "$work/cut.xz"
head -c 20 "$trace" >"$work/cut.xz"
refuse 1 'the xz data is cut off' "$work/cut.xz"
{
	head -c $((size / 2)) "$trace"
	printf 'xxxxxxxx'
	tail -c +$((size / 2 + 9)) "$trace"
} >"$work/damaged.xz"
# What comes out before the damage shows may not be a trace any more.
refuse 1 'damaged.xz: line ' "$work/damaged.xz"
refuse 1 'cannot be opened: No such file' "$work/nothing"
refuse 1 'cannot be read: Is a directory' "$work"

# ---- the command line ----

refuse 2 'no trace is named'
refuse 2 "\"$small\"" "$trace" "$small"
refuse 2 '"odd"' --pages odd "$trace"
refuse 2 '"map"' --cost=map "$trace"
refuse 2 '"map=-1"' --cost=map=-1 "$trace"
refuse 2 '"map=1x"' --cost=map=1x "$trace"
refuse 2 '"what=1"' --cost=what=1 "$trace"
refuse 2 '--watch' --watch "$trace"
refuse 2 'KILN_ERR_SELECTOR' --device what "$trace"
"$kiln" help replay >/dev/null || complain "no help"
"$kiln" replay --version | grep -q '^kiln ' || complain "no version"
exit $bad
