/* one_op.h: makes a function with one op from texts such as "matmul", "4x8xf32 8x2xf32", "transpose_a=false". Types
 * are dims and element type joined by x, with "@[{d},{}]" behind for a layout (~ for a blank); attributes are
 * name=value words read by the kinds of the op's row: lists joined by commas, dense values as TYPE:v,v,... */
#ifndef MSC_TESTS_IR_ONE_OP_H
#define MSC_TESTS_IR_ONE_OP_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

/* mesh NULL: a type without layout. */
static inline const msc_type *type_of_text(msc_context *ctx, const msc_mesh *mesh, const char *text, size_t n) {
  char copy[128], *at;
  const msc_layout *layout = NULL;
  int64_t dim[MSC_MAX_RANK];
  int rank = 0;
  msc_dtype dtype;
  assert(n < sizeof copy);
  memcpy(copy, text, n);
  copy[n] = 0;
  for (char *p = copy; *p; p++)
    if (*p == '~') *p = ' ';
  if ((at = strchr(copy, '@'))) {
    assert(msc_layout_parse(ctx, mesh, NULL, at + 1, &layout) || !"layout");
    *at = 0;
  }
  char *p = copy;
  while (*p >= '0' && *p <= '9') {
    dim[rank++] = strtoll(p, &p, 10);
    p++;
  }
  assert(msc_dtype_parse(p, &dtype) || !"element type");
  return msc_type_of(ctx, dtype, rank, dim, layout);
}

static inline char *text_of_type(msc_arena *a, const msc_type *t) {
  char *text = msc_arena_printf(a, "%s", msc_dtype_name(t->dtype));
  for (int d = t->rank - 1; d >= 0; d--) text = msc_arena_printf(a, "%" PRId64 "x%s", t->dim[d], text);
  return text;
}

/* Bytes of one element of value v, as a C conversion would make it. */
static inline void put_element(msc_dtype dtype, double v, void *out) {
  switch (dtype) {
    case MSC_F32: {
      float f = (float)v;
      memcpy(out, &f, 4);
      break;
    }
    case MSC_F64: memcpy(out, &v, 8); break;
    case MSC_F16: {
      _Float16 h = (_Float16)v;
      memcpy(out, &h, 2);
      break;
    }
    case MSC_BF16: { /* exact values only */
      float f = (float)v;
      memcpy(out, (char *)&f + 2, 2);
      break;
    }
    default: {
      int64_t i = (int64_t)v;
      memcpy(out, &i, (size_t)msc_dtype_bytes(dtype));
    }
  }
}

static inline msc_attr_value dense_of_text(msc_context *ctx, const char *text) {
  const char *colon = strchr(text, ':');
  const msc_type *t = type_of_text(ctx, NULL, text, (size_t)(colon - text));
  size_t size = (size_t)msc_dtype_bytes(t->dtype), num = 0;
  char *data = msc_arena_alloc(msc_context_arena(ctx), (strlen(text) + 1) * 8);
  for (char *p = (char *)colon + 1; *p; p += *p == ',') put_element(t->dtype, strtod(p, &p), data + size * num++);
  return (msc_attr_value){.kind = MSC_ATTR_DENSE, .dense = {t, data, num * size}};
}

static inline msc_attr_value value_of_text(msc_context *ctx, const msc_attr_spec *s, const char *text) {
  if (s->is_list && s->kind >= MSC_ATTR_LAYOUT) return msc_list(ctx, 1, &(msc_attr_value){MSC_ATTR_STR, .s = text});
  if (s->is_list) {
    int64_t v[16];
    size_t n = 0;
    for (char *p = (char *)text; *p; p += *p == ',') v[n++] = strtoll(p, &p, 10);
    return msc_ints(ctx, n, v);
  }
  switch (s->kind) {
    case MSC_ATTR_INT: return msc_int(strtoll(text, NULL, 10));
    case MSC_ATTR_FLOAT: return msc_float(strtod(text, NULL));
    case MSC_ATTR_BOOL: return msc_bool(strcmp(text, "true") == 0);
    case MSC_ATTR_TYPE: return msc_type_attr(type_of_text(ctx, NULL, text, strlen(text)));
    case MSC_ATTR_DENSE: return dense_of_text(ctx, text);
    default: return msc_str(ctx, text);
  }
}

static inline void set_attrs(msc_op *op, const char *attrs) {
  msc_context *ctx = msc_op_ctx(op);
  const msc_op_info *info = msc_info(op);
  char copy[512], *state = NULL;
  assert(strlen(attrs) < sizeof copy);
  strcpy(copy, attrs);
  for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
    char *equal = strchr(word, '=');
    assert(equal || !"name=value");
    *equal = 0;
    const msc_attr_spec *s = NULL;
    for (int i = 0; i < info->num_attrs; i++)
      if (strcmp(info->attr[i].name, word) == 0) s = &info->attr[i];
    assert(s || !"attribute of the row");
    msc_op_set(op, word, value_of_text(ctx, s, equal + 1));
  }
  assert(msc_read_layouts(op->block->func->module, NULL, op->attrs, op->num_attrs, info) || !"layout");
}

/* The op, inserted into a new function of m that returns its results; num_out counts only for ops with any number.
 * NULL when its row or shape function refused. */
static inline msc_op *one_op(msc_module *m, const char *kind_name, const char *in, const char *attrs, int num_out) {
  msc_op_kind kind;
  msc_func *f = msc_func_new(m, "f");
  assert(msc_kind_parse(kind_name, &kind) || !"op name");
  while (*in) {
    size_t n = strcspn(in, " ");
    msc_add_arg(f->body, type_of_text(m->ctx, &m->mesh, in, n), NULL);
    in += n + strspn(in + n, " ");
  }
  const msc_op_info *info = msc_op_info_of(m->ctx, kind);
  if (info->max_out >= 0) num_out = info->max_out;
  else if (kind == OP_gemm) num_out = strstr(attrs, "gives=") ? 2 : 1;
  else if (info->min_out) num_out = (int)f->body->num_args; /* "y more*": one for each operand */
  msc_op *op = msc_op_new(f, kind, f->body->num_args, f->body->args, (size_t)num_out, NULL);
  msc_append(f->body, op);
  set_attrs(op, attrs);
  if (!msc_infer(op)) return NULL;
  msc_value **out = msc_new_array(msc_context_arena(m->ctx), msc_value *, num_out);
  for (int i = 0; i < num_out; i++) out[i] = &op->out[i];
  msc_append_return(f, (size_t)num_out, out, NULL);
  return op;
}

#endif
