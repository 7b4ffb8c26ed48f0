/* cuda_order.c: a kernel of ir/abi/builtin.h in; its code for a GPU out. Correct rather than fast: a scan runs along a
 * row in one thread; a sort counts, for every element, the elements that come before it; `unique` does so in one
 * block. */
#include "codegen/emit/cuda_builtin.h"

/* ---- scan: in f64 or i64, rounded once ---- */

static LLVMValueRef read_wide(gpu_builtin *o, msc_dtype d, LLVMValueRef p) {
  LLVMValueRef v = read_stored(o, d, p);
  LLVMTypeRef f64 = LLVMDoubleTypeInContext(o->e.l->llvm), i64 = LLVMInt64TypeInContext(o->e.l->llvm);
  if (!msc_is_float(d)) return LLVMBuildZExt(o->b, v, i64, "");
  v = msc_emit_widen(&o->e, v, d);
  return d == MSC_F64 ? v : LLVMBuildFPExt(o->b, v, f64, "");
}

static LLVMValueRef round_to_stored(gpu_builtin *o, msc_dtype d, LLVMValueRef v) {
  if (!msc_is_float(d)) return LLVMBuildTruncOrBitCast(o->b, v, msc_emit_stored_type(&o->e, d, 1), "");
  if (d != MSC_F64) v = LLVMBuildFPTrunc(o->b, v, LLVMFloatTypeInContext(o->e.l->llvm), "");
  return msc_emit_narrow(&o->e, v, d);
}

static LLVMValueRef combine(gpu_builtin *o, bool real, bool product, LLVMValueRef a, LLVMValueRef b) {
  if (real) return product ? LLVMBuildFMul(o->b, a, b, "") : LLVMBuildFAdd(o->b, a, b, "");
  return product ? mul_i64(o, a, b) : add_i64(o, a, b);
}

typedef struct {
  msc_dtype d;
  bool real;
  LLVMValueRef first, step, n, exclusive, start[2]; /* 0 and 1 */
} scanned_row;

static scanned_row find_scanned_row(gpu_builtin *o, LLVMValueRef item) {
  scanned_row r = {.d = (msc_dtype)o->l->dims[MSC_SCAN_DTYPE], .n = nth_dim(o, MSC_SCAN_N)};
  LLVMValueRef inner = nth_dim(o, MSC_SCAN_INNER), column, outer = divide_with_rest(o, item, inner, &column),
               reverse = is_nonzero(o, nth_dim(o, MSC_SCAN_REVERSE));
  LLVMValueRef first = add_i64(o, mul_i64(o, mul_i64(o, outer, r.n), inner), column),
               last = add_i64(o, first, mul_i64(o, LLVMBuildSub(o->b, r.n, num(o, 1), ""), inner));
  r.real = msc_is_float(r.d);
  r.first = pick_if(o, reverse, last, first), r.step = pick_if(o, reverse, LLVMBuildNeg(o->b, inner, ""), inner);
  r.exclusive = is_nonzero(o, nth_dim(o, MSC_SCAN_EXCLUSIVE));
  for (int i = 0; i < 2; i++) r.start[i] = r.real ? LLVMConstReal(LLVMDoubleTypeInContext(o->e.l->llvm), i) : num(o, i);
  return r;
}

static LLVMValueRef row_place(const gpu_builtin *o, const scanned_row *r, LLVMValueRef i) {
  return add_i64(o, r->first, mul_i64(o, i, r->step));
}

/* Emits y[i] = x[0] op .. op x[i], or with `exclusive` the same over all elements before i. */
static void emit_sums(gpu_builtin *o, const scanned_row *r, bool product, LLVMValueRef exclusive, LLVMValueRef y) {
  msc_ir_loop loop;
  LLVMValueRef all = r->start[product];
  msc_ir_loop_open(&o->e, &loop, num(o, 0), r->n, 1, 1, &all);
  LLVMValueRef at = row_place(o, r, loop.index),
               with = combine(o, r->real, product, all, read_wide(o, r->d, element_at(o, r->d, nth_buffer(o, 0), at)));
  LLVMBuildStore(o->b, round_to_stored(o, r->d, pick_if(o, exclusive, all, with)), element_at(o, r->d, y, at));
  all = with;
  msc_ir_loop_close(&o->e, &loop, &all);
}

