/* SPDX-License-Identifier: Apache-2.0 */
/* The gather and scatter kernels against a plain walk over all coordinates. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/dtype.h>
#include <kiln/ops.h>

#include "kernels/abi.h"
#include "kernels/cpu/cpu.h"

typedef void gather_fn(const struct kilni_gather_params *p, uint64_t begin,
		       uint64_t end);
typedef void scatter_fn(const struct kilni_scatter_params *p,
			struct kilni_team *team);

gather_fn kilni_gather_base;
scatter_fn kilni_scatter_base;
#ifdef KILNI_HAVE_ISA_AVX2
gather_fn kilni_gather_avx2;
scatter_fn kilni_scatter_avx2;
#endif
#ifdef KILNI_HAVE_ISA_AVX512
gather_fn kilni_gather_avx512;
scatter_fn kilni_scatter_avx512;
#endif

static unsigned failures;
static unsigned checks;

#define CHECK(cond, ...)                                                       \
	do {                                                                   \
		checks++;                                                      \
		if (!(cond) && ++failures <= 40) {                             \
			printf("# %s:%d: ", __FILE__, __LINE__);               \
			printf(__VA_ARGS__);                                   \
			printf("\n");                                          \
		}                                                              \
	} while (0)

struct level {
	const char *name;
	gather_fn *gather;
	scatter_fn *scatter;
};

static unsigned levels(struct level *l)
{
	unsigned n = 0;

	l[n++] = (struct level){ "base", kilni_gather_base,
				 kilni_scatter_base };
#ifdef KILNI_HAVE_ISA_AVX2
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		l[n++] = (struct level){ "avx2", kilni_gather_avx2,
					 kilni_scatter_avx2 };
#endif
#ifdef KILNI_HAVE_ISA_AVX512
	if (__builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq"))
		l[n++] = (struct level){ "avx512", kilni_gather_avx512,
					 kilni_scatter_avx512 };
#endif
	return n;
}

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static uint64_t state = 7;

static uint64_t rnd(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

/* Runs a team's work backwards, which no result may notice. */
static void run_backwards(struct kilni_team *team,
			  void (*fn)(void *arg, uint64_t i), void *arg,
			  uint64_t count)
{
	(void)team;
	while (count-- > 0)
		fn(arg, count);
}

#define N_MAX 100000

static int32_t source[N_MAX];
static int32_t result[N_MAX];
static int32_t expected[N_MAX];
static int32_t index32[N_MAX];
static int64_t index64[N_MAX];

static void fill(int32_t *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		x[i] = (int32_t)(i * 7 + 1);
}

static void dense_strides(const uint64_t *shape, unsigned rank,
			  int64_t *stride)
{
	int64_t n = 1;

	for (unsigned d = rank; d-- > 0;) {
		stride[d] = n;
		n *= (int64_t)shape[d];
	}
}

static int64_t offset_of(uint64_t i, const uint64_t *shape, unsigned rank,
			 const int64_t *stride, unsigned skip)
{
	int64_t o = 0;

	for (unsigned d = rank; d-- > 0;) {
		if (d != skip)
			o += (int64_t)(i % shape[d]) * stride[d];
		i /= shape[d];
	}
	return o;
}

/* ---- gather ---- */

struct gather_case {
	unsigned rank;
	unsigned dim;
	uint64_t shape[4];
	uint64_t dim_size;
	int select;     /* the index varies along dim only */
	int exchange;   /* the source's last two axes are exchanged */
	int out_of_range;
};

static struct kilni_gather_params gather_params(const struct gather_case *c)
{
	struct kilni_gather_params p;
	uint64_t shape[4];

	memset(&p, 0, sizeof(p));
	p.count = 1;
	p.dim = c->dim;
	p.dim_size = (int64_t)c->dim_size;
	p.rank = c->rank;
	p.element_bytes = 4;
	p.index_dtype = KILN_I32;
	for (unsigned d = 0; d < c->rank; d++) {
		p.shape[d] = c->shape[d];
		p.count *= c->shape[d];
		shape[d] = d == c->dim ? c->dim_size : c->shape[d];
	}
	dense_strides(shape, c->rank, p.source_stride);
	if (c->exchange) {
		uint64_t t = shape[c->rank - 1];

		shape[c->rank - 1] = shape[c->rank - 2];
		shape[c->rank - 2] = t;
		dense_strides(shape, c->rank, p.source_stride);
		p.source_stride[c->rank - 2] = 1;
		p.source_stride[c->rank - 1] = (int64_t)shape[c->rank - 1];
	}
	dense_strides(c->shape, c->rank, p.index_stride);
	for (unsigned d = 0; c->select && d < c->rank; d++)
		p.index_stride[d] = d == c->dim;
	p.source = address(source);
	p.index = address(index32);
	p.out = address(result);
	return p;
}

