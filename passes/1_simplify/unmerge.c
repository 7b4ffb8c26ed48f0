/* unmerge: an op on leading dimensions that a reshape merged, [b,s,h] -> [bs,h] -> matmul -> relu, works on the
 * separate dimensions instead: the reshape moves behind the op, op after op, until another reshape undoes it or an op
 * needs the merged form.
 *
 * A merged dimension of b*s elements can be cut along b and s at once only where b is cut down to single elements.
 * Separate dimensions can be cut by any axes, and nothing has to be gathered for the reshape. The pass does nothing on
 * one device, where this gains nothing, nor where the module has msc.merged: a search found that the merged program
 * takes less time. */
#include <string.h>

#include "ir/fact.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_value *apart; /* the operand of the reshape; NULL: v is not the result of such a reshape */
  msc_op *by;       /* the reshape */
  int num;          /* how many dimensions the reshape merges into dimension 0 */
} merge;

/* Describes the reshape that made v by merging leading dimensions, of which at least two are larger than 1. */
static merge merge_of(const msc_value *v) {
  const merge none = {NULL, NULL, 0};
  msc_op *by = v->def;
  if (!by || msc_form_of(by) != MSC_FORM_RESHAPE || msc_has_user_constraint(by)) return none;
  msc_value *x = by->in[0].value;
  const msc_type *from = x->type, *to = v->type;
  int num = from->rank - to->rank + 1, larger = 0;
  if (num < 2 || to->rank < 1) return none;
  int64_t product = 1;
  for (int d = 0; d < num; d++) product *= from->dim[d], larger += from->dim[d] > 1;
  bool kept = product == to->dim[0] && product > 0 && larger > 1;
  for (int d = num; d < from->rank && kept; d++) kept = from->dim[d] == to->dim[d - num + 1];
  return kept ? (merge){x, by, num} : none;
}

static bool has_same_leads(const merge *a, const merge *b) {
  return a->num == b->num && !memcmp(a->apart->type->dim, b->apart->type->dim, (size_t)a->num * sizeof(int64_t));
}

/* ---- may the op work on the separate dimensions? ---- */

static bool has_axis(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, "axis")) return true;
  return false;
}

/* True if an attribute of the op, or numbers that it reads, name positions or dimensions, which would change.  The
 * `axis` of other ops counts dimensions of the first operand; build_split_op moves it. */
static bool has_dim_attributes(const msc_op *op) {
  msc_indexed x;
  if (msc_form_of(op) == MSC_FORM_RESHAPE || msc_form_of(op) == MSC_FORM_MOVE) return true;
  if (has_axis(op) && msc_indexed_of(op, &x)) return true;
  for (size_t i = 0; i < op->num_attrs; i++)
    if (op->attrs[i].value.kind == MSC_ATTR_LIST) return true;
  return false;
}

static bool tensor_has_letter(const msc_tensor_letters *t, int letter, int from_dim) {
  for (int d = from_dim; d < t->rank; d++)
    if (t->dim[d].num && memchr(t->dim[d].letter, letter, t->dim[d].num)) return true;
  return false;
}

/* The letter of dimension 0 of a tensor if several dimensions may stand in its place: the letters A, B .. that `*`
 * in a rule makes, and the rows of a product, which become a batch. -1 otherwise. */
static int lead_letter(const msc_op *op, const msc_rule *rule, size_t tensor) {
  const msc_dim_letters *dim = &rule->tensor[tensor].dim[0];
  int letter = dim->num == 1 ? dim->letter[0] : -1;
  if (letter < 0 || rule->letter[letter].role == MSC_REP) return -1;
  char name = rule->letter[letter].name;
  bool rows = msc_form_of(op) == MSC_FORM_PRODUCT && tensor == 0 && name == 'm';
  return (name >= 'A' && name <= 'Z') || rows ? letter : -1;
}

/* True if the op and the reshape carry the same block annotations. */
static bool is_in_same_block(const msc_op *a, const msc_op *b) {
  size_t at = 0;
  const char *name = MSC_FACT(shard);
  do {
    const msc_attr_value *x = msc_op_attr(a, name), *y = msc_op_attr(b, name);
    if (!x != !y || (x && !msc_attr_equal(x, y))) return false;
  } while ((name = msc_fact_of_sort(MSC_SORT_BLOCK, &at)));
  return true;
}

