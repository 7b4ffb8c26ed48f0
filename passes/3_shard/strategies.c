/* strategies: in_strategy, in_layout, out_layout and the mode's default -> `sharding` of the ops that they cut, and
 * layouts of arguments; the mesh where none is given. */
#include <string.h>

#include "ir/fact.h"
#include "passes/2_train/batch.h"
#include "passes/3_shard/shard.h"
#include "passes/3_shard/strategy/strategy_file.h"
#include "passes/config/config.h"

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g; /* its atoms: the digits of which letters get theirs */
  int64_t devices;
  bool ok;
  bool *wrong;                       /* by group: its annotations are wrong, which was reported */
  int64_t (*parts)[MSC_MAX_LETTERS]; /* by group and letter: parts of in_strategy; first entry 0: it is absent */
  const msc_layout ***layout;        /* by group and tensor: in_layout and out_layout; NULL: they are absent */
  shard_pin *pins;
} strategy_reader;

/* ---- parts to digits ---- */

/* Appends the prime factors of n as digits of the axis, the first after `*pre` parts. */
static void put_prime_digits(msc_atoms *digits, uint16_t axis, uint32_t *pre, int64_t n) {
  for (int64_t p = 2; n > 1; p++) {
    if (p * p > n) p = n;
    for (; n % p == 0; n /= p) {
      digits->atom[digits->num++] = (msc_subaxis){axis, *pre, (uint32_t)p};
      *pre *= (uint32_t)p;
    }
  }
}

/* Makes the prime digits of every axis the atoms.  A mesh of one axis is first cut into the parts of the first
 * strategy, in the order of its device matrix, so that a single op is placed as its author expects. */
static void cut_axes_by_parts(strategy_reader *an, const int64_t *first_parts, const uint8_t *order, int num_parts) {
  const msc_mesh *mesh = an->g.mesh;
  memset(&an->g.atoms, 0, sizeof an->g.atoms);
  for (int a = 0; a < mesh->num_axes; a++) {
    uint32_t pre = 1;
    int64_t left = mesh->axis[a].size;
    for (int l = 0; mesh->num_axes == 1 && l < num_parts; l++) {
      put_prime_digits(&an->g.atoms, 0, &pre, first_parts[order[l]]);
      left /= first_parts[order[l]];
    }
    put_prime_digits(&an->g.atoms, (uint16_t)a, &pre, left);
  }
}

/* Chooses atoms with borders at all cuts of the layouts.  False after reporting, at its op, the first layout whose cuts
 * have no common refinement with those before it. */
static bool cut_axes_by_layouts(strategy_reader *an, size_t num, const msc_layout *const *layout,
                                const msc_op *const *op) {
  if (msc_atoms_of(an->g.mesh, num, layout, &an->g.atoms)) return true;
  size_t good = 0, bad = num;
  while (good + 1 < bad) {
    size_t mid = good + (bad - good) / 2;
    if (msc_atoms_of(an->g.mesh, mid, layout, &an->g.atoms)) good = mid;
    else bad = mid;
  }
  const msc_layout *l = layout[bad - 1];
  const char *text = msc_layout_print(an->g.arena, an->g.mesh, l);
  if (op[bad - 1])
    return msc_op_error(
        op[bad - 1], MSC_E_STRATEGY,
        "layout %s cuts an axis at a place that has no common refinement with the layouts given before it", text);
  return msc_error(
      an->g.ctx, MSC_E_STRATEGY, an->g.func->loc,
      "layout %s of an argument cuts an axis at a place that has no common refinement with the layouts given before it",
      text);
}

static bool choose_atoms(strategy_reader *an) {
  shard_graph *g = &an->g;
  size_t num = 0, most = g->func->body->num_args, first = g->num_groups;
  for (size_t i = g->num_groups; i-- > 0;) {
    if (an->layout[i]) most += g->group[i].rule.num_tensors;
    if (an->parts[i][0]) first = i;
  }
  const msc_layout **layout = msc_new_array(g->arena, const msc_layout *, most);
  const msc_op **op = msc_new_array(g->arena, const msc_op *, most);
  for (size_t i = 0; i < g->func->body->num_args; i++)
    if ((layout[num] = shard_fixed_layout(g->func, i))) num++;
  for (size_t i = 0; i < g->num_groups; i++)
    for (int t = 0; an->layout[i] && t < g->group[i].rule.num_tensors; t++) {
      if (!an->layout[i][t]) continue;
      op[num] = g->group[i].leader;
      layout[num++] = an->layout[i][t];
    }
  if (num) return cut_axes_by_layouts(an, num, layout, op);
  uint8_t order[MSC_MAX_LETTERS];
  bool any = first < g->num_groups;
  if (any) shard_matrix_order(g->group[first].leader, &g->group[first].rule, order);
  cut_axes_by_parts(an, any ? an->parts[first] : NULL, order, any ? g->group[first].rule.num_letters : 0);
  return true;
}

