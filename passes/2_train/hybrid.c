/* hybrid: parallel_mode hybrid_parallel: the function is one rank's program, with the collectives that its user wrote
 * -> the same, marked `manual`, with what the mode adds.
 *
 * The objective is the sum of the losses of all r ranks. A parameter is equal on all ranks, so its gradient is summed
 * over them (gradients_mean: averaged); one marked layerwise_parallel is r parameters, one per rank, and its gradient
 * stays. With the parallel optimizer (zero, all stages alike) each rank keeps a part of the parameter, of its gradient
 * and of its state: the step begins with an all_gather of the parameter, and a reduce_scatter sums the gradient. An
 * all_reduce without axes is over all ranks.
 * Results are those of all ranks together: numbers as their mean, tensors one after the other along dimension 0.
 * random_layout.c decides what masks are drawn for; localize gives the arguments their layouts. */
#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_attr_value axes; /* all axes of the mesh */
  int64_t ranks;
} hybrid;

static bool set_hybrid_mesh(hybrid *h) {
  msc_context *ctx = h->pass->ctx;
  msc_module *m = h->f->module;
  msc_mesh mesh = m->mesh;
  if (mesh.num_axes == 0 || msc_config_value(h->pass->config, MSC_KEY_mesh))
    mesh = msc_config_hybrid_mesh(h->pass->config, ctx);
  MSC_TRY(msc_change_mesh(m, &mesh));
  if (msc_mesh_size(&m->mesh) != h->ranks)
    return msc_error(ctx, MSC_E_CONFIG, h->f->loc, "the mesh %s has %" PRId64 " devices, device_num is %" PRId64,
                     msc_mesh_print(h->pass->scratch, &m->mesh), msc_mesh_size(&m->mesh), h->ranks);
  h->axes = msc_digits_attr(msc_mesh_digits(ctx, &m->mesh));
  return true;
}

/* ---- annotations that this mode does not honour ---- */

static void ignore_strategy(const hybrid *h, msc_op *op) {
  if (msc_op_has_sort(op, MSC_SORT_STRATEGY))
    msc_warning(h->pass->ctx, MSC_E_STRATEGY, op->loc,
                "the strategy of %s is ignored: parallel_mode is hybrid_parallel", msc_op_title(op));
  msc_op_unset_sort(op, MSC_SORT_STRATEGY);
}

static bool check_hybrid_func(hybrid *h) {
  bool ok = true;
  for (msc_op *op = h->f->body->first; op; op = op->next) ignore_strategy(h, op);
  for (size_t i = 0; i < h->f->body->num_args; i++)
    if (msc_is_layerwise(h->f, i) && h->f->body->args[i]->type->rank == 0)
      ok = msc_error(h->pass->ctx, MSC_E_UNSUPPORTED, h->f->loc,
                     "parameter '%s': layerwise_parallel of a single number is not supported yet; give it shape [1]",
                     msc_name_of_arg(h->f, i));
  return ok;
}

/* ---- collectives without axes ---- */

static bool is_over_all_ranks(const msc_op *op) {
  return op->kind == OP_all_reduce && !msc_op_attr(op, "axes") && !op->in[0].value->type->layout;
}

static void name_all_axes(const hybrid *h, const msc_block *b) {
  for (msc_op *op = b->first; op; op = op->next) {
    if (op->body) name_all_axes(h, op->body);
    if (is_over_all_ranks(op)) msc_op_set(op, "axes", h->axes);
  }
}

/* Reports, in another mode, sums over ranks: there the program is written for one device. */
static bool refuse_sums_over_ranks(const msc_pass_ctx *pass, const msc_block *b) {
  bool ok = true;
  for (const msc_op *op = b->first; op; op = op->next) {
    if (op->body) ok &= refuse_sums_over_ranks(pass, op->body);
    if (is_over_all_ranks(op))
      ok = msc_op_error(op, MSC_E_UNSUPPORTED,
                        "%s: a model says in parallel_mode hybrid_parallel what each rank does, not in %s",
                        msc_op_title(op), msc_config_text(pass->config, MSC_KEY_parallel_mode));
  }
  return ok;
}

/* ---- results ---- */

/* Builds, in front of `before`, a collective of v over all ranks. dim: along which it cuts or gathers; -1: it does
 * neither, or dimension 0. */
