/* symbols.c: hash tables in an arena: names with scopes, and facts about pointers. */
#include <string.h>

#include "ir/text/symbols.h"

/* ---- names ---- */

static uint64_t hash_name(const char *name, size_t num) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < num; i++) h = (h ^ (unsigned char)name[i]) * 1099511628211u;
  return h ^ h >> 32;
}

msc_symbol *msc_symbol_find(const msc_symbols *s, const char *name, size_t num) {
  uint64_t hash = hash_name(name, num);
  msc_symbol *e = s->num_buckets ? s->bucket[hash & (s->num_buckets - 1)] : NULL;
  while (e && (e->hash != hash || e->num != num || memcmp(e->name, name, num) != 0)) e = e->next_in_bucket;
  return e;
}

static void grow_buckets(msc_symbols *s) {
  s->num_buckets = s->num_buckets ? s->num_buckets * 4 : 256;
  s->bucket = msc_new_array(s->arena, msc_symbol *, s->num_buckets);
  for (msc_symbol *e = s->last; e; e = e->before) {
    msc_symbol **b = &s->bucket[e->hash & (s->num_buckets - 1)];
    e->next_in_bucket = *b;
    *b = e;
  }
}

msc_symbol *msc_symbol_add(msc_symbols *s, const char *name, size_t num) {
  if (s->num >= s->num_buckets) grow_buckets(s);
  msc_symbol *e = msc_new(s->arena, msc_symbol);
  e->name = name, e->num = num, e->hash = hash_name(name, num);
  msc_symbol **b = &s->bucket[e->hash & (s->num_buckets - 1)];
  e->next_in_bucket = *b;
  *b = e;
  e->before = s->last;
  s->last = e;
  s->num++;
  return e;
}

void msc_symbols_pop(msc_symbols *s, const msc_symbol *last) {
  for (; s->last != last; s->last = s->last->before, s->num--) {
    msc_symbol **b = &s->bucket[s->last->hash & (s->num_buckets - 1)];
    while (*b != s->last) b = &(*b)->next_in_bucket;
    *b = s->last->next_in_bucket;
  }
}

/* ---- pointers ---- */

static msc_fact *slot_of(const msc_facts *f, const void *key) {
  size_t i = (size_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 20) & (f->room - 1);
  while (f->fact[i].key && f->fact[i].key != key) i = (i + 1) & (f->room - 1);
  return &f->fact[i];
}

msc_fact *msc_fact_find(const msc_facts *f, const void *key) {
  msc_fact *e = f->room ? slot_of(f, key) : NULL;
  return e && e->key ? e : NULL;
}

msc_fact *msc_fact_of(msc_facts *f, const void *key) {
  if (f->num * 2 >= f->room) {
    msc_facts old = *f;
    f->room = old.room ? old.room * 4 : 16;
    f->fact = msc_new_array(f->arena, msc_fact, f->room);
    for (size_t i = 0; i < old.room; i++)
      if (old.fact[i].key) *slot_of(f, old.fact[i].key) = old.fact[i];
  }
  msc_fact *e = slot_of(f, key);
  f->num += !e->key;
  e->key = key;
  return e;
}
