# SPDX-License-Identifier: Apache-2.0
# The Vulkan driver needs the headers of Vulkan and the compilers of SPIR-V, at
# build time only. Without them it is left out, unless --enable-vulkan asks.
AC_ARG_ENABLE([vulkan], [AS_HELP_STRING([--disable-vulkan],
	[leave out the Vulkan driver])], [], [enable_vulkan=auto])
# Mesa's devices and their LLVM are not built for sanitizers.
AS_IF([test "$enable_vulkan" = auto && test -n "$enable_sanitizer" && \
	test "$enable_sanitizer" != no], [enable_vulkan=no])
kiln_lack=
AS_IF([test "$enable_vulkan" != no], [
	AC_CHECK_HEADER([vulkan/vulkan_core.h], [],
		[kiln_lack="$kiln_lack vulkan/vulkan_core.h"])
	AC_CHECK_PROG([GLSLANG], [glslangValidator], [glslangValidator])
	AC_CHECK_PROG([SPIRV_AS], [spirv-as], [spirv-as])
	AC_CHECK_PROG([SPIRV_DIS], [spirv-dis], [spirv-dis])
	test -n "$GLSLANG" || kiln_lack="$kiln_lack glslangValidator"
	test -n "$SPIRV_AS" || kiln_lack="$kiln_lack spirv-as"
	test -n "$SPIRV_DIS" || kiln_lack="$kiln_lack spirv-dis"
])
AS_IF([test "$enable_vulkan" = yes && test -n "$kiln_lack"],
	[AC_MSG_ERROR([the Vulkan driver needs$kiln_lack (Debian: libvulkan-dev,
glslang-tools, spirv-tools)])])
AS_IF([test "$enable_vulkan" = auto && test -n "$kiln_lack"],
	[AC_MSG_NOTICE([no Vulkan driver: not found:$kiln_lack])])
AS_IF([test "$enable_vulkan" != no && test -z "$kiln_lack"], [
	kiln_with_vulkan=yes
	KILN_DRIVERS="$KILN_DRIVERS vulkan"
	KILN_DEFS="$KILN_DEFS -DKILNI_WITH_VULKAN"
], [kiln_with_vulkan=no])
AM_CONDITIONAL([WITH_VULKAN], [test "$kiln_with_vulkan" = yes])
