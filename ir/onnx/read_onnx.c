/* read_onnx.c: the bytes of an ONNX file in; a module with the function "forward", and the weights that its parameters
 * begin with, out.
 *
 * A name of the file stands for an onnx_value.  Nodes are taken in their order, each is built by the function of its
 * row in onnx.def.  What a node computes of constants alone is computed at once, by the interpreter: so shapes that the
 * file computes are numbers where an op needs them.  Functions and graphs of control flow are written out where they
 * are used.  A node that cannot be read is reported, its results are faulty, and what uses them says nothing more: one
 * run tells all that a file needs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/onnx.h"
#include "ir/table.h"

enum {
  MAX_ERRORS = 200,
  MAX_FOLD_BYTES = 1 << 20, /* of a result; larger ones are computed by the plan */
  MAX_FOLD_OPERANDS = 1 << 24,
  MAX_FOLD_WORK = 1 << 26, /* of one node */
  MAX_ALL_FOLD_WORK = 1 << 30,
  MAX_CONSTANT = 1 << 20, /* larger ones become parameters: what a model file takes inline */
};

typedef struct {
  const char *name;
  onnx_value *value;
} named_value;

/* Names that nodes see: their own graph's, then those of the graphs around it.  A function sees its own alone. */
typedef struct scope {
  MSC_TABLE(named_value) names;
  const struct scope *outer;
  size_t num_opsets;
  const onnx_opset *opset;
  const onnx_node *caller; /* of a function: the node that calls it */
  const onnx_function *function;
} scope;

struct onnx_reader {
  msc_context *ctx;
  msc_arena *scratch;
  const msc_model_bytes *file;
  const msc_loc *loc;
  onnx_model *model;
  msc_module *module;
  msc_func *func;
  msc_builder b;
  scope *scope;
  int depth, num_errors;
  size_t num_nodes;
  int64_t fold_work; /* done so far */
  bool *dim_used, *fixed_used;
  struct unknown_op {
    const char *type, *first;
    uint32_t count;
  } * unknown;
  size_t num_unknown;
};

