/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_ALIGNMENT 256
#define PAGE_GRANULARITY 65536
#define RESERVE_BYTES ((uint64_t)1 << 40)

/* ---- limits ---- */

static struct cu_page_properties page_properties(const struct kilni_cuda_hw *hw)
{
	struct cu_page_properties p;
	int able = 0;

	memset(&p, 0, sizeof(p));
	p.type = 1;
	p.location.type = 1;
	p.location.id = hw->device;
	if (kilni_cuda.device_attribute(&able, CU_EXPORTS_FD, hw->device) ==
		    CU_OK &&
	    able)
		p.handle_types = 1;
	able = 0;
	if (kilni_cuda.device_attribute(&able, CU_RDMA_PAGES, hw->device) ==
		    CU_OK &&
	    able)
		p.rdma = 1;
	return p;
}

/* Whether the driver and the device have virtual memory. */
static bool can_map(const struct kilni_cuda_hw *hw)
{
	int able = 0;

	return kilni_cuda.pages_reserve && kilni_cuda.pages_unreserve &&
	       kilni_cuda.pages_create && kilni_cuda.pages_destroy &&
	       kilni_cuda.pages_map && kilni_cuda.pages_unmap &&
	       kilni_cuda.pages_access && kilni_cuda.pages_granularity &&
	       kilni_cuda.device_attribute(&able, CU_VIRTUAL_MEMORY,
					   hw->device) == CU_OK &&
	       able;
}

void kilni_cuda_memory_init(struct kilni_cuda_hw *hw, uint64_t total_bytes)
{
	struct cu_page_properties properties;
	size_t granularity = 0;

	hw->limits.alignment = SLICE_ALIGNMENT;
	hw->limits.page_granularity = PAGE_GRANULARITY;
	hw->limits.max_page_bytes = total_bytes;
	hw->limits.total_bytes = total_bytes;
	hw->limits.host_visible = false;
	if (!can_map(hw))
		return;
	properties = page_properties(hw);
	if (kilni_cuda.pages_granularity(&granularity, &properties, 0) !=
		    CU_OK ||
	    !granularity || (granularity & (granularity - 1)))
		return;
	hw->limits.map_granularity = granularity;
	hw->limits.map_reserve_bytes =
		kilni_max_u64(RESERVE_BYTES, 2 * total_bytes) &
		~((uint64_t)granularity - 1);
}

static void memory_limits(const struct kilni_hw *hw,
			  struct kilni_memory_limits *limits)
{
	*limits = kilni_cuda_hw(hw)->limits;
}

/* ---- pages ---- */

static enum kiln_status memory_page_alloc(struct kilni_hw *base,
					  uint64_t bytes,
					  struct kilni_page *page)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	cu_address address = 0;
	int result;

	KILNI_TRY(KILNI_FAULT("page_alloc"));
	if (bytes > hw->limits.total_bytes)
		return kilni_fail(KILN_ERR_OUT_OF_MEMORY, 0,
				  "cuda: page of %llu bytes, the device has "
				  "%llu",
				  (unsigned long long)bytes,
				  (unsigned long long)hw->limits.total_bytes);
	KILNI_TRY(kilni_cuda_enter(hw));
	result = kilni_cuda.alloc(&address, bytes);
	kilni_cuda_leave();
	KILNI_TRY(kilni_cuda_check(hw, result, "cuMemAlloc"));
	page->address = address;
	page->bytes = bytes;
	page->handle = 0;
	return KILN_OK;
}

/* A lost device gives its memory back with its context. */
static void memory_page_free(struct kilni_hw *base,
			     const struct kilni_page *page)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	if (hw->epoch != kilni_fork_epoch || kilni_cuda_enter(hw) != KILN_OK)
		return;
	kilni_cuda_note(hw, kilni_cuda.free(page->address));
	kilni_cuda_leave();
}

/* ---- mapping ---- */

/* Runs result = expr with the context current. */
#define WITHIN(hw, what, expr)                                                 \
	do {                                                                   \
		int result_;                                                   \
		KILNI_TRY(kilni_cuda_enter(hw));                               \
		result_ = (expr);                                              \
		kilni_cuda_leave();                                            \
		KILNI_TRY(kilni_cuda_check(hw, result_, what));                \
	} while (0)

