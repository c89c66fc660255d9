/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/registry.h"

const struct kilni_op_info kilni_ops[KILNI_OP_COUNT] = {
#define ROW(name, doc, form, classes, ulp, growth)                             \
	{ #name,                                                               \
	  doc,                                                                 \
	  KILNI_FORM_##form,                                                   \
	  KILNI_CLASSES_##classes,                                             \
	  ulp,                                                                 \
	  KILNI_GROWTH_##growth },
#define KILNI_EW1(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EW1, classes, ulp, NONE)
#define KILNI_EW2(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EW2, classes, ulp, NONE)
#define KILNI_CMP(ID, name, classes, doc) ROW(name, doc, CMP, classes, 0, NONE)
#define KILNI_PRED(ID, name, classes, doc)                                     \
	ROW(name, doc, PRED, classes, 0, NONE)
#define KILNI_EWX(ID, name, classes, ulp, doc)                                 \
	ROW(name, doc, EWX, classes, ulp, NONE)
#define KILNI_REDUCE(ID, name, classes, ulp, growth, doc)                      \
	ROW(name, doc, REDUCE, classes, ulp, growth)
#define KILNI_OTHER(ID, name, classes, ulp, growth, doc)                       \
	ROW(name, doc, OTHER, classes, ulp, growth)
#include "kernels/ops.def"
#undef ROW
};
