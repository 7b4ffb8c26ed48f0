/* join_points.c: readings of one model, each with other values of its open sizes, in; for each number that differs
 * between the readings a formula of the sizes, such as "2*batch+1", out. sizes.c reads these formulas. */
#include <string.h>

#include "ir/fbs/join_points.h"
#include "ir/formula.h"
#include "ir/interp/interp.h"

/* ---- formulas ---- */

/* Computes a factor of the polynomial that equals v at the corners: that of the product of the sizes in `set`, times
 * the product of the distances between the two values of each size. False: the numbers are too large. */
static bool find_factor(const fbs_open *o, const int64_t *v, unsigned set, int64_t *out) {
  const int64_t *from = o->point[0].size, *to = o->point[(1u << o->num_names) - 1].size;
  *out = 0;
  for (unsigned corner = 0; corner < 1u << o->num_names; corner++) {
    int64_t term = v[corner];
    for (size_t i = 0; i < o->num_names; i++) {
      bool up = corner >> i & 1;
      int64_t by = set >> i & 1 ? (up ? 1 : -1) : up ? -from[i] : to[i];
      if (__builtin_mul_overflow(term, by, &term)) return false;
    }
    if (__builtin_add_overflow(*out, term, out)) return false;
  }
  return true;
}

static bool product_of(const fbs_open *o, const int64_t *size, unsigned set, int64_t *out) {
  *out = 1;
  for (size_t i = 0; i < o->num_names; i++)
    if (set >> i & 1 && __builtin_mul_overflow(*out, size[i], out)) return false;
  return true;
}

/* True if the polynomial also gives v at the points that are no corners. */
static bool polynomial_holds(const fbs_open *o, const int64_t *v, const int64_t *factor, int64_t divisor) {
  for (size_t p = (size_t)1 << o->num_names; p < o->num_points; p++) {
    int64_t sum = 0, product, wanted;
    for (unsigned set = 0; set < 1u << o->num_names; set++)
      if (!product_of(o, o->point[p].size, set, &product) || __builtin_mul_overflow(product, factor[set], &product) ||
          __builtin_add_overflow(sum, product, &sum))
        return false;
    if (__builtin_mul_overflow(v[p], divisor, &wanted) || sum != wanted) return false;
  }
  return true;
}

/* "+2*batch*x.1" */
static const char *text_of_term(const fbs_open *o, const char *before, int64_t factor, unsigned set) {
  int64_t n = factor < 0 ? -factor : factor;
  const char *sign = factor < 0 ? "-" : *before ? "+" : "";
  const char *text = n != 1 || !set ? msc_arena_printf(o->arena, "%s%s%" PRId64, before, sign, n)
                                    : msc_arena_printf(o->arena, "%s%s", before, sign);
  bool first = n == 1 && set;
  for (size_t i = 0; i < o->num_names; i++)
    if (set >> i & 1) text = msc_arena_printf(o->arena, "%s%s%s", text, first ? "" : "*", o->name[i]), first = false;
  return text;
}

const char *fbs_formula(fbs_open *o, const int64_t *v) {
  int64_t factor[1 << MSC_MAX_OPEN_SIZES], divisor = 1, by;
  unsigned num = 1u << o->num_names;
  bool same = true;
  for (size_t p = 1; p < o->num_points; p++) same &= v[p] == v[0];
  if (same) return "";
  for (size_t i = 0; i < o->num_names; i++) divisor *= o->point[num - 1].size[i] - o->point[0].size[i];
  for (unsigned set = 0; set < num; set++)
    if (!find_factor(o, v, set, &factor[set])) return NULL;
  if (!polynomial_holds(o, v, factor, divisor)) return NULL;
  by = divisor;
  for (unsigned set = 0; set < num; set++) by = msc_gcd(by, factor[set]);
  if (by < 0) by = -by;
  const char *text = "";
  for (int minus = 0; minus < 2; minus++)
    for (int names = (int)o->num_names; names >= 0; names--)
      for (unsigned set = 0; set < num; set++)
        if (__builtin_popcount(set) == names && factor[set] && (factor[set] < 0) == minus)
          text = text_of_term(o, text, factor[set] / by, set);
  return divisor == by ? text : msc_arena_printf(o->arena, "(%s)/%" PRId64, text, divisor / by);
}

