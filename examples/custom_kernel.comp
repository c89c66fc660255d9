/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel's kernel for Vulkan; see its C source. */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 256, local_size_x_id = 4) in;

layout(buffer_reference, scalar) buffer Floats { float at[]; };
layout(buffer_reference, scalar) readonly buffer Params {
	uint64_t report;
	Floats x, y, result;
	uint64_t count;
	float factor;
};
layout(push_constant, scalar) uniform Push { Params p; };

void main()
{
	uint threads = gl_NumWorkGroups.x * gl_WorkGroupSize.x;

	for (uint i = gl_GlobalInvocationID.x; i < uint(p.count); i += threads)
		p.result.at[i] = p.factor * p.x.at[i] + p.y.at[i];
}
