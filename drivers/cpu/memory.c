/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "drivers/cpu/internal.h"
#include "drivers/cpu/map.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define HUGE_BYTES ((uint64_t)2 << 20)

static const struct kilni_cpu_hw *cpu_hw(const struct kilni_hw *hw)
{
	return (const struct kilni_cpu_hw *)(const void *)hw;
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

uint64_t kilni_cpu_memory_bytes(uint64_t cgroup_bytes)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return cgroup_bytes == UINT64_MAX ? 0 : cgroup_bytes;
	return kilni_min_u64((uint64_t)info.totalram * info.mem_unit,
			     cgroup_bytes);
}

static void memory_limits(const struct kilni_hw *hw,
			  struct kilni_memory_limits *limits)
{
	*limits = cpu_hw(hw)->limits;
}

/*
 * Pages go where they are first touched, which is right on one node. On more
 * the caller may touch them first, far from the workers: then on the workers'
 * node, or in turn on their nodes. A refusal costs speed alone.
 */
static void bind_nodes(const struct kilni_cpu_hw *hw, void *base,
		       uint64_t bytes)
{
	const struct kilni_topology *topology = &hw->topology;

	if (topology->machine_nodes < 2 || !topology->nodes)
		return;
	syscall(SYS_mbind, base, bytes,
		topology->nodes == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE,
		topology->node_set, (unsigned long)KILNI_NODES_MOST, 0u);
}

/* Maps bytes at a multiple of align, or of a page; NULL with errno set. */
static void *map_aligned(uint64_t bytes, uint64_t align)
{
	uint64_t head = 0, address, span = bytes + align;
	void *base;

	if (span < bytes) {
		errno = ENOMEM;
		return NULL;
	}
	base = mmap(NULL, span, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	address = (uintptr_t)base;
	if (align)
		head = kilni_align_up(address, align) - address;
	if (head)
		munmap(base, head);
	if (align - head)
		munmap(pointer(address + head + bytes), align - head);
	return pointer(address + head);
}

/* How the system shall back it; a refusal costs speed alone. */
static void advise(struct kilni_hw *hw, void *base, uint64_t bytes)
{
	if (bytes >= HUGE_BYTES)
		(void)madvise(base, bytes, MADV_HUGEPAGE);
	bind_nodes(cpu_hw(hw), base, bytes);
}

void *kilni_cpu_map_pages(struct kilni_hw *hw, uint64_t bytes)
{
	void *base = map_aligned(bytes, bytes >= HUGE_BYTES ? HUGE_BYTES : 0);

	if (base)
		advise(hw, base, bytes);
	return base;
}

bool kilni_cpu_fresh_pages(struct kilni_hw *hw, void *base, uint64_t bytes)
{
	if (mmap(base, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return false;
	advise(hw, base, bytes);
	return true;
}

static enum kiln_status memory_page_alloc(struct kilni_hw *hw, uint64_t bytes,
					  struct kilni_page *page)
{
	void *base;

	KILNI_TRY(KILNI_FAULT("page_alloc"));
	base = kilni_cpu_map_pages(hw, bytes);
	if (!base)
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, errno,
				  "cpu: page of %" PRIu64 " bytes: %s", bytes,
				  strerror(errno));
	page->address = (uintptr_t)base;
	page->bytes = bytes;
	page->handle = 0;
	return KILN_OK;
}

static void memory_page_free(struct kilni_hw *hw,
			     const struct kilni_page *page)
{
	(void)hw;
	munmap(pointer(page->address), page->bytes);
}

static enum kiln_status memory_write(struct kilni_hw *hw, uint64_t to,
				     const void *from, uint64_t bytes)
{
	(void)hw;
	KILNI_TRY(KILNI_FAULT("write"));
	if (bytes)
		memcpy(pointer(to), from, bytes);
	return KILN_OK;
}

static enum kiln_status memory_read(struct kilni_hw *hw, void *to,
				    uint64_t from, uint64_t bytes)
{
	(void)hw;
	KILNI_TRY(KILNI_FAULT("read"));
	if (bytes)
		memcpy(to, pointer(from), bytes);
	return KILN_OK;
}

const struct kilni_memory_ops kilni_cpu_memory_ops = {
	.adopt = kilni_memory_stub_adopt,
	.limits = memory_limits,
	.page_alloc = memory_page_alloc,
	.page_free = memory_page_free,
	.map_reserve = kilni_cpu_map_reserve,
	.map_unreserve = kilni_cpu_map_unreserve,
	.map_create = kilni_cpu_map_create,
	.map_destroy = kilni_cpu_map_destroy,
	.map_attach = kilni_cpu_map_attach,
	.map_detach = kilni_cpu_map_detach,
	.write = memory_write,
	.read = memory_read,
	.host_pin = kilni_memory_stub_host_pin,
	.host_unpin = kilni_memory_stub_host_unpin,
};
