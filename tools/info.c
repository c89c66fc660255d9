/* SPDX-License-Identifier: Apache-2.0 */
/* kiln info - version, build, drivers, cards, devices, options */
#include "tools/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Facts of the build, from the build system. */
#ifndef KILNI_BUILD_FLAGS
#define KILNI_BUILD_FLAGS "unknown"
#endif
#ifndef KILNI_BUILD_LEVELS
#define KILNI_BUILD_LEVELS "unknown"
#endif
#ifndef KILNI_BUILD_DRIVERS
#define KILNI_BUILD_DRIVERS "unknown"
#endif

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#define STRING_(text) #text
#define STRING(text) STRING_(text)
#define HEADER_VERSION                                                         \
	STRING(KILN_VERSION_MAJOR)                                             \
	"." STRING(KILN_VERSION_MINOR) "." STRING(KILN_VERSION_PATCH)

extern char **environ;

struct kind {
	enum kiln_device_type type;
	const char *name;
};

static const struct kind kinds[] = {
	{ KILN_DEVICE_CPU, "cpu" },
	{ KILN_DEVICE_NULL, "null" },
	{ KILN_DEVICE_CUDA, "cuda" },
	{ KILN_DEVICE_VULKAN, "vulkan" },
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

const char *info_type_name(enum kiln_device_type type)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (kinds[i].type == type)
			return kinds[i].name;
	return "unknown";
}

json_t *info_text(const char *text)
{
	return text && *text ? tool_text(text) : json_null();
}

json_t *info_bytes(uint64_t bytes)
{
	return bytes ? json_integer((json_int_t)bytes) : json_null();
}

/* ---- Build and environment ---- */

/* The words of a text as an array. */
static json_t *words(const char *text)
{
	json_t *list = json_array();

	while (*text) {
		size_t length = strcspn(text, " ");

		if (length)
			json_array_append_new(list, json_stringn(text, length));
		text += length + (text[length] == ' ');
	}
	return list;
}

static json_t *describe_build(void)
{
	json_t *build = json_object();

	json_object_set_new(build, "compiler", tool_text(COMPILER));
	json_object_set_new(build, "flags", tool_text(KILNI_BUILD_FLAGS));
	json_object_set_new(build, "levels", words(KILNI_BUILD_LEVELS));
	json_object_set_new(build, "drivers", words(KILNI_BUILD_DRIVERS));
	json_object_set_new(build, "headers", tool_text(HEADER_VERSION));
	return build;
}

/* Splits NAME=VALUE; only the library's own variables count. */
static void add_variable(json_t *options, const char *variable)
{
	const char *equals = strchr(variable, '=');
	char name[64];

	if (strncmp(variable, "KILN_", 5) || !equals ||
	    (size_t)(equals - variable) >= sizeof(name))
		return;
	memcpy(name, variable, (size_t)(equals - variable));
	name[equals - variable] = '\0';
	json_object_set_new(options, name, tool_text(equals + 1));
}

static json_t *describe_options(void)
{
	json_t *options = json_object();

	for (char **variable = environ; variable && *variable; variable++)
		add_variable(options, *variable);
	return options;
}

static json_t *describe_reproducibility(void)
{
	json_t *note = json_object();

	json_object_set_new(
		note, "elementwise",
		json_string("and index operations: same bits on every "
			    "instruction-set level and for any number of "
			    "workers"));
	json_object_set_new(
		note, "products",
		json_string("of matrices, and reductions: same bits for any "
			    "number of workers, per instruction-set level"));
	return note;
}

/* ---- Drivers ---- */

static json_t *describe_driver(const struct kind *kind)
{
	const char *absent = kiln_device_absent(kind->type);
	json_t *driver = json_object();

	json_object_set_new(driver, "name", json_string(kind->name));
	json_object_set_new(
		driver, "devices",
		json_integer((json_int_t)kiln_device_count(kind->type)));
	json_object_set_new(driver, "absent",
			    absent ? tool_text(absent) : json_null());
	return driver;
}

static json_t *describe_drivers(void)
{
	json_t *drivers = json_array();

	for (size_t i = 0; i < KIND_COUNT; i++)
		json_array_append_new(drivers, describe_driver(&kinds[i]));
	return drivers;
}

