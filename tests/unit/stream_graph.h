/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_STREAM_GRAPH_H
#define TESTS_UNIT_STREAM_GRAPH_H

/* The step of t_model_streams that captures and replays; see stream_steps.h. */

#include "stream_world.h"

/* A copy that may be made more than once: nothing lies in one store. */
static bool plan_replay(struct step *s)
{
	return model.look[s->d].store != model.look[s->a].store &&
	       plan_copy_into(s);
}

/* On a stream of its own, since one thread at a time may prepare a graph. */
static void replay_aside(struct step *s, struct kiln_stream *aside)
{
	struct kiln_tensor *d = world.tensor[s->d], *a = world.tensor[s->a];
	struct kiln_graph *graph = NULL;
	bool good = GOOD(s, kiln_stream_set_current(world.device, aside)) &&
		    GOOD(s, kiln_graph_prepare(world.device)) &&
		    GOOD(s, kiln_copy_into(d, a)) &&
		    GOOD(s, kiln_graph_start_capture(world.device)) &&
		    GOOD(s, kiln_copy_into(d, a)) &&
		    GOOD(s, kiln_graph_stop_capture(&graph, world.device));

	for (uint32_t i = 0; good && i <= s->value % 3; i++)
		good = GOOD(s, kiln_graph_replay(graph));
	kiln_graph_release(graph);
}

static void act_replay(struct step *s)
{
	struct kiln_stream *before = NULL, *aside = NULL;

	if (GOOD(s, kiln_stream_current(&before, world.device)) &&
	    GOOD(s, kiln_stream_create(&aside, world.device))) {
		replay_aside(s, aside);
		GOOD(s, kiln_stream_set_current(world.device, before));
	}
	kiln_stream_release(aside);
	kiln_stream_release(before);
}

#endif
