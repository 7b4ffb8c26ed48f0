/* attr.c: attribute values, and reading them from ops, arguments and functions. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ir/ir.h"

msc_attr_value msc_int(int64_t v) { return (msc_attr_value){.kind = MSC_ATTR_INT, .dtype = MSC_I64, .i = v}; }
msc_attr_value msc_float(double v) { return (msc_attr_value){.kind = MSC_ATTR_FLOAT, .dtype = MSC_F64, .f = v}; }
msc_attr_value msc_bool(bool v) { return (msc_attr_value){.kind = MSC_ATTR_BOOL, .b = v}; }
msc_attr_value msc_str(msc_context *ctx, const char *s) {
  return (msc_attr_value){.kind = MSC_ATTR_STR, .s = msc_intern(ctx, s)};
}
msc_attr_value msc_type_attr(const msc_type *t) { return (msc_attr_value){.kind = MSC_ATTR_TYPE, .type = t}; }

msc_attr_value msc_layout_attr(const msc_layout *l) { return (msc_attr_value){.kind = MSC_ATTR_LAYOUT, .layout = l}; }

msc_attr_value msc_layouts_attr(msc_context *ctx, size_t num, const msc_layout *const *l) {
  msc_attr_value *item = msc_new_array(msc_context_arena(ctx), msc_attr_value, num);
  for (size_t i = 0; i < num; i++) item[i] = msc_layout_attr(l[i]);
  return (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {num, item}};
}

msc_attr_value msc_digits_attr(const msc_layout *digits) {
  return (msc_attr_value){.kind = MSC_ATTR_DIGITS, .layout = digits};
}

const msc_layout *msc_attr_layout(const msc_attr_value *v) {
  return v && (v->kind == MSC_ATTR_LAYOUT || v->kind == MSC_ATTR_DIGITS) ? v->layout : NULL;
}

msc_attr_value msc_list(msc_context *ctx, size_t num, const msc_attr_value *v) {
  return (msc_attr_value){.kind = MSC_ATTR_LIST,
                          .list = {num, msc_arena_copy(msc_context_arena(ctx), v, num * sizeof *v)}};
}

msc_attr_value msc_ints(msc_context *ctx, size_t num, const int64_t *v) {
  msc_attr_value *item = msc_new_array(msc_context_arena(ctx), msc_attr_value, num);
  for (size_t i = 0; i < num; i++) item[i] = msc_int(v[i]);
  return (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {num, item}};
}

msc_attr msc_named(msc_context *ctx, const char *name, msc_attr_value v) {
  return (msc_attr){msc_intern(ctx, name), v};
}

bool msc_attr_equal(const msc_attr_value *a, const msc_attr_value *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case MSC_ATTR_INT: return a->i == b->i && a->dtype == b->dtype;
    /* as bits: -0 and NaN */
    case MSC_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0 && a->dtype == b->dtype;
    case MSC_ATTR_BOOL: return a->b == b->b;
    case MSC_ATTR_STR: return a->s == b->s;
    case MSC_ATTR_TYPE: return a->type == b->type;
    case MSC_ATTR_LAYOUT:
    case MSC_ATTR_DIGITS: return a->layout == b->layout;
    case MSC_ATTR_DENSE:
      return a->dense.type == b->dense.type && a->dense.bytes == b->dense.bytes &&
             memcmp(a->dense.data, b->dense.data, a->dense.bytes) == 0;
    case MSC_ATTR_LIST:
      if (a->list.num != b->list.num) return false;
      for (size_t i = 0; i < a->list.num; i++)
        if (!msc_attr_equal(&a->list.v[i], &b->list.v[i])) return false;
      return true;
    case MSC_ATTR_DICT:
      if (a->dict.num != b->dict.num) return false;
      for (size_t i = 0; i < a->dict.num; i++)
        if (a->dict.a[i].name != b->dict.a[i].name || !msc_attr_equal(&a->dict.a[i].value, &b->dict.a[i].value))
          return false;
      return true;
  }
  return false;
}

static uint64_t mix_value(uint64_t h, const msc_attr_value *v) {
  h = msc_mix(h, v->kind);
  switch (v->kind) {
    case MSC_ATTR_BOOL: return msc_mix(h, v->b);
    case MSC_ATTR_INT:
    case MSC_ATTR_FLOAT: return msc_mix(msc_mix(h, v->dtype), (uint64_t)v->i);
    case MSC_ATTR_STR: return msc_mix_pointer(h, v->s);
    case MSC_ATTR_TYPE: return msc_mix_pointer(h, v->type);
    case MSC_ATTR_LAYOUT:
    case MSC_ATTR_DIGITS: return msc_mix_pointer(h, v->layout);
    case MSC_ATTR_DENSE: return msc_mix(msc_mix_pointer(h, v->dense.type), XXH3_64bits(v->dense.data, v->dense.bytes));
    case MSC_ATTR_DICT: return msc_mix_attrs(h, v->dict.a, v->dict.num);
    case MSC_ATTR_LIST: break;
  }
  h = msc_mix(h, v->list.num);
  for (size_t i = 0; i < v->list.num; i++) h = mix_value(h, &v->list.v[i]);
  return h;
}

uint64_t msc_mix_attrs(uint64_t h, const msc_attr *attrs, size_t num) {
  h = msc_mix(h, num);
  for (size_t i = 0; i < num; i++) h = mix_value(msc_mix_pointer(h, attrs[i].name), &attrs[i].value);
  return h;
}

/* ---- sorted arrays of attributes ---- */

