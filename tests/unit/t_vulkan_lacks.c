/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan devices that lack something: a software device of which
 * KILN_VULKAN_HIDE hides it.
 */
#include "api.h"

#include <string.h>

#include "base/base.h"
#include "drivers/driver.h"
#include "there.h"

#define SELECTOR "vulkan:cpu"
#define HIDE(names) ck_assert_int_eq(setenv("KILN_VULKAN_HIDE", names, 1), 0)

/* ---- without what is needed ---- */

static const char *const needed[] = {
	"shaderInt64",
	"storageBuffer16BitAccess",
	"storageBuffer8BitAccess",
	"bufferDeviceAddress",
	"scalarBlockLayout",
	"timelineSemaphore",
	"shaderBufferInt64Atomics",
	"shaderSignedZeroInfNanPreserveFloat32",
	"a queue that computes",
};

START_TEST(refused_for_one)
{
	struct kiln_device *device = NULL;
	char lacks[80];

	HIDE(needed[_i]);
	snprintf(lacks, sizeof(lacks), " lacks %s", needed[_i]);
	FAILS(kiln_device_open(&device, SELECTOR), KILN_ERR_UNSUPPORTED, lacks);
	ck_assert_str_eq(strstr(kiln_error_message(), lacks), lacks);
	ck_assert_ptr_null(device);
}
END_TEST

static const struct kilni_driver_ops *driver_ops(void)
{
	const struct kilni_driver *const *driver = kilni_drivers;

	while (strcmp((*driver)->name, "vulkan"))
		driver++;
	return (*driver)->driver;
}

/* The list is complete, in the message and in the listing. */
START_TEST(refused_for_all)
{
	const struct kilni_driver_ops *ops = driver_ops();
	struct kiln_device *device = NULL;
	struct kilni_hw_info info;
	char hidden[512] = "shaderFloat64", lacks[512] = "lacks ";
	unsigned i, told = 0;

	for (i = 0; i < KILNI_COUNTOF(needed); i++) {
		strcat(strcat(hidden, ","), needed[i]);
		strcat(strcat(lacks, i ? ", " : ""), needed[i]);
	}
	HIDE(hidden);
	FAILS(kiln_device_open(&device, SELECTOR), KILN_ERR_UNSUPPORTED, lacks);
	for (i = 0; i < ops->count(); i++) {
		OK(ops->describe(i, &info));
		told += !strcmp(info.refused, lacks);
	}
	ck_assert_uint_eq(told, i);
}
END_TEST

START_TEST(hides_nothing_unknown)
{
	struct kiln_device *device = NULL;

	HIDE("shaderFloat64,shaderFloat65");
	FAILS(kiln_device_open(&device, SELECTOR), KILN_ERR_NO_DEVICE,
	      "KILN_VULKAN_HIDE: \"shaderFloat65\"");
}
END_TEST

/* ---- without what may be missing ---- */

static const char *const optional[] = {
	"timestampValidBits",
	"subgroupSupportedOperations",
	"a queue for transfers",
	"VK_EXT_pci_bus_info",
	"VK_EXT_external_memory_host",
	"shaderFloat64",
	"shaderSignedZeroInfNanPreserveFloat64",
	/* All at once. */
	("timestampValidBits,subgroupSupportedOperations,a queue for transfers,"
	 "VK_EXT_pci_bus_info,VK_EXT_external_memory_host,shaderFloat64,shaderSignedZeroInfNanPreserveFloat64"),
};

START_TEST(opened_without)
{
	struct kiln_device *device;
	struct kiln_tensor *x, *y;
	static float marked[4096];
	const struct kiln_host_range range = { marked, sizeof(marked) };

	HIDE(optional[_i]);
	device = open_device(SELECTOR);
	ck_assert_int_eq(kiln_device_supports_dtype(device, KILN_F64),
			 !strstr(optional[_i], "Float64"));
	ck_assert(kiln_device_supports_dtype(device, KILN_F32));
	ck_assert(!strstr(optional[_i], "transfers") ||
		  strstr(kiln_device_describe(device),
			 "no queue for transfers"));
	OK(kiln_device_stage(device, &range, 1));
	x = FLOATS(device, 1, 2);
	y = FLOATS(device, 3, 5);
	OK(kiln_mul(&x, x, y));
	EXPECT_FLOATS(x, 3, 10);
	OK(kiln_device_unstage(device, &range, 1));
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_device_release(device);
}
END_TEST

/* ---- without denormals of f32 ---- */

