/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_EW_ISA_H
#define KILNI_CPU_EW_ISA_H

/*
 * The elementwise and index kernels are compiled once per instruction-set
 * level; KILNI_ISA_SUFFIX, from the command line, tells their symbols apart.
 */
#ifndef KILNI_ISA_SUFFIX
#define KILNI_ISA_SUFFIX base
#endif

#define KILNI_PASTE2_(a, b) a##_##b
#define KILNI_PASTE_(a, b) KILNI_PASTE2_(a, b)
#define KILNI_ISA(name) KILNI_PASTE_(name, KILNI_ISA_SUFFIX)

/*
 * Before a loop whose iterations are independent although pointers may agree:
 * an output may be an operand at the same address. clang would warn of each
 * such loop that it cannot vectorise.
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define KILNI_LOOP                                                             \
	_Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
#elif defined(__GNUC__)
#define KILNI_LOOP _Pragma("GCC ivdep")
#else
#define KILNI_LOOP
#endif

#endif
