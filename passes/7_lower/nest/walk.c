/* walk.c: the instructions of a region in; how they are walked, out: which axes are items, which are reduced in which
 * order, along which one vectors lie, and in how many phases the reduced axes are run through. */
#include <string.h>

#include "ir/conv.h"
#include "passes/7_lower/nest/nester.h"

void msc_nest_mark_live(msc_nester *n) {
  memset(n->live, 0, sizeof n->live);
  for (int i = n->num_instrs - 1; i > 0; i--) {
    if (msc_nest_has(&n->instr[i], NEST_ROOT)) n->live[i] = true;
    for (int k = 0; k < 3 && n->live[i]; k++) n->live[n->instr[i].arg[k]] = true;
  }
  n->live[0] = false;
}

uint64_t msc_nest_points(const msc_nester *n, uint16_t axes) {
  uint64_t points = 1;
  for (int i = 0; i < n->num_axes; i++)
    if (axes >> i & 1) points *= (uint64_t)n->extent[i];
  return points;
}

int msc_nest_find_scatter(const msc_nester *n) {
  int i = n->num_instrs - 1;
  while (i > 0 && n->instr[i].code != NEST_SCATTER) i--;
  return i;
}

static bool is_reduce(const msc_nester *n, int i) { return n->live[i] && n->instr[i].code == NEST_REDUCE; }

/* ---- which axes are reduced, and in which order ---- */

/* True if each reduction is over R, or over the other reduced axes T with an operand that does not vary along R, or
 * over both: then the loops over R can be the innermost ones. */
static bool fits_order(const msc_nester *n, uint16_t r, uint16_t all) {
  uint16_t t = all & (uint16_t)~r;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!is_reduce(n, i)) continue;
    if (n->over[i] == t && (n->instr[n->instr[i].arg[0]].axes & r)) return false;
    if (n->over[i] != r && n->over[i] != t && n->over[i] != all) return false;
  }
  return r != 0;
}

static bool find_reductions(msc_nester *n) {
  uint16_t all = 0;
  for (int i = 1; i < n->num_instrs; i++)
    if (is_reduce(n, i)) all |= n->over[i];
  n->walk.reduced = all, n->walk.tail = 0;
  if (!all || fits_order(n, all, all)) return true;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!is_reduce(n, i)) continue;
    uint16_t candidate[2] = {n->over[i], all & (uint16_t)~n->over[i]};
    for (int k = 0; k < 2; k++) {
      if (!fits_order(n, candidate[k], all)) continue;
      n->walk.reduced = candidate[k], n->walk.tail = all & (uint16_t)~candidate[k];
      return true;
    }
  }
  msc_nest_refuse(n, "it reduces over different dimensions");
  return false;
}

/* Splits each reduction over R and T into one over R and, behind it, one of its result over T. */
void msc_nest_split_double_reductions(msc_nester *n) {
  uint16_t r = n->walk.reduced, t = n->walk.tail;
  for (int i = 1; t && i < n->num_instrs && !n->failed; i++) {
    if (!is_reduce(n, i) || n->over[i] != (r | t)) continue;
    if (n->num_instrs == MSC_NEST_INSTRS) {
      msc_nest_refuse(n, "more than %d steps of arithmetic", MSC_NEST_INSTRS);
      return;
    }
    int last = n->num_instrs++;
    for (int k = last; k > i; k--)
      n->instr[k] = n->instr[k - 1], n->at[k] = n->at[k - 1], n->over[k] = n->over[k - 1],
      n->blocks[k] = n->blocks[k - 1], n->live[k] = n->live[k - 1];
    for (int k = i + 2; k <= last; k++)
      for (int a = 0; a < 3; a++)
        if (n->instr[k].arg[a] >= i) n->instr[k].arg[a]++;
    n->over[i] = r, n->over[i + 1] = t, n->blocks[i] = 0; /* blocks are of the outer axes */
    n->instr[i].axes = n->instr[n->instr[i].arg[0]].axes & (uint16_t)~r;
    n->instr[i + 1].arg[0] = (uint16_t)i;
    i++;
  }
}

