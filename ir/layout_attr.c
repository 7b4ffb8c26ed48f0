/* layout_attr.c: attributes with texts of layouts, as files and users have them, in; attributes with layouts on the
 * module's mesh out.  A module and a new mesh in; its layouts with the same names of axes on that mesh out. */
#include <string.h>

#include "ir/fact.h"
#include "ir/table.h"

typedef struct {
  const msc_layout *key, *to;
  bool is_wrong; /* reported */
} moved_layout;

typedef struct {
  const msc_module *m;
  const msc_loc *loc;  /* place of the op, function or module that has the attribute */
  const msc_mesh *old; /* the mesh of layouts that are pointers already; NULL: the module's */
  MSC_TABLE(moved_layout) moved;
  size_t changes;
  bool is_users; /* the attribute */
  bool ok;
} layout_converter;

/* Moves a layout to the module's present mesh; NULL after a report. */
static const msc_layout *move_layout(layout_converter *c, const msc_layout *l) {
  if (!c->old || !l) return l;
  moved_layout *known = msc_table_at(&c->moved, &l);
  if (known->to || known->is_wrong) return known->to;
  const char *text = msc_layout_print(c->moved.index.arena, c->old, l);
  known->is_wrong = !msc_layout_parse(c->m->ctx, &c->m->mesh, c->loc, text, &known->to);
  c->ok &= !known->is_wrong;
  return known->to;
}

static const msc_type *move_type(layout_converter *c, const msc_type *t) {
  return t && t->layout ? msc_type_with_layout(c->m->ctx, t, move_layout(c, t->layout)) : t;
}

/* Reads a text.  A user's text that cannot be read stays text: a later mesh may have its axes, or a pass reports it.
 * "": not given. */
static msc_attr_value read_text(layout_converter *c, msc_fact_kind kind, const msc_attr_value *v) {
  const msc_layout *l;
  bool digits = kind == MSC_FACT_DIGITS;
  if (!*v->s || (!digits && kind != MSC_FACT_LAYOUT)) return *v;
  msc_diag_mark before = msc_mark_diags(c->m->ctx);
  bool ok = digits ? msc_digits_parse(c->m->ctx, &c->m->mesh, c->loc, v->s, &l)
                   : msc_layout_parse(c->m->ctx, &c->m->mesh, c->loc, v->s, &l);
  if (!ok && c->is_users) msc_forget_diags(c->m->ctx, before);
  c->ok &= ok || c->is_users;
  c->changes += ok;
  return !ok ? *v : digits ? msc_digits_attr(l) : msc_layout_attr(l);
}

static msc_attr_value convert_value(layout_converter *c, msc_fact_kind kind, const msc_attr_value *v);

static msc_attr_value convert_list(layout_converter *c, msc_fact_kind kind, const msc_attr_value *v) {
  size_t before = c->changes;
  msc_attr_value *item = NULL, one;
  for (size_t i = 0; i < v->list.num; i++) {
    if (v->list.v[i].kind < MSC_ATTR_STR) continue; /* a number */
    one = convert_value(c, kind, &v->list.v[i]);
    if (!item && c->changes > before)
      item = msc_arena_copy(msc_context_arena(c->m->ctx), v->list.v, v->list.num * sizeof *item);
    if (item) item[i] = one;
  }
  return item ? (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {v->list.num, item}} : *v;
}

static msc_fact_kind kind_of_fact(const char *name) {
  const msc_fact_row *row = msc_fact_row_of(name);
  return row ? row->kind : MSC_FACT_ANY;
}

static msc_attr_value convert_dict(layout_converter *c, msc_fact_kind kind, const msc_attr_value *v) {
  size_t before = c->changes;
  msc_attr *member = NULL;
  for (size_t i = 0; i < v->dict.num; i++) {
    const msc_attr *a = &v->dict.a[i];
    msc_attr_value one =
        convert_value(c, kind == MSC_FACT_LETTERS ? MSC_FACT_DIGITS : kind_of_fact(a->name), &a->value);
    if (!member && c->changes > before)
      member = msc_arena_copy(msc_context_arena(c->m->ctx), v->dict.a, v->dict.num * sizeof *member);
    if (member) member[i].value = one;
  }
  return member ? (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {v->dict.num, member}} : *v;
}

