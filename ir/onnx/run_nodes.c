/* run_nodes.c: nodes in their order in; ops out, built by the function of each node's row, or constants if all operands
 * are constants.  Functions and graphs of control flow are replaced by their ops. */
#include <string.h>

#include "ir/onnx/reader.h"

enum {
  MAX_ERRORS = 200,
  MAX_FOLD_BYTES = 1 << 20, /* of a result; larger ones are computed by the plan */
  MAX_FOLD_OPERANDS = 1 << 24,
  MAX_FOLD_WORK = 1 << 26, /* of one node */
  MAX_ALL_FOLD_WORK = 1 << 30,
};

static const onnx_row rows[] = {
#define ONNX_ROW(domain, name, since, flags, kind, function, text, defaults) \
  {domain, #name, since, onnx_build_##function, OP_##kind, flags, text, defaults},
#include "ir/onnx/onnx.def"
#undef ONNX_ROW
};

int onnx_opset_of(const onnx_reader *r, const char *domain) {
  for (const onnx_scope *s = r->scope; s; s = s->outer)
    for (size_t i = 0; i < s->num_opsets; i++)
      if (!strcmp(s->opset[i].domain, domain))
        return s->opset[i].version > 0 && s->opset[i].version < 1000 ? (int)s->opset[i].version : 0;
  return 0;
}

static const onnx_row *row_of(const char *domain, const char *type) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, type) && !strcmp(rows[i].domain, domain)) return &rows[i];
  return NULL;
}

const onnx_row *onnx_formula_row(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcasecmp(rows[i].name, name) && rows[i].build == onnx_build_formula) return &rows[i];
  return NULL;
}

static void fail_outputs(onnx_node *n) {
  for (size_t i = 0; i < n->num_out; i++) n->out[i] = onnx_value_new(n->r, ONNX_IS_FAULTY);
}

static bool check_attrs_seen(onnx_node *n) {
  bool ok = true;
  for (size_t i = 0; i < n->num_attrs && i < 64; i++)
    if (!(n->attrs_seen >> i & 1) && *n->attr[i].name)
      ok = onnx_refuse(n, "attribute '%s' is not supported", n->attr[i].name);
  return ok;
}

/* Builds a node and checks that all its results are defined. A report of a helper is an error even if the builder
 * returns true. */
static bool build_node(onnx_node *n) {
  int errors = msc_num_errors(n->ctx);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs", ONNX_INTS); /* says nothing about values */
  bool ok = n->row->build(n);
  if (ok) ok = check_attrs_seen(n);
  for (size_t i = 0; ok && i < n->num_out; i++)
    if (!n->out[i] && onnx_wants(n, i)) ok = onnx_refuse(n, "output %zu is not supported", i);
  if (!ok && msc_num_errors(n->ctx) == errors) onnx_refuse(n, "cannot be read");
  if (msc_num_errors(n->ctx) > errors) ok = false;
  return ok;
}

static bool is_constant(const onnx_value *v) {
  if (v->kind == ONNX_IS_SEQUENCE) return false;
  return v->kind != ONNX_IS_TENSOR || (v->data && (!v->weight || !v->type->rank));
}

static bool all_constant(const onnx_node *n) {
  int64_t bytes = 0;
  for (size_t i = 0; i < n->num_in; i++) {
    if (n->in[i] && !is_constant(n->in[i])) return false;
    if (n->in[i] && n->in[i]->kind == ONNX_IS_TENSOR) bytes += msc_type_bytes(n->in[i]->type);
    if (bytes > MAX_FOLD_OPERANDS) return false;
  }
  return true;
}

