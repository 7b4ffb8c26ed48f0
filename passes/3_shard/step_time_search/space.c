/* space.c: model -> classes of variables, their states and tables (see space.h). */
#include "passes/3_shard/step_time_search/space.h"

#include <limits.h>
#include <string.h>

#include "ir/conv.h"
#include "ir/table.h"
#include "passes/3_shard/expansion.h"
#include "passes/3_shard/step_time_search/states.h"
#include "passes/3_shard/step_time_search/op_cost.h"

typedef struct {
  shard_class c;
  int64_t *charged;        /* by state: ns, and what memory is charged */
  bool irregular;          /* the variable's fixed digits are kept in all its states (states.h) */
  int plainest;            /* the state that cuts least */
  const shard_list **list; /* by member and tensor */
  size_t *first_list;      /* by member */
} class_entry;

/* The costs of a flow by the states of both ends. Flows with equal keys, all members above `cost`, share them. */
typedef struct {
  const msc_type *type;
  uint64_t how;                         /* bit 0: a gradient of a parameter, bit 1: it moves once per step */
  const shard_list *from, *to, *before; /* before: layouts into which an earlier flow brings the value, or NULL */
  const int64_t *cost;                  /* NULL: not made yet */
} known_table;

struct shard_space {
  shard_model *m;
  shard_graph *g;
  shard_space_options o;
  msc_arena *arena;
  class_entry **of_var;
  msc_copies kinds, classes; /* keys, in the words that find_kind and class_number write */
  class_entry **of_class;
  msc_copies lists; /* contents of lists (intern_list) */
  const shard_list **list;
  MSC_TABLE(known_table) tables;
  bool leaves_out; /* some uneven cuts are no states */
  uint64_t *word;  /* of the key that is being written */
  size_t num_words, room_words;
  struct {
    uint64_t code;
    int number;
  } code[4096]; /* the numbers of layouts computed last (layout_number) */
};

const shard_class *shard_class_of(const shard_space *s, int var) { return &s->of_var[var]->c; }

bool shard_space_leaves_out(const shard_space *s) { return s->leaves_out; }

/* ---- kinds and classes of variables ---- */

static void put_word(shard_space *s, uint64_t word) {
  msc_reserve(s->arena, s->word, s->room_words, s->num_words + 1);
  s->word[s->num_words++] = word;
}

static void put_bytes(shard_space *s, const void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t w = 0;
    memcpy(&w, (const char *)data + at, bytes - at < 8 ? bytes - at : 8);
    put_word(s, w);
  }
}

/* Writes the sizes of the windows of a convolution or pool, and how far they reach beyond a rank's part. */
static void put_windows(shard_space *s, const msc_op *op) {
  if (!op || !msc_is_windowed(op)) return;
  msc_conv c = msc_conv_of(op);
  for (int d = 0; d < 2; d++) {
    put_word(s, (uint64_t)c.dim[d].kernel << 32 | (uint64_t)c.dim[d].stride);
    for (size_t t = 0; t < op->num_in; t++) {
      int64_t lo, hi;
      msc_halo_of(op, t, 2 + d, &lo, &hi);
      put_word(s, (uint64_t)lo << 32 | (uint64_t)hi);
    }
  }
}

static void put_member(shard_space *s, const shard_variable *v, const shard_member *m) {
  const msc_rule *r = m->rule;
  put_word(s, (uint64_t)(m->op ? m->op->kind : OP_COUNT) << 32 | (uint64_t)m->per_step << 2 |
                  (uint64_t)(m->rule ? 1u : 0u) << 1 | m->passes);
  if (!r) return;
  put_word(s, (uint64_t)r->num_tensors << 32 | (uint64_t)r->num_in << 16 | (uint64_t)r->linear << 1 | r->joint);
  put_word(s, r->linear_in);
  put_word(s, m->kept);
  if (m->op && m->op->kind == OP_vjp) put_word(s, (uint64_t)(uintptr_t)msc_op_str(m->op, "op"));
  put_bytes(s, m->to_variable, r->num_letters);
  for (int l = 0; l < r->num_letters; l++)
    put_word(s, (uint64_t)r->letter[l].role << 8 | r->letter[l].reduction | (uint64_t)r->letter[l].size << 16);
  for (int l = 0; l < r->num_letters; l++)
    if (r->letter[l].halo) put_word(s, (uint64_t)r->letter[l].over);
  put_windows(s, m->op);
  for (int t = 0; t < r->num_tensors; t++) {
    put_word(s, (uint64_t)(uintptr_t)shard_tensor_type(s->g->ctx, v, m, t));
    for (int d = 0; d < r->tensor[t].rank; d++) {
      put_bytes(s, &r->tensor[t].dim[d], 1 + r->tensor[t].dim[d].num);
      put_word(s, (uint64_t)(uintptr_t)r->tensor[t].dim[d].split);
    }
  }
}

