/* symbols.h: the names that the reader of IR text knows, in scopes. */
#ifndef MSC_IR_SYMBOLS_H
#define MSC_IR_SYMBOLS_H

#include "ir/table.h"

/* A name of the text: results of one op under one name, an argument, a function, an unknown op. */
typedef struct {
  const char *name;
  size_t num;
  uint64_t hash;
  msc_value *values;  /* `count` of them side by side; NULL: their definition was faulty and has been reported */
  int64_t count;
} msc_symbol;

typedef struct {
  msc_index index;
  msc_symbol **symbol; /* in the order in which they were added */
  uint32_t room;
} msc_symbols;

msc_symbol *msc_symbol_find(const msc_symbols *s, const char *name, size_t num);
msc_symbol *msc_symbol_add(msc_symbols *s, const char *name, size_t num); /* the name must be new */
void msc_symbols_pop(msc_symbols *s, uint32_t num); /* forgets what was added when there were `num` */

#endif
