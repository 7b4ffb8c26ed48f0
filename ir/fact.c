/* fact.c: the table of fact.def, and checks against it: attributes in, reports at the user's location out. */
#include "ir/fact.h"

#include <string.h>

const msc_fact_name_table msc_fact_names = {
#define FACT(id, name, on, kind, from, until, meaning) .id = name,
#include "ir/fact.def"
#undef FACT
};

const msc_fact_row msc_fact_rows[MSC_NUM_FACTS] = {
#define FACT(id, name, on, kind, from, until, meaning) \
  {msc_fact_names.id, MSC_ON_##on, MSC_FACT_##kind, from, until, meaning},
#include "ir/fact.def"
#undef FACT
};

/* Finds the row by the address of its name: rows have the order of these addresses. */
const msc_fact_row *msc_fact_row_of(const char *name) {
  if (!msc_is_fact_name(name)) return NULL;
  size_t low = 0, high = MSC_NUM_FACTS;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (name < msc_fact_rows[middle].name) high = middle;
    else low = middle;
  }
  return &msc_fact_rows[low];
}

const char *msc_fact_kind_text(msc_fact_kind kind) {
  static const char *const texts[] = {
#define X(name, text) text,
      MSC_FACT_KINDS(X)
#undef X
  };
  return texts[kind];
}

bool msc_fact_is_users(const msc_fact_row *row) { return strcmp(row->from, "user") == 0; }

/* ---- kinds ---- */

static bool is_list_of(msc_attr_kind kind, const msc_attr_value *v) {
  if (v->kind != MSC_ATTR_LIST) return false;
  for (size_t i = 0; i < v->list.num; i++)
    if (v->list.v[i].kind != kind) return false;
  return true;
}

static bool is_dict_of(msc_attr_kind kind, const msc_attr_value *v) {
  if (v->kind != MSC_ATTR_DICT) return false;
  for (size_t i = 0; i < v->dict.num; i++)
    if (v->dict.a[i].value.kind != kind) return false;
  return true;
}

static bool is_word_of(msc_word_set set, const msc_attr_value *v) {
  return v->kind == MSC_ATTR_STR && msc_word_parse(set, v->s) >= 0;
}

bool msc_fact_fits(msc_fact_kind kind, const msc_attr_value *v) {
  switch (kind) {
    case MSC_FACT_INT: return v->kind == MSC_ATTR_INT;
    case MSC_FACT_FLOAT: return v->kind == MSC_ATTR_FLOAT;
    case MSC_FACT_NUMBER: return v->kind == MSC_ATTR_FLOAT || v->kind == MSC_ATTR_INT;
    case MSC_FACT_BOOL: return v->kind == MSC_ATTR_BOOL;
    case MSC_FACT_TEXT: return v->kind == MSC_ATTR_STR;
    case MSC_FACT_HOME: return is_word_of(MSC_WORDS_home, v);
    case MSC_FACT_ROLE: return is_word_of(MSC_WORDS_role, v);
    case MSC_FACT_DECIDER: return is_word_of(MSC_WORDS_decider, v);
    case MSC_FACT_PROGRAM_KIND: return is_word_of(MSC_WORDS_program_kind, v);
    case MSC_FACT_SECTION_KIND: return is_word_of(MSC_WORDS_section_kind, v);
    case MSC_FACT_SLOT_CLASS: return is_word_of(MSC_WORDS_slot_class, v);
    case MSC_FACT_INTS: return is_list_of(MSC_ATTR_INT, v);
    case MSC_FACT_TEXTS: return is_list_of(MSC_ATTR_STR, v);
    case MSC_FACT_LIST: return v->kind == MSC_ATTR_LIST;
    case MSC_FACT_DICT: return v->kind == MSC_ATTR_DICT;
    case MSC_FACT_LAYOUT: return v->kind == MSC_ATTR_LAYOUT;
    case MSC_FACT_LAYOUTS: return is_list_of(MSC_ATTR_LAYOUT, v);
    case MSC_FACT_DIGITS: return v->kind == MSC_ATTR_DIGITS;
    case MSC_FACT_LETTERS: return is_dict_of(MSC_ATTR_DIGITS, v);
    default: return true;
  }
}

