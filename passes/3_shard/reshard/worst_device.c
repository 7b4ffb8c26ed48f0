/* worst_device.c: two states in; the most bytes that a device must receive to have its part of the second if it holds
 * its part of the first, out. For sizes that do not divide, where no formula gives it.
 *
 * What a device wants and holds are products over dimensions. An atom is shared if it cuts one dimension in the first
 * state and another one in the second. The digits of all other atoms change the factors of one dimension only, so for
 * every dimension the sizes that matter are listed once for each choice of the digits of its shared atoms, and just
 * these choices are tried together. The lists are remembered: many pairs of states cut a dimension alike. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

/* More than a dimension has different sizes of wanted parts: its whole parts have one size, and each cut adds at most
 * one other. */
enum { MOST_SIZES = MSC_MAX_SUBAXES + 2 };

typedef struct {
  int64_t begin, end;
} span;

/* What a device wants in a dimension, and how much of that it holds. */
typedef struct {
  int64_t wanted, held;
} share;

/* How a state cuts a dimension: the parts of each cut, and for each atom that cuts it what one step along it adds to
 * the number of a part. */
typedef struct {
  int num_cuts;
  int64_t cut[MSC_MAX_SUBAXES], step[RESHARD_ATOMS];
} cuts_of_dim;

/* A dimension of two states. Atoms are numbered in order of use. `own`: 1 if what a device has itself counts as held;
 * else 0. */
typedef struct {
  int64_t size, own, num_atoms;
  struct {
    int64_t size, shared;
  } atom[RESHARD_ATOMS];
  cuts_of_dim from, to;
} dim_cuts;

/* The shares of a dimension, by number of the choice of its shared atoms' digits. */
typedef struct {
  int64_t step[RESHARD_ATOMS]; /* what one step along a shared atom adds to that number */
  uint32_t *first;             /* by choice: the first one of its shares; alike choices have the same */
  share *share;                /* behind the last one of a choice, one that wants -1 */
} dim_shares;

typedef struct {
  const reshard_problem *p;
  uint32_t shared;
  int64_t terms, worst;
  const dim_shares *dim[MSC_MAX_RANK];
  int64_t choice[MSC_MAX_RANK]; /* by dimension: the number of the present choice */
  int64_t step[MSC_MAX_RANK][RESHARD_ATOMS];
} search;

/* ---- one dimension ---- */

static const span *list_spans(msc_arena *arena, int64_t size, const cuts_of_dim *c) {
  int64_t parts = 1, block = size, num = 1;
  for (int i = 0; i < c->num_cuts; i++) parts *= c->cut[i];
  span *out = msc_new_array(arena, span, parts);
  out[0] = (span){0, size};
  for (int i = 0; i < c->num_cuts; num *= c->cut[i++]) {
    block = block / c->cut[i] + (block % c->cut[i] != 0);
    for (int64_t w = num - 1; w >= 0; w--) { /* from the last: the wholes are in the same array */
      span whole = out[w];
      for (int64_t k = c->cut[i] - 1; k >= 0; k--) {
        int64_t begin = whole.begin + k * block, end = begin + block;
        out[w * c->cut[i] + k] = (span){begin < whole.end ? begin : whole.end, end < whole.end ? end : whole.end};
      }
    }
  }
  return out;
}

/* Writes, for every choice of the digits of the atoms that are shared, or of those that are not, what it adds to the
 * number of a part; returns how many choices there are. */
static int64_t list_parts(msc_arena *arena, const dim_cuts *of, bool shared, const int64_t *step, int64_t **out) {
  int64_t num = 1, *part;
  for (int a = 0; a < of->num_atoms; a++) num *= of->atom[a].shared == shared ? of->atom[a].size : 1;
  part = *out = msc_new_array(arena, int64_t, num);
  num = 1;
  for (int a = 0; a < of->num_atoms; a++) {
    if (of->atom[a].shared != shared) continue;
    for (int64_t k = 1; k < of->atom[a].size; k++)
      for (int64_t i = 0; i < num; i++) part[k * num + i] = part[i] + k * step[a];
    num *= of->atom[a].size;
  }
  return num;
}

