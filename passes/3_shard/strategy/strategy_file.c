/* strategy_file.c: layouts of ops and parameters <-> JSON (see strategy_file.h).  Only the texts of layouts are read
 * back; strategy tuples, device matrix and tensor map are written beside them, where they can express the layout, for
 * other tools. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/fact.h"
#include "ir/layout/grid.h"
#include "ir/table.h"
#include "passes/3_shard/shard.h"
#include "passes/3_shard/strategy/strategy_file.h"

enum { FILE_VERSION = 1, MAX_BYTES = 1 << 30 };

/* ---- keys of ops ---- */

/* Numbers the ops of each name, so that keys are unique. */
typedef struct {
  msc_arena *arena;
  json_t *used; /* key -> how many times */
} key_maker;

static const char *unique_key_of(key_maker *k, const msc_op *op) {
  const char *name = op->name ? op->name : msc_arena_printf(k->arena, "%%%s", msc_kind_name(op->kind));
  int64_t n = json_integer_value(json_object_get(k->used, name)) + 1;
  const char *key = name;
  while (n > 1 && json_object_get(k->used, key)) key = msc_arena_printf(k->arena, "%s#%" PRId64, name, n++);
  json_object_set_new(k->used, name, json_integer(n));
  if (key != name) json_object_set_new(k->used, key, json_integer(1));
  return key;
}

/* ---- writing ---- */

static json_t *layout_json(const msc_func *f, msc_arena *a, const msc_layout *l) {
  return json_string(msc_layout_print(a, &f->module->mesh, l));
}

/* A layout as one number of parts per dimension; NULL for a partial value. */
static json_t *tuple_json(const msc_layout *l) {
  if (!l || l->num_partial) return NULL;
  json_t *tuple = json_array();
  for (int d = 0; d < l->rank; d++) json_array_append_new(tuple, json_integer(msc_layout_parts(l, d)));
  return tuple;
}

/* Adds the key only if all entries can be expressed as tuples. */
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

static json_t *sizes_json(int num, const int64_t *size) {
  json_t *list = json_array();
  for (int i = 0; i < num; i++) json_array_append_new(list, json_integer(size[i]));
  return list;
}

static json_t *tensor_map_entry(const msc_grid *g, int d) {
  json_t *list = json_array();
  for (int i = 0; i < g->num[d]; i++) json_array_append_new(list, json_integer(g->num_axes - 1 - g->on[d][i]));
  if (g->num[d] > 1) return list;
  json_decref(list);
  return json_integer(g->num[d] ? g->num_axes - 1 - g->on[d][0] : -1);
}

static json_t *parameter_json(const msc_func *f, msc_arena *a, const msc_type *t) {
  json_t *p = json_object(), *map = json_array();
  msc_grid g;
  msc_grid_of(&f->module->mesh, t->layout, t->rank, t->dim, &g);
  for (int d = 0; d < t->rank; d++) json_array_append_new(map, tensor_map_entry(&g, d));
  json_object_set_new(p, "layout", layout_json(f, a, t->layout));
  json_object_set_new(p, "device_matrix", sizes_json(g.num_axes, g.axis));
  json_object_set_new(p, "tensor_map", map);
  json_object_set_new(p, "shape", sizes_json(t->rank, t->dim));
  return p;
}

/* ---- device matrix of an op: parts of every letter, in the order of its rule; devices left over come last ---- */

/* Splits the number of parts of a dimension among its letters, major first. */
static void split_parts(const msc_rule *rule, const msc_dim_letters *dim, int64_t p, int64_t *parts) {
  for (int i = 0; i < dim->num; i++) {
    int64_t size = rule->letter[dim->letter[i]].size, take = i + 1 == dim->num || p < size ? p : size;
    if (take > 1) parts[dim->letter[i]] = take;
    if (take > 1) p /= take;
  }
}

/* The tensor map of one tensor: for each dimension the place of its letter, counted from the right. */
static json_t *letters_map(const msc_tensor_letters *t, const uint8_t *place, int num_axes) {
  json_t *map = json_array();
  for (int d = 0; d < t->rank; d++) {
    json_t *list = json_array();
    for (int i = 0; i < t->dim[d].num; i++)
      json_array_append_new(list, json_integer(num_axes - 1 - place[t->dim[d].letter[i]]));
    json_array_append_new(map, t->dim[d].num > 1
                                   ? json_incref(list)
                                   : json_integer(t->dim[d].num ? num_axes - 1 - place[t->dim[d].letter[0]] : -1));
    json_decref(list);
  }
  return map;
}

