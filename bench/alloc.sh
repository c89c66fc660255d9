#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Times allocation and release (bench/alloc.c) of the pools, of the public
# interface and, for information, of malloc in glibc, jemalloc and mimalloc
# (Debian: libjemalloc2, libmimalloc2.0), each case in a process of its own and
# all in turn, and prints tables in Markdown for bench/RESULTS.md, in
# nanoseconds for one allocation and its release: medians over samples of a
# thousand, then the CPU time over the whole.
#
# usage: bench/alloc.sh [BUILD]     (a built tree; default: build)
#
# BENCH_ROUNDS  each case runs so often, the least figures count (default: 3)
# BENCH_ORDERS  lifo, random or both (default)
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
rounds=${BENCH_ROUNDS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KILN_DEVICE KILN_MEMORY_FILL KILN_POOL_VERIFY KILN_POOL_LAYOUT KILN_PAGES

say()
{
	echo "bench: $*" >&2
}

core=$build/.libs/libkilni_core.a
[ -e "$core" ] || {
	say "$core is missing; build first"
	exit 1
}
# What the library itself is linked with.
libs=$(sed -n 's/^\(HWLOC\|URING\|DRM\|ZLIB\)_LIBS = //p' \
	"$build/Makefile" | tr '\n' ' ')
# shellcheck disable=SC2086 # a list of words
${CC:-cc} -O2 -std=gnu11 -I"$top" -I"$top/include" "$top/bench/alloc.c" \
	"$core" $libs -lm -ldl -lpthread -o "$work/alloc"

find_library() # NAME: its path, or nothing
{
	ldconfig -p | sed -n "s|.*[[:space:]]\(/.*/lib$1\.so[.0-9]*\)$|\1|p" |
		head -n 1
}

# measure NAME THREADS ORDER BYTES LIVE: a case in a process of its own
measure()
{
	name=$1
	shift
	case $name in
	array | pools | buffer | tensor)
		"$work/alloc" "$name" "$@"
		;;
	glibc)
		"$work/alloc" malloc "$@" | sed 's/^malloc/glibc/'
		;;
	*)
		LD_PRELOAD=$(find_library "$name") "$work/alloc" malloc "$@" |
			sed "s/^malloc/$name/"
		;;
	esac
}

names="array pools buffer tensor glibc"
for name in jemalloc mimalloc; do
	if [ -n "$(find_library $name)" ]; then
		names="$names $name"
	else
		say "lib$name is missing; its rows are left out"
	fi
done

for threads in 1 2; do
	for order in ${BENCH_ORDERS:-lifo random}; do
		for bytes in 64 4096 1048576; do
			say "$threads threads, $order, $bytes bytes"
			for live in 10 100 1000 10000 100000 1000000; do
				for _ in $(seq "$rounds"); do
					for name in $names; do
						measure "$name" "$threads" \
							"$order" "$bytes" \
							"$live"
					done
				done
			done
		done
	done
done >"$work/results"

awk -F '\t' '
	{
		asked[$2 " " $3]
		row = $2 " " $3 " " $4 " " $1
		if (!(row in seen)) {
			seen[row] = 1
			order[++rows] = row
		}
		for (f = 6; f <= 7; f++) {
			key = row " " $5 " " f
			if (!(key in best) || $f < best[key])
				best[key] = $f
		}
	}
	function head(threads, how, field) {
		printf "\n%s thread%s, given back %s, %s:\n\n", threads, \
			threads > 1 ? "s" : "", how == "lifo" ? \
			"last first" : "in random order", \
			field == 6 ? "medians" : "CPU time"
		print "| bytes | what | 10 | 100 | 1,000 | 10,000 | " \
			"100,000 | 1,000,000 |"
		print "|---|---|---|---|---|---|---|---|"
	}
	END {
		split("1 2", threads)
		split("lifo random", how)
		split("64 4096 1048576", bytes)
		split("array pools buffer tensor glibc jemalloc " \
			"mimalloc", what)
		for (f = 6; f <= 7; f++)
		for (t = 1; t <= 2; t++)
		for (h = 1; h <= 2; h++) {
			if (!((threads[t] " " how[h]) in asked))
				continue;
			head(threads[t], how[h], f)
			for (b = 1; b <= 3; b++)
			for (w = 1; w <= 7; w++) {
				row = threads[t] " " how[h] " " bytes[b] " " \
					what[w]
				if (!(row in seen))
					continue
				printf "| %d | %s |", bytes[b], what[w]
				for (live = 10; live <= 1000000; live *= 10)
					printf " %s |", (row " " live " " f) \
						in best ? sprintf("%.0f", \
						best[row " " live " " f]) : ""
				print ""
			}
		}
	}' "$work/results"
