/* program.h: makes a random program from a seed: a model as text, the job to compile it for, and the vector width of
 * its code. The same seed gives the same program on every machine. */
#ifndef MSC_TESTS_RANDOM_PROGRAM_H
#define MSC_TESTS_RANDOM_PROGRAM_H

#include "tests/random/motifs.h"

/* From seed LARGE on programs have products large enough for AMX, as others never have, and are run for one step. */
enum { STEPS = 3, LARGE = 1000000 };

typedef struct {
  uint64_t seed;    /* of the values, too */
  msc_arena *arena; /* where the texts are */
  const char *text; /* of the model */
  int num_settings;
  const char *setting[MAX_SETTINGS]; /* KEY=VALUE, of the job of several ranks */
  int ranks;
  int steps;
  struct {
    const char *cpu;  /* that code is made for; NULL: this machine's */
    int vector_bytes; /* 0: what is fastest there */
  } code[2];          /* of one rank, and of all */
} program;

/* ---- ops ---- */

static random_maker *const program_makers[] = {
    make_unary,
    make_unary,
    make_binary,
    make_binary,
    make_binary,
    make_matmul,
    make_matmul,
    make_einsum,
    make_reshape,
    make_transpose,
    make_concat,
    make_split,
    make_slice,
    make_pad,
    make_broadcast,
    make_gather,
    make_one_hot,
    make_source,
    make_reduce,
    make_reduce,
    make_softmax,
    make_select,
    make_cast,
    make_scores,
    make_windows,
    make_norm,
    make_indexed,
    make_along,
    make_written_norm,
    make_written_norm,
    make_batch_norm,
    make_batch_norm,
    make_group_norm,
    make_written_activation,
    make_written_activation,
    make_detached,
    make_gated,
    make_feed_forward,
    make_feed_forward,
    make_class_token,
    make_class_token,
    make_first_to_all,
    make_first_to_all,
    make_rotary,
    make_rotary,
    make_roll,
    make_shifted_sum,
    make_recurrence,
    make_attention,
    make_attention,
    make_attention,
    make_convolved,
    make_convolved,
    make_convolved,
    make_pooled,
    make_pooled,
    make_squeezed,
    make_windowed,
    make_reformed_parameter,
    make_reformed_parameter,
    make_constant_product,
    make_constant_product,
    make_merged_rows,
    make_embedded,
    make_one_token,
    make_mixture,
    make_dropout,
    make_uniform,
    make_function,
    make_bits,
};

static inline void add_program_op(random_graph *g) {
  msc_value *x = picked(g), *v = program_makers[below(g, sizeof program_makers / sizeof *program_makers)](g, x);
  if (v && v->type->dtype == g->dtype && small(v) && v->type->rank <= 5 && g->num_pool < MAX_POOL)
    g->pool[g->num_pool++] = v;
}

static inline void add_program_ops(random_graph *g, int num) {
  for (; num > 0; num--) add_program_op(g);
}

static inline void add_large_product(random_graph *g) {
  add_program_ops(g, below(g, 3));
  msc_value *v = NULL;
  for (int i = 0; i < 4 && !v; i++) v = make_large_product(g, i < 2 ? picked(g) : g->pool[0]);
  if (v) g->pool[g->num_pool++] = v;
  add_program_ops(g, below(g, 3));
}

static inline void add_program_inputs(random_graph *g) {
  static const int64_t batches[] = {1, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24};
  g->batch =
      g->keep_batch ? (int64_t[]){4, 8, 8, 12, 24}[below(g, 5)] : batches[below(g, sizeof batches / sizeof *batches)];
  int form = below(g, 3);
  int64_t two[2] = {g->batch, wide_size(g)}, three[3] = {g->batch, 2 + below(g, 7), random_size(g)},
          four[4] = {g->batch, 1 + below(g, 4), 4 + 2 * below(g, 3), 4 + 2 * below(g, 3)};
  const int64_t *dim = form == 0 ? two : form == 1 ? three : four;
  g->pool[g->num_pool++] = new_arg(g, float_type(g, form + 2, dim), "x", "data");
  if (chance(g, 20))
    g->pool[g->num_pool++] = new_arg(g, float_type(g, 2, (int64_t[]){g->batch, random_size(g)}), "x", "data");
}

