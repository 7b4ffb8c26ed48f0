/* product_sums.c: a group of rows of a and columns of b in; their sums out: blocks of terms by fma, and the tree over
 * blocks. */
#include <string.h>

#include "codegen/emit/product_multiply.h"

enum {
  UNROLLED = 4, /* terms per iteration */
  AHEAD = 384,  /* how far ahead b is prefetched, counted in products of vectors */
  MAX_POINTERS = MAX_HEIGHT / ROWS_APART,
  CARRIED = 2 * SUMS + MAX_POINTERS + 2,
};
_Static_assert((int)CARRIED <= (int)MAX_CARRIED, "a loop carries the sums of two blocks and the pointers");

static int log_blocks(sum_form form) { return form < PAIRS || form == SPREAD ? 0 : form - PAIRS + 1; }

/* True if the sums of a block are stored between the multiplications of its last terms (sum_blocks_spread). With 32
 * registers they are stored together. */
static bool spreads_stores(const product *p, sum_form form) {
  return !has_32_registers(p) && (form == SPREAD || form == PAIRS);
}

static int num_sums(const product *p, const walk *w) { return w->height * p->vectors; }

static int num_pointers(const walk *w) { return (w->height + ROWS_APART - 1) / ROWS_APART; }

LLVMValueRef msc_product_add(product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
  LLVMValueRef arg[3] = {a, b, sum};
  if (!p->pairs) return msc_ir_call(&p->e, "llvm.fma", 1, &p->vector, 3, arg);
  LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(p->e.l->llvm), 2 * (unsigned)p->lanes);
  arg[0] = sum;
  arg[1] = LLVMBuildBitCast(p->b, a, pairs, ""), arg[2] = LLVMBuildBitCast(p->b, b, pairs, "");
  return msc_ir_call(&p->e, "llvm.x86.avx512bf16.dpbf16ps.512", 0, NULL, 3, arg);
}

/* An address may scale a register by at most eight. Two rows of elements of four bytes are therefore the distance of
 * one row times eight. */
LLVMValueRef msc_product_at_row(product *p, const walk *w, const LLVMValueRef *a, int row) {
  enum { TWO = 2, MOST = 8 };
  LLVMValueRef pointer = a[row / ROWS_APART], one = w->row[1];
  if (row % ROWS_APART != TWO || TWO * p->bytes > MOST) return at(p, pointer, w->row[row % ROWS_APART]);
  return LLVMBuildInBoundsGEP2(p->b, LLVMInt64TypeInContext(p->e.l->llvm), pointer, &one, 1, "");
}

/* Returns the address of the next term: the machine adds a constant distance to the address of any term. */
static LLVMValueRef next_term(product *p, LLVMValueRef pointer, LLVMValueRef distance) {
  return LLVMIsConstant(distance) ? at(p, pointer, distance) : step_on(p, pointer, distance);
}

/* Returns where vector v of a term of b lies. */
static LLVMValueRef at_vector(product *p, const multiplying *x, LLVMValueRef b, int v) {
  if (x->form == DOUBLE && v >= VECTORS) b = at(p, b, x->next_panel), v -= VECTORS;
  return at(p, b, i64(p, v * p->lanes));
}

/* Adds one term to all sums of a block. */
static void multiply_term(product *p, const multiplying *x, const walk *w, const LLVMValueRef *a, LLVMValueRef b,
                          LLVMValueRef *acc) {
  LLVMValueRef term[MAX_VECTORS];
  for (int v = 0; v < p->vectors; v++) term[v] = load_vector(p, at_vector(p, x, b, v));
  for (int r = 0; r < w->height; r++) {
    LLVMValueRef place = msc_product_at_row(p, w, a, r);
    LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
    for (int v = 0; v < p->vectors; v++)
      acc[r * p->vectors + v] = msc_product_add(p, one, term[v], acc[r * p->vectors + v]);
  }
}

/* Prefetches elements of b that are read some terms later: where b is not packed its rows are so far apart that no CPU
 * prefetches them. Rows that lie a multiple of 4096 bytes apart have few places in the nearest cache, which would lose
 * them before they are read. A packed term lies in one line, unless
 * a vector fills a line. */
