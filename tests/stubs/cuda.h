/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STUBS_CUDA_H
#define TESTS_STUBS_CUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Inside the stub of libcuda. */

enum stub_kind {
	STUB_COPY,
	STUB_WRITE,
	STUB_LAUNCH,
	STUB_GRAPH,
	STUB_RECORD,
	STUB_WAIT
};

struct stub_event {
	uint64_t recorded, done;
	uint64_t time_ns;          /* when it was last reached */
	int timed;
	struct stub_stream *stream; /* of the last record */
};

struct stub_work {
	struct stub_work *next;
	enum stub_kind kind;
	void *to;
	const void *from;
	size_t bytes;
	uint64_t value;
	struct stub_event *event;
	char name[48];         /* of a kernel */
	void *params;          /* a copy of its parameters */
};

struct stub_stream {
	pthread_t thread;
	int threaded, stop;
	pthread_cond_t wanted, moved;
	struct stub_work *first, **last;
};

/* ---- graph.c ---- */

struct stub_graph;
struct stub_node;
struct stub_exec;

/* As the library declares it. */
struct stub_kernel {
	void *function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
};

/* Results, as the calls of those names give them. */
int stub_graph_create(struct stub_graph **out);
void stub_graph_destroy(struct stub_graph *graph);
int stub_graph_add(struct stub_node **out, struct stub_graph *graph,
		   struct stub_node *const *after, size_t count,
		   const struct stub_kernel *kernel);
int stub_graph_instantiate(struct stub_exec **out,
			   const struct stub_graph *graph);
int stub_exec_set(struct stub_exec *exec, const struct stub_node *node,
		  const struct stub_kernel *kernel);
void stub_exec_destroy(struct stub_exec *exec);
/* A launch as it is now, to be run and dropped later; NULL: no memory. */
void *stub_exec_launch(struct stub_exec *exec);
void stub_launch_run(void *launch);
void stub_launch_drop(void *launch);

/* Graphs and instances there are, launches that there were. */
struct stub_graph_counts {
	unsigned long graphs, execs, nodes, launches, sets;
};
extern struct stub_graph_counts stub_graphs;

/* Whether the launch is one that a device takes. */
int stub_check_kernel(const struct stub_kernel *kernel);

/* ---- kernel.c: kernels by the CPU's ---- */

void *stub_copy_params(const char *name, const void *params);
void stub_run_kernel(const char *name, void *params);

/* ---- module.c ---- */

struct stub_module;

/* The library's result. */
int stub_module_load(struct stub_module **module, const void *image,
		     unsigned capability);
void stub_module_unload(struct stub_module *module);
/* The name as the module keeps it; NULL: there is no such kernel. */
const char *stub_module_function(struct stub_module *module, const char *name);

/* ---- address space ---- */

uint64_t stub_reserve(size_t bytes);
void stub_unreserve(uint64_t address, size_t bytes);
int stub_map(uint64_t address, size_t bytes);
void stub_unmap(uint64_t address, size_t bytes);

#endif
