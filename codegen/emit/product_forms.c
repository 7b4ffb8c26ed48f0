/* product_forms.c: the sizes of a product in; the form of its sums that takes the least time out, chosen by the kernel
 * when it runs; and how many rows and columns a form sums at once. */
#include "codegen/emit/product_multiply.h"

int msc_product_form_vectors(sum_form form) {
  static const int vectors[NUM_FORMS] = {
      [NARROW] = 1, [TRANSPOSED] = 1, [TWOS] = 1, [WIDE] = 2 * VECTORS, [DOUBLE] = 2 * VECTORS, [WIDEST] = MAX_VECTORS};
  return vectors[form] ? vectors[form] : VECTORS;
}

int msc_product_panel_rows(const product *p, sum_form form) {
  if (!has_32_registers(p)) return 6;
  return form <= PAIRS ? MAX_HEIGHT : MSC_PRODUCT_PANEL_ROWS;
}

const int *msc_product_heights(const product *p, sum_form form) {
  static const int three[] = {3, 2, 1, 0}, four[] = {4, 3, 2, 1, 0};
  static const int six[] = {6, 5, 4, 3, 2, 1, 0}, twelve[] = {12, 8, 7, 6, 5, 4, 3, 2, 1, 0},
                   few[] = {12, 8, 4, 2, 1, 0};
  static const int two[] = {2, 1, 0}, low[] = {4, 2, 1, 0}, eight[] = {8, 4, 2, 1, 0};
  if (form == WIDE) return four;
  if (form == WIDEST || form == STREAM) return two;
  if (form == TRANSPOSED) return has_32_registers(p) ? eight : low;
  if (form == NARROW && has_32_registers(p)) return few;
  if (has_32_registers(p)) return form == DOUBLE || form == PAIRS ? six : form < PAIRS ? twelve : four;
  return form < PAIRS || form == SPREAD ? six : three;
}

/* True if groups of few rows are faster: a panel of b is in a near cache, so that reading it for each group is cheap,
 * and rows of a are near, too, because many panels read them, or blocks are short; or rows of a are a multiple of 4096
 * bytes apart, or so long, that the nearest cache cannot hold many of them. False where stores cost nothing, which low
 * groups save. */
static LLVMValueRef prefers_low_groups(product *p, const multiplying *x) {
  enum { NEAR = 96 * 1024, FEW_PANELS = 4, SHORT = 32 };
  LLVMValueRef transposed = is_dim_set(p, 5), lies = is_dim_set(p, 8),
               near = LLVMBuildICmp(p->b, LLVMIntSLE, x->k, i64(p, NEAR / (p->bytes * p->width)), ""),
               few = LLVMBuildICmp(p->b, LLVMIntSLE, x->c.columns, i64(p, FEW_PANELS * p->width), "");
  LLVMValueRef is_short = LLVMBuildICmp(p->b, LLVMIntSLT, x->block, i64(p, SHORT), ""),
               read_often = LLVMBuildOr(p->b, transposed, LLVMBuildNot(p->b, few, ""), "");
  near = LLVMBuildAnd(p->b, near, LLVMBuildOr(p->b, read_often, is_short, ""), "");
  LLVMValueRef meet = places_meet(p, load_dim(p, 2)),
               low = LLVMBuildOr(p->b, near, LLVMBuildSelect(p->b, transposed, few, meet, ""), "");
  lies = LLVMBuildOr(p->b, lies, is_trait_set(p, MSC_PRODUCT_STORES_WHOLE), "");
  return LLVMBuildAnd(p->b, low, LLVMBuildNot(p->b, lies, ""), "");
}

/* Chooses the form for long blocks: pairs, which store half as many sums, where the nearest cache holds a packed panel
 * of b beside rows of a, since their groups of rows have half the height and read it twice as often. Half the rows also
 * leave places in the nearest cache where rows of a meet there; that pays for f32 and many columns, to which the rows
 * are read once, unless stores cost nothing. */
