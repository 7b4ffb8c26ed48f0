/* product_tiles.c: the kernels of products of bf16, and of f32 in parts of bf16, by AMX: rows of c from rows of a and
 * columns of b, which are packed in pairs of terms.  Two registers of 16 rows of a times two of 16 columns of b add to
 * four registers of sums.
 *
 * A block of terms is made of chunks of as many pairs, 16 at most (msc_product_chunk); zeros fill the last pair and the
 * last chunk, in b's panels and in rows of a, which are packed then.  tdpbf16ps adds a chunk to a sum: the first terms
 * of the pairs by fma in ascending order from zero, the second ones likewise, the two sums to each other, and that to
 * the sum so far; denormals are taken as zero, and zero is made of them.  Blocks are added as the
 * tree of product.c.  A block of one chunk is added to the block before it by the same instruction: two such blocks are
 * summed as one of two chunks, so that half as many sums are stored.  It makes zero of their sum if that is a denormal,
 * which ranks that have one of the blocks each do not when they add up: such a sum, below 2^-126, is the only one whose
 * bits depend on the number of ranks.
 *
 * A term of f32 is the sum of three parts (product_parts.c).  Of the nine products of parts the six greatest are added
 * to a sum, chunk by chunk, those of small parts first; the other three are less than 2^-24 of the greatest, as is what
 * an fma of f32 leaves away.  Registers are loaded for the next of the six only where it has another part.  There two
 * blocks are never summed as one: the order would not be the same.
 *
 * The registers' shape is set at the start and forgotten at the end; nobody expects them to last over a call. */
#include "codegen/emit/product_result.h"

enum {
  PAIRS = MSC_TILE_PAIRS,             /* most pairs in a row of a register; a row of sums has as many elements */
  A_TILE = 4,                         /* first register with rows of a; registers 0 to 3 hold sums */
  B_TILE = 6,                         /* first register with columns of b */
  ROWS_AT_ONCE = 4,                   /* rows of sums that are added at once */
  LINES = 8,                          /* lines of the next panel of b that are fetched while a chunk is multiplied */
  SUMS = MSC_TILE_HEIGHT * 2 * PAIRS, /* elements of the sums of a block */
};

typedef struct {
  result c;
  LLVMValueRef a, row_a;                   /* address of the first row; elements from row to row */
  LLVMValueRef b, k, blocks, block, chunk; /* blocks that are summed; pairs in a row of a block, and of a register */
  LLVMValueRef sums;                       /* of blocks that wait */
  LLVMValueRef shape;                      /* the registers' shape, in memory */
  filling filling;
  LLVMValueRef second; /* rows from the first register of rows to the second */
  int parts;           /* of a term: 1, or of f32 3 */
} tiling;

/* Which parts of a and b are multiplied, one after the other: of bf16 there is one. */
static const struct { int a, b; } part_products[] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};
enum { NUM_PART_PRODUCTS = sizeof part_products / sizeof *part_products };

static LLVMValueRef tile_number(product *p, int v) {
  return LLVMConstInt(LLVMInt8TypeInContext(p->e.l->llvm), (unsigned)v, false);
}

static void call_amx(product *p, const char *name, int num, LLVMValueRef *arg) {
  msc_ir_call(&p->e, name, 0, NULL, num, arg);
}

static void load_tile(product *p, int tile, LLVMValueRef place, LLVMValueRef bytes) {
  call_amx(p, "llvm.x86.tileloadd64", 3, (LLVMValueRef[]){tile_number(p, tile), place, bytes});
}

static void store_tile(product *p, int tile, LLVMValueRef place) {
  call_amx(p, "llvm.x86.tilestored64", 3, (LLVMValueRef[]){tile_number(p, tile), place, i64(p, 8 * PAIRS)});
}

