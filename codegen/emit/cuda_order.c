/* cuda_order.c: a builtin of ir/abi/builtin.h in; its launches on a GPU, and their code, out. A sort counts, for every
 * element of a run, the elements that come before it, and merges runs in pairs by searching each element in the other
 * run; `unique` counts, in one block, what was sorted so; of an update each position claims its row. A scan is correct
 * rather than fast: it runs along a row in one thread. */
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

/* Elements of a row and their indices, in the results or in working memory. */
typedef struct {
  LLVMValueRef values, indices;
} sorted_set;

/* An element of a row, and the run that it is in. */
typedef struct {
  msc_dtype d, index;
  LLVMValueRef i, run, begin; /* its place in the row; the number of its run, and where that begins */
  LLVMValueRef row, n, inner; /* where the row begins; its length; from one element to the next */
  LLVMValueRef down;          /* the largest first */
} sorted_item;

static sorted_item find_sorted_item(gpu_builtin *o, LLVMValueRef item) {
  sorted_item z = {.d = (msc_dtype)o->l->dims[MSC_SORT_DTYPE], .index = (msc_dtype)o->l->dims[MSC_SORT_INDEX_DTYPE]};
  LLVMValueRef length = nth_dim(o, MSC_GPU_SORT_RUN), column;
  z.n = nth_dim(o, MSC_SORT_N), z.inner = nth_dim(o, MSC_SORT_INNER);
  LLVMValueRef outer = divide_with_rest(o, divide_with_rest(o, item, z.n, &z.i), z.inner, &column);
  z.row = add_i64(o, mul_i64(o, mul_i64(o, outer, z.n), z.inner), column);
  z.run = LLVMBuildUDiv(o->b, z.i, length, ""), z.begin = mul_i64(o, z.run, length);
  z.down = is_nonzero(o, nth_dim(o, MSC_SORT_DESCENDING));
  return z;
}

/* Returns the place of element i of the item's row, in an array of whole rows. */
static LLVMValueRef sorted_place(gpu_builtin *o, const sorted_item *z, LLVMValueRef i) {
  return add_i64(o, z->row, mul_i64(o, i, z->inner));
}

/* Does element a stand before b, if they differ? */
static LLVMValueRef stands_before(gpu_builtin *o, const sorted_item *z, LLVMValueRef a, LLVMValueRef b) {
  return pick_if(o, z->down, compare_less(o, z->d, b, a), compare_less(o, z->d, a, b));
}

static sorted_set find_set(gpu_builtin *o, int dim) {
  LLVMTypeRef bytes = LLVMInt8TypeInContext(o->e.l->llvm);
  LLVMValueRef at = nth_dim(o, dim), apart = nth_dim(o, MSC_GPU_SORT_INDICES),
               is_result = LLVMBuildICmp(o->b, LLVMIntSLT, at, num(o, 0), "");
  LLVMValueRef values = LLVMBuildGEP2(o->b, bytes, nth_buffer(o, 3), &at, 1, "");
  return (sorted_set){pick_if(o, is_result, nth_buffer(o, 1), values),
                      pick_if(o, is_result, nth_buffer(o, 2), LLVMBuildGEP2(o->b, bytes, values, &apart, 1, ""))};
}

/* Stores an element and its index at place `to` of its row, if that is one of the k that are kept. */
static void store_sorted(gpu_builtin *o, const sorted_item *z, LLVMValueRef to, LLVMValueRef raw, LLVMValueRef number) {
  sorted_set set = find_set(o, MSC_GPU_SORT_TO);
  LLVMValueRef k = nth_dim(o, MSC_SORT_K), column, outer = divide_with_rest(o, z->row, z->inner, &column);
  outer = mul_i64(o, LLVMBuildUDiv(o->b, outer, z->n, ""), mul_i64(o, k, z->inner));
  LLVMValueRef at = add_i64(o, add_i64(o, outer, column), mul_i64(o, to, z->inner));
  store_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, to, k, ""), 2, (LLVMValueRef[]){raw, number},
           (LLVMValueRef[]){element_at(o, z->d, set.values, at), element_at(o, z->index, set.indices, at)});
}