/* Adds a share to a list unless another one wants at least as much and holds no more; drops those that it makes
 * superfluous in the same way. */
static void add_share(share *list, int *num, share s) {
  int kept = 0;
  for (int i = 0; i < *num; i++)
    if (list[i].wanted >= s.wanted && list[i].held <= s.held) return;
  for (int i = 0; i < *num; i++)
    if (list[i].wanted > s.wanted || list[i].held < s.held) list[kept++] = list[i];
  list[kept++] = s;
  *num = kept;
}

/* Where a list of `num` shares begins among the latest ones of all[0..end); `end`: it is not there. */
static uint32_t find_list(const share *all, uint32_t end, const share *list, uint32_t num) {
  enum { LATEST = 64 };
  for (uint32_t at = end > LATEST ? end - LATEST : 0; at + num <= end; at++)
    if ((!at || all[at - 1].wanted < 0) && !memcmp(all + at, list, num * sizeof *list)) return at;
  return end;
}

static void list_shares(msc_arena *arena, msc_arena *scratch, const dim_cuts *of, dim_shares *out) {
  const span *held = list_spans(scratch, of->size, &of->from), *wanted = list_spans(scratch, of->size, &of->to);
  int64_t *outer[2], *inner[2], num = list_parts(scratch, of, true, of->from.step, &outer[0]),
                                num_inner = list_parts(scratch, of, false, of->from.step, &inner[0]);
  list_parts(scratch, of, true, of->to.step, &outer[1]);
  list_parts(scratch, of, false, of->to.step, &inner[1]);
  out->first = msc_new_array(arena, uint32_t, num);
  share *all = msc_new_array(scratch, share, num * ((num_inner < MOST_SIZES ? num_inner : MOST_SIZES) + 1));
  uint32_t end = 0;
  for (int64_t i = 0; i < num; i++) {
    int num_shares = 0;
    share *list = all + end;
    for (int64_t k = 0; k < num_inner; k++) {
      span a = held[outer[0][i] + inner[0][k]], b = wanted[outer[1][i] + inner[1][k]];
      int64_t from = a.begin > b.begin ? a.begin : b.begin, to = a.end < b.end ? a.end : b.end;
      add_share(list, &num_shares, (share){b.end - b.begin, of->own && to > from ? to - from : 0});
    }
    list[num_shares++] = (share){-1, 0};
    out->first[i] = find_list(all, end, list, (uint32_t)num_shares);
    if (out->first[i] == end) end += (uint32_t)num_shares;
  }
  out->share = msc_arena_copy(arena, all, end * sizeof *all);
  for (int64_t a = 0, step = 1; a < of->num_atoms; a++)
    if (of->atom[a].shared) out->step[a] = step, step *= of->atom[a].size;
}

/* All that the shares depend on, as interned words. */
static const void *key_of(msc_context *ctx, const dim_cuts *of) {
  int64_t word[5 + 4 * RESHARD_ATOMS + 2 * MSC_MAX_SUBAXES] = {of->size, of->own, of->num_atoms, of->from.num_cuts,
                                                               of->to.num_cuts};
  size_t num = 5;
  for (int a = 0; a < of->num_atoms; a++) {
    word[num++] = of->atom[a].size, word[num++] = of->atom[a].shared;
    word[num++] = of->from.step[a], word[num++] = of->to.step[a];
  }
  for (int i = 0; i < of->from.num_cuts; i++) word[num++] = of->from.cut[i];
  for (int i = 0; i < of->to.num_cuts; i++) word[num++] = of->to.cut[i];
  return msc_intern_bytes(ctx, word, num * sizeof *word);
}

static const dim_shares *find_shares(msc_context *ctx, const dim_cuts *of) {
  static const char shares; /* its address is part of the key */
  const void **known = msc_memo_of(ctx, key_of(ctx, of), &shares);
  if (*known) return *known;
  msc_arena *scratch = msc_arena_new(ctx);
  dim_shares *made = msc_new(msc_lasting_arena(ctx), dim_shares);
  list_shares(msc_lasting_arena(ctx), scratch, of, made);
  msc_arena_free(scratch);
  return *known = made;
}

