/* layout_form.c: in_layout and out_layout, one layout per operand and result -> digits of the letters; or a report that
 * names both tensors. */
#include <string.h>

#include "passes/3_shard/shard.h"

typedef struct {
  shard_graph *g;
  shard_group *group;
  const msc_op *op;
  int tensor[MSC_MAX_LETTERS], dim[MSC_MAX_LETTERS]; /* by letter: the tensor and dimension that decided its digits */
} layout_reader;

static const char *digits_text(const layout_reader *p, int num, const msc_subaxis *s) {
  return msc_subaxis_print(p->g->arena, p->g->mesh, num, s);
}

/* ---- reading ---- */

/* Reads an entry of the annotation; an empty text leaves *out_layout as it is. False after a report. */
static bool read_entry(const shard_graph *g, const msc_op *op, const char *annotation, int tensor,
                       const msc_attr_value *v, const msc_layout **out_layout) {
  const char *name = shard_tensor_text(g, op, tensor);
  int rank = g->op[op->id].rule.tensor[tensor].rank;
  const msc_layout *l;
  if (v->kind == MSC_ATTR_STR && !*v->s) return true;
  MSC_TRY(msc_users_layout(g->func->module, op->loc, v, &l));
  if (!l)
    return msc_op_error(op, MSC_E_STRATEGY, "%s: the entry of %s must be the text of a layout, such as \"[{dp},{}]\"",
                        annotation, name);
  const char *text = msc_layout_print(g->arena, g->mesh, l);
  if (l->rank != rank)
    return msc_op_error(op, MSC_E_STRATEGY, "%s: %s has rank %d, its layout %s has rank %d", annotation, name, rank,
                        text, l->rank);
  if (l->num_partial && !strcmp(annotation, MSC_FACT(in_layout)))
    return msc_op_error(
        op, MSC_E_STRATEGY,
        "%s: %s cannot be wanted as a partial sum, %s; which sums stay unfinished follows from the layouts", annotation,
        name, text);
  const msc_type *type = tensor < op->num_in ? op->in[tensor].value->type : op->out[tensor - op->num_in].type;
  msc_box_layout cuts = msc_layout_cuts(l);
  if (!msc_box_shape_ok(&cuts, type->dim))
    return msc_op_error(op, MSC_E_STRATEGY, "%s: the sizes of parts in %s do not add up to the shape of %s, %s",
                        annotation, text, name,
                        msc_type_text(g->arena, g->mesh, msc_type_with_layout(g->ctx, type, NULL)));
  *out_layout = l;
  return true;
}

/* Reads one annotation, for `num` tensors from `first` on. Reports every entry that is wrong. */
static bool read_layout_list(const shard_graph *g, const msc_op *op, const char *annotation, int first, int num,
                             const msc_layout **out_layout) {
  const msc_attr_value *v = msc_op_attr(op, annotation);
  const char *kind = msc_kind_name(op->kind);
  bool out = first > 0 || !strcmp(annotation, MSC_FACT(out_layout));
  if (!v) return true;
  if (v->kind != MSC_ATTR_LIST)
    return msc_op_error(op, MSC_E_STRATEGY, "%s must be a list with one layout for each %s, such as [\"[{dp},{}]\"]",
                        annotation, out ? "result" : "operand");
  int annotated = out ? num : shard_annotated_operands(op);
  if (v->list.num != (size_t)annotated && v->list.num != (size_t)num)
    return msc_op_error(op, MSC_E_STRATEGY, "%s must have one layout for each of the %d %s of %s, not %zu", annotation,
                        annotated, out ? "results" : "operands", kind, v->list.num);
  bool ok = true;
  for (int i = 0; i < (int)v->list.num; i++)
    ok &= read_entry(g, op, annotation, first + i, &v->list.v[i], &out_layout[first + i]);
  return ok;
}

bool shard_read_layouts(const shard_graph *g, int group, const msc_layout **out_layout) {
  const msc_op *op = g->group[group].leader;
  return read_layout_list(g, op, MSC_FACT(in_layout), 0, op->num_in, out_layout) &
         read_layout_list(g, op, MSC_FACT(out_layout), op->num_in, op->num_out, out_layout);
}

/* ---- one dimension ---- */

static const char *annotation(const layout_reader *p, int tensor) {
  return tensor < p->op->num_in ? MSC_FACT(in_layout) : MSC_FACT(out_layout);
}

