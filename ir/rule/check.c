/* check.c: an op whose tensors carry layouts in; a report naming both tensors out, when no assignment of mesh digits
 * to the letters of its rule gives these layouts, or when a collective's verb does not make this change. */
#include <string.h>

#include "ir/rule/rule.h"

typedef struct {
  int num, tensor, dim; /* digits; the tensor and dimension that has the letter first, tensor < 0: none so far */
  msc_subaxis sub[MSC_MAX_SUBAXES];
  const int64_t *split; /* chosen borders of its parts, NULL: equal parts */
} letter_cut;

typedef struct {
  const msc_op *op;
  msc_context *ctx;
  const msc_mesh *mesh;
  msc_arena *arena;
  msc_rule rule;
  letter_cut cut[MSC_MAX_LETTERS];
} check;

static const msc_layout *layout_at(const msc_op *op, size_t tensor) { return msc_rule_tensor_type(op, tensor)->layout; }

/* A tensor's name and layout for reports: "operand 'a' [{x},{}]". */
static const char *describe_tensor(const check *c, size_t tensor) {
  const char *layout = msc_layout_print(c->arena, c->mesh, layout_at(c->op, tensor));
  if (tensor >= c->op->num_in) {
    if (c->op->num_out == 1) return msc_arena_printf(c->arena, "the result %s", layout);
    return msc_arena_printf(c->arena, "result %zu %s", tensor - c->op->num_in, layout);
  }
  const msc_op_info *info = msc_info(c->op);
  size_t last = (size_t)info->num_operands - 1;
  if (info->operand[last].variadic && tensor >= last)
    return msc_arena_printf(c->arena, "operand %zu %s", tensor, layout);
  return msc_arena_printf(c->arena, "operand '%s' %s", info->operand[tensor].name, layout);
}

static MSC_PRINTF(2, 3) bool misfit(const check *c, const char *fmt, ...) {
  char text[1000];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return msc_op_error(c->op, MSC_E_SHARDING, "%s: %s", msc_kind_name(c->op->kind), text);
}

static const char *axes(const check *c, int num, const msc_subaxis *s) {
  return msc_subaxis_print(c->arena, c->mesh, num, s);
}

static void push_digit(letter_cut *l, msc_subaxis s) {
  msc_subaxis *last = l->num ? &l->sub[l->num - 1] : NULL;
  if (last && last->axis == s.axis && last->pre * last->size == s.pre) last->size *= s.size;
  else l->sub[l->num++] = s;
}

/* Divides the digits of a dimension among its letters, major letter first: every letter but the last takes digits until
 * their parts are its size, and the next letter gets digits only then.  A digit is divided where a letter ends inside
 * it.  out_part has one entry per letter. */
static bool cut_letters(const check *c, size_t tensor, int dim, letter_cut *out_part) {
  const msc_layout *l = layout_at(c->op, tensor);
  const msc_dim_letters *letters = &c->rule.tensor[tensor].dim[dim];
  int at = l->first[dim], end = l->first[dim + 1];
  msc_subaxis rest = at < end ? l->sub[at] : (msc_subaxis){0};
  bool even = msc_dim_is_even(l, msc_rule_tensor_type(c->op, tensor), dim);
  if (letters->num > 1 && at < end && !even)
    return misfit(c, "dimension %d of %s merges others in %s, and its parts must be equal", dim,
                  describe_tensor(c, tensor), msc_rule_print(c->arena, &c->rule));
  for (int i = 0; i < letters->num; i++) {
    bool last = i == letters->num - 1;
    const msc_letter *letter = &c->rule.letter[letters->letter[i]];
    int64_t left = letter->size;
    out_part[i].num = 0;
    out_part[i].split = l->split[dim];
    while (at < end && (last || left > 1)) {
      int64_t take = last ? rest.size : msc_gcd(left, rest.size);
      if (take == 1)
        return misfit(
            c, "dimension %d of %s cannot be cut by %s: the parts do not divide its factor %c of %" PRId64 " in %s",
            dim, describe_tensor(c, tensor), axes(c, end - l->first[dim], l->sub + l->first[dim]), letter->name,
            letter->size, msc_rule_print(c->arena, &c->rule));
      push_digit(&out_part[i], (msc_subaxis){rest.axis, rest.pre, (uint32_t)take});
      left = last ? left : left / take;
      rest.pre *= (uint32_t)take, rest.size /= (uint32_t)take;
      if (rest.size == 1 && ++at < end) rest = l->sub[at];
    }
  }
  return true;
}