/* ---- Devices ---- */

struct usage {
	enum kiln_dtype_usage bit;
	const char *name;
};

static const struct usage usages[] = {
	{ KILN_USAGE_STORAGE, "storage" },
	{ KILN_USAGE_ARITHMETIC, "arithmetic" },
	{ KILN_USAGE_ACCELERATED, "accelerated" },
	{ KILN_USAGE_DENORMALS, "denormals" },
};

static json_t *describe_dtype(const struct kiln_device *device,
			      enum kiln_dtype dtype)
{
	unsigned set = kiln_device_dtype_usage(device, dtype);
	json_t *names = json_array();

	for (size_t i = 0; i < sizeof(usages) / sizeof(usages[0]); i++)
		if (set & usages[i].bit)
			json_array_append_new(names,
					      json_string(usages[i].name));
	return names;
}

static json_t *describe_dtypes(const struct kiln_device *device)
{
	json_t *dtypes = json_object();

	for (int i = 0; i < KILN_DTYPE_COUNT; i++)
		json_object_set_new(dtypes,
				    kiln_dtype_name((enum kiln_dtype)i),
				    describe_dtype(device, (enum kiln_dtype)i));
	return dtypes;
}

static json_t *dtype_text(int dtype)
{
	if (dtype == KILN_DTYPE_DEFAULT)
		return json_null();
	return json_string(kiln_dtype_name((enum kiln_dtype)dtype));
}

static json_t *describe_settings(const struct kiln_device *device)
{
	struct kiln_settings settings = KILN_SETTINGS_INIT;
	json_t *object;

	if (kiln_device_settings(device, &settings))
		return json_null();
	object = json_object();
	json_object_set_new(object, "float", dtype_text(settings.float_dtype));
	json_object_set_new(object, "int", dtype_text(settings.int_dtype));
	json_object_set_new(object, "bool", dtype_text(settings.bool_dtype));
	return object;
}

/* What only an open device tells. */
static void add_opened(json_t *object, const struct kiln_device *device)
{
	json_object_set_new(object, "workers",
			    json_integer(kiln_device_workers(device)));
	json_object_set_new(object, "setup",
			    tool_text(kiln_device_describe(device)));
	json_object_set_new(object, "settings", describe_settings(device));
	json_object_set_new(object, "dtypes", describe_dtypes(device));
}

static json_t *describe_open(const struct kiln_device *device)
{
	json_t *object = json_object();

	json_object_set_new(object, "selector",
			    tool_text(kiln_device_selector(device)));
	json_object_set_new(object, "type",
			    json_string(info_type_name(kiln_device_type(device))));
	json_object_set_new(object, "name",
			    tool_text(kiln_device_name(device)));
	add_opened(object, device);
	return object;
}

static json_t *describe_row(const struct kiln_device_info *info)
{
	json_t *object = json_object();

	json_object_set_new(object, "selector", tool_text(info->selector));
	json_object_set_new(object, "type", json_string(info_type_name(info->type)));
	json_object_set_new(object, "name", info_text(info->name));
	json_object_set_new(object, "kind",
			    json_string(kiln_device_kind_name(info->kind)));
	json_object_set_new(object, "pci", info_text(info->pci));
	json_object_set_new(object, "uuid", info_text(info->uuid));
	json_object_set_new(object, "memory_bytes",
			    info_bytes(info->memory_bytes));
	json_object_set_new(object, "refused", info_text(info->refused));
	return object;
}

/* Whether to open a device costs nothing that others would miss. */
static bool is_free_to_open(enum kiln_device_type type)
{
	return type == KILN_DEVICE_CPU || type == KILN_DEVICE_NULL;
}

/*
 * A listed device; one that does not open says why. A GPU is not opened: on a
 * machine that many share each context takes memory of the card.
 */
static json_t *describe_listed(const struct kiln_device_info *info, int *code)
{
	struct kiln_device *device = NULL;
	json_t *object = describe_row(info);

	if (!is_free_to_open(info->type)) {
		json_object_set_new(object, "setup", json_null());
		json_object_set_new(object, "not_opened",
				    json_string("--device opens it, and tells "
						"what it can do"));
		return object;
	}
	if (kiln_device_open(&device, info->selector)) {
		json_object_set_new(object, "error",
				    tool_text(kiln_error_message()));
		*code = EXIT_FAILURE;
		return object;
	}
	add_opened(object, device);
	kiln_device_release(device);
	return object;
}

