/* SPDX-License-Identifier: Apache-2.0 */
#include "fashion.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define POOLS_MAX 64
#define BAR_WIDTH 30

int tell_error(enum kiln_status status)
{
	fprintf(stderr, "fashion: %s: %s\n", kiln_status_name(status),
		kiln_error_message());
	return EXIT_FAILURE;
}

/* ---- Progress ---- */

bool progress_shown(const struct options *options)
{
	return !options->quiet && isatty(STDERR_FILENO);
}

void progress_draw(const struct options *options, const struct result *result,
		   int64_t images_per_epoch)
{
	int64_t steps = (images_per_epoch + options->batch - 1) /
			options->batch * options->epochs;
	char bar[BAR_WIDTH + 1];
	double done;

	if (!progress_shown(options))
		return;
	if (options->steps && options->steps < steps)
		steps = options->steps;
	done = (double)result->steps / (double)steps;
	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', (size_t)(done * BAR_WIDTH));
	bar[BAR_WIDTH] = '\0';
	fprintf(stderr, "\repoch %d/%d [%s] %3d %% loss %.4f ",
		result->epochs + 1, options->epochs, bar, (int)(100 * done),
		(double)result->loss);
}

void progress_end(const struct options *options)
{
	if (progress_shown(options))
		fprintf(stderr, "\r%70s\r", "");
}

/* ---- Result ---- */

struct pools {
	size_t count;
	bool available;
	struct kiln_pool_info info[POOLS_MAX];
};

static enum kiln_status read_pools(struct pools *pools,
				   struct kiln_device *device)
{
	size_t count = POOLS_MAX, special;
	enum kiln_status status;

	memset(pools, 0, sizeof(*pools));
	for (size_t i = 0; i < POOLS_MAX; i++)
		pools->info[i].struct_size = sizeof(pools->info[i]);
	status = kiln_memory_pools(device, pools->info, &count,
				   &pools->available);
	if (status || !pools->available)
		return status;
	count = count < POOLS_MAX ? count : POOLS_MAX;
	special = POOLS_MAX - count;
	status = kiln_memory_special_pools(device, pools->info + count,
					   &special, &pools->available);
	count += special;
	pools->count = count < POOLS_MAX ? count : POOLS_MAX;
	return status;
}

static const char *kind_name(enum kiln_pool_kind kind)
{
	switch (kind) {
	case KILN_POOL_SLICED:
		return "sliced";
	case KILN_POOL_EXCLUSIVE:
		return "exclusive";
	case KILN_POOL_PERSISTENT:
		return "persistent";
	}
	return "?";
}

static bool has_values(const struct kiln_device *device)
{
	return kiln_device_type(device) != KILN_DEVICE_NULL;
}

static double images_per_second(const struct result *r)
{
	return r->seconds > 0 ? (double)r->images / r->seconds : 0;
}

static double step_ms(const struct result *r)
{
	return r->steps ? 1e3 * r->seconds / (double)r->steps : 0;
}

static void print_pools(const struct pools *pools)
{
	if (!pools->available)
		return;
	printf("\n%-11s %10s %6s %7s %9s %9s %9s %9s\n", "pool (MiB)", "page",
	       "pages", "slices", "live", "cached", "padding", "reserved");
	for (size_t i = 0; i < pools->count; i++) {
		const struct kiln_pool_info *p = &pools->info[i];

		printf("%-11s %10.2f %6" PRIu64 " %7" PRIu64
		       " %9.2f %9.2f %9.2f %9.2f\n",
		       kind_name(p->kind), (double)p->page_bytes / MIB,
		       p->pages, p->allocations, (double)p->live_bytes / MIB,
		       (double)p->cached_bytes / MIB,
		       (double)p->padding_bytes / MIB,
		       (double)p->reserved_bytes / MIB);
	}
}

