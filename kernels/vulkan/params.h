/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_VULKAN_PARAMS_H
#define KILNI_KERNELS_VULKAN_PARAMS_H

#include <stdint.h>

#include "kernels/abi.h"

/*
 * Parameters of the kernels in this folder, as far as they are not those of
 * abi.h; the .kl files have the same structs in GLSL.
 */

/* Threads of a group that shares memory, at most. */
#define KILNI_VK_SHARING 256

/* What becomes of the elements of a reduction: constant 1 of reduce.kl. */
enum kilni_vk_reduce_mode {
	KILNI_VK_BY_GROUPS,   /* a group for each output and chunk */
	KILNI_VK_BY_THREADS,  /* a thread for each */
	KILNI_VK_MERGE        /* a group for each output: chunks' partials */
};

/* Bits of constant 3 of reduce.kl. */
enum kilni_vk_reduce_flags {
	KILNI_VK_PARTIAL = 1, /* write accumulators to the workspace */
	KILNI_VK_VALUED = 2,  /* write values to out */
	KILNI_VK_INDEXED = 4, /* write positions to index */
};

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

/* Rows and columns of a tile that a group of matmul.kl computes. */
#define KILNI_VK_TILE_WIDE 64    /* of 64-bit types */
#define KILNI_VK_TILE 128

/* Rows and columns of a block that a thread of it computes. */
#define KILNI_VK_BLOCK 4

/* Who computes what: constant 0 of matmul.kl. */
enum kilni_vk_product_mode {
	KILNI_VK_ELEMENTS, /* a thread an element */
	KILNI_VK_TILES,    /* a group a tile */
	KILNI_VK_BLOCKS    /* a thread a block */
};

#endif