static msc_value *build_over_ranks(const hybrid *h, msc_value *v, msc_op_kind verb, int64_t dim, msc_op *before,
                                   msc_builder *out_b) {
  *out_b = (msc_builder){.func = h->f,
                         .block = h->f->body,
                         .before = before,
                         .loc = v->def ? v->def->loc : h->f->loc,
                         .name = v->def ? v->def->name : v->name};
  msc_attr attr[] = {msc_named(h->pass->ctx, "axes", h->axes), msc_named(h->pass->ctx, "dim", msc_int(dim))};
  return with_attrs(out_b, verb, 1, &v, dim < 0 ? 1 : 2, attr);
}

static msc_value *build_collective(hybrid *h, msc_value *v, msc_op_kind verb, int64_t dim, double factor) {
  msc_builder b;
  v = build_over_ranks(h, v, verb, dim, h->f->body->last, &b);
  return factor == 1 ? v : scale_by(&b, v, factor);
}

static bool replace_result(hybrid *h, size_t i, msc_op_kind verb, double factor) {
  msc_op *ret = h->f->body->last;
  msc_value *v = build_collective(h, ret->in[i].value, verb, -1, factor);
  if (v) msc_set_operand(ret, i, v);
  return v != NULL;
}

static bool mean_result(hybrid *h, size_t i) { return replace_result(h, i, OP_all_reduce, 1.0 / (double)h->ranks); }

/* Sums the gradient of an argument, result i, over the ranks, into parts if the argument is one: as it is, or, without
 * gradient_fp32_sync, before the cast that widens it. */
static bool sum_gradient_over_ranks(hybrid *h, size_t i, size_t arg, double factor) {
  msc_op *ret = h->f->body->last;
  msc_value *g = ret->in[i].value;
  msc_op *cast = g->def && g->def->kind == OP_cast && g->def->forward ? g->def : NULL;
  if (msc_config_bool(h->pass->config, MSC_KEY_gradient_fp32_sync)) cast = NULL;
  int64_t dim = msc_fact_read(&h->f->arg[arg], msc_cut_dim, -1);
  msc_value *sum =
      build_collective(h, cast ? cast->in[0].value : g, dim < 0 ? OP_all_reduce : OP_reduce_scatter, dim, factor);
  MSC_TRY(sum);
  if (!cast) return msc_set_operand(ret, i, sum), true;
  msc_op_unlink(cast);
  msc_insert_before(ret, cast);
  msc_set_operand(cast, 0, sum);
  cast->out[0].type = msc_type_of(h->pass->ctx, g->type->dtype, g->type->rank, sum->type->dim, NULL);
  return true;
}

/* The argument whose new value result i is, as running statistics have one; -1: none. */
static int64_t argument_renewed_by(const hybrid *h, size_t i) {
  const msc_attr_value *ties = msc_func_attr(h->f, MSC_FACT(ties));
  return ties && i < ties->list.num ? ties->list.v[i].i : -1;
}

/* Makes result i, which each rank has renewed from its part of the batch (running statistics), equal on all ranks: its
 * mean. Whole numbers, which count steps, are equal already. */
static bool combine_renewed(hybrid *h, size_t i, int64_t argument) {
  bool is_float = msc_is_float(h->f->body->last->in[i].value->type->dtype);
  if (msc_is_layerwise(h->f, (size_t)argument) || !is_float) return true;
  return mean_result(h, i);
}

static bool combine_shown_result(hybrid *h, size_t i) {
  const msc_type *t = h->f->body->last->in[i].value->type;
  if (t->rank > 0) return replace_result(h, i, OP_all_gather, 1);
  if (msc_is_float(t->dtype)) return mean_result(h, i);
  return msc_error(h->pass->ctx, MSC_E_UNSUPPORTED, h->f->loc,
                   "hybrid_parallel: result %zu is a whole number, which has no mean over the ranks: not supported yet",
                   i);
}

static bool combine_results(hybrid *h) {
  const msc_attr_value *gradients = msc_func_attr(h->f, MSC_FACT(gradients));
  size_t num = gradients ? gradients->list.num : 0, first = h->f->body->last->num_in - num;
  double factor = msc_config_bool(h->pass->config, MSC_KEY_gradients_mean) ? 1.0 / (double)h->ranks : 1;
  bool ok = true;
  for (size_t i = 0; i < first; i++) {
    int64_t argument = argument_renewed_by(h, i);
    ok &= argument < 0 ? combine_shown_result(h, i) : combine_renewed(h, i, argument);
  }
  for (size_t i = 0; i < num; i++)
    if (!msc_is_layerwise(h->f, (size_t)gradients->list.v[i].i))
      ok &= sum_gradient_over_ranks(h, first + i, (size_t)gradients->list.v[i].i, factor);
  return ok;
}