/* ---- phases ---- */

static uint8_t larger_of(uint8_t a, uint8_t b) { return a > b ? a : b; }

void msc_nest_set_phases(msc_nester *n) {
  uint16_t r = n->walk.reduced;
  n->walk.num_phases = 0;
  for (int i = 1; i < n->num_instrs; i++) {
    msc_instr *in = &n->instr[i];
    uint8_t stage = 0;
    in->level = 0;
    if (!n->live[i]) continue;
    for (int k = 0; k < 3; k++) {
      const msc_instr *arg = &n->instr[in->arg[k]];
      if (!in->arg[k]) continue;
      stage = larger_of(stage, arg->phase);
      in->level = larger_of(in->level, arg->level);
    }
    bool inner = in->code == NEST_REDUCE ? n->over[i] == r : msc_nest_has(in, NEST_ROOT) && (in->axes & r);
    if (in->code == NEST_REDUCE && !inner) in->level = 1;
    in->phase = (uint8_t)(stage + inner);
    if (in->phase > n->walk.num_phases) n->walk.num_phases = in->phase;
  }
  /* every phase loads its operands again, so a result that overwrites an operand is stored in the last phase */
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && n->instr[i].code == NEST_STORE && (n->instr[i].axes & r) && n->lies_on[n->instr[i].buffer])
      n->instr[i].phase = (uint8_t)n->walk.num_phases;
}

/* ---- is it one nest? ---- */

static bool check_reductions(msc_nester *n) {
  const msc_nest_walk *w = &n->walk;
  int num = 0;
  for (int i = 1; i < n->num_instrs; i++) num += is_reduce(n, i);
  if (num > MSC_NEST_REDUCTIONS) return msc_nest_refuse(n, "more than %d reductions", MSC_NEST_REDUCTIONS);
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *in = &n->instr[i];
    if (!n->live[i]) continue;
    if (in->level && (in->axes & (w->reduced | w->tail)))
      return msc_nest_refuse(n, "a value depends on a reduction of all rows and varies again");
    uint16_t around = in->level ? w->items : w->items | w->tail;
    if (in->code == NEST_REDUCE && in->axes != around)
      return msc_nest_refuse(n, "a reduction would be repeated along another loop");
  }
  return true;
}

static bool check_stores(msc_nester *n) {
  const msc_nest_walk *w = &n->walk;
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *in = &n->instr[i];
    if (!n->live[i] || in->code != NEST_STORE) continue;
    uint16_t full = in->level ? w->items : w->items | w->tail, at = msc_affine_axes(&n->at[i]);
    if (at == full || (!in->level && at == (full | w->reduced))) continue;
    return msc_nest_refuse(n, "its results have different shapes");
  }
  return true;
}

/* ---- blocks of sums ---- */

static int outermost(uint16_t axes) { return __builtin_ctz(axes); }

/* Sets the number of blocks of the sums over `axes`, which must be the same for all of them and divide the outermost
 * axis; false: it is not. */
static bool find_blocks(msc_nester *n, uint16_t axes, int level, int64_t *out_blocks) {
  int64_t blocks = 0;
  *out_blocks = 0;
  if (!n->target->sums_in_blocks) return true;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!is_reduce(n, i) || n->instr[i].level != level || !n->blocks[i]) continue;
    if (blocks && blocks != n->blocks[i]) return msc_nest_refuse(n, "it sums in different blocks");
    blocks = n->blocks[i];
  }
  while (blocks > 1 && n->extent[outermost(axes)] % blocks) blocks /= 2;
  *out_blocks = axes ? blocks : 0;
  return true;
}

/* ---- lanes ---- */

/* Price of a load or store per point when lanes lie along `axis`: a vector, a splat, or elements one by one. */
static double place_price(const msc_nester *n, int i, int axis) {
  bool apart = n->instr[i].arg[0] && n->instr[i].code != NEST_STORE && (n->instr[n->instr[i].arg[0]].axes >> axis & 1);
  int64_t step = n->at[i].coef[axis];
  return apart || (step != 0 && step != 1) ? 8 : step ? 1 : 0.2;
}

