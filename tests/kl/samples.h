/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_TESTS_KL_SAMPLES_H
#define KILNI_TESTS_KL_SAMPLES_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi.h"
#include "kernels/cpu/cpu.h"
#include "kernels/registry.h"
#include "tests/kl/case_data.h"

/*
 * The comparison of a device with the CPU's kernels, the same for every
 * device: the cases by hand in each form, samples of every op of some dtypes,
 * and gather. Translating hundreds of kernels takes a software device minutes,
 * so that is a choice of them unless KL_FULL is set in the environment.
 */

void kilni_ew_base(const struct kilni_ew_params *p, uint64_t begin,
		   uint64_t end);
void kilni_gather_base(const struct kilni_gather_params *p, uint64_t begin,
		       uint64_t end);

/* A device: host memory map and its address there; run with parameters. */
struct target {
	const char *name;
	void (*ew)(void *context, struct kilni_ew_params *p, int form);
	void (*gather)(void *context, struct kilni_gather_params *p, int form);
	void *context;
	char *map;
	uint64_t address;
};

/* Offsets in the device's memory; parameters are at 0. */
#define AT_REPORT 4096u
#define AT_IN(j) (65536u * (1u + (j)))
#define AT_OUT (65536u * 5u)
#define SAMPLES 1000u

/* flex32 and bool(u8) have the modules of f32 and bool. */
static inline unsigned module_dtype(unsigned dtype)
{
	return dtype == KILN_FLEX32 ? KILN_F32 :
		dtype == KILN_BOOL_U8 ? KILN_BOOL : dtype;
}

static inline void strided(struct kilni_ew_params *p, int form)
{
	if (form == 0)
		return;
	p->contiguous = 0;
	p->rank = 2;
	p->shape[0] = 1;
	p->shape[1] = p->count;
	for (int k = 0; k < 4; k++) {
		p->stride[k][0] = 7;
		p->stride[k][1] = 1;
	}
}

/* Runs p on the device and the CPU on the operands at the device's places. */
static inline void compare_ew(struct target *t, struct kilni_ew_params p,
			      int form, const char *name, unsigned *checks,
			      unsigned *failures)
{
	static char out[AT_OUT];
	struct kilni_ew_params host = p;
	uint64_t n = p.count;
	unsigned shown = 0;

	for (unsigned j = 0; j < 3; j++) {
		host.in[j] = (uint64_t)(uintptr_t)(t->map + AT_IN(j));
		p.in[j] = t->address + AT_IN(j);
	}
	host.out = (uint64_t)(uintptr_t)out;
	p.out = t->address + AT_OUT;
	kilni_ew_base(&host, 0, n);
	memset(t->map + AT_OUT, 0xa5, n * 8);
	strided(&p, form);
	t->ew(t->context, &p, form);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t got = case_read(t->map + AT_OUT, p.dtype[0], i);
		uint64_t want = case_read(out, p.dtype[0], i);

		++*checks;
		if (case_agrees(p.dtype[0], got, want, 0))
			continue;
		if (shown++ < 3)
			printf("# %s, form %d, %s of dtype %u to %u, element %"
			       PRIu64 ": got %#" PRIx64 ", want %#" PRIx64
			       " (in %#" PRIx64 ", %#" PRIx64 ")\n", name, form,
			       kilni_ops[p.op].name, p.dtype[1], p.dtype[0], i,
			       got, want,
			       case_read(t->map + AT_IN(0), p.dtype[1], i),
			       case_read(t->map + AT_IN(1), p.dtype[2], i));
	}
	*failures += shown;
}

static inline void compare_cases(struct target *t, int full, unsigned *checks,
				 unsigned *failures)
{
	for (unsigned k = 0; k < KL_CASES; k++) {
		const struct kl_case *c = &kl_cases[k];
		struct kilni_ew_params p = case_params(c, c->count);

		for (unsigned j = 0; j < 3; j++)
			case_fill(t->map + AT_IN(j), c->dtype[1 + j], c->in[j],
				  c->count, c->count);
		for (int form = 0; form < 3; form++)
			if (full || form == 0 || k % 8 == 0)
				compare_ew(t, p, form, c->name, checks,
					   failures);
	}
}

