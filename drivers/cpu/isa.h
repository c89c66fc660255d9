/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_ISA_H
#define KILNI_CPU_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "kernels/cpu/cpu.h"

/* Which instruction-set level the kernels may use. */

/* What CPUID and XCR0 say. */
struct kilni_isa_facts {
	bool osxsave; /* else the system saves no wide registers at all */
	bool avx2, fma, f16c;
	bool avx512f, avx512bw, avx512vl, avx512dq;
	bool avx512_bf16;
	uint64_t xcr0; /* register state that the system saves */
};

/* The facts of this machine. */
void kilni_isa_detect(struct kilni_isa_facts *facts);

/* The highest level that both the CPU and the system offer. Pure. */
enum kilni_isa kilni_isa_decide(const struct kilni_isa_facts *facts);

/*
 * Lowers facts to what text, LEVEL:XCR0, describes: less than the machine has
 * can be assumed, never more. KILN_ERR_OPTION: malformed.
 */
enum kiln_status kilni_isa_assume(const char *text,
				  struct kilni_isa_facts *facts);

/*
 * The level to use: of the machine or KILN_CPUID, compiled in, lowered by
 * KILN_CPU_ISA. KILN_ERR_OPTION: a variable is malformed or asks for more than
 * there is. bf16: whether there are dot-product instructions for bf16.
 */
enum kiln_status kilni_isa_choose(enum kilni_isa *level, bool *bf16);

const char *kilni_isa_name(enum kilni_isa level);

#endif
