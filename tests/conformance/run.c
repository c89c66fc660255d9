/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* One run of a case; a tensor a slot. */
struct run {
	const struct conf_device *device;
	const struct conf_vector *vector;
	enum conf_mode mode;
	enum conf_skip *skip;
	struct conf_text *text;
	struct kiln_tensor **tensors;
	struct kiln_tensor **operands; /* of the step at hand */
};

/* ---- The device ---- */

/* Where MXCSR says that denormal operands are zeros. */
#define DENORMALS_ZERO 0x40u

/* A thread begins with the floating-point state of the one that makes it. */
static enum kiln_status open_flushing(struct conf_device *device,
				      const char *selector)
{
#ifdef __SSE__
	unsigned before = _mm_getcsr();
	enum kiln_status status;

	_mm_setcsr(before | _MM_FLUSH_ZERO_ON | DENORMALS_ZERO);
	status = kiln_device_open(&device->handle, selector);
	_mm_setcsr(before);
	return status;
#else
	(void)device;
	(void)selector;
	return KILN_ERR_UNSUPPORTED;
#endif
}

bool conf_device_open(struct conf_device *device, const char *selector,
		      bool flush, bool signed_zero, struct conf_text *why)
{
	struct kiln_settings settings = KILN_SETTINGS_INIT;
	enum kiln_status status;

	memset(device, 0, sizeof(*device));
	status = flush ? open_flushing(device, selector)
		       : kiln_device_open(&device->handle, selector);
	if (status == KILN_OK)
		status = kiln_device_settings(device->handle, &settings);
	if (status != KILN_OK) {
		conf_text_add(why, "%s: %s", kiln_status_name(status),
			      kiln_error_message());
		conf_device_close(device);
		return false;
	}
	device->values = kiln_device_type(device->handle) != KILN_DEVICE_NULL;
	device->signed_zero = signed_zero;
	device->flushes = !(kiln_device_dtype_usage(device->handle, KILN_F32) &
			    KILN_USAGE_DENORMALS);
	device->int_dtype = (enum kiln_dtype)settings.int_dtype;
	return true;
}

void conf_device_close(struct conf_device *device)
{
	kiln_device_release(device->handle);
	device->handle = NULL;
}

static bool reset_stream(const struct run *r)
{
	struct kiln_stream *stream = NULL;
	enum kiln_status status;

	status = kiln_stream_current(&stream, r->device->handle);
	if (status == KILN_OK)
		status = kiln_stream_reset(stream);
	kiln_stream_release(stream);
	if (status != KILN_OK)
		conf_text_add(r->text, "the stream could not be reset: %s: %s",
			      kiln_status_name(status), kiln_error_message());
	return status == KILN_OK;
}

/* ---- Failures ---- */

static enum conf_outcome call_failed(struct run *r, const char *what,
				     enum kiln_status status)
{
	conf_text_add(r->text, "%s: expected success, came %s: %s", what,
		      kiln_status_name(status), kiln_error_message());
	return CONF_FAILED;
}

/* ---- One step ---- */

static bool is_integer(enum kiln_dtype dtype)
{
	return kiln_dtype_class(dtype) == KILN_CLASS_INT ||
	       kiln_dtype_class(dtype) == KILN_CLASS_UINT;
}

/* The dtype of indices where the method has no parameter for it. */
static enum kiln_dtype index_dtype(const struct run *r,
				   const struct conf_step *step)
{
	const struct conf_slot *slot =
		&r->vector->slots[step->out[step->method->form->results - 1]];
	const struct kiln_tensor *tensor = r->operands[0];
	enum kiln_dtype dtype = r->device->int_dtype;
	int bits = 8 * (int)kiln_dtype_size_bytes(dtype);
	int64_t dim = step->attr[0].value.i, length = 0;

	/* The vectors differ in it: a case that names one is asked for it. */
	if (slot->wanted && is_integer(slot->end.dtype))
		return slot->end.dtype;
	if (dim >= 0 && dim < kiln_tensor_rank(tensor))
		length = kiln_tensor_shape(tensor)[dim];
	if (kiln_dtype_class(dtype) == KILN_CLASS_INT)
		bits--;
	return bits < 63 && length >> bits ? KILN_I64 : dtype;
}

