/* verify.c: checks the verifier: good modules pass, each kind of fault is found, and all of them in one run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/ir/one_op.h"

typedef struct {
  msc_context *ctx;
  msc_module *m;
  msc_func *f;
  msc_builder b;
} fixture;

static fixture begin(void) {
  fixture x;
  x.ctx = msc_context_new(NULL, NULL);
  x.m = msc_module_new(x.ctx);
  assert_true(msc_mesh_parse(x.ctx, NULL, "x=2,y=2,z=3", &x.m->mesh));
  x.f = msc_func_new(x.m, "f");
  x.b = (msc_builder){.func = x.f, .loc = x.f->loc};
  return x;
}

static msc_value *arg(fixture *x, const char *type) {
  return msc_add_arg(x->f->body, type_of_text(x->ctx, &x->m->mesh, type, strlen(type)), NULL);
}

static msc_value *build(fixture *x, msc_op_kind kind, msc_value *a, msc_value *b) {
  return msc_build(&x->b, kind, b ? 2 : 1, (msc_value *[]){a, b});
}

static void finish(fixture *x, msc_value *v) { msc_build_with(&x->b, OP_return, v ? 1 : 0, &v, 0, 0, NULL); }

/* The message at `number`, from 0. */
static const char *message(fixture *x, int number) {
  for (const msc_diag *d = msc_diags(x->ctx); d; d = d->next)
    if (d->severity == MSC_DIAG_ERROR && number-- == 0) return d->text;
  return "";
}

static void expect(fixture *x, int num_errors, const char *first) {
  bool ok = msc_verify(x->m);
  assert_int_equal(msc_num_errors(x->ctx), num_errors);
  assert_int_equal(ok, num_errors == 0);
  if (num_errors && !strstr(message(x, 0), first)) fail_msg("expected \"%s\", got \"%s\"", first, message(x, 0));
  msc_context_free(x->ctx);
}

static void good(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32"), *b = build(&x, OP_add, a, a);
  finish(&x, build(&x, OP_neg, b, NULL));
  expect(&x, 0, "");
}

static void ends(void **state) {
  (void)state;
  fixture x = begin();
  arg(&x, "4xf32");
  expect(&x, 1, "f: must end with return");
  x = begin();
  msc_value *a = arg(&x, "4xf32");
  finish(&x, a);
  finish(&x, build(&x, OP_neg, a, NULL));
  expect(&x, 1, "return: must be the last op");
}

static void order(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32"), *b = build(&x, OP_neg, a, NULL), *c = build(&x, OP_exp, b, NULL);
  finish(&x, c);
  msc_op_unlink(c->def);
  msc_insert_before(b->def, c->def);
  expect(&x, 1, "exp: operand 0 is used before its definition");

  x = begin(); /* a definition that was erased although it has users */
  a = arg(&x, "4xf32"), b = build(&x, OP_neg, a, NULL), c = build(&x, OP_exp, b, NULL);
  finish(&x, c);
  msc_op_unlink(b->def);
  expect(&x, 1, "exp: operand 0 is used before its definition, or its definition was removed");

  x = begin(); /* a value of another function */
  a = arg(&x, "4xf32");
  msc_func *g = msc_func_new(x.m, "g");
  msc_value *foreign = msc_add_arg(g->body, a->type, NULL);
  msc_append_return(g, 0, NULL, NULL);
  finish(&x, build(&x, OP_add, a, foreign));
  expect(&x, 1, "add: operand 1 is defined in another block");
}

static void links(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32"), *b = build(&x, OP_neg, a, NULL);
  finish(&x, b);
  b->def->in[0].value = b; /* not through msc_set_operand */
  a->uses = NULL;
  expect(&x, 1, "neg: a use is not in its value's list");
}

static void rows_and_types(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32"), *b = build(&x, OP_neg, a, NULL), *c = build(&x, OP_exp, b, NULL),
            *d = build(&x, OP_log, c, NULL);
  finish(&x, d);
  b->type = type_of_text(x.ctx, NULL, "5xf32", 5);
  msc_op *split = msc_op_new(x.f, OP_concat, 1, &a, 1, NULL); /* without its attribute */
  msc_insert_after(d->def, split);
  split->out[0].type = a->type;
  assert_false(msc_verify(x.m));
  assert_int_equal(msc_num_errors(x.ctx), 3); /* neg declared 5, exp declared 4, concat: all in one run */
  assert_non_null(strstr(message(&x, 2), "concat: attribute dim is missing"));
  assert_string_equal(text_of_type(msc_context_arena(x.ctx), b->type), "5xf32"); /* declared types stay */
  msc_context_free(x.ctx);
}

