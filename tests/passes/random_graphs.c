/* random_graphs.c: random training graphs with random configurations: after the pipeline N ranks compute what one
 * device does. Each graph is executed three times on the same numbers: after training was inserted, on one device;
 * after `redistribute` and after `localize`, on simulated ranks. With MSC_TEST_SLOW until 10,000 of them have passed.
 *
 *   RANDOM_GRAPHS=5000 build/tests/passes/random_graphs    more of them
 *   RANDOM_GRAPH=1234 build/tests/passes/random_graphs     one of them, with its text (with RANDOM_GRAPHS: the first)
 *   RANDOM_PROGRAM=1234 build/tests/passes/random_graphs   one as a program to be run: a line of JSON, then its text */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "ir/interp/interp.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/passes/random_graph.h"

enum { NUM_GRAPHS = 300, SLOW_GRAPHS = 10000, NUM_INPUTS = 3 };

typedef struct {
  uint64_t seed;
  random_graph g;
  msc_context *ctx;
  msc_config *config;
  const char *text;   /* of the input */
  msc_module *one;    /* after training was inserted */
  msc_func *kept;     /* in it: the step without dropout, as evaluation is; NULL: nothing is trained */
  double noise;       /* relative change of the inputs: none at first */
} problem;

typedef enum { PASSED, REFUSED, FAILED } outcome;

/* What has occurred in the graphs so far, and with a dimension of an operand or result cut. */
typedef struct {
  int seen[OP_COUNT], cut[OP_COUNT];
} coverage;

/* ---- reporting ---- */

static const char *flags_text(const problem *p) {
  const char *text = "";
  for (int i = 0; i < p->g.num_settings; i++)
    text = msc_arena_printf(p->g.arena, "%s --set '%s'", text, p->g.setting[i]);
  return text;
}

static void print_diags(const problem *p) {
  for (const msc_diag *d = msc_diags(p->ctx); d; d = d->next)
    print_error("  %s%s%s\n", d->op_name ? d->op_name : "", d->op_name ? ": " : "", d->text);
}

static outcome failed(const problem *p, const char *what) {
  const char *path = msc_arena_printf(p->g.arena, "build/random-%" PRIu64 ".mlir", p->seed);
  FILE *f = fopen(path, "w");
  if (f) fprintf(f, "// RUN: msc opt%s --from=fold --until=localize --check-numerics %%s\n%s", flags_text(p), p->text);
  if (f) fclose(f);
  print_error("seed %" PRIu64 ": %s; see %s\n ", p->seed, what, f ? path : "the text");
  print_error("%s\n", flags_text(p));
  print_diags(p);
  return FAILED;
}

/* ---- numbers ---- */

/* The same for every module that has the argument: by its name. */
static msc_tensor random_tensor(problem *p, msc_arena *a, const msc_func *f, size_t arg, int inputs) {
  const msc_value *v = f->body->args[arg];
  const msc_type *t = msc_type_with_layout(p->ctx, v->type, NULL);
  msc_tensor x = msc_tensor_new(a, t);
  random_graph r = {.state = p->seed * 31 + (uint64_t)inputs};
  for (const char *c = v->name; c && *c; c++) r.state = r.state * 257 + (uint8_t)*c;
  bool state = msc_arg_role(f, arg) == MSC_ROLE_STATE;
  int64_t max = arg < MAX_ARGS && p->g.max_int[arg] ? p->g.max_int[arg] : 2;
  for (int64_t i = 0, n = msc_type_elems(t); i < n; i++) {
    double unit = (double)(random_bits(&r) >> 11) * 0x1p-53, number = state ? 0.25 + unit : 1.5 * unit - 0.75;
    if (state && t->rank == 0) number = 3;
    else if (!msc_is_float(t->dtype)) number = floor(unit * (double)max);
    else number *= 1 + p->noise * (2 * (double)(random_bits(&r) >> 11) * 0x1p-53 - 1);
    msc_tensor_set(&x, i, number);
  }
  return x;
}

