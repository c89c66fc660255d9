/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_REGISTRY_H
#define KILNI_REGISTRY_H

#include <stdint.h>

/* The op registry as C: ids, names and classes, all from ops.def. */

enum kilni_op {
#define KILNI_EW1(ID, name, classes, ulp, doc) KILNI_OP_##ID,
#define KILNI_EW2(ID, name, classes, ulp, doc) KILNI_OP_##ID,
#define KILNI_CMP(ID, name, classes, doc) KILNI_OP_##ID,
#define KILNI_PRED(ID, name, classes, doc) KILNI_OP_##ID,
#define KILNI_EWX(ID, name, classes, ulp, doc) KILNI_OP_##ID,
#define KILNI_REDUCE(ID, name, classes, ulp, growth, doc) KILNI_OP_##ID,
#define KILNI_OTHER(ID, name, classes, ulp, growth, doc) KILNI_OP_##ID,
#include "kernels/ops.def"
	KILNI_OP_COUNT
};

/* Sets of dtype classes that an op takes, a bit per kiln_dtype_class. */
enum kilni_classes {
	KILNI_CLASSES_F = 1,
	KILNI_CLASSES_I = 2 | 4,
	KILNI_CLASSES_N = 1 | 2 | 4,
	KILNI_CLASSES_B = 8,
	KILNI_CLASSES_A = 15
};

enum kilni_op_form {
	KILNI_FORM_EW1,
	KILNI_FORM_EW2,
	KILNI_FORM_CMP,
	KILNI_FORM_PRED,
	KILNI_FORM_EWX,
	KILNI_FORM_REDUCE,
	KILNI_FORM_OTHER
};

/* What a bound grows with; ops.def says how. */
enum kilni_growth {
	KILNI_GROWTH_NONE,
	KILNI_GROWTH_PROD,
	KILNI_GROWTH_SUM,
	KILNI_GROWTH_DOT,
	KILNI_GROWTH_SHARE,
	KILNI_GROWTH_LOG
};

struct kilni_op_info {
	const char *name;    /* as in kiln_<name> */
	const char *doc;
	enum kilni_op_form form;
	unsigned classes;    /* enum kilni_classes */
	double ulp;
	enum kilni_growth growth;
};

/* Names of kernels that programs bring along; see kilni_op_add. */
#define KILNI_OPS_ADDED 256

/* Indexed by enum kilni_op, then by what kilni_op_add gave. */
extern struct kilni_op_info kilni_ops[KILNI_OP_COUNT + KILNI_OPS_ADDED];

/*
 * The number that stands for a name in entries, messages and completions: a
 * row that stays as long as the process, the same for the same name. -1: there
 * is no room for one more.
 */
int kilni_op_add(const char *name);

/* Once, so that the child of a fork can add names too. */
void kilni_op_fork_watch(void);

/* Of what no operation wrote: data of the program's, or nothing yet. */
#define KILNI_OP_NONE UINT32_MAX

/* "" where it is KILNI_OP_NONE. */
static inline const char *kilni_op_name(uint32_t op)
{
	return op == KILNI_OP_NONE ? "" : kilni_ops[op].name;
}

/* What comes before the op's name where a function is meant. */
static inline const char *kilni_op_prefix(unsigned op)
{
	return op < KILNI_OP_COUNT ? "kiln_" : "";
}

#endif
