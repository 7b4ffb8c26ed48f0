/* random_graph.h: makes a random module from a seed, with a valid forward function, loss and optimizer, and the
 * configuration to compile it with. The same seed gives the same graph on every machine. */
#ifndef MSC_TESTS_PASSES_RANDOM_GRAPH_H
#define MSC_TESTS_PASSES_RANDOM_GRAPH_H

#include "tests/passes/random_ops.h"
#include "tests/passes/random_settings.h"

/* ---- loss ---- */

static inline msc_value *reduced(random_graph *g, msc_op_kind kind, msc_value *x) {
  int64_t dims[MSC_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) dims[d] = d;
  msc_attr attr = ints(g, "dims", x->type->rank, dims);
  return op_with(g, kind, 1, &x, 1, &attr);
}

static inline msc_value *cross_entropy(random_graph *g, msc_value *x, const char *how) {
  const msc_type *t = x->type;
  bool numbers = chance(g, 70), counted = !strcmp(how, "mean"); /* micro-batches do not know the number of rows kept */
  msc_value *labels =
      numbers ? new_indices(g, t->rank - 1, t->dim, t->dim[t->rank - 1], "label") : new_arg(g, t, "y", "label");
  msc_attr attrs[3] = {text(g, "reduction", how)};
  size_t num = 1;
  if (numbers && !counted && chance(g, 40))
    attrs[num++] = integer(g, "ignore_index", below(g, (int)t->dim[t->rank - 1]));
  if (chance(g, 20)) attrs[num++] = msc_named(g->ctx, "label_smoothing", msc_float(0.125));
  return op_with(g, OP_softmax_cross_entropy, 2, (msc_value *[]){x, labels}, num, attrs);
}

static inline msc_value *loss_of(random_graph *g, msc_value *x) {
  const char *how = chance(g, 60) ? "mean" : "sum";
  int pick = below(g, 10);
  if (x->type->rank > 1 && pick < 5) return cross_entropy(g, x, how);
  if (x->type->rank > 1 && pick == 5) return reduced(g, OP_reduce_mean, cross_entropy(g, x, "none"));
  if (pick < 8) {
    msc_attr reduction = text(g, "reduction", how);
    msc_value *target = new_arg(g, x->type, "y", "label");
    return op_with(g, chance(g, 50) ? OP_mean_absolute_error : OP_mean_squared_error, 2, (msc_value *[]){x, target}, 1,
                   &reduction);
  }
  return reduced(g, pick == 8 ? OP_reduce_mean : OP_reduce_sum, binary(g, OP_mul, x, x));
}

/* ---- attributes of the function ---- */

/* Is the parameter looked up, and nothing else? */
static inline bool is_table(const random_graph *g, const msc_value *v) {
  bool any = false;
  for (const msc_use *u = v->uses; u; u = u->next, any = true)
    if (u->user->kind != OP_gather || u != u->user->in || msc_op_int(u->user, "axis")) return false;
  return any && msc_arg_role(g->f, v->index) == MSC_ROLE_PARAMETER && v->type->dtype == MSC_F32;
}

static inline bool has_table(const random_graph *g) {
  for (size_t i = 0; i < g->f->body->num_args; i++)
    if (is_table(g, g->f->body->args[i])) return true;
  return false;
}

enum { NUM_OPTIMIZERS = 8 };

static inline msc_attr_value group_of(random_graph *g, int kind, size_t num, const msc_attr_value *names) {
  static const char *const kinds[NUM_OPTIMIZERS] = {"sgd",   "momentum", "adagrad", "adam",
                                                    "adamw", "lamb",     "rmsprop", "rmsprop_momentum"};
  msc_attr *a = NULL;
  size_t n = 0;
  msc_put_attr(g->ctx, &a, &n, "kind", msc_str(g->ctx, kinds[kind]));
  msc_put_attr(g->ctx, &a, &n, "lr", msc_float(0.0625));
  if (strstr(kinds[kind], "momentum")) msc_put_attr(g->ctx, &a, &n, "momentum", msc_float(0.75));
  if (kind == 1 && chance(g, 30)) msc_put_attr(g->ctx, &a, &n, "nesterov", msc_bool(true));
  if (chance(g, 30)) msc_put_attr(g->ctx, &a, &n, "weight_decay", msc_float(0.125));
  if (g->clips) msc_put_attr(g->ctx, &a, &n, "clip_norm", msc_float(0.5));
  if (kind < 4 && !names && !g->clips && has_table(g)) msc_put_attr(g->ctx, &a, &n, "lazy", msc_bool(chance(g, 60)));
  if (names) msc_put_attr(g->ctx, &a, &n, "parameters", msc_list(g->ctx, num, names));
  return (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {n, a}};
}