/* Gives the group's letters digits for their numbers of parts; false after a report. */
static bool deal_digits(strategy_reader *an, int group) {
  uint32_t used = 0;
  shard_group *of = &an->g.group[group];
  msc_assignment *a = &of->digits;
  uint8_t order[MSC_MAX_LETTERS];
  memset(a, 0, sizeof *a);
  shard_matrix_order(of->leader, &of->rule, order);
  for (int i = 0, l = 0; i < of->rule.num_letters; i++) {
    l = order[i];
    if (!shard_take_parts(&an->g, an->parts[group][l], &used, a->atom[l], &a->num[l]))
      return msc_op_error(of->leader, MSC_E_INTERNAL, "no digits for letter '%c'", of->rule.letter[l].name);
  }
  of->closed = (1u << of->rule.num_letters) - 1;
  return shard_check_digits(&an->g, group, MSC_FACT(in_strategy));
}

/* ---- the mode's default: the batch letter ---- */

/* Gives the letter every digit with which the rules still allow its parts; with `even` they must be equal, too. */
static void assign_digits(const shard_graph *g, shard_group *group, int letter, bool even) {
  msc_assignment *a = &group->digits;
  a->num[letter] = 0;
  for (int i = 0; i < g->atoms.num; i++) {
    a->atom[letter][a->num[letter]++] = (uint8_t)i;
    bool fits = !even || msc_rule_divides(&group->rule, a, &g->atoms, letter);
    if (!fits || !shard_allows(g, (int)(group - g->group), a)) a->num[letter]--;
  }
}

/* The number of elements in the letter's largest part. */
static int64_t largest_part(const shard_graph *g, const shard_group *group, int letter) {
  int64_t parts = 1, size = group->rule.letter[letter].size;
  for (int i = 0; i < group->digits.num[letter]; i++) parts *= g->atoms.atom[group->digits.atom[letter][i]].size;
  return (size + parts - 1) / parts;
}

/* Cuts the batch letter by the digits that divide its size, or by all digits if that makes the largest part smaller: 12
 * samples on 5 ranks become 3, 3, 2, 2 and 2. All other letters stay whole. */
static void cut_batch(const shard_graph *g, shard_group *group, int letter) {
  if (letter >= 0) {
    assign_digits(g, group, letter, true);
    int64_t even = largest_part(g, group, letter);
    assign_digits(g, group, letter, false);
    if (largest_part(g, group, letter) >= even) assign_digits(g, group, letter, true);
  }
  group->closed = (1u << group->rule.num_letters) - 1;
}

const int8_t *shard_cut_batches(shard_graph *g, bool *out_cut) {
  const int8_t *letter = shard_batch_letters(g);
  const bool *is_optimizers = shard_optimizer_ops(g->arena, g->func);
  for (size_t i = 0; i < g->num_groups; i++) {
    out_cut[i] = !g->group[i].by && !is_optimizers[g->group[i].leader->id];
    if (out_cut[i]) cut_batch(g, &g->group[i], letter[i]);
  }
  return letter;
}

/* Cuts the batch of every op that nothing else cuts, and warns once where a product's batch cannot be cut. */
static void apply_default(strategy_reader *an) {
  bool *cut = msc_new_array(an->g.arena, bool, an->g.num_groups);
  const int8_t *letter = shard_cut_batches(&an->g, cut);
  const shard_group *first = NULL; /* with a product whose batch stays whole */
  int64_t size = 0, num = 0;
  for (size_t i = 0; i < an->g.num_groups; i++) {
    shard_group *group = &an->g.group[i];
    if (!cut[i]) continue;
    group->by = MSC_DECIDER_DEFAULT;
    bool whole = letter[i] >= 0 && an->devices > 1 && !group->digits.num[letter[i]] &&
                 msc_info(group->leader)->cost == MSC_COST_FLOPS;
    if (whole && !first) first = group, size = group->rule.letter[letter[i]].size;
    num += whole;
  }
  if (!first) return;
  const msc_op *op = first->leader;
  msc_warning(an->g.ctx, MSC_E_STRATEGY, op->loc,
              "%s: its batch of %" PRId64 " cannot be cut among %" PRId64 " ranks, every one computes all of it%s",
              msc_op_title(op), size, an->devices,
              num > 1 ? msc_arena_printf(an->g.arena, "; so it is with %" PRId64 " more", num - 1) : "");
}

