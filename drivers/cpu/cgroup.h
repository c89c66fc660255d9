/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_CGROUP_H
#define KILNI_CPU_CGROUP_H

#include <stdint.h>

/* What control groups (versions 1 and 2) leave to this process. */
struct kilni_cgroup {
	double cpus;           /* quota over period; INFINITY: no limit */
	uint64_t memory_bytes; /* UINT64_MAX: no limit */
};

/*
 * Reads the limits of the process's groups and of all their parents; the least
 * counts. root stands for / ("" for the real one). What cannot be read is no
 * limit.
 */
void kilni_cgroup_read(const char *root, struct kilni_cgroup *out);

#endif
