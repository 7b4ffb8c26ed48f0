/* shard_property.c: checks that N ranks compute what one does: every op, under every assignment of mesh digits to
 * the letters of its rule, forward and backward. Operands are cut as the layouts of the rule say (a sum that passes
 * through is split into random terms), every rank runs the op on its part, replicas must agree bit for bit, and the
 * joined results must be those of one device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ir/interp/interp.h"
#include "passes/pass.h"
#include "tests/ir/gradient.h"
#include "tests/ir/instances.h"
#include "tests/ir/one_op.h"

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
  int num_runs, num_mutants;
  bool failed;
} problem;

static uint64_t next_random(problem *p) { /* Marsaglia 2003, xorshift */
  p->seed ^= p->seed << 13;
  p->seed ^= p->seed >> 7;
  return p->seed ^= p->seed << 17;
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
  print_error("%s(%s) {%s} of %s%s: %s\n%s\n", p->inst->op, p->inst->in, p->inst->attrs, p->dtype,
              p->backward ? ", backward" : "", what, text);
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
      if (!msc_is_float(whole->type->dtype))
        rest = (double)(whole->type->dtype == MSC_U8 ? (int64_t)(uint8_t)(int64_t)rest : (int64_t)rest);
      msc_tensor_set(&out_term[num - 1], i, rest);
    }
  }
}

/* The parts of one argument on all ranks, into part[rank * stride]. */
static void cut_argument(problem *p, msc_arena *a, const msc_tensor *whole, const msc_layout *l, msc_tensor *part,
                         size_t stride) {
  const msc_subaxis *partial = l->sub + l->first[l->rank];
  msc_box_mesh mesh = msc_mesh_sizes(&p->m->mesh);
  int64_t num = msc_group_size(l->num_partial, partial);
  msc_layout finished = *l;
  finished.num_partial = 0;
  msc_tensor *term = msc_new_array(a, msc_tensor, num);
  tear(p, a, whole, num, term);
  for (int64_t r = 0; r < msc_mesh_size(&p->m->mesh); r++)
    part[(size_t)r * stride] =
        msc_tensor_part(p->m, a, &term[msc_group_index(&mesh, l->num_partial, partial, r)], &finished, r);
}

static bool has_composite(const msc_func *f) {
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_must_expand(op, NULL)) return true;
  return false;
}

/* What its operands are laid out as is what the op wants. */
static void want_operands(problem *p, msc_op *op) {
  const msc_layout **want = msc_new_array(msc_context_arena(p->ctx), const msc_layout *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) want[i] = op->in[i].value->type->layout;
  if (op->num_in) msc_op_set(op, "in_layout", msc_layouts_attr(p->ctx, op->num_in, want));
}

/* A copy of f whose composites are expanded, with the layout changes that they need then; its results are laid
 * out as f's. */
static msc_func *expanded(problem *p, msc_func *f) {
  msc_func *copy = msc_func_clone(f, "expanded"), *first = p->m->first, *last = p->m->last;
  for (msc_op *op = copy->body->first; op; op = op->next) want_operands(p, op);
  p->m->first = p->m->last = copy;
  bool torn = false; /* the verifier wants arguments finished */
  for (size_t i = 0; i < copy->body->num_args; i++) torn |= copy->body->args[i]->type->layout->num_partial > 0;
  bool ok = msc_run_passes(
      p->ctx, p->m,
      &(msc_pass_options){.passes = "expand,redistribute", .verify = torn ? MSC_VERIFY_OFF : MSC_VERIFY_IR});
  for (msc_op *op = copy->body->first; ok && op; op = op->next) ok = msc_rule_check(op, msc_context_arena(p->ctx));
  p->m->first = first, p->m->last = last;
  for (msc_func *g = first; g; g = g->next)
    if (g->next == copy) p->m->last = g, g->next = NULL;
  return ok ? copy : NULL;
}

static bool run_parts(problem *p, msc_func *f, const msc_tensor *args, const msc_tensor *want);

/* f with layouts everywhere, on the ranks; the results must be `want`. */
static bool run_ranks(problem *p, msc_func *f, const msc_tensor *args, const msc_tensor *want) {
  if (!has_composite(f)) return run_parts(p, f, args, want);
  msc_func *copy = expanded(p, f);
  if (!copy) return report(p, f, "cannot be expanded");
  return run_parts(p, copy, args, want) || report(p, f, "was expanded to that");
}

