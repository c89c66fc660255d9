/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_H
#define KILNI_KERNELS_CPU_H

#include <stdint.h>

#include "kernels/abi.h"

/*
 * The CPU's kernels, compiled once per instruction-set level. The CPU driver
 * chooses a level at run time and calls through its table.
 */

/* Levels in rising order: name, suffix of its symbols. */
#define KILNI_ISA_TABLE(X)                                                     \
	X(BASELINE, "baseline", base)                                          \
	X(AVX2, "avx2", avx2)                                                  \
	X(AVX512, "avx512", avx512)

enum kilni_isa {
#define KILNI_ISA_ENUM_(ID, name, suffix) KILNI_ISA_##ID,
	KILNI_ISA_TABLE(KILNI_ISA_ENUM_)
#undef KILNI_ISA_ENUM_
	KILNI_ISA_COUNT
};

/*
 * A gang of threads that a kernel may use. run() calls fn(arg, i) for every i
 * in 0..count-1, each once, on any thread of the gang in any order, and
 * returns when all have returned. A result must not depend on width or on who
 * ran which i. width is the number of threads, 1 or more. fn does not call
 * run() itself.
 */
struct kilni_team {
	unsigned width;
	void (*run)(struct kilni_team *team, void (*fn)(void *arg, uint64_t i),
		    void *arg, uint64_t count);
};

/* What one instruction-set level offers. */
struct kilni_cpu_kernels {
	/*
	 * Elementwise on the elements [begin, end) of the row-major order.
	 * Ranges are independent; cutting them elsewhere changes no bit.
	 */
	void (*ew)(const struct kilni_ew_params *p, uint64_t begin,
		   uint64_t end);
	void (*gather)(const struct kilni_gather_params *p, uint64_t begin,
		       uint64_t end);
	void (*scatter)(const struct kilni_scatter_params *p,
			struct kilni_team *team);
	void (*reduce)(const struct kilni_reduce_params *p,
		       struct kilni_team *team);
	void (*matmul)(const struct kilni_matmul_params *p,
		       struct kilni_team *team);
};

/* Prototypes of the functions of one level, for kernels and their table. */
#define KILNI_CPU_PROTOTYPES_(ID, name, suffix)                                \
	void kilni_ew_##suffix(const struct kilni_ew_params *p,                \
			       uint64_t begin, uint64_t end);                  \
	void kilni_gather_##suffix(const struct kilni_gather_params *p,        \
				   uint64_t begin, uint64_t end);              \
	void kilni_scatter_##suffix(const struct kilni_scatter_params *p,      \
				    struct kilni_team *team);                  \
	void kilni_reduce_##suffix(const struct kilni_reduce_params *p,        \
				   struct kilni_team *team);                   \
	void kilni_matmul_##suffix(const struct kilni_matmul_params *p,        \
				   struct kilni_team *team);
KILNI_ISA_TABLE(KILNI_CPU_PROTOTYPES_)
#undef KILNI_CPU_PROTOTYPES_

/* One table per level, NULL where it is not compiled in. */
extern const struct kilni_cpu_kernels *const
	kilni_cpu_kernels[KILNI_ISA_COUNT];

/*
 * Workspace in bytes that a kernel needs for parameters whose addresses may
 * still be blank; the same for every level. Pure.
 */
uint64_t kilni_cpu_reduce_workspace(const struct kilni_reduce_params *p);
uint64_t kilni_cpu_matmul_workspace(const struct kilni_matmul_params *p);
/* That of any kernel, params being of its kind. */
uint64_t kilni_cpu_workspace(enum kilni_kernel kernel, const void *params);

/* Notes an index out of range; called by kernels, from any thread. */
void kilni_report_index(uint64_t report, uint64_t position, int64_t value,
			int64_t bound);

#endif