static const enum kiln_dtype floats[] = { KILN_F32, KILN_FLEX32, KILN_BF16,
					  KILN_F16, KILN_F64 };

START_TEST(tells_what_keeps_denormals)
{
	struct kiln_device *device = open_device(SELECTOR);

	for (size_t i = 0; i < KILNI_COUNTOF(floats); i++)
		ck_assert_uint_eq(kiln_device_dtype_usage(device, floats[i]),
				  KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC |
					  KILN_USAGE_DENORMALS);
	kiln_device_release(device);
}
END_TEST

START_TEST(tells_what_flushes_them)
{
	struct kiln_device *device;

	HIDE("shaderDenormPreserveFloat32");
	device = open_device(SELECTOR);
	for (size_t i = 0; i < KILNI_COUNTOF(floats); i++) {
		bool kept = floats[i] == KILN_F16 || floats[i] == KILN_F64;

		ck_assert(kiln_device_supports_dtype(device, floats[i]));
		ck_assert_int_eq(!(kiln_device_dtype_usage(device, floats[i]) &
				   KILN_USAGE_DENORMALS), !kept);
	}
	kiln_device_release(device);
}
END_TEST

/* ---- without f64 ---- */

static struct kiln_device *dev;

static void setup(void)
{
	HIDE("shaderFloat64");
	dev = open_device(SELECTOR);
}

static void teardown(void)
{
	kiln_device_release(dev);
}

#define NO_F64(expr) FAILS(expr, KILN_ERR_UNSUPPORTED_DTYPE, "has no f64")

/* No tensor of f64 comes to be there, so no op meets one. */
START_TEST(no_tensor_of_f64)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE, *x = FLOATS(dev, 1, 2);
	struct kiln_settings settings = KILN_SETTINGS_INIT;
	const double data[] = { 1, 2 };
	const int64_t two = 2;

	settings.float_dtype = KILN_F64;
	ck_assert_uint_eq(kiln_device_dtype_usage(dev, KILN_F64), 0);
	NO_F64(kiln_device_configure(dev, &settings));
	NO_F64(kiln_empty(&t, dev, KILN_F64, 1, &two));
	NO_F64(kiln_zeros(&t, dev, KILN_F64, 1, &two));
	NO_F64(kiln_full(&t, dev, KILN_F64, 1, &two, kiln_float(1)));
	NO_F64(kiln_random(&t, dev, KILN_F64, 1, &two,
			   (struct kiln_distribution){
				   .kind = KILN_RANDOM_UNIFORM, .b = 1 }));
	NO_F64(kiln_tensor_from_data(&t, dev, KILN_F64, 1, &two, data,
				     sizeof(data)));
	NO_F64(kiln_cast(&t, x, KILN_F64));
	ck_assert_ptr_null(t);
	EXPECT_FLOATS(x, 1, 2);
	kiln_tensor_release(x);
}
END_TEST

/* What goes through f64 is refused at the call, and leaves all as it was. */
START_TEST(what_needs_f64)
{
	const char *name = kiln_dtype_name(floats[_i]);
	struct kiln_tensor *x = FLOATS(dev, 1, 4), *out = KILN_TENSOR_NONE;
	struct kiln_tensor *whole = INTS(dev, 1, 4);
	char text[64];

	OK(kiln_cast(&x, x, floats[_i]));
#define REFUSED(expr, op)                                                      \
	snprintf(text, sizeof(text), "%s: of %s it is computed in f64, which", \
		 op, name);                                                    \
	FAILS(expr, KILN_ERR_UNSUPPORTED, text);                               \
	ck_assert_ptr_null(out)
	REFUSED(kiln_div(&out, x, x), "kiln_div");
	REFUSED(kiln_sqrt(&out, x), "kiln_sqrt");
	REFUSED(kiln_tanh(&out, x), "kiln_tanh");
	REFUSED(kiln_sum(&out, x), "kiln_sum");
	REFUSED(kiln_mean_dim(&out, x, 0), "kiln_mean");
#undef REFUSED
	if (floats[_i] == KILN_F16 || floats[_i] == KILN_BF16)
		FAILS(kiln_cast(&out, whole, floats[_i]), KILN_ERR_UNSUPPORTED,
		      "kiln_cast: of i32");
	/* The stream has not heard of it. */
	OK(kiln_mul(&x, x, x));
	OK(kiln_exp(&out, x));
	OK(kiln_max(&out, x));
	OK(kiln_cast(&out, out, KILN_F32));
	EXPECT_FLOATS(out, 16);
	OK(kiln_device_sync(dev));
	kiln_tensor_release(out);
	kiln_tensor_release(whole);
	kiln_tensor_release(x);
}
END_TEST

