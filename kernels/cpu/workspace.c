/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

#include <kiln/ops.h>

static uint64_t scatter_workspace(const struct kilni_scatter_params *p)
{
	bool small = p->dtype == KILN_F32 || p->dtype == KILN_FLEX32 ||
		     p->dtype == KILN_F16 || p->dtype == KILN_BF16;

	return kilni_scatter_workspace(p->out_count,
				       p->update == KILN_UPDATE_ADD, small);
}

uint64_t kilni_cpu_workspace(enum kilni_kernel kernel, const void *params)
{
	switch (kernel) {
	case KILNI_KERNEL_SCATTER:
		return scatter_workspace(params);
	case KILNI_KERNEL_REDUCE:
		return kilni_cpu_reduce_workspace(params);
	case KILNI_KERNEL_MATMUL:
		return kilni_cpu_matmul_workspace(params);
	default:
		return 0;
	}
}
