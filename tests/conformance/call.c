/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/method.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct kiln_tensor *tensor;

/* The signatures of forms.def: what a function of each takes. */
typedef enum kiln_status t_fn(tensor *, tensor);
typedef enum kiln_status tt_fn(tensor *, tensor, tensor);
typedef enum kiln_status ttt_fn(tensor *, tensor, tensor, tensor);
typedef enum kiln_status ts_fn(tensor *, tensor, struct kiln_scalar);
typedef enum kiln_status tss_fn(tensor *, tensor, struct kiln_scalar,
				struct kiln_scalar);
typedef enum kiln_status tts_fn(tensor *, tensor, tensor, struct kiln_scalar);
typedef enum kiln_status ty_fn(tensor *, tensor, enum kiln_dtype);
typedef enum kiln_status tty_fn(tensor *, tensor, tensor, enum kiln_dtype);
typedef enum kiln_status tsy_fn(tensor *, tensor, struct kiln_scalar,
				enum kiln_dtype);
typedef enum kiln_status ti_fn(tensor *, tensor, int);
typedef enum kiln_status tii_fn(tensor *, tensor, int, int);
typedef enum kiln_status til_fn(tensor *, tensor, int, int64_t);
typedef enum kiln_status till_fn(tensor *, tensor, int, int64_t, int64_t);
typedef enum kiln_status tiy_fn(tensor *, tensor, int, enum kiln_dtype);
typedef enum kiln_status tiy_two_fn(tensor *, tensor *, tensor, int,
				    enum kiln_dtype);
typedef enum kiln_status tl_fn(tensor *, tensor, int, const int64_t *);
typedef enum kiln_status taxes_fn(tensor *, tensor, const int *);
typedef enum kiln_status tcaxes_fn(tensor *, tensor, int, const int *);
typedef enum kiln_status tx_fn(tensor *, tensor, int,
			       const struct kiln_slice *);
typedef enum kiln_status txt_fn(tensor *, tensor, int,
				const struct kiln_slice *, tensor);
typedef enum kiln_status list_i_fn(tensor *, int, tensor const *, int);
typedef enum kiln_status tit_fn(tensor *, tensor, int, tensor);
typedef enum kiln_status titt_fn(tensor *, tensor, int, tensor, tensor);
typedef enum kiln_status tittu_fn(tensor *, tensor, int, tensor, tensor,
				  enum kiln_update);
typedef enum kiln_status yl_fn(tensor *, struct kiln_device *,
			       enum kiln_dtype, int, const int64_t *);
typedef enum kiln_status yls_fn(tensor *, struct kiln_device *,
				enum kiln_dtype, int, const int64_t *,
				struct kiln_scalar);
typedef enum kiln_status yld_fn(tensor *, struct kiln_device *,
				enum kiln_dtype, int, const int64_t *,
				struct kiln_distribution);
typedef enum kiln_status range_fn(tensor *, struct kiln_device *,
				  enum kiln_dtype, int64_t, int64_t, int64_t);
typedef enum kiln_status to_device_fn(tensor *, tensor, struct kiln_device *);
typedef enum kiln_status device_fn(struct kiln_device *);
typedef enum kiln_status seed_fn(struct kiln_device *, uint64_t);

/* Attribute n as an argument. */
static struct kiln_scalar scalar(const struct conf_call *c, int n)
{
	return c->attr[n].value.scalar;
}

static int64_t integer(const struct conf_call *c, int n)
{
	return c->attr[n].value.i;
}

/* An axis too great for an int must not become a valid one. */
static int narrow(int64_t i)
{
	return i > INT_MAX ? INT_MAX : i < INT_MIN ? INT_MIN : (int)i;
}

static int axis(const struct conf_call *c, int n)
{
	return narrow(integer(c, n));
}

static enum kiln_dtype dtype(const struct conf_call *c, int n)
{
	switch (c->attr[n].kind) {
	case CONF_ATTR_OPERAND:
		return kiln_tensor_dtype(c->in[0]);
	case CONF_ATTR_INDEX:
		return c->index_dtype;
	default:
		return c->attr[n].value.dtype;
	}
}

