/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differential/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Bytes ---- */

static bool put(int socket, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

static bool get(int socket, void *data, size_t bytes)
{
	char *at = data;

	while (bytes > 0) {
		ssize_t n = recv(socket, at, bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

/* ---- The reference's side ---- */

/* What it says first. */
struct hello {
	bool good;
	char text[256];
};

static bool answer(int socket, const struct diff_outcome *o)
{
	bool good = put(socket, o, sizeof(*o));
	int i;

	for (i = 0; i < o->result_count && good; i++)
		good = put(socket, o->results[i].data, o->results[i].bytes);
	return good && put(socket, o->magnitudes,
			   o->magnitude_count * sizeof(*o->magnitudes));
}

static void serve(int socket, struct kiln_device *device)
{
	struct diff_outcome outcome;
	struct diff_case c;
	bool good = true;

	memset(&outcome, 0, sizeof(outcome));
	while (good && get(socket, &c, sizeof(c))) {
		diff_attempt(&outcome, &c, device, true);
		good = answer(socket, &outcome);
		diff_outcome_clear(&outcome);
	}
}

static void run(int socket, const char *selector, const char *level)
{
	struct kiln_device *device = NULL;
	struct hello hello;
	enum kiln_status status;

	if (level)
		setenv("KILN_CPU_ISA", level, 1);
	status = kiln_device_open(&device, selector);
	memset(&hello, 0, sizeof(hello));
	hello.good = status == KILN_OK;
	if (hello.good)
		snprintf(hello.text, sizeof(hello.text), "%s, %s",
			 kiln_device_selector(device),
			 kiln_device_describe(device));
	else
		snprintf(hello.text, sizeof(hello.text), "reference: %s: %s",
			 kiln_status_name(status), kiln_error_message());
	if (put(socket, &hello, sizeof(hello)) && hello.good)
		serve(socket, device);
	kiln_device_release(device);
}

/* ---- The other side ---- */

bool diff_peer_start(struct diff_peer *peer, const char *selector,
		     const char *level, struct conf_text *why)
{
	struct hello hello;
	int sockets[2];

	peer->socket = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 ||
	    (peer->pid = fork()) < 0) {
		conf_text_add(why, "no process for the reference: %s",
			      strerror(errno));
		return false;
	}
	if (peer->pid == 0) {
		close(sockets[0]);
		run(sockets[1], selector, level);
		exit(0);
	}
	close(sockets[1]);
	peer->socket = sockets[0];
	if (!get(peer->socket, &hello, sizeof(hello))) {
		conf_text_add(why, "the reference's process ended");
		return false;
	}
	snprintf(peer->describe, sizeof(peer->describe), "%s", hello.text);
	if (!hello.good)
		conf_text_add(why, "%s", hello.text);
	return hello.good;
}

bool diff_peer_send(struct diff_peer *peer, const struct diff_case *c)
{
	return put(peer->socket, c, sizeof(*c));
}

static void *get_new(int socket, size_t bytes)
{
	void *data = malloc(bytes + 1);

	if (data && !get(socket, data, bytes)) {
		free(data);
		return NULL;
	}
	return data;
}

bool diff_peer_receive(struct diff_peer *peer, struct diff_outcome *outcome)
{
	struct diff_outcome o;
	bool good;
	int i;

	if (!get(peer->socket, &o, sizeof(o)))
		return false;
	*outcome = o;
	outcome->magnitudes = NULL;
	for (i = 0; i < CONF_RESULTS_MAX; i++)
		outcome->results[i].data = NULL;
	good = true;
	for (i = 0; i < o.result_count && good; i++) {
		outcome->results[i].data = get_new(peer->socket,
						   o.results[i].bytes);
		good = outcome->results[i].data != NULL;
	}
	if (good)
		outcome->magnitudes = get_new(
			peer->socket,
			o.magnitude_count * sizeof(*o.magnitudes));
	return good && outcome->magnitudes;
}

void diff_peer_stop(struct diff_peer *peer)
{
	if (peer->socket >= 0)
		close(peer->socket);
	if (peer->pid > 0)
		waitpid(peer->pid, NULL, 0);
}
