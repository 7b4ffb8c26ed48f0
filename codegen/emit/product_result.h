/* product_result.h: sums of rows of a product in; elements of the result out: with a bias, rounded, some lanes only. */
#ifndef MSC_CODEGEN_EMIT_PRODUCT_RESULT_H
#define MSC_CODEGEN_EMIT_PRODUCT_RESULT_H

#include <math.h>

#include "codegen/emit/product.h"

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
