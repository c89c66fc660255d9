/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *table = KILN_TENSOR_NONE;
	struct kiln_tensor *rows = KILN_TENSOR_NONE;
	const float data[] = { 0, 1, 10, 11, 20, 21 };
	const int64_t shape[] = { 3, 2 };
	const int32_t wanted[] = { 2, 0 };
	const int64_t count[] = { 2 };
	float y[4];

	if (kiln_device_open(&device, NULL) ||
	    kiln_tensor_from_data(&table, device, KILN_F32, 2, shape, data,
				  sizeof(data)) ||
	    kiln_tensor_from_data(&rows, device, KILN_I32, 1, count, wanted,
				  sizeof(wanted)) ||
	    kiln_select(&table, table, 0, rows) ||
	    kiln_tensor_read(table, y, sizeof(y))) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	printf("%g %g\n%g %g\n", y[0], y[1], y[2], y[3]);
	kiln_tensor_release(rows);
	kiln_tensor_release(table);
	kiln_device_release(device);
	return 0;
}
