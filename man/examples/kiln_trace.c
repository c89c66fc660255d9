/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <kiln/kiln.h>
#include <stdio.h>

/* Prints what ran on the devices of a process that had KILN_TRACE. */
int main(int argc, char **argv)
{
	struct kiln_trace_event event = { .struct_size = sizeof(event) };
	struct kiln_trace *trace = NULL;
	enum kiln_status status;
	bool more;

	if (argc < 2 || kiln_trace_open(&trace, argv[1])) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	while (!(status = kiln_trace_next(trace, &event, &more)) && more)
		if (event.kind == KILN_TRACE_LAUNCH)
			printf("%s %" PRIu64 " ns\n", event.name,
			       event.end_ns - event.begin_ns);
	kiln_trace_release(trace);
	return status ? 1 : 0;
}