/* Does the flow's cost depend on one variable only: is it within it, or from or to a given layout? */
static bool is_own_flow(const shard_flow *f) { return f->from.var < 0 || f->to.var < 0 || f->from.var == f->to.var; }

static void put_flows(shard_space *s, int var) {
  const msc_value *seen[64];
  int num_seen = 0;
  for (size_t i = s->m->first_flow[var]; i < s->m->first_flow[var + 1]; i++) {
    const shard_flow *f = &s->m->flow[s->m->sorted[i]];
    if (!is_own_flow(f)) continue;
    int k = 0;
    while (k < num_seen && seen[k] != f->value) k++;
    if (k == num_seen && k < 64) seen[num_seen++] = f->value;
    put_word(s, (uint64_t)(f->from.var < 0) << 1 | (uint64_t)(f->to.var < 0) << 2 | f->is_gradient |
                    (uint64_t)f->per_step << 3 | (uint64_t)k << 8);
    put_word(s, (uint64_t)f->from.member << 32 | (uint64_t)f->from.tensor);
    put_word(s, (uint64_t)f->to.member << 32 | (uint64_t)f->to.tensor);
    put_word(s, (uint64_t)(uintptr_t)f->from.layout);
    put_word(s, (uint64_t)(uintptr_t)f->to.layout);
  }
}

/* The number of the variable's kind: equal for variables that differ at most in their fixed digits. */
static uint32_t find_kind(shard_space *s, int var) {
  const shard_variable *v = &s->m->var[var];
  s->num_words = 0;
  put_word(s, (uint64_t)v->rule->num_letters << 40 | (uint64_t)v->most_parts << 34 | (uint64_t)(v->group < 0) << 33 |
                  (uint64_t)v->may_pass << 32 | v->closed);
  put_word(s, v->group >= 0 && msc_op_attr(s->g->group[v->group].leader, MSC_FACT(in_strategy)));
  for (int l = 0; l < v->rule->num_letters; l++)
    put_word(s, (uint64_t)v->rule->letter[l].role << 8 | (uint64_t)v->rule->letter[l].size << 16);
  for (size_t k = 0; k < v->num_members; k++) put_member(s, v, &v->member[k]);
  put_flows(s, var);
  return msc_copy_of(&s->kinds, s->word, s->num_words * sizeof *s->word);
}

/* The number of the variable's class: equal for variables of one kind with the same fixed digits. */
static uint32_t class_number(shard_space *s, int var) {
  const shard_variable *v = &s->m->var[var];
  s->num_words = 0;
  put_word(s, (uint64_t)s->m->kind[var] << 32 | v->fixed.pass);
  for (int l = 0; l < v->rule->num_letters; l++)
    if (v->fixed.num[l]) {
      put_word(s, (uint64_t)l << 32 | v->fixed.num[l]);
      put_bytes(s, v->fixed.atom[l], v->fixed.num[l]);
    }
  return msc_copy_of(&s->classes, s->word, s->num_words * sizeof *s->word);
}

static void find_kinds(shard_space *s) {
  shard_model *m = s->m;
  m->kind = msc_new_array(m->g->arena, int, m->num_vars);
  for (size_t v = 0; v < m->num_vars; v++) m->kind[v] = (int)find_kind(s, (int)v);
}

/* ---- states ---- */