/* Reports a letter that two entries cut differently, with the place of each. Returns false. */
static bool report_disagreement(const layout_reader *p, int letter, int tensor, int dim, const char *here) {
  const msc_assignment *a = &p->group->digits;
  return msc_op_error(
      p->op, MSC_E_STRATEGY,
      "%s: dimension %d of %s and dimension %d of %s are the same letter '%c' of %s, but are cut by %s and %s",
      annotation(p, tensor), p->dim[letter], shard_tensor_text(p->g, p->op, p->tensor[letter]), dim,
      shard_tensor_text(p->g, p->op, tensor), p->group->rule.letter[letter].name, msc_kind_name(p->op->kind),
      shard_digits_text(p->g, a->num[letter], a->atom[letter]), here);
}

/* Reports why a dimension cannot have the digits `here`. Returns false. */
static bool report_bad_cut(const layout_reader *p, int tensor, int dim, int64_t parts, const char *here) {
  const msc_dim_letters *letters = &p->group->rule.tensor[tensor].dim[dim];
  const msc_type *t = tensor < p->op->num_in ? p->op->in[tensor].value->type : p->op->out[tensor - p->op->num_in].type;
  bool whole = true;
  for (int i = 0; i < letters->num; i++) whole &= p->group->rule.letter[letters->letter[i]].role == MSC_REP;
  const char *operand = shard_tensor_text(p->g, p->op, tensor);
  if (whole)
    return msc_op_error(p->op, MSC_E_STRATEGY, "%s: dimension %d of %s must stay whole in %s%s, not be cut by %s",
                        annotation(p, tensor), dim, operand, msc_kind_name(p->op->kind),
                        shard_gradient_text(p->g, p->op, letters), here);
  if (t->dim[dim] < parts)
    return msc_op_error(p->op, MSC_E_STRATEGY,
                        "%s: dimension %d of %s has %" PRId64 " elements, fewer than %s has parts",
                        annotation(p, tensor), dim, operand, t->dim[dim], here);
  const msc_letter *l = &p->group->rule.letter[letters->letter[0]];
  if (l->halo && l->size >= parts && l->over >= parts)
    return msc_op_error(p->op, MSC_E_STRATEGY,
                        "%s: %" PRId64 " elements that the windows of %s see, %" PRId64
                        " apart, cannot be cut by %s: parts begin between two windows",
                        annotation(p, tensor), l->over, msc_kind_name(p->op->kind), l->stride, here);
  return msc_op_error(p->op, MSC_E_STRATEGY,
                      "%s: dimension %d of %s has %" PRId64 " elements, which %s does not divide in %s",
                      annotation(p, tensor), dim, operand, t->dim[dim], here, msc_kind_name(p->op->kind));
}

/* Distributes the atoms of a dimension to its letters, major first: each takes as many as divide its size; a single
 * letter takes all. Entry i of *out is for letter i of the dimension. False: they cannot be cut so. */
static bool split_digits(const layout_reader *p, const msc_dim_letters *letters, int num, const uint8_t *atom,
                         msc_assignment *out) {
  int at = 0;
  if (letters->num == 1) {
    const msc_letter *l = &p->group->rule.letter[letters->letter[0]];
    out->num[0] = (uint8_t)num;
    memcpy(out->atom[0], atom, (size_t)num);
    return num == 0 || msc_letter_allows(l, shard_parts(&p->g->atoms, num, atom));
  }
  for (int i = 0; i < letters->num; i++) {
    const msc_letter *l = &p->group->rule.letter[letters->letter[i]];
    int64_t parts = 1;
    out->num[i] = 0;
    for (; at < num && l->size % (parts * p->g->atoms.atom[atom[at]].size) == 0 &&
           msc_letter_allows(l, parts * p->g->atoms.atom[atom[at]].size);
         at++) {
      parts *= p->g->atoms.atom[atom[at]].size;
      out->atom[i][out->num[i]++] = atom[at];
    }
    if (parts != l->size) break; /* a minor letter is cut only when the majors are cut down to single elements */
    for (int k = i + 1; k < letters->num; k++) out->num[k] = 0;
  }
  return at == num;
}

static bool are_letters_decided(const layout_reader *p, const msc_dim_letters *dim) {
  for (int i = 0; i < dim->num; i++)
    if (!(p->group->closed >> dim->letter[i] & 1)) return false;
  return true;
}

/* The number of leading digits of a result's dimension that cut no letter of another dimension. The others are digits
 * over which the op leaves sums, and pin.c handles them. */
static int count_leading_free_digits(const layout_reader *p, const msc_dim_letters *dim, int num, const uint8_t *atom) {
  const msc_assignment *a = &p->group->digits;
  for (int i = 0; i < num; i++)
    for (int l = 0; l < p->group->rule.num_letters; l++)
      if (!memchr(dim->letter, l, dim->num) && memchr(a->atom[l], atom[i], a->num[l])) return i;
  return num;
}

