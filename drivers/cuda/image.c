/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cuda/internal.h"

#include <elf.h>
#include <string.h>

/*
 * The library reads a text up to its end and an ELF file as far as that says,
 * so what is cut short or leads outside is refused before.
 */

static enum kiln_status refuse(const char *what)
{
	return kilni_fail(KILN_ERR_INVALID, 0, "cuda: %s", what);
}

/* ---- PTX ---- */

/* Behind the string that begins at the place; NULL: it has no end. */
static const char *skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : NULL;
}

/* Behind the comment or string that begins at the place, if one does. */
static const char *skip(const char *at)
{
	if (*at == '"')
		return skip_string(at);
	if (at[0] != '/')
		return at;
	if (at[1] == '/')
		return at + strcspn(at, "\n");
	if (at[1] == '*') {
		at = strstr(at + 2, "*/");
		return at ? at + 2 : NULL;
	}
	return at;
}

/* Whether each block has its end, and there is one. */
static bool is_whole(const char *text)
{
	unsigned depth = 0, blocks = 0;

	for (const char *at = text; *at;) {
		const char *next = skip(at);

		if (!next)
			return false;
		if (next != at) {
			at = next;
			continue;
		}
		if (*at == '{') {
			depth++;
			blocks++;
		}
		if (*at == '}' && !depth--)
			return false;
		at++;
	}
	return blocks && !depth;
}

static enum kiln_status check_text(const char *text)
{
	if (!strstr(text, ".version") || !strstr(text, ".target"))
		return refuse("PTX: no .version or no .target");
	if (!is_whole(text))
		return refuse("PTX: a block is cut short, or there is none");
	return KILN_OK;
}

/* ---- cubin ---- */

struct image {
	const char *at;
	size_t bytes;
};

static bool is_within(const struct image *image, uint64_t offset,
		      uint64_t bytes)
{
	return offset <= image->bytes && bytes <= image->bytes - offset;
}

static bool segments_are_within(const struct image *image,
				const Elf64_Ehdr *head)
{
	Elf64_Phdr segment;

	if (head->e_phnum && head->e_phentsize != sizeof(segment))
		return false;
	if (!is_within(image, head->e_phoff,
		       head->e_phnum * sizeof(segment)))
		return false;
	for (unsigned i = 0; i < head->e_phnum; i++) {
		memcpy(&segment,
		       image->at + head->e_phoff + i * sizeof(segment),
		       sizeof(segment));
		if (!is_within(image, segment.p_offset, segment.p_filesz))
			return false;
	}
	return true;
}

/* There has to be one, the code's. */
static bool sections_are_within(const struct image *image,
				const Elf64_Ehdr *head)
{
	Elf64_Shdr section;

	if (!head->e_shnum || head->e_shentsize != sizeof(section) ||
	    !is_within(image, head->e_shoff, head->e_shnum * sizeof(section)))
		return false;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		memcpy(&section,
		       image->at + head->e_shoff + i * sizeof(section),
		       sizeof(section));
		if (section.sh_type != SHT_NOBITS &&
		    !is_within(image, section.sh_offset, section.sh_size))
			return false;
	}
	return true;
}

static enum kiln_status check_elf(const struct image *image)
{
	Elf64_Ehdr head;

	if (image->bytes < sizeof(head))
		return refuse("cubin: shorter than its head");
	memcpy(&head, image->at, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64)
		return refuse("cubin: no ELF file of 64 bits");
	if (!segments_are_within(image, &head) ||
	    !sections_are_within(image, &head))
		return refuse("cubin: it is cut short or malformed");
	return KILN_OK;
}

enum kiln_status
kilni_cuda_image_check(const struct kilni_program_source *source,
		       const char *image)
{
	switch (source->code) {
	case KILN_KERNEL_PTX:
		return check_text(image);
	case KILN_KERNEL_CUBIN:
		return check_elf(&(struct image){ image, source->data_bytes });
	default:
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0,
				  "cuda: a kernel is PTX or a cubin here");
	}
}
