/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop that waits for a device and for other things at once: the
 * descriptor of a completion ring stands in epoll beside a timer that ticks
 * and a pipe by which a thread sends requests. A request is a row of numbers;
 * its answer, their softmax, is read when its completion has come.
 *
 * usage: epoll [DEVICE]
 */
#include <kiln/kiln.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define REQUESTS 8
#define LENGTH 1000

struct loop {
	struct kiln_device *device;
	struct kiln_completions *ring;
	struct kiln_tensor *answer[REQUESTS];
	int epoll, timer, ring_fd, pipe[2];
	int answered, ticks;
};

/* ---- the one who asks ---- */

static void *ask(void *data)
{
	struct loop *loop = data;

	for (unsigned char i = 0; i < REQUESTS; i++) {
		usleep(2000);
		if (write(loop->pipe[1], &i, 1) != 1)
			break;
	}
	return NULL;
}

/* ---- what the loop does ---- */

/* Queues the work of request i; nothing here waits for the device. */
static enum kiln_status start_request(struct loop *loop, int i)
{
	struct kiln_tensor **x = &loop->answer[i];
	enum kiln_status status;

	(void)((status = kiln_arange(x, loop->device, KILN_F32, 0, LENGTH,
				     1)) ||
	       (status = kiln_mul_scalar(x, *x, kiln_float(0.001 * (i + 1)))) ||
	       (status = kiln_softmax(x, *x, 0)) ||
	       (status = kiln_tensor_complete(*x, loop->ring, (uint64_t)i)));
	return status;
}

static enum kiln_status take_request(struct loop *loop)
{
	unsigned char i;

	return read(loop->pipe[0], &i, 1) == 1 ? start_request(loop, i)
					       : KILN_OK;
}

/* The work is done, so the read does not wait. */
static enum kiln_status take_answers(struct loop *loop)
{
	struct kiln_completion done[4];
	size_t count = 4;
	float values[LENGTH];
	enum kiln_status status;

	for (int i = 0; i < 4; i++)
		done[i].struct_size = sizeof(done[i]);
	status = kiln_completions_take(loop->ring, done, &count);
	for (size_t i = 0; i < count && status == KILN_OK; i++) {
		struct kiln_tensor **x = &loop->answer[done[i].user];

		status = kiln_tensor_read(*x, values, sizeof(values));
		if (status == KILN_OK)
			printf("request %d: %s, the last is %.6f\n",
			       (int)done[i].user, done[i].op,
			       (double)values[LENGTH - 1]);
		kiln_tensor_clear(x);
		loop->answered++;
	}
	return status;
}

static void take_ticks(struct loop *loop)
{
	uint64_t ticks;

	if (read(loop->timer, &ticks, sizeof(ticks)) == sizeof(ticks))
		loop->ticks += (int)ticks;
}

static enum kiln_status run(struct loop *loop)
{
	struct epoll_event events[4];
	enum kiln_status status = KILN_OK;

	while (loop->answered < REQUESTS && status == KILN_OK) {
		int count = epoll_wait(loop->epoll, events, 4, 30000);

		if (count == 0)
			return KILN_ERR_TIMEOUT;
		for (int i = 0; i < count && status == KILN_OK; i++)
			if (events[i].data.fd == loop->timer)
				take_ticks(loop);
			else if (events[i].data.fd == loop->ring_fd)
				status = take_answers(loop);
			else
				status = take_request(loop);
	}
	return status;
}

/* ---- setting up ---- */

static int watch(const struct loop *loop, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(struct loop *loop)
{
	const struct itimerspec tick = { { 0, 1000000 }, { 0, 1000000 } };

	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	return loop->epoll < 0 || loop->timer < 0 || pipe(loop->pipe) ||
	       timerfd_settime(loop->timer, 0, &tick, NULL) ||
	       watch(loop, loop->timer) || watch(loop, loop->pipe[0]) ||
	       watch(loop, loop->ring_fd);
}

static enum kiln_status serve(struct loop *loop)
{
	enum kiln_status status;
	pthread_t asks;

	if ((status = kiln_completions_create(&loop->ring, REQUESTS)) ||
	    (status = kiln_completions_fd(loop->ring, &loop->ring_fd)))
		return status;
	if (open_descriptors(loop) ||
	    pthread_create(&asks, NULL, ask, loop)) {
		perror("epoll");
		return KILN_ERR_IO;
	}
	status = run(loop);
	pthread_join(asks, NULL);
	printf("%d requests answered, the timer ticked %s\n", loop->answered,
	       loop->ticks ? "meanwhile" : "never");
	return status;
}

int main(int argc, char **argv)
{
	struct loop loop = { .device = NULL };
	enum kiln_status status;

	status = kiln_device_open(&loop.device, argc > 1 ? argv[1] : NULL);
	if (status == KILN_OK)
		status = serve(&loop);
	if (status != KILN_OK)
		fprintf(stderr, "epoll: %s\n", kiln_error_message());
	for (int i = 0; i < REQUESTS; i++)
		kiln_tensor_release(loop.answer[i]);
	kiln_completions_release(loop.ring);
	kiln_device_release(loop.device);
	return status != KILN_OK;
}