static inline void set_optimizer(random_graph *g) {
  msc_attr_value names[2][MAX_ARGS], group[2];
  size_t num[2] = {0, 0};
  for (size_t i = 0; i < g->f->body->num_args; i++)
    if (msc_arg_role(g->f, i) == MSC_ROLE_PARAMETER && !msc_arg_attr(g->f, i, "msc.trainable")) {
      int to = num[0] && chance(g, 50);
      names[to][num[to]++] = msc_str(g->ctx, g->f->body->args[i]->name);
    }
  int kind = below(g, NUM_OPTIMIZERS);
  g->clips = chance(g, 15);
  bool two = num[1] && chance(g, 20);
  group[0] = group_of(g, kind, num[0], two ? names[0] : NULL);
  if (two) group[1] = group_of(g, below(g, NUM_OPTIMIZERS), num[1], names[1]);
  msc_func_set(g->f, "optimizer", two ? msc_list(g->ctx, 2, group) : group[0]);
}

static inline void finish(random_graph *g, msc_value *loss) {
  msc_value *result[12] = {loss};
  msc_attr_value name[12] = {msc_str(g->ctx, "loss")};
  size_t num = 1;
  for (int i = 0; i < g->num_outputs; i++) result[num++] = g->output[i];
  for (int i = 0; i < g->num_pool && num < 6; i++)
    if (g->pool[i]->def && chance(g, 15)) result[num++] = g->pool[i];
  for (size_t i = 1; i < num; i++) name[i] = msc_str(g->ctx, msc_arena_printf(g->arena, "out%zu", i));
  msc_append_return(g->f, num, result, g->b.loc);
  msc_func_set(g->f, "loss", msc_int(0));
  msc_func_set(g->f, "results", msc_list(g->ctx, num, name));
  if (g->trains) set_optimizer(g);
}

/* ---- all ---- */

static inline void add_inputs(random_graph *g) {
  static const int64_t batches[] = {8, 12, 16, 24, 24, 6};
  g->batch = batches[below(g, g->keep_batch ? 5 : 6)];
  if (g->keep_batch) g->batch = 24;
  int64_t dim[3] = {g->batch, random_size(g), random_size(g)};
  if (dim[1] * dim[2] > 64) dim[1] = 4;
  int rank = 2 + chance(g, 35);
  g->pool[g->num_pool++] = new_arg(g, float_type(g, rank, dim), "x", "data");
  if (!g->keep_batch && chance(g, 10)) msc_arg_set(g->f, 0, "msc.batch_dim", msc_int(chance(g, 50) ? 1 : -1));
  if (chance(g, 25))
    g->pool[g->num_pool++] = new_arg(g, float_type(g, 2, (int64_t[]){g->batch, random_size(g)}), "x", "data");
}

static inline void random_graph_make(random_graph *g, msc_context *ctx, uint64_t seed) {
  static const char *const modes[] = {"stand_alone",   "data_parallel", "semi_auto_parallel", "semi_auto_parallel",
                                      "auto_parallel", "auto_parallel", "auto_parallel",      "semi_auto_parallel",
                                      "data_parallel", "auto_parallel"};
  memset(g, 0, sizeof *g);
  g->state = seed;
  g->ctx = ctx, g->arena = msc_context_arena(ctx);
  g->mode = modes[below(g, sizeof modes / sizeof *modes)];
  g->keep_batch = strcmp(g->mode, "data_parallel") == 0;
  g->trains = chance(g, 93);
  g->narrow = chance(g, 12);
  g->dtype = g->narrow || chance(g, 25) ? MSC_F32 : MSC_F64;
  if (g->narrow && chance(g, 50)) g->dtype = chance(g, 60) ? MSC_BF16 : MSC_F16;
  g->m = msc_module_new(ctx);
  g->f = msc_func_new(g->m, "forward");
  g->b = (msc_builder){.func = g->f,
                       .block = g->f->body,
                       .loc = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, "random"), .line = 1})};
  add_inputs(g);
  for (int i = 3 + below(g, 18); i > 0; i--) add_random_op(g);
  msc_value *x = make_matmul(g, g->pool[g->num_pool - 1]);
  if (!x) x = binary(g, OP_mul, g->pool[g->num_pool - 1], new_parameter(g, 0, NULL));
  g->pool[g->num_pool++] = x;
  msc_value *loss = loss_of(g, x);
  if (chance(g, 25)) loss = binary(g, OP_add, loss, binary(g, OP_mul, scalar(g, 0.25), loss_of(g, picked(g))));
  finish(g, loss);
  choose_mesh(g);
  configure(g);
  configure_fusion(g);
  for (int i = 0; i < g->num_settings; i++)
    if (!strcmp(g->setting[i], "gradients_mean=true") && strcmp(g->mode, "data_parallel") && chance(g, 40)) {
      set(g, "gradients_mean_of=parameter");
      break;
    }
}

#endif