static int plainest_of(const shard_space *s, const shard_class *c) {
  int best = 0, fewest = INT_MAX;
  for (int i = 0; i < c->num_states; i++) {
    int placed = 0;
    for (int p = 0; p < s->o.num_pieces; p++) placed += (c->state[i].on[p] != SHARD_NONE) + (c->state[i].pass >> p & 1);
    if (placed < fewest) fewest = placed, best = i;
  }
  return best;
}

static void list_states(shard_space *s, class_entry *e) {
  shard_states all = shard_states_of(s->g, &s->o, e->c.like, s->arena);
  e->c.num_states = all.num, e->c.state = all.state;
  e->irregular = all.irregular;
  e->plainest = plainest_of(s, &e->c);
  s->leaves_out |= all.left_out;
}

static void digits_of(const shard_space *s, const shard_variable *v, bool irregular, const shard_state *state,
                      msc_assignment *out) {
  if (irregular) shard_put_fixed(&s->o, v, state, out);
  else shard_put_state(&s->o, state, out);
}

void shard_state_digits(const shard_space *s, int var, int state, msc_assignment *out_digits) {
  const class_entry *e = s->of_var[var];
  digits_of(s, &s->m->var[var], e->irregular, &e->c.state[state], out_digits);
}

int shard_plainest_state(const shard_space *s, int var) { return s->of_var[var]->plainest; }

/* ---- layouts by state ---- */

static msc_assignment member_digits(const shard_member *m, const msc_assignment *of_variable) {
  msc_assignment a;
  memset(&a, 0, sizeof a);
  for (int l = 0; l < m->rule->num_letters; l++) {
    int from = m->to_variable[l];
    if (from < 0) continue;
    a.num[l] = of_variable->num[from];
    memcpy(a.atom[l], of_variable->atom[from], a.num[l]);
  }
  if (m->passes) a.pass = of_variable->pass;
  return a;
}

/* What a piece on a letter of the variable does to a tensor: the number of the dimension that it cuts, PARTIAL or
 * WHOLE. */
enum { PARTIAL = 14, WHOLE = 15 };

/* Writes that for each letter of the variable; false: it is not so simple, and layout_number_by_rule must be used. */
static bool find_places(const class_entry *e, const shard_member *m, int tensor, uint8_t *out_place) {
  const msc_tensor_letters *t = &m->rule->tensor[tensor];
  memset(out_place, WHOLE, MSC_MAX_LETTERS);
  if (e->irregular) return false;
  bool result = tensor >= m->rule->num_in;
  for (int l = 0; l < m->rule->num_letters; l++) {
    int v = m->to_variable[l], dim = -1;
    if (v < 0) continue;
    for (int d = 0; d < t->rank; d++) {
      if (t->dim[d].num > 1 || t->dim[d].split) return false;
      if (t->dim[d].num && t->dim[d].letter[0] == l) dim = d;
    }
    bool partial = dim < 0 && result && m->rule->letter[l].role == MSC_RED;
    if (out_place[v] != WHOLE || (partial && m->rule->letter[l].reduction != MSC_SUM)) return false;
    out_place[v] = dim >= 0 ? (uint8_t)dim : partial ? PARTIAL : WHOLE;
  }
  return true;
}

/* The number of the layout that a tensor of the member has in a state. */
static int layout_number_by_rule(shard_space *s, const shard_variable *v, bool irregular, const shard_member *m,
                                 int tensor, const shard_state *state) {
  msc_assignment of_variable, a;
  digits_of(s, v, irregular, state, &of_variable);
  a = member_digits(m, &of_variable);
  return shard_layout_number(s->o.prices,
                             msc_rule_layout(s->g->ctx, s->g->mesh, &s->g->atoms, m->rule, &a, (size_t)tensor));
}

/* The number of the layout of a tensor whose places are known; looks among the numbers computed last first. */
static int layout_number(shard_space *s, const class_entry *e, const shard_member *m, int tensor, const uint8_t *place,
                         const shard_state *state) {
  uint64_t code = (uint64_t)m->rule->tensor[tensor].rank << 60;
  for (int p = 0; p < s->o.num_pieces; p++) {
    uint64_t at = state->on[p] == SHARD_NONE ? WHOLE : place[state->on[p]];
    if (m->passes && state->pass >> p & 1) at = PARTIAL;
    code |= at << (4 * p);
  }
  size_t slot = (size_t)(code * 0x9E3779B97F4A7C15u >> 52);
  if (s->code[slot].code == code && code) return s->code[slot].number;
  int number = layout_number_by_rule(s, e->c.like, false, m, tensor, state);
  s->code[slot].code = code, s->code[slot].number = number;
  return number;
}