static LLVMValueRef form_of_long(product *p, const multiplying *x, LLVMValueRef has_pairs) {
  enum { NEAREST = 40 * 1024, MANY = 256 };
  LLVMValueRef good = LLVMBuildICmp(p->b, LLVMIntSLE, x->k, i64(p, NEAREST / (p->bytes * p->width)), "");
  if (!p->pairs) {
    LLVMValueRef many = LLVMBuildICmp(p->b, LLVMIntSGE, x->c.columns, i64(p, MANY), ""),
                 lie = LLVMBuildNot(p->b, is_dim_set(p, 5), ""),
                 costs = LLVMBuildNot(p->b, is_trait_set(p, MSC_PRODUCT_STORES_WHOLE), "");
    many = LLVMBuildAnd(p->b, many, costs, "");
    LLVMValueRef meet = LLVMBuildAnd(p->b, places_meet(p, load_dim(p, 2)), LLVMBuildAnd(p->b, lie, many, ""), "");
    good = LLVMBuildOr(p->b, good, meet, "");
  }
  LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), "");
  good = LLVMBuildAnd(p->b, good, LLVMBuildAnd(p->b, has_pairs, packed, ""), "");
  return LLVMBuildSelect(p->b, good, i64(p, PAIRS), i64(p, SINGLE), "");
}

/* True if DOUBLE is faster: where blocks are not too short and stores cost nothing, since it stores as many sums as
 * SINGLE. Such a CPU multiplies two vectors at once, so that loads of elements of a, too, take a part of the time. */
static LLVMValueRef prefers_double(product *p, const multiplying *x) {
  enum { LEAST = 9 };
  LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), ""),
               is_long = LLVMBuildICmp(p->b, LLVMIntSGE, x->block, i64(p, LEAST), ""),
               wide = LLVMBuildICmp(p->b, LLVMIntSGE, x->c.columns, i64(p, (int64_t)2 * p->width), "");
  return LLVMBuildAnd(p->b, LLVMBuildAnd(p->b, packed, is_trait_set(p, MSC_PRODUCT_STORES_WHOLE), ""),
                      LLVMBuildAnd(p->b, is_long, wide, ""), "");
}

/* Returns ONES or TWOS where a packed b has eight blocks of so many terms, else `other`. */
static LLVMValueRef form_of_few_terms(product *p, const multiplying *x, LLVMValueRef other) {
  LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), ""),
               fits = LLVMBuildAnd(p->b, packed, LLVMBuildICmp(p->b, LLVMIntEQ, x->blocks, i64(p, EIGHT), ""), "");
  for (int block = 1; block <= 2 && may_keep_terms(p); block++) {
    LLVMValueRef is = LLVMBuildAnd(p->b, fits, LLVMBuildICmp(p->b, LLVMIntEQ, x->block, i64(p, block), ""), "");
    other = LLVMBuildSelect(p->b, is, i64(p, block == 1 ? ONES : TWOS), other, "");
  }
  return other;
}

/* Chooses the form of sums that takes the least time, and for which there are enough blocks. For long blocks, storing a
 * sum per block costs little, and single blocks, whose groups of rows are high, are best where reading panels of b
 * often costs more, or stores cost nothing. With 16 registers SPREAD is always faster, and pairs halve the height of a
 * group and the stores, which pays for short blocks only. */
