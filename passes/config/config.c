/* config.c: configuration values by key: stored with their origin, read by passes, written as JSON. */
#include "passes/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "ir/table.h"
#include "passes/config/rows.h"

msc_config *msc_config_new(msc_context *ctx) {
  msc_config *config = msc_new(msc_context_arena(ctx), msc_config);
  config->ctx = ctx;
  return config;
}

/* ---- storing ---- */

/* JSON as an attribute; null is a TYPE attribute without a type.  jansson has bounded the depth. */
static msc_attr_value attr_of(msc_context *ctx, const json_t *json) {
  msc_arena *arena = msc_context_arena(ctx);
  msc_attr_value v = {.kind = MSC_ATTR_TYPE};
  switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE: return msc_bool(json_is_true(json));
    case JSON_INTEGER: return msc_int(json_integer_value(json));
    case JSON_REAL: return msc_float(json_real_value(json));
    case JSON_STRING: return msc_str(ctx, json_string_value(json));
    case JSON_ARRAY: {
      v.kind = MSC_ATTR_LIST;
      v.list.num = json_array_size(json);
      msc_attr_value *items = msc_new_array(arena, msc_attr_value, v.list.num);
      for (size_t i = 0; i < v.list.num; i++) items[i] = attr_of(ctx, json_array_get(json, i));
      v.list.v = items;
      return v;
    }
    case JSON_OBJECT: {
      v.kind = MSC_ATTR_DICT;
      msc_attr *items = msc_new_array(arena, msc_attr, json_object_size(json));
      const char *name;
      json_t *item;
      json_object_foreach((json_t *)(uintptr_t)json, name, item) items[v.dict.num++] =
          msc_named(ctx, name, attr_of(ctx, item));
      v.dict.a = items;
      return v;
    }
    default: return v;
  }
}

static bool report_unknown_key(msc_config *config, const char *name, const msc_loc *loc) {
  const char *names[MSC_NUM_KEYS];
  for (int i = 0; i < MSC_NUM_KEYS; i++) names[i] = msc_config_rows[i].name;
  const char *near = msc_nearest(name, names, MSC_NUM_KEYS);
  if (near) return msc_error(config->ctx, MSC_E_CONFIG, loc, "unknown key '%s'; did you mean '%s'?", name, near);
  return msc_error(config->ctx, MSC_E_CONFIG, loc, "unknown key '%s'; `msc config` lists all keys", name);
}

static int find_key(const char *name) {
  for (int i = 0; i < MSC_NUM_KEYS; i++)
    if (!strcmp(msc_config_rows[i].name, name)) return i;
  return -1;
}

static bool store_value(msc_config *config, const char *name, const json_t *json, msc_origin origin,
                        const msc_loc *loc) {
  if (!strcmp(name, "auto_parallel_search_mode")) {
    msc_warning(config->ctx, MSC_E_CONFIG, loc, "'%s' is the old name of 'search_mode'", name);
    name = "search_mode";
  }
  int key = find_key(name);
  if (key < 0) return report_unknown_key(config, name, loc);
  MSC_TRY(msc_config_check_value(config->ctx, loc, (msc_key)key, json));
  msc_config_slot *slot = &config->slot[key];
  if (slot->origin > origin) return true;
  slot->origin = origin;
  slot->loc = loc;
  slot->value = NULL;
  if (json_is_null(json)) return true;
  msc_attr_value *value = msc_new(msc_context_arena(config->ctx), msc_attr_value);
  *value = attr_of(config->ctx, json);
  int64_t bytes;
  if (msc_config_rows[key].type == MSC_CONFIG_BYTES && json_is_string(json) &&
      msc_bytes_of_text(json_string_value(json), &bytes))
    *value = msc_int(bytes);
  slot->value = value;
  return true;
}

bool msc_config_put(msc_config *config, const char *name, const json_t *json, msc_origin origin, const msc_loc *loc) {
  if (store_value(config, name, json, origin, loc)) return true;
  config->has_bad = true;
  return false;
}