/* Runs the ops of f, whose results become constants of n.  False: they are too large. */
static bool fold_results(onnx_node *n, msc_func *f) {
  msc_value **value = msc_new_array(n->scratch, msc_value *, n->num_out + 1);
  size_t num = 0;
  for (size_t i = 0; i < n->num_out; i++)
    if (n->out[i] && n->out[i]->kind == ONNX_IS_TENSOR && !n->out[i]->data) {
      if (msc_type_bytes(n->out[i]->type) > MAX_FOLD_BYTES) return false;
      value[num++] = n->out[i]->value;
    }
  if (!num) return true;
  msc_append(f->body, msc_op_new(f, OP_return, num, value, 0, n->b->loc));
  msc_drop_unused(f);
  int64_t work = msc_interpret_work(f);
  if (work > MAX_FOLD_WORK || n->r->fold_work + work > MAX_ALL_FOLD_WORK) return false;
  n->r->fold_work += work;
  msc_tensor *result = msc_new_array(n->scratch, msc_tensor, num);
  msc_arena *arena = msc_arena_new(n->ctx);
  bool ok = msc_interpret(f, arena, NULL, result);
  num = 0;
  for (size_t i = 0; ok && i < n->num_out; i++) {
    onnx_value *v = n->out[i];
    if (!v || v->kind != ONNX_IS_TENSOR || v->data) continue;
    size_t bytes = (size_t)msc_type_bytes(v->type);
    v->data = bytes ? msc_arena_copy(n->scratch, result[num].data, bytes) : "";
    v->value = NULL, num++;
  }
  msc_arena_free(arena);
  if (!ok) fail_outputs(n), n->r->num_errors++;
  return true;
}

/* Computes n by the interpreter.  False: it is too much work or too large, and nothing is changed. */
static bool fold(onnx_node *n) {
  onnx_reader *r = n->r;
  msc_builder before = r->b;
  msc_func *f = msc_func_new(r->module, "fold");
  msc_func_remove(f);
  f->loc = r->loc;
  r->b.func = f, r->b.block = f->body;
  bool done = true;
  if (build_node(n)) done = fold_results(n, f);
  else fail_outputs(n);
  r->b = before;
  if (!done) memset(n->out, 0, n->num_out * sizeof *n->out), n->attrs_seen = 0;
  return done;
}

/* Marks results that depend on one graph input alone with that input, so that a message can say which input must be
 * given (--fix) to know them. */
static void mark_inputs(onnx_node *n) {
  const char *input = NULL;
  for (size_t i = 0; i < n->num_in; i++) {
    if (!n->in[i] || n->in[i]->data) continue;
    if (!n->in[i]->input || (input && input != n->in[i]->input)) return;
    input = n->in[i]->input;
  }
  for (size_t i = 0; i < n->num_out; i++)
    if (n->out[i] && !n->out[i]->data && !n->out[i]->input) n->out[i]->input = input;
}

/* ---- constants that follow from sizes ---- */

/* True if an operand of the node grows with the sizes of inputs. */
static bool operand_grows(const onnx_node *n) {
  bool found = false;
  for (size_t i = 0; i < n->num_in; i++) found |= n->in[i] && n->in[i]->grows;
  return found;
}

/* True if the operands of the node state the sizes of its result. */
static bool result_grows(const onnx_node *n) {
  static const char *const names[] = {"Range", "ConstantOfShape", "Expand", "Tile", "Pad", "OneHot"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(n->row->name, names[i])) return true;
  return false;
}

/* True if the node repeats elements as often as sizes of inputs say. */
static bool repeats_by_sizes(const onnx_node *n) {
  bool varies = false;
  for (size_t i = 0; i < n->num_in; i++) varies |= n->in[i] && n->in[i]->varies;
  return varies && result_grows(n) && strcmp(n->row->name, "Range");
}

/* Marks results that are constants though an operand is none, or that are computed from such constants. */
static void mark_varying(onnx_node *n) {
  bool varies = false, grows = operand_grows(n);
  for (size_t i = 0; i < n->num_in; i++) varies |= n->in[i] && (n->in[i]->varies || !is_constant(n->in[i]));
  for (size_t i = 0; varies && i < n->num_out; i++) {
    onnx_value *v = n->out[i];
    if (!v || v->kind != ONNX_IS_TENSOR || !v->data) continue;
    v->varies = true;
    v->grows = all_constant(n) && (grows || result_grows(n));
  }
}

/* Builds the ops of a node that is then folded; they are used where an op takes its results as tensors.  out_made is
 * not set if the node cannot be built so. */
