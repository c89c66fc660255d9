/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan/spirv.h"

/*
 * Kernels of the program's own: a pipeline each, made at once. A driver is
 * free to crash on a module that is malformed, so its words are walked first.
 */

struct program {
	struct kilni_program base;
	VkPipeline pipeline;
};

/* The specialization constant that is the size of a workgroup. */
#define GROUP_CONSTANT 4

/* ---- looking at a module ---- */

struct words {
	const uint32_t *at;
	size_t count;
	bool doubles;              /* it declares that it uses them */
};

static enum kiln_status refuse(const char *what)
{
	return kilni_fail(KILN_ERR_INVALID, 0, "vulkan: SPIR-V: %s", what);
}

/* Whether the instruction is the compute entry point of that name. */
static bool is_entry(const uint32_t *word, unsigned length, const char *name)
{
	const char *text = (const char *)(word + 3);
	size_t room = length > 3 ? (length - 3) * sizeof(*word) : 0;

	return word[1] == MODEL_GL_COMPUTE && strlen(name) < room &&
	       !strncmp(text, name, room);
}

static enum kiln_status walk(struct words *words, const char *entry)
{
	unsigned length, functions = 0, ends = 0;
	bool found = false;

	for (size_t i = HEADER_WORDS; i < words->count; i += length) {
		const uint32_t *word = &words->at[i];
		unsigned op = *word & 0xffff;

		length = *word >> 16;
		if (!length || length > words->count - i)
			return refuse("an instruction is cut short");
		words->doubles |= op == OP_CAPABILITY && length > 1 &&
				  word[1] == CAPABILITY_FLOAT64;
		functions += op == OP_FUNCTION;
		ends += op == OP_FUNCTION_END;
		if (op == OP_ENTRY_POINT && length > 3)
			found |= is_entry(word, length, entry);
	}
	if (!functions || functions != ends)
		return refuse("a function is cut short, or there is none");
	if (!found)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "vulkan: SPIR-V: no compute entry \"%.64s\"",
				  entry);
	return KILN_OK;
}

/* A copy: the caller's bytes may lie anywhere. */
static enum kiln_status take_words(const struct kilni_program_source *source,
				   struct words *words)
{
	uint32_t *copy;

	if (source->data_bytes % sizeof(*copy))
		return refuse("its size is no multiple of 4");
	if (source->data_bytes < HEADER_WORDS * sizeof(*copy))
		return refuse("shorter than its head");
	copy = malloc(source->data_bytes);
	if (!copy)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a kernel");
	memcpy(copy, source->data, source->data_bytes);
	words->at = copy;
	words->count = source->data_bytes / sizeof(*copy);
	return KILN_OK;
}

static enum kiln_status check(struct words *words, const char *entry)
{
	if (words->at[0] != SPIRV_MAGIC)
		return refuse("no module: another magic number");
	if (!words->at[3] || words->at[3] > IDS_MOST)
		return refuse("the bound of its ids is out of range");
	if (words->at[4])
		return refuse("of a schema that is unknown");
	return walk(words, entry);
}

/* ---- loading ---- */

static enum kiln_status create(struct kilni_vk_hw *hw,
			       const struct kilni_program_source *source,
			       VkShaderModule module, VkPipeline *out)
{
	VkSpecializationMapEntry entry = { GROUP_CONSTANT, 0, 4 };
	VkSpecializationInfo special = { 1, &entry, 4, &source->group };
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.module = module,
			.pName = source->entry,
			.pSpecializationInfo = &special,
		},
		.layout = hw->pipelines.layout,
	};

	return KILNI_VK(hw, CreateComputePipelines, hw->device,
			hw->pipelines.cache, 1, &info, NULL, out);
}

static enum kiln_status compile(struct kilni_vk_hw *hw,
				const struct kilni_program_source *source,
				const struct words *words, VkPipeline *out)
{
	VkShaderModuleCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = words->count * sizeof(*words->at),
		.pCode = words->at,
	};
	VkShaderModule module;
	enum kiln_status status;

	KILNI_TRY(KILNI_VK(hw, CreateShaderModule, hw->device, &info,
			   NULL, &module));
	status = create(hw, source, module, out);
	hw->vk.DestroyShaderModule(hw->device, module, NULL);
	return status;
}

static enum kiln_status check_device(const struct kilni_vk_hw *hw,
				     const struct kilni_program_source *source)
{
	const VkPhysicalDeviceLimits *limits = &hw->physical->properties.limits;

	if (source->code != KILN_KERNEL_SPIRV)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "vulkan: a kernel is SPIR-V here");
	if (kilni_vk_is_lost(hw))
		return kilni_fail(KILN_ERR_DEVICE_LOST, 0,
				  "vulkan: the device is lost");
	if (source->group <= limits->maxComputeWorkGroupSize[0] &&
	    source->group <= limits->maxComputeWorkGroupInvocations)
		return KILN_OK;
	return kilni_fail(KILN_ERR_LIMIT, 0,
			  "vulkan: a group of %u threads; the device takes %u",
			  source->group, limits->maxComputeWorkGroupSize[0]);
}

/* Checks the module and makes the pipeline. */
static enum kiln_status build(struct kilni_vk_hw *hw,
			      const struct kilni_program_source *source,
			      VkPipeline *out)
{
	struct words words = { .doubles = false };
	enum kiln_status status;

	KILNI_TRY(take_words(source, &words));
	status = check(&words, source->entry);
	if (status == KILN_OK && words.doubles && !hw->physical->doubles)
		status = kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				    "vulkan: SPIR-V: it declares 64-bit "
				    "floats, which %s lacks",
				    hw->physical->properties.deviceName);
	if (status == KILN_OK)
		status = KILNI_FAULT("load");
	if (status == KILN_OK)
		status = compile(hw, source, &words, out);
	free((void *)(uintptr_t)words.at);
	return status;
}

enum kiln_status
kilni_vk_program_load(struct kilni_hw *base,
		      const struct kilni_program_source *source,
		      struct kilni_program **out)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);
	struct program *program;
	enum kiln_status status;

	KILNI_TRY(check_device(hw, source));
	program = calloc(1, sizeof(*program));
	if (!program)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a kernel");
	status = build(hw, source, &program->pipeline);
	if (status != KILN_OK) {
		free(program);
		return status;
	}
	program->base.group = source->group;
	program->base.groups_most = hw->physical->properties.limits
					    .maxComputeWorkGroupCount[0];
	*out = &program->base;
	return KILN_OK;
}

void kilni_vk_program_unload(struct kilni_hw *base,
			     struct kilni_program *program)
{
	struct kilni_vk_hw *hw = kilni_vk_hw_of(base);

	/* What a hung device may still use is left behind. */
	if (!__atomic_load_n(&hw->hung, __ATOMIC_ACQUIRE))
		hw->vk.DestroyPipeline(hw->device,
				       ((struct program *)program)->pipeline,
				       NULL);
	free(program);
}

/* ---- running ---- */

enum kiln_status kilni_vk_record_custom(struct kilni_vk_batch *batch,
					const struct kilni_custom_params *p)
{
	const struct program *program = (struct program *)kilni_program_of(p);
	struct kilni_vk_dispatch dispatch = {
		.params = p->block,
		.params_bytes = p->block_bytes,
		.reports = true,
		.groups = kilni_program_groups(p),
		.pipeline = program->pipeline,
	};

	return kilni_vk_dispatch(batch, &dispatch);
}
