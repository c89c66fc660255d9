/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/index.h"

#include <string.h>

#include <kiln/dtype.h>

/* Indices that are looked at together. */
#define RUN 256

#define LOAD_CASE(ID, T)                                                       \
	case ID: {                                                             \
		const T *from = (const T *)(uintptr_t)base + offset;           \
                                                                               \
		for (uint64_t i = 0; i < n; i++, from += stride)               \
			to[i] = (int64_t)*from;                                \
		break;                                                         \
	}

void KILNI_ISA(kilni_index_load)(uint64_t base, int64_t offset, int64_t stride,
				 uint32_t dtype, int64_t *to, uint64_t n)
{
	switch (dtype) {
	LOAD_CASE(KILN_I64, int64_t)
	LOAD_CASE(KILN_I32, int32_t)
	LOAD_CASE(KILN_I16, int16_t)
	LOAD_CASE(KILN_I8, int8_t)
	LOAD_CASE(KILN_U64, uint64_t)
	LOAD_CASE(KILN_U32, uint32_t)
	LOAD_CASE(KILN_U16, uint16_t)
	LOAD_CASE(KILN_U8, uint8_t)
	default:
		for (uint64_t i = 0; i < n; i++)
			to[i] = -1;
		break;
	}
}

struct walk {
	const struct kilni_gather_params *p;
	unsigned axes;          /* the leading ones that are walked */
	uint64_t at[KILNI_RANK_MAX];
	int64_t source;         /* offsets in elements, without dim */
	int64_t index;
};

static int64_t source_stride(const struct walk *w, unsigned d)
{
	return d == w->p->dim ? 0 : w->p->source_stride[d];
}

static void walk_start(struct walk *w, uint64_t place)
{
	w->source = 0;
	w->index = 0;
	for (unsigned d = w->axes; d-- > 0;) {
		w->at[d] = place % w->p->shape[d];
		place /= w->p->shape[d];
		w->source += (int64_t)w->at[d] * source_stride(w, d);
		w->index += (int64_t)w->at[d] * w->p->index_stride[d];
	}
}

/* Goes n places on along the last walked axis, to its end at most. */
static void walk_advance(struct walk *w, uint64_t n)
{
	unsigned d = w->axes - 1;

	w->at[d] += n;
	w->source += (int64_t)n * source_stride(w, d);
	w->index += (int64_t)n * w->p->index_stride[d];
	while (w->at[d] == w->p->shape[d] && d > 0) {
		int64_t size = (int64_t)w->p->shape[d];

		w->source += source_stride(w, d - 1) -
			size * source_stride(w, d);
		w->index += w->p->index_stride[d - 1] -
			size * w->p->index_stride[d];
		w->at[d] = 0;
		w->at[--d]++;
	}
}

static int in_range(const struct kilni_gather_params *p, int64_t index)
{
	return (uint64_t)index < (uint64_t)p->dim_size;
}

/* What one element and a run of them need; step is 0 along dim. */
#define ELEMENTS(T)                                                            \
	static void elements_##T(const struct kilni_gather_params *p,          \
				 const int64_t *index, uint64_t position,      \
				 int64_t source, int64_t step, uint64_t n)     \
	{                                                                      \
		const T *from = (const T *)(uintptr_t)p->source + source;      \
		T *to = (T *)(uintptr_t)p->out + position;                     \
		int64_t stride = p->source_stride[p->dim];                     \
                                                                               \
		for (uint64_t i = 0; i < n; i++, from += step) {               \
			if (in_range(p, index[i])) {                           \
				to[i] = from[index[i] * stride];               \
				continue;                                      \
			}                                                      \
			to[i] = 0;                                             \
			kilni_report_index(p->report, position + i, index[i],  \
					   p->dim_size);                       \
		}                                                              \
	}
ELEMENTS(uint8_t)
ELEMENTS(uint16_t)
ELEMENTS(uint32_t)
ELEMENTS(uint64_t)

static void elements(const struct walk *w, uint64_t position, uint64_t n)
{
	const struct kilni_gather_params *p = w->p;
	unsigned d = w->axes - 1;
	int64_t step = source_stride(w, d);
	int64_t index[RUN];

	KILNI_ISA(kilni_index_load)(p->index, w->index, p->index_stride[d],
				    p->index_dtype, index, n);
	switch (p->element_bytes) {
	case 1:
		elements_uint8_t(p, index, position, w->source, step, n);
		break;
	case 2:
		elements_uint16_t(p, index, position, w->source, step, n);
		break;
	case 4:
		elements_uint32_t(p, index, position, w->source, step, n);
		break;
	default:
		elements_uint64_t(p, index, position, w->source, step, n);
		break;
	}
}

static void gather_elements(struct walk *w, uint64_t begin, uint64_t end)
{
	unsigned d = w->axes - 1;

	walk_start(w, begin);
	for (uint64_t i = begin; i < end;) {
		uint64_t n = w->p->shape[d] - w->at[d];

		n = n < end - i ? n : end - i;
		n = n < RUN ? n : RUN;
		elements(w, i, n);
		walk_advance(w, n);
		i += n;
	}
}

/*
 * Elements that one index brings, because the axes behind dim are dense in the
 * source and the index does not vary along them; 1 where there are none.
 */
static uint64_t slice_length(const struct kilni_gather_params *p)
{
	uint64_t n = 1;

	for (unsigned d = p->rank; d-- > p->dim + 1;) {
		if (p->shape[d] == 1)
			continue;
		if (p->index_stride[d] != 0 ||
		    p->source_stride[d] != (int64_t)n)
			return 1;
		n *= p->shape[d];
	}
	return n;
}

/* The part from skip on, n elements, of the slice at the walk's place. */
static void slice(const struct walk *w, int64_t index, uint64_t position,
		  uint64_t skip, uint64_t n)
{
	const struct kilni_gather_params *p = w->p;
	uint64_t bytes = p->element_bytes;
	char *to = (char *)(uintptr_t)p->out + position * bytes;
	int64_t source = w->source + index * p->source_stride[p->dim] +
		(int64_t)skip;

	if (in_range(p, index)) {
		memcpy(to, (const char *)(uintptr_t)p->source +
		       source * (int64_t)bytes, n * bytes);
		return;
	}
	memset(to, 0, n * bytes);
	kilni_report_index(p->report, position, index, p->dim_size);
}

static void gather_slices(struct walk *w, uint64_t length, uint64_t begin,
			  uint64_t end)
{
	unsigned d = w->axes - 1;
	uint64_t skip = begin % length;
	int64_t index;

	walk_start(w, begin / length);
	for (uint64_t i = begin; i < end;) {
		uint64_t n = length - skip;

		n = n < end - i ? n : end - i;
		KILNI_ISA(kilni_index_load)(w->p->index, w->index,
					    w->p->index_stride[d],
					    w->p->index_dtype, &index, 1);
		slice(w, index, i, skip, n);
		walk_advance(w, 1);
		skip = 0;
		i += n;
	}
}

void KILNI_ISA(kilni_gather)(const struct kilni_gather_params *p,
			     uint64_t begin, uint64_t end)
{
	struct walk w = { .p = p, .axes = p->rank };
	uint64_t length = slice_length(p);

	if (begin >= end)
		return;
	if (length > 1) {
		w.axes = p->dim + 1;
		gather_slices(&w, length, begin, end);
	} else {
		gather_elements(&w, begin, end);
	}
}
