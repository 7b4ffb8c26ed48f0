/* product.h: what the kernels of matrix products share: the element types in; values and addresses of elements out. */
#ifndef MSC_CODEGEN_EMIT_PRODUCT_H
#define MSC_CODEGEN_EMIT_PRODUCT_H

#include <math.h>

#include "codegen/emit/build.h"

enum { VECTORS = MSC_PRODUCT_VECTORS /* of a row of a panel */ };

typedef struct {
  msc_emit e;
  LLVMBuilderRef b;
  LLVMTypeRef elem, vector;
  int lanes, width, height;
  int vectors;       /* vectors of a row of b whose sums are computed at once */
  int span;          /* columns whose sums are computed at once */
  int64_t bytes;     /* of an element */
  msc_dtype operand; /* the type of a and b: that of the sums, or narrower */
  LLVMTypeRef operand_elem, operand_vector;
  int64_t operand_bytes;
  bool pairs; /* an element of a panel is two terms of bf16, treated as one f32 */
} product;

static inline product product_of(msc_llvm *l, msc_dtype dtype, bool pairs, LLVMValueRef fn) {
  int64_t operand_bytes = msc_dtype_bytes(dtype);
  product p = {.e = {.l = l, .b = l->builder, .fn = fn},
               .b = l->builder,
               .operand = dtype,
               .operand_bytes = operand_bytes,
               .pairs = pairs,
               .vectors = VECTORS};
  p.bytes = msc_product_bytes(operand_bytes);
  p.width = msc_product_width(l, dtype), p.lanes = (int)msc_product_lanes(p.width), p.height = msc_product_height(l);
  p.span = p.width;
  p.elem = msc_emit_type(&p.e, dtype, 1), p.vector = msc_emit_type(&p.e, dtype, p.lanes);
  p.operand_elem = p.bytes == operand_bytes ? p.elem : LLVMInt16TypeInContext(l->llvm);
  p.operand_vector = p.bytes == operand_bytes ? p.vector : LLVMVectorType(p.operand_elem, (unsigned)p.lanes);
  LLVMPositionBuilderAtEnd(p.b, msc_ir_block(&p.e));
  return p;
}

static inline LLVMValueRef i64(product *p, int64_t v) { return msc_emit_int(&p->e, v); }
static inline LLVMValueRef nsw_add(product *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(p->b, a, b, "");
}
static inline LLVMValueRef nsw_mul(product *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWMul(p->b, a, b, "");
}
static inline LLVMValueRef nsw_sub(product *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWSub(p->b, a, b, "");
}
static inline LLVMValueRef least(product *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, a, b, ""), a, b, "");
}

static inline LLVMValueRef at(product *p, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildInBoundsGEP2(p->b, p->elem, base, &index, 1, "");
}

static inline LLVMValueRef load_vector(product *p, LLVMValueRef place) {
  LLVMValueRef v = LLVMBuildLoad2(p->b, p->vector, place, "");
  LLVMSetAlignment(v, (unsigned)p->bytes);
  return v;
}

static inline void store_vector(product *p, LLVMValueRef v, LLVMValueRef place) {
  LLVMSetAlignment(LLVMBuildStore(p->b, v, place), (unsigned)p->bytes);
}

static inline LLVMValueRef argument(product *p, unsigned from, LLVMTypeRef type, int i) {
  LLVMValueRef index = i64(p, i);
  return LLVMBuildLoad2(p->b, type, LLVMBuildInBoundsGEP2(p->b, type, LLVMGetParam(p->e.fn, from), &index, 1, ""), "");
}
static inline LLVMValueRef load_buffer(product *p, int i) {
  return argument(p, 0, LLVMPointerTypeInContext(p->e.l->llvm, 0), i);
}
static inline LLVMValueRef load_dim(product *p, int i) {
  return argument(p, 3, LLVMInt64TypeInContext(p->e.l->llvm), i);
}

