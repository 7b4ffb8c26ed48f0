/* tuple_to_parts.c: in_strategy, the number of parts of every dimension of every operand -> the number of parts of
 * every letter; or a report that names a legal strategy. */
#include <string.h>

#include "passes/3_shard/shard.h"

typedef struct {
  const shard_graph *g;
  const msc_op *op;
  const msc_rule *rule;
  const msc_attr_value *tuple;
  int64_t devices;
  int64_t parts[MSC_MAX_LETTERS];                    /* 0: not seen */
  int tensor[MSC_MAX_LETTERS], dim[MSC_MAX_LETTERS]; /* where a letter was seen first */
} tuple_reader;

static int64_t parts_of(const tuple_reader *d, int tensor, int dim) { return d->tuple->list.v[tensor].list.v[dim].i; }

/* ---- shape of the tuple: every fault of it is reported ---- */

static const char *entry_text(const tuple_reader *d, const msc_attr_value *v) {
  return v->kind == MSC_ATTR_INT ? msc_arena_printf(d->g->arena, "%" PRId64, v->i)
                                 : msc_attr_text(d->g->arena, d->g->mesh, v);
}

static bool check_entry(const tuple_reader *d, int tensor, const msc_attr_value *dims) {
  const char *operand = shard_tensor_text(d->g, d->op, tensor);
  bool ok = true;
  if (dims->kind != MSC_ATTR_LIST)
    return msc_op_error(d->op, MSC_E_STRATEGY,
                        "in_strategy: the entry of %s must be a list of parts, one for each dimension", operand);
  if (dims->list.num != d->rule->tensor[tensor].rank)
    return msc_op_error(d->op, MSC_E_STRATEGY, "in_strategy: %s has rank %d, its entry has %zu numbers", operand,
                        d->rule->tensor[tensor].rank, dims->list.num);
  for (size_t i = 0; i < dims->list.num; i++)
    if (dims->list.v[i].kind != MSC_ATTR_INT || dims->list.v[i].i < 1)
      ok =
          msc_op_error(d->op, MSC_E_STRATEGY,
                       "in_strategy: dimension %zu of %s: the number of parts must be an integer of at least 1, not %s",
                       i, operand, entry_text(d, &dims->list.v[i]));
  return ok;
}

static bool check_shape_of_tuple(const tuple_reader *d) {
  const msc_op *op = d->op;
  const msc_attr_value *v = d->tuple;
  if (v->kind != MSC_ATTR_LIST)
    return msc_op_error(op, MSC_E_STRATEGY,
                        "in_strategy must be a list with one list of parts for each operand, such as [[2, 1], [1, 4]]");
  int num = shard_annotated_operands(op);
  if (v->list.num != (size_t)num && v->list.num != op->num_in)
    return msc_op_error(op, MSC_E_STRATEGY,
                        "in_strategy must have one entry for each of the %d operands of %s, not %zu", num,
                        msc_kind_name(op->kind), v->list.num);
  bool ok = true;
  for (int t = 0; t < (int)v->list.num; t++) ok &= check_entry(d, t, &v->list.v[t]);
  return ok;
}

/* ---- one dimension ---- */

/* Can the letter be cut into p equal parts; of windows, those or what they slide over? */
static bool is_divisible(const msc_letter *l, int64_t p) {
  return msc_letter_allows(l, p) && (l->size % p == 0 || (l->halo && l->over % p == 0));
}

/* Splits p parts of a dimension among its letters, major first; false: the sizes do not allow it. */
static bool split_parts(const msc_rule *rule, const msc_dim_letters *dim, int64_t p, int64_t *out_parts) {
  if (dim->split) { /* the op itself names the parts: all of them, or one */
    out_parts[0] = p;
    return p == 1 || (p == dim->num_split && rule->letter[dim->letter[0]].role != MSC_REP);
  }
  for (int i = 0; i < dim->num; i++) {
    const msc_letter *l = &rule->letter[dim->letter[i]];
    int64_t take = p < l->size ? p : l->size;
    out_parts[i] = take > 1 ? take : 1;
    if (take > 1 && (!is_divisible(l, take) || p % take)) return false;
    p /= out_parts[i];
  }
  return p == 1;
}

/* The largest legal number of parts that is at most p, or with `above` the smallest above p; 0: none. */
static int64_t legal_parts(const tuple_reader *d, const msc_dim_letters *dim, int64_t p, bool above) {
  int64_t found = 0, unused[MSC_MAX_LETTERS];
  for (int64_t k = 1; k <= d->devices && (above ? !found : k <= p); k++)
    if (d->devices % k == 0 && (!above || k > p) && split_parts(d->rule, dim, k, unused)) found = k;
  return found;
}