/* Puts the operands of the new op into out_in: every operand that has the letter must come from a merge of the same
 * dimensions, and is replaced by the operand of that reshape. False if one does not. */
static bool collect_split_operands(const msc_op *op, const msc_rule *rule, int letter, const merge *first,
                                   msc_value **out_in) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_tensor_letters *t = &rule->tensor[i];
    out_in[i] = op->in[i].value;
    if (tensor_has_letter(t, letter, 1)) return false;
    if (!tensor_has_letter(t, letter, 0)) continue;
    merge m = merge_of(op->in[i].value);
    if (!m.apart || !has_same_leads(&m, first)) return false;
    out_in[i] = m.apart;
  }
  return true;
}

static bool is_result_splittable(const msc_op *op, const msc_rule *rule, int letter, int more) {
  for (size_t i = 0; i < op->num_out; i++) {
    const msc_tensor_letters *t = &rule->tensor[op->num_in + i];
    bool leads = t->rank && t->dim[0].num == 1 && t->dim[0].letter[0] == letter;
    if (tensor_has_letter(t, letter, leads) || t->rank + more > MSC_MAX_RANK) return false;
  }
  return true;
}

/* ---- the rewrite ---- */

/* True if dimension `d` of `rule` has the letters that `as` has in `as_rule`. other: for each letter of `rule` the
 * letter of `as_rule` that stands for it; UINT8_MAX: not seen yet. */
static bool has_same_letters(const msc_dim_letters *d, const msc_dim_letters *as, const msc_rule *rule,
                             const msc_rule *as_rule, uint8_t *other) {
  if (d->num != as->num) return false;
  for (int l = 0; l < d->num; l++) {
    uint8_t *met = &other[d->letter[l]];
    const msc_letter *a = &rule->letter[d->letter[l]], *b = &as_rule->letter[as->letter[l]];
    if (*met == UINT8_MAX) *met = as->letter[l];
    if (*met != as->letter[l] || a->role != b->role || a->size != b->size || a->expands != b->expands ||
        a->reduction != b->reduction)
      return false;
  }
  return true;
}

/* True if dimensions 0 to num - 1 have a letter each, those in `lead` (-1: not seen yet), used nowhere else in the
 * tensor and with the properties of the merged letter. */
static bool leads_are_free(const msc_tensor_letters *t, int num, const msc_letter *merged, const msc_rule *rule,
                           int *lead) {
  for (int d = 0; d < num; d++) {
    if (t->rank < num || t->dim[d].num != 1) return false;
    int letter = t->dim[d].letter[0];
    const msc_letter *l = &rule->letter[letter];
    if (lead[d] < 0) lead[d] = letter;
    if (lead[d] != letter || l->role != merged->role || l->expands != merged->expands ||
        l->reduction != merged->reduction || tensor_has_letter(t, letter, d + 1))
      return false;
  }
  return true;
}

/* True if `copy` does along every other dimension what op does: its rule must be op's with `num` letters in place of
 * `letter`. Ops that count dimensions from the first, as batch_norm finds its channels, do something else on more of
 * them. */
static bool computes_the_same_on_split(const msc_op *copy, const msc_rule *was, int letter, int num, msc_arena *arena) {
  msc_rule now;
  uint8_t other[MSC_MAX_LETTERS];
  int lead[MSC_MAX_RANK];
  if (!msc_rule_of(copy, arena, &now) || now.num_tensors != was->num_tensors ||
      now.num_letters != was->num_letters + num - 1)
    return false;
  memset(other, UINT8_MAX, sizeof other);
  for (int i = 0; i < num; i++) lead[i] = -1;
  for (size_t i = 0; i < was->num_tensors; i++) {
    const msc_tensor_letters *a = &was->tensor[i], *b = &now.tensor[i];
    bool leads = tensor_has_letter(a, letter, 0);
    if (a->rank + (leads ? num - 1 : 0) != b->rank ||
        (leads && !leads_are_free(b, num, &was->letter[letter], &now, lead)))
      return false;
    for (int d = leads; d < a->rank; d++)
      if (!has_same_letters(&a->dim[d], &b->dim[leads ? d + num - 1 : d], was, &now, other)) return false;
  }
  return true;
}

