/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_CPU_MATMUL_H
#define KILNI_KERNELS_CPU_MATMUL_H

#include <stdint.h>

#include "kernels/abi.h"
#include "kernels/cpu/cpu.h"

/*
 * The matrix product on the CPU.
 *
 * Every element of C is summed in one order: the k range is cut into blocks
 * of equal length (a function of k alone), a block is one chain of
 * multiply-adds in rising k from zero, and the blocks are added in rising
 * order. How rows and columns are cut over the team is therefore free and
 * changes no bit. Products with one row or one column sum in an order of
 * their own, which too depends on shape and strides alone. bf16 has orders of
 * its own where the processor's instructions for it are used: by pairs of steps
 * (matmul_pairs.h), or in longer blocks of chains in groups of 32 (matmul_amx.h).
 * Whether they are depends on the least magnitudes of both operands too, all
 * matrices of a batch together (matmul_range.h).
 */

/*
 * How a dtype is stored and computed: name, stored bytes, computed bytes.
 * Signed integers share the unsigned rows, since all of them wrap.
 */
#define KILNI_MM_KIND_TABLE(X)                                                 \
	X(f64, 8, 8)                                                           \
	X(f32, 4, 4)                                                           \
	X(f16, 2, 4)                                                           \
	X(bf16, 2, 4)                                                          \
	X(u64, 8, 8)                                                           \
	X(u32, 4, 4)                                                           \
	X(u16, 2, 4)                                                           \
	X(u8, 1, 4)

enum kilni_mm_kind {
#define KILNI_MM_KIND_ENUM_(name, stored, computed) KILNI_MM_KIND_##name,
	KILNI_MM_KIND_TABLE(KILNI_MM_KIND_ENUM_)
#undef KILNI_MM_KIND_ENUM_
	KILNI_MM_KIND_COUNT
};

/*
 * Sizes, in elements unless said otherwise. They suit a first level of 32 KiB
 * (a panel of B), a second of 512 KiB (a block of A) and a few MiB of a third
 * (what is packed at a time).
 */
enum {
	/* Longest block of k. */
	KILNI_MM_KC = 384,
	/* A task's block of A: rows times block of k. */
	KILNI_MM_A_BLOCK = 64 * 1024,
	/* Most columns of a task. */
	KILNI_MM_TASK_COLS = 1024,
	/* Rows and columns that are packed at a time, at most; ... */
	KILNI_MM_PACK_SIDE = 4096,
	/* ... less where C has to be summed beside its place; ... */
	KILNI_MM_PACK_SIDE_NARROW = 1024,
	/* ... and elements of either side, unless one block of k has more. */
	KILNI_MM_PACK_MAX = 1024 * 1024,
	/* Packed elements up to which matrices of a batch go together. */
	KILNI_MM_GROUP_MAX = 1024 * 1024,
	/* A's elements and the k up to which A is read where it lies. */
	KILNI_MM_DIRECT_A_MAX = 128 * 1024,
	/* Padding of panels, no less than any level's tile is high and wide. */
	KILNI_MM_PAD_ROWS = 16,
	KILNI_MM_PAD_COLS = 64,
	KILNI_MM_ALIGN = 64
};

/* Multiply-adds up to which the caller works alone; those worth a task. */
#define KILNI_MM_SERIAL_WORK 1.0e5
#define KILNI_MM_TASK_WORK 0.5e5

enum kilni_mm_path {
	KILNI_MM_NOTHING,  /* C has no element */
	KILNI_MM_ZEROS,    /* k is 0 */
	KILNI_MM_VECTOR,   /* one row or one column */
	KILNI_MM_DIRECT,   /* A in place, B packed by the panel on the stack */
	KILNI_MM_PACKED    /* A and B packed in the workspace */
};

/* A product in normal form, with what depends on neither level nor team. */
struct kilni_mm {
	uint64_t a, b, c;
	uint64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col;
	uint64_t batches;
	uint32_t batch_rank;
	enum kilni_mm_kind kind;
	enum kilni_mm_path path;
	uint32_t narrow;       /* stored in fewer bytes than computed */
	uint32_t stored, computed;
	uint64_t kc;           /* a block of k; the last has what is left */
	/* PACKED: rows, columns and k (whole blocks) packed at a time */
	uint64_t pack_m, pack_n, pack_k;
	uint64_t group;        /* matrices packed at a time */
	uint64_t batch_shape[KILNI_RANK_MAX];
	int64_t a_batch[KILNI_RANK_MAX];
	int64_t b_batch[KILNI_RANK_MAX];
};

/* How rows, columns and batches are cut into tasks. */
struct kilni_mm_cut {
	uint64_t rows, cols;             /* of a task */
	uint64_t row_tasks, col_tasks;   /* of a matrix */
	uint64_t tasks;                  /* in all */
	uint64_t grain;                  /* tasks done by one call */
};

void kilni_mm_plan(struct kilni_mm *g, const struct kilni_matmul_params *p);

/* Elements of each packed operand and of the sums of one matrix of a group. */
uint64_t kilni_mm_a_elements(const struct kilni_mm *g);
uint64_t kilni_mm_b_elements(const struct kilni_mm *g);
uint64_t kilni_mm_sum_elements(const struct kilni_mm *g);

/* Cuts batches matrices of m rows and n columns; tiles are mr high, nr wide. */
void kilni_mm_cut(struct kilni_mm_cut *cut, const struct kilni_mm *g,
		  uint64_t batches, uint64_t m, uint64_t n, unsigned mr,
		  unsigned nr, unsigned width);

/* Element offsets of matrix number batch in A and in B. */
void kilni_mm_batch(const struct kilni_mm *g, uint64_t batch, int64_t *a,
		    int64_t *b);

/* Calls fn(arg, i) for i in 0..count-1 on the team; here if one is enough. */
void kilni_mm_run(struct kilni_team *team, void (*fn)(void *arg, uint64_t i),
		  void *arg, uint64_t count);

#define KILNI_MM_DECLARE_(ID, name, suffix)                                    \
	void kilni_matmul_##suffix(const struct kilni_matmul_params *p,        \
				   struct kilni_team *team);
KILNI_ISA_TABLE(KILNI_MM_DECLARE_)
#undef KILNI_MM_DECLARE_

#endif
