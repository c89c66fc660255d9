/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of the stub of libcuda. One is PTX with one kernel, or a cubin; of
 * either only names are looked at. KILN_STUB_CUDA_IMAGES names a file to which
 * a line is added for each that was taken: "ptx", or "sm_90".
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stubs/cuda.h"

#define ENTRY ".visible .entry "
#define NO_BINARY 209
#define INVALID_PTX 218

struct function {
	struct function *next;
	char name[64];
};

struct stub_module {
	char *image;
	size_t bytes;              /* of a cubin; 0: it is the kernel's name */
	struct function *functions;
};

static void note(const char *what, unsigned capability)
{
	const char *path = getenv("KILN_STUB_CUDA_IMAGES");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	if (capability)
		fprintf(file, "%s_%u\n", what, capability);
	else
		fprintf(file, "%s\n", what);
	fclose(file);
}

/* Whether the text is PTX that an old driver takes, with one entry. */
static int load_text(struct stub_module *module, const char *text)
{
	const char *entry = strstr(text, ENTRY);

	if (!strstr(text, ".version 6.3\n") || !strstr(text, ".target sm_75"))
		return INVALID_PTX;
	if (!entry || strstr(entry + 1, ENTRY))
		return INVALID_PTX;
	entry += strlen(ENTRY);
	module->image = strndup(entry, strcspn(entry, "("));
	note("ptx", 0);
	return 0;
}

/* What the cubin was made for: its place depends on the toolkit's age. */
static unsigned capability_of(const Elf64_Ehdr *head)
{
	return head->e_flags >> (head->e_ident[EI_ABIVERSION] >= 8 ? 8 : 0) &
	       0xff;
}

static int load_cubin(struct stub_module *module, const void *image,
		      unsigned capability)
{
	Elf64_Ehdr head;
	unsigned made_for;

	memcpy(&head, image, sizeof(head));
	made_for = capability_of(&head);
	if (made_for / 10 != capability / 10 || made_for > capability)
		return NO_BINARY;
	module->bytes = head.e_shoff + head.e_shnum * sizeof(Elf64_Shdr);
	module->image = malloc(module->bytes);
	memcpy(module->image, image, module->bytes);
	note("sm", made_for);
	return 0;
}

int stub_module_load(struct stub_module **out, const void *image,
		     unsigned capability)
{
	struct stub_module *module = calloc(1, sizeof(*module));
	int result;

	if (!memcmp(image, ELFMAG, SELFMAG))
		result = load_cubin(module, image, capability);
	else
		result = load_text(module, image);
	if (result == 0)
		*out = module;
	else
		free(module);
	return result;
}

void stub_module_unload(struct stub_module *module)
{
	struct function *function, *next;

	for (function = module->functions; function; function = next) {
		next = function->next;
		free(function);
	}
	free(module->image);
	free(module);
}

/* A name in a cubin's table of names has a 0 before and behind it. */
static int has(const struct stub_module *module, const char *name)
{
	size_t length = strlen(name) + 1;

	if (!module->bytes)
		return !strcmp(module->image, name);
	for (size_t i = 1; i + length <= module->bytes; i++)
		if (!module->image[i - 1] &&
		    !memcmp(module->image + i, name, length))
			return 1;
	return 0;
}

const char *stub_module_function(struct stub_module *module, const char *name)
{
	struct function *function;

	if (!has(module, name))
		return NULL;
	function = calloc(1, sizeof(*function));
	snprintf(function->name, sizeof(function->name), "%s", name);
	function->next = module->functions;
	module->functions = function;
	return function->name;
}