/* Returns a mask, <lanes x i1>, of which lane i is set if i < count. */
static inline LLVMValueRef mask_below(product *p, LLVMValueRef count) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  LLVMValueRef k[64], most = i64(p, p->lanes);
  for (int i = 0; i < p->lanes; i++) k[i] = LLVMConstInt(i32, (unsigned)i, false);
  LLVMValueRef n = msc_emit_splat(&p->e, LLVMBuildTrunc(p->b, least(p, count, most), i32, ""), p->lanes);
  return LLVMBuildICmp(p->b, LLVMIntSLT, LLVMConstVector(k, (unsigned)p->lanes), n, "");
}

static inline LLVMValueRef load_masked_as(product *p, LLVMTypeRef vector, int64_t bytes, LLVMValueRef place,
                                          LLVMValueRef mask) {
  LLVMTypeRef types[2] = {vector, LLVMPointerTypeInContext(p->e.l->llvm, 0)};
  LLVMValueRef args[4] = {place, LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)bytes, false), mask,
                          LLVMConstNull(vector)};
  return msc_ir_call(&p->e, "llvm.masked.load", 2, types, 4, args);
}

static inline LLVMValueRef load_masked(product *p, LLVMValueRef place, LLVMValueRef mask) {
  return load_masked_as(p, p->vector, p->bytes, place, mask);
}

/* Returns the address of an element of a or b. */
static inline LLVMValueRef at_operand(product *p, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildInBoundsGEP2(p->b, p->operand_elem, base, &index, 1, "");
}

/* Loads a vector of a or b, as the type of the sums; mask NULL: all lanes. */
static inline LLVMValueRef load_operand(product *p, LLVMValueRef place, LLVMValueRef mask) {
  if (mask)
    return msc_emit_widen(&p->e, load_masked_as(p, p->operand_vector, p->operand_bytes, place, mask), p->operand);
  LLVMValueRef v = LLVMBuildLoad2(p->b, p->operand_vector, place, "");
  LLVMSetAlignment(v, (unsigned)p->operand_bytes);
  return msc_emit_widen(&p->e, v, p->operand);
}

static inline void store_masked(product *p, LLVMValueRef v, LLVMValueRef place, LLVMValueRef mask) {
  LLVMTypeRef types[2] = {p->vector, LLVMPointerTypeInContext(p->e.l->llvm, 0)};
  LLVMValueRef args[4] = {v, place, LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->bytes, false),
                          mask};
  msc_ir_call(&p->e, "llvm.masked.store", 2, types, 4, args);
}

/* How the terms of a block lie in panels and packed rows of pairs: zeros fill the last pair and the last chunk. */
typedef struct {
  LLVMValueRef block, units, chunk; /* terms of a block; pairs of all its chunks; pairs of one chunk */
  LLVMValueRef filled;              /* i1: true if there are such zeros */
} filling;

/* Computes how blocks are filled, by the rules of ir/abi/product.h. */
static inline filling filling_of(product *p, LLVMValueRef k, LLVMValueRef blocks) {
  LLVMValueRef one = i64(p, 1), block = LLVMBuildUDiv(p->b, k, blocks, ""),
               pairs = LLVMBuildLShr(p->b, nsw_add(p, block, one), one, "");
  LLVMValueRef chunks =
      LLVMBuildUDiv(p->b, nsw_add(p, pairs, i64(p, MSC_PRODUCT_CHUNK - 1)), i64(p, MSC_PRODUCT_CHUNK), "");
  LLVMValueRef none = LLVMBuildICmp(p->b, LLVMIntEQ, chunks, i64(p, 0), ""),
               chunk = LLVMBuildUDiv(p->b, nsw_sub(p, nsw_add(p, pairs, chunks), one),
                                     LLVMBuildSelect(p->b, none, one, chunks, ""), "");
  filling f = {.block = block, .units = nsw_mul(p, chunks, chunk)};
  f.chunk = LLVMBuildSelect(p->b, none, one, chunk, "");
  f.filled = LLVMBuildICmp(p->b, LLVMIntNE, nsw_mul(p, f.units, i64(p, 2)), block, "");
  return f;
}

/* Where two neighbouring terms begin, in elements, and a mask of the bits of those that exist; NULL: both exist. */
typedef struct {
  LLVMValueRef first, second, keep;
} pair_place;