const msc_config *msc_config_with(const msc_config *config, msc_key key, const msc_attr_value *of_model) {
  if (msc_config_is_set(config, key)) return config;
  msc_arena *arena = msc_context_arena(config->ctx);
  msc_config *with = msc_new(arena, msc_config);
  msc_attr_value *value = msc_new(arena, msc_attr_value);
  *with = *config;
  *value = *of_model;
  with->slot[key] = (msc_config_slot){.value = value, .origin = MSC_ORIGIN_MODEL};
  return with;
}

/* The axis dp of the key `mesh`; NULL: it has none, or there is no mesh. */
static const msc_attr *elastic_axis(const msc_config *config) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_mesh);
  for (size_t i = 0; v && i < v->dict.num; i++)
    if (!strcmp(v->dict.a[i].name, "dp")) return &v->dict.a[i];
  return NULL;
}

int64_t msc_config_elastic_size(const msc_config *config) {
  const msc_attr *axis = elastic_axis(config);
  return axis ? axis->value.i : msc_config_value(config, MSC_KEY_mesh) ? 1 : msc_config_devices(config);
}

static void put_resized(msc_config *config, msc_key key, const msc_attr_value *value) {
  msc_attr_value *own = msc_new(msc_context_arena(config->ctx), msc_attr_value);
  *own = *value;
  config->slot[key].value = own;
}

const msc_config *msc_config_resized(const msc_config *config, int64_t size) {
  msc_arena *arena = msc_context_arena(config->ctx);
  const msc_attr *axis = elastic_axis(config);
  msc_config *resized = msc_new(arena, msc_config);
  *resized = *config;
  msc_attr_value ranks =
      msc_int(msc_config_int(config, MSC_KEY_device_num) / msc_config_elastic_size(config) * size);
  put_resized(resized, MSC_KEY_device_num, &ranks);
  resized->slot[MSC_KEY_elastic] = (msc_config_slot){0};
  if (!axis) return resized;
  msc_attr_value mesh = *msc_config_value(config, MSC_KEY_mesh);
  msc_attr *a = msc_arena_copy(arena, mesh.dict.a, mesh.dict.num * sizeof *a);
  a[axis - mesh.dict.a].value = msc_int(size);
  mesh.dict.a = a;
  put_resized(resized, MSC_KEY_mesh, &mesh);
  return resized;
}

static const msc_loc *loc_of_assignment(msc_context *ctx, const char *assignment) {
  char text[80];
  snprintf(text, sizeof text, "--set %.*s", (int)strcspn(assignment, "="), assignment);
  msc_loc loc = {.file = msc_intern(ctx, text)};
  return msc_loc_of(ctx, &loc);
}

typedef struct {
  msc_config *config;
  const char *name;
  const json_t *json;
  const msc_loc *loc;
} put_args;

static bool put_protected(msc_context *ctx, void *arg) {
  (void)ctx;
  put_args *a = arg;
  return msc_config_put(a->config, a->name, a->json, MSC_ORIGIN_COMMAND_LINE, a->loc);
}

bool msc_config_set(msc_config *config, const char *assignment) {
  msc_context *ctx = config->ctx;
  const msc_loc *loc = loc_of_assignment(ctx, assignment);
  const char *equals = strchr(assignment, '=');
  config->has_bad |= !equals;
  if (!equals) return msc_error(ctx, MSC_E_CONFIG, loc, "expected key=value, not '%s'", assignment);
  const char *name = msc_intern_n(ctx, assignment, (size_t)(equals - assignment));
  int key = find_key(name);
  json_t *json = NULL;
  json_error_t error;
  if (key < 0 || msc_config_rows[key].type != MSC_CONFIG_TEXT || equals[1] == '"' || !strcmp(equals + 1, "null"))
    json = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
  bool is_broken =
      !json && (equals[1] == '{' || equals[1] == '[') && (key < 0 || msc_config_rows[key].type != MSC_CONFIG_TEXT);
  config->has_bad |= is_broken;
  if (is_broken) return msc_error(ctx, MSC_E_CONFIG, loc, "%s: %s", name, error.text);
  if (!json) json = json_string(equals + 1); /* a bare word */
  config->has_bad |= !json;
  if (!json) return msc_error(ctx, MSC_E_CONFIG, loc, "the value is not UTF-8 text");
  put_args a = {config, name, json, loc};
  bool ok = msc_protect(ctx, put_protected, &a); /* json is not the arena's: it must be freed in any case */
  json_decref(json);
  return ok;
}

