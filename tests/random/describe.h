/* describe.h: writes a program as JSON, for other executors, and reads the losses that they recorded. */
#ifndef MSC_TESTS_RANDOM_DESCRIBE_H
#define MSC_TESTS_RANDOM_DESCRIBE_H

#include <jansson.h>

#include "tests/random/oracle.h"

#define RECORDED_LOSSES "tests/random/programs/torch.losses"

static inline uint64_t hash_of_program(const program *p) {
  uint64_t h = p->seed;
  for (const char *c = p->text; *c; c++) h = hashed(h, (uint8_t)*c);
  return h >> 32;
}

/* ---- recorded losses ---- */

/* One line: seed, hash, losses.  false: none was recorded. */
static inline bool recorded_losses(uint64_t seed, uint64_t *out_hash, double out_loss[STEPS]) {
  FILE *f = fopen(RECORDED_LOSSES, "r");
  char line[256];
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f)) {
    char *at = line;
    found = *line != '#' && strtoull(line, &at, 10) == seed;
    *out_hash = strtoull(at, &at, 16);
    for (int s = 0; found && s < STEPS; s++) out_loss[s] = strtod(at, &at);
  }
  if (f) fclose(f);
  return found;
}

/* ---- JSON ---- */

static inline json_t *shape_json(const msc_type *t) {
  json_t *dims = json_array();
  for (int d = 0; d < t->rank; d++) json_array_append_new(dims, json_integer(t->dim[d]));
  return dims;
}

static inline json_t *tensor_json(const msc_type *t, const double *v, int64_t num) {
  json_t *values = json_array();
  for (int64_t i = 0; i < num; i++) json_array_append_new(values, json_real(v[i]));
  return json_pack("{s:s, s:o, s:o}", "dtype", msc_dtype_name(t->dtype), "shape", shape_json(t), "values", values);
}

static inline json_t *attr_json(msc_arena *a, const msc_attr_value *v);

static inline json_t *dict_json(msc_arena *a, const msc_attr *attrs, size_t num) {
  json_t *all = json_object();
  for (size_t i = 0; i < num; i++) json_object_set_new(all, attrs[i].name, attr_json(a, &attrs[i].value));
  return all;
}

static inline json_t *dense_json(msc_arena *a, const msc_attr_value *v) {
  int64_t num = (int64_t)v->dense.bytes / msc_dtype_bytes(v->dense.type->dtype);
  double *element = msc_new_array(a, double, num + 1);
  msc_tensor t = {v->dense.type, (void *)v->dense.data};
  for (int64_t i = 0; i < num; i++) element[i] = msc_tensor_get(&t, i);
  return tensor_json(v->dense.type, element, num);
}

/* What says how values are cut changes no losses: null. */
static inline json_t *attr_json(msc_arena *a, const msc_attr_value *v) {
  json_t *list;
  switch (v->kind) {
    case MSC_ATTR_INT: return json_integer(v->i);
    case MSC_ATTR_FLOAT: return json_real(v->f);
    case MSC_ATTR_BOOL: return json_boolean(v->b);
    case MSC_ATTR_STR: return json_string(v->s);
    case MSC_ATTR_DICT: return dict_json(a, v->dict.a, v->dict.num);
    case MSC_ATTR_TYPE: return tensor_json(v->type, NULL, 0);
    case MSC_ATTR_DENSE: return dense_json(a, v);
    case MSC_ATTR_LAYOUT:
    case MSC_ATTR_DIGITS: return json_null();
    case MSC_ATTR_LIST: break;
  }
  list = json_array();
  for (size_t i = 0; i < v->list.num; i++) json_array_append_new(list, attr_json(a, &v->list.v[i]));
  return list;
}

static inline json_t *argument_json(msc_arena *a, const program *p, const msc_func *f, size_t i) {
  const msc_type *t = f->body->args[i]->type;
  double *v = msc_new_array(a, double, msc_type_elems(t) + 1);
  fill_argument(p, f, i, v);
  json_t *all = tensor_json(t, v, msc_type_elems(t));
  json_object_set_new(all, "name", json_string(f->body->args[i]->name));
  json_object_set_new(all, "role", json_string(msc_role_name(msc_arg_role(f, i))));
  json_object_set_new(all, "trainable", json_boolean(!msc_arg_attr(f, i, "msc.trainable")));
  return all;
}

/* Values are numbered: arguments first. */
static inline json_t *op_json(msc_arena *a, const msc_op *op) {
  json_t *in = json_array(), *out = json_array();
  for (size_t i = 0; i < op->num_in; i++) json_array_append_new(in, json_integer(op->in[i].value->id));
  for (size_t i = 0; i < op->num_out; i++)
    json_array_append_new(out, json_pack("{s:I, s:s, s:o}", "id", (json_int_t)op->out[i].id, "dtype",
                                         msc_dtype_name(op->out[i].type->dtype), "shape", shape_json(op->out[i].type)));
  return json_pack("{s:s, s:o, s:o, s:o}", "op", msc_kind_name(op->kind), "in", in, "out", out, "attrs",
                   dict_json(a, op->attrs, op->num_attrs));
}

static inline json_t *described(msc_context *ctx, const program *p) {
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_parse(ctx, "program", p->text, strlen(p->text));
  msc_func *f = msc_find_func(m, "forward");
  json_t *args = json_array(), *ops = json_array(), *settings = json_array();
  msc_number(f->body);
  for (size_t i = 0; i < f->body->num_args; i++) {
    json_t *arg = argument_json(a, p, f, i);
    json_object_set_new(arg, "id", json_integer(f->body->args[i]->id));
    json_array_append_new(args, arg);
  }
  for (const msc_op *op = f->body->first; op; op = op->next) json_array_append_new(ops, op_json(a, op));
  for (int i = 0; i < p->num_settings; i++) json_array_append_new(settings, json_string(p->setting[i]));
  return json_pack("{s:I, s:s, s:i, s:o, s:o, s:o, s:o}", "seed", (json_int_t)p->seed, "hash",
                   msc_arena_printf(a, "%08" PRIx64, hash_of_program(p)), "steps", p->steps, "args", args, "ops", ops,
                   "settings", settings, "attrs", dict_json(a, f->attrs, f->num_attrs));
}

#endif
