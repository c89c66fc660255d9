/* SPDX-License-Identifier: Apache-2.0 */
/* KILN_MEMORY_FILL and KILN_POOL_VERIFY. */

#include "tests/unit/api.h"

#include "base/poison.h"
#include "lib/internal.h"
#include "tests/unit/sanitized.h"

#define MIB (1 << 20)

static struct kiln_device *open_with(const char *name, const char *value)
{
	struct kiln_device *device;

	setenv(name, value, 1);
	device = open_device("cpu");
	unsetenv(name);
	return device;
}

static struct kiln_tensor *empty(struct kiln_device *device, int64_t count)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;

	OK(kiln_empty(&t, device, KILN_F32, 1, &count));
	return t;
}

static bool is_filled(const unsigned char *at, size_t bytes, int pattern)
{
	return at[0] == pattern && !memcmp(at, at + 1, bytes - 1);
}

static bool reads_as(struct kiln_tensor *t, int pattern)
{
	size_t bytes = kiln_tensor_size_bytes(t);
	unsigned char *have = malloc(bytes);
	bool good;

	ck_assert_ptr_nonnull(have);
	OK(kiln_tensor_read(t, have, bytes));
	good = is_filled(have, bytes, pattern);
	free(have);
	return good;
}

/*
 * Sizes on both sides of what runs on the caller's thread. The last is beyond
 * the pages that slices share, also where a sanitizer makes it cost a minute.
 */
static const int64_t counts[] = { 1, 16, 1000, MIB,
				  (SANITIZED ? 17 : 33) * MIB };
#define ROUNDS(most) (SANITIZED ? 2 : (most))

START_TEST(new_memory_is_filled)
{
	struct kiln_device *device = open_with("KILN_MEMORY_FILL", "1");
	struct kiln_tensor *t = empty(device, counts[_i]), *sum = NULL;
	float value;

	ck_assert(reads_as(t, 0xff));
	/* An op that reads what nothing wrote gives itself away. */
	OK(kiln_sum(&sum, t));
	OK(kiln_tensor_read(sum, &value, sizeof(value)));
	ck_assert(value != value);
	kiln_tensor_release(sum);
	kiln_tensor_release(t);
	kiln_device_release(device);
}
END_TEST

/* Also where work is queued that still writes the memory. */
START_TEST(memory_that_comes_back_is_filled)
{
	struct kiln_device *device = open_with("KILN_MEMORY_FILL", "1");
	struct kiln_tensor *t = empty(device, counts[_i]);
	int i;

	for (i = 0; i < ROUNDS(20); i++) {
		OK(kiln_add_scalar(&t, t, kiln_float(i)));
		kiln_tensor_release(t);
		t = empty(device, counts[_i]);
	}
	ck_assert(reads_as(t, 0xff));
	kiln_tensor_release(t);
	kiln_device_release(device);
}
END_TEST

#if !KILNI_ASAN
START_TEST(freed_memory_is_filled)
{
	struct kiln_device *device = open_with("KILN_MEMORY_FILL", "1");
	struct kiln_tensor *keep = empty(device, 16);
	struct kiln_tensor *t = empty(device, counts[_i]);
	const unsigned char *at;
	size_t bytes = kiln_tensor_size_bytes(t);

	if (kilni_poison_works())
		return;
	OK(kiln_add_scalar(&t, t, kiln_float(1)));
	at = (const unsigned char *)(uintptr_t)t->address;
	/* The use completes before the release, or after it. */
	if (_i & 1)
		OK(kiln_device_sync(device));
	kiln_tensor_release(t);
	OK(kiln_device_sync(device));
	kilni_pools_report(kilni_device_pools(device), NULL, 0);
	ck_assert(is_filled(at, bytes, 0xfe));
	kiln_tensor_release(keep);
	kiln_device_release(device);
}
END_TEST
#endif

