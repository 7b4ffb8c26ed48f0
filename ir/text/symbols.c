/* symbols.c: names in; the values that they have in the innermost scope out. */
#include "ir/text/symbols.h"

#include <xxhash.h>

msc_symbol *msc_symbol_find(const msc_symbols *s, const char *name, size_t num) {
  MSC_INDEX_EACH(&s->index, XXH3_64bits(name, num), i)
  if (s->symbol[i]->num == num && !memcmp(s->symbol[i]->name, name, num)) return s->symbol[i];
  return NULL;
}

msc_symbol *msc_symbol_add(msc_symbols *s, const char *name, size_t num) {
  msc_symbol *e = msc_new(s->index.arena, msc_symbol);
  e->name = name, e->num = num, e->hash = XXH3_64bits(name, num);
  msc_reserve(s->index.arena, s->symbol, s->room, s->index.num + 1);
  s->symbol[s->index.num] = e;
  msc_index_add(&s->index, e->hash, s->index.num);
  return e;
}

void msc_symbols_pop(msc_symbols *s, uint32_t num) {
  while (s->index.num > num) msc_index_remove(&s->index, s->symbol[s->index.num - 1]->hash, s->index.num - 1);
}