/* Finds the terms of a pair by its number among all pairs; `step`: elements from term to term. */
static inline pair_place find_pair(product *p, const filling *f, LLVMValueRef number, LLVMValueRef step) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  LLVMValueRef block = LLVMBuildUDiv(p->b, number, f->units, ""), none = i64(p, 0), one = i64(p, 1),
               in_block = LLVMBuildShl(p->b, nsw_sub(p, number, nsw_mul(p, block, f->units)), one, "");
  LLVMValueRef term = nsw_add(p, nsw_mul(p, block, f->block), in_block),
               both = LLVMBuildICmp(p->b, LLVMIntSLT, nsw_add(p, in_block, one), f->block, ""),
               any = LLVMBuildICmp(p->b, LLVMIntSLT, in_block, f->block, "");
  LLVMValueRef half = LLVMConstInt(i32, 0xffff, false), whole = LLVMConstInt(i32, UINT32_MAX, false);
  pair_place place = {
      .first = nsw_mul(p, LLVMBuildSelect(p->b, any, term, none, ""), step),
      .second = nsw_mul(p, LLVMBuildSelect(p->b, both, nsw_add(p, term, one), none, ""), step),
  };
  place.keep = LLVMBuildSelect(p->b, any, half, LLVMConstInt(i32, 0, false), "");
  place.keep = LLVMBuildSelect(p->b, both, whole, place.keep, "");
  return place;
}

/* Finds the terms of a pair in blocks that no zeros fill. */
static inline pair_place find_even_pair(product *p, LLVMValueRef number, LLVMValueRef step) {
  LLVMValueRef first = nsw_mul(p, LLVMBuildShl(p->b, number, i64(p, 1), ""), step);
  return (pair_place){.first = first, .second = nsw_add(p, first, step)};
}

/* Loads the two terms of a pair for as many neighbouring elements as a vector has, interleaved; `base`: the column of
 * the first element. */
static inline LLVMValueRef load_pairs_of_rows(product *p, LLVMValueRef base, const pair_place *place,
                                              LLVMValueRef mask) {
  LLVMTypeRef wide = LLVMVectorType(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->lanes);
  LLVMValueRef half[2], shift[64];
  for (int i = 0; i < p->lanes; i++) shift[i] = LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), 16, false);
  for (int i = 0; i < 2; i++) {
    LLVMValueRef from = at_operand(p, base, i ? place->second : place->first);
    if (mask) {
      half[i] = load_masked_as(p, p->operand_vector, p->operand_bytes, from, mask);
    } else {
      half[i] = LLVMBuildLoad2(p->b, p->operand_vector, from, "");
      LLVMSetAlignment(half[i], (unsigned)p->operand_bytes);
    }
    half[i] = LLVMBuildZExt(p->b, half[i], wide, "");
  }
  half[1] = LLVMBuildShl(p->b, half[1], LLVMConstVector(shift, (unsigned)p->lanes), "");
  LLVMValueRef pairs = LLVMBuildOr(p->b, half[0], half[1], "");
  if (place->keep) pairs = LLVMBuildAnd(p->b, pairs, msc_emit_splat(&p->e, place->keep, p->lanes), "");
  return LLVMBuildBitCast(p->b, pairs, p->vector, "");
}

/* Loads pairs of neighbouring terms of a row, `left` terms at most, and zeros behind them. */
static inline LLVMValueRef load_filled(product *p, LLVMValueRef place, LLVMValueRef left) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(p->e.l->llvm),
              terms = LLVMVectorType(p->operand_elem, 2 * (unsigned)p->lanes);
  LLVMValueRef number[64], none = i64(p, 0);
  for (int i = 0; i < 2 * p->lanes; i++) number[i] = LLVMConstInt(i32, (unsigned)i, false);
  left = least(p, LLVMBuildSelect(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, left, none, ""), none, left, ""), i64(p, 64));
  LLVMValueRef count = msc_emit_splat(&p->e, LLVMBuildTrunc(p->b, left, i32, ""), 2 * p->lanes),
               mask = LLVMBuildICmp(p->b, LLVMIntSLT, LLVMConstVector(number, 2 * (unsigned)p->lanes), count, "");
  return LLVMBuildBitCast(p->b, load_masked_as(p, terms, p->operand_bytes, place, mask), p->vector, "");
}

