/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

#include <stdlib.h>

#include "base/trace.h"
#include "kernels/cpu/cpu.h"

/*
 * Kernels of the program's own. A kernel is a foreign storage without bytes:
 * its uses are noted there, and a graph holds it, so that the code goes when
 * the last use has completed.
 */

#define NAME_MOST 47
#define GROUP_USUAL 256
#define ENTRY_MOST 1024
#define FLAGS (KILN_KERNEL_WHOLE | KILN_KERNEL_STRIDED | KILN_KERNEL_IN_PLACE)

_Static_assert(KILN_KERNEL_PARAMS_BYTES == KILNI_CUSTOM_BYTES, "one size");
/* One more is the kernel itself. */
_Static_assert(KILN_KERNEL_OPERANDS + 1 == KILNI_OPERANDS_MAX, "all fit");

struct kiln_kernel {
	struct kilni_object object;
	struct kiln_device *device;
	struct kilni_hw *hw;
	struct kilni_program *program;
	struct kilni_storage *storage;
	uint32_t params_bytes;
	unsigned flags;
	uint16_t op;               /* stands for its name */
};

/* ---- loading ---- */

static const struct kilni_program_ops *program_ops(const struct kilni_hw *hw)
{
	return hw->driver->program;
}

static enum kiln_status bad(const char *fn, const char *what)
{
	return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s", fn, what);
}

/* The same in every locale. */
static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

static bool is_name(const char *name)
{
	size_t length = name ? strlen(name) : 0;

	if (!length || length > NAME_MOST)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_name_byte(name[i]))
			return false;
	return true;
}

static enum kiln_status check_code(const struct kiln_kernel_info *info,
				   const char *fn)
{
	if (info->code == KILN_KERNEL_C)
		return info->function ? KILN_OK
				      : bad(fn, "function is NULL");
	if (info->code > KILN_KERNEL_CUBIN)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: code %d is unknown",
				  fn, (int)info->code);
	if (!info->data || !info->data_bytes)
		return bad(fn, "there is no data");
	if (info->entry && (!*info->entry || strlen(info->entry) > ENTRY_MOST))
		return bad(fn, "entry is no name");
	return KILN_OK;
}

static enum kiln_status check_info(const struct kiln_kernel_info *info,
				   const char *fn)
{
	if (!info)
		return bad(fn, "info is NULL");
	if (info->struct_size != sizeof(*info))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: struct_size %zu is unknown", fn,
				  info->struct_size);
	if (info->abi != KILN_KERNEL_ABI)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: kernel ABI %u; this is %d", fn,
				  info->abi, KILN_KERNEL_ABI);
	if (!is_name(info->name))
		return bad(fn, "name is not 1 to 47 letters, digits and '_'");
	if (info->flags & ~(unsigned)FLAGS)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: flags %#x are unknown", fn,
				  info->flags & ~(unsigned)FLAGS);
	if (info->params_bytes < 8 || info->params_bytes % 8 ||
	    info->params_bytes > KILN_KERNEL_PARAMS_BYTES)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: a block of %u bytes; it has to be 8, "
				  "16, ... %d", fn, info->params_bytes,
				  KILN_KERNEL_PARAMS_BYTES);
	return check_code(info, fn);
}

static enum kiln_status load_program(struct kiln_kernel *kernel,
				     const struct kiln_kernel_info *info)
{
	struct kilni_program_source source = {
		.code = info->code,
		.function = info->function,
		.data = info->data,
		.data_bytes = info->data_bytes,
		.entry = info->entry ? info->entry : "main",
		.params_bytes = info->params_bytes,
		.group = info->group ? info->group : GROUP_USUAL,
		.whole = info->flags & KILN_KERNEL_WHOLE,
	};

	KILNI_TRY(kilni_sched_alive(kernel->device->sched));
	return program_ops(kernel->hw)->load(kernel->hw, &source,
					     &kernel->program);
}

static void unload(void *data, void *user)
{
	struct kiln_kernel *kernel = data;

	(void)user;
	program_ops(kernel->hw)->unload(kernel->hw, kernel->program);
	free(kernel);
}