/* Sets how many rows the registers of a and of sums have, and the pairs of a chunk. */
static void set_shape(product *p, const tiling *t, LLVMValueRef first, LLVMValueRef second) {
  enum { PALETTE = 0, COLUMNS = 4, ROWS = 12, NUM = 16, BYTES_OF_TWO = 4 * PAIRS << 16 | 4 * PAIRS };
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  LLVMValueRef word[NUM], chunk = LLVMBuildTrunc(p->b, t->chunk, i32, "");
  LLVMValueRef of_b = LLVMBuildMul(p->b, chunk, LLVMConstInt(i32, 1 << 16 | 1 << 24, false), ""),
               row_of_a = LLVMBuildMul(p->b, chunk, LLVMConstInt(i32, 4 << 16 | 4, false), "");
  for (int i = 0; i < NUM; i++)
    word[i] = LLVMConstInt(i32, i == PALETTE ? 1 : i >= COLUMNS && i < COLUMNS + 4 ? BYTES_OF_TWO : 0, false);
  LLVMValueRef shape = LLVMConstVector(word, NUM), one = LLVMBuildTrunc(p->b, first, i32, ""),
               other = LLVMBuildTrunc(p->b, second, i32, "");
  LLVMValueRef twice = LLVMConstInt(i32, 0x101, false), high = LLVMConstInt(i32, 16, false);
  LLVMValueRef of_sums = LLVMBuildOr(p->b, LLVMBuildMul(p->b, one, twice, ""),
                                     LLVMBuildShl(p->b, LLVMBuildMul(p->b, other, twice, ""), high, ""), "");
  LLVMValueRef of_a = LLVMBuildOr(p->b, one, LLVMBuildShl(p->b, other, LLVMConstInt(i32, 8, false), ""), "");
  shape = LLVMBuildInsertElement(p->b, shape, row_of_a, LLVMConstInt(i32, COLUMNS + A_TILE / 2, false), "");
  shape = LLVMBuildInsertElement(p->b, shape, of_sums, LLVMConstInt(i32, ROWS, false), "");
  shape =
      LLVMBuildInsertElement(p->b, shape, LLVMBuildOr(p->b, of_a, of_b, ""), LLVMConstInt(i32, ROWS + 1, false), "");
  LLVMSetAlignment(LLVMBuildStore(p->b, shape, t->shape), 4);
  call_amx(p, "llvm.x86.ldtilecfg", 1, (LLVMValueRef[]){t->shape});
}

/* Prefetches lines of the panel of b that is read next. Otherwise the first rows that are multiplied by it wait for the
 * last cache, for longer than their multiplication takes. */
static void fetch_lines(product *p, LLVMValueRef next) {
  for (int i = 0; i < LINES; i++) fetch(p, at(p, next, i64(p, i * PAIRS)), TO_READ_LATER);
}

/* Multiplies one part of a chunk by another. `a`, `b`: their addresses, NULL: the registers hold them. `other`, `step`:
 * from the first register of rows to the second, in elements, and from row to row, in bytes. */
static void multiply_part(product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef other, LLVMValueRef step) {
  for (int i = 0; b && i < 2; i++) load_tile(p, B_TILE + i, at(p, b, i64(p, i * PAIRS)), i64(p, 8 * PAIRS));
  for (int i = 0; i < 2; i++) {
    if (a) load_tile(p, A_TILE + i, i ? at(p, a, other) : a, step);
    for (int j = 0; j < 2; j++)
      call_amx(p, "llvm.x86.tdpbf16ps", 3,
               (LLVMValueRef[]){tile_number(p, 2 * i + j), tile_number(p, A_TILE + i), tile_number(p, B_TILE + j)});
  }
}

/* Sums the next block and stores the sums at `to`. `next`: where lines are prefetched meanwhile. */
static void sum_tiles(product *p, const tiling *t, LLVMValueRef *a, LLVMValueRef *b, LLVMValueRef *next,
                      LLVMValueRef to) {
  msc_ir_loop terms;
  LLVMValueRef rows_of_part = i64(p, MSC_TILE_ROWS), at_both[3] = {*a, *b, *next},
               parts = nsw_mul(p, t->chunk, i64(p, t->parts)), chunks = LLVMBuildSDiv(p->b, t->block, parts, ""),
               step = nsw_mul(p, t->parts == 1 ? t->row_a : t->chunk, i64(p, 4)),
               below = nsw_mul(p, t->second, i64(p, 2 * PAIRS)), other = nsw_mul(p, t->second, t->row_a);
  for (int i = 0; i < A_TILE; i++) call_amx(p, "llvm.x86.tilezero", 1, (LLVMValueRef[]){tile_number(p, i)});
  msc_ir_loop_open(&p->e, &terms, i64(p, 0), chunks, 1, 3, at_both);
  if (t->parts == 1) fetch_lines(p, at_both[2]); /* parts take so much longer that it would cost more than it saves */
  for (int i = t->parts == 1 ? NUM_PART_PRODUCTS - 1 : 0, in_a = -1, in_b = -1; i < NUM_PART_PRODUCTS; i++) {
    int of_a = part_products[i].a, of_b = part_products[i].b;
    LLVMValueRef a_part = at(p, at_both[0], nsw_mul(p, nsw_mul(p, t->chunk, rows_of_part), i64(p, of_a))),
                 b_part = at(p, at_both[1], nsw_mul(p, t->chunk, i64(p, of_b * 2 * PAIRS)));
    multiply_part(p, of_a == in_a ? NULL : a_part, of_b == in_b ? NULL : b_part, other, step);
    in_a = of_a, in_b = of_b;
  }
  at_both[0] = at(p, at_both[0], t->parts == 1 ? parts : nsw_mul(p, parts, rows_of_part));
  at_both[1] = at(p, at_both[1], nsw_mul(p, parts, i64(p, 2 * PAIRS)));
  at_both[2] = at(p, at_both[2], nsw_mul(p, parts, i64(p, LINES)));
  msc_ir_loop_close(&p->e, &terms, at_both);
  *a = at_both[0], *b = at_both[1], *next = at_both[2];
  for (int i = 0; i < A_TILE; i++) {
    LLVMValueRef place = at(p, to, i64(p, i % 2 * PAIRS));
    store_tile(p, i, i / 2 ? at(p, place, below) : place);
  }
}

