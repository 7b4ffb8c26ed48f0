/* origins.c: for every atom the op or argument that a group or value got it from, recorded during propagation -> the
 * attributes `inherited` and `conflicts`; these attributes -> chains from each origin (see origins.h). */
#include "passes/3_shard/explain/origins.h"

#include <stdlib.h>
#include <string.h>

typedef struct conflict {
  const shard_op *op;
  msc_attr_value value; /* as the attribute has it */
  struct conflict *next;
} conflict;

/* The origin of an atom: number g + 1 stands for group g, number -a - 1 for argument a; or NOBODY. */
enum { NOBODY = 0 };

struct shard_origins {
  shard_graph *g;
  size_t num_atoms;
  int32_t *of_value,
      *of_group; /* by id of a value or number of a group, times num_atoms, plus atom: where it came from */
  conflict *first, **end;
};

/* ---- recording ---- */

shard_origins *shard_origins_new(shard_graph *g) {
  shard_origins *o = msc_new(g->arena, shard_origins);
  o->g = g;
  o->num_atoms = (size_t)g->atoms.num;
  o->of_value = msc_new_array(g->arena, int32_t, g->num_values * o->num_atoms + 1);
  o->of_group = msc_new_array(g->arena, int32_t, g->num_groups * o->num_atoms + 1);
  o->end = &o->first;
  return o;
}

static int32_t *value_entry(const shard_origins *o, const msc_value *v, int atom) {
  return &o->of_value[v->id * o->num_atoms + (size_t)atom];
}
static int32_t *group_entry(const shard_origins *o, int group, int atom) {
  return &o->of_group[(size_t)group * o->num_atoms + (size_t)atom];
}

void shard_origins_argument(shard_origins *o, const msc_value *argument, int atom) {
  *value_entry(o, argument, atom) = -(int32_t)argument->index - 1;
}
void shard_origins_to_value(shard_origins *o, const msc_value *v, int atom, int group) {
  *value_entry(o, v, atom) = group + 1;
}
void shard_origins_to_group(shard_origins *o, int group, int atom, const msc_value *v) {
  *group_entry(o, group, atom) = *value_entry(o, v, atom);
}

static const char *value_text(const msc_value *v) {
  const msc_op *def = v->def;
  if (def) return msc_op_title(def);
  return v->name ? v->name : "an argument";
}

/* The name of the source `who` of an atom; of a group without a name that of the nearest named source before it. NULL:
 * there is none. */
static const char *source_text(const shard_origins *o, int32_t who, int atom) {
  while (who > 0 && !o->g->group[who - 1].leader->name) who = *group_entry(o, who - 1, atom);
  if (who > 0) return o->g->group[who - 1].leader->name;
  return who == NOBODY ? NULL
                       : msc_arena_printf(o->g->arena, "argument %s", value_text(o->g->func->body->args[-who - 1]));
}

void shard_origins_conflict(shard_origins *o, const shard_op *op, const msc_value *v, int d, shard_digit_list here,
                            shard_digit_list there) {
  msc_context *ctx = o->g->ctx;
  int atom = there.num ? there.atom[0] : here.atom[0];
  const char *by = source_text(o, *value_entry(o, v, atom), atom);
  msc_attr *attrs = NULL;
  size_t num = 0;
  msc_attrs_put(ctx, &attrs, &num, msc_fact_value(ctx, value_text(v)));
  msc_attrs_put(ctx, &attrs, &num, msc_fact_dim(d));
  msc_attrs_put(ctx, &attrs, &num, msc_fact_here(shard_digits(o->g, here.num, here.atom, NULL)));
  msc_attrs_put(ctx, &attrs, &num, msc_fact_there(shard_digits(o->g, there.num, there.atom, NULL)));
  if (by) msc_attrs_put(ctx, &attrs, &num, msc_named(ctx, MSC_FACT(by), msc_str(ctx, by)));
  conflict *c = msc_new(o->g->arena, conflict);
  *c = (conflict){op, {.kind = MSC_ATTR_DICT, .dict = {num, attrs}}, NULL};
  *o->end = c, o->end = &c->next;
}

/* Writes `inherited` of a group's leader: one entry for all atoms with the same source. */
static void store_inherited(const shard_origins *o, int group) {
  shard_graph *g = o->g;
  msc_attr_value *entry = msc_new_array(g->arena, msc_attr_value, o->num_atoms);
  size_t entries = 0;
  uint32_t done = 0;
  for (size_t a = 0; a < o->num_atoms; a++) {
    int32_t who = *group_entry(o, group, (int)a);
    const char *by = who == NOBODY || done >> a & 1 ? NULL : source_text(o, who, (int)a);
    if (!by) continue;
    uint8_t atom[MSC_MAX_SUBAXES];
    int atoms = 0;
    for (size_t b = a; b < o->num_atoms; b++) {
      if (*group_entry(o, group, (int)b) != who) continue;
      atom[atoms++] = (uint8_t)b;
      done |= 1u << b;
    }
    msc_attr *attrs = NULL;
    size_t num = 0;
    msc_attrs_put(g->ctx, &attrs, &num, msc_named(g->ctx, MSC_FACT(by), msc_str(g->ctx, by)));
    msc_attrs_put(g->ctx, &attrs, &num, msc_fact_digits(shard_digits(g, atoms, atom, NULL)));
    entry[entries++] = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, attrs}};
  }
  if (entries) msc_op_put(g->group[group].leader, msc_fact_inherited(g->ctx, entries, entry));
}

