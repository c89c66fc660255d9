/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/cpu/map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Memory without an address lies parked at one of its own. Attaching moves its
 * pages to the reserved place and detaching moves them away again, by mremap:
 * 64 MiB that have been touched move in 60 us, while giving them to the system
 * and touching fresh ones takes 10 ms. Where mremap cannot do it (some tools
 * that emulate it), the place gets fresh pages instead; what an object held is
 * not promised to anybody.
 *
 * The reservation is never left without a mapping, not for a moment: another
 * thread's mmap might land in it.
 */

struct parked {
	void *base;            /* NULL: attached, or not in existence yet */
};

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static struct parked *parked_of(uint64_t memory)
{
	return pointer(memory);
}

/* Addresses alone, at *to or anywhere. */
static void *map_nothing(void *to, uint64_t bytes, int flags)
{
	return mmap(to, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

static enum kiln_status refused(const char *what, uint64_t bytes)
{
	int code = errno;

	return kilni_fail(KILN_ERR_OUT_OF_MEMORY, code,
			  "cpu: %s %" PRIu64 " bytes: %s", what, bytes,
			  strerror(code));
}

enum kiln_status kilni_cpu_map_reserve(struct kilni_hw *hw, uint64_t bytes,
				       uint64_t *address)
{
	uint64_t grain = KILNI_CPU_MAP_GRANULARITY, base, head;
	void *start;

	(void)hw;
	KILNI_TRY(KILNI_FAULT("map_reserve"));
	start = map_nothing(NULL, bytes + grain, 0);
	if (start == MAP_FAILED)
		return refused("reserving", bytes);
	base = (uintptr_t)start;
	head = kilni_align_up(base, grain) - base;
	if (head)
		munmap(start, head);
	munmap(pointer(base + head + bytes), grain - head);
	*address = base + head;
	return KILN_OK;
}

void kilni_cpu_map_unreserve(struct kilni_hw *hw, uint64_t address,
			     uint64_t bytes)
{
	(void)hw;
	munmap(pointer(address), bytes);
}

enum kiln_status kilni_cpu_map_create(struct kilni_hw *hw, uint64_t bytes,
				      uint64_t *memory)
{
	struct parked *parked;

	KILNI_TRY(KILNI_FAULT("map_create"));
	parked = malloc(sizeof(*parked));
	if (!parked)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for an object's record");
	parked->base = kilni_cpu_map_pages(hw, bytes);
	if (!parked->base) {
		enum kiln_status status = refused("memory of", bytes);

		free(parked);
		return status;
	}
	*memory = (uintptr_t)parked;
	return KILN_OK;
}

void kilni_cpu_map_destroy(struct kilni_hw *hw, uint64_t memory, uint64_t bytes)
{
	struct parked *parked = parked_of(memory);

	(void)hw;
	munmap(parked->base, bytes);
	free(parked);
}

enum kiln_status kilni_cpu_map_attach(struct kilni_hw *hw, uint64_t address,
				      uint64_t bytes, uint64_t memory)
{
	struct parked *parked = parked_of(memory);
	void *to = pointer(address);

	KILNI_TRY(KILNI_FAULT("map_attach"));
	if (mremap(parked->base, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   to) == MAP_FAILED) {
		/* Whatever it did to the place: something lies there. */
		(void)map_nothing(to, bytes, MAP_FIXED_NOREPLACE);
		if (!kilni_cpu_fresh_pages(hw, to, bytes))
			return refused("attaching", bytes);
		munmap(parked->base, bytes);
	}
	parked->base = NULL;
	return KILN_OK;
}

enum kiln_status kilni_cpu_map_detach(struct kilni_hw *hw, uint64_t address,
				      uint64_t bytes, uint64_t memory)
{
	struct parked *parked = parked_of(memory);
	void *from = pointer(address), *to;

	KILNI_TRY(KILNI_FAULT("map_detach"));
	to = kilni_cpu_map_pages(hw, bytes);
	if (!to)
		return refused("detaching", bytes);
	/* The place keeps a mapping, which is empty, until the next call. */
	if (mremap(from, bytes, bytes,
		   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
		   to) == MAP_FAILED)
		(void)mmap(to, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			   -1, 0);
	if (map_nothing(from, bytes, MAP_FIXED) == MAP_FAILED)
		(void)madvise(from, bytes, MADV_DONTNEED);
	parked->base = to;
	return KILN_OK;
}
