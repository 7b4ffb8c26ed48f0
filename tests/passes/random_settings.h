/* random_settings.h: chooses the mesh and the keys of the configuration that a random graph is compiled with. */
#ifndef MSC_TESTS_PASSES_RANDOM_SETTINGS_H
#define MSC_TESTS_PASSES_RANDOM_SETTINGS_H

#include "tests/passes/random_ops.h"

static inline void set(random_graph *g, const char *setting) { g->setting[g->num_settings++] = setting; }

static inline void choose_mesh(random_graph *g) {
  static const char *const meshes[] = {
      "d=2", "d=4", "d=6", "d=8", "dp=2,tp=2", "dp=2,tp=3", "dp=2,tp=2,sp=2", "d=12", "dp=2,tp=4", "tp=3,dp=2"};
  bool alone = strcmp(g->mode, "stand_alone") == 0;
  const char *text = alone ? "d=1" : meshes[below(g, sizeof meshes / sizeof *meshes)], *json = "";
  msc_mesh_parse(g->ctx, NULL, text, &g->mesh);
  set(g, msc_arena_printf(g->arena, "device_num=%" PRId64, msc_mesh_size(&g->mesh)));
  g->named_mesh = g->mesh.num_axes > 1;
  for (int i = 0; i < g->mesh.num_axes; i++)
    json = msc_arena_printf(g->arena, "%s%s\"%s\":%" PRId64, json, i ? "," : "", g->mesh.axis[i].name,
                            g->mesh.axis[i].size);
  if (g->named_mesh) set(g, msc_arena_printf(g->arena, "mesh={%s}", json));
}

/* Parts of each dimension that divide it, and together the devices. */
static inline const char *legal_parts(random_graph *g, const msc_type *t) {
  const char *text = "[";
  int64_t left = msc_mesh_size(&g->mesh);
  for (int d = 0; d < t->rank; d++) {
    int64_t parts = 1, most = 1 + below(g, 8);
    for (int64_t k = 2; k <= most; k++)
      if (left % k == 0 && t->dim[d] % k == 0) parts = k;
    left /= parts;
    text = msc_arena_printf(g->arena, "%s%s%" PRId64, text, d ? "," : "", parts);
  }
  return msc_arena_printf(g->arena, "%s]", text);
}

static inline void configure_inputs(random_graph *g) {
  const char *text = "";
  if (chance(g, 60)) return;
  if (chance(g, 40)) {
    set(g, chance(g, 50) ? "full_batch=true" : "dataset_strategy=full_batch");
    return;
  }
  for (size_t i = 0; i < g->f->body->num_args; i++)
    if (msc_arg_role(g->f, i) <= MSC_ROLE_MASK)
      text = msc_arena_printf(g->arena, "%s%s%s", text, *text ? "," : "", legal_parts(g, g->f->body->args[i]->type));
  set(g, msc_arena_printf(g->arena, "dataset_strategy=[%s]", text));
}

static inline void configure_optimizer(random_graph *g) {
  if (!chance(g, 50)) return;
  set(g, msc_arena_printf(g->arena, "zero=%d", 1 + below(g, 3)));
  set(g, "parallel_optimizer_config={\"parallel_optimizer_threshold\":0}");
  if (chance(g, 30)) set(g, msc_arena_printf(g->arena, "optimizer_weight_shard_size=%d", 1 + below(g, 6)));
}

/* Digits on the letters of the op's rule, as many as are drawn and allowed; a tuple's parts are equal. */
static inline msc_assignment random_assignment(random_graph *g, const msc_rule *rule, const msc_atoms *atoms,
                                               bool even) {
  msc_assignment a;
  memset(&a, 0, sizeof a);
  for (int k = 0, first = below(g, atoms->num); k < atoms->num; k++) {
    int l = below(g, rule->num_letters), atom = (first + k) % atoms->num;
    if (chance(g, 25)) continue;
    a.atom[l][a.num[l]++] = (uint8_t)atom;
    if (!msc_rule_allows(rule, &a, atoms) || (even && !msc_rule_divides(rule, &a, atoms, l))) a.num[l]--;
  }
  return a;
}

static inline msc_attr_value tuple_of(random_graph *g, const msc_layout *l) {
  msc_attr_value parts[MSC_MAX_RANK];
  for (int d = 0; d < l->rank; d++) parts[d] = msc_int(msc_layout_parts(l, d));
  return msc_list(g->ctx, l->rank, parts);
}

