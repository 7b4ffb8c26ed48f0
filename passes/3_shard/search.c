/* search: letters that propagation left free -> digits with the least redistribution; what is decided stays.
 *
 * Variables are the groups, their states the ways to put unused digits on free letters; the cost is the bytes of every
 * edge between what a group yields and what another wants, as the planner prices it.  A strategy tuple says how many
 * parts, not which digit comes first: its groups may reorder the digits of a letter.  Small spaces are solved at once
 * and exactly; larger ones digit by digit: each digit is freed for all groups while the others stay, and solved
 * exactly, until no digit moves.  Among equals the choice that cuts the work further wins.
 *
 * Two things come before bytes, or the cheapest would be to do all work everywhere, and to go back from model to data
 * parallel: a product takes all devices that it can have, and behind ops whose batch the user keeps whole
 * it stays whole. */
#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/search_time/eliminate.h"
#include "passes/3_shard/reshard/reshard.h"
#include "passes/3_shard/search_time/search_time.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

enum {
  MAX_STATES = 128,      /* of one group, when all digits are free at once */
  MAX_ENTRIES = 1 << 20, /* of one intermediate table */
  MAX_ORDERED = 4,       /* digits of one letter whose orders are all tried */
  MAX_SWEEPS = 4,
  BYTE = 1 << 16, /* cost of one byte; smaller units decide among equals: first fewer redistributions, */
  EDGE = 1 << 10, /* each of which costs this much, then work that is cut further (work_cost) */
};

static const int64_t IMPOSSIBLE = (int64_t)1 << 56; /* an edge without a plan */

/* Values that go from one group to another. */
typedef struct edge {
  int from, to;
  const msc_value *value;
  uint32_t from_op, to_op;
  uint16_t from_tensor, to_tensor;
  const msc_layout *fixed;         /* the layout the user gave an argument, instead of `from`'s; then from == to */
  const msc_layout **have, **want; /* by state of the two groups */
  struct edge *next;               /* of the same pair */
} edge;

typedef struct {
  uint64_t groups;
  edge *first;
} pair;

typedef struct {
  int num, room;
  msc_assignment *a;
} states;

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  msc_reshard *planner;
  MSC_TABLE(pair) pairs; /* in the order of their first edge */
  msc_arena *tables;     /* of one solution */
  uint32_t *kept;        /* by group: letters that stay as propagation left them */
  states *of;            /* by group */
  states drawn;          /* of the group at hand: MAX_STATES of them fit */
  int *chosen;
} searching;

/* ---- edges ---- */

/* Who gives a value its layout: its op; of an argument its owner. */
static bool producer_of(const shard_graph *g, const msc_value *v, uint32_t *out_op, uint16_t *out_tensor) {
  const msc_use *owner = v->def ? NULL : shard_owner_of(g, v);
  if (!v->def && !owner) return false;
  *out_op = v->def ? v->def->id : owner->user->id;
  *out_tensor = (uint16_t)(v->def ? v->def->num_in + v->index : owner - owner->user->in);
  return g->op[*out_op].group >= 0;
}

/* A layout with cuts that the user gave an argument. */
static const msc_layout *given_layout(const shard_graph *g, const msc_value *v) {
  const msc_layout *l = v->def ? NULL : g->given[v->index];
  return l && !msc_layout_is_replicated(l) ? l : NULL;
}

/* Edges of one pair of groups stand together, behind the first. */
static void add_edge(searching *s, edge e) {
  edge *copy = msc_arena_copy(s->g.arena, &e, sizeof e);
  const uint64_t key = (uint64_t)e.from << 32 | (uint32_t)e.to;
  pair *p = msc_table_at(&s->pairs, &key);
  if (p->first) copy->next = p->first->next, p->first->next = copy;
  else p->first = copy;
}

static void find_edges(searching *s) {
  shard_graph *g = &s->g;
  s->pairs.index.arena = g->arena;
  for (size_t i = 0; i < g->num_ops; i++) {
    const shard_op *o = &g->op[i];
    for (int t = 0; o->group >= 0 && t < o->op->num_in; t++) {
      edge e = {.value = o->op->in[t].value, .to = o->group, .to_op = (uint32_t)i, .to_tensor = (uint16_t)t};
      e.fixed = given_layout(g, e.value);
      if (e.fixed) e.from_op = e.to_op;
      else if (!producer_of(g, e.value, &e.from_op, &e.from_tensor)) continue;
      e.from = g->op[e.from_op].group;
      if (e.fixed || e.from_op != i || e.from_tensor != t) add_edge(s, e);
    }
  }
}

/* ---- costs ---- */