static void put_matrix(json_t *to, const msc_op *op, msc_arena *a, const msc_layout *const *in) {
  msc_rule rule;
  uint8_t place[MSC_MAX_LETTERS];
  int64_t axis[MSC_MAX_LETTERS + 1], matrix[MSC_MAX_LETTERS + 1],
      devices = msc_mesh_size(&op->block->func->module->mesh), cut = 1;
  if (!msc_rule_of(op, a, &rule)) return;
  for (int l = 0; l < rule.num_letters; l++) axis[l] = 1;
  for (int t = 0; t < rule.num_tensors; t++) {
    const msc_layout *l = t < rule.num_in ? in[t] : op->out[t - rule.num_in].type->layout;
    for (int d = 0; d < rule.tensor[t].rank; d++)
      split_parts(&rule, &rule.tensor[t].dim[d], msc_layout_parts(l, d), axis);
  }
  for (int l = 0; l < rule.num_letters; l++) cut *= axis[l];
  if (devices % cut) return;
  int num = rule.num_letters;
  shard_matrix_order(op, &rule, place);
  for (int l = 0; l < num; l++) matrix[place[l]] = axis[l];
  if (devices > cut) matrix[num++] = devices / cut;
  json_t *ins = json_array(), *outs = json_array();
  for (int t = 0; t < rule.num_tensors; t++)
    json_array_append_new(t < rule.num_in ? ins : outs, letters_map(&rule.tensor[t], place, num));
  json_object_set_new(to, "device_matrix", sizes_json(num, matrix));
  json_object_set_new(to, "in_tensor_map", ins);
  json_object_set_new(to, "out_tensor_map", outs);
}

/* Is the op one that pin.c inserted to hold the layout of its operand? The border of a block is not: it is written as
 * an op of its own. */
static bool is_pin(const msc_op *op) { return msc_op_attr(op, MSC_FACT(pinned)) && !msc_op_attr(op, MSC_FACT(border)); }

/* The layout in which users see the value: that of the op that pins it, and then *out_pinned is set, or its own. */
static const msc_layout *seen_layout(const msc_value *v, bool *out_pinned) {
  const msc_op *user = v->uses && !v->uses->next ? v->uses->user : NULL;
  if (!user || !is_pin(user) || user->kind != OP_broadcast_to) return v->type->layout;
  *out_pinned = true;
  return user->out[0].type->layout;
}

/* The facts that say where digits come from (origins.h). */
static const char *const histories[] = {MSC_FACT(inherited), MSC_FACT(conflicts)};

static void put_history(json_t *o, const msc_op *op, const char *name, msc_arena *arena) {
  const msc_attr_value *v = msc_op_attr(op, name);
  if (!v || v->kind != MSC_ATTR_LIST) return;
  json_t *list = json_array();
  for (size_t i = 0; i < v->list.num; i++) {
    json_t *one = json_object();
    for (size_t k = 0; v->list.v[i].kind == MSC_ATTR_DICT && k < v->list.v[i].dict.num; k++) {
      const msc_attr *a = &v->list.v[i].dict.a[k];
      msc_attr_value text = msc_attr_with_texts(op->block->func->module, arena, &a->value);
      json_object_set_new(one, a->name, text.kind == MSC_ATTR_STR ? json_string(text.s) : json_integer(text.i));
    }
    json_array_append_new(list, one);
  }
  json_object_set_new(o, name, list);
}

static json_t *op_json(const msc_func *f, msc_arena *a, const msc_op *op) {
  bool pinned = false;
  const msc_layout **in = msc_new_array(a, const msc_layout *, op->num_in),
                   **out = msc_new_array(a, const msc_layout *, op->num_out);
  json_t *o = json_object(), *layout = json_object(), *ins = json_array(), *outs = json_array();
  for (size_t i = 0; i < op->num_in; i++)
    json_array_append_new(ins, layout_json(f, a, in[i] = msc_wanted_layout(op, i)));
  for (size_t i = 0; i < op->num_out; i++)
    json_array_append_new(outs, layout_json(f, a, out[i] = seen_layout(&op->out[i], &pinned)));
  put_tuples(o, "in_strategy", op->num_in, in);
  put_tuples(o, "out_strategy", op->num_out, out);
  put_matrix(o, op, a, in);
  json_object_set_new(layout, "in", ins);
  json_object_set_new(layout, "out", outs);
  json_object_set_new(o, "layout", layout);
  if (pinned) {
    json_t *made = json_array(); /* what the op itself yields */
    for (size_t i = 0; i < op->num_out; i++) json_array_append_new(made, layout_json(f, a, op->out[i].type->layout));
    json_object_set_new(layout, "made", made);
    json_object_set_new(o, "pinned", json_true());
  }
  json_object_set_new(o, "by", json_string(msc_op_str(op, MSC_FACT(by))));
  for (size_t i = 0; i < sizeof histories / sizeof *histories; i++) put_history(o, op, histories[i], a);
  return o;
}