static const onnx_row rows[] = {
#define ONNX_ROW(domain, name, since, flags, kind, function, text, defaults) \
  {domain, #name, since, onnx_build_##function, OP_##kind, flags, text, defaults},
#include "ir/onnx/onnx.def"
#undef ONNX_ROW
};

/* ---- messages ---- */

static const msc_loc *node_loc(onnx_reader *r, const onnx_node_proto *p) { return p->loc ? p->loc : r->loc; }

static bool report(onnx_reader *r, const char *name, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
static bool report(onnx_reader *r, const char *name, const msc_loc *loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  r->num_errors++;
  msc_verror(r->ctx, MSC_DIAG_ERROR, MSC_E_UNSUPPORTED, loc, name, fmt, ap);
  va_end(ap);
  return false;
}

static const char *name_of(onnx_reader *r, const onnx_node_proto *p) {
  if (*p->name) return p->name;
  for (size_t i = 0; i < p->num_out; i++)
    if (*p->out[i]) return p->out[i];
  return msc_intern(r->ctx, p->op_type);
}

bool onnx_refuse(onnx_node *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(n->scratch, fmt, ap);
  va_end(ap);
  return report(n->r, name_of(n->r, n->proto), node_loc(n->r, n->proto), "%s: %s", n->what, text);
}

/* Ops that msc does not read are told in one message at the end, with their number. */
static void count_unknown(onnx_reader *r, const onnx_node_proto *p) {
  const char *type = p->op_type;
  if (*p->domain) type = msc_intern(r->ctx, msc_arena_printf(r->scratch, "%s::%s", p->domain, p->op_type));
  for (size_t i = 0; i < r->num_unknown; i++)
    if (r->unknown[i].type == type) return (void)r->unknown[i].count++;
  msc_grow(r->scratch, r->unknown, r->num_unknown);
  r->unknown[r->num_unknown++] = (struct unknown_op){type, name_of(r, p), 1};
}

static int most_first(const void *a, const void *b) {
  const struct unknown_op *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->type, y->type);
}

static void report_unknown(onnx_reader *r) {
  const char *text = "";
  if (!r->num_unknown) return;
  qsort(r->unknown, r->num_unknown, sizeof *r->unknown, most_first);
  for (size_t i = 0; i < r->num_unknown && i < 50; i++)
    text = msc_arena_printf(r->scratch, "%s%s%s (%u, first '%s')", text, i ? ", " : "", r->unknown[i].type,
                            r->unknown[i].count, r->unknown[i].first);
  if (r->num_unknown > 50) text = msc_arena_printf(r->scratch, "%s and %zu more", text, r->num_unknown - 50);
  r->num_errors++;
  msc_error(r->ctx, MSC_E_UNKNOWN_OP, r->loc, "ONNX operators that msc does not read: %s", text);
}

/* ---- values ---- */

static onnx_value *new_value(onnx_reader *r, onnx_value_kind kind) {
  onnx_value *v = msc_new(r->scratch, onnx_value);
  v->kind = kind;
  return v;
}

onnx_value *onnx_new_value(onnx_node *n) { return new_value(n->r, ONNX_IS_TENSOR); }

const msc_model_bytes *onnx_file(const onnx_node *n) { return n->r->file; }

static onnx_value *find_value(const scope *s, const char *name) {
  for (; s; s = s->outer) {
    const named_value *found = msc_table_find(&s->names, &name);
    if (found) return found->value;
  }
  return NULL;
}

static bool define(onnx_reader *r, const char *name, onnx_value *v) {
  named_value *at = msc_table_at(&r->scope->names, &name);
  if (at->value) return report(r, name, r->loc, "'%s' is defined twice", name);
  at->value = v;
  return true;
}

/* A parameter that begins with v's elements. */
static msc_value *add_parameter(onnx_reader *r, onnx_value *v, const char *name, bool trainable) {
  msc_func *f = r->func;
  msc_weights *w = r->file->weights;
  for (size_t i = 0; i < w->num; i++)
    if (w->item[i].name == name) {
      name = msc_intern(r->ctx, msc_arena_printf(r->scratch, "%s.%zu", name, w->num));
      i = (size_t)-1;
    }
  msc_value *arg = msc_add_arg(f->body, v->type, name);
  msc_arg_set(f, arg->index, MSC_FACT(msc_name), msc_str(r->ctx, name));
  msc_arg_set(f, arg->index, MSC_FACT(msc_role), msc_str(r->ctx, msc_role_name(MSC_ROLE_PARAMETER)));
  if (!trainable) msc_arg_set(f, arg->index, MSC_FACT(msc_trainable), msc_bool(false));
  msc_attr *attrs = NULL;
  size_t num_attrs = 0;
  msc_put_attr(r->ctx, &attrs, &num_attrs, "file", msc_str(r->ctx, w->file));
  msc_put_attr(r->ctx, &attrs, &num_attrs, "tensor", msc_str(r->ctx, name));
  msc_arg_set(f, arg->index, MSC_FACT(msc_weights),
              (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num_attrs, attrs}});
  msc_grow(msc_context_arena(r->ctx), w->item, w->num);
  w->item[w->num++] = (msc_weight){name, v->type, v->data};
  return arg;
}

static msc_value *add_constant(onnx_reader *r, const onnx_value *v) {
  size_t bytes = (size_t)msc_type_bytes(v->type);
  /* what is folded goes before the file's bytes do */
  const void *data = r->b.func == r->func ? msc_arena_copy(msc_context_arena(r->ctx), v->data, bytes) : v->data;
  return constant_of(&r->b, v->type, data);
}

/* v in the function that is being built.  In the model's, weights are parameters; where constants are folded, all are
 * constants. */
static msc_value *take(onnx_reader *r, onnx_value *v) {
  if (v->value && v->func == r->b.func) return v->value;
  if (!v->data) return NULL;
  bool is_parameter =
      r->b.func == r->func && msc_type_elems(v->type) > 0 && (v->weight || msc_type_bytes(v->type) > MAX_CONSTANT);
  bool trainable = v->weight && !v->is_frozen;
  v->value = is_parameter ? add_parameter(r, v, v->weight ? v->weight : msc_intern(r->ctx, "constant"), trainable)
                          : add_constant(r, v);
  v->func = r->b.func;
  return v->value;
}

msc_value *onnx_value_of(onnx_node *n, onnx_value *v) {
  if (v->kind != ONNX_IS_TENSOR) {
    onnx_refuse(n, "takes a tensor here, not %s", v->kind == ONNX_IS_SEQUENCE ? "a sequence" : "an empty optional");
    return NULL;
  }
  return take(n->r, v);
}

