/* sizes.c: the sizes that a model leaves to its user, --dim, and formulas in; the formulas' values out.  A formula is a
 * sum of products of whole numbers and names, "2*batch+1", in parentheses if a number divides it. */
#include <ctype.h>
#include <string.h>

#include "ir/fbs/fbs.h"

/* ---- texts ---- */

typedef struct {
  fbs_reader *r;
  const char *at;
  bool ok;
} size_text;

static bool takes_char(size_text *t, char c) {
  if (*t->at != c) return false;
  t->at++;
  return true;
}

static int64_t read_digits(size_text *t) {
  int64_t v = 0;
  for (; isdigit((unsigned char)*t->at); t->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *t->at - '0', &v)) t->ok = false;
  return v;
}

/* Reads a number, or the name of a size of the model, whose value it returns. */
static int64_t read_factor(size_text *t) {
  if (isdigit((unsigned char)*t->at)) return read_digits(t);
  const char *from = t->at;
  while (isalnum((unsigned char)*t->at) || *t->at == '_' || *t->at == '.') t->at++;
  size_t bytes = (size_t)(t->at - from);
  for (size_t i = 0; i < t->r->num_sizes; i++)
    if (bytes && strlen(t->r->size[i].name) == bytes && !memcmp(t->r->size[i].name, from, bytes))
      return t->r->size[i].size;
  t->ok = false;
  return 0;
}

static int64_t read_product(size_text *t) {
  int64_t v = read_factor(t);
  while (t->ok && takes_char(t, '*'))
    if (__builtin_mul_overflow(v, read_factor(t), &v)) t->ok = false;
  return v;
}

static int64_t read_sum(size_text *t) {
  int64_t v = 0;
  bool minus = takes_char(t, '-');
  do {
    int64_t term = read_product(t);
    if (minus ? __builtin_sub_overflow(v, term, &v) : __builtin_add_overflow(v, term, &v)) t->ok = false;
    minus = t->ok && *t->at == '-';
  } while (t->ok && (takes_char(t, '+') || takes_char(t, '-')));
  return v;
}

bool fbs_evaluate_size(fbs_reader *r, fbs_place p, const char *text, int64_t *out) {
  size_text t = {r, text, true};
  bool is_divided = takes_char(&t, '(');
  int64_t v = read_sum(&t), by = 1;
  if (is_divided) {
    t.ok = t.ok && takes_char(&t, ')') && takes_char(&t, '/');
    by = t.ok ? read_digits(&t) : 1;
  }
  if (!t.ok || *t.at || by < 1) return fbs_error(r, MSC_E_FORMAT, p, "'%s' is no size", text);
  if (v % by) return fbs_error(r, MSC_E_SHAPE, p, "%s is no whole number for these sizes", text);
  *out = v / by;
  return true;
}

bool fbs_apply_size(fbs_reader *r, fbs_place p, const char *text, uint32_t bytes, int64_t *number) {
  if (!bytes) return true;
  if (bytes > FBS_MAX_SIZE_TEXT)
    return fbs_error(r, MSC_E_FORMAT, p, "a size has %u bytes, at most %d are possible", bytes, FBS_MAX_SIZE_TEXT);
  const char *own = fbs_text(r, p, text, bytes);
  return own && fbs_evaluate_size(r, p, own, number);
}

/* ---- what the model names, and what --dim says of it ---- */

/* True if --dim number i gives the size `name`. It may be called by this name, by a dimension of an input that has this
 * size, "x.1", or "batch" if that dimension is the batch. */
static bool is_named(fbs_reader *r, const char *name, size_t i) {
  const char *said = r->dim[i].name;
  if (!strcmp(said, name)) return true;
  for (uint32_t k = 0; k < model_model_inputs_num(r->model); k++) {
    model_input in = model_model_inputs(r->model, k);
    uint32_t value = model_input_value(in), num_types = model_model_types_num(r->model);
    if (value >= model_model_value_types_num(r->model) || model_model_value_types(r->model, value) >= num_types)
      continue;
    model_type t = model_model_types(r->model, model_model_value_types(r->model, value));
    for (uint32_t d = 0; d < model_type_sizes_num(t); d++) {
      const char *own = model_type_sizes(t, d);
      if (strlen(name) != model_type_sizes_len(t, d) || memcmp(own, name, strlen(name))) continue;
      if (!strcmp(said, msc_arena_printf(r->scratch, "%s.%u", model_input_name(in), d))) return true;
      if (!strcmp(said, "batch") && model_input_batch_dim(in) == (int)d) return true;
    }
  }
  return false;
}

static bool read_size(fbs_reader *r, uint32_t i, model_size m) {
  fbs_place p = fbs_at_file(r, "size %u", i);
  const char *name = fbs_text(r, p, model_size_name(m), model_size_name_len(m));
  if (!name) return false;
  p.what = msc_arena_printf(r->scratch, "size %s", name);
  if (!isalpha((unsigned char)*name) && *name != '_') return fbs_error(r, MSC_E_FORMAT, p, "is no name");
  for (size_t k = 0; k < r->num_sizes; k++)
    if (!strcmp(r->size[k].name, name)) return fbs_error(r, MSC_E_FORMAT, p, "occurs twice");
  int64_t value = model_size_value(m), low = model_size_low(m), high = model_size_high(m);
  const char *by = NULL;
  bool ok = true;
  for (size_t k = 0; k < r->num_dims; k++) {
    if (!is_named(r, name, k)) continue;
    if (by && r->dim[k].size != value)
      ok = fbs_error(r, MSC_E_SHAPE, p, "is %" PRId64 " by --dim %s and %" PRId64 " by --dim %s", value, by,
                     r->dim[k].size, r->dim[k].name);
    value = r->dim[k].size, by = r->dim[k].name, r->dim_used[k] = true;
  }
  if (!value && !by) {
    r->is_size_missing = true;
    return fbs_error(r, MSC_E_SHAPE, p, "has no value; give it with --dim %s=SIZE", name);
  }
  r->size[r->num_sizes++] = (msc_dim_size){name, value}; /* also a faulty one, so that the rest can be checked */
  if (value < 1 || value < low || (high && value > high)) {
    const char *bound = high ? msc_arena_printf(r->scratch, "%" PRId64 " to %" PRId64, low, high)
                             : msc_arena_printf(r->scratch, "%" PRId64 " and more", low < 1 ? 1 : low);
    return fbs_error(r, MSC_E_SHAPE, p, "is %" PRId64 "; the model was made for %s", value, bound);
  }
  return ok;
}

bool fbs_read_sizes(fbs_reader *r) {
  uint32_t num = model_model_sizes_num(r->model);
  if (num > FBS_MAX_SIZES)
    return fbs_error(r, MSC_E_FORMAT, fbs_at_file(r, "sizes"), "are %u, at most %d are possible", num, FBS_MAX_SIZES);
  r->size = msc_new_array(r->scratch, msc_dim_size, num + 1);
  for (uint32_t i = 0; i < num && r->num_errors < FBS_MAX_ERRORS; i++) read_size(r, i, model_model_sizes(r->model, i));
  return !r->is_size_missing;
}