static bool run_parts(problem *p, msc_func *f, const msc_tensor *args, const msc_tensor *want) {
  size_t num_args = f->body->num_args, num_results = f->body->last->num_in,
         num_ranks = (size_t)msc_mesh_size(&p->m->mesh);
  msc_arena *a = msc_arena_new(p->ctx);
  msc_tensor *part = msc_new_array(a, msc_tensor, num_ranks * num_args + 1),
             *got = msc_new_array(a, msc_tensor, num_ranks * num_results);
  msc_tensor *result = msc_new_array(a, msc_tensor, num_ranks), whole;
  bool ok = true;
  p->num_runs++;
  for (size_t i = 0; i < num_args; i++)
    cut_argument(p, a, &args[i], f->body->args[i]->type->layout, part + i, num_args);
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
  if (!msc_rule_check(x->op, msc_context_arena(p->ctx)))
    return report(p, f, "the rule's own layouts do not pass its check");
  return run_ranks(p, f, x->args, x->want);
}

static void check_forward(problem *p) {
  msc_arena *arena = msc_context_arena(p->ctx);
  forward x = {
      .op = one_op(p->m, p->inst->op, with_dtype(msc_context_arena(p->ctx), p->inst->in, p->dtype), p->inst->attrs,
          p->inst->num_out)};
  msc_rule rule;
  assert_non_null(x.op);
  assert_true(msc_rule_of(x.op, arena, &rule));
  x.args = msc_new_array(arena, msc_tensor, x.op->num_in + 1);
  x.want = msc_new_array(arena, msc_tensor, x.op->num_out);
  for (size_t i = 0; i < x.op->num_in; i++) x.args[i] = random_tensor(p, arena, x.op->in[i].value->type);
  if (!msc_interpret(x.op->block->func, arena, x.args, x.want))
    report(p, x.op->block->func, "does not run on one device");
  else every_assignment(p, &rule, run_forward, &x);
}

/* ---- backward: the op and its gradients as one function; every gradient op cut as its letters say ---- */

typedef struct {
  gradient_func g; /* without layouts */
  msc_tensor *args, *want;
} backward;

/* The gradient op's own letters under the forward op's assignment. */
static msc_assignment inherited(const msc_op *op, const msc_rule *own, const msc_rule *rule, const msc_assignment *a) {
  msc_assignment of_op;
  memset(&of_op, 0, sizeof of_op);
  for (int l = 0; l < own->num_letters; l++)
    for (int k = 0; k < rule->num_letters; k++)
      if (op->letters[l] == rule->letter[k].name)
        of_op.num[l] = a->num[k], memcpy(of_op.atom[l], a->atom[k], sizeof *a->atom);
  return of_op;
}

/* Partial sums of the operands that can stay: over all linear operands alike, or over one. */
static void let_pass(const problem *p, const msc_op *op, const msc_rule *rule, msc_assignment *a) {
  uint32_t mask[2] = {0, 0};
  for (size_t i = 0; i < op->num_in && i < 2; i++) {
    const msc_layout *l = op->in[i].value->type->layout;
    uint8_t atom[MSC_MAX_SUBAXES];
    int num = l->reduction == MSC_SUM ? msc_atoms_in(&p->atoms, l->num_partial, l->sub + l->first[l->rank], atom) : 0;
    while (num) mask[i] |= 1u << atom[--num];
  }
  if (!rule->linear || op->num_in > 2 || (rule->joint && op->num_in == 2 && mask[0] != mask[1])) return;
  a->pass_in = !(rule->linear_in & 1) || (!rule->joint && !mask[0]);
  a->pass = mask[a->pass_in];
  if (!msc_rule_allows(rule, a, &p->atoms) || !(rule->linear_in >> a->pass_in & 1)) a->pass = 0;
}

