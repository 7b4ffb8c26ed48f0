/* write_fbs.c: a module whose function "forward" is as a user wrote it in; the bytes of a model.fbs out.  Layouts of
 * values, regions, ops made by passes and unknown attributes, which a model.fbs cannot have, are reported. */
#include <stdlib.h>
#include <string.h>

#include "ir/fact.h"
#include "ir/fbs/fbs.h"
#include "ir/fbs/join_points.h"
#include "ir/table.h"

/* Numbers of interned things, in order of first use. */
typedef MSC_TABLE(const void *) numbering;

/* A type, and formulas of its dimensions, interned as one text; NULL: it has none. */
typedef struct {
  const msc_type *type;
  const char *joined;
  const char *const *text;
} numbered_type;

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  const msc_module *module;
  msc_func *func;
  flatbuf_builder *b;
  const fbs_open *open; /* formulas of numbers; NULL: there are none */
  MSC_TABLE(numbered_type) types;
  numbering locs, files, blocks; /* blocks: those that their ops name */
  const msc_value **value;       /* by number */
  size_t num_values, num_inputs, num_parameters;
  uint32_t *input, *parameter; /* argument numbers, in order */
  bool ok;
} writer;

static void refuse(writer *w, const msc_op *op, const char *fmt, ...) {
  va_list ap;
  w->ok = false;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(w->arena, fmt, ap);
  va_end(ap);
  if (op) msc_op_error(op, MSC_E_UNSUPPORTED, "%s: %s", msc_kind_name(op->kind), text);
  else msc_error(w->ctx, MSC_E_UNSUPPORTED, w->func->loc, "%s", text);
}

/* ---- numbers ---- */

static uint32_t number_by_key(numbering *n, const void *key) { return (uint32_t)(msc_table_at(n, &key) - n->item); }

/* Returns the number of a location in the file; its callers have smaller numbers. A place in IR text is none in the
 * model's source, so only its scope is written: without a scope its number is 0. */
static uint32_t loc_number(writer *w, const msc_loc *loc) {
  const msc_loc *chain[64];
  size_t depth = 0;
  uint32_t number = 0;
  for (; loc && depth < 64; loc = loc->caller) {
    if (!loc->implied) chain[depth++] = loc;
    else if (loc->scope) chain[depth++] = msc_loc_of(w->ctx, &(msc_loc){.scope = loc->scope});
  }
  while (depth) number = number_by_key(&w->locs, chain[--depth]) + 1;
  return number;
}

/* Returns the formulas recorded for this address; NULL: there are none. */
static const char *const *texts_of(const writer *w, const void *of) {
  return w->open ? fbs_open_texts(w->open, of) : NULL;
}

/* Returns the number of the type of a value, or of a type in an attribute, whose address is `of`. */
static uint32_t type_number(writer *w, const msc_type *t, const void *of) {
  const char *const *text = texts_of(w, of);
  const char *joined = text ? "" : NULL;
  for (int d = 0; text && d < t->rank; d++) joined = msc_arena_printf(w->arena, "%s%s,", joined, text[d]);
  struct {
    const msc_type *type;
    const char *joined;
  } key = {msc_type_of(w->ctx, t->dtype, t->rank, t->dim, NULL), joined ? msc_intern(w->ctx, joined) : NULL};
  numbered_type *found = msc_table_at(&w->types, &key);
  found->text = text;
  return (uint32_t)(found - w->types.item);
}

static void number_value(writer *w, const msc_op *op, const msc_value *v) {
  if (v->type->layout) refuse(w, op, "a value has a layout, which a model file states as a hint only");
  w->value[v->id] = v;
  type_number(w, v->type, v);
}