bool msc_config_env(msc_config *config, const char *name, const char *text) {
  if (!strcmp(name, "MSC_VECTOR_BYTES")) {
    config->vector_bytes = !strcmp(text, "16") ? 16 : !strcmp(text, "32") ? 32 : !strcmp(text, "64") ? 64 : 0;
    return config->vector_bytes ||
           msc_error(config->ctx, MSC_E_CONFIG, NULL,
                     "environment variable MSC_VECTOR_BYTES must be 16, 32 or 64, not '%s'", text);
  }
  if (strcmp(name, "MSC_DEBUG")) return true;
  if (text[0] >= '0' && text[0] <= '5' && !text[1]) {
    config->debug = text[0] - '0';
    return true;
  }
  return msc_error(config->ctx, MSC_E_CONFIG, NULL, "environment variable MSC_DEBUG must be 0 to 5, not '%s'", text);
}

/* ---- reading ---- */

const msc_attr_value *msc_config_value(const msc_config *config, msc_key key) {
  return config ? config->slot[key].value : NULL;
}

bool msc_config_is_set(const msc_config *config, msc_key key) {
  return config && config->slot[key].origin != MSC_ORIGIN_DEFAULT;
}

const msc_loc *msc_config_loc(const msc_config *config, msc_key key) { return config ? config->slot[key].loc : NULL; }

int msc_config_debug(const msc_config *config) { return config ? config->debug : 0; }

int msc_config_vector_bytes(const msc_config *config) { return config ? config->vector_bytes : 0; }

bool msc_config_bool(const msc_config *config, msc_key key) {
  const msc_attr_value *v = msc_config_value(config, key);
  if (v) return v->b;
  if (key == MSC_KEY_strict_parameter_layout) return msc_config_parallel_mode(config) == MSC_SEMI_AUTO_PARALLEL;
  return !strcmp(msc_config_rows[key].fallback, "true");
}

int64_t msc_config_int(const msc_config *config, msc_key key) {
  const msc_attr_value *v = msc_config_value(config, key);
  if (v) return v->kind == MSC_ATTR_INT ? v->i : -1;
  const char *fallback = msc_config_rows[key].fallback;
  return strcmp(fallback, "null") ? strtoll(fallback, NULL, 10) : -1;
}

int64_t msc_config_devices(const msc_config *config) {
  return msc_config_int(config, MSC_KEY_device_num) / msc_config_int(config, MSC_KEY_pipeline_stages);
}

const char *msc_config_text(const msc_config *config, msc_key key) {
  const msc_attr_value *v = msc_config_value(config, key);
  if (v) return v->kind == MSC_ATTR_STR ? v->s : NULL;
  const char *fallback = msc_config_rows[key].fallback;
  return strcmp(fallback, "null") ? fallback : NULL;
}

int msc_config_choice(const msc_config *config, msc_key key) {
  const char *word = msc_config_text(config, key), *p = msc_config_rows[key].range;
  size_t n = strlen(word);
  for (int i = 0;; i++) {
    if (!strncmp(p, word, n) && (p[n] == '|' || !p[n])) return i;
    p = strchr(p, '|');
    if (!p++) return -1; /* cannot be: the value was checked */
  }
}

bool msc_config_mesh(const msc_config *config, msc_context *ctx, msc_mesh *out_mesh) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_mesh);
  if (!v) return false;
  *out_mesh = (msc_mesh){.num_axes = (int)v->dict.num};
  for (size_t i = 0; i < v->dict.num; i++)
    out_mesh->axis[i] = (msc_axis){msc_intern(ctx, v->dict.a[i].name), v->dict.a[i].value.i};
  return true;
}

msc_mesh msc_config_hybrid_mesh(const msc_config *config, msc_context *ctx) {
  msc_mesh mesh = {.num_axes = 1, .axis = {{msc_intern(ctx, "d"), msc_config_devices(config)}}};
  msc_config_mesh(config, ctx, &mesh);
  return mesh;
}

msc_input_mode msc_config_input_mode(const msc_config *config) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_dataset_strategy);
  if (v && v->kind == MSC_ATTR_LIST) return MSC_INPUT_TUPLES;
  bool whole = v ? !strcmp(v->s, "full_batch") : msc_config_bool(config, MSC_KEY_full_batch);
  return whole ? MSC_INPUT_FULL_BATCH : MSC_INPUT_DATA_PARALLEL;
}