/* Brings operand i into the layout that the op wants it in. */
static void insert_edge(problem *p, msc_op *op, size_t i, const msc_layout *want) {
  msc_value *v = op->in[i].value;
  if (v->type->layout == want) return;
  msc_op *edge = msc_op_new(op->block->func, OP_exchange, 1, &v, 1, NULL);
  msc_insert_before(op, edge);
  edge->out[0].type = msc_type_with_layout(p->ctx, v->type, want);
  msc_set_operand(op, i, &edge->out[0]);
}

/* Lays one op out; false: its rule does not allow what it inherits. */
static bool lay_op(problem *p, msc_op *op, const msc_rule *rule, const msc_assignment *a) {
  msc_rule own;
  msc_assignment of_op = *a;
  if (!msc_rule_of(op, msc_context_arena(p->ctx), &own)) return report(p, op->block->func, "a gradient op has no rule");
  if (op->forward) of_op = inherited(op, &own, rule, a);
  if (!msc_rule_allows(&own, &of_op, &p->atoms)) return false;
  if (op->forward) let_pass(p, op, &own, &of_op);
  for (size_t i = 0; i < op->num_in; i++)
    insert_edge(p, op, i, msc_rule_layout(p->ctx, &p->m->mesh, &p->atoms, &own, &of_op, i));
  for (size_t i = 0; i < op->num_out; i++) set_layout(p, &op->out[i], &own, &of_op, own.num_in + i);
  return true;
}

static void set_finished(problem *p, msc_value *v, const msc_rule *rule, const msc_assignment *a, size_t tensor) {
  msc_layout l = *msc_rule_layout(p->ctx, &p->m->mesh, &p->atoms, rule, a, tensor);
  l.num_partial = 0;
  v->type = msc_type_with_layout(p->ctx, v->type, msc_layout_of(p->ctx, &p->m->mesh, &l));
}

/* Arguments come with the letters of what they are, or are gradients of. */
static void lay_arguments(problem *p, msc_func *f, const msc_op *op, const msc_rule *rule, const msc_assignment *a) {
  size_t at = 0;
  for (; at < op->num_in; at++) set_layout(p, f->body->args[at], rule, a, at);
  for (size_t i = 0; i < op->num_out; i++)
    if (msc_is_float(op->out[i].type->dtype)) set_finished(p, f->body->args[at++], rule, a, rule->num_in + i);
}

/* A gradient is cut like its operand; sums over what the operand lacks are left for later, or done. */
static bool cut_like_operands(problem *p, const backward *x, msc_func *f) {
  for (size_t i = 0; i < f->body->last->num_in; i++) {
    const msc_layout *operand = f->body->args[x->g.of[i]]->type->layout,
                     *gradient = f->body->last->in[i].value->type->layout;
    size_t num = operand->first[operand->rank];
    if (memcmp(operand->first, gradient->first, operand->rank + 1u) ||
        memcmp(operand->sub, gradient->sub, num * sizeof *operand->sub))
      return report(p, f, "a gradient is not cut like its operand");
  }
  return true;
}

static bool check_layouts(problem *p, msc_func *f) {
  msc_arena *a = msc_arena_new(p->ctx);
  bool ok = true;
  for (const msc_op *op = f->body->first; op; op = op->next) ok &= msc_rule_check(op, a);
  msc_arena_free(a);
  return ok || report(p, f, "a gradient's layouts do not pass the check");
}

/* Without any one of its layout changes the function must not pass the check. */
static bool check_without_edges(problem *p, msc_func *f) {
  msc_arena *a = msc_arena_new(p->ctx);
  bool ok = true;
  for (msc_op *edge = f->body->first; ok && edge; edge = edge->next) {
    if (edge->kind != OP_exchange) continue;
    msc_op *user = edge->out[0].uses->user;
    size_t operand = (size_t)(edge->out[0].uses - user->in);
    msc_set_operand(user, operand, edge->in[0].value);
    if (msc_rule_check(user, a)) ok = report(p, f, "passes the check although a layout change is missing");
    msc_set_operand(user, operand, &edge->out[0]);
    msc_clear_diags(p->ctx);
    p->num_mutants++;
  }
  msc_arena_free(a);
  return ok;
}