/* A hash of everything that op_json reads. */
static uint64_t hash_of_content(const msc_op *op) {
  uint64_t h = msc_mix_attrs(op->kind, op->attrs, op->num_attrs);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix_pointer(h, op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) {
    bool pinned = false;
    h = msc_mix_pointer(msc_mix_pointer(h, op->out[i].type), seen_layout(&op->out[i], &pinned));
    h = msc_mix(h, pinned);
  }
  return h;
}

typedef struct {
  uint64_t content;
  json_t *json;
} op_text;
typedef MSC_TABLE(op_text) op_texts;

/* The JSON of an op: a new reference. Ops with equal contents, as in repeated layers, share one object. */
static json_t *op_json_once(const msc_func *f, msc_arena *a, op_texts *made, const msc_op *op) {
  uint64_t content = hash_of_content(op);
  op_text *t = msc_table_at(made, &content);
  return t->json ? json_incref(t->json) : (t->json = op_json(f, a, op));
}

/* Is the op written to the file? Only leaders are: the other members of a group follow them. Copies that a search
 * inserted are not: it finds them again, given the same layouts of all ops. */
static bool is_written(const msc_op *op) {
  if (!msc_op_attr(op, MSC_FACT(by)) || shard_is_copy(op) || is_pin(op)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (!msc_wanted_layout(op, i)) return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!op->out[i].type->layout) return false;
  return true;
}

const char *msc_strategy_file(const msc_func *f, msc_arena *arena) {
  json_t *root = json_object(), *ops = json_object(), *parameters = json_object();
  json_object_set_new(root, "version", json_integer(FILE_VERSION));
  json_object_set_new(root, "device_num", json_integer(msc_mesh_size(&f->module->mesh)));
  json_object_set_new(root, "mesh", json_string(msc_mesh_print(arena, &f->module->mesh)));
  key_maker keys = {arena, json_object()};
  op_texts made = {.index.arena = arena};
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (is_written(op)) json_object_set_new(ops, unique_key_of(&keys, op), op_json_once(f, arena, &made, op));
  json_decref(keys.used);
  for (size_t i = 0; i < f->body->num_args; i++)
    if (msc_arg_role(f, i) == MSC_ROLE_PARAMETER && f->body->args[i]->name && f->body->args[i]->type->layout)
      json_object_set_new(parameters, f->body->args[i]->name, parameter_json(f, arena, f->body->args[i]->type));
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
  shard_graph *g;
  msc_context *ctx;
  const msc_loc *loc;
  bool ok;
  bool adds; /* the file may cut what a hint leaves whole: propagation may have added the cut */
} strategy_loader;

static void MSC_PRINTF(2, 3) report(strategy_loader *l, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  l->ok = msc_verror(l->ctx, MSC_DIAG_ERROR, MSC_E_STRATEGY_FILE, l->loc, NULL, fmt, ap);
  va_end(ap);
}

/* Parses a layout of the file, without its partial digits, which follow from the operands. NULL after a report. */
static const msc_layout *read_layout(strategy_loader *l, const char *key, const msc_type *t, const char *text) {
  const msc_layout *layout;
  if (!msc_layout_parse(l->ctx, l->g->mesh, l->loc, text, &layout)) {
    msc_note(l->ctx, l->loc, "strategy file: it is a layout of %s", key);
    l->ok = false;
    return NULL;
  }
  if (layout->rank != t->rank) {
    report(l, "strategy file: a layout of %s is %s, its tensor has rank %d", key, text, t->rank);
    return NULL;
  }
  msc_layout raw = *layout;
  raw.num_partial = 0;
  return msc_layout_of(l->ctx, l->g->mesh, &raw);
}

static const msc_type *type_of_tensor(const msc_op *op, bool out, size_t i) {
  return out ? op->out[i].type : op->in[i].value->type;
}