static void fetch_ahead(product *p, const multiplying *x, LLVMValueRef b) {
  enum { LINE = 64 };
  int vector = p->lanes * (int)p->bytes, step = LLVMIsConstant(x->term_b) && vector < LINE ? LINE / vector : 1;
  fetching what = has_32_registers(p) || is_wide(x->form) ? TO_READ_LATER : TO_READ;
  for (int v = 0; v < p->vectors; v += step) fetch(p, at(p, b, i64(p, v * p->lanes)), what);
}

/* Opens a loop over `terms` terms. `up`: the counter goes from -terms up to 0, because another bound would need a
 * register that pointers need. */
static void open_terms(product *p, msc_ir_loop *l, bool up, LLVMValueRef terms, int step, int num,
                       LLVMValueRef *carried) {
  LLVMValueRef none = i64(p, 0);
  msc_ir_loop_open(&p->e, l, up ? hide(p, nsw_sub(p, none, terms)) : none, up ? none : terms, step, num, carried);
}

/* Adds `num_terms` terms to the sums of a block, `together` of them per iteration. `fetches`: prefetches terms of b.
 * `carried`: the sums, the pointers to the next terms of a, and the pointer to those of b. */
static void sum_terms(product *p, const multiplying *x, const walk *w, LLVMValueRef num_terms, int together,
                      bool fetches, LLVMValueRef *carried) {
  msc_ir_loop terms;
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef *a = carried + num, *b = a + pointers, ahead = hide(p, nsw_mul(p, x->ahead, i64(p, AHEAD / num)));
  open_terms(p, &terms, true, num_terms, together, num + pointers + 1, carried);
  for (int k = 0; k < together; k++) {
    if (fetches) fetch_ahead(p, x, at(p, *b, ahead));
    multiply_term(p, x, w, a, *b, carried);
    for (int i = 0; i < pointers; i++) a[i] = next_term(p, a[i], x->term_a);
    *b = next_term(p, *b, x->term_b);
  }
  for (int i = 0; i < pointers && LLVMIsConstant(x->term_a); i++) a[i] = hide(p, a[i]);
  if (LLVMIsConstant(x->term_b)) *b = hide(p, *b);
  msc_ir_loop_close(&p->e, &terms, carried);
}

/* Sums the next block, from zero. */
static void sum_block(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers;
  for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  *b = w->b;
  LLVMValueRef whole = LLVMBuildAnd(p->b, x->block, i64(p, -UNROLLED), ""), left = nsw_sub(p, x->block, whole);
  bool fetches = x->form != NARROW && x->form != DOUBLE; /* these panels are read in order anyway */
  /* A wide form would prefetch once for every two loads: it has another loop without, for where the CPU prefetches. */
  if (is_wide(x->form)) {
    LLVMValueRef none = i64(p, 0), by_itself = LLVMBuildICmp(p->b, LLVMIntEQ, x->ahead, none, "");
    sum_terms(p, x, w, LLVMBuildSelect(p->b, by_itself, whole, none, ""), UNROLLED, false, carried);
    whole = LLVMBuildSelect(p->b, by_itself, none, whole, "");
  }
  sum_terms(p, x, w, whole, UNROLLED, fetches, carried);
  sum_terms(p, x, w, left, 1, fetches, carried);
  w->a = a[0], w->b = *b;
  memcpy(acc, carried, sizeof *acc * (size_t)num);
}