/* Numbers all arguments by role, and all values, types and locations. */
static void number_all(writer *w) {
  msc_block *body = w->func->body;
  msc_numbering n = msc_number(body);
  w->num_values = n.num_values;
  w->value = msc_new_array(w->arena, const msc_value *, n.num_values + 1);
  w->input = msc_new_array(w->arena, uint32_t, body->num_args + 1);
  w->parameter = msc_new_array(w->arena, uint32_t, body->num_args + 1);
  for (uint32_t i = 0; i < body->num_args; i++) {
    msc_role role = msc_arg_role(w->func, i);
    number_value(w, NULL, body->args[i]);
    if (role <= MSC_ROLE_MASK) w->input[w->num_inputs++] = i;
    else if (role == MSC_ROLE_PARAMETER) w->parameter[w->num_parameters++] = i;
    else refuse(w, NULL, "argument %u has no msc.role of data, label, mask or parameter", i);
  }
  for (const msc_op *op = body->first; op; op = op->next) {
    unsigned flags = msc_info(op)->flags;
    if (op->body || flags & MSC_LOCAL)
      refuse(w, op, "ops with a region are made by msc and have no place in a model file");
    if (op->forward) refuse(w, op, "a gradient op with a link to its forward op has no place in a model file");
    for (size_t i = 0; i < op->num_out; i++) number_value(w, op, &op->out[i]);
    for (size_t i = 0; i < op->num_attrs; i++)
      if (op->attrs[i].value.kind == MSC_ATTR_TYPE) type_number(w, op->attrs[i].value.type, &op->attrs[i]);
    if (!msc_is_constant_op(op) && !msc_is_return(op)) loc_number(w, op->loc);
  }
}

static void put_types(writer *w) {
  flatbuf_builder *b = w->b;
  model_model_begin_types(b);
  for (size_t i = 0; i < msc_table_num(&w->types); i++) {
    const msc_type *t = w->types.item[i].type;
    model_type_begin(b);
    model_type_put_dtype(b, (uint8_t)t->dtype);
    model_type_put_dims(b, (size_t)t->rank, t->dim);
    if (w->types.item[i].text) model_type_put_sizes(b, (size_t)t->rank, w->types.item[i].text);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  uint32_t *of = msc_new_array(w->arena, uint32_t, w->num_values + 1);
  for (size_t i = 0; i < w->num_values; i++) of[i] = type_number(w, w->value[i]->type, w->value[i]);
  model_model_put_value_types(b, w->num_values, of);
}

static void put_locs(writer *w) {
  flatbuf_builder *b = w->b;
  if (!msc_table_num(&w->locs)) return;
  model_model_begin_locs(b);
  for (size_t i = 0; i < msc_table_num(&w->locs); i++) {
    const msc_loc *l = w->locs.item[i];
    model_loc_begin(b);
    model_loc_put_file(b, l->file);
    model_loc_put_line(b, l->line);
    model_loc_put_col(b, l->col);
    model_loc_put_scope(b, l->scope);
    model_loc_put_caller(b, loc_number(w, l->caller));
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* ---- blocks ---- */

static const msc_attr_value *shard_of(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(shard));
  return v && v->kind == MSC_ATTR_DICT ? v : NULL;
}

/* Returns the name in attribute `recompute`; NULL: it is an op's own mark, or absent. */
static const char *recomputed_block(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(recompute));
  return v && v->kind == MSC_ATTR_STR ? v->s : NULL;
}

/* Returns the name in a dictionary; NULL: there is none. */
static const char *name_in(const msc_attr_value *v) {
  const msc_attr_value *name = v && v->kind == MSC_ATTR_DICT ? msc_find_attr(v->dict.a, v->dict.num, "name") : NULL;
  return name && name->kind == MSC_ATTR_STR ? name->s : NULL;
}

static const char *limited_block(const msc_op *op) { return name_in(msc_op_attr(op, MSC_FACT(memory_limit))); }

/* The name in attribute `shard` of an op, or else `recompute` or `memory_limit`; NULL: it is in no such block. */
static const char *block_name(const msc_op *op) {
  return shard_of(op) ? name_in(shard_of(op)) : recomputed_block(op) ? recomputed_block(op) : limited_block(op);
}

/* True if this hint of the op is written with its block. */
static bool is_of_block(const msc_op *op, const char *hint) {
  const char *block = !strcmp(hint, MSC_FACT(recompute))      ? recomputed_block(op)
                      : !strcmp(hint, MSC_FACT(memory_limit)) ? limited_block(op)
                                                              : NULL;
  return block && block == block_name(op);
}

static void put_limit(writer *w, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(memory_limit)),
                       *bytes = msc_find_attr(v->dict.a, v->dict.num, "bytes");
  if (!bytes || bytes->kind != MSC_ATTR_INT || bytes->i < 0)
    refuse(w, op, "memory_limit of block %s is no number of bytes", limited_block(op));
  else model_hints_put_memory_limit(w->b, bytes->i);
}

