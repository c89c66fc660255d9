/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CUDA_PARAMS_H
#define KILNI_CUDA_PARAMS_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/rows.h"
#include "kernels/turn.h"

/*
 * What the kernels written for CUDA alone take, and their names. Each is
 * compiled once per dtype, the others (kernels/kl) as kernels/README.md says.
 */

/* Threads of a block, for all of them. */
#define KILNI_CUDA_BLOCK 256

/*
 * A reduction in its simplest terms: kept and reduced axes, merged. lanes
 * threads work on an output, in a block of 256; the reduced range is cut into
 * chunks. With several chunks the accumulators go to partial, first all values
 * (8 or 16 bytes each), then all indices, and a second kernel ends it.
 */
struct kilni_cuda_reduce {
	uint64_t in;
	uint64_t out;
	uint64_t index;
	uint64_t partial;
	uint64_t outputs;
	uint64_t length;
	uint64_t chunk;
	uint32_t chunks;
	uint32_t lanes;        /* a power of two, at most 256 */
	uint32_t columns;      /* neighbouring threads have different outputs */
	uint32_t row;          /* elements of an output lie side by side */
	uint32_t finish_lanes; /* threads per output of the second kernel */
	uint32_t kept_rank;
	uint32_t reduced_rank;
	uint32_t out_bytes;    /* of a bool */
	uint32_t index_bytes;
	uint32_t dtype;        /* known to the kernel; for who looks on */
	uint64_t kept_size[KILNI_RANK_MAX];
	int64_t kept_stride[KILNI_RANK_MAX];
	uint64_t reduced_size[KILNI_RANK_MAX];
	int64_t reduced_stride[KILNI_RANK_MAX];
};

/* Columns that a thread of kl_columns_<op> has side by side. */
#define KILNI_CUDA_COLUMNS(bytes) ((bytes) == 8 ? 2 : 4)

/* Bytes of a chunk's accumulator and index. */
#define KILNI_CUDA_PARTIAL_BYTES 24

/*
 * A matrix product; with several splits of k the sums go to partial, one
 * matrix per split and batch, and a second kernel adds them up.
 */
struct kilni_cuda_matmul {
	struct kilni_matmul_params p;
	uint64_t batches;
	uint64_t k_split;      /* of one split */
	uint64_t partial;
	uint32_t splits;
	uint32_t row_tiles, column_tiles;
	uint32_t reserved;
};

/* Tiles of C that a block computes: name, rows, columns for 4 and 8 bytes. */
#define KILNI_CUDA_TILES(X)                                                    \
	X(LARGE, 128, 128, 64)                                                 \
	X(MEDIUM, 64, 64, 64)                                                  \
	X(SMALL, 32, 32, 32)

/*
 * The packed kernel's tile, for float dtypes, and the neighbours that it reads
 * at once along the axis that lies side by side.
 */
#define KILNI_CUDA_PACKED_TILE 128
#define KILNI_CUDA_MATMUL_PACKED(dtype) ((dtype) <= 4)
#define KILNI_CUDA_MATMUL_PACK(bytes) ((bytes) == 8 ? 2 : 4)

/*
 * The softmax of a row that threads of a warp hold: elements of each, no more
 * than KILNI_SOFTMAX_EACH, of the longest row, threads of a block, and blocks
 * that a multiprocessor shall have room for. A longer row is held by a block,
 * as many elements to a thread as can be; its threads at most.
 */
#define KILNI_CUDA_SOFTMAX_HELD(X)                                             \
	X(8, 32, 256, 6)                                                       \
	X(16, 512, 256, 5)                                                     \
	X(32, 1024, 128, 8)
#define KILNI_CUDA_WARP 32
#define KILNI_CUDA_SOFTMAX_THREADS(bytes) ((bytes) == 8 ? 256 : 1024)

/*
 * Slots of the kernels, and the entries' names: text, entry. The text's name
 * is followed by the number of the dtype, for "move" by an element's bytes.
 */
