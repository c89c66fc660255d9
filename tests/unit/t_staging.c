/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "drivers/staging.h"
#include "suite.h"

/*
 * Staging memory on a device of the test's own: copies travel, all of a sudden,
 * when somebody waits for them, so that a lane that is used too early shows. A
 * call of each kind can fail.
 */

#define MOST ((uint64_t)80 << 20)

enum call { OPEN, ENTER, START, FINISH, CALLS };

static struct kilni_staging staging;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The device; its lock is held. */
static unsigned char *device;
static struct travelling {
	bool busy;
	uint64_t at, bytes;
} travelling[KILNI_STAGING_LANES];
static bool opened[KILNI_STAGING_LANES];
static bool wrong;             /* a lane was used as it must not be */
static bool seen_alone, seen_shared;
static unsigned calls[CALLS], failing[CALLS]; /* the call that fails; 0: none */

static bool fails(enum call call)
{
	return ++calls[call] == failing[call];
}

static enum kiln_status failure(const char *what)
{
	return kilni_fail(KILN_ERR_DRIVER, 0, "%s fails", what);
}

static enum kiln_status open_lane(struct kilni_staging *s, unsigned lane,
				  char **memory)
{
	pthread_mutex_lock(&lock);
	wrong |= s != &staging || opened[lane];
	if (fails(OPEN)) {
		pthread_mutex_unlock(&lock);
		return failure("open");
	}
	opened[lane] = true;
	pthread_mutex_unlock(&lock);
	*memory = malloc(KILNI_STAGING_LANE_BYTES);
	return *memory ? KILN_OK : failure("memory");
}

static void close_lane(struct kilni_staging *s, unsigned lane)
{
	wrong |= !opened[lane] || travelling[lane].busy;
	opened[lane] = false;
	free(s->lane[lane].memory);
}

static unsigned inside;        /* threads between enter and leave */

static enum kiln_status enter(struct kilni_staging *s)
{
	enum kiln_status status = KILN_OK;

	pthread_mutex_lock(&lock);
	wrong |= s != &staging;
	if (fails(ENTER))
		status = failure("enter");
	else
		inside++;
	pthread_mutex_unlock(&lock);
	return status;
}

static void leave(struct kilni_staging *s)
{
	pthread_mutex_lock(&lock);
	wrong |= s != &staging || !inside;
	inside--;
	pthread_mutex_unlock(&lock);
}

static enum kiln_status start(const struct kilni_staged *copy, unsigned lane,
			      uint64_t offset, uint64_t bytes)
{
	enum kiln_status status = KILN_OK;

	pthread_mutex_lock(&lock);
	wrong |= !opened[lane] || travelling[lane].busy || !bytes || !inside ||
		 bytes > KILNI_STAGING_LANE_BYTES ||
		 offset + bytes > copy->bytes;
	if (fails(START))
		status = failure("start");
	else
		travelling[lane] = (struct travelling){ true, copy->at + offset,
							bytes };
	pthread_mutex_unlock(&lock);
	return status;
}

static enum kiln_status finish(const struct kilni_staged *copy, unsigned lane,
			       bool alone)
{
	struct travelling *t = &travelling[lane];
	char *memory = copy->staging->lane[lane].memory;
	enum kiln_status status = KILN_OK;

	pthread_mutex_lock(&lock);
	wrong |= !t->busy || !inside;
	seen_alone |= alone;
	seen_shared |= !alone;
	if (fails(FINISH))
		status = failure("finish");
	else if (copy->up)
		memcpy(device + t->at, memory, t->bytes);
	else
		memcpy(memory, device + t->at, t->bytes);
	t->busy = false;
	pthread_mutex_unlock(&lock);
	return status;
}

static const struct kilni_staging_ops ops = {
	.enter = enter,
	.leave = leave,
	.open = open_lane,
	.close = close_lane,
	.start = start,
	.finish = finish,
};

static void setup(void)
{
	device = calloc(1, MOST);
	ck_assert_ptr_nonnull(device);
	kilni_staging_init(&staging, &ops);
}

static void teardown(void)
{
	kilni_staging_fini(&staging);
	for (unsigned i = 0; i < KILNI_STAGING_LANES; i++)
		ck_assert(!opened[i]);
	ck_assert(!wrong);
	free(device);
}

static enum kiln_status copy(void *host, uint64_t at, uint64_t bytes, bool up)
{
	struct kilni_staged staged = { .staging = &staging, .at = at,
				       .host = host, .bytes = bytes, .up = up };
	enum kiln_status status;

	pthread_mutex_lock(&staging.lock);
	status = kilni_staging_copy(&staged);
	pthread_mutex_unlock(&staging.lock);
	ck_assert_uint_eq(inside, 0);
	for (unsigned i = 0; i < KILNI_STAGING_LANES; i++) {
		ck_assert(!travelling[i].busy);
		ck_assert(!staging.lane[i].busy);
	}
	return status;
}

static unsigned char *pattern(uint64_t bytes, unsigned seed)
{
	unsigned char *data = malloc(bytes);

	ck_assert_ptr_nonnull(data);
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 7 + i / 251 + seed);
	return data;
}

/* ---- every byte, of any size ---- */

static const uint64_t sizes[] = {
	1, 4, 65535, 65536, (512 << 10) - 1, 512 << 10, (512 << 10) + 1,
	(2 << 20) + 3, (4 << 20) - 1, 4 << 20, (16 << 20) + 12345, MOST - 100,
};

