/* propagate: digits of decided letters -> every letter that follows without a choice, through values in both
 * directions.
 *
 * State: an ordered digit list per letter of a group and per dimension of a value.  A sweep visits every op whose group
 * or values changed since its last visit, and extends the shorter of the two lists to the longer where one is a prefix
 * of the other; forward and backward sweeps alternate until nothing changes.  Lists that disagree are a conflict: the
 * group drops the digits that propagation brought it, and the search decides its letters.  That happens at most once to
 * a letter of a group, and otherwise lists only grow, so the sweeps end.
 *
 * Annotation `priority` says from which round on an op takes part, 0 first.  Digits that an earlier round spread stay,
 * so of two strategies that lead to a conflict the one of the earlier round wins (as Shardy's user priorities do). */
#include <string.h>

#include "passes/3_shard/explain/origins.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

typedef struct {
  uint8_t num[MSC_MAX_RANK];
  uint8_t atom[MSC_MAX_RANK][MSC_MAX_SUBAXES];
  uint32_t used;                      /* mask of atoms in any dimension */
  uint32_t conflict;                  /* mask of dimensions whose conflict was reported */
  const int64_t *split[MSC_MAX_RANK]; /* chosen borders of a dimension's parts; NULL: parts are equal, or not known */
} dim_lists;

typedef struct {
  msc_pass_ctx *pass;
  shard_graph *g;
  dim_lists *value;    /* by value id */
  uint32_t *used;      /* by group: mask of atoms on any letter */
  uint32_t *contested; /* by group: mask of letters that the search decides */
  bool *must_visit;    /* by op id: to be visited */
  uint8_t *round;      /* by group: the first round that it takes part in */
  int current_round;
  bool changed, search_follows;
  int64_t conflicts;
  shard_origins *origins; /* NULL: where digits come from is not recorded */
} propagation;

/* ---- what must be visited again ---- */

static void mark_value_changed(propagation *p, const msc_value *v) {
  p->changed = true;
  if (v->def) p->must_visit[v->def->id] = true;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user->block == p->g->func->body) p->must_visit[u->user->id] = true;
}

static void mark_group_changed(propagation *p, const shard_group *group) {
  p->changed = true;
  for (size_t i = 0; i < group->num_members; i++) p->must_visit[group->member[i]] = true;
}

/* ---- one tensor of one op ---- */

/* Writes the digits of the dimension's letters one after the other, major letters first. Returns how many. */
static int list_digits_of_letters(const shard_group *group, const shard_op *o, const msc_dim_letters *dim,
                                  uint8_t *out_atom) {
  int num = 0;
  for (int i = 0; i < dim->num; i++) {
    int l = o->to_group[dim->letter[i]];
    if (l < 0) break;
    memcpy(out_atom + num, group->digits.atom[l], group->digits.num[l]);
    num += group->digits.num[l];
  }
  return num;
}

/* Appends the atom to the first of the dimension's letters that can take it. False: none can. */
static bool extend_letters(propagation *p, const shard_op *o, const msc_dim_letters *dim, uint8_t atom) {
  shard_group *group = &p->g->group[o->group];
  if (p->used[o->group] >> atom & 1) return false;
  for (int i = 0; i < dim->num; i++) {
    int l = o->to_group[dim->letter[i]];
    if (l < 0 || (group->closed | p->contested[o->group]) >> l & 1 || group->digits.num[l] == MSC_MAX_SUBAXES) continue;
    group->digits.atom[l][group->digits.num[l]++] = atom;
    if (shard_allows(p->g, o->group, &group->digits)) {
      p->used[o->group] |= 1u << atom;
      if (!group->by) group->by = MSC_DECIDER_PROPAGATION;
      return true;
    }
    group->digits.num[l]--;
  }
  return false;
}

static bool extend_value(dim_lists *v, int d, uint8_t atom) {
  if (v->used >> atom & 1 || v->num[d] == MSC_MAX_SUBAXES) return false;
  v->atom[d][v->num[d]++] = atom;
  v->used |= 1u << atom;
  return true;
}

