/* N ranks compute what one does: every op, under every assignment of mesh digits to the letters of its rule, forward and
 * backward.  Operands are cut as the rule's layouts say (a sum that passes through is torn into random terms), every rank
 * runs the op on its part, replicas must agree bit for bit, and the results put together must be those of one device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ir/grad.h"
#include "ir/interp.h"
#include "ir/op_table.h"
#include "passes/2_train/train.h"
#include "tests/ir/one_op.h"

/* T in a type is each of the element types named: d f64, f f32, i i32, u ui8, b i1. */
typedef struct {
  const char *op, *in, *attrs, *dtypes;
  int num_out, max_int; /* integers are 0 .. max_int - 1; 0: any */
} instance;

static const instance instances[] = {
    {"constant", "", "value=4x6xi32:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24", "i", 1, 0},
    {"constant", "", "value=8x6xf32:3", "f", 1, 0},
    {"iota", "", "type=8x6xi32 dim=0", "i", 1, 0},
    {"iota", "", "type=8x6xf32 dim=1", "f", 1, 0},
    {"add", "8x6xT 8x6xT", "", "dfiu", 1, 0},
    {"add", "8x6xT 6xT", "", "df", 1, 0},
    {"add", "4x1x6xT 8x1xT", "", "d", 1, 0},
    {"sub", "8x6xT 8x6xT", "", "dfi", 1, 0},
    {"sub", "T 8xT", "", "d", 1, 0},
    {"mul", "8x6xT 8x6xT", "", "dfi", 1, 0},
    {"mul", "8x6xT 8x1xT", "", "df", 1, 0},
    {"div", "8x6xT 8x6xT", "", "df", 1, 0},
    {"div", "8x6xT T", "", "d", 1, 0},
    {"max", "8x6xT 8x6xT", "", "dfib", 1, 0},
    {"min", "8x6xT 6xT", "", "dfu", 1, 0},
    {"pow", "8x6xT 6xT", "", "df", 1, 0},
    {"compare", "8x6xT 8x6xT", "predicate=le", "dfi", 1, 0},
    {"select", "8x1xi1 8x6xT 6xT", "", "dfi", 1, 0},
    {"neg", "8x6xT", "", "dfi", 1, 0},
    {"exp", "8x6xT", "", "df", 1, 0},
    {"log", "8x6xT", "", "df", 1, 0},
    {"sqrt", "8x6xT", "", "df", 1, 0},
    {"rsqrt", "8x6xT", "", "df", 1, 0},
    {"tanh", "8x6xT", "", "df", 1, 0},
    {"erf", "8x6xT", "", "df", 1, 0},
    {"sigmoid", "8x6xT", "", "df", 1, 0},
    {"relu", "8x6xT", "", "dfi", 1, 0},
    {"gelu", "8x6xT", "form=erf", "df", 1, 0},
    {"gelu", "8x6xT", "form=tanh", "df", 1, 0},
    {"silu", "8x6xT", "", "df", 1, 0},
    {"abs", "8x6xT", "", "dfi", 1, 0},
    {"sign", "8x6xT", "", "dfi", 1, 0},
    {"cast", "8x6xT", "dtype=f64", "dfi", 1, 0},
    {"cast", "8x6xT", "dtype=i8", "dfi", 1, 0},
    {"broadcast_to", "6xT", "shape=8,6", "dfi", 1, 0},
    {"broadcast_to", "8x1x6xT", "shape=8,4,6", "d", 1, 0},
    {"reshape", "8x6xT", "shape=48", "dfi", 1, 0},
    {"reshape", "24x2xT", "shape=4,6,2", "dfi", 1, 0},
    {"reshape", "4x6x2xT", "shape=2,2,12", "d", 1, 0},
    {"reshape", "12x8xT", "shape=16,6", "d", 1, 0}, /* no common factor behind the first */
    {"reshape", "8x1x6xT", "shape=8,6", "d", 1, 0},
    {"flatten", "4x2x6xT", "", "dfi", 1, 0},
    {"flatten", "4x2x6xT", "axis=0", "d", 1, 0},
    {"transpose", "4x8x6xT", "perm=2,0,1", "dfi", 1, 0},
    {"concat", "8x2xT 8x6xT 8x4xT", "dim=1", "dfi", 1, 0},
    {"concat", "8x6xT 8x6xT", "dim=0", "d", 1, 0},
    {"split", "8x6xT", "dim=1 sizes=2,4", "dfi", 2, 0},
    {"split", "8x6x4xT", "dim=0 sizes=4,4", "d", 2, 0},
    {"slice", "8x6xT", "start=0,1 limit=8,5", "dfi", 1, 0},
    {"slice", "8x12xT", "start=1,0 limit=7,12 stride=2,1", "d", 1, 0},
    {"pad", "8x6xT", "low=0,1 high=0,2", "dfi", 1, 0},
    {"pad", "8x6xT", "low=0,1 high=0,2 stride=1,2 value=3", "dfi", 1, 0},
    {"gather", "8x6xT 4x2xi32", "", "dfi", 1, 8},
    {"gather", "4x12x2xT 6xi64", "axis=1", "df", 1, 12},
    {"scatter_add", "4x2xi32 4x2x6xT", "rows=8", "dfi", 1, 8},
    {"scatter_add", "6xi64 4x6x2xT", "rows=12 axis=1", "df", 1, 12},
    {"one_hot", "4x6xi32", "depth=8", "i", 1, 10},
    {"one_hot", "6xi64", "depth=8 dtype=i8 on=5 off=-1", "i", 1, 8},
    {"matmul", "8x12xT 12x6xT", "", "dfi", 1, 0},
    {"matmul", "12x8xT 12x6xT", "transpose_a=true", "df", 1, 0},
    {"matmul", "8x12xT 6x12xT", "transpose_b=true", "df", 1, 0},
    {"matmul", "12x8xT 6x12xT", "transpose_a=true transpose_b=true", "df", 1, 0},
    {"batch_matmul", "4x8x6xT 4x6x2xT", "", "df", 1, 0},
    {"batch_matmul", "4x1x4x6xT 2x4x6xT", "transpose_b=true", "d", 1, 0},
    {"batch_matmul", "6x4xT 4x6x8xT", "transpose_a=true", "d", 1, 0},
    {"reduce_sum", "8x6x4xT", "dims=1", "dfi", 1, 0},
    {"reduce_sum", "8x6xT", "dims=0,1 keep_dims=true", "df", 1, 0},
    {"reduce_mean", "8x6x4xT", "dims=0,2", "df", 1, 0},
    {"reduce_mean", "8x6xT", "dims=1 keep_dims=true", "d", 1, 0},
    {"reduce_max", "8x6x4xT", "dims=1", "dfi", 1, 0},
    {"reduce_max", "8x6xT", "dims=0,1", "df", 1, 0},
    {"reduce_min", "8x6xT", "dims=0", "dfu", 1, 0},
    {"softmax", "8x6xT", "", "df", 1, 0},
    {"softmax", "8x6x4xT", "axis=1", "d", 1, 0},
    {"log_softmax", "8x6xT", "axis=0", "df", 1, 0},
    {"softmax_cross_entropy", "8x6xT 8xi32", "", "df", 1, 6},
    {"softmax_cross_entropy", "4x6x3xT 4x6xi64", "reduction=sum", "d", 1, 3},
    {"softmax_cross_entropy", "8x6xT 8x6xT", "reduction=none", "df", 1, 0},
    {"softmax_cross_entropy", "8x6xT 8x6xT", "", "d", 1, 0},
    {"softmax_cross_entropy_grad", "8x6xT 8xi32 T", "", "df", 1, 6},
    {"softmax_cross_entropy_grad", "8x6xT 8x6xT 8xT", "reduction=none", "df", 1, 0},
    {"mean_absolute_error", "8x6xT 8x6xT", "", "df", 1, 0},
    {"mean_absolute_error", "8x6xT 8x6xT", "reduction=none", "d", 1, 0},
    {"sgd", "8x6xT 8x6xT", "lr=0.1 weight_decay=0.1", "df", 1, 0},
    {"momentum", "8x6xT 8x6xT 8x6xT", "lr=0.1 momentum=0.9 nesterov=true", "df", 2, 0},
    {"adam", "8x6xT 8x6xT 8x6xT 8x6xT f32", "lr=0.1", "df", 3, 0},
    {"adamw", "8x6xT 8x6xT 8x6xT 8x6xT f32", "lr=0.1", "d", 3, 0},
    {"lamb_moments", "8x6xT 8x6xT 8x6xT 8x6xT f32", "", "d", 3, 0},
    {"lamb_apply", "8x6xT 8x6xT T", "lr=0.1", "df", 1, 0},
};