msc_value *onnx_in(onnx_node *n, size_t i) {
  if (!onnx_has(n, i)) {
    onnx_refuse(n, "lacks input %zu", i);
    return NULL;
  }
  return onnx_value_of(n, n->in[i]);
}

const msc_type *onnx_type(onnx_node *n, size_t i) {
  if (onnx_has(n, i) && n->in[i]->kind == ONNX_IS_TENSOR) return n->in[i]->type;
  onnx_refuse(n, "lacks input %zu, or it is no tensor", i);
  return NULL;
}

bool onnx_set_value(onnx_node *n, size_t i, onnx_value *v) {
  if (i < n->num_out) n->out[i] = v;
  return v != NULL;
}

bool onnx_set(onnx_node *n, size_t i, msc_value *v) {
  if (!v) return false;
  onnx_value *o = new_value(n->r, ONNX_IS_TENSOR);
  o->type = v->type, o->value = v, o->func = n->b->func;
  return onnx_set_value(n, i, o);
}

onnx_value *onnx_constant(onnx_node *n, const msc_type *type, const void *data) {
  onnx_value *o = new_value(n->r, ONNX_IS_TENSOR);
  o->type = type, o->data = data ? data : "";
  return o;
}

bool onnx_set_constant(onnx_node *n, size_t i, const msc_type *type, const void *data) {
  return onnx_set_value(n, i, onnx_constant(n, type, data));
}

/* ---- elements that must be known ---- */

static bool is_known(onnx_node *n, size_t i) {
  if (!onnx_has(n, i)) return onnx_refuse(n, "lacks input %zu", i);
  const onnx_value *v = n->in[i];
  if (v->kind != ONNX_IS_TENSOR) return onnx_refuse(n, "takes a tensor as input %zu", i);
  if (v->data) return true;
  if (v->input && (!v->value || v->value->def))
    return onnx_refuse(n,
                       "'%s' must be known when the model is read, and is computed of an input; --fix %s=... gives "
                       "its value",
                       n->proto->in[i], v->input);
  if (v->input)
    return onnx_refuse(n, "'%s' must be known when the model is read, and it is an input; --fix %s=... gives its value",
                       n->proto->in[i], v->input);
  return onnx_refuse(n, "'%s' must be known when the model is read, but it is computed of inputs", n->proto->in[i]);
}

const int64_t *onnx_const_ints(onnx_node *n, size_t i, size_t *out_num) {
  if (!is_known(n, i)) return NULL;
  const onnx_value *v = n->in[i];
  int64_t num = msc_type_elems(v->type);
  int64_t *out = msc_new_array(n->scratch, int64_t, num + 1);
  msc_tensor t = {v->type, (void *)(uintptr_t)v->data};
  if (msc_is_float(v->type->dtype)) return onnx_refuse(n, "'%s' must hold integers", n->proto->in[i]), NULL;
  for (int64_t k = 0; k < num; k++)
    out[k] = v->type->dtype == MSC_I64 ? ((const int64_t *)v->data)[k] : (int64_t)msc_tensor_get(&t, k);
  *out_num = (size_t)num;
  return out;
}

const double *onnx_const_floats(onnx_node *n, size_t i, size_t *out_num) {
  if (!is_known(n, i)) return NULL;
  const onnx_value *v = n->in[i];
  int64_t num = msc_type_elems(v->type);
  double *out = msc_new_array(n->scratch, double, num + 1);
  msc_tensor t = {v->type, (void *)(uintptr_t)v->data};
  for (int64_t k = 0; k < num; k++) out[k] = msc_tensor_get(&t, k);
  *out_num = (size_t)num;
  return out;
}

bool onnx_const_int(onnx_node *n, size_t i, int64_t *out_v) {
  size_t num;
  const int64_t *v = onnx_const_ints(n, i, &num);
  if (v && num != 1) return onnx_refuse(n, "'%s' must be one number, not %zu", n->proto->in[i], num);
  if (v) *out_v = v[0];
  return v != NULL;
}

bool onnx_const_float(onnx_node *n, size_t i, double *out_v) {
  size_t num;
  const double *v = onnx_const_floats(n, i, &num);
  if (v && num != 1) return onnx_refuse(n, "'%s' must be one number, not %zu", n->proto->in[i], num);
  if (v) *out_v = v[0];
  return v != NULL;
}