static void store_conflict(const shard_origins *o, const conflict *c) {
  msc_op *leader = o->g->group[c->op->group].leader;
  const msc_attr_value *before = msc_op_attr(leader, MSC_FACT(conflicts));
  size_t num = before ? before->list.num : 0;
  msc_attr_value *all = msc_new_array(o->g->arena, msc_attr_value, num + 1);
  if (num) memcpy(all, before->list.v, num * sizeof *all);
  all[num] = c->value;
  msc_op_put(leader, msc_fact_conflicts(o->g->ctx, num + 1, all));
}

void shard_origins_store(shard_origins *o) {
  for (size_t i = 0; i < o->g->num_groups; i++) store_inherited(o, (int)i);
  for (const conflict *c = o->first; c; c = c->next) store_conflict(o, c);
}

/* ---- reading ---- */

typedef struct {
  const char *name;
  int group;
} named_group;

struct shard_chains {
  shard_graph *g;
  size_t num_names;
  named_group *name; /* of leaders, sorted */
  const char **from; /* by group and atom: the name of the op or argument it came from, or NULL */
  int *before;       /* by group and atom: the group of that op; -1: it is none, or came from an argument */
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const named_group *)a)->name, ((const named_group *)b)->name);
}

static int by_name_and_group(const void *a, const void *b) {
  int order = by_name(a, b);
  return order ? order : ((const named_group *)a)->group - ((const named_group *)b)->group;
}

/* The group whose leader has that name. Several can have it, as update ops do: then the last one below number `after`,
 * else the first one other than `after`. -1: none. */
static int group_named(const shard_chains *c, const char *name, int after) {
  const named_group *found = bsearch(&(named_group){name, 0}, c->name, c->num_names, sizeof *c->name, by_name),
                    *end = c->name + c->num_names;
  int group = -1;
  while (found && found > c->name && !strcmp(found[-1].name, name)) found--;
  for (; found && found < end && !strcmp(found->name, name); found++)
    if (found->group < after || (group < 0 && found->group != after)) group = found->group;
  return group;
}

static const char *text_in(const msc_attr_value *dict, const char *name) {
  const msc_attr_value *v = dict->kind == MSC_ATTR_DICT ? msc_find_attr(dict->dict.a, dict->dict.num, name) : NULL;
  return v && v->kind == MSC_ATTR_STR ? v->s : NULL;
}

static const msc_layout *digits_in(const msc_attr_value *dict, const char *name) {
  return dict->kind == MSC_ATTR_DICT ? msc_attr_layout(msc_find_attr(dict->dict.a, dict->dict.num, name)) : NULL;
}

/* The atoms that begin in the digits; NULL: no digits.  Digits come from a plan and need not be whole atoms. */
static uint32_t atoms_in(const shard_graph *g, const msc_layout *digits) {
  return digits ? shard_atom_set(&g->atoms, digits->first[1], digits->sub) : 0;
}

static const msc_attr_value *list_fact_of(const msc_op *op, const char *name, size_t *out_num) {
  const msc_attr_value *v = msc_op_attr(op, name);
  *out_num = v && v->kind == MSC_ATTR_LIST ? v->list.num : 0;
  return *out_num ? v->list.v : NULL;
}

static void read_inherited(shard_chains *c, size_t group) {
  size_t num, atoms = (size_t)c->g->atoms.num;
  const msc_attr_value *entry = list_fact_of(c->g->group[group].leader, MSC_FACT(inherited), &num);
  for (size_t i = 0; i < num; i++) {
    const char *by = text_in(&entry[i], MSC_FACT(by));
    uint32_t mask = by ? atoms_in(c->g, digits_in(&entry[i], MSC_FACT(digits))) : 0;
    for (size_t a = 0; a < atoms; a++)
      if (mask >> a & 1) c->from[group * atoms + a] = by, c->before[group * atoms + a] = group_named(c, by, (int)group);
  }
}

shard_chains *shard_chains_of(shard_graph *g) {
  shard_chains *c = msc_new(g->arena, shard_chains);
  size_t entries = g->num_groups * (size_t)g->atoms.num;
  c->g = g;
  c->name = msc_new_array(g->arena, named_group, g->num_groups + 1);
  c->from = msc_new_array(g->arena, const char *, entries + 1);
  c->before = msc_new_array(g->arena, int, entries + 1);
  for (size_t i = 0; i < g->num_groups; i++)
    if (g->group[i].leader->name) c->name[c->num_names++] = (named_group){g->group[i].leader->name, (int)i};
  qsort(c->name, c->num_names, sizeof *c->name, by_name_and_group);
  for (size_t i = 0; i < entries; i++) c->before[i] = -1;
  for (size_t i = 0; i < g->num_groups; i++) read_inherited(c, i);
  return c;
}