/* Layouts of one end of an edge, by the state of its group. */
static const msc_layout **layouts_of(searching *s, uint32_t op, uint16_t tensor, const states *of) {
  const msc_layout **l = msc_new_array(s->tables, const msc_layout *, of->num);
  for (int i = 0; i < of->num; i++) l[i] = shard_layout(&s->g, &s->g.op[op], &of->a[i], tensor);
  return l;
}

static const msc_layout **repeated_layout(const searching *s, const msc_layout *layout, int num) {
  const msc_layout **l = msc_new_array(s->tables, const msc_layout *, num);
  for (int i = 0; i < num; i++) l[i] = layout;
  return l;
}

static int64_t edge_cost(searching *s, const edge *e, int i, int j) {
  if (e->have[i] == e->want[j]) return 0;
  int64_t bytes = msc_reshard_cost(s->planner, e->value->type, e->have[i], e->want[j]);
  if (bytes < 0) return IMPOSSIBLE;
  return bytes || e->fixed ? bytes * BYTE + EDGE : 0; /* what the user cut so is used so, although a slice is free */
}

/* A redistribution is paid once per value and target: edges of one pair that bring the same value in the same
 * layout count once. */
static int64_t pair_cost(searching *s, const edge *first, int i, int j) {
  int64_t sum = 0;
  for (const edge *e = first; e; e = e->next) {
    bool repeated = false;
    for (const edge *b = first; b != e && !repeated; b = b->next)
      repeated = b->value == e->value && b->want[j] == e->want[j];
    if (!repeated) sum += edge_cost(s, e, i, j);
  }
  return sum;
}

/* Into how many parts a group's work is cut. */
static int64_t count_group_parts(const shard_graph *g, int group, const msc_assignment *a) {
  int64_t parts = 1;
  for (int l = 0; l < g->group[group].rule.num_letters; l++) parts *= shard_parts(&g->atoms, a->num[l], a->atom[l]);
  return parts;
}

/* Work that is not cut: 16 for a group on one device, 1 from 16 parts on. */
static int64_t work_cost(const shard_graph *g, int group, const msc_assignment *a) {
  int64_t parts = count_group_parts(g, group, a);
  return parts >= 16 ? 1 : 16 / parts;
}

static int64_t *make_pair_table(searching *s, edge *first) {
  const states *a = &s->of[first->from], *b = &s->of[first->to];
  bool own = first->from == first->to;
  for (edge *e = first; e; e = e->next) {
    e->have = e->fixed ? repeated_layout(s, e->fixed, a->num) : layouts_of(s, e->from_op, e->from_tensor, a);
    e->want = layouts_of(s, e->to_op, e->to_tensor, b);
  }
  int64_t *cost = msc_new_array(s->tables, int64_t, (size_t)a->num * (size_t)(own ? 1 : b->num));
  for (int i = 0; i < a->num; i++) {
    if (own) cost[i] = pair_cost(s, first, i, i);
    for (int j = 0; !own && j < b->num; j++) cost[i * b->num + j] = pair_cost(s, first, i, j);
  }
  return cost;
}

/* ---- states ---- */

static uint32_t used_atoms(const shard_group *group) {
  uint32_t used = 0;
  for (int l = 0; l < group->rule.num_letters; l++)
    for (int k = 0; k < group->digits.num[l]; k++) used |= 1u << group->digits.atom[l][k];
  return used;
}

typedef enum { UNKNOWN, WHOLE, CUT } batch_state;

/* What the configured ops before it say about the batch of the group's leader: cut on one way to it, or whole on
 * all that say. */
static batch_state batch_before(const batch_state *of_op, const msc_op *op) {
  batch_state seen = UNKNOWN;
  for (size_t i = 0; i < op->num_in; i++) {
    batch_state before = op->in[i].value->def ? of_op[op->in[i].value->def->id] : UNKNOWN;
    seen = before > seen ? before : seen;
  }
  return seen;
}

/* Letters of a product that its parameters lack: to cut them is to compute with copies of the parameters. */
static uint32_t letters_of_data(const shard_graph *g, const shard_op *o) {
  uint32_t all = (1u << o->rule.num_letters) - 1, data = all;
  if (msc_info(o->op)->cost != MSC_COST_FLOPS) return 0;
  for (int t = 0; t < o->rule.num_in; t++) {
    const msc_value *v = o->op->in[t].value;
    if (v->def && v->def->kind == OP_cast) v = v->def->in[0].value;
    if (v->def || msc_arg_role(g->func, v->index) != MSC_ROLE_PARAMETER) continue;
    for (int d = 0; d < o->rule.tensor[t].rank; d++)
      for (int k = 0; k < o->rule.tensor[t].dim[d].num; k++) data &= ~(1u << o->rule.tensor[t].dim[d].letter[k]);
  }
  return data == all ? 0 : data;
}

