/* cuda_rows.c: a lazy update (MSC_BUILTIN_LAZY of ir/abi/builtin.h) in; its code for a GPU out.  An item is a place in
 * the sorted numbers and a column of the rows: the thread at the first place of a number adds up the gradients that it
 * has and steps its element of the row.
 *
 * Of a number with many gradients it adds the first MSC_LAZY_PART itself.  The others were added up in parts of as many
 * by the launch before, into working memory: an item of that is every MSC_LAZY_PART-th place, and a column.  Parts are
 * counted from the first place of their number, so sums do not depend on the other numbers. */
#include "codegen/emit/cuda_builtin.h"

/* A thread's element, and the buffers that hold its old and new values: w, then m, then v, as far as they are there. */
typedef struct {
  gpu_builtin *o;
  msc_dtype d, index;
  int64_t kind, given;
  int num_states; /* w among them */
  LLVMValueRef old[3], new[3], numbers, order, g, t, ok, rate;
  LLVMValueRef place, column, number, row, is_first;
  LLVMValueRef parts; /* working memory; NULL: no number has more than one part */
} lazy_item;

static LLVMTypeRef value_type(const lazy_item *z) { return msc_emit_stored_type(&z->o->e, z->d, 1); }

static LLVMValueRef compare_i64(const lazy_item *z, LLVMIntPredicate how, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(z->o->b, how, a, b, "");
}

/* A number of the launch, in the type of the elements. */
static LLVMValueRef rate_of(const lazy_item *z, LLVMValueRef f64) {
  return z->d == MSC_F64 ? f64 : LLVMBuildFPTrunc(z->o->b, f64, value_type(z), "");
}
static LLVMValueRef nth_scalar_f64(const lazy_item *z, int i) {
  int64_t hypers = z->o->l->dims[MSC_LAZY_HYPERS];
  int place = hypers ? msc_lazy_place(hypers, i) : i == MSC_LAZY_LR ? 0 : -1;
  if (z->rate && place >= 0) return read_stored(z->o, MSC_F64, element_at(z->o, MSC_F64, z->rate, num(z->o, place)));
  return LLVMGetParam(z->o->e.fn, z->o->first_dim + MSC_LAZY_DIMS + (unsigned)i);
}
static LLVMValueRef nth_scalar(const lazy_item *z, int i) { return rate_of(z, nth_scalar_f64(z, i)); }

static LLVMValueRef plus(const lazy_item *z, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFAdd(z->o->b, a, b, "");
}
static LLVMValueRef minus(const lazy_item *z, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFSub(z->o->b, a, b, "");
}
static LLVMValueRef times(const lazy_item *z, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(z->o->b, a, b, "");
}
static LLVMValueRef one_minus(const lazy_item *z, LLVMValueRef a) { return minus(z, msc_ir_real(a, 1), a); }
static LLVMValueRef root(const lazy_item *z, LLVMValueRef a) { return msc_emit_unary(&z->o->e, NEST_SQRT, z->d, a); }

/* ---- what the thread works on ---- */

static LLVMValueRef number_at(const lazy_item *z, LLVMValueRef place) {
  return index_at(z->o, z->index, z->numbers, place);
}

/* Opens the item at place `item` / columns * apart of the sorted numbers. */
static lazy_item open_item(gpu_builtin *o, LLVMValueRef item, int64_t apart) {
  const int64_t *dims = o->l->dims;
  lazy_item z = {.o = o,
                 .d = (msc_dtype)dims[MSC_LAZY_DTYPE],
                 .index = (msc_dtype)dims[MSC_LAZY_INDEX_DTYPE],
                 .kind = dims[MSC_LAZY_KIND],
                 .given = dims[MSC_LAZY_GIVEN]};
  unsigned at = 0;
  z.num_states = z.kind == MSC_LAZY_ADAM ? 3 : z.kind == MSC_LAZY_SGD ? 1 : 2;
  for (int i = 0; i < z.num_states; i++) z.old[i] = nth_buffer(o, at++);
  z.numbers = nth_buffer(o, at++), z.order = nth_buffer(o, at++), z.g = nth_buffer(o, at++);
  if (z.kind == MSC_LAZY_ADAM) z.t = nth_buffer(o, at++);
  if (z.given & MSC_LAZY_OK) z.ok = nth_buffer(o, at++);
  if (z.given & MSC_LAZY_RATE) z.rate = nth_buffer(o, at++);
  for (int i = 0; i < z.num_states; i++) z.new[i] = nth_buffer(o, at++);
  if (o->l->scratch_bytes) z.parts = nth_buffer(o, at++);
  z.place = mul_i64(o, divide_with_rest(o, item, nth_dim(o, MSC_LAZY_INNER), &z.column), num(o, apart));
  z.number = number_at(&z, z.place);
  z.row = LLVMBuildSub(o->b, z.number, nth_dim(o, MSC_LAZY_START), "");
  LLVMValueRef begins = compare_i64(&z, LLVMIntEQ, z.place, num(o, 0)),
               before = pick_if(o, begins, z.place, LLVMBuildSub(o->b, z.place, num(o, 1), ""));
  z.is_first = or_bits(o, begins, compare_i64(&z, LLVMIntNE, number_at(&z, before), z.number));
  return z;
}