/* ---- all annotations of the ops ---- */

static void read_group(strategy_reader *an, int group) {
  const msc_op *op = an->g.group[group].leader;
  bool tuple = msc_op_attr(op, MSC_FACT(in_strategy)),
       layout = msc_op_attr(op, MSC_FACT(in_layout)) || msc_op_attr(op, MSC_FACT(out_layout));
  if (tuple && layout) {
    an->wrong[group] = !msc_op_error(op, MSC_E_STRATEGY, "in_strategy and %s are both given; one of them decides",
                                     msc_op_attr(op, MSC_FACT(in_layout)) ? MSC_FACT(in_layout) : MSC_FACT(out_layout));
  } else if (tuple) {
    an->wrong[group] = !shard_tuple_parts(&an->g, group, an->parts[group]);
  } else if (layout) {
    const msc_layout **l = msc_new_array(an->g.arena, const msc_layout *, an->g.group[group].rule.num_tensors);
    if (shard_read_layouts(&an->g, group, l)) an->layout[group] = l;
    else an->wrong[group] = true;
  }
}

/* Sets the digits of a group from what read_group found. */
static void decide_group(strategy_reader *an, int group) {
  shard_group *of = &an->g.group[group];
  bool ok = true;
  if (an->parts[group][0]) ok = deal_digits(an, group);
  else if (an->layout[group]) ok = shard_take_layouts(&an->g, group, an->layout[group]);
  else return;
  bool recorded = an->layout[group] && msc_op_attr(of->leader, MSC_FACT(by)); /* in a strategy file */
  of->by = recorded ? msc_fact_read(of->leader, by, MSC_DECIDER_NOBODY) : MSC_DECIDER_USER;
  an->wrong[group] = !ok;
}

/* Reads the strategies of all ops and reports every fault; false: the digits cannot be chosen. */
static bool read_strategies(strategy_reader *an) {
  shard_graph *g = &an->g;
  an->wrong = msc_new_array(g->arena, bool, g->num_groups);
  an->parts = msc_arena_alloc(g->arena, g->num_groups * sizeof *an->parts);
  an->layout = msc_new_array(g->arena, const msc_layout **, g->num_groups);
  for (size_t i = 0; i < g->num_groups; i++) read_group(an, (int)i);
  MSC_TRY(choose_atoms(an));
  for (size_t i = 0; i < g->num_groups; i++) decide_group(an, (int)i);
  for (size_t i = 0; i < g->num_groups; i++) an->ok &= !an->wrong[i];
  return true;
}

/* Checks out_strategy and out_layout of all groups and lists the results that they fix, in an->pins. */
static void read_pinned_results(strategy_reader *an) {
  for (size_t i = 0; i < an->g.num_groups; i++)
    if (!an->wrong[i] && !(shard_pin_results(&an->g, (int)i, MSC_FACT(out_strategy), &an->pins) &
                           shard_pin_results(&an->g, (int)i, MSC_FACT(out_layout), &an->pins)))
      an->ok = false;
}

/* Drops all annotations, with a warning for each op that has some. */
static void ignore_strategies(strategy_reader *an, const char *mode) {
  for (size_t i = 0; i < an->g.num_groups; i++) {
    msc_op *op = an->g.group[i].leader;
    bool any = msc_op_has_sort(op, MSC_SORT_STRATEGY) || msc_op_attr(op, MSC_FACT(manual_split));
    msc_op_unset_sort(op, MSC_SORT_STRATEGY);
    for (size_t k = 0; k < an->g.group[i].num_members; k++) {
      msc_op *member = an->g.op[an->g.group[i].member[k]].op;
      msc_op_unset(member, MSC_FACT(aligned)), msc_op_unset(member, MSC_FACT(manual_split));
    }
    if (any)
      msc_warning(an->g.ctx, MSC_E_STRATEGY, op->loc, "the strategy of %s is ignored: parallel_mode is %s",
                  msc_op_title(op), mode);
  }
}