static int count(const struct conf_call *c, int n)
{
	return c->attr[n].kind == CONF_ATTR_SLICES
		       ? c->attr[n].value.slices.count
		       : c->attr[n].value.list.count;
}

static const int64_t *list(const struct conf_call *c, int n)
{
	return c->attr[n].value.list.v;
}

static const struct kiln_slice *slices(const struct conf_call *c, int n)
{
	return c->attr[n].value.slices.v;
}

static void axes(const struct conf_call *c, int n, int result[CONF_LIST_MAX])
{
	int i;

	for (i = 0; i < count(c, n); i++)
		result[i] = narrow(list(c, n)[i]);
}

/* The callers: one a signature. */
#define CALLER(signature, ...)                                                 \
	static enum kiln_status call_##signature(const struct conf_call *c,    \
						 signature##_fn *f)            \
	{                                                                      \
		return f(__VA_ARGS__);                                         \
	}
#define OUT c->out[0]
#define IN(n) c->in[n]

CALLER(t, OUT, IN(0))
CALLER(tt, OUT, IN(0), IN(1))
CALLER(ttt, OUT, IN(0), IN(1), IN(2))
CALLER(ts, OUT, IN(0), scalar(c, 0))
CALLER(tss, OUT, IN(0), scalar(c, 0), scalar(c, 1))
CALLER(tts, OUT, IN(0), IN(1), scalar(c, 0))
CALLER(ty, OUT, IN(0), dtype(c, 0))
CALLER(tty, OUT, IN(0), IN(1), dtype(c, 0))
CALLER(tsy, OUT, IN(0), scalar(c, 0), dtype(c, 1))
CALLER(ti, OUT, IN(0), axis(c, 0))
CALLER(tii, OUT, IN(0), axis(c, 0), axis(c, 1))
CALLER(til, OUT, IN(0), axis(c, 0), integer(c, 1))
CALLER(till, OUT, IN(0), axis(c, 0), integer(c, 1), integer(c, 2))
CALLER(tiy, OUT, IN(0), axis(c, 0), dtype(c, 1))
CALLER(tiy_two, OUT, c->out[1], IN(0), axis(c, 0), dtype(c, 1))
CALLER(tl, OUT, IN(0), count(c, 0), list(c, 0))
CALLER(tx, OUT, IN(0), count(c, 0), slices(c, 0))
CALLER(txt, OUT, IN(0), count(c, 0), slices(c, 0), IN(1))
CALLER(list_i, OUT, c->in_count, c->in, axis(c, 0))
CALLER(tit, OUT, IN(0), axis(c, 0), IN(1))
CALLER(titt, OUT, IN(0), axis(c, 0), IN(1), IN(2))
CALLER(tittu, OUT, IN(0), axis(c, 0), IN(1), IN(2), c->attr[1].value.update)
CALLER(yl, OUT, c->device, dtype(c, 0), count(c, 1), list(c, 1))
CALLER(yls, OUT, c->device, dtype(c, 0), count(c, 1), list(c, 1),
       scalar(c, 2))
CALLER(yld, OUT, c->device, dtype(c, 0), count(c, 1), list(c, 1),
       c->attr[2].value.distribution)
CALLER(range, OUT, c->device, dtype(c, 0), list(c, 1)[0], list(c, 1)[1],
       integer(c, 2))
CALLER(to_device, OUT, IN(0), c->device)
CALLER(device, c->device)
CALLER(seed, c->device, (uint64_t)integer(c, 0))

static enum kiln_status call_taxes(const struct conf_call *c, taxes_fn *f)
{
	int v[CONF_LIST_MAX];

	/* The function takes no count: it reads as many as there are axes. */
	if (count(c, 0) != kiln_tensor_rank(IN(0)))
		return KILN_ERR_INVALID;
	axes(c, 0, v);
	return f(OUT, IN(0), v);
}

static enum kiln_status call_tcaxes(const struct conf_call *c, tcaxes_fn *f)
{
	int v[CONF_LIST_MAX];