static msc_value *update(fixture *x, msc_value *w, msc_value *g) {
  msc_attr lr = msc_named(x->ctx, "lr", msc_float(0.5));
  return &msc_build_with(&x->b, OP_sgd, 2, (msc_value *[]){w, g}, 1, 1, &lr)->out[0];
}

static void tied(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *w = arg(&x, "4xf32"), *g = arg(&x, "4xf32");
  build(&x, OP_neg, w, NULL);
  finish(&x, update(&x, w, g));
  expect(&x, 0, "");

  x = begin();
  w = arg(&x, "4xf32"), g = arg(&x, "4xf32");
  update(&x, w, g);
  finish(&x, build(&x, OP_neg, w, NULL));
  expect(&x, 1, "neg: reads a value that sgd has overwritten; use its result");

  x = begin(); /* the same memory as another shape */
  w = arg(&x, "4xf32"), g = arg(&x, "4xf32");
  msc_attr shape = msc_named(x.ctx, "shape", msc_ints(x.ctx, 2, (int64_t[]){2, 2}));
  msc_value *seen = &msc_build_with(&x.b, OP_reshape, 1, &w, 1, 1, &shape)->out[0];
  update(&x, w, g);
  finish(&x, build(&x, OP_neg, seen, NULL));
  expect(&x, 1, "neg: reads a value that sgd has overwritten; use its result");

  x = begin();
  w = arg(&x, "4xf32@[{x}]"), g = arg(&x, "4xf32@[{x}]");
  msc_value *next = update(&x, w, g);
  next->type = type_of_text(x.ctx, &x.m->mesh, "4xf32@[{y}]", 11);
  finish(&x, next);
  expect(&x, 2, "sgd: result 0 takes the buffer of operand 0, so both must have the same type and layout");
}

/* fused { args: w, g; y = sgd(w, 2g); yield y } */
static msc_op *fused_update(fixture *x, msc_value *w, msc_value *g) {
  msc_op *op = msc_op_new(x->f, OP_fused, 2, (msc_value *[]){w, g}, 1, NULL);
  msc_append(x->f->body, op);
  op->body = msc_block_new(x->f, op);
  msc_value *iw = msc_add_arg(op->body, w->type, NULL), *ig = msc_add_arg(op->body, g->type, NULL);
  msc_builder outer = x->b;
  x->b.block = op->body;
  msc_value *y = update(x, iw, build(x, OP_add, ig, ig));
  msc_build_with(&x->b, OP_yield, 1, &y, 0, 0, NULL);
  x->b = outer;
  assert_true(msc_infer(op));
  return op;
}

static void regions(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *w = arg(&x, "4xf32"), *g = arg(&x, "4xf32");
  finish(&x, &fused_update(&x, w, g)->out[0]);
  expect(&x, 0, "");

  x = begin(); /* the region's update overwrites the operand of the fused op */
  w = arg(&x, "4xf32"), g = arg(&x, "4xf32");
  fused_update(&x, w, g);
  finish(&x, build(&x, OP_neg, w, NULL));
  expect(&x, 1, "neg: reads a value that fused has overwritten");

  x = begin(); /* a region sees its own arguments only */
  w = arg(&x, "4xf32"), g = arg(&x, "4xf32");
  msc_op *op = fused_update(&x, w, g);
  finish(&x, &op->out[0]);
  msc_set_operand(op->body->first, 0, g);
  expect(&x, 1, "add: operand 0 is defined in another block; a region sees its own arguments only");

  x = begin();
  w = arg(&x, "4xf32"), g = arg(&x, "4xf32");
  op = fused_update(&x, w, g);
  finish(&x, &op->out[0]);
  msc_set_operands(op, 1, &w);
  expect(&x, 1, "fused: region has 2 arguments for 1 operands");
}

