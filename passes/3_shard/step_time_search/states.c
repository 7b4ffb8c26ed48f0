/* states.c: a variable and the pieces of the mesh -> every way to put free pieces on its letters (see states.h). */
#include "passes/3_shard/step_time_search/states.h"

#include <string.h>

#include "ir/table.h"

typedef struct {
  const shard_graph *g;
  const shard_space_options *o;
  const shard_variable *v;
  msc_arena *arena;
  bool mixed;                     /* dimensions made of several letters: a state is judged as a whole */
  int64_t parts[MSC_MAX_LETTERS]; /* of a strategy tuple; 0: none */
  shard_state now;
  int64_t product[MSC_MAX_LETTERS];
  int8_t allowed[MSC_MAX_LETTERS][1 << 5]; /* by letter, of the first pieces: 0 not asked, 1 yes, -1 no */
  uint32_t open;                           /* pieces that are placed */
  int num, room;
  shard_state *state;
  bool left_out; /* an uneven cut */
} drawing;

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

static bool allows(const drawing *d, const msc_assignment *a) {
  if (d->v->group >= 0) return shard_allows(d->g, d->v->group, a);
  msc_assignment without = *a;
  without.pass = 0;
  return msc_rule_allows(d->v->rule, &without, &d->g->atoms);
}

static bool is_any_copy(const drawing *d) { return d->v->group < 0 && d->o->any_copies; }

/* May the letter take these pieces, as far as its own rule and size say? */
static bool letter_allows(drawing *d, int letter) {
  uint32_t mask = 0;
  for (int p = 0; p < d->o->num_pieces; p++)
    if (d->now.on[p] == letter) mask |= 1u << p;
  int8_t *known = mask < 1 << 5 ? &d->allowed[letter][mask] : NULL;
  if (known && *known) return *known > 0;
  shard_state alone;
  memset(&alone, 0, sizeof alone);
  for (int p = 0; p < d->o->num_pieces; p++) alone.on[p] = d->now.on[p] == letter ? (uint8_t)letter : SHARD_NONE;
  msc_assignment a;
  shard_put_state(d->o, &alone, &a);
  bool ok = (is_any_copy(d) || msc_rule_fills(d->v->rule, &a, &d->g->atoms, letter)) && allows(d, &a);
  if (known) *known = ok ? 1 : -1;
  return ok;
}

/* Is every piece so far on this letter, except those that a search by pieces has not reached yet? */
static bool has_all_pieces(const drawing *d, int letter, int num_pieces) {
  for (int p = 0; p < num_pieces; p++)
    if (d->now.on[p] != letter && (d->now.on[p] != SHARD_NONE || d->o->free_pieces >> p & 1)) return false;
  return true;
}

/* Are the letter's parts even enough? They must be equal if any digits make them so. Uneven parts are allowed for sizes
 * that nothing divides, as a vocabulary of 50257, and for one letter over all devices, as a batch of 32 on 6 of them.
 * To price all uneven parts takes much longer. */
static bool is_even_enough(const drawing *d, int letter, int num_pieces) {
  int64_t size = d->v->rule->letter[letter].size;
  if (d->o->any_parts || is_any_copy(d)) return true;
  if (size % d->product[letter] == 0 || has_all_pieces(d, letter, num_pieces)) return true;
  for (int p = 0; p < d->o->num_pieces; p++)
    if (size % d->o->piece[p].size == 0) return false;
  return true;
}

static void keep_state(drawing *d) {
  for (int p = 0; p < d->o->num_pieces; p++) {
    int l = d->open >> p & 1 ? d->now.on[p] : SHARD_NONE;
    if (l != SHARD_NONE && !d->parts[l] && !is_even_enough(d, l, d->o->num_pieces)) return (void)(d->left_out = true);
  }
  if (d->mixed) {
    msc_assignment a;
    shard_put_state(d->o, &d->now, &a);
    if (!allows(d, &a)) return;
  }
  for (int l = 0; l < d->v->rule->num_letters; l++)
    if (d->parts[l] && d->product[l] != d->parts[l]) return;
  msc_reserve(d->arena, d->state, d->room, d->num + 1);
  d->state[d->num++] = d->now;
}

/* Puts piece p and all later ones on letters in every way. Recursion depth: the number of pieces. */
static void draw(drawing *d, int p, uint32_t open) {
  if (d->num > d->o->max_states) return;
  if (p == d->o->num_pieces) {
    keep_state(d);
    return;
  }
  if (!(open >> p & 1)) {
    draw(d, p + 1, open);
    return;
  }
  for (int l = 0; l < d->v->rule->num_letters; l++) {
    if (d->v->rule->letter[l].role == MSC_REP || (d->v->closed >> l & 1 && !d->parts[l])) continue;
    if (d->parts[l] && d->parts[l] % (d->product[l] * d->o->piece[p].size)) continue;
    d->now.on[p] = (uint8_t)l;
    d->product[l] *= d->o->piece[p].size;
    if (d->mixed || letter_allows(d, l)) {
      if (d->parts[l] || is_even_enough(d, l, p + 1)) draw(d, p + 1, open);
      else d->left_out = true;
    }
    d->product[l] /= d->o->piece[p].size;
  }
  d->now.on[p] = SHARD_NONE;
  draw(d, p + 1, open);
  if (!d->v->may_pass) return;
  d->now.pass |= (uint16_t)(1u << p);
  draw(d, p + 1, open);
  d->now.pass &= (uint16_t) ~(1u << p);
}

/* Writes the given digits as a state; false: they are no pieces in mesh order. */
static bool given_state(const shard_space_options *o, const shard_variable *v, shard_state *out) {
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
static void keep_most_parts(drawing *d) {
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
  drawing d = {.g = g, .o = o, .v = v, .arena = arena, .mixed = has_mixed_dims(v)};
  uint32_t open = o->free_pieces;
  for (int l = 0; l < MSC_MAX_LETTERS; l++) d.product[l] = 1;
  bool irregular = !given_state(o, v, &d.now);
  shard_state given = d.now;
  if (shard_is_tuple(g, v)) {
    for (int l = 0; l < v->rule->num_letters; l++)
      d.parts[l] = shard_parts(&g->atoms, v->fixed.num[l], v->fixed.atom[l]);
    memset(d.now.on, SHARD_NONE, sizeof d.now.on);
    draw(&d, 0, d.open = UINT32_MAX); /* which digits make up the parts is for the search to say */
    irregular = irregular && d.num == 0;
  } else if (!irregular) {
    for (int p = 0; p < o->num_pieces; p++)
      if (given.on[p] != SHARD_NONE || given.pass >> p & 1) {
        open &= ~(1u << p);
        if (given.on[p] != SHARD_NONE) d.product[given.on[p]] *= o->piece[p].size;
      }
    draw(&d, 0, d.open = open);
  }
  if (v->most_parts && d.num <= o->max_states) keep_most_parts(&d);
  if (d.num == 0) return (shard_states){1, msc_arena_copy(arena, &given, sizeof given), irregular, d.left_out};
  return (shard_states){d.num, d.state, irregular, d.left_out};
}