/* Builds op on the operands `in`, in front of it. NULL, with nothing left behind, if it would compute something
 * else. */
static msc_op *build_split_op(msc_op *op, msc_value *const *in, const msc_rule *rule, int letter, int num,
                              msc_arena *arena) {
  msc_op *copy = msc_op_copy(op->block->func, op, in);
  if (op->kind == OP_matmul) copy->kind = OP_batch_matmul;
  if (has_axis(op) && msc_op_int(op, "axis") > 0)
    msc_op_set(copy, "axis", msc_int(msc_op_int(op, "axis") + num - 1)); /* set even where the default applied */
  msc_insert_before(op, copy);
  msc_diag_mark before = msc_mark_diags(msc_op_ctx(op));
  if (msc_infer(copy) && computes_the_same_on_split(copy, rule, letter, num, arena)) return copy;
  msc_forget_diags(msc_op_ctx(op), before);
  msc_op_erase(copy);
  return NULL;
}

static void merge_result(msc_op *op, const msc_op *like, msc_value *from, msc_value *to) {
  msc_op *back = msc_op_new(op->block->func, OP_reshape, 1, &from, 1, like->loc);
  for (size_t i = 0; i < like->num_attrs; i++)
    if (strcmp(like->attrs[i].name, "axis") != 0) msc_op_set(back, like->attrs[i].name, like->attrs[i].value);
  msc_op_put(back, msc_fact_shape(msc_op_ctx(op), (size_t)to->type->rank, to->type->dim));
  back->name = like->name;
  msc_insert_before(op, back);
  msc_infer(back);
  msc_replace_uses(to, &back->out[0]);
}

/* Moves the reshape of operand `first` behind the op. False: not possible, nothing changed. */
static bool move_reshape_behind(msc_op *op, msc_arena *arena, const merge *first, size_t operand) {
  msc_rule rule;
  if (!is_in_same_block(op, first->by) || has_dim_attributes(op) || !msc_rule_of(op, arena, &rule)) return false;
  int letter = lead_letter(op, &rule, operand), more = first->num - 1;
  if (letter < 0 || (has_axis(op) && msc_op_int(op, "axis") % op->in[operand].value->type->rank == 0)) return false;
  msc_value **in = msc_new_array(arena, msc_value *, op->num_in);
  if (!collect_split_operands(op, &rule, letter, first, in) || !is_result_splittable(op, &rule, letter, more))
    return false;
  msc_op *copy = build_split_op(op, in, &rule, letter, first->num, arena);
  if (!copy) return false;
  for (size_t i = 0; i < op->num_out; i++) {
    if (copy->out[i].type->rank != op->out[i].type->rank) merge_result(op, first->by, &copy->out[i], &op->out[i]);
    else msc_replace_uses(&op->out[i], &copy->out[i]);
  }
  msc_op_erase(op);
  return true;
}

static bool try_to_unmerge(msc_op *op, msc_arena *arena) {
  if (!(msc_info(op)->flags & MSC_PURE) || op->body || op->letters || msc_has_user_constraint(op)) return false;
  for (size_t i = 0; i < op->num_in; i++) {
    merge m = merge_of(op->in[i].value);
    if (m.apart) return move_reshape_behind(op, arena, &m, i);
  }
  return false;
}

bool pass_unmerge(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  if (!pass->config || msc_config_devices(pass->config) == 1 ||
      msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_merged)))
    return msc_not_asked_for(pass);
  for (msc_func *f = m->first; f; f = f->next) {
    int64_t before = num;
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      num += try_to_unmerge(op, pass->scratch);
    }
    if (num > before) msc_func_put(f, msc_fact_unmerged_ops(num - before));
  }
  msc_stat(pass, "ops on dimensions apart", num);
  return msc_num_errors(pass->ctx) == 0;
}
