/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Included once per computed type, which KILNI_MM_T names: the tile of C in
 * registers, and columns of such tiles. KILNI_MM_PAIRS != 0: an element of A
 * and B is a pair of two steps of k, always packed.
 */

#define KILNI_MM_ELEMENT KILNI_MM_CAT(mm, KILNI_MM_T)
#define KILNI_MM_VECTOR KILNI_MM_CAT(KILNI_MM_ELEMENT, v)
#define KILNI_MM_F(name) KILNI_MM_CAT(KILNI_MM_T, name)
#define KILNI_MM_V(name) KILNI_MM_CAT(KILNI_MM_ELEMENT, name)
#define KILNI_MM_LANES (KILNI_MM_VB / sizeof(KILNI_MM_ELEMENT))
#define KILNI_MM_NR (KILNI_MM_NV * KILNI_MM_LANES)
#if KILNI_MM_PAIRS
#define KILNI_MM_OPERAND uint32_t
#define KILNI_MM_OPERANDS mm_u32_v
#define KILNI_MM_GET mm_u32_get
#define KILNI_MM_TARGET MM_PAIRS_TARGET
#else
#define KILNI_MM_OPERAND KILNI_MM_ELEMENT
#define KILNI_MM_OPERANDS KILNI_MM_VECTOR
#define KILNI_MM_GET KILNI_MM_V(get)
#define KILNI_MM_TARGET
#endif

/* The first cols of a row; they do not fill its vectors. */
static void KILNI_MM_F(part)(KILNI_MM_ELEMENT *c, const KILNI_MM_ELEMENT *row,
			     unsigned cols, int add)
{
	unsigned size;
	unsigned j;

	if (add) {
		for (j = 0; j < cols; j++)
			c[j] += row[j];
		return;
	}
	for (size = KILNI_MM_NR / 2; size; size /= 2) {
		if (!(cols & size))
			continue;
		for (j = 0; j < size; j++)
			c[j] = row[j];
		c += size;
		row += size;
	}
}

#define KILNI_MM_ZERO(r, v)                                                    \
	if (r < mr && v < nv)                                                  \
		acc[r][v] = (KILNI_MM_VECTOR){ 0 };
#define KILNI_MM_ZERO_ROW(r) KILNI_MM_VECTORS(KILNI_MM_ZERO, r)
#define KILNI_MM_LOAD(r, v)                                                    \
	if (v < nv)                                                            \
		row[v] = KILNI_MM_GET(b + v * KILNI_MM_LANES);
#define KILNI_MM_ADD(r, v)                                                     \
	if (v < nv)                                                            \
		acc[r][v] = KILNI_MM_V(mla)(acc[r][v], s, row[v]);
#define KILNI_MM_ADD_ROW(r)                                                    \
	if (r < mr) {                                                          \
		KILNI_MM_OPERAND s = a[r * a_row];                             \
		KILNI_MM_VECTORS(KILNI_MM_ADD, r)                              \
	}
#define KILNI_MM_STEP                                                          \
	{                                                                      \
		KILNI_MM_VECTORS(KILNI_MM_LOAD, 0)                             \
		KILNI_MM_ROWS(KILNI_MM_ADD_ROW)                                \
		a += a_col;                                                    \
		b += b_row;                                                    \
	}
#define KILNI_MM_SET(r, v)                                                     \
	if (r < mr && v < nv)                                                  \
		KILNI_MM_V(put)(c + r * c_row + v * KILNI_MM_LANES, acc[r][v]);
#define KILNI_MM_SET_ROW(r) KILNI_MM_VECTORS(KILNI_MM_SET, r)
#define KILNI_MM_SUM(r, v)                                                     \
	if (r < mr && v < nv)                                                  \
		acc[r][v] += KILNI_MM_V(get)(c + r * c_row +                   \
					     v * KILNI_MM_LANES);
#define KILNI_MM_SUM_ROW(r) KILNI_MM_VECTORS(KILNI_MM_SUM, r)
#define KILNI_MM_SPILL(r, v)                                                   \
	if (v < nv)                                                            \
		KILNI_MM_V(put)(part + v * KILNI_MM_LANES, acc[r][v]);
#define KILNI_MM_PART_ROW(r)                                                   \
	if (r < mr) {                                                          \
		KILNI_MM_VECTORS(KILNI_MM_SPILL, r)                            \
		KILNI_MM_F(part)(c + r * c_row, part, t->cols, t->add);        \
	}