/* ---- the optimizer and results ---- */

static inline void set_program_optimizer(random_graph *g) {
  static const char *const kinds[] = {"sgd", "sgd", "sgd", "momentum", "momentum", "adam", "adamw", "lamb"};
  const char *kind = kinds[below(g, 8)];
  msc_attr *a = NULL;
  size_t n = 0;
  bool adaptive = strcmp(kind, "sgd") && strcmp(kind, "momentum");
  msc_put_attr(g->ctx, &a, &n, "kind", msc_str(g->ctx, kind));
  msc_put_attr(g->ctx, &a, &n, "lr", msc_float(adaptive ? 0.0625 : (double[]){0.0625, 0.25, 1}[below(g, 3)]));
  if (!strcmp(kind, "momentum")) msc_put_attr(g->ctx, &a, &n, "momentum", msc_float(0.75));
  if (!strcmp(kind, "momentum") && chance(g, 30)) msc_put_attr(g->ctx, &a, &n, "nesterov", msc_bool(true));
  if (adaptive) msc_put_attr(g->ctx, &a, &n, "eps", msc_float(0.0009765625));
  if (chance(g, 25)) msc_put_attr(g->ctx, &a, &n, "weight_decay", msc_float(0.125));
  if (chance(g, 15)) msc_put_attr(g->ctx, &a, &n, "clip_norm", msc_float(0.5));
  msc_func_set(g->f, "optimizer", (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {n, a}});
}

/* Half of the programs show their loss only: what is shown is computed otherwise, and may hide what is wrong. */
static inline int shown_values(random_graph *g, msc_value **out) {
  int num = 0, most = chance(g, 50) ? 0 : chance(g, 70) ? 1 : 4;
  for (int i = 0; i < g->num_outputs && num < most; i++) out[num++] = g->output[i];
  for (int i = 0; most == 4 && i < g->num_pool && num < most; i++)
    if (g->pool[i]->def && chance(g, 20)) out[num++] = g->pool[i];
  msc_value *v = g->pool[below(g, g->num_pool)];
  if (most == 1 && num == 0 && v->def) out[num++] = v;
  return num;
}

static inline void finish_program(random_graph *g, msc_value *loss) {
  msc_value *result[16] = {loss};
  msc_attr_value name[16] = {msc_str(g->ctx, "loss")}, tie[16] = {msc_int(-1)};
  size_t num = 1 + (size_t)shown_values(g, result + 1);
  for (size_t i = 1; i < num; i++)
    name[i] = msc_str(g->ctx, msc_arena_printf(g->arena, "out%zu", i)), tie[i] = msc_int(-1);
  for (int i = 0; i < g->num_renewed && num < 16; i++) {
    msc_value *p = g->renewed[i].parameter;
    name[num] = msc_str(g->ctx, p->name), tie[num] = msc_int(p->index), result[num++] = g->renewed[i].by;
  }
  msc_append_return(g->f, num, result, g->b.loc);
  msc_func_set(g->f, "loss", msc_int(0));
  msc_func_set(g->f, "results", msc_list(g->ctx, num, name));
  if (g->num_renewed) msc_func_set(g->f, "ties", msc_list(g->ctx, num, tie));
  if (g->trains) set_program_optimizer(g);
  for (size_t i = 0; i < g->f->body->num_args; i++) {
    const msc_type *t = g->f->body->args[i]->type;
    if (msc_arg_role(g->f, i) != MSC_ROLE_PARAMETER)
      msc_arg_set(g->f, i, "msc.batch_dim", msc_int(t->rank && t->dim[0] == g->batch ? 0 : -1));
  }
}

static inline msc_value *program_loss(random_graph *g, msc_value *x) {
  return chance(g, 60) ? written_loss(g, x) : loss_of(g, x);
}

/* ---- the job ---- */

