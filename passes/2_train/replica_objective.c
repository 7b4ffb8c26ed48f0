/* replica_objective: func "forward" for parallel_mode data_parallel -> the same with the meaning of r replicas that
 * each see one r-th of the batch. The objective is the sum of their losses (gradients_mean: the mean); a result without
 * a batch dimension, as the loss, is the mean over the replicas.
 *
 * The graph is written for the whole batch, so a mean over the batch is the mean over the replicas of their means, and
 * a sum r times that: sums, also those added to means, get the factor 1/r, and the gradient of the loss, attribute
 * `loss_seed`, is r (gradients_mean: 1). Example, r = 2, batch 4, loss = mean of e: the replicas have (e0+e1)/2 and
 * (e2+e3)/2, their sum is 2 * loss. If the batch does not divide, some replicas have one sample more than others, and
 * every sample counts alike. What pairs samples is made of the whole batch. Ops that mix samples in another way were
 * replaced by cross_batch, or are refused. */
#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  const msc_batch_fact *fact; /* by value id */
} objective_reader;

/* ---- results ---- */

static bool report_mixed_samples(const msc_op *mixer) {
  msc_op_error(mixer, MSC_E_UNSUPPORTED,
               "%s: mixes samples of the batch, which the replicas of parallel_mode data_parallel do not see together: "
               "not supported yet; use semi_auto_parallel or auto_parallel",
               msc_kind_name(mixer->kind));
  return false;
}

static bool scale_result(objective_reader *r, msc_op *ret, size_t i, int64_t replicas) {
  msc_value *v = ret->in[i].value;
  msc_builder b = {.func = r->f, .block = r->f->body, .before = ret, .loc = v->def->loc, .name = v->def->name};
  if (!msc_is_float(v->type->dtype)) return report_mixed_samples(v->def); /* the mean of integers is not an integer */
  msc_value *mean = scale_by(&b, v, 1.0 / (double)replicas);
  if (!mean) return false;
  msc_set_operand(ret, i, mean);
  r->pass->changes_meaning = true;
  return true;
}

static bool scale_sum_results(objective_reader *r, int64_t replicas) {
  msc_op *ret = r->f->body->last;
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_batch_fact *f = &r->fact[ret->in[i].value->id];
    if (f->meaning == MSC_BATCH_MIXED) ok = report_mixed_samples(f->mixer);
  }
  for (size_t i = 0; ok && i < ret->num_in; i++)
    if (r->fact[ret->in[i].value->id].meaning == MSC_BATCH_SUM) ok = scale_result(r, ret, i, replicas);
  return ok;
}

bool pass_replica_objective(msc_pass_ctx *pass, msc_module *m) {
  int64_t replicas = msc_config_devices(pass->config);
  if (msc_config_parallel_mode(pass->config) != MSC_DATA_PARALLEL || replicas <= 1) return msc_not_asked_for(pass);
  msc_func *f = msc_training_func(m);
  if (!f || msc_func_attr(f, MSC_FACT(replicas))) return true;
  objective_reader r = {.pass = pass, .f = f};
  r.fact = msc_batch_facts(f, pass->scratch, MSC_BATCH_WHOLE);
  MSC_TRY(r.fact && msc_batch_make_means(r.fact, f, 1.0 / (double)replicas) && scale_sum_results(&r, replicas));
  msc_func_put(f, msc_fact_replicas(replicas));
  if (msc_config_bool(pass->config, MSC_KEY_gradients_mean)) return true;
  msc_func_put(f, msc_fact_loss_seed(msc_loss_seed(f) * (double)replicas));
  return true;
}
