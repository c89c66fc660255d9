/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/vulkan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan/denormals.h"
#include "drivers/vulkan/doubles.h"
#include "drivers/vulkan/subgroups.h"
#include "drivers/vulkan/trim.h"
#include "kernels/vulkan/spirv.h"

/*
 * Pipelines are made when they are first needed and kept until the device
 * closes. Looking one up takes no lock: a slot's pipeline is stored last.
 */

static enum kiln_status create_layout(struct kilni_vk_hw *hw)
{
	VkPushConstantRange push = { VK_SHADER_STAGE_COMPUTE_BIT, 0,
				     sizeof(struct kilni_vk_push) };
	VkPipelineLayoutCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push,
	};

	return KILNI_VK(hw, CreatePipelineLayout, hw->device, &info, NULL,
			&hw->pipelines.layout);
}

/* Starts from what the disk holds; works without. */
static enum kiln_status create_cache(struct kilni_vk_hw *hw)
{
	struct kilni_vk_pipelines *p = &hw->pipelines;
	VkPipelineCacheCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
	};
	void *data = kilni_vk_cache_read(hw->physical, &p->cache_bytes);
	enum kiln_status status;

	info.pInitialData = data;
	info.initialDataSize = data ? p->cache_bytes : 0;
	status = KILNI_VK(hw, CreatePipelineCache, hw->device, &info,
			  NULL, &p->cache);
	free(data);
	return status;
}

enum kiln_status kilni_vk_pipelines_open(struct kilni_vk_hw *hw)
{
	KILNI_TRY(create_layout(hw));
	return create_cache(hw);
}

static void save_cache(struct kilni_vk_hw *hw)
{
	struct kilni_vk_pipelines *p = &hw->pipelines;
	size_t bytes = 0;
	void *data;

	if (!p->made || hw->vk.GetPipelineCacheData(hw->device, p->cache,
						    &bytes, NULL) < 0)
		return;
	data = malloc(bytes ? bytes : 1);
	if (!data)
		return;
	if (hw->vk.GetPipelineCacheData(hw->device, p->cache, &bytes, data) ==
		    VK_SUCCESS &&
	    bytes != p->cache_bytes)
		kilni_vk_cache_write(hw->physical, data, bytes);
	free(data);
}

void kilni_vk_pipelines_close(struct kilni_vk_hw *hw)
{
	struct kilni_vk_pipelines *p = &hw->pipelines;

	if (p->cache && !kilni_vk_is_lost(hw))
		save_cache(hw);
	if (hw->device && !hw->hung) {
		for (unsigned i = 0; i < KILNI_VK_PIPELINES; i++)
			if (p->slot[i].pipeline)
				hw->vk.DestroyPipeline(hw->device,
						       p->slot[i].pipeline,
						       NULL);
		hw->vk.DestroyPipelineCache(hw->device, p->cache, NULL);
		hw->vk.DestroyPipelineLayout(hw->device, p->layout, NULL);
	}
}

/* ---- making one ---- */

static const struct kilni_spirv *find_spirv(const char *name)
{
	for (unsigned i = 0; i < kilni_spirv_count; i++)
		if (!strcmp(kilni_spirv_modules[i].name, name))
			return &kilni_spirv_modules[i];
	return NULL;
}

/* The words of a module, in the form that the device gets. */
static enum kiln_status create_from(struct kilni_vk_hw *hw,
				    const uint32_t *words, size_t bytes,
				    VkShaderModule *module)
{
	VkShaderModuleCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = bytes,
	};
	enum kiln_status status;
	uint32_t *kept;

	kept = kilni_vk_preserve(words, bytes, hw->physical->denormals,
				 &info.codeSize);
	info.pCode = kept ? kept : words;
	status = KILNI_VK(hw, CreateShaderModule, hw->device, &info, NULL,
			  module);
	free(kept);
	return status;
}

/*
 * Makes the module one that the device may have. KILN_ERR_UNSUPPORTED, the
 * record left alone: it computes with what the device has not.
 */
static enum kiln_status fit(const struct kilni_vk_hw *hw, uint32_t *trimmed,
			    size_t *bytes)
{
	if (hw->physical->doubles && hw->physical->subgroup)
		return KILN_OK;
	if (!trimmed)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "vulkan: no memory for a kernel");
	if (!hw->physical->subgroup &&
	    !kilni_vk_drop_subgroups(trimmed, bytes))
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "vulkan: a kernel works with subgroups, "
				  "which %s lacks",
				  hw->physical->properties.deviceName);
	return hw->physical->doubles ? KILN_OK
				     : kilni_vk_drop_doubles(trimmed, bytes);
}