static void load_layouts(strategy_loader *l, msc_op *op, const char *key, json_t *list, bool out) {
  size_t num = out ? op->num_out : op->num_in;
  const char *side = out ? "out" : "in";
  if (!json_is_array(list) || json_array_size(list) != num) {
    report(l, "strategy file: layout.%s of %s must have one entry for each of its %zu %s", side, key, num,
           out ? "results" : "operands");
    return;
  }
  const msc_layout **layout = msc_new_array(l->g->arena, const msc_layout *, num + 1);
  for (size_t i = 0; i < num; i++) {
    const char *s = json_string_value(json_array_get(list, i));
    if (!s) {
      report(l, "strategy file: layout.%s of %s must hold texts", side, key);
      return;
    }
    layout[i] = read_layout(l, key, type_of_tensor(op, out, i), s);
    if (!layout[i]) return;
  }
  if (num) msc_op_put(op, out ? msc_fact_out_layout(l->ctx, num, layout) : msc_fact_in_layout(l->ctx, num, layout));
}

static void load_history(strategy_loader *l, msc_op *op, const char *key, const char *name, const json_t *list) {
  size_t num = json_array_size(list);
  msc_attr_value *entry = msc_new_array(l->g->arena, msc_attr_value, num + 1);
  for (size_t i = 0; i < num; i++) {
    json_t *one = json_array_get(list, i), *value;
    const char *field;
    msc_attr *attrs = NULL;
    size_t fields = 0;
    json_object_foreach(one, field, value) {
      if (json_is_string(value))
        msc_put_attr(l->ctx, &attrs, &fields, field, msc_str(l->ctx, json_string_value(value)));
      else if (json_is_integer(value)) msc_put_attr(l->ctx, &attrs, &fields, field, msc_int(json_integer_value(value)));
      else report(l, "strategy file: %s.%s of %s must be a text or a whole number", name, field, key);
    }
    entry[i] = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {fields, attrs}};
  }
  if (num) msc_op_set(op, name, msc_list(l->ctx, num, entry));
  l->ok &= msc_read_layouts(l->g->func->module, l->loc, op->attrs, op->num_attrs, msc_info(op));
}

/* ---- hints of the model that the file overrides ---- */

typedef struct {
  const char *name; /* of the hint */
  bool out;
  msc_attr_value value;
} hint;

/* Lists the annotations of an op that give its operands or results layouts, and returns how many. */
static size_t hints_of(const msc_op *op, hint out[4]) {
  size_t num = 0, at = 0;
  for (const char *name; (name = msc_fact_of_sort(MSC_SORT_STRATEGY, &at));) {
    const msc_attr_value *v = msc_op_attr(op, name);
    bool is_out = name == MSC_FACT(out_strategy) || name == MSC_FACT(out_layout);
    if (v) out[num++] = (hint){name, is_out, *v};
  }
  return num;
}

static bool has_parts_of_tuple(const strategy_loader *l, const msc_layout *file, const msc_attr_value *tuple) {
  bool same = tuple->kind == MSC_ATTR_LIST && tuple->list.num == (size_t)file->rank;
  for (int d = 0; same && d < file->rank; d++) {
    const msc_attr_value *parts = &tuple->list.v[d];
    same = parts->kind == MSC_ATTR_INT && (parts->i == msc_layout_parts(file, d) || (l->adds && parts->i == 1));
  }
  return same;
}

static bool is_cut_alike(const strategy_loader *l, const msc_layout *file, const msc_layout *own) {
  bool same = own->rank == file->rank;
  for (int d = 0; same && d < file->rank; d++) {
    size_t num = own->first[d + 1] - own->first[d], most = file->first[d + 1] - file->first[d];
    bool equal = own->split[d] == file->split[d] && num == most &&
                 !memcmp(own->sub + own->first[d], file->sub + file->first[d], num * sizeof *own->sub);
    same = equal || (l->adds && num == 0);
  }
  return same;
}

/* Does the model's entry for an operand or result, a tuple or a layout, agree with the layout in the file? */
static bool agrees_with_file(const strategy_loader *l, const msc_attr_value *said, const msc_attr_value *loaded) {
  if (said->kind == MSC_ATTR_STR && !*said->s) return true; /* the model says nothing */
  const msc_layout *file = msc_attr_layout(loaded), *own = msc_attr_layout(said);
  if (file && said->kind == MSC_ATTR_LIST) return has_parts_of_tuple(l, file, said);
  return !file || !own || is_cut_alike(l, file, own);
}