/* Records how a dimension cuts a letter; reports when another dimension cuts it in another way. */
static bool note_letter(check *c, int letter, const letter_cut *part, size_t tensor, int dim) {
  const msc_letter *l = &c->rule.letter[letter];
  letter_cut *known = &c->cut[letter];
  if (l->role == MSC_REP && part->num)
    return misfit(c, "dimension %d of %s must be whole: %c may not be cut in %s", dim, describe_tensor(c, tensor),
                  l->name, msc_rule_print(c->arena, &c->rule));
  if (l->halo && part->num && (part->split || !msc_letter_allows_digits(l, part->num, part->sub)))
    return misfit(c,
                  "dimension %d of %s: %c, windows %" PRId64 " apart over %" PRId64
                  " elements, cannot be cut into these %" PRId64 " parts in %s",
                  dim, describe_tensor(c, tensor), l->name, l->stride, l->over,
                  msc_group_size(part->num, part->sub),
                  msc_rule_print(c->arena, &c->rule));
  if (known->tensor < 0) {
    *known = *part;
    known->tensor = (int)tensor, known->dim = dim;
    return true;
  }
  bool same = known->num == part->num && memcmp(known->sub, part->sub, (size_t)part->num * sizeof *part->sub) == 0;
  if (same && known->split == part->split) return true;
  return misfit(c, "dimension %d of %s is cut by %s and dimension %d of %s by %s; both are %c of %s", known->dim,
                describe_tensor(c, (size_t)known->tensor), axes(c, known->num, known->sub), dim,
                describe_tensor(c, tensor), axes(c, part->num, part->sub), l->name, msc_rule_print(c->arena, &c->rule));
}

/* Checks that the layout has the parts whose sizes the op itself gives (an aligned table). */
static bool check_split(const check *c, size_t tensor, int dim, letter_cut *part) {
  const msc_dim_letters *letters = &c->rule.tensor[tensor].dim[dim];
  const msc_layout *have = layout_at(c->op, tensor);
  msc_layout want = *have;
  want.split[dim] = letters->split;
  part->split = NULL; /* the letter's other dimensions have sizes of their own */
  if (msc_layout_parts(have, dim) == letters->num_split && msc_layout_of(c->ctx, c->mesh, &want) == have) return true;
  return misfit(c, "dimension %d of %s must have the parts that %s says", dim, describe_tensor(c, tensor),
                msc_kind_name(c->op->kind));
}

static bool check_dim(check *c, size_t tensor, int dim) {
  const msc_dim_letters *letters = &c->rule.tensor[tensor].dim[dim];
  const msc_layout *l = layout_at(c->op, tensor);
  letter_cut part[MSC_MAX_LETTERS];
  if (letters->num == 0) {
    if (l->first[dim] == l->first[dim + 1]) return true;
    return misfit(c, "dimension %d of %s must be whole: it may not be cut in %s", dim, describe_tensor(c, tensor),
                  msc_rule_print(c->arena, &c->rule));
  }
  MSC_TRY(cut_letters(c, tensor, dim, part));
  if (letters->split && part[0].num) MSC_TRY(check_split(c, tensor, dim, &part[0]));
  for (int i = 0; i < letters->num; i++) MSC_TRY(note_letter(c, letters->letter[i], &part[i], tensor, dim));
  return true;
}

/* The first digit of `a` that shares parts with a digit of `b`, NULL: none does. */
static const msc_subaxis *common(int na, const msc_subaxis *a, int nb, const msc_subaxis *b) {
  for (int i = 0; i < na; i++)
    for (int j = 0; j < nb; j++)
      if (msc_digits_overlap(a[i], b[j])) return &a[i];
  return NULL;
}

/* Checks that no digit cuts two letters. */
static bool check_letters_apart(const check *c) {
  for (int i = 0; i < c->rule.num_letters; i++)
    for (int j = 0; j < i; j++) {
      const letter_cut *a = &c->cut[j], *b = &c->cut[i];
      const msc_subaxis *s = common(a->num, a->sub, b->num, b->sub);
      if (s)
        return misfit(c, "axis '%s' cuts dimension %d of %s and dimension %d of %s, which are different letters of %s",
                      c->mesh->axis[s->axis].name, a->dim, describe_tensor(c, (size_t)a->tensor), b->dim,
                      describe_tensor(c, (size_t)b->tensor), msc_rule_print(c->arena, &c->rule));
    }
  return true;
}

