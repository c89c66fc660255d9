/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_VULKAN_PARAMS_H
#define KILNI_KERNELS_VULKAN_PARAMS_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/turn.h"

/*
 * Parameters of the kernels in this folder, as far as they are not those of
 * abi.h; the .kl files have the same structs in GLSL.
 */

/* Threads of a group that shares memory, at most. */
#define KILNI_VK_SHARING 256

/* What becomes of the elements of a reduction: constant 1 of reduce.kl. */
enum kilni_vk_reduce_mode {
	KILNI_VK_BY_GROUPS,     /* a group for each output and chunk */
	KILNI_VK_BY_THREADS,    /* a thread for each */
	KILNI_VK_MERGE_GROUPS,  /* chunks' partials: a group for each output */
	KILNI_VK_MERGE_THREADS, /* the same, a thread for each */
	KILNI_VK_BY_RUNS,       /* a group for each, 16 bytes at a time */
	KILNI_VK_BY_SUBGROUPS,  /* a subgroup for each, 16 bytes at a time */
	KILNI_VK_BY_WORDS       /* a thread for outputs that share a word */
};

/* How the threads of a group join what they have: constant 2 of reduce.kl. */
enum kilni_vk_reduce_join {
	KILNI_VK_JOIN_SHARED,   /* by shared memory */
	KILNI_VK_JOIN_SUBGROUPS /* by subgroups first */
};

/* Bits of constant 3 of reduce.kl; the result's dtype stands above them. */
enum kilni_vk_reduce_flags {
	KILNI_VK_PARTIAL = 1, /* write accumulators to the workspace */
	KILNI_VK_VALUED = 2,  /* write values to out */
	KILNI_VK_INDEXED = 4, /* positions are wanted, or written to index */
};

#define KILNI_VK_RESULT_SHIFT 8

/*
 * Offsets are in elements. Element pos of output o is at in + kept(o) +
 * reduced(pos), both by sizes and strides, the last axis fastest. A chunk of
 * an output is chunk elements, the last one fewer; its partial has 16 bytes.
 */
struct kilni_vk_reduce {
	uint64_t report;
	uint64_t in;
	uint64_t out;
	uint64_t index;
	uint64_t partials;
	uint64_t outputs;
	uint64_t length;
	uint64_t chunk;
	uint64_t chunks;
	uint32_t kept_rank;
	uint32_t reduced_rank;
	uint64_t kept_size[KILNI_RANK_MAX];
	int64_t kept_stride[KILNI_RANK_MAX];
	uint64_t reduced_size[KILNI_RANK_MAX];
	int64_t reduced_stride[KILNI_RANK_MAX];
};

struct kilni_vk_turn {
	uint64_t report;
	struct kilni_turn turn;
};

/* Who computes what: constant 0 of softmax.kl. */
enum kilni_vk_softmax_mode {
	KILNI_VK_REGISTERS,    /* a row in the registers of its threads */
	KILNI_VK_ROWS,         /* a group a row, which is read three times */
	KILNI_VK_MOST,         /* a group a chunk: the greatest of each, */
	KILNI_VK_SUMS,         /* the sums, */
	KILNI_VK_SHARES,       /* the results */
	KILNI_VK_SHUFFLES      /* as REGISTERS; subgroups join */
};

/* Threads of a group of turn.kl and tiles.kl. */
#define KILNI_VK_TILE_THREADS 256

/* Rows and columns of a block that a thread of matmul.kl computes. */
#define KILNI_VK_BLOCK 4

/* Who computes what: constant 0 of matmul.kl. */
enum kilni_vk_product_mode {
	KILNI_VK_ELEMENTS, /* a thread an element */
	KILNI_VK_BLOCKS,   /* a thread a block */
	KILNI_VK_ADD       /* a thread an element: the sum of the splits */
};

/* With several splits of k the sums go to the workspace first. */
struct kilni_vk_product {
	struct kilni_matmul_params p;
	uint64_t k_split;      /* of one split */
	uint64_t splits;
};

/*
 * Tiles of C that a group of tiles.kl computes: name, KL_SIZE, rows, columns,
 * columns of 64-bit types (0: not for these).
 */
#define KILNI_VK_TILES(X)                                                      \
	X(SMALL, 1, 32, 32, 32)                                                \
	X(MEDIUM, 2, 64, 64, 64)                                               \
	X(LARGE, 3, 128, 128, 64)                                              \
	X(GREAT, 4, 256, 128, 0)

/* How tiles.kl reads a side of the product: its constants 1 and 2. */
enum kilni_vk_reads {
	KILNI_VK_ALONG_K = 1, /* neighbours in k lie side by side */
	KILNI_VK_RUNS = 2,    /* several at a time */
};

#endif