/* Emits the gradient of a running product: dx[i] = P[i] S[i], with P[i] the product of all elements before i and S[i] =
 * dy[i] + x[i+1] S[i+1]. */
static void emit_product_slopes(gpu_builtin *o, const scanned_row *r) {
  msc_ir_loop loop;
  LLVMValueRef slope = r->start[0], yes = LLVMConstInt(LLVMInt1TypeInContext(o->e.l->llvm), 1, false);
  emit_sums(o, r, true, yes, nth_buffer(o, 2));
  msc_ir_loop_open(&o->e, &loop, num(o, 0), r->n, 1, 1, &slope);
  LLVMValueRef at = row_place(o, r, LLVMBuildSub(o->b, LLVMBuildSub(o->b, r->n, num(o, 1), ""), loop.index, ""));
  LLVMValueRef x = read_wide(o, r->d, element_at(o, r->d, nth_buffer(o, 0), at)),
               dy = read_wide(o, r->d, element_at(o, r->d, nth_buffer(o, 1), at)),
               to = element_at(o, r->d, nth_buffer(o, 2), at);
  LLVMValueRef here = pick_if(o, r->exclusive, slope, combine(o, r->real, false, slope, dy));
  LLVMBuildStore(o->b, round_to_stored(o, r->d, combine(o, r->real, true, read_wide(o, r->d, to), here)), to);
  LLVMValueRef next = combine(o, r->real, true, x, here);
  slope = pick_if(o, r->exclusive, combine(o, r->real, false, dy, next), next);
  msc_ir_loop_close(&o->e, &loop, &slope);
}

static void emit_scan(gpu_builtin *o, LLVMValueRef item) {
  scanned_row r = find_scanned_row(o, item);
  int64_t kind = o->l->dims[MSC_SCAN_KIND];
  if (kind == MSC_SCAN_PROD_GRAD) emit_product_slopes(o, &r);
  else emit_sums(o, &r, kind == MSC_SCAN_PROD, r.exclusive, nth_buffer(o, 1));
}

/* ---- sort: an item is an element; as many stand before it as it has places before its own ---- */

static LLVMValueRef compare_less(gpu_builtin *o, msc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  if (!msc_is_float(d))
    return LLVMBuildICmp(o->b, msc_dtype_class_of(d) == MSC_CLASS_INT ? LLVMIntSLT : LLVMIntULT, a, b, "");
  LLVMValueRef a_nan = LLVMBuildFCmp(o->b, LLVMRealUNO, a, a, ""), b_nan = LLVMBuildFCmp(o->b, LLVMRealUNO, b, b, "");
  return or_bits(o, LLVMBuildFCmp(o->b, LLVMRealOLT, a, b, ""), and_bits(o, b_nan, negate_bit(o, a_nan)));
}

