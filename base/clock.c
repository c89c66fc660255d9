/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

/* Above that a tick would be longer than a second. */
#define TICK_MOST_NS 1e9

struct kilni_clock kilni_clock_of(unsigned bits, double tick_ns)
{
	const double one = 4294967296.0;
	struct kilni_clock clock = { bits, false, 0 };

	if (tick_ns > 0 && tick_ns <= TICK_MOST_NS)
		clock.period = (uint64_t)(tick_ns * one + 0.5);
	if (!clock.period || bits > 64)
		clock.bits = 0;
	return clock;
}

bool kilni_clock_between(const struct kilni_clock *clock, uint64_t begin,
			 uint64_t end, uint64_t *ns)
{
	uint64_t ticks = end - begin;
	unsigned __int128 time;

	if (!clock->bits || clock->bits > 64)
		return false;
	if (clock->bits < 64)
		ticks &= (UINT64_C(1) << clock->bits) - 1;
	else if (end < begin)
		return false;
	time = (unsigned __int128)ticks * clock->period;
	time = (time + (UINT64_C(1) << 31)) >> 32;
	if (time > INT64_MAX)
		return false;
	*ns = (uint64_t)time;
	return true;
}
