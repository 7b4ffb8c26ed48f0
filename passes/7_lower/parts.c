/* parts: split -> a slice for each part, which the op that reads the part can take in its own loops.  A split is one
 * kernel that writes all parts.  The sum of parts that are padded with zeros to the whole, as the gradients of slices
 * are -> a concat of the parts, which reads each once. */
#include "ir/formula.h"
#include "passes/pass.h"

static bool replace_split(msc_op *split) {
  msc_builder b = {
      .func = split->block->func, .block = split->block, .before = split, .loc = split->loc, .name = split->name};
  int dim = (int)msc_op_int(split, "dim");
  int64_t from = 0;
  for (size_t i = 0; i < split->num_out; i++) {
    int64_t to = from + split->out[i].type->dim[dim];
    msc_value *part = msc_has_uses(&split->out[i]) ? part_of(&b, split->in[0].value, dim, from, to) : &split->out[i];
    if (!part) return false;
    if (part != &split->out[i]) msc_replace_uses(&split->out[i], part);
    from = to;
  }
  msc_op_erase(split);
  return true;
}

enum { MOST_PARTS = 16 };

/* The parts of a sum, and the dimension along which they lie side by side. */
typedef struct {
  int num, dim;
  msc_value *part[MOST_PARTS];
  int64_t from[MOST_PARTS];
} padded_parts;

/* Adds what v is the sum of, from the first part on in the order of the dimension; false: it is no sum of parts. */
static bool collect_parts(const msc_value *v, padded_parts *p) {
  const msc_op *op = v->def;
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  if (!op || !msc_has_one_use(v)) return false;
  if (op->kind == OP_add && op->in[0].value->type == v->type && op->in[1].value->type == v->type)
    return collect_parts(op->in[0].value, p) && collect_parts(op->in[1].value, p);
  if (op->kind != OP_pad || p->num == MOST_PARTS || msc_op_float(op, "value") != 0 || msc_op_attr(op, MSC_FACT(starts)))
    return false;
  int rank = msc_op_ints(op, "low", low, MSC_MAX_RANK);
  msc_op_ints(op, "high", high, MSC_MAX_RANK);
  int strides = msc_op_ints(op, "stride", stride, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) {
    if (d < strides && stride[d] != 1) return false;
    if (low[d] < 0 || high[d] < 0 || (p->dim >= 0 && d != p->dim && (low[d] || high[d]))) return false;
    if (p->dim < 0 && (low[d] || high[d])) p->dim = d;
  }
  if (p->dim < 0) return false;
  for (int d = 0; d < rank; d++)
    if (d != p->dim && (low[d] || high[d])) return false;
  int at = p->num++;
  for (; at && p->from[at - 1] > low[p->dim]; at--) p->part[at] = p->part[at - 1], p->from[at] = p->from[at - 1];
  p->part[at] = op->in[0].value, p->from[at] = low[p->dim];
  return true;
}

static void erase_sum(msc_op *op) {
  msc_op *before[2] = {op->in[0].value->def, op->kind == OP_add ? op->in[1].value->def : NULL};
  bool sum = op->kind == OP_add;
  msc_op_erase(op);
  for (int i = 0; i < 2 && sum; i++) erase_sum(before[i]);
}

/* Replaces a sum of padded parts that fill the whole, each element being of one part. */
static bool join_padded(msc_pass_ctx *pass, msc_op *sum) {
  padded_parts p = {.dim = -1};
  int64_t to = 0;
  if (!collect_parts(sum->in[0].value, &p) || !collect_parts(sum->in[1].value, &p)) return true;
  for (int i = 0; i < p.num; i++) {
    if (p.from[i] != to) return true;
    to += p.part[i]->type->dim[p.dim];
  }
  if (to != sum->out[0].type->dim[p.dim]) return true;
  msc_builder b = {.func = sum->block->func, .block = sum->block, .before = sum, .loc = sum->loc, .name = sum->name};
  msc_value *whole = join_along(&b, p.dim, (size_t)p.num, p.part);
  if (!whole) return false;
  msc_replace_uses(&sum->out[0], whole);
  erase_sum(sum);
  msc_stat(pass, "sums of parts replaced", 1);
  return true;
}

bool pass_parts(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (op->kind == OP_add) {
        MSC_TRY(join_padded(pass, op));
        continue;
      }
      if (op->kind != OP_split) continue;
      MSC_TRY(replace_split(op));
      msc_stat(pass, "splits replaced", 1);
    }
  return true;
}
