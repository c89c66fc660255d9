/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dtype.h"

const uint8_t kilni_dtype_bytes[KILN_DTYPE_COUNT] = {
#define BYTES(id, value, name, bytes, cls) [id] = bytes,
	KILN_DTYPE_TABLE(BYTES)
#undef BYTES
};

unsigned kilni_dtype_stored(unsigned dtype)
{
	switch (dtype) {
	case KILN_FLEX32:
		return KILN_F32;
	case KILN_BOOL_U8:
		return KILN_BOOL;
	default:
		return dtype;
	}
}