/* Checks the partial sums of the operands; their digits, which pass through the op to its results, go to out_passed. */
static bool check_partial_operands(const check *c, letter_cut *out_passed) {
  const msc_rule *r = &c->rule;
  int first = -1;
  out_passed->num = 0;
  for (size_t t = 0; t < r->num_in; t++) {
    const msc_layout *l = layout_at(c->op, t);
    const msc_subaxis *p = l->sub + l->first[l->rank];
    bool is_linear = r->linear && t < 32 && (r->linear_in >> t & 1);
    if (l->num_partial && (!is_linear || l->reduction != MSC_SUM))
      return misfit(c, "%s is partial, and %s is not linear in it: reduce it first", describe_tensor(c, t),
                    msc_kind_name(c->op->kind));
    for (int i = 0; i < r->num_letters && l->num_partial; i++)
      if (common(l->num_partial, p, c->cut[i].num, c->cut[i].sub))
        return misfit(c, "%s is partial over digits that cut dimension %d of %s", describe_tensor(c, t), c->cut[i].dim,
                      describe_tensor(c, (size_t)c->cut[i].tensor));
    if (r->joint && is_linear) {
      if (first >= 0 &&
          (out_passed->num != l->num_partial || memcmp(out_passed->sub, p, (size_t)l->num_partial * sizeof *p)))
        return misfit(c, "%s and %s must be partial over the same axes", describe_tensor(c, (size_t)first),
                      describe_tensor(c, t));
      if (first >= 0) continue;
      first = (int)t;
    } else if (common(l->num_partial, p, out_passed->num, out_passed->sub)) {
      return misfit(
          c, "%s and %s are partial over the same axes; their product would count terms that do not belong together",
          describe_tensor(c, (size_t)first), describe_tensor(c, t));
    }
    if (l->num_partial && first < 0) first = (int)t;
    for (int i = 0; i < l->num_partial; i++) out_passed->sub[out_passed->num++] = p[i];
  }
  return true;
}

/* Checks that a result is partial over the digits of the summed letters that it lacks and over those that pass. */
static bool check_partial_result(const check *c, size_t tensor, const letter_cut *passed) {
  const msc_layout *have = layout_at(c->op, tensor);
  msc_layout want = *have;
  int num = want.first[want.rank];
  want.reduction = MSC_SUM;
  for (int i = 0; i < passed->num; i++) want.sub[num++] = passed->sub[i];
  for (int l = 0; l < c->rule.num_letters; l++) {
    if (c->rule.letter[l].role != MSC_RED || !c->cut[l].num || msc_rule_has_letter(&c->rule.tensor[tensor], l))
      continue;
    want.reduction = c->rule.letter[l].reduction;
    if (want.reduction != MSC_SUM && passed->num)
      return misfit(c, "a sum that is partial over %s cannot go through a %s", axes(c, passed->num, passed->sub),
                    msc_kind_name(c->op->kind));
    for (int i = 0; i < c->cut[l].num; i++) want.sub[num++] = c->cut[l].sub[i];
  }
  want.num_partial = (uint8_t)(num - want.first[want.rank]);
  const msc_layout *made = msc_layout_of(c->ctx, c->mesh, &want);
  return made == have || misfit(c, "%s must be %s: that is what the operands' layouts make of it",
                                describe_tensor(c, tensor), msc_layout_print(c->arena, c->mesh, made));
}

/* ---- collectives ---- */

/* A layout's digits as atoms. */
typedef struct {
  int num[MSC_MAX_RANK];
  uint8_t atom[MSC_MAX_RANK][MSC_MAX_SUBAXES];
  uint32_t cut[MSC_MAX_RANK], cuts, partial; /* masks of atoms: per dimension, of all dimensions */
  const int64_t *const *split;
} digit_cuts;

static uint32_t mask_of(int num, const uint8_t *atom) {
  uint32_t m = 0;
  for (int i = 0; i < num; i++) m |= 1u << atom[i];
  return m;
}

static digit_cuts digit_cuts_of(const msc_atoms *atoms, const msc_layout *l) {
  digit_cuts x;
  memset(&x, 0, sizeof x);
  x.split = l->split;
  for (int d = 0; d < l->rank; d++) {
    x.num[d] = msc_atoms_in(atoms, l->first[d + 1] - l->first[d], l->sub + l->first[d], x.atom[d]);
    x.cut[d] = mask_of(x.num[d], x.atom[d]);
    x.cuts |= x.cut[d];
  }
  uint8_t partial[MSC_MAX_SUBAXES];
  x.partial = mask_of(msc_atoms_in(atoms, l->num_partial, l->sub + l->first[l->rank], partial), partial);
  return x;
}

/* Does `longer` cut dimension d first by all digits by which `shorter` cuts it? Parts of chosen sizes nest in the whole
 * dimension only. */
