/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/*
 * A text as clang wrote it: a head (version, target, tables), then entries,
 * each from a line that begins with ".visible .entry NAME(" to the line that
 * is "}". One entry with all that is no entry makes a module.
 */
#define ENTRY ".visible .entry "

struct place {
	char name[16];
	const unsigned char *packed;
	size_t packed_bytes, bytes;
};

/* ---- finding a text ---- */

static const char *start_of_packed(void)
{
	const char *end = strstr((const char *)kilni_cuda_texts, "\n\n");

	return end + 2;
}

static bool find_text(const char *name, struct place *place)
{
	const char *line = (const char *)kilni_cuda_texts;
	const char *packed = start_of_packed();

	while (*line != '\n') {
		if (sscanf(line, "%15s %zu %zu", place->name,
			   &place->packed_bytes, &place->bytes) != 3)
			return false;
		place->packed = (const unsigned char *)packed;
		if (!strcmp(place->name, name))
			return true;
		packed += place->packed_bytes;
		line = strchr(line, '\n') + 1;
	}
	return false;
}

static enum kiln_status unpack(const struct place *place, char *text)
{
	z_stream z;
	int result;

	memset(&z, 0, sizeof(z));
	z.next_in = (Bytef *)(uintptr_t)place->packed;
	z.avail_in = (uInt)place->packed_bytes;
	z.next_out = (Bytef *)text;
	z.avail_out = (uInt)place->bytes;
	result = inflateInit2(&z, 16 + MAX_WBITS);
	if (result == Z_OK) {
		result = inflate(&z, Z_FINISH);
		inflateEnd(&z);
	}
	text[place->bytes] = 0;
	if (result == Z_STREAM_END && !z.avail_out)
		return KILN_OK;
	return kilni_fail(result == Z_MEM_ERROR ? KILN_ERR_NO_MEMORY
						: KILN_ERR_INTERNAL,
			  result, "cuda: kernels \"%s\" cannot be unpacked",
			  place->name);
}

/* The text as a string that the caller frees. */
static enum kiln_status load_text(const char *name, char **text)
{
	struct place place;
	enum kiln_status status;

	if (!find_text(name, &place))
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cuda: there are no kernels \"%s\"", name);
	*text = malloc(place.bytes + 1);
	if (!*text)
		return kilni_fail(KILN_ERR_NO_MEMORY, ENOMEM,
				  "cuda: no memory for kernels");
	status = unpack(&place, *text);
	if (status != KILN_OK)
		free(*text);
	return status;
}

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

/* ---- loading ---- */

/* With the lock held: a module more to unload at the end. */
static enum kiln_status make_room(struct kilni_cuda_modules *m)
{
	unsigned room = m->loaded_room ? 2 * m->loaded_room : 32;
	cu_module *grown;

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
	m->loaded[m->loaded_count++] = module;
	return kilni_cuda_check(
		hw, kilni_cuda.module_function(function, module, entry), what);
}

static enum kiln_status load(struct kilni_cuda_hw *hw, cu_function *slot,
			     const char *name, const char *entry)
{
	cu_function function = NULL;
	enum kiln_status status;
	char *text;

	KILNI_TRY(load_text(name, &text));
	if (keep_entry(text, entry))
		status = compile(hw, text, entry, &function);
	else
		status = kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				    "cuda: kernels \"%s\" have no %s", name,
				    entry);
	free(text);
	if (status == KILN_OK)
		__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	return status;
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
	pthread_mutex_init(&hw->modules.lock, NULL);
	return KILN_OK;
}

void kilni_cuda_modules_fini(struct kilni_cuda_hw *hw, bool unload)
{
	struct kilni_cuda_modules *m = &hw->modules;

	for (unsigned i = 0; unload && i < m->loaded_count; i++)
		(void)kilni_cuda.module_unload(m->loaded[i]);
	free(m->loaded);
	pthread_mutex_destroy(&m->lock);
}