/* Puts the elements of x in order inside their runs. */
static void emit_sort(gpu_builtin *o, LLVMValueRef item) {
  sorted_item z = find_sorted_item(o, item);
  LLVMValueRef raw = read_stored(o, z.d, element_at(o, z.d, nth_buffer(o, 0), sorted_place(o, &z, z.i))),
               own = msc_emit_widen(&o->e, raw, z.d), to = z.begin, end = add_i64(o, to, nth_dim(o, MSC_GPU_SORT_RUN));
  end = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, end, z.n, ""), end, z.n);
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, z.begin, end, 1, 1, &to);
  LLVMValueRef other = read_value(o, z.d, element_at(o, z.d, nth_buffer(o, 0), sorted_place(o, &z, loop.index)));
  LLVMValueRef before = stands_before(o, &z, other, own),
               equal = negate_bit(o, or_bits(o, before, stands_before(o, &z, own, other))),
               stands = or_bits(o, before, and_bits(o, equal, LLVMBuildICmp(o->b, LLVMIntSLT, loop.index, z.i, "")));
  to = add_i64(o, to, LLVMBuildZExt(o->b, stands, LLVMInt64TypeInContext(o->e.l->llvm), ""));
  msc_ir_loop_close(&o->e, &loop, &to);
  store_sorted(o, &z, to, raw, LLVMBuildTruncOrBitCast(o->b, z.i, msc_emit_stored_type(&o->e, z.index, 1), ""));
}

/* Merges runs 2r and 2r + 1: an element is as far from the begin of both as it is from that of its own run and as many
 * elements of the other run stand before it, which a search by halves finds. Of equal ones those of run 2r do. */
static void emit_merge(gpu_builtin *o, LLVMValueRef item) {
  sorted_item z = find_sorted_item(o, item);
  sorted_set from = find_set(o, MSC_GPU_SORT_FROM);
  LLVMValueRef length = nth_dim(o, MSC_GPU_SORT_RUN), one = num(o, 1), at = sorted_place(o, &z, z.i),
               raw = read_stored(o, z.d, element_at(o, z.d, from.values, at)), own = msc_emit_widen(&o->e, raw, z.d),
               is_second = is_nonzero(o, and_bits(o, z.run, one));
  LLVMValueRef first = mul_i64(o, and_bits(o, z.run, num(o, -2)), length),
               other = pick_if(o, is_second, first, add_i64(o, first, length)), end = add_i64(o, other, length),
               range[2] = {other};
  range[1] = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, end, z.n, ""), end, z.n);
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, num(o, 0), nth_dim(o, MSC_GPU_SORT_STEPS), 1, 2, range);
  LLVMValueRef open = LLVMBuildICmp(o->b, LLVMIntSLT, range[0], range[1], ""),
               middle = LLVMBuildLShr(o->b, add_i64(o, range[0], range[1]), one, "");
  LLVMValueRef its =
      read_value(o, z.d, element_at(o, z.d, from.values, sorted_place(o, &z, pick_if(o, open, middle, z.i))));
  LLVMValueRef before =
      pick_if(o, is_second, negate_bit(o, stands_before(o, &z, own, its)), stands_before(o, &z, its, own));
  range[0] = pick_if(o, and_bits(o, open, before), add_i64(o, middle, one), range[0]);
  range[1] = pick_if(o, and_bits(o, open, negate_bit(o, before)), middle, range[1]);
  msc_ir_loop_close(&o->e, &loop, range);
  LLVMValueRef passed = LLVMBuildSub(o->b, range[0], other, ""), ahead = LLVMBuildSub(o->b, z.i, z.begin, "");
  passed = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSGT, passed, num(o, 0), ""), passed, num(o, 0));
  store_sorted(o, &z, add_i64(o, first, add_i64(o, ahead, passed)), raw,
               read_stored(o, z.index, element_at(o, z.index, from.indices, at)));
}

/* ---- update: the last position that names a row wins ----
 *
 * In three launches: the claims of all rows are cleared, each position claims its row, and each element of the result
 * is copied from the position that has its row, or from x. */

typedef struct {
  msc_dtype d, index;
  LLVMValueRef claims, n, inner, count; /* in working memory: the last position of each row, an i64; -1: none */
} row_update;

static row_update find_update(gpu_builtin *o) {
  const int64_t *dims = o->l->dims;
  return (row_update){.d = (msc_dtype)dims[MSC_UPDATE_DTYPE],
                      .index = (msc_dtype)dims[MSC_UPDATE_INDEX_DTYPE],
                      .claims = nth_buffer(o, 4),
                      .n = nth_dim(o, MSC_UPDATE_N),
                      .inner = nth_dim(o, MSC_UPDATE_INNER),
                      .count = nth_dim(o, MSC_UPDATE_NUM)};
}

