/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A text as clang wrote it: a head (version, target, tables), then entries,
 * each from a line that begins with ".visible .entry NAME(" to the line that
 * is "}". One entry with all that is no entry makes a module.
 */
#define ENTRY ".visible .entry "

/* ---- cutting an entry out ---- */

static bool is_entry(const char *line, const char *name)
{
	size_t length = strlen(name);

	line += sizeof(ENTRY) - 1;
	return !strncmp(line, name, length) && line[length] == '(';
}

/* The line behind the entry that begins at line. */
static char *end_of_entry(char *line)
{
	char *end = strstr(line, "\n}\n");

	return end ? end + 3 : line + strlen(line);
}

/* Takes all other entries out; false where the wanted one is not there. */
static bool keep_entry(char *text, const char *name)
{
	char *to = text, *from = text, *end;
	bool found = false, wanted;

	while ((end = strstr(from, "\n" ENTRY))) {
		end++;
		memmove(to, from, (size_t)(end - from));
		to += end - from;
		from = end_of_entry(end);
		wanted = is_entry(end, name);
		if (wanted) {
			memmove(to, end, (size_t)(from - end));
			to += from - end;
		}
		found |= wanted;
	}
	memmove(to, from, strlen(from) + 1);
	return found;
}

/* ---- modules ---- */

/* With the lock held: a module more to unload at the end. */
static enum kiln_status make_room(struct kilni_cuda_modules *m)
{
	unsigned room = m->loaded_room ? 2 * m->loaded_room : 32;
	struct kilni_cuda_module *grown;

	if (m->loaded_count < m->loaded_room)
		return KILN_OK;
	grown = realloc(m->loaded, room * sizeof(*grown));
	if (!grown)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for kernels");
	m->loaded = grown;
	m->loaded_room = room;
	return KILN_OK;
}

/* Notes a module that was loaded; there is room. */
static void keep_module(struct kilni_cuda_modules *m, cu_module module,
			const char *cubin)
{
	struct kilni_cuda_module *kept = &m->loaded[m->loaded_count++];

	kept->module = module;
	snprintf(kept->cubin, sizeof(kept->cubin), "%s", cubin);
}

/* ---- PTX ---- */

static enum kiln_status compile(struct kilni_cuda_hw *hw, const char *text,
				const char *entry, cu_function *function)
{
	struct kilni_cuda_modules *m = &hw->modules;
	cu_module module;
	char what[64];

	snprintf(what, sizeof(what), "kernel %.48s", entry);
	KILNI_TRY(make_room(m));
	KILNI_TRY(kilni_cuda_check(hw, kilni_cuda.module_load(&module, text),
				   what));
	keep_module(m, module, "");
	return kilni_cuda_check(
		hw, kilni_cuda.module_function(function, module, entry), what);
}

static enum kiln_status load_ptx(struct kilni_cuda_hw *hw, const char *name,
				 const char *entry, cu_function *function)
{
	enum kiln_status status;
	char *text;

	KILNI_TRY(kilni_cuda_text_load(name, &text));
	if (keep_entry(text, entry))
		status = compile(hw, text, entry, function);
	else
		status = kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				    "cuda: kernels \"%s\" have no %s", name,
				    entry);
	free(text);
	return status;
}

/* ---- cubins ---- */

static cu_module find_module(const struct kilni_cuda_modules *m,
			     const char *cubin)
{
	for (unsigned i = 0; i < m->loaded_count; i++)
		if (!strcmp(m->loaded[i].cubin, cubin))
			return m->loaded[i].module;
	return NULL;
}

/* Whether a result is about the image, and not about memory or the device. */
static bool is_refusal(int result)
{
	return result != CU_OK && !kilni_cuda_is_sticky(result) &&
	       kilni_cuda_status(result) != KILN_ERR_OUT_OF_MEMORY;
}

/* From now on everything is compiled from PTX. */
static void give_up_cubins(struct kilni_cuda_hw *hw, const char *cubin,
			   int result)
{
	hw->modules.cubins = false;
	kilni_log(KILNI_LOG_WARN,
		  "cuda:%u: the driver refuses the cubin %s: %s (%d); kernels "
		  "are compiled from PTX",
		  hw->base.index, cubin, kilni_cuda_name(result), result);
}

/* *module stays NULL where the driver refuses it. */
static enum kiln_status load_module(struct kilni_cuda_hw *hw,
				    const char *cubin, cu_module *module)
{
	enum kiln_status status;
	char *image;
	int result;

	KILNI_TRY(make_room(&hw->modules));
	KILNI_TRY(kilni_cuda_text_load(cubin, &image));
	result = kilni_cuda.module_load(module, image);
	free(image);
	if (is_refusal(result)) {
		give_up_cubins(hw, cubin, result);
		*module = NULL;
		return KILN_OK;
	}
	status = kilni_cuda_check(hw, result, "cuModuleLoadData");
	if (status == KILN_OK)
		keep_module(&hw->modules, *module, cubin);
	return status;
}

/* *function stays NULL where there is no cubin, or it is refused. */
static enum kiln_status load_cubin(struct kilni_cuda_hw *hw, const char *name,
				   const char *entry, cu_function *function)
{
	char cubin[KILNI_CUDA_TEXT_NAME];
	cu_module module;
	int result;

	if (!hw->modules.cubins ||
	    !kilni_cuda_text_cubin(name, hw->capability, cubin))
		return KILN_OK;
	module = find_module(&hw->modules, cubin);
	if (!module)
		KILNI_TRY(load_module(hw, cubin, &module));
	if (!module)
		return KILN_OK;
	result = kilni_cuda.module_function(function, module, entry);
	if (is_refusal(result)) {
		give_up_cubins(hw, cubin, result);
		*function = NULL;
		return KILN_OK;
	}
	return kilni_cuda_check(hw, result, "cuModuleGetFunction");
}

/* ---- kernels ---- */

static enum kiln_status load(struct kilni_cuda_hw *hw, cu_function *slot,
			     const char *name, const char *entry)
{
	cu_function function = NULL;

	KILNI_TRY(load_cubin(hw, name, entry, &function));
	if (!function)
		KILNI_TRY(load_ptx(hw, name, entry, &function));
	__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	return KILN_OK;
}

enum kiln_status kilni_cuda_kernel(struct kilni_cuda_hw *hw, cu_function *slot,
				   const char *name, const char *entry)
{
	enum kiln_status status = KILN_OK;

	if (KILNI_LIKELY(__atomic_load_n(slot, __ATOMIC_ACQUIRE) != NULL))
		return KILN_OK;
	pthread_mutex_lock(&hw->modules.lock);
	if (!*slot)
		status = load(hw, slot, name, entry);
	pthread_mutex_unlock(&hw->modules.lock);
	return status;
}

/* ---- life ---- */

enum kiln_status kilni_cuda_modules_init(struct kilni_cuda_hw *hw)
{
	hw->modules.cubins = true;
	pthread_mutex_init(&hw->modules.lock, NULL);
	return KILN_OK;
}

void kilni_cuda_modules_fini(struct kilni_cuda_hw *hw, bool unload)
{
	struct kilni_cuda_modules *m = &hw->modules;

	for (unsigned i = 0; unload && i < m->loaded_count; i++)
		(void)kilni_cuda.module_unload(m->loaded[i].module);
	free(m->loaded);
	pthread_mutex_destroy(&m->lock);
}
