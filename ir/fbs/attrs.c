/* attrs.c: attributes and hints of a model.fbs in; IR attributes out, and back. */
#include <string.h>

#include "ir/fbs/fbs.h"

/* ---- attributes, reading ---- */

static msc_attr_value empty_list_of(fbs_reader *r, uint32_t num, msc_attr_value **out_items) {
  *out_items = msc_new_array(msc_context_arena(r->ctx), msc_attr_value, num);
  return (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {num, *out_items}};
}

static bool read_strs(fbs_reader *r, fbs_place p, model_strs strs, msc_attr_value *out_value) {
  msc_attr_value *item;
  *out_value = empty_list_of(r, model_strs_v_num(strs), &item);
  for (uint32_t i = 0; i < model_strs_v_num(strs); i++) {
    const char *text = fbs_text(r, p, model_strs_v(strs, i), model_strs_v_len(strs, i));
    if (!text) return false;
    item[i] = msc_str(r->ctx, text);
  }
  return true;
}

static bool read_type_ref(fbs_reader *r, fbs_place p, model_attr a, msc_attr_value *out_value) {
  uint32_t number = model_type_ref_v(model_attr_value_type_ref(a)), num = model_model_types_num(r->model);
  const char *name = model_attr_name(a);
  if (number >= num)
    return fbs_error(r, MSC_E_FORMAT, p, "attribute %s is type %u, but the file has %u types", name, number, num);
  const msc_type *t = r->type[number];
  for (int d = 0; t && d < t->rank; d++)
    if (t->dim[d] < 0)
      return fbs_error(r, MSC_E_SHAPE, p, "attribute %s: dimension %d of the type has no size", name, d);
  if (t) *out_value = msc_type_attr(t);
  return t != NULL;
}

/* Replaces numbers of an Int or Ints by the values of their formulas of the model's sizes. */
static bool apply_sizes(fbs_reader *r, fbs_place p, model_attr a, msc_attr_value *item, uint32_t num) {
  bool ok = true;
  for (uint32_t i = 0; i < num && i < model_attr_sizes_num(a); i++)
    ok &= fbs_apply_size(r, p, model_attr_sizes(a, i), model_attr_sizes_len(a, i), &item[i].i);
  return ok;
}

bool fbs_read_attr(fbs_reader *r, fbs_place p, model_attr a, msc_attr_value *out_value) {
  msc_attr_value *item;
  model_ints ints = model_attr_value_ints(a);
  model_floats floats = model_attr_value_floats(a);
  model_str str = model_attr_value_str(a);
  switch (model_attr_value_type(a)) {
    case MODEL_ATTR_VALUE_INT:
      *out_value = msc_int(model_int_v(model_attr_value_int(a)));
      return apply_sizes(r, p, a, out_value, 1);
    case MODEL_ATTR_VALUE_FLOAT: *out_value = msc_float(model_float_v(model_attr_value_float(a))); return true;
    case MODEL_ATTR_VALUE_BOOL: *out_value = msc_bool(model_bool_v(model_attr_value_bool(a))); return true;
    case MODEL_ATTR_VALUE_STR: {
      const char *text = fbs_text(r, p, model_str_v(str), model_str_v_len(str));
      if (text) *out_value = msc_str(r->ctx, text);
      return text != NULL;
    }
    case MODEL_ATTR_VALUE_INTS:
      *out_value = empty_list_of(r, model_ints_v_num(ints), &item);
      for (uint32_t i = 0; i < model_ints_v_num(ints); i++) item[i] = msc_int(model_ints_v(ints, i));
      return apply_sizes(r, p, a, item, model_ints_v_num(ints));
    case MODEL_ATTR_VALUE_FLOATS:
      *out_value = empty_list_of(r, model_floats_v_num(floats), &item);
      for (uint32_t i = 0; i < model_floats_v_num(floats); i++) item[i] = msc_float(model_floats_v(floats, i));
      return true;
    case MODEL_ATTR_VALUE_STRS: return read_strs(r, p, model_attr_value_strs(a), out_value);
    default: return read_type_ref(r, p, a, out_value);
  }
}