static void functions(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32");
  msc_func_set(x.f, "loss", msc_int(0));
  msc_func_set(x.f, "results", msc_list(x.ctx, 0, NULL));
  msc_arg_set(x.f, 0, "msc.role", msc_str(x.ctx, "paramter"));
  finish(&x, a);
  msc_append(msc_func_new(x.m, "f")->body, msc_op_new(x.f, OP_return, 0, NULL, 0, NULL));
  assert_false(msc_verify(x.m));
  assert_non_null(strstr(message(&x, 0), "two functions are named f"));
  msc_func_remove(x.m->last);
  msc_clear_diags(x.ctx);
  assert_false(msc_verify(x.m));
  assert_int_equal(msc_num_errors(x.ctx), 3);
  assert_non_null(strstr(message(&x, 0), "argument 0 has an unknown msc.role"));
  assert_non_null(strstr(message(&x, 1), "results must be a list of 1 names"));
  assert_non_null(strstr(message(&x, 2), "the loss must be a floating-point scalar, not rank 1 of f32"));
  msc_context_free(x.ctx);
}

/* No two arguments have one name, and none has that which files of weights keep for themselves. */
static void argument_names(void **state) {
  (void)state;
  fixture x = begin();
  msc_value *a = arg(&x, "4xf32");
  arg(&x, "4xf32"), arg(&x, "4xf32");
  for (size_t i = 0; i < 3; i++) msc_arg_set(x.f, i, "msc.name", msc_str(x.ctx, i < 2 ? "w" : "__metadata__"));
  finish(&x, a);
  assert_false(msc_verify(x.m));
  assert_int_equal(msc_num_errors(x.ctx), 2);
  assert_non_null(strstr(message(&x, 0), "two arguments are called 'w'"));
  assert_non_null(strstr(message(&x, 1), "an argument is called '__metadata__'"));
  msc_context_free(x.ctx);
}

/* A verb from one layout of 12x12 to another; fault NULL: legal. */
static const struct {
  const char *op, *attrs, *from, *to, *fault;
} verbs[] = {
    {"shard", "", "[{},{}]", "[{x},{z}]", NULL},
    {"shard", "", "[{x},{}]", "[{x,y},{}]", NULL},
    {"shard", "", "[{},{}]", "[{},{}]~partial={x}", NULL},
    {"shard", "", "[{x},{}]", "[{y,x},{}]", "cannot make the result"},
    {"shard", "", "[{x},{}]", "[{},{}]", "cannot make the result"},
    {"shard", "", "[{},{}]~partial={x}", "[{},{}]", "cannot make the result"},
    {"all_gather", "", "[{x,y},{z}]", "[{x},{}]", NULL},
    {"all_gather", "", "[{x,y},{z}]", "[{y},{z}]", "cannot make the result"},
    {"all_gather", "", "[{x},{}]~partial={y}", "[{},{}]~partial={y}", NULL},
    {"all_gather", "", "[{x},{}]~partial={y}", "[{},{}]", "cannot make the result"},
    {"all_gather", "", "[{x},{}]", "[{},{}]~partial={x}", "cannot make the result"},
    {"all_reduce", "", "[{x},{}]~partial={y,z}", "[{x},{}]~partial={z}", NULL},
    {"all_reduce", "reduction=max", "[{x},{}]~partial_max={y}", "[{x},{}]", NULL},
    {"all_reduce", "", "[{x},{}]~partial_max={y}", "[{x},{}]", "reduces by sum, but operand"},
    {"all_reduce", "", "[{x},{}]", "[{x},{}]", "cannot make the result"},
    {"all_reduce", "", "[{},{}]~partial={y}", "[{y},{}]", "cannot make the result"},
    {"reduce_scatter", "", "[{x},{}]~partial={y,z}", "[{x,z},{y}]", NULL},
    {"reduce_scatter", "", "[{x},{}]~partial={y}", "[{x,z},{}]", "cannot make the result"},
    {"reduce_scatter", "", "[{x},{}]~partial={y,z}", "[{x,z},{}]", "cannot make the result"},
    {"all_to_all", "", "[{x,y},{z}]", "[{x},{z,y}]", NULL},
    {"all_to_all", "", "[{x,y},{}]", "[{y},{x}]", "cannot make the result"},
    {"all_to_all", "", "[{x,y},{}]", "[{x},{}]", "cannot make the result"},
    {"permute", "", "[{x},{z}]", "[{y},{z}]", NULL},
    {"permute", "", "[{},{z}]~partial={x}", "[{},{z}]~partial={y}", NULL},
    {"permute", "", "[{x},{}]", "[{z},{}]", "cannot make the result"},
    {"exchange", "", "[{x},{z}]~partial={y}", "[{z},{y}]", NULL},
    {"exchange", "", "[{x},{}]", "[{},{}]~partial={y}", "cannot make the result"},
};

