/* moves.c: exchanges between GPUs as copies, messages and library calls: made for all ranks of a mesh, carried out
 * in this process, and compared with what each rank must receive. Meshes, shapes and layouts are drawn at random,
 * uneven ones included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/moves.h"
#include "runtime/plan/plan.h"

enum { MAX_RANKS = 8, CASES = 600, ROOM = 4096 };

typedef struct {
  uint8_t first[MSCRT_MAX_RANK + 1];
  msc_digit digit[4];
  msc_box_layout layout;
} layout_room;

typedef struct {
  mscrt_plan plan;
  mscrt_collective k;
  mscrt_context c[MAX_RANKS];
  mscrt_exchange e[MAX_RANKS];
  mscrt_moves m[MAX_RANKS];
  int32_t src[MAX_RANKS][ROOM], dst[MAX_RANKS][ROOM], want[MAX_RANKS][ROOM];
  uint8_t staging[MAX_RANKS][1 << 18];
} world;

static world w;
static uint32_t state;

static uint32_t drawn(uint32_t below) {
  state = state * 1664525 + 1013904223;
  return (state >> 8) % below;
}

/* Each axis cuts a dimension, makes partial sums, or does nothing. */
static const msc_box_layout *draw_layout(layout_room *r, bool partial) {
  const msc_box_mesh *mesh = &w.plan.mesh;
  int place[4];
  *r = (layout_room){.layout = {.rank = w.k.rank, .first = r->first, .digit = r->digit}};
  for (int a = 0; a < mesh->num_axes; a++) place[a] = (int)drawn((uint32_t)w.k.rank + 1 + partial);
  for (int d = 0; d <= w.k.rank; d++) {
    r->first[d] = (uint8_t)r->layout.num;
    for (int a = 0; a < mesh->num_axes; a++)
      if (place[a] == d && (d < w.k.rank || partial))
        r->digit[r->layout.num++] = (msc_digit){(uint32_t)a, 1, (uint32_t)mesh->size[a]};
  }
  return &r->layout;
}

static void draw_case(uint32_t seed, layout_room *from, layout_room *to) {
  static const int64_t meshes[][2] = {{2, 1}, {3, 1}, {2, 2}, {4, 1}, {2, 3}, {2, 4}};
  static const msc_verb verbs[] = {MSC_EXCHANGE, MSC_ALL_REDUCE, MSC_ALL_GATHER, MSC_REDUCE_SCATTER};
  state = seed * 7919 + 1;
  memset(&w.plan, 0, sizeof w.plan);
  w.k = (mscrt_collective){.verb = verbs[drawn(4)], .dtype = MSCRT_I32, .rank = 1 + (int)drawn(3)};
  const int64_t *size = meshes[drawn(6)];
  w.plan.mesh = (msc_box_mesh){.num_axes = size[1] > 1 ? 2 : 1, .size = {size[0], size[1]}};
  w.plan.ranks = (int)(size[0] * size[1]);
  for (int d = 0; d < w.k.rank; d++) w.k.shape[d] = 1 + drawn(11);
  w.k.from = draw_layout(from, w.k.verb != MSC_ALL_GATHER);
  w.k.to = draw_layout(to, false);
  if (w.k.verb != MSC_ALL_REDUCE) return;
  *to = *from; /* the same parts, whole */
  to->layout.first = to->first, to->layout.digit = to->digit, to->layout.num = from->first[w.k.rank];
}

/* ---- what each rank should get ---- */

typedef struct { int32_t *to; const int32_t *from; } adding;

static void add_run(void *user, int64_t to, int64_t from, int64_t num) {
  adding *a = user;
  for (int64_t i = 0; i < num; i++) a->to[to + i] += a->from[from + i];
}

static void fill(int ranks) {
  memset(w.dst, 0xff, sizeof w.dst);
  for (int r = 0; r < ranks; r++) {
    for (int i = 0; i < ROOM; i++) w.src[r][i] = 1 + (int32_t)drawn(1000), w.want[r][i] = 0;
  }
  for (int r = 0; r < ranks; r++)
    for (int64_t i = 0; i < w.e[r].num_cuts; i++)
      for (int t = 0; t < w.e[r].num_terms; t++) {
        const mscrt_cut *cut = &w.e[r].cut[i];
        msc_box_runs(w.e[r].rank, &cut->box, &w.e[r].to_box, &cut->from_box, add_run,
                     &(adding){w.want[r], w.src[cut->peer[t]]});
      }
}

/* ---- the GPUs' part ---- */

static void copy_all(const mscrt_copies *l, void *to, const void *from) {
  for (uint32_t i = 0; i < l->num; i++)
    for (uint64_t h = 0; h < l->copy[i].height; h++)
      memcpy((uint8_t *)to + l->copy[i].to + h * l->copy[i].to_pitch,
             (const uint8_t *)from + l->copy[i].from + h * l->copy[i].from_pitch, l->copy[i].width);
}

static uint8_t *place_of(int rank, const mscrt_move *m, bool source) {
  return (m->direct ? source ? (uint8_t *)w.src[rank] : (uint8_t *)w.dst[rank] : w.staging[rank]) + m->at;
}

