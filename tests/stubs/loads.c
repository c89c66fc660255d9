/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loads DEVICE THREADS: which code for CUDA is taken as a kernel, what groups,
 * and which streams are wrapped. The library under it takes PTX with one entry,
 * no cubin, and groups of THREADS. loads DEVICE: the second load breaks the
 * context. Exit status 1: not as it should be.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/kiln.h>

static struct kiln_device *device;

/* The call gives the status, and its message holds the text. */
static void expect(enum kiln_status got, enum kiln_status want,
		   const char *text, const char *what)
{
	if (got == want && strstr(kiln_error_message(), text))
		return;
	fprintf(stderr, "loads: %s: %s, not %s: %s\n", what,
		kiln_status_name(got), kiln_status_name(want),
		kiln_error_message());
	exit(1);
}

static enum kiln_status load_kept(struct kiln_kernel **kernel,
				  enum kiln_kernel_code code, const void *data,
				  size_t bytes, uint32_t group)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;

	info.name = "loaded";
	info.code = code;
	info.data = data;
	info.data_bytes = bytes;
	info.params_bytes = 8;
	info.group = group;
	return kiln_kernel_load(kernel, device, &info);
}

static enum kiln_status load(enum kiln_kernel_code code, const void *data,
			     size_t bytes, uint32_t group)
{
	struct kiln_kernel *kernel = NULL;
	enum kiln_status status = load_kept(&kernel, code, data, bytes, group);

	kiln_kernel_release(kernel);
	return status;
}

/* ---- PTX ---- */

#define HEAD ".version 6.3\n.target sm_75\n.address_size 64\n"
#define ENTRY ".visible .entry main("

static void texts(void)
{
	static const char *const good[] = {
		HEAD ENTRY ")\n{\nret;\n}\n",
		HEAD ENTRY ")\n{\n{ ret; }\n}\n\t.file\t1 \"/a/b.cu\"\n",
		HEAD "// a }\n/* { \" */\n" ENTRY ")\n{ ret; } // {",
		HEAD ENTRY ")\n{ ret; }\n.file 1 \"}\\\"{\"\n",
	};
	static const char *const bad[] = {
		HEAD,
		HEAD ENTRY ")\n{\nret;\n",
		HEAD ENTRY ")\n{\n{ ret; }\n",
		HEAD ENTRY ")\n{\nret; // }\n",
		HEAD ENTRY ")\n}{\n",
		HEAD ENTRY ")\n{ ret; } /* {",
		HEAD ENTRY ")\n{ ret; }\n.file 1 \"/a/b",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		expect(load(KILN_KERNEL_PTX, good[i], strlen(good[i]), 64),
		       KILN_OK, "", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect(load(KILN_KERNEL_PTX, bad[i], strlen(bad[i]), 64),
		       KILN_ERR_INVALID, "cut short", bad[i]);
	expect(load(KILN_KERNEL_PTX, &HEAD[13], 30, 64), KILN_ERR_INVALID,
	       "no .version", "PTX without a version");
}

/* ---- cubins: code, sections and, at the end, segments ---- */

struct file {
	Elf64_Ehdr head;
	char code[64];
	Elf64_Shdr section[3];
	Elf64_Phdr segment;
};

static struct file whole(void)
{
	struct file f = {
		.head = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
				     ELFCLASS64 },
			.e_phoff = offsetof(struct file, segment),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1,
			.e_shoff = offsetof(struct file, section),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 3,
		},
		/* The last one is of no bytes in the file. */
		.section = {
			[1] = { .sh_type = SHT_PROGBITS,
				.sh_offset = offsetof(struct file, code),
				.sh_size = sizeof(f.code) },
			[2] = { .sh_type = SHT_NOBITS,
				.sh_offset = offsetof(struct file, section),
				.sh_size = 1 << 20 },
		},
		.segment = { .p_type = PT_LOAD,
			     .p_offset = offsetof(struct file, code),
			     .p_filesz = sizeof(f.code) },
	};

	return f;
}

