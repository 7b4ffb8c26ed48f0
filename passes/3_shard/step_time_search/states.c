/* states.c: a variable and the pieces of the mesh -> every way to put free pieces on its letters (see states.h). */
#include "passes/3_shard/step_time_search/states.h"

#include <string.h>

#include "ir/table.h"

typedef struct {
  const shard_graph *g;
  const shard_space_options *o;
  const shard_variable *v;
  msc_arena *arena;
  bool mixed;                     /* some dimension has several letters: only complete states can be checked */
  int64_t parts[MSC_MAX_LETTERS]; /* by letter: the number that a strategy tuple asks for; 0: any */
  shard_state current;
  int64_t product[MSC_MAX_LETTERS];        /* by letter: parts in the current state */
  int8_t allowed[MSC_MAX_LETTERS][1 << 5]; /* by letter and set of the first 5 pieces: 0 not known, 1 yes, -1 no */
  uint32_t open;                           /* bits of pieces that are placed */
  int num, room;
  shard_state *state;
  bool left_out; /* an uneven cut was left out */
} state_lister;

void shard_put_state(const shard_space_options *o, const shard_state *state, msc_assignment *out) {
  memset(out, 0, sizeof *out);
  for (int p = 0; p < o->num_pieces; p++)
    for (int i = 0; i < o->piece[p].num; i++) {
      uint8_t atom = (uint8_t)(o->piece[p].first + i), on = state->on[p];
      if (state->pass >> p & 1) out->pass |= 1u << atom;
      if (on != SHARD_NONE) out->atom[on][out->num[on]++] = atom;
    }
}

void shard_put_fixed(const shard_space_options *o, const shard_variable *v, const shard_state *state,
                     msc_assignment *out) {
  shard_state passing = {.pass = state->pass};
  memset(passing.on, SHARD_NONE, sizeof passing.on);
  shard_put_state(o, &passing, out);
  uint32_t pass = out->pass | v->fixed.pass;
  *out = v->fixed;
  out->pass = pass;
}

/* Do the rules of all ops of the variable allow these digits? */
static bool rules_allow(const state_lister *d, const msc_assignment *a) {
  if (d->v->group >= 0) return shard_allows(d->g, d->v->group, a);
  msc_assignment without = *a;
  without.pass = 0;
  return msc_rule_allows(d->v->rule, &without, &d->g->atoms);
}

static bool is_any_copy(const state_lister *d) { return d->v->group < 0 && d->o->any_copies; }

/* May the letter have its pieces of the current state, if no other letter had any? */
static bool may_take_pieces(state_lister *d, int letter) {
  uint32_t mask = 0;
  for (int p = 0; p < d->o->num_pieces; p++)
    if (d->current.on[p] == letter) mask |= 1u << p;
  int8_t *known = mask < 1 << 5 ? &d->allowed[letter][mask] : NULL;
  if (known && *known) return *known > 0;
  shard_state alone;
  memset(&alone, 0, sizeof alone);
  for (int p = 0; p < d->o->num_pieces; p++) alone.on[p] = d->current.on[p] == letter ? (uint8_t)letter : SHARD_NONE;
  msc_assignment a;
  shard_put_state(d->o, &alone, &a);
  bool ok = (is_any_copy(d) || msc_rule_fills(d->v->rule, &a, &d->g->atoms, letter)) && rules_allow(d, &a);
  if (known) *known = ok ? 1 : -1;
  return ok;
}

/* Is every piece so far on this letter, except those that a search by pieces has not reached yet? */
static bool has_all_pieces(const state_lister *d, int letter, int num_pieces) {
  for (int p = 0; p < num_pieces; p++)
    if (d->current.on[p] != letter && (d->current.on[p] != SHARD_NONE || d->o->free_pieces >> p & 1)) return false;
  return true;
}

/* Are the letter's parts even enough for a state? Uneven ones are, if no piece divides its size, as a vocabulary of
 * 50257, or if it has all pieces, as a batch of 32 on 6 devices. To price all uneven parts would take much longer. */
static bool is_even_enough(const state_lister *d, int letter, int num_pieces) {
  int64_t size = d->v->rule->letter[letter].size;
  if (d->o->any_parts || is_any_copy(d)) return true;
  if (size % d->product[letter] == 0 || has_all_pieces(d, letter, num_pieces)) return true;
  for (int p = 0; p < d->o->num_pieces; p++)
    if (size % d->o->piece[p].size == 0) return false;
  return true;
}

/* Adds the current state to the list, if the rules and the tuple allow it. */
static void keep_state(state_lister *d) {
  for (int p = 0; p < d->o->num_pieces; p++) {
    int l = d->open >> p & 1 ? d->current.on[p] : SHARD_NONE;
    if (l != SHARD_NONE && !d->parts[l] && !is_even_enough(d, l, d->o->num_pieces)) return (void)(d->left_out = true);
  }
  if (d->mixed) {
    msc_assignment a;
    shard_put_state(d->o, &d->current, &a);
    if (!rules_allow(d, &a)) return;
  }
  for (int l = 0; l < d->v->rule->num_letters; l++)
    if (d->parts[l] && d->product[l] != d->parts[l]) return;
  msc_reserve(d->arena, d->state, d->room, d->num + 1);
  d->state[d->num++] = d->current;
}

