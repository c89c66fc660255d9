/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

static struct kiln_tensor *in, *total;

/* total = total + in * in */
static enum kiln_status step(struct kiln_device *device, void *user)
{
	struct kiln_tensor *t = KILN_TENSOR_NONE;
	enum kiln_status status;

	(void)device;
	(void)user;
	status = kiln_mul(&t, in, in);
	if (!status)
		status = kiln_add(&t, total, t);
	if (!status)
		status = kiln_copy_into(total, t);
	kiln_tensor_release(t);
	return status;
}

/* Captures a step and runs it for several inputs. */
int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_graph *graph = NULL;
	struct kiln_tensor *next = KILN_TENSOR_NONE;
	const int64_t shape[] = { 2 };
	float sums[2];

	if (kiln_device_open(&device, NULL) ||
	    kiln_zeros(&total, device, KILN_F32, 1, shape) ||
	    kiln_ones(&in, device, KILN_F32, 1, shape) ||
	    kiln_graph_create(&graph, device, step, NULL))
		goto failed;
	for (int i = 2; i < 5; i++)
		if (kiln_full(&next, device, KILN_F32, 1, shape,
			      kiln_float(i)) ||
		    kiln_copy_into(in, next) || kiln_graph_replay(graph))
			goto failed;
	if (kiln_tensor_read(total, sums, sizeof(sums)))
		goto failed;
	printf("1 + 4 + 9 + 16 = %g\n", sums[0]);
	kiln_tensor_release(next);
	kiln_tensor_release(in);
	kiln_tensor_release(total);
	kiln_graph_release(graph);
	kiln_device_release(device);
	return 0;
failed:
	fprintf(stderr, "%s\n", kiln_error_message());
	return 1;
}
