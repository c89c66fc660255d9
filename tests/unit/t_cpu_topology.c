/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers the CPU driver starts, why, and where they run. */
#define _GNU_SOURCE
#include "drivers/cpu/place.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "drivers/cpu/cgroup.h"
#include "drivers/driver.h"

extern const struct kilni_driver kilni_cpu_driver;

/* ---- a tree of files that stands for / ---- */

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/kiln-topology-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

static void put(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static struct kilni_cgroup limits_here(void)
{
	struct kilni_cgroup limits;

	kilni_cgroup_read(root, &limits);
	return limits;
}

static unsigned workers_for(unsigned cores, double quota)
{
	struct kilni_worker_facts facts = { cores, cores, quota, 0, 0 };
	char reason[256];

	return kilni_workers_decide(&facts, reason, sizeof(reason));
}

/* ---- quotas ---- */

static const struct {
	const char *max;
	unsigned of_16;
} v2_rows[] = {
	{ "200000 100000\n", 2 }, { "765000 100000\n", 7 },
	{ "50000 100000\n", 1 },  { "max 100000\n", 16 },
	{ "1600000 100000\n", 16 }, { "6400000 100000\n", 16 },
	{ "150000 50000\n", 3 },  { "garbage\n", 16 },
	{ "", 16 },               { "0 0\n", 16 },
};

START_TEST(quota_v2)
{
	put("/proc/self/cgroup", "0::/user/job\n");
	put("/sys/fs/cgroup/user/job/cpu.max", v2_rows[_i].max);
	ck_assert_uint_eq(workers_for(16, limits_here().cpus),
			  v2_rows[_i].of_16);
}
END_TEST

START_TEST(parents_count)
{
	put("/proc/self/cgroup", "0::/user/job\n");
	put("/sys/fs/cgroup/user/job/cpu.max", "800000 100000\n");
	put("/sys/fs/cgroup/user/cpu.max", "400000 100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus), 4);
	put("/sys/fs/cgroup/user/job/cpu.max", "300000 100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus), 3);
	/* A mask of 3 CPUs with a quota of 8. */
	ck_assert_uint_eq(workers_for(3, 8), 3);
}
END_TEST

static const struct {
	const char *quota;
	unsigned of_16;
} v1_rows[] = {
	{ "200000\n", 2 }, { "765000\n", 7 }, { "50000\n", 1 }, { "-1\n", 16 },
};

START_TEST(quota_v1)
{
	put("/proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/slurm/job\n"
				 "1:name=systemd:/\n");
	put("/proc/self/mountinfo",
	    "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
	    "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - "
	    "cgroup cgroup rw,cpu,cpuacct\n");
	put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_quota_us",
	    v1_rows[_i].quota);
	put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_period_us",
	    "100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus),
			  v1_rows[_i].of_16);
	put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus), 1);
}
END_TEST