static bool run_backward(problem *p, void *user, const msc_rule *rule, const msc_assignment *a) {
  backward *x = user;
  if (a->pass) return true; /* the forward test has it */
  msc_func *f = msc_func_clone(x->g.func, "g");
  msc_op *ret = f->body->last;
  bool allowed = true;
  lay_arguments(p, f, f->body->first, rule, a);
  for (msc_op *op = f->body->first; allowed && op != ret; op = op->next) allowed = lay_op(p, op, rule, a);
  bool ok = !p->failed && (!allowed || (check_layouts(p, f) && cut_like_operands(p, x, f) &&
                                        run_ranks(p, f, x->args, x->want) && check_without_edges(p, f)));
  msc_func_remove(f);
  return ok;
}

static void check_backward(problem *p) {
  msc_arena *arena = msc_context_arena(p->ctx);
  if (p->dtype[0] != 'f') return;
  msc_op *op = one_op(p->m, p->inst->op, with_dtype(arena, p->inst->in, p->dtype), p->inst->attrs, p->inst->num_out);
  backward x;
  msc_rule rule;
  p->backward = true;
  assert_non_null(op);
  if (!gradients_of(op, &x.g)) {
    if (msc_num_errors(p->ctx)) report(p, op->block->func, "the gradient cannot be built");
    return;
  }
  msc_func *f = x.g.func;
  assert_true(msc_rule_of(op, arena, &rule));
  x.args = msc_new_array(arena, msc_tensor, f->body->num_args);
  x.want = msc_new_array(arena, msc_tensor, f->body->last->num_in);
  for (size_t i = 0; i < f->body->num_args; i++) x.args[i] = random_tensor(p, arena, f->body->args[i]->type);
  if (!msc_interpret(f, arena, x.args, x.want)) report(p, f, "does not run on one device");
  else every_assignment(p, &rule, run_backward, &x);
}

/* ---- all problems ---- */

static bool run_problem(const instance *inst, const char *dtype, const char *mesh, void (*check)(problem *),
                        int *num_runs, int *num_mutants) {
  problem p = {.inst = inst, .dtype = dtype, .ctx = msc_context_new(NULL, NULL), .seed = 88172645463325252u};
  p.m = msc_module_new(p.ctx);
  assert_true(msc_mesh_parse(p.ctx, NULL, mesh, &p.m->mesh));
  assert_true(msc_atoms_of(&p.m->mesh, 0, NULL, &p.atoms));
  check(&p);
  *num_runs += p.num_runs;
  *num_mutants += p.num_mutants;
  msc_context_free(p.ctx);
  return !p.failed;
}

/* Expansions take time, and are made of ops that see all meshes. */
static bool takes_part(const instance *inst, const char *mesh) {
  msc_op_kind kind;
  msc_context *ctx = msc_context_new(NULL, NULL);
  bool composite = msc_kind_parse(inst->op, &kind) && msc_op_info_of(ctx, kind)->flags & MSC_COMPOSITE;
  msc_context_free(ctx);
  return !composite || !strcmp(mesh, "x=2,y=2");
}

static void run_all(void (*check)(problem *), int least_runs, int least_mutants) {
  int failed = 0, runs = 0, mutants = 0;
  for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
      for (const char *d = instances[i].dtypes; *d && takes_part(&instances[i], meshes[m]); d++)
        failed += !run_problem(&instances[i], dtype_name(*d), meshes[m], check, &runs, &mutants);
  print_message("%d strategies, %d without a layout change\n", runs, mutants);
  assert_true(runs >= least_runs && mutants >= least_mutants);
  assert_int_equal(failed, 0);
}

static void forward_on_ranks(void **state) {
  (void)state;
  run_all(check_forward, 20000, 0);
}

static void backward_on_ranks(void **state) {
  (void)state;
  run_all(check_backward, 8000, 500);
}

/* Every op with a rule has an instance. */
static void every_op(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    const msc_op_info *info = msc_op_info_of(ctx, (msc_op_kind)kind);
    /* vjp: comes with the gradients */
    bool found = (info->flags & (MSC_COLLECTIVE | MSC_TERMINATOR | MSC_LOCAL)) || kind == OP_shard || kind == OP_vjp;
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) found |= strcmp(instances[i].op, info->name) == 0;
    if (!found) fail_msg("no instance of %s", info->name);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_op), cmocka_unit_test(forward_on_ranks),
                                     cmocka_unit_test(backward_on_ranks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