/* The one list with these contents: equal lists become the same pointer. */
static const shard_list *intern_list(shard_space *s, const shard_list *l) {
  size_t words = (size_t)l->num_states + (size_t)l->num_distinct;
  int *content = msc_new_array(s->arena, int, words + 2);
  content[0] = l->num_states, content[1] = l->num_distinct;
  memcpy(content + 2, l->at, (size_t)l->num_states * sizeof *content);
  memcpy(content + 2 + l->num_states, l->distinct, (size_t)l->num_distinct * sizeof *content);
  uint32_t num = s->lists.index.num, n = msc_copy_of(&s->lists, content, (words + 2) * sizeof *content);
  if (n == num) {
    msc_grow(s->arena, s->list, num);
    s->list[num] = l;
  }
  return s->list[n];
}

/* The layouts by state of a tensor of a member of the class. */
static const shard_list *find_list(shard_space *s, class_entry *e, int member, int tensor) {
  const shard_list **at = &e->list[e->first_list[member] + (size_t)tensor];
  if (*at) return *at;
  const shard_member *m = &e->c.like->member[member];
  uint8_t place[MSC_MAX_LETTERS];
  bool quick = find_places(e, m, tensor, place);
  shard_list *l = msc_new(s->arena, shard_list);
  l->num_states = e->c.num_states;
  l->at = msc_new_array(s->arena, int, l->num_states);
  l->distinct = msc_new_array(s->arena, int, l->num_states);
  for (int i = 0; i < l->num_states; i++) {
    int n = quick ? layout_number(s, e, m, tensor, place, &e->c.state[i])
                  : layout_number_by_rule(s, e->c.like, e->irregular, m, tensor, &e->c.state[i]),
        k = 0;
    while (k < l->num_distinct && l->distinct[k] != n) k++;
    if (k == l->num_distinct) l->distinct[l->num_distinct++] = n;
    l->at[i] = k;
  }
  return *at = intern_list(s, l);
}

/* A list in which every state has this layout. */
static const shard_list *list_of_one_layout(shard_space *s, const msc_layout *layout, int num_states) {
  shard_list *l = msc_new(s->arena, shard_list);
  l->num_states = num_states;
  l->num_distinct = 1;
  l->distinct = msc_new_array(s->arena, int, 1);
  l->distinct[0] = shard_layout_number(s->o.prices, layout);
  l->at = msc_new_array(s->arena, int, num_states);
  return intern_list(s, l);
}

/* ---- costs ---- */

static void count_parts(const shard_space *s, const shard_variable *v, bool irregular, const shard_state *state,
                        int64_t *out_parts) {
  for (int l = 0; l < v->rule->num_letters; l++)
    out_parts[l] = irregular ? shard_parts(&s->g->atoms, v->fixed.num[l], v->fixed.atom[l]) : 1;
  for (int p = 0; p < s->o.num_pieces && !irregular; p++)
    if (state->on[p] != SHARD_NONE) out_parts[state->on[p]] *= s->o.piece[p].size;
}

/* Adds, by state, the cost of a composite where it is replaced by its expansion. */
static void add_expansion(shard_space *s, class_entry *e, int member) {
  const shard_member *m = &e->c.like->member[member];
  bool always = msc_info(m->op)->flags & MSC_COMPOSITE;
  const msc_layout **in = msc_new_array(s->arena, const msc_layout *, m->op->num_in + 1);
  for (int i = 0; i < e->c.num_states; i++) {
    for (int t = 0; t < m->op->num_in; t++) {
      const shard_list *l = find_list(s, e, member, t);
      in[t] = shard_numbered_layout(s->o.prices, l->distinct[l->at[i]]);
    }
    if (always || msc_must_expand(m->op, in)) e->c.ns[i] += shard_expansion_ns(s->o.expansions, m->op, in, always);
    if (e->c.ns[i] > SHARD_IMPOSSIBLE) e->c.ns[i] = SHARD_IMPOSSIBLE;
  }
}

