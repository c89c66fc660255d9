#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Small rules for every source file: a licence line first, no blanks at the
# end of a line, no marks of unfinished work, known words.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"
bad=0
marks='TO''DO|FIX''ME|XX''X|HA''CK'

files=$(find include base kernels drivers alloc sched lib tools examples \
	bench tests \( -name '*.[ch]' -o -name '*.def' -o -name '*.kl' \
	-o -name '*.sh' -o -name '*.am' -o -name '*.py' \) | sort)
for file in $files; do
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
		echo "$file: no SPDX line" >&2
		bad=1
	}
done
# shellcheck disable=SC2086 # a list of files
grep -nE '[[:blank:]]+$' $files man/*.[0-9] /dev/null >&2 && bad=1
# shellcheck disable=SC2086
grep -nwE "$marks" $files man/*.[0-9] /dev/null >&2 && bad=1
if command -v codespell >/dev/null; then
	# shellcheck disable=SC2086
	codespell -q 3 -I tests/qa/words.txt $files man/*.[0-9] ./*.md >&2 || bad=1
fi
exit $bad
