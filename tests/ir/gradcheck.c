/* gradcheck.c: compares gradients with finite differences, in f64, for every differentiable op and for the manual
 * collectives over all ranks. With L = sum of dy * y over all results and ranks, dL/dx is (L(x + h) - L(x - h)) /
 * 2h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ir/interp/interp.h"
#include "tests/ir/gradient.h"
#include "tests/ir/instances.h"
#include "tests/ir/one_op.h"

typedef struct {
  const instance *inst;
  msc_context *ctx;
  msc_module *m;
  uint64_t seed;
  msc_func *forward;
  gradient_func gradient;
  size_t num_ranks, num_in, num_out, num_args; /* args of the gradient function: operands, then gradients of results */
  msc_tensor *args;                            /* [rank * num_args + i] */
  bool failed;
} problem;

static double next_random(problem *p) { /* [0, 1); Marsaglia 2003, xorshift */
  p->seed ^= p->seed << 13;
  p->seed ^= p->seed >> 7;
  p->seed ^= p->seed << 17;
  return (double)(p->seed >> 11) * 0x1p-53;
}

static msc_tensor random_tensor(problem *p, const msc_type *t) {
  msc_tensor x = msc_tensor_new(msc_context_arena(p->ctx), t);
  for (int64_t i = 0, n = msc_type_elems(t); i < n; i++) {
    double v = next_random(p);
    if (t->dtype == MSC_I1) v = v < 0.5;
    else if (!msc_is_float(t->dtype)) v = floor(v * (p->inst->max_int ? p->inst->max_int : 100));
    else v = number_for(p->inst->op, v);
    msc_tensor_set(&x, i, v);
  }
  return x;
}

static bool report(problem *p, const char *what) {
  print_error("%s(%s) {%s}: %s\n", p->inst->op, p->inst->in, p->inst->attrs, what);
  for (const msc_diag *d = msc_diags(p->ctx); d; d = d->next) print_error("  %s\n", d->text);
  p->failed = true;
  return false;
}

/* Runs f, whose arguments are the first ones of args. */
static bool run(const problem *p, msc_func *f, msc_arena *a, msc_tensor *out_results) {
  size_t num = f->body->num_args;
  msc_tensor *args = msc_new_array(a, msc_tensor, num * p->num_ranks);
  for (size_t r = 0; r < p->num_ranks; r++) memcpy(args + r * num, p->args + r * p->num_args, num * sizeof *args);
  return p->num_ranks > 1 ? msc_interpret_parts(f, a, args, out_results) : msc_interpret(f, a, args, out_results);
}

static double objective(const problem *p) {
  msc_arena *a = msc_arena_new(p->ctx);
  msc_tensor *y = msc_new_array(a, msc_tensor, p->num_out * p->num_ranks);
  double sum = 0;
  assert_true(run(p, p->forward, a, y));
  for (size_t r = 0; r < p->num_ranks; r++)
    for (size_t i = 0, at = p->num_in; i < p->num_out; i++) {
      const msc_tensor *result = &y[r * p->num_out + i], *dy = &p->args[r * p->num_args + at];
      if (!msc_is_float(result->type->dtype)) continue;
      for (int64_t k = 0, n = msc_type_elems(result->type); k < n; k++)
        sum += msc_tensor_get(result, k) * msc_tensor_get(dy, k);
      at++;
    }
  msc_arena_free(a);
  return sum;
}

static double difference(problem *p, msc_tensor *x, int64_t i) {
  const double h = 1e-5;
  double v = msc_tensor_get(x, i);
  msc_tensor_set(x, i, v + h);
  double above = objective(p);
  msc_tensor_set(x, i, v - h);
  double below = objective(p);
  msc_tensor_set(x, i, v);
  return (above - below) / (2 * h);
}

static bool check_tensor(problem *p, msc_tensor *x, const msc_tensor *dx, size_t operand) {
  for (int64_t i = 0, n = msc_type_elems(x->type); i < n; i++) {
    double want = difference(p, x, i), got = msc_tensor_get(dx, i);
    if (fabs(got - want) <= 1e-7 * (1 + fabs(want))) continue;
    return report(
        p, msc_arena_printf(msc_context_arena(p->ctx),
                            "element %" PRId64 " of the gradient of operand %zu is %.12g, finite differences say %.12g",
                            i, operand, got, want));
  }
  return true;
}

static void check_gradients(problem *p) {
  msc_arena *a = msc_context_arena(p->ctx);
  size_t num = p->gradient.func->body->last->num_in;
  msc_tensor *dx = msc_new_array(a, msc_tensor, num * p->num_ranks);
  if (!run(p, p->gradient.func, a, dx)) {
    report(p, "the gradient does not run");
    return;
  }
  for (size_t r = 0; r < p->num_ranks; r++)
    for (size_t i = 0; i < num; i++) {
      msc_tensor *x = &p->args[r * p->num_args + p->gradient.of[i]];
      const msc_tensor *d = &dx[r * num + i];
      if (d->type != x->type) report(p, "a gradient has another type than its operand");
      else if (!check_tensor(p, x, d, p->gradient.of[i])) return;
    }
}