/* Loads elements of a row along its terms; place: an address in the operand. */
static inline LLVMValueRef load_along(product *p, LLVMValueRef place, LLVMValueRef mask) {
  if (!p->pairs) return load_operand(p, place, mask);
  if (mask) return load_masked_as(p, p->vector, p->operand_bytes, place, mask);
  LLVMValueRef v = LLVMBuildLoad2(p->b, p->vector, place, "");
  LLVMSetAlignment(v, (unsigned)p->operand_bytes);
  return v;
}

/* Finds where a term, or a pair of terms, begins; `step`: elements from term to term. */
static inline pair_place find_terms(product *p, const filling *f, LLVMValueRef number, LLVMValueRef step) {
  return p->pairs ? find_pair(p, f, number, step) : (pair_place){.first = nsw_mul(p, number, step)};
}

/* Loads elements of neighbouring rows. */
static inline LLVMValueRef load_across(product *p, LLVMValueRef base, const pair_place *place, LLVMValueRef mask) {
  return p->pairs ? load_pairs_of_rows(p, base, place, mask) : load_operand(p, at_operand(p, base, place->first), mask);
}

/* Returns how many elements of a row that is read in place hold `terms` terms. */
static inline LLVMValueRef units_of(product *p, LLVMValueRef terms) {
  return p->pairs ? LLVMBuildSDiv(p->b, terms, i64(p, 2), "") : terms;
}

/* Returns how many elements of a panel hold all terms. */
static inline LLVMValueRef units_of_all(product *p, const filling *f, LLVMValueRef k, LLVMValueRef blocks) {
  return p->pairs ? nsw_mul(p, blocks, f->units) : k;
}

/* Packs rows of a in their order, in pairs, with zeros behind the terms of each block. A vector may write behind its
 * block, where the next block is written later, or none. */
static inline void fill_rows(product *p, const filling *f, LLVMValueRef a, LLVMValueRef room, LLVMValueRef k,
                             LLVMValueRef begin, LLVMValueRef end) {
  msc_ir_loop rows, blocks, pairs;
  LLVMValueRef step = load_dim(p, 2), none = i64(p, 0);
  msc_ir_loop_open(&p->e, &rows, begin, end, 1, 0, NULL);
  LLVMValueRef from = at_operand(p, a, nsw_mul(p, rows.index, step)),
               to = at(p, room, nsw_mul(p, nsw_sub(p, rows.index, begin), k));
  msc_ir_loop_open(&p->e, &blocks, none, load_dim(p, 4), 1, 0, NULL);
  LLVMValueRef first = at_operand(p, from, nsw_mul(p, blocks.index, f->block)),
               place = at(p, to, nsw_mul(p, blocks.index, f->units));
  msc_ir_loop_open(&p->e, &pairs, none, f->units, p->lanes, 0, NULL);
  LLVMValueRef term = LLVMBuildShl(p->b, pairs.index, i64(p, 1), "");
  store_vector(p, load_filled(p, at_operand(p, first, term), nsw_sub(p, f->block, term)), at(p, place, pairs.index));
  msc_ir_loop_close(&p->e, &pairs, NULL);
  msc_ir_loop_close(&p->e, &blocks, NULL);
  msc_ir_loop_close(&p->e, &rows, NULL);
}

static inline LLVMValueRef is_dim_set(product *p, int i) {
  return LLVMBuildICmp(p->b, LLVMIntNE, load_dim(p, i), i64(p, 0), "");
}

static inline LLVMValueRef is_trait_set(product *p, int trait) {
  return LLVMBuildICmp(p->b, LLVMIntNE, LLVMBuildAnd(p->b, load_dim(p, 9), i64(p, trait), ""), i64(p, 0), "");
}

/* Where sums are stored, and the bias that is added before. A bias has an element per column, or with step_bias a row
 * of elements per row: c itself is such a bias when the product is added to it. Without a bias zeros are added, read
 * from one place for all columns. Sums that are rounded to the type of a and b have no bias. */
