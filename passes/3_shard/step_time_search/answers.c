/* answers.c: answers of searches, stored by mesh and charge on memory (see answers.h). */
#include "passes/3_shard/step_time_search/answers.h"

#include <string.h>

#include "ir/table.h"

/* An answer; digits that several variables share, as those of equal layers, are stored once. */
typedef struct {
  shard_answer of;  /* its costs */
  uint32_t *digits; /* by variable: number of the copy in shard_answers; NULL: the answer is not known yet */
  int *state;       /* by variable */
} stored_answer;

struct shard_answers {
  msc_arena *arena;
  msc_copies keys, digits;
  stored_answer *answer; /* by number of the key */
};

shard_answers *shard_answers_new(msc_arena *arena) {
  shard_answers *a = msc_new(arena, shard_answers);
  a->arena = a->keys.index.arena = a->digits.index.arena = arena;
  return a;
}

/* The key of an answer, compared as bytes; names are interned. */
typedef struct {
  uint64_t num_vars, num_flows, question, num_axes;
  int64_t ns_per_gib;
  struct {
    const char *name;
    int64_t size;
  } axis[MSC_MAX_AXES];
} answer_key;

static answer_key key_of(const shard_time_search *t, shard_question q, int64_t ns_per_gib) {
  const msc_mesh *mesh = t->g.mesh;
  answer_key k;
  memset(&k, 0, sizeof k);
  k.num_vars = t->m.num_vars, k.num_flows = t->m.num_flows, k.question = q, k.ns_per_gib = ns_per_gib;
  k.num_axes = (uint64_t)mesh->num_axes;
  for (int a = 0; a < mesh->num_axes; a++) k.axis[a].name = mesh->axis[a].name, k.axis[a].size = mesh->axis[a].size;
  return k;
}

/* May answers be remembered? Not with a deadline, since results then depend on the time that is left. */
static bool has_answers(const shard_time_search *t) { return t->answers && !t->keeps_propagated && t->deadline_s <= 0; }

bool shard_recall(shard_time_search *t, shard_question q, int64_t ns_per_gib, shard_answer *out) {
  if (!has_answers(t)) return false;
  answer_key k = key_of(t, q, ns_per_gib);
  uint32_t known = t->answers->keys.index.num, n = msc_copy_of(&t->answers->keys, &k, sizeof k);
  if (n == known) msc_grow(t->answers->arena, t->answers->answer, n);
  const stored_answer *r = &t->answers->answer[n];
  if (!r->digits) return false;
  for (size_t v = 0; v < t->m.num_vars; v++)
    memcpy(&out->digits[v], t->answers->digits.item[r->digits[v]].data, sizeof *out->digits);
  memcpy(out->state, r->state, t->m.num_vars * sizeof *out->state);
  out->cost = r->of.cost, out->bound = r->of.bound, out->leaves_out = r->of.leaves_out;
  return true;
}

void shard_remember(shard_time_search *t, shard_question q, int64_t ns_per_gib, const shard_answer *answer) {
  shard_answers *a = t->answers;
  if (!has_answers(t)) return;
  answer_key k = key_of(t, q, ns_per_gib);
  stored_answer *r = &a->answer[msc_copy_of(&a->keys, &k, sizeof k)];
  r->of = *answer;
  r->digits = msc_new_array(a->arena, uint32_t, t->m.num_vars);
  for (size_t v = 0; v < t->m.num_vars; v++)
    r->digits[v] = msc_copy_of(&a->digits, &answer->digits[v], sizeof *answer->digits);
  r->state = msc_arena_copy(a->arena, answer->state, t->m.num_vars * sizeof *answer->state);
}