static bool starts_with(const digit_cuts *longer, const digit_cuts *shorter, int d) {
  if (longer->split[d] != shorter->split[d] && shorter->num[d]) return false;
  if (longer->split[d] && shorter->num[d] && longer->num[d] != shorter->num[d]) return false;
  return shorter->num[d] <= longer->num[d] && memcmp(longer->atom[d], shorter->atom[d], (size_t)shorter->num[d]) == 0;
}

static bool all_start_with(const digit_cuts *longer, const digit_cuts *shorter, int rank) {
  for (int d = 0; d < rank; d++)
    if (!starts_with(longer, shorter, d)) return false;
  return true;
}

static int64_t product_of_atoms(const msc_atoms *atoms, uint32_t mask) {
  int64_t n = 1;
  for (int i = 0; i < atoms->num; i++)
    if (mask >> i & 1) n *= atoms->atom[i].size;
  return n;
}

static bool is_even(const msc_type *t, const msc_atoms *atoms, const digit_cuts *x, int d) {
  return !x->split[d] && t->dim[d] % product_of_atoms(atoms, x->cut[d]) == 0;
}

/* The number of parts that the digits of dimension d make, up to the last digit of the run of one axis that has digit
 * n. */
static int64_t parts_of_runs(const msc_atoms *atoms, const digit_cuts *x, int d, int n) {
  int64_t parts = 1;
  for (int i = 0; i < x->num[d]; i++) {
    const msc_subaxis *atom = &atoms->atom[x->atom[d][i]];
    if (i > n && atom->axis != atoms->atom[x->atom[d][n]].axis) break;
    parts *= atom->size;
  }
  return parts;
}

/* Does some dimension of `shorter` end inside a run of digits of one axis of `longer` whose parts differ in size?  Such
 * parts do not nest, because a run cuts as one digit. */
static bool cuts_run(const msc_type *t, const msc_atoms *atoms, const digit_cuts *longer, const digit_cuts *shorter) {
  for (int d = 0; d < t->rank; d++) {
    int n = shorter->num[d];
    if (n == longer->num[d] || n == 0) continue;
    if (atoms->atom[longer->atom[d][n - 1]].axis != atoms->atom[longer->atom[d][n]].axis) continue;
    if (t->dim[d] % parts_of_runs(atoms, longer, d, n)) return true;
  }
  return false;
}

static const char *all_to_all_wrong(const msc_type *t, const msc_atoms *atoms, const digit_cuts *from,
                                    const digit_cuts *to) {
  if (from->partial != to->partial) return "partial axes must stay";
  if (from->cuts != to->cuts) return "the axes that leave dimensions must be those that join others";
  for (int d = 0; d < t->rank; d++) {
    if (!starts_with(to, from, d) && !starts_with(from, to, d))
      return "axes may only leave or join at the minor end of a dimension";
    if (from->num[d] != to->num[d] && !(is_even(t, atoms, from, d) && is_even(t, atoms, to, d)))
      return "its pieces must be equal, and a size does not divide";
  }
  return NULL;
}

static const char *permute_wrong(const msc_type *t, const msc_atoms *atoms, const digit_cuts *from,
                                 const digit_cuts *to) {
  if (product_of_atoms(atoms, from->partial) != product_of_atoms(atoms, to->partial))
    return "the number of partial terms must stay";
  for (int d = 0; d < t->rank; d++) {
    int64_t parts = product_of_atoms(atoms, from->cut[d]);
    if (parts != product_of_atoms(atoms, to->cut[d])) return "the number of parts of every dimension must stay";
    bool same = from->num[d] == to->num[d] && starts_with(from, to, d);
    if (!same && !(is_even(t, atoms, from, d) && is_even(t, atoms, to, d)))
      return "its blocks must be equal, and a size does not divide";
  }
  return NULL;
}

static const char *exchange_wrong(const msc_atoms *atoms, const digit_cuts *from, const digit_cuts *to) {
  bool moves = product_of_atoms(atoms, from->partial) == product_of_atoms(atoms, to->partial);
  return (to->partial & ~from->partial) && !moves ? "it cannot make a value partial" : NULL;
}