/* Its operand is made from a whole argument, since one that is partial cannot come from outside. */
static void start_whole(msc_op *op) {
  msc_value *arg = op->in[0].value;
  const msc_type *from = arg->type;
  arg->type = msc_type_with_layout(msc_op_ctx(op), from, msc_layout_replicated(msc_op_ctx(op), from->rank));
  if (arg->type == from) return;
  msc_op *cut = msc_op_new(op->block->func, OP_shard, 1, &arg, 1, NULL);
  msc_insert_before(op, cut);
  cut->out[0].type = from;
  msc_set_operand(op, 0, &cut->out[0]);
}

static bool verb_case(size_t i) {
  fixture x = begin();
  msc_arena *a = msc_context_arena(x.ctx);
  msc_func_remove(x.f);
  msc_op *op = one_op(x.m, verbs[i].op, msc_arena_printf(a, "12x12xf32@%s", verbs[i].from), verbs[i].attrs, 1);
  const char *to = msc_arena_printf(a, "12x12xf32@%s", verbs[i].to);
  op->out[0].type = type_of_text(x.ctx, &x.m->mesh, to, strlen(to));
  start_whole(op);
  bool ok = msc_verify(x.m) == !verbs[i].fault && (!verbs[i].fault || strstr(message(&x, 0), verbs[i].fault));
  if (!ok)
    print_error("%s from %s to %s: expected %s, got %s\n", verbs[i].op, verbs[i].from, verbs[i].to,
                verbs[i].fault ? verbs[i].fault : "no fault", message(&x, 0));
  msc_context_free(x.ctx);
  return ok;
}

static void layout_verbs(void **state) {
  (void)state;
  int failed = 0;
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) failed += !verb_case(i);
  assert_int_equal(failed, 0);
}

/* y = relu(x . w) with these layouts, w wanted in another one when `wanted` is given. */
static fixture product(const char *x_layout, const char *w_layout, const char *y_layout, const char *wanted) {
  fixture x = begin();
  msc_arena *a = msc_context_arena(x.ctx);
  msc_value *left = arg(&x, msc_arena_printf(a, "4x4xf32@%s", x_layout)),
            *right = arg(&x, msc_arena_printf(a, "4x4xf32@%s", w_layout));
  msc_value *y = build(&x, OP_matmul, left, right);
  const char *type = msc_arena_printf(a, "4x4xf32@%s", y_layout);
  y->type = type_of_text(x.ctx, &x.m->mesh, type, strlen(type));
  if (wanted)
    msc_op_set(y->def, "in_layout",
               msc_list(x.ctx, 2, (msc_attr_value[]){msc_str(x.ctx, x_layout), msc_str(x.ctx, wanted)}));
  finish(&x, y);
  return x;
}

static void layout_rules(void **state) {
  (void)state;
  fixture x = product("[{x},{}]", "[{},{y}]", "[{x},{y}]", NULL);
  expect(&x, 0, "");
  x = product("[{},{x}]", "[{x},{}]", "[{},{}]~partial={x}", NULL);
  expect(&x, 0, "");
  x = product("[{},{x}]", "[{x},{}]", "[{},{}]", NULL);
  expect(&x, 1, "matmul: the result [{},{}] must be [{},{}] partial={x}");
  x = product("[{},{x}]", "[{y},{}]", "[{},{}]~partial={x}", NULL);
  expect(&x, 1,
         "matmul: dimension 1 of operand 'a' [{},{x}] is cut by {x} and dimension 0 of operand 'b' [{y},{}] by {y}");
  /* not partitioned yet: what is wanted counts, the layout change comes later */
  x = product("[{},{x}]", "[{y},{}]", "[{},{}]~partial={x}", "[{x},{}]");
  expect(&x, 0, "");
  x = product("[{},{x}]", "[{x},{}]", "[{},{}]~partial={x}", "[{y},{}]");
  expect(&x, 1, "matmul: dimension 1 of operand 'a'");
  x = product("[{},{x}]", "[{x},{}]", "[{},{}]~partial={x}", "[{x}]");
  expect(&x, 1, "matmul: entry 1 of in_layout has rank 1, the operand 2");
}