START_TEST(integers_need_none)
{
	struct kiln_tensor *x = INTS(dev, 7, -9), *y = INTS(dev, 2, 4);
	struct kiln_tensor *sum = KILN_TENSOR_NONE;

	OK(kiln_sum(&sum, x));
	EXPECT_INTS(sum, -2);
	OK(kiln_mean(&sum, x));
	EXPECT_INTS(sum, -1);
	OK(kiln_div(&x, x, y));
	EXPECT_INTS(x, 3, -2);
	OK(kiln_cast(&x, x, KILN_F32));
	EXPECT_FLOATS(x, 3, -2);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	kiln_tensor_release(sum);
}
END_TEST

/* A pipeline that cannot be made is the call's error; the next call makes it. */
START_TEST(faults_while_it_is_looked_at)
{
	static const char *const calls[] = { "vkCreateShaderModule",
					     "vkCreateComputePipelines" };
	struct kiln_tensor *x = FLOATS(dev, 2, -3), *y = KILN_TENSOR_NONE;

	OK(kilni_fault_set(calls[_i], 1, KILN_ERR_OUT_OF_MEMORY));
	FAILS(kiln_mul(&y, x, x), KILN_ERR_OUT_OF_MEMORY, "");
	ck_assert_uint_eq(kilni_fault_passes(), 1);
	ck_assert_ptr_null(y);
	OK(kilni_fault_set(NULL, 0, KILN_OK));
	OK(kiln_mul(&y, x, x));
	EXPECT_FLOATS(y, 4, 9);
	OK(kiln_device_sync(dev));
	kiln_tensor_release(x);
	kiln_tensor_release(y);
}
END_TEST

/* void main() of a module that declares Float64, from the specification. */
START_TEST(kernels_that_declare_it)
{
	static const uint32_t words[] = {
		0x07230203, 0x00010500, 0, 5, 0,  /* the head */
		0x00020011, 1,                    /* OpCapability Shader */
		0x00020011, 10,                   /* OpCapability Float64 */
		0x0003000e, 0, 1,                 /* OpMemoryModel */
		0x0005000f, 5, 3, 0x6e69616d, 0,  /* OpEntryPoint "main" */
		0x00060010, 3, 17, 1, 1, 1,       /* OpExecutionMode */
		0x00020013, 1,                    /* OpTypeVoid */
		0x00030021, 2, 1,                 /* OpTypeFunction */
		0x00050036, 1, 3, 0, 2,           /* OpFunction */
		0x000200f8, 4,                    /* OpLabel */
		0x000100fd, 0x00010038,           /* OpReturn, the end */
	};
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;
	struct kiln_kernel *kernel = NULL;

	info.code = KILN_KERNEL_SPIRV;
	info.name = "wide";
	info.data = words;
	info.data_bytes = sizeof(words);
	info.params_bytes = 8;
	FAILS(kiln_kernel_load(&kernel, dev, &info), KILN_ERR_UNSUPPORTED,
	      "declares 64-bit floats");
	ck_assert_ptr_null(kernel);
}
END_TEST

int main(void)
{
	TCase *lists, *f64;
	Suite *suite;

	if (!device_is_there(SELECTOR))
		return 77;
	suite = suite_create("vulkan, what devices lack");
	lists = tcase_create("lists");
	f64 = tcase_create("f64");
	tcase_set_timeout(lists, 60);
	tcase_add_loop_test(lists, refused_for_one, 0, KILNI_COUNTOF(needed));
	tcase_add_test(lists, refused_for_all);
	tcase_add_test(lists, hides_nothing_unknown);
	tcase_add_loop_test(lists, opened_without, 0,
			    KILNI_COUNTOF(optional));
	tcase_add_test(lists, tells_what_keeps_denormals);
	tcase_add_test(lists, tells_what_flushes_them);
	suite_add_tcase(suite, lists);
	tcase_add_checked_fixture(f64, setup, teardown);
	tcase_set_timeout(f64, 60);
	tcase_add_test(f64, no_tensor_of_f64);
	/* All but f64 itself. */
	tcase_add_loop_test(f64, what_needs_f64, 0, KILNI_COUNTOF(floats) - 1);
	tcase_add_test(f64, integers_need_none);
	tcase_add_loop_test(f64, faults_while_it_is_looked_at, 0, 2);
	tcase_add_test(f64, kernels_that_declare_it);
	suite_add_tcase(suite, f64);
	return run_suite(suite);
}
