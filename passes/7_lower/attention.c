/* attention: flash_attention and its gradient, for one rank's heads -> products and the ops between them, or the
 * same op marked for a library, or on a CPU for blocks of scores.  A dropout operand that is all ones is removed. */
#include <math.h>

#include "ir/formula.h"
#include "ir/interp/interp.h"
#include "passes/7_lower/choose.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/pass.h"

/* A mask as the library takes it, built once: the number that is added to each score, in four dimensions. */
typedef struct bias {
  const msc_value *mask;
  msc_value *value;
  struct bias *next;
} bias;

/* What is added to hidden scores: the lowest finite number of a 16-bit type, with which a row whose every position is
 * hidden stays finite; -infinity in f32, as in products. */
static double lowest(msc_dtype d) { return d == MSC_F16 ? -65504 : d == MSC_BF16 ? -0x1.fep127 : -(double)INFINITY; }

static msc_value *make_bias(msc_op *op, msc_value *mask) {
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc};
  const msc_type *t = mask->type;
  int64_t dim[4] = {1, 1, 1, 1};
  msc_dtype narrow = op->in[0].value->type->dtype;
  if (t->dtype == MSC_I1) {
    msc_value *zero = msc_build_scalar(&b, narrow, 0), *hidden = msc_build_scalar(&b, narrow, lowest(narrow));
    mask = choose(&b, mask, zero, hidden);
  }
  for (int d = 0; d < t->rank; d++) dim[4 - t->rank + d] = t->dim[d];
  return reshape(&b, mask, 4, dim);
}

static bool set_bias(msc_pass_ctx *pass, bias **all, msc_op *op) {
  size_t last = op->num_in - 1;
  msc_value *mask = op->in[last].value;
  bias *found = *all;
  while (found && found->mask != mask) found = found->next;
  if (!found) {
    found = msc_new(pass->scratch, bias);
    *found = (bias){mask, make_bias(op, mask), *all};
    *all = found;
  }
  if (found->value) msc_set_operand(op, last, found->value);
  return found->value;
}

/* Removes the operand `keep`, the last one of either op, if it is all ones. */
static void drop_keep_of_ones(msc_op *op) {
  msc_value *in[8];
  size_t num = op->kind == OP_flash_attention ? 3 : 6;
  const msc_value *keep = op->num_in > num && !msc_op_bool(op, "masked") ? op->in[num].value : NULL;
  while (keep && keep->def && keep->def->kind == OP_cast) keep = keep->def->in[0].value;
  if (!keep || !msc_is_splat(keep, 1)) return;
  for (size_t i = 0; i < num; i++) in[i] = op->in[i].value;
  msc_set_operands(op, num, in);
}

bool pass_attention(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0, kept = 0;
  msc_choices choices = msc_choices_of(pass, m);
  for (msc_func *f = m->first; f; f = f->next) {
    bias *biases = NULL;
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (msc_form_of(op) != MSC_FORM_ATTENTION) continue;
      drop_keep_of_ones(op);
      msc_chosen chosen = msc_choose(pass->scratch, op, &choices);
      if (*chosen.declined) msc_remark(pass, op, "%s", chosen.declined);
      if (chosen.by == MSC_BY_LIBRARY || chosen.by == MSC_BY_BLOCKS) {
        if (msc_op_bool(op, "masked")) MSC_TRY(set_bias(pass, &biases, op));
        msc_graph_mark(pass, op);
        kept++;
        continue;
      }
      msc_func *expansion = msc_expansion_of(op);
      MSC_TRY(expansion);
      msc_expand_in_place(op, expansion);
      num++;
    }
  }
  msc_stat(pass, "ops expanded", num);
  msc_stat(pass, "ops kept whole", kept);
  return true;
}