/* Where the user keeps the batch whole, it stays whole in what follows: the way from data to model parallel
 * is one way. */
static void keep_batches(searching *s) {
  const shard_graph *g = &s->g;
  const int8_t *batch = shard_batch_letters(g);
  batch_state *of_op = msc_new_array(g->arena, batch_state, g->num_ops + 1);
  s->kept = msc_new_array(g->arena, uint32_t, g->num_groups + 1);
  for (size_t i = 0; i < g->num_ops; i++) {
    int k = g->op[i].group;
    const shard_group *group = k < 0 ? NULL : &g->group[k];
    if (!group || g->op[i].op->forward) continue;
    int l = batch[k];
    of_op[i] = batch_before(of_op, g->op[i].op);
    if (group->leader != g->op[i].op) continue;
    if (l >= 0 && group->by && !strcmp(group->by, "user")) of_op[i] = group->digits.num[l] ? CUT : WHOLE;
    if (l >= 0 && of_op[i] == WHOLE) s->kept[k] = 1u << l | letters_of_data(g, &g->op[i]);
  }
}

/* Extends every state by each way to place atom `a` (or not), keeping the legal ones. */
static void place_atom(searching *s, int group, int atom, states *out) {
  const shard_group *of = &s->g.group[group];
  int num = out->num;
  for (int i = 0; i < num; i++)
    for (int l = 0; l < of->rule.num_letters; l++) {
      if ((of->closed | s->kept[group]) >> l & 1 || of->rule.letter[l].role == MSC_REP || out->num == MAX_STATES)
        continue;
      msc_assignment next = out->a[i];
      next.atom[l][next.num[l]++] = (uint8_t)atom;
      if (msc_rule_fills(&of->rule, &next, &s->g.atoms, l) && shard_allows(&s->g, group, &next))
        out->a[out->num++] = next;
    }
}

/* Orders of the digits of one letter, the given one first: a group that was given as a tuple may have any. */
static void reorder_letter(states *out, int letter, int at) {
  int num = out->num;
  for (int i = 0; i < num; i++) {
    uint8_t *digits = out->a[i].atom[letter];
    for (int k = at + 1; k < out->a[i].num[letter] && out->num < MAX_STATES; k++) {
      out->a[out->num] = out->a[i];
      uint8_t *moved = out->a[out->num++].atom[letter];
      memmove(moved + at + 1, moved + at, (size_t)(k - at));
      moved[at] = digits[k];
    }
  }
}

static void reorder_digits(states *out, const shard_group *group) {
  for (int l = 0; l < group->rule.num_letters; l++)
    for (int at = 0; at + 1 < group->digits.num[l] && group->digits.num[l] <= MAX_ORDERED; at++)
      reorder_letter(out, l, at);
}

static void list_group_states(searching *s, int group, uint32_t mask) {
  states *drawn = &s->drawn;
  uint32_t used = used_atoms(&s->g.group[group]);
  drawn->num = 1;
  drawn->a[0] = s->g.group[group].digits;
  if (msc_op_attr(s->g.group[group].leader, MSC_FACT(in_strategy))) reorder_digits(drawn, &s->g.group[group]);
  for (int a = 0; a < s->g.atoms.num; a++)
    if (mask >> a & 1 && !(used >> a & 1)) place_atom(s, group, a, drawn);
}

/* Products take the devices that they can have: a copy of their work on each would cost no redistribution. */
static void drop_copies(const searching *s, int group, states *drawn) {
  int64_t most = 1;
  int num = 0;
  if (msc_info(s->g.group[group].leader)->cost != MSC_COST_FLOPS) return;
  for (int i = 0; i < drawn->num; i++)
    most = count_group_parts(&s->g, group, &drawn->a[i]) > most ? count_group_parts(&s->g, group, &drawn->a[i]) : most;
  for (int i = 0; i < drawn->num; i++)
    if (count_group_parts(&s->g, group, &drawn->a[i]) == most) drawn->a[num++] = drawn->a[i];
  drawn->num = num;
}

/* States of all groups when the atoms of `mask` may be placed. */
static bool list_states(searching *s, uint32_t mask) {
  bool complete = true;
  for (size_t i = 0; i < s->g.num_groups; i++) {
    states *of = &s->of[i];
    list_group_states(s, (int)i, mask);
    complete &= s->drawn.num < MAX_STATES;
    drop_copies(s, (int)i, &s->drawn);
    of->num = s->drawn.num;
    if (of->num > of->room) {
      of->room = of->num;
      of->a = msc_new_array(s->g.arena, msc_assignment, of->room);
    }
    memcpy(of->a, s->drawn.a, (size_t)of->num * sizeof *of->a);
  }
  return complete;
}

