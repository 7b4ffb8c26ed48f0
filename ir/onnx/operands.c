/* operands.c: a node in; its operands, elements that must be known, and attributes out.  Results in; values of names
 * out. */
#include <string.h>

#include "ir/onnx/reader.h"

enum { MAX_CONSTANT = 1 << 20 }; /* larger ones become parameters: what a model file takes inline */

/* ---- values ---- */

onnx_value *onnx_value_new(onnx_reader *r, onnx_value_kind kind) {
  onnx_value *v = msc_new(r->scratch, onnx_value);
  v->kind = kind;
  return v;
}

onnx_value *onnx_new_value(onnx_node *n) { return onnx_value_new(n->r, ONNX_IS_TENSOR); }

const msc_model_bytes *onnx_file(const onnx_node *n) { return n->r->file; }

onnx_value *onnx_find_value(const onnx_scope *s, const char *name) {
  for (; s; s = s->outer) {
    const named_value *found = msc_table_find(&s->names, &name);
    if (found) return found->value;
  }
  return NULL;
}

bool onnx_define(onnx_reader *r, const char *name, onnx_value *v) {
  named_value *at = msc_table_at(&r->scope->names, &name);
  if (at->value) return onnx_report(r, name, r->loc, "'%s' is defined twice", name);
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
  msc_arg_put(f, arg->index, msc_fact_msc_name(r->ctx, name));
  msc_arg_put(f, arg->index, msc_fact_msc_role(r->ctx, MSC_ROLE_PARAMETER));
  if (!trainable) msc_arg_put(f, arg->index, msc_fact_msc_trainable(false));
  msc_attr *attrs = NULL;
  size_t num_attrs = 0;
  msc_put_attr(r->ctx, &attrs, &num_attrs, "file", msc_str(r->ctx, w->file));
  msc_put_attr(r->ctx, &attrs, &num_attrs, "tensor", msc_str(r->ctx, name));
  msc_arg_put(f, arg->index, msc_fact_msc_weights((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num_attrs, attrs}}));
  msc_grow(msc_context_arena(r->ctx), w->item, w->num);
  w->item[w->num++] = (msc_weight){name, v->type, v->data};
  return arg;
}

static msc_value *add_constant(onnx_reader *r, const onnx_value *v) {
  size_t bytes = (size_t)msc_type_bytes(v->type);
  /* A function that is folded is freed before the file's bytes are, so it needs no copy. */
  const void *data = r->b.func == r->func ? msc_arena_copy(msc_context_arena(r->ctx), v->data, bytes) : v->data;
  return constant_of(&r->b, v->type, data);
}

msc_value *onnx_take(onnx_reader *r, onnx_value *v) {
  if (v->made && r->b.func == r->func) return v->made;
  if (v->value && v->func == r->b.func) return v->value;
  if (!v->data) return NULL;
  bool is_parameter =
      r->b.func == r->func && msc_type_elems(v->type) > 0 && (v->weight || msc_type_bytes(v->type) > MAX_CONSTANT);
  bool trainable = v->weight && !v->is_frozen;
  v->value = is_parameter ? add_parameter(r, v, v->weight ? v->weight : msc_intern(r->ctx, "constant"), trainable)
                          : add_constant(r, v);
  v->func = r->b.func;
  if (r->sizes_vary && r->b.func == r->func) v->made = v->value; /* once, whatever is computed in between */
  return v->value;
}

msc_value *onnx_value_of(onnx_node *n, onnx_value *v) {
  if (v->kind != ONNX_IS_TENSOR) {
    onnx_refuse(n, "takes a tensor here, not %s", v->kind == ONNX_IS_SEQUENCE ? "a sequence" : "an empty optional");
    return NULL;
  }
  return onnx_take(n->r, v);
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

onnx_value *onnx_computed(onnx_node *n, msc_value *v) {
  onnx_value *o = v ? onnx_new_value(n) : NULL;
  if (o) o->type = v->type, o->value = v, o->func = n->b->func;
  return o;
}

bool onnx_set(onnx_node *n, size_t i, msc_value *v) { return v && onnx_set_value(n, i, onnx_computed(n, v)); }

onnx_value *onnx_constant(onnx_node *n, const msc_type *type, const void *data) {
  onnx_value *o = onnx_new_value(n);
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

const onnx_attr *onnx_attr_of(onnx_node *n, const char *name, onnx_attr_type type) {
  for (size_t i = 0; i < n->num_attrs; i++) {
    if (strcmp(n->attr[i].name, name)) continue;
    if (i < 64) n->attrs_seen |= UINT64_C(1) << i;
    if (n->attr[i].type == type) return &n->attr[i];
    return onnx_refuse(n, "attribute '%s' is of the wrong kind", name), NULL;
  }
  return NULL;
}

int64_t onnx_int(onnx_node *n, const char *name, int64_t absent) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_INT);
  return a ? a->i : absent;
}

double onnx_float(onnx_node *n, const char *name, double absent) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_FLOAT);
  return a ? (double)a->f : absent;
}

const char *onnx_text(onnx_node *n, const char *name, const char *absent) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_STRING);
  return a && a->s ? a->s : absent;
}

bool onnx_is_one_of(const char *word, const char *words) {
  size_t n = strlen(word);
  for (const char *w = words; w; w = strchr(w, ' '), w = w ? w + 1 : NULL)
    if (n && !strncmp(w, word, n) && (w[n] == ' ' || !w[n])) return true;
  return false;
}

int onnx_ints(onnx_node *n, const char *name, int64_t *out_v, int max) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_INTS);
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
