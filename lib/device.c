/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/identity.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/trace.h"
#include "lib/plan.h"

/* ---- registry of open devices ---- */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kiln_device *registry;
static uint64_t next_id = 1;
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

static void lock_registry(void)
{
	pthread_mutex_lock(&registry_lock);
}

static void unlock_registry(void)
{
	pthread_mutex_unlock(&registry_lock);
}

static void start_registry(void)
{
	kilni_fork_watch();
	kilni_trace_fork_watch();
	/*
	 * So that the child of a fork never finds a lock held. The last one
	 * here is taken first: the others may be taken under it.
	 */
	kilni_op_fork_watch();
	kilni_gate_fork_watch();
	pthread_atfork(lock_registry, unlock_registry, unlock_registry);
}

static struct kiln_device *find_open(const struct kilni_driver *driver,
				     unsigned index)
{
	for (struct kiln_device *d = registry; d; d = d->next)
		if (kilni_device_is_own(d) && d->hw->driver == driver &&
		    d->hw->index == index)
			return d;
	return NULL;
}

void kilni_device_if_alive(uint64_t id,
			   void (*fn)(struct kiln_device *device, void *arg),
			   void *arg)
{
	lock_registry();
	for (struct kiln_device *d = registry; d; d = d->next)
		if (kilni_device_is_own(d) && d->id == id) {
			fn(d, arg);
			break;
		}
	unlock_registry();
}

/* ---- open and close ---- */

static void default_settings(struct kiln_settings *settings)
{
	settings->struct_size = sizeof(*settings);
	settings->float_dtype = KILN_F32;
	settings->int_dtype = KILN_I32;
	settings->bool_dtype = KILN_BOOL;
}

/* On success the options are the device's. */
static enum kiln_status create_device(const struct kilni_place *place,
				      struct kilni_option_set *options,
				      struct kiln_device **out)
{
	const struct kilni_driver *driver = place->driver;
	struct kiln_device *device = calloc(1, sizeof(*device));
	enum kiln_status status;

	if (!device)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "kiln_device_open: no memory");
	kilni_object_init(&device->object, &kilni_device_kind);
	status = driver->driver->open(place->index, &device->hw);
	if (status != KILN_OK) {
		free(device);
		return status;
	}
	status = kilni_sched_create(&device->sched, device->hw);
	if (status != KILN_OK) {
		driver->device->close(device->hw);
		free(device);
		return status;
	}
	driver->memory->limits(device->hw, &device->limits);
	device->admits = driver->program->admit != kilni_program_stubs.admit;
	device->fills = kilni_pools_fill(kilni_device_pools(device));
	device->info = place->info;
	device->options = options;
	kilni_selector_print(place, device->selector,
			     sizeof(device->selector));
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->staging, NULL);
	pthread_mutex_init(&device->marking, NULL);
	default_settings(&device->settings);
	*out = device;
	return KILN_OK;
}

static void close_device(struct kiln_device *device)
{
	const struct kilni_driver *driver = device->hw->driver;

	kilni_plan_leave(device);
	kilni_sched_destroy(device->sched);
	kilni_marks_end(device);
	driver->device->close(device->hw);
	pthread_mutex_destroy(&device->lock);
	pthread_mutex_destroy(&device->marking);
	pthread_mutex_destroy(&device->staging);
	device->object.ops = NULL;
	kilni_option_set_free(device->options);
	free(device);
}

static void enter(struct kiln_device *device)
{
	device->id = next_id++;
	device->next = registry;
	registry = device;
}

/* One that is open already, for who may ask for options. */
static enum kiln_status share(struct kiln_device *device,
			      struct kilni_option_set *options,
			      struct kiln_device **out)
{
	KILNI_TRY(kilni_option_set_check(options, device->options,
					 "kiln_device_open_with"));
	kilni_option_set_free(options);
	*out = kiln_device_retain(device);
	return KILN_OK;
}

static enum kiln_status open_locked(const struct kilni_place *place,
				    struct kilni_option_set *options,
				    struct kiln_device **out)
{
	struct kiln_device *device = find_open(place->driver, place->index);

	if (device)
		return share(device, options, out);
	KILNI_TRY(create_device(place, options, &device));
	enter(device);
	*out = device;
	return KILN_OK;
}

/* A device of a plan is known by the selector that the program names. */
static enum kiln_status open_planned(const char *selector,
				     struct kilni_option_set *options,
				     struct kiln_device **out)
{
	struct kilni_place place;
	struct kiln_device *device;
	enum kiln_status status;
	const char *name;