/* Of data_parallel most batches divide among its ranks. */
static inline void choose_program_mesh(random_graph *g) {
  static const char *const meshes[] = {
      "d=2",  "d=3",       "d=4",       "d=5", "d=6", "d=8",      "dp=2,tp=2", "dp=2,tp=3", "dp=2,tp=2,sp=2",
      "d=12", "dp=2,tp=4", "tp=3,dp=2", "d=2", "d=4", "dp=2,tp=2"};
  const char *text = strcmp(g->mode, "stand_alone") ? meshes[below(g, sizeof meshes / sizeof *meshes)] : "d=1";
  msc_mesh_parse(g->ctx, NULL, text, &g->mesh);
  if (!strcmp(g->mode, "data_parallel") && g->batch % msc_mesh_size(&g->mesh) && chance(g, 90))
    msc_mesh_parse(g->ctx, NULL, chance(g, 50) ? "d=2" : "d=4", &g->mesh);
  g->named_mesh = g->mesh.num_axes > 1 && strcmp(g->mode, "data_parallel");
}

static inline void set_mesh(random_graph *g, int64_t stages) {
  const char *json = "";
  set(g, msc_arena_printf(g->arena, "device_num=%" PRId64, stages * msc_mesh_size(&g->mesh)));
  for (int i = 0; i < g->mesh.num_axes; i++)
    json = msc_arena_printf(g->arena, "%s%s\"%s\":%" PRId64, json, i ? "," : "", g->mesh.axis[i].name,
                            g->mesh.axis[i].size);
  if (g->named_mesh) set(g, msc_arena_printf(g->arena, "mesh={%s}", json));
}

static inline bool draws_numbers(const random_graph *g) {
  for (const msc_op *op = g->f->body->first; op; op = op->next)
    if (msc_info(op)->flags & MSC_RANDOM) return true;
  return false;
}

/* Not of what draws random numbers: every micro-batch draws numbers of its own. */
static inline int64_t configure_pipeline(random_graph *g) {
  static const char *const kinds[] = {"gpipe", "1f1b", "1f1b", "zb-h1", "zb-h2", "zb-auto", "interleaved"};
  int64_t stages = 1;
  if (draws_numbers(g)) return stages;
  if (g->trains && g->keep_batch && strcmp(g->mode, "data_parallel") && chance(g, 60) && msc_mesh_size(&g->mesh) <= 4) {
    stages = 2 + chance(g, 30);
    const char *kind = kinds[below(g, 7)];
    set(g, msc_arena_printf(g->arena, "pipeline_stages=%" PRId64, stages));
    set(g, msc_arena_printf(g->arena, "pipeline_scheduler=%s", kind));
    if (!strcmp(kind, "interleaved")) set(g, "pipeline_chunks=2");
  }
  int64_t micro = stages > 1 ? 2 * (1 + chance(g, 40)) : g->keep_batch && chance(g, 50) ? 2 : 1;
  if (micro > 1) set(g, msc_arena_printf(g->arena, "micro_size=%" PRId64, micro));
  if (g->keep_batch && chance(g, 20) && g->batch % (2 * micro) == 0) set(g, "micro_batch_interleaved=2");
  return stages;
}

static inline void mark_recomputed(random_graph *g) {
  int percent = 10 + below(g, 60);
  for (msc_op *op = g->f->body->first; op && op->kind != OP_return; op = op->next)
    if (op->kind != OP_constant && op->kind != OP_iota && chance(g, percent))
      msc_op_set(op, "recompute", msc_bool(true));
}