/* ---- the parallel optimizer ---- */

/* The outermost dimension that all ranks can cut into equal parts; -1: the parameter stays whole. *out_why says what
 * was chosen, in the words of msc.zero. */
static int64_t choose_dim_to_cut(const hybrid *h, size_t arg, const char **out_why) {
  const msc_type *t = h->f->body->args[arg]->type;
  shard_zero zero = shard_zero_of(h->pass->config);
  if ((*out_why = shard_reason_to_stay_whole(h->f, arg, &zero))) return -1;
  if (msc_is_layerwise(h->f, arg)) return *out_why = "whole: no two ranks hold the same part", -1;
  if (zero.most >= 0 && zero.most < h->ranks)
    return *out_why = "whole: optimizer_weight_shard_size is less than the ranks, which hybrid_parallel cuts over", -1;
  int d = 0;
  while (d < t->rank && t->dim[d] % h->ranks) d++;
  if (d == t->rank) return *out_why = "whole: no dimension can be cut into as many equal parts as there are ranks", -1;
  *out_why = msc_arena_printf(h->pass->scratch,
                              "parameter, update and state: dimension %d over %" PRId64 " ranks, %" PRId64
                              " of %" PRId64 " bytes",
                              d, h->ranks, msc_type_bytes(t) / h->ranks, msc_type_bytes(t));
  return d;
}

/* Leaves each rank a part of the parameter, which is gathered at the beginning. */
static bool cut_parameter(hybrid *h, size_t arg, int64_t d) {
  msc_value *w = h->f->body->args[arg];
  msc_type part = *w->type;
  msc_builder b;
  part.dim[d] /= h->ranks;
  w->type = msc_type_of(h->pass->ctx, part.dtype, part.rank, part.dim, NULL);
  msc_value *all = build_over_ranks(h, w, OP_all_gather, d, h->f->body->first, &b);
  MSC_TRY(all);
  msc_replace_uses(w, all);
  msc_set_operand(all->def, 0, w);
  msc_arg_put(h->f, arg, msc_fact_msc_cut_dim(d));
  return true;
}

/* Cuts every parameter that has a gradient and can be cut. */
static bool cut_parameters(hybrid *h) {
  const msc_attr_value *gradients = msc_func_attr(h->f, MSC_FACT(gradients));
  bool on = msc_config_zero(h->pass->config) && h->ranks > 1;
  for (size_t i = 0; on && gradients && i < gradients->list.num; i++) {
    size_t arg = (size_t)gradients->list.v[i].i;
    const char *why;
    int64_t d = choose_dim_to_cut(h, arg, &why);
    msc_arg_put(h->f, arg, msc_fact_msc_zero(h->pass->ctx, why));
    if (d >= 0) MSC_TRY(cut_parameter(h, arg, d));
  }
  return true;
}

bool pass_hybrid(msc_pass_ctx *pass, msc_module *m) {
  hybrid h = {.pass = pass, .f = msc_program_func(m, MSC_PROGRAM_FORWARD), .ranks = msc_config_devices(pass->config)};
  bool is_mode = msc_config_parallel_mode(pass->config) == MSC_HYBRID_PARALLEL;
  for (size_t i = 0; h.f && !is_mode && i < h.f->body->num_args; i++)
    if (msc_is_layerwise(h.f, i))
      msc_warning(pass->ctx, MSC_E_STRATEGY, h.f->loc,
                  "parameter '%s': layerwise_parallel says something in hybrid_parallel only", msc_name_of_arg(h.f, i));
  if (h.f && !is_mode) MSC_TRY(refuse_sums_over_ranks(pass, h.f->body));
  if (!h.f || !is_mode || msc_func_attr(h.f, MSC_FACT(manual))) return msc_not_asked_for(pass);
  bool full_batch = msc_config_input_mode(pass->config) == MSC_INPUT_FULL_BATCH;
  MSC_TRY(set_hybrid_mesh(&h) && check_hybrid_func(&h));
  name_all_axes(&h, h.f->body);
  MSC_TRY(msc_place_draws(h.f, pass->scratch, full_batch) && cut_parameters(&h) && combine_results(&h));
  msc_func_put(h.f, msc_fact_manual(true));
  pass->changes_meaning = true;
  return true;
}