static bool report_bad_parts(const tuple_reader *d, int tensor, int dim) {
  const msc_dim_letters *letters = &d->rule->tensor[tensor].dim[dim];
  const msc_type *t = d->op->in[tensor].value->type;
  int64_t p = parts_of(d, tensor, dim), low = legal_parts(d, letters, p, false),
          high = legal_parts(d, letters, p, true);
  const char *operand = shard_tensor_text(d->g, d->op, tensor);
  bool may_be_cut = letters->num == 1 && d->rule->letter[letters->letter[0]].role != MSC_REP;
  if (low <= 1 && !high && !(may_be_cut && t->dim[dim] % p))
    return msc_op_error(d->op, MSC_E_STRATEGY,
                        "in_strategy: dimension %d of %s must stay whole in %s%s, not be cut into %" PRId64 " parts",
                        dim, operand, msc_kind_name(d->op->kind), shard_gradient_text(d->g, d->op, letters), p);
  const char *nearest = high ? msc_arena_printf(d->g->arena, "%" PRId64 " or %" PRId64, low, high)
                             : msc_arena_printf(d->g->arena, "%" PRId64, low);
  if (t->dim[dim] % p)
    return msc_op_error(d->op, MSC_E_STRATEGY,
                        "in_strategy: dimension %d of %s has %" PRId64 " elements, which do not divide into %" PRId64
                        " parts; nearest legal: %s",
                        dim, operand, t->dim[dim], p, nearest);
  return msc_op_error(d->op, MSC_E_STRATEGY,
                      "in_strategy: dimension %d of %s cannot be cut into %" PRId64 " parts in %s; nearest legal: %s",
                      dim, operand, p, msc_kind_name(d->op->kind), nearest);
}

static bool read_dim(tuple_reader *d, int tensor, int dim) {
  const msc_dim_letters *letters = &d->rule->tensor[tensor].dim[dim];
  int64_t parts[MSC_MAX_LETTERS];
  if (!split_parts(d->rule, letters, parts_of(d, tensor, dim), parts)) return report_bad_parts(d, tensor, dim);
  for (int i = 0; i < letters->num; i++) {
    int l = letters->letter[i];
    if (d->parts[l] && d->parts[l] != parts[i])
      return msc_op_error(d->op, MSC_E_STRATEGY,
                          "in_strategy: dimension %d of %s and dimension %d of %s are the same letter '%c' of %s, but "
                          "are cut into %" PRId64 " and %" PRId64 " parts",
                          d->dim[l], shard_tensor_text(d->g, d->op, d->tensor[l]), dim,
                          shard_tensor_text(d->g, d->op, tensor), d->rule->letter[l].name, msc_kind_name(d->op->kind),
                          d->parts[l], parts[i]);
    if (d->parts[l]) continue;
    d->parts[l] = parts[i];
    d->tensor[l] = tensor, d->dim[l] = dim;
  }
  return true;
}

/* ---- notes on what would be legal ---- */

static const char *tuple_text(msc_arena *a, const msc_rule *rule, int num, const int64_t *parts) {
  const char *text = "";
  for (int t = 0; t < num; t++) {
    text = msc_arena_printf(a, "%s%s[", text, t ? ", " : "");
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      int64_t p = 1;
      for (int i = 0; i < rule->tensor[t].dim[d].num; i++) p *= parts[rule->tensor[t].dim[d].letter[i]];
      text = msc_arena_printf(a, "%s%s%" PRId64, text, d ? ", " : "", p);
    }
    text = msc_arena_printf(a, "%s]", text);
  }
  return msc_arena_printf(a, "[%s]", text);
}

/* Suggests a legal strategy: each letter is cut as its first operand says, or into the next lower legal number of
 * parts, while devices are left. */
static void note_legal(const tuple_reader *d) {
  int64_t parts[MSC_MAX_LETTERS], left = d->devices;
  bool seen[MSC_MAX_LETTERS] = {false};
  for (int l = 0; l < d->rule->num_letters; l++) parts[l] = 1;
  for (int t = 0; t < d->rule->num_in; t++)
    for (int dim = 0; dim < d->rule->tensor[t].rank; dim++) {
      const msc_dim_letters *letters = &d->rule->tensor[t].dim[dim];
      int64_t p = parts_of(d, t, dim);
      if (letters->num != 1 || seen[letters->letter[0]]) continue;
      for (p = p < left ? p : left; p > 1 && (left % p || legal_parts(d, letters, p, false) != p);) p--;
      parts[letters->letter[0]] = p;
      seen[letters->letter[0]] = true;
      left /= p;
    }
  msc_note(d->g->ctx, d->op->loc, "a legal strategy: %s",
           tuple_text(d->g->arena, d->rule, shard_annotated_operands(d->op), parts));
}

