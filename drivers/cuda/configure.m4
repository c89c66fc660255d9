# SPDX-License-Identifier: Apache-2.0
# The CUDA driver needs a clang that makes PTX, or PTX that came with the
# source, and zlib to unpack it with.
PKG_PROG_PKG_CONFIG
AC_ARG_ENABLE([cuda], [AS_HELP_STRING([--disable-cuda],
	[leave out the CUDA driver])], [], [enable_cuda=maybe])
AC_ARG_VAR([CLANG], [a clang with the NVPTX back end, for the CUDA driver])
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
	PKG_CHECK_EXISTS([zlib], [],
		[kiln_cuda_reason="no zlib (zlib1g-dev)"])
	AS_IF([test -n "$kiln_cuda_reason"], [
		AS_IF([test "$enable_cuda" = maybe], [],
			[AC_MSG_ERROR([--enable-cuda: $kiln_cuda_reason])])
		AC_MSG_WARN([the CUDA driver is left out: $kiln_cuda_reason])
		enable_cuda=no
	], [enable_cuda=yes])
])
# What came with the source is made anew where somebody takes it away.
AM_CONDITIONAL([MAKE_PTX], [test ! -f "$srcdir/kernels/cuda/texts.bin"])
AM_CONDITIONAL([WITH_CUDA], [test "$enable_cuda" = yes])
AS_IF([test "$enable_cuda" = yes], [
	KILN_DRIVERS="$KILN_DRIVERS cuda"
	KILN_DEFS="$KILN_DEFS -DKILNI_WITH_CUDA"
	CUDA_LIBS=`$PKG_CONFIG --libs zlib`
])
AC_SUBST([CUDA_LIBS])
