/* SPDX-License-Identifier: Apache-2.0 */
/* kiln inspect - what a safetensors file holds */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST 48
#define SHAPE_BYTES 256

/* ---- The file ---- */

static json_t *describe_metadata(const struct kiln_safetensors *file)
{
	json_t *metadata = json_object();
	const char *key, *text;

	for (size_t i = 0;
	     (text = kiln_safetensors_metadata(file, i, &key)); i++)
		json_object_set_new(metadata, key, tool_text(text));
	return metadata;
}

static bool is_loadable(const struct kiln_safetensors_info *info)
{
	return info->dtype >= 0 && info->rank <= KILN_RANK_MAX;
}

static json_t *describe_shape(const struct kiln_safetensors_info *info)
{
	json_t *shape = json_array();

	for (int d = 0; d < info->rank; d++)
		json_array_append_new(shape, json_integer(info->shape[d]));
	return shape;
}

static json_t *describe_tensor(const struct kiln_safetensors_info *info)
{
	json_t *tensor = json_object();

	json_object_set_new(tensor, "name", tool_text(info->name));
	json_object_set_new(tensor, "dtype", tool_text(info->dtype_name));
	json_object_set_new(tensor, "shape", describe_shape(info));
	json_object_set_new(tensor, "bytes",
			    json_integer((json_int_t)info->size_bytes));
	json_object_set_new(tensor, "offset",
			    json_integer((json_int_t)info->offset_bytes));
	json_object_set_new(tensor, "loadable",
			    json_boolean(is_loadable(info)));
	return tensor;
}

/* All tensors; adds up their bytes. */
static struct kiln_safetensors_info *
list_tensors(const struct kiln_safetensors *file, uint64_t *bytes)
{
	size_t count = kiln_safetensors_count(file);
	struct kiln_safetensors_info *infos = calloc(count + 1,
						     sizeof(*infos));

	*bytes = 0;
	if (!infos) {
		tool_complain("inspect: no memory for %zu tensors", count);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		infos[i].struct_size = sizeof(infos[i]);
		if (kiln_safetensors_describe(file, i, &infos[i])) {
			tool_complain("%s", kiln_error_message());
			free(infos);
			return NULL;
		}
		*bytes += infos[i].size_bytes;
	}
	return infos;
}

static json_t *describe(const char *path, const struct kiln_safetensors *file,
			uint64_t data_bytes)
{
	uint64_t header = kiln_safetensors_header_bytes(file);
	json_t *all = json_object();

	json_object_set_new(all, "file", tool_text(path));
	json_object_set_new(all, "bytes",
			    json_integer((json_int_t)(8 + header +
						      data_bytes)));
	json_object_set_new(all, "header_bytes",
			    json_integer((json_int_t)header));
	json_object_set_new(all, "data_bytes",
			    json_integer((json_int_t)data_bytes));
	json_object_set_new(all, "engine", tool_text(kiln_file_engine()));
	json_object_set_new(all, "metadata", describe_metadata(file));
	return all;
}

/* ---- Output ---- */

static const char *shape_text(char *text,
			      const struct kiln_safetensors_info *info)
{
	size_t used = 0;

	for (int d = 0; d < info->rank && used < SHAPE_BYTES; d++)
		used += (size_t)snprintf(text + used, SHAPE_BYTES - used,
					 "%s%lld", d ? "," : "[",
					 (long long)info->shape[d]);
	if (!info->rank)
		return "[]";
	if (used + 1 < SHAPE_BYTES)
		snprintf(text + used, SHAPE_BYTES - used, "]");
	return text;
}

static int widest_name(const struct kiln_safetensors_info *infos, size_t count)
{
	size_t widest = strlen("name");

	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(infos[i].name);

		if (length > widest && length <= NAME_MOST)
			widest = length;
	}
	return (int)widest;
}

static void print_row(const struct kiln_safetensors_info *info, int width)
{
	char shape[SHAPE_BYTES];
	int pad = width - (int)strlen(info->name);

	tool_plain(info->name);
	printf("%*s  ", pad > 0 ? pad : 0, "");
	tool_plain(info->dtype_name);
	pad = 8 - (int)strlen(info->dtype_name);
	printf("%*s %-20s %14" PRIu64 " %14" PRIu64 "%s\n", pad > 0 ? pad : 0,
	       "", shape_text(shape, info), info->size_bytes,
	       info->offset_bytes, is_loadable(info) ? "" : "  not loadable");
}

static int print_table(json_t *all, const struct kiln_safetensors_info *infos,
		       size_t count)
{
	int width = widest_name(infos, count);

	json_object_set_new(all, "tensors", json_integer((json_int_t)count));
	if (tool_print(all, false))
		return EXIT_FAILURE;
	if (count)
		printf("\n%-*s  %-8s %-20s %14s %14s\n", width, "name",
		       "dtype", "shape", "bytes", "offset");
	for (size_t i = 0; i < count; i++)
		print_row(&infos[i], width);
	return EXIT_SUCCESS;
}

static int print_json(json_t *all, const struct kiln_safetensors_info *infos,
		      size_t count)
{
	json_t *tensors = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(tensors, describe_tensor(&infos[i]));
	json_object_set_new(all, "tensors", tensors);
	return tool_print(all, true);
}

/* ---- The command ---- */

static int inspect(const char *path, bool as_json)
{
	struct kiln_safetensors *file = NULL;
	struct kiln_safetensors_info *infos;
	enum kiln_status status = kiln_safetensors_open(&file, path, 0);
	uint64_t bytes;
	size_t count;
	int code = EXIT_FAILURE;

	if (status)
		return tool_error(status);
	count = kiln_safetensors_count(file);
	infos = list_tensors(file, &bytes);
	if (infos) {
		json_t *all = describe(path, file, bytes);

		code = as_json ? print_json(all, infos, count)
			       : print_table(all, infos, count);
		json_decref(all);
	}
	free(infos);
	kiln_safetensors_release(file);
	return code;
}

static int run(int argc, char **argv)
{
	struct tool_options options;
	int code = tool_options(&tool_inspect, &options, argc, argv);

	if (code >= 0)
		return code;
	if (argc - options.operands != 1) {
		tool_complain(argc > options.operands
				      ? "inspect: one file at a time"
				      : "inspect: no file is named");
		return TOOL_USAGE;
	}
	return inspect(argv[options.operands], options.json);
}

const struct tool_command tool_inspect = {
	.name = "inspect",
	.run = run,
	.usage = "inspect [--json] FILE",
	.summary = "tensors and metadata of a safetensors file",
	.options = "  --json             as JSON\n"
		   "  --help, --version\n",
};