static const char *const meshes[] = {"d=2", "d=4", "x=2,y=2", "d=6", "d=8"};

/* ---- one problem: an op, values, and what one device makes of them ---- */

typedef struct {
  const instance *inst;
  const char *dtype;
  bool backward;
  msc_context *ctx;
  msc_module *m;
  msc_atoms atoms;
  uint64_t seed;
  int num_runs;
  bool failed;
} problem;

static const char *dtype_name(char c) { return c == 'd' ? "f64" : c == 'f' ? "f32" : c == 'i' ? "i32" : c == 'u' ? "ui8" : "i1"; }

/* "8xT" -> "8xf64" */
static const char *with_dtype(const problem *p, const char *text) {
  msc_arena *a = msc_context_arena(p->ctx);
  for (const char *t; (t = strchr(text, 'T'));) text = msc_arena_printf(a, "%.*s%s%s", (int)(t - text), text, p->dtype, t + 1);
  return text;
}

static uint64_t next_random(problem *p) { /* Marsaglia 2003, xorshift */
  p->seed ^= p->seed << 13;
  p->seed ^= p->seed >> 7;
  return p->seed ^= p->seed << 17;
}

static bool wants_positive(const char *op) {
  static const char *const ops[] = {"log", "sqrt", "rsqrt", "pow", "adam", "adamw", "lamb_moments", "div"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (strcmp(ops[i], op) == 0) return true;
  return false;
}

/* Floats are eighths, so that sums of their terms are exact. */
static double random_value(problem *p, msc_dtype dtype) {
  uint64_t r = next_random(p) >> 11;
  if (dtype == MSC_I1) return (double)(r & 1);
  if (!msc_is_float(dtype)) return (double)(r % (uint64_t)(p->inst->max_int ? p->inst->max_int : 100));
  double v = (double)(r % 63 + 1) / 8;
  return wants_positive(p->inst->op) || r >> 20 & 1 ? v : -v;
}

static msc_tensor random_tensor(problem *p, msc_arena *a, const msc_type *t) {
  msc_tensor x = msc_tensor_new(a, msc_type_with_layout(p->ctx, t, NULL));
  for (int64_t i = 0, n = msc_type_elems(t); i < n; i++) msc_tensor_set(&x, i, random_value(p, t->dtype));
  return x;
}

/* ---- comparing and reporting ---- */

static bool same(const msc_tensor *got, const msc_tensor *want) {
  msc_dtype d = want->type->dtype;
  int64_t n = msc_type_elems(want->type);
  double largest = 0, tolerance = d == MSC_F64 ? 1e-12 : d == MSC_F32 ? 1e-5 : 0;
  if (got->type->dtype != d || msc_type_elems(got->type) != n) return false;
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(msc_tensor_get(want, i)));
  for (int64_t i = 0; i < n; i++) {
    double x = msc_tensor_get(got, i), y = msc_tensor_get(want, i);
    if (!(x == y || (x != x && y != y) || fabs(x - y) <= tolerance * largest)) return false;
  }
  return true;
}

