/* sum_parts: a sum of terms that ranks sum, each by a collective of its own -> the sum of their parts, and one
 * collective.
 *
 *   y = x + all_reduce(a) + all_reduce(b) + all_reduce(c)   ->   y = x + all_reduce(a + b + c)
 *
 * So the squares of all gradients, of whose norm `clip_norm` speaks, meet once.  Only numbers of f64 are taken: what
 * another order of the sum rounds there does not reach the f32 that is made of it. */
#include "ir/formula.h"
#include "passes/pass.h"

static bool is_sum_of_numbers(const msc_op *op) {
  return op && op->kind == OP_add && op->out[0].type->dtype == MSC_F64 && op->out[0].type->rank == 0;
}

/* The collective that sums the parts of a term that nobody else reads; NULL: it is no such term. */
static msc_op *collective_of(const msc_value *term) {
  const msc_layout *l = term->def && term->def->kind == OP_all_reduce ? term->def->in[0].value->type->layout : NULL;
  return l && l->reduction == MSC_SUM && msc_has_one_use(term) ? term->def : NULL;
}

/* True if both sum over the same ranks, on the same stage, a before b. */
static bool can_meet(const msc_op *a, const msc_op *b) {
  if (a->id >= b->id) return false;
  if (a->in[0].value->type != b->in[0].value->type || a->out[0].type != b->out[0].type || a->num_attrs != b->num_attrs)
    return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

/* Makes `late` sum the parts of `early`, too. */
static bool sum_with(msc_op *early, msc_op *late) {
  msc_builder b = {
      .func = late->block->func, .block = late->block, .before = late, .loc = late->loc, .name = late->name};
  msc_value *parts = plus(&b, early->in[0].value, late->in[0].value);
  MSC_TRY(parts);
  parts->type = late->in[0].value->type;
  msc_copy_marks(late, parts->def);
  msc_set_operand(late, 0, parts);
  return true;
}

/* Erases an op whose result is that of `same`. */
static void erase_for(msc_op *op, msc_value *same) {
  msc_replace_uses(&op->out[0], same);
  msc_op_erase(op);
}

/* Takes term i of a sum together with one that was added before, if there is one. *out_found: there was. */
static bool meet_earlier_term(msc_op *sum, size_t i, bool *out_found) {
  msc_op *late = collective_of(sum->in[i].value), *early;
  msc_value *before = sum->in[1 - i].value;
  *out_found = false;
  if (!late) return true;
  if ((early = collective_of(before)) && can_meet(early, late)) {
    MSC_TRY(sum_with(early, late));
    erase_for(sum, &late->out[0]);
    msc_op_erase(early);
    return *out_found = true;
  }
  for (; is_sum_of_numbers(before->def) && msc_has_one_use(before); before = before->def->in[0].value)
    for (size_t k = 0; k < 2; k++) {
      if (!(early = collective_of(before->def->in[k].value)) || !can_meet(early, late)) continue;
      MSC_TRY(sum_with(early, late));
      erase_for(before->def, before->def->in[1 - k].value);
      msc_op_erase(early);
      return *out_found = true;
    }
  return true;
}

bool pass_sum_parts(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    msc_number(f->body);
    for (msc_op *op = f->body->first, *next; op; op = next) {
      bool found = false;
      next = op->next;
      for (size_t i = 2; i-- > 0 && !found && is_sum_of_numbers(op);) MSC_TRY(meet_earlier_term(op, i, &found));
      num += found;
    }
    msc_forget_erased(f);
  }
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "collectives that became part of others", num);
  return true;
}