static enum kiln_status memory_map_reserve(struct kilni_hw *base,
					   uint64_t bytes, uint64_t *address)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	KILNI_TRY(KILNI_FAULT("map_reserve"));
	WITHIN(hw, "cuMemAddressReserve",
	       kilni_cuda.pages_reserve(address, bytes, 0, 0, 0));
	return KILN_OK;
}

static void memory_map_unreserve(struct kilni_hw *base, uint64_t address,
				 uint64_t bytes)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	if (hw->epoch != kilni_fork_epoch || kilni_cuda_enter(hw) != KILN_OK)
		return;
	kilni_cuda_note(hw, kilni_cuda.pages_unreserve(address, bytes));
	kilni_cuda_leave();
}

static enum kiln_status memory_map_create(struct kilni_hw *base,
					  uint64_t bytes, uint64_t *memory)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct cu_page_properties properties = page_properties(hw);

	KILNI_TRY(KILNI_FAULT("map_create"));
	WITHIN(hw, "cuMemCreate",
	       kilni_cuda.pages_create(memory, bytes, &properties, 0));
	return KILN_OK;
}

static void memory_map_destroy(struct kilni_hw *base, uint64_t memory,
			       uint64_t bytes)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	(void)bytes;
	if (hw->epoch != kilni_fork_epoch || kilni_cuda_enter(hw) != KILN_OK)
		return;
	kilni_cuda_note(hw, kilni_cuda.pages_destroy(memory));
	kilni_cuda_leave();
}

static int attach(const struct kilni_cuda_hw *hw, uint64_t address,
		  uint64_t bytes, uint64_t memory)
{
	struct cu_page_access access = { { 1, hw->device },
					 CU_ACCESS_READ_WRITE };
	int result = kilni_cuda.pages_map(address, bytes, 0, memory, 0);

	if (result != CU_OK)
		return result;
	result = kilni_cuda.pages_access(address, bytes, &access, 1);
	if (result != CU_OK)
		(void)kilni_cuda.pages_unmap(address, bytes);
	return result;
}

static enum kiln_status memory_map_attach(struct kilni_hw *base,
					  uint64_t address, uint64_t bytes,
					  uint64_t memory)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	KILNI_TRY(KILNI_FAULT("map_attach"));
	WITHIN(hw, "cuMemMap", attach(hw, address, bytes, memory));
	return KILN_OK;
}

static enum kiln_status memory_map_detach(struct kilni_hw *base,
					  uint64_t address, uint64_t bytes,
					  uint64_t memory)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);

	(void)memory;
	KILNI_TRY(KILNI_FAULT("map_detach"));
	WITHIN(hw, "cuMemUnmap", kilni_cuda.pages_unmap(address, bytes));
	return KILN_OK;
}

/* ---- lanes ---- */

static struct kilni_cuda_hw *hw_of(struct kilni_staging *lanes)
{
	return (void *)((char *)lanes -
			offsetof(struct kilni_cuda_hw, staging.lanes));
}

static void close_lane(struct kilni_staging *lanes, unsigned lane)
{
	struct kilni_cuda_staging *s = &hw_of(lanes)->staging;

	(void)kilni_cuda.event_destroy(s->done[lane]);
	(void)kilni_cuda.host_free(lanes->lane[lane].memory);
}

static int make_lane(cu_event *done, char **memory)
{
	void *pinned = NULL;
	int result = kilni_cuda.host_alloc(&pinned, KILNI_STAGING_LANE_BYTES,
					   CU_HOST_PORTABLE);

	if (result != CU_OK)
		return result;
	result = kilni_cuda.event_create(done, CU_EVENT_NO_TIMING);
	if (result != CU_OK)
		(void)kilni_cuda.host_free(pinned);
	else
		*memory = pinned;
	return result;
}

static enum kiln_status open_lane(struct kilni_staging *lanes, unsigned lane,
				  char **memory)
{
	struct kilni_cuda_hw *hw = hw_of(lanes);

	WITHIN(hw, "staging memory",
	       make_lane(&hw->staging.done[lane], memory));
	return KILN_OK;
}