static msc_attr_value convert_value(layout_converter *c, msc_fact_kind kind, const msc_attr_value *v) {
  msc_attr_value moved = *v;
  switch (v->kind) {
    case MSC_ATTR_STR: return read_text(c, kind, v);
    case MSC_ATTR_LIST: return convert_list(c, kind == MSC_FACT_LAYOUTS ? MSC_FACT_LAYOUT : kind, v);
    case MSC_ATTR_DICT: return convert_dict(c, kind, v);
    case MSC_ATTR_LAYOUT:
    case MSC_ATTR_DIGITS: moved.layout = move_layout(c, v->layout); break;
    case MSC_ATTR_TYPE: moved.type = move_type(c, v->type); break;
    default: break;
  }
  c->changes += c->old != NULL;
  return moved;
}

/* Returns what an attribute declared in the op's row holds: a layout, digits, or (TEXT) neither. *out_declared: true if
 * the row has it. */
static msc_fact_kind kind_in_row(const msc_op_info *info, const char *name, bool *out_declared) {
  for (int i = 0; info && i < info->num_attrs; i++) {
    const msc_attr_spec *s = &info->attr[i];
    if (strcmp(s->name, name)) continue;
    *out_declared = true;
    return s->kind == MSC_ATTR_LAYOUT ? MSC_FACT_LAYOUT : s->kind == MSC_ATTR_DIGITS ? MSC_FACT_DIGITS : MSC_FACT_TEXT;
  }
  return MSC_FACT_TEXT;
}

static void convert_attrs(layout_converter *c, msc_attr *attrs, size_t num, const msc_op_info *info) {
  for (size_t i = 0; i < num; i++) {
    bool declared = false;
    msc_fact_kind kind = kind_in_row(info, attrs[i].name, &declared);
    const msc_fact_row *row = declared ? NULL : msc_fact_row_of(attrs[i].name);
    c->is_users = row && msc_fact_is_users(row);
    attrs[i].value = convert_value(c, row ? row->kind : kind, &attrs[i].value);
  }
}

bool msc_read_layouts(const msc_module *m, const msc_loc *loc, msc_attr *attrs, size_t num, const msc_op_info *info) {
  layout_converter c = {.m = m, .loc = loc, .ok = true};
  convert_attrs(&c, attrs, num, info);
  return c.ok;
}

bool msc_users_layout(const msc_module *m, const msc_loc *loc, const msc_attr_value *v, const msc_layout **out_layout) {
  *out_layout = msc_attr_layout(v);
  if (*out_layout || !v || v->kind != MSC_ATTR_STR || !*v->s) return true;
  return msc_layout_parse(m->ctx, &m->mesh, loc, v->s, out_layout);
}

/* ---- another mesh ---- */

static void convert_block(layout_converter *c, msc_block *b) {
  for (size_t i = 0; i < b->num_args; i++) b->args[i]->type = move_type(c, b->args[i]->type);
  for (msc_op *op = b->first; op; op = op->next) {
    c->loc = op->loc;
    convert_attrs(c, op->attrs, op->num_attrs, msc_info(op));
    for (size_t i = 0; i < op->num_out; i++) {
      op->out[i].type = move_type(c, op->out[i].type);
      op->out[i].whole = move_type(c, op->out[i].whole);
    }
    if (op->body) convert_block(c, op->body);
  }
}

bool msc_change_mesh(msc_module *m, const msc_mesh *mesh) {
  msc_mesh old = m->mesh;
  if (!memcmp(&old, mesh, sizeof old)) return true;
  msc_arena *scratch = msc_arena_new(m->ctx);
  layout_converter c = {.m = m, .old = &old, .moved.index.arena = scratch, .ok = true};
  m->mesh = *mesh;
  for (msc_func *f = m->first; f; f = f->next) {
    c.loc = f->loc;
    convert_attrs(&c, f->attrs, f->num_attrs, NULL);
    for (size_t i = 0; i < f->body->num_args; i++) convert_attrs(&c, f->arg[i].attrs, f->arg[i].num_attrs, NULL);
    convert_block(&c, f->body);
  }
  msc_arena_free(scratch);
  return c.ok;
}

/* ---- texts again, for files ---- */

msc_attr_value msc_attr_with_texts(const msc_module *m, msc_arena *arena, const msc_attr_value *v) {
  if (v->kind == MSC_ATTR_LAYOUT) return msc_str(m->ctx, msc_layout_print(arena, &m->mesh, v->layout));
  if (v->kind == MSC_ATTR_DIGITS) return msc_str(m->ctx, msc_digits_print(arena, &m->mesh, v->layout));
  if (v->kind != MSC_ATTR_LIST) return *v;
  msc_attr_value *item = msc_new_array(arena, msc_attr_value, v->list.num);
  for (size_t i = 0; i < v->list.num; i++) item[i] = msc_attr_with_texts(m, arena, &v->list.v[i]);
  return (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {v->list.num, item}};
}