typedef struct {
  size_t num;
  const char **name;
  msc_tensor *value;
} named_tensors;

static msc_func *main_func(const msc_module *m) {
  msc_func *f = msc_find_func(m, "train");
  return f ? f : msc_find_func(m, "forward");
}

/* Arguments of f, all of them global, from those of the main function before sharding. */
static bool run(problem *p, msc_arena *a, msc_func *f, bool ranks, int inputs, named_tensors *out) {
  msc_func *train = main_func(p->one);
  const msc_block *b = f->body;
  msc_tensor *args = msc_new_array(a, msc_tensor, b->num_args + 1);
  for (size_t i = 0; i < b->num_args; i++)
    for (size_t k = 0; k < train->body->num_args; k++)
      if (train->body->args[k]->name == b->args[i]->name) args[i] = random_tensor(p, a, train, k, inputs);
  const msc_attr_value *names = msc_func_attr(f, "results");
  out->num = b->last->num_in;
  out->name = msc_new_array(a, const char *, out->num);
  out->value = msc_new_array(a, msc_tensor, out->num);
  for (size_t i = 0; i < out->num; i++) out->name[i] = names->list.v[i].s;
  return ranks ? msc_interpret_ranks(f, a, args, out->value) : msc_interpret(f, a, args, out->value);
}

static const msc_tensor *named(const named_tensors *t, const char *name) {
  for (size_t i = 0; i < t->num; i++)
    if (strcmp(t->name[i], name) == 0) return &t->value[i];
  return NULL;
}

static double largest(const msc_tensor *t) {
  double most = 0;
  for (int64_t i = 0, n = msc_type_elems(t->type); i < n; i++) most = fmax(most, fabs(msc_tensor_get(t, i)));
  return most;
}

static double tolerance(const problem *p, const msc_tensor *t) {
  if (p->g.narrow) return 0.05;
  return t->type->dtype == MSC_F64 ? 1e-12 : t->type->dtype == MSC_F32 ? 1e-5 : 0;
}

/* The largest difference of two tensors, relative to their largest element; 1 when their types differ. */
static double difference(const msc_tensor *x, const msc_tensor *y) {
  double most = 0, size = fmax(largest(x), 1e-3);
  if (x->type->dtype != y->type->dtype || msc_type_elems(x->type) != msc_type_elems(y->type)) return 1;
  for (int64_t i = 0, n = msc_type_elems(x->type); i < n; i++) {
    double a = msc_tensor_get(x, i), b = msc_tensor_get(y, i);
    if (a == b || (a != a && b != b)) continue;
    double d = fabs(a - b) / size;
    most = d <= most ? most : d == d ? d : 1;
  }
  return most;
}

/* What rounding alone changes: the one device's results when the inputs differ by a few units in the last place. */
static double sensitivity(problem *p, msc_arena *a, msc_func *one, const named_tensors *want, size_t result,
                          int inputs) {
  double most = 0;
  for (int k = 1; k <= 3; k++) {
    named_tensors other;
    p->noise = k * (p->g.narrow ? 0x1p-9 : p->g.dtype == MSC_F64 ? 0x1p-52 : 0x1p-22);
    if (run(p, a, one, false, inputs, &other))
      most = fmax(most, difference(&want->value[result], &other.value[result]));
    p->noise = 0;
  }
  return most;
}

/* NULL, or which result of f on the ranks differs from the one device's. */
static const char *compare(problem *p, msc_arena *a, msc_func *f, int inputs) {
  msc_func *one = p->kept && strcmp(f->name, "train") ? p->kept : main_func(p->one);
  named_tensors got, numbers, *want = &numbers;
  if (!run(p, a, one, false, inputs, want)) return "does not run on one device";
  if (!run(p, a, f, true, inputs, &got)) return "does not run on ranks";
  for (size_t i = 0; i < want->num; i++) {
    const msc_tensor *other = named(&got, want->name[i]);
    if (!other) continue;
    double d = difference(&want->value[i], other), allowed = tolerance(p, &want->value[i]);
    if (d > allowed && d > 50 * sensitivity(p, a, one, want, i, inputs))
      return msc_arena_printf(p->g.arena, "%s: result %s differs by %g of its largest element", f->name, want->name[i],
                              d);
  }
  return NULL;
}