static uint64_t gather_plainly(const struct kilni_gather_params *p)
{
	uint64_t bad = UINT64_MAX;

	for (uint64_t i = 0; i < p->count; i++) {
		int64_t at = offset_of(i, p->shape, p->rank, p->index_stride,
				       9);
		int64_t k = index32[at];

		expected[i] = 0;
		if (k < 0 || k >= p->dim_size) {
			bad = bad == UINT64_MAX ? i : bad;
			continue;
		}
		at = offset_of(i, p->shape, p->rank, p->source_stride, p->dim);
		expected[i] = source[at + k * p->source_stride[p->dim]];
	}
	return bad;
}

static void check_gather(const struct gather_case *c, const struct level *l)
{
	struct kilni_gather_params p = gather_params(c);
	struct kilni_report r = { .position = UINT64_MAX };
	uint64_t bad;

	for (uint64_t i = 0; i < p.count; i++)
		index32[i] = (int32_t)rnd(c->dim_size);
	if (c->out_of_range) {
		index32[c->shape[c->dim] / 2] = -1;
		index32[c->shape[c->dim] - 1] = (int32_t)c->dim_size;
	}
	bad = gather_plainly(&p);
	p.report = address(&r);
	memset(result, 0xee, sizeof(result));
	l->gather(&p, p.count / 2, p.count);
	l->gather(&p, 0, p.count / 3);
	l->gather(&p, p.count / 3, p.count / 2);
	CHECK(memcmp(result, expected, p.count * 4) == 0,
	      "gather of rank %u along %u (%s)", c->rank, c->dim, l->name);
	CHECK(r.position == bad, "gather reports %" PRIu64 ", not %" PRIu64,
	      r.position, bad);
	CHECK(bad == UINT64_MAX || r.bound == p.dim_size, "bound %" PRId64,
	      r.bound);
}

