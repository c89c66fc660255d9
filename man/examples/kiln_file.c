/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* Appends a vector to a copy of itself in a file, and reads the whole back. */
int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	struct kiln_file *file = NULL;
	const int64_t three[] = { 3 }, six[] = { 6 };
	float y[6];

	if (kiln_device_open(&device, NULL) ||
	    kiln_full(&x, device, KILN_F32, 1, three, kiln_float(0.5)) ||
	    kiln_file_create(&file, "vector.bin", 0) ||
	    kiln_file_write(file, 0, x) ||
	    kiln_file_write(file, sizeof(float) * 3, x) ||
	    kiln_file_commit(file) ||
	    kiln_file_read(&x, file, 0, device, KILN_F32, 1, six) ||
	    kiln_tensor_read(x, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g ... %g through %s\n", y[0], y[5], kiln_file_engine());
	kiln_file_release(file);
	kiln_tensor_release(x);
	kiln_device_release(device);
	return remove("vector.bin");
}
