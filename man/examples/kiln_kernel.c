/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stddef.h>
#include <stdio.h>

struct params {
	uint64_t report, x, result; /* addresses: kiln's */
	double power;
};

/* A kernel in C: elements begin to end - 1. */
static void raise_all(const void *block, uint64_t begin, uint64_t end)
{
	const struct params *p = block;
	const double *x = (const double *)(uintptr_t)p->x;
	double *result = (double *)(uintptr_t)p->result;

	for (uint64_t i = begin; i < end; i++) {
		result[i] = 1;
		for (int k = 0; k < (int)p->power; k++)
			result[i] *= x[i];
	}
}

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_kernel *kernel = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_kernel_info info = KILN_KERNEL_INFO_INIT;
	struct kiln_kernel_call call = KILN_KERNEL_CALL_INIT;
	const struct params params = { .power = 3 };
	const int64_t shape[] = { 5 };
	double values[5];

	info.name = "raise_all";
	info.function = raise_all;
	info.params_bytes = sizeof(params);
	info.flags = KILN_KERNEL_IN_PLACE;
	if (kiln_device_open(&device, "cpu") ||
	    kiln_kernel_load(&kernel, device, &info) ||
	    kiln_arange(&x, device, KILN_F64, 0, 5, 1)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	/* x = x to the third, in place: nobody else holds it. */
	struct kiln_kernel_operand in = { x, KILN_ACCESS_READ,
					  offsetof(struct params, x) };
	struct kiln_kernel_result out = { &x, KILN_F64, 1, shape,
					  offsetof(struct params, result) };
	call.params = &params;
	call.elements = 5;
	call.operands = &in;
	call.operand_count = 1;
	call.result = &out;
	if (kiln_kernel_submit(kernel, &call) ||
	    kiln_tensor_read(x, values, sizeof(values)))
		fprintf(stderr, "%s\n", kiln_error_message());
	else
		printf("%g %g %g\n", values[2], values[3], values[4]);
	kiln_kernel_release(kernel);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return 0;
}
