# SPDX-License-Identifier: Apache-2.0
# The CUDA driver needs a clang that makes PTX, or PTX that came with the
# source, and xz and liblzma to pack and unpack it with. With a ptxas there are
# cubins as well.
PKG_PROG_PKG_CONFIG
AC_ARG_ENABLE([cuda], [AS_HELP_STRING([--disable-cuda],
	[leave out the CUDA driver])], [], [enable_cuda=maybe])
AC_ARG_VAR([CLANG], [a clang with the NVPTX back end, for the CUDA driver])
AC_ARG_VAR([PTXAS], [the assembler of the CUDA toolkit])
AC_ARG_WITH([cubins], [AS_HELP_STRING([--with-cubins=LIST],
	[compute capabilities for which the CUDA driver holds machine code,
	"80 89 90" where there is a ptxas; all others compile PTX, and
	--without-cubins all])],
	[], [with_cubins=maybe])
kiln_cuda_reason=
AS_IF([test "$enable_cuda" != no], [
	AC_CHECK_PROGS([CLANG], [clang clang-19 clang-18 clang-17 clang-16 \
		clang-15 clang-14], [none])
	AC_CACHE_CHECK([whether $CLANG makes PTX], [kiln_cv_ptx], [
		kiln_cv_ptx=no
		echo 'extern "C" __attribute__((global)) void f(int *p) { *p = 1; }' \
			> conftest.cu
		AS_IF([$CLANG -x cuda --cuda-gpu-arch=sm_75 \
			--cuda-device-only -nocudainc -nocudalib -S \
			-Wno-unknown-cuda-version conftest.cu \
			-o conftest.ptx 2>&AS_MESSAGE_LOG_FD],
			[kiln_cv_ptx=yes])
		rm -f conftest.cu conftest.ptx
	])
	AS_IF([test "$kiln_cv_ptx" != yes &&
		test ! -f "$srcdir/kernels/cuda/texts.bin"],
		[kiln_cuda_reason="no clang that makes PTX"])
	PKG_CHECK_EXISTS([liblzma >= 5.2], [],
		[kiln_cuda_reason="no liblzma (liblzma-dev)"])
	AC_CHECK_PROG([have_xz], [xz], [yes], [no])
	AS_IF([test "$have_xz" = no &&
		test ! -f "$srcdir/kernels/cuda/texts.bin"],
		[kiln_cuda_reason="no xz (xz-utils)"])
	AS_IF([test -n "$kiln_cuda_reason"], [
		AS_IF([test "$enable_cuda" = maybe], [],
			[AC_MSG_ERROR([--enable-cuda: $kiln_cuda_reason])])
		AC_MSG_WARN([the CUDA driver is left out: $kiln_cuda_reason])
		enable_cuda=no
	], [enable_cuda=yes])
])
# Those of the capabilities that this ptxas knows.
CUBINS=
AS_IF([test "$enable_cuda" = yes && test "$with_cubins" != no &&
	test ! -f "$srcdir/kernels/cuda/texts.bin"], [
	AC_PATH_PROG([PTXAS], [ptxas], [none], [$PATH:/usr/local/cuda/bin])
	AS_IF([test "$PTXAS" = none && test "$with_cubins" != maybe],
		[AC_MSG_ERROR([--with-cubins: there is no ptxas])])
	AS_CASE([$with_cubins], [maybe|yes], [with_cubins="80 89 90"])
	AS_IF([test "$PTXAS" != none], [
		AC_MSG_CHECKING([for which capabilities $PTXAS makes cubins])
		printf '.version 6.3\n.target sm_75\n.address_size 64\n' \
			> conftest.ptx
		for kiln_c in $with_cubins; do
			AS_IF([$PTXAS -arch=sm_$kiln_c conftest.ptx \
				-o conftest.cubin 2>&AS_MESSAGE_LOG_FD],
				[CUBINS="$CUBINS $kiln_c"])
		done
		rm -f conftest.ptx conftest.cubin
		AC_MSG_RESULT([${CUBINS:- none}])
	])
])
AC_SUBST([CUBINS])
kiln_cubins=${CUBINS:- none}
AS_IF([test "$enable_cuda" = yes && test -f "$srcdir/kernels/cuda/texts.bin"],
	[kiln_cubins=" as it came with the source"])
# What came with the source is made anew where somebody takes it away.
AM_CONDITIONAL([MAKE_PTX], [test ! -f "$srcdir/kernels/cuda/texts.bin"])
AM_CONDITIONAL([WITH_CUDA], [test "$enable_cuda" = yes])
AS_IF([test "$enable_cuda" = yes], [
	KILN_DRIVERS="$KILN_DRIVERS cuda"
	KILN_DEFS="$KILN_DEFS -DKILNI_WITH_CUDA"
	CUDA_LIBS=`$PKG_CONFIG --libs liblzma`
])
AC_SUBST([CUDA_LIBS])