static void clear_claim(gpu_builtin *o, LLVMValueRef row) {
  row_update u = find_update(o);
  LLVMBuildStore(o->b, num(o, -1), element_at(o, MSC_I64, u.claims, row));
}

/* The row of the position notes it, unless a later one has; an index that is no row is reported. */
static void claim_row(gpu_builtin *o, LLVMValueRef position) {
  row_update u = find_update(o);
  LLVMValueRef named = index_at(o, u.index, nth_buffer(o, 1), position),
               row = LLVMBuildSub(o->b, named, nth_dim(o, MSC_UPDATE_START), "");
  LLVMValueRef fault = LLVMConstInt(LLVMInt32TypeInContext(o->e.l->llvm), MSC_FAULT_INDEX, false);
  store_if(o, LLVMBuildICmp(o->b, LLVMIntUGE, named, nth_dim(o, MSC_UPDATE_WHOLE), ""), 1, &fault,
           (LLVMValueRef[]){nth_buffer(o, 5)});
  LLVMBasicBlockRef then = msc_ir_block(&o->e), after = msc_ir_block(&o->e);
  LLVMBuildCondBr(o->b, LLVMBuildICmp(o->b, LLVMIntULT, row, u.n, ""), then, after);
  LLVMPositionBuilderAtEnd(o->b, then);
  LLVMBuildAtomicRMW(o->b, LLVMAtomicRMWBinOpMax, element_at(o, MSC_I64, u.claims, row), position,
                     LLVMAtomicOrderingMonotonic, false);
  LLVMBuildBr(o->b, after);
  LLVMPositionBuilderAtEnd(o->b, after);
}

static void copy_update(gpu_builtin *o, LLVMValueRef item) {
  row_update u = find_update(o);
  LLVMValueRef column, row, outer = divide_with_rest(o, divide_with_rest(o, item, u.inner, &column), u.n, &row),
                            last = read_stored(o, MSC_I64, element_at(o, MSC_I64, u.claims, row));
  LLVMValueRef at = add_i64(o, mul_i64(o, add_i64(o, mul_i64(o, outer, u.count), last), u.inner), column);
  LLVMValueRef source = pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, last, num(o, 0), ""),
                                element_at(o, u.d, nth_buffer(o, 0), item), element_at(o, u.d, nth_buffer(o, 2), at));
  LLVMBuildStore(o->b, read_stored(o, u.d, source), element_at(o, u.d, nth_buffer(o, 3), item));
}

static void emit_update(gpu_builtin *o, msc_gpu_step step, LLVMValueRef item) {
  if (step == MSC_GPU_CLEAR) clear_claim(o, item);
  else if (step == MSC_GPU_CLAIM) claim_row(o, item);
  else copy_update(o, item);
}

/* ---- unique: one block, behind a sort into working memory; each thread has a part of the sorted elements ---- */

typedef struct {
  msc_dtype d, index;
  LLVMValueRef sorted, order, counts; /* elements, their indices, a number for each thread */
  LLVMValueRef begin, end;            /* the thread's part */
} unique_part;

static LLVMValueRef least_of(gpu_builtin *o, LLVMValueRef a, LLVMValueRef b) {
  return pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, a, b, ""), a, b);
}

static unique_part find_unique_part(gpu_builtin *o, LLVMValueRef thread) {
  const int64_t *dims = o->l->dims;
  unique_part u = {.d = (msc_dtype)dims[MSC_UNIQUE_DTYPE], .index = (msc_dtype)dims[MSC_UNIQUE_INDEX_DTYPE]};
  LLVMTypeRef bytes = LLVMInt8TypeInContext(o->e.l->llvm);
  LLVMValueRef n = nth_dim(o, MSC_UNIQUE_N), threads = num(o, MSC_UNIQUE_THREADS),
               order = nth_dim(o, MSC_GPU_UNIQUE_INDICES), counts = nth_dim(o, MSC_GPU_UNIQUE_COUNTS);
  u.sorted = nth_buffer(o, 4);
  u.order = LLVMBuildGEP2(o->b, bytes, u.sorted, &order, 1, "");
  u.counts = LLVMBuildGEP2(o->b, bytes, u.sorted, &counts, 1, "");
  LLVMValueRef part = LLVMBuildUDiv(o->b, add_i64(o, n, num(o, MSC_UNIQUE_THREADS - 1)), threads, "");
  u.begin = least_of(o, mul_i64(o, thread, part), n), u.end = least_of(o, add_i64(o, u.begin, part), n);
  return u;
}