/* Returns the share of a micro-batch in what happens once per step. */
static int64_t share_of_micro(const shard_space *s, int64_t ns) {
  int64_t num = s->m->num_micro;
  return ns < SHARD_IMPOSSIBLE ? ns / num + (ns % num != 0) : ns;
}

/* Is the flow's value brought into another layout once per step? From stage 2 of the parallel optimizer on gradients
 * are, for each micro-batch, before they are summed. */
static bool moves_per_step(const shard_space *s, const shard_flow *f) { return f->per_step && s->o.zero.stage < 2; }

/* Adds, by state, the time of the kernels of all members and the bytes that they keep. */
static void add_work(shard_space *s, class_entry *e) {
  const shard_variable *v = e->c.like;
  for (int i = 0; i < e->c.num_states; i++) {
    int64_t parts[MSC_MAX_LETTERS];
    count_parts(s, v, e->irregular, &e->c.state[i], parts);
    for (size_t k = 0; k < v->num_members; k++) {
      bool parameters;
      double bytes = shard_kept_bytes(s->m, &s->o.zero, v, &v->member[k], parts, &parameters);
      int64_t whole = bytes < 1e18 ? (int64_t)bytes : (int64_t)1e18;
      int64_t ns = shard_work_ns(s->m, s->o.cost, v, &v->member[k], parts);
      e->c.ns[i] += v->member[k].per_step ? share_of_micro(s, ns) : ns;
      e->c.ns[i] += shard_accumulate_ns(s->m, s->o.cost, v, &v->member[k], parts);
      e->c.bytes[i] += whole;
      if (parameters) e->c.parameter_bytes[i] += whole;
    }
  }
  for (size_t k = 0; k < v->num_members; k++)
    if (v->member[k].op && v->member[k].rule && msc_info(v->member[k].op)->expand) add_expansion(s, e, (int)k);
}

/* ---- tables ---- */

/* The costs from each state of one end to each state of the other; zero where `before` has already brought the value
 * into the same layout. */
static const int64_t *make_flow_table(shard_space *s, const shard_flow *f, const shard_list *from, const shard_list *to,
                                      const shard_list *before) {
  const msc_type *type = f->type;
  const struct {
    const msc_type *type;
    uint64_t how;
    const shard_list *from, *to, *before;
  } key = {type, f->is_gradient | (uint64_t)moves_per_step(s, f) << 1, from, to, before};
  known_table *known = msc_table_at(&s->tables, &key);
  if (known->cost) return known->cost;
  int64_t *cost = msc_new_array(s->arena, int64_t, (size_t)from->num_states * (size_t)to->num_states);
  msc_arena *scratch = msc_arena_new(s->g->ctx);
  int64_t *price = msc_new_array(scratch, int64_t, (size_t)from->num_distinct * (size_t)to->num_distinct);
  for (int i = 0; i < from->num_distinct; i++)
    shard_price_row(s->o.prices, type, f->is_gradient, from->distinct[i], to->num_distinct, to->distinct,
                    price + i * to->num_distinct);
  for (int i = 0; i < from->num_distinct * to->num_distinct && moves_per_step(s, f); i++)
    price[i] = share_of_micro(s, price[i]);
  for (int i = 0; i < from->num_states; i++) {
    const int64_t *row = price + from->at[i] * to->num_distinct;
    for (int j = 0; j < to->num_states; j++)
      if (!before || before->distinct[before->at[j]] != to->distinct[to->at[j]])
        cost[(size_t)i * (size_t)to->num_states + (size_t)j] = row[to->at[j]];
  }
  msc_arena_free(scratch);
  return known->cost = cost;
}

static const shard_list *layouts_of_end(shard_space *s, const shard_end *e, int num_states) {
  if (e->var < 0) return list_of_one_layout(s, e->layout, num_states);
  return find_list(s, s->of_var[e->var], e->member, e->tensor);
}

/* The layouts into which the last earlier flow of the same value between the same ends brings it; NULL: there is none.
 * *out_same: some earlier flow brings it into the same layouts as this one, `to`. */