/* Two for each thread: one for 2 MiB, 8 at most, no more than CPUs. */
static unsigned lanes_for(uint64_t bytes)
{
	unsigned threads = (unsigned)(bytes >> 21);
	cpu_set_t set;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	if (threads > (unsigned)CPU_COUNT(&set))
		threads = (unsigned)CPU_COUNT(&set);
	if (threads > 8)
		threads = 8;
	if (bytes <= 512 << 10)
		return 1;
	return threads < 2 ? 2 : 2 * threads;
}

static void use_one_cpu(void)
{
	cpu_set_t set, one;
	int cpu = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* By as many threads as it says; the second half of the loop on one CPU. */
START_TEST(all_bytes_and_no_other)
{
	uint64_t bytes = sizes[_i % (int)KILNI_COUNTOF(sizes)];
	unsigned char *data = pattern(bytes, 1), *back = calloc(bytes, 1);

	ck_assert_ptr_nonnull(back);
	if (_i >= (int)KILNI_COUNTOF(sizes))
		use_one_cpu();
	memset(device, 0xee, MOST);
	ck_assert_int_eq(copy(data, 50, bytes, true), KILN_OK);
	ck_assert_int_eq(memcmp(device + 50, data, bytes), 0);
	ck_assert_int_eq(device[49], 0xee);
	ck_assert_int_eq(device[50 + bytes], 0xee);
	ck_assert_int_eq(copy(back, 50, bytes, false), KILN_OK);
	ck_assert_int_eq(memcmp(back, data, bytes), 0);
	ck_assert_uint_eq(staging.lanes, lanes_for(bytes));
	ck_assert_int_eq(seen_shared, staging.lanes > 2);
	ck_assert_int_eq(seen_alone, staging.lanes <= 2);
	free(data);
	free(back);
}
END_TEST

/* ---- several at once ---- */

static void *copy_many(void *arg)
{
	uint64_t part = *(const unsigned *)arg;
	uint64_t bytes = MOST / 4, at = part * bytes;
	struct kilni_staged up = { .staging = &staging, .at = at,
				   .bytes = bytes, .up = true };
	struct kilni_staged down = up;
	unsigned char *data = pattern(bytes, (unsigned)part);
	unsigned char *back = calloc(bytes, 1);

	ck_assert_ptr_nonnull(back);
	up.host = (char *)data;
	down.up = false;
	down.host = (char *)back;
	for (int i = 0; i < 4; i++) {
		pthread_mutex_lock(&staging.lock);
		ck_assert_int_eq(kilni_staging_copy(&up), KILN_OK);
		pthread_mutex_unlock(&staging.lock);
		pthread_mutex_lock(&staging.lock);
		ck_assert_int_eq(kilni_staging_copy(&down), KILN_OK);
		pthread_mutex_unlock(&staging.lock);
		ck_assert_int_eq(memcmp(back, data, bytes), 0);
	}
	free(data);
	free(back);
	return NULL;
}

START_TEST(threads_take_turns)
{
	pthread_t thread[4];
	unsigned part[4];

	for (unsigned i = 0; i < 4; i++) {
		part[i] = i;
		ck_assert_int_eq(pthread_create(&thread[i], NULL, copy_many,
						&part[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
}
END_TEST

/* ---- failures ---- */

/* The call that fails says so, and the next copy is whole again. */
START_TEST(a_call_fails)
{
	const enum call call = (enum call)(_i % CALLS);
	const uint64_t bytes = (24 << 20) + 5;
	const bool up = _i < CALLS;
	unsigned char *data = pattern(bytes, 2), *back = calloc(bytes, 1);
	unsigned used;

	ck_assert_ptr_nonnull(back);
	ck_assert_int_eq(copy(data, 0, bytes, true), KILN_OK);
	used = calls[call];
	ck_assert_uint_gt(used, 0);
	for (unsigned at = 1; at <= used; at++) {
		kilni_staging_fini(&staging);
		kilni_staging_init(&staging, &ops);
		memset(calls, 0, sizeof(calls));
		failing[call] = at;
		/* A lane that cannot be had is missed, but for the first. */
		ck_assert_int_eq(copy(up ? data : back, 0, bytes, up),
				 call == OPEN && at > 1 ? KILN_OK
							: KILN_ERR_DRIVER);
		if (call != OPEN || at == 1)
			ck_assert_ptr_nonnull(
				strstr(kiln_error_message(), "fails"));
		failing[call] = 0;
		memset(back, 0, bytes);
		ck_assert_int_eq(copy(data, 0, bytes, true), KILN_OK);
		ck_assert_int_eq(copy(back, 0, bytes, false), KILN_OK);
		ck_assert_int_eq(memcmp(back, data, bytes), 0);
	}
	free(data);
	free(back);
}
END_TEST

/* No address space has room for the stack of one. */
static void refuse_threads(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	ck_assert_int_eq(pthread_attr_setstacksize(&attributes,
						   (size_t)1 << 47), 0);
	ck_assert_int_eq(pthread_setattr_default_np(&attributes), 0);
	pthread_attr_destroy(&attributes);
	ck_assert_int_ne(pthread_create(&thread, NULL, copy_many, NULL), 0);
}

START_TEST(threads_that_cannot_be_had)
{
	unsigned char *data = pattern(MOST, 3);

	refuse_threads();
	ck_assert_int_eq(copy(data, 0, MOST, true), KILN_OK);
	ck_assert_int_eq(memcmp(device, data, MOST), 0);
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("staging");
	TCase *c = tcase_create("staging");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, all_bytes_and_no_other, 0,
			    2 * (int)KILNI_COUNTOF(sizes));
	tcase_add_loop_test(c, a_call_fails, 0, 2 * CALLS);
	tcase_add_test(c, threads_that_cannot_be_had);
	tcase_add_test(c, threads_take_turns);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
