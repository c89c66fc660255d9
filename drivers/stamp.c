/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/driver.h"

static void give(struct kilni_stamp *stamp, enum kilni_stamp_state state)
{
	void (*stamped)(struct kilni_stamp *) = stamp->stamped;

	__atomic_store_n(&stamp->state, state, __ATOMIC_RELEASE);
	stamped(stamp);
}

void kilni_stamp_set(struct kilni_stamp *stamp, uint64_t ticks)
{
	stamp->ticks = ticks;
	give(stamp, KILNI_STAMP_GOOD);
}

void kilni_stamp_miss(struct kilni_stamp *stamp)
{
	give(stamp, KILNI_STAMP_MISSED);
}

void kilni_stamp_now(struct kilni_stamp *stamp)
{
	if (KILNI_FAULT("clock") != KILN_OK)
		kilni_stamp_miss(stamp);
	else
		kilni_stamp_set(stamp, kilni_now_ns());
}