/* Warns where the model says otherwise than the file, which decides. */
static void compare_hint(strategy_loader *l, const msc_op *op, const hint *h) {
  const msc_attr_value *loaded = msc_op_attr(op, h->out ? MSC_FACT(out_layout) : MSC_FACT(in_layout));
  if (!loaded || op->kind == OP_cast) return; /* a cast is computed on whichever side of an exchange has fewer bytes */
  bool same = h->value.kind == MSC_ATTR_LIST;
  for (size_t i = 0; same && i < loaded->list.num && i < h->value.list.num; i++)
    same = same && agrees_with_file(l, &h->value.list.v[i], &loaded->list.v[i]);
  if (same) return;
  const char *file = msc_attr_text(l->g->arena, l->g->mesh, loaded),
             *own = msc_attr_text(l->g->arena, l->g->mesh, &h->value);
  msc_warning(l->ctx, MSC_E_STRATEGY_FILE, op->loc,
              "%s = %s of %s is not heeded: the strategy file decides, which says %s", h->name, own, msc_op_title(op),
              file);
}

static void load_op(strategy_loader *l, msc_op *op, const char *key, json_t *o) {
  hint hints[4];
  size_t num_hints = hints_of(op, hints);
  json_t *layout = json_object_get(o, "layout");
  const char *word = json_string_value(json_object_get(o, "by"));
  msc_decider by = MSC_DECIDER_NOBODY;
  if (word) msc_decider_parse(word, &by);
  if (by == MSC_DECIDER_NOBODY || by == MSC_DECIDER_COPY)
    report(l, "strategy file: \"by\" of %s must be user, default, propagation or search", key);
  else msc_op_put(op, msc_fact_by(l->ctx, by));
  msc_op_unset(op, MSC_FACT(in_strategy));
  msc_op_unset(op, MSC_FACT(out_strategy));
  if (json_is_true(json_object_get(o, "pinned"))) msc_op_put(op, msc_fact_pins(true));
  load_layouts(l, op, key, json_object_get(layout, "in"), false);
  load_layouts(l, op, key, json_object_get(layout, "out"), true);
  for (size_t i = 0; l->ok && i < num_hints; i++) compare_hint(l, op, &hints[i]);
  for (size_t i = 0; i < sizeof histories / sizeof *histories; i++)
    load_history(l, op, key, histories[i], json_object_get(o, histories[i]));
}

static void load_ops(strategy_loader *l, json_t *ops) {
  key_maker keys = {l->g->arena, json_object()};
  json_t *left = json_copy(ops), *value;
  const char *name;
  for (size_t i = 0; i < l->g->num_groups; i++) {
    const char *key = unique_key_of(&keys, l->g->group[i].leader);
    json_t *o = json_object_get(ops, key);
    if (o) load_op(l, l->g->group[i].leader, key, o);
    else report(l, "the model has an op %s that the strategy file does not name", key);
    json_object_del(left, key);
  }
  json_object_foreach(left, name, value)
      report(l, "the strategy file names an op %s that the model does not have", name);
  json_decref(left);
  json_decref(keys.used);
}

static void check_parameter(strategy_loader *l, const msc_value *v, json_t *p) {
  json_t *shape = json_object_get(p, "shape");
  const msc_type *t = v->type;
  bool same = json_is_array(shape) && json_array_size(shape) == (size_t)t->rank;
  for (int d = 0; same && d < t->rank; d++) same = json_integer_value(json_array_get(shape, (size_t)d)) == t->dim[d];
  if (same) return;
  char *text = json_is_array(shape) ? json_dumps(shape, JSON_COMPACT) : NULL;
  report(l, "parameter %s is %s in the model and has the shape %s in the strategy file", v->name,
         msc_type_text(l->g->arena, l->g->mesh, msc_type_with_layout(l->ctx, t, NULL)), text ? text : "null");
  free(text);
}

static void check_parameters(strategy_loader *l, json_t *parameters) {
  const msc_func *f = l->g->func;
  json_t *left = json_copy(parameters), *value;
  const char *name;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_value *v = f->body->args[i];
    if (msc_arg_role(f, i) != MSC_ROLE_PARAMETER || !v->name) continue;
    json_t *p = json_object_get(parameters, v->name);
    if (p) check_parameter(l, v, p);
    else report(l, "the model has a parameter %s that the strategy file does not name", v->name);
    json_object_del(left, v->name);
  }
  json_object_foreach(left, name, value)
      report(l, "the strategy file names a parameter %s that the model does not have", name);
  json_decref(left);
}