static void check_gathers(const struct level *l)
{
	static const struct gather_case cases[] = {
		{ 1, 0, { 1000 }, 77, 0, 0, 0 },
		{ 1, 0, { 1000 }, 77, 0, 0, 1 },
		{ 2, 0, { 64, 784 }, 100, 1, 0, 0 },
		{ 2, 0, { 64, 784 }, 100, 1, 0, 1 },
		{ 2, 1, { 50, 30 }, 40, 1, 0, 1 },
		{ 2, 1, { 50, 30 }, 40, 0, 0, 0 },
		{ 2, 0, { 50, 30 }, 40, 0, 0, 1 },
		{ 2, 0, { 50, 30 }, 40, 1, 1, 0 },
		{ 3, 1, { 5, 7, 11 }, 13, 1, 0, 1 },
		{ 3, 1, { 5, 7, 11 }, 13, 0, 0, 0 },
		{ 3, 0, { 5, 7, 11 }, 13, 1, 0, 0 },
		{ 3, 2, { 5, 7, 600 }, 13, 1, 1, 0 },
		{ 4, 2, { 3, 4, 5, 6 }, 9, 0, 1, 0 },
		{ 4, 1, { 3, 4, 5, 6 }, 9, 1, 0, 1 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_gather(&cases[i], l);
}

/* Every integer dtype as index, every element size. */
static void check_index_dtypes(const struct level *l)
{
	static const uint8_t dtypes[] = { KILN_I64, KILN_I32, KILN_I16,
					  KILN_I8, KILN_U64, KILN_U32,
					  KILN_U16, KILN_U8 };
	static const uint8_t bytes[] = { 8, 4, 2, 1, 8, 4, 2, 1 };
	unsigned char from[800];
	unsigned char to[800];
	unsigned char index[80];

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 13);
	for (unsigned k = 0; k < 8; k++)
		for (unsigned size = 1; size <= 8; size *= 2) {
			struct kilni_gather_params p;

			memset(&p, 0, sizeof(p));
			for (uint64_t i = 0; i < 10; i++) {
				uint64_t x = 99 - i * 7;

				memcpy(index + i * bytes[k], &x, bytes[k]);
			}
			p.count = p.shape[0] = 10;
			p.rank = 1;
			p.dim_size = 100;
			p.element_bytes = size;
			p.index_dtype = dtypes[k];
			p.source_stride[0] = p.index_stride[0] = 1;
			p.source = address(from);
			p.index = address(index);
			p.out = address(to);
			l->gather(&p, 0, 10);
			for (unsigned i = 0; i < 10; i++)
				CHECK(memcmp(to + i * size,
					     from + (99 - i * 7) * size,
					     size) == 0,
				      "index dtype %u, %u bytes", dtypes[k],
				      size);
		}
}

/* ---- scatter ---- */

static void scatter_plainly(const struct kilni_scatter_params *p)
{
	for (uint64_t i = 0; i < p->count; i++) {
		int64_t at = offset_of(i, p->shape, p->rank, p->index_stride,
				       9);
		int64_t k = index64[at];
		int32_t v = source[offset_of(i, p->shape, p->rank,
					     p->value_stride, 9)];
		int32_t *o;

		if (k < 0 || k >= p->dim_size)
			continue;
		o = &expected[offset_of(i, p->shape, p->rank, p->out_stride,
					p->dim) + k * p->out_stride[p->dim]];
		switch (p->update) {
		case KILN_UPDATE_ASSIGN:
			*o = v;
			break;
		case KILN_UPDATE_ADD:
			*o = (int32_t)((uint32_t)*o + (uint32_t)v);
			break;
		case KILN_UPDATE_MUL:
			*o = (int32_t)((uint32_t)*o * (uint32_t)v);
			break;
		case KILN_UPDATE_MIN:
			*o = v < *o ? v : *o;
			break;
		default:
			*o = v > *o ? v : *o;
			break;
		}
	}
}

static void check_scatter(const struct gather_case *c, uint32_t update,
			  unsigned width, const struct level *l)
{
	struct kilni_gather_params g = gather_params(c);
	struct kilni_team team = { width, run_backwards };
	struct kilni_report r = { .position = UINT64_MAX };
	struct kilni_scatter_params p;

	memset(&p, 0, sizeof(p));
	p.report = address(&r);
	p.count = g.count;
	p.out = address(result);
	p.index = address(index64);
	p.value = address(source);
	p.out_count = g.count / c->shape[c->dim] * c->dim_size;
	p.dim_size = g.dim_size;
	p.dim = g.dim;
	p.rank = g.rank;
	p.dtype = KILN_I32;
	p.index_dtype = KILN_I64;
	p.update = update;
	memcpy(p.shape, g.shape, sizeof(p.shape));
	memcpy(p.out_stride, g.source_stride, sizeof(p.out_stride));
	memcpy(p.index_stride, g.index_stride, sizeof(p.index_stride));
	dense_strides(p.shape, p.rank, p.value_stride);
	for (uint64_t i = 0; i < p.count; i++)
		index64[i] = (int64_t)rnd(c->dim_size);
	if (c->out_of_range)
		index64[c->shape[c->dim] / 2] = INT64_MIN;
	fill(result, p.out_count);
	fill(expected, p.out_count);
	scatter_plainly(&p);
	l->scatter(&p, &team);
	CHECK(memcmp(result, expected, p.out_count * 4) == 0,
	      "scatter of rank %u along %u, update %u, width %u (%s)",
	      c->rank, c->dim, update, width, l->name);
	CHECK((r.position != UINT64_MAX) == (c->out_of_range != 0) &&
	      (!c->out_of_range || r.value == INT64_MIN),
	      "scatter's report: %" PRIu64, r.position);
}

static void check_scatters(const struct level *l)
{
	static const struct gather_case cases[] = {
		{ 1, 0, { 10000 }, 77, 0, 0, 0 },
		{ 2, 0, { 64, 784 }, 100, 1, 0, 1 },
		{ 2, 1, { 500, 30 }, 40, 1, 0, 0 },
		{ 2, 1, { 500, 30 }, 40, 0, 0, 1 },
		{ 2, 0, { 50, 300 }, 40, 0, 0, 0 },
		{ 3, 1, { 5, 70, 110 }, 13, 1, 0, 1 },
		{ 3, 1, { 5, 7, 11 }, 13, 0, 0, 0 },
		{ 3, 0, { 5, 7, 11 }, 13, 1, 0, 0 },
		{ 4, 2, { 3, 4, 5, 6 }, 9, 0, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint32_t u = 0; u <= KILN_UPDATE_MAX; u++)
			for (unsigned w = 1; w < 4; w++)
				check_scatter(&cases[i], u, w, l);
}

/* Repeated indices: assignment keeps the last, sums are exact enough. */
static void check_repeats(const struct level *l)
{
	int64_t index[5] = { 0, 1, 1, 1, 2 };
	float value[5] = { 11, 12, 13, 14, 15 };
	float out[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct kilni_team team = { 2, run_backwards };
	struct kilni_scatter_params p;

	memset(&p, 0, sizeof(p));
	p.count = p.shape[0] = 5;
	p.out = address(out);
	p.index = address(index);
	p.value = address(value);
	p.out_count = 9;
	p.dim_size = 9;
	p.rank = 1;
	p.dtype = KILN_F32;
	p.index_dtype = KILN_I64;
	p.update = KILN_UPDATE_ASSIGN;
	p.out_stride[0] = p.index_stride[0] = p.value_stride[0] = 1;
	l->scatter(&p, &team);
	CHECK(out[0] == 11 && out[1] == 14 && out[2] == 15 && out[3] == 4,
	      "assignment: %g %g %g %g", (double)out[0], (double)out[1],
	      (double)out[2], (double)out[3]);
}

static void check_sums(const struct level *l)
{
	static double workspace[4];
	float out[2] = { 0, -0.0f };
	uint16_t half[1] = { 0 };
	float tenth = 0.1f;
	uint16_t one = 0x3c00;
	int64_t zero = 0;
	struct kilni_scatter_params p;

	memset(&p, 0, sizeof(p));
	p.count = p.shape[0] = 1000000;
	p.out = address(out);
	p.index = address(&zero);
	p.value = address(&tenth);
	p.workspace = address(workspace);
	p.out_count = 2;
	p.dim_size = 2;
	p.rank = 1;
	p.dtype = KILN_F32;
	p.index_dtype = KILN_I64;
	p.update = KILN_UPDATE_ADD;
	p.out_stride[0] = 1;
	l->scatter(&p, NULL);
	CHECK(fabs((double)out[0] - 100000) < 1 && signbit(out[1]),
	      "a million tenths: %g, %g", (double)out[0], (double)out[1]);
	p.count = p.shape[0] = 3000;
	p.out = address(half);
	p.value = address(&one);
	p.out_count = 1;
	p.dim_size = 1;
	p.dtype = KILN_F16;
	l->scatter(&p, NULL);
	CHECK(half[0] == 0x69dc, "3000 ones in f16: %#x", half[0]);
}

static void check_special_updates(const struct level *l)
{
	float nan = NAN;
	float out[1] = { 1 };
	uint8_t flag[1] = { 0 };
	uint8_t yes = 5;
	int8_t zero = 0;
	struct kilni_scatter_params p;

	memset(&p, 0, sizeof(p));
	p.count = p.shape[0] = p.out_count = 1;
	p.dim_size = 1;
	p.rank = 1;
	p.index = address(&zero);
	p.index_dtype = KILN_I8;
	p.out = address(out);
	p.value = address(&nan);
	p.dtype = KILN_F32;
	p.out_stride[0] = 1;
	for (p.update = KILN_UPDATE_MIN; p.update <= KILN_UPDATE_MAX;
	     p.update++) {
		out[0] = 1;
		l->scatter(&p, NULL);
		CHECK(isnan(out[0]), "NaN is lost in update %u", p.update);
	}
	p.dtype = KILN_BOOL;
	p.out = address(flag);
	p.value = address(&yes);
	p.update = KILN_UPDATE_ADD;
	l->scatter(&p, NULL);
	CHECK(flag[0] == 1, "or of bools: %u", flag[0]);
	flag[0] = 0;
	p.update = KILN_UPDATE_MUL;
	l->scatter(&p, NULL);
	CHECK(flag[0] == 0, "and of bools: %u", flag[0]);
}

int main(void)
{
	struct level l[3];
	unsigned n = levels(l);

	fill(source, N_MAX);
	for (unsigned k = 0; k < n; k++) {
		check_gathers(&l[k]);
		check_index_dtypes(&l[k]);
		check_scatters(&l[k]);
		check_repeats(&l[k]);
		check_sums(&l[k]);
		check_special_updates(&l[k]);
	}
	printf("%u checks, %u failed\n", checks, failures);
	return failures != 0;
}
