/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/testing.h"

#include "lib/internal.h"

enum kiln_status kilni_test_gate(struct kiln_device *device, const int *gate)
{
	struct kilni_stream *stream;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_stream(device, &stream));
	return kilni_stream_gate(stream, gate);
}