/* A container: its own group is mounted as the root of the hierarchy. */
START_TEST(quota_in_container)
{
	put("/proc/self/cgroup", "4:cpu:/docker/0123\n0::/docker/0123\n");
	put("/proc/self/mountinfo",
	    "33 30 0:29 /docker/0123 /sys/fs/cgroup/cpu ro - cgroup cgroup "
	    "rw,cpu\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus), 2);
	put("/proc/self/cgroup", "0::/../../other\n");
	put("/proc/self/mountinfo",
	    "33 30 0:29 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
	ck_assert_uint_eq(workers_for(16, limits_here().cpus), 3);
}
END_TEST

START_TEST(memory_limits)
{
	ck_assert(limits_here().memory_bytes == UINT64_MAX);
	ck_assert(isinf(limits_here().cpus));
	put("/proc/self/cgroup", "3:memory:/job\n0::/job\n");
	put("/sys/fs/cgroup/job/memory.max", "max\n");
	ck_assert(limits_here().memory_bytes == UINT64_MAX);
	put("/sys/fs/cgroup/job/memory.max", "4294967296\n");
	put("/sys/fs/cgroup/memory.max", "8589934592\n");
	ck_assert_uint_eq(limits_here().memory_bytes, 4294967296u);
	put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1048576\n");
	ck_assert_uint_eq(limits_here().memory_bytes, 1048576);
}
END_TEST

START_TEST(other_limits_and_reason)
{
	struct kilni_worker_facts f = { 16, 8, INFINITY, 0, 0 };
	char reason[256];

	ck_assert_uint_eq(kilni_workers_decide(&f, reason, sizeof(reason)), 8);
	ck_assert_str_eq(reason, "8 workers: 8 cores (16 logical CPUs) in "
				 "affinity mask; no cgroup quota");
	f.slurm = 2;
	ck_assert_uint_eq(kilni_workers_decide(&f, reason, sizeof(reason)), 2);
	f.quota = 1.5;
	ck_assert_uint_eq(kilni_workers_decide(&f, reason, sizeof(reason)), 1);
	ck_assert_str_eq(reason, "1 worker: 8 cores (16 logical CPUs) in "
				 "affinity mask; cgroup quota 1.50; "
				 "SLURM_CPUS_PER_TASK=2");
	f.asked = 5;
	ck_assert_uint_eq(kilni_workers_decide(&f, reason, sizeof(reason)), 5);
	ck_assert_ptr_nonnull(strstr(reason, "KILN_CPU_WORKERS=5"));
	/* A text that is cut off stays a text. */
	ck_assert_uint_eq(kilni_workers_decide(&f, reason, 10), 5);
	ck_assert_uint_lt(strlen(reason), 10);
}
END_TEST

/* ---- topologies ---- */

static char xml[128];

/* Writes the file of a machine that hwloc makes up. */
static void make_machine(const char *description)
{
	hwloc_topology_t topology;

	snprintf(xml, sizeof(xml), "%s/machine.xml", root);
	ck_assert_int_eq(hwloc_topology_init(&topology), 0);
	ck_assert_int_eq(hwloc_topology_set_synthetic(topology, description),
			 0);
	ck_assert_int_eq(hwloc_topology_load(topology), 0);
	ck_assert_int_eq(hwloc_topology_export_xml(topology, xml, 0), 0);
	hwloc_topology_destroy(topology);
}

#define SIBLINGS_NEXT "pack:1 core:8 pu:2"
#define SIBLINGS_FAR                                                           \
	"pack:1 core:8 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)"

START_TEST(siblings_are_no_cores)
{
	struct kilni_topology t;
	bool used[8] = { false };

	make_machine(_i ? SIBLINGS_FAR : SIBLINGS_NEXT);
	ck_assert_int_eq(kilni_topology_read(xml, NULL, &t), KILN_OK);
	ck_assert_uint_eq(t.cpus, 16);
	ck_assert_uint_eq(t.cores, 8);
	for (unsigned i = 0; i < 8; i++) {
		int core = _i ? t.core_cpu[i] % 8 : t.core_cpu[i] / 2;

		ck_assert(!used[core]);
		used[core] = true;
	}
	kilni_topology_free(&t);
}
END_TEST

START_TEST(mask_narrows_cores)
{
	static const struct {
		const char *mask;
		unsigned cpus, next, far; /* cores for either numbering */
	} rows[] = {
		{ "4-7", 4, 2, 4 },    { "0", 1, 1, 1 },
		{ "0,8", 2, 2, 1 },    { "0-7", 8, 4, 8 },
		{ "1,3,5", 3, 3, 3 },  { "8-15", 8, 4, 8 },
		{ "14-99", 2, 1, 2 },
	};

	make_machine(_i ? SIBLINGS_FAR : SIBLINGS_NEXT);
	for (size_t i = 0; i < KILNI_COUNTOF(rows); i++) {
		struct kilni_topology t;

		ck_assert_int_eq(kilni_topology_read(xml, rows[i].mask, &t),
				 KILN_OK);
		ck_assert_uint_eq(t.cpus, rows[i].cpus);
		ck_assert_uint_eq(t.cores, _i ? rows[i].far : rows[i].next);
		kilni_topology_free(&t);
	}
}
END_TEST

START_TEST(numa_nodes)
{
	struct kilni_topology t;

	make_machine("pack:2 [numa] core:4 pu:1");
	ck_assert_int_eq(kilni_topology_read(xml, "4-6", &t), KILN_OK);
	ck_assert_uint_eq(t.machine_nodes, 2);
	ck_assert_uint_eq(t.nodes, 1);
	ck_assert_uint_eq(t.node_set[0], 2);
	kilni_topology_free(&t);
	ck_assert_int_eq(kilni_topology_read(xml, "3,4", &t), KILN_OK);
	ck_assert_uint_eq(t.nodes, 2);
	kilni_topology_free(&t);
}
END_TEST

/* An empty /sys for this process alone. */
static bool hide_sysfs(void)
{
	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", "/sys", "tmpfs", 0, NULL);
}

/* Every CPU counts as a core, and nothing is printed. */
START_TEST(without_sysfs)
{
	struct kilni_topology t;
	char path[96], text[64];
	int before = dup(STDERR_FILENO), file;

	if (!hide_sysfs()) {
		fprintf(stderr, "no mount of its own: skipped\n");
		return;
	}
	snprintf(path, sizeof(path), "%s/stderr", root);
	file = open(path, O_RDWR | O_CREAT, 0600);
	ck_assert_int_ge(dup2(file, STDERR_FILENO), 0);
	ck_assert_int_eq(kilni_topology_read(NULL, NULL, &t), KILN_OK);
	dup2(before, STDERR_FILENO);
	ck_assert_int_eq(pread(file, text, sizeof(text), 0), 0);
	ck_assert_uint_ge(t.cores, 1);
	ck_assert_uint_eq(t.cores, t.cpus);
	kilni_topology_free(&t);
	close(file);
	close(before);
}
END_TEST

START_TEST(bad_topology)
{
	struct kilni_topology t;

	ck_assert_int_eq(kilni_topology_read("/nowhere.xml", NULL, &t),
			 KILN_ERR_OPTION);
	put("/bad.xml", "<topology version=\"2.0\"><object");
	snprintf(xml, sizeof(xml), "%s/bad.xml", root);
	ck_assert_int_eq(kilni_topology_read(xml, NULL, &t), KILN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(kiln_error_message(), xml));
}
END_TEST

/* The whole driver on a made-up machine and system. */
START_TEST(driver_takes_all_in)
{
	const struct kilni_device_ops *device = kilni_cpu_driver.device;
	struct kilni_hw *hw = NULL;

	make_machine(SIBLINGS_FAR);
	setenv("KILN_HWLOC_XML", xml, 1);
	setenv("KILN_SYSFS_ROOT", root, 1);
	ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw), KILN_OK);
	ck_assert_uint_eq(device->workers(hw), 8);
	ck_assert_ptr_nonnull(strstr(device->explain(hw), "no cgroup quota"));
	device->close(hw);
	setenv("SLURM_CPUS_PER_TASK", "2", 1);
	ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw), KILN_OK);
	ck_assert_uint_eq(device->workers(hw), 2);
	device->close(hw);
	setenv("SLURM_CPUS_PER_TASK", "many", 1);
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/cpu.max", "765000 100000\n");
	ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw), KILN_OK);
	ck_assert_uint_eq(device->workers(hw), 7);
	ck_assert_ptr_nonnull(strstr(device->explain(hw),
				     "cgroup quota 7.65"));
	device->close(hw);
	setenv("KILN_CPU_WORKERS", "3x", 1);
	ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw),
			 KILN_ERR_OPTION);
}
END_TEST

