/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stubs/cuda.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/params.h"
#include "kernels/softmax.h"
#include "kernels/registry.h"

/* The kernels for CUDA, done by those of the CPU: same parameters, or nearly. */


static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* ---- kernels of a program's own ---- */

/* examples/custom_kernel.cu; the blocks of others are copied, and no more. */
struct scale_add {
	uint64_t report, x, y, out, count;
	float factor;
};

static void run_scale_add(const struct scale_add *p)
{
	const float *x = (const float *)(uintptr_t)p->x;
	const float *y = (const float *)(uintptr_t)p->y;

	for (uint64_t i = 0; i < p->count; i++)
		((float *)(uintptr_t)p->out)[i] = p->factor * x[i] + y[i];
}

static size_t params_bytes(const char *name)
{
	if (!begins(name, "kl_"))
		return sizeof(((struct kilni_custom_params *)NULL)->block);
	if (begins(name, "kl_ew_"))
		return sizeof(struct kilni_ew_params);
	if (begins(name, "kl_gather"))
		return sizeof(struct kilni_gather_params);
	if (begins(name, "kl_scatter_"))
		return sizeof(struct kilni_scatter_params);
	if (begins(name, "kl_move_TURN"))
		return sizeof(struct kilni_turn);
	if (begins(name, "kl_move_ROWS") || begins(name, "kl_move_PIECES"))
		return sizeof(struct kilni_rows);
	if (begins(name, "kl_matmul_"))
		return sizeof(struct kilni_cuda_matmul);
	if (begins(name, "kl_softmax_"))
		return sizeof(struct kilni_softmax);
	return sizeof(struct kilni_cuda_reduce);
}

void *stub_copy_params(const char *name, const void *params)
{
	void *copy = malloc(params_bytes(name));

	if (copy)
		memcpy(copy, params, params_bytes(name));
	return copy;
}

static void run_all(struct kilni_team *team, void (*fn)(void *, uint64_t),
		    void *arg, uint64_t count)
{
	(void)team;
	for (uint64_t i = 0; i < count; i++)
		fn(arg, i);
}

static struct kilni_team alone = { 1, run_all };

static const struct kilni_cpu_kernels *kernels(void)
{
	return kilni_cpu_kernels[KILNI_ISA_BASELINE];
}

/* ---- reductions: back to what the op layer gave ---- */

static unsigned op_of(const char *name)
{
	static const struct {
		const char *name;
		unsigned op;
	} ops[] = {
		{ "SUM", KILNI_OP_SUM },         { "MEAN", KILNI_OP_MEAN },
		{ "PROD", KILNI_OP_PROD },       { "MAX", KILNI_OP_MAX },
		{ "MIN", KILNI_OP_MIN },         { "ANY", KILNI_OP_ANY },
		{ "MAX_ABS", KILNI_OP_MAX_ABS }, { "ALL", KILNI_OP_ALL },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(name, ops[i].name))
			return ops[i].op;
	return KILNI_OP_COUNT;
}

static enum kiln_dtype int_of_bytes(uint32_t bytes)
{
	return bytes == 1   ? KILN_U8
	       : bytes == 2 ? KILN_U16
	       : bytes == 4 ? KILN_U32
			    : KILN_U64;
}

static void set_axes(struct kilni_reduce_params *p,
		     const struct kilni_cuda_reduce *r)
{
	for (unsigned d = 0; d < r->kept_rank; d++, p->rank++) {
		p->shape[p->rank] = r->kept_size[d];
		p->stride[p->rank] = r->kept_stride[d];
	}
	for (unsigned d = 0; d < r->reduced_rank; d++, p->rank++) {
		p->shape[p->rank] = r->reduced_size[d];
		p->stride[p->rank] = r->reduced_stride[d];
		p->axes |= 1u << p->rank;
	}
	if (!r->length) {
		p->shape[p->rank] = 0;
		p->axes |= 1u << p->rank++;
	}
}