/* mr, nv and often the strides are constants: every row becomes registers. */
KILNI_MM_TARGET KILNI_MM_INLINE void
KILNI_MM_F(tile)(int mr, int nv, const struct mm_tile *t, int64_t a_row,
		 int64_t a_col, int64_t b_row, const KILNI_MM_OPERAND *a,
		 KILNI_MM_ELEMENT *c)
{
	KILNI_MM_VECTOR acc[KILNI_MM_MR][KILNI_MM_NV];
	KILNI_MM_OPERANDS row[KILNI_MM_NV];
	KILNI_MM_ELEMENT part[KILNI_MM_NR];
	const KILNI_MM_OPERAND *b = t->b;
	int64_t c_row = t->c_row;
	uint64_t k;

	KILNI_MM_ROWS(KILNI_MM_ZERO_ROW)
	for (k = t->kc; k >= 4; k -= 4) {
		KILNI_MM_STEP
		KILNI_MM_STEP
		KILNI_MM_STEP
		KILNI_MM_STEP
	}
	for (; k; k--)
		KILNI_MM_STEP
	if (t->cols != (unsigned)nv * KILNI_MM_LANES) {
		KILNI_MM_ROWS(KILNI_MM_PART_ROW)
		return;
	}
	if (t->add) {
		KILNI_MM_ROWS(KILNI_MM_SUM_ROW)
	}
	KILNI_MM_ROWS(KILNI_MM_SET_ROW)
}

#define KILNI_MM_PACKED_TILE(mr)                                               \
	KILNI_MM_TARGET static void KILNI_MM_F(packed##mr)(                    \
		const struct mm_tile *t, const KILNI_MM_OPERAND *a,            \
		KILNI_MM_ELEMENT *c)                                           \
	{                                                                      \
		if (t->cols > KILNI_MM_LANES)                                  \
			KILNI_MM_F(tile)(mr, KILNI_MM_NV, t, 1, KILNI_MM_MR,   \
					 KILNI_MM_NR, a, c);                   \
		else                                                           \
			KILNI_MM_F(tile)(mr, 1, t, 1, KILNI_MM_MR,             \
					 KILNI_MM_NR, a, c);                   \
	}
#define KILNI_MM_DIRECT_TILE(mr)                                               \
	static void KILNI_MM_F(direct##mr)(const struct mm_tile *t,            \
					   const KILNI_MM_ELEMENT *a,          \
					   KILNI_MM_ELEMENT *c)                \
	{                                                                      \
		if (t->cols > KILNI_MM_LANES)                                  \
			KILNI_MM_F(tile)(mr, KILNI_MM_NV, t, t->a_row,         \
					 t->a_col, t->b_row, a, c);            \
		else                                                           \
			KILNI_MM_F(tile)(mr, 1, t, t->a_row, t->a_col,         \
					 t->b_row, a, c);                      \
	}
#if KILNI_MM_PAIRS
#define KILNI_MM_TILES(mr) KILNI_MM_PACKED_TILE(mr)
#else
#define KILNI_MM_TILES(mr)                                                     \
	KILNI_MM_PACKED_TILE(mr)                                               \
	KILNI_MM_DIRECT_TILE(mr)
#endif

KILNI_MM_TILES(1)
KILNI_MM_TILES(2)
KILNI_MM_TILES(4)
#if KILNI_MM_MR == 14
KILNI_MM_TILES(8)
KILNI_MM_TILES(14)
#else
KILNI_MM_TILES(6)
#endif