const char *const *fbs_open_texts(const fbs_open *o, const void *of) {
  const fbs_open_item *item = msc_table_find(&o->items, &of);
  return item ? item->text : NULL;
}

/* ---- numbers that differ ---- */

static bool differs(fbs_open *o, const msc_op *op, const char *what) {
  if (!o->wrong) o->wrong = what, o->wrong_op = op;
  return false;
}

/* Joins lists of `num` numbers, v[i] at point i, that belong to the address `of`: numbers that differ become formulas.
 * */
static bool join_numbers(fbs_open *o, const msc_op *op, const void *of, const char *what, size_t num,
                         const int64_t *const *v, bool keep) {
  const char **text = msc_new_array(o->arena, const char *, num + 1);
  int64_t of_one[FBS_MAX_POINTS];
  bool any = false;
  for (size_t i = 0; i < num; i++) {
    for (size_t p = 0; p < o->num_points; p++) of_one[p] = v[p][i];
    if (!(text[i] = fbs_formula(o, of_one))) return differs(o, op, what);
    any |= *text[i] != 0;
  }
  if (any && keep) msc_table_at(&o->items, &of)->text = text;
  return true;
}

static bool join_types(fbs_open *o, const msc_op *op, const void *of, const msc_type *const *t, bool keep) {
  const int64_t *dim[FBS_MAX_POINTS];
  for (size_t p = 0; p < o->num_points; p++) {
    if (t[p]->dtype != t[0]->dtype || t[p]->rank != t[0]->rank) return differs(o, op, "the type of a result");
    dim[p] = t[p]->dim;
  }
  return join_numbers(o, op, of, "a dimension", (size_t)t[0]->rank, dim, keep);
}

static bool is_list_of_ints(const msc_attr_value *v) {
  if (v->kind != MSC_ATTR_LIST) return false;
  for (size_t i = 0; i < v->list.num; i++)
    if (v->list.v[i].kind != MSC_ATTR_INT) return false;
  return true;
}

/* Joins an attribute, which is a[i] at point i. */
static bool join_attr(fbs_open *o, const msc_op *op, const msc_attr *const *a, bool keep) {
  const msc_attr_value *first = &a[0]->value;
  const char *what = msc_arena_printf(o->arena, "attribute %s", a[0]->name);
  const int64_t *v[FBS_MAX_POINTS];
  const msc_type *type[FBS_MAX_POINTS];
  bool is_ints = is_list_of_ints(first);
  for (size_t p = 0; p < o->num_points; p++) {
    const msc_attr_value *own = &a[p]->value;
    if (strcmp(a[p]->name, a[0]->name) || own->kind != first->kind) return differs(o, op, what);
    if (is_ints && (!is_list_of_ints(own) || own->list.num != first->list.num)) return differs(o, op, what);
    if (own->kind == MSC_ATTR_INT) v[p] = &own->i;
    else if (own->kind == MSC_ATTR_TYPE) type[p] = own->type;
    else if (is_ints) {
      int64_t *list = msc_new_array(o->arena, int64_t, own->list.num + 1);
      for (size_t i = 0; i < own->list.num; i++) list[i] = own->list.v[i].i;
      v[p] = list;
    } else if (strcmp(msc_attr_text(o->arena, NULL, own), msc_attr_text(o->arena, NULL, first))) {
      return differs(o, op, what);
    }
  }
  if (first->kind == MSC_ATTR_TYPE) return join_types(o, op, a[0], type, keep);
  if (first->kind == MSC_ATTR_INT) return join_numbers(o, op, a[0], what, 1, v, keep);
  return !is_ints || join_numbers(o, op, a[0], what, first->list.num, v, keep);
}

/* ---- constants ---- */

static msc_tensor tensor_of(const msc_attr_value *v) {
  return (msc_tensor){v->dense.type, (void *)(uintptr_t)v->dense.data};
}

static int64_t num_given(const msc_attr_value *v) {
  return (int64_t)v->dense.bytes / msc_dtype_bytes(v->dense.type->dtype);
}

static bool is_uniform(const msc_attr_value *v) {
  int64_t bytes = msc_dtype_bytes(v->dense.type->dtype);
  const char *data = v->dense.data;
  for (int64_t i = 1; i < num_given(v); i++)
    if (memcmp(data + i * bytes, data, (size_t)bytes)) return false;
  return num_given(v) > 0;
}

