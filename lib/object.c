/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

const struct kilni_object_ops kilni_device_kind = { "device" };
const struct kilni_object_ops kilni_stream_kind = { "stream" };
const struct kilni_object_ops kilni_tensor_kind = { "tensor" };
const struct kilni_object_ops kilni_view_kind = { "view" };
const struct kilni_object_ops kilni_buffer_kind = { "buffer" };
const struct kilni_object_ops kilni_kernel_kind = { "kernel" };

_Static_assert(offsetof(struct kilni_object, ops) == 0, "ops at offset 0");
_Static_assert(offsetof(struct kiln_tensor, object) == 0, "object first");
_Static_assert(offsetof(struct kiln_device, object) == 0, "object first");
_Static_assert(offsetof(struct kiln_stream, object) == 0, "object first");

void kilni_object_init(struct kilni_object *object,
		       const struct kilni_object_ops *ops)
{
	object->ops = ops;
	object->refs = 1;
	object->epoch = kilni_fork_epoch;
}

bool kilni_object_drop(struct kilni_object *object)
{
	if (object->epoch != kilni_fork_epoch)
		return false;
	return __atomic_sub_fetch(&object->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

enum kiln_status kilni_object_refuse(const struct kilni_object *object,
				     const struct kilni_object_ops *ops,
				     const char *fn, const char *name)
{
	if (!object)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: %s is NULL", fn,
				  name);
	if (object->ops != ops)
		return kilni_fail(KILN_ERR_INVALID, 0,
				  "%s: %s (%p) is no live %s", fn, name,
				  (const void *)object, ops->kind);
	return kilni_fail(KILN_ERR_FORKED, 0,
			  "%s: %s was inherited through fork", fn, name);
}

enum kiln_status kilni_check_out(struct kiln_tensor *const *out,
				 const char *fn)
{
	if (!out)
		return kilni_fail(KILN_ERR_INVALID, 0, "%s: out is NULL", fn);
	if (!*out)
		return KILN_OK;
	return kilni_object_check(*out, &kilni_tensor_kind, fn, "*out");
}
