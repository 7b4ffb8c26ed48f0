/* check_row.c: an op in; true, or a report of each difference from its row of op.def (numbers of operands and results,
 * attributes and their kinds) out. */
#include <string.h>

#include "ir/ir.h"

static const char *kind_text(const msc_attr_spec *s) {
  static const char *const scalar[] = {"an integer",   "a float", "a bool",         "a string", "a list",
                                       "a dictionary", "a type",  "dense elements", "a layout", "digits of mesh axes"};
  static const char *const list[] = {[MSC_ATTR_INT] = "a list of integers",
                                     [MSC_ATTR_FLOAT] = "a list of floats",
                                     [MSC_ATTR_LAYOUT] = "a list of layouts",
                                     [MSC_ATTR_DIGITS] = "a list of digits of mesh axes"};
  if (s->is_nested) return "a list of lists of integers";
  return s->is_list ? list[s->kind] : scalar[s->kind];
}

static bool item_fits(msc_attr_kind want, const msc_attr_value *v) {
  return v->kind == want || (want == MSC_ATTR_FLOAT && v->kind == MSC_ATTR_INT);
}

static bool list_fits(const msc_attr_spec *s, const msc_attr_value *v, bool nested) {
  if (v->kind != MSC_ATTR_LIST) return false;
  for (size_t i = 0; i < v->list.num; i++)
    if (nested ? !list_fits(s, &v->list.v[i], false) : !item_fits(s->kind, &v->list.v[i])) return false;
  return true;
}

enum { MOST_WORDS = 32 };

/* Lists the words that an attribute may be; returns how many, 0: it may be any text. */
static int list_words(const msc_attr_spec *s, const char *out_words[MOST_WORDS]) {
  int num = 0;
  if (s->sense == MSC_SENSE_VERB)
    for (; num < MSC_NUM_VERBS; num++) out_words[num] = msc_verb_name((msc_verb)num);
  else if (s->sense == MSC_SENSE_REDUCTION)
    for (; num < MSC_NUM_REDUCTIONS; num++) out_words[num] = msc_reduction_name((msc_reduction)num);
  else if (s->sense == MSC_SENSE_DTYPE)
    for (; num < MSC_NUM_DTYPES; num++) out_words[num] = msc_dtype_name((msc_dtype)num);
  else if (s->sense == MSC_SENSE_WORD) {
    const char *const *words = msc_words_of(s->words, &num);
    memcpy(out_words, words, (size_t)num * sizeof *words);
  }
  return num;
}

/* True if the attribute is one of the words that its row's kind allows; else reports. */
static bool check_word(const msc_op *op, const msc_attr_spec *s, const char *word) {
  const char *words[MOST_WORDS], *all = "";
  msc_arena *arena = msc_context_arena(msc_op_ctx(op));
  msc_dtype dtype;
  int num = list_words(s, words);
  if (!num || (s->sense == MSC_SENSE_DTYPE && msc_dtype_parse(word, &dtype))) return true;
  for (int i = 0; i < num; i++)
    if (!strcmp(words[i], word)) return true;
  for (int i = 0; i < num; i++) all = msc_arena_printf(arena, "%s%s%s", all, i ? " " : "", words[i]);
  const char *near = msc_nearest(word, words, (size_t)num);
  return msc_op_error(op, MSC_E_ROW, "%s: %s \"%s\" is not one of: %s%s%s%s", msc_info(op)->name, s->name, word, all,
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool check_attrs(const msc_op *op, const msc_op_info *info) {
  bool ok = true;
  for (int i = 0; i < info->num_attrs; i++) {
    const msc_attr_spec *s = &info->attr[i];
    const msc_attr_value *v = msc_op_attr(op, s->name);
    if (!v) {
      if (!s->has_default) ok = msc_op_error(op, MSC_E_ROW, "%s: attribute %s is missing", info->name, s->name);
    } else if (s->is_list ? !list_fits(s, v, s->is_nested) : !item_fits(s->kind, v)) {
      ok = msc_op_error(op, MSC_E_ROW, "%s: attribute %s must be %s", info->name, s->name, kind_text(s));
    } else if (v->kind == MSC_ATTR_STR) {
      ok &= check_word(op, s, v->s);
    }
  }
  return ok;
}

/* Returns a range of counts as text: "2", "at least 1", "1 to 3". */
static const char *count_text(msc_arena *a, int min, int max) {
  if (max < 0) return msc_arena_printf(a, "at least %d", min);
  return min == max ? msc_arena_printf(a, "%d", min) : msc_arena_printf(a, "%d to %d", min, max);
}

bool msc_check_row(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  msc_arena *a = msc_context_arena(msc_op_ctx(op));
  bool ok = true;
  if (op->num_in < info->min_in || (info->max_in >= 0 && op->num_in > info->max_in))
    ok = msc_op_error(op, MSC_E_ROW, "%s: takes %s operands, not %d", info->name,
                      count_text(a, info->min_in, info->max_in), op->num_in);
  if (op->num_out < info->min_out || (info->max_out >= 0 && op->num_out > info->max_out))
    ok = msc_op_error(op, MSC_E_ROW, "%s: has %s results, not %d", info->name,
                      count_text(a, info->min_out, info->max_out), op->num_out);
  return check_attrs(op, info) && ok;
}