/* ---- attributes ---- */

const onnx_attr *onnx_attr_of(onnx_node *n, const char *name) {
  for (size_t i = 0; i < n->num_attrs; i++)
    if (!strcmp(n->attr[i].name, name)) {
      if (i < 64) n->attrs_seen |= UINT64_C(1) << i;
      return &n->attr[i];
    }
  return NULL;
}

static const onnx_attr *typed_attr(onnx_node *n, const char *name, onnx_attr_type type) {
  const onnx_attr *a = onnx_attr_of(n, name);
  if (!a || a->type == type) return a;
  onnx_refuse(n, "attribute '%s' is of the wrong kind", name);
  return NULL;
}

int64_t onnx_int(onnx_node *n, const char *name, int64_t absent) {
  const onnx_attr *a = typed_attr(n, name, ONNX_INT);
  return a ? a->i : absent;
}

double onnx_float(onnx_node *n, const char *name, double absent) {
  const onnx_attr *a = typed_attr(n, name, ONNX_FLOAT);
  return a ? (double)a->f : absent;
}

const char *onnx_text(onnx_node *n, const char *name, const char *absent) {
  const onnx_attr *a = typed_attr(n, name, ONNX_STRING);
  return a && a->s ? a->s : absent;
}

int onnx_ints(onnx_node *n, const char *name, int64_t *out_v, int max) {
  const onnx_attr *a = typed_attr(n, name, ONNX_INTS);
  if (!a) return -1;
  if (a->num > (size_t)max) {
    onnx_refuse(n, "attribute '%s' has %zu entries, at most %d are possible", name, a->num, max);
    return -2;
  }
  memcpy(out_v, a->ints, a->num * sizeof *out_v);
  return (int)a->num;
}

bool onnx_axis(onnx_node *n, int64_t axis, int rank, int *out_axis) {
  if (axis < -rank || axis >= rank)
    return onnx_refuse(n, "axis %" PRId64 " is not a dimension of a tensor of rank %d", axis, rank);
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  return true;
}

bool onnx_ints_of(onnx_node *n, size_t i, const char *name, int since, int64_t *out_v, int max, int *out_num) {
  *out_num = -1;
  if (n->opset < since) {
    *out_num = onnx_ints(n, name, out_v, max);
    return *out_num > -2;
  }
  if (!onnx_has(n, i)) return true;
  size_t num;
  const int64_t *v = onnx_const_ints(n, i, &num);
  if (!v) return false;
  if (num > (size_t)max) return onnx_refuse(n, "'%s' has %zu entries, at most %d are possible", name, num, max);
  memcpy(out_v, v, num * sizeof *v);
  *out_num = (int)num;
  return true;
}

/* ---- nodes ---- */

static int opset_of(const onnx_reader *r, const char *domain) {
  for (const scope *s = r->scope; s; s = s->outer)
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
  for (size_t i = 0; i < n->num_out; i++) n->out[i] = new_value(n->r, ONNX_IS_FAULTY);
}

static bool check_attrs_seen(onnx_node *n) {
  bool ok = true;
  for (size_t i = 0; i < n->num_attrs && i < 64; i++)
    if (!(n->attrs_seen >> i & 1) && *n->attr[i].name)
      ok = onnx_refuse(n, "attribute '%s' is not supported", n->attr[i].name);
  return ok;
}

