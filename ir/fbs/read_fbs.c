/* read_fbs.c: the bytes of a model.fbs in; a module with the function "forward", or every fault of the file reported,
 * out.  It checks first the structure (flatbuf.c), then the meaning: numbers are in range, values are defined once and
 * before they are used, ops fit their rows of op.def, shapes are equal to the declared ones, hints are valid. */
#include <stdlib.h>
#include <string.h>

#include "ir/fbs/fbs.h"

/* ---- values ---- */

static bool read_values(fbs_reader *r) {
  model_model m = r->model;
  uint32_t num_types = model_model_types_num(m);
  r->num_values = model_model_value_types_num(m);
  r->declared = msc_new_array(r->scratch, const msc_type *, r->num_values + 1);
  r->value = msc_new_array(r->scratch, msc_value *, r->num_values + 1);
  for (uint32_t i = 0; i < r->num_values && r->num_errors < FBS_MAX_ERRORS; i++) {
    uint32_t number = model_model_value_types(m, i);
    if (number < num_types) r->declared[i] = r->type[number];
    else
      fbs_error(r, MSC_E_FORMAT, fbs_at_file(r, "value %u", i), "has type %u, but the file has %u types", number,
                num_types);
  }
  return true;
}

/* ---- ops ---- */

/* Ops that are not in the table, by name. */
typedef struct {
  const char *kind;
  uint32_t count;
  const msc_loc *first;
} unknown_op;

typedef struct {
  unknown_op *item;
  size_t num;
} unknown_ops;

static void count_unknown(fbs_reader *r, unknown_ops *u, const char *kind, const msc_loc *loc) {
  for (size_t i = 0; i < u->num; i++)
    if (u->item[i].kind == kind) {
      u->item[i].count++;
      return;
    }
  if (u->num >= FBS_MAX_ERRORS) return; /* more names than a real file has */
  msc_grow(r->scratch, u->item, u->num);
  u->item[u->num++] = (unknown_op){kind, 1, loc};
}

static int most_first(const void *a, const void *b) {
  const unknown_op *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->kind, y->kind);
}

/* Reports all unknown ops in one message: "unknown ops: cum_sum (18, first at model.py:40), mat_mul (4; nearest:
 * matmul)". */
static void report_unknown_ops(fbs_reader *r, unknown_ops *u) {
  const char *words[OP_COUNT], *text = "";
  if (!u->num) return;
  for (int k = 0; k < OP_COUNT; k++) words[k] = msc_kind_name((unsigned)k);
  qsort(u->item, u->num, sizeof *u->item, most_first);
  for (size_t i = 0; i < u->num && i < 50; i++) {
    const unknown_op *o = &u->item[i];
    const char *near = msc_nearest(o->kind, words, OP_COUNT);
    text = msc_arena_printf(r->scratch, "%s%s%s (%u", text, i ? ", " : "", o->kind, o->count);
    if (o->first->line)
      text = msc_arena_printf(r->scratch, "%s, first at %s:%u", text, o->first->file ? o->first->file : "?",
                              o->first->line);
    text = msc_arena_printf(r->scratch, "%s%s%s)", text, near ? "; nearest: " : "", near ? near : "");
  }
  if (u->num > 50) text = msc_arena_printf(r->scratch, "%s and %zu more", text, u->num - 50);
  fbs_error(r, MSC_E_UNKNOWN_OP, (fbs_place){r->file, NULL, ""}, "unknown op%s: %s",
            u->num > 1 || u->item[0].count > 1 ? "s" : "", text);
}

/* Defines the results of a faulty op, so that the ops after it can be checked too; if the file does not know all sizes
 * they have no type, and their uses are skipped. */
static msc_value *new_result(fbs_reader *r, const msc_type *type) {
  msc_value *v = msc_new(r->scratch, msc_value);
  bool known = type != NULL;
  for (int d = 0; known && d < type->rank; d++) known = type->dim[d] >= 0;
  v->type = known ? type : NULL;
  return v;
}

static void define_stand_ins(fbs_reader *r, model_op o) {
  for (uint32_t i = 0; i < model_op_results_num(o); i++) {
    uint32_t number = model_op_results(o, i);
    if (number < r->num_values && !r->value[number]) r->value[number] = new_result(r, r->declared[number]);
  }
}