/* Would the strategy be legal if the last two numbers of the second operand changed places? */
static bool is_legal_swapped(const tuple_reader *d) {
  tuple_reader other = *d;
  msc_attr_value entry[2] = {d->tuple->list.v[0], d->tuple->list.v[1]}, numbers[MSC_MAX_RANK], tuple = *d->tuple;
  size_t n = entry[1].list.num;
  memcpy(numbers, entry[1].list.v, n * sizeof *numbers);
  numbers[n - 1] = entry[1].list.v[n - 2], numbers[n - 2] = entry[1].list.v[n - 1];
  entry[1].list.v = numbers;
  tuple.list.v = entry;
  other.tuple = &tuple;
  memset(other.parts, 0, sizeof other.parts);
  for (int t = 0; t < 2; t++)
    for (int dim = 0; dim < d->rule->tensor[t].rank; dim++) {
      const msc_dim_letters *letters = &d->rule->tensor[t].dim[dim];
      int64_t p = parts_of(&other, t, dim);
      if (letters->num != 1 || legal_parts(d, letters, p, false) != p) return p == 1 && letters->num == 0;
      if (other.parts[letters->letter[0]] && other.parts[letters->letter[0]] != p) return false;
      other.parts[letters->letter[0]] = p;
    }
  return true;
}

/* If the second operand is stored transposed, adds a note on the order of its numbers. */
static void note_transposed(const tuple_reader *d) {
  bool product = msc_form_of(d->op) == MSC_FORM_PRODUCT;
  if (!product || !msc_op_bool(d->op, "transpose_b")) return;
  msc_note(d->g->ctx, d->op->loc, "%s is stored transposed, [n, k]: its entry gives the parts of n, then those of k%s",
           shard_tensor_text(d->g, d->op, 1),
           is_legal_swapped(d) ? "; stored as [k, n] the given strategy would be legal" : "");
}

/* ---- all ---- */

static bool check_product(const tuple_reader *d) {
  int64_t product = 1;
  for (int l = 0; l < d->rule->num_letters; l++)
    if (__builtin_mul_overflow(product, d->parts[l], &product)) product = INT64_MAX;
  if (product > d->devices)
    return msc_op_error(d->op, MSC_E_STRATEGY,
                        "in_strategy cuts %s into %" PRId64 " parts, more than the %" PRId64 " devices",
                        msc_kind_name(d->op->kind), product, d->devices);
  if (d->devices % product == 0) return true;
  return msc_op_error(d->op, MSC_E_STRATEGY,
                      "in_strategy cuts %s into %" PRId64 " parts, which do not divide the %" PRId64 " devices",
                      msc_kind_name(d->op->kind), product, d->devices);
}

/* Reads all entries and reports every dimension that is wrong. */
static bool read_all(tuple_reader *d) {
  bool ok = true;
  for (int t = 0; t < d->rule->num_in; t++)
    for (int dim = 0; dim < d->rule->tensor[t].rank; dim++) ok &= read_dim(d, t, dim);
  if (!ok) return false;
  for (int l = 0; l < d->rule->num_letters; l++)
    if (!d->parts[l]) d->parts[l] = 1;
  return check_product(d);
}

bool shard_tuple_parts(const shard_graph *g, int group, int64_t *out_parts) {
  const msc_op *op = g->group[group].leader;
  tuple_reader d = {.g = g,
                    .op = op,
                    .rule = &g->group[group].rule,
                    .tuple = msc_op_attr(op, MSC_FACT(in_strategy)),
                    .devices = msc_mesh_size(g->mesh)};
  MSC_TRY(check_shape_of_tuple(&d));
  if (read_all(&d)) {
    memcpy(out_parts, d.parts, sizeof d.parts);
    return true;
  }
  note_legal(&d);
  note_transposed(&d);
  return false;
}

void shard_matrix_order(const msc_op *op, const msc_rule *rule, uint8_t *out_letter) {
  for (int l = 0; l < rule->num_letters; l++) out_letter[l] = (uint8_t)l;
  if (msc_form_of(op) != MSC_FORM_PRODUCT || !msc_op_bool(op, "transpose_a")) return;
  const msc_dim_letters *last = &rule->tensor[0].dim[rule->tensor[0].rank - 2];
  int k = last[0].letter[0], m = last[1].letter[0];
  out_letter[k] = (uint8_t)m, out_letter[m] = (uint8_t)k;
}