static void report_conflict(propagation *p, const shard_op *o, const msc_value *value, int d, shard_digit_list own) {
  dim_lists *v = &p->value[value->id];
  if (v->conflict >> d & 1) return;
  v->conflict |= 1u << d;
  p->conflicts++;
  if (p->origins) shard_origins_conflict(p->origins, o, value, d, own, (shard_digit_list){v->num[d], v->atom[d]});
  const char *here = msc_op_title(o->op);
  const msc_op *def = value->def;
  msc_remark(p->pass, o->op,
             "conflict: dimension %d of %s reaches %s with other digits than it has there; the search decides", d,
             def && def->name ? def->name
             : value->name    ? value->name
                              : "a value",
             here);
}

/* Resolves a conflict between a group's list and a value's: the letter concerned keeps the `common` digits with which
 * both begin, the group's other letters that the user did not decide lose all of theirs, because the letter may need
 * them. The search decides these letters. */
static void free_group(propagation *p, const shard_op *o, const msc_dim_letters *dim, int common) {
  shard_group *group = &p->g->group[o->group];
  int here = dim->num == 1 ? o->to_group[dim->letter[0]] : -1;
  if (here < 0 || (group->closed | p->contested[o->group]) >> here & 1) return;
  for (int l = 0; l < group->rule.num_letters; l++) {
    int keep = l == here ? common : 0;
    if (group->closed >> l & 1) continue;
    p->contested[o->group] |= 1u << l;
    for (int i = keep; i < group->digits.num[l]; i++) p->used[o->group] &= ~(1u << group->digits.atom[l][i]);
    if (group->digits.num[l] > keep) group->digits.num[l] = (uint8_t)keep;
    if (group->split[l]) shard_set_split(p->g, o->group, l, NULL);
  }
  mark_group_changed(p, group);
}

/* Copies chosen sizes of parts from the value to the letter, or back, if both have the same digits. */
static void match_split(propagation *p, const shard_op *o, const msc_value *value, int d, const msc_dim_letters *dim) {
  dim_lists *v = &p->value[value->id];
  int l = dim->num == 1 ? o->to_group[dim->letter[0]] : -1;
  const shard_group *group = &p->g->group[o->group];
  if (l < 0 || group->rule.letter[l].halo || dim->split == v->split[d] || group->digits.num[l] != v->num[d] ||
      memcmp(group->digits.atom[l], v->atom[d], v->num[d]))
    return;
  if (!v->split[d]) {
    v->split[d] = dim->split;
    mark_value_changed(p, value);
  } else if (!dim->split && !group->split[l] && !((group->closed | p->contested[o->group]) >> l & 1)) {
    shard_set_split(p->g, o->group, l, v->split[d]);
    if (dim->split) mark_group_changed(p, group);
  }
}

/* Extends, in every dimension of one operand or result of an op, the digits of its letters and those of its value, each
 * to match the other. */
static void match_tensor(propagation *p, const shard_op *o, const msc_value *value, const msc_tensor_letters *t) {
  dim_lists *v = &p->value[value->id];
  for (int d = 0; d < t->rank; d++) {
    uint8_t own[MSC_MAX_SUBAXES * 2];
    int num = t->dim[d].num ? list_digits_of_letters(&p->g->group[o->group], o, &t->dim[d], own) : 0;
    int common = 0;
    while (common < num && common < v->num[d] && own[common] == v->atom[d][common]) common++;
    if (common < num && common < v->num[d]) {
      report_conflict(p, o, value, d, (shard_digit_list){num, own});
      if (p->search_follows) free_group(p, o, &t->dim[d], common);
      continue;
    }
    for (int i = common; i < num; i++) {
      if (!extend_value(v, d, own[i])) {
        report_conflict(p, o, value, d, (shard_digit_list){num - i, own + i});
        break;
      }
      if (p->origins) shard_origins_to_value(p->origins, value, own[i], o->group);
      mark_value_changed(p, value);
    }
    for (int i = common; num == common && i < v->num[d] && t->dim[d].num; i++) {
      if (!extend_letters(p, o, &t->dim[d], v->atom[d][i])) break;
      if (p->origins) shard_origins_to_group(p->origins, o->group, v->atom[d][i], value);
      mark_group_changed(p, &p->g->group[o->group]);
    }
    if (v->num[d] && t->dim[d].num) match_split(p, o, value, d, &t->dim[d]);
  }
}

static void visit_op(propagation *p, const shard_op *o) {
  if (o->group < 0 || !p->must_visit[o->op->id] || p->round[o->group] > p->current_round) return;
  p->must_visit[o->op->id] = false; /* a change below sets it again */
  for (int i = 0; i < o->op->num_in; i++) match_tensor(p, o, o->op->in[i].value, &o->rule.tensor[i]);
  for (int i = 0; i < o->op->num_out; i++) match_tensor(p, o, &o->op->out[i], &o->rule.tensor[o->op->num_in + i]);
}