static void emit_sort(gpu_builtin *o, LLVMValueRef item) {
  msc_dtype d = (msc_dtype)o->l->dims[MSC_SORT_DTYPE], index = (msc_dtype)o->l->dims[MSC_SORT_INDEX_DTYPE];
  LLVMValueRef n = nth_dim(o, MSC_SORT_N), inner = nth_dim(o, MSC_SORT_INNER), k = nth_dim(o, MSC_SORT_K),
               down = is_nonzero(o, nth_dim(o, MSC_SORT_DESCENDING)), i, column;
  LLVMValueRef row = divide_with_rest(o, item, n, &i), outer = divide_with_rest(o, row, inner, &column),
               before = num(o, 0);
  LLVMValueRef from = add_i64(o, mul_i64(o, mul_i64(o, outer, n), inner), column),
               to = add_i64(o, mul_i64(o, mul_i64(o, outer, k), inner), column);
  LLVMValueRef raw = read_stored(o, d, element_at(o, d, nth_buffer(o, 0), add_i64(o, from, mul_i64(o, i, inner)))),
               own = msc_emit_widen(&o->e, raw, d);
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, num(o, 0), n, 1, 1, &before);
  LLVMValueRef other =
      read_value(o, d, element_at(o, d, nth_buffer(o, 0), add_i64(o, from, mul_i64(o, loop.index, inner))));
  LLVMValueRef up = compare_less(o, d, other, own), over = compare_less(o, d, own, other),
               equal = negate_bit(o, or_bits(o, up, over));
  LLVMValueRef stands =
      or_bits(o, pick_if(o, down, over, up), and_bits(o, equal, LLVMBuildICmp(o->b, LLVMIntSLT, loop.index, i, "")));
  before = add_i64(o, before, LLVMBuildZExt(o->b, stands, LLVMInt64TypeInContext(o->e.l->llvm), ""));
  msc_ir_loop_close(&o->e, &loop, &before);
  LLVMValueRef at = add_i64(o, to, mul_i64(o, before, inner)),
               number = LLVMBuildTruncOrBitCast(o->b, i, msc_emit_stored_type(&o->e, index, 1), "");
  store_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, before, k, ""), 2, (LLVMValueRef[]){raw, number},
           (LLVMValueRef[]){element_at(o, d, nth_buffer(o, 1), at), element_at(o, index, nth_buffer(o, 2), at)});
}

/* ---- update: an item is an element of the result; the last position that names its row wins ---- */

static void emit_update(gpu_builtin *o, LLVMValueRef item) {
  msc_dtype d = (msc_dtype)o->l->dims[MSC_UPDATE_DTYPE], index = (msc_dtype)o->l->dims[MSC_UPDATE_INDEX_DTYPE];
  LLVMValueRef n = nth_dim(o, MSC_UPDATE_N), inner = nth_dim(o, MSC_UPDATE_INNER), count = nth_dim(o, MSC_UPDATE_NUM),
               column, r, last = num(o, -1);
  LLVMValueRef outer = divide_with_rest(o, divide_with_rest(o, item, inner, &column), n, &r),
               wanted = add_i64(o, r, nth_dim(o, MSC_UPDATE_START));
  LLVMValueRef fault = LLVMConstInt(LLVMInt32TypeInContext(o->e.l->llvm), MSC_FAULT_INDEX, false);
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, num(o, 0), count, 1, 1, &last);
  LLVMValueRef named = index_at(o, index, nth_buffer(o, 1), loop.index);
  last = pick_if(o, LLVMBuildICmp(o->b, LLVMIntEQ, named, wanted, ""), loop.index, last);
  store_if(o, LLVMBuildICmp(o->b, LLVMIntUGE, named, nth_dim(o, MSC_UPDATE_WHOLE), ""), 1, &fault,
           (LLVMValueRef[]){nth_buffer(o, 4)});
  msc_ir_loop_close(&o->e, &loop, &last);
  LLVMValueRef at = add_i64(o, mul_i64(o, add_i64(o, mul_i64(o, outer, count), last), inner), column);
  LLVMValueRef source = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, last, num(o, 0), ""),
                                element_at(o, d, nth_buffer(o, 0), item), element_at(o, d, nth_buffer(o, 2), at));
  LLVMBuildStore(o->b, read_stored(o, d, source), element_at(o, d, nth_buffer(o, 3), item));
}

/* ---- unique: one block.  A value is named by the first of the elements that have it ---- */

