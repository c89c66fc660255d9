/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of one's own, result = factor * x + y, on whatever device there is:
 * a C function for the CPU, SPIR-V for Vulkan (custom_kernel.comp) and PTX for
 * CUDA (custom_kernel.cu), each where the build had a compiler for it.
 *
 * usage: custom_kernel [DEVICE]
 */
#include <kiln/kiln.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef WITH_SPIRV
#include "custom_kernel_spirv.h"
#endif
#ifdef WITH_PTX
#include "custom_kernel_ptx.h"
#endif

#define COUNT 100000

/* The block of parameters, the same for all three. */
struct params {
	uint64_t report;           /* kiln's */
	uint64_t x, y, result;     /* kiln puts the addresses here */
	uint64_t count;
	float factor;
};

/* ---- the kernel for the CPU ---- */

static void scale_add(const void *block, uint64_t begin, uint64_t end)
{
	const struct params *p = block;
	const float *x = (const float *)(uintptr_t)p->x;
	const float *y = (const float *)(uintptr_t)p->y;
	float *result = (float *)(uintptr_t)p->result;

	for (uint64_t i = begin; i < end; i++)
		result[i] = p->factor * x[i] + y[i];
}

/* ---- which one ---- */

static void choose(struct kiln_kernel_info *info, enum kiln_device_type type)
{
	info->code = KILN_KERNEL_C;
	info->function = scale_add;
	(void)type;
#ifdef WITH_SPIRV
	if (type == KILN_DEVICE_VULKAN) {
		info->code = KILN_KERNEL_SPIRV;
		info->data = custom_kernel_spirv;
		info->data_bytes = sizeof(custom_kernel_spirv);
	}
#endif
#ifdef WITH_PTX
	if (type == KILN_DEVICE_CUDA) {
		info->code = KILN_KERNEL_PTX;
		info->data = custom_kernel_ptx;
		info->data_bytes = strlen(custom_kernel_ptx);
		info->entry = "scale_add";
	}
#endif
}

static enum kiln_status load(struct kiln_kernel **kernel,
			     struct kiln_device *device)
{
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;

	info.name = "scale_add";
	info.params_bytes = sizeof(struct params);
	info.flags = KILN_KERNEL_IN_PLACE;
	choose(&info, kiln_device_type(device));
	return kiln_kernel_load(kernel, device, &info);
}

/* ---- using it like an op ---- */

static enum kiln_status apply(struct kiln_kernel *kernel,
			      struct kiln_tensor **out, float factor,
			      struct kiln_tensor *x, struct kiln_tensor *y)
{
	struct params params = { .count = COUNT, .factor = factor };
	const struct kiln_kernel_operand operands[] = {
		{ x, KILN_ACCESS_READ, offsetof(struct params, x) },
		{ y, KILN_ACCESS_READ, offsetof(struct params, y) },
	};
	const int64_t shape[] = { COUNT };
	const struct kiln_kernel_result result = {
		out, KILN_F32, 1, shape, offsetof(struct params, result)
	};
	struct kiln_kernel_call call = KILN_KERNEL_CALL_INIT;

	call.params = &params;
	call.elements = COUNT;
	call.operand_count = 2;
	call.operands = operands;
	call.result = &result;
	return kiln_kernel_submit(kernel, &call);
}

/* x = 0, 1, 2, ...; y = x; twice y = 3 x + y; then element 7 has 7 * 7. */
static enum kiln_status run(struct kiln_device *device)
{
	struct kiln_tensor *x = KILN_TENSOR_NONE, *y = KILN_TENSOR_NONE;
	struct kiln_kernel *kernel = NULL;
	static float values[COUNT];
	enum kiln_status status;

	if ((status = load(&kernel, device)) ||
	    (status = kiln_arange(&x, device, KILN_F32, 0, COUNT, 1)) ||
	    (status = kiln_mul_scalar(&y, x, kiln_float(1))) ||
	    (status = apply(kernel, &y, 3, x, y)) ||
	    (status = apply(kernel, &y, 3, x, y)) ||
	    (status = kiln_tensor_read(y, values, sizeof(values))))
		fprintf(stderr, "custom_kernel: %s\n", kiln_error_message());
	else
		printf("%s: element 7 is %g\n", kiln_device_selector(device),
		       (double)values[7]);
	kiln_kernel_release(kernel);
	kiln_tensor_release(x);
	kiln_tensor_release(y);
	return status;
}

int main(int argc, char **argv)
{
	struct kiln_device *device = NULL;
	enum kiln_status status;

	status = kiln_device_open(&device, argc > 1 ? argv[1] : NULL);
	if (status == KILN_OK)
		status = run(device);
	else
		fprintf(stderr, "custom_kernel: %s\n", kiln_error_message());
	kiln_device_release(device);
	return status != KILN_OK;
}