/* All results are there.  What the builder's helpers refused counts, though it went on. */
static bool build(onnx_node *n) {
  int errors = msc_num_errors(n->ctx);
  if (n->opset < 6) onnx_attr_of(n, "consumed_inputs"); /* says nothing about values */
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

/* Computes n now.  False: it is too much, nothing was done. */
static bool fold(onnx_node *n) {
  onnx_reader *r = n->r;
  msc_builder before = r->b;
  msc_func *f = msc_func_new(r->module, "fold");
  msc_func_remove(f);
  f->loc = r->loc;
  r->b.func = f, r->b.block = f->body;
  bool done = true;
  if (build(n)) done = fold_results(n, f);
  else fail_outputs(n);
  r->b = before;
  if (!done) memset(n->out, 0, n->num_out * sizeof *n->out), n->attrs_seen = 0;
  return done;
}

/* Results that depend on one input alone say so: to know them, its elements would have to be given. */
static void pass_input_on(onnx_node *n) {
  const char *input = NULL;
  for (size_t i = 0; i < n->num_in; i++) {
    if (!n->in[i] || n->in[i]->data) continue;
    if (!n->in[i]->input || (input && input != n->in[i]->input)) return;
    input = n->in[i]->input;
  }
  for (size_t i = 0; i < n->num_out; i++)
    if (n->out[i] && !n->out[i]->data && !n->out[i]->input) n->out[i]->input = input;
}

static void run_known_node(onnx_node *n) {
  for (size_t i = 0; i < n->num_in; i++)
    if (n->in[i] && n->in[i]->kind == ONNX_IS_FAULTY) return fail_outputs(n);
  if (!(n->row->flags & ONNX_ALONE) && all_constant(n) && fold(n)) return;
  if (!build(n)) fail_outputs(n);
  else pass_input_on(n);
}

static bool run_nodes(onnx_reader *r, size_t num, const onnx_node_proto *node);

/* Attributes of a node in a function that name its caller's become those, or the function's defaults. */
static void resolve_attrs(onnx_reader *r, onnx_node *n) {
  const scope *s = r->scope;
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

static scope *enter(onnx_reader *r, const scope *outer) {
  scope *s = msc_new(r->scratch, scope);
  s->names.index.arena = r->scratch;
  s->outer = outer;
  r->scope = s;
  r->depth++;
  return s;
}

static void leave(onnx_reader *r, scope *before) {
  r->scope = before;
  r->depth--;
}

/* The function's nodes in the place of the node that calls it. */
static bool call_function(onnx_node *n, const onnx_function *f) {
  onnx_reader *r = n->r;
  scope *before = r->scope;
  if (r->depth >= ONNX_MAX_DEPTH) return onnx_refuse(n, "functions call each other more than %d deep", ONNX_MAX_DEPTH);
  if (n->num_in > f->num_in || n->num_out > f->num_out)
    return onnx_refuse(n, "the function takes %zu inputs and gives %zu outputs", f->num_in, f->num_out);
  scope *s = enter(r, NULL);
  s->caller = n, s->function = f, s->num_opsets = f->num_opsets, s->opset = f->opset;
  bool ok = true;
  for (size_t i = 0; i < f->num_in; i++) {
    onnx_value *v = onnx_has(n, i) ? n->in[i] : NULL;
    if (*f->in[i] && v) ok &= define(r, f->in[i], v);
  }
  ok = ok && run_nodes(r, f->num_nodes, f->node);
  for (size_t i = 0; ok && i < n->num_out; i++) {
    n->out[i] = find_value(s, f->out[i]);
    if (!n->out[i] && onnx_wants(n, i)) ok = onnx_refuse(n, "the function does not compute its output '%s'", f->out[i]);
  }
  leave(r, before);
  return ok;
}

static bool read_inits(onnx_reader *r, const onnx_graph *g);

bool onnx_run_graph(onnx_node *n, const onnx_graph *g, size_t num_in, onnx_value *const *in, onnx_value **out_value) {
  onnx_reader *r = n->r;
  scope *before = r->scope;
  if (r->depth >= ONNX_MAX_DEPTH) return onnx_refuse(n, "graphs are more than %d deep", ONNX_MAX_DEPTH);
  if (num_in != g->num_in) return onnx_refuse(n, "its graph takes %zu inputs, not %zu", g->num_in, num_in);
  scope *s = enter(r, before);
  bool ok = true;
  for (size_t i = 0; i < num_in; i++) ok &= define(r, g->in[i].name, in[i]);
  ok = ok && read_inits(r, g) && run_nodes(r, g->num_nodes, g->node);
  for (size_t i = 0; ok && i < g->num_out; i++)
    if (!(out_value[i] = find_value(s, g->out[i].name)))
      ok = onnx_refuse(n, "its graph does not compute its output '%s'", g->out[i].name);
  leave(r, before);
  return ok;
}

static bool find_operands(onnx_reader *r, onnx_node *n) {
  bool ok = true;
  n->in = msc_new_array(r->scratch, onnx_value *, n->num_in + 1);
  for (size_t i = 0; i < n->num_in; i++) {
    const char *name = n->proto->in[i];
    if (!*name || (n->in[i] = find_value(r->scope, name))) continue;
    bool absent = false; /* an input of a function that its caller left out */
    for (const scope *s = r->scope; s; s = s->outer)
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
  n.opset = opset_of(r, p->domain);
  r->b.loc = node_loc(r, p), r->b.name = name_of(r, p);
  const onnx_function *f = function_of(r, p);
  resolve_attrs(r, &n);
  if (!find_operands(r, &n)) fail_outputs(&n);
  else if (f) {
    if (!call_function(&n, f)) fail_outputs(&n);
  } else if (!n.row) {
    count_unknown(r, p);
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
    if (onnx_wants(&n, i)) ok &= define(r, p->out[i], n.out[i]);
  return ok && r->num_errors < MAX_ERRORS;
}

static bool run_nodes(onnx_reader *r, size_t num, const onnx_node_proto *node) {
  for (size_t i = 0; i < num; i++)
    if (!run_node(r, &node[i])) return false;
  return true;
}

/* ---- inputs and weights ---- */

static bool read_init(onnx_reader *r, const onnx_initializer *init) {
  onnx_tensor t;
  const char *wrong = onnx_read_tensor(r->ctx, r->scratch, r->file, init->bytes, &t);
  onnx_value *v = new_value(r, wrong ? ONNX_IS_FAULTY : ONNX_IS_TENSOR);
  if (wrong) report(r, init->name, r->loc, "tensor '%s' %s", init->name, wrong);
  else {
    v->type = t.type, v->data = t.bytes ? t.data : "";
    if (msc_is_float(t.type->dtype) && t.type->rank) v->weight = init->name;
  }
  return define(r, init->name, v);
}

static bool read_inits(onnx_reader *r, const onnx_graph *g) {
  if (g->num_sparse) return report(r, NULL, r->loc, "graph '%s' has sparse tensors, which msc does not read", g->name);
  for (size_t i = 0; i < g->num_inits; i++)
    if (!read_init(r, &g->init[i])) return false;
  return true;
}

/* The size given for dimension d of an input, or -1 after a report. */
static int64_t open_size(onnx_reader *r, const onnx_value_info *in, int d) {
  const char *place = msc_arena_printf(r->scratch, "%s.%d", in->name, d);
  for (size_t i = 0; i < r->file->num_dims; i++) {
    const char *name = r->file->dim[i].name;
    if (strcmp(name, place) && (!in->dim[d].name || strcmp(name, in->dim[d].name))) continue;
    r->dim_used[i] = true;
    return r->file->dim[i].size;
  }
  report(r, NULL, r->loc, "input '%s': dimension %d has no size; give one with --dim %s=...", in->name, d,
         in->dim[d].name ? in->dim[d].name : place);
  return -1;
}

/* The type of an input; NULL after a report. */
static const msc_type *input_type(onnx_reader *r, const onnx_value_info *in) {
  msc_dtype dtype;
  int64_t dim[MSC_MAX_RANK];
  bool ok = true;
  if (!in->is_tensor) return report(r, NULL, r->loc, "input '%s' is no tensor", in->name), NULL;
  if (!onnx_dtype(in->elem_type, &dtype))
    return report(r, NULL, r->loc, "input '%s' has elements of type %s, which msc does not have", in->name,
                  onnx_dtype_name(in->elem_type)),
           NULL;
  if (!in->has_shape) return report(r, NULL, r->loc, "input '%s' has no shape, not even a rank", in->name), NULL;
  if (in->is_too_deep)
    return report(r, NULL, r->loc, "input '%s' has more than %d dimensions", in->name, MSC_MAX_RANK), NULL;
  for (int d = 0; d < in->rank; d++) {
    dim[d] = in->dim[d].size >= 0 ? in->dim[d].size : open_size(r, in, d);
    ok &= dim[d] >= 0;
  }
  const msc_type *t = ok ? msc_type_of(r->ctx, dtype, in->rank, dim, NULL) : NULL;
  if (t && msc_type_bytes(t) < 0) return report(r, NULL, r->loc, "input '%s' is too large", in->name), NULL;
  return t;
}

/* Every input's first dimension is the batch where the file leaves it open.  An input without elements is a constant:
 * there is nothing to give. */
static onnx_value *add_input(onnx_reader *r, const onnx_value_info *in, const msc_type *type) {
  msc_func *f = r->func;
  if (!msc_type_elems(type)) {
    onnx_value *none = new_value(r, ONNX_IS_TENSOR);
    none->type = type, none->data = "";
    return none;
  }
  msc_value *arg = msc_add_arg(f->body, type, in->name);
  msc_arg_set(f, arg->index, MSC_FACT(msc_name), msc_str(r->ctx, in->name));
  msc_arg_set(f, arg->index, MSC_FACT(msc_role), msc_str(r->ctx, msc_role_name(MSC_ROLE_DATA)));
  if (!in->rank || in->dim[0].size >= 0) msc_arg_set(f, arg->index, MSC_FACT(msc_batch_dim), msc_int(-1));
  onnx_value *v = new_value(r, ONNX_IS_TENSOR);
  v->type = type, v->value = arg, v->func = f, v->input = in->name;
  return v;
}

/* An input whose value is given: "1,2,3", row by row.  The one open dimension has as many as it takes. */
static onnx_value *fixed_input(onnx_reader *r, const onnx_value_info *in, const char *text) {
  msc_dtype dtype;
  int64_t dim[MSC_MAX_RANK], known = 1;
  int open = -1;
  if (!in->is_tensor || !onnx_dtype(in->elem_type, &dtype) || in->is_too_deep || !in->has_shape) return NULL;
  size_t num = *text != 0;
  for (const char *p = text; *p; p++) num += *p == ',';
  for (int d = 0; d < in->rank; d++) {
    dim[d] = in->dim[d].size;
    if (dim[d] >= 0 && !__builtin_mul_overflow(known, dim[d], &known)) continue;
    if (open >= 0) return NULL;
    open = d;
  }
  if (open >= 0) dim[open] = known ? (int64_t)num / known : 0;
  const msc_type *t = msc_type_of(r->ctx, dtype, in->rank, dim, NULL);
  if (msc_type_elems(t) != (int64_t)num) return NULL;
  msc_tensor data = msc_tensor_new(r->scratch, t);
  for (size_t i = 0; i < num; i++) {
    char *end;
    double v = strtod(text, &end);
    long long whole = strtoll(text, NULL, 10);
    if (end == text || (*end && *end != ',')) return NULL;
    if (dtype == MSC_I64) ((int64_t *)data.data)[i] = whole;
    else msc_tensor_set(&data, (int64_t)i, v);
    text = end + (*end == ',');
  }
  onnx_value *v = new_value(r, ONNX_IS_TENSOR);
  v->type = t, v->data = num ? data.data : "";
  return v;
}

static bool read_input(onnx_reader *r, const onnx_value_info *in) {
  for (size_t i = 0; i < r->file->num_fixed; i++) {
    const msc_fixed_input *f = &r->file->fixed[i];
    if (strcmp(f->name, in->name)) continue;
    r->fixed_used[i] = true;
    onnx_value *v = fixed_input(r, in, f->text);
    if (v) return define(r, in->name, v);
    report(r, NULL, r->loc, "--fix %s=%s: these are not the elements of this input", f->name, f->text);
    return define(r, in->name, new_value(r, ONNX_IS_FAULTY));
  }
  const msc_type *t = input_type(r, in);
  return define(r, in->name, t ? add_input(r, in, t) : new_value(r, ONNX_IS_FAULTY));
}

/* An input that has an initializer, too, is that: its value has a default, which stays. */
static bool read_inputs(onnx_reader *r) {
  const onnx_graph *g = r->model->graph;
  for (size_t i = 0; i < g->num_in; i++)
    if (!find_value(r->scope, g->in[i].name) && !read_input(r, &g->in[i])) return false;
  for (size_t i = 0; i < r->file->num_dims; i++)
    if (!r->dim_used[i])
      report(r, NULL, r->loc, "--dim %s: the model has no open dimension of that name", r->file->dim[i].name);
  for (size_t i = 0; i < r->file->num_fixed; i++)
    if (!r->fixed_used[i]) report(r, NULL, r->loc, "--fix %s: the model has no such input", r->file->fixed[i].name);
  return true;
}

/* ---- outputs ---- */

static const char *type_text(onnx_reader *r, const msc_type *t) { return msc_type_text(r->scratch, NULL, t); }

/* What the file says of an output against what it is. */
static void check_output(onnx_reader *r, const onnx_value_info *o, const msc_type *t) {
  msc_dtype dtype;
  bool same = !o->is_tensor || !o->elem_type || (onnx_dtype(o->elem_type, &dtype) && dtype == t->dtype);
  if (o->is_tensor && o->has_shape && !o->is_too_deep) same &= o->rank == t->rank;
  for (int d = 0; same && o->has_shape && d < o->rank; d++) same = o->dim[d].size < 0 || o->dim[d].size == t->dim[d];
  if (!same)
    report(r, NULL, r->loc, "output '%s' is %s, which is not what the file says it is", o->name, type_text(r, t));
}

static bool read_outputs(onnx_reader *r) {
  const onnx_graph *g = r->model->graph;
  msc_value **in = msc_new_array(r->scratch, msc_value *, g->num_out + 1);
  msc_attr_value *names = msc_new_array(r->scratch, msc_attr_value, g->num_out + 1);
  if (!g->num_out) return report(r, NULL, r->loc, "the graph has no outputs");
  for (size_t i = 0; i < g->num_out; i++) {
    onnx_value *v = find_value(r->scope, g->out[i].name);
    names[i] = msc_str(r->ctx, g->out[i].name);
    for (size_t k = 0; k < i; k++)
      if (g->out[k].name == g->out[i].name) report(r, NULL, r->loc, "two outputs are called '%s'", g->out[i].name);
    if (!v) report(r, NULL, r->loc, "output '%s' is not computed", g->out[i].name);
    if (!v || v->kind == ONNX_IS_FAULTY) continue;
    if (v->kind != ONNX_IS_TENSOR) report(r, NULL, r->loc, "output '%s' is no tensor", g->out[i].name);
    else if (v->data && !msc_type_elems(v->type))
      report(r, NULL, r->loc, "output '%s' has no elements", g->out[i].name);
    else if ((in[i] = take(r, v))) check_output(r, &g->out[i], v->type);
  }
  if (r->num_errors) return false;
  msc_append(r->func->body, msc_op_new(r->func, OP_return, g->num_out, in, 0, r->loc));
  msc_func_set(r->func, MSC_FACT(results), msc_list(r->ctx, g->num_out, names));
  return true;
}

/* ---- the whole ---- */

static bool read_opsets(onnx_reader *r) {
  r->scope->num_opsets = r->model->num_opsets, r->scope->opset = r->model->opset;
  int version = opset_of(r, "");
  if (version > ONNX_LAST_OPSET)
    return report(r, NULL, r->loc, "the file is of opset %d; this msc reads up to %d", version, ONNX_LAST_OPSET);
  return true;
}

static msc_module *read_graph(onnx_reader *r) {
  enter(r, NULL);
  MSC_TRY(read_opsets(r));
  MSC_TRY(read_inits(r, r->model->graph) && read_inputs(r));
  run_nodes(r, r->model->graph->num_nodes, r->model->graph->node);
  report_unknown(r);
  if (r->num_errors || msc_num_errors(r->ctx) || !read_outputs(r)) return NULL;
  msc_drop_unused(r->func);
  return msc_verify(r->module) ? r->module : NULL;
}

msc_module *msc_read_onnx(msc_context *ctx, const msc_model_bytes *file) {
  const msc_loc *loc = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, file->name), .implied = true});
  msc_weights none = {0};
  msc_model_bytes with_weights = *file;
  if (!file->weights) with_weights.weights = &none;
  onnx_reader r = {.ctx = ctx, .scratch = msc_arena_new(ctx), .file = &with_weights, .loc = loc};
  r.dim_used = msc_new_array(r.scratch, bool, file->num_dims + 1);
  r.fixed_used = msc_new_array(r.scratch, bool, file->num_fixed + 1);
  const uint8_t *data = file->data;
  r.model = onnx_decode(ctx, r.scratch, loc, (proto_bytes){data, data + file->bytes});
  msc_module *m = NULL;
  if (r.model) {
    r.module = msc_module_new(ctx);
    r.func = msc_func_new(r.module, "forward");
    r.b = (msc_builder){.func = r.func, .block = r.func->body, .loc = loc};
    m = read_graph(&r);
  }
  if (m && none.num) {
    msc_error(ctx, MSC_E_UNSUPPORTED, loc, "its %zu weights belong into a file of their own: msc import reads it",
              none.num);
    m = NULL;
  }
  return m; /* weights' elements may stand in the arena, which goes with the context */
}
