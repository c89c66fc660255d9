/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels of the program's own: a module each, loaded at once. */

struct program {
	struct kilni_program base;
	cu_module module;
	cu_function function;
};

/* Most threads of a block on any device. */
#define GROUP_MOST 1024
/* Results of the library that mean: the image is not good. */
#define INVALID_IMAGE 200
#define INVALID_PTX 218
#define NOT_FOUND 500

/* ---- loading ---- */

/* An image that the library finds no good is the caller's error. */
static enum kiln_status told(struct kilni_cuda_hw *hw, int result,
			     const char *what)
{
	if (result == INVALID_IMAGE || result == INVALID_PTX ||
	    result == NOT_FOUND)
		return kilni_fail(KILN_ERR_INVALID, result, "cuda: %s: %s (%d)",
				  what, kilni_cuda_name(result), result);
	return kilni_cuda_check(hw, result, what);
}

/* A kernel may take less than the device: by its registers, or as it says. */
static enum kiln_status check_group(struct kilni_cuda_hw *hw,
				    const struct program *program,
				    const char *what)
{
	int most = GROUP_MOST;

	if (kilni_cuda.function_attribute)
		KILNI_TRY(told(hw,
			       kilni_cuda.function_attribute(
				       &most, CU_FUNCTION_THREADS_MOST,
				       program->function),
			       what));
	if ((int)program->base.group <= most)
		return KILN_OK;
	return kilni_fail(KILN_ERR_LIMIT, 0,
			  "cuda: %s: a group of %u threads; it takes %d", what,
			  program->base.group, most);
}

static enum kiln_status load_module(struct kilni_cuda_hw *hw,
				    struct program *program, const char *image,
				    const char *entry)
{
	enum kiln_status status;
	char what[80];

	snprintf(what, sizeof(what), "kernel %.64s", entry);
	KILNI_TRY(told(hw, kilni_cuda.module_load(&program->module, image),
		       what));
	status = told(hw, kilni_cuda.module_function(&program->function,
						     program->module, entry),
		      what);
	if (status == KILN_OK)
		status = check_group(hw, program, what);
	if (status != KILN_OK)
		(void)kilni_cuda.module_unload(program->module);
	return status;
}

static enum kiln_status load(struct kilni_cuda_hw *hw, struct program *program,
			     const char *image, const char *entry)
{
	enum kiln_status status;

	KILNI_TRY(KILNI_FAULT("load"));
	KILNI_TRY(kilni_cuda_alive(hw));
	KILNI_TRY(kilni_cuda_enter(hw));
	status = load_module(hw, program, image, entry);
	kilni_cuda_leave();
	return status;
}

/* The image with a zero behind it, as the library reads texts. */
static enum kiln_status take_image(const struct kilni_program_source *source,
				   char **image)
{
	*image = malloc(source->data_bytes + 1);
	if (!*image)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for a kernel");
	if (source->data_bytes)
		memcpy(*image, source->data, source->data_bytes);
	(*image)[source->data_bytes] = '\0';
	return KILN_OK;
}

static enum kiln_status build(struct kilni_cuda_hw *hw,
			      const struct kilni_program_source *source,
			      struct program *program)
{
	enum kiln_status status;
	char *image;

	KILNI_TRY(take_image(source, &image));
	status = kilni_cuda_image_check(source, image);
	if (status == KILN_OK)
		status = load(hw, program, image, source->entry);
	free(image);
	return status;
}

enum kiln_status
kilni_cuda_program_load(struct kilni_hw *hw,
			const struct kilni_program_source *source,
			struct kilni_program **out)
{
	struct program *program;
	enum kiln_status status;

	if (source->group > GROUP_MOST)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "cuda: a group of %u threads; a device takes "
				  "%d", source->group, GROUP_MOST);
	program = calloc(1, sizeof(*program));
	if (!program)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for a kernel");
	program->base.group = source->group;
	program->base.groups_most = INT32_MAX;
	status = build(kilni_cuda_hw(hw), source, program);
	if (status != KILN_OK) {
		free(program);
		return status;
	}
	*out = &program->base;
	return KILN_OK;
}

void kilni_cuda_program_unload(struct kilni_hw *base,
			       struct kilni_program *program)
{
	struct kilni_cuda_hw *hw = kilni_cuda_hw(base);
	struct kilni_error_record record;

	kilni_error_save(&record);
	/* A context that is broken takes no call any more. */
	if (kilni_cuda_alive(hw) == KILN_OK &&
	    kilni_cuda_enter(hw) == KILN_OK) {
		(void)kilni_cuda.module_unload(
			((struct program *)program)->module);
		kilni_cuda_leave();
	}
	kilni_error_restore(&record);
	free(program);
}

/* ---- running ---- */

enum kiln_status kilni_cuda_program_run(const struct kilni_cuda_target *to,
					struct kilni_custom_params *params)
{
	const struct program *program = (void *)kilni_program_of(params);
	uint64_t groups = kilni_program_groups(params);
	void *arguments[1] = { params->block };
	struct cu_kernel kernel = { .function = program->function,
				    .grid = { (unsigned)groups, 1, 1 },
				    .block = { program->base.group, 1, 1 },
				    .params = arguments };

	params->block[0] = params->report;
	if (!groups)
		return KILN_OK;
	return kilni_cuda_start(to, &kernel, sizeof(params->block));
}