static void store_index(gpu_builtin *o, msc_dtype index, LLVMValueRef v, LLVMValueRef p) {
  LLVMBuildStore(o->b, LLVMBuildTruncOrBitCast(o->b, v, msc_emit_stored_type(&o->e, index, 1), ""), p);
}

/* True if sorted element i differs from the one before; *out_raw: the element. */
static LLVMValueRef is_first_of_value(gpu_builtin *o, const unique_part *u, LLVMValueRef i, LLVMValueRef *out_raw) {
  LLVMValueRef is_begin = LLVMBuildICmp(o->b, LLVMIntEQ, i, num(o, 0), ""),
               before = pick_if(o, is_begin, i, LLVMBuildSub(o->b, i, num(o, 1), ""));
  *out_raw = read_stored(o, u->d, element_at(o, u->d, u->sorted, i));
  return or_bits(o, is_begin,
                 compare_less(o, u->d, read_value(o, u->d, element_at(o, u->d, u->sorted, before)),
                              msc_emit_widen(&o->e, *out_raw, u->d)));
}

/* Emits a loop over the thread's part that counts first elements from `count` on; where places are wanted it stores
 * these and, for each element, the number of its value. */
static LLVMValueRef count_values(gpu_builtin *o, const unique_part *u, LLVMValueRef count, bool places) {
  msc_ir_loop loop;
  LLVMValueRef raw;
  msc_ir_loop_open(&o->e, &loop, u->begin, u->end, 1, 1, &count);
  LLVMValueRef is_first = is_first_of_value(o, u, loop.index, &raw);
  count = add_i64(o, count, LLVMBuildZExt(o->b, is_first, LLVMInt64TypeInContext(o->e.l->llvm), ""));
  if (places) {
    LLVMValueRef place = LLVMBuildSub(o->b, count, num(o, 1), ""), from = index_at(o, u->index, u->order, loop.index);
    store_index(o, u->index, place, element_at(o, u->index, nth_buffer(o, 2), from));
    store_if(o, is_first, 1, &raw, (LLVMValueRef[]){element_at(o, u->d, nth_buffer(o, 1), place)});
  }
  msc_ir_loop_close(&o->e, &loop, &count);
  return count;
}

/* Adds up the threads' counts: of all threads, and of those before this one. */
static void add_counts(gpu_builtin *o, const unique_part *u, LLVMValueRef thread, LLVMValueRef *out_all,
                       LLVMValueRef *out_before) {
  msc_ir_loop loop;
  LLVMValueRef sum[2] = {num(o, 0), num(o, 0)};
  msc_ir_loop_open(&o->e, &loop, num(o, 0), num(o, MSC_UNIQUE_THREADS), 1, 2, sum);
  LLVMValueRef count = read_stored(o, MSC_I64, element_at(o, MSC_I64, u->counts, loop.index));
  sum[0] = add_i64(o, sum[0], count);
  sum[1] = add_i64(o, sum[1],
                   pick_if(o, LLVMBuildICmp(o->b, LLVMIntSLT, loop.index, thread, ""), count, num(o, 0)));
  msc_ir_loop_close(&o->e, &loop, sum);
  *out_all = sum[0], *out_before = sum[1];
}

/* Repeats the last value up to the end of the values. */
static void repeat_last(gpu_builtin *o, const unique_part *u, LLVMValueRef thread, LLVMValueRef all) {
  msc_ir_loop loop;
  msc_ir_loop_open(&o->e, &loop, thread, nth_dim(o, MSC_UNIQUE_N), MSC_UNIQUE_THREADS, 0, NULL);
  LLVMValueRef end = LLVMBuildSub(o->b, all, num(o, 1), ""),
               last = read_stored(o, u->d, element_at(o, u->d, nth_buffer(o, 1), end));
  store_if(o, LLVMBuildICmp(o->b, LLVMIntSGE, loop.index, all, ""), 1, &last,
           (LLVMValueRef[]){element_at(o, u->d, nth_buffer(o, 1), loop.index)});
  msc_ir_loop_close(&o->e, &loop, NULL);
}

