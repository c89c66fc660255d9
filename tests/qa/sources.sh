#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checks that sources.am lists each source file of the tree, each once and
# none that is gone. With --write the list is made anew.
#
# A kernel file is compiled once per instruction-set level if its text depends
# on KILNI_ISA_SUFFIX, else once.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
cd "$top"

# files FOLDER-OR-GLOB...: its source files, sorted, tests and all left out
files()
{
	for dir; do
		[ ! -d "$dir" ] || find "$dir" -type f \
			\( -name '*.[ch]' -o -name '*.def' -o -name '*.kl' \)
	done | sort -u
}

# is_level FILE: whether it belongs to an instruction-set level
is_level()
{
	case $1 in
	*.c) ;;
	*) return 1 ;;
	esac
	${CC:-cc} -E -P -I. -Iinclude -DKILNI_ISA_SUFFIX=zz_level_zz \
		-mavx2 -mfma "$1" 2>/dev/null | grep -q zz_level_zz
}

list() # NAME, files on stdin
{
	printf '\n%s =' "$1"
	while read -r file; do
		printf ' \\\n\t%s' "$file"
	done
	printf '\n'
}

programs() # GLOB...: unit test programs, without their suffix
{
	for file; do
		[ ! -f "$file" ] || echo "${file%.c}"
	done
}

small() # examples of one file
{
	grep -l '^int main' examples/*.c | grep -vx examples/fashion.c
}

extra() # what is only distributed
{
	{
		find bench man tests/kl tests/machines tests/safetensors -type f
		find alloc kernels drivers -type f ! -name '*.[ch]' \
			! -name '*.def' ! -name '*.kl' ! -name '*.am' \
			! -name '*.m4' ! -name texts.bin
		find examples -type f ! -name '*.[ch]'
		find . -maxdepth 1 -name '*.md' | sed 's|^\./||'
	} | grep -v '\.pyc$\|^man/.*\.[0-9]$' | sort
}

kernel_files()
{
	for file in $(files kernels | grep -v '^kernels/vulkan/') \
		$(files kernels/vulkan | grep '/plan\.'); do
		if is_level "$file"; then
			[ "$1" = level ] && echo "$file"
		else
			[ "$1" = once ] && echo "$file"
		fi
	done
}

# What SPIR-V is made from; listed a second time, so that make can look.
spirv_inputs()
{
	find kernels/kl -type f
	find kernels/vulkan -name '*.kl' -o -name '*.sh'
	echo kernels/ops.def
}

write()
{
	echo "# Made by tests/qa/sources.sh --write; checked by make check."
	files base | list base_sources
	kernel_files once | list kernel_sources
	kernel_files level | list level_sources
	files kernels/vulkan | grep -v '/plan\.' | list kernel_vulkan_sources
	spirv_inputs | sort | list spirv_inputs
	files drivers | grep -v '^drivers/[^/]*/' | list driver_sources
	for driver in drivers/*/; do
		name=$(basename "$driver")
		files "drivers/$name" | list "driver_${name}_sources"
	done
	for dir in alloc sched lib tools; do
		files $dir | list ${dir}_sources
	done
	files examples | grep -vxF "$(small)" | list examples_sources
	small | list small_examples
	files include | list public_headers
	files tests/conformance | list conformance_sources
	files tests/differential | list differential_sources
	programs tests/unit/t_*.c | list unit_programs
	files tests/unit | grep -v '/t_[^/]*\.c$' | list unit_common
	files tests/stubs | list stub_files
	extra | list extra_files
	find man -name '*.[0-9]' | sort | list man_pages
	find tests/vectors -name '*.jsonl' | sort | list vector_tests
}

if [ "${1-}" = --write ]; then
	write >sources.am.new
	mv sources.am.new sources.am
	exit
fi

bad=0
listed=$(sed '/^spirv_inputs/,/^$/d' sources.am |
	sed -n 's/^\t\([^ ]*\).*/\1/p' | sort)
found=$({
	files base kernels drivers alloc sched lib tools include \
		examples tests/conformance tests/differential tests/stubs
	programs tests/unit/t_*.c
	files tests/unit | grep -v '/t_[^/]*\.c$' || :
	extra
	find man -name '*.[0-9]'
	find tests/vectors -name '*.jsonl'
} | sort)
for file in $found; do
	count=$(printf '%s\n' "$listed" | grep -cxF "$file" || :)
	[ "$count" = 1 ] && continue
	echo "$file: $count times in sources.am, not once" >&2
	bad=1
done
for file in $listed; do
	printf '%s\n' "$found" | grep -qxF "$file" && continue
	echo "$file: in sources.am, but gone" >&2
	bad=1
done
[ $bad = 0 ] || echo "tests/qa/sources.sh --write makes the list anew" >&2
exit $bad
