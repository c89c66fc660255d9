/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_API_H
#define TESTS_UNIT_API_H

/* What the tests of the public interface share. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/kiln.h>

#include "suite.h"

#define OK(expr)                                                               \
	do {                                                                   \
		enum kiln_status status_ = (expr);                             \
		ck_assert_msg(status_ == KILN_OK, "%s: %s: %s", #expr,         \
			      kiln_status_name(status_),                       \
			      kiln_error_message());                           \
	} while (0)

/* The call fails with the status, and the message holds the text. */
#define FAILS(expr, want, text)                                                \
	do {                                                                   \
		enum kiln_status status_ = (expr);                             \
		ck_assert_msg(status_ == (want), "%s: %s in place of %s: %s",  \
			      #expr, kiln_status_name(status_),                \
			      kiln_status_name(want), kiln_error_message());   \
		ck_assert_msg(strstr(kiln_error_message(), text) != NULL,      \
			      "\"%s\" is not in \"%s\"", text,                 \
			      kiln_error_message());                           \
	} while (0)

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define RANK(...)                                                              \
	((int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static inline struct kiln_device *open_device(const char *selector)
{
	struct kiln_device *device = NULL;

	OK(kiln_device_open(&device, selector));
	return device;
}

/* Suites that hold for any device run on this one. */
static inline const char *tested_selector(void)
{
	const char *selector = getenv("KILN_TEST_DEVICE");

	return selector && *selector ? selector : "cpu";
}

static inline struct kiln_device *open_tested(void)
{
	return open_device(tested_selector());
}

/* Such a device works on no memory of the host: said, and the test ends. */
static inline bool cannot_see_host(enum kiln_status status)
{
	if (status != KILN_ERR_UNSUPPORTED)
		return false;
	printf("skipped: %s\n", kiln_error_message());
	return true;
}

static inline struct kiln_tensor *make(struct kiln_device *device,
				       enum kiln_dtype dtype, int rank,
				       const int64_t *shape, const void *data)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	size_t bytes = kiln_dtype_size_bytes(dtype);

	for (int d = 0; d < rank; d++)
		bytes *= (size_t)shape[d];
	OK(kiln_tensor_from_data(&t, device, dtype, rank, shape, data, bytes));
	return t;
}

/* A vector of floats: FLOATS(device, 1, 2, 3). */
#define FLOATS(device, ...)                                                    \
	make(device, KILN_F32, 1,                                              \
	     SHAPE(sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float)),    \
	     (const float[]){ __VA_ARGS__ })
#define INTS(device, ...)                                                      \
	make(device, KILN_I32, 1,                                              \
	     SHAPE(sizeof((const int32_t[]){ __VA_ARGS__ }) /                  \
		   sizeof(int32_t)),                                           \
	     (const int32_t[]){ __VA_ARGS__ })

/* The tensor's bytes are exactly those. */
static inline void expect_bytes(struct kiln_tensor *t, const void *want,
				size_t bytes, const char *what)
{
	void *have = malloc(bytes ? bytes : 1);

	ck_assert_uint_eq(kiln_tensor_size_bytes(t), bytes);
	OK(kiln_tensor_read(t, have, bytes));
	/* One assertion for all: each costs a write to check's file. */
	size_t i = memcmp(have, want, bytes) ? 0 : bytes;
	while (i < bytes && ((const char *)have)[i] == ((const char *)want)[i])
		i++;
	ck_assert_msg(i == bytes, "%s: byte %zu differs", what, i);
	free(have);
}

#define EXPECT(T, t, ...)                                                      \
	expect_bytes(t, (const T[]){ __VA_ARGS__ },                            \
		     sizeof((const T[]){ __VA_ARGS__ }), #t)
#define EXPECT_FLOATS(t, ...) EXPECT(float, t, __VA_ARGS__)
#define EXPECT_INTS(t, ...) EXPECT(int32_t, t, __VA_ARGS__)

#endif
