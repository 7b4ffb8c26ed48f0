/* outputs: function "forward" -> module attribute `msc.outputs`: of each result its name, the dimension that is the
 * batch (-1: none), whether it depends on a label, and whether it adds up: then it is, in an evaluation, r + the sum of
 * e(x) over the samples x of the batch, where neither r nor e depends on the batch, so that several batches, and one
 * that is filled up with copies, tell what all their samples have. A loss that is a quotient of two such sums gets a
 * result beside it, its divisor. */
#include <string.h>

#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"
#include "passes/pass.h"

static bool is_label(const msc_func *f, size_t arg) { return msc_arg_role(f, arg) == MSC_ROLE_LABEL; }
static bool has_batch(const msc_func *f, size_t arg) { return msc_batch_dim(f, arg) >= 0; }

/* True by value id for each value that depends on an argument of this kind. */
static bool *find_readers(msc_arena *arena, const msc_func *f, bool (*is_kind)(const msc_func *, size_t arg)) {
  bool *reads = msc_new_array(arena, bool, msc_number(f->body).num_values + 1);
  for (size_t i = 0; i < f->body->num_args; i++) reads[f->body->args[i]->id] = is_kind(f, i);
  for (const msc_op *op = f->body->first; op; op = op->next) {
    bool any = false;
    for (size_t i = 0; i < op->num_in; i++) any |= reads[op->in[i].value->id];
    for (size_t i = 0; i < op->num_out; i++) reads[op->out[i].id] = any;
  }
  return reads;
}

/* True if, in an evaluation, some op draws numbers, which differ from place to place in the batch, or is marked to see
 * all samples of a part; dropout is left out there, and a batch_norm has its statistics. */
static bool are_samples_apart(const msc_func *f) {
  for (const msc_op *op = f->body->first; op; op = op->next) {
    if (msc_info(op)->flags & MSC_RANDOM && op->kind != OP_dropout) return false;
    if (msc_sees_part(op) && op->kind != OP_batch_norm) return false;
  }
  return true;
}

/* Gives the function a result more, the divisor of a loss that is a mean of some samples, or with weights. Leaves it as
 * it is, and *out_name NULL, if the loss has none, or someone said how the results are cut. */
static bool return_divisor(msc_pass_ctx *pass, msc_func *f, const char **out_name) {
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results)), *loss = msc_func_attr(f, MSC_FACT(loss));
  msc_op *ret = f->body->last;
  msc_value *divisor = NULL;
  *out_name = NULL;
  if (!loss || ret->num_attrs) return true;
  const char *name = msc_arena_printf(pass->scratch, "%s.divisor", names->list.v[loss->i].s);
  for (size_t i = 0; i < names->list.num; i++)
    if (!strcmp(names->list.v[i].s, name)) return true;
  MSC_TRY(msc_build_loss_divisor(pass, f, &divisor));
  if (!divisor) return true;
  msc_value **value = msc_new_array(pass->scratch, msc_value *, ret->num_in + 1);
  for (size_t i = 0; i < ret->num_in; i++) value[i] = ret->in[i].value;
  value[ret->num_in] = divisor;
  msc_set_operands(ret, ret->num_in + 1, value);
  msc_add_result_names(f, 1, &name);
  *out_name = name;
  return true;
}

static const char *way_of_adding(const msc_batch_fact *marked) {
  return marked->meaning == MSC_BATCH_MEAN || marked->meaning == MSC_BATCH_SUM ? "adds_up" : "";
}

static bool is_batch_of_one(const msc_func *f) {
  for (size_t i = 0; i < f->body->num_args; i++)
    if (has_batch(f, i) && f->body->args[i]->type->dim[msc_batch_dim(f, i)] != 1) return false;
  return true;
}

/* The dimension of a result with a part for each sample; -1: none. A batch of one sample cannot be followed through
 * dimensions of size 1, but all that a result has of the samples is this one's: the first dimension serves. */
static int output_batch_dim(const msc_value *v, const msc_batch_fact *fact, bool only_sample) {
  if (fact->meaning == MSC_BATCH_PART && fact->outer == 1) return fact->dim;
  return only_sample && v->type->rank && v->type->dim[0] == 1 ? 0 : -1;
}

bool pass_outputs(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  const char *divisor = NULL;
  if (!f || !msc_func_attr(f, MSC_FACT(results)) || msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_outputs)))
    return true;
  bool apart = are_samples_apart(f);
  if (apart) MSC_TRY(return_divisor(pass, f, &divisor));
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  const msc_op *ret = f->body->last;
  const msc_batch_fact *fact = msc_batch_facts(f, pass->scratch, MSC_BATCH_WHOLE),
                       *marked = fact ? msc_batch_facts(f, pass->scratch, MSC_BATCH_MARKED) : NULL;
  MSC_TRY(marked);
  const bool *labels = find_readers(pass->scratch, f, is_label), *samples = find_readers(pass->scratch, f, has_batch);
  bool alone = is_batch_of_one(f);
  msc_attr_value *all = msc_new_array(pass->scratch, msc_attr_value, names->list.num);
  for (size_t i = 0; i < names->list.num; i++) {
    size_t id = ret->in[i].value->id;
    int batch_dim = output_batch_dim(ret->in[i].value, &fact[id], alone && samples[id]);
    const char *adds = apart ? way_of_adding(&marked[id]) : "";
    if (divisor && !strcmp(names->list.v[i].s, divisor)) adds = "divisor";
    all[i] = msc_list(pass->ctx, 4, (msc_attr_value[]){names->list.v[i], msc_int(batch_dim), msc_bool(labels[id]),
                                                       msc_str(pass->ctx, adds)});
  }
  msc_attrs_put(pass->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_outputs(pass->ctx, names->list.num, all));
  return true;
}
