#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The man pages: lint, index lines, SYNOPSIS compiled against the headers,
# C programs and fragments of EXAMPLES compiled.
set -eu
export LC_ALL=C
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
cd "$top"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
cc="${CC:-cc} -std=gnu11 -Iinclude -fsyntax-only -Wall -Wno-unused"

complain()
{
	echo "$*" >&2
	bad=1
}

# synopsis PAGE: the declarations that its SYNOPSIS makes, as C
synopsis()
{
	awk '
	# The words of a macro line: quotes hold a word together.
	function words(line, out,   n, word) {
		n = 0
		while (line != "") {
			sub(/^ +/, "", line)
			if (line ~ /^"/) {
				match(line, /^"[^"]*"/)
				word = substr(line, 2, RLENGTH - 2)
			} else {
				match(line, /^[^ ]+/)
				word = substr(line, 1, RLENGTH)
			}
			if (RLENGTH < 1)
				break
			line = substr(line, RLENGTH + 1)
			out[++n] = word
		}
		return n
	}
	function declare(   i, text) {
		text = type " " name "("
		for (i = 1; i <= args; i++)
			text = text (i > 1 ? ", " : "") arg[i]
		print text ");"
	}
	/^\.Sh / { on = $2 == "SYNOPSIS"; next }
	!on { next }
	/^\.In / { print "#include <" $2 ">"; next }
	/^\.Fd / { sub(/^\.Fd */, ""); print; next }
	/^\.(Ft|Vt) / {
		sub(/^\.(Ft|Vt) */, "")
		gsub(/"/, "")
		type = $0
		next
	}
	/^\.Fn / {
		n = words(substr($0, 5), word)
		name = word[1]
		args = 0
		for (i = 2; i <= n; i++)
			arg[++args] = word[i]
		declare()
		next
	}
	/^\.Fo / { name = $2; args = 0; next }
	/^\.Fa / {
		n = words(substr($0, 5), word)
		for (i = 1; i <= n; i++)
			arg[++args] = word[i]
		next
	}
	/^\.Fc/ { declare() }' "$1"
}

# examples PAGE: writes each literal block of EXAMPLES to $work/exampleN.c
examples()
{
	rm -f "$work"/example*.c
	awk -v base="$work/example" '
	/^\.Sh / { on = $2 == "EXAMPLES"; next }
	on && /^\.Bd .*-literal/ { block = 1; n++; next }
	/^\.Ed/ { block = 0; next }
	on && block {
		gsub(/\\&/, "")
		gsub(/\\e/, "\\")
		gsub(/\\\(dq/, "\"")
		gsub(/\\\(aq/, "\047")
		gsub(/\\-/, "-")
		print > (base n ".c")
	}' "$1"
	for file in "$work"/example*.c; do
		[ -e "$file" ] || continue
		# Shell commands are no C.
		if grep -q '^[$#] \|^#!' "$file" && ! grep -q '#include' "$file"
		then
			rm "$file"
		elif ! grep -q '^[a-z].*[a-z_]*(.*' "$file" ||
			! grep -q '^}' "$file"; then
			wrap "$file"
		fi
	done
}

# wrap FILE: makes a function of a fragment
wrap()
{
	{
		cat <<-'END'
		#include <kiln/kiln.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		int fragment(void);
		int fragment(void)
		{
		END
		cat "$1"
		printf '\nreturn 0;\n}\n'
	} >"$work/wrapped"
	mv "$work/wrapped" "$1"
}

command -v mandoc >/dev/null || {
	echo "mandoc is not here"
	exit 77
}
pages=0
for page in man/*.[0-9]; do
	[ -e "$page" ] || continue
	grep -q '^\.so ' "$page" && continue
	pages=$((pages + 1))
	mandoc -T lint -W warning "$page" >"$work/lint" 2>&1 || {
		cat "$work/lint" >&2
		bad=1
	}
	if command -v lexgrog >/dev/null; then
		lexgrog "$page" >/dev/null || complain "$page: lexgrog fails"
	fi
	synopsis "$page" >"$work/synopsis.c"
	case $page in
	*.3)
		grep -q '^#include' "$work/synopsis.c" ||
			complain "$page: the SYNOPSIS includes nothing"
		# shellcheck disable=SC2013 # words are wanted
		for name in $(sed -n 's/^\.Nm \(kiln_[a-z0-9_]*\).*/\1/p' \
			"$page" | sort -u); do
			grep -q "[ *]$name(" "$work/synopsis.c" ||
				complain "$page: $name has no SYNOPSIS"
		done
		for part in DESCRIPTION EXAMPLES; do
			grep -q "^\.Sh $part" "$page" ||
				complain "$page: no $part"
		done
		;;
	esac
	if grep -q '^#include' "$work/synopsis.c"; then
		$cc -x c "$work/synopsis.c" >"$work/out" 2>&1 || {
			complain "$page: the SYNOPSIS does not compile"
			cat "$work/out" >&2
		}
	fi
	examples "$page"
	for file in "$work"/example*.c; do
		[ -e "$file" ] || continue
		$cc "$file" >"$work/out" 2>&1 || {
			complain "$page: an example does not compile"
			cat "$work/out" >&2
		}
	done
done
[ $pages -gt 0 ] || complain "there are no pages"
exit $bad
