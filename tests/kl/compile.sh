#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# compile.sh BUILDDIR: compiles every kernel of the language for every target,
# dtype and form: SPIR-V (checked by spirv-val), PTX (assembled by ptxas where
# there is one) and C. The modules stay in BUILDDIR/kl for the test programs.
# Exit status 77: a tool is missing. KL_ONLY=spirv, ptx or c does one target.

set -u
src=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?usage: compile.sh BUILDDIR}/kl
cc=${CC:-cc}
only=${KL_ONLY:-all}
mkdir -p "$out" || exit 99

missing=
need()
{
	command -v "$1" > /dev/null 2>&1 || missing="$missing $1"
}

fail()
{
	echo "compile.sh: $1" >&2
	exit 1
}

# spirv NAME SOURCE DEFINITIONS...
spirv()
{
	name=$1
	file=${2#"$src/"}
	shift 2
	CC_FOR_BUILD=$cc KL_VALIDATE=1 sh "$src/kernels/kl/spirv.sh" "$src" \
		"$out" "$name" "$file" "$@" || fail "$name: SPIR-V"
}

# ptx NAME SOURCE DEFINITIONS...
ptx()
{
	name=$1
	file=$2
	shift 2
	clang -x cuda --cuda-gpu-arch=sm_75 --cuda-device-only -nocudainc \
		-nocudalib -S -std=c++14 -O3 -ffp-contract=off -fwrapv \
		-fno-strict-aliasing -Wall -Wextra -Wno-unused-parameter \
		-Wno-unknown-cuda-version -Werror "$@" -I"$src" \
		-I"$src/include" "$file" -o "$out/$name.ptx" ||
		fail "$name: clang"
	# A multiplication or addition without .rn could still be contracted.
	if grep -Eq '(mul|add|sub)\.f(32|64)|fma\.' "$out/$name.ptx"; then
		fail "$name: PTX with operations that may be contracted"
	fi
	[ -z "$ptxas" ] && return
	"$ptxas" -arch="$arch" -o "$out/$name.cubin" "$out/$name.ptx" ||
		fail "$name: ptxas"
	rm -f "$out/$name.cubin"
}

# c NAME SOURCE DEFINITIONS...
c()
{
	name=$1
	file=$2
	shift 2
	# shellcheck disable=SC2086 # a compiler may have a wrapper in front
	$cc -x c -std=gnu11 -O1 -Wall -Wextra -Wno-unused-function -Werror \
		-ffp-contract=off "$@" -I"$src" -I"$src/include" -c "$file" \
		-o "$out/$name.o" || fail "$name: $cc"
	rm -f "$out/$name.o"
}

# each TARGET: all kernels, dtypes and forms. flex32 and bool(u8) are stored
# as f32 and bool are.
each()
{
	for form in 0 1 2; do
		for bytes in 1 2 4 8; do
			$1 "gather${bytes}_$form" "$src/kernels/kl/gather.kl" \
				-DKL_BYTES=$bytes -DKL_FORM=$form
		done
		for dtype in 0 1 3 4 5 6 7 8 9 10 11 12 13 15; do
			[ "$1" = c ] && continue
			$1 "ew${dtype}_$form" "$src/kernels/kl/ew.kl" \
				-DKL_DTYPE=$dtype -DKL_FORM=$form
		done
	done
}

case $only in
all | c)
	each c
	echo "C: done"
	;;
esac

case $only in
all | spirv)
	need glslangValidator
	need spirv-as
	need spirv-dis
	need spirv-val
	if [ -z "$missing" ]; then
		awk -f "$src/kernels/kl/opids.awk" "$src/kernels/ops.def" \
			> "$out/opids.h" || fail "opids.h"
		each spirv
		echo "SPIR-V: done"
	fi
	;;
esac

case $only in
all | ptx)
	ptxas=$(command -v ptxas || :)
	[ -z "$ptxas" ] && [ -x /usr/local/cuda/bin/ptxas ] &&
		ptxas=/usr/local/cuda/bin/ptxas
	arch=sm_75
	if command -v clang > /dev/null 2>&1; then
		each ptx
		echo "PTX: done${ptxas:+, assembled for $arch}"
	else
		missing="$missing clang"
	fi
	;;
esac

if [ -n "$missing" ]; then
	echo "compile.sh: not found:$missing"
	exit 77
fi