/* ---- inputs: `full_batch` and `dataset_strategy`; without them an input has the layout its first user wants ---- */

/* The legal numbers of parts next to p, which divide both the size and the number of devices, as text: "2 or 4". */
static const char *nearest_parts(msc_arena *a, int64_t size, int64_t devices, int64_t p) {
  int64_t below = 1, above = 0;
  for (int64_t k = 1; k <= devices && !above; k++) {
    if (devices % k || size % k) continue;
    if (k <= p) below = k;
    else above = k;
  }
  return above ? msc_arena_printf(a, "%" PRId64 " or %" PRId64, below, above) : msc_arena_printf(a, "%" PRId64, below);
}

/* Cuts an input as its entry of dataset_strategy says; false after a report. */
static bool set_input_layout(strategy_reader *an, size_t arg, size_t input) {
  msc_value *v = an->g.func->body->args[arg];
  msc_context *ctx = an->g.ctx;
  const msc_loc *loc = msc_config_loc(an->pass->config, MSC_KEY_dataset_strategy);
  const char *name = v->name ? v->name : "";
  int64_t parts[MSC_MAX_RANK];
  int rank = msc_config_input_parts(an->pass->config, input, parts);
  if (rank < 0) return true; /* reported with the number of entries */
  if (rank != v->type->rank)
    return msc_error(ctx, MSC_E_STRATEGY, loc, "dataset_strategy: input %s has rank %d, its entry has %d numbers", name,
                     v->type->rank, rank);
  msc_layout raw;
  uint32_t used = 0;
  uint8_t num = 0;
  memset(&raw, 0, sizeof raw);
  raw.rank = (uint8_t)rank;
  for (int d = 0; d < rank; d++) {
    uint8_t atom[MSC_MAX_SUBAXES], own = 0;
    if (parts[d] < 1 || v->type->dim[d] % parts[d] || an->devices % parts[d])
      return msc_error(ctx, MSC_E_STRATEGY, loc,
                       "dataset_strategy: dimension %d of input %s has %" PRId64
                       " elements, which cannot be cut into %" PRId64 " parts on %" PRId64
                       " devices; nearest legal: %s",
                       d, name, v->type->dim[d], parts[d], an->devices,
                       nearest_parts(an->g.arena, v->type->dim[d], an->devices, parts[d]));
    if (!shard_take_parts(&an->g, parts[d], &used, atom, &own))
      return msc_error(ctx, MSC_E_STRATEGY, loc,
                       "dataset_strategy: input %s is cut into more parts than there are devices, %" PRId64, name,
                       an->devices);
    for (int i = 0; i < own; i++) raw.sub[num++] = an->g.atoms.atom[atom[i]];
    raw.first[d + 1] = num;
  }
  msc_arg_put(an->g.func, arg, msc_fact_msc_layout(msc_layout_of(ctx, an->g.mesh, &raw)));
  return true;
}

static bool keep_input_whole(strategy_reader *an, size_t arg) {
  const msc_layout *whole = msc_layout_replicated(an->g.ctx, an->g.func->body->args[arg]->type->rank);
  msc_arg_put(an->g.func, arg, msc_fact_msc_layout(whole));
  msc_arg_put(an->g.func, arg, msc_fact_msc_whole(msc_bool(true)));
  return true;
}

/* Cuts the batch of an argument over all devices, into as many parts as there are. */
static bool cut_input_batch(strategy_reader *an, size_t arg) {
  const msc_value *v = an->g.func->body->args[arg];
  int dim = msc_batch_dim(an->g.func, arg);
  msc_layout raw;
  if (dim < 0 || an->devices == 1) return true;
  if (v->type->dim[dim] < an->devices)
    return msc_error(an->g.ctx, MSC_E_STRATEGY,
                     msc_config_loc(an->pass->config, msc_config_is_set(an->pass->config, MSC_KEY_full_batch)
                                                          ? MSC_KEY_full_batch
                                                          : MSC_KEY_dataset_strategy),
                     "input %s: its batch of %" PRId64 " cannot be cut into %" PRId64 " parts, one for each rank",
                     v->name ? v->name : "", v->type->dim[dim], an->devices);
  memset(&raw, 0, sizeof raw);
  raw.rank = (uint8_t)v->type->rank;
  for (int a = 0; a < an->g.mesh->num_axes; a++)
    raw.sub[a] = (msc_subaxis){(uint32_t)a, 1, (uint32_t)an->g.mesh->axis[a].size};
  for (int d = 0; d < v->type->rank; d++) raw.first[d + 1] = (uint8_t)(d < dim ? 0 : an->g.mesh->num_axes);
  msc_arg_put(an->g.func, arg, msc_fact_msc_layout(msc_layout_of(an->g.ctx, an->g.mesh, &raw)));
  return true;
}

