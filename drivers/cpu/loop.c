/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/internal.h"

#include <stddef.h>

#include "base/futex.h"

/*
 * Parallel loops. A helper first counts itself in at inside, then looks at
 * open: while it is inside the leader does not use the loop anew, so that what
 * it read stays true. The first who finds nothing left to take closes.
 */

static void run_alone(struct kilni_team *team,
		      void (*fn)(void *arg, uint64_t i), void *arg,
		      uint64_t count)
{
	(void)team;
	for (uint64_t i = 0; i < count; i++)
		fn(arg, i);
}

struct kilni_team kilni_team_alone = { 1, run_alone };

static void work(struct kilni_loop *loop)
{
	uint64_t i;

	while ((i = __atomic_fetch_add(&loop->next, 1, __ATOMIC_RELAXED)) <
	       loop->count)
		loop->fn(loop->arg, i);
	if (__atomic_exchange_n(&loop->open, 0, __ATOMIC_SEQ_CST))
		__atomic_fetch_sub(&loop->gang->open_loops, 1,
				   __ATOMIC_SEQ_CST);
}

static bool help(struct kilni_loop *loop)
{
	int open;

	__atomic_fetch_add(&loop->inside, 1, __ATOMIC_SEQ_CST);
	open = __atomic_load_n(&loop->open, __ATOMIC_SEQ_CST);
	if (open)
		work(loop);
	if (__atomic_fetch_sub(&loop->inside, 1, __ATOMIC_SEQ_CST) == 1 &&
	    __atomic_load_n(&loop->leader_sleeps, __ATOMIC_SEQ_CST))
		kilni_futex_wake(&loop->inside, 1);
	return open;
}

bool kilni_loop_help(struct kilni_gang *gang, unsigned self)
{
	if (!__atomic_load_n(&gang->open_loops, __ATOMIC_SEQ_CST))
		return false;
	for (unsigned i = 1; i < gang->width; i++) {
		struct kilni_loop *loop =
			&gang->worker[(self + i) % gang->width].loop;

		if (__atomic_load_n(&loop->open, __ATOMIC_RELAXED) &&
		    help(loop))
			return true;
	}
	return false;
}

/* Waits until all helpers have left. */
static void wait_helpers(struct kilni_loop *loop)
{
	uint64_t end;
	uint32_t inside;

	if (!__atomic_load_n(&loop->inside, __ATOMIC_SEQ_CST))
		return;
	end = kilni_now_ns() + loop->gang->spin_ns;
	do {
		for (int i = 0; i < 16; i++) {
			if (!__atomic_load_n(&loop->inside, __ATOMIC_SEQ_CST))
				return;
			kilni_pause();
		}
	} while (kilni_now_ns() < end);
	__atomic_store_n(&loop->leader_sleeps, 1, __ATOMIC_SEQ_CST);
	while ((inside = __atomic_load_n(&loop->inside, __ATOMIC_SEQ_CST)))
		kilni_futex_wait(&loop->inside, inside);
	__atomic_store_n(&loop->leader_sleeps, 0, __ATOMIC_SEQ_CST);
}

static void run_shared(struct kilni_team *team,
		       void (*fn)(void *arg, uint64_t i), void *arg,
		       uint64_t count)
{
	struct kilni_loop *loop = (struct kilni_loop *)(void *)team;

	if (count < 2) {
		run_alone(team, fn, arg, count);
		return;
	}
	loop->fn = fn;
	loop->arg = arg;
	loop->count = count;
	__atomic_store_n(&loop->next, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&loop->open, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&loop->gang->open_loops, 1, __ATOMIC_SEQ_CST);
	if (loop->wake)
		kilni_gang_wake(loop->gang,
				(unsigned)kilni_min_u64(team->width, count) -
					1);
	work(loop);
	wait_helpers(loop);
}

void kilni_loop_init(struct kilni_loop *loop, struct kilni_gang *gang)
{
	loop->gang = gang;
	loop->team.width = gang->width;
	loop->team.run = gang->width > 1 ? run_shared : run_alone;
}