	__atomic_store_n(&kilni_plan_on, 1, __ATOMIC_RELAXED);
	KILNI_TRY(kilni_plan_choose(selector, &place, &name));
	device = find_open(place.driver, place.index);
	if (device)
		return share(device, options, out);
	KILNI_TRY(create_device(&place, options, &device));
	snprintf(device->selector, sizeof(device->selector), "%s", name);
	status = kilni_plan_join(device);
	if (status != KILN_OK) {
		device->options = NULL;
		close_device(device);
		return status;
	}
	enter(device);
	*out = device;
	return KILN_OK;
}

static const char *op_name(unsigned op)
{
	return kilni_ops[op].name ? kilni_ops[op].name : "";
}

/* Takes the options over where it succeeds. */
/* What is wrong with a selector that nobody gave in a call. */
static enum kiln_status blame_variable(enum kiln_status status)
{
	struct kilni_error_record why;

	kilni_error_save(&why);
	return kilni_fail(status, why.native, "KILN_DEVICE: %s", why.message);
}

static enum kiln_status open_selected(const char *selector,
				      struct kilni_option_set *options,
				      struct kiln_device **out)
{
	struct kilni_place place;
	const char *variable = NULL;
	enum kiln_status status;
	bool planned;

	KILNI_TRY(kilni_options_check());
	KILNI_TRY(kilni_fault_from_environment());
	kilni_trace_start(op_name, KILNI_OP_COUNT + KILNI_OPS_ADDED);
	if (!selector)
		selector = variable = kilni_option_text(KILNI_OPT_DEVICE);
	if (!selector)
		selector = "auto";
	planned = kilni_option_text(KILNI_OPT_PLAN) != NULL;
	status = planned ? kilni_selector_check(selector)
			 : kilni_selector_find(selector, &place);
	if (status != KILN_OK)
		return variable ? blame_variable(status) : status;
	lock_registry();
	status = planned ? open_planned(selector, options, out)
			 : open_locked(&place, options, out);
	unlock_registry();
	return status;
}

enum kiln_status kiln_device_open_with(struct kiln_device **out,
				       const char *selector,
				       const char *options)
{
	const struct kilni_option_set *before;
	struct kilni_option_set *set = NULL;
	struct kiln_device *device, *old;
	enum kiln_status status;

	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_open: out is NULL");
	pthread_once(&registry_once, start_registry);
	if (options)
		KILNI_TRY(kilni_option_set_parse(&set, options, __func__));
	before = kilni_option_set_use(set);
	status = open_selected(selector, set, &device);
	(void)kilni_option_set_use(before);
	if (status != KILN_OK) {
		kilni_option_set_free(set);
		return status;
	}
	old = *out;
	*out = device;
	kiln_device_release(old);
	return KILN_OK;
}

enum kiln_status kiln_device_open(struct kiln_device **out,
				  const char *selector)
{
	return kiln_device_open_with(out, selector, NULL);
}

struct kiln_device *kiln_device_retain(struct kiln_device *device)
{
	kilni_object_retain(&device->object);
	return device;
}

static void unlink_device(struct kiln_device *device)
{
	struct kiln_device **link = &registry;

	while (*link != device)
		link = &(*link)->next;
	*link = device->next;
}

void kiln_device_release(struct kiln_device *device)
{
	bool last;

	if (!device || !kilni_device_is_own(device))
		return;
	/* Under the lock, so that no open finds a device that is closing. */
	if (__atomic_load_n(&device->object.refs, __ATOMIC_ACQUIRE) > 1) {
		int refs = __atomic_load_n(&device->object.refs,
					   __ATOMIC_RELAXED);

		while (refs > 1)
			if (__atomic_compare_exchange_n(
				    &device->object.refs, &refs, refs - 1,
				    true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				return;
	}
	lock_registry();
	last = kilni_object_drop(&device->object);
	if (last)
		unlink_device(device);
	unlock_registry();
	if (last)
		close_device(device);
}

/* ---- what a device is ---- */

const char *kiln_device_name(const struct kiln_device *device)
{
	return device->hw->driver->name;
}

const char *kiln_device_selector(const struct kiln_device *device)
{
	return device->selector;
}

enum kiln_device_type kiln_device_type(const struct kiln_device *device)
{
	return device->hw->driver->type;
}

bool kiln_device_equal(const struct kiln_device *a, const struct kiln_device *b)
{
	return a == b || (a && b && a->hw->driver == b->hw->driver &&
			  a->hw->index == b->hw->index);
}

unsigned kiln_device_workers(const struct kiln_device *device)
{
	return device->hw->driver->device->workers(device->hw);
}

const char *kiln_device_describe(const struct kiln_device *device)
{
	return device->hw->driver->device->explain(device->hw);
}

unsigned kiln_device_dtype_usage(const struct kiln_device *device,
				 enum kiln_dtype dtype)
{
	if (!kilni_is_dtype(dtype))
		return 0;
	return device->hw->driver->device->dtype_usage(device->hw, dtype);
}

bool kiln_device_supports_dtype(const struct kiln_device *device,
				enum kiln_dtype dtype)
{
	unsigned needed = KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC;

	return (kiln_device_dtype_usage(device, dtype) & needed) == needed;
}

/* ---- work ---- */

enum kiln_status kiln_device_flush(struct kiln_device *device)
{
	struct kilni_stream *stream;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_stream(device, &stream));
	KILNI_TRY(kilni_stream_drain(stream));
	return kilni_sched_drain(device->sched);
}

enum kiln_status kiln_device_sync(struct kiln_device *device)
{
	struct kilni_stream *stream;
	enum kiln_status status;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_stream(device, &stream));
	KILNI_TRY(kilni_window_refuse_on(__func__, stream));
	KILNI_TRY(kilni_sched_finish(device->sched));
	status = kilni_stream_finish(stream);
	kilni_plan_wait(device);
	return status;
}