/* Sums the next block of a transposed b, which is transposed in registers square by square. */
static void sum_transposed_block(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  msc_ir_loop squares;
  int num = num_sums(p, w), pointers = num_pointers(w), columns = (p->lanes + ROWS_APART - 1) / ROWS_APART;
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers, next = i64(p, p->lanes), apart[ROWS_APART];
  for (int c = 0; c < ROWS_APART; c++) apart[c] = nsw_mul(p, x->column_b, i64(p, c));
  for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  for (int i = 0; i < columns; i++) b[i] = at(p, w->b, nsw_mul(p, x->column_b, i64(p, i * ROWS_APART)));
  open_terms(p, &squares, has_32_registers(p), x->block, p->lanes, num + pointers + columns, carried);
  LLVMValueRef term[64];
  for (int c = 0; c < p->lanes; c++) term[c] = load_vector(p, at(p, b[c / ROWS_APART], apart[c % ROWS_APART]));
  msc_ir_transpose_square(&p->e, p->lanes, term);
  for (int k = 0; k < p->lanes; k++)
    for (int r = 0; r < w->height; r++) {
      LLVMValueRef place = at(p, msc_product_at_row(p, w, a, r), i64(p, k));
      LLVMValueRef one = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
      carried[r] = msc_product_add(p, one, term[k], carried[r]);
    }
  for (int i = 0; i < pointers + columns; i++) a[i] = step_on(p, a[i], next);
  msc_ir_loop_close(&p->e, &squares, carried);
  w->a = a[0], w->b = b[0];
  memcpy(acc, carried, sizeof *acc * (size_t)num);
}

/* Sums the next two blocks and adds the sums. */
static void sum_pair(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  msc_ir_loop terms;
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef block_a = nsw_mul(p, x->block, x->term_a), block_b = nsw_mul(p, x->block, x->term_b);
  LLVMValueRef carried[CARRIED], *second = carried + num, *a = second + num, *b = a + 2 * pointers;
  for (int i = 0; i < 2 * num; i++) carried[i] = LLVMConstNull(p->vector);
  for (int i = 0; i < pointers; i++) {
    a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
    a[pointers + i] = at(p, a[i], block_a);
  }
  *b = w->b;
  int together = x->form == EIGHTS ? 2 : 1;
  open_terms(p, &terms, x->form == EIGHTS, x->block, together, 2 * num + 2 * pointers + 1, carried);
  for (int k = 0; k < together; k++) {
    multiply_term(p, x, w, a, *b, carried);
    multiply_term(p, x, w, a + pointers, at(p, *b, block_b), second);
    for (int i = 0; i < 2 * pointers; i++) a[i] = step_on(p, a[i], x->term_a);
    *b = step_on(p, *b, x->term_b);
  }
  msc_ir_loop_close(&p->e, &terms, carried);
  w->a = a[pointers], w->b = at(p, *b, block_b);
  for (int i = 0; i < num; i++) acc[i] = LLVMBuildFAdd(p->b, carried[i], second[i], "");
}

/* Sums the next `num` blocks. */
static void sum_some(product *p, const multiplying *x, walk *w, int num, LLVMValueRef *acc) {
  LLVMValueRef left[SUMS];
  if (num == 2) {
    sum_pair(p, x, w, acc);
    return;
  }
  sum_some(p, x, w, num / 2, left);
  sum_some(p, x, w, num / 2, acc);
  for (int i = 0; i < num_sums(p, w); i++) acc[i] = LLVMBuildFAdd(p->b, left[i], acc[i], "");
}

/* Sums the next blocks, as many as the form takes together. */
static void sum_next_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *acc) {
  if (x->form == TRANSPOSED) {
    sum_transposed_block(p, x, w, acc);
  } else if (x->form < PAIRS) {
    sum_block(p, x, w, acc);
  } else if (x->form == PAIRS) {
    sum_pair(p, x, w, acc);
  } else {
    sum_some(p, x, w, 1 << log_blocks(x->form), acc);
  }
}

/* Adds the sum of a block to the tree: to as many waiting sums as the block's number has trailing one bits, the last of
 * them first; then the new sum waits, too. Returns where the next sum will wait. This does the same as msc_ir_fold, but
 * for all sums of a block at once. */
