/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_FPENV_H
#define KILNI_CPU_FPENV_H

/*
 * The floating-point mode of a thread. Kernels run in the default mode: round
 * to nearest, denormals kept, nothing traps. enter() sets it and returns what
 * leave() restores, the sticky flags included.
 */
#if defined(__x86_64__)

#include <stdint.h>
#include <xmmintrin.h>

#define KILNI_MXCSR_DEFAULT 0x1f80u
#define KILNI_MXCSR_FLAGS 0x3fu

typedef uint32_t kilni_fpenv;

static inline kilni_fpenv kilni_fp_enter(void)
{
	uint32_t saved = _mm_getcsr();

	if ((saved & ~KILNI_MXCSR_FLAGS) != KILNI_MXCSR_DEFAULT)
		_mm_setcsr(KILNI_MXCSR_DEFAULT);
	return saved;
}

static inline void kilni_fp_leave(kilni_fpenv saved)
{
	/* Cheaper than to ask first. */
	_mm_setcsr(saved);
}

#elif defined(__aarch64__)

#include <stdint.h>

typedef struct {
	uint64_t control, status;
} kilni_fpenv;

static inline kilni_fpenv kilni_fp_enter(void)
{
	kilni_fpenv saved;

	__asm__ volatile("mrs %0, fpcr" : "=r"(saved.control));
	__asm__ volatile("mrs %0, fpsr" : "=r"(saved.status));
	if (saved.control)
		__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
	return saved;
}

static inline void kilni_fp_leave(kilni_fpenv saved)
{
	if (saved.control)
		__asm__ volatile("msr fpcr, %0" : : "r"(saved.control));
	__asm__ volatile("msr fpsr, %0" : : "r"(saved.status));
}

#else

#include <fenv.h>

typedef fenv_t kilni_fpenv;

static inline kilni_fpenv kilni_fp_enter(void)
{
	fenv_t saved;

	fegetenv(&saved);
	fesetenv(FE_DFL_ENV);
	return saved;
}

static inline void kilni_fp_leave(kilni_fpenv saved)
{
	fesetenv(&saved);
}

#endif

#endif