static bool leaves_index_open(const struct conf_step *step)
{
	int i;

	for (i = 0; i < CONF_ATTRS_MAX; i++) {
		if (step->attr[i].kind == CONF_ATTR_INDEX)
			return true;
	}
	return false;
}

static bool last_use(const struct run *r, int slot, int step)
{
	return r->mode == CONF_IN_PLACE && !r->vector->slots[slot].wanted &&
	       r->vector->slots[slot].last_step == step;
}

/* Puts the first operand that ends here where the first result will go. */
static void take_place(struct run *r, int n)
{
	const struct conf_step *step = &r->vector->steps[n];
	int i;

	for (i = 0; i < step->in_count; i++) {
		int slot = step->in[i];

		if (!last_use(r, slot, n))
			continue;
		r->tensors[step->out[0]] = r->tensors[slot];
		r->tensors[slot] = KILN_TENSOR_NONE;
		return;
	}
}

/* before, if wanted: what every place holds when the call is made. */
static enum kiln_status make_step(struct run *r, int n,
				  struct kiln_tensor **before)
{
	const struct conf_step *step = &r->vector->steps[n];
	struct conf_call call = {
		.method = step->method,
		.device = r->device->handle,
		.in = r->operands,
		.in_count = step->in_count,
		.attr = step->attr,
	};
	int i;

	for (i = 0; i < step->in_count; i++)
		r->operands[i] = r->tensors[step->in[i]];
	for (i = 0; i < step->method->form->results; i++)
		call.out[i] = &r->tensors[step->out[i]];
	if (leaves_index_open(step))
		call.index_dtype = index_dtype(r, step);
	if (step->method->form->results > 0)
		take_place(r, n);
	for (i = 0; before && i < r->vector->slot_count; i++)
		before[i] = r->tensors[i];
	kiln_error_clear();
	return conf_call(&call);
}

/* Operands that no later step reads go now, so that they stop being owners. */
static void end_operands(struct run *r, int n)
{
	const struct conf_step *step = &r->vector->steps[n];
	int i;

	for (i = 0; i < step->in_count; i++) {
		if (last_use(r, step->in[i], n))
			kiln_tensor_clear(&r->tensors[step->in[i]]);
	}
}

static bool may_refuse(const struct run *r, int n, enum kiln_status status)
{
	return status == KILN_ERR_UNSUPPORTED && r->device->expect &&
	       conf_expect_refused(r->device->expect,
				   r->vector->steps[n].method->name);
}

static enum conf_outcome make_steps(struct run *r, int count)
{
	char what[128];
	int n;

	for (n = 0; n < count; n++) {
		enum kiln_status status = make_step(r, n, NULL);

		if (may_refuse(r, n, status)) {
			*r->skip = CONF_SKIP_UNSUPPORTED;
			return CONF_SKIPPED;
		}
		if (status != KILN_OK) {
			snprintf(what, sizeof(what), "step %d, %s", n + 1,
				 r->vector->steps[n].method->name);
			return call_failed(r, what, status);
		}
		end_operands(r, n);
	}
	return CONF_PASSED;
}

static enum conf_outcome give_inputs(struct run *r)
{
	int i;

	for (i = 0; i < r->vector->slot_count; i++) {
		const struct conf_slot *slot = &r->vector->slots[i];
		enum kiln_status status;

		if (!slot->given)
			continue;
		status = kiln_tensor_from_data(
			&r->tensors[i], r->device->handle, slot->start.dtype,
			slot->start.rank, slot->start.shape, slot->start.data,
			slot->start.bytes);
		if (status != KILN_OK)
			return call_failed(r, slot->name, status);
	}
	return CONF_PASSED;
}

/* ---- Results ---- */