typedef struct {
  LLVMValueRef c, step_c, columns;
  LLVMValueRef bias;
  LLVMValueRef has_bias, step_bias; /* i64, 0 or 1; elements from row to row, 0: one row serves all */
  LLVMValueRef floor;               /* of what is stored */
  LLVMValueRef rounds, kept;        /* i1: true if sums are rounded; room for those of a group; NULL: they never are */
} result;

enum { KEPT = MSC_PRODUCT_MAX_HEIGHT * VECTORS };

static inline result result_of(product *p) {
  LLVMValueRef zeros = msc_ir_stack(&p->e, p->vector, 1), given = load_buffer(p, 4),
               has = LLVMBuildIsNotNull(p->b, given, ""), zero = LLVMConstReal(p->elem, 0),
               lowest = LLVMConstReal(p->elem, -(double)INFINITY);
  result y = {.c = load_buffer(p, 2), .step_c = load_dim(p, 3), .columns = load_dim(p, 0), .step_bias = load_dim(p, 7)};
  store_vector(p, LLVMConstNull(p->vector), zeros);
  y.bias = LLVMBuildSelect(p->b, has, given, zeros, "");
  y.has_bias = LLVMBuildZExt(p->b, has, LLVMInt64TypeInContext(p->e.l->llvm), "");
  y.floor = msc_emit_splat(&p->e, LLVMBuildSelect(p->b, is_dim_set(p, 6), zero, lowest, ""), p->lanes);
  if (p->operand_bytes == p->bytes) return y;
  y.rounds = is_trait_set(p, MSC_PRODUCT_ROUNDS), y.kept = msc_ir_stack(&p->e, p->vector, KEPT);
  return y;
}

static inline LLVMValueRef finish_sum(product *p, const result *y, LLVMValueRef v, LLVMValueRef bias) {
  v = LLVMBuildFAdd(p->b, v, bias, "");
  return LLVMBuildSelect(p->b, LLVMBuildFCmp(p->b, LLVMRealOLT, v, y->floor, ""), y->floor, v, "");
}

/* Hides from LLVM where a pointer or a number comes from. Otherwise it splits sums that the machine's addressing
 * computes for free, and spills the parts. */
static inline LLVMValueRef hide(product *p, LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v), fn = LLVMFunctionType(type, &type, 1, false);
  LLVMValueRef nothing = LLVMGetInlineAsm(fn, "", 0, "=r,0", 4, false, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(p->b, fn, nothing, &v, 1, "");
}

static inline LLVMValueRef step_on(product *p, LLVMValueRef pointer, LLVMValueRef elems) {
  return hide(p, at(p, pointer, elems));
}

/* Why a line is prefetched, which decides into which cache: TO_READ and TO_WRITE the nearest, TO_READ_LATER the one
 * behind it. */
typedef enum { TO_READ, TO_WRITE, TO_READ_LATER } fetching;

/* Prefetches a line of memory for the given purpose. */
static inline void fetch(product *p, LLVMValueRef place, fetching what) {
  enum { DATA = 1 };
  LLVMTypeRef pointer = LLVMPointerTypeInContext(p->e.l->llvm, 0), i32 = LLVMInt32TypeInContext(p->e.l->llvm);
  LLVMValueRef arg[4] = {place, LLVMConstInt(i32, what == TO_WRITE, false),
                         LLVMConstInt(i32, what == TO_READ_LATER ? 2 : 3, false), LLVMConstInt(i32, DATA, false)};
  msc_ir_call(&p->e, "llvm.prefetch", 1, &pointer, 4, arg);
}

/* Stores `height` rows of sums of one panel's columns. mask[v]: lanes of vector v to store; or all masks are NULL.
 * Pointers go from row to row: otherwise LLVM keeps the address of each row on the stack. */
