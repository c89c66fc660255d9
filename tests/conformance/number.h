/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONF_NUMBER_H
#define CONF_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/dtype.h>

/*
 * Numbers of the vectors to and from the bytes of an element. Deliberately
 * slow and simple, and nothing of the library's own conversions: the runner
 * must not share their mistakes.
 */

/* The greatest size of an element in bytes. */
#define CONF_ELEMENT_MAX 8

/* A sign and a magnitude: holds every value of i64 and of u64. */
struct conf_int {
	bool negative;
	uint64_t magnitude;
};

/* Writes an element of a float dtype: one rounding, to nearest even. */
void conf_float_encode(void *element, enum kiln_dtype dtype, double x);

/* The exact value of an element of a float dtype. */
double conf_float_decode(const void *element, enum kiln_dtype dtype);

/* Writes an element of an integer dtype; false where the dtype can't hold x. */
bool conf_int_encode(void *element, enum kiln_dtype dtype, struct conf_int x);

/* The value of an element of an integer dtype. */
struct conf_int conf_int_decode(const void *element, enum kiln_dtype dtype);

/* Reads "-123"; false for anything but a decimal integer of 64 bits. */
bool conf_int_parse(struct conf_int *x, const char *text);

#endif