static void emit_unique(gpu_builtin *o, LLVMValueRef thread) {
  unique_part u = find_unique_part(o, thread);
  LLVMValueRef all, before;
  LLVMBuildStore(o->b, count_values(o, &u, num(o, 0), false), element_at(o, MSC_I64, u.counts, thread));
  msc_ir_call(&o->e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);
  add_counts(o, &u, thread, &all, &before);
  count_values(o, &u, before, true);
  msc_ir_call(&o->e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);
  repeat_last(o, &u, thread, all);
  LLVMValueRef total = LLVMBuildTruncOrBitCast(o->b, all, msc_emit_stored_type(&o->e, u.index, 1), "");
  store_if(o, LLVMBuildICmp(o->b, LLVMIntEQ, thread, num(o, 0), ""), 1, &total, (LLVMValueRef[]){nth_buffer(o, 3)});
}

/* ---- the function ---- */

/* The threads of a block, which has as many items. */
static int threads_of_block(const msc_builtin_launch *l) {
  return l->number == MSC_BUILTIN_UNIQUE ? MSC_UNIQUE_THREADS : MSC_ORDER_THREADS;
}

static uint64_t count_items(const msc_builtin_launch *l) {
  switch (l->number) {
    case MSC_BUILTIN_SORT: return l->extent * (uint64_t)l->dims[MSC_SORT_N];
    case MSC_BUILTIN_UPDATE: return l->extent * (uint64_t)(l->dims[MSC_UPDATE_N] * l->dims[MSC_UPDATE_INNER]);
    case MSC_BUILTIN_UNIQUE: return MSC_UNIQUE_THREADS;
    case MSC_BUILTIN_LAZY: return l->extent * (uint64_t)l->dims[MSC_LAZY_INNER];
    default: return l->extent;
  }
}

/* The place of the set that launch `at` of a sort leaves: the results after the last one, or for `unique` the begin of
 * the working memory, else what its reader does not write to. */
static int64_t place_of_set(const msc_sort_merges *m, int at, bool is_unique) {
  int left = m->num_merges - at;
  if (is_unique) return left % 2 ? (int64_t)m->set_bytes : 0;
  if (!left || (m->num_sets == 1 && left % 2 == 0)) return -1;
  return left % 2 ? 0 : (int64_t)m->set_bytes;
}

static void set_sort_launch(msc_builtin_call *g, const msc_sort_merges *m, int at, bool is_unique) {
  int64_t *dims = g->launch.dims, run = MSC_SORT_RUN;
  for (int i = 1; i < at; i++) run *= 2;
  g->step = at ? MSC_GPU_MERGE : MSC_GPU_LAST;
  g->launch.num_dims = MSC_GPU_SORT_DIMS;
  if (at < m->num_merges) dims[MSC_SORT_K] = dims[MSC_SORT_N];
  dims[MSC_GPU_SORT_RUN] = run;
  dims[MSC_GPU_SORT_FROM] = at ? place_of_set(m, at - 1, is_unique) : -1;
  dims[MSC_GPU_SORT_TO] = place_of_set(m, at, is_unique);
  dims[MSC_GPU_SORT_INDICES] = (int64_t)m->indices_at;
  for (; run; run /= 2) dims[MSC_GPU_SORT_STEPS]++;
}

static void set_unique_launch(msc_builtin_call *g, const msc_sort_merges *m) {
  g->launch.num_dims = MSC_GPU_UNIQUE_DIMS;
  g->launch.dims[MSC_GPU_UNIQUE_INDICES] = (int64_t)m->indices_at;
  g->launch.dims[MSC_GPU_UNIQUE_COUNTS] = (int64_t)m->set_bytes * (m->num_merges ? 2 : 1);
}

/* Makes the launch one that adds up parts for the lazy update behind it. */
static void set_parts_launch(msc_builtin_call *g) {
  int64_t *dims = g->launch.dims, num = dims[MSC_LAZY_NUM];
  g->step = MSC_GPU_PARTS;
  g->launch.extent = (uint64_t)((num + MSC_LAZY_PART - 1) / MSC_LAZY_PART * dims[MSC_LAZY_INNER]);
  g->launch.num_dims = MSC_GPU_LAZY_DIMS, g->launch.num_scalars = 0;
  for (; num; num /= 2) dims[MSC_GPU_LAZY_STEPS]++;
}

/* Makes the launch number `at` of an update's three. Only the second one reports faults, for which the last buffer
 * is. */