static bool is_whole(double x) { return x > -9e15 && x < 9e15 && x == (double)(int64_t)x; }

/* Joins constants whose elements are all equal: the element is the same at all points, or a formula is recorded. */
static bool join_uniform(fbs_open *o, msc_op *const *op, const msc_attr_value *const *v, bool keep) {
  const int64_t *number[FBS_MAX_POINTS];
  int64_t own[FBS_MAX_POINTS];
  size_t bytes = (size_t)msc_dtype_bytes(v[0]->dense.type->dtype);
  bool same = true, whole = true;
  for (size_t p = 0; p < o->num_points; p++) {
    msc_tensor t = tensor_of(v[p]);
    double x = msc_tensor_get(&t, 0);
    same &= !memcmp(v[p]->dense.data, v[0]->dense.data, bytes);
    whole &= is_whole(x);
    own[p] = whole ? (int64_t)x : 0, number[p] = &own[p];
  }
  if (!same && (!whole || !join_numbers(o, op[0], op[0], "a constant", 1, number, keep)))
    return differs(o, op[0], "a constant");
  msc_attr_value one = *v[0];
  one.dense.bytes = bytes;
  if (keep) msc_op_set(op[0], "value", one);
  return true;
}

static bool counts_so(const msc_attr_value *v, fbs_counting c) {
  msc_tensor t = tensor_of(v);
  int64_t num = msc_type_elems(t.type), behind = 1;
  if (num_given(v) != num) return false;
  for (int d = c.dim + 1; d < t.type->rank; d++) behind *= t.type->dim[d];
  for (int64_t i = 0; i < num; i++)
    if (msc_tensor_get(&t, i) != (double)(c.first + c.step * (i / behind % t.type->dim[c.dim]))) return false;
  return true;
}

static bool is_counting(const msc_attr_value *v, fbs_counting *out) {
  msc_tensor t = tensor_of(v);
  int64_t num = msc_type_elems(t.type), behind = num;
  if (num_given(v) != num) return false;
  for (int d = 0; d < t.type->rank; d++) {
    behind /= t.type->dim[d];
    if (t.type->dim[d] < 2) continue;
    double first = msc_tensor_get(&t, 0), step = msc_tensor_get(&t, behind) - first;
    if (!is_whole(first) || !is_whole(step) || !step) continue;
    *out = (fbs_counting){d, (int64_t)first, (int64_t)step};
    if (counts_so(v, *out)) return true;
  }
  return false;
}

/* Replaces a constant op by ops that compute its numbers from iota. */
static bool count_by_ops(fbs_open *o, const fbs_counted *counted) {
  msc_op *op = counted->op;
  fbs_counting c = counted->by;
  const char *const *text = fbs_open_texts(o, &op->out[0]);
  const msc_type *t = op->out[0].type;
  msc_builder b = {
      .func = o->point[0].forward, .block = o->point[0].forward->body, .before = op, .loc = op->loc, .name = op->name};
  msc_value *count = iota(&b, MSC_I64, t->rank, t->dim, c.dim);
  if (!count) return false;
  for (size_t i = 0; i < count->def->num_attrs; i++) {
    const void *of = &count->def->attrs[i];
    if (!strcmp(count->def->attrs[i].name, "type")) msc_table_at(&o->items, &of)->text = text;
  }
  msc_value *scaled = c.step == 1 ? count : scale_by(&b, count, (double)c.step);
  msc_value *moved = c.first && scaled ? plus(&b, scaled, number(&b, scaled, (double)c.first)) : scaled;
  msc_value *made[] = {count, scaled, moved, cast(&b, moved, t->dtype)};
  for (int i = 0; i < 4; i++) {
    if (!made[i]) return false;
    const void *of = made[i];
    msc_table_at(&o->items, &of)->text = text;
  }
  msc_replace_uses(&op->out[0], made[3]);
  return true;
}