/* True if one of the elements before i equals element i. */
static LLVMValueRef is_repeated(gpu_builtin *o, msc_dtype d, LLVMValueRef i, LLVMValueRef own) {
  msc_ir_loop loop;
  LLVMValueRef found = LLVMConstInt(LLVMInt1TypeInContext(o->e.l->llvm), 0, false);
  msc_ir_loop_open(&o->e, &loop, num(o, 0), i, 1, 1, &found);
  LLVMValueRef other = read_value(o, d, element_at(o, d, nth_buffer(o, 0), loop.index));
  found = or_bits(o, found, negate_bit(o, or_bits(o, compare_less(o, d, other, own), compare_less(o, d, own, other))));
  msc_ir_loop_close(&o->e, &loop, &found);
  return found;
}

/* Emits a loop that counts the distinct values, whose first elements have a negative inverse[j] at this point, and how
 * many of these are less than `own`. */
static void count_first(gpu_builtin *o, msc_dtype d, msc_dtype index, LLVMValueRef own, LLVMValueRef *out_all,
                        LLVMValueRef *out_less) {
  msc_ir_loop loop;
  LLVMTypeRef i64 = LLVMInt64TypeInContext(o->e.l->llvm);
  LLVMValueRef count[2] = {num(o, 0), num(o, 0)};
  msc_ir_loop_open(&o->e, &loop, num(o, 0), nth_dim(o, MSC_UNIQUE_N), 1, 2, count);
  LLVMValueRef first = LLVMBuildICmp(o->b, LLVMIntSLT, index_at(o, index, nth_buffer(o, 2), loop.index), num(o, 0), "");
  LLVMValueRef before =
      and_bits(o, first, compare_less(o, d, read_value(o, d, element_at(o, d, nth_buffer(o, 0), loop.index)), own));
  count[0] = add_i64(o, count[0], LLVMBuildZExt(o->b, first, i64, "")),
  count[1] = add_i64(o, count[1], LLVMBuildZExt(o->b, before, i64, ""));
  msc_ir_loop_close(&o->e, &loop, count);
  *out_all = count[0], *out_less = count[1];
}

static void store_index(gpu_builtin *o, msc_dtype index, LLVMValueRef v, LLVMValueRef p) {
  LLVMBuildStore(o->b, LLVMBuildTruncOrBitCast(o->b, v, msc_emit_stored_type(&o->e, index, 1), ""), p);
}

/* Emits `unique` in three rounds with barriers between them. First inverse[i] is -1 at the first element of each value,
 * else 0. Then it is -1 - place at first elements and place at others, so that the sign still tells them apart while
 * others read it. At last it is place. */
