/* strategy_file.c: layouts of ops and parameters <-> JSON (see strategy_file.h).
 * LAYOUT texts decide; strategy tuples and (device matrix, tensor map) are written beside them where they can express it. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/3_shard/strategy_file.h"

enum { FILE_VERSION = 1 };

/* ---- writing ---- */

static json_t *layout_json(const msc_func *f, msc_arena *a, const msc_layout *l) { return json_string(msc_layout_print(a, &f->module->mesh, l)); }

/* One number of parts per dimension; NULL for a value that is not finished. */
static json_t *tuple_json(const msc_layout *l) {
  if (!l || l->num_partial) return NULL;
  json_t *tuple = json_array();
  for (int d = 0; d < l->rank; d++) json_array_append_new(tuple, json_integer(msc_layout_parts(l, d)));
  return tuple;
}

/* Adds key only when every entry can be expressed. */
static void put_tuples(json_t *to, const char *key, size_t num, const msc_layout *const *l) {
  json_t *list = json_array();
  for (size_t i = 0; i < num; i++) {
    json_t *tuple = tuple_json(l[i]);
    if (!tuple) {
      json_decref(list);
      return;
    }
    json_array_append_new(list, tuple);
  }
  json_object_set_new(to, key, list);
}

/* The mesh cut just where the layout cuts it: sizes, and by digit its place counted from the right. */
static size_t device_matrix(const msc_mesh *mesh, const msc_layout *l, msc_subaxis *out_digit) {
  size_t num = 0;
  for (int a = 0; a < mesh->num_axes; a++)
    for (uint32_t pre = 1; pre < (uint32_t)mesh->axis[a].size;) {
      uint32_t end = (uint32_t)mesh->axis[a].size; /* the next border after pre */
      for (int i = 0; i < l->first[l->rank] + l->num_partial; i++) {
        if ((int)l->sub[i].axis != a) continue;
        uint32_t borders[2] = {l->sub[i].pre, l->sub[i].pre * l->sub[i].size};
        for (int k = 0; k < 2; k++)
          if (borders[k] > pre && borders[k] < end) end = borders[k];
      }
      out_digit[num++] = (msc_subaxis){(uint16_t)a, pre, end / pre};
      pre = end;
    }
  return num;
}

static json_t *tensor_map_entry(const msc_subaxis *digit, size_t num, const msc_layout *l, int d) {
  json_t *list = json_array();
  for (int i = l->first[d]; i < l->first[d + 1]; i++)
    for (size_t k = 0; k < num; k++)
      if (digit[k].axis == l->sub[i].axis && digit[k].pre >= l->sub[i].pre && digit[k].pre < l->sub[i].pre * l->sub[i].size)
        json_array_append_new(list, json_integer((json_int_t)(num - 1 - k)));
  size_t cuts = json_array_size(list);
  if (cuts > 1) return list;
  json_t *one = json_integer(cuts ? json_integer_value(json_array_get(list, 0)) : -1);
  json_decref(list);
  return one;
}

static json_t *parameter_json(const msc_func *f, msc_arena *a, const msc_type *t) {
  json_t *p = json_object(), *matrix = json_array(), *map = json_array(), *shape = json_array();
  msc_subaxis digit[MSC_MAX_SUBAXES * 2];
  size_t num = device_matrix(&f->module->mesh, t->layout, digit);
  for (size_t i = 0; i < num; i++) json_array_append_new(matrix, json_integer(digit[i].size));
  for (int d = 0; d < t->rank; d++) {
    json_array_append_new(map, tensor_map_entry(digit, num, t->layout, d));
    json_array_append_new(shape, json_integer(t->dim[d]));
  }
  json_object_set_new(p, "layout", layout_json(f, a, t->layout));
  json_object_set_new(p, "device_matrix", matrix);
  json_object_set_new(p, "tensor_map", map);
  json_object_set_new(p, "shape", shape);
  return p;
}

static const msc_layout *wanted(const msc_op *op, size_t i) {
  const msc_attr_value *v = msc_op_attr(op, "in_layout");
  const msc_layout *l = NULL;
  return v && i < v->list.num && msc_layout_parse(msc_op_ctx(op), &op->block->func->module->mesh, op->loc, v->list.v[i].s, &l) ? l : NULL;
}

static json_t *op_json(const msc_func *f, msc_arena *a, const msc_op *op) {
  const msc_layout *in[64], *out[64];
  size_t num_in = op->num_in < 64 ? op->num_in : 64, num_out = op->num_out < 64 ? op->num_out : 64;
  json_t *o = json_object(), *layout = json_object(), *ins = json_array(), *outs = json_array();
  for (size_t i = 0; i < num_in; i++) json_array_append_new(ins, layout_json(f, a, in[i] = wanted(op, i)));
  for (size_t i = 0; i < num_out; i++) json_array_append_new(outs, layout_json(f, a, out[i] = op->out[i].type->layout));
  put_tuples(o, "in_strategy", num_in, in);
  put_tuples(o, "out_strategy", num_out, out);
  json_object_set_new(layout, "in", ins);
  json_object_set_new(layout, "out", outs);
  json_object_set_new(o, "layout", layout);
  json_object_set_new(o, "by", json_string(msc_op_str(op, "by")));
  return o;
}

static bool recorded(const msc_op *op) {
  if (!op->name || op->forward || !msc_op_attr(op, "by") || !msc_op_attr(op, "in_layout") || op->num_in > 64) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (!wanted(op, i)) return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!op->out[i].type->layout) return false;
  return true;
}