const char *msc_relayout_wrong(const msc_mesh *mesh, const msc_type *t, msc_verb verb, const msc_layout *from,
                               const msc_layout *to) {
  msc_atoms atoms;
  const msc_layout *both[2] = {from, to};
  if (from->rank != t->rank || to->rank != t->rank) return "the rank differs";
  if (!msc_atoms_of(mesh, 2, both, &atoms)) return "the layouts cut an axis at places that do not divide each other";
  digit_cuts a = digit_cuts_of(&atoms, from), b = digit_cuts_of(&atoms, to);
  uint32_t joined = b.cuts & ~a.cuts;
  if (from == to) return "nothing changes";
  bool leaves = verb == MSC_ALL_GATHER && all_start_with(&a, &b, t->rank),
       joins = (verb == MSC_REDUCE_SCATTER || verb == MSC_SHARD) && all_start_with(&b, &a, t->rank);
  if ((leaves && cuts_run(t, &atoms, &a, &b)) || (joins && cuts_run(t, &atoms, &b, &a)))
    return "the parts do not nest, because a size does not divide";
  if (from->num_partial && to->num_partial && from->reduction != to->reduction)
    return "the reduction of a partial value must stay";
  switch (verb) {
    case MSC_ALL_TO_ALL: return all_to_all_wrong(t, &atoms, &a, &b);
    case MSC_PERMUTE: return permute_wrong(t, &atoms, &a, &b);
    case MSC_EXCHANGE: return exchange_wrong(&atoms, &a, &b);
    case MSC_ALL_REDUCE:
      if (!all_start_with(&a, &b, t->rank) || a.cuts != b.cuts) return "no dimension may change";
      return b.partial & ~a.partial ? "it cannot make a value partial" : NULL;
    case MSC_ALL_GATHER:
      if (!all_start_with(&a, &b, t->rank)) return "axes may only leave at the minor end of a dimension";
      return a.partial != b.partial ? "partial axes must stay" : NULL;
    case MSC_REDUCE_SCATTER:
      if (!all_start_with(&b, &a, t->rank)) return "axes may only join at the minor end of a dimension";
      if (joined & ~a.partial) return "the axes that join a dimension must have been partial";
      return b.partial != (a.partial & ~joined)
                 ? "the axes that join dimensions must be those that are no longer partial"
                 : NULL;
    case MSC_SHARD:
      if (!all_start_with(&b, &a, t->rank)) return "axes may only join at the minor end of a dimension";
      return a.partial & ~b.partial ? "it cannot reduce a partial value" : NULL;
    default: return "it is no change of layout";
  }
}

/* Checks the layout change of operand i into result i. */
static bool check_relayout(const check *c, size_t i) {
  const msc_op *op = c->op;
  const msc_layout *from = layout_at(op, i), *to = layout_at(op, op->num_in + i);
  const char *why = msc_relayout_wrong(c->mesh, op->in[i].value->type, msc_op_verb(op), from, to);
  if (why)
    return misfit(c, "cannot make %s from %s: %s", describe_tensor(c, op->num_in + i), describe_tensor(c, i), why);
  if (msc_verb_reduces(msc_op_verb(op)) && msc_op_reduction(op) != from->reduction)
    return misfit(c, "reduces by %s, but %s is a partial %s", msc_op_str(op, "reduction"), describe_tensor(c, i),
                  msc_reduction_name(from->reduction));
  return true;
}

/* ---- the check ---- */

static bool check_layouts_there(const check *c, bool *out_any) {
  size_t with = 0, num = (size_t)c->op->num_in + c->op->num_out;
  for (size_t i = 0; i < num; i++) with += layout_at(c->op, i) != NULL;
  *out_any = with > 0;
  return with == 0 || with == num || misfit(c, "some operands or results have a layout and others none");
}

bool msc_rule_check(const msc_op *op, msc_arena *arena) {
  check c = {.op = op, .ctx = msc_op_ctx(op), .mesh = &op->block->func->module->mesh, .arena = arena};
  bool any;
  MSC_TRY(check_layouts_there(&c, &any));
  if (!any || (msc_info(op)->flags & MSC_TERMINATOR)) return true;
  if (msc_verb_is(msc_info(op)->verb, MSC_VERB_RELAYOUT))
    for (size_t i = 0; i < op->num_in; i++) MSC_TRY(check_relayout(&c, i));
  if (msc_verb_is(msc_info(op)->verb, MSC_VERB_RELAYOUT)) return true;
  MSC_TRY(msc_rule_of(op, arena, &c.rule));
  for (int l = 0; l < c.rule.num_letters; l++) c.cut[l].tensor = -1;
  for (size_t t = 0; t < c.rule.num_tensors; t++)
    for (int d = 0; d < c.rule.tensor[t].rank; d++) MSC_TRY(check_dim(&c, t, d));
  MSC_TRY(check_letters_apart(&c));
  letter_cut passed;
  MSC_TRY(check_partial_operands(&c, &passed));
  for (size_t t = c.rule.num_in; t < c.rule.num_tensors; t++) MSC_TRY(check_partial_result(&c, t, &passed));
  return true;
}