/* After partitioning what is returned is as it is wanted. */
/* What was found right once is looked at again when something of it has changed. */
static void changed_later(void **state) {
  (void)state;
  enum { LAYOUT, SHAPE, KIND, ATTRIBUTE, WANTED, MESH, CHANGES };
  for (int change = LAYOUT; change < CHANGES; change++) {
    fixture x = product("[{x},{}]", "[{},{y}]", "[{x},{y}]", "[{},{y}]");
    msc_op *op = x.f->body->first;
    assert_true(msc_verify(x.m) && msc_verify(x.m));
    if (change == LAYOUT) op->out[0].type = type_of_text(x.ctx, &x.m->mesh, "4x4xf32@[{x},{}]", 16);
    if (change == SHAPE) op->out[0].type = type_of_text(x.ctx, &x.m->mesh, "4x5xf32@[{x},{y}]", 17);
    if (change == KIND) op->kind = OP_concat;
    if (change == ATTRIBUTE) msc_op_set(op, "transpose_b", msc_str(x.ctx, "yes"));
    if (change == WANTED)
      msc_op_set(op, "in_layout",
                 msc_list(x.ctx, 2, (msc_attr_value[]){msc_str(x.ctx, "[{x},{}]"), msc_str(x.ctx, "[{y},{}]")}));
    if (change == MESH) x.m->mesh.num_axes = 1;
    assert_false(msc_verify(x.m));
    msc_context_free(x.ctx);
  }
}