/* ---- hints, reading ---- */

typedef struct {
  fbs_reader *r;
  fbs_place p;
  msc_attr **attrs;
  size_t *num_attrs;
  bool ok;
} hints;

static void give_hint(hints *h, const char *name, msc_attr_value v) {
  msc_put_attr(h->r->ctx, h->attrs, h->num_attrs, name, v);
}

/* Adds a hint that is a number; `absent`: the value of a hint that is not given, below which a value is an error. */
static void give_int(hints *h, const char *name, int64_t v, int64_t absent) {
  if (v < absent)
    h->ok = fbs_error(h->r, MSC_E_FORMAT, h->p, "%s is %" PRId64 "; it is at least %" PRId64, name, v, absent + 1);
  else if (v > absent) give_hint(h, name, msc_int(v));
}

static void give_tri(hints *h, const char *name, int8_t v) {
  if (v < -1 || v > 1) h->ok = fbs_error(h->r, MSC_E_FORMAT, h->p, "%s is %d; it is -1 (not given), 0 or 1", name, v);
  else if (v >= 0) give_hint(h, name, msc_bool(v));
}

static void give_flag(hints *h, const char *name, bool v) {
  if (v) give_hint(h, name, msc_bool(true));
}

static void add_hint_text(hints *h, const char *name, const char *text, uint32_t len) {
  const char *checked = fbs_text(h->r, h->p, text, len);
  if (checked) give_hint(h, name, msc_str(h->r->ctx, checked));
  else h->ok = false;
}

/* Adds the splits of in_strategy or out_strategy. */
static void give_splits(hints *h, const char *name, model_split (*split)(model_hints, uint32_t), model_hints t,
                        uint32_t num) {
  msc_attr_value *entry, v = empty_list_of(h->r, num, &entry);
  for (uint32_t i = 0; i < num; i++) {
    model_split s = split(t, i);
    msc_attr_value *part;
    entry[i] = empty_list_of(h->r, model_split_parts_num(s), &part);
    for (uint32_t d = 0; d < model_split_parts_num(s); d++) part[d] = msc_int(model_split_parts(s, d));
  }
  give_hint(h, name, v);
}

static void give_layouts(hints *h, const char *name, const char *(*text)(model_hints, uint32_t),
                         uint32_t (*len)(model_hints, uint32_t), model_hints t, uint32_t num) {
  msc_attr_value *item, v = empty_list_of(h->r, num, &item);
  for (uint32_t i = 0; i < num; i++) {
    const char *layout = fbs_text(h->r, h->p, text(t, i), len(t, i));
    if (!layout) return (void)(h->ok = false);
    item[i] = msc_str(h->r->ctx, layout);
  }
  give_hint(h, name, v);
}