/* ---- dictionaries ---- */

static const struct {
  const char *name, *of;
  bool is_text;
} membership[] = {
#define FACT(id, name, on, kind, from, until, meaning)
#define MEMBER(id, of)      {msc_fact_names.id, msc_fact_names.of, false},
#define TEXT_MEMBER(id, of) {msc_fact_names.id, msc_fact_names.of, true},
#include "ir/fact.def"
#undef FACT
};
enum { NUM_MEMBERSHIPS = sizeof membership / sizeof *membership };

const msc_fact_row *msc_fact_member(const msc_fact_row *of, size_t *at) {
  for (size_t i = *at; i < NUM_MEMBERSHIPS; i++)
    if (membership[i].of == of->name) return *at = i + 1, msc_fact_row_of(membership[i].name);
  return NULL;
}

/* Returns the fault of a member's value, to follow the fact's name in a message; NULL: there is none. */
static const char *wrong_member(msc_arena *arena, const msc_fact_row *of, const msc_attr *a) {
  const msc_fact_row *row;
  const char *known[NUM_MEMBERSHIPS];
  size_t num = 0, at = 0;
  for (size_t i = 0; i < NUM_MEMBERSHIPS; i++) {
    if (membership[i].of != of->name || membership[i].name != a->name) continue;
    msc_fact_kind kind = membership[i].is_text ? MSC_FACT_TEXT : msc_fact_row_of(a->name)->kind;
    return msc_fact_fits(kind, &a->value)
               ? NULL
               : msc_arena_printf(arena, "member '%s' must be %s", a->name, msc_fact_kind_text(kind));
  }
  while ((row = msc_fact_member(of, &at))) known[num++] = row->name;
  const char *near = msc_nearest(a->name, known, num);
  return msc_arena_printf(arena, "has no member '%s'%s%s%s", a->name, near ? "; did you mean '" : "", near ? near : "",
                          near ? "'?" : "");
}

/* Returns the first fault in the dictionaries, or lists of them, of a fact that has members; NULL: there is none. */
static const char *wrong_members(msc_arena *arena, const msc_fact_row *of, const msc_attr_value *v) {
  const char *wrong = NULL;
  for (size_t i = 0; v->kind == MSC_ATTR_LIST && i < v->list.num && !wrong; i++)
    wrong = wrong_members(arena, of, &v->list.v[i]);
  for (size_t i = 0; v->kind == MSC_ATTR_DICT && i < v->dict.num && !wrong; i++)
    wrong = wrong_member(arena, of, &v->dict.a[i]);
  return wrong;
}

const char *msc_fact_wrong(msc_arena *arena, const msc_fact_row *row, const msc_attr_value *v) {
  size_t first = 0;
  if (msc_fact_is_users(row)) return NULL; /* pass annotations reports it */
  if (!msc_fact_fits(row->kind, v)) return msc_arena_printf(arena, "must be %s", msc_fact_kind_text(row->kind));
  return msc_fact_member(row, &first) ? wrong_members(arena, row, v) : NULL;
}

/* ---- weights ---- */

bool msc_is_weight_path(const char *path) {
  for (const char *p = path;; p++) {
    size_t n = strcspn(p, "/");
    if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
    p += n;
    if (!*p) return true;
  }
}

bool msc_is_weights(const msc_attr_value *v) {
  static const struct {
    const char *name;
    msc_attr_kind kind;
  } members[] = {{"file", MSC_ATTR_STR}, {"tensor", MSC_ATTR_STR}, {"bytes", MSC_ATTR_INT}, {"xxh3", MSC_ATTR_INT}};
  if (v->kind != MSC_ATTR_DICT) return false;
  size_t known = 0;
  for (int i = 0; i < 4; i++) {
    const msc_attr_value *m = msc_find_attr(v->dict.a, v->dict.num, members[i].name);
    if (m ? m->kind != members[i].kind : i < 2) return false;
    if (i == 0 && !msc_is_weight_path(m->s)) return false;
    known += m != NULL;
  }
  return known == v->dict.num;
}