/* Returns the place of the thread's element in buffer i of `of`, in row `row`. */
static LLVMValueRef own_element(const lazy_item *z, LLVMValueRef of, LLVMValueRef row) {
  gpu_builtin *o = z->o;
  return element_at(o, z->d, of, add_i64(o, mul_i64(o, row, nth_dim(o, MSC_LAZY_INNER)), z->column));
}

/* ---- sums ---- */

/* Returns the gradient at a place of the sorted numbers. */
static LLVMValueRef gradient_at(const lazy_item *z, LLVMValueRef place) {
  gpu_builtin *o = z->o;
  LLVMValueRef at = index_at(o, MSC_I32, z->order, place);
  at = pick_if(o, compare_i64(z, LLVMIntULT, at, nth_dim(o, MSC_LAZY_ROWS)), at, num(o, 0));
  return read_stored(o, z->d, own_element(z, z->g, at));
}

/* Returns the address of the sum of the part that begins at a place: no other one begins in the same MSC_LAZY_PART
 * places, since a number before it would have to end and this one to have a part before. */
static LLVMValueRef part_address(const lazy_item *z, LLVMValueRef place) {
  return own_element(z, z->parts, LLVMBuildUDiv(z->o->b, place, num(z->o, MSC_LAZY_PART), ""));
}
static LLVMValueRef part_at(const lazy_item *z, LLVMValueRef place) {
  return read_stored(z->o, z->d, part_address(z, place));
}

/* Goes through every step-th place in [from, to), as long as it has the item's number, and adds the term of each to
 * *sum; term NULL: it only goes. Returns the place where it stops. */
static LLVMValueRef add_terms(const lazy_item *z, LLVMValueRef from, LLVMValueRef to, int64_t step,
                              LLVMValueRef (*term)(const lazy_item *z, LLVMValueRef place), LLVMValueRef *sum) {
  gpu_builtin *o = z->o;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(o->b), head = msc_ir_block(&o->e), body = msc_ir_block(&o->e),
                    after = msc_ir_block(&o->e);
  LLVMBuildBr(o->b, head);
  LLVMPositionBuilderAtEnd(o->b, head);
  LLVMValueRef place = LLVMBuildPhi(o->b, LLVMTypeOf(from), ""),
               all = term ? LLVMBuildPhi(o->b, value_type(z), "") : NULL;
  LLVMValueRef exists = compare_i64(z, LLVMIntSLT, place, to),
               number = number_at(z, pick_if(o, exists, place, z->place));
  LLVMBuildCondBr(o->b, and_bits(o, exists, compare_i64(z, LLVMIntEQ, number, z->number)), body, after);
  LLVMPositionBuilderAtEnd(o->b, body);
  LLVMValueRef with = term ? plus(z, all, term(z, place)) : NULL, next = add_i64(o, place, num(o, step));
  LLVMBuildBr(o->b, head);
  LLVMAddIncoming(place, (LLVMValueRef[]){from, next}, (LLVMBasicBlockRef[]){before, body}, 2);
  if (term) LLVMAddIncoming(all, (LLVMValueRef[]){*sum, with}, (LLVMBasicBlockRef[]){before, body}, 2);
  LLVMPositionBuilderAtEnd(o->b, after);
  if (term) *sum = all;
  return place;
}

/* Returns the sum of the part that begins at a place, and the place behind it. */
static LLVMValueRef sum_part(const lazy_item *z, LLVMValueRef from, LLVMValueRef *out_end) {
  gpu_builtin *o = z->o;
  LLVMValueRef sum = LLVMConstNull(value_type(z)), count = nth_dim(o, MSC_LAZY_NUM),
               to = add_i64(o, from, num(o, MSC_LAZY_PART));
  to = z->parts ? pick_if(o, compare_i64(z, LLVMIntSLT, to, count), to, count) : count;
  *out_end = add_terms(z, from, to, 1, gradient_at, &sum);
  return sum;
}

/* Returns the sum of the gradients from the thread's place on that have its number, and the first place behind them. */
static LLVMValueRef sum_gradients(const lazy_item *z, LLVMValueRef *out_end) {
  gpu_builtin *o = z->o;
  LLVMValueRef sum = sum_part(z, z->place, out_end), part = num(o, MSC_LAZY_PART), count = nth_dim(o, MSC_LAZY_NUM);
  if (!z->parts) return sum;
  LLVMValueRef behind = add_terms(z, add_i64(o, z->place, part), count, MSC_LAZY_PART, part_at, &sum),
               last = LLVMBuildSub(o->b, behind, part, "");
  last = pick_if(o, compare_i64(z, LLVMIntSGT, last, z->place), last, *out_end);
  *out_end = add_terms(z, last, count, 1, NULL, NULL);
  return sum;
}

