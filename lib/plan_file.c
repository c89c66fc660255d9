/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The side of whoever plans. */

struct kiln_plan {
	struct kilni_object object;
	struct kilni_plan_file *file;
	char *path;
};

static const struct kilni_object_ops plan_kind = { "plan" };

const char *kiln_plan_target(size_t index)
{
	for (size_t i = 0; kilni_driver_list[i]; i++) {
		const char *const *name = kilni_driver_list[i]->targets;

		for (; name && *name; name++)
			if (!index--)
				return *name;
	}
	return NULL;
}

/* ---- making and ending ---- */

enum kiln_status kilni_plan_map(int file, const char *name,
				struct kilni_plan_file **out)
{
	void *base = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE,
			  MAP_SHARED, file, 0);

	if (base == MAP_FAILED)
		return kilni_fail(KILN_ERR_IO, errno, "%s: cannot be mapped: %s",
				  name, strerror(errno));
	*out = base;
	return KILN_OK;
}

static enum kiln_status fail_of_file(const char *path, int code)
{
	return kilni_fail(KILN_ERR_IO, code, "kiln_plan_create: %s: %s", path,
			  strerror(code));
}

/* The room is taken in advance: nobody finds the disk full later. */
static enum kiln_status make_file(struct kiln_plan *plan, uint64_t steps)
{
	enum kiln_status status;
	int code, file;

	file = open(plan->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return fail_of_file(plan->path, errno);
	code = posix_fallocate(file, 0, sizeof(*plan->file));
	if (code)
		status = fail_of_file(plan->path, code);
	else
		status = kilni_plan_map(file, plan->path, &plan->file);
	close(file);
	if (status != KILN_OK) {
		unlink(plan->path);
		return status;
	}
	plan->file->version = KILNI_PLAN_VERSION;
	plan->file->bytes = sizeof(*plan->file);
	plan->file->step_limit = steps;
	__atomic_store_n(&plan->file->magic, KILNI_PLAN_MAGIC,
			 __ATOMIC_RELEASE);
	return KILN_OK;
}

static enum kiln_status new_plan(struct kiln_plan **out, const char *path)
{
	struct kiln_plan *plan = calloc(1, sizeof(*plan));

	if (plan)
		plan->path = strdup(path);
	if (!plan || !plan->path) {
		free(plan);
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_plan_create: no memory");
	}
	kilni_object_init(&plan->object, &plan_kind);
	*out = plan;
	return KILN_OK;
}

static void free_plan(struct kiln_plan *plan)
{
	plan->object.ops = NULL;
	free(plan->path);
	free(plan);
}

enum kiln_status kiln_plan_create(struct kiln_plan **out, const char *path,
				  uint64_t steps)
{
	struct kiln_plan *plan, *old;
	enum kiln_status status;

	if (!out || !path || !*path)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_plan_create: out or path is NULL, or "
				  "the path is empty");
	if (*out)
		KILNI_TRY(kilni_object_check(*out, &plan_kind, __func__,
					     "*out"));
	kilni_fork_watch();
	KILNI_TRY(new_plan(&plan, path));
	status = make_file(plan, steps);
	if (status != KILN_OK) {
		free_plan(plan);
		return status;
	}
	old = *out;
	*out = plan;
	kiln_plan_release(old);
	return KILN_OK;
}

struct kiln_plan *kiln_plan_retain(struct kiln_plan *plan)
{
	kilni_object_retain(&plan->object);
	return plan;
}

void kiln_plan_release(struct kiln_plan *plan)
{
	if (!plan || !kilni_object_drop(&plan->object))
		return;
	munmap(plan->file, sizeof(*plan->file));
	unlink(plan->path);
	free_plan(plan);
}

/* ---- reading ---- */

static uint32_t device_count(const struct kiln_plan *plan)
{
	uint32_t taken = __atomic_load_n(&plan->file->taken, __ATOMIC_ACQUIRE);

	return taken < KILN_PLAN_DEVICES_MAX ? taken : KILN_PLAN_DEVICES_MAX;
}

uint64_t kiln_plan_steps(const struct kiln_plan *plan)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < device_count(plan); i++)
		most = kilni_max_u64(
			most, __atomic_load_n(&plan->file->device[i].steps,
					      __ATOMIC_ACQUIRE));
	return most;
}

/*
 * Two accounts that come while this one is copied write over it: after the
 * first it is copied anew. A process that was killed writes no more.
 */
static void copy_account(struct kilni_plan_account *to,
			 const struct kilni_plan_device *device)
{
	uint32_t before, after;

	do {
		before = __atomic_load_n(&device->whole, __ATOMIC_ACQUIRE);
		*to = device->account[before & 1];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = __atomic_load_n(&device->whole, __ATOMIC_RELAXED);
	} while (after != before);
}

static void fill_info(struct kiln_plan_info *info,
		      const struct kilni_plan_device *device)
{
	struct kilni_plan_account account;

	copy_account(&account, device);
	info->process = __atomic_load_n(&device->process, __ATOMIC_ACQUIRE);
	info->steps = __atomic_load_n(&device->steps, __ATOMIC_ACQUIRE);
	memcpy(info->selector, device->selector, sizeof(info->selector));
	info->selector[sizeof(info->selector) - 1] = '\0';
	info->largest_request_bytes = account.largest_request_bytes;
	info->usage = account.usage;
	info->calls = account.calls;
	info->pool_count = kilni_min_u64(account.pools, KILN_PLAN_POOLS_MAX);
	memcpy(info->pool, account.pool, sizeof(info->pool));
}

static enum kiln_status check_infos(const struct kiln_plan_info *infos,
				    size_t count)
{
	for (size_t i = 0; infos && i < count; i++)
		if (infos[i].struct_size != sizeof(*infos))
			return kilni_fail(KILN_ERR_INVALID, 0,
					  "kiln_plan_read: struct_size %zu is "
					  "unknown",
					  infos[i].struct_size);
	return KILN_OK;
}

enum kiln_status kiln_plan_read(struct kiln_plan *plan,
				struct kiln_plan_info *infos, size_t *count,
				uint64_t *lost)
{
	size_t capacity, found = 0;

	KILNI_TRY(kilni_object_check(plan, &plan_kind, __func__, "plan"));
	if (!count)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_plan_read: count is NULL");
	KILNI_TRY(check_infos(infos, *count));
	capacity = infos ? *count : 0;
	for (uint32_t i = 0; i < device_count(plan); i++) {
		const struct kilni_plan_device *d = &plan->file->device[i];

		/* One that was killed before it had a name does not count. */
		if (!__atomic_load_n(&d->process, __ATOMIC_ACQUIRE))
			continue;
		if (found < capacity)
			fill_info(&infos[found], d);
		found++;
	}
	*count = found;
	if (lost)
		*lost = __atomic_load_n(&plan->file->taken, __ATOMIC_ACQUIRE) -
			device_count(plan);
	return KILN_OK;
}
