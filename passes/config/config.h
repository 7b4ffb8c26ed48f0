/* config.h: the configuration: keys of config.def with their values and where each came from.
 *
 *   msc_config *config = msc_config_new(ctx);
 *   msc_config_read(config, "c.json", text, bytes);    // file
 *   msc_config_set(config, "device_num=8");            // command line: wins over the file
 *   if (!msc_config_check(config)) ...                 // all errors of all three are in the context's diagnostics
 *   int64_t ranks = msc_config_int(config, MSC_KEY_device_num);
 *
 * Getters take NULL for "every key has its default". */
#ifndef MSC_PASSES_CONFIG_H
#define MSC_PASSES_CONFIG_H

#include "ir/ir.h"

typedef struct msc_config msc_config;

typedef enum {
#define KEY(name, type, range, fallback, supported, meaning) MSC_KEY_##name,
#include "passes/config/config.def"
#undef KEY
  MSC_NUM_KEYS
} msc_key;

typedef enum {
  MSC_STAND_ALONE,
  MSC_DATA_PARALLEL,
  MSC_HYBRID_PARALLEL,
  MSC_SEMI_AUTO_PARALLEL,
  MSC_AUTO_PARALLEL
} msc_parallel_mode;
typedef enum { MSC_DYNAMIC_PROGRAMMING, MSC_RECURSIVE_PROGRAMMING, MSC_SHARDING_PROPAGATION } msc_search_mode;
typedef enum { MSC_INPUT_DATA_PARALLEL, MSC_INPUT_FULL_BATCH, MSC_INPUT_TUPLES } msc_input_mode;

/* Who gave a value; a later one wins. */
typedef enum {
  MSC_ORIGIN_DEFAULT,
  MSC_ORIGIN_MODEL,
  MSC_ORIGIN_FILE,
  MSC_ORIGIN_ENVIRONMENT,
  MSC_ORIGIN_COMMAND_LINE
} msc_origin;

/* ---- value.c ---- */

/* Reads a number of bytes as people write it: 4096, 64k, 2M, 1.5G, 1TiB; false: the text is none, or not whole. */
bool msc_bytes_of_text(const char *text, int64_t *out_bytes);

/* ---- config.c ---- */

msc_config *msc_config_new(msc_context *ctx);
/* Sets a key by the text of a command line, "key=value": the value in JSON, or a bare word. */
bool msc_config_set(msc_config *config, const char *assignment);
/* A row of env.def and its value. */
bool msc_config_env(msc_config *config, const char *name, const char *text);

/* The configuration with a value that the model gives a key; the configuration itself where somebody else has set the
 * key. */
const msc_config *msc_config_with(const msc_config *config, msc_key key, const msc_attr_value *of_model);

bool msc_config_bool(const msc_config *config, msc_key key);
int64_t msc_config_int(const msc_config *config, msc_key key);     /* -1: absent */
int64_t msc_config_devices(const msc_config *config); /* of one pipeline stage */
const char *msc_config_text(const msc_config *config, msc_key key); /* CHOICE and TEXT; NULL: absent */
int msc_config_choice(const msc_config *config, msc_key key);      /* CHOICE: which word of its range */
/* NULL: absent or default; dicts in file order */
const msc_attr_value *msc_config_value(const msc_config *config, msc_key key);
bool msc_config_is_set(const msc_config *config, msc_key key);     /* by somebody, not by default */
const msc_loc *msc_config_loc(const msc_config *config, msc_key key); /* where it was set; NULL by default */
int msc_config_debug(const msc_config *config);                    /* MSC_DEBUG, 0 by default */
int msc_config_vector_bytes(const msc_config *config);             /* MSC_VECTOR_BYTES, 0 by default */

static inline msc_parallel_mode msc_config_parallel_mode(const msc_config *c) {
  return (msc_parallel_mode)msc_config_choice(c, MSC_KEY_parallel_mode);
}
static inline msc_search_mode msc_config_search_mode(const msc_config *c) {
  return (msc_search_mode)msc_config_choice(c, MSC_KEY_search_mode);
}
/* The key `mesh`; false: absent. */
bool msc_config_mesh(const msc_config *config, msc_context *ctx, msc_mesh *out_mesh);
/* The mesh of a stage in hybrid_parallel: the key `mesh`, else one axis, d, of all its ranks. */
msc_mesh msc_config_hybrid_mesh(const msc_config *config, msc_context *ctx);
/* full_batch and dataset_strategy together. */
msc_input_mode msc_config_input_mode(const msc_config *config);
/* True if a key says that every rank is given its part of the batch. Else the first user of an input decides how the
 * input is cut. */
bool msc_config_cuts_batch(const msc_config *config);
/* Parts per dimension of input number `input`; returns how many dimensions, -1: the tuples end before it. */
int msc_config_input_parts(const msc_config *config, size_t input, int64_t out_parts[MSC_MAX_RANK]);

/* The size of the data-parallel axis, which the key elastic lets shrink. */
int64_t msc_config_elastic_size(const msc_config *config);
/* Returns the configuration with an axis of that size instead; it is not elastic. */
const msc_config *msc_config_resized(const msc_config *config, int64_t size);

/* Where values of a kind of the key offload live: "cpu" or "disk"; NULL: on the device. */
const char *msc_config_offload(const msc_config *config, const char *kind);
/* True if the host of a device runs the updates of state that lives in its memory. */
bool msc_config_updates_on_host(const msc_config *config);

/* Stage of the parallel optimizer, 0: off; from zero, enable_parallel_optimizer and gradient_accumulation_shard. */
int64_t msc_config_zero(const msc_config *config);
/* The threshold of parallel_optimizer_config: parameters of so many KB or less, all of their parts together, stay
 * whole. */
int64_t msc_config_optimizer_threshold(const msc_config *config);

/* loss_scale and loss_scale_config together.  dynamic: it starts as `scale`, grows by `factor` after
 * `window` finite steps. */
typedef struct {
  bool dynamic;
  double scale, factor;
  int64_t window;
} msc_loss_scale;
msc_loss_scale msc_config_loss_scale(const msc_config *config);

/* The key parameter_server. */
typedef struct {
  bool asked, sync;
  int64_t staleness; /* not sync: how many steps a worker may be ahead of the slowest; -1: no bound */
  int copies;        /* of each server */
} msc_servers;
msc_servers msc_config_servers(const msc_config *config);

/* Effective values: {"device_num":{"value":8,"from":"c.json:2"}, ...}, every key in the order of config.def. */
const char *msc_config_json(const msc_config *config, msc_arena *arena);
/* The configuration as a plan records it, which is the same whether strategies were searched for, written to a file or
 * read from it. */
const char *msc_config_of_plan(const msc_config *config, msc_arena *arena);
const char *msc_config_value_text(const msc_config *config, msc_key key, msc_arena *arena); /* JSON */
const char *msc_config_origin_text(const msc_config *config, msc_key key, msc_arena *arena);
const char *msc_key_name(msc_key key);
const char *msc_key_meaning(msc_key key);
const char *msc_key_values(msc_key key, msc_arena *arena); /* those that are legal: "true or false" */
/* The words that a key may be, separated by |; NULL: it is no choice. */
const char *msc_key_words(msc_key key);

/* ---- config/read.c ---- */

/* JSON with // comments and trailing commas; `name` is the file name for messages.  Reports every bad key. */
bool msc_config_read(msc_config *config, const char *name, const char *text, size_t bytes);

/* ---- config/check.c ---- */

/* What concerns several keys, and what this version cannot do.  Call once, after all sources. */
bool msc_config_check(msc_config *config);

#endif