static size_t num_input_entries(const strategy_reader *an) {
  int64_t parts[MSC_MAX_RANK];
  size_t n = 0;
  while (msc_config_input_parts(an->pass->config, n, parts) >= 0) n++;
  return n;
}

static bool set_input_layouts(strategy_reader *an) {
  msc_func *f = an->g.func;
  msc_input_mode mode = msc_config_input_mode(an->pass->config);
  size_t input = 0;
  bool ok = true;
  bool batch = msc_config_cuts_batch(an->pass->config);
  for (size_t i = 0; i < f->body->num_args && (batch || mode != MSC_INPUT_DATA_PARALLEL); i++)
    if (msc_arg_role(f, i) <= MSC_ROLE_MASK)
      ok &= batch                      ? cut_input_batch(an, i)
            : mode == MSC_INPUT_TUPLES ? set_input_layout(an, i, input++)
                                       : keep_input_whole(an, i);
  if (mode != MSC_INPUT_TUPLES || num_input_entries(an) == input) return ok;
  return msc_error(an->g.ctx, MSC_E_STRATEGY, msc_config_loc(an->pass->config, MSC_KEY_dataset_strategy),
                   "dataset_strategy has %zu entries for the %zu inputs of the model", num_input_entries(an), input);
}

/* True if an argument can have this layout: it is not partial, has the argument's rank, and each part has elements. */
static bool can_have_layout(const msc_layout *l, const msc_type *t) {
  msc_box_layout cuts = msc_layout_cuts(l);
  if (l->num_partial || l->rank != t->rank || !msc_box_shape_ok(&cuts, t->dim)) return false;
  for (int d = 0; d < l->rank; d++)
    if (!l->split[d] && msc_layout_parts(l, d) > t->dim[d]) return false;
  return true;
}

/* Checks the layouts of arguments that the model gives. */
static bool check_arguments(msc_func *f, msc_arena *arena) {
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_value *v = f->body->args[i];
    const msc_attr_value *given = msc_arg_attr(f, i, MSC_FACT(msc_layout));
    const msc_layout *l;
    bool is_read = msc_users_layout(f->module, f->loc, given, &l);
    if (is_read && (!l || can_have_layout(l, v->type))) continue;
    if (is_read)
      msc_error(f->module->ctx, MSC_E_STRATEGY, f->loc, "argument %s is %s and cannot have the layout %s",
                v->name ? v->name : "",
                msc_type_text(arena, &f->module->mesh, msc_type_with_layout(f->module->ctx, v->type, NULL)),
                msc_layout_print(arena, &f->module->mesh, l));
    ok = false;
    /* other faults are reported too */
    msc_drop_attr(f->arg[i].attrs, &f->arg[i].num_attrs, MSC_FACT(msc_layout));
  }
  return ok;
}

/* Does some argument have a layout that is not whole, from the model or from dataset_strategy? */
static bool cuts_arguments(const msc_func *f) {
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_layout *l = shard_fixed_layout(f, i);
    if (l && !msc_layout_is_replicated(l)) return true;
  }
  return false;
}

/* ---- the pass ---- */

/* Chooses the mesh when none is given: that of the strategy file, or one axis, which a search may then replace
 * (`free_mesh`). */
static bool choose_mesh(msc_pass_ctx *pass, msc_func *f, int64_t devices, msc_mesh *out_mesh) {
  const char *file = msc_config_text(pass->config, MSC_KEY_strategy_ckpt_load_file),
             *text = file ? msc_strategy_mesh(pass->scratch, file) : NULL;
  msc_mesh of_file = {0};
  if (text)
    MSC_TRY(msc_mesh_parse(pass->ctx, msc_loc_of(pass->ctx, &(msc_loc){.file = msc_intern(pass->ctx, file), .line = 1}),
                           text, &of_file));
  if (text && msc_mesh_size(&of_file) == devices) {
    *out_mesh = of_file;
    return true;
  }
  *out_mesh = (msc_mesh){.num_axes = 1, .axis = {{msc_intern(pass->ctx, "d"), devices}}};
  if (shard_searches_time(pass->config)) msc_func_put(f, msc_fact_free_mesh(true));
  return true;
}