static inline void configure_program(random_graph *g) {
  static const char *const searches[] = {"sharding_propagation", "dynamic_programming", "recursive_programming"};
  bool alone = !strcmp(g->mode, "stand_alone"), automatic = !strcmp(g->mode, "auto_parallel"),
       semi = !strcmp(g->mode, "semi_auto_parallel");
  int layouts = chance(g, 60) ? 0 : 70;
  set(g, msc_arena_printf(g->arena, "parallel_mode=%s", g->mode));
  set_mesh(g, alone ? 1 : configure_pipeline(g));
  if (chance(g, 30)) set(g, "overlap=false");
  if (g->trains && chance(g, 20)) mark_recomputed(g);
  if (g->narrow) set(g, chance(g, 75) ? "compute_type=bf16" : "compute_type=f16");
  if (g->trains && chance(g, 10)) set(g, chance(g, 60) ? "loss_scale=8" : "loss_scale=dynamic");
  if (alone) return;
  if (automatic) set(g, msc_arena_printf(g->arena, "search_mode=%s", searches[below(g, 3)]));
  if (!strcmp(g->mode, "data_parallel") && chance(g, 40)) set(g, "gradients_mean=true");
  if (chance(g, 15)) set(g, "gradient_fp32_sync=false");
  if (chance(g, 15)) set(g, "enable_alltoall=false");
  if (chance(g, 15))
    set(g,
        chance(g, 50) ? "comm_fusion={\"allreduce\":{\"mode\":\"size\",\"config\":1}}" : "all_reduce_fusion_config=[]");
  if (semi && chance(g, 90)) set(g, "strict_parameter_layout=false");
  if (g->trains) configure_optimizer(g);
  if (!automatic && !semi) return;
  if (!g->keep_batch) configure_inputs(g);
  if (chance(g, 8)) mark_block(g, "first");
  int percent = chance(g, g->keep_batch ? 80 : 40)
                    ? 0
                    : below(g, 50); /* a micro-batch may be too small for what the batch allows */
  for (msc_op *op = g->f->body->first; op && op->kind != OP_return; op = op->next)
    if (op->kind != OP_constant && op->kind != OP_iota && chance(g, percent)) annotate(g, op, !chance(g, layouts));
}

/* ---- all ---- */

static inline void start_program(random_graph *g, msc_context *ctx, uint64_t seed) {
  static const char *const modes[] = {"stand_alone",        "data_parallel", "semi_auto_parallel", "semi_auto_parallel",
                                      "auto_parallel",      "auto_parallel", "stand_alone",        "data_parallel",
                                      "semi_auto_parallel", "auto_parallel"};
  memset(g, 0, sizeof *g);
  g->state = seed * 0x632be59bd9b4e019u + 17; /* other draws than random_graph_make's */
  g->ctx = ctx, g->arena = msc_context_arena(ctx);
  g->mode = modes[below(g, sizeof modes / sizeof *modes)];
  g->keep_batch = !strcmp(g->mode, "data_parallel") || (strcmp(g->mode, "stand_alone") && chance(g, 30));
  g->trains = chance(g, 94);
  g->narrow = chance(g, 12);
  g->dtype = MSC_F32;
  g->m = msc_module_new(ctx);
  g->f = msc_func_new(g->m, "forward");
  g->b = (msc_builder){.func = g->f,
                       .block = g->f->body,
                       .loc = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, "random"), .line = 1})};
}

static inline program random_program(msc_context *ctx, uint64_t seed) {
  random_graph g;
  start_program(&g, ctx, seed);
  add_program_inputs(&g);
  if (seed < LARGE) add_program_ops(&g, 2 + below(&g, 9));
  else add_large_product(&g);
  msc_value *x = linear(&g, g.pool[g.num_pool - 1], wide_size(&g));
  if (!x || !small(x)) x = binary(&g, OP_mul, g.pool[g.num_pool - 1], new_parameter(&g, 0, NULL));
  g.pool[g.num_pool++] = x;
  msc_value *loss = program_loss(&g, x);
  if (chance(&g, 25)) {
    msc_value *other = program_loss(&g, picked(&g));
    loss = other ? plus(&g, loss, scaled(&g, other, 0.25)) : loss;
  }
  finish_program(&g, loss);
  choose_program_mesh(&g);
  configure_program(&g);
  program p = {.seed = seed, .arena = g.arena, .num_settings = g.num_settings, .steps = seed < LARGE ? STEPS : 1};
  p.text = msc_print_text(g.m, g.arena, &(size_t){0});
  memcpy(p.setting, g.setting, sizeof p.setting);
  for (int i = 0; i < 2; i++) {
    int pick = below(&g, 7);
    if (seed >= LARGE && chance(&g, 70)) pick = 3; /* AMX, where this machine has it */
    p.code[i].cpu = pick == 5 ? "x86-64" : pick == 6 ? "x86-64-v3" : NULL;
    p.code[i].vector_bytes = pick < 4 ? (int[]){16, 32, 64, 64}[pick] : 0;
  }
  if (g.trains && chance(&g, 25)) p.setting[p.num_settings++] = "variable_hypers=true";
  msc_clear_diags(ctx); /* of ops that did not fit */
  return p;
}

#endif
