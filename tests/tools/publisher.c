/* SPDX-License-Identifier: Apache-2.0 */
/* Holds some tensors, says so, and works until its input ends. */
#include <kiln/kiln.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TENSORS 40

static struct kiln_tensor *tensors[TENSORS];

static int complain(void)
{
	fprintf(stderr, "publisher: %s\n", kiln_error_message());
	return EXIT_FAILURE;
}

/* Of several sizes; every fourth one goes again and leaves a hole. */
static int fill(struct kiln_device *device)
{
	for (int i = 0; i < TENSORS; i++) {
		int64_t shape[] = { 1000 + i * 9973 };

		if (kiln_zeros(&tensors[i], device, KILN_F32, 1, shape))
			return complain();
	}
	for (int i = 0; i < TENSORS; i += 4) {
		kiln_tensor_release(tensors[i]);
		tensors[i] = NULL;
	}
	return kiln_device_sync(device) ? complain() : EXIT_SUCCESS;
}

static int work(struct kiln_device *device)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	while (poll(&input, 1, 0) == 0 ||
	       read(STDIN_FILENO, &byte, 1) == 1) {
		for (int i = 1; i < TENSORS; i += 4)
			if (kiln_add_scalar(&tensors[i], tensors[i],
					    kiln_float(1)))
				return complain();
		if (kiln_device_sync(device))
			return complain();
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct kiln_device *device = NULL;
	int code;

	if (kiln_device_open(&device, argc > 1 ? argv[1] : "cpu"))
		return complain();
	code = fill(device);
	if (!code) {
		puts("ready");
		fflush(stdout);
		code = work(device);
	}
	for (int i = 0; i < TENSORS; i++)
		kiln_tensor_release(tensors[i]);
	kiln_device_release(device);
	return code;
}