static inline uint64_t sample(uint64_t *state, unsigned dtype)
{
	uint64_t r;
	double d;
	float f;
	uint32_t u;

	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	r = *state * 0x9e3779b97f4a7c15u;
	d = ((double)(r >> 11) / 9007199254740992.0 - 0.5) *
		(r % 3 == 0 ? 2 : r % 3 == 1 ? 20 : 200);
	f = (float)d;
	memcpy(&u, &f, sizeof(u));
	switch (dtype) {
	case KILN_F64:
		if (r % 8 != 0)
			memcpy(&r, &d, sizeof(r));
		return r;
	case KILN_F32:
		return r % 8 == 0 ? r >> 32 : u;
	case KILN_BF16:
		return r % 8 == 0 ? r >> 32 : u >> 16;
	case KILN_F16:
		return r >> 32;
	case KILN_BOOL:
		return r >> 62;
	default:
		return r % 2 ? r >> 20 : (r >> 20) % 100 - 50;
	}
}

static inline int takes(unsigned op, unsigned dtype)
{
	static const uint8_t cls[] = {
#define CLS(id, value, name, bytes, c) [id] = KILN_CLASS_##c,
		KILN_DTYPE_TABLE(CLS)
#undef CLS
	};

	return kilni_ops[op].form <= KILNI_FORM_EWX &&
	       (kilni_ops[op].classes >> cls[dtype] & 1);
}

static inline struct kilni_ew_params sample_params(unsigned op,
						   unsigned dtype)
{
	int is_float = dtype <= KILN_BF16;
	struct kilni_ew_params p;

	memset(&p, 0, sizeof(p));
	p.op = op;
	p.count = SAMPLES;
	p.contiguous = 1;
	memset(p.dtype, (int)dtype, 4);
	p.scalar[0] = 5;
	p.scalar[1] = dtype == KILN_F64 ? 0x3fe0000000000000u :
		is_float ? 0x3f000000u : 1;
	p.scalar[2] = p.scalar[1] + 3;
	if ((kilni_ops[op].form == KILNI_FORM_CMP && dtype != KILN_BOOL) ||
	    kilni_ops[op].form == KILNI_FORM_PRED)
		p.dtype[0] = op & 1 ? KILN_BOOL : KILN_BOOL_U32;
	if (op == KILNI_OP_MASK_WHERE || op == KILNI_OP_MASK_FILL)
		p.dtype[3] = KILN_BOOL;
	if (op == KILNI_OP_POWI && is_float)
		p.dtype[2] = KILN_I16;
	if (op == KILNI_OP_MASK_FILL)
		p.scalars = 2;
	if (op == KILNI_OP_CLAMP || op == KILNI_OP_HARD_SIGMOID)
		p.scalars = 6;
	if (op == KILNI_OP_FULL)
		p.scalars = 1;
	p.seed = 0x123456789u;
	p.counter = 3;
	return p;
}

static inline void compare_random(struct target *t, unsigned dtype,
				  unsigned *checks, unsigned *failures)
{
	static const double parameters[4][2] = {
		{ 0, 0 }, { -3, 5 }, { 1, 4 }, { 0.3, 0 }
	};
	struct kilni_ew_params p = sample_params(KILNI_OP_RANDOM, dtype);

	for (unsigned k = dtype == KILN_BOOL ? 3 : 0; k < 4; k++) {
		p.distribution = (uint8_t)k;
		memcpy(p.scalar, parameters[k], sizeof(parameters[k]));
		compare_ew(t, p, 0, "random", checks, failures);
	}
}

/* Dtypes whose compute type is sampled in full by another one. */
static inline int is_sampled(unsigned op, unsigned dtype, int full)
{
	return full || dtype == KILN_F32 || dtype == KILN_F64 ||
		dtype == KILN_I32 || op == KILNI_OP_ADD ||
		op == KILNI_OP_CAST || op == KILNI_OP_RANDOM ||
		op == KILNI_OP_EQUAL;
}