bool msc_config_cuts_batch(const msc_config *config) {
  bool said = msc_config_value(config, MSC_KEY_dataset_strategy) || msc_config_value(config, MSC_KEY_full_batch);
  return said && msc_config_input_mode(config) == MSC_INPUT_DATA_PARALLEL;
}

/* The member of a dictionary key; NULL: it was not given. */
static const msc_attr_value *find_detail(const msc_config *config, msc_key key, const char *name) {
  const msc_attr_value *v = msc_config_value(config, key);
  for (size_t i = 0; v && i < v->dict.num; i++)
    if (!strcmp(v->dict.a[i].name, name)) return &v->dict.a[i].value;
  return NULL;
}

static double number_or(const msc_attr_value *v, double fallback) {
  return !v ? fallback : v->kind == MSC_ATTR_INT ? (double)v->i : v->f;
}

msc_loss_scale msc_config_loss_scale(const msc_config *config) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_loss_scale);
  if (!v || v->kind != MSC_ATTR_STR) return (msc_loss_scale){.scale = number_or(v, 1)};
  const msc_attr_value *window = find_detail(config, MSC_KEY_loss_scale_config, "window");
  return (msc_loss_scale){true, number_or(find_detail(config, MSC_KEY_loss_scale_config, "init"), 65536),
                          number_or(find_detail(config, MSC_KEY_loss_scale_config, "factor"), 2),
                          window ? window->i : 2000};
}

const char *msc_config_offload(const msc_config *config, const char *kind) {
  const msc_attr_value *v = find_detail(config, MSC_KEY_offload, kind);
  return v ? v->s : NULL;
}

bool msc_config_updates_on_host(const msc_config *config) {
  return config && find_detail(config, MSC_KEY_offload, "update");
}

msc_servers msc_config_servers(const msc_config *config) {
  msc_key key = MSC_KEY_parameter_server;
  if (!config || !msc_config_value(config, key)) return (msc_servers){.sync = true, .copies = 1};
  const msc_attr_value *mode = find_detail(config, key, "mode"), *staleness = find_detail(config, key, "staleness"),
                       *copies = find_detail(config, key, "replication");
  bool sync = !mode || !strcmp(mode->s, "sync");
  return (msc_servers){true, sync, staleness ? staleness->i : sync ? 0 : -1, copies ? (int)copies->i : 1};
}

int64_t msc_config_zero(const msc_config *config) {
  const msc_attr_value *shard = find_detail(config, MSC_KEY_parallel_optimizer_config, "gradient_accumulation_shard");
  int64_t stage = msc_config_int(config, MSC_KEY_zero);
  if (stage > 0 || !msc_config_bool(config, MSC_KEY_enable_parallel_optimizer)) return stage;
  return shard && shard->b ? 2 : 1;
}

int64_t msc_config_optimizer_threshold(const msc_config *config) {
  const msc_attr_value *v = find_detail(config, MSC_KEY_parallel_optimizer_config, "parallel_optimizer_threshold");
  return v ? v->i : 64;
}

int msc_config_input_parts(const msc_config *config, size_t input, int64_t out_parts[MSC_MAX_RANK]) {
  const msc_attr_value *v = msc_config_value(config, MSC_KEY_dataset_strategy);
  if (!v || v->kind != MSC_ATTR_LIST || input >= v->list.num) return -1;
  const msc_attr_value *tuple = &v->list.v[input];
  for (size_t i = 0; i < tuple->list.num; i++) out_parts[i] = tuple->list.v[i].i;
  return (int)tuple->list.num;
}

/* ---- JSON out ---- */

typedef struct {
  msc_arena *arena;
  char *data;
  size_t size, room;
} text_buffer;

static void append_bytes(text_buffer *b, const char *data, size_t n) {
  msc_reserve(b->arena, b->data, b->room, b->size + n + 1);
  memcpy(b->data + b->size, data, n);
  b->size += n;
  b->data[b->size] = 0;
}

static void append_text(text_buffer *b, const char *text) { append_bytes(b, text, strlen(text)); }

