/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/scatter.h"

#include <kiln/dtype.h>
#include <kiln/ops.h>

bool kilni_scatter_sums_wide(const struct kilni_scatter_params *p)
{
	return p->update == KILN_UPDATE_ADD &&
	       (p->dtype == KILN_F32 || p->dtype == KILN_FLEX32 ||
		p->dtype == KILN_F16 || p->dtype == KILN_BF16);
}

uint64_t kilni_scatter_workspace(const struct kilni_scatter_params *p)
{
	return kilni_scatter_sums_wide(p) ? p->out_count * 8 : 0;
}