static bool same_shape(const struct conf_value *want,
		       const struct kiln_tensor *got)
{
	return kiln_tensor_rank(got) == want->rank &&
	       memcmp(kiln_tensor_shape(got), want->shape,
		      (size_t)want->rank * sizeof(*want->shape)) == 0;
}

static bool check_shape(struct run *r, const struct conf_slot *slot,
			const struct kiln_tensor *got)
{
	const struct conf_value *want = &slot->end;

	if (kiln_tensor_dtype(got) == want->dtype && same_shape(want, got))
		return true;
	conf_text_add(r->text, "%s: expected ", slot->name);
	conf_shape_print(r->text, want->dtype, want->rank, want->shape);
	conf_text_add(r->text, ", came ");
	conf_shape_print(r->text, kiln_tensor_dtype(got),
			 kiln_tensor_rank(got), kiln_tensor_shape(got));
	return false;
}

static bool check_values(struct run *r, const struct conf_slot *slot,
			 const void *data)
{
	struct conf_tolerance tolerance = r->vector->tolerance;
	struct conf_text text;

	tolerance.signed_zero = r->device->signed_zero;
	conf_text_clear(&text);
	if (!r->device->values ||
	    conf_compare(&slot->end, data, &tolerance, &text))
		return true;
	conf_text_add(r->text, "%s: %s", slot->name, text.s);
	return false;
}

static enum conf_outcome check_result(struct run *r, int i)
{
	const struct conf_slot *slot = &r->vector->slots[i];
	enum conf_outcome outcome = CONF_FAILED;
	enum kiln_status status;
	void *data;

	if (!check_shape(r, slot, r->tensors[i]))
		return CONF_FAILED;
	data = malloc(slot->end.bytes + 1);
	if (!data) {
		conf_text_add(r->text, "no memory to read %s", slot->name);
		return CONF_FAILED;
	}
	status = kiln_tensor_read(r->tensors[i], data, slot->end.bytes);
	if (status != KILN_OK)
		call_failed(r, "read", status);
	else if (check_values(r, slot, data))
		outcome = CONF_PASSED;
	free(data);
	return outcome;
}

static enum conf_outcome run_to_results(struct run *r)
{
	enum conf_outcome outcome = make_steps(r, r->vector->step_count);
	int i;

	for (i = 0; i < r->vector->slot_count && outcome == CONF_PASSED; i++) {
		if (r->vector->slots[i].wanted)
			outcome = check_result(r, i);
	}
	return outcome;
}

/* ---- Refusals ---- */

/* The statuses that say that a call's arguments are wrong. */
static bool refuses(enum kiln_status status)
{
	switch (status) {
	case KILN_ERR_INVALID:
	case KILN_ERR_SHAPE:
	case KILN_ERR_DTYPE:
	case KILN_ERR_INDEX:
	case KILN_ERR_EMPTY:
	case KILN_ERR_OVERFLOW:
	case KILN_ERR_LIMIT:
		return true;
	default:
		return false;
	}
}

/* Whether a tensor still holds what its slot was given. */
static bool untouched(struct run *r, const struct conf_slot *slot,
		      struct kiln_tensor *tensor)
{
	void *data = malloc(slot->start.bytes + 1);
	enum kiln_status status = KILN_ERR_NO_MEMORY;
	bool same;

	if (data)
		status = kiln_tensor_read(tensor, data, slot->start.bytes);
	same = status == KILN_OK &&
	       (!r->device->values ||
		memcmp(data, slot->start.data, slot->start.bytes) == 0);
	free(data);
	if (status != KILN_OK)
		conf_text_add(r->text,
			      "operand %s: expected untouched, came %s: %s",
			      slot->name, kiln_status_name(status),
			      kiln_error_message());
	else if (!same)
		conf_text_add(r->text, "operand %s: expected untouched, came "
				       "changed by the refused call",
			      slot->name);
	return same;
}

/* After a refusal every place holds what it held. */
static enum conf_outcome check_refusal(struct run *r, enum kiln_status status,
				       struct kiln_tensor *const *before)
{
	const struct conf_vector *v = r->vector;
	int i;