static const shard_list *find_earlier_layouts(shard_space *s, size_t at, const shard_list *to, bool *out_same) {
  const shard_list *before = NULL;
  *out_same = false;
  for (size_t i = s->m->earlier[at]; i; i = s->m->earlier[i - 1]) {
    const shard_list *l = layouts_of_end(s, &s->m->flow[s->m->sorted[i - 1]].to, to->num_states);
    if (!before) before = l;
    if (l == to) *out_same = true;
  }
  return before;
}

/* Adds the costs of the variable's own flows to its class, by state. */
static void add_own_flows(shard_space *s, int var) {
  class_entry *e = s->of_var[var];
  for (size_t i = s->m->first_flow[var]; i < s->m->first_flow[var + 1]; i++) {
    const shard_flow *f = &s->m->flow[s->m->sorted[i]];
    if (!is_own_flow(f)) continue;
    bool same;
    const shard_list *from = layouts_of_end(s, &f->from, e->c.num_states),
                     *to = layouts_of_end(s, &f->to, e->c.num_states), *before = find_earlier_layouts(s, i, to, &same);
    if (same) continue;
    for (int k = 0; k < e->c.num_states; k++) {
      int have = from->distinct[from->at[k]], want = to->distinct[to->at[k]];
      if (have == want || (before && before->distinct[before->at[k]] == want)) continue;
      int64_t ns = shard_price(s->o.prices, f->value->type, f->is_gradient, have, want);
      e->c.ns[k] += moves_per_step(s, f) ? share_of_micro(s, ns) : ns;
      if (e->c.ns[k] > SHARD_IMPOSSIBLE) e->c.ns[k] = SHARD_IMPOSSIBLE;
    }
  }
}

/* Finds the class of a variable, or makes it with its states and costs. */
static class_entry *find_class_of(shard_space *s, int var) {
  uint32_t num = s->classes.index.num, n = class_number(s, var);
  if (n < num) return s->of_var[var] = s->of_class[n];
  const shard_variable *v = &s->m->var[var];
  class_entry *e = msc_new(s->arena, class_entry);
  e->c.like = v;
  msc_grow(s->arena, s->of_class, num);
  s->of_class[num] = e;
  size_t lists = 0;
  e->first_list = msc_new_array(s->arena, size_t, v->num_members);
  for (size_t k = 0; k < v->num_members; k++) {
    e->first_list[k] = lists;
    lists += v->member[k].rule ? v->member[k].rule->num_tensors : 0;
  }
  e->list = msc_new_array(s->arena, const shard_list *, lists);
  s->of_var[var] = e;
  list_states(s, e);
  e->c.ns = msc_new_array(s->arena, int64_t, e->c.num_states);
  e->c.bytes = msc_new_array(s->arena, int64_t, e->c.num_states);
  e->c.parameter_bytes = msc_new_array(s->arena, int64_t, e->c.num_states);
  add_work(s, e);
  add_own_flows(s, var);
  return e;
}

/* Sorts flows by the variable that their cost is added to: the one where they end, or where they begin when the end is
 * given. */
static void sort_flows(shard_model *m) {
  size_t n = m->num_vars;
  m->first_flow = msc_new_array(m->g->arena, size_t, n + 2);
  m->sorted = msc_new_array(m->g->arena, size_t, m->num_flows);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < m->num_flows; i++) {
      const shard_flow *f = &m->flow[i];
      size_t at = (size_t)(f->to.var >= 0 ? f->to.var : f->from.var);
      if (round) m->sorted[m->first_flow[at]++] = i;
      else m->first_flow[at + 1]++;
    }
    for (size_t v = 1; v <= n && !round; v++) m->first_flow[v] += m->first_flow[v - 1];
  }
  memmove(m->first_flow + 1, m->first_flow, n * sizeof *m->first_flow);
  m->first_flow[0] = 0;
}

static bool has_same_ends(const shard_flow *a, const shard_flow *b) {
  return a->value == b->value && a->from.var == b->from.var && a->to.var == b->to.var &&
         a->from.member == b->from.member && a->from.tensor == b->from.tensor;
}

