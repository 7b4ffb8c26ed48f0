/* rows.h: what the files behind config.h share. */
#ifndef MSC_PASSES_CONFIG_ROWS_H
#define MSC_PASSES_CONFIG_ROWS_H

#include <jansson.h>

#include "passes/config/config.h"

typedef enum {
  MSC_CONFIG_BOOL,
  MSC_CONFIG_INT,
  MSC_CONFIG_BYTES,
  MSC_CONFIG_NUMBER,
  MSC_CONFIG_CHOICE,
  MSC_CONFIG_TEXT,
  MSC_CONFIG_INTS,
  MSC_CONFIG_MESH,
  MSC_CONFIG_STRATEGY,
  MSC_CONFIG_FUSION,
  MSC_CONFIG_DICT
} msc_config_type;

typedef struct {
  const char *name;
  msc_config_type type;
  const char *range, *fallback, *supported, *meaning;
} msc_config_row;

extern const msc_config_row msc_config_rows[MSC_NUM_KEYS];

typedef struct {
  const msc_attr_value *value; /* NULL: the default */
  msc_origin origin;
  const msc_loc *loc;
} msc_config_slot;

struct msc_config {
  msc_context *ctx;
  msc_config_slot slot[MSC_NUM_KEYS];
  int debug, vector_bytes;
  bool has_bad; /* a value was rejected: what concerns several keys cannot be judged */
};

/* config.c: checks type and range, then stores unless somebody stronger has set it.  null takes a value back. */
bool msc_config_put(msc_config *config, const char *name, const json_t *json, msc_origin origin, const msc_loc *loc);

/* config/value.c */
bool msc_config_check_value(msc_context *ctx, const msc_loc *loc, msc_key key, const json_t *json);
/* Is `json` one of the alternatives "1..4|auto"? */
bool msc_config_in_range(const char *range, const json_t *json);
/* "1..4096|auto" for people: "a whole number from 1 to 4096 or auto" when `kind` is "a whole number". */
const char *msc_config_range_text(msc_arena *arena, const char *kind, const char *range);

#endif