/* Reads a hint of each kind from a model file. */
#define READ_SPLITS(id) \
  if (has_model_hints_##id(t)) give_splits(&h, MSC_FACT(id), model_hints_##id, t, model_hints_##id##_num(t));
#define READ_LAYOUTS(id)       \
  if (has_model_hints_##id(t)) \
    give_layouts(&h, MSC_FACT(id), model_hints_##id, model_hints_##id##_len, t, model_hints_##id##_num(t));
#define READ_INTS(id)          \
  if (has_model_hints_##id(t)) \
    give_hint(&h, MSC_FACT(id), msc_ints(r->ctx, model_hints_##id##_num(t), model_hints_##id##_data(t)));
#define READ_STAGE_NUMBER(id) give_int(&h, MSC_FACT(id), model_hints_##id(t), -1);
#define READ_GROUP(id)        give_int(&h, MSC_FACT(id), model_hints_##id(t), -1);
#define READ_BYTES(id)        give_int(&h, MSC_FACT(id), model_hints_##id(t), -1);
#define READ_ROUND(id)        give_int(&h, MSC_FACT(id), model_hints_##id(t), 0);
#define READ_BOOL(id)         give_tri(&h, MSC_FACT(id), model_hints_##id(t));
#define READ_FLAG_OR_NAME(id) give_tri(&h, MSC_FACT(id), model_hints_##id(t));
#define READ_FLAG(id)         give_flag(&h, MSC_FACT(id), model_hints_##id(t));
#define READ_CPU_ONLY(id) \
  if (model_hints_##id(t)) add_hint_text(&h, MSC_FACT(id), model_hints_##id(t), model_hints_##id##_len(t));
#define READ_LIMIT(id) /* give_name reads it, for blocks */

bool fbs_read_hints(fbs_reader *r, fbs_place p, model_hints t, msc_attr **attrs, size_t *num_attrs) {
  hints h = {r, p, attrs, num_attrs, true};
  if (!t.at) return true;
#define FACT(id, name, on, kind, from, until, meaning)
#define HINT(id, kind, until, meaning) READ_##kind(id)
#include "ir/fact.def"
#undef FACT
  return h.ok;
}

bool fbs_is_in_row(const msc_op_info *info, const char *name) {
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, name)) return true;
  return false;
}

bool fbs_is_hint(const char *name) {
  static const char *const names[] = {
#define FACT(id, name, on, kind, from, until, meaning)
#define HINT(id, kind, until, meaning) MSC_FACT(id),
#include "ir/fact.def"
#undef FACT
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

/* ---- hints of blocks ---- */

/* Reports hints on a block that its ops cannot inherit, because they are about operands or the block as a whole. */
static bool check_block_hints(fbs_reader *r, fbs_place p, model_hints t) {
  const bool given[] = {has_model_hints_in_strategy(t), has_model_hints_out_strategy(t), has_model_hints_in_layout(t),
                        has_model_hints_out_layout(t), has_model_hints_manual_split(t)};
  const char *const names[] = {MSC_FACT(in_strategy), MSC_FACT(out_strategy), MSC_FACT(in_layout), MSC_FACT(out_layout),
                               MSC_FACT(manual_split)};
  for (int i = 0; i < 5; i++)
    if (given[i] && !(i < 4 && model_hints_shard(t)))
      return fbs_error(r, MSC_E_STRATEGY, p,
                       "%s belongs on an op, or on a block with shard; a block's hints are inherited by all ops inside",
                       names[i]);
  return true;
}

/* Returns a name for the block that no other block has, since layers made one after the other may share their name. */
static msc_attr_value name_of_block(fbs_reader *r, const char *path) {
  bool same = r->named && !strcmp(r->named, path);
  r->num_named++;
  r->named = path;
  return msc_str(r->ctx, same ? msc_arena_printf(r->scratch, "%s#%d", path, r->num_named) : path);
}

/* Adds the block's name to the hints that its ops inherit: as `recompute` if they are to be computed again, as
 * `memory_limit` if the block has a limit. */
static void give_name(fbs_reader *r, model_hints t, const char *path, msc_attr **attrs, size_t *num_attrs) {
  int64_t limit = model_hints_memory_limit(t);
  bool again = path && model_hints_recompute(t) == 1;
  if (!again && limit == -1) return;
  msc_attr_value name = name_of_block(r, path ? path : "");
  if (again) msc_attrs_put(r->ctx, attrs, num_attrs, msc_fact_recompute(name));
  if (limit == -1) return;
  msc_attr *of = NULL;
  size_t num = 0;
  msc_put_attr(r->ctx, &of, &num, "bytes", msc_int(limit));
  msc_put_attr(r->ctx, &of, &num, "name", name);
  msc_attrs_put(r->ctx, attrs, num_attrs,
                msc_fact_memory_limit((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, of}}));
}

/* Reads the hints of a block into the attributes that its ops inherit. A block with `shard` gives them an attribute
 * `shard` with the hints about the block's arguments and results; one with recompute or memory_limit gives its name. */
bool fbs_read_block_hints(fbs_reader *r, fbs_place p, model_hints t, const char *path, msc_attr **attrs,
                          size_t *num_attrs) {
  msc_attr *read = NULL, *own = NULL;
  size_t num_read = 0, num_own = 0;
  MSC_TRY(check_block_hints(r, p, t) && fbs_read_hints(r, p, t, &read, &num_read));
  give_name(r, t, path, &read, &num_read);
  for (size_t i = 0; i < num_read; i++) {
    bool border = strstr(read[i].name, "_strategy") || strstr(read[i].name, "_layout");
    msc_put_attr(r->ctx, border ? &own : attrs, border ? &num_own : num_attrs, read[i].name, read[i].value);
  }
  if (!model_hints_shard(t)) return true;
  if (!path) return fbs_error(r, MSC_E_STRATEGY, p, "shard: the block needs a name");
  msc_put_attr(r->ctx, &own, &num_own, "name", msc_str(r->ctx, path));
  msc_attrs_put(r->ctx, attrs, num_attrs,
                msc_fact_shard((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num_own, own}}));
  return true;
}

/* ---- writing ---- */

static bool all_of(const msc_attr_value *list, msc_attr_kind kind, msc_attr_kind or_kind) {
  for (size_t i = 0; i < list->list.num; i++)
    if (list->list.v[i].kind != kind && list->list.v[i].kind != or_kind) return false;
  return true;
}

static const int64_t *ints_of(msc_arena *a, const msc_attr_value *list) {
  int64_t *v = msc_new_array(a, int64_t, list->list.num + 1);
  for (size_t i = 0; i < list->list.num; i++) v[i] = list->list.v[i].i;
  return v;
}

static const char *const *strs_of(msc_arena *a, const msc_attr_value *list) {
  const char **v = msc_new_array(a, const char *, list->list.num + 1);
  for (size_t i = 0; i < list->list.num; i++) v[i] = list->list.v[i].s;
  return v;
}

/* Writes a value's own table; an empty list is a list of integers. */
static bool put_list(flatbuf_builder *b, msc_arena *a, const msc_attr_value *v) {
  if (all_of(v, MSC_ATTR_INT, MSC_ATTR_INT)) {
    model_attr_begin_value_ints(b);
    model_ints_put_v(b, v->list.num, ints_of(a, v));
  } else if (all_of(v, MSC_ATTR_STR, MSC_ATTR_STR)) {
    model_attr_begin_value_strs(b);
    model_strs_put_v(b, v->list.num, strs_of(a, v));
  } else if (all_of(v, MSC_ATTR_FLOAT, MSC_ATTR_INT)) {
    double *f = msc_new_array(a, double, v->list.num);
    for (size_t i = 0; i < v->list.num; i++)
      f[i] = v->list.v[i].kind == MSC_ATTR_INT ? (double)v->list.v[i].i : v->list.v[i].f;
    model_attr_begin_value_floats(b);
    model_floats_put_v(b, v->list.num, f);
  } else {
    return false;
  }
  flatbuf_end(b);
  return true;
}

bool fbs_put_attr(flatbuf_builder *b, msc_arena *a, const char *name, const msc_attr_value *v, uint32_t type_number,
                  const char *const *text) {
  bool ok = true;
  model_attr_begin(b);
  model_attr_put_name(b, name);
  switch (v->kind) {
    case MSC_ATTR_INT: model_attr_begin_value_int(b), model_int_put_v(b, v->i), flatbuf_end(b); break;
    case MSC_ATTR_FLOAT: model_attr_begin_value_float(b), model_float_put_v(b, v->f), flatbuf_end(b); break;
    case MSC_ATTR_BOOL: model_attr_begin_value_bool(b), model_bool_put_v(b, v->b), flatbuf_end(b); break;
    case MSC_ATTR_STR: model_attr_begin_value_str(b), model_str_put_v(b, v->s), flatbuf_end(b); break;
    case MSC_ATTR_TYPE: model_attr_begin_value_type_ref(b), model_type_ref_put_v(b, type_number), flatbuf_end(b); break;
    case MSC_ATTR_LIST: ok = put_list(b, a, v); break;
    default: ok = false;
  }
  if (text && v->kind != MSC_ATTR_TYPE) model_attr_put_sizes(b, v->kind == MSC_ATTR_LIST ? v->list.num : 1, text);
  if (ok) flatbuf_end(b);
  return ok;
}

static bool put_splits(flatbuf_builder *b, msc_arena *a, const msc_attr_value *v, void (*begin)(flatbuf_builder *)) {
  if (v->kind != MSC_ATTR_LIST || !all_of(v, MSC_ATTR_LIST, MSC_ATTR_LIST)) return false;
  begin(b);
  for (size_t i = 0; i < v->list.num; i++) {
    const msc_attr_value *entry = &v->list.v[i];
    uint32_t *parts = msc_new_array(a, uint32_t, entry->list.num + 1);
    for (size_t d = 0; d < entry->list.num; d++) {
      if (entry->list.v[d].kind != MSC_ATTR_INT || entry->list.v[d].i < 0 || entry->list.v[d].i > UINT32_MAX)
        return false;
      parts[d] = (uint32_t)entry->list.v[d].i;
    }
    model_split_begin(b);
    model_split_put_parts(b, entry->list.num, parts);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  return true;
}

static bool put_layouts(flatbuf_builder *b, msc_arena *a, const msc_attr_value *v,
                        void (*put)(flatbuf_builder *, size_t, const char *const *)) {
  if (v->kind != MSC_ATTR_LIST || !all_of(v, MSC_ATTR_STR, MSC_ATTR_STR)) return false;
  put(b, v->list.num, strs_of(a, v));
  return true;
}

static bool int_fits(const msc_attr_value *v, int64_t low, int64_t high) {
  return v->kind == MSC_ATTR_INT && v->i >= low && v->i <= high;
}

static bool put_ints(flatbuf_builder *b, msc_arena *a, const msc_attr_value *v,
                     void (*put)(flatbuf_builder *, size_t, const int64_t *)) {
  if (v->kind != MSC_ATTR_LIST || !all_of(v, MSC_ATTR_INT, MSC_ATTR_INT)) return false;
  put(b, v->list.num, ints_of(a, v));
  return true;
}

#define PUT_SPLITS(id)       put_splits(b, a, v, model_hints_begin_##id)
#define PUT_LAYOUTS(id)      put_layouts(b, a, v, model_hints_put_##id)
#define PUT_INTS(id)         put_ints(b, a, v, model_hints_put_##id)
#define PUT_STAGE_NUMBER(id) int_fits(v, 0, INT32_MAX) && (model_hints_put_##id(b, (int32_t)v->i), true)
#define PUT_GROUP(id)        int_fits(v, 0, INT32_MAX) && (model_hints_put_##id(b, (int32_t)v->i), true)
#define PUT_BYTES(id)        int_fits(v, 0, INT64_MAX) && (model_hints_put_##id(b, v->i), true)
#define PUT_ROUND(id)        int_fits(v, 0, UINT8_MAX) && (model_hints_put_##id(b, (uint8_t)v->i), true)
#define PUT_BOOL(id)         v->kind == MSC_ATTR_BOOL && (model_hints_put_##id(b, v->b), true)
#define PUT_FLAG_OR_NAME(id) v->kind == MSC_ATTR_BOOL && (model_hints_put_##id(b, v->b), true)
#define PUT_FLAG(id)         v->kind == MSC_ATTR_BOOL && (model_hints_put_##id(b, v->b), true)
#define PUT_CPU_ONLY(id)     v->kind == MSC_ATTR_STR && (model_hints_put_##id(b, v->s), true)
#define PUT_LIMIT(id)        false /* of a block's */

bool fbs_put_hint(flatbuf_builder *b, msc_arena *a, const char *name, const msc_attr_value *v) {
#define FACT(id, name, on, kind, from, until, meaning)
#define HINT(id, kind, until, meaning) \
  if (!strcmp(name, MSC_FACT(id))) return PUT_##kind(id);
#include "ir/fact.def"
#undef FACT
  return false;
}