const char *msc_strategy_file(const msc_func *f, msc_arena *arena) {
  json_t *root = json_object(), *ops = json_object(), *parameters = json_object();
  json_object_set_new(root, "version", json_integer(FILE_VERSION));
  json_object_set_new(root, "device_num", json_integer(msc_mesh_size(&f->module->mesh)));
  json_object_set_new(root, "mesh", json_string(msc_mesh_print(arena, &f->module->mesh)));
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (recorded(op)) json_object_set_new(ops, op->name, op_json(f, arena, op));
  for (size_t i = 0; i < f->body->num_args; i++)
    if (msc_arg_role(f, i) == MSC_ROLE_PARAMETER && f->body->args[i]->type->layout)
      json_object_set_new(parameters, f->body->args[i]->name ? f->body->args[i]->name : "", parameter_json(f, arena, f->body->args[i]->type));
  json_object_set_new(root, "ops", ops);
  json_object_set_new(root, "parameters", parameters);
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  const char *copy = text ? msc_arena_printf(arena, "%s\n", text) : NULL;
  free(text);
  json_decref(root);
  return copy;
}

/* ---- reading ---- */

typedef struct {
  msc_func *f;
  msc_context *ctx;
  const msc_loc *loc;
  bool ok;
} loading;

static void differs(loading *l, const char *fmt, const char *name) {
  l->ok = false;
  msc_error(l->ctx, MSC_E_STRATEGY_FILE, l->loc, fmt, name);
}

static msc_op *find_op(const loading *l, const char *name) {
  for (msc_op *op = l->f->body->first; op; op = op->next)
    if (op->name && !op->forward && strcmp(op->name, name) == 0) return op;
  return NULL;
}

static void load_op(loading *l, const char *name, json_t *o) {
  msc_op *op = find_op(l, name);
  json_t *in = json_object_get(json_object_get(o, "layout"), "in"), *by = json_object_get(o, "by");
  if (!op) {
    differs(l, "the strategy file names an op %s that the model does not have", name);
    return;
  }
  if (!json_is_array(in) || json_array_size(in) != op->num_in) {
    differs(l, "strategy file: layout.in of %s must have one entry for each operand", name);
    return;
  }
  msc_attr_value *text = msc_new_array(msc_context_arena(l->ctx), msc_attr_value, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    const char *s = json_string_value(json_array_get(in, i));
    if (!s) {
      differs(l, "strategy file: layout.in of %s must be texts", name);
      return;
    }
    text[i] = msc_str(l->ctx, s);
  }
  msc_op_unset(op, "in_strategy");
  msc_op_set(op, "in_layout", msc_list(l->ctx, op->num_in, text));
  if (json_is_string(by)) msc_op_set(op, "by", msc_str(l->ctx, json_string_value(by)));
}

static size_t find_parameter(const loading *l, const char *name) {
  size_t i = 0;
  while (i < l->f->body->num_args && !(l->f->body->args[i]->name && strcmp(l->f->body->args[i]->name, name) == 0 && msc_arg_role(l->f, i) == MSC_ROLE_PARAMETER)) i++;
  return i;
}

static void check_parameter(loading *l, const char *name, json_t *p) {
  size_t i = find_parameter(l, name);
  json_t *shape = json_object_get(p, "shape");
  if (i == l->f->body->num_args) {
    differs(l, "the strategy file names a parameter %s that the model does not have", name);
    return;
  }
  const msc_type *t = l->f->body->args[i]->type;
  bool same = json_is_array(shape) && json_array_size(shape) == (size_t)t->rank;
  for (int d = 0; same && d < t->rank; d++) same = json_integer_value(json_array_get(shape, (size_t)d)) == t->dim[d];
  if (!same) differs(l, "strategy file: parameter %s has another shape in the model", name);
}

static void load_root(loading *l, json_t *root) {
  json_t *ops = json_object_get(root, "ops"), *parameters = json_object_get(root, "parameters"), *value;
  const char *name;
  int64_t devices = json_integer_value(json_object_get(root, "device_num")), here = msc_mesh_size(&l->f->module->mesh);
  if (json_integer_value(json_object_get(root, "version")) != FILE_VERSION || !json_is_object(ops) || !json_is_object(parameters)) {
    differs(l, "%s: version 1 with ops and parameters is expected", "strategy file");
    return;
  }
  if (devices != here) {
    l->ok = msc_error(l->ctx, MSC_E_STRATEGY_FILE, l->loc, "the strategy file is for %" PRId64 " devices, device_num is %" PRId64, devices, here);
    return;
  }
  json_object_foreach(parameters, name, value) check_parameter(l, name, value);
  json_object_foreach(ops, name, value) load_op(l, name, value);
  for (size_t i = 0; i < l->f->body->num_args; i++) {
    const char *own = l->f->body->args[i]->name;
    if (msc_arg_role(l->f, i) == MSC_ROLE_PARAMETER && own && !json_object_get(parameters, own)) differs(l, "the model has a parameter %s that the strategy file does not name", own);
  }
}

bool msc_strategy_load(msc_func *f, const char *path) {
  msc_context *ctx = f->module->ctx;
  loading l = {f, ctx, msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, path), .line = 1}), true};
  json_error_t error;
  FILE *file = fopen(path, "rb");
  if (!file) return msc_error(ctx, MSC_E_FILE, l.loc, "cannot read the strategy file: %s", strerror(errno));
  json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
  fclose(file);
  if (!root) {
    const msc_loc *at = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, path), .line = error.line > 0 ? (uint32_t)error.line : 1, .col = error.column > 0 ? (uint32_t)error.column : 0});
    return msc_error(ctx, MSC_E_SYNTAX, at, "strategy file: %s", error.text);
  }
  load_root(&l, root);
  json_decref(root);
  return l.ok;
}