/* The number of steps from `group` back to the origin of the atom, at most the number of groups: attributes read from a
 * plan may form a circle. */
static size_t steps_to_origin(const shard_chains *c, int group, int atom) {
  size_t num = 0;
  for (; group >= 0 && num < c->g->num_groups; num++) {
    size_t at = (size_t)group * (size_t)c->g->atoms.num + (size_t)atom;
    if (!c->from[at]) break;
    group = c->before[at];
  }
  return num;
}

/* The chain of the atom from its origin to the op or argument `by`; group: that op's (-1: none). */
static shard_chain chain_from(const shard_chains *c, const char *by, int group, int atom) {
  size_t all = steps_to_origin(c, group, atom), num = all < SHARD_MOST_THROUGH ? all : SHARD_MOST_THROUGH;
  const char **back = msc_new_array(c->g->arena, const char *, num + 1);
  for (size_t i = 0; i < all; i++) {
    size_t at = (size_t)group * (size_t)c->g->atoms.num + (size_t)atom;
    if (i < num) back[num - 1 - i] = by;
    by = c->from[at], group = c->before[at];
  }
  return (shard_chain){.origin = by,
                       .loc = group < 0 ? NULL : c->g->group[group].leader->loc,
                       .left_out = all - num,
                       .num = num,
                       .through = back};
}

static bool same_path(const shard_chain *a, const shard_chain *b) {
  bool same = a->num == b->num && a->left_out == b->left_out && !strcmp(a->origin, b->origin);
  for (size_t i = 0; same && i < a->num; i++) same = !strcmp(a->through[i], b->through[i]);
  return same;
}

size_t shard_chains_to(const shard_chains *c, int group, shard_chain **out_chain) {
  shard_graph *g = c->g;
  const shard_group *of = &g->group[group];
  size_t num = 0, atoms = (size_t)g->atoms.num;
  shard_chain *chain = *out_chain = msc_new_array(g->arena, shard_chain, atoms + 1);
  uint8_t *digit = msc_new_array(g->arena, uint8_t, (atoms + 1) * MSC_MAX_SUBAXES);
  int digits[MSC_MAX_SUBAXES + 1] = {0};
  for (int l = 0; l < of->rule.num_letters; l++)
    for (int k = 0; k < of->digits.num[l]; k++) {
      uint8_t atom = of->digits.atom[l][k];
      size_t at = (size_t)group * atoms + atom, same = 0;
      if (!c->from[at]) continue;
      chain[num] = chain_from(c, c->from[at], c->before[at], atom);
      while (same < num && !same_path(&chain[same], &chain[num])) same++;
      if (same == num) num++;
      digit[same * MSC_MAX_SUBAXES + (size_t)digits[same]++] = atom;
    }
  for (size_t i = 0; i < num; i++) chain[i].digits = shard_digits(g, digits[i], digit + i * MSC_MAX_SUBAXES, NULL);
  return num;
}

/* The chain of digits that the group's leader has, or had before the conflict; `mask`: their atoms. Without a recorded
 * source the leader is their origin. */
static shard_chain own_chain(const shard_chains *c, int group, const msc_layout *digits, uint32_t mask) {
  const msc_op *leader = c->g->group[group].leader;
  shard_chain chain = {.digits = digits, .origin = leader->name, .loc = leader->loc};
  if (!mask) return chain;
  int atom = __builtin_ctz(mask);
  size_t at = (size_t)group * (size_t)c->g->atoms.num + (size_t)atom;
  if (c->from[at]) chain = chain_from(c, c->from[at], c->before[at], atom), chain.digits = digits;
  return chain;
}

size_t shard_chains_conflicts(const shard_chains *c, int group, shard_conflict **out_conflict) {
  size_t num, kept = 0;
  const msc_attr_value *entry = list_fact_of(c->g->group[group].leader, MSC_FACT(conflicts), &num);
  *out_conflict = msc_new_array(c->g->arena, shard_conflict, num + 1);
  for (size_t i = 0; i < num; i++) {
    const msc_layout *here = digits_in(&entry[i], MSC_FACT(here)), *there = digits_in(&entry[i], MSC_FACT(there));
    const char *by = text_in(&entry[i], MSC_FACT(by)), *value = text_in(&entry[i], MSC_FACT(value));
    const msc_attr_value *dim = here ? msc_find_attr(entry[i].dict.a, entry[i].dict.num, MSC_FACT(dim)) : NULL;
    if (!there || !value || !dim || dim->kind != MSC_ATTR_INT || !c->g->group[group].leader->name) continue;
    uint32_t mask = atoms_in(c->g, there), own = atoms_in(c->g, here);
    if (!mask) mask = own;
    shard_conflict *to = &(*out_conflict)[kept++];
    *to = (shard_conflict){
        .op = c->g->group[group].leader->name, .value = value, .dim = dim->i, .here = own_chain(c, group, here, own)};
    to->there = by && mask ? chain_from(c, by, group_named(c, by, group), __builtin_ctz(mask))
                           : (shard_chain){.origin = by ? by : value};
    to->there.digits = there;
  }
  return kept;
}