static void make_beside(onnx_node *n, onnx_value ***out_made) {
  msc_diag_mark mark = msc_mark_diags(n->ctx);
  int errors = n->r->num_errors;
  onnx_value **out = n->out;
  n->out = msc_new_array(n->scratch, onnx_value *, n->num_out + 1);
  if (build_node(n)) *out_made = n->out;
  else msc_forget_diags(n->ctx, mark), n->r->num_errors = errors;
  n->out = out, n->attrs_seen = 0;
}

static bool fold_node(onnx_node *n) {
  onnx_value **made = NULL;
  if (n->row->flags & ONNX_ALONE || !all_constant(n)) return false;
  if (n->r->sizes_vary && (operand_grows(n) || repeats_by_sizes(n))) make_beside(n, &made);
  MSC_TRY(fold(n));
  for (size_t i = 0; made && i < n->num_out; i++)
    if (n->out[i] && made[i] && n->out[i]->kind == ONNX_IS_TENSOR) n->out[i]->made = onnx_take(n->r, made[i]);
  return true;
}

static void run_known_node(onnx_node *n) {
  for (size_t i = 0; i < n->num_in; i++)
    if (n->in[i] && n->in[i]->kind == ONNX_IS_FAULTY) return fail_outputs(n);
  if (!fold_node(n)) {
    if (!build_node(n)) return fail_outputs(n);
    mark_inputs(n);
  }
  mark_varying(n);
}

/* Replaces attributes of a node in a function that refer to its caller's by these, or by the function's defaults. */
static void resolve_attrs(onnx_reader *r, onnx_node *n) {
  const onnx_scope *s = r->scope;
  while (s && !s->function) s = s->outer;
  onnx_attr *attr = msc_new_array(r->scratch, onnx_attr, n->proto->num_attrs + 1);
  for (size_t i = 0; i < n->proto->num_attrs; i++) {
    const onnx_attr *a = &n->proto->attr[i], *from = a;
    if (a->ref) {
      from = NULL;
      for (size_t k = 0; s && k < s->function->num_defaults; k++)
        if (s->function->def[k].name == a->ref) from = &s->function->def[k];
      for (size_t k = 0; s && k < s->caller->num_attrs; k++)
        if (s->caller->attr[k].name == a->ref) from = &s->caller->attr[k];
      if (!from) continue; /* optional, and not given */
    }
    attr[n->num_attrs] = *from;
    attr[n->num_attrs++].name = a->name;
  }
  n->attr = attr;
}

static const onnx_function *function_of(const onnx_reader *r, const onnx_node_proto *p) {
  for (size_t i = 0; i < r->model->num_functions; i++) {
    const onnx_function *f = &r->model->function[i];
    if (f->name == p->op_type && f->domain == p->domain && f->overload == p->overload) return f;
  }
  return NULL;
}

onnx_scope *onnx_enter(onnx_reader *r, const onnx_scope *outer) {
  onnx_scope *s = msc_new(r->scratch, onnx_scope);
  s->names.index.arena = r->scratch;
  s->outer = outer;
  r->scope = s;
  r->depth++;
  return s;
}

static void leave(onnx_reader *r, onnx_scope *before) {
  r->scope = before;
  r->depth--;
}

/* Builds the function's nodes in place of the node that calls it. */
static bool call_function(onnx_node *n, const onnx_function *f) {
  onnx_reader *r = n->r;
  onnx_scope *before = r->scope;
  if (r->depth >= ONNX_MAX_DEPTH) return onnx_refuse(n, "functions call each other more than %d deep", ONNX_MAX_DEPTH);
  if (n->num_in > f->num_in || n->num_out > f->num_out)
    return onnx_refuse(n, "the function takes %zu inputs and gives %zu outputs", f->num_in, f->num_out);
  onnx_scope *s = onnx_enter(r, NULL);
  s->caller = n, s->function = f, s->num_opsets = f->num_opsets, s->opset = f->opset;
  bool ok = true;
  for (size_t i = 0; i < f->num_in; i++) {
    onnx_value *v = onnx_has(n, i) ? n->in[i] : NULL;
    if (*f->in[i] && v) ok &= onnx_define(r, f->in[i], v);
  }
  ok = ok && onnx_run_nodes(r, f->num_nodes, f->node);
  for (size_t i = 0; ok && i < n->num_out; i++) {
    n->out[i] = onnx_find_value(s, f->out[i]);
    if (!n->out[i] && onnx_wants(n, i)) ok = onnx_refuse(n, "the function does not compute its output '%s'", f->out[i]);
  }
  leave(r, before);
  return ok;
}

