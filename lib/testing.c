/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/testing.h"

#include "lib/identity.h"

enum kiln_status kilni_test_gate(struct kiln_device *device, const int *gate)
{
	struct kilni_stream *stream;

	KILNI_CHECK_DEVICE(device, __func__);
	KILNI_TRY(kilni_thread_stream(device, &stream));
	return kilni_stream_gate(stream, gate);
}

void kilni_test_drivers(const struct kilni_driver *const *drivers)
{
	kilni_driver_list = drivers ? drivers : kilni_drivers;
}