	axes(c, 0, v);
	return f(OUT, IN(0), count(c, 0), v);
}

/* A tensor's elements to the host and into a new tensor. */
static enum kiln_status through_host(tensor *out, tensor in)
{
	size_t bytes = kiln_tensor_size_bytes(in);
	void *data = malloc(bytes + 1);
	enum kiln_status status = KILN_ERR_NO_MEMORY;

	if (data)
		status = kiln_tensor_read(in, data, bytes);
	if (status == KILN_OK)
		status = kiln_tensor_from_data(
			out, kiln_tensor_device(in), kiln_tensor_dtype(in),
			kiln_tensor_rank(in), kiln_tensor_shape(in), data,
			bytes);
	free(data);
	return status;
}

/* A function has the type of its form's signature, or this does not compile. */
enum method_id {
#define METHOD(name, form, function) METHOD_##name,
#include "tests/conformance/methods.def"
#undef METHOD
	METHOD_COUNT
};

union function {
#define FORM(name, signature, results, tensors, attributes)                    \
	signature##_fn *name;
#include "tests/conformance/forms.def"
#undef FORM
};

static const union function functions[METHOD_COUNT] = {
#define METHOD(name, form, function) [METHOD_##name] = { .form = function },
#include "tests/conformance/methods.def"
#undef METHOD
};

static const struct conf_method methods[METHOD_COUNT];

static const union function *function_of(const struct conf_call *c)
{
	return &functions[c->method - methods];
}

#define FORM(name, signature, results, tensors, attributes)                    \
	static enum kiln_status invoke_##name(const struct conf_call *c)       \
	{                                                                      \
		return call_##signature(c, function_of(c)->name);              \
	}
#include "tests/conformance/forms.def"
#undef FORM

enum form_id {
#define FORM(name, signature, results, tensors, attributes) FORM_##name,
#include "tests/conformance/forms.def"
#undef FORM
	FORM_COUNT
};

#define NO_TENSORS { NULL }
#define NO_ATTRS { { NULL, CONF_ATTR_NONE } }
#define TENSORS(...) { __VA_ARGS__ }, .list = false
#define TENSOR_LIST(name) { name }, .list = true
#define ATTRS(...) { __VA_ARGS__ }
#define INT(name) { name, CONF_ATTR_INT }
#define SCALAR(name) { name, CONF_ATTR_SCALAR }
#define DTYPE(name) { name, CONF_ATTR_DTYPE }
#define LIST(name) { name, CONF_ATTR_LIST }
#define RANGE(name) { name, CONF_ATTR_RANGE }
#define SLICES(name) { name, CONF_ATTR_SLICES }
#define UPDATE(name) { name, CONF_ATTR_UPDATE }
#define DISTRIBUTION(name) { name, CONF_ATTR_DISTRIBUTION }
#define UNIT { NULL, CONF_ATTR_UNIT }
#define OPERAND { NULL, CONF_ATTR_OPERAND }
#define INDEX { NULL, CONF_ATTR_INDEX }

static const struct conf_form forms[FORM_COUNT] = {
#define FORM(name, signature, n, tensors_, attributes)                         \
	[FORM_##name] = { .results = n,                                        \
			  .invoke = invoke_##name,                             \
			  .attrs = attributes,                                 \
			  .tensors = tensors_ },
#include "tests/conformance/forms.def"
#undef FORM
};

static const struct conf_method methods[METHOD_COUNT] = {
#define METHOD(name, form, function)                                           \
	[METHOD_##name] = { #name, #function, &forms[FORM_##form] },
#include "tests/conformance/methods.def"
#undef METHOD
};

const struct conf_method *conf_methods(size_t *n)
{
	*n = METHOD_COUNT;
	return methods;
}

const struct conf_method *conf_method_find(const char *name)
{
	size_t i;

	for (i = 0; name && i < METHOD_COUNT; i++) {
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	}
	return NULL;
}

enum kiln_status conf_call(const struct conf_call *c)
{
	return c->method->form->invoke(c);
}