/* ---- this machine ---- */

/* Whether the list of allowed CPUs in a thread's status is inside the mask. */
static bool is_inside(const char *status, const cpu_set_t *mask, int *count)
{
	const char *at = strstr(status, "Cpus_allowed_list:");
	hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
	char list[256];
	int cpu;
	bool inside = at && sscanf(at, "%*s %255s", list) == 1 &&
		      !hwloc_bitmap_list_sscanf(allowed, list);

	hwloc_bitmap_foreach_begin(cpu, allowed) {
		inside &= cpu < CPU_SETSIZE && CPU_ISSET(cpu, mask);
	}
	hwloc_bitmap_foreach_end();
	*count = hwloc_bitmap_weight(allowed);
	hwloc_bitmap_free(allowed);
	return inside;
}

static bool read_status(const char *thread, char *text, size_t size)
{
	char path[300];
	FILE *file;
	size_t length;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	file = fopen(path, "r");
	if (!file)
		return false;
	length = fread(text, 1, size - 1, file);
	text[length] = 0;
	fclose(file);
	return true;
}

/* All signals but those that cannot be blocked, or are glibc's own. */
static bool blocks_signals(const char *status)
{
	const char *blocked = strstr(status, "SigBlk:");

	return blocked && (strtoull(blocked + 7, NULL, 16) |
			   0x0000000180040100u) == 0xffffffffffffffffu;
}

