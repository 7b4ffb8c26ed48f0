/* symbols.h: the tables of the IR text reader and writer: names in scopes, and facts about pointers. */
#ifndef MSC_IR_SYMBOLS_H
#define MSC_IR_SYMBOLS_H

#include "ir/ir.h"

/* A name of the text: results of one op under one name, an argument, a function, an unknown op. */
typedef struct msc_symbol {
  const char *name;
  size_t num;
  uint64_t hash;
  msc_value *values;  /* `count` of them side by side; NULL: their definition was faulty and has been reported */
  int64_t count;
  struct msc_symbol *next_in_bucket, *before; /* before: defined before this one, in this scope or outside */
} msc_symbol;

typedef struct {
  msc_arena *arena;
  msc_symbol **bucket;
  size_t num_buckets, num;
  msc_symbol *last;
} msc_symbols;

msc_symbol *msc_symbol_find(const msc_symbols *s, const char *name, size_t num);
msc_symbol *msc_symbol_add(msc_symbols *s, const char *name, size_t num); /* the name must be new */
void msc_symbols_pop(msc_symbols *s, const msc_symbol *last);             /* forgets what was added after `last` */

/* Pointer -> what is known about it. */
typedef struct {
  const void *key, *about;
  const char *text;
  uint32_t number;
} msc_fact;

typedef struct {
  msc_arena *arena;
  msc_fact *fact;
  size_t room, num;
} msc_facts;

msc_fact *msc_fact_find(const msc_facts *f, const void *key);
msc_fact *msc_fact_of(msc_facts *f, const void *key); /* made when new: all zero */

#endif
