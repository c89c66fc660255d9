#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compares the includes of each folder with the arrows in layers.txt.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"

# shellcheck disable=SC2016 # awk's own
find include base kernels drivers alloc sched lib tools examples bench \
	-name '*.[ch]' -o -name '*.def' -o -name '*.kl' | sort |
xargs awk '
	# The layer of a path: its first folder, or drivers/NAME.
	function layer(path,   part, n) {
		n = split(path, part, "/")
		if (part[1] == "kiln")
			return "include"
		if (part[1] == "drivers" && n > 2)
			return "drivers/" part[2]
		return part[1]
	}
	FILENAME == "tests/qa/layers.txt" {
		sub(/#.*/, "")
		if (NF == 0)
			next
		from = $1
		sub(/:$/, "", from)
		known[from] = 1
		for (i = 2; i <= NF; i++)
			arrow[from, $i] = 1
		next
	}
	/^[ \t]*#[ \t]*include[ \t]*["<]/ {
		path = $0
		sub(/^[^"<]*["<]/, "", path)
		sub(/[">].*/, "", path)
		if ($0 !~ /"/ && path !~ /^kiln\//)
			next
		from = layer(FILENAME)
		to = path ~ /\// ? layer(path) : from
		row = from ~ /^drivers\/./ ? "drivers/*" : from
		seen++
		if (from != to && !((row, to) in arrow)) {
			printf "%s:%d: %s may not include %s (%s)\n", \
				FILENAME, FNR, from, to, path
			bad = 1
		}
	}
	END {
		if (!seen) {
			print "no include was seen at all"
			bad = 1
		}
		exit bad
	}' tests/qa/layers.txt >&2