/* A buffer's memory too, before the host can have written to it. */
START_TEST(buffers_are_filled)
{
	struct kiln_device *device = open_with("KILN_MEMORY_FILL", "1");
	size_t bytes = (size_t)counts[_i] * 4;
	struct kiln_tensor *t = empty(device, counts[_i]);
	struct kiln_buffer *buffer = NULL;
	unsigned char *at;
	int i;

	for (i = 0; i < ROUNDS(5); i++) {
		OK(kiln_add_scalar(&t, t, kiln_float(i)));
		kiln_tensor_release(t);
		OK(kiln_buffer_create(&buffer, device, NULL, bytes));
		at = kiln_buffer_host(buffer);
		ck_assert(is_filled(at, bytes, 0xff));
		memset(at, 3, bytes);
		OK(kiln_device_sync(device));
		ck_assert(is_filled(at, bytes, 3));
		kiln_buffer_release(buffer);
		buffer = NULL;
		t = empty(device, counts[_i]);
	}
	OK(kiln_buffer_create(&buffer, device, NULL, 0));
	kiln_buffer_release(buffer);
	kiln_tensor_release(t);
	kiln_device_release(device);
}
END_TEST

/* A few ops of all kinds; the bits of their results. */
static void compute(struct kiln_device *device, float *out, size_t bytes)
{
	struct kiln_tensor *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	int i;

	OK(kiln_device_seed(device, 7));
	OK(kiln_random(&a, device, KILN_F32, 2, SHAPE(48, 64),
		       (struct kiln_distribution){ .kind = KILN_RANDOM_UNIFORM,
						   .a = -1, .b = 1 }));
	OK(kiln_transpose(&b, a));
	for (i = 0; i < 5; i++) {
		OK(kiln_matmul(&c, a, b));
		OK(kiln_softmax(&c, c, 1));
		OK(kiln_matmul(&d, c, a));
		OK(kiln_add(&a, a, d));
		OK(kiln_transpose(&b, a));
	}
	OK(kiln_sum_dim(&d, a, 0));
	OK(kiln_tensor_read(a, out, bytes));
	kiln_tensor_release(a);
	kiln_tensor_release(b);
	kiln_tensor_release(c);
	kiln_tensor_release(d);
}

START_TEST(results_are_the_same)
{
	static float plain[48 * 64], filled[48 * 64], walked[48 * 64];
	struct kiln_device *device = open_device("cpu");

	compute(device, plain, sizeof(plain));
	kiln_device_release(device);
	device = open_with("KILN_MEMORY_FILL", "1");
	compute(device, filled, sizeof(filled));
	kiln_device_release(device);
	device = open_with("KILN_POOL_VERIFY", "1");
	compute(device, walked, sizeof(walked));
	kiln_device_release(device);
	ck_assert(!memcmp(plain, filled, sizeof(plain)));
	ck_assert(!memcmp(plain, walked, sizeof(plain)));
}
END_TEST

START_TEST(bad_values)
{
	struct kiln_device *device = NULL;

	setenv("KILN_MEMORY_FILL", "2", 1);
	FAILS(kiln_device_open(&device, "cpu"), KILN_ERR_OPTION, "2");
	unsetenv("KILN_MEMORY_FILL");
	setenv("KILN_POOL_VERIFY", "often", 1);
	FAILS(kiln_device_open(&device, "cpu"), KILN_ERR_OPTION, "often");
	unsetenv("KILN_POOL_VERIFY");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memory, debugging");
	TCase *tests = tcase_create("debugging");
	int sizes = KILNI_COUNTOF(counts);

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, new_memory_is_filled, 0, sizes);
	tcase_add_loop_test(tests, memory_that_comes_back_is_filled, 0, sizes);
	tcase_add_loop_test(tests, buffers_are_filled, 0, sizes);
#if !KILNI_ASAN
	tcase_add_loop_test(tests, freed_memory_is_filled, 0, sizes);
#endif
	tcase_add_test(tests, results_are_the_same);
	tcase_add_test(tests, bad_values);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