/* Adds the waiting sums that belong to the same subtree to the sums of a block at `top`, the last of them first;
 * returns where the next sums go. */
static LLVMValueRef add_waiting_sums(product *p, LLVMValueRef block, LLVMValueRef top, LLVMValueRef rows) {
  enum { NUM = ROWS_AT_ONCE * VECTORS };
  msc_ir_loop some, meet;
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef args[2] = {nsw_add(p, block, i64(p, 1)), LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef ones = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args), none = i64(p, 0),
               any = LLVMBuildICmp(p->b, LLVMIntEQ, ones, none, "");
  LLVMValueRef down = nsw_mul(p, ones, i64(p, -SUMS));
  msc_ir_loop_open(&p->e, &some, none, LLVMBuildSelect(p->b, any, none, rows, ""), ROWS_AT_ONCE, 0, NULL);
  LLVMValueRef kept[NUM + 1], here = at(p, top, nsw_mul(p, some.index, i64(p, 2 * PAIRS)));
  for (int i = 0; i < NUM; i++) kept[i] = load_vector(p, at(p, here, i64(p, i * p->lanes)));
  kept[NUM] = here;
  msc_ir_loop_open(&p->e, &meet, none, ones, 1, NUM + 1, kept);
  kept[NUM] = at(p, kept[NUM], i64(p, -SUMS));
  for (int i = 0; i < NUM; i++)
    kept[i] = LLVMBuildFAdd(p->b, load_vector(p, at(p, kept[NUM], i64(p, i * p->lanes))), kept[i], "");
  msc_ir_loop_close(&p->e, &meet, kept);
  for (int i = 0; i < NUM; i++) store_vector(p, kept[i], at(p, kept[NUM], i64(p, i * p->lanes)));
  msc_ir_loop_close(&p->e, &some, NULL);
  return at(p, top, nsw_add(p, down, i64(p, SUMS)));
}

/* Returns the address from which the group of rows with number `group` fetches lines of the next panel of b into the
 * cache, while it is multiplied by this panel. Each of four groups fetches a quarter of the next panel. */
static LLVMValueRef next_lines(product *p, const tiling *t, LLVMValueRef panel, LLVMValueRef group) {
  LLVMValueRef next = at(p, panel, nsw_mul(p, t->k, i64(p, 2 * PAIRS)));
  return at(p, next, nsw_mul(p, group, nsw_mul(p, t->k, i64(p, LINES))));
}

/* Multiplies `rows` rows from `row` on, as many as the registers are set to, by one panel of b. */
static void multiply_tiles(product *p, const tiling *t, LLVMValueRef row, LLVMValueRef rows, LLVMValueRef column,
                           LLVMValueRef group) {
  msc_ir_loop blocks, lines;
  LLVMValueRef place[4] = {at(p, t->a, nsw_mul(p, row, t->row_a)), at(p, t->b, nsw_mul(p, column, t->k)), t->sums};
  place[3] = next_lines(p, t, place[1], group);
  msc_ir_loop_open(&p->e, &blocks, i64(p, 0), t->blocks, 1, 4, place);
  sum_tiles(p, t, &place[0], &place[1], &place[3], place[2]);
  place[2] = add_waiting_sums(p, blocks.index, place[2], rows);
  msc_ir_loop_close(&p->e, &blocks, place);
  msc_ir_loop_open(&p->e, &lines, i64(p, 0), rows, 1, 0, NULL);
  LLVMValueRef sum[VECTORS], from = at(p, t->sums, nsw_mul(p, lines.index, i64(p, 2 * PAIRS)));
  for (int v = 0; v < VECTORS; v++) sum[v] = load_vector(p, at(p, from, i64(p, v * p->lanes)));
  store_sums(p, &t->c, 1, nsw_add(p, row, lines.index), column, sum);
  msc_ir_loop_close(&p->e, &lines, NULL);
}

