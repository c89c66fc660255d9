/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/internal.h"

void kilni_job_keep(struct kilni_job *job, struct kilni_storage *storage)
{
	kilni_job_add(job, &storage->track, 0, 0, KILNI_READ);
}

enum kiln_status kilni_job_submit(struct kilni_job *job,
				  struct kiln_device *device)
{
	struct kilni_stream *stream;

	if (KILNI_UNLIKELY(device->admits))
		KILNI_TRY(device->hw->driver->program->admit(device->hw,
							     &job->entry));
	KILNI_TRY(kilni_thread_stream(device, &stream));
	kilni_plan_work();
	return kilni_submit(stream, job);
}

enum kiln_status kilni_job_submit_with(struct kilni_job *job,
				       struct kiln_device *device,
				       uint64_t bytes, uint64_t *address)
{
	struct kilni_storage *workspace;
	enum kiln_status status;

	*address = 0;
	if (!bytes)
		return kilni_job_submit(job, device);
	KILNI_TRY(kilni_storage_create(&workspace, device, bytes, true));
	kilni_job_add(job, &workspace->track, workspace->address, bytes,
		      KILNI_WRITE);
	*address = workspace->address;
	status = kilni_job_submit(job, device);
	kilni_storage_release(workspace);
	return status;
}