static void print_text(const struct options *options, const struct result *r,
		       const struct kiln_device *device,
		       const struct pools *pools)
{
	if (has_values(device))
		printf("test accuracy      %.2f %%\n", 100 * r->accuracy);
	else
		printf("test accuracy      not computed\n");
	printf("images per second  %.0f (%" PRId64 " steps, %.3f ms each)\n",
	       images_per_second(r), r->steps, step_ms(r));
	printf("device             %s: %s\n", kiln_device_selector(device),
	       kiln_device_describe(device));
	if (r->reserved_bytes)
		printf("memory             flat from step 2 on: %.2f MiB live, "
		       "%.2f MiB reserved\n",
		       (double)r->live_bytes / MIB,
		       (double)r->reserved_bytes / MIB);
	if (options->graph)
		printf("graph              %" PRIu64 " operations a step\n",
		       r->operations);
	if (options->checksum)
		printf("checksum           %016" PRIx64 "\n", r->checksum);
	print_pools(pools);
}

static void print_json_pools(const struct pools *pools)
{
	printf("  \"pools\": [");
	for (size_t i = 0; pools->available && i < pools->count; i++) {
		const struct kiln_pool_info *p = &pools->info[i];

		printf("%s\n    {\"kind\": \"%s\", \"page_bytes\": %" PRIu64
		       ", \"pages\": %" PRIu64 ", \"allocations\": %" PRIu64
		       ",\n     \"live_bytes\": %" PRIu64
		       ", \"cached_bytes\": %" PRIu64
		       ", \"padding_bytes\": %" PRIu64
		       ", \"reserved_bytes\": %" PRIu64 "}",
		       i ? "," : "", kind_name(p->kind), p->page_bytes,
		       p->pages, p->allocations, p->live_bytes, p->cached_bytes,
		       p->padding_bytes, p->reserved_bytes);
	}
	printf("]\n");
}

/* A string of JSON; what a selector cannot hold becomes a question mark. */
static void print_json_text(const char *name, const char *text)
{
	printf("  \"%s\": \"", name);
	for (; *text; text++)
		putchar(*text < ' ' || *text > '~' || *text == '"' ||
				*text == '\\' ? '?' : *text);
	printf("\",\n");
}

static void print_json(const struct options *options, const struct result *r,
		       const struct kiln_device *device,
		       const struct pools *pools)
{
	printf("{\n");
	print_json_text("device", kiln_device_selector(device));
	printf("  \"workers\": %u,\n", kiln_device_workers(device));
	printf("  \"seed\": %" PRIu64 ",\n", options->seed);
	if (has_values(device))
		printf("  \"accuracy\": %.6f,\n", r->accuracy);
	else
		printf("  \"accuracy\": null,\n");
	printf("  \"epochs\": %d,\n  \"steps\": %" PRId64 ",\n", r->epochs,
	       r->steps);
	printf("  \"graph_operations\": %" PRIu64 ",\n", r->operations);
	printf("  \"seconds\": %.6f,\n", r->seconds);
	printf("  \"best_epoch_seconds\": %.6f,\n", r->best_epoch_seconds);
	printf("  \"images_per_second\": %.1f,\n", images_per_second(r));
	printf("  \"ms_per_step\": %.6f,\n", step_ms(r));
	printf("  \"checksum\": \"%016" PRIx64 "\",\n", r->checksum);
	printf("  \"live_bytes\": %" PRIu64 ",\n  \"reserved_bytes\": %" PRIu64
	       ",\n", r->live_bytes, r->reserved_bytes);
	print_json_pools(pools);
	printf("}\n");
}

static int tell_growth(const struct result *r)
{
	fprintf(stderr,
		"fashion: memory grew by step %" PRId64 ": live %" PRIu64
		" to %" PRIu64 ", reserved %" PRIu64 " to %" PRIu64 " bytes\n",
		r->grown_step, r->live_bytes, r->grown_live_bytes,
		r->reserved_bytes, r->grown_reserved_bytes);
	return EXIT_FAILURE;
}

int report(const struct options *options, const struct result *result,
	   struct kiln_device *device)
{
	struct pools pools;
	enum kiln_status status = read_pools(&pools, device);

	if (status)
		return tell_error(status);
	if (result->grown_step)
		return tell_growth(result);
	if (options->json)
		print_json(options, result, device, &pools);
	else
		print_text(options, result, device, &pools);
	if (fflush(stdout) || ferror(stdout)) {
		perror("fashion: stdout");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