/* Multiplies rows first .. last - 1, `rows` at a time. */
static void multiply_panels(product *p, const tiling *t, LLVMValueRef first, LLVMValueRef last, LLVMValueRef rows) {
  msc_ir_loop panels, groups;
  msc_ir_loop_open(&p->e, &panels, i64(p, 0), t->c.columns, p->width, 0, NULL);
  msc_ir_loop_open(&p->e, &groups, first, last, MSC_TILE_HEIGHT, 0, NULL);
  LLVMValueRef group = LLVMBuildSDiv(p->b, nsw_sub(p, groups.index, first), i64(p, MSC_TILE_HEIGHT), "");
  multiply_tiles(p, t, groups.index, rows, panels.index, group);
  msc_ir_loop_close(&p->e, &groups, NULL);
  msc_ir_loop_close(&p->e, &panels, NULL);
}

/* Multiplies rows begin .. end - 1 by all panels: groups of 32 rows, then the rows that remain in two halves, one for
 * each register of rows; of rows in parts the first register takes sixteen. If none is left for the second register,
 * both hold the same. */
static void multiply_parts(product *p, tiling *t, LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop parts;
  LLVMValueRef zero = i64(p, 0), one = i64(p, 1), two = i64(p, 2), high = i64(p, MSC_TILE_ROWS),
               left = LLVMBuildAnd(p->b, nsw_sub(p, end, begin), i64(p, MSC_TILE_HEIGHT - 1), ""),
               border = nsw_sub(p, end, left);
  LLVMValueRef none_whole = LLVMBuildICmp(p->b, LLVMIntEQ, border, begin, ""),
               none_left = LLVMBuildICmp(p->b, LLVMIntEQ, left, zero, ""),
               single = LLVMBuildICmp(p->b, LLVMIntEQ, left, one, "");
  LLVMValueRef half = LLVMBuildLShr(p->b, left, one, ""), more = nsw_sub(p, left, half);
  msc_ir_loop_open(&p->e, &parts, LLVMBuildSelect(p->b, none_whole, one, zero, ""),
                   LLVMBuildSelect(p->b, none_left, one, two, ""), 1, 0, NULL);
  LLVMValueRef rest = LLVMBuildICmp(p->b, LLVMIntEQ, parts.index, one, "");
  if (t->parts > 1) { /* registers hold the rows that are packed together */
    more = least(p, left, high);
    half = nsw_sub(p, left, more);
    single = LLVMBuildICmp(p->b, LLVMIntEQ, half, zero, "");
    one = more;
  }
  LLVMValueRef rows[2] = {LLVMBuildSelect(p->b, rest, more, high, ""),
                          LLVMBuildSelect(p->b, rest, LLVMBuildSelect(p->b, single, one, half, ""), high, "")};
  t->second = LLVMBuildSelect(p->b, rest, LLVMBuildSelect(p->b, single, zero, more, ""), high, "");
  set_shape(p, t, rows[0], rows[1]);
  multiply_panels(p, t, LLVMBuildSelect(p->b, rest, border, begin, ""), LLVMBuildSelect(p->b, rest, end, border, ""),
                  LLVMBuildSelect(p->b, rest, left, i64(p, MSC_TILE_HEIGHT), ""));
  msc_ir_loop_close(&p->e, &parts, NULL);
}

/* Packs rows of a transposed a in the form of the registers: [rows][k] pairs. If rows end within a group of 16, the
 * remaining rows of the group are undefined and never read. */
static void pack_transposed_rows(product *p, const tiling *t, LLVMValueRef a, LLVMValueRef room, LLVMValueRef begin,
                                 LLVMValueRef end) {
  msc_ir_loop terms, rows;
  LLVMValueRef step = load_dim(p, 2), last = nsw_sub(p, t->k, i64(p, 1));
  msc_ir_loop_open(&p->e, &terms, i64(p, 0), t->k, PAIRS, 0, NULL);
  LLVMValueRef along = mask_below(p, nsw_sub(p, t->k, terms.index));
  pair_place pair[PAIRS];
  for (int i = 0; i < PAIRS; i++)
    pair[i] = find_pair(p, &t->filling, least(p, nsw_add(p, terms.index, i64(p, i)), last), step);
  msc_ir_loop_open(&p->e, &rows, begin, end, MSC_TILE_ROWS, 0, NULL);
  LLVMValueRef x[PAIRS], mask = mask_below(p, nsw_sub(p, end, rows.index)),
                         to = at(p, room, nsw_add(p, nsw_mul(p, nsw_sub(p, rows.index, begin), t->k), terms.index));
  for (int i = 0; i < PAIRS; i++) x[i] = load_pairs_of_rows(p, at_operand(p, a, rows.index), &pair[i], mask);
  msc_ir_transpose_square(&p->e, PAIRS, x);
  for (int i = 0; i < PAIRS; i++) store_masked(p, x[i], at(p, to, nsw_mul(p, t->k, i64(p, i))), along);
  msc_ir_loop_close(&p->e, &rows, NULL);
  msc_ir_loop_close(&p->e, &terms, NULL);
}