static const char *nearest_fact(const char *name, unsigned on, bool users, const msc_op_info *info) {
  const char *words[MSC_NUM_FACTS + MSC_OP_ATTRS];
  size_t n = 0;
  for (const msc_fact_row *row = msc_fact_rows; row < msc_fact_rows + MSC_NUM_FACTS; row++)
    if ((row->on & on) && (!users || msc_fact_is_users(row))) words[n++] = row->name;
  for (int i = 0; info && i < info->num_attrs; i++) words[n++] = info->attr[i].name;
  return msc_nearest(name, words, n);
}

const char *msc_fact_hint(msc_arena *arena, const char *name, unsigned on, const msc_op_info *info) {
  if (msc_fact_row_of(name)) return ""; /* the fact stands on other things, or is not a user's */
  const char *near = nearest_fact(name, on, on & (MSC_ON_OP | MSC_ON_ARG), info);
  if (!near) near = nearest_fact(name, on, false, info);
  return near ? msc_arena_printf(arena, "; did you mean '%s'?", near) : "";
}

/* ---- functions, arguments, modules ---- */

const char *msc_name_of_arg(const msc_func *f, size_t arg) {
  const msc_attr_value *name = msc_arg_attr(f, arg, MSC_FACT(msc_name));
  if (name && name->kind == MSC_ATTR_STR) return name->s;
  return f->body->args[arg]->name ? f->body->args[arg]->name : "";
}

static bool check_attributes(const msc_module *m, const msc_loc *loc, const char *what, unsigned on,
                             const msc_attr *attrs, size_t num) {
  const char *quote = on == MSC_ON_ARG ? "'" : "", *thing = on == MSC_ON_ARG ? "argument " : "";
  bool ok = true;
  for (size_t i = 0; i < num; i++) {
    const msc_fact_row *row = msc_fact_row_of(attrs[i].name);
    const char *wrong = row ? msc_fact_wrong(msc_context_arena(m->ctx), row, &attrs[i].value) : NULL;
    if (!row || !(row->on & on))
      ok = msc_error(m->ctx, MSC_E_ROW, loc, "%s%s%s%s: there is no annotation '%s'%s", thing, quote, what, quote,
                     attrs[i].name, msc_fact_hint(msc_context_arena(m->ctx), attrs[i].name, on, NULL));
    else if (wrong)
      ok = msc_error(m->ctx, MSC_E_ROW, loc, "%s%s%s%s: attribute %s %s", thing, quote, what, quote, row->name, wrong);
  }
  return ok;
}

bool msc_check_facts(const msc_module *m) {
  bool ok = check_attributes(m, m->first ? m->first->loc : NULL, "module", MSC_ON_MODULE, m->attrs, m->num_attrs);
  for (const msc_func *f = m->first; f; f = f->next) {
    ok &= check_attributes(m, f->loc, f->name, MSC_ON_FUNC, f->attrs, f->num_attrs);
    for (size_t i = 0; i < f->body->num_args; i++)
      ok &= check_attributes(m, f->loc, msc_name_of_arg(f, i), MSC_ON_ARG, f->arg[i].attrs, f->arg[i].num_attrs);
  }
  return ok;
}

/* ---- what is gone ---- */

static const msc_fact_row *find_outlived(unsigned on, const msc_attr *attrs, size_t num, const char *stage) {
  for (size_t i = 0; i < num; i++) {
    const msc_fact_row *row = msc_fact_row_of(attrs[i].name);
    bool is_own = row && (row->on & on); /* false if the name is that of an attribute in the op's row */
    if (is_own && *row->until != '-' && *row->until <= *stage) return row; /* stages begin with their number */
  }
  return NULL;
}