static bool set_mesh(msc_pass_ctx *pass, msc_module *m, msc_func *f) {
  const msc_loc *loc = f->loc;
  int64_t devices = msc_config_devices(pass->config);
  msc_mesh mesh = m->mesh;
  msc_config_mesh(pass->config, pass->ctx, &mesh);
  if (mesh.num_axes == 0) MSC_TRY(choose_mesh(pass, f, devices, &mesh));
  MSC_TRY(msc_change_mesh(m, &mesh));
  if (msc_mesh_size(&m->mesh) == devices) return true;
  return msc_error(pass->ctx, MSC_E_CONFIG, loc, "the mesh %s has %" PRId64 " devices, device_num is %" PRId64,
                   msc_mesh_print(pass->scratch, &m->mesh), msc_mesh_size(&m->mesh), devices);
}

/* Reports strategies on ops that no rule applies to, since these have nothing to cut. */
static bool check_ops_without_rule(const strategy_reader *an) {
  bool ok = true;
  for (size_t i = 0; i < an->g.num_ops; i++) {
    const char *name = MSC_FACT(manual_split);
    size_t at = 0;
    do {
      if (an->g.op[i].group < 0 && msc_op_attr(an->g.op[i].op, name))
        ok = msc_op_error(an->g.op[i].op, MSC_E_STRATEGY, "%s: a %s has nothing to be cut", name,
                          msc_kind_name(an->g.op[i].op->kind));
    } while ((name = msc_fact_of_sort(MSC_SORT_STRATEGY, &at)));
  }
  return ok;
}

/* Writes the digits into the leaders' attributes and drops the annotations that no later pass reads: in_strategy tells
 * a search that it may choose other digits for the same numbers of parts; manual_split of an aligned table is part of
 * the op's rule. */
static void store_digits(strategy_reader *an) {
  shard_graph_store(&an->g);
  for (size_t i = 0; i < an->g.num_groups; i++) {
    msc_op *op = an->g.group[i].leader;
    msc_op_unset(op, MSC_FACT(pins));
    if (!msc_op_bool(op, MSC_FACT(aligned))) msc_op_unset(op, MSC_FACT(manual_split));
    const msc_attr_value *parts = msc_op_attr(op, MSC_FACT(in_strategy)), kept = parts ? *parts : msc_bool(false);
    msc_op_unset_sort(op, MSC_SORT_STRATEGY);
    if (parts) msc_op_set(op, MSC_FACT(in_strategy), kept);
  }
}

bool pass_strategies(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = shard_func(m);
  msc_parallel_mode mode = msc_config_parallel_mode(pass->config);
  strategy_reader an = {.pass = pass, .ok = true, .devices = msc_config_devices(pass->config)};
  if (!f) return true;
  MSC_TRY(set_mesh(pass, m, f));
  an.ok = check_arguments(f, pass->scratch);
  MSC_TRY(shard_graph_of(pass, f, &an.g));
  if (mode == MSC_DATA_PARALLEL || mode == MSC_STAND_ALONE)
    ignore_strategies(&an, msc_config_text(pass->config, MSC_KEY_parallel_mode));
  an.ok &= shard_manual_splits(&an.g);
  const char *file = msc_config_text(pass->config, MSC_KEY_strategy_ckpt_load_file);
  bool adds = mode == MSC_AUTO_PARALLEL && msc_config_search_mode(pass->config) == MSC_SHARDING_PROPAGATION;
  if (file) MSC_TRY(msc_strategy_load(&an.g, adds, file));
  MSC_TRY(read_strategies(&an));
  read_pinned_results(&an);
  if (!set_input_layouts(&an) | !check_ops_without_rule(&an) | !an.ok) return false;
  bool configured = cuts_arguments(f);
  configured |= an.pins != NULL;
  for (size_t i = 0; i < an.g.num_groups; i++) configured |= an.g.group[i].by != MSC_DECIDER_NOBODY;
  if (!shard_searches_time(pass->config) && (mode != MSC_AUTO_PARALLEL || !configured)) apply_default(&an);
  store_digits(&an);
  shard_insert_pins(&an.g, an.pins);
  return true;
}
