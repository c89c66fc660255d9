/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The side of a planned process. */

int kilni_plan_on;
int kilni_plan_worked;

/* A device's place in the file. */
struct kilni_plan_slot {
	pthread_mutex_t lock;      /* of what follows and of the place */
	struct kilni_plan_device *shared;
	struct kilni_plan_account account;
};

static struct kilni_plan_file *file;
static uint64_t steps;             /* of this process, atomic */
static unsigned steps_epoch;       /* the process that made them */

/* ---- which device a selector gives ---- */

#define NAMES_MAX 16

static char names[NAMES_MAX][64];
static unsigned name_count;

static bool has_target(const struct kilni_driver *driver, const char *target)
{
	const char *const *name = driver->targets;

	for (; name && *name; name++)
		if (!strcmp(*name, target))
			return true;
	return false;
}

static enum kiln_status find_target(const char *target,
				    const struct kilni_driver **driver)
{
	if (!kiln_plan_target(0))
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "KILN_PLAN: this build has no driver for "
				  "plans");
	for (size_t i = 0; kilni_driver_list[i]; i++)
		if (has_target(kilni_driver_list[i], target)) {
			*driver = kilni_driver_list[i];
			return KILN_OK;
		}
	return kilni_fail(KILN_ERR_OPTION, 0,
			  "KILN_PLAN: \"%.40s\" is no target", target);
}

static enum kiln_status find_name(const char *name, unsigned *index)
{
	unsigned i = 0;

	while (i < name_count && strcmp(names[i], name))
		i++;
	if (i == NAMES_MAX)
		return kilni_fail(KILN_ERR_NO_DEVICE, 0,
				  "kiln_device_open: \"%s\": a plan has %d "
				  "devices at most",
				  name, NAMES_MAX);
	if (i == name_count)
		snprintf(names[name_count++], sizeof(names[0]), "%s", name);
	*index = i;
	return KILN_OK;
}

enum kiln_status kilni_plan_choose(const char *selector,
				   struct kilni_place *place,
				   const char **name)
{
	const char *target = kilni_option_text(KILNI_OPT_PLAN);
	bool is_auto = !strcmp(selector, "auto");
	const struct kilni_driver *driver;
	char full[64];
	unsigned index;
	int length;

	KILNI_TRY(find_target(target ? target : "", &driver));
	length = snprintf(full, sizeof(full), "%s%s",
			  is_auto ? target : selector,
			  strchr(selector, ':') ? "" : ":0");
	if (length < 0 || (size_t)length >= sizeof(full))
		return kilni_fail(KILN_ERR_SELECTOR, 0,
				  "kiln_device_open: \"%.100s\" is too long",
				  selector);
	KILNI_TRY(find_name(full, &index));
	*name = names[index];
	return kilni_place_look(driver, index, place);
}

/* ---- the file ---- */

static enum kiln_status fail_of_file(const char *path, int code)
{
	return kilni_fail(KILN_ERR_OPTION, code, "KILN_PLAN_REPORT: %.200s: %s",
			  path, strerror(code));
}

/* Whether the file was made by kiln_plan_create() of this version. */
static enum kiln_status check_file(const char *path, int fd)
{
	struct kilni_plan_file head;
	struct stat about;

	if (fstat(fd, &about))
		return fail_of_file(path, errno);
	if (!S_ISREG(about.st_mode) || about.st_size != sizeof(head) ||
	    pread(fd, &head, offsetof(struct kilni_plan_file, device), 0) !=
		    offsetof(struct kilni_plan_file, device) ||
	    head.magic != KILNI_PLAN_MAGIC ||
	    head.version != KILNI_PLAN_VERSION || head.bytes != sizeof(head))
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "KILN_PLAN_REPORT: %.200s is no report of "
				  "this version",
				  path);
	return KILN_OK;
}

static enum kiln_status open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	enum kiln_status status;

	if (fd < 0)
		return fail_of_file(path, errno);
	status = check_file(path, fd);
	if (status == KILN_OK)
		status = kilni_plan_map(fd, path, &file);
	close(fd);
	return status;
}