#if KILNI_MM_MR == 14
#define KILNI_MM_FULL(kind) KILNI_MM_F(kind##14)
#define KILNI_MM_EIGHT(kind)                                                   \
	if (rows & 8) {                                                        \
		KILNI_MM_F(kind##8)(t, a, c);                                  \
		a += 8 * a_row;                                                \
		c += 8 * t->c_row;                                             \
	}
#else
#define KILNI_MM_FULL(kind) KILNI_MM_F(kind##6)
#define KILNI_MM_EIGHT(kind)
#endif

/* The last rows, fewer than a tile has. */
#define KILNI_MM_REST(kind)                                                    \
	KILNI_MM_EIGHT(kind)                                                   \
	if (rows & 4) {                                                        \
		KILNI_MM_F(kind##4)(t, a, c);                                  \
		a += 4 * a_row;                                                \
		c += 4 * t->c_row;                                             \
	}                                                                      \
	if (rows & 2) {                                                        \
		KILNI_MM_F(kind##2)(t, a, c);                                  \
		a += 2 * a_row;                                                \
		c += 2 * t->c_row;                                             \
	}                                                                      \
	if (rows & 1)                                                          \
		KILNI_MM_F(kind##1)(t, a, c);

/* One panel of B with packed panels of A. */
KILNI_MM_TARGET static void KILNI_MM_F(packed_column)(const struct mm_tile *t,
						      const void *from,
						      void *to, uint64_t rows)
{
	const KILNI_MM_OPERAND *a = from;
	KILNI_MM_ELEMENT *c = to;
	int64_t a_row = 1;

	for (; rows >= KILNI_MM_MR; rows -= KILNI_MM_MR) {
		KILNI_MM_FULL(packed)(t, a, c);
		a += KILNI_MM_MR * t->kc;
		c += KILNI_MM_MR * t->c_row;
	}
	KILNI_MM_REST(packed)
}

#if !KILNI_MM_PAIRS
/* One panel of B with rows of A that lie anywhere. */
static void KILNI_MM_F(direct_column)(const struct mm_tile *t,
				      const KILNI_MM_ELEMENT *a,
				      KILNI_MM_ELEMENT *c, uint64_t rows)
{
	int64_t a_row = t->a_row;

	for (; rows >= KILNI_MM_MR; rows -= KILNI_MM_MR) {
		KILNI_MM_FULL(direct)(t, a, c);
		a += KILNI_MM_MR * a_row;
		c += KILNI_MM_MR * t->c_row;
	}
	KILNI_MM_REST(direct)
}

/* A task of the direct path: rows times cols of C over all of k. */
static void KILNI_MM_F(direct)(const struct kilni_mm *g, const void *a_from,
			       const void *b_from, void *to, uint64_t rows,
			       uint64_t cols)
{
	KILNI_MM_ELEMENT panel[KILNI_MM_KC * KILNI_MM_NR]
		__attribute__((aligned(KILNI_MM_ALIGN)));
	const KILNI_MM_ELEMENT *a = a_from;
	const KILNI_MM_ELEMENT *b = b_from;
	struct mm_tile t = { .a_row = g->a_row, .a_col = g->a_col,
			     .c_row = (int64_t)g->n };
	uint64_t k, j;

	for (k = 0; k < g->k; k += g->kc) {
		t.kc = g->k - k < g->kc ? g->k - k : g->kc;
		t.add = k != 0;
		for (j = 0; j < cols; j += KILNI_MM_NR) {
			t.cols = cols - j < KILNI_MM_NR ? (unsigned)(cols - j) :
							  KILNI_MM_NR;
			t.b = b + (int64_t)j * g->b_col;
			t.b_row = g->b_row;
			if (g->b_col != 1 || t.cols < KILNI_MM_NR ||
			    rows >= 3 * KILNI_MM_MR) {
				KILNI_MM_F(pack_b)(panel, t.b, g->b_col,
						   g->b_row, t.cols, t.kc);
				t.b = panel;
				t.b_row = KILNI_MM_NR;
			}
			KILNI_MM_F(direct_column)(&t, a,
						  (KILNI_MM_ELEMENT *)to + j,
						  rows);
		}
		a += (int64_t)t.kc * g->a_col;
		b += (int64_t)t.kc * g->b_row;
	}
}
#endif

#undef KILNI_MM_ELEMENT
#undef KILNI_MM_VECTOR
#undef KILNI_MM_F
#undef KILNI_MM_V
#undef KILNI_MM_LANES
#undef KILNI_MM_NR
#undef KILNI_MM_OPERAND
#undef KILNI_MM_OPERANDS
#undef KILNI_MM_GET
#undef KILNI_MM_TARGET
#undef KILNI_MM_ZERO
#undef KILNI_MM_ZERO_ROW
#undef KILNI_MM_LOAD
#undef KILNI_MM_ADD
#undef KILNI_MM_ADD_ROW
#undef KILNI_MM_STEP
#undef KILNI_MM_SET
#undef KILNI_MM_SET_ROW
#undef KILNI_MM_SUM
#undef KILNI_MM_SUM_ROW
#undef KILNI_MM_SPILL
#undef KILNI_MM_PART_ROW
#undef KILNI_MM_TILES
#undef KILNI_MM_PACKED_TILE
#undef KILNI_MM_DIRECT_TILE
#undef KILNI_MM_FULL
#undef KILNI_MM_EIGHT
#undef KILNI_MM_REST
#undef KILNI_MM_T
#undef KILNI_MM_PAIRS
