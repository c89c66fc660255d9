/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/null/target.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/plan.h"
#include "kernels/vulkan/plan.h"

/* Of the CUDA device that is planned for: it decides how products are split. */
#define MULTIPROCESSORS 132

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

static uint64_t cpu_workspace(const struct kilni_hw *hw,
			      enum kilni_kernel kernel, const void *params)
{
	(void)hw;
	return kilni_cpu_workspace(kernel, params);
}

static uint64_t cuda_workspace(const struct kilni_hw *hw,
			       enum kilni_kernel kernel, const void *params)
{
	(void)hw;
	return kilni_cuda_plan_workspace(MULTIPROCESSORS, kernel, params);
}

/* As of a device that is no CPU. */
static uint64_t vulkan_workspace(const struct kilni_hw *hw,
				 enum kilni_kernel kernel, const void *params)
{
	(void)hw;
	return kilni_vk_plan_workspace(true, kernel, params);
}

#define NO_SOFTMAX (1u << KILNI_KERNEL_SOFTMAX)

/*
 * The table: name, workspace, what a device of it says of itself, the kernels
 * that it has not, then the rules: alignment, pages, largest page, all memory,
 * whether the host sees it, mapping, most addresses to reserve. The first row is
 * the null device's own.
 */
#define TARGETS(X)                                                             \
	X(null, kilni_program_stub_workspace,                                  \
	  "no compute; memory is counted, not held", NO_SOFTMAX,               \
	  256, 64 * KIB, TIB, TIB, false, 2 * MIB, 8 * TIB)                    \
	X(cpu, cpu_workspace,                                                  \
	  "plan of a CPU: no compute; memory is counted, not held",            \
	  NO_SOFTMAX, 64, 4 * KIB, TIB, TIB, false, 2 * MIB, 8 * TIB)          \
	X(cuda, cuda_workspace,                                                \
	  "plan of a CUDA device: no compute; memory is counted, not held",    \
	  0, 256, 64 * KIB, TIB, TIB, false, 2 * MIB, 2 * TIB)                 \
	X(vulkan, vulkan_workspace,                                            \
	  "plan of a Vulkan device: no compute; memory is counted, not held",  \
	  0, 256, 64 * KIB, 4 * GIB - 2 * MIB, TIB, false, 0, 0)

#define TARGET_ROW(name, workspace, explain, lacks, ...)                       \
	{ #name, { __VA_ARGS__ }, workspace, explain, lacks },
static const struct kilni_null_target targets[] = { TARGETS(TARGET_ROW) };

#define TARGET_NAME(name, ...) #name,
const char *const kilni_null_targets[] = { TARGETS(TARGET_NAME) NULL };

enum kiln_status
kilni_null_target_find(const struct kilni_null_target **out)
{
	const char *name = kilni_option_text(KILNI_OPT_PLAN);

	*out = &targets[0];
	if (!name)
		return KILN_OK;
	for (size_t i = 0; i < KILNI_COUNTOF(targets); i++)
		if (!strcmp(targets[i].name, name)) {
			*out = &targets[i];
			return KILN_OK;
		}
	return kilni_fail(KILN_ERR_OPTION, 0, "KILN_PLAN: \"%.40s\" is no "
			  "target", name);
}