	if (!refuses(status)) {
		conf_text_add(r->text, "expected a refusal, came %s: %s",
			      kiln_status_name(status), kiln_error_message());
		return CONF_FAILED;
	}
	for (i = 0; i < v->slot_count; i++) {
		if (r->tensors[i] == before[i])
			continue;
		conf_text_add(r->text, "%s: expected untouched, came another "
				       "handle after %s",
			      v->slots[i].name, kiln_status_name(status));
		return CONF_FAILED;
	}
	return CONF_PASSED;
}

static enum conf_outcome check_operands(struct run *r)
{
	const struct conf_step *step =
		&r->vector->steps[r->vector->step_count - 1];
	int i;

	for (i = 0; i < step->in_count; i++) {
		const struct conf_slot *slot = &r->vector->slots[step->in[i]];

		if (slot->given && !untouched(r, slot, r->operands[i]))
			return CONF_FAILED;
	}
	return CONF_PASSED;
}

static enum kiln_status read_away(struct kiln_tensor *tensor)
{
	size_t bytes = kiln_tensor_size_bytes(tensor);
	void *data = malloc(bytes + 1);
	enum kiln_status status = KILN_ERR_NO_MEMORY;

	if (data)
		status = kiln_tensor_read(tensor, data, bytes);
	free(data);
	return status;
}

/* The call took it: then the read tells, and only of an index. */
static enum conf_outcome check_late_error(struct run *r)
{
	const struct conf_vector *v = r->vector;
	const struct conf_step *step = &v->steps[v->step_count - 1];
	bool may_be_late = conf_vector_index_error(v);
	enum kiln_status first, second;

	if (may_be_late && !r->device->values) {
		*r->skip = CONF_SKIP_INDEX;
		conf_text_add(r->text, "%s", step->method->name);
		return CONF_SKIPPED;
	}
	if (!may_be_late || step->method->form->results == 0) {
		conf_text_add(r->text, "expected a refusal, came success");
		return CONF_FAILED;
	}
	first = read_away(r->tensors[step->out[0]]);
	second = read_away(r->tensors[step->out[0]]);
	if (!reset_stream(r))
		return CONF_FAILED;
	if (first == KILN_ERR_INDEX && second == KILN_ERR_DEPENDENCY)
		return r->mode == CONF_FRESH ? check_operands(r) : CONF_PASSED;
	conf_text_add(r->text,
		      "expected KILN_ERR_INDEX of the read and "
		      "KILN_ERR_DEPENDENCY of the next, came %s and %s: %s",
		      kiln_status_name(first), kiln_status_name(second),
		      kiln_error_message());
	return CONF_FAILED;
}

static enum conf_outcome run_to_error(struct run *r)
{
	const struct conf_vector *v = r->vector;
	enum conf_outcome outcome = make_steps(r, v->step_count - 1);
	struct kiln_tensor **before;
	enum kiln_status status;

	if (outcome != CONF_PASSED)
		return outcome;
	before = calloc((size_t)v->slot_count + 1, sizeof(*before));
	if (!before) {
		conf_text_add(r->text, "no memory");
		return CONF_FAILED;
	}
	status = make_step(r, v->step_count - 1, before);
	if (may_refuse(r, v->step_count - 1, status)) {
		*r->skip = CONF_SKIP_UNSUPPORTED;
		outcome = CONF_SKIPPED;
	} else if (status != KILN_OK) {
		outcome = check_refusal(r, status, before);
		if (outcome == CONF_PASSED)
			outcome = check_operands(r);
	} else {
		outcome = check_late_error(r);
	}
	free(before);
	return outcome;
}

/* ---- The case ---- */

static bool dtype_supported(struct run *r, enum kiln_dtype dtype)
{
	if (kiln_device_supports_dtype(r->device->handle, dtype))
		return true;
	*r->skip = CONF_SKIP_DTYPE;
	conf_text_add(r->text, "%s", kiln_dtype_name(dtype));
	return false;
}

