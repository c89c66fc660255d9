/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MACHINE_H
#define MACHINE_H

/*
 * Machines that are not here: a folder made of a .tree of tests/machines, and
 * drivers whose devices a test describes. Opened, such a device is the null
 * device; opens are counted, over processes.
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "lib/testing.h"

/* ---- files ---- */

static char machine_root[64];

static inline void machine_folders(const char *path)
{
	char folder[600];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *at = folder + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(folder, 0755);
		*at = '/';
	}
}

static inline void machine_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "a");

	ck_assert_ptr_nonnull(file);
	fprintf(file, "%s\n", text);
	ck_assert(!fclose(file));
}

/* One line of a tree. */
static inline void machine_line(char *line)
{
	char path[600], *mark;
	FILE *file;

	line[strcspn(line, "\n")] = 0;
	if (*line != '/')
		return;
	mark = strchr(line, ' ');
	ck_assert_ptr_nonnull(mark);
	*mark++ = 0;
	snprintf(path, sizeof(path), "%s%s", machine_root, line);
	machine_folders(path);
	if (*mark == '=') {
		machine_text(path, mark + 2);
	} else if (!strncmp(mark, "-> ", 3)) {
		ck_assert(!symlink(mark + 3, path));
	} else {
		ck_assert(*mark == '!');
		file = fopen(path, "w");
		ck_assert_ptr_nonnull(file);
		fclose(file);
		ck_assert(!chmod(path, (mode_t)strtoul(mark + 2, NULL, 8)));
	}
}

/* The path of a file of tests/machines, also where make has not set srcdir. */
static inline void machine_file(char path[512], const char *name)
{
	const char *top = getenv("srcdir");

	if (top)
		snprintf(path, 512, "%s/tests/machines/%s", top, name);
	else
		snprintf(path, 512, "%.*s../machines/%s",
			 (int)(sizeof(__FILE__) - sizeof("machine.h")),
			 __FILE__, name);
}

/* Adds to the folder; the environment leads there. */
static inline void machine_add(const char *tree)
{
	char name[32], path[512], line[512];
	FILE *file;

	snprintf(name, sizeof(name), "%s.tree", tree);
	machine_file(path, name);
	file = fopen(path, "r");
	ck_assert_msg(file != NULL, "%s", path);
	while (fgets(line, sizeof(line), file))
		machine_line(line);
	fclose(file);
}

static inline void machine_put(const char *path, const char *text)
{
	char line[512];

	snprintf(line, sizeof(line), "%s = %s", path, text);
	machine_line(line);
}

static inline void machine_mode(const char *path, mode_t mode)
{
	char full[600];

	snprintf(full, sizeof(full), "%s%s", machine_root, path);
	ck_assert(!chmod(full, mode));
}