static LLVMValueRef fold_blocks(product *p, int num, LLVMValueRef block, LLVMValueRef blocks, LLVMValueRef top,
                                LLVMValueRef *acc) {
  msc_ir_loop meet;
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef kept[SUMS + 1], next = nsw_add(p, block, i64(p, 1)),
                               args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef ones = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args);
  LLVMBasicBlockRef from[2], wait = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  memcpy(kept, acc, sizeof *acc * (size_t)num);
  kept[num] = top;
  msc_ir_loop_open(&p->e, &meet, i64(p, 0), ones, 1, num + 1, kept);
  kept[num] = at(p, kept[num], i64(p, -num * p->lanes));
  for (int i = 0; i < num; i++)
    kept[i] = LLVMBuildFAdd(p->b, load_vector(p, at(p, kept[num], i64(p, i * p->lanes))), kept[i], "");
  msc_ir_loop_close(&p->e, &meet, kept);
  from[0] = LLVMGetInsertBlock(p->b), from[1] = wait;
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, next, blocks, ""), wait, done);
  LLVMPositionBuilderAtEnd(p->b, wait);
  for (int i = 0; i < num; i++) store_vector(p, kept[i], at(p, kept[num], i64(p, i * p->lanes)));
  LLVMValueRef tops[2] = {kept[num], at(p, kept[num], i64(p, num * p->lanes))};
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
  top = LLVMBuildPhi(p->b, LLVMTypeOf(top), "");
  LLVMAddIncoming(top, tops, from, 2);
  memcpy(acc, kept, sizeof *acc * (size_t)num);
  return top;
}

/* What sum_blocks_spread knows of a turn when the last two terms of its last block are left. */
typedef struct {
  const LLVMValueRef *a, *first; /* pointers to the terms of a; sums of the turn's first block, NULL if it has one */
  LLVMValueRef b, top;           /* the terms of b; where the next sum waits */
} turn;

/* Adds to a sum the one of the turn's first block and as many waiting sums as `levels` says. */
static LLVMValueRef add_waiting(product *p, const turn *t, int num, int i, int levels, LLVMValueRef sum) {
  if (t->first) sum = LLVMBuildFAdd(p->b, t->first[i], sum, "");
  for (int l = 1; l <= levels; l++)
    sum = LLVMBuildFAdd(p->b, load_vector(p, at(p, t->top, i64(p, (i - l * num) * p->lanes))), sum, "");
  return sum;
}

/* Multiplies the last two terms row by row, adds to each sum those that it meets, and stores it at once if it `waits`:
 * a store costs nothing right behind the instruction that made its value, if few stores follow each other. The last
 * vector of the second term is loaded again for each row, because sums and terms take all registers. Returns where the
 * next sum will wait. */
static LLVMValueRef finish_turn(product *p, const multiplying *x, const walk *w, const turn *t, int levels, bool waits,
                                LLVMValueRef *acc) {
  enum { TWO = 2 };
  int num = num_sums(p, w), pointers = num_pointers(w), last = p->vectors - 1;
  LLVMValueRef next_a[MAX_POINTERS], next_b = next_term(p, t->b, x->term_b), term[TWO][MAX_VECTORS];
  for (int i = 0; i < pointers; i++) next_a[i] = next_term(p, t->a[i], x->term_a);
  for (int v = 0; v < p->vectors; v++)
    for (int k = 0; k < TWO; k++) term[k][v] = load_vector(p, at(p, k ? next_b : t->b, i64(p, v * p->lanes)));
  LLVMValueRef again = at(p, next_b, i64(p, last * p->lanes));
  for (int r = 0; r < w->height; r++) {
    LLVMValueRef one[TWO];
    again = hide(p, again);
    for (int k = 0; k < TWO; k++) {
      LLVMValueRef place = msc_product_at_row(p, w, k ? next_a : t->a, r), *sum = acc + r * p->vectors;
      one[k] = msc_emit_splat(&p->e, LLVMBuildLoad2(p->b, p->elem, place, ""), p->lanes);
      for (int v = 0; v < p->vectors && !k; v++) sum[v] = msc_product_add(p, one[k], term[k][v], sum[v]);
    }
    for (int v = 0; v < p->vectors; v++) {
      int i = r * p->vectors + v;
      LLVMValueRef by = v && v == last ? load_vector(p, again) : term[TWO - 1][v];
      acc[i] = add_waiting(p, t, num, i, levels, msc_product_add(p, one[TWO - 1], by, acc[i]));
      if (waits) store_vector(p, acc[i], at(p, t->top, i64(p, (i - levels * num) * p->lanes)));
    }
  }
  return at(p, t->top, i64(p, (waits - levels) * num * p->lanes));
}