static inline void compare_samples(struct target *t, unsigned dtype, int full,
				   unsigned *checks, unsigned *failures)
{
	uint64_t state = 99;

	for (unsigned op = 0; op < KILNI_OP_COUNT; op++) {
		struct kilni_ew_params p = sample_params(op, dtype);

		if (!takes(op, dtype) || !is_sampled(op, dtype, full))
			continue;
		for (unsigned j = 0; j < 3; j++)
			for (unsigned i = 0; i < SAMPLES; i++) {
				unsigned d = p.dtype[1 + j];
				uint64_t x = sample(&state, d);

				memcpy(t->map + AT_IN(j) + i * case_bytes(d),
				       &x, case_bytes(d));
			}
		if (op == KILNI_OP_RANDOM) {
			compare_random(t, dtype, checks, failures);
			continue;
		}
		compare_ew(t, p, 0, "sample", checks, failures);
		for (unsigned o = 0; op == KILNI_OP_CAST &&
		     o < KILN_DTYPE_COUNT; o += full ? 1 : 3) {
			p.dtype[0] = (uint8_t)o;
			compare_ew(t, p, 0, "cast", checks, failures);
		}
	}
}

static inline void compare_gather(struct target *t, unsigned bytes, int form,
				  int bad, unsigned *checks,
				  unsigned *failures)
{
	struct kilni_report host_report = { .position = UINT64_MAX };
	struct kilni_report *report = (void *)(t->map + AT_REPORT);
	int32_t *index = (int32_t *)(void *)(t->map + AT_IN(1));
	static char out[4096];
	struct kilni_gather_params p;
	struct kilni_gather_params host;

	memset(&p, 0, sizeof(p));
	p.count = 300;
	p.rank = form == 0 ? 1 : 2;
	p.dim_size = 50;
	p.element_bytes = bytes;
	p.index_dtype = KILN_I32;
	p.shape[0] = form == 0 ? 300 : 20;
	p.shape[1] = 15;
	p.source_stride[0] = form == 0 ? 1 : 15;
	p.source_stride[1] = 1;
	p.index_stride[0] = p.source_stride[0];
	p.index_stride[1] = 1;
	for (unsigned i = 0; i < 300; i++)
		index[i] = (int32_t)(i * 37 % 50);
	if (bad) {
		index[200] = -1;
		index[100] = 50;
	}
	for (unsigned i = 0; i < 50 * 15 * bytes; i++)
		t->map[AT_IN(0) + i] = (char)(i * 31);
	host = p;
	p.report = t->address + AT_REPORT;
	p.source = t->address + AT_IN(0);
	p.index = t->address + AT_IN(1);
	p.out = t->address + AT_OUT;
	host.report = (uint64_t)(uintptr_t)&host_report;
	host.source = (uint64_t)(uintptr_t)(t->map + AT_IN(0));
	host.index = (uint64_t)(uintptr_t)index;
	host.out = (uint64_t)(uintptr_t)out;
	memset(report, 0, sizeof(*report));
	report->position = UINT64_MAX;
	kilni_gather_base(&host, 0, host.count);
	t->gather(t->context, &p, form);
	++*checks;
	if (memcmp(out, t->map + AT_OUT, 300 * bytes) == 0 &&
	    report->position == host_report.position &&
	    (!bad || report->bound == 50))
		return;
	++*failures;
	printf("# gather of %u bytes, form %d: position %" PRIu64 ", not %"
	       PRIu64 "\n", bytes, form, report->position,
	       host_report.position);
}

static inline void compare_all(struct target *t, unsigned *checks,
			       unsigned *failures)
{
	static const uint8_t dtypes[] = {
		KILN_F32, KILN_F64, KILN_F16, KILN_BF16, KILN_I32, KILN_I64,
		KILN_U64, KILN_U32, KILN_I8, KILN_U16, KILN_BOOL
	};
	int full = getenv("KL_FULL") != NULL;

	for (int form = 0; form < 3; form++)
		for (unsigned bytes = 1; bytes <= 8; bytes *= 2)
			for (int bad = 0; bad < 2; bad++)
				compare_gather(t, bytes, form, bad, checks,
					       failures);
	compare_cases(t, full, checks, failures);
	for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		compare_samples(t, dtypes[i], full, checks, failures);
}

#endif
