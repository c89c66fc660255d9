/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_ALLOC_POISON_H
#define KILNI_ALLOC_POISON_H

/*
 * Under AddressSanitizer free ranges that the host can see are poisoned, so
 * that a use after free of device memory is reported like one of the heap.
 */

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define KILNI_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILNI_POISON 1
#endif
#endif

#ifdef KILNI_POISON

#include <sanitizer/asan_interface.h>

static inline void kilni_poison(uint64_t address, uint64_t bytes)
{
	__asan_poison_memory_region((void *)(uintptr_t)address, (size_t)bytes);
}

static inline void kilni_unpoison(uint64_t address, uint64_t bytes)
{
	__asan_unpoison_memory_region((void *)(uintptr_t)address,
				      (size_t)bytes);
}

#else

#define KILNI_POISON 0

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