static void put_block(writer *w, const char *name) {
  const msc_op *op = w->func->body->first;
  while (op && block_name(op) != name) op = op->next;
  const msc_attr_value *v = shard_of(op);
  model_block_begin(w->b);
  model_block_put_name(w->b, name);
  model_block_begin_hints(w->b);
  for (size_t i = 0; v && i < v->dict.num && w->ok; i++) {
    const msc_attr *a = &v->dict.a[i];
    msc_attr_value value = msc_attr_with_texts(w->module, w->arena, &a->value);
    if (strcmp(a->name, "name") && !fbs_put_hint(w->b, w->arena, a->name, &value))
      refuse(w, op, "%s of block %s has a value of the wrong kind or range", a->name, name);
  }
  if (!w->ok) return;
  if (recomputed_block(op) == name) model_hints_put_recompute(w->b, 1);
  if (limited_block(op) == name) put_limit(w, op);
  if (v) model_hints_put_shard(w->b, true);
  flatbuf_end(w->b);
  flatbuf_end(w->b);
}

/* Writes the root, and each block that ops name; hints of other blocks are written with their ops. */
static void put_blocks(writer *w) {
  for (const msc_op *op = w->func->body->first; op; op = op->next)
    if (block_name(op)) number_by_key(&w->blocks, block_name(op));
  if (!msc_table_num(&w->blocks)) return;
  model_model_begin_blocks(w->b);
  model_block_begin(w->b);
  model_block_put_name(w->b, "");
  flatbuf_end(w->b);
  for (size_t i = 0; i < msc_table_num(&w->blocks) && w->ok; i++) put_block(w, w->blocks.item[i]);
  if (w->ok) flatbuf_end(w->b);
}

/* ---- ops ---- */

static void put_hints(writer *w, const msc_op *op) {
  bool open = false;
  for (size_t i = 0; i < op->num_attrs; i++) {
    if (!fbs_is_hint(op->attrs[i].name) || is_of_block(op, op->attrs[i].name)) continue;
    if (!open) model_op_begin_hints(w->b);
    open = true;
    msc_attr_value value = msc_attr_with_texts(w->module, w->arena, &op->attrs[i].value);
    if (!fbs_put_hint(w->b, w->arena, op->attrs[i].name, &value))
      refuse(w, op, "hint %s has a value of the wrong kind or range", op->attrs[i].name);
  }
  if (open && w->ok) flatbuf_end(w->b);
}

static void put_attrs(writer *w, const msc_op *op) {
  bool open = false;
  for (size_t i = 0; i < op->num_attrs && w->ok; i++) {
    const msc_attr *a = &op->attrs[i];
    msc_attr_value value = msc_attr_with_texts(w->module, w->arena, &a->value);
    if (fbs_is_hint(a->name) || (a->name == MSC_FACT(shard) && block_name(op))) continue;
    if (!open) model_op_begin_attrs(w->b);
    open = true;
    if (!fbs_is_in_row(msc_info(op), a->name))
      refuse(w, op, "attribute %s is neither in the op's row nor a hint", a->name);
    else if (!fbs_put_attr(w->b, w->arena, a->name, &value,
                           value.kind == MSC_ATTR_TYPE ? type_number(w, value.type, a) : 0, texts_of(w, a)))
      refuse(w, op, "attribute %s has a value that a model file cannot hold", a->name);
  }
  if (open && w->ok) flatbuf_end(w->b);
}

