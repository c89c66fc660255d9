/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_PLACE_H
#define KILNI_CPU_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* Where the workers run and how many there are. */

#define KILNI_CPU_MOST 4096  /* logical CPUs that are told apart */
#define KILNI_NODES_MOST 1024

/* The cores of which the affinity mask holds a part. */
struct kilni_topology {
	unsigned cpus;         /* logical CPUs in the mask */
	unsigned cores;        /* 1 or more */
	int *core_cpu;         /* a logical CPU of each, inside the mask */
	unsigned machine_nodes;
	unsigned nodes;        /* that the mask touches */
	unsigned long node_set[KILNI_NODES_MOST / (8 * sizeof(long))];
};

/*
 * Reads this machine, or the file xml, as far as the mask reaches: a list as
 * "0-3,8", or NULL for the calling thread's own (with xml: everything).
 * Falls back on the mask alone where hwloc knows nothing. KILN_ERR_OPTION: xml
 * or mask cannot be read. KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_topology_read(const char *xml, const char *mask,
				     struct kilni_topology *out);
void kilni_topology_free(struct kilni_topology *topology);

/* What limits the number of workers. */
struct kilni_worker_facts {
	unsigned cpus, cores;
	double quota;          /* CPUs; INFINITY: none */
	unsigned slurm;        /* SLURM_CPUS_PER_TASK; 0: none */
	unsigned asked;        /* KILN_CPU_WORKERS, which overrides; 0: none */
};

/* The number of workers, and why, as a text. Pure. */
unsigned kilni_workers_decide(const struct kilni_worker_facts *facts,
			      char *reason, size_t size);

#endif
