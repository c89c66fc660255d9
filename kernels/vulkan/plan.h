/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_VULKAN_PLAN_H
#define KILNI_KERNELS_VULKAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/registry.h"
#include "kernels/softmax.h"
#include "kernels/vulkan/params.h"

/*
 * How a kernel is cut, from its parameters alone: pure functions, which need no
 * device.
 */

/* ---- reductions ---- */

struct kilni_vk_reduce_plan {
	struct kilni_vk_reduce params;
	enum kilni_vk_reduce_mode mode;
};

void kilni_vk_plan_reduce(const struct kilni_reduce_params *p,
			  struct kilni_vk_reduce_plan *plan);

/* ---- products ---- */

enum kilni_vk_tile {
	KILNI_VK_TILE_NONE,
#define ENUM_(ID, number, rows, columns, wide) KILNI_VK_TILE_##ID = number,
	KILNI_VK_TILES(ENUM_)
#undef ENUM_
};

/* The dtype whose product has the same bits. */
unsigned kilni_vk_product_module(unsigned dtype);
/* NONE where it is not worth one, or there is nothing to compute. */
enum kilni_vk_tile
kilni_vk_product_tile(const struct kilni_matmul_params *p, unsigned module);
/* Tiles of a size in all matrices of the result. */
uint64_t kilni_vk_product_tiles(const struct kilni_matmul_params *p,
				enum kilni_vk_tile tile, unsigned module);
/* Whether tiles fit the matrices without a rest. */
bool kilni_vk_product_is_whole(const struct kilni_matmul_params *p,
			       enum kilni_vk_tile tile, unsigned module);
/* The splits of k. */
void kilni_vk_plan_product(const struct kilni_matmul_params *p, unsigned module,
			   enum kilni_vk_tile tile,
			   struct kilni_vk_product *plan);

/* ---- softmax ---- */

struct kilni_vk_softmax_plan {
	struct kilni_softmax params;
	enum kilni_vk_softmax_mode mode; /* MOST: and those behind it */
	bool vectors;          /* whole ones, aligned */
	unsigned threads, each; /* of a row that is held; a power of two */
};

/* subgroup: threads that shuffle, or 0; group: those of a row, at most. */
void kilni_vk_plan_softmax(unsigned subgroup, unsigned group,
			   const struct kilni_softmax_params *p,
			   struct kilni_vk_softmax_plan *plan);

/* ---- workspaces ---- */

/* Of any kernel; tiles: whether the device takes them for products. */
uint64_t kilni_vk_plan_workspace(bool tiles, enum kilni_kernel kernel,
				 const void *params);

#endif