static int start_on(struct kilni_cuda_staging *s,
		    const struct kilni_staged *copy, unsigned lane,
		    uint64_t offset, uint64_t bytes)
{
	char *memory = s->lanes.lane[lane].memory;
	uint64_t at = copy->at + offset;
	int result;

	result = copy->up ? kilni_cuda.copy_in(at, memory, bytes, s->stream)
			  : kilni_cuda.copy_out(memory, at, bytes, s->stream);
	if (result != CU_OK)
		return result;
	result = kilni_cuda.event_record(s->done[lane], s->stream);
	if (result != CU_OK)
		(void)kilni_cuda.stream_sync(s->stream);
	return result;
}

static int finish_on(struct kilni_cuda_staging *s, unsigned lane)
{
	int result = kilni_cuda.event_sync(s->done[lane]);

	if (result != CU_OK)
		(void)kilni_cuda.stream_sync(s->stream);
	return result;
}

static const char *direction(const struct kilni_staged *copy)
{
	return copy->up ? "copy to the device" : "copy from the device";
}

static enum kiln_status enter_context(struct kilni_staging *lanes)
{
	return kilni_cuda_enter(hw_of(lanes));
}

static void leave_context(struct kilni_staging *lanes)
{
	(void)lanes;
	kilni_cuda_leave();
}

static enum kiln_status start_lane(const struct kilni_staged *copy,
				   unsigned lane, uint64_t offset,
				   uint64_t bytes)
{
	struct kilni_cuda_hw *hw = hw_of(copy->staging);

	return kilni_cuda_check(hw,
				start_on(&hw->staging, copy, lane, offset,
					 bytes),
				direction(copy));
}

static enum kiln_status finish_lane(const struct kilni_staged *copy,
				    unsigned lane, bool alone)
{
	struct kilni_cuda_hw *hw = hw_of(copy->staging);

	(void)alone;
	return kilni_cuda_check(hw, finish_on(&hw->staging, lane),
				direction(copy));
}

/* Pinned memory is slow to get: not before the first copy. */
static const struct kilni_staging_ops staging_ops = {
	.enter = enter_context,
	.leave = leave_context,
	.open = open_lane,
	.close = close_lane,
	.start = start_lane,
	.finish = finish_lane,
};

enum kiln_status kilni_cuda_staging_init(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_staging *s = &hw->staging;
	int result = kilni_cuda.stream_create(&s->stream,
					      CU_STREAM_NON_BLOCKING);

	if (result != CU_OK)
		return kilni_cuda_check(hw, result, "cuStreamCreate");
	kilni_staging_init(&s->lanes, &staging_ops);
	pthread_mutex_init(&s->pins, NULL);
	pthread_cond_init(&s->pins_left, NULL);
	return KILN_OK;
}

void kilni_cuda_staging_fini(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_staging *s = &hw->staging;

	kilni_staging_fini(&s->lanes);
	(void)kilni_cuda.stream_destroy(s->stream);
	for (struct kilni_cuda_pinned *p = s->left; p; p = p->next)
		(void)kilni_cuda.host_unregister(p->memory);
	pthread_mutex_destroy(&s->pins);
	pthread_cond_destroy(&s->pins_left);
}

void kilni_cuda_pins_fini(struct kilni_cuda_hw *hw)
{
	struct kilni_cuda_pinned *pinned;

	while ((pinned = hw->staging.left)) {
		hw->staging.left = pinned->next;
		if (pinned->gone)
			pinned->gone(pinned->memory);
		free(pinned);
	}
}

/* ---- copies ---- */

/* What holds the range, and stays until it is left; NULL: nothing does. */
static struct kilni_cuda_pinned *use_pinned(struct kilni_cuda_staging *s,
					    const char *memory, uint64_t bytes)
{
	struct kilni_cuda_pinned *p;

	pthread_mutex_lock(&s->pins);
	for (p = s->pinned; p; p = p->next)
		if (memory >= p->memory && memory < p->memory + p->bytes &&
		    bytes <= (uint64_t)(p->memory + p->bytes - memory))
			break;
	if (p)
		p->users++;
	pthread_mutex_unlock(&s->pins);
	return p;
}