/* An empty machine: nothing of this one is seen any more. */
static inline void machine_begin(void)
{
	strcpy(machine_root, "/tmp/kiln-machine-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(machine_root));
	ck_assert(!chmod(machine_root, 0755));
	setenv("KILN_SYSFS_ROOT", machine_root, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	unsetenv("KILN_DEVICE");
}

static inline void machine_end(void)
{
	char command[128];

	kilni_test_drivers(NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", machine_root);
	ck_assert_int_eq(system(command), 0);
}

/* ---- drivers ---- */

#define FAKE_MOST 8

struct fake {
	size_t count;
	const char *absent;
	enum kiln_status absent_status;
	struct kilni_hw_info device[FAKE_MOST];
	struct kilni_driver driver;
	unsigned *contexts; /* per device, shared with children */
};

static struct fake fake_cuda, fake_vulkan;

extern const struct kilni_driver kilni_null_driver, kilni_cpu_driver;

static inline enum kiln_status fake_open(struct fake *fake, unsigned index,
					 struct kilni_hw **out)
{
	if (*fake->device[index].refused)
		return kilni_fail(KILN_ERR_UNSUPPORTED, 0, "%s",
				  fake->device[index].refused);
	KILNI_TRY(kilni_null_driver.driver->open(index, out));
	(*out)->driver = &fake->driver;
	__atomic_add_fetch(&fake->contexts[index], 1, __ATOMIC_RELAXED);
	return KILN_OK;
}

#define FAKE_SLOTS(fake)                                                       \
	static inline size_t fake##_count(void)                                \
	{                                                                      \
		return fake.count;                                             \
	}                                                                      \
	static inline const char *fake##_absent(void)                          \
	{                                                                      \
		return fake.absent;                                            \
	}                                                                      \
	static inline enum kiln_status fake##_absent_status(void)              \
	{                                                                      \
		return fake.absent_status;                                     \
	}                                                                      \
	static inline enum kiln_status fake##_describe(                        \
		unsigned index, struct kilni_hw_info *info)                    \
	{                                                                      \
		*info = fake.device[index];                                    \
		return KILN_OK;                                                \
	}                                                                      \
	static inline enum kiln_status fake##_open(unsigned index,             \
						   struct kilni_hw **out)      \
	{                                                                      \
		return fake_open(&fake, index, out);                           \
	}                                                                      \
	static const struct kilni_driver_ops fake##_ops = {                    \
		.count = fake##_count,                                         \
		.absent = fake##_absent,                                       \
		.absent_status = fake##_absent_status,                         \
		.describe = fake##_describe,                                   \
		.open = fake##_open,                                           \
	};
FAKE_SLOTS(fake_cuda)
FAKE_SLOTS(fake_vulkan)

static inline void fake_make(struct fake *fake, const char *name,
			     enum kiln_device_type type,
			     const struct kilni_driver_ops *ops)
{
	memset(fake, 0, sizeof(*fake));
	fake->driver = kilni_null_driver;
	fake->driver.name = name;
	fake->driver.type = type;
	fake->driver.driver = ops;
	fake->absent_status = KILN_ERR_NO_DEVICE;
	fake->contexts = mmap(NULL, FAKE_MOST * sizeof(unsigned),
			      PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(fake->contexts != MAP_FAILED);
}

/* Both there, without a device and without a reason for that yet. */
static inline void fakes_begin(void)
{
	static const struct kilni_driver *const drivers[] = {
		&fake_cuda.driver, &fake_vulkan.driver, &kilni_cpu_driver,
		&kilni_null_driver, NULL
	};

	fake_make(&fake_cuda, "cuda", KILN_DEVICE_CUDA, &fake_cuda_ops);
	fake_make(&fake_vulkan, "vulkan", KILN_DEVICE_VULKAN,
		  &fake_vulkan_ops);
	kilni_test_drivers(drivers);
}

/* No other driver: whatever is told is of the machine that is described. */
static inline void fakes_alone(void)
{
	static const struct kilni_driver *const drivers[] = {
		&fake_cuda.driver, &fake_vulkan.driver, NULL
	};

	kilni_test_drivers(drivers);
}

/* A new device of a fake driver. */
static inline struct kilni_hw_info *fake_add(struct fake *fake,
					     const char *name,
					     enum kiln_device_kind kind,
					     const char *pci, const char *uuid)
{
	struct kilni_hw_info *info = &fake->device[fake->count];

	ck_assert_uint_lt(fake->count, FAKE_MOST);
	snprintf(info->name, sizeof(info->name), "%s", name);
	snprintf(info->pci, sizeof(info->pci), "%s", pci);
	snprintf(info->uuid, sizeof(info->uuid), "%s", uuid);
	info->kind = kind;
	info->memory_bytes = (uint64_t)16 << 30;
	info->ordinal = (unsigned)fake->count++;
	return info;
}

static inline unsigned fake_contexts(const struct fake *fake)
{
	unsigned sum = 0;

	for (size_t i = 0; i < FAKE_MOST; i++)
		sum += fake->contexts[i];
	return sum;
}

#endif