static enum kiln_status create(struct kiln_kernel **out,
			       struct kiln_device *device,
			       const struct kiln_kernel_info *info)
{
	struct kiln_kernel *kernel = calloc(1, sizeof(*kernel));
	enum kiln_status status;

	if (!kernel)
		return kilni_fail(KILN_ERR_NO_MEMORY, 0,
				  "no memory for a kernel");
	kilni_object_init(&kernel->object, &kilni_kernel_kind);
	kernel->device = device;
	kernel->hw = device->hw;
	kernel->params_bytes = info->params_bytes;
	kernel->flags = info->flags;
	status = kilni_storage_foreign(&kernel->storage, device, kernel, 0, 0);
	if (status == KILN_OK)
		status = load_program(kernel, info);
	if (status != KILN_OK) {
		/* Of no deleter yet. */
		if (kernel->storage)
			kilni_storage_release(kernel->storage);
		free(kernel);
		return status;
	}
	kernel->storage->deleter = unload;
	*out = kernel;
	return KILN_OK;
}

/* Once it is loaded, since a name is given for ever. */
static enum kiln_status take_name(struct kiln_kernel *kernel, const char *name)
{
	int op = kilni_op_add(name);

	if (op < 0)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "kiln_kernel_load: %d names of kernels are "
				  "in use", KILNI_OPS_ADDED);
	kilni_trace_op((unsigned)op, name);
	kernel->op = (uint16_t)op;
	return KILN_OK;
}

enum kiln_status kiln_kernel_load(struct kiln_kernel **out,
				  struct kiln_device *device,
				  const struct kiln_kernel_info *info)
{
	struct kiln_kernel *kernel, *old;
	enum kiln_status status;

	KILNI_CHECK_DEVICE(device, __func__);
	if (!out)
		return bad(__func__, "out is NULL");
	KILNI_TRY(check_info(info, __func__));
	KILNI_TRY(create(&kernel, device, info));
	status = take_name(kernel, info->name);
	if (status != KILN_OK) {
		kiln_kernel_release(kernel);
		return status;
	}
	old = *out;
	*out = kernel;
	kiln_kernel_release(old);
	return KILN_OK;
}

struct kiln_kernel *kiln_kernel_retain(struct kiln_kernel *kernel)
{
	kilni_object_retain(&kernel->object);
	return kernel;
}

void kiln_kernel_release(struct kiln_kernel *kernel)
{
	if (!kernel || !kilni_object_drop(&kernel->object))
		return;
	__atomic_store_n(&kernel->object.ops, NULL, __ATOMIC_RELAXED);
	kilni_storage_release(kernel->storage);
}

/* ---- what a call may ask for ---- */

static enum kiln_status check_place(const struct kiln_kernel *kernel,
				    uint32_t place, uint64_t *taken,
				    const char *fn)
{
	uint64_t bit;

	if (place % 8 || place < 8 || place >= kernel->params_bytes)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: an address at %u; a block of %u bytes "
				  "has room at 8, 16, ...", fn, place,
				  kernel->params_bytes);
	bit = UINT64_C(1) << place / 8;
	if (*taken & bit)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: two addresses at %u", fn, place);
	*taken |= bit;
	return KILN_OK;
}

static enum kiln_status check_written(const struct kiln_kernel *kernel,
				      const struct kiln_tensor *t,
				      const char *fn)
{
	if (t->storage->flags & KILNI_STORAGE_READ_ONLY)
		return bad(fn, "a tensor to write is read-only");
	if (kilni_overlaps_itself(t))
		return bad(fn, "a tensor to write overlaps itself");
	if (!t->dense && !(kernel->flags & KILN_KERNEL_STRIDED))
		return kilni_fail(KILN_ERR_SHAPE, 0,
				  "%s: a tensor to write is not dense", fn);
	return KILN_OK;
}