/* Sums `terms` terms, two per iteration, or four if their distances are known. */
static void sum_by_turns(product *p, const multiplying *x, const walk *w, LLVMValueRef terms, LLVMValueRef *carried) {
  enum { TWO = 2 };
  for (int together = LLVMIsConstant(x->term_a) ? UNROLLED : TWO; together; together /= TWO) {
    LLVMValueRef whole = LLVMBuildAnd(p->b, terms, i64(p, -together), "");
    sum_terms(p, x, w, whole, together, x->form == SPREAD, carried);
    terms = nsw_sub(p, terms, whole);
  }
}

/* Sums all blocks, one or two in a turn, as fold_blocks adds them up. The sums of a turn wait in memory, but they are
 * stored between the multiplications of its last two terms, unless they meet many waiting sums. Code is emitted for
 * each number of sums that they may meet. */
static void sum_blocks_spread(product *p, const multiplying *x, walk *w, LLVMValueRef *out_acc) {
  enum { TWO = 2, LOG_EIGHT = 3, MOST_WAYS = LOG_EIGHT + 2 };
  msc_ir_loop turns;
  int num = num_sums(p, w), pointers = num_pointers(w), log = log_blocks(x->form), most = LOG_EIGHT - log;
  LLVMTypeRef i64_type = LLVMInt64TypeInContext(p->e.l->llvm);
  LLVMValueRef none = i64(p, 0), one = i64(p, 1), last = least(p, x->block, i64(p, TWO)),
               before = nsw_sub(p, x->block, last), num_turns = LLVMBuildLShr(p->b, x->blocks, i64(p, log), "");
  LLVMValueRef is_short = LLVMBuildICmp(p->b, LLVMIntSLT, x->block, i64(p, TWO), ""), acc[SUMS + 3], first[SUMS];
  for (int i = 0; i < num; i++) acc[i] = LLVMConstNull(p->vector);
  acc[num] = w->a, acc[num + 1] = w->b, acc[num + 2] = x->waiting;
  msc_ir_loop_open(&p->e, &turns, none, num_turns, 1, num + 3, acc);
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers;
  for (int i = 0; i < pointers; i++) a[i] = at(p, acc[num], nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  *b = acc[num + 1];
  for (int block = 0; block <= log; block++) {
    for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
    sum_by_turns(p, x, w, block == log ? before : x->block, carried);
    if (block != log) memcpy(first, carried, sizeof *carried * (size_t)num);
  }
  turn t = {.a = a, .first = log ? first : NULL, .b = *b, .top = acc[num + 2]};
  LLVMValueRef next = nsw_add(p, turns.index, one), ends = LLVMBuildICmp(p->b, LLVMIntEQ, next, num_turns, ""),
               args[2] = {next, LLVMConstInt(LLVMInt1TypeInContext(p->e.l->llvm), 0, false)};
  LLVMValueRef levels = msc_ir_call(&p->e, "llvm.cttz", 1, &i64_type, 2, args),
               many = LLVMBuildICmp(p->b, LLVMIntEQ, levels, i64(p, most), "");
  many = LLVMBuildOr(p->b, LLVMBuildAnd(p->b, many, LLVMBuildNot(p->b, ends, ""), ""), is_short, "");
  levels = LLVMBuildSelect(p->b, many, i64(p, most + 1), levels, "");
  LLVMBasicBlockRef other = msc_ir_block(&p->e), done = msc_ir_block(&p->e), from[MOST_WAYS];
  LLVMValueRef choice = LLVMBuildSwitch(p->b, levels, other, (unsigned)most + 1), way[MOST_WAYS][CARRIED];
  for (int l = 0; l <= most + 1; l++) {
    LLVMBasicBlockRef here = l <= most ? msc_ir_block(&p->e) : other;
    if (l <= most) LLVMAddCase(choice, i64(p, l), here);
    LLVMPositionBuilderAtEnd(p->b, here);
    memcpy(way[l], carried, sizeof carried);
    if (l <= most) {
      way[l][num] = finish_turn(p, x, w, &t, l, l < most, way[l]);
    } else {
      sum_terms(p, x, w, last, 1, x->form == SPREAD, way[l]);
      for (int i = 0; i < num; i++) way[l][i] = add_waiting(p, &t, num, i, 0, way[l][i]);
      way[l][num] = fold_blocks(p, num, turns.index, num_turns, t.top, way[l]);
    }
    from[l] = LLVMGetInsertBlock(p->b);
    LLVMBuildBr(p->b, done);
  }
  LLVMPositionBuilderAtEnd(p->b, done);
  for (int i = 0; i <= num; i++) {
    LLVMValueRef *to = &acc[i < num ? i : num + 2];
    *to = LLVMBuildPhi(p->b, LLVMTypeOf(way[0][i]), "");
    for (int l = 0; l <= most + 1; l++) LLVMAddIncoming(*to, &way[l][i], &from[l], 1);
  }
  acc[num] = at(p, *a, nsw_mul(p, x->term_a, last)), acc[num + 1] = at(p, *b, nsw_mul(p, x->term_b, last));
  msc_ir_loop_close(&p->e, &turns, acc);
  memcpy(out_acc, acc, sizeof *acc * (size_t)num);
}

/* Sums eight blocks of a packed b, of an even number of terms each, two in a turn: the same as sum_blocks_spread, but
 * with fewer other instructions, which take much of the time of short blocks. */
static void sum_eight_blocks(product *p, const multiplying *given, walk *w, LLVMValueRef *out_acc) {
  enum { TWO = 2, TURNS = EIGHT / TWO };
  static const int met[TURNS] = {0, 1, 0, TWO};
  multiplying packed = *given, *x = &packed;
  x->term_b = i64(p, p->width);
  int num = num_sums(p, w), pointers = num_pointers(w);
  LLVMValueRef carried[CARRIED], *a = carried + num, *b = a + pointers, first[SUMS], top = x->waiting,
                                 before = nsw_sub(p, x->block, i64(p, TWO));
  for (int i = 0; i < pointers; i++) a[i] = at(p, w->a, nsw_mul(p, x->row_a, i64(p, i * ROWS_APART)));
  *b = w->b;
  for (int n = 0; n < TURNS; n++) {
    for (int block = 0; block < TWO; block++) {
      for (int i = 0; i < num; i++) carried[i] = LLVMConstNull(p->vector);
      sum_terms(p, x, w, block ? before : x->block, TWO, false, carried);
      if (!block) memcpy(first, carried, sizeof *carried * (size_t)num);
    }
    turn t = {.a = a, .first = first, .b = *b, .top = top};
    top = finish_turn(p, x, w, &t, met[n], n + 1 < TURNS, carried);
    for (int i = 0; i < pointers; i++) a[i] = step_on(p, step_on(p, a[i], x->term_a), x->term_a);
    *b = next_term(p, next_term(p, *b, x->term_b), x->term_b);
  }
  memcpy(out_acc, carried, sizeof *carried * (size_t)num);
}

void msc_product_sum_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *out_acc) {
  msc_ir_loop trees;
  int num = num_sums(p, w);
  if (!has_32_registers(p) && x->form == EIGHTS) {
    sum_eight_blocks(p, x, w, out_acc);
    return;
  }
  if (spreads_stores(p, x->form)) {
    sum_blocks_spread(p, x, w, out_acc);
    return;
  }
  LLVMValueRef acc[SUMS + 3], num_trees = LLVMBuildLShr(p->b, x->blocks, i64(p, log_blocks(x->form)), "");
  for (int i = 0; i < num; i++) acc[i] = LLVMConstNull(p->vector);
  acc[num] = w->a, acc[num + 1] = w->b, acc[num + 2] = x->waiting;
  msc_ir_loop_open(&p->e, &trees, i64(p, 0), num_trees, 1, num + 3, acc);
  w->a = acc[num], w->b = acc[num + 1];
  sum_next_blocks(p, x, w, acc);
  acc[num] = w->a, acc[num + 1] = w->b;
  acc[num + 2] = fold_blocks(p, num, trees.index, num_trees, acc[num + 2], acc);
  msc_ir_loop_close(&p->e, &trees, acc);
  memcpy(out_acc, acc, sizeof *acc * (size_t)num);
}