static LLVMValueRef form_of_many(product *p, const multiplying *x) {
  enum { LONG = 16, SHORT = 8 };
  LLVMValueRef single = i64(p, SINGLE), is_short = LLVMBuildICmp(p->b, LLVMIntSLE, x->block, i64(p, SHORT), "");
  LLVMValueRef narrow = LLVMBuildICmp(p->b, LLVMIntSLE, x->c.columns, i64(p, p->lanes), "");
  single = LLVMBuildSelect(p->b, narrow, i64(p, NARROW), single, "");
  LLVMValueRef pairs = LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 2), ""),
               quads = LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 4), "");
  LLVMValueRef odd = LLVMBuildTrunc(p->b, x->block, LLVMInt1TypeInContext(p->e.l->llvm), ""),
               eights = LLVMBuildAnd(p->b, LLVMBuildICmp(p->b, LLVMIntSGE, x->blocks, i64(p, 8), ""),
                                     LLVMBuildNot(p->b, odd, ""), "");
  if (!has_32_registers(p)) {
    LLVMValueRef packed = LLVMBuildNot(p->b, is_dim_set(p, 8), ""),
                 eight = LLVMBuildICmp(p->b, LLVMIntEQ, x->blocks, i64(p, EIGHT), "");
    eights = LLVMBuildAnd(p->b, eights, LLVMBuildAnd(p->b, packed, eight, ""), "");
    LLVMValueRef by_pairs = LLVMBuildAnd(p->b, pairs, is_short, ""),
                 short_form = LLVMBuildSelect(p->b, eights, i64(p, EIGHTS), i64(p, PAIRS), ""),
                 form = LLVMBuildSelect(p->b, by_pairs, short_form, i64(p, SPREAD), "");
    return LLVMBuildSelect(p->b, narrow, single, form, "");
  }
  LLVMValueRef is_long = LLVMBuildICmp(p->b, LLVMIntSGE, x->block, i64(p, LONG), ""),
               low = LLVMBuildAnd(p->b, quads, prefers_low_groups(p, x), "");
  is_long = LLVMBuildAnd(p->b, is_long, LLVMBuildNot(p->b, low, ""), "");
  LLVMValueRef most =
      LLVMBuildSelect(p->b, quads, i64(p, QUADS), LLVMBuildSelect(p->b, pairs, i64(p, PAIRS), single, ""), "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, eights, is_short, ""), i64(p, EIGHTS), most, "");
  most = LLVMBuildSelect(p->b, is_long, form_of_long(p, x, pairs), most, "");
  if (has_double(p)) most = LLVMBuildSelect(p->b, prefers_double(p, x), i64(p, DOUBLE), most, "");
  most = LLVMBuildSelect(p->b, narrow, i64(p, NARROW), most, "");
  return form_of_few_terms(p, x, most);
}

/* Chooses the form for the present number of rows. Few rows take a wide form if b is read in place, or STREAM if it has
 * columns enough, or TRANSPOSED if that b is transposed; all others take form_of_many's. */
LLVMValueRef msc_product_form(product *p, const multiplying *x, LLVMValueRef rows) {
  enum { MANY_COLUMNS = 64 };
  LLVMValueRef most = form_of_many(p, x);
  if (!reads_in_place(p)) return most;
  LLVMValueRef fewest = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, *msc_product_heights(p, WIDEST)), ""),
               few = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, *msc_product_heights(p, WIDE)), "");
  LLVMValueRef wide = LLVMBuildSelect(p->b, fewest, i64(p, WIDEST), i64(p, WIDE), "");
  if (!has_32_registers(p)) {
    LLVMValueRef many = LLVMBuildICmp(p->b, LLVMIntSGE, x->c.columns, i64(p, MANY_COLUMNS), "");
    few = LLVMBuildAnd(p->b, fewest, many, ""), wide = i64(p, STREAM);
  }
  LLVMValueRef transposed = LLVMBuildICmp(p->b, LLVMIntSLT, load_dim(p, 8), i64(p, 0), "");
  LLVMValueRef lies = is_dim_set(p, 8), one_group = LLVMBuildICmp(p->b, LLVMIntSLE, rows, i64(p, p->height), "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, lies, one_group, ""), i64(p, SINGLE), most, "");
  most = LLVMBuildSelect(p->b, LLVMBuildAnd(p->b, lies, few, ""), wide, most, "");
  return LLVMBuildSelect(p->b, transposed, i64(p, TRANSPOSED), most, "");
}
