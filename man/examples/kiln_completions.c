/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>
#include <sys/epoll.h>

#define OPS 8

/* An event loop that learns of results when they are there. */
int main(void)
{
	struct kiln_completion done = KILN_COMPLETION_INIT;
	struct epoll_event event = { .events = EPOLLIN };
	struct kiln_completions *ring = NULL;
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = KILN_TENSOR_NONE;
	const int64_t shape[] = { 1 << 20 };
	int fd, left = OPS, loop = epoll_create1(0);

	if (kiln_device_open(&device, NULL) ||
	    kiln_completions_create(&ring, OPS) ||
	    kiln_completions_fd(ring, &fd) ||
	    kiln_ones(&x, device, KILN_F32, 1, shape))
		goto fail;
	epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
	for (int i = 0; i < OPS; i++)
		if (kiln_sqrt(&x, x) ||
		    kiln_tensor_complete(x, ring, (uint64_t)i))
			goto fail;
	while (left && epoll_wait(loop, &event, 1, -1) == 1) {
		size_t count = 1;

		while (!kiln_completions_take(ring, &done, &count) && count) {
			printf("%s %d: %s\n", done.op, (int)done.user,
			       kiln_status_text(done.status));
			left--;
		}
	}
	kiln_tensor_release(x);
	kiln_completions_release(ring);
	kiln_device_release(device);
	return 0;
fail:
	fprintf(stderr, "%s\n", kiln_error_message());
	return 1;
}
