#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln inspect: what it prints, that its JSON is JSON, and its exit statuses.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
kiln=$(cd "${builddir:-$top/build}" && pwd)/tools/kiln
files=$top/tests/safetensors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

[ -x "$kiln" ] || {
	echo "the kiln command was left out"
	exit 77
}

say()
{
	echo "inspect: $1" >&2
	bad=1
}

# status EXPECTED ARGUMENT...: runs it and checks the exit status
status()
{
	expected=$1
	shift
	came=0
	"$kiln" inspect "$@" >"$work/out" 2>"$work/err" || came=$?
	[ "$came" = "$expected" ] ||
		say "$*: expected exit status $expected, came $came"
}

# has FILE TEXT: the text is a line, its spaces folded, of the last run's
has()
{
	tr -s ' ' <"$work/$1" | sed 's/ $//' | grep -qxF -- "$2" ||
		say "expected \"$2\" in std$1, came: $(cat "$work/$1")"
}

status 0 "$files/all.safetensors"
has out 'bytes 1170'
has out 'header_bytes 880'
has out 'data_bytes 282'
has out ' format pt'
has out 'tensors 13'
has out 't.U64 U64 [2,3] 48 888'
has out 't.BOOL BOOL [2,3] 6 1164'
status 0 "$files/odd.safetensors"
has out 'x Q3 [3] 3 433 not loadable'
has out 'metadata none'
status 0 "$files/empty.safetensors"
has out 'tensors 0'

# Engines are told.
KILN_FILE_PATH=threads
export KILN_FILE_PATH
status 0 "$files/all.safetensors"
has out 'engine threads (KILN_FILE_PATH)'
KILN_FILE_PATH=fast
status 1 "$files/all.safetensors"
has err 'kiln: KILN_ERR_OPTION: KILN_FILE_PATH: "fast" is none of auto, uring, threads'
unset KILN_FILE_PATH

# Strict JSON, read by a parser that is not the tool's own.
status 0 --json "$files/odd.safetensors"
if command -v python3 >/dev/null; then
	python3 - "$work/out" <<-'END' || say "the JSON is not as expected"
	import json, sys
	def refuse(name):
	    raise ValueError(name)
	def once(pairs):
	    assert len(pairs) == len(dict(pairs)), pairs
	    return dict(pairs)
	with open(sys.argv[1], encoding="utf-8") as file:
	    all = json.load(file, parse_constant=refuse,
	                    object_pairs_hook=once)
	assert all["bytes"] == 436 and all["header_bytes"] == 416
	assert all["metadata"] == {} and len(all["tensors"]) == 6
	assert all["tensors"][0] == {
	    "name": "\u00fc\U0001f600/\\", "dtype": "F32", "shape": [],
	    "bytes": 4, "offset": 424, "loadable": True}
	assert [t["loadable"] for t in all["tensors"]] == [
	    True, True, True, False, False, False]
	END
else
	echo "python3 is not here: the JSON was not parsed"
fi

# What is wrong.
head -c 300 "$files/all.safetensors" >"$work/cut"
status 1 "$work/cut"
has err "kiln: KILN_ERR_IO: kiln_safetensors_open: $work/cut: the file ends in the header: bytes 300"
[ -s "$work/out" ] && say "a damaged file printed: $(cat "$work/out")"
tr '}' ' ' <"$files/all.safetensors" >"$work/torn"
status 1 --json "$work/torn"
[ -s "$work/out" ] && say "a damaged file printed: $(cat "$work/out")"
status 1 "$work/none"
has err "kiln: KILN_ERR_IO: kiln_file_open: $work/none: No such file or directory"
status 1 "$work"
status 2
status 2 "$files/all.safetensors" "$files/odd.safetensors"
status 2 --quick "$files/all.safetensors"
status 2 --device cpu "$files/all.safetensors"
status 2 --nonsense
status 0 --help
status 0 --version
for form in '' --json; do
	came=0
	# shellcheck disable=SC2086 # none or one word
	"$kiln" inspect $form "$files/all.safetensors" >/dev/full \
		2>"$work/err" || came=$?
	[ "$came" = 1 ] || say "/dev/full $form: exit status $came"
	[ -s "$work/err" ] || say "/dev/full $form: nothing was said"
done
exit $bad