/* False: the op has no gradient here. */
static bool check_instance(const instance *inst, const char *mesh, bool *out_ok) {
  problem p = {.inst = inst, .ctx = msc_context_new(NULL, NULL), .seed = 88172645463325252u, .num_ranks = 1};
  p.m = msc_module_new(p.ctx);
  if (mesh) {
    assert_true(msc_mesh_parse(p.ctx, NULL, mesh, &p.m->mesh));
    p.num_ranks = (size_t)msc_mesh_size(&p.m->mesh);
  }
  msc_op *op = one_op(p.m, inst->op, with_dtype(msc_context_arena(p.ctx), inst->in, "f64"), inst->attrs, inst->num_out);
  assert_non_null(op);
  p.forward = msc_func_clone(op->block->func, "forward");
  p.num_in = op->num_in, p.num_out = op->num_out;
  bool differentiable = gradients_of(op, &p.gradient);
  if (msc_num_errors(p.ctx)) report(&p, "the gradient cannot be built");
  if (differentiable) {
    p.num_args = p.gradient.func->body->num_args;
    p.args = msc_new_array(msc_context_arena(p.ctx), msc_tensor, p.num_args * p.num_ranks);
    for (size_t i = 0; i < p.num_args * p.num_ranks; i++)
      p.args[i] = random_tensor(&p, p.gradient.func->body->args[i % p.num_args]->type);
    check_gradients(&p);
  }
  *out_ok &= !p.failed;
  msc_context_free(p.ctx);
  return differentiable;
}

static void on_one_device(void **state) {
  (void)state;
  bool ok = true;
  for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
    if (strchr(instances[i].dtypes, 'd')) check_instance(&instances[i], NULL, &ok);
  assert_true(ok);
}

static const instance collectives[] = {
    {"all_reduce", "4xT", "axes={x}", "d", 1, 0},
    {"all_reduce", "4xT", "axes={y} reduction=max", "d", 1, 0},
    {"all_reduce", "4xT", "axes={x,y} reduction=min", "d", 1, 0},
    {"all_reduce", "4xT", "axes={x,y} reduction=prod", "d", 1, 0},
    {"all_reduce", "4xT", "axes={y} reduction=prod", "d", 1, 0},
    {"all_gather", "2x4xT", "axes={y} dim=1", "d", 1, 0},
    {"reduce_scatter", "2x6xT", "axes={y} dim=1", "d", 1, 0},
    {"all_to_all", "4x3xT", "axes={x} split_dim=0 concat_dim=1", "d", 1, 0},
    {"all_to_all", "6xT", "axes={y,x}", "d", 1, 0},
    {"permute", "4xT", "axes={y} pairs=0,1,1,2", "d", 1, 0},
    {"broadcast", "4xT", "axes={y} root=1", "d", 1, 0},
};

static void on_ranks(void **state) {
  (void)state;
  bool ok = true;
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    if (!check_instance(&collectives[i], "x=2,y=3", &ok)) fail_msg("%s has no gradient", collectives[i].op);
  assert_true(ok);
}

/* y = recv(send(x)) from member 2 to member 0: dx of member 2 is dy of member 0. */
static void point_to_point(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_module_new(ctx);
  msc_mesh_parse(ctx, NULL, "y=3", &m->mesh);
  msc_func *f = msc_func_new(m, "f");
  const msc_type *t = type_of_text(ctx, NULL, "2xf64", 5);
  msc_value *x = msc_add_arg(f->body, t, NULL), *dy = msc_add_arg(f->body, t, NULL), *dtoken = NULL, *dx = NULL;
  const msc_layout *digits;
  msc_digits_parse(ctx, &m->mesh, NULL, "{y}", &digits);
  msc_attr attrs[] = {msc_named(ctx, "axes", msc_digits_attr(digits)), msc_named(ctx, "from", msc_int(2)),
                      msc_named(ctx, "to", msc_int(0))};
  msc_builder b = {.func = f, .loc = f->loc};
  msc_op *send = msc_build_with(&b, OP_send, 1, &x, 1, 3, attrs);
  msc_op *recv = msc_build_with(&b, OP_recv, 1, (msc_value *[]){&send->out[0]}, 1, 3, attrs);
  bool wanted = true;
  assert_true(grad_recv(&(msc_grad_ctx){b, &dy, &wanted, &dtoken}, recv));
  assert_true(grad_send(&(msc_grad_ctx){b, &dtoken, &wanted, &dx}, send));
  msc_build_with(&b, OP_return, 1, &dx, 0, 0, NULL);
  assert_true(msc_verify(m));
  msc_tensor args[6], out[3];
  for (int i = 0; i < 6; i++) args[i] = msc_tensor_new(a, t), msc_tensor_set(&args[i], 1, i + 1);
  assert_true(msc_interpret_parts(f, a, args, out));
  for (int r = 0; r < 3; r++) assert_true(msc_tensor_get(&out[r], 1) == (r == 2 ? 2 : 0));
  msc_context_free(ctx);
}

/* Every op that has a gradient is in one of the tables. */
static void every_op(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    const msc_op_info *info = msc_op_info_of(ctx, (msc_op_kind)kind);
    bool found = !info->grad || kind == OP_send || kind == OP_recv;
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) found |= strcmp(instances[i].op, info->name) == 0;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
      found |= strcmp(collectives[i].op, info->name) == 0;
    if (!found) fail_msg("no instance of %s", info->name);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_one_device), cmocka_unit_test(on_ranks),
                                     cmocka_unit_test(point_to_point), cmocka_unit_test(every_op)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
