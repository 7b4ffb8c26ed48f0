/* bias_correction: updates of Adam that read the number t of the step -> updates that read the bias corrections
 * 1 - beta1^t and 1 - beta2^t, which are computed once for all.
 *
 * A CPU's kernel computes them once per call anyway. Each of a GPU's threads would compute them in f64, at which most
 * GPUs are slow. */
#include <math.h>

#include "ir/formula.h"
#include "ir/hypers.h"
#include "passes/pass.h"

/* Two numbers that were made of a step. */
typedef struct {
  msc_value *step, *pair;
  double beta1, beta2;
} corrected;

/* The place of the operand t of an update; -1: the op has none, or computes in f64 anyway, or its betas change. */
static int step_operand(const msc_op *op) {
  int at = msc_info(op)->flags & MSC_UPDATE && !msc_reads_hypers(op) ? msc_operand_called(op, "t") : -1;
  return at >= 0 && !op->in[at].value->type->rank && op->out[0].type->dtype != MSC_F64 ? at : -1;
}

/* 1 - beta^t as [1]: in f64, since nearly everything cancels at the first steps. */
static msc_value *correct_bias(msc_builder *b, msc_value *step, double beta) {
  msc_value *power = unary(b, OP_exp, scale_by(b, cast(b, step, MSC_F64), log(beta)));
  msc_value *one = number(b, power, 1);
  return reshape(b, cast(b, minus(b, one, power), MSC_F32), 1, (int64_t[]){1});
}

static msc_value *make_pair(msc_op *op, msc_value *step, double beta1, double beta2) {
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc};
  msc_value *both[] = {correct_bias(&b, step, beta1), correct_bias(&b, step, beta2)};
  return both[0] && both[1] ? join_along(&b, 0, 2, both) : NULL;
}

bool pass_bias_correction(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    corrected *known = NULL;
    size_t num_known = 0;
    for (msc_op *op = f->body->first; op; op = op->next) {
      int at = step_operand(op);
      if (at < 0) continue;
      corrected c = {op->in[at].value, NULL, msc_op_float(op, "beta1"), msc_op_float(op, "beta2")};
      for (size_t i = 0; i < num_known; i++)
        if (known[i].step == c.step && known[i].beta1 == c.beta1 && known[i].beta2 == c.beta2) c.pair = known[i].pair;
      if (!c.pair) {
        if (!(c.pair = make_pair(op, c.step, c.beta1, c.beta2))) return false;
        msc_grow(pass->scratch, known, num_known);
        known[num_known++] = c;
      }
      msc_set_operand(op, (size_t)at, c.pair);
      num++;
    }
  }
  msc_stat(pass, "updates", num);
  return true;
}