static void emit_unique(gpu_builtin *o, LLVMValueRef thread) {
  msc_dtype d = (msc_dtype)o->l->dims[MSC_UNIQUE_DTYPE], index = (msc_dtype)o->l->dims[MSC_UNIQUE_INDEX_DTYPE];
  LLVMValueRef n = nth_dim(o, MSC_UNIQUE_N), all = num(o, 0), place_less;
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, thread, n, MSC_UNIQUE_THREADS, 0, NULL);
  LLVMValueRef repeated =
      is_repeated(o, d, loop.index, read_value(o, d, element_at(o, d, nth_buffer(o, 0), loop.index)));
  store_index(o, index, pick_if(o, repeated, num(o, 0), num(o, -1)),
              element_at(o, index, nth_buffer(o, 2), loop.index));
  msc_ir_loop_close(&o->e, &loop, NULL);
  msc_ir_call(&o->e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);

  msc_ir_loop_open(&o->e, &loop, thread, n, MSC_UNIQUE_THREADS, 1, &all);
  LLVMValueRef raw = read_stored(o, d, element_at(o, d, nth_buffer(o, 0), loop.index)),
               own = element_at(o, index, nth_buffer(o, 2), loop.index);
  LLVMValueRef first = LLVMBuildICmp(o->b, LLVMIntSLT, index_at(o, index, nth_buffer(o, 2), loop.index), num(o, 0), "");
  count_first(o, d, index, msc_emit_widen(&o->e, raw, d), &all, &place_less);
  store_index(o, index, pick_if(o, first, LLVMBuildSub(o->b, num(o, -1), place_less, ""), place_less), own);
  store_if(o, first, 1, &raw, (LLVMValueRef[]){element_at(o, d, nth_buffer(o, 1), place_less)});
  msc_ir_loop_close(&o->e, &loop, &all);
  msc_ir_call(&o->e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);

  msc_ir_loop_open(&o->e, &loop, thread, n, MSC_UNIQUE_THREADS, 0, NULL);
  LLVMValueRef named = index_at(o, index, nth_buffer(o, 2), loop.index);
  named = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, named, num(o, 0), ""), LLVMBuildSub(o->b, num(o, -1), named, ""),
                  named);
  store_index(o, index, named, element_at(o, index, nth_buffer(o, 2), loop.index));
  LLVMValueRef last = read_stored(o, d, element_at(o, d, nth_buffer(o, 1), LLVMBuildSub(o->b, all, num(o, 1), "")));
  store_if(o, LLVMBuildICmp(o->b, LLVMIntSGE, loop.index, all, ""), 1, &last,
           (LLVMValueRef[]){element_at(o, d, nth_buffer(o, 1), loop.index)});
  msc_ir_loop_close(&o->e, &loop, NULL);
  LLVMValueRef total = LLVMBuildTruncOrBitCast(o->b, all, msc_emit_stored_type(&o->e, index, 1), "");
  store_if(o, LLVMBuildICmp(o->b, LLVMIntEQ, thread, num(o, 0), ""), 1, &total, (LLVMValueRef[]){nth_buffer(o, 3)});
}

/* ---- the function ---- */

int msc_cuda_order_threads(const msc_builtin_launch *l) {
  return l->number == MSC_BUILTIN_UNIQUE ? MSC_UNIQUE_THREADS : MSC_ORDER_THREADS;
}

uint64_t msc_cuda_order_items(const msc_builtin_launch *l) {
  switch (l->number) {
    case MSC_BUILTIN_SORT: return l->extent * (uint64_t)l->dims[MSC_SORT_N];
    case MSC_BUILTIN_UPDATE: return l->extent * (uint64_t)(l->dims[MSC_UPDATE_N] * l->dims[MSC_UPDATE_INNER]);
    case MSC_BUILTIN_UNIQUE: return MSC_UNIQUE_THREADS;
    case MSC_BUILTIN_LAZY: return l->extent * (uint64_t)l->dims[MSC_LAZY_INNER];
    default: return l->extent;
  }
}

void msc_emit_cuda_order(msc_llvm *l, const msc_builtin_launch *launch, unsigned num_buffers, LLVMValueRef fn) {
  gpu_builtin o = {
      .e = {.l = l, .b = l->builder, .fn = fn}, .b = l->builder, .l = launch, .first_dim = num_buffers + 1};
  LLVMPositionBuilderAtEnd(l->builder, msc_ir_block(&o.e));
  LLVMValueRef item = own_item(&o);
  LLVMBasicBlockRef then = msc_ir_block(&o.e), after = msc_ir_block(&o.e);
  LLVMBuildCondBr(o.b, LLVMBuildICmp(o.b, LLVMIntSLT, item, LLVMGetParam(fn, num_buffers), ""), then, after);
  LLVMPositionBuilderAtEnd(o.b, then);
  if (launch->number == MSC_BUILTIN_SCAN) emit_scan(&o, item);
  else if (launch->number == MSC_BUILTIN_SORT) emit_sort(&o, item);
  else if (launch->number == MSC_BUILTIN_UNIQUE) emit_unique(&o, item);
  else if (launch->number == MSC_BUILTIN_LAZY) msc_emit_cuda_lazy(&o, item);
  else emit_update(&o, item);
  LLVMBuildBr(o.b, after);
  LLVMPositionBuilderAtEnd(o.b, after);
  LLVMBuildRetVoid(o.b);
}