static bool unknown_attr(fbs_reader *r, fbs_place p, const msc_op_info *info, const char *name) {
  const char *words[MSC_OP_ATTRS];
  for (int i = 0; i < info->num_attrs; i++) words[i] = info->attr[i].name;
  const char *near = msc_nearest(name, words, (size_t)info->num_attrs);
  if (fbs_is_hint(name)) return fbs_error(r, MSC_E_ROW, p, "%s is a hint, not an attribute", name);
  return fbs_error(r, MSC_E_ROW, p, "has no attribute %s%s%s%s", name, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

/* Reads the op's attributes and hints, after those that it inherits from its block. */
static bool read_op_attrs(fbs_reader *r, fbs_place p, model_op o, msc_op *op) {
  const msc_op_info *info = msc_op_info_of(r->ctx, (msc_op_kind)op->kind);
  const fbs_block *block = fbs_block_of(r, model_op_block(o), p);
  bool ok = block != NULL;
  if (block && block->num_attrs) {
    op->attrs = msc_arena_copy(msc_context_arena(r->ctx), block->attrs, block->num_attrs * sizeof *block->attrs);
    op->num_attrs = block->num_attrs;
  }
  ok &= fbs_read_hints(r, p, model_op_hints(o), &op->attrs, &op->num_attrs);
  if (model_op_hints(o).at && model_hints_shard(model_op_hints(o)))
    ok = fbs_error(r, MSC_E_STRATEGY, p, "shard belongs on a block; an op has strategies of its own");
  if (model_op_hints(o).at && model_hints_memory_limit(model_op_hints(o)) != -1)
    ok = fbs_error(r, MSC_E_ROW, p, "memory_limit belongs on a block; an op has none of its own");
  for (uint32_t i = 0; i < model_op_attrs_num(o); i++) {
    model_attr a = model_op_attrs(o, i);
    const char *name = fbs_text(r, p, model_attr_name(a), model_attr_name_len(a));
    msc_attr_value value;
    if (!name || !fbs_read_attr(r, p, a, &value)) ok = false;
    else if (!fbs_is_in_row(info, name)) ok = unknown_attr(r, p, info, name);
    else if (msc_op_attr(op, name)) ok = fbs_error(r, MSC_E_ROW, p, "attribute %s is given twice", name);
    else msc_op_set(op, name, value);
  }
  return ok && msc_read_layouts(r->module, op->loc, op->attrs, op->num_attrs, info);
}

static bool may_stand_in_file(fbs_reader *r, fbs_place p, msc_op_kind kind, model_op o) {
  unsigned flags = msc_op_info_of(r->ctx, kind)->flags;
  if (kind == OP_constant)
    return fbs_error(r, MSC_E_ROW, p, "constants of a model file stand in its list of constants");
  if (flags & (MSC_LOCAL | MSC_TERMINATOR)) return fbs_error(r, MSC_E_ROW, p, "cannot stand in a model file");
  if (model_op_regions_num(o)) return fbs_error(r, MSC_E_ROW, p, "has a region, which no op of a model file takes");
  if (model_op_operands_num(o) > UINT16_MAX || model_op_results_num(o) > UINT16_MAX)
    return fbs_error(r, MSC_E_ROW, p, "has more than %d operands or results", UINT16_MAX);
  return true;
}

/* Compares the inferred types with the declared ones. */
static bool check_declared_types(fbs_reader *r, fbs_place p, model_op o, const msc_op *op) {
  bool ok = true;
  for (uint32_t i = 0; i < op->num_out; i++) {
    uint32_t number = model_op_results(o, i);
    const msc_type *is = op->out[i].type, *said = number < r->num_values ? r->declared[number] : NULL;
    if (!said) continue;
    bool same = said->dtype == is->dtype && said->rank == is->rank;
    for (int d = 0; same && !r->resized && d < is->rank; d++) same = said->dim[d] == is->dim[d] || said->dim[d] == -1;
    if (same) continue;
    ok = fbs_error(r, MSC_E_TYPE, p, "result %u is declared as %s, but computes %s", i, fbs_type_text(r, said),
                   fbs_type_text(r, is));
  }
  return ok;
}

static bool read_known_op(fbs_reader *r, fbs_place p, msc_op_kind kind, model_op o) {
  uint32_t num_in = model_op_operands_num(o), num_out = model_op_results_num(o);
  bool ok = may_stand_in_file(r, p, kind, o);
  if (!ok) return false;
  msc_value **in = msc_new_array(r->scratch, msc_value *, num_in + 1);
  for (uint32_t i = 0; i < num_in; i++) {
    in[i] = fbs_value(r, p, model_op_operands(o, i), "an operand ");
    if (!in[i] || !in[i]->type) ok = false;
  }
  if (!ok) return false;
  msc_op *op = msc_op_new(r->func, kind, num_in, in, num_out, p.loc);
  op->name = p.name;
  int before = msc_num_errors(r->ctx);
  msc_append(r->func->body, op);
  ok = read_op_attrs(r, p, o, op) && msc_infer(op) && check_declared_types(r, p, o, op);
  if (!ok && msc_num_errors(r->ctx) > before) r->num_errors += msc_num_errors(r->ctx) - before;
  for (uint32_t i = 0; ok && i < num_out; i++) ok = fbs_define(r, p, model_op_results(o, i), &op->out[i]);
  return ok;
}

static void read_op(fbs_reader *r, uint32_t number, model_op o, unknown_ops *unknown) {
  fbs_place p = fbs_at_file(r, "op %u", number);
  const char *kind_name = fbs_text(r, p, model_op_kind(o), model_op_kind_len(o));
  uint32_t loc = model_op_loc(o);
  p.loc = fbs_loc_of(r, loc, p.what);
  p.name = fbs_text(r, p, model_op_name(o), model_op_name_len(o));
  if (p.name && !*p.name) p.name = NULL;
  if (!p.name && loc && loc <= model_model_locs_num(r->model)) p.name = r->node[loc - 1];
  msc_op_kind kind;
  bool ok = false;
  if (!kind_name) return define_stand_ins(r, o);
  const fbs_block *block = model_op_block(o) < model_model_blocks_num(r->model) ? &r->block[model_op_block(o)] : NULL;
  if (block && block->path && !p.loc->scope) {
    msc_loc inside = *p.loc;
    inside.scope = msc_intern(r->ctx, block->path);
    p.loc = msc_loc_of(r->ctx, &inside);
  }
  p.what = p.name || p.loc->line ? kind_name : msc_arena_printf(r->scratch, "op %u (%s)", number, kind_name);
  if (msc_kind_parse(kind_name, &kind)) ok = read_known_op(r, p, kind, o);
  else count_unknown(r, unknown, kind_name, p.loc);
  if (!ok) define_stand_ins(r, o);
}

static bool read_ops(fbs_reader *r) {
  model_graph body = model_model_body(r->model);
  unknown_ops unknown = {0};
  for (uint32_t i = 0; i < model_graph_ops_num(body) && r->num_errors < FBS_MAX_ERRORS; i++)
    read_op(r, i, model_graph_ops(body, i), &unknown);
  report_unknown_ops(r, &unknown);
  uint32_t missing = 0, first = 0;
  for (uint32_t i = r->num_values; i-- > 0;)
    if (!r->value[i]) missing++, first = i;
  if (missing && !r->num_errors)
    fbs_error(r, MSC_E_SSA, (fbs_place){r->file, NULL, ""}, "%u values are never defined, the first is value %u",
              missing, first);
  return true;
}

/* ---- the whole ---- */

static bool read_mesh(fbs_reader *r) {
  msc_mesh *mesh = &r->module->mesh;
  uint32_t num = model_model_mesh_num(r->model);
  fbs_place p = {r->file, NULL, "mesh"};
  if (num > MSC_MAX_AXES)
    return fbs_error(r, MSC_E_FORMAT, p, "has %u axes, at most %d are possible", num, MSC_MAX_AXES);
  int64_t devices = 1;
  for (uint32_t i = 0; i < num; i++) {
    model_axis a = model_model_mesh(r->model, i);
    const char *name = fbs_text(r, p, model_axis_name(a), model_axis_name_len(a));
    if (!name || !*name) return name && fbs_error(r, MSC_E_FORMAT, p, "axis %u has no name", i);
    for (int k = 0; k < mesh->num_axes; k++)
      if (mesh->axis[k].name == name) return fbs_error(r, MSC_E_FORMAT, p, "axis %s occurs twice", name);
    uint32_t size = model_axis_size(a);
    devices *= size;
    if (!size || devices > MSC_MAX_DEVICES)
      return fbs_error(r, MSC_E_FORMAT, p, "axis %s: sizes must be at least 1 and multiply to at most %d", name,
                       MSC_MAX_DEVICES);
    mesh->axis[mesh->num_axes++] = (msc_axis){name, size};
  }
  return true;
}

static bool read_name(fbs_reader *r) {
  fbs_place p = {r->file, NULL, "name"};
  const char *name = fbs_text(r, p, model_model_name(r->model), model_model_name_len(r->model));
  if (name && *name) msc_attrs_put(r->ctx, &r->module->attrs, &r->module->num_attrs, msc_fact_msc_name(r->ctx, name));
  return true;
}

static msc_module *read_model(fbs_reader *r) {
  uint32_t version = model_model_version(r->model);
  if (version != FBS_VERSION) {
    fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, ""}, "format version %u; this msc reads version %d", version,
              FBS_VERSION);
    return NULL;
  }
  bool (*const steps[])(fbs_reader *) = {read_name,          read_mesh,       fbs_read_sizes,   fbs_read_types,
                                         fbs_read_locs,      fbs_read_blocks, read_values,      fbs_read_args,
                                         fbs_read_constants, read_ops,        fbs_read_outputs, fbs_read_optimizers,
                                         fbs_check_dims_used};
  for (size_t i = 0; i < sizeof steps / sizeof *steps && r->num_errors < FBS_MAX_ERRORS; i++)
    if (!steps[i](r) && steps[i] == fbs_read_sizes) return NULL; /* sizes are unknown, and so are all others */
  if (r->resized && r->num_errors)
    msc_note(r->ctx, r->file,
             "--dim changes a size that the model states as a number, and others may be made of it; models of "
             "msc.export(..., dynamic_shapes=\"batch\") say which");
  /* Tied operands and the other rules of all IR are checked here. */
  return r->num_errors || !msc_verify(r->module) ? NULL : r->module;
}

