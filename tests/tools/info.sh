#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kiln info as a command: exit statuses, strict JSON, a full disk, and that the
# library starts where no vendor's library is (P20, P43).
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${builddir:-$top/build}" && pwd)
kiln=$build/tools/kiln
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KILN_DEVICE
bad=0

say()
{
	echo "$1" >&2
	bad=1
}

# status EXPECTED ARGUMENT...: runs kiln and checks the exit status
status()
{
	expected=$1
	shift
	came=0
	"$kiln" "$@" >"$work/out" 2>"$work/err" || came=$?
	[ "$came" = "$expected" ] ||
		say "kiln $*: expected exit status $expected, came $came"
}

# What a script must be able to rely on: a wrong device leaves stdout empty.
for device in 999 cpu:999 cuda:x vulkan:0 pci:1:2:3 pci:ffff:ff:1f.7 uuid: \
	uuid:GPU-00000000-nobody; do
	status 2 info --json --device "$device"
	[ ! -s "$work/out" ] || say "--device $device: stdout is not empty"
	grep -qF -- "$device" "$work/err" ||
		say "--device $device: stderr does not name it"
done
status 2 info --svg
status 2 info operand
status 2 info --device cpu --svg "$work/machine.svg"
[ ! -e "$work/machine.svg" ] || say "a picture was drawn all the same"

# A machine of its own, so that it does not matter what this one has.
mkdir "$work/root"
export KILN_SYSFS_ROOT="$work/root"
status 0 info
status 0 info --json --device cpu
status 0 info --json
mv "$work/out" "$work/json"
status 0 info --svg "$work/machine.svg"
if command -v python3 >/dev/null; then
	python3 - "$work/json" "$work/machine.svg" <<-'EOF' || bad=1
	import json, sys
	import xml.etree.ElementTree as tree
	def refuse(what):
	    raise ValueError(what)
	def once(pairs):
	    assert len(dict(pairs)) == len(pairs), "a name stands twice"
	    return dict(pairs)
	text = open(sys.argv[1], "rb").read().decode("utf-8", "strict")
	info = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
	assert sum(card["devices"][0]["selector"] == "cpu:0"
	           for card in info["cards"] if card["devices"]) == 1, info
	assert {d["name"] for d in info["drivers"] if not d["devices"]} == \
	    {d["name"] for d in info["drivers"] if d["absent"]}, info
	assert tree.parse(sys.argv[2]).getroot().tag.endswith("svg")
	EOF
else
	echo "python3 is not here: not read by another parser"
fi

if [ -w /dev/full ]; then
	for form in '' --json; do
		# shellcheck disable=SC2086 # one word or none
		! "$kiln" info $form >/dev/full 2>"$work/err" ||
			say "kiln info $form: a full disk is no failure"
		grep -q stdout "$work/err" ||
			say "kiln info $form: a full disk is not told"
	done
else
	echo "/dev/full is not here: not tried"
fi

# Vendors' libraries are opened when they are asked for, never needed.
if command -v readelf >/dev/null; then
	readelf -d "$build/.libs/libkiln.so" >"$work/needed"
	grep -q NEEDED "$work/needed" || say "readelf shows nothing"
	! grep -E 'NEEDED.*lib(cuda|vulkan|nvidia)' "$work/needed" >&2 ||
		say "libkiln.so needs a vendor's library"
else
	echo "readelf is not here: not looked at"
fi
exit $bad