static void set_value_digits(propagation *p, const msc_value *v, const msc_layout *l) {
  for (int d = 0; l && d < l->rank; d++) {
    for (int s = l->first[d]; s < l->first[d + 1]; s++)
      for (uint32_t left = shard_atom_set(&p->g->atoms, 1, &l->sub[s]); left; left &= left - 1) {
        int a = __builtin_ctz(left);
        if (extend_value(&p->value[v->id], d, (uint8_t)a) && p->origins) shard_origins_argument(p->origins, v, a);
      }
    p->value[v->id].split[d] = l->split[d];
  }
}

/* Starts from the layouts that `dataset_strategy` or the model gives arguments. */
static void take_argument_layouts(propagation *p) {
  const msc_block *b = p->g->func->body;
  for (size_t i = 0; i < b->num_args; i++) set_value_digits(p, b->args[i], p->g->arg_layout[i]);
}

static void find_rounds(propagation *p) {
  const shard_graph *g = p->g;
  p->round = msc_new_array(g->arena, uint8_t, g->num_groups);
  for (size_t i = 0; i < g->num_groups; i++)
    for (size_t k = 0; k < g->group[i].num_members; k++) {
      const msc_attr_value *v = msc_op_attr(g->op[g->group[i].member[k]].op, MSC_FACT(priority));
      if (v && v->i > p->round[i]) p->round[i] = (uint8_t)v->i;
    }
}

/* Moves on to the next round in which some group first takes part; false: there is none. */
static bool next_round(propagation *p) {
  int next = UINT8_MAX + 1;
  for (size_t i = 0; i < p->g->num_groups; i++)
    if (p->round[i] > p->current_round && p->round[i] < next) next = p->round[i];
  p->current_round = next;
  return next <= UINT8_MAX;
}

/* Sweeps forward and backward until nothing changes; returns how often. */
static int sweep(propagation *p) {
  int sweeps = 0;
  do {
    p->changed = false;
    for (size_t i = 0; i < p->g->num_ops; i++) visit_op(p, &p->g->op[i]);
    for (size_t i = p->g->num_ops; i-- > 0;) visit_op(p, &p->g->op[i]);
    sweeps++;
  } while (p->changed);
  return sweeps;
}

int shard_propagate(msc_pass_ctx *pass, shard_graph *g, bool search_follows, int64_t *out_conflicts) {
  propagation p = {.pass = pass, .g = g, .search_follows = search_follows};
  /* a strategy file brings its own record of where digits come from */
  bool recorded = msc_config_is_set(pass->config, MSC_KEY_strategy_ckpt_load_file);
  if (search_follows && !recorded) p.origins = shard_origins_new(g);
  p.value = msc_new_array(g->arena, dim_lists, g->num_values);
  p.used = msc_new_array(g->arena, uint32_t, g->num_groups);
  p.contested = msc_new_array(g->arena, uint32_t, g->num_groups);
  p.must_visit = msc_new_array(g->arena, bool, g->num_ops);
  memset(p.must_visit, true, g->num_ops);
  for (size_t i = 0; i < g->num_groups; i++)
    for (int l = 0; l < g->group[i].rule.num_letters; l++)
      for (int k = 0; k < g->group[i].digits.num[l]; k++) p.used[i] |= 1u << g->group[i].digits.atom[l][k];
  find_rounds(&p);
  take_argument_layouts(&p);
  int sweeps = 0;
  do sweeps += sweep(&p);
  while (next_round(&p));
  if (p.origins) shard_origins_store(p.origins);
  *out_conflicts = p.conflicts;
  return sweeps;
}

bool pass_propagate(msc_pass_ctx *pass, msc_module *m) {
  shard_graph g;
  msc_func *f = shard_func(m);
  int64_t conflicts;
  if (!f || shard_searches_time(pass->config)) return true; /* such a search decides these letters itself, by cost */
  MSC_TRY(shard_graph_of(pass, f, &g));
  int sweeps = shard_propagate(pass, &g, true, &conflicts);
  shard_graph_store(&g);
  msc_stat(pass, "sweeps", sweeps);
  msc_stat(pass, "conflicts", conflicts);
  return true;
}