static bool dtypes_supported(struct run *r)
{
	const struct conf_vector *v = r->vector;
	int i, j;

	for (i = 0; i < v->slot_count; i++) {
		const struct conf_slot *slot = &v->slots[i];

		if (slot->given && !dtype_supported(r, slot->start.dtype))
			return false;
		if (slot->wanted && !dtype_supported(r, slot->end.dtype))
			return false;
	}
	for (i = 0; i < v->step_count; i++) {
		for (j = 0; j < CONF_ATTRS_MAX; j++) {
			const struct conf_attr *a = &v->steps[i].attr[j];

			if (a->kind == CONF_ATTR_DTYPE &&
			    !dtype_supported(r, a->value.dtype))
				return false;
		}
	}
	return true;
}

static bool read_usage(struct run *r, struct kiln_memory_usage *usage)
{
	enum kiln_status status;
	bool available = false;

	memset(usage, 0, sizeof(*usage));
	usage->struct_size = sizeof(*usage);
	status = kiln_memory_usage(r->device->handle, usage, &available);
	if (status != KILN_OK)
		call_failed(r, "memory usage", status);
	else if (!available)
		conf_text_add(r->text, "memory usage is not available");
	return status == KILN_OK && available;
}

/* Waits, and sees that the case has left nothing behind. */
static enum conf_outcome check_memory(struct run *r, uint64_t live_before)
{
	enum kiln_status status = kiln_device_sync(r->device->handle);
	struct kiln_memory_usage u;

	if (status != KILN_OK)
		return call_failed(r, "sync", status);
	if (!read_usage(r, &u))
		return CONF_FAILED;
	if (u.live_bytes == live_before &&
	    u.live_bytes + u.cached_bytes + u.padding_bytes ==
		    u.reserved_bytes)
		return CONF_PASSED;
	conf_text_add(r->text,
		      "memory: expected %" PRIu64 " live bytes and live + "
		      "cached + padding = reserved, came %" PRIu64 ", %" PRIu64
		      " + %" PRIu64 " + %" PRIu64 " = %" PRIu64,
		      live_before, u.live_bytes, u.live_bytes, u.cached_bytes,
		      u.padding_bytes, u.reserved_bytes);
	return CONF_FAILED;
}

static enum conf_outcome run_case(struct run *r)
{
	struct kiln_memory_usage usage;
	enum conf_outcome outcome;
	int i;

	if (!read_usage(r, &usage))
		return CONF_FAILED;
	outcome = give_inputs(r);
	if (outcome == CONF_PASSED)
		outcome = r->vector->expect_error ? run_to_error(r)
						  : run_to_results(r);
	for (i = 0; i < r->vector->slot_count; i++)
		kiln_tensor_clear(&r->tensors[i]);
	if ((r->vector->expect_error || outcome == CONF_FAILED) &&
	    !reset_stream(r))
		return CONF_FAILED;
	if (outcome == CONF_FAILED)
		return outcome;
	return check_memory(r, usage.live_bytes) == CONF_PASSED ? outcome
								: CONF_FAILED;
}

static size_t most_operands(const struct conf_vector *v)
{
	int most = 0, i;

	for (i = 0; i < v->step_count; i++) {
		if (v->steps[i].in_count > most)
			most = v->steps[i].in_count;
	}
	return (size_t)most;
}

enum conf_outcome conf_run(const struct conf_device *device,
			   const struct conf_vector *vector,
			   enum conf_mode mode, enum conf_skip *skip,
			   struct conf_text *text)
{
	struct run r = { device, vector, mode, skip, text, NULL, NULL };
	enum conf_outcome outcome = CONF_FAILED;

	if (!dtypes_supported(&r))
		return CONF_SKIPPED;
	r.tensors = calloc((size_t)vector->slot_count + 1, sizeof(*r.tensors));
	r.operands = calloc(most_operands(vector) + 1, sizeof(*r.operands));
	if (r.tensors && r.operands)
		outcome = run_case(&r);
	else
		conf_text_add(text, "no memory");
	free(r.tensors);
	free(r.operands);
	return outcome;
}