const msc_attr_value *msc_find_attr(const msc_attr *attrs, size_t num, const char *name) {
  bool fact = msc_is_fact_name(name);
  for (size_t i = 0; i < num; i++)
    if (attrs[i].name == name || (!fact && strcmp(attrs[i].name, name) == 0)) return &attrs[i].value;
  return NULL;
}

void msc_put_attr(msc_context *ctx, msc_attr **attrs, size_t *num, const char *name, msc_attr_value v) {
  size_t at = 0;
  for (; at < *num; at++) {
    int order = strcmp((*attrs)[at].name, name);
    if (order == 0) {
      (*attrs)[at].value = v;
      return;
    }
    if (order > 0) break;
  }
  msc_attr *grown = msc_new_array(msc_context_arena(ctx), msc_attr, *num + 1);
  if (*num) {
    memcpy(grown, *attrs, at * sizeof *grown);
    memcpy(grown + at + 1, *attrs + at, (*num - at) * sizeof *grown);
  }
  grown[at] = msc_named(ctx, name, v);
  *attrs = grown;
  ++*num;
}

void msc_drop_attr(msc_attr *attrs, size_t *num, const char *name) {
  for (size_t i = 0; i < *num; i++)
    if (attrs[i].name == name || strcmp(attrs[i].name, name) == 0) {
      memmove(attrs + i, attrs + i + 1, (*num - i - 1) * sizeof *attrs);
      --*num;
      return;
    }
}

/* ---- of ops ---- */

const msc_attr_value *msc_op_attr(const msc_op *op, const char *name) {
  return msc_find_attr(op->attrs, op->num_attrs, name);
}

const msc_layout *msc_wanted_layout(const msc_op *op, size_t i) {
  const msc_attr_value *list = msc_op_attr(op, MSC_FACT(in_layout));
  return list && list->kind == MSC_ATTR_LIST && i < list->list.num ? msc_attr_layout(&list->list.v[i]) : NULL;
}

const msc_layout *msc_op_layout(const msc_op *op, const char *name) { return msc_attr_layout(msc_op_attr(op, name)); }

void msc_op_set(msc_op *op, const char *name, msc_attr_value v) {
  msc_put_attr(msc_op_ctx(op), &op->attrs, &op->num_attrs, name, v);
}
void msc_op_copy_attr(msc_op *op, const msc_op *from, const char *name) {
  const msc_attr_value *v = msc_op_attr(from, name);
  if (v) msc_op_set(op, name, *v);
}

void msc_op_unset(msc_op *op, const char *name) { msc_drop_attr(op->attrs, &op->num_attrs, name); }

/* Returns the default that the op's row gives an attribute, or NULL. A name that is neither declared there nor a fact's
 * is misspelt. */
static const char *row_default(const msc_op *op, const char *name) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_attrs; i++)
    if (strcmp(info->attr[i].name, name) == 0) return info->attr[i].has_default ? info->attr[i].default_text : NULL;
  assert(msc_is_fact_name(name) || msc_declares(op, name));
  return NULL;
}

int64_t msc_op_int(const msc_op *op, const char *name) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (v && v->kind == MSC_ATTR_INT) return v->i;
  const char *text = row_default(op, name);
  return text ? strtoll(text, NULL, 10) : 0;
}

double msc_op_float(const msc_op *op, const char *name) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (v && v->kind == MSC_ATTR_FLOAT) return v->f;
  if (v && v->kind == MSC_ATTR_INT) return (double)v->i;
  const char *text = row_default(op, name);
  return text ? strtod(text, NULL) : 0;
}

int msc_operand_called(const msc_op *op, const char *name) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands && i < (int)op->num_in; i++)
    if (!strcmp(info->operand[i].name, name)) return i;
  return -1;
}

bool msc_op_bool(const msc_op *op, const char *name) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (v && v->kind == MSC_ATTR_BOOL) return v->b;
  const char *text = row_default(op, name);
  return text && strcmp(text, "true") == 0;
}

const char *msc_op_str(const msc_op *op, const char *name) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (v && v->kind == MSC_ATTR_STR) return v->s;
  return row_default(op, name);
}

int msc_op_ints(const msc_op *op, const char *name, int64_t *out_v, int max) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (!v || v->kind != MSC_ATTR_LIST) return -1;
  for (size_t i = 0; i < v->list.num && i < (size_t)max; i++)
    out_v[i] = v->list.v[i].kind == MSC_ATTR_INT ? v->list.v[i].i : 0;
  return (int)v->list.num;
}

/* ---- of functions and their arguments ---- */

const msc_attr_value *msc_arg_attr(const msc_func *f, size_t arg, const char *name) {
  return msc_find_attr(f->arg[arg].attrs, f->arg[arg].num_attrs, name);
}

void msc_arg_set(msc_func *f, size_t arg, const char *name, msc_attr_value v) {
  msc_put_attr(f->module->ctx, &f->arg[arg].attrs, &f->arg[arg].num_attrs, name, v);
}

msc_role msc_arg_role(const msc_func *f, size_t arg) { return msc_fact_read(&f->arg[arg], msc_role, MSC_NUM_ROLES); }

const msc_attr_value *msc_func_attr(const msc_func *f, const char *name) {
  return msc_find_attr(f->attrs, f->num_attrs, name);
}
void msc_func_set(msc_func *f, const char *name, msc_attr_value v) {
  msc_put_attr(f->module->ctx, &f->attrs, &f->num_attrs, name, v);
}
