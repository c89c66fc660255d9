/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* Lists all element types. */
int main(void)
{
	for (int i = 0; i < KILN_DTYPE_COUNT; i++) {
		enum kiln_dtype dtype = (enum kiln_dtype)i;

		printf("%-10s %zu bytes%s\n", kiln_dtype_name(dtype),
		       kiln_dtype_size_bytes(dtype),
		       kiln_dtype_class(dtype) == KILN_CLASS_FLOAT
			       ? ", a float" : "");
	}
	return 0;
}
