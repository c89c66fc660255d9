/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_KERNELS_DTYPE_H
#define KILNI_KERNELS_DTYPE_H

#include <stdint.h>

#include <kiln/dtype.h>

/* Bytes of an element; every op asks. */
extern const uint8_t kilni_dtype_bytes[KILN_DTYPE_COUNT];

/* The dtype whose kernels do: flex32 is stored as f32 is, bool(u8) as bool. */
unsigned kilni_dtype_stored(unsigned dtype);

#endif