static enum kiln_status check_operand(const struct kiln_kernel *kernel,
				      const struct kiln_kernel_operand *o,
				      const char *fn)
{
	KILNI_TRY(kilni_object_check(o->tensor, &kilni_tensor_kind, fn,
				     "tensor"));
	if (o->tensor->device != kernel->device)
		return kilni_fail(KILN_ERR_DEVICE, 0,
				  "%s: a tensor of %s, the kernel is of %s",
				  fn, o->tensor->device->selector,
				  kernel->device->selector);
	if ((unsigned)o->access - 1 > KILN_ACCESS_READ_WRITE - 1)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: access %d is unknown", fn,
				  (int)o->access);
	if (o->access & KILN_ACCESS_WRITE)
		return check_written(kernel, o->tensor, fn);
	return KILN_OK;
}

static enum kiln_status check_apart(const struct kiln_kernel_call *call,
				    const char *fn)
{
	const struct kiln_kernel_operand *o = call->operands;

	for (uint32_t i = 0; i < call->operand_count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (((o[i].access | o[j].access) & KILN_ACCESS_WRITE) &&
			    o[i].tensor->storage == o[j].tensor->storage &&
			    kilni_overlaps(o[i].tensor, o[j].tensor))
				return bad(fn, "a tensor to write overlaps "
					       "another operand");
	return KILN_OK;
}

static enum kiln_status check_result(const struct kiln_kernel *kernel,
				     const struct kiln_kernel_call *call,
				     const char *fn)
{
	const struct kiln_kernel_result *r = call->result;
	int64_t count;

	KILNI_TRY(kilni_check_out(r->out, fn));
	KILNI_TRY(kilni_check_dtype(fn, kernel->device, r->dtype,
				    KILNI_CLASSES_A));
	KILNI_TRY(kilni_shape_check(fn, r->rank, r->shape));
	KILNI_TRY(kilni_shape_count(fn, r->rank, r->shape,
				    kiln_dtype_size_bytes(r->dtype), &count));
	if (count && !call->elements)
		return bad(fn, "no elements for a result that has some");
	return KILN_OK;
}

static enum kiln_status check_head(const struct kiln_kernel *kernel,
				   const struct kiln_kernel_call *call,
				   const char *fn)
{
	KILNI_TRY(kilni_object_check(kernel, &kilni_kernel_kind, fn,
				     "kernel"));
	if (!call)
		return bad(fn, "call is NULL");
	if (call->struct_size != sizeof(*call))
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: struct_size %zu is unknown", fn,
				  call->struct_size);
	if (!call->params)
		return bad(fn, "params is NULL");
	if (call->operand_count && !call->operands)
		return bad(fn, "operands is NULL");
	if (call->operand_count + (uint64_t)(call->result != NULL) >
	    KILN_KERNEL_OPERANDS)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: more than %d tensors", fn,
				  KILN_KERNEL_OPERANDS);
	if (call->groups > kernel->program->groups_most)
		return kilni_fail(KILN_ERR_LIMIT, 0,
				  "%s: %u groups; the device takes %u", fn,
				  call->groups, kernel->program->groups_most);
	return KILN_OK;
}

static enum kiln_status check_call(const struct kiln_kernel *kernel,
				   const struct kiln_kernel_call *call,
				   const char *fn)
{
	uint64_t taken = 0;

	KILNI_TRY(check_head(kernel, call, fn));
	for (uint32_t i = 0; i < call->operand_count; i++) {
		KILNI_TRY(check_operand(kernel, &call->operands[i], fn));
		KILNI_TRY(check_place(kernel, call->operands[i].place, &taken,
				      fn));
	}
	KILNI_TRY(check_apart(call, fn));
	if (!call->result)
		return KILN_OK;
	KILNI_TRY(check_place(kernel, call->result->place, &taken, fn));
	return check_result(kernel, call, fn);
}

/* ---- submitting ---- */

/* The operands as the kernel sees them: itself, or a dense copy. */
struct seen {
	struct kiln_tensor *tensor[KILN_KERNEL_OPERANDS];
	int count;
};