/* Workers by name, and those inside mask on few CPUs, with signals blocked. */
static unsigned count_workers(const cpu_set_t *mask, int most_cpus,
			      unsigned *in_order)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned workers = 0;
	struct dirent *thread;
	char status[4096];
	int count;

	*in_order = 0;
	while ((thread = readdir(dir))) {
		if (*thread->d_name == '.' ||
		    !read_status(thread->d_name, status, sizeof(status)) ||
		    !strstr(status, "Name:\tkiln-cpu-"))
			continue;
		workers++;
		*in_order += is_inside(status, mask, &count) &&
			     count <= most_cpus && blocks_signals(status);
	}
	closedir(dir);
	return workers;
}

/* A worker pins itself as it starts: whenever that is. */
static void expect_workers(const cpu_set_t *mask, int most_cpus, unsigned want)
{
	unsigned in_order, workers = 0, tries;

	for (tries = 0; tries < 60000; tries++) {
		workers = count_workers(mask, most_cpus, &in_order);
		if (workers == want && in_order == want)
			return;
		usleep(1000);
	}
	ck_abort_msg("%u workers, %u of them in order, not %u", workers,
		     in_order, want);
}

START_TEST(pinned_inside_the_mask)
{
	const struct kilni_device_ops *device = kilni_cpu_driver.device;
	cpu_set_t all, mine, after;
	struct kilni_hw *hw = NULL;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&mine);
		CPU_SET(cpu, &mine);
		ck_assert_int_eq(sched_setaffinity(0, sizeof(mine), &mine), 0);
		ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw),
				 KILN_OK);
		ck_assert_uint_eq(device->workers(hw), 1);
		expect_workers(&mine, 1, 1);
		ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after),
				 0);
		ck_assert(CPU_EQUAL(&mine, &after));
		device->close(hw);
	}
	ck_assert_int_eq(sched_setaffinity(0, sizeof(all), &all), 0);
	/* More workers than cores: inside the mask, but not pinned. */
	setenv("KILN_CPU_WORKERS", "5", 1);
	ck_assert_int_eq(kilni_cpu_driver.driver->open(0, &hw), KILN_OK);
	ck_assert_uint_eq(device->workers(hw), 5);
	expect_workers(&all, CPU_SETSIZE, 5);
	device->close(hw);
	expect_workers(&all, CPU_SETSIZE, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cpu_topology");
	TCase *t = tcase_create("topology");
	SRunner *runner;
	int failed;

	/* The scheduler of this very test must not decide. */
	unsetenv("SLURM_CPUS_PER_TASK");
	tcase_add_checked_fixture(t, make_root, remove_root);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, quota_v2, 0, KILNI_COUNTOF(v2_rows));
	tcase_add_loop_test(t, quota_v1, 0, KILNI_COUNTOF(v1_rows));
	tcase_add_test(t, parents_count);
	tcase_add_test(t, quota_in_container);
	tcase_add_test(t, memory_limits);
	tcase_add_test(t, other_limits_and_reason);
	tcase_add_loop_test(t, siblings_are_no_cores, 0, 2);
	tcase_add_loop_test(t, mask_narrows_cores, 0, 2);
	tcase_add_test(t, numa_nodes);
	tcase_add_test(t, without_sysfs);
	tcase_add_test(t, bad_topology);
	tcase_add_test(t, driver_takes_all_in);
	tcase_add_test(t, pinned_inside_the_mask);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
