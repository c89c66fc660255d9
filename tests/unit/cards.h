/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CARDS_H
#define TESTS_UNIT_CARDS_H

/* Two cards, and what tests of identity ask again and again. */

#include "tests/unit/api.h"
#include "tests/unit/machine.h"

static inline void cards_begin(void)
{
	machine_begin();
	fakes_begin();
}

static inline void expect_identity(const char *selector, const char *pci,
			    const char *uuid)
{
	struct kiln_identity identity = { .struct_size = sizeof(identity) };
	struct kiln_device *device = open_device(selector);

	OK(kiln_device_identity(device, &identity));
	ck_assert_str_eq(identity.pci, pci);
	ck_assert_str_eq(identity.uuid, uuid);
	kiln_device_release(device);
}

#define FAST "GPU-aaaaaaaa-0000-0000-0000-000000000082"
#define SLOW "GPU-bbbbbbbb-0000-0000-0000-000000000003"

/* CUDA in the order of its choice, in its spelling. */
static inline void add_two(bool fast_first)
{
	for (int i = 0; i < 2; i++)
		if (fast_first == !i)
			fake_add(&fake_cuda, "Fast Card", KILN_KIND_DISCRETE,
				 "0000:82:00.0", FAST);
		else
			fake_add(&fake_cuda, "Slow Card", KILN_KIND_DISCRETE,
				 "00000000:03:00.0", SLOW);
}

static inline void expect_default(const char *selector)
{
	struct kiln_device *device = NULL;

	OK(kiln_device_open(&device, NULL));
	ck_assert_str_eq(kiln_device_selector(device), selector);
	kiln_device_release(device);
}

#endif