static inline void annotate(random_graph *g, msc_op *op, bool tuples) {
  msc_rule rule;
  msc_atoms atoms;
  msc_attr_value entry[4];
  if (!msc_rule_of(op, g->arena, &rule) || !rule.num_letters || !rule.num_in || rule.num_in > 4 ||
      !msc_atoms_of(&g->mesh, 0, NULL, &atoms) || !atoms.num)
    return;
  msc_assignment a = random_assignment(g, &rule, &atoms, tuples);
  for (size_t t = 0; t < rule.num_in; t++) {
    const msc_layout *l = msc_rule_layout(g->ctx, &g->mesh, &atoms, &rule, &a, t);
    entry[t] = tuples ? tuple_of(g, l) : msc_str(g->ctx, chance(g, 10) ? "" : msc_layout_print(g->arena, &g->mesh, l));
  }
  msc_op_set(op, tuples ? "in_strategy" : "in_layout", msc_list(g->ctx, rule.num_in, entry));
}

/* Some ops that follow each other become a block that is sharded by itself, whole at its borders. */
static inline void mark_block(random_graph *g, const char *name) {
  msc_op *op = g->f->body->first;
  msc_attr *own = msc_arena_alloc(g->arena, sizeof *own);
  *own = text(g, "name", name);
  for (int skip = below(g, g->num_ops + 1); op && skip > 0; skip--) op = op->next;
  for (int left = 1 + below(g, 8); op && op->kind != OP_return && left > 0; op = op->next, left--)
    if (op->kind != OP_constant && op->kind != OP_iota)
      msc_op_set(op, "shard", (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {1, own}});
}

/* Not with gradients_mean, whose divisor the test puts in front of updates. */
static inline void configure_precision(random_graph *g) {
  if (g->narrow && g->dtype == MSC_F32 && chance(g, 70))
    set(g, chance(g, 60) ? "compute_type=bf16" : "compute_type=f16");
  if (g->trains && chance(g, 15)) set(g, chance(g, 70) ? "loss_scale=dynamic" : "loss_scale=8");
}

static inline void configure(random_graph *g) {
  bool automatic = strcmp(g->mode, "auto_parallel") == 0, semi = strcmp(g->mode, "semi_auto_parallel") == 0;
  int layouts = chance(g, 60) ? 0 : 70; /* percent of the annotations that are layouts */
  set(g, msc_arena_printf(g->arena, "parallel_mode=%s", g->mode));
  if (automatic) set(g, "search_mode=sharding_propagation");
  bool mean = strcmp(g->mode, "stand_alone") && !g->clips && chance(g, 25);
  if (mean) set(g, "gradients_mean=true");
  if (chance(g, 20)) set(g, "gradient_fp32_sync=false");
  if (chance(g, 25)) set(g, "enable_alltoall=false");
  if (semi && chance(g, 90)) set(g, "strict_parameter_layout=false");
  configure_optimizer(g);
  if (!mean) configure_precision(g);
  if (!automatic && !semi) return;
  configure_inputs(g);
  if (chance(g, 10)) mark_block(g, "first");
  if (chance(g, 5)) mark_block(g, "second");
  int percent = below(g, chance(g, 20) ? 95 : 50);
  for (msc_op *op = g->f->body->first; op && op->kind != OP_return; op = op->next)
    if (op->kind != OP_constant && op->kind != OP_iota && chance(g, percent)) annotate(g, op, !chance(g, layouts));
}

/* How collectives of gradients and parameters go together. */
static inline void configure_fusion(random_graph *g) {
  static const char *const modes[] = {"\"mode\":\"size\",\"config\":1", "\"mode\":\"auto\",\"config\":\"optimal\"",
                                      "\"mode\":\"index\",\"config\":[1,3]"};
  static const char *const operators[] = {"allreduce", "allgather", "reducescatter"};
  const char *text = "";
  if (!chance(g, 40)) return;
  for (int i = 0; i < 3; i++)
    if (chance(g, 60))
      text = msc_arena_printf(g->arena, "%s%s\"%s\":{%s}", text, *text ? "," : "", operators[i],
                              modes[below(g, i ? 2 : 3)]);
  set(g, msc_arena_printf(g->arena, "comm_fusion={%s}", text));
}

#endif