/* Returns the first place that has the number of the thread's place. Equal numbers lie side by side; they ascend, but
 * not where they are slots of a cache. Of those of other ranks' rows, which can be in two groups, any place will do. */
static LLVMValueRef find_first(const lazy_item *z) {
  gpu_builtin *o = z->o;
  msc_ir_loop loop;
  LLVMValueRef range[2] = {num(o, 0), z->place}; /* it lies between these, or is the second */
  msc_ir_loop_open(&o->e, &loop, num(o, 0), nth_dim(o, MSC_GPU_LAZY_STEPS), 1, 2, range);
  LLVMValueRef middle = LLVMBuildLShr(o->b, add_i64(o, range[0], range[1]), num(o, 1), ""),
               is_before = compare_i64(z, LLVMIntNE, number_at(z, middle), z->number);
  range[0] = pick_if(o, is_before, add_i64(o, middle, num(o, 1)), range[0]);
  range[1] = pick_if(o, is_before, range[1], middle);
  msc_ir_loop_close(&o->e, &loop, range);
  return range[1];
}

/* ---- new values elsewhere than the old ones ---- */

/* Returns a row as one of this rank, at least 0 and at most n. */
static LLVMValueRef bounded_row(const lazy_item *z, LLVMValueRef row) {
  LLVMValueRef n = nth_dim(z->o, MSC_LAZY_N), least = num(z->o, 0);
  row = pick_if(z->o, compare_i64(z, LLVMIntSLT, row, least), least, row);
  return pick_if(z->o, compare_i64(z, LLVMIntSGT, row, n), n, row);
}

/* Copies the thread's column of the rows from its own to that of the next number, which ends before place `end`: the
 * first number begins at row 0, the last one ends with the table. */
static void copy_rows(const lazy_item *z, LLVMValueRef end) {
  gpu_builtin *o = z->o;
  msc_ir_loop loop;
  LLVMValueRef count = nth_dim(o, MSC_LAZY_NUM), is_last = compare_i64(z, LLVMIntSGE, end, count);
  LLVMValueRef next = number_at(z, pick_if(o, is_last, z->place, end));
  next = LLVMBuildSub(o->b, next, nth_dim(o, MSC_LAZY_START), "");
  LLVMValueRef from = pick_if(o, compare_i64(z, LLVMIntEQ, z->place, num(o, 0)), num(o, 0), bounded_row(z, z->row)),
               to = pick_if(o, is_last, nth_dim(o, MSC_LAZY_N), bounded_row(z, next));
  for (int i = 0; i < z->num_states; i++) {
    to = pick_if(o, LLVMBuildICmp(o->b, LLVMIntEQ, z->old[i], z->new[i], ""), from, to);
    msc_ir_loop_open(&o->e, &loop, from, to, 1, 0, NULL);
    LLVMBuildStore(o->b, read_stored(o, z->d, own_element(z, z->old[i], loop.index)),
                   own_element(z, z->new[i], loop.index));
    msc_ir_loop_close(&o->e, &loop, NULL);
  }
}

/* ---- the step ---- */

/* Returns 1 - beta^t for the moment of this number. */
static LLVMValueRef bias_left(const lazy_item *z, int moment) {
  gpu_builtin *o = z->o;
  LLVMTypeRef f32 = LLVMFloatTypeInContext(o->e.l->llvm), f64 = LLVMDoubleTypeInContext(o->e.l->llvm);
  bool is_pair = z->given & MSC_LAZY_PAIR;
  LLVMValueRef t = read_stored(o, MSC_F32, element_at(o, MSC_F32, z->t, num(o, is_pair ? moment : 0)));
  if (is_pair) return z->d == MSC_F64 ? LLVMBuildFPExt(o->b, t, f64, "") : t;
  LLVMValueRef beta = nth_scalar_f64(z, moment ? MSC_LAZY_BETA2 : MSC_LAZY_BETA1),
               left = one_minus(z, msc_math_pow(&o->e, beta, LLVMBuildFPExt(o->b, t, f64, "")));
  return z->d == MSC_F64 ? left : LLVMBuildFPTrunc(o->b, left, f32, "");
}

/* Returns beta * old + (1 - beta) * x. */
static LLVMValueRef average(const lazy_item *z, LLVMValueRef beta, LLVMValueRef old, LLVMValueRef x) {
  return plus(z, times(z, beta, old), times(z, one_minus(z, beta), x));
}