/* Sets m->earlier. */
static void link_flows(shard_model *m) {
  m->earlier = msc_new_array(m->g->arena, size_t, m->num_flows);
  for (size_t v = 0; v < m->num_vars; v++)
    for (size_t at = m->first_flow[v]; at < m->first_flow[v + 1]; at++)
      for (size_t i = at; i > m->first_flow[v] && !m->earlier[at]; i--)
        if (has_same_ends(&m->flow[m->sorted[i - 1]], &m->flow[m->sorted[at]])) m->earlier[at] = i;
}

bool shard_space_of(shard_model *m, const shard_space_options *o, msc_arena *arena, shard_space **out_space) {
  shard_space *s = *out_space = msc_new(arena, shard_space);
  s->m = m, s->g = m->g, s->o = *o, s->arena = arena;
  s->kinds.index.arena = s->classes.index.arena = arena;
  s->lists.index.arena = s->tables.index.arena = arena;
  s->of_var = msc_new_array(arena, class_entry *, m->num_vars);
  if (!m->kind) {
    sort_flows(m);
    link_flows(m);
    find_kinds(s);
  }
  for (size_t v = 0; v < m->num_vars; v++)
    if (find_class_of(s, (int)v)->c.num_states > o->max_states || shard_time_is_up(s->o.deadline_s)) return false;
  return true;
}

int64_t shard_charge_for(int64_t ns_per_gib, int64_t bytes) {
  __int128 ns = (__int128)bytes * ns_per_gib >> 30;
  return ns < SHARD_IMPOSSIBLE ? (int64_t)ns : SHARD_IMPOSSIBLE;
}

int64_t shard_charge(const shard_space *s, int64_t bytes) { return shard_charge_for(s->o.ns_per_gib, bytes); }

void shard_space_charge(shard_space *s, int64_t ns_per_gib) {
  if (s->o.ns_per_gib == ns_per_gib) return;
  s->o.ns_per_gib = ns_per_gib;
  for (size_t v = 0; v < s->m->num_vars; v++) s->of_var[v]->charged = NULL;
}

static const int64_t *charge_class(const shard_space *s, class_entry *e) {
  if (e->charged || !s->o.ns_per_gib) return e->charged ? e->charged : e->c.ns;
  e->charged = msc_new_array(s->arena, int64_t, e->c.num_states);
  for (int i = 0; i < e->c.num_states; i++) {
    int64_t sum = e->c.ns[i] + shard_charge(s, e->c.bytes[i]);
    e->charged[i] = sum < SHARD_IMPOSSIBLE ? sum : SHARD_IMPOSSIBLE;
  }
  return e->charged;
}

bool shard_space_problem(shard_space *s, shard_problem *out_problem) {
  size_t vars = s->m->num_vars, num = 0;
  int *num_states = msc_new_array(s->arena, int, vars);
  shard_table *table = msc_new_array(s->arena, shard_table, vars + s->m->num_flows);
  for (size_t v = 0; v < vars; v++) {
    num_states[v] = s->of_var[v]->c.num_states;
    table[num++] = (shard_table){(int)v, -1, charge_class(s, s->of_var[v])};
  }
  for (size_t v = 0; v < vars; v++)
    for (size_t i = s->m->first_flow[v]; i < s->m->first_flow[v + 1]; i++) {
      const shard_flow *f = &s->m->flow[s->m->sorted[i]];
      if (is_own_flow(f)) continue;
      bool same;
      const shard_list *from = layouts_of_end(s, &f->from, 0), *to = layouts_of_end(s, &f->to, 0),
                       *before = find_earlier_layouts(s, i, to, &same);
      if (!same) table[num++] = (shard_table){f->from.var, f->to.var, make_flow_table(s, f, from, to, before)};
      if (shard_time_is_up(s->o.deadline_s)) return false;
    }
  *out_problem = (shard_problem){(int)vars, num_states, num, table, s->o.deadline_s, 0};
  return true;
}

void shard_space_plain(shard_space *s, const shard_problem *charged_problem, shard_problem *out_problem) {
  shard_table *table = msc_arena_copy(s->arena, charged_problem->table, charged_problem->num_tables * sizeof *table);
  for (size_t v = 0; v < s->m->num_vars; v++) table[v].cost = s->of_var[v]->c.ns;
  *out_problem = *charged_problem;
  out_problem->table = table;
}
