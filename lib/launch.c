/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

void kilni_job_init(struct kilni_job *job, enum kilni_kernel kernel,
		    enum kilni_op op, size_t params_bytes)
{
	job->entry.kind = KILNI_ENTRY_KERNEL;
	job->entry.kernel = (uint8_t)kernel;
	job->entry.op = (uint16_t)op;
	job->entry.operands = 0;
	job->entry.params_bytes = (uint16_t)params_bytes;
	job->entry.user = 0;
}

static void add_operand(struct kilni_job *job, struct kilni_track *track,
			uint64_t address, uint64_t bytes, uint32_t access)
{
	unsigned i = job->entry.operands++;
	struct kilni_operand *operand = &job->entry.operand[i];

	operand->address = address;
	operand->bytes = bytes;
	operand->access = access;
	job->track[i] = track;
}

void kilni_job_operand(struct kilni_job *job, const struct kiln_tensor *t,
		       uint32_t access)
{
	uint64_t address = t->address;
	uint64_t bytes = (uint64_t)(t->count * kilni_size(t));

	if (!t->dense)
		kilni_extent(t, &address, &bytes);
	add_operand(job, &t->storage->track, address, bytes, access);
}

void kilni_job_keep(struct kilni_job *job, struct kilni_storage *storage)
{
	add_operand(job, &storage->track, 0, 0, KILNI_READ);
}

enum kiln_status kilni_job_workspace(struct kilni_job *job,
				     struct kiln_device *device,
				     uint64_t bytes,
				     struct kilni_storage **workspace)
{
	*workspace = NULL;
	if (!bytes)
		return KILN_OK;
	KILNI_TRY(kilni_storage_create(workspace, device, bytes, true));
	add_operand(job, &(*workspace)->track, (*workspace)->address, bytes,
		    KILNI_WRITE);
	return KILN_OK;
}

enum kiln_status kilni_job_submit(struct kilni_job *job,
				  struct kiln_device *device)
{
	struct kilni_stream *stream;

	KILNI_TRY(kilni_thread_stream(device, &stream));
	kilni_plan_work();
	return kilni_submit(stream, job);
}
