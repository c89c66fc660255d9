/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stubs/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Graphs of the stub: kernels that run in the order of their chain. A launch
 * has the parameters of its time, so that a later change does not reach it;
 * an instance has its own, as a graph that is gone must not be missed.
 */

struct kernel {
	char name[48];
	void *params;
};

struct stub_node {
	struct kernel kernel;
	size_t number;         /* in the order of the chain */
	struct stub_node *next;
};

struct list {
	size_t count;
	struct kernel kernel[];
};

struct stub_graph {
	size_t count;
	struct stub_node *first, *last;
};

struct stub_exec {
	struct list *list;
};

struct stub_graph_counts stub_graphs;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- kernels ---- */

static int set(struct kernel *to, const struct stub_kernel *from)
{
	char name[sizeof(to->name)];
	void *params;

	if (!stub_check_kernel(from))
		return 1;
	snprintf(name, sizeof(name), "%.*s",
		 (int)strcspn(from->function, "("),
		 (const char *)from->function);
	params = stub_copy_params(name, from->params[0]);
	if (!params)
		return 2;
	free(to->params);
	to->params = params;
	memcpy(to->name, name, sizeof(name));
	return 0;
}

static void drop_list(struct list *list)
{
	for (size_t i = 0; list && i < list->count; i++)
		free(list->kernel[i].params);
	free(list);
}

static int add(struct list *list, const struct kernel *kernel)
{
	struct kernel *to = &list->kernel[list->count];

	*to = *kernel;
	to->params = stub_copy_params(to->name, kernel->params);
	list->count += to->params != NULL;
	return to->params != NULL;
}

static struct list *new_list(size_t room)
{
	return calloc(1, sizeof(struct list) + room * sizeof(struct kernel));
}

/* ---- graphs ---- */

int stub_graph_create(struct stub_graph **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return 2;
	__atomic_add_fetch(&stub_graphs.graphs, 1, __ATOMIC_RELAXED);
	return 0;
}

void stub_graph_destroy(struct stub_graph *graph)
{
	while (graph->first) {
		struct stub_node *node = graph->first;

		graph->first = node->next;
		free(node->kernel.params);
		free(node);
	}
	free(graph);
	__atomic_sub_fetch(&stub_graphs.graphs, 1, __ATOMIC_RELAXED);
}

/* A chain alone: each node behind the one that was added before it. */
int stub_graph_add(struct stub_node **out, struct stub_graph *graph,
		   struct stub_node *const *after, size_t count,
		   const struct stub_kernel *kernel)
{
	struct stub_node *node;
	int result;

	if (count != (graph->count > 0) || (count && after[0] != graph->last))
		return 1;
	node = calloc(1, sizeof(*node));
	result = node ? set(&node->kernel, kernel) : 2;
	if (result) {
		free(node);
		return result;
	}
	node->number = graph->count++;
	if (graph->last)
		graph->last->next = node;
	else
		graph->first = node;
	graph->last = *out = node;
	__atomic_add_fetch(&stub_graphs.nodes, 1, __ATOMIC_RELAXED);
	return 0;
}

int stub_graph_instantiate(struct stub_exec **out,
			   const struct stub_graph *graph)
{
	struct stub_exec *exec = calloc(1, sizeof(*exec));
	const struct stub_node *node = graph->first;

	if (exec)
		exec->list = new_list(graph->count);
	while (exec && exec->list && node &&
	       add(exec->list, &node->kernel))
		node = node->next;
	if (!exec || !exec->list || node) {
		if (exec)
			drop_list(exec->list);
		free(exec);
		return 2;
	}
	*out = exec;
	__atomic_add_fetch(&stub_graphs.execs, 1, __ATOMIC_RELAXED);
	return 0;
}

int stub_exec_set(struct stub_exec *exec, const struct stub_node *node,
		  const struct stub_kernel *kernel)
{
	int result;

	if (node->number >= exec->list->count)
		return 1;
	pthread_mutex_lock(&lock);
	result = set(&exec->list->kernel[node->number], kernel);
	pthread_mutex_unlock(&lock);
	__atomic_add_fetch(&stub_graphs.sets, 1, __ATOMIC_RELAXED);
	return result;
}

void stub_exec_destroy(struct stub_exec *exec)
{
	drop_list(exec->list);
	free(exec);
	__atomic_sub_fetch(&stub_graphs.execs, 1, __ATOMIC_RELAXED);
}

/* ---- launches ---- */

void *stub_exec_launch(struct stub_exec *exec)
{
	struct list *list = new_list(exec->list->count);
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (list && i < exec->list->count &&
	       add(list, &exec->list->kernel[i]))
		i++;
	pthread_mutex_unlock(&lock);
	if (list && i < exec->list->count) {
		drop_list(list);
		return NULL;
	}
	__atomic_add_fetch(&stub_graphs.launches, 1, __ATOMIC_RELAXED);
	return list;
}

void stub_launch_run(void *launch)
{
	struct list *list = launch;

	for (size_t i = 0; i < list->count; i++)
		stub_run_kernel(list->kernel[i].name, list->kernel[i].params);
}

void stub_launch_drop(void *launch)
{
	drop_list(launch);
}