bool onnx_run_graph(onnx_node *n, const onnx_graph *g, size_t num_in, onnx_value *const *in, onnx_value **out_value) {
  onnx_reader *r = n->r;
  onnx_scope *before = r->scope;
  if (r->depth >= ONNX_MAX_DEPTH) return onnx_refuse(n, "graphs are more than %d deep", ONNX_MAX_DEPTH);
  if (num_in != g->num_in) return onnx_refuse(n, "its graph takes %zu inputs, not %zu", g->num_in, num_in);
  onnx_scope *s = onnx_enter(r, before);
  bool ok = true;
  for (size_t i = 0; i < num_in; i++) ok &= onnx_define(r, g->in[i].name, in[i]);
  ok = ok && onnx_read_inits(r, g) && onnx_run_nodes(r, g->num_nodes, g->node);
  for (size_t i = 0; ok && i < g->num_out; i++)
    if (!(out_value[i] = onnx_find_value(s, g->out[i].name)))
      ok = onnx_refuse(n, "its graph does not compute its output '%s'", g->out[i].name);
  leave(r, before);
  return ok;
}

static bool find_operands(onnx_reader *r, onnx_node *n) {
  bool ok = true;
  n->in = msc_new_array(r->scratch, onnx_value *, n->num_in + 1);
  for (size_t i = 0; i < n->num_in; i++) {
    const char *name = n->proto->in[i];
    if (!*name || (n->in[i] = onnx_find_value(r->scope, name))) continue;
    bool absent = false; /* an input of a function that its caller left out */
    for (const onnx_scope *s = r->scope; s; s = s->outer)
      for (size_t k = 0; s->function && k < s->function->num_in; k++) absent |= s->function->in[k] == name;
    if (!absent) ok = onnx_refuse(n, "input '%s' is not defined before it", name);
  }
  while (n->num_in && !n->in[n->num_in - 1]) n->num_in--;
  return ok;
}

static bool run_node(onnx_reader *r, const onnx_node_proto *p) {
  msc_builder before = r->b;
  onnx_node n = {.r = r,
                 .b = &r->b,
                 .ctx = r->ctx,
                 .scratch = r->scratch,
                 .proto = p,
                 .what = p->op_type,
                 .num_in = p->num_in,
                 .num_out = p->num_out};
  if (++r->num_nodes > ONNX_MAX_NODES)
    return onnx_refuse(&n, "the model has more than %d nodes, once functions and loops are written out",
                       ONNX_MAX_NODES);
  n.out = msc_new_array(r->scratch, onnx_value *, n.num_out + 1);
  n.row = row_of(p->domain, p->op_type);
  n.opset = onnx_opset_of(r, p->domain);
  r->b.loc = onnx_node_loc(r, p), r->b.name = onnx_name_of(r, p);
  const onnx_function *f = function_of(r, p);
  resolve_attrs(r, &n);
  if (!find_operands(r, &n)) fail_outputs(&n);
  else if (f) {
    if (!call_function(&n, f)) fail_outputs(&n);
  } else if (!n.row) {
    onnx_count_unknown(r, p);
    fail_outputs(&n);
  } else if (n.opset < n.row->since) {
    onnx_refuse(&n, "exists since opset %d, the file says %d", n.row->since, n.opset);
    fail_outputs(&n);
  } else {
    run_known_node(&n);
  }
  r->b = before;
  bool ok = true;
  for (size_t i = 0; i < n.num_out; i++)
    if (onnx_wants(&n, i)) ok &= onnx_define(r, p->out[i], n.out[i]);
  return ok && r->num_errors < MAX_ERRORS;
}

bool onnx_run_nodes(onnx_reader *r, size_t num, const onnx_node_proto *node) {
  for (size_t i = 0; i < num; i++)
    if (!run_node(r, &node[i])) return false;
  return true;
}