static void run_reduce(const char *op, const struct kilni_cuda_reduce *r)
{
	struct kilni_reduce_params p = { .in = r->in, .out = r->out };
	bool at = !strcmp(op, "MAX_AT") || !strcmp(op, "MIN_AT");

	if (at)
		p.index = r->index;
	p.op = at ? (op[1] == 'A' ? (r->out ? KILNI_OP_MAX : KILNI_OP_ARGMAX)
				  : (r->out ? KILNI_OP_MIN : KILNI_OP_ARGMIN))
		  : op_of(op);
	p.dtype = (uint8_t)r->dtype;
	p.out_dtype = r->out_bytes == 4 ? KILN_BOOL_U32 : KILN_BOOL;
	p.index_dtype = (uint8_t)int_of_bytes(r->index_bytes);
	set_axes(&p, r);
	/* One axis, of one element, where nothing is left to reduce. */
	if (at && !p.axes) {
		p.shape[p.rank] = 1;
		p.axes |= 1u << p.rank++;
	}
	p.workspace_bytes = kilni_cpu_reduce_workspace(&p);
	p.workspace = (uintptr_t)malloc(p.workspace_bytes + 1);
	kernels()->reduce(&p, &alone);
	free((void *)(uintptr_t)p.workspace);
}

static void run_matmul(const struct kilni_cuda_matmul *m)
{
	struct kilni_matmul_params p = m->p;

	p.workspace_bytes = kilni_cpu_matmul_workspace(&p);
	p.workspace = (uintptr_t)aligned_alloc(
		64, (p.workspace_bytes + 127) & ~(uint64_t)63);
	kernels()->matmul(&p, &alone);
	free((void *)(uintptr_t)p.workspace);
}

static void run_scatter(const char *update, void *params)
{
	/* The sum does all three steps. */
	if (strcmp(update, "WIDEN") != 0 && strcmp(update, "NARROW") != 0)
		kernels()->scatter(params, &alone);
}

/* ---- softmax ---- */

static void cast(void *to, enum kiln_dtype to_dtype, const void *from,
		 enum kiln_dtype from_dtype, uint64_t count)
{
	struct kilni_ew_params p = {
		.op = KILNI_OP_CAST,
		.out = (uintptr_t)to,
		.in[0] = (uintptr_t)from,
		.dtype = { (uint8_t)to_dtype, (uint8_t)from_dtype },
		.count = count,
		.contiguous = 1,
	};

	kernels()->ew(&p, 0, count);
}

static void run_softmax_row(double *x, uint64_t length, bool is_log)
{
	double most = -INFINITY, sum = 0;

	for (uint64_t i = 0; i < length; i++)
		if (x[i] > most || isnan(x[i]))
			most = x[i];
	for (uint64_t i = 0; i < length; i++)
		sum += exp(x[i] - most);
	for (uint64_t i = 0; i < length; i++)
		x[i] = is_log ? x[i] - most - log(sum)
			      : exp(x[i] - most) / sum;
}

static void run_softmax(const char *what, const struct kilni_softmax_params *p)
{
	uint64_t count = p->rows * p->length;
	double *x;

	/* The last of the three kernels for chunks does it all. */
	if (!strcmp(what, "MOST") || !strcmp(what, "SUMS"))
		return;
	x = malloc(count * sizeof(*x));
	cast(x, KILN_F64, (const void *)(uintptr_t)p->in, p->dtype, count);
	for (uint64_t i = 0; i < p->rows; i++)
		run_softmax_row(x + i * p->length, p->length, p->is_log);
	cast((void *)(uintptr_t)p->out, p->dtype, x, KILN_F64, count);
	free(x);
}

/* ---- moves ---- */

