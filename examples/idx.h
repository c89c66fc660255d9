/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_IDX_H
#define EXAMPLES_IDX_H

#include <stdint.h>

/* Pictures and their classes, one byte a pixel and a label. */
struct idx_set {
	int64_t count;
	int64_t pixels;       /* of one picture */
	unsigned char *images; /* count * pixels, row-major */
	unsigned char *labels; /* count */
};

/* What a set must look like to be taken. */
struct idx_form {
	int64_t rows, columns;
	int classes; /* labels are below it */
};

/*
 * Reads DIR/NAME-images-idx3-ubyte.gz and DIR/NAME-labels-idx1-ubyte.gz.
 * On failure says why in one line on stderr, leaves nothing behind and
 * returns -1.
 */
int idx_load(struct idx_set *set, const char *dir, const char *name,
	     const struct idx_form *form);

void idx_free(struct idx_set *set);

#endif
