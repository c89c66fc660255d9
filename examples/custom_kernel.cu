/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel's kernel for CUDA; see its C source. No SDK is needed. */
struct params {
	unsigned long report;
	const float *x, *y;
	float *result;
	unsigned long count;
	float factor;
};

extern "C" __attribute__((global)) void scale_add(const params p)
{
	unsigned long at = __nvvm_read_ptx_sreg_ctaid_x() *
			   (unsigned long)__nvvm_read_ptx_sreg_ntid_x() +
			   __nvvm_read_ptx_sreg_tid_x();
	unsigned long threads = __nvvm_read_ptx_sreg_nctaid_x() *
				(unsigned long)__nvvm_read_ptx_sreg_ntid_x();

	for (unsigned long i = at; i < p.count; i += threads)
		p.result[i] = p.factor * p.x[i] + p.y[i];
}