bool msc_check_outlived(const msc_module *m, const char *stage) {
  for (const msc_func *f = m->first; f; f = f->next) {
    const msc_fact_row *row = find_outlived(MSC_ON_FUNC, f->attrs, f->num_attrs, stage);
    if (row)
      return msc_error(m->ctx, MSC_E_INTERNAL, f->loc, "%s: %s still stands behind %s", f->name, row->name, row->until);
    for (const msc_op *op = f->body->first; op; op = op->next)
      if ((row = find_outlived(MSC_ON_OP, op->attrs, op->num_attrs, stage)))
        return msc_op_error(op, MSC_E_INTERNAL, "%s: %s still stands behind %s", msc_kind_name(op->kind), row->name,
                            row->until);
  }
  return true;
}

/* ---- sorts ---- */

const char *msc_fact_of_sort(unsigned sort, size_t *at) {
  enum {
    STRATEGY = MSC_SORT_STRATEGY,
    CONSTRAINT = MSC_SORT_CONSTRAINT,
    BUDGET = MSC_SORT_BUDGET,
    BLOCK = MSC_SORT_BLOCK,
    RECOMPUTE = MSC_SORT_RECOMPUTE,
    EXPANSION = MSC_SORT_EXPANSION
  };
  static const struct {
    const char *name;
    unsigned sorts;
  } sorted[] = {
#define FACT(id, name, on, kind, from, until, meaning)
#define SORT(id, sorts) {msc_fact_names.id, sorts},
#include "ir/fact.def"
#undef FACT
  };
  for (size_t i = *at; i < sizeof sorted / sizeof *sorted; i++)
    if (sorted[i].sorts & sort) return *at = i + 1, sorted[i].name;
  return NULL;
}

bool msc_op_has_sort(const msc_op *op, unsigned sort) {
  const char *name;
  for (size_t at = 0; (name = msc_fact_of_sort(sort, &at));)
    if (msc_op_attr(op, name)) return true;
  return false;
}

void msc_op_unset_sort(msc_op *op, unsigned sort) {
  const char *name;
  for (size_t at = 0; (name = msc_fact_of_sort(sort, &at));) msc_op_unset(op, name);
}

void msc_op_copy_sort(msc_op *to, const msc_op *from, unsigned sort) {
  const char *name;
  for (size_t at = 0; (name = msc_fact_of_sort(sort, &at));)
    if (msc_op_attr(from, name)) msc_op_set(to, name, *msc_op_attr(from, name));
}

/* ---- what is missing ---- */

enum { ON_EVERY_FUNC = OP_COUNT };

static const struct {
  const char *name, *after;
  int on; /* an op's kind, or ON_EVERY_FUNC */
} needs[] = {
#define FACT(id, name, on, kind, from, until, meaning)
#define NEED(id, after)           {msc_fact_names.id, after, ON_EVERY_FUNC},
#define NEED_ON_OP(id, op, after) {msc_fact_names.id, after, OP_##op},
#include "ir/fact.def"
#undef FACT
};

const char *msc_fact_need(const msc_fact_row *row, size_t *at, const char **out_op) {
  for (size_t i = *at; i < sizeof needs / sizeof *needs; i++) {
    if (needs[i].name != row->name) continue;
    *at = i + 1, *out_op = needs[i].on == ON_EVERY_FUNC ? NULL : msc_kind_name((unsigned)needs[i].on);
    return needs[i].after;
  }
  return NULL;
}

static bool check_need(const msc_module *m, const char *name, int on, const char *stage) {
  for (const msc_func *f = m->first; f; f = f->next) {
    if (on == ON_EVERY_FUNC && !msc_func_attr(f, name))
      return msc_error(m->ctx, MSC_E_INTERNAL, f->loc, "%s: %s is missing behind %s", f->name, name, stage);
    for (const msc_op *op = f->body->first; op; op = op->next)
      if ((int)op->kind == on && !msc_op_attr(op, name))
        return msc_op_error(op, MSC_E_INTERNAL, "%s: %s is missing behind %s", msc_kind_name(op->kind), name, stage);
  }
  return true;
}

bool msc_check_missing(const msc_module *m, const char *stage) {
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (!strcmp(needs[i].after, stage)) MSC_TRY(check_need(m, needs[i].name, needs[i].on, stage));
  return true;
}
