/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/driver.h"

/* Typed stubs for the slots that a driver lacks. */
#define SLOT_STUB_(table, ret, value, name, params)                            \
	ret kilni_##table##_stub_##name params                                 \
	{                                                                      \
		return value;                                                  \
	}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define DRIVER_STUB(r, v, n, p) SLOT_STUB_(driver, r, v, n, p)
#define DEVICE_STUB(r, v, n, p) SLOT_STUB_(device, r, v, n, p)
#define MEMORY_STUB(r, v, n, p) SLOT_STUB_(memory, r, v, n, p)
#define QUEUE_STUB(r, v, n, p) SLOT_STUB_(queue, r, v, n, p)
#define PROGRAM_STUB(r, v, n, p) SLOT_STUB_(program, r, v, n, p)

KILNI_DRIVER_SLOTS(DRIVER_STUB)
KILNI_DEVICE_SLOTS(DEVICE_STUB)
KILNI_MEMORY_SLOTS(MEMORY_STUB)
KILNI_QUEUE_SLOTS(QUEUE_STUB)
KILNI_PROGRAM_SLOTS(PROGRAM_STUB)

#pragma GCC diagnostic pop

#define DRIVER_FIELD(r, v, n, p) .n = kilni_driver_stub_##n,
#define DEVICE_FIELD(r, v, n, p) .n = kilni_device_stub_##n,
#define MEMORY_FIELD(r, v, n, p) .n = kilni_memory_stub_##n,
#define QUEUE_FIELD(r, v, n, p) .n = kilni_queue_stub_##n,
#define PROGRAM_FIELD(r, v, n, p) .n = kilni_program_stub_##n,

const struct kilni_driver_ops kilni_driver_stubs = {
	KILNI_DRIVER_SLOTS(DRIVER_FIELD)
};
const struct kilni_device_ops kilni_device_stubs = {
	KILNI_DEVICE_SLOTS(DEVICE_FIELD)
};
const struct kilni_memory_ops kilni_memory_stubs = {
	KILNI_MEMORY_SLOTS(MEMORY_FIELD)
};
const struct kilni_queue_ops kilni_queue_stubs = {
	KILNI_QUEUE_SLOTS(QUEUE_FIELD)
};
const struct kilni_program_ops kilni_program_stubs = {
	KILNI_PROGRAM_SLOTS(PROGRAM_FIELD)
};

uint64_t kilni_entry_items(const struct kilni_entry *entry)
{
	const struct kilni_reduce_params *r = &entry->params.reduce;
	const struct kilni_matmul_params *m = &entry->params.matmul;
	uint64_t items = 1;

	switch (entry->kernel) {
	case KILNI_KERNEL_EW:
		return entry->params.ew.count;
	case KILNI_KERNEL_GATHER:
		return entry->params.gather.count;
	case KILNI_KERNEL_SCATTER:
		return kilni_max_u64(entry->params.scatter.count,
				     entry->params.scatter.out_count);
	case KILNI_KERNEL_REDUCE:
		for (unsigned d = 0; d < r->rank; d++)
			items *= r->shape[d];
		return items;
	case KILNI_KERNEL_MATMUL:
		for (unsigned d = 0; d < m->batch_rank; d++)
			items *= m->batch_shape[d];
		return items * m->m * m->n * kilni_max_u64(m->k, 1);
	case KILNI_KERNEL_SOFTMAX:
		return entry->params.softmax.rows *
		       entry->params.softmax.length;
	case KILNI_KERNEL_CUSTOM:
		return entry->params.custom.elements;
	default:
		return 1;
	}
}

uint64_t kilni_program_groups(const struct kilni_custom_params *params)
{
	const struct kilni_program *program = kilni_program_of(params);
	uint64_t groups = kilni_div_up(params->elements, program->group);

	return params->groups ? params->groups
			      : kilni_min_u64(groups, program->groups_most);
}