static enum kiln_status see(const struct kiln_kernel *kernel,
			    const struct kiln_kernel_call *call,
			    struct seen *seen)
{
	for (; seen->count < (int)call->operand_count; seen->count++) {
		struct kiln_tensor *t = call->operands[seen->count].tensor;
		struct kiln_tensor **place = &seen->tensor[seen->count];

		if (t->dense || (kernel->flags & KILN_KERNEL_STRIDED)) {
			*place = t;
			continue;
		}
		KILNI_TRY(kilni_tensor_dense(place, t));
	}
	return KILN_OK;
}

static void forget(const struct kiln_kernel_call *call, struct seen *seen)
{
	for (int i = 0; i < seen->count; i++)
		if (seen->tensor[i] != call->operands[i].tensor)
			kiln_tensor_release(seen->tensor[i]);
}

static void put_operand(struct kilni_job *job, const struct kiln_tensor *t,
			uint32_t access, uint32_t place)
{
	kilni_job_operand(job, t, access);
	job->entry.params.custom.block[place / 8] = t->address;
}

static enum kiln_status submit(struct kiln_kernel *kernel,
			       const struct kiln_kernel_call *call,
			       const struct seen *seen,
			       const struct kiln_tensor *result)
{
	struct kilni_job job;
	struct kilni_custom_params *p = &job.entry.params.custom;

	if (!call->elements)
		return KILN_OK;
	kilni_job_init(&job, KILNI_KERNEL_CUSTOM, KILNI_OP_EMPTY,
		       offsetof(struct kilni_custom_params, block) +
			       kernel->params_bytes);
	job.entry.op = kernel->op;
	p->report = 0;
	p->program = (uintptr_t)kernel->program;
	p->elements = call->elements;
	p->groups = call->groups;
	p->block_bytes = kernel->params_bytes;
	memcpy(p->block, call->params, kernel->params_bytes);
	for (int i = 0; i < seen->count; i++)
		put_operand(&job, seen->tensor[i],
			    (uint32_t)call->operands[i].access,
			    call->operands[i].place);
	if (result)
		put_operand(&job, result, KILNI_WRITE, call->result->place);
	kilni_job_keep(&job, kernel->storage);
	return kilni_job_submit(&job, kernel->device);
}

/* Whether the result may take the place of an operand of the same size. */
static bool may_replace(const struct kiln_kernel *kernel,
			const struct kiln_kernel_call *call)
{
	if (!(kernel->flags & KILN_KERNEL_IN_PLACE))
		return false;
	for (uint32_t i = 0; i < call->operand_count; i++)
		if (call->operands[i].tensor == *call->result->out &&
		    call->operands[i].access != KILN_ACCESS_READ)
			return false;
	return true;
}

static enum kiln_status submit_result(struct kiln_kernel *kernel,
				      const struct kiln_kernel_call *call,
				      const struct seen *seen)
{
	const struct kiln_kernel_result *r = call->result;
	struct kiln_tensor *result;

	KILNI_TRY(kilni_result(r->out, kernel->device, r->dtype, r->rank,
			       r->shape, may_replace(kernel, call),
			       seen->tensor, seen->count, &result));
	return kilni_settle(r->out, result,
			    submit(kernel, call, seen, result));
}

enum kiln_status kiln_kernel_submit(struct kiln_kernel *kernel,
				    const struct kiln_kernel_call *call)
{
	struct seen seen = { .count = 0 };
	enum kiln_status status;

	KILNI_TRY(check_call(kernel, call, __func__));
	kilni_device_fix_settings(kernel->device);
	status = see(kernel, call, &seen);
	if (status == KILN_OK)
		status = call->result ? submit_result(kernel, call, &seen)
				      : submit(kernel, call, &seen, NULL);
	forget(call, &seen);
	return status;
}

void kiln_kernel_report_index(const void *params, uint64_t position,
			      int64_t value, int64_t bound)
{
	uint64_t report;

	memcpy(&report, params, sizeof(report));
	kilni_report_index(report, position, value, bound);
}