/* Differences count when they show on every set of inputs: a tie that rounding decides differs on one of
 * them at most. */
static const char *check(problem *p, msc_module *m) {
  const char *fault = NULL;
  for (int inputs = 0; inputs < NUM_INPUTS; inputs++) {
    msc_arena *a = msc_arena_new(p->ctx);
    fault = NULL;
    for (msc_func *f = m->first; f && !fault; f = f->next) fault = compare(p, a, f, inputs);
    msc_arena_free(a);
    if (!fault || msc_num_errors(p->ctx)) break;
  }
  return fault;
}

/* ---- gradients_mean: the one device divides, too ---- */

/* Parameter w's gradient is the sum over so many ranks, as the module with layouts says. */
static int64_t replicas_of(msc_func *f, const char *w) {
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!(msc_info(op)->flags & MSC_UPDATE) || op->kind == OP_lamb_apply || strcmp(op->in[0].value->name, w)) continue;
    const msc_layout *l = msc_named_value(op, "g")->type->layout;
    return msc_group_size(l->num_partial, l->sub + l->first[l->rank]);
  }
  return 1;
}

/* Every gradient by the same number, which aggregate tells; or each by its own, which is told by the layouts
 * before that pass. */
static void divide_gradients(problem *p, msc_func *with_layouts, int64_t over) {
  msc_func *train = msc_find_func(p->one, "train");
  for (msc_op *op = train->body->first; op; op = op->next) {
    if (!(msc_info(op)->flags & MSC_UPDATE) || op->kind == OP_lamb_apply) continue;
    size_t at = (size_t)msc_operand_called(op, "g");
    int64_t n = over ? over : replicas_of(with_layouts, op->in[0].value->name);
    msc_builder b = {.func = train, .block = train->body, .before = op, .loc = op->loc};
    msc_value *g = op->in[at].value;
    msc_set_operand(
        op, at, msc_build(&b, OP_mul, 2, (msc_value *[]){g, msc_build_scalar(&b, g->type->dtype, 1.0 / (double)n)}));
  }
}

/* ---- evaluation drops nothing ---- */

static void keep_dropped(problem *p) {
  msc_func *train = msc_find_func(p->one, "train");
  if (!train) return;
  p->kept = msc_func_clone(train, "kept");
  for (msc_op *op = p->kept->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_dropout) continue;
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
  }
}

/* ---- one graph ---- */

static bool passes(problem *p, msc_module *m, const char *from, const char *until) {
  msc_pass_options options = {.from = from, .until = until, .verify = MSC_VERIFY_IR, .config = p->config};
  return msc_run_passes(p->ctx, m, &options);
}

/* Some drawings are no legal programs: what was reported must be the user's fault, not the compiler's. */
static outcome refused(problem *p, const char *where) {
  for (const msc_diag *d = msc_diags(p->ctx); d; d = d->next)
    if (d->severity == MSC_DIAG_ERROR && d->code != MSC_E_STRATEGY && d->code != MSC_E_UNSUPPORTED &&
        d->code != MSC_E_GRADIENT && d->code != MSC_E_OPTIMIZER)
      return failed(p, where);
  if (getenv("RANDOM_GRAPH") && !getenv("RANDOM_GRAPHS")) print_diags(p);
  return REFUSED;
}

static bool configured(problem *p) {
  p->config = msc_config_new(p->ctx);
  for (int i = 0; i < p->g.num_settings; i++) MSC_TRY(msc_config_set(p->config, p->g.setting[i]));
  return msc_config_check(p->config);
}

static bool is_cut(const msc_type *t) { return t->layout && t->layout->first[t->layout->rank]; }