/* The kernel's module, as small as it can be. */
static enum kiln_status create_module(struct kilni_vk_hw *hw,
				      const struct kilni_vk_kernel *kernel,
				      VkShaderModule *module)
{
	const struct kilni_spirv *spirv = find_spirv(kernel->module);
	enum kiln_status status;
	uint32_t *trimmed;
	size_t bytes;

	if (!spirv)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "vulkan: there is no kernel %s",
				  kernel->module);
	trimmed = kilni_vk_trim(spirv->words, spirv->bytes, kernel->constant,
				KILNI_VK_CONSTANTS, &bytes);
	status = fit(hw, trimmed, &bytes);
	if (status == KILN_OK)
		status = create_from(hw, trimmed ? trimmed : spirv->words,
				     trimmed ? bytes : spirv->bytes, module);
	free(trimmed);
	return status;
}

static enum kiln_status create(struct kilni_vk_hw *hw,
			       const struct kilni_vk_kernel *kernel,
			       VkPipeline *out)
{
	uint32_t data[KILNI_VK_CONSTANTS + 1];
	VkSpecializationMapEntry entry[KILNI_VK_CONSTANTS + 1];
	VkSpecializationInfo special = { KILNI_VK_CONSTANTS + 1, entry,
					 sizeof(data), data };
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main",
			.pSpecializationInfo = &special,
		},
		.layout = hw->pipelines.layout,
	};
	enum kiln_status status;

	for (uint32_t i = 0; i <= KILNI_VK_CONSTANTS; i++) {
		data[i] = i < KILNI_VK_CONSTANTS ? kernel->constant[i]
						 : kernel->group;
		entry[i] = (VkSpecializationMapEntry){ i, i * 4, 4 };
	}
	KILNI_TRY(create_module(hw, kernel, &info.stage.module));
	status = KILNI_VK(hw, CreateComputePipelines, hw->device,
			  hw->pipelines.cache, 1, &info, NULL, out);
	hw->vk.DestroyShaderModule(hw->device, info.stage.module, NULL);
	return status;
}

/* ---- finding one ---- */

static unsigned place_of(const struct kilni_vk_kernel *kernel)
{
	uint64_t hash = 0xcbf29ce484222325u, word;
	const char *at = (const char *)kernel;

	for (size_t i = 0; i + 8 <= sizeof(*kernel); i += 8) {
		memcpy(&word, at + i, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	memcpy(&word, at + sizeof(*kernel) - 8, 8);
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return (unsigned)(hash >> 40);
}

/* The kernel's slot, or the free one where it belongs; none: it is full. */
static unsigned look(const struct kilni_vk_pipelines *p,
		     const struct kilni_vk_kernel *kernel, VkPipeline *found)
{
	unsigned at = place_of(kernel);

	for (unsigned i = 0; i < KILNI_VK_PIPELINES; i++, at++) {
		VkPipeline pipeline;

		at %= KILNI_VK_PIPELINES;
		pipeline = __atomic_load_n(&p->slot[at].pipeline,
					   __ATOMIC_ACQUIRE);
		*found = pipeline;
		if (!pipeline || !memcmp(&p->slot[at].kernel, kernel,
					 sizeof(*kernel)))
			return at;
	}
	return KILNI_VK_PIPELINES;
}

static enum kiln_status make(struct kilni_vk_hw *hw,
			     const struct kilni_vk_kernel *kernel,
			     VkPipeline *pipeline)
{
	struct kilni_vk_pipelines *p = &hw->pipelines;
	unsigned at = look(p, kernel, pipeline);

	if (at == KILNI_VK_PIPELINES)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "vulkan: more than %d kinds of kernel are "
				  "in use",
				  KILNI_VK_PIPELINES);
	if (*pipeline)
		return KILN_OK;
	KILNI_TRY(create(hw, kernel, pipeline));
	p->slot[at].kernel = *kernel;
	p->made++;
	__atomic_store_n(&p->slot[at].pipeline, *pipeline, __ATOMIC_RELEASE);
	return KILN_OK;
}

enum kiln_status kilni_vk_pipeline(struct kilni_vk_hw *hw,
				   const struct kilni_vk_kernel *kernel,
				   VkPipeline *pipeline)
{
	enum kiln_status status;

	if (look(&hw->pipelines, kernel, pipeline) < KILNI_VK_PIPELINES &&
	    *pipeline)
		return KILN_OK;
	pthread_mutex_lock(&hw->pipelines.lock);
	status = make(hw, kernel, pipeline);
	pthread_mutex_unlock(&hw->pipelines.lock);
	return status;
}
