/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* A controller's hierarchy: where it is mounted and where the process is. */
struct hierarchy {
	const char *controller; /* NULL: version 2 */
	const char *usual;      /* mount point where mountinfo is missing */
	char path[PATH_MAX];    /* of the process, in the hierarchy */
	char top[PATH_MAX];     /* of the mounted part, in the hierarchy */
	char point[PATH_MAX];
	bool member;
};

/* Whether the comma-separated list holds the word. */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; *at;) {
		size_t piece = strcspn(at, ",\n");

		if (piece == length && !memcmp(at, word, length))
			return true;
		at += piece;
		at += *at != 0;
	}
	return false;
}

/* A line of /proc/self/cgroup: ID:CONTROLLERS:PATH. */
static void take_membership(struct hierarchy *h, char *line)
{
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return;
	*path++ = 0;
	list++;
	path[strcspn(path, "\n")] = 0;
	if (h->controller ? !has_word(list, h->controller) : *list != 0)
		return;
	snprintf(h->path, sizeof(h->path), "%s", path);
	h->member = true;
}

/* A line of /proc/self/mountinfo; the first mount of a hierarchy counts. */
static void take_mount(struct hierarchy *h, char *line)
{
	const char *tail = strstr(line, " - ");
	char type[32], options[256];

	if (!tail || *h->point ||
	    sscanf(tail, " - %31s %*s %255s", type, options) != 2)
		return;
	if (strcmp(type, h->controller ? "cgroup" : "cgroup2"))
		return;
	if (h->controller && !has_word(options, h->controller))
		return;
	if (sscanf(line, "%*s %*s %*s %4095s %4095s", h->top, h->point) != 2)
		*h->point = 0;
}

/* Gives every line of the file to take. */
static void each_line(const char *root, const char *name, struct hierarchy *h,
		      void (*take)(struct hierarchy *h, char *line))
{
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getline(&line, &size, file) > 0)
		take(h, line);
	free(line);
	fclose(file);
}

/*
 * The process's folder below the mount point; empty where it lies outside, as
 * in a container that shows its own group as the root of the hierarchy.
 */
static const char *below_mount(const struct hierarchy *h)
{
	size_t length = strlen(h->top);

	if (!strncmp(h->path, "/..", 3))
		return "";
	if (!strcmp(h->top, "/"))
		return strcmp(h->path, "/") ? h->path : "";
	if (strncmp(h->path, h->top, length))
		return "";
	return h->path[length] == '/' ? h->path + length : "";
}

/* Calls visit for the process's folder and its parents, up to the mount. */
static void each_folder(const char *root, const char *controller,
			const char *usual, struct kilni_cgroup *out,
			void (*visit)(const char *folder,
				      struct kilni_cgroup *out))
{
	struct hierarchy h = { .controller = controller, .top = "/" };
	char folder[PATH_MAX];
	size_t mount;
	int length;

	each_line(root, "/proc/self/cgroup", &h, take_membership);
	if (!h.member)
		return;
	each_line(root, "/proc/self/mountinfo", &h, take_mount);
	if (!*h.point)
		snprintf(h.point, sizeof(h.point), "%s", usual);
	mount = strlen(root) + strlen(h.point);
	length = snprintf(folder, sizeof(folder), "%s%s%s", root, h.point,
			  below_mount(&h));
	if (length < 0 || (size_t)length >= sizeof(folder))
		return;
	for (;;) {
		char *slash = strrchr(folder, '/');

		visit(folder, out);
		if (!slash || strlen(folder) <= mount)
			return;
		*slash = 0;
	}
}

/* First line of a file in the folder; false where there is none. */
static bool read_line(const char *folder, const char *name, char *line,
		      int size)
{
	char path[PATH_MAX + 64];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(line, size, file) != NULL;
	fclose(file);
	return ok;
}

static void limit_cpus(struct kilni_cgroup *out, double quota, double period)
{
	if (quota > 0 && period > 0 && quota / period < out->cpus)
		out->cpus = quota / period;
}

static void visit_cpu_v2(const char *folder, struct kilni_cgroup *out)
{
	char line[128];
	double quota, period;

	/* "max PERIOD" is no limit, and no number. */
	if (read_line(folder, "cpu.max", line, sizeof(line)) &&
	    sscanf(line, "%lf %lf", &quota, &period) == 2)
		limit_cpus(out, quota, period);
}

static void visit_cpu_v1(const char *folder, struct kilni_cgroup *out)
{
	char quota[64], period[64];

	if (read_line(folder, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
	    read_line(folder, "cpu.cfs_period_us", period, sizeof(period)))
		limit_cpus(out, strtod(quota, NULL), strtod(period, NULL));
}

static void limit_memory(const char *folder, const char *name,
			 struct kilni_cgroup *out)
{
	char line[64];
	uint64_t bytes;

	if (read_line(folder, name, line, sizeof(line)) &&
	    sscanf(line, "%" SCNu64, &bytes) == 1)
		out->memory_bytes = kilni_min_u64(out->memory_bytes, bytes);
}

static void visit_memory_v2(const char *folder, struct kilni_cgroup *out)
{
	limit_memory(folder, "memory.max", out);
}

static void visit_memory_v1(const char *folder, struct kilni_cgroup *out)
{
	limit_memory(folder, "memory.limit_in_bytes", out);
}

void kilni_cgroup_read(const char *root, struct kilni_cgroup *out)
{
	out->cpus = INFINITY;
	out->memory_bytes = UINT64_MAX;
	each_folder(root, NULL, "/sys/fs/cgroup", out, visit_cpu_v2);
	each_folder(root, NULL, "/sys/fs/cgroup", out, visit_memory_v2);
	each_folder(root, "cpu", "/sys/fs/cgroup/cpu", out, visit_cpu_v1);
	each_folder(root, "memory", "/sys/fs/cgroup/memory", out,
		    visit_memory_v1);
}