/* Chooses where row 0 of a is read, and the distance of rows. */
static void place_rows(product *p, tiling *t, LLVMValueRef begin, LLVMValueRef end) {
  LLVMValueRef given = load_buffer(p, 0), room = load_buffer(p, 3), transposed = is_dim_set(p, 5);
  LLVMBasicBlockRef transpose = msc_ir_block(&p->e), other = msc_ir_block(&p->e), fill = msc_ir_block(&p->e),
                    after = msc_ir_block(&p->e);
  LLVMValueRef always = LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 1, false),
               fills = t->parts == 1 ? t->filling.filled : always, packed = LLVMBuildOr(p->b, transposed, fills, "");
  LLVMBuildCondBr(p->b, transposed, transpose, other);
  LLVMPositionBuilderAtEnd(p->b, transpose);
  if (t->parts == 1) pack_transposed_rows(p, t, given, room, begin, end);
  else msc_product_split_transposed_rows(p, &t->filling, given, room, t->k, begin, end);
  LLVMBuildBr(p->b, after);
  LLVMPositionBuilderAtEnd(p->b, other);
  LLVMBuildCondBr(p->b, fills, fill, after);
  LLVMPositionBuilderAtEnd(p->b, fill);
  (t->parts == 1 ? fill_rows : msc_product_split_rows)(p, &t->filling, given, room, t->k, begin, end);
  LLVMBuildBr(p->b, after);
  LLVMPositionBuilderAtEnd(p->b, after);
  t->row_a = LLVMBuildSelect(p->b, packed, t->k, units_of(p, load_dim(p, 2)), "");
  t->a = LLVMBuildSelect(p->b, packed, at(p, room, nsw_mul(p, nsw_sub(p, i64(p, 0), begin), t->k)), given, "");
}

/* Sets which blocks are summed: those of the product, or of bf16 two of them together where each is one chunk. */
static void choose_blocks(product *p, tiling *t, LLVMValueRef all) {
  LLVMValueRef one = i64(p, 1), odd = LLVMBuildTrunc(p->b, all, LLVMInt1TypeInContext(p->e.l->llvm), ""),
               is_chunk = LLVMBuildICmp(p->b, LLVMIntEQ, t->filling.units, t->filling.chunk, "");
  LLVMValueRef by_two = LLVMBuildAnd(p->b, is_chunk, LLVMBuildNot(p->b, odd, ""), ""),
               shift = t->parts == 1 ? LLVMBuildZExt(p->b, by_two, LLVMTypeOf(one), "") : i64(p, 0);
  t->blocks = LLVMBuildLShr(p->b, all, shift, "");
  t->block = LLVMBuildShl(p->b, nsw_mul(p, t->filling.units, i64(p, t->parts)), shift, "");
}

void msc_product_emit_tiles(msc_llvm *l, msc_dtype dtype, LLVMValueRef fn) {
  product p = product_of(l, dtype, true, fn);
  LLVMValueRef begin = LLVMGetParam(fn, 1), end = LLVMGetParam(fn, 2);
  tiling t = {.c = result_of(&p),
              .b = load_buffer(&p, 1),
              .sums = msc_ir_stack(&p.e, p.vector, MSC_SUM_LEVELS * SUMS / PAIRS),
              .shape = msc_ir_stack(&p.e, p.vector, 1),
              .parts = msc_product_packing(p.operand_bytes, true)};
  LLVMValueRef blocks = load_dim(&p, 4);
  t.filling = filling_of(&p, load_dim(&p, 1), blocks);
  t.k = nsw_mul(&p, units_of_all(&p, &t.filling, load_dim(&p, 1), blocks), i64(&p, t.parts));
  t.chunk = t.filling.chunk;
  choose_blocks(&p, &t, blocks);
  place_rows(&p, &t, begin, end);
  multiply_parts(&p, &t, begin, end);
  call_amx(&p, "llvm.x86.tilerelease", 0, NULL);
  LLVMBuildRetVoid(p.b);
}