/* Replaces v[], the element's old values, by the new ones; g: the gradient with weight decay. */
static void step_values(const lazy_item *z, LLVMValueRef g, LLVMValueRef v[3]) {
  LLVMValueRef lr = nth_scalar(z, MSC_LAZY_LR), along = g;
  if (z->kind == MSC_LAZY_MOMENTUM) {
    LLVMValueRef mu = nth_scalar(z, MSC_LAZY_MOMENTUM_RATE);
    v[1] = plus(z, times(z, mu, v[1]), times(z, one_minus(z, nth_scalar(z, MSC_LAZY_DAMPENING)), g));
    along = z->given & MSC_LAZY_NESTEROV ? plus(z, g, times(z, mu, v[1])) : v[1];
  } else if (z->kind == MSC_LAZY_ADAGRAD) {
    v[1] = plus(z, v[1], times(z, g, g));
    along = msc_ir_divide(&z->o->e, g, plus(z, root(z, v[1]), nth_scalar(z, MSC_LAZY_EPS)));
  } else if (z->kind == MSC_LAZY_ADAM) {
    v[1] = average(z, nth_scalar(z, MSC_LAZY_BETA1), v[1], g);
    v[2] = average(z, nth_scalar(z, MSC_LAZY_BETA2), v[2], times(z, g, g));
    along = msc_ir_divide(&z->o->e, v[1], plus(z, root(z, v[2]), nth_scalar(z, MSC_LAZY_EPS)));
    lr = times(z, lr, msc_ir_divide(&z->o->e, root(z, bias_left(z, 1)), bias_left(z, 0)));
  }
  v[0] = minus(z, v[0], times(z, lr, along));
}

static void step_element(const lazy_item *z, LLVMValueRef g) {
  LLVMValueRef v[3];
  for (int i = 0; i < z->num_states; i++) v[i] = read_stored(z->o, z->d, own_element(z, z->old[i], z->row));
  step_values(z, plus(z, g, times(z, nth_scalar(z, MSC_LAZY_DECAY), v[0])), v);
  for (int i = 0; i < z->num_states; i++) LLVMBuildStore(z->o->b, v[i], own_element(z, z->new[i], z->row));
}

/* Runs what follows only where the condition holds; returns the block behind it. */
static LLVMBasicBlockRef begin_if(const lazy_item *z, LLVMValueRef condition) {
  LLVMBasicBlockRef then = msc_ir_block(&z->o->e), after = msc_ir_block(&z->o->e);
  LLVMBuildCondBr(z->o->b, condition, then, after);
  LLVMPositionBuilderAtEnd(z->o->b, then);
  return after;
}
static void end_if(const lazy_item *z, LLVMBasicBlockRef after) {
  LLVMBuildBr(z->o->b, after);
  LLVMPositionBuilderAtEnd(z->o->b, after);
}

void msc_emit_cuda_lazy(gpu_builtin *o, LLVMValueRef item) {
  lazy_item z = open_item(o, item, 1);
  LLVMValueRef end;
  LLVMBasicBlockRef after_first = begin_if(&z, z.is_first);
  LLVMValueRef g = sum_gradients(&z, &end);
  copy_rows(&z, end);
  LLVMValueRef steps = compare_i64(&z, LLVMIntULT, z.row, nth_dim(o, MSC_LAZY_N));
  if (z.ok)
    steps =
        and_bits(o, steps, LLVMBuildTrunc(o->b, read_stored(o, MSC_I1, z.ok), LLVMInt1TypeInContext(o->e.l->llvm), ""));
  LLVMBasicBlockRef after_step = begin_if(&z, steps);
  step_element(&z, g);
  end_if(&z, after_step);
  end_if(&z, after_first);
}

void msc_emit_cuda_lazy_parts(gpu_builtin *o, LLVMValueRef item) {
  lazy_item z = open_item(o, item, MSC_LAZY_PART);
  LLVMValueRef first = find_first(&z), part = num(o, MSC_LAZY_PART), end,
               passed = LLVMBuildSub(o->b, z.place, first, "");
  LLVMValueRef parts = LLVMBuildUDiv(o->b, add_i64(o, passed, num(o, MSC_LAZY_PART - 1)), part, ""),
               from = add_i64(o, first, mul_i64(o, parts, part)), count = nth_dim(o, MSC_LAZY_NUM);
  LLVMValueRef exists = and_bits(o, is_nonzero(o, passed), compare_i64(&z, LLVMIntSLT, from, count)),
               number = number_at(&z, pick_if(o, exists, from, z.place));
  LLVMBasicBlockRef after = begin_if(&z, and_bits(o, exists, compare_i64(&z, LLVMIntEQ, number, z.number)));
  LLVMValueRef sum = sum_part(&z, from, &end);
  LLVMBuildStore(o->b, sum, part_address(&z, from));
  end_if(&z, after);
}
