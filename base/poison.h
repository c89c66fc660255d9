/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_BASE_POISON_H
#define KILNI_BASE_POISON_H

/*
 * Under AddressSanitizer, and under valgrind where its header was there at
 * build time, free ranges that the host can see may not be touched: a use
 * after free of device memory is reported like one of the heap.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sanitizer.h"

#if KILNI_ASAN

#include <sanitizer/asan_interface.h>

#define KILNI_POISON 1

static inline bool kilni_poison_works(void)
{
	return true;
}

static inline void kilni_poison(uint64_t address, uint64_t bytes)
{
	__asan_poison_memory_region((void *)(uintptr_t)address, (size_t)bytes);
}

static inline void kilni_unpoison(uint64_t address, uint64_t bytes)
{
	__asan_unpoison_memory_region((void *)(uintptr_t)address,
				      (size_t)bytes);
}

#elif defined(KILNI_MEMCHECK)

#include <valgrind/memcheck.h>

#define KILNI_POISON 1

/* The requests below are a few instructions that do nothing elsewhere. */
static inline bool kilni_poison_works(void)
{
	return RUNNING_ON_VALGRIND;
}

static inline void kilni_poison(uint64_t address, uint64_t bytes)
{
	(void)VALGRIND_MAKE_MEM_NOACCESS((uintptr_t)address, bytes);
}

static inline void kilni_unpoison(uint64_t address, uint64_t bytes)
{
	(void)VALGRIND_MAKE_MEM_UNDEFINED((uintptr_t)address, bytes);
}

#else

#define KILNI_POISON 0

static inline bool kilni_poison_works(void)
{
	return false;
}

static inline void kilni_poison(uint64_t address, uint64_t bytes)
{
	(void)address;
	(void)bytes;
}

static inline void kilni_unpoison(uint64_t address, uint64_t bytes)
{
	(void)address;
	(void)bytes;
}

#endif

#endif
