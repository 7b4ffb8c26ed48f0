/* explain_redundancy.c: a plan in; for every rank the ranks that hold the same parts and could restore it, and the
 * parts that it alone holds, out (see explain_plan.h). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ir/attr.h"
#include "runtime/plan/plan.h"
#include "tools/explain/explain_plan.h"
#include "tools/status.h"

typedef struct {
  uint64_t held; /* parts, as a number */
  int rank;
} holding;

static int compare_holdings(const void *a, const void *b) {
  const holding *x = a, *y = b;
  if (x->held != y->held) return x->held < y->held ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The part of a parameter that a rank holds; the same number for all empty ones. */
static uint64_t hash_part(const mscrt_plan *p, const mscrt_variable *v, int rank) {
  msc_box box, buffer;
  uint64_t h = 1;
  mscrt_variable_box(p, v, rank, &box, &buffer);
  if (msc_box_elems(v->rank, &box) == 0) return 0;
  for (int d = 0; d < v->rank; d++) h = msc_mix(msc_mix(h, (uint64_t)box.begin[d]), (uint64_t)box.size[d]);
  return h;
}

static uint64_t hash_all_parts(const mscrt_plan *p, int rank) {
  uint32_t stage = mscrt_stage_of(p, rank);
  uint64_t h = stage + 1;
  for (uint32_t i = 0; i < p->num_parameters; i++)
    if (p->parameter[i].stage == stage) h = msc_mix(h, hash_part(p, &p->parameter[i], rank));
  return h;
}

/* [[RANK ...] ...]: by their smallest ranks; of_rank: the group of each rank. */
static json_t *list_equal_ranks(const mscrt_plan *p, holding *of, json_t **of_rank) {
  json_t *groups = json_array();
  for (int r = 0; r < p->ranks; r++) of[r] = (holding){hash_all_parts(p, r), r};
  qsort(of, (size_t)p->ranks, sizeof *of, compare_holdings);
  for (int i = 0, first = 0; i < p->ranks; i++) {
    if (of[i].held != of[first].held) first = i;
    if (i == first) of_rank[of[i].rank] = json_array();
    of_rank[of[i].rank] = of_rank[of[first].rank];
    json_array_append_new(of_rank[of[i].rank], json_integer(of[i].rank));
  }
  for (int r = 0; r < p->ranks; r++)
    if (json_integer_value(json_array_get(of_rank[r], 0)) == r) json_array_append_new(groups, of_rank[r]);
  return groups;
}

/* Other ranks that hold a piece of the part of this one. */
static json_t *list_partial_sources(const mscrt_plan *p, const mscrt_variable *v, int rank, int first, int num) {
  json_t *ranks = json_array();
  msc_box own, other, buffer;
  mscrt_variable_box(p, v, rank, &own, &buffer);
  for (int r = first; r < first + num; r++) {
    bool meets = r != rank;
    mscrt_variable_box(p, v, r, &other, &buffer);
    for (int d = 0; d < v->rank; d++)
      meets = meets && own.begin[d] < other.begin[d] + other.size[d] && other.begin[d] < own.begin[d] + own.size[d];
    if (meets) json_array_append_new(ranks, json_integer(r));
  }
  return ranks;
}

/* The ranks that hold a part of a parameter alone; NULL: none does. */
static json_t *list_alone(const mscrt_plan *p, const mscrt_variable *v, holding *of) {
  int num = p->ranks / (int)p->num_stages, first = (int)v->stage * num, num_alone = 0;
  json_t *ranks = json_array();
  for (int i = 0; i < num; i++) of[i] = (holding){hash_part(p, v, first + i), first + i};
  qsort(of, (size_t)num, sizeof *of, compare_holdings);
  for (int i = 0, end; i < num; i = end) { /* runs of equal parts; those of one rank come to the front */
    for (end = i + 1; end < num && of[end].held == of[i].held; end++) {}
    if (end > i + 1 || !of[i].held) continue;
    of[num_alone++].rank = of[i].rank;
  }
  for (int i = 0; i < num_alone; i++) of[i].held = 0;
  qsort(of, (size_t)num_alone, sizeof *of, compare_holdings);
  for (int i = 0; i < num_alone; i++) json_array_append_new(ranks, json_integer(of[i].rank));
  if (num_alone)
    return json_pack("{s:s, s:b, s:o, s:o}", "parameter", v->name, "state", v->state, "ranks", ranks, "partial",
                     list_partial_sources(p, v, of[0].rank, first, num));
  json_decref(ranks);
  return NULL;
}

/* Names a change of configuration with which other ranks would hold it too. */
static const char *name_change(const mscrt_plan *p, const json_t *alone) {
  size_t i;
  json_t *one;
  bool only_state = true;
  json_array_foreach(alone, i, one) only_state &= json_is_true(json_object_get(one, "state"));
  if (only_state) return "zero=0 keeps the optimizer's state whole on every replica";
  return p->ranks == (int)p->num_stages ? "several ranks for each stage make replicas"
                                        : "fewer parts of parameters leave more replicas";
}

json_t *cli_redundancy(cli *c, const char *path) {
  const cli_plan *read = cli_read_plan(c, path, true); /* only plans with code can be opened */
  mscrt_plan *p = NULL;
  if (!read || status_report(c, path, "", mscrt_plan_open_layouts(read->data, read->bytes, &p))) return NULL;
  msc_arena *a = msc_context_arena(c->ctx);
  holding *of = msc_new_array(a, holding, p->ranks);
  json_t **of_rank = msc_new_array(a, json_t *, p->ranks), *list = json_array(), *alone = json_array();
  json_t *groups = list_equal_ranks(p, of, of_rank);
  for (int r = 0; r < p->ranks; r++) json_array_append(list, of_rank[r]);
  for (uint32_t i = 0; i < p->num_parameters && p->ranks > 1; i++) {
    json_t *one = list_alone(p, &p->parameter[i], of);
    if (one) json_array_append_new(alone, one);
  }
  bool recoverable = p->ranks > 1 && !json_array_size(alone);
  const char *change = recoverable ? NULL : p->ranks == 1 ? "several ranks make replicas" : name_change(p, alone);
  json_t *told = json_pack("{s:o, s:b, s:o, s:o, s:s*}", "redundancy", groups, "recoverable", recoverable,
                           "restore_group_info_list", list, "alone", alone, "change", change);
  mscrt_plan_close(p);
  return told;
}
