# SPDX-License-Identifier: Apache-2.0

# KILN_DRIVER(NAME, WHAT)
# A driver that configure can leave out: --disable-NAME. Defines the automake
# conditional WITH_<NAME> and, where it stays, the macro KILNI_WITH_<NAME>.
AC_DEFUN([KILN_DRIVER], [
AC_ARG_ENABLE([$1], [AS_HELP_STRING([--disable-$1], [leave out $2])],
	[], [enable_$1=yes])
AM_CONDITIONAL(m4_join([], [WITH_], m4_toupper([$1])),
	[test "$enable_$1" != no])
AS_IF([test "$enable_$1" != no], [
	KILN_DRIVERS="$KILN_DRIVERS $1"
	KILN_DEFS="$KILN_DEFS -DKILNI_WITH_[]m4_toupper([$1])"
])
])

# KILN_CFLAG(VARIABLE, FLAG...)
# Appends to VARIABLE each flag that the compiler takes without a warning.
AC_DEFUN([KILN_CFLAG], [
for kiln_flag in $2; do
	AS_VAR_PUSHDEF([kiln_cv], [kiln_cv_cflag_$kiln_flag])
	AC_CACHE_CHECK([whether $CC takes $kiln_flag], [kiln_cv], [
		kiln_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS -Werror $kiln_flag"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
			[AS_VAR_SET([kiln_cv], [yes])],
			[AS_VAR_SET([kiln_cv], [no])])
		CFLAGS=$kiln_save_CFLAGS
	])
	AS_VAR_IF([kiln_cv], [yes], [$1="$$1 $kiln_flag"])
	AS_VAR_POPDEF([kiln_cv])
done
])

# KILN_ISA(NAME, FLAGS)
# An instruction-set level of the CPU's kernels beyond the baseline, for
# x86-64 only: --disable-NAME. Defines the conditional ISA_<NAME>, the flags
# <NAME>_CFLAGS and the macro KILNI_HAVE_ISA_<NAME>.
AC_DEFUN([KILN_ISA], [
AC_ARG_ENABLE([$1],
	[AS_HELP_STRING([--disable-$1], [compile no kernels for $1])],
	[], [enable_$1=yes])
AS_CASE([$host_cpu], [x86_64], [], [enable_$1=no])
AM_CONDITIONAL(m4_join([], [ISA_], m4_toupper([$1])),
	[test "$enable_$1" != no])
AS_IF([test "$enable_$1" != no], [
	KILN_LEVELS="$KILN_LEVELS $1"
	KILN_DEFS="$KILN_DEFS -DKILNI_HAVE_ISA_[]m4_toupper([$1])"
	kiln_save_CFLAGS=$CFLAGS
	CFLAGS="$CFLAGS $2"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [],
		[AC_MSG_ERROR([$CC takes not all of $2; leave the
level out with --disable-$1])])
	CFLAGS=$kiln_save_CFLAGS
])
m4_toupper([$1])_CFLAGS="$2"
AC_SUBST(m4_join([], m4_toupper([$1]), [_CFLAGS]))
])