/* It comes to the library, and is for no device; else it is refused before. */
static void load_file(const struct file *file, size_t bytes, int good,
		      const char *what)
{
	char *copy = malloc(bytes);

	if (!copy)
		exit(1);
	memcpy(copy, file, bytes);
	expect(load(KILN_KERNEL_CUBIN, copy, bytes, 64),
	       good ? KILN_ERR_UNSUPPORTED : KILN_ERR_INVALID,
	       good ? "CUDA_ERROR_NO_BINARY" : "cubin: ", what);
	free(copy);
}

#define MALFORMED(change)                                                      \
	do {                                                                   \
		struct file f = whole();                                       \
                                                                               \
		f.change;                                                      \
		load_file(&f, sizeof(f), 0, #change);                          \
	} while (0)

static void cubins(void)
{
	struct file file = whole();

	load_file(&file, sizeof(file), 1, "a cubin");
	for (size_t bytes = 1; bytes < sizeof(file); bytes++)
		load_file(&file, bytes, 0, "a cubin cut short");
	MALFORMED(head.e_ident[1] = 'F');
	MALFORMED(head.e_ident[EI_CLASS] = ELFCLASS32);
	MALFORMED(head.e_shnum = 0);
	MALFORMED(head.e_shnum = 4);
	MALFORMED(head.e_shentsize = 1);
	MALFORMED(head.e_shoff = UINT64_MAX);
	MALFORMED(head.e_phnum = 2);
	MALFORMED(head.e_phentsize = 0);
	MALFORMED(head.e_phoff = UINT64_MAX - 8);
	MALFORMED(section[1].sh_size = sizeof(f));
	MALFORMED(section[1].sh_offset = UINT64_MAX);
	MALFORMED(section[1].sh_size = UINT64_MAX - 8);
	MALFORMED(section[2].sh_type = SHT_PROGBITS);
	MALFORMED(segment.p_filesz = sizeof(f));
	MALFORMED(segment.p_offset = UINT64_MAX - 8);
}

/* ---- groups, and a kernel whose context is broken ---- */

static const char text[] = HEAD ENTRY ")\n{ ret; }\n";

static void groups(uint32_t threads)
{
	expect(load(KILN_KERNEL_PTX, text, sizeof(text), threads), KILN_OK, "",
	       "a group as large as may be");
	expect(load(KILN_KERNEL_PTX, text, sizeof(text), threads + 1),
	       KILN_ERR_LIMIT, "group", "a group that is too large");
}

/* A release leaves the error record alone, also where it can unload nothing. */
static void broken(void)
{
	struct kiln_kernel *kernel = NULL;

	expect(load_kept(&kernel, KILN_KERNEL_PTX, text, sizeof(text), 0),
	       KILN_OK, "", "a kernel");
	expect(load(KILN_KERNEL_PTX, text, sizeof(text), 0),
	       KILN_ERR_DEVICE_LOST, "", "a load that breaks the context");
	expect(kiln_kernel_load(NULL, device, NULL), KILN_ERR_INVALID,
	       "out is NULL", "no place");
	kiln_kernel_release(kernel);
	expect(kiln_error_status(), KILN_ERR_INVALID, "out is NULL",
	       "the record behind a release");
}

/* ---- streams that are no pointers ---- */

static void streams(void)
{
	struct kiln_stream *stream = NULL, *other = NULL;

	expect(kiln_stream_wrap(&stream, device, (void *)2), KILN_ERR_INVALID,
	       "each thread", "the default stream of each thread");
	expect(kiln_stream_wrap(&stream, device, (void *)1), KILN_OK, "",
	       "the default stream");
	expect(kiln_stream_wrap(&other, device, NULL), KILN_ERR_INVALID,
	       "wrapped already", "the default stream by its other name");
	kiln_stream_release(stream);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	expect(kiln_device_open(&device, argv[1]), KILN_OK, "", "open");
	if (argc > 2) {
		texts();
		cubins();
		groups((uint32_t)atoi(argv[2]));
		streams();
	} else {
		broken();
	}
	kiln_device_release(device);
	printf("loads: as it should be\n");
	return 0;
}