static bool has_windows(const msc_nester *n) {
  for (size_t i = 0; i < n->num_ops; i++)
    if (msc_is_windowed(n->ops[i])) return true;
  return false;
}

static double lane_price(const msc_nester *n, int axis) {
  double price = 0;
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *in = &n->instr[i];
    if (!n->live[i] || (in->code != NEST_LOAD && in->code != NEST_STORE)) continue;
    uint16_t around = n->walk.items | n->walk.tail | (in->axes & n->walk.reduced ? n->walk.reduced : 0);
    price += place_price(n, i, axis) * (double)msc_nest_points(n, around);
  }
  if (n->extent[axis] >= 8) return price;
  /* a window's few elements do not fill a vector, whose lanes are folded for each item */
  bool folded = (n->walk.reduced >> axis & 1) && has_windows(n);
  return price * 8 / (double)(n->extent[axis] + 1) + (folded ? 64.0 * (double)msc_nest_points(n, n->walk.items) : 0);
}

/* All lanes of a vector must add to the same row, so they lie along an axis that the row number does not vary along. */
static void choose_scatter_lane(msc_nester *n, int scatter) {
  for (int a = 0; a < n->num_axes; a++)
    if (n->at[scatter].coef[a] == 1 && !(n->instr[n->instr[scatter].arg[0]].axes >> a & 1)) n->walk.lane = a;
}

static void choose_lane(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  double best = 0;
  w->lane = -1;
  for (int a = 0; a < n->num_axes; a++) {
    if (!((w->items | w->reduced) >> a & 1)) continue;
    bool stored = true; /* a MAP's vectors are stored as such where possible */
    for (int i = 1; i < n->num_instrs && !w->reduced; i++)
      if (n->live[i] && n->instr[i].code == NEST_STORE) stored &= n->at[i].coef[a] == 1;
    double price = lane_price(n, a);
    if (stored && (w->lane < 0 || price < best)) w->lane = a, best = price;
  }
  if (w->reduced) w->kind = w->lane >= 0 && (w->items >> w->lane & 1) ? MSC_NEST_COLUMN : MSC_NEST_ROW;
}

/* A MAP that loads along another axis than it stores goes in blocks that are transposed in registers. */
static void choose_across(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  int across = -1;
  if (w->kind != MSC_NEST_MAP || w->lane < 0 || n->extent[w->lane] < 8) return;
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *in = &n->instr[i];
    if (!n->live[i] || in->code != NEST_LOAD || n->at[i].coef[w->lane] <= 1) continue;
    if (in->arg[0] || in->arg[1]) return;
    for (int a = 0; a < n->num_axes; a++)
      if (a != w->lane && n->at[i].coef[a] == 1 && n->extent[a] >= 8) {
        if (across >= 0 && across != a) return;
        across = a;
      }
  }
  if (across < 0) return;
  w->across = across, w->kind = MSC_NEST_TRANSPOSE;
}

/* ---- order of axes ---- */

static uint16_t renumber_mask(uint16_t mask, const int8_t *number) {
  uint16_t out = 0;
  for (int i = 0; i < MSC_NEST_AXES; i++)
    if ((mask >> i & 1) && number[i] >= 0) out |= (uint16_t)(1u << number[i]);
  return out;
}

void msc_nest_renumber(msc_nester *n, const int8_t *number, int num) {
  msc_nest_walk *w = &n->walk;
  int64_t extent[MSC_NEST_AXES] = {0};
  for (int i = 0; i < n->num_axes; i++)
    if (number[i] >= 0) extent[number[i]] = n->extent[i];
  memcpy(n->extent, extent, sizeof extent);
  for (int k = 1; k < n->num_instrs; k++) {
    msc_affine at = {.c0 = n->at[k].c0};
    for (int i = 0; i < n->num_axes; i++)
      if (number[i] >= 0) at.coef[number[i]] = n->at[k].coef[i];
    n->at[k] = at;
    n->instr[k].axes = renumber_mask(n->instr[k].axes, number);
    n->over[k] = renumber_mask(n->over[k], number);
  }
  w->items = renumber_mask(w->items, number), w->reduced = renumber_mask(w->reduced, number),
  w->tail = renumber_mask(w->tail, number);
  if (w->lane >= 0) w->lane = number[w->lane];
  if (w->across >= 0) w->across = number[w->across];
  n->num_axes = num;
}