static void set_update_launch(msc_builtin_call *g, size_t at) {
  static const msc_gpu_step steps[] = {MSC_GPU_CLEAR, MSC_GPU_CLAIM, MSC_GPU_LAST};
  g->step = steps[at];
  g->launch.checks = g->step == MSC_GPU_CLAIM;
  if (!g->launch.checks) g->num_buffers--;
  if (g->step == MSC_GPU_CLEAR) g->launch.extent = (uint64_t)g->launch.dims[MSC_UPDATE_N];
  if (g->step == MSC_GPU_CLAIM) g->launch.extent = (uint64_t)g->launch.dims[MSC_UPDATE_NUM];
}

/* Fills in the launch of one kernel: a builtin, or the sort in front of `unique`, with all buffers of the op. */
static void fill_call(msc_builtin_call *g, const msc_builtin_launch *l, size_t num_buffers) {
  *g = (msc_builtin_call){.launch = *l, .num_buffers = num_buffers};
  g->launch.extent = count_items(l), g->launch.grain = (uint64_t)threads_of_block(l);
  for (size_t k = 0; k < num_buffers; k++) g->buffer[k] = (uint32_t)k;
}

msc_builtin_call *msc_cuda_order_launches(msc_arena *arena, const msc_builtin_launch *l, size_t num_buffers,
                                          size_t *out_num) {
  enum { COUNT = 3 }; /* the buffer of `unique` that its sort does not have */
  bool is_unique = l->number == MSC_BUILTIN_UNIQUE, sorts = l->number == MSC_BUILTIN_SORT || is_unique,
       has_parts = l->number == MSC_BUILTIN_LAZY && l->scratch_bytes, updates = l->number == MSC_BUILTIN_UPDATE;
  msc_builtin_launch sort = is_unique ? msc_sort_of_unique(l) : *l;
  msc_sort_merges merges = sorts ? msc_merges_of_sort(&sort) : (msc_sort_merges){0};
  size_t num = *out_num = 1 + (size_t)merges.num_merges + is_unique + has_parts + 2 * (size_t)updates;
  msc_builtin_call *launch = msc_new_array(arena, msc_builtin_call, num);
  for (size_t i = 0; i < num; i++) {
    msc_builtin_call *g = &launch[i];
    bool is_last = is_unique && i + 1 == num;
    fill_call(g, is_last ? l : &sort, num_buffers);
    g->launch.bytes = l->bytes / num, g->launch.flops = l->flops / num;
    if (is_last) set_unique_launch(g, &merges);
    else if (sorts) set_sort_launch(g, &merges, (int)i, is_unique);
    else if (has_parts && i == 0) set_parts_launch(g);
    else if (updates) set_update_launch(g, i);
    if (is_unique && !is_last) g->buffer[COUNT] = g->buffer[--g->num_buffers];
    else if (sorts && !is_unique && !merges.num_merges)
      g->buffer[g->num_buffers++] = 1; /* no working memory: any buffer stands for it */
  }
  return launch;
}

void msc_emit_cuda_order(msc_llvm *l, const msc_builtin_call *launch, LLVMValueRef fn) {
  unsigned num_buffers = (unsigned)launch->num_buffers;
  gpu_builtin o = {
      .e = {.l = l, .b = l->builder, .fn = fn}, .b = l->builder, .l = &launch->launch, .first_dim = num_buffers + 1};
  LLVMPositionBuilderAtEnd(l->builder, msc_ir_block(&o.e));
  LLVMValueRef item = own_item(&o, MSC_ORDER_THREADS);
  LLVMBasicBlockRef then = msc_ir_block(&o.e), after = msc_ir_block(&o.e);
  LLVMBuildCondBr(o.b, LLVMBuildICmp(o.b, LLVMIntSLT, item, LLVMGetParam(fn, num_buffers), ""), then, after);
  LLVMPositionBuilderAtEnd(o.b, then);
  switch (o.l->number) {
    case MSC_BUILTIN_SCAN: emit_scan(&o, item); break;
    case MSC_BUILTIN_SORT: launch->step == MSC_GPU_MERGE ? emit_merge(&o, item) : emit_sort(&o, item); break;
    case MSC_BUILTIN_UNIQUE: emit_unique(&o, item); break;
    case MSC_BUILTIN_LAZY:
      launch->step == MSC_GPU_PARTS ? msc_emit_cuda_lazy_parts(&o, item) : msc_emit_cuda_lazy(&o, item);
      break;
    default: emit_update(&o, launch->step, item);
  }
  LLVMBuildBr(o.b, after);
  LLVMPositionBuilderAtEnd(o.b, after);
  LLVMBuildRetVoid(o.b);
}
