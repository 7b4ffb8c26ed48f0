/* biased: a convolution that a GPU's library computes, the addition of a bias and a relu -> one op, which stores once:
 *
 *   conv2d(x, w) + bias         ->  biased_conv2d(x, w, bias)
 *   relu(conv2d(x, w) + bias)   ->  the same, with relu */
#include "ir/formula.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/config/config.h"

/* The operand that `add` adds to y if it has one number for each channel; else NULL. */
static msc_value *channel_bias(const msc_op *add, const msc_value *y) {
  msc_value *v = add->in[add->in[0].value == y].value;
  const msc_type *t = v->type;
  for (int d = 0; d < t->rank; d++)
    if (t->dim[d] != (d == t->rank - 3 ? y->type->dim[1] : 1)) return NULL;
  return t->rank >= 3 && t->rank <= 4 ? v : NULL;
}

/* Inserts the biased convolution in front of `end`, where all its operands are computed.  NULL: an error was
 * reported. */
static msc_op *insert_biased_conv(msc_op *conv, msc_value *bias, msc_op *end, bool relu) {
  msc_builder b = {.func = end->block->func, .block = end->block, .before = end, .loc = conv->loc};
  bias = reshape(&b, bias, 4, (int64_t[]){1, conv->out[0].type->dim[1], 1, 1});
  if (!bias) return NULL;
  msc_op *op = msc_op_new(b.func, OP_biased_conv2d, 3, (msc_value *[]){conv->in[0].value, conv->in[1].value, bias}, 1,
                          conv->loc);
  for (size_t i = 0; i < conv->num_attrs; i++) msc_op_set(op, conv->attrs[i].name, conv->attrs[i].value);
  if (relu) msc_op_set(op, "relu", msc_bool(true));
  op->name = conv->name;
  msc_insert_before(end, op);
  return msc_infer(op) ? op : NULL;
}

/* Replaces a convolution with a bias by one op; *out_made: it did.  False: an error was reported. */
static bool absorb_bias(msc_op *conv, bool *out_made) {
  msc_op *add = msc_is_graph(conv) && conv->kind == OP_conv2d ? msc_only_user(&conv->out[0], OP_add) : NULL;
  msc_value *bias = add ? channel_bias(add, &conv->out[0]) : NULL;
  *out_made = bias != NULL;
  if (!bias) return true;
  msc_op *relu = msc_only_user(&add->out[0], OP_relu), *end = relu ? relu : add,
         *op = insert_biased_conv(conv, bias, end, relu != NULL);
  if (!op) return false;
  msc_replace_uses(&end->out[0], &op->out[0]);
  if (relu) msc_op_erase(relu);
  msc_op_erase(add);
  msc_op_erase(conv);
  return true;
}

bool pass_biased(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  if (!msc_config_bool(pass->config, MSC_KEY_library_epilogues)) return true;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      bool made;
      next = op->next;
      while (next && (next->kind == OP_add || next->kind == OP_relu))
        next = next->next; /* absorbing conv may erase these */
      MSC_TRY(absorb_bias(op, &made));
      num += made;
    }
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "convolutions with a bias", num);
  return true;
}
