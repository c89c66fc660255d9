/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CLOCK_H
#define KILNI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How a device counts time: in ticks of which so many low bits are valid, 0
 * where it does not. A tick's length is in units of 2^-32 ns, since it is
 * often no whole number of ns.
 */
struct kilni_clock {
	unsigned bits;
	bool host;             /* it is the clock of kilni_now_ns() */
	uint64_t period;
};

#define KILNI_CLOCK_HOST                                                       \
	((struct kilni_clock){ 64, true, UINT64_C(1) << 32 })

/* The clock with ticks of that many ns; one without bits where it is none. */
struct kilni_clock kilni_clock_of(unsigned bits, double tick_ns);

/*
 * Nanoseconds from begin to end, rounded to the nearest. A counter of less
 * than 64 bits may have wrapped once in between. False: the device has no
 * clock, a counter of 64 bits ran backwards, or the time is beyond 63 bits.
 */
bool kilni_clock_between(const struct kilni_clock *clock, uint64_t begin,
			 uint64_t end, uint64_t *ns);

#endif