static bool report(problem *p, const msc_func *f, const char *what) {
  char *text = msc_print_text(f->module, msc_context_arena(p->ctx), &(size_t){0});
  print_error("%s(%s) {%s} of %s%s: %s\n%s\n", p->inst->op, p->inst->in, p->inst->attrs, p->dtype, p->backward ? ", backward" : "", what, text);
  for (const msc_diag *d = msc_diags(p->ctx); d; d = d->next) print_error("  %s\n", d->text);
  p->failed = true;
  return false;
}

/* ---- running one layout of everything ---- */

/* `whole`, torn into one random term per value of the partial digits; terms of eighths add up exactly. */
static void tear(problem *p, msc_arena *a, const msc_tensor *whole, int64_t num, msc_tensor *out_term) {
  int64_t n = msc_type_elems(whole->type);
  out_term[num - 1] = msc_tensor_new(a, whole->type);
  memcpy(out_term[num - 1].data, whole->data, (size_t)msc_type_bytes(whole->type));
  for (int64_t t = 0; t + 1 < num; t++) {
    out_term[t] = random_tensor(p, a, whole->type);
    for (int64_t i = 0; i < n; i++) {
      double rest = msc_tensor_get(&out_term[num - 1], i) - msc_tensor_get(&out_term[t], i);
      if (!msc_is_float(whole->type->dtype)) rest = (double)(whole->type->dtype == MSC_U8 ? (int64_t)(uint8_t)(int64_t)rest : (int64_t)rest);
      msc_tensor_set(&out_term[num - 1], i, rest);
    }
  }
}