static void append_string(text_buffer *b, const char *text) {
  append_text(b, "\"");
  for (const char *p = text; *p; p++) {
    char escaped[8];
    if (*p == '"' || *p == '\\')
      snprintf(escaped, sizeof escaped, "\\%c", *p);
    else if ((unsigned char)*p < 0x20)
      snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*p);
    else
      snprintf(escaped, sizeof escaped, "%c", *p);
    append_text(b, escaped);
  }
  append_text(b, "\"");
}

/* Appends the shortest digits that read back as the same number. */
static void append_float(text_buffer *b, double v) {
  char digits[40];
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, v);
    if (strtod(digits, NULL) == v) break;
  }
  append_text(b, digits);
  if (!strpbrk(digits, ".e")) append_text(b, ".0");
}

static void append_value(text_buffer *b, const msc_attr_value *v) {
  char digits[24];
  switch (v->kind) {
    case MSC_ATTR_BOOL: append_text(b, v->b ? "true" : "false"); break;
    case MSC_ATTR_INT:
      snprintf(digits, sizeof digits, "%" PRId64, v->i);
      append_text(b, digits);
      break;
    case MSC_ATTR_FLOAT: append_float(b, v->f); break;
    case MSC_ATTR_STR: append_string(b, v->s); break;
    case MSC_ATTR_LIST:
      append_text(b, "[");
      for (size_t i = 0; i < v->list.num; i++) {
        if (i) append_text(b, ",");
        append_value(b, &v->list.v[i]);
      }
      append_text(b, "]");
      break;
    case MSC_ATTR_DICT:
      append_text(b, "{");
      for (size_t i = 0; i < v->dict.num; i++) {
        if (i) append_text(b, ",");
        append_string(b, v->dict.a[i].name);
        append_text(b, ":");
        append_value(b, &v->dict.a[i].value);
      }
      append_text(b, "}");
      break;
    default: append_text(b, "null");
  }
}

static void append_effective(text_buffer *b, const msc_config *config, msc_key key) {
  const msc_attr_value *v = msc_config_value(config, key);
  const msc_config_row *row = &msc_config_rows[key];
  if (v) append_value(b, v);
  else if (key == MSC_KEY_strict_parameter_layout) append_text(b, msc_config_bool(config, key) ? "true" : "false");
  else if (row->type == MSC_CONFIG_CHOICE) append_string(b, msc_config_text(config, key));
  else append_text(b, row->fallback);
}

const char *msc_config_value_text(const msc_config *config, msc_key key, msc_arena *arena) {
  text_buffer b = {arena, NULL, 0, 0};
  append_effective(&b, config, key);
  return b.data;
}

const char *msc_config_origin_text(const msc_config *config, msc_key key, msc_arena *arena) {
  if (!msc_config_is_set(config, key)) return "default";
  const msc_config_slot *slot = &config->slot[key];
  if (slot->origin == MSC_ORIGIN_COMMAND_LINE) return "command line";
  if (slot->origin == MSC_ORIGIN_MODEL) return "model";
  return msc_arena_printf(arena, "%s:%u", slot->loc->file, slot->loc->line);
}

static void append_key(text_buffer *b, const msc_config *config, msc_key key, const char *origin) {
  if (key) append_text(b, ",");
  append_string(b, msc_config_rows[key].name);
  append_text(b, ":{\"value\":");
  append_effective(b, config, key);
  append_text(b, ",\"from\":");
  append_string(b, origin);
  append_text(b, "}");
}

const char *msc_config_json(const msc_config *config, msc_arena *arena) {
  text_buffer b = {arena, NULL, 0, 0};
  append_text(&b, "{");
  for (int key = 0; key < MSC_NUM_KEYS; key++)
    append_key(&b, config, (msc_key)key, msc_config_origin_text(config, (msc_key)key, arena));
  append_text(&b, "}");
  return b.data;
}

const char *msc_config_of_plan(const msc_config *config, msc_arena *arena) {
  msc_config plain = *config;
  plain.slot[MSC_KEY_strategy_ckpt_save_file] = plain.slot[MSC_KEY_strategy_ckpt_load_file] = (msc_config_slot){0};
  return msc_config_json(&plain, arena);
}