static void partitioned(void **state) {
  (void)state;
  static const struct {
    const char *wanted, *fault;
  } cases[] = {{NULL, NULL}, {"[{x},{y}]", NULL}, {"[{x},{}]", "return: result 0 is [{x},{y}], and must be [{x},{}]"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture x = product("[{x},{}]", "[{},{y}]", "[{x},{y}]", NULL);
    msc_func_set(x.f, "partitioned", msc_bool(true));
    if (cases[i].wanted)
      msc_op_set(x.f->body->last, "in_layout", msc_list(x.ctx, 1, (msc_attr_value[]){msc_str(x.ctx, cases[i].wanted)}));
    expect(&x, cases[i].fault != NULL, cases[i].fault);
  }
  for (int all = 0; all < 2; all++) {
    fixture x = begin();
    msc_value *v = arg(&x, "4x12xf32@[{},{x}]");
    msc_attr none = msc_named(x.ctx, "reduction", msc_str(x.ctx, "none"));
    msc_op *op = msc_build_with(&x.b, OP_softmax_cross_entropy, 2, (msc_value *[]){v, v}, 1, 1, &none);
    op->out[0].type = msc_type_with_layout(x.ctx, op->out[0].type, msc_layout_replicated(x.ctx, 1));
    finish(&x, &op->out[0]);
    if (all) msc_func_set(x.f, "partitioned", msc_bool(true));
    expect(&x, all, "softmax_cross_entropy: only its expansion can work on operands that are cut like this");
  }
}

static void manual(void **state) {
  (void)state;
  static const struct {
    const char *op, *in, *attrs, *fault;
  } cases[] = {
      {"all_gather", "4x4xf32", "axes={x,y} dim=1", NULL},
      {"all_gather", "4x4xf32@[{x},{}]", "axes={y}", "cannot have layouts"},
      {"all_gather", "4x4xf32", "", "needs axes, or layouts on operand and result"},
      {"broadcast", "4x4xf32", "axes={x,z} root=5", NULL},
      {"broadcast", "4x4xf32", "axes={x,z} root=6", "root is 6; the group {x,z} has members 0..5"},
      {"recv", "4x4xf32", "axes={x} from=0 to=1", "recv: its operand must be the token of a send"},
      {"comm", "6x4xf32", "verb=all_gather dims=12,4 from=[{x},{}] to=[{},{}] shape=12,4", NULL},
      {"comm", "6x4xf32", "verb=all_gather dims=12,4 from=[{z},{}] to=[{},{}] shape=12,4",
       "comm: the operand is not a part of `shape` under its layout"},
      {"comm", "6x4xf32", "verb=all_to_all dims=12,4 from=[{x},{}] to=[{},{}] shape=12,4",
       "comm: all_to_all cannot make [{},{}] from [{x},{}]"},
      {"comm", "6x4xf32", "verb=all_redoos dims=12,4 from=[{x},{}] to=[{},{}] shape=12,4",
       "comm: verb \"all_redoos\" is not one of: all_reduce all_gather reduce_scatter all_to_all permute exchange "
       "broadcast pairs halo shard; did you mean 'all_reduce'?"},
      {"comm", "6x4xf32", "verb=all_reduce dims=6,4 from=[{},{}] to=[{},{}] shape=6,4 reduction=som",
       "comm: reduction \"som\" is not one of: sum max min prod; did you mean 'sum'?"},
      {"all_reduce", "6x4xf32", "axes={x} reduction=som",
       "all_reduce: reduction \"som\" is not one of: sum max min prod; did you mean 'sum'?"},
      {"mean_squared_error", "6x4xf32 6x4xf32", "reduction=average",
       "mean_squared_error: reduction \"average\" is not one of: mean sum none"},
      {"cast", "6x4xf32", "dtype=f23", "cast: dtype \"f23\" is not one of: f32 f16 bf16 "},
      {"glu", "6x4xf32", "activation=relo",
       "glu: activation \"relo\" is not one of: silu gelu gelu_tanh sigmoid relu tanh none; did you mean 'relu'?"},
      {"stash", "6x4xf32", "home=dsk", "stash: home \"dsk\" is not one of: device cpu disk; did you mean 'disk'?"},
      {"comm", "6x4xf32", "verb=pairs dims=6,4 from=[{x},{}] to=[{},{x}] shape=12,4", "it is no change of layout"},
      {"comm", "6x4xf32", "verb=all_gather dims=12,4 from=[{x},{}] to=[{},{}]",
       "comm: needs axes, or from, to and shape"},
      {"comm", "6x4xf32", "verb=broadcast dims=6,4 axes={x}", NULL},
      {"send", "4x4xf32", "axes={x} from=0 to=2", "to is 2; the group {x} has members 0..1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture x = begin();
    msc_func_remove(x.f);
    one_op(x.m, cases[i].op, cases[i].in, cases[i].attrs, 1);
    bool ok = msc_verify(x.m);
    if (ok != !cases[i].fault || !strstr(message(&x, 0), cases[i].fault ? cases[i].fault : ""))
      fail_msg("case %zu: expected %s, got %s", i, cases[i].fault, message(&x, 0));
    msc_context_free(x.ctx);
  }
}

static void bad_layouts(void **state) {
  (void)state;
  fixture x = begin();
  msc_layout twice = {.rank = 1, .first = {0, 2}, .sub = {{0, 1, 2}, {0, 1, 2}}};
  msc_value *a = arg(&x, "4xf32");
  a->type = msc_type_with_layout(x.ctx, a->type, msc_intern_bytes(x.ctx, &twice, sizeof twice));
  finish(&x, NULL);
  expect(&x, 1, "names a digit that the mesh does not have, or uses one twice");
  x = begin();
  a = arg(&x, "4xf32");
  a->type = msc_type_with_layout(x.ctx, a->type, msc_layout_replicated(x.ctx, 2));
  finish(&x, NULL);
  expect(&x, 1, "a layout of rank 2 has another rank than its tensor");
  x = begin();
  arg(&x, "4xf32@[{}]~partial={x}");
  finish(&x, NULL);
  expect(&x, 1, "f: argument 0 is partial");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good),   cmocka_unit_test(ends),         cmocka_unit_test(order),       cmocka_unit_test(links),
      cmocka_unit_test(tied),   cmocka_unit_test(regions),      cmocka_unit_test(functions),
    cmocka_unit_test(argument_names),
            cmocka_unit_test(rows_and_types),
      cmocka_unit_test(manual), cmocka_unit_test(layout_verbs), cmocka_unit_test(bad_layouts),
          cmocka_unit_test(layout_rules), cmocka_unit_test(changed_later),
      cmocka_unit_test(partitioned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