static inline void store_rows(product *p, const result *y, int height, LLVMValueRef row, LLVMValueRef column,
                              const LLVMValueRef *mask, const LLVMValueRef *sum) {
  enum { MOST = 4 * VECTORS };
  LLVMValueRef bias[MOST], c = hide(p, at(p, y->c, nsw_add(p, nsw_mul(p, row, y->step_c), column)));
  for (int v = 0; v < p->vectors; v++) {
    LLVMValueRef place = nsw_mul(p, nsw_add(p, column, i64(p, v * p->lanes)), y->has_bias);
    bias[v] = hide(p, at(p, y->bias, nsw_add(p, nsw_mul(p, row, y->step_bias), place)));
  }
  for (int r = 0; r < height; r++) {
    for (int v = 0; v < p->vectors; v++) {
      LLVMValueRef to = at(p, c, i64(p, v * p->lanes)),
                   add = mask[v] ? load_masked(p, bias[v], mask[v]) : load_vector(p, bias[v]),
                   done_sum = finish_sum(p, y, sum[r * p->vectors + v], add);
      if (mask[v]) store_masked(p, done_sum, to, mask[v]);
      else store_vector(p, done_sum, to);
      if (r + 1 < height) bias[v] = step_on(p, bias[v], y->step_bias);
    }
    if (r + 1 < height) c = step_on(p, c, y->step_c);
  }
}

/* Returns the address of an element of a result that is rounded. */
static inline LLVMValueRef at_rounded(product *p, const result *y, LLVMValueRef row, LLVMValueRef column) {
  return at_operand(p, y->c, nsw_add(p, nsw_mul(p, row, y->step_c), column));
}

static inline void store_rounded_vector(product *p, LLVMValueRef v, LLVMValueRef place) {
  LLVMSetAlignment(LLVMBuildStore(p->b, v, place), (unsigned)p->operand_bytes);
}

/* Rounds and stores sums in `kept`, row by row: any numbers, of any columns. */
static inline void store_kept(product *p, const result *y, int height, LLVMValueRef row, LLVMValueRef column) {
  msc_ir_loop rows;
  LLVMTypeRef types[2] = {p->operand_vector, LLVMPointerTypeInContext(p->e.l->llvm, 0)};
  LLVMValueRef left = nsw_sub(p, y->columns, column), mask[VECTORS];
  for (int v = 0; v < p->vectors; v++) mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  msc_ir_loop_open(&p->e, &rows, i64(p, 0), i64(p, height), 1, 0, NULL);
  LLVMValueRef from = at(p, y->kept, nsw_mul(p, rows.index, i64(p, p->vectors * p->lanes))),
               to = at_rounded(p, y, nsw_add(p, row, rows.index), column), rounded[VECTORS];
  for (int v = 0; v < p->vectors; v++)
    rounded[v] = msc_emit_narrow(&p->e, load_vector(p, at(p, from, i64(p, v * p->lanes))), p->operand);
  LLVMBasicBlockRef part = msc_ir_block(&p->e), whole = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, p->span), ""), part, whole);
  LLVMPositionBuilderAtEnd(p->b, whole);
  for (int v = 0; v < p->vectors; v++) store_rounded_vector(p, rounded[v], at_operand(p, to, i64(p, v * p->lanes)));
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, part);
  LLVMValueRef bytes = LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), (unsigned)p->operand_bytes, false);
  for (int v = 0; v < p->vectors; v++)
    msc_ir_call(&p->e, "llvm.masked.store", 2, types, 4,
                (LLVMValueRef[]){rounded[v], at_operand(p, to, i64(p, v * p->lanes)), bytes, mask[v]});
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
  msc_ir_loop_close(&p->e, &rows, NULL);
}

/* Returns true, i1, if one of the sums is so small that vcvtneps2bf16 would make zero of it. */
static inline LLVMValueRef any_subnormal(product *p, int num, const LLVMValueRef *sum) {
  enum { SUBNORMAL = 32 };
  LLVMTypeRef i16 = LLVMInt16TypeInContext(p->e.l->llvm);
  LLVMValueRef args[2] = {NULL, LLVMConstInt(LLVMInt32TypeInContext(p->e.l->llvm), SUBNORMAL, false)}, any = NULL;
  for (int i = 0; i < num; i++) {
    args[0] = sum[i];
    LLVMValueRef is = msc_ir_call(&p->e, "llvm.x86.avx512.fpclass.ps.512", 0, NULL, 2, args);
    any = any ? LLVMBuildOr(p->b, any, is, "") : is;
  }
  return LLVMBuildICmp(p->b, LLVMIntNE, LLVMBuildBitCast(p->b, any, i16, ""), LLVMConstInt(i16, 0, false), "");
}