/* A place for the device, or NULL: all are taken. */
static struct kilni_plan_device *take_place(const char *selector)
{
	uint32_t place = __atomic_fetch_add(&file->taken, 1, __ATOMIC_ACQ_REL);
	struct kilni_plan_device *device;

	if (place >= KILN_PLAN_DEVICES_MAX) {
		kilni_log(KILNI_LOG_WARN, "plan: no place to report %s",
			  selector);
		return NULL;
	}
	device = &file->device[place];
	snprintf(device->selector, sizeof(device->selector), "%s", selector);
	__atomic_store_n(&device->process, getpid(), __ATOMIC_RELEASE);
	return device;
}

enum kiln_status kilni_plan_join(struct kiln_device *device)
{
	const char *path = kilni_option_text(KILNI_OPT_PLAN_REPORT);
	struct kilni_plan_slot *slot;

	if (!path)
		return KILN_OK;
	if (!file)
		KILNI_TRY(open_file(path));
	/* A forked child makes steps of its own. */
	if (steps_epoch != kilni_fork_epoch) {
		steps_epoch = kilni_fork_epoch;
		__atomic_store_n(&steps, 0, __ATOMIC_RELEASE);
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_device_open: no memory for a plan");
	pthread_mutex_init(&slot->lock, NULL);
	slot->account.usage.struct_size = sizeof(slot->account.usage);
	slot->account.calls.struct_size = sizeof(slot->account.calls);
	slot->shared = take_place(device->selector);
	device->plan = slot;
	return KILN_OK;
}

/* ---- the account ---- */

static bool is_over(void)
{
	return file->step_limit &&
	       __atomic_load_n(&steps, __ATOMIC_ACQUIRE) >= file->step_limit;
}

/* With the slot's lock held. */
static void publish(struct kilni_plan_slot *slot)
{
	struct kilni_plan_device *shared = slot->shared;
	uint32_t next = shared->whole + 1;

	/* Whoever reads the old account has to see first that it is old. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	shared->account[next & 1] = slot->account;
	__atomic_store_n(&shared->whole, next, __ATOMIC_RELEASE);
}

static void read_pools(struct kilni_pools *pools,
		       struct kilni_plan_account *account)
{
	size_t room = KILN_PLAN_POOLS_MAX, count, special;

	for (size_t i = 0; i < room; i++)
		account->pool[i].struct_size = sizeof(account->pool[i]);
	count = kilni_pools_report(pools, account->pool, room);
	count = count < room ? count : room;
	special = kilni_pools_special(pools, account->pool + count,
				      room - count);
	count += special;
	account->pools = count < room ? count : room;
}

/* Brings the account up to date; bytes is a request. */
static void note(struct kiln_device *device, uint64_t bytes)
{
	struct kilni_pools *pools = kilni_device_pools(device);
	struct kilni_plan_slot *slot = device->plan;
	struct kilni_plan_account *account = &slot->account;
	uint64_t peak;

	pthread_mutex_lock(&slot->lock);
	peak = account->usage.peak_reserved_bytes;
	account->largest_request_bytes =
		kilni_max_u64(account->largest_request_bytes, bytes);
	kilni_pools_usage(pools, &account->usage);
	kilni_pools_calls(pools, &account->calls);
	if (account->usage.peak_reserved_bytes > peak)
		read_pools(pools, account);
	publish(slot);
	pthread_mutex_unlock(&slot->lock);
}

void kilni_plan_note_memory(struct kiln_device *device, uint64_t bytes)
{
	if (device->plan && device->plan->shared && !is_over())
		note(device, bytes);
}

void kilni_plan_note_wait(struct kiln_device *device)
{
	uint64_t made;

	if (!device->plan || !device->plan->shared || is_over() ||
	    !__atomic_exchange_n(&kilni_plan_worked, 0, __ATOMIC_ACQ_REL))
		return;
	note(device, 0);
	made = __atomic_add_fetch(&steps, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&device->plan->shared->steps, made, __ATOMIC_RELEASE);
}

void kilni_plan_leave(struct kiln_device *device)
{
	if (!device->plan)
		return;
	kilni_plan_note_memory(device, 0);
	pthread_mutex_destroy(&device->plan->lock);
	free(device->plan);
	device->plan = NULL;
}
