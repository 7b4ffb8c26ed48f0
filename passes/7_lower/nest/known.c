/* known.c: finds the place where the answer about an equal region is remembered. Networks repeat their layers: most of
 * what passes ask has been asked before. */
#include <xxhash.h>

#include "ir/alias.h"
#include "passes/7_lower/nest/nester.h"

enum { MAX_WORDS = 8192 };

bool msc_nest_is_used_outside(const msc_nest_region *r, const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    bool inside = false;
    for (size_t i = 0; i < r->num_ops && !inside; i++) inside = r->ops[i] == u->user;
    if (!inside) return true;
  }
  return false;
}

/* The key of a remembered answer: kinds, attributes, types, and which values, and whose memory, are the same. */
typedef struct {
  const msc_nest_region *r;
  size_t num, num_outside;
  const msc_value *outside[MAX_VALUES]; /* values from outside the region, as they are met */
  const msc_value *root[MAX_VALUES];    /* whose memory they lie in */
  bool too_long;
  uint64_t word[MAX_WORDS];
} signature;

static void add_key_word(signature *s, uint64_t word) {
  if (s->num < MAX_WORDS) s->word[s->num++] = word;
  else s->too_long = true;
}

static void add_pointer(signature *s, const void *interned) { add_key_word(s, (uintptr_t)interned); }

/* Adds the number of the first value from outside that lies in the same memory as v. */
static void add_memory(signature *s, const msc_value *v) {
  size_t first = 0;
  const msc_value *root = msc_memory_of(v).root;
  while (first < s->num_outside && s->root[first] != root) first++;
  add_key_word(s, first);
  s->root[s->num_outside] = root;
  s->outside[s->num_outside++] = v;
}

/* Adds a value: as a result of op k of the region, or by the number of a value from outside. */
static void add_value_words(signature *s, const msc_value *v) {
  for (size_t k = 0; v->def && k < s->r->num_ops; k++)
    if (s->r->ops[k] == v->def) {
      add_key_word(s, (uint64_t)(k + 1) << 32 | v->index);
      return;
    }
  size_t i = 0;
  while (i < s->num_outside && s->outside[i] != v) i++;
  if (i == MAX_VALUES) s->too_long = true;
  else if (i == s->num_outside) add_memory(s, v);
  add_key_word(s, i);
  add_pointer(s, v->type);
}

static void add_op_words(signature *s, const msc_op *op) {
  add_key_word(s, (uint64_t)op->kind << 40 | (uint64_t)op->num_in << 20 | op->num_out);
  add_key_word(s, msc_mix_attrs(0, op->attrs, op->num_attrs));
  for (size_t i = 0; i < op->num_in; i++) add_value_words(s, op->in[i].value);
  for (size_t i = 0; i < op->num_out; i++) {
    add_pointer(s, op->out[i].type);
    if (!s->r->out) add_key_word(s, msc_nest_is_used_outside(s->r, &op->out[i]));
  }
}

const void **msc_nest_find_answer(const msc_nester *n, const msc_nest_region *r, uint32_t question) {
  signature s;
  s.r = r, s.num = s.num_outside = 0, s.too_long = false;
  add_key_word(&s, (uint64_t)n->target->bit << 32 | (uint64_t)n->apart_bytes << 16 | (uint64_t)n->vector_bytes);
  add_key_word(&s, (uint64_t)r->num_ops << 2 | (uint64_t)(r->in != NULL) << 1 | (r->out != NULL));
  for (size_t i = 0; r->in && i < r->num_in; i++) add_value_words(&s, r->in[i]);
  for (size_t i = 0; i < r->num_ops; i++) add_op_words(&s, r->ops[i]);
  for (size_t i = 0; r->out && i < r->num_out; i++) add_value_words(&s, r->out[i]);
  if (s.too_long) return NULL;
  XXH128_hash_t digest = XXH3_128bits(s.word, s.num * sizeof *s.word);
  return msc_memo_of(n->ctx, msc_intern_bytes(n->ctx, &digest, sizeof digest), (const void *)(uintptr_t)question);
}