/* The parts of one argument on all ranks, into part[rank * stride]. */
static void cut_argument(problem *p, msc_arena *a, const msc_tensor *whole, const msc_layout *l, msc_tensor *part, size_t stride) {
  const msc_subaxis *partial = l->sub + l->first[l->rank];
  msc_box_mesh mesh = msc_mesh_sizes(&p->m->mesh);
  int64_t num = msc_group_size(l->num_partial, partial);
  msc_layout finished = *l;
  finished.num_partial = 0;
  msc_tensor *term = msc_new_array(a, msc_tensor, num);
  tear(p, a, whole, num, term);
  for (int64_t r = 0; r < msc_mesh_size(&p->m->mesh); r++)
    part[(size_t)r * stride] = msc_tensor_part(p->m, a, &term[msc_group_index(&mesh, l->num_partial, partial, r)], &finished, r);
}

/* f with layouts everywhere, on the ranks; the results must be `want`. */
static bool run_ranks(problem *p, msc_func *f, const msc_tensor *args, const msc_tensor *want) {
  size_t num_args = f->body->num_args, num_results = f->body->last->num_in, num_ranks = (size_t)msc_mesh_size(&p->m->mesh);
  msc_arena *a = msc_arena_new(p->ctx);
  msc_tensor *part = msc_new_array(a, msc_tensor, num_ranks * num_args + 1), *got = msc_new_array(a, msc_tensor, num_ranks * num_results);
  msc_tensor *result = msc_new_array(a, msc_tensor, num_ranks), whole;
  bool ok = true;
  p->num_runs++;
  for (size_t i = 0; i < num_args; i++) cut_argument(p, a, &args[i], f->body->args[i]->type->layout, part + i, num_args);
  if (!msc_interpret_parts(f, a, part, got)) ok = report(p, f, "does not run");
  for (size_t i = 0; ok && i < num_results; i++) {
    const msc_type *t = f->body->last->in[i].value->type;
    for (size_t r = 0; r < num_ranks; r++) result[r] = got[r * num_results + i];
    const char *differ = msc_tensor_join(p->m, a, t, t->layout, result, &whole);
    if (differ) ok = report(p, f, differ);
    else if (!same(&whole, &want[i])) ok = report(p, f, "the ranks compute something else than one device");
  }
  msc_arena_free(a);
  return ok;
}

/* ---- every assignment ---- */

typedef bool use_assignment(problem *p, void *user, const msc_rule *rule, const msc_assignment *a);

/* Digit i of `code`: what atom i does: 0 nothing, 1 .. a letter, above: pass through a linear operand. */
static bool decode(const problem *p, const msc_rule *rule, int64_t code, bool descending, msc_assignment *out) {
  bool several = false;
  memset(out, 0, sizeof *out);
  for (int i = 0; i < p->atoms.num; i++, code /= rule->num_letters + 2) {
    int atom = descending ? p->atoms.num - 1 - i : i, what = (int)(code % (rule->num_letters + 2));
    if (what == rule->num_letters + 1) out->pass |= 1u << atom;
    else if (what) several |= out->num[what - 1] > 0, out->atom[what - 1][out->num[what - 1]++] = (uint8_t)atom;
  }
  return several || !descending; /* only lists have an order */
}

static bool with_pass(problem *p, use_assignment *use, void *user, const msc_rule *rule, msc_assignment *a) {
  if (!a->pass || rule->joint) return use(p, user, rule, a);
  for (uint8_t i = 0; i < rule->num_in; i++) {
    a->pass_in = i;
    if (rule->linear_in >> i & 1 && !use(p, user, rule, a)) return false;
  }
  return true;
}