#define KILNI_CUDA_SLOT_TABLE(X)                                               \
	X(REDUCE_SUM, "reduce", "kl_reduce_SUM")                               \
	X(REDUCE_MEAN, "reduce", "kl_reduce_MEAN")                             \
	X(REDUCE_PROD, "reduce", "kl_reduce_PROD")                             \
	X(REDUCE_MAX, "reduce", "kl_reduce_MAX")                               \
	X(REDUCE_MIN, "reduce", "kl_reduce_MIN")                               \
	X(REDUCE_MAX_ABS, "reduce", "kl_reduce_MAX_ABS")                       \
	X(REDUCE_MAX_AT, "reduce", "kl_reduce_MAX_AT")                         \
	X(REDUCE_MIN_AT, "reduce", "kl_reduce_MIN_AT")                         \
	X(REDUCE_ANY, "reduce", "kl_reduce_ANY")                               \
	X(REDUCE_ALL, "reduce", "kl_reduce_ALL")                               \
	X(FINISH_SUM, "reduce", "kl_finish_SUM")                               \
	X(FINISH_MEAN, "reduce", "kl_finish_MEAN")                             \
	X(FINISH_PROD, "reduce", "kl_finish_PROD")                             \
	X(FINISH_MAX, "reduce", "kl_finish_MAX")                               \
	X(FINISH_MIN, "reduce", "kl_finish_MIN")                               \
	X(FINISH_MAX_ABS, "reduce", "kl_finish_MAX_ABS")                       \
	X(FINISH_MAX_AT, "reduce", "kl_finish_MAX_AT")                         \
	X(FINISH_MIN_AT, "reduce", "kl_finish_MIN_AT")                         \
	X(FINISH_ANY, "reduce", "kl_finish_ANY")                               \
	X(FINISH_ALL, "reduce", "kl_finish_ALL")                               \
	X(ROWS_SUM, "reduce", "kl_rows_SUM")                                   \
	X(ROWS_MEAN, "reduce", "kl_rows_MEAN")                                 \
	X(ROWS_PROD, "reduce", "kl_rows_PROD")                                 \
	X(ROWS_MAX, "reduce", "kl_rows_MAX")                                   \
	X(ROWS_MIN, "reduce", "kl_rows_MIN")                                   \
	X(ROWS_MAX_ABS, "reduce", "kl_rows_MAX_ABS")                           \
	X(ROWS_MAX_AT, "reduce", "kl_rows_MAX_AT")                             \
	X(ROWS_MIN_AT, "reduce", "kl_rows_MIN_AT")                             \
	X(ROWS_ANY, "reduce", "kl_rows_ANY")                                   \
	X(ROWS_ALL, "reduce", "kl_rows_ALL")                                   \
	X(COLUMNS_SUM, "reduce", "kl_columns_SUM")				\
	X(COLUMNS_MEAN, "reduce", "kl_columns_MEAN")				\
	X(COLUMNS_PROD, "reduce", "kl_columns_PROD")				\
	X(COLUMNS_MAX, "reduce", "kl_columns_MAX")				\
	X(COLUMNS_MIN, "reduce", "kl_columns_MIN")				\
	X(COLUMNS_MAX_ABS, "reduce", "kl_columns_MAX_ABS")			\
	X(COLUMNS_ANY, "reduce", "kl_columns_ANY")				\
	X(COLUMNS_ALL, "reduce", "kl_columns_ALL")				\
	X(SCATTER_ASSIGN, "scatter", "kl_scatter_ASSIGN")                      \
	X(SCATTER_ADD, "scatter", "kl_scatter_ADD")                            \
	X(SCATTER_MUL, "scatter", "kl_scatter_MUL")                            \
	X(SCATTER_MIN, "scatter", "kl_scatter_MIN")                            \
	X(SCATTER_MAX, "scatter", "kl_scatter_MAX")                            \
	X(SCATTER_WIDEN, "scatter", "kl_scatter_WIDEN")                        \
	X(SCATTER_NARROW, "scatter", "kl_scatter_NARROW")                      \
	X(MATMUL_LARGE, "matmul", "kl_matmul_LARGE")                           \
	X(MATMUL_MEDIUM, "matmul", "kl_matmul_MEDIUM")                         \
	X(MATMUL_SMALL, "matmul", "kl_matmul_SMALL")                           \
	X(MATMUL_PACKS, "matmul", "kl_matmul_PACKS")                           \
	X(MATMUL_ADD, "matmul", "kl_matmul_ADD")                               \
	X(SOFTMAX_8, "softmax", "kl_softmax_8")                                \
	X(SOFTMAX_16, "softmax", "kl_softmax_16")                              \
	X(SOFTMAX_32, "softmax", "kl_softmax_32")                              \
	X(SOFTMAX_BLOCK, "softmax", "kl_softmax_BLOCK")                        \
	X(SOFTMAX_LONG, "softmax", "kl_softmax_LONG")                          \
	X(SOFTMAX_MOST, "softmax", "kl_softmax_MOST")                          \
	X(SOFTMAX_SUMS, "softmax", "kl_softmax_SUMS")                          \
	X(SOFTMAX_SHARES, "softmax", "kl_softmax_SHARES")                      \
	X(MOVE_TURN, "move", "kl_move_TURN")                                   \
	X(MOVE_ROWS, "move", "kl_move_ROWS")                                   \
	X(MOVE_PIECES, "move", "kl_move_PIECES")

enum kilni_cuda_slot {
#define KILNI_CUDA_SLOT_(ID, text, entry) KILNI_CUDA_##ID,
	KILNI_CUDA_SLOT_TABLE(KILNI_CUDA_SLOT_)
#undef KILNI_CUDA_SLOT_
	KILNI_CUDA_SLOTS
};

#endif
