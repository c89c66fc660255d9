/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_TESTING_H
#define KILNI_TESTING_H

#include <stdint.h>

#include <kiln/completion.h>
#include <kiln/device.h>

/*
 * For tests alone; not installed, not exported. Faults are armed with
 * kilni_fault_set (base/base.h).
 */

/*
 * Holds the calling thread's stream until kilni_gate_open(gate); *gate must be
 * 0 and live until then.
 */
enum kiln_status kilni_test_gate(struct kiln_device *device, const int *gate);

/* Starts an empty ring's counters there, to see them wrap. */
void kilni_test_completions_start(struct kiln_completions *ring,
				  uint32_t counter);

/*
 * Drivers to go by in place of the registered ones, NULL at the end; NULL
 * brings those back. No device is open.
 */
struct kilni_driver;
void kilni_test_drivers(const struct kilni_driver *const *drivers);

#endif