static bool every_assignment(problem *p, const msc_rule *rule, use_assignment *use, void *user) {
  int64_t num = 1;
  for (int i = 0; i < p->atoms.num; i++) num *= rule->num_letters + 2;
  for (int descending = 0; descending < 2; descending++)
    for (int64_t code = 0; code < num; code++) {
      msc_assignment a;
      if (!decode(p, rule, code, descending, &a) || !msc_rule_allows(rule, &a, &p->atoms)) continue;
      if (!with_pass(p, use, user, rule, &a)) return false;
    }
  return true;
}

static void set_layout(problem *p, msc_value *v, const msc_rule *rule, const msc_assignment *a, size_t tensor) {
  v->type = msc_type_with_layout(p->ctx, v->type, msc_rule_layout(p->ctx, &p->m->mesh, &p->atoms, rule, a, tensor));
}

/* ---- forward ---- */

typedef struct {
  msc_op *op;
  msc_tensor *args, *want;
} forward;

static bool run_forward(problem *p, void *user, const msc_rule *rule, const msc_assignment *a) {
  forward *x = user;
  msc_func *f = x->op->block->func;
  for (size_t i = 0; i < x->op->num_in; i++) set_layout(p, f->body->args[i], rule, a, i);
  for (size_t i = 0; i < x->op->num_out; i++) set_layout(p, &x->op->out[i], rule, a, rule->num_in + i);
  if (!msc_rule_check(x->op, msc_context_arena(p->ctx))) return report(p, f, "the rule's own layouts do not pass its check");
  return run_ranks(p, f, x->args, x->want);
}

static void check_forward(problem *p) {
  msc_arena *arena = msc_context_arena(p->ctx);
  forward x = {.op = one_op(p->m, p->inst->op, with_dtype(p, p->inst->in), p->inst->attrs, p->inst->num_out)};
  msc_rule rule;
  assert_non_null(x.op);
  assert_true(msc_rule_of(x.op, arena, &rule));
  x.args = msc_new_array(arena, msc_tensor, x.op->num_in + 1);
  x.want = msc_new_array(arena, msc_tensor, x.op->num_out);
  for (size_t i = 0; i < x.op->num_in; i++) x.args[i] = random_tensor(p, arena, x.op->in[i].value->type);
  if (!msc_interpret(x.op->block->func, arena, x.args, x.want)) report(p, x.op->block->func, "does not run on one device");
  else every_assignment(p, &rule, run_forward, &x);
}

/* ---- all problems ---- */

static bool run_problem(const instance *inst, const char *dtype, const char *mesh, void (*check)(problem *), int *num_runs) {
  problem p = {.inst = inst, .dtype = dtype, .ctx = msc_context_new(NULL, NULL), .seed = 88172645463325252u};
  p.m = msc_module_new(p.ctx);
  assert_true(msc_mesh_parse(p.ctx, NULL, mesh, &p.m->mesh));
  assert_true(msc_atoms_of(&p.m->mesh, 0, NULL, &p.atoms));
  check(&p);
  *num_runs += p.num_runs;
  msc_context_free(p.ctx);
  return !p.failed;
}

static void run_all(void (*check)(problem *), int least) {
  int failed = 0, total = 0;
  for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) {
    int num_runs = 0;
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
      for (const char *d = instances[i].dtypes; *d; d++) failed += !run_problem(&instances[i], dtype_name(*d), meshes[m], check, &num_runs);
    total += num_runs;
  }
  print_message("%d strategies\n", total);
  assert_true(total >= least);
  assert_int_equal(failed, 0);
}

static void forward_on_ranks(void **state) {
  (void)state;
  run_all(check_forward, 20000);
}

/* Every op with a rule has an instance. */
static void every_op(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    const msc_op_info *info = msc_op_info_of(ctx, (msc_op_kind)kind);
    bool found = (info->flags & (MSC_COLLECTIVE | MSC_TERMINATOR | MSC_LOCAL)) || kind == OP_shard;
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) found |= strcmp(instances[i].op, info->name) == 0;
    if (!found) fail_msg("no instance of %s", info->name);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_op), cmocka_unit_test(forward_on_ranks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