static void pass_messages(int rank) {
  const mscrt_moves *m = &w.m[rank];
  for (uint32_t i = 0; i < m->num_receives; i++) {
    int sender = m->e->group.member[m->receive[i].peer];
    const mscrt_move *sent = NULL;
    for (uint32_t k = 0; k < w.m[sender].num_sends; k++)
      if (w.m[sender].e->group.member[w.m[sender].send[k].peer] == rank) sent = &w.m[sender].send[k];
    assert_non_null(sent);
    assert_true(sent->bytes == m->receive[i].bytes);
    memcpy(place_of(rank, &m->receive[i], false), place_of(sender, sent, true), sent->bytes);
  }
}

static void call_library(int rank) {
  const mscrt_moves *m = &w.m[rank];
  const mscrt_members *g = &m->e->group;
  static int32_t sum[ROOM];
  memset(sum, 0, sizeof sum);
  for (int i = 0; i < g->num; i++) {
    const mscrt_moves *peer = &w.m[g->member[i]];
    assert_true(peer->form == m->form && peer->count == m->count);
    if (m->form == MSC_ALL_GATHER) {
      memcpy(place_of(rank, &m->receive[0], false) + (uint64_t)i * 4 * m->count,
             place_of(g->member[i], &peer->send[0], true), 4 * m->count);
      continue;
    }
    const int32_t *from =
        m->form == MSC_ALL_REDUCE
            ? w.src[g->member[i]]
            : (const int32_t *)(void *)place_of(g->member[i], &peer->send[0], true) + (uint64_t)g->index * m->count;
    for (uint64_t k = 0; k < m->count; k++) sum[k] = (int32_t)((uint32_t)sum[k] + (uint32_t)from[k]);
  }
  if (m->form == MSC_ALL_REDUCE) memcpy(w.dst[rank], sum, 4 * m->count);
  if (m->form == MSC_REDUCE_SCATTER) memcpy(place_of(rank, &m->receive[0], false), sum, 4 * m->count);
}

static void carry_out(int ranks) {
  for (int r = 0; r < ranks; r++) {
    assert_true(w.m[r].staging_bytes <= sizeof w.staging[r]);
    memset(w.staging[r], 0xff, sizeof w.staging[r]);
    memset(w.staging[r], 0, 4 * w.m[r].identity);
    copy_all(&w.m[r].local, w.dst[r], w.src[r]);
    copy_all(&w.m[r].pack, w.staging[r], w.src[r]);
  }
  for (int r = 0; r < ranks; r++) {
    if (w.m[r].form == MSC_EXCHANGE) pass_messages(r);
    else call_library(r);
  }
  for (int r = 0; r < ranks; r++) copy_all(&w.m[r].unpack, w.dst[r], w.staging[r]);
}

static bool got(int rank) {
  const mscrt_exchange *e = &w.e[rank];
  for (int64_t i = 0; i < e->num_cuts; i++)
    for (int64_t k = 0; k < msc_box_elems(e->rank, &e->to_box); k++)
      if (w.want[rank][k] && w.want[rank][k] != w.dst[rank][k]) return false;
  return true;
}

static void make_all(int ranks, mscrt_partitions *p) {
  mscrt_status *s = mscrt_partitions_new(ranks, p);
  w.plan.collective = &w.k;
  for (int r = 0; r < ranks && !s; r++) s = mscrt_exchange_make(&w.plan.mesh, r, &w.k, p, false, &w.e[r]);
  for (int r = 0; r < ranks && !s; r++) {
    memset(&w.c[r], 0, sizeof w.c[r]);
    w.c[r].plan = &w.plan, w.c[r].exchange = &w.e[r], w.c[r].o.rank = r;
    s = mscrt_moves_make(&w.c[r], 0, &w.m[r]);
  }
  if (s) fail_msg("%s", mscrt_status_text(s));
}

static void all_forms_move_what_is_wanted(void **unused) {
  int forms[MSC_NUM_VERBS] = {0}, with_identities = 0;
  (void)unused;
  for (uint32_t seed = 0; seed < CASES; seed++) {
    layout_room from, to;
    mscrt_partitions p = {0};
    draw_case(seed, &from, &to);
    int ranks = w.plan.ranks;
    make_all(ranks, &p);
    forms[w.m[0].form]++, with_identities += w.m[0].identity > 0;
    fill(ranks), carry_out(ranks);
    for (int r = 0; r < ranks; r++) {
      if (!got(r))
        fail_msg("case %u: rank %d of %d, %s, form %d", seed, r, ranks, msc_verb_name(w.k.verb), w.m[r].form);
      mscrt_moves_free(&w.m[r]);
      mscrt_exchange_free(&w.e[r]);
      memset(&w.m[r], 0, sizeof w.m[r]);
    }
    mscrt_partitions_free(&p);
  }
  printf("%d by messages, %d all_reduce, %d all_gather, %d reduce_scatter, %d of them among identities\n",
         forms[MSC_EXCHANGE], forms[MSC_ALL_REDUCE], forms[MSC_ALL_GATHER], forms[MSC_REDUCE_SCATTER], with_identities);
  assert_true(with_identities > 5);
  for (int v = MSC_ALL_REDUCE; v <= MSC_REDUCE_SCATTER; v++) assert_true(forms[v] > 5);
  assert_true(forms[MSC_EXCHANGE] > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_forms_move_what_is_wanted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