/* Stores `height` rows of sums rounded to the type of a and b. Where vdpbf16ps made them, an instruction like it rounds
 * those of whole panels; it rounds as msc_emit_narrow does, but for subnormal numbers. */
static inline void store_rounded(product *p, const result *y, int height, LLVMValueRef row, LLVMValueRef column,
                                 const LLVMValueRef *sum) {
  LLVMValueRef done_sum[KEPT], zero = LLVMConstNull(p->vector);
  LLVMBasicBlockRef done = msc_ir_block(&p->e);
  int num = height * p->vectors;
  for (int i = 0; i < num; i++) done_sum[i] = finish_sum(p, y, sum[i], zero);
  if (p->pairs) {
    LLVMBasicBlockRef at_once = msc_ir_block(&p->e), one_by_one = msc_ir_block(&p->e);
    LLVMValueRef left = nsw_sub(p, y->columns, column),
                 part = LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, p->span), "");
    LLVMBuildCondBr(p->b, LLVMBuildOr(p->b, part, any_subnormal(p, num, done_sum), ""), one_by_one, at_once);
    LLVMPositionBuilderAtEnd(p->b, at_once);
    LLVMValueRef c = hide(p, at_rounded(p, y, row, column));
    for (int r = 0; r < height; r++) {
      for (int v = 0; v < p->vectors; v++) {
        LLVMValueRef *one = &done_sum[r * p->vectors + v],
                     rounded = msc_ir_call(&p->e, "llvm.x86.avx512bf16.cvtneps2bf16.512", 0, NULL, 1, one);
        store_rounded_vector(p, rounded, at_operand(p, c, i64(p, v * p->lanes)));
      }
      if (r + 1 < height) c = hide(p, at_operand(p, c, y->step_c));
    }
    LLVMBuildBr(p->b, done);
    LLVMPositionBuilderAtEnd(p->b, one_by_one);
  }
  for (int i = 0; i < num; i++) store_vector(p, done_sum[i], at(p, y->kept, i64(p, i * p->lanes)));
  store_kept(p, y, height, row, column);
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
}

/* Stores `height` rows of sums, of those columns of one panel that the result has. */
static inline void store_sums(product *p, const result *y, int height, LLVMValueRef row, LLVMValueRef column,
                              const LLVMValueRef *sum) {
  LLVMBasicBlockRef part = msc_ir_block(&p->e), whole = msc_ir_block(&p->e), done = msc_ir_block(&p->e);
  LLVMValueRef left = nsw_sub(p, y->columns, column), mask[4 * VECTORS] = {NULL};
  if (y->rounds) {
    LLVMBasicBlockRef rounded = msc_ir_block(&p->e), as_they_are = msc_ir_block(&p->e);
    LLVMBuildCondBr(p->b, y->rounds, rounded, as_they_are);
    LLVMPositionBuilderAtEnd(p->b, rounded);
    store_rounded(p, y, height, row, column, sum);
    LLVMBuildBr(p->b, done);
    LLVMPositionBuilderAtEnd(p->b, as_they_are);
  }
  LLVMBuildCondBr(p->b, LLVMBuildICmp(p->b, LLVMIntSLT, left, i64(p, p->span), ""), part, whole);
  LLVMPositionBuilderAtEnd(p->b, whole);
  store_rows(p, y, height, row, column, mask, sum);
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, part);
  for (int v = 0; v < p->vectors; v++) mask[v] = mask_below(p, nsw_sub(p, left, i64(p, v * p->lanes)));
  store_rows(p, y, height, row, column, mask, sum);
  LLVMBuildBr(p->b, done);
  LLVMPositionBuilderAtEnd(p->b, done);
}

#endif