static bool report_damage(msc_context *ctx, const msc_loc *file, const void *data, size_t bytes,
                          const flatbuf_fault *f) {
  if (bytes >= 8 && !memcmp((const char *)data + 4, "MSCP", 4))
    return msc_error(ctx, MSC_E_FORMAT, file, "this is a plan, not a model");
  if (!f->table) return msc_error(ctx, MSC_E_FORMAT, file, "not a model file: %s", f->what);
  return msc_error(ctx, MSC_E_FORMAT, file, "damaged: %s%s%s: %s (at byte %u)", f->table, f->field ? "." : "",
                   f->field ? f->field : "", f->what, f->at);
}

msc_module *msc_read_fbs(msc_context *ctx, const char *name, const void *data, size_t bytes, size_t num_dims,
                         const msc_dim_size *dim, const msc_mesh *mesh) {
  const msc_loc *file = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, name), .implied = true});
  flatbuf_fault fault;
  if (!flatbuf_verify(&model_schema, data, bytes, FBS_MAX_TABLES, &fault)) {
    report_damage(ctx, file, data, bytes, &fault);
    return NULL;
  }
  fbs_reader r = {.ctx = ctx, .scratch = msc_arena_new(ctx), .file = file, .num_dims = num_dims, .dim = dim};
  if ((uintptr_t)data % 16) data = msc_arena_copy(r.scratch, data, bytes); /* vectors are read in place */
  r.dim_used = msc_new_array(r.scratch, bool, num_dims + 1);
  r.model = model_model_root(data);
  r.module = msc_module_new(ctx);
  if (mesh && !model_model_mesh_num(r.model)) r.module->mesh = *mesh;
  r.func = msc_func_new(r.module, "forward");
  msc_module *m = read_model(&r);
  msc_arena_free(r.scratch);
  return m;
}