static void run_turn(const struct kilni_turn *t)
{
	char *to = (char *)(uintptr_t)t->out;
	const char *from = (const char *)(uintptr_t)t->in;

	for (uint64_t part = 0; part < t->parts; part++) {
		int64_t in = 0, out = 0;
		uint64_t i = part;

		for (unsigned d = t->rank; d-- > 0; i /= t->size[d]) {
			in += (int64_t)(i % t->size[d]) * t->in_stride[d];
			out += (int64_t)(i % t->size[d]) * t->out_stride[d];
		}
		for (int64_t r = 0; r < (int64_t)t->rows; r++)
			for (int64_t c = 0; c < (int64_t)t->columns; c++)
				memcpy(to + (out + r * t->out_row + c) *
						    t->bytes,
				       from + (in + c * t->in_column + r) *
						      t->bytes,
				       t->bytes);
	}
}

/* Back to a gather, of 16 bytes as an axis more of two times 8. */
static void run_rows(const struct kilni_rows *r)
{
	struct kilni_gather_params p = {
		.report = r->report,     .count = r->rows * r->units * 2,
		.out = r->out,           .source = r->source,
		.index = r->index,       .dim_size = r->dim_size,
		.dim = r->rank - 1,      .rank = r->rank + 1,
		.element_bytes = 8,      .index_dtype = r->index_dtype,
	};
	struct kilni_report *report = (void *)(uintptr_t)r->report;
	uint64_t before = report->position;

	for (unsigned d = 0; d < r->rank; d++) {
		p.shape[d] = r->shape[d];
		p.source_stride[d] = r->source_stride[d] * 2;
		p.index_stride[d] = r->index_stride[d];
	}
	p.shape[r->rank] = r->units * 2;
	p.source_stride[r->rank] = 1;
	kernels()->gather(&p, 0, p.count);
	if (report->position != before)
		report->position = report->position / (r->units * 2) * r->inner;
}

/* The CPU's kernels lock a report, by a word that those for CUDA ignore. */
static void unlock_report(const char *name, const void *params)
{
	const uint64_t *address = params;

	if ((begins(name, "kl_gather") || begins(name, "kl_scatter_") ||
	     begins(name, "kl_move_ROWS") || begins(name, "kl_move_PIECES")) &&
	    *address)
		((struct kilni_report *)(uintptr_t)*address)->lock = 0;
}

void stub_run_kernel(const char *name, void *params)
{
	const struct kilni_ew_params *ew = params;
	const struct kilni_gather_params *gather = params;

	unlock_report(name, params);
	if (!strcmp(name, "scale_add"))
		run_scale_add(params);
	else if (begins(name, "kl_ew_"))
		kernels()->ew(ew, 0, ew->count);
	else if (begins(name, "kl_gather"))
		kernels()->gather(gather, 0, gather->count);
	else if (begins(name, "kl_scatter_"))
		run_scatter(name + strlen("kl_scatter_"), params);
	else if (begins(name, "kl_move_TURN"))
		run_turn(params);
	else if (begins(name, "kl_move_ROWS") || begins(name, "kl_move_PIECES"))
		run_rows(params);
	else if (begins(name, "kl_reduce_"))
		run_reduce(name + strlen("kl_reduce_"), params);
	else if (begins(name, "kl_rows_"))
		run_reduce(name + strlen("kl_rows_"), params);
	else if (begins(name, "kl_columns_"))
		run_reduce(name + strlen("kl_columns_"), params);
	else if (begins(name, "kl_softmax_"))
		run_softmax(name + strlen("kl_softmax_"), params);
	else if (begins(name, "kl_matmul_") && !strstr(name, "ADD"))
		run_matmul(params);
}

/* ---- address space ---- */

uint64_t stub_reserve(size_t bytes)
{
	void *p = mmap(NULL, bytes + ((size_t)2 << 20), PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	return ((uintptr_t)p + ((2u << 20) - 1)) & ~(uint64_t)((2u << 20) - 1);
}

/* The alignment's remainder stays; it is address space alone. */
void stub_unreserve(uint64_t address, size_t bytes)
{
	munmap((void *)(uintptr_t)address, bytes);
}

int stub_map(uint64_t address, size_t bytes)
{
	return mprotect((void *)(uintptr_t)address, bytes,
			PROT_READ | PROT_WRITE) == 0;
}

void stub_unmap(uint64_t address, size_t bytes)
{
	mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
