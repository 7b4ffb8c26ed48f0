/* product.h: what the kernels of matrix products share: the element types in; values and addresses of elements out. */
#ifndef MSC_CODEGEN_EMIT_PRODUCT_H
#define MSC_CODEGEN_EMIT_PRODUCT_H

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

/* product_parts.c */

/* Splits rows begin .. end - 1 of a, of f32, into parts at `room`, sixteen rows of `k` elements together; `room` has
 * place for the last sixteen even if some of them do not exist. */
void msc_product_split_rows(product *p, const filling *f, LLVMValueRef a, LLVMValueRef room, LLVMValueRef k,
                            LLVMValueRef begin, LLVMValueRef end);
void msc_product_split_transposed_rows(product *p, const filling *f, LLVMValueRef a, LLVMValueRef room, LLVMValueRef k,
                                       LLVMValueRef begin, LLVMValueRef end);

static inline LLVMValueRef is_dim_set(product *p, int i) {
  return LLVMBuildICmp(p->b, LLVMIntNE, load_dim(p, i), i64(p, 0), "");
}

static inline LLVMValueRef is_trait_set(product *p, int trait) {
  return LLVMBuildICmp(p->b, LLVMIntNE, LLVMBuildAnd(p->b, load_dim(p, 9), i64(p, trait), ""), i64(p, 0), "");
}

#endif