/* Writes how a state cuts dimension d; numbers[a]: the number of the atom, those without one get the next. */
static void read_cuts(const search *q, const reshard_state *s, int d, dim_cuts *of, int8_t *numbers, cuts_of_dim *out) {
  int64_t parts = 1;
  out->num_cuts = msc_reshard_cuts(q->p, s, d, 0, s->num[d], out->cut);
  for (int i = s->num[d] - 1; i >= 0; i--) {
    int a = s->atom[d][i];
    if (numbers[a] < 0) {
      of->atom[of->num_atoms].size = q->p->size[a], of->atom[of->num_atoms].shared = q->shared >> a & 1;
      numbers[a] = (int8_t)of->num_atoms++;
    }
    out->step[numbers[a]] = parts;
    parts *= q->p->size[a];
  }
}

/* Sets q->dim[d] and q->step[d]. */
static void look_up_dim(search *q, const reshard_state *from, const reshard_state *to, int d, bool own) {
  int8_t numbers[RESHARD_ATOMS];
  dim_cuts of;
  memset(&of, 0, sizeof of);
  memset(numbers, -1, sizeof numbers);
  of.size = q->p->type->dim[d], of.own = own;
  read_cuts(q, from, d, &of, numbers, &of.from);
  read_cuts(q, to, d, &of, numbers, &of.to);
  q->dim[d] = find_shares(q->p->ctx, &of);
  for (int a = 0; a < q->p->num_atoms; a++) q->step[d][a] = numbers[a] < 0 ? 0 : q->dim[d]->step[numbers[a]];
}

/* ---- all dimensions ---- */

/* The atoms that cut one dimension in the one state and another dimension in the other. */
static uint32_t shared_atoms(const reshard_problem *p, const reshard_state *from, const reshard_state *to) {
  int8_t dim[RESHARD_ATOMS];
  uint32_t shared = 0;
  memset(dim, -1, sizeof dim);
  for (int d = 0; d < p->rank; d++)
    for (int i = 0; i < from->num[d]; i++) dim[from->atom[d][i]] = (int8_t)d;
  for (int d = 0; d < p->rank; d++)
    for (int i = 0; i < to->num[d]; i++) {
      int a = to->atom[d][i];
      if (dim[a] >= 0 && dim[a] != d) shared |= 1u << a;
    }
  return shared;
}

/* Raises q->worst to what some device lacks with the present choice, whose shares in dimensions below d multiply to
 * `of`. */
static void try_choice(search *q, int d, share of) {
  if (d == q->p->rank) {
    int64_t lacks = q->terms * of.wanted - of.held;
    if (lacks > q->worst) q->worst = lacks;
    return;
  }
  const dim_shares *own = q->dim[d];
  for (const share *s = own->share + own->first[q->choice[d]]; s->wanted >= 0; s++)
    try_choice(q, d + 1, (share){of.wanted * s->wanted, of.held * s->held});
}

/* Steps to the next choice of the digits of shared atoms; false after the last. */
static bool next_choice(search *q, int64_t *digit) {
  for (uint32_t m = q->shared; m; m &= m - 1) {
    int a = __builtin_ctz(m);
    int64_t steps = digit[a] + 1 < q->p->size[a] ? 1 : -digit[a];
    digit[a] += steps;
    for (int d = 0; d < q->p->rank; d++) q->choice[d] += steps * q->step[d][a];
    if (steps > 0) return true;
  }
  return false;
}

int64_t msc_reshard_worst_lacks(const reshard_problem *p, const reshard_state *s, const reshard_state *to,
                                int64_t terms, bool own) {
  search q = {.p = p, .shared = shared_atoms(p, s, to), .terms = terms};
  int64_t digit[RESHARD_ATOMS] = {0},
          most = terms * (msc_reshard_local(p, to) / p->elem_bytes); /* a device that holds nothing lacks it */
  for (int d = 0; d < p->rank; d++) look_up_dim(&q, s, to, d, own);
  do try_choice(&q, 0, (share){1, own});
  while (q.worst < most && next_choice(&q, digit));
  return q.worst * p->elem_bytes;
}