/* ---- solving ---- */

static bool solve_states(searching *s, int64_t *out_cost) {
  msc_arena *a = s->tables = msc_arena_new(s->pass->ctx);
  size_t groups = s->g.num_groups, pairs = msc_table_num(&s->pairs);
  int *num = msc_new_array(a, int, groups);
  shard_table *table = msc_new_array(a, shard_table, groups + pairs);
  for (size_t i = 0; i < groups; i++) {
    int64_t *work = msc_new_array(a, int64_t, s->of[i].num);
    num[i] = s->of[i].num;
    for (int k = 0; k < num[i]; k++) work[k] = work_cost(&s->g, (int)i, &s->of[i].a[k]);
    table[i] = (shard_table){(int)i, -1, work};
  }
  for (size_t i = 0; i < pairs; i++) {
    edge *e = s->pairs.item[i].first;
    table[groups + i] = (shard_table){e->from, e->from == e->to ? -1 : e->to, make_pair_table(s, e)};
  }
  shard_problem p = {.num_vars = (int)groups, .num_states = num, .num_tables = groups + pairs, .table = table};
  bool ok = shard_eliminate(a, &p, MAX_ENTRIES, s->chosen, out_cost, NULL);
  msc_arena_free(a);
  return ok;
}

static void take_chosen(searching *s) {
  for (size_t i = 0; i < s->g.num_groups; i++) s->g.group[i].digits = s->of[i].a[s->chosen[i]];
}

/* Takes atom `a` off every letter that was free before. */
static void free_atom(searching *s, int a, const msc_assignment *fixed) {
  for (size_t i = 0; i < s->g.num_groups; i++) {
    msc_assignment *d = &s->g.group[i].digits;
    for (int l = 0; l < s->g.group[i].rule.num_letters; l++)
      for (int k = fixed[i].num[l]; k < d->num[l]; k++)
        if (d->atom[l][k] == a) {
          memmove(&d->atom[l][k], &d->atom[l][k + 1], (size_t)(d->num[l] - k - 1));
          d->num[l]--;
        }
  }
}

/* Digit by digit, slow links last, until a whole round changes nothing. */
static void sweep_digits(searching *s) {
  msc_assignment *fixed = msc_new_array(s->g.arena, msc_assignment, s->g.num_groups);
  for (size_t i = 0; i < s->g.num_groups; i++) fixed[i] = s->g.group[i].digits;
  int64_t before = INT64_MAX, cost = 0;
  for (int round = 0; round < MAX_SWEEPS; round++) {
    for (int a = s->g.atoms.num; a-- > 0;) {
      free_atom(s, a, fixed);
      list_states(s, 1u << a);
      if (solve_states(s, &cost)) take_chosen(s);
    }
    if (cost == before) break;
    before = cost;
  }
}

static void close_letters(shard_graph *g) {
  for (size_t i = 0; i < g->num_groups; i++) {
    shard_group *group = &g->group[i];
    uint32_t all = (1u << group->rule.num_letters) - 1;
    if (!group->by || (group->closed != all && strcmp(group->by, "propagation") != 0)) group->by = "search";
    group->closed = all;
  }
}

/* Tuples say how many parts there are; all of them are digits now, as if layouts had been given. */
static bool forget_tuples(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(in_strategy));
  return true;
}

bool pass_search(msc_pass_ctx *pass, msc_module *m) {
  searching s = {.pass = pass};
  msc_func *f = shard_func(m);
  if (!f) return true;
  if (shard_searches_time(pass->config)) return shard_search_time(pass, f) && forget_tuples(f);
  MSC_TRY(shard_graph_of(pass, f, &s.g));
  msc_reshard_options options = {.no_alltoall = !msc_config_bool(pass->config, MSC_KEY_enable_alltoall)};
  s.planner = msc_reshard_new(pass->ctx, &m->mesh, &options);
  s.of = msc_new_array(pass->scratch, states, s.g.num_groups);
  s.chosen = msc_new_array(pass->scratch, int, s.g.num_groups);
  s.drawn = (states){0, MAX_STATES, msc_new_array(pass->scratch, msc_assignment, MAX_STATES)};
  find_edges(&s);
  keep_batches(&s);
  int64_t cost = 0;
  if (list_states(&s, UINT32_MAX) && solve_states(&s, &cost)) take_chosen(&s);
  else sweep_digits(&s);
  close_letters(&s.g);
  shard_graph_store(&s.g);
  msc_stat(pass, "redistributed bytes", cost / BYTE);
  return forget_tuples(f);
}