static void leave_pinned(struct kilni_cuda_staging *s,
			 struct kilni_cuda_pinned *pinned)
{
	pthread_mutex_lock(&s->pins);
	if (!--pinned->users)
		pthread_cond_broadcast(&s->pins_left);
	pthread_mutex_unlock(&s->pins);
}

/* Memory of the caller's that the device can reach. */
static int move_pinned(struct kilni_cuda_staging *s,
		       const struct kilni_staged *copy)
{
	int result, synced;

	result = copy->up ? kilni_cuda.copy_in(copy->at, copy->host,
					       copy->bytes, s->stream)
			  : kilni_cuda.copy_out(copy->host, copy->at,
						copy->bytes, s->stream);
	synced = kilni_cuda.stream_sync(s->stream);
	return result == CU_OK ? synced : result;
}

static enum kiln_status copy_pinned(struct kilni_cuda_hw *hw,
				    const struct kilni_staged *copy)
{
	WITHIN(hw, direction(copy), move_pinned(&hw->staging, copy));
	return KILN_OK;
}

static enum kiln_status move(struct kilni_cuda_hw *hw, uint64_t at, void *host,
			     uint64_t bytes, bool up)
{
	struct kilni_cuda_staging *s = &hw->staging;
	const struct kilni_staged copy = { .staging = &s->lanes, .at = at,
					   .host = host, .bytes = bytes,
					   .up = up };
	struct kilni_cuda_pinned *pinned;
	enum kiln_status status;

	if (!bytes)
		return KILN_OK;
	KILNI_TRY(kilni_cuda_alive(hw));
	pinned = use_pinned(s, host, bytes);
	pthread_mutex_lock(&s->lanes.lock);
	status = pinned ? copy_pinned(hw, &copy) : kilni_staging_copy(&copy);
	pthread_mutex_unlock(&s->lanes.lock);
	if (pinned)
		leave_pinned(s, pinned);
	return status;
}

static enum kiln_status memory_write(struct kilni_hw *base, uint64_t to,
				     const void *from, uint64_t bytes)
{
	KILNI_TRY(KILNI_FAULT("write"));
	return move(kilni_cuda_hw(base), to, (void *)(uintptr_t)from, bytes,
		    true);
}

static enum kiln_status memory_read(struct kilni_hw *base, void *to,
				    uint64_t from, uint64_t bytes)
{
	KILNI_TRY(KILNI_FAULT("read"));
	return move(kilni_cuda_hw(base), from, to, bytes, false);
}

/* ---- memory of the caller's ---- */

static enum kiln_status memory_host_pin(struct kilni_hw *base, void *memory,
					uint64_t bytes)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct kilni_cuda_pinned *pinned;
	int result;

	KILNI_TRY(KILNI_FAULT("host_pin"));
	if (!kilni_cuda.host_register || !kilni_cuda.host_unregister)
		return KILN_ERR_UNSUPPORTED;
	pinned = malloc(sizeof(*pinned));
	if (!pinned)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "cuda: no memory to note a pinned range");
	*pinned = (struct kilni_cuda_pinned){ .memory = memory,
					      .bytes = bytes };
	if (kilni_cuda_enter(hw) != KILN_OK) {
		free(pinned);
		return kiln_error_status();
	}
	result = kilni_cuda.host_register(memory, bytes, CU_HOST_PORTABLE);
	kilni_cuda_leave();
	if (result != CU_OK) {
		free(pinned);
		return kilni_cuda_check(hw, result, "cuMemHostRegister");
	}
	pthread_mutex_lock(&hw->staging.pins);
	pinned->next = hw->staging.pinned;
	hw->staging.pinned = pinned;
	pthread_mutex_unlock(&hw->staging.pins);
	return KILN_OK;
}

/* Takes the range out of the list when no copy uses it any more. */
static struct kilni_cuda_pinned *take_pinned(struct kilni_cuda_staging *s,
					     const void *memory)
{
	struct kilni_cuda_pinned **at = &s->pinned, *found;

	pthread_mutex_lock(&s->pins);
	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	while (found && found->users)
		pthread_cond_wait(&s->pins_left, &s->pins);
	pthread_mutex_unlock(&s->pins);
	return found;
}