static json_t *describe_list(int *code)
{
	size_t count = kiln_device_count(KILN_DEVICE_ANY);
	struct kiln_device_info *infos = calloc(count + 1, sizeof(*infos));
	json_t *devices = json_array();

	for (size_t i = 0; infos && i < count; i++)
		infos[i].struct_size = sizeof(infos[i]);
	if (!infos ||
	    kiln_device_enumerate(KILN_DEVICE_ANY, infos, &count)) {
		*code = EXIT_FAILURE;
		count = 0;
	}
	for (size_t i = 0; i < count; i++)
		json_array_append_new(devices,
				      describe_listed(&infos[i], code));
	free(infos);
	return devices;
}

static json_t *describe_one(const char *selector, int *code)
{
	struct kiln_device *device = NULL;
	json_t *devices;

	*code = tool_open(&device, selector);
	if (*code)
		return NULL;
	devices = json_array();
	json_array_append_new(devices, describe_open(device));
	kiln_device_release(device);
	return devices;
}

/* ---- The command ---- */

static json_t *describe(json_t *cards, json_t *devices)
{
	json_t *all = json_object();

	json_object_set_new(all, "version", tool_text(kiln_version_string()));
	json_object_set_new(all, "build", describe_build());
	json_object_set_new(all, "drivers", describe_drivers());
	if (cards)
		json_object_set_new(all, "cards", cards);
	json_object_set_new(all, "devices", devices);
	json_object_set_new(all, "files", tool_text(kiln_file_engine()));
	json_object_set_new(all, "options", describe_options());
	json_object_set_new(all, "reproducibility", describe_reproducibility());
	return all;
}

/* For people: what is not known is left out. */
static void drop_nulls(json_t *value)
{
	const char *name;
	json_t *entry;
	void *next;
	size_t i;

	json_array_foreach(value, i, entry)
		drop_nulls(entry);
	json_object_foreach_safe(value, next, name, entry)
	{
		if (json_is_null(entry))
			json_object_del(value, name);
		else
			drop_nulls(entry);
	}
}

/* Cards and devices of the machine; NULL after a complaint. */
static json_t *describe_machine(const char *svg, int *code)
{
	struct kiln_physical *listing = NULL;
	enum kiln_status status = kiln_physical_survey(&listing);
	json_t *cards;

	if (status) {
		*code = tool_error(status);
		return NULL;
	}
	cards = info_cards(listing, code);
	if (svg && info_svg(listing, svg))
		*code = EXIT_FAILURE;
	kiln_physical_release(listing);
	return describe(cards, describe_list(code));
}

static int run(int argc, char **argv)
{
	struct tool_options options;
	int code = tool_options(&tool_info, &options, argc, argv);
	json_t *devices, *all;

	if (code >= 0)
		return code;
	if (options.operands < argc) {
		tool_complain("info: unexpected \"%s\"",
			      argv[options.operands]);
		return TOOL_USAGE;
	}
	if (options.device && options.svg) {
		tool_complain("info: --svg draws the machine, not a device");
		return TOOL_USAGE;
	}
	code = EXIT_SUCCESS;
	if (options.device) {
		devices = describe_one(options.device, &code);
		all = devices ? describe(NULL, devices) : NULL;
	} else {
		all = describe_machine(options.svg, &code);
	}
	if (!all)
		return code;
	if (!options.json)
		drop_nulls(all);
	if (tool_print(all, options.json))
		code = EXIT_FAILURE;
	json_decref(all);
	return code;
}

const struct tool_command tool_info = {
	.name = "info",
	.takes = TOOL_TAKES_DEVICE | TOOL_TAKES_SVG,
	.run = run,
	.usage = "info [--device SELECTOR | --svg FILE] [--json]",
	.summary = "version, build, drivers, cards, devices and options in "
		   "force",
	.options = "  --device SELECTOR  only this device, opened\n"
		   "  --json             as JSON\n"
		   "  --svg FILE         draw the machine too\n"
		   "  --help, --version\n",
};