/* Lists all states in which the pieces before p are where the current state has them. Recursion depth: the number of
 * pieces. */
static void place_from(state_lister *d, int p, uint32_t open) {
  if (d->num > d->o->max_states) return;
  if (p == d->o->num_pieces) {
    keep_state(d);
    return;
  }
  if (!(open >> p & 1)) {
    place_from(d, p + 1, open);
    return;
  }
  for (int l = 0; l < d->v->rule->num_letters; l++) {
    if (d->v->rule->letter[l].role == MSC_REP || (d->v->closed >> l & 1 && !d->parts[l])) continue;
    if (d->parts[l] && d->parts[l] % (d->product[l] * d->o->piece[p].size)) continue;
    d->current.on[p] = (uint8_t)l;
    d->product[l] *= d->o->piece[p].size;
    if (d->mixed || may_take_pieces(d, l)) {
      if (d->parts[l] || is_even_enough(d, l, p + 1)) place_from(d, p + 1, open);
      else d->left_out = true;
    }
    d->product[l] /= d->o->piece[p].size;
  }
  d->current.on[p] = SHARD_NONE;
  place_from(d, p + 1, open);
  if (!d->v->may_pass) return;
  d->current.pass |= (uint16_t)(1u << p);
  place_from(d, p + 1, open);
  d->current.pass &= (uint16_t) ~(1u << p);
}

/* Writes the variable's fixed digits as a state; false: they are not whole pieces in mesh order. */
static bool read_fixed_state(const shard_space_options *o, const shard_variable *v, shard_state *out) {
  int last = -1;
  memset(out, 0, sizeof *out);
  memset(out->on, SHARD_NONE, sizeof out->on);
  for (int p = 0; p < o->num_pieces; p++)
    if (v->fixed.pass >> o->piece[p].first & 1) out->pass |= (uint16_t)(1u << p);
  for (int l = 0; l < v->rule->num_letters; l++, last = -1)
    for (int i = 0, p = 0; i < v->fixed.num[l]; i += o->piece[p].num, last = p) {
      for (p = 0; p < o->num_pieces && o->piece[p].first != v->fixed.atom[l][i];) p++;
      if (p <= last || p == o->num_pieces || i + o->piece[p].num > v->fixed.num[l]) return false;
      for (int k = 0; k < o->piece[p].num; k++)
        if (v->fixed.atom[l][i + k] != o->piece[p].first + k) return false;
      out->on[p] = (uint8_t)l;
    }
  return true;
}

static bool has_mixed_dims(const shard_variable *v) {
  for (size_t k = 0; k < v->num_members; k++)
    for (int t = 0; v->member[k].rule && t < v->member[k].rule->num_tensors; t++)
      for (int d = 0; d < v->member[k].rule->tensor[t].rank; d++)
        if (v->member[k].rule->tensor[t].dim[d].num > 1) return true;
  return false;
}

bool shard_is_tuple(const shard_graph *g, const shard_variable *v) {
  return v->group >= 0 && v->closed && msc_op_attr(g->group[v->group].leader, MSC_FACT(in_strategy));
}

/* Drops the states with fewer parts than the most that any has. */
static void keep_most_parts(state_lister *d) {
  int64_t most = 0, *parts = msc_new_array(d->arena, int64_t, d->num);
  int num = 0;
  for (int i = 0; i < d->num; i++) {
    parts[i] = 1;
    for (int p = 0; p < d->o->num_pieces; p++)
      if (d->state[i].on[p] != SHARD_NONE) parts[i] *= d->o->piece[p].size;
    if (parts[i] > most) most = parts[i];
  }
  for (int i = 0; i < d->num; i++)
    if (parts[i] == most) d->state[num++] = d->state[i];
  d->num = num;
}

shard_states shard_states_of(const shard_graph *g, const shard_space_options *o, const shard_variable *v,
                             msc_arena *arena) {
  state_lister d = {.g = g, .o = o, .v = v, .arena = arena, .mixed = has_mixed_dims(v)};
  uint32_t open = o->free_pieces;
  for (int l = 0; l < MSC_MAX_LETTERS; l++) d.product[l] = 1;
  bool irregular = !read_fixed_state(o, v, &d.current);
  shard_state fixed = d.current;
  if (shard_is_tuple(g, v)) {
    for (int l = 0; l < v->rule->num_letters; l++)
      d.parts[l] = shard_parts(&g->atoms, v->fixed.num[l], v->fixed.atom[l]);
    memset(d.current.on, SHARD_NONE, sizeof d.current.on);
    place_from(&d, 0, d.open = UINT32_MAX); /* the tuple fixes numbers of parts only: all digits are open */
    irregular = irregular && d.num == 0;
  } else if (!irregular) {
    for (int p = 0; p < o->num_pieces; p++)
      if (fixed.on[p] != SHARD_NONE || fixed.pass >> p & 1) {
        open &= ~(1u << p);
        if (fixed.on[p] != SHARD_NONE) d.product[fixed.on[p]] *= o->piece[p].size;
      }
    place_from(&d, 0, d.open = open);
  }
  if (v->most_parts && d.num <= o->max_states) keep_most_parts(&d);
  if (d.num == 0) return (shard_states){1, msc_arena_copy(arena, &fixed, sizeof fixed), irregular, d.left_out};
  return (shard_states){d.num, d.state, irregular, d.left_out};
}