static bool join_constant(fbs_open *o, msc_op *const *op, bool keep) {
  const msc_attr_value *v[FBS_MAX_POINTS];
  bool same = true, uniform = true;
  fbs_counting counting;
  for (size_t p = 0; p < o->num_points; p++) {
    v[p] = msc_op_attr(op[p], "value");
    same &= v[p]->dense.type == v[0]->dense.type && v[p]->dense.bytes == v[0]->dense.bytes &&
            !memcmp(v[p]->dense.data, v[0]->dense.data, v[0]->dense.bytes);
    uniform &= is_uniform(v[p]);
  }
  if (same) return true;
  if (uniform) return join_uniform(o, op, v, keep);
  if (!is_counting(v[0], &counting)) return differs(o, op[0], "a constant");
  for (size_t p = 1; p < o->num_points; p++)
    if (!counts_so(v[p], counting)) return differs(o, op[0], "a constant");
  if (!keep) return true;
  msc_grow(o->arena, o->counted, o->num_counted);
  o->counted[o->num_counted++] = (fbs_counted){op[0], counting};
  return true;
}

/* ---- the whole ---- */

static bool join_op(fbs_open *o, msc_op *const *op, bool keep) {
  const msc_type *type[FBS_MAX_POINTS];
  const msc_attr *attr[FBS_MAX_POINTS];
  bool is_constant = msc_is_constant_op(op[0]);
  for (size_t p = 1; p < o->num_points; p++) {
    if (!op[p] || op[p]->kind != op[0]->kind || op[p]->num_in != op[0]->num_in || op[p]->num_out != op[0]->num_out ||
        op[p]->num_attrs != op[0]->num_attrs)
      return differs(o, op[0], "what is computed");
    for (size_t i = 0; i < op[0]->num_in; i++)
      if (op[p]->in[i].value->id != op[0]->in[i].value->id) return differs(o, op[0], "what is computed");
  }
  for (size_t i = 0; i < op[0]->num_out; i++) {
    for (size_t p = 0; p < o->num_points; p++) type[p] = op[p]->out[i].type;
    MSC_TRY(join_types(o, op[0], &op[0]->out[i], type, keep));
  }
  if (is_constant) return join_constant(o, op, keep);
  for (size_t i = 0; i < op[0]->num_attrs; i++) {
    for (size_t p = 0; p < o->num_points; p++) attr[p] = &op[p]->attrs[i];
    MSC_TRY(join_attr(o, op[0], attr, keep));
  }
  return true;
}

static bool join_arguments(fbs_open *o, bool keep) {
  const msc_block *first = o->point[0].forward->body;
  const msc_type *type[FBS_MAX_POINTS];
  for (size_t p = 1; p < o->num_points; p++)
    if (o->point[p].forward->body->num_args != first->num_args) return differs(o, NULL, "the number of weights");
  for (size_t i = 0; i < first->num_args; i++) {
    for (size_t p = 0; p < o->num_points; p++) type[p] = o->point[p].forward->body->args[i]->type;
    MSC_TRY(join_types(o, NULL, first->args[i], type, keep));
  }
  return true;
}

static bool are_weights_same(fbs_open *o) {
  const msc_weights *first = &o->point[0].weights;
  for (size_t p = 1; p < o->num_points; p++) {
    const msc_weights *own = &o->point[p].weights;
    if (own->num != first->num) return differs(o, NULL, "the number of weights");
    for (size_t i = 0; i < first->num; i++) {
      const msc_weight *a = &first->item[i], *b = &own->item[i];
      if (a->name != b->name || a->type != b->type ||
          (a->data != b->data && memcmp(a->data, b->data, (size_t)msc_type_bytes(a->type))))
        return differs(o, NULL, msc_arena_printf(o->arena, "weight '%s'", a->name));
    }
  }
  return true;
}

bool fbs_join_points(fbs_open *o, bool keep) {
  msc_op *op[FBS_MAX_POINTS] = {0}, *next;
  o->wrong = NULL, o->wrong_op = NULL;
  MSC_TRY(are_weights_same(o) && join_arguments(o, keep));
  for (size_t p = 0; p < o->num_points; p++) {
    msc_number(o->point[p].forward->body);
    op[p] = o->point[p].forward->body->first;
  }
  for (; op[0]; op[0] = next) {
    next = op[0]->next;
    MSC_TRY(join_op(o, op, keep));
    for (size_t p = 1; p < o->num_points; p++) op[p] = op[p]->next;
  }
  for (size_t p = 1; p < o->num_points; p++)
    if (op[p]) return differs(o, op[p], "what is computed");
  if (!keep) return true;
  for (size_t i = 0; i < o->num_counted; i++) MSC_TRY(count_by_ops(o, &o->counted[i]));
  msc_drop_unused(o->point[0].forward);
  return true;
}