/* Sets the chosen sizes of a dimension's parts. False after a report: the dimension has several letters, or another
 * tensor gave its letter other sizes. */
static bool take_sizes(layout_reader *p, int tensor, int dim, const int64_t *split) {
  const msc_dim_letters *letters = &p->group->rule.tensor[tensor].dim[dim];
  int l = letters->letter[0];
  const int64_t *known = p->group->split[l];
  bool others = tensor >= p->op->num_in && p->tensor[l] != tensor; /* a result of decided letters: pin.c checks it */
  if (known == split || others) return true;
  const char *why = letters->num != 1               ? " in an op that merges dimensions"
                    : p->group->rule.letter[l].halo ? ": windows slide over it"
                    : p->tensor[l] != tensor        ? ": another tensor has the same letter with other parts"
                                                    : NULL;
  if (why)
    return msc_op_error(p->op, MSC_E_STRATEGY, "%s: dimension %d of %s cannot have parts of chosen sizes%s",
                        annotation(p, tensor), dim, shard_tensor_text(p->g, p->op, tensor), why);
  shard_set_split(p->g, (int)(p->group - p->g->group), l, split);
  return true;
}

/* Gives the letters of a dimension the digits of its layout; false after a report. */
static bool take_dim(layout_reader *p, int tensor, int dim, int num, const msc_subaxis *s) {
  const msc_dim_letters *letters = &p->group->rule.tensor[tensor].dim[dim];
  msc_assignment *a = &p->group->digits, here;
  uint8_t atom[MSC_MAX_SUBAXES];
  memset(&here, 0, sizeof here);
  if (tensor >= p->op->num_in && are_letters_decided(p, letters)) return true; /* pin.c checks it */
  int count = msc_atoms_in(&p->g->atoms, num, s, atom);
  if (tensor >= p->op->num_in) count = count_leading_free_digits(p, letters, count, atom);
  if (!split_digits(p, letters, count, atom, &here))
    return report_bad_cut(p, tensor, dim, msc_group_size(num, s), digits_text(p, num, s));
  for (int i = 0; i < letters->num; i++) {
    int l = letters->letter[i];
    bool seen = p->group->closed >> l & 1;
    if (seen && (a->num[l] != here.num[i] || memcmp(a->atom[l], here.atom[i], here.num[i])))
      return report_disagreement(p, l, tensor, dim, shard_digits_text(p->g, here.num[i], here.atom[i]));
    if (seen) continue;
    a->num[l] = here.num[i];
    memcpy(a->atom[l], here.atom[i], here.num[i]);
    p->group->closed |= 1u << l;
    p->tensor[l] = tensor, p->dim[l] = dim;
  }
  return true;
}

/* ---- all ---- */

/* Checks that no digit cuts two letters. */
static bool check_apart(const layout_reader *p) {
  const msc_assignment *a = &p->group->digits;
  int owner[MSC_MAX_SUBAXES];
  memset(owner, -1, sizeof owner);
  for (int l = 0; l < p->group->rule.num_letters; l++)
    for (int k = 0; k < a->num[l]; k++) {
      int other = owner[a->atom[l][k]];
      if (other >= 0)
        return msc_op_error(
            p->op, MSC_E_STRATEGY,
            "%s: axis '%s' cuts dimension %d of %s and dimension %d of %s, which are different letters of %s",
            annotation(p, p->tensor[l]), p->g->mesh->axis[p->g->atoms.atom[a->atom[l][k]].axis].name, p->dim[other],
            shard_tensor_text(p->g, p->op, p->tensor[other]), p->dim[l], shard_tensor_text(p->g, p->op, p->tensor[l]),
            msc_kind_name(p->op->kind));
      owner[a->atom[l][k]] = l;
    }
  return true;
}

bool shard_take_layouts(shard_graph *g, int group, const msc_layout *const *layout) {
  layout_reader p = {.g = g, .group = &g->group[group], .op = g->group[group].leader};
  memset(&p.group->digits, 0, sizeof p.group->digits);
  p.group->closed = 0;
  for (int t = 0; t < p.group->rule.num_tensors; t++)
    for (int d = 0; layout[t] && d < layout[t]->rank; d++) {
      MSC_TRY(take_dim(&p, t, d, layout[t]->first[d + 1] - layout[t]->first[d], layout[t]->sub + layout[t]->first[d]));
      if (layout[t]->first[d] < layout[t]->first[d + 1]) MSC_TRY(take_sizes(&p, t, d, layout[t]->split[d]));
    }
  MSC_TRY(check_apart(&p));
  return shard_check_digits(g, group, MSC_FACT(in_layout));
}