static void put_op(writer *w, const msc_op *op) {
  flatbuf_builder *b = w->b;
  uint32_t *number = msc_new_array(w->arena, uint32_t, (size_t)op->num_in + op->num_out + 1);
  for (size_t i = 0; i < op->num_in; i++) number[i] = op->in[i].value->id;
  for (size_t i = 0; i < op->num_out; i++) number[op->num_in + i] = op->out[i].id;
  model_op_begin(b);
  model_op_put_kind(b, msc_kind_name(op->kind));
  model_op_put_name(b, op->name);
  model_op_put_operands(b, op->num_in, number);
  model_op_put_results(b, op->num_out, number + op->num_in);
  put_attrs(w, op);
  put_hints(w, op);
  if (block_name(op)) model_op_put_block(b, number_by_key(&w->blocks, block_name(op)) + 1);
  model_op_put_loc(b, loc_number(w, op->loc));
  flatbuf_end(b);
}

/* True if result i is the new value of a parameter. */
static bool is_state(const writer *w, size_t result) {
  const msc_attr_value *ties = msc_func_attr(w->func, MSC_FACT(ties));
  return ties && ties->kind == MSC_ATTR_LIST && result < ties->list.num && ties->list.v[result].i >= 0;
}

static void put_body(writer *w) {
  flatbuf_builder *b = w->b;
  msc_block *body = w->func->body;
  uint32_t *args = msc_new_array(w->arena, uint32_t, body->num_args + 1);
  for (size_t i = 0; i < w->num_inputs; i++) args[i] = body->args[w->input[i]]->id;
  for (size_t i = 0; i < w->num_parameters; i++) args[w->num_inputs + i] = body->args[w->parameter[i]]->id;
  model_model_begin_body(b);
  model_graph_put_args(b, w->num_inputs + w->num_parameters, args);
  model_graph_begin_ops(b);
  for (const msc_op *op = body->first; op && w->ok; op = op->next)
    if (!msc_is_constant_op(op) && op != body->last) put_op(w, op);
  flatbuf_end(b);
  uint32_t *results = msc_new_array(w->arena, uint32_t, (size_t)body->last->num_in + 1);
  size_t num = 0;
  for (size_t i = 0; i < body->last->num_in; i++)
    if (!is_state(w, i)) results[num++] = body->last->in[i].value->id;
  model_graph_put_results(b, num, results);
  flatbuf_end(b);
}

static void put_constants(writer *w) {
  bool open = false;
  for (const msc_op *op = w->func->body->first; op && w->ok; op = op->next) {
    if (!msc_is_constant_op(op)) continue;
    const msc_attr_value *v = msc_op_attr(op, "value");
    if (!open) model_model_begin_constants(w->b);
    open = true;
    if (v->dense.bytes > FBS_MAX_CONSTANT)
      refuse(w, op, "has %zu bytes; a model file holds constants of at most %d", v->dense.bytes, FBS_MAX_CONSTANT);
    model_constant_begin(w->b);
    model_constant_put_value(w->b, op->out[0].id);
    model_constant_put_data(w->b, v->dense.bytes, v->dense.data);
    if (texts_of(w, op)) model_constant_put_size(w->b, texts_of(w, op)[0]);
    flatbuf_end(w->b);
  }
  if (open) flatbuf_end(w->b);
}

/* ---- arguments ---- */

