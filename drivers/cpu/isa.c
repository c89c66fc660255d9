/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* State components of XCR0. */
#define XCR0_AVX 0x6u     /* SSE and the upper halves of YMM */
#define XCR0_AVX512 0xe0u /* masks, upper halves of ZMM, ZMM16..31 */

static const char *const names[KILNI_ISA_COUNT] = {
#define NAME(ID, name, suffix) [KILNI_ISA_##ID] = name,
	KILNI_ISA_TABLE(NAME)
#undef NAME
};

const char *kilni_isa_name(enum kilni_isa level)
{
	return names[level];
}

#if defined(__x86_64__)

__attribute__((target("xsave"))) static uint64_t read_xcr0(void)
{
	return _xgetbv(0);
}

void kilni_isa_detect(struct kilni_isa_facts *facts)
{
	unsigned a, b, c, d;

	memset(facts, 0, sizeof(*facts));
	if (!__get_cpuid(1, &a, &b, &c, &d))
		return;
	facts->osxsave = c & bit_OSXSAVE;
	facts->fma = c & bit_FMA;
	facts->f16c = c & bit_F16C;
	if (facts->osxsave)
		facts->xcr0 = read_xcr0();
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return;
	facts->avx2 = b & bit_AVX2;
	facts->avx512f = b & bit_AVX512F;
	facts->avx512bw = b & bit_AVX512BW;
	facts->avx512vl = b & bit_AVX512VL;
	facts->avx512dq = b & bit_AVX512DQ;
	if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
		facts->avx512_bf16 = a & (1u << 5);
}

#else

void kilni_isa_detect(struct kilni_isa_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
}

#endif

enum kilni_isa kilni_isa_decide(const struct kilni_isa_facts *f)
{
	if (!f->osxsave || (f->xcr0 & XCR0_AVX) != XCR0_AVX)
		return KILNI_ISA_BASELINE;
	if (!f->avx2 || !f->fma || !f->f16c)
		return KILNI_ISA_BASELINE;
	if ((f->xcr0 & XCR0_AVX512) != XCR0_AVX512)
		return KILNI_ISA_AVX2;
	if (!f->avx512f || !f->avx512bw || !f->avx512vl || !f->avx512dq)
		return KILNI_ISA_AVX2;
	return KILNI_ISA_AVX512;
}

/* Reads a level's name of the given length; -1: there is none. */
static int parse_level(const char *text, size_t length)
{
	for (int i = 0; i < KILNI_ISA_COUNT; i++)
		if (strlen(names[i]) == length &&
		    !memcmp(names[i], text, length))
			return i;
	return -1;
}

enum kiln_status kilni_isa_assume(const char *text,
				  struct kilni_isa_facts *f)
{
	size_t length = strcspn(text, ":");
	int level = parse_level(text, length);
	const char *digits = text[length] ? text + length + 1 : "";
	char *end;
	uint64_t xcr0 = strtoull(digits, &end, 0);

	if (level < 0 || !*digits || *end)
		return kilni_fail(KILN_ERR_OPTION, 0,
				  "KILN_CPUID: \"%s\" is not LEVEL:XCR0", text);
	f->xcr0 &= xcr0;
	if (level < KILNI_ISA_AVX512)
		f->avx512f = f->avx512_bf16 = false;
	if (level < KILNI_ISA_AVX2)
		f->avx2 = false;
	return KILN_OK;
}

/* The highest level up to most that is compiled in. */
static enum kilni_isa compiled_level(enum kilni_isa most)
{
	int level = (int)most;

	while (level > KILNI_ISA_BASELINE && !kilni_cpu_kernels[level])
		level--;
	return (enum kilni_isa)level;
}

enum kiln_status kilni_isa_choose(enum kilni_isa *level, bool *bf16)
{
	const char *asked = kilni_option_text(KILNI_OPT_CPU_ISA);
	const char *assumed = kilni_option_text(KILNI_OPT_CPUID);
	struct kilni_isa_facts facts;
	int wanted;

	kilni_isa_detect(&facts);
	if (assumed)
		KILNI_TRY(kilni_isa_assume(assumed, &facts));
	*level = compiled_level(kilni_isa_decide(&facts));
	if (asked) {
		wanted = parse_level(asked, strlen(asked));
		if (wanted < 0)
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "KILN_CPU_ISA: \"%s\" is no level",
					  asked);
		if (wanted > (int)*level)
			return kilni_fail(KILN_ERR_OPTION, 0,
					  "KILN_CPU_ISA: \"%s\" is more than "
					  "CPU, system and build offer (%s)",
					  asked, names[*level]);
		*level = compiled_level((enum kilni_isa)wanted);
	}
	*bf16 = *level == KILNI_ISA_AVX512 && facts.avx512_bf16;
	return KILN_OK;
}