static void load_root(strategy_loader *l, json_t *root) {
  json_t *version = json_object_get(root, "version"), *devices = json_object_get(root, "device_num"),
         *mesh = json_object_get(root, "mesh");
  json_t *ops = json_object_get(root, "ops"), *parameters = json_object_get(root, "parameters");
  const char *here = msc_mesh_print(l->g->arena, l->g->mesh);
  if (json_integer_value(version) != FILE_VERSION || !json_is_integer(devices) || !json_is_object(ops) ||
      !json_is_object(parameters)) {
    report(l, "strategy file: an object with \"version\": 1, \"device_num\", \"ops\" and \"parameters\" is expected");
    return;
  }
  if (json_integer_value(devices) != msc_mesh_size(l->g->mesh)) {
    report(l, "the strategy file is for %" PRId64 " devices, device_num is %" PRId64,
           (int64_t)json_integer_value(devices), msc_mesh_size(l->g->mesh));
    return;
  }
  if (json_is_string(mesh) && strcmp(json_string_value(mesh), here)) {
    report(l, "the strategy file is for the mesh %s, here it is %s", json_string_value(mesh), here);
    return;
  }
  check_parameters(l, parameters);
  load_ops(l, ops);
}

static const msc_loc *loc_of_error(msc_context *ctx, const char *name, const json_error_t *error) {
  uint32_t line = error->line > 0 ? (uint32_t)error->line : 1, col = error->column > 0 ? (uint32_t)error->column : 0;
  return msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, name), .line = line, .col = col});
}

/* The arguments of load_parsed, which runs under msc_protect: the root is not in an arena, and the caller frees it. */
typedef struct {
  strategy_loader l;
  json_t *root;
} guarded_load;

static bool load_parsed(msc_context *ctx, void *arg) {
  guarded_load *p = arg;
  (void)ctx;
  load_root(&p->l, p->root);
  return p->l.ok;
}

bool msc_strategy_read(shard_graph *g, bool adds, const char *name, const char *text, size_t bytes) {
  msc_context *ctx = g->ctx;
  json_error_t error;
  guarded_load p = {{g, ctx, msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, name), .line = 1}), true, adds},
                    json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error)};
  if (!p.root) return msc_error(ctx, MSC_E_SYNTAX, loc_of_error(ctx, name, &error), "strategy file: %s", error.text);
  bool ok = msc_protect(ctx, load_parsed, &p);
  json_decref(p.root);
  return ok;
}

/* Reads a file and ends it with a zero byte; NULL with the reason. */
static char *read_json_file(msc_arena *arena, const char *path, size_t *out_bytes, const char **out_why) {
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info = {0};
  char *text = NULL;
  bool ok = fd >= 0 && fstat(fd, &info) == 0;
  *out_why = NULL;
  if (ok && !S_ISREG(info.st_mode)) *out_why = "it is not a regular file";
  else if (ok && info.st_size > MAX_BYTES) *out_why = strerror(EFBIG);
  if (ok && !*out_why) {
    text = msc_arena_alloc(arena, (size_t)info.st_size + 1);
    ssize_t n = read(fd, text, (size_t)info.st_size);
    *out_bytes = n < 0 ? 0 : (size_t)n;
    ok = n >= 0;
  }
  if (!ok) *out_why = strerror(errno);
  if (fd >= 0) close(fd);
  return *out_why ? NULL : text;
}

bool msc_strategy_load(shard_graph *g, bool adds, const char *path) {
  size_t bytes = 0;
  const char *why, *text = read_json_file(g->arena, path, &bytes, &why);
  if (text) return msc_strategy_read(g, adds, path, text, bytes);
  const msc_loc *loc = msc_loc_of(g->ctx, &(msc_loc){.file = msc_intern(g->ctx, path), .implied = true});
  return msc_error(g->ctx, MSC_E_FILE, loc, "cannot read the strategy file: %s", why);
}

const char *msc_strategy_mesh(msc_arena *arena, const char *path) {
  size_t bytes = 0;
  const char *why;
  char *text = read_json_file(arena, path, &bytes, &why);
  json_t *root = text ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
  const char *mesh = json_string_value(json_object_get(root, "mesh"));
  /* `mesh` points into JSON's memory, which is freed: its text is copied over the file's, of which it is a part */
  if (mesh) memcpy(text, mesh, strlen(mesh) + 1);
  json_decref(root);
  return mesh ? text : NULL;
}