/* Returns the key by which axes are sorted, the largest outermost: items, tail, reduced axes; among these by their
 * stride in results, or in operands if no result varies along them; the lane axis last. */
static uint64_t order_key(const msc_nester *n, int a) {
  const msc_nest_walk *w = &n->walk;
  int64_t stored = 0, loaded = 0;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!n->live[i]) continue;
    uint8_t code = n->instr[i].code;
    int64_t *most = code == NEST_STORE || code == NEST_FILL ? &stored : code == NEST_LOAD ? &loaded : NULL;
    if (most && n->at[i].coef[a] > *most) *most = n->at[i].coef[a];
  }
  uint64_t group = w->items >> a & 1 ? 2 : w->tail >> a & 1 ? 1 : 0;
  /* 1: no address depends on the axis */
  uint64_t stride = a == w->lane ? 0 : (uint64_t)(stored ? stored : loaded) + 1;
  return group << 62 | (stride & ((UINT64_C(1) << 62) - 1));
}

static bool can_merge(const msc_nester *n, int outer) {
  const msc_nest_walk *w = &n->walk;
  int inner = outer + 1;
  uint16_t two = (uint16_t)(3u << outer);
  if (outer == w->across || inner == w->across || outer == w->lane) return false;
  if ((w->items & two) != two && (w->tail & two) != two && (w->reduced & two) != two) return false;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && msc_nest_has(&n->instr[i], NEST_PLACE) &&
        n->at[i].coef[outer] != n->at[i].coef[inner] * n->extent[inner])
      return false;
  return true;
}

void msc_nest_order_axes(msc_nester *n) {
  uint64_t key[MSC_NEST_AXES];
  int8_t number[MSC_NEST_AXES];
  uint16_t used = n->walk.items | n->walk.tail | n->walk.reduced;
  int num = __builtin_popcount(used);
  for (int i = 0; i < n->num_axes; i++) key[i] = order_key(n, i);
  for (int i = 0; i < MSC_NEST_AXES; i++) {
    number[i] = -1;
    if (i >= n->num_axes || !(used >> i & 1)) continue;
    number[i] = 0;
    for (int k = 0; k < n->num_axes; k++)
      if ((used >> k & 1) && (key[k] > key[i] || (key[k] == key[i] && k < i))) number[i]++;
  }
  msc_nest_renumber(n, number, num);
  for (int outer = n->num_axes - 2; outer >= 0; outer--) {
    if (!can_merge(n, outer)) continue;
    n->extent[outer + 1] *= n->extent[outer];
    for (int i = 0; i < MSC_NEST_AXES; i++) number[i] = (int8_t)(i < outer ? i : i == outer ? -1 : i - 1);
    msc_nest_renumber(n, number, n->num_axes - 1);
  }
}

bool msc_nest_choose_walk(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  int scatter = msc_nest_find_scatter(n);
  w->chunk_axis = w->clipped = w->across = w->lane = -1, w->num_launches = 1;
  msc_nest_mark_live(n);
  if (!scatter && !find_reductions(n)) return false;
  msc_nest_split_double_reductions(n);
  if (n->failed) return false;
  uint16_t all = 0;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i]) all |= n->instr[i].axes | n->over[i];
  w->items = all & (uint16_t)~(w->reduced | w->tail);
  msc_nest_set_phases(n);
  if (scatter) choose_scatter_lane(n, scatter);
  else if (check_reductions(n) && check_stores(n)) choose_lane(n), choose_across(n);
  else return false;
  msc_nest_order_axes(n);
  return find_blocks(n, w->reduced, 0, &w->blocks) && find_blocks(n, w->tail, 1, &w->tail_blocks);
}