/* False: a broken context, which takes no call and may still copy. */
static bool unregister(struct kilni_cuda_hw *hw, void *memory)
{
	struct kilni_error_record before;
	bool entered;

	kilni_error_save(&before);
	entered = kilni_cuda_enter(hw) == KILN_OK;
	if (entered) {
		kilni_cuda_note(hw, kilni_cuda.host_unregister(memory));
		kilni_cuda_leave();
	}
	kilni_error_restore(&before);
	return entered && !kilni_cuda_is_lost(hw);
}

static bool memory_host_unpin(struct kilni_hw *base, void *memory,
			      uint64_t bytes, void (*gone)(void *memory))
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct kilni_cuda_staging *s = &hw->staging;
	struct kilni_cuda_pinned *found = take_pinned(s, memory);

	(void)bytes;
	if (found && !unregister(hw, memory)) {
		found->gone = gone;
		pthread_mutex_lock(&s->pins);
		found->next = s->left;
		s->left = found;
		pthread_mutex_unlock(&s->pins);
		return false;
	}
	free(found);
	if (gone)
		gone(memory);
	return true;
}

/* ---- memory of others ---- */

/* The library's result where it does not know an address. */
#define INVALID_VALUE 1

struct pointer {
	unsigned type;
	int ordinal;
	cu_address start;
	size_t bytes;
};

static int ask(struct pointer *p, cu_address address)
{
	int result = kilni_cuda.pointer_attribute(
		&p->type, CU_POINTER_MEMORY_TYPE, address);

	if (result == CU_OK)
		result = kilni_cuda.pointer_attribute(
			&p->ordinal, CU_POINTER_ORDINAL, address);
	if (result == CU_OK)
		result = kilni_cuda.pointer_attribute(
			&p->start, CU_POINTER_RANGE_START, address);
	if (result == CU_OK)
		result = kilni_cuda.pointer_attribute(
			&p->bytes, CU_POINTER_RANGE_BYTES, address);
	return result;
}

static enum kiln_status judge(const struct kilni_cuda_hw *hw,
			      const struct pointer *p, uint64_t address,
			      uint64_t bytes)
{
	if (p->type != 2 && p->type != 4)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cuda: %#llx is memory of the host",
				  (unsigned long long)address);
	if (p->ordinal != (int)hw->base.index)
		return kilni_fail(KILN_ERR_DEVICE, 0,
				  "cuda: %#llx is memory of device %d, not %d",
				  (unsigned long long)address, p->ordinal,
				  (int)hw->base.index);
	if (address - p->start > p->bytes ||
	    bytes > p->bytes - (address - p->start))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "cuda: %llu bytes at %#llx; the memory there "
				  "ends after %llu", (unsigned long long)bytes,
				  (unsigned long long)address,
				  (unsigned long long)(p->bytes -
						       (address - p->start)));
	return KILN_OK;
}

static enum kiln_status memory_adopt(struct kilni_hw *base, uint64_t address,
				     uint64_t bytes)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct pointer p = { .type = 0 };
	int result;

	if (!kilni_cuda.pointer_attribute)
		return KILNI_UNSUPPORTED("cuda: memory of others");
	KILNI_TRY(kilni_cuda_alive(hw));
	KILNI_TRY(kilni_cuda_enter(hw));
	result = ask(&p, address);
	kilni_cuda_leave();
	if (result == INVALID_VALUE)
		return kilni_fail(KILN_ERR_UNSUPPORTED, result,
				  "cuda: %#llx is no memory of a device",
				  (unsigned long long)address);
	KILNI_TRY(kilni_cuda_check(hw, result, "cuPointerGetAttribute"));
	return judge(hw, &p, address, bytes);
}

const struct kilni_memory_ops kilni_cuda_memory_ops = {
	.adopt = memory_adopt,
	.limits = memory_limits,
	.page_alloc = memory_page_alloc,
	.page_free = memory_page_free,
	.map_reserve = memory_map_reserve,
	.map_unreserve = memory_map_unreserve,
	.map_create = memory_map_create,
	.map_destroy = memory_map_destroy,
	.map_attach = memory_map_attach,
	.map_detach = memory_map_detach,
	.write = memory_write,
	.read = memory_read,
	.host_pin = memory_host_pin,
	.host_unpin = memory_host_unpin,
};