static void cover(coverage *c, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next) {
      bool cut = false;
      for (size_t i = 0; i < op->num_in; i++) cut |= is_cut(op->in[i].value->type);
      for (size_t i = 0; i < op->num_out; i++) cut |= is_cut(op->out[i].type);
      c->seen[op->kind]++;
      c->cut[op->kind] += cut;
    }
}

static outcome compiled(problem *p, coverage *c) {
  msc_module *m = p->g.m;
  size_t bytes;
  if (!configured(p)) return failed(p, "the configuration is refused");
  if (!msc_verify(m)) return failed(p, "the graph is refused");
  if (!passes(p, m, "fold", "tidy")) return refused(p, "fails before sharding");
  const char *text = msc_print_text(m, p->g.arena, &bytes);
  p->one = msc_parse(p->ctx, "before", text, bytes);
  if (p->one) keep_dropped(p);
  if (!p->one || p->g.trains != (msc_find_func(p->one, "train") != NULL)) return failed(p, "does not train");
  if (!passes(p, m, "strategies", "layouts")) return refused(p, "fails in sharding");
  bool global = strcmp(p->g.mode, "data_parallel") != 0;
  bool mean = global && p->g.trains && msc_config_bool(p->config, MSC_KEY_gradients_mean),
       each = msc_config_choice(p->config, MSC_KEY_gradients_mean_of) == 1;
  if (mean && each) divide_gradients(p, msc_find_func(m, "train"), 0);
  if (!passes(p, m, "evaluate", "redistribute")) return failed(p, "fails in partition");
  const msc_attr_value *over = mean && !each ? msc_func_attr(msc_find_func(m, "train"), "gradients_over") : NULL;
  if (mean && !each && (!over || over->i < 1)) return failed(p, "does not tell what gradients are divided by");
  if (over) divide_gradients(p, NULL, over->i);
  const char *fault = check(p, m);
  if (fault) return failed(p, fault);
  cover(c, m);
  if (!passes(p, m, "mask", "localize")) return failed(p, "fails in localize");
  fault = check(p, m);
  return fault ? failed(p, msc_arena_printf(p->g.arena, "after localize: %s", fault)) : PASSED;
}

static outcome one_graph(uint64_t seed, coverage *c) {
  problem p = {.seed = seed, .ctx = msc_context_new(NULL, NULL)};
  random_graph_make(&p.g, p.ctx, seed);
  p.text = msc_print_text(p.g.m, p.g.arena, &(size_t){0});
  outcome o = compiled(&p, c);
  if (getenv("RANDOM_GRAPH") && !getenv("RANDOM_GRAPHS")) printf("%s\n%s", flags_text(&p), p.text);
  msc_context_free(p.ctx);
  return o;
}

/* An op of training that did not occur with something to cut, or NULL; those that are left: of composites, of
 * stages, after lowering. */
static const char *uncovered(const coverage *c) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  const char *name = NULL;
  for (int k = 0; k < OP_COUNT && !name; k++) {
    unsigned flags = msc_op_info_of(ctx, (msc_op_kind)k)->flags;
    if (flags & (MSC_COMPOSITE | MSC_LOCAL | MSC_TERMINATOR) || k == OP_accumulate || k == OP_put_rows ||
        k == OP_stage_send || k == OP_stage_recv || k == OP_broadcast || k == OP_send || k == OP_recv)
      continue;
    /* of GPUs, made by passes */
    if (k == OP_flash_attention || k == OP_flash_attention_grad || k == OP_biased_conv2d) continue;
    /* tables that are only looked up are rare: tests/e2e/lazy cuts them */
    if (k == OP_lazy_sgd || k == OP_lazy_momentum || k == OP_lazy_adagrad || k == OP_lazy_adam) continue;
    if ((k == OP_unique || k == OP_assign) && c->seen[k]) continue; /* its one letter stays whole; numbers have none */
    if (!c->cut[k]) name = msc_kind_name((unsigned)k);
  }
  msc_context_free(ctx);
  return name;
}