bool kiln_device_lost(const struct kiln_device *device)
{
	return kilni_sched_lost(device->sched);
}

enum kiln_status kiln_device_seed(struct kiln_device *device, uint64_t seed)
{
	KILNI_CHECK_DEVICE(device, __func__);
	pthread_mutex_lock(&device->lock);
	device->seed = seed;
	device->counter = 0;
	pthread_mutex_unlock(&device->lock);
	return KILN_OK;
}

void kilni_device_random(struct kiln_device *device, uint64_t blocks,
			 uint64_t *seed, uint64_t *counter)
{
	struct kilni_stream *stream;

	/* In a capture nothing is drawn, but by each replay. */
	if (kilni_recorders_open() &&
	    kilni_thread_stream(device, &stream) == KILN_OK &&
	    kilni_recorder_random(stream, blocks, counter)) {
		*seed = 0;
		return;
	}
	pthread_mutex_lock(&device->lock);
	*seed = device->seed;
	*counter = device->counter;
	device->counter += blocks;
	pthread_mutex_unlock(&device->lock);
}

/* ---- settings ---- */

static enum kiln_status merge_setting(const struct kiln_device *device,
				      int wanted, unsigned classes, int *field)
{
	if (wanted == KILN_DTYPE_DEFAULT)
		return KILN_OK;
	KILNI_TRY(kilni_check_dtype("kiln_device_configure", device,
				    (enum kiln_dtype)wanted, classes));
	*field = wanted;
	return KILN_OK;
}

static enum kiln_status apply_settings(struct kiln_device *device,
				       const struct kiln_settings *merged)
{
	int expected = 0;

	if (!__atomic_compare_exchange_n(&device->settings_fixed, &expected, 1,
					 false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return kilni_fail(KILN_ERR_ALREADY_INITIALIZED, 0,
				  "kiln_device_configure: the settings of %s "
				  "are fixed",
				  device->selector);
	device->settings = *merged;
	return KILN_OK;
}

enum kiln_status kiln_device_configure(struct kiln_device *device,
				       const struct kiln_settings *settings)
{
	struct kiln_settings merged;
	enum kiln_status status;

	KILNI_CHECK_DEVICE(device, __func__);
	if (!settings || settings->struct_size != sizeof(*settings))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_configure: settings are NULL "
				  "or of unknown size");
	default_settings(&merged);
	KILNI_TRY(merge_setting(device, settings->float_dtype,
				KILNI_CLASSES_F, &merged.float_dtype));
	KILNI_TRY(merge_setting(device, settings->int_dtype, KILNI_CLASSES_I,
				&merged.int_dtype));
	KILNI_TRY(merge_setting(device, settings->bool_dtype, KILNI_CLASSES_B,
				&merged.bool_dtype));
	pthread_mutex_lock(&device->lock);
	status = apply_settings(device, &merged);
	pthread_mutex_unlock(&device->lock);
	return status;
}

enum kiln_status kiln_device_settings(const struct kiln_device *device,
				      struct kiln_settings *settings)
{
	KILNI_CHECK_DEVICE(device, __func__);
	if (!settings || settings->struct_size != sizeof(*settings))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "kiln_device_settings: settings are NULL or "
				  "of unknown size");
	/* configure() may run beside; the mutex is not part of the value. */
	pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&device->lock);
	*settings = device->settings;
	pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&device->lock);
	return KILN_OK;
}
