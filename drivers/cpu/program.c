/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <errno.h>
#include <stdlib.h>

/* Kernels of the program's own: C functions. */

enum kiln_status kilni_cpu_load(struct kilni_hw *hw,
				const struct kilni_program_source *source,
				struct kilni_program **out)
{
	struct kilni_program *program;

	(void)hw;
	if (source->code != KILN_KERNEL_C)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cpu: a kernel is a C function here");
	KILNI_TRY(KILNI_FAULT("load"));
	program = calloc(1, sizeof(*program));
	if (!program)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cpu: no memory for a kernel");
	program->function = source->function;
	program->whole = source->whole;
	program->group = source->group;
	program->groups_most = UINT32_MAX;
	*out = program;
	return KILN_OK;
}

void kilni_cpu_unload(struct kilni_hw *hw, struct kilni_program *program)
{
	(void)hw;
	free(program);
}