static void ranks_equal_one_device(void **state) {
  (void)state;
  const char *number = getenv("RANDOM_GRAPHS"), *only = getenv("RANDOM_GRAPH");
  uint64_t num = number ? strtoull(number, NULL, 10)
                 : only ? 1
                        : NUM_GRAPHS,
           first = only ? strtoull(only, NULL, 10) : 1;
  bool slow = getenv("MSC_TEST_SLOW") && !number && !only;
  int count[3] = {0};
  coverage c = {0};
  uint64_t seed = first;
  while (seed < first + num) count[one_graph(seed++, &c)]++;
  while (slow && count[PASSED] + count[FAILED] < SLOW_GRAPHS) count[one_graph(seed++, &c)]++;
  /* a rare op needs some more */
  while (num == NUM_GRAPHS && seed < first + 3 * num && uncovered(&c)) count[one_graph(seed++, &c)]++;
  print_message("%d passed, %d refused, %d failed\n", count[PASSED], count[REFUSED], count[FAILED]);
  assert_int_equal(count[FAILED], 0);
  if (num < NUM_GRAPHS) return;
  assert_true(count[REFUSED] * 4 < count[PASSED]);
  if (uncovered(&c)) fail_msg("%s: never cut", uncovered(&c));
}

/* ---- for others ---- */

/* Parameters are drawn when it is run; what is not as long as the batch has none. */
static void make_runnable(random_graph *g) {
  const msc_type *first = g->f->body->args[0]->type;
  for (size_t i = 0; i < g->f->body->num_args; i++) {
    const msc_type *t = g->f->body->args[i]->type;
    bool is_parameter = msc_arg_role(g->f, i) == MSC_ROLE_PARAMETER;
    if (is_parameter) msc_arg_set(g->f, i, "msc.init", msc_str(g->ctx, "normal:0.5"));
    else msc_arg_set(g->f, i, "msc.batch_dim", msc_int(t->rank && t->dim[0] == first->dim[0] ? 0 : -1));
  }
}

/* {"trains", "narrow", "dtype", "mode", "settings": [TEXT ..], "inputs": [{"name", "dtype", "below", "shape"} ..]};
 * integers are from 0 to below `below`. */
static void print_facts(const random_graph *g) {
  json_t *inputs = json_array(), *settings = json_array();
  for (int i = 0; i < g->num_settings; i++) json_array_append_new(settings, json_string(g->setting[i]));
  for (size_t i = 0; i < g->f->body->num_args; i++) {
    const msc_value *v = g->f->body->args[i];
    json_t *shape = json_array();
    for (int d = 0; d < v->type->rank; d++) json_array_append_new(shape, json_integer(v->type->dim[d]));
    json_t *input = json_pack("{s:s, s:s, s:I, s:o}", "name", v->name, "dtype", msc_dtype_name(v->type->dtype), "below",
                              (json_int_t)g->max_int[i], "shape", shape);
    if (msc_arg_role(g->f, i) <= MSC_ROLE_MASK) json_array_append_new(inputs, input);
    else json_decref(input);
  }
  json_t *all = json_pack("{s:b, s:b, s:s, s:s, s:o, s:o}", "trains", g->trains, "narrow", g->narrow, "dtype",
                          msc_dtype_name(g->dtype), "mode", g->mode, "settings", settings, "inputs", inputs);
  json_dumpf(all, stdout, JSON_COMPACT);
  json_decref(all);
}

static int print_program(uint64_t seed) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  random_graph g;
  random_graph_make(&g, ctx, seed);
  make_runnable(&g);
  print_facts(&g);
  printf("\n%s", msc_print_text(g.m, g.arena, &(size_t){0}));
  msc_context_free(ctx);
  return 0;
}

int main(void) {
  if (getenv("RANDOM_PROGRAM")) return print_program(strtoull(getenv("RANDOM_PROGRAM"), NULL, 10));
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_equal_one_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
