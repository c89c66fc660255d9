/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"
#include "kernels/scatter.h"

uint64_t kilni_cpu_workspace(enum kilni_kernel kernel, const void *params)
{
	switch (kernel) {
	case KILNI_KERNEL_SCATTER:
		return kilni_scatter_workspace(params);
	case KILNI_KERNEL_REDUCE:
		return kilni_cpu_reduce_workspace(params);
	case KILNI_KERNEL_MATMUL:
		return kilni_cpu_matmul_workspace(params);
	default:
		return 0;
	}
}