static const char *arg_name(writer *w, uint32_t arg) {
  const msc_attr_value *v = msc_arg_attr(w->func, arg, MSC_FACT(msc_name));
  const char *name = w->func->body->args[arg]->name;
  if (v && v->kind == MSC_ATTR_STR) return v->s;
  return name ? name : msc_arena_printf(w->arena, "arg%u", arg);
}

static void put_inputs(writer *w) {
  flatbuf_builder *b = w->b;
  model_model_begin_inputs(b);
  for (size_t i = 0; i < w->num_inputs && w->ok; i++) {
    const struct msc_arg_info *info = &w->func->arg[w->input[i]];
    model_input_begin(b);
    model_input_put_name(b, arg_name(w, w->input[i]));
    model_input_put_value(b, w->func->body->args[w->input[i]]->id);
    model_input_put_role(b, (uint8_t)msc_arg_role(w->func, w->input[i]));
    for (size_t k = 0; k < info->num_attrs; k++) {
      const msc_attr *a = &info->attrs[k];
      if (a->name == MSC_FACT(msc_batch_dim) && a->value.kind == MSC_ATTR_INT && a->value.i >= -1 &&
          a->value.i < MSC_MAX_RANK)
        model_input_put_batch_dim(b, (int32_t)a->value.i);
      else if (a->name != MSC_FACT(msc_name) && a->name != MSC_FACT(msc_role))
        refuse(w, NULL, "argument %u: attribute %s is unknown or has a wrong value", w->input[i], a->name);
    }
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* "normal:0.02" as an op of kind normal with the attribute std. */
static bool put_init(writer *w, const msc_attr_value *v) {
  static const struct {
    const char *kind, *attr;
  } inits[] = {{"constant", "value"}, {"normal", "std"}, {"uniform", "bound"}};
  if (v->kind != MSC_ATTR_STR) return false;
  const char *colon = strchr(v->s, ':');
  model_parameter_begin_init(w->b);
  model_op_put_kind(w->b, colon ? msc_arena_printf(w->arena, "%.*s", (int)(colon - v->s), v->s) : v->s);
  if (colon) {
    char *end;
    double number = strtod(colon + 1, &end);
    const char *attr = NULL;
    for (int i = 0; i < 3; i++)
      if (strlen(inits[i].kind) == (size_t)(colon - v->s) && !strncmp(v->s, inits[i].kind, (size_t)(colon - v->s)))
        attr = inits[i].attr;
    if (!attr || end == colon + 1 || *end) return false;
    msc_attr_value value = msc_float(number);
    model_op_begin_attrs(w->b);
    fbs_put_attr(w->b, w->arena, attr, &value, 0, NULL);
    flatbuf_end(w->b);
  }
  flatbuf_end(w->b);
  return true;
}

static const msc_attr_value *entry_of_kind(const msc_attr_value *dict, const char *name, msc_attr_kind kind) {
  const msc_attr_value *v = dict->kind == MSC_ATTR_DICT ? msc_find_attr(dict->dict.a, dict->dict.num, name) : NULL;
  return v && v->kind == kind ? v : NULL;
}

static bool put_weights(writer *w, const msc_attr_value *v) {
  if (!msc_is_weights(v)) return false;
  model_parameter_begin_weights(w->b);
  model_weights_put_file(w->b, number_by_key(&w->files, entry_of_kind(v, "file", MSC_ATTR_STR)->s));
  model_weights_put_tensor(w->b, entry_of_kind(v, "tensor", MSC_ATTR_STR)->s);
  flatbuf_end(w->b);
  return true;
}

static bool is_bool(const msc_attr_value *v) { return v->kind == MSC_ATTR_BOOL; }

static bool put_parameter_attr(writer *w, const msc_attr *a) {
  flatbuf_builder *b = w->b;
  const msc_attr_value *v = &a->value;
  if (a->name == MSC_FACT(msc_name) || a->name == MSC_FACT(msc_role)) return true;
  if (a->name == MSC_FACT(msc_init)) return put_init(w, v);
  if (a->name == MSC_FACT(msc_weights)) return put_weights(w, v);
  if (a->name == MSC_FACT(msc_trainable)) return is_bool(v) && (model_parameter_put_trainable(b, v->b), true);
  if (a->name == MSC_FACT(msc_layerwise_parallel))
    return is_bool(v) && (model_parameter_put_layerwise_parallel(b, v->b), true);
  if (a->name == MSC_FACT(msc_parallel_optimizer))
    return is_bool(v) && (model_parameter_put_parallel_optimizer(b, v->b), true);
  if (a->name == MSC_FACT(msc_parameter_server))
    return is_bool(v) && (model_parameter_put_parameter_server(b, v->b), true);
  if (a->name == MSC_FACT(msc_layout)) {
    msc_attr_value text = msc_attr_with_texts(w->module, w->arena, v);
    return text.kind == MSC_ATTR_STR && (model_parameter_put_layout(b, text.s), true);
  }
  bool natural = v->kind == MSC_ATTR_INT && v->i >= 0;
  if (a->name == MSC_FACT(msc_comm_fusion))
    return natural && v->i <= INT32_MAX && (model_parameter_put_comm_fusion(b, (int32_t)v->i), true);
  if (a->name == MSC_FACT(msc_cache_rows)) return natural && (model_parameter_put_cache_rows(b, v->i), true);
  return false;
}

static void put_parameters(writer *w) {
  flatbuf_builder *b = w->b;
  model_model_begin_parameters(b);
  for (size_t i = 0; i < w->num_parameters && w->ok; i++) {
    const struct msc_arg_info *info = &w->func->arg[w->parameter[i]];
    model_parameter_begin(b);
    model_parameter_put_name(b, arg_name(w, w->parameter[i]));
    model_parameter_put_value(b, w->func->body->args[w->parameter[i]]->id);
    for (size_t k = 0; k < info->num_attrs && w->ok; k++)
      if (!put_parameter_attr(w, &info->attrs[k]))
        refuse(w, NULL, "argument %u: attribute %s is unknown or has a wrong value", w->parameter[i],
               info->attrs[k].name);
    if (w->ok) flatbuf_end(b);
  }
  if (w->ok) flatbuf_end(b);
}

/* Sizes and hashes are those of the first parameter that names the file. */
static void put_weight_files(writer *w) {
  flatbuf_builder *b = w->b;
  if (!msc_table_num(&w->files)) return;
  model_model_begin_weight_files(b);
  for (size_t i = 0; i < msc_table_num(&w->files); i++) {
    model_weight_file_begin(b);
    model_weight_file_put_path(b, w->files.item[i]);
    for (size_t k = 0; k < w->num_parameters; k++) {
      const msc_attr_value *v = msc_arg_attr(w->func, w->parameter[k], MSC_FACT(msc_weights));
      if (!v || entry_of_kind(v, "file", MSC_ATTR_STR)->s != w->files.item[i]) continue;
      const msc_attr_value *bytes = entry_of_kind(v, "bytes", MSC_ATTR_INT),
                           *hash = entry_of_kind(v, "xxh3", MSC_ATTR_INT);
      if (bytes) model_weight_file_put_bytes(b, (uint64_t)bytes->i);
      if (hash) model_weight_file_put_xxh3(b, (uint64_t)hash->i);
      break;
    }
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* ---- training ---- */

static void put_result(writer *w, size_t i) {
  const msc_attr_value *names = msc_func_attr(w->func, MSC_FACT(results));
  bool named = names && names->kind == MSC_ATTR_LIST && i < names->list.num && names->list.v[i].kind == MSC_ATTR_STR;
  model_output_begin(w->b);
  model_output_put_name(w->b, named ? names->list.v[i].s : msc_arena_printf(w->arena, "result%zu", i));
  model_output_put_value(w->b, w->func->body->last->in[i].value->id);
  flatbuf_end(w->b);
}

static void put_outputs(writer *w) {
  size_t num = w->func->body->last->num_in, num_state = 0;
  model_model_begin_outputs(w->b);
  for (size_t i = 0; i < num; i++) {
    num_state += is_state(w, i);
    if (!is_state(w, i)) put_result(w, i);
  }
  flatbuf_end(w->b);
  if (!num_state) return;
  model_model_begin_state(w->b);
  for (size_t i = 0; i < num; i++)
    if (is_state(w, i)) put_result(w, i);
  flatbuf_end(w->b);
}

static bool put_group_parameters(writer *w, const msc_attr_value *names) {
  if (names->kind != MSC_ATTR_LIST) return false;
  uint32_t *number = msc_new_array(w->arena, uint32_t, names->list.num + 1);
  for (size_t i = 0; i < names->list.num; i++) {
    size_t k = 0;
    while (k < w->num_parameters &&
           (names->list.v[i].kind != MSC_ATTR_STR || strcmp(names->list.v[i].s, arg_name(w, w->parameter[k]))))
      k++;
    if (k == w->num_parameters) return false;
    number[i] = (uint32_t)k;
  }
  model_optimizer_put_parameters(w->b, names->list.num, number);
  return true;
}

static void put_optimizer(writer *w, const msc_attr_value *group) {
  flatbuf_builder *b = w->b;
  const msc_attr_value *kind = entry_of_kind(group, "kind", MSC_ATTR_STR);
  if (!kind) {
    refuse(w, NULL, "optimizer: must be a dictionary with 'kind', or a list of such");
    return;
  }
  model_optimizer_begin(b);
  model_optimizer_put_kind(b, kind->s);
  const msc_attr_value *names = msc_find_attr(group->dict.a, group->dict.num, "parameters");
  if (names && !put_group_parameters(w, names))
    refuse(w, NULL, "optimizer: 'parameters' must be a list of parameters' names");
  model_optimizer_begin_attrs(b);
  for (size_t i = 0; i < group->dict.num && w->ok; i++) {
    const msc_attr *a = &group->dict.a[i];
    if (!strcmp(a->name, "kind") || !strcmp(a->name, "parameters")) continue;
    if (a->value.kind == MSC_ATTR_TYPE || !fbs_put_attr(b, w->arena, a->name, &a->value, 0, NULL))
      refuse(w, NULL, "optimizer: %s has a value that a model file cannot hold", a->name);
  }
  flatbuf_end(b);
  flatbuf_end(b);
}

static void put_train(writer *w) {
  flatbuf_builder *b = w->b;
  const msc_attr_value *loss = msc_func_attr(w->func, MSC_FACT(loss)),
                       *optimizer = msc_func_attr(w->func, MSC_FACT(optimizer)),
                       *micro = msc_func_attr(w->func, MSC_FACT(micro_size));
  const msc_op *ret = w->func->body->last;
  for (size_t i = 0; i < w->func->num_attrs; i++) {
    const char *name = w->func->attrs[i].name;
    if (strcmp(name, MSC_FACT(loss)) && strcmp(name, MSC_FACT(optimizer)) && strcmp(name, MSC_FACT(micro_size)) &&
        strcmp(name, MSC_FACT(results)) && strcmp(name, MSC_FACT(ties)))
      refuse(w, NULL, "attribute %s of forward has no place in a model file", name);
  }
  if (!loss && !optimizer) return;
  if (!loss || loss->kind != MSC_ATTR_INT || loss->i < 0 || loss->i >= ret->num_in) {
    refuse(w, NULL, "an optimizer needs 'loss', the number of a result");
    return;
  }
  model_model_begin_train(b);
  model_train_put_loss(b, ret->in[loss->i].value->id);
  if (micro && micro->kind == MSC_ATTR_INT) model_train_put_micro_size(b, (uint32_t)micro->i);
  if (optimizer) {
    bool list = optimizer->kind == MSC_ATTR_LIST;
    model_train_begin_optimizers(b);
    for (size_t i = 0; i < (list ? optimizer->list.num : 1) && w->ok; i++)
      put_optimizer(w, list ? &optimizer->list.v[i] : optimizer);
    if (w->ok) flatbuf_end(b);
  }
  if (w->ok) flatbuf_end(b);
}

static void put_mesh(writer *w) {
  const msc_mesh *mesh = &w->module->mesh;
  if (!mesh->num_axes) return;
  model_model_begin_mesh(w->b);
  for (int i = 0; i < mesh->num_axes; i++) {
    model_axis_begin(w->b);
    model_axis_put_name(w->b, mesh->axis[i].name);
    model_axis_put_size(w->b, (uint32_t)mesh->axis[i].size);
    flatbuf_end(w->b);
  }
  flatbuf_end(w->b);
}

/* ---- sizes that are left open ---- */

/* Writes the open sizes without values; the user of the model gives them. */
static void put_sizes(writer *w) {
  if (!w->open) return;
  model_model_begin_sizes(w->b);
  for (size_t i = 0; i < w->open->num_names; i++) {
    model_size_begin(w->b);
    model_size_put_name(w->b, w->open->name[i]);
    model_size_put_low(w->b, w->open->low[i]);
    model_size_put_high(w->b, w->open->high[i]);
    flatbuf_end(w->b);
  }
  flatbuf_end(w->b);
}

/* ---- the whole ---- */

static void *in_arena(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  if (!bytes) return NULL;
  void *p = msc_arena_alloc(user, bytes);
  return old_bytes ? memcpy(p, ptr, old_bytes < bytes ? old_bytes : bytes) : p;
}

static const void *write_model(const msc_module *m, const fbs_open *open, msc_arena *arena, size_t *out_bytes) {
  static void (*const parts[])(writer *) = {put_types,        put_locs,    put_blocks,     put_body,
                                            put_inputs,       put_outputs, put_parameters, put_constants,
                                            put_weight_files, put_train,   put_mesh,       put_sizes};
  writer w = {.ctx = m->ctx,
              .arena = arena,
              .module = m,
              .func = msc_program_func(m, MSC_PROGRAM_FORWARD),
              .open = open,
              .ok = true};
  w.types.index.arena = w.locs.index.arena = w.files.index.arena = w.blocks.index.arena = arena;
  if (!w.func || !w.func->body->last || !msc_is_return(w.func->body->last)) {
    msc_error(m->ctx, MSC_E_UNSUPPORTED, NULL, "only a module with a function called forward can become a model file");
    return NULL;
  }
  w.b = flatbuf_builder_new(in_arena, arena);
  number_all(&w);
  model_model_begin(w.b);
  model_model_put_version(w.b, FBS_VERSION);
  model_model_put_producer(w.b, "msc");
  const msc_attr_value *name = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_name));
  if (name && name->kind == MSC_ATTR_STR) model_model_put_name(w.b, name->s);
  for (size_t i = 0; i < sizeof parts / sizeof *parts && w.ok; i++) parts[i](&w);
  flatbuf_end(w.b);
  if (!w.ok) return NULL;
  void *data = flatbuf_finish(w.b, out_bytes);
  if (!data)
    msc_error(m->ctx, flatbuf_builder_status(w.b) == FLATBUF_TOO_BIG ? MSC_E_UNSUPPORTED : MSC_E_INTERNAL, NULL,
              "writing the model file: %s", flatbuf_builder_fault(w.b));
  return data;
}

const void *msc_write_fbs(const msc_module *m, msc_arena *arena, size_t *out_bytes) {
  return write_model(m, NULL, arena, out_bytes);
}

const void *fbs_write_open(const fbs_open *o, msc_arena *arena, size_t *out_bytes) {
  return write_model(o->point[0].module, o, arena, out_bytes);
}
