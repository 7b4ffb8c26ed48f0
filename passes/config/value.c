/* value.c: one value in; is it legal for its key, and if not, what would be. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/config/rows.h"

/* Reports a bad value: "KEY: must be ..., not VALUE". */
typedef struct {
  msc_context *ctx;
  const msc_loc *loc;
  const char *key; /* with the way into it: comm_fusion.allreduce.mode */
  bool ok;
} checker;

static void report_bad_value(checker *c, const char *expected, const json_t *json) {
  char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
  bool is_long = text && strlen(text) > 60;
  msc_error(c->ctx, MSC_E_CONFIG, c->loc, "%s: must be %s, not %.60s%s", c->key, expected, text ? text : "that",
            is_long ? "..." : "");
  free(text);
  c->ok = false;
}

static checker checker_of_field(checker *c, const char *name) {
  return (checker){c->ctx, c->loc, msc_arena_printf(msc_context_arena(c->ctx), "%s.%s", c->key, name), true};
}

/* ---- sizes ---- */

bool msc_bytes_of_text(const char *text, int64_t *out_bytes) {
  static const char units[] = "kmgt";
  char *end;
  double v = strtod(text, &end);
  if (end == text || !isfinite(v) || v < 0) return false;
  const char *unit = *end ? strchr(units, *end | 32) : NULL;
  if (unit) {
    v *= (double)(INT64_C(1) << (10 * (unit - units + 1)));
    end++;
    if (*end == 'i' && end[1] == 'B') end += 2;
  }
  if (*end || v >= 9.2e18 || v != floor(v)) return false;
  *out_bytes = (int64_t)v;
  return true;
}

/* ---- ranges ---- */

static bool in_interval(const char *alternative, size_t n, double v) {
  const char *dots = strstr(alternative, "..");
  if (!dots || dots >= alternative + n) {
    char *end;
    double only = strtod(alternative, &end);
    return end == alternative + n && v == only;
  }
  double low = dots > alternative ? strtod(alternative, NULL) : v;
  double high = dots + 2 < alternative + n ? strtod(dots + 2, NULL) : v;
  return low <= v && v <= high;
}

static bool fits_alternative(const char *alternative, size_t n, const json_t *json) {
  if (json_is_number(json)) return in_interval(alternative, n, json_number_value(json));
  const char *word = json_is_string(json) ? json_string_value(json)
                     : json_is_true(json) ? "true" : json_is_false(json) ? "false" : json_is_null(json) ? "null" : "";
  return n == strlen(word) && !memcmp(alternative, word, n);
}

bool msc_config_in_range(const char *range, const json_t *json) {
  if (!*range) return true;
  for (const char *p = range; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
    if (fits_alternative(p, strcspn(p, "|"), json)) return true;
  return false;
}

const char *msc_config_range_text(msc_arena *arena, const char *kind, const char *range) {
  const char *text = "";
  if (!*range) return kind;
  for (const char *p = range; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL) {
    int n = (int)strcspn(p, "|");
    const char *dots = strstr(p, ".."), *between = !*text ? "" : strchr(p, '|') ? ", " : " or ";
    if (!dots || dots >= p + n)
      text = msc_arena_printf(arena, "%s%s%.*s", text, between, n, p);
    else if (dots + 2 < p + n)
      text = msc_arena_printf(arena, "%s%s%s from %.*s to %.*s", text, between, kind, (int)(dots - p), p,
                              (int)(p + n - dots) - 2, dots + 2);
    else
      text = msc_arena_printf(arena, "%s%s%s, at least %.*s", text, between, kind, (int)(dots - p), p);
  }
  return text;
}

/* Keys of comm_fusion: of each verb that may be of several values, then openstate.  Returns how many. */
static size_t fusion_keys(const char *out_key[MSC_NUM_VERBS + 1]) {
  size_t num = 0;
  for (msc_verb v = 0; v < MSC_NUM_VERBS; v++)
    if (msc_verb_fuses(v)) out_key[num++] = msc_verb_row_of(v)->fusion;
  out_key[num++] = "openstate";
  return num;
}

/* Describes the legal values of a key or field, for messages and `msc config`. */
static const char *describe_legal(msc_arena *arena, msc_config_type type, const char *range) {
  switch (type) {
    case MSC_CONFIG_BOOL: return "true or false";
    case MSC_CONFIG_INT: return msc_config_range_text(arena, "a whole number", range);
    case MSC_CONFIG_BYTES:
      return msc_arena_printf(arena, "%s, or a text such as 64k, 2M or 1G",
                              msc_config_range_text(arena, "a whole number of bytes", range));
    case MSC_CONFIG_NUMBER: return msc_config_range_text(arena, "a number", range);
    case MSC_CONFIG_CHOICE: return msc_config_range_text(arena, "", range);
    case MSC_CONFIG_TEXT: return "a text";
    case MSC_CONFIG_INTS: return "a list of whole numbers, each larger than the one before, such as [20, 35]";
    case MSC_CONFIG_MESH: return "1 to 8 axes with their sizes, such as {\"dp\": 2, \"tp\": 4}";
    case MSC_CONFIG_STRATEGY: return "data_parallel, full_batch or one list of parts per input, such as [[8, 1], [8]]";
    case MSC_CONFIG_FUSION: {
      const char *key[MSC_NUM_VERBS + 1], *text = "an object with the keys ";
      size_t num = fusion_keys(key);
      for (size_t i = 0; i < num; i++)
        text = msc_arena_printf(arena, "%s%s%s", text, key[i], i + 2 < num ? ", " : i + 2 == num ? " or " : "");
      return text;
    }
    default: return "an object";
  }
}

static void check_choice(checker *c, const char *range, const json_t *json) {
  const char *words[16];
  size_t num = 0;
  for (const char *p = range; p && num < 16; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
    words[num++] = msc_intern_n(c->ctx, p, strcspn(p, "|"));
  const char *word = json_is_string(json) ? json_string_value(json) : "",
             *near = *word ? msc_nearest(word, words, num) : NULL;
  for (size_t i = 0; i < num && !near && *word; i++)
    if (!strncmp(words[i], word, strlen(word))) near = words[i];
  const char *all = describe_legal(msc_context_arena(c->ctx), MSC_CONFIG_CHOICE, range);
  if (near) all = msc_arena_printf(msc_context_arena(c->ctx), "%s (did you mean %s?)", all, near);
  if (!json_is_string(json) || !msc_config_in_range(range, json)) report_bad_value(c, all, json);
}

static bool is_bytes(const char *range, const json_t *json) {
  int64_t bytes;
  if (!json_is_string(json)) return json_is_integer(json) && msc_config_in_range(range, json);
  return msc_bytes_of_text(json_string_value(json), &bytes) && in_interval(range, strlen(range), (double)bytes);
}

static void check_scalar(checker *c, msc_config_type type, const char *range, const json_t *json) {
  bool ok = true, no_number = json_is_boolean(json) || json_is_null(json);
  if (type == MSC_CONFIG_BOOL) ok = json_is_boolean(json);
  if (type == MSC_CONFIG_INT) ok = !json_is_real(json) && !no_number && msc_config_in_range(range, json);
  if (type == MSC_CONFIG_BYTES) ok = is_bytes(range, json);
  if (type == MSC_CONFIG_NUMBER) ok = !no_number && msc_config_in_range(range, json);
  if (type == MSC_CONFIG_CHOICE) check_choice(c, range, json);
  if (type == MSC_CONFIG_TEXT) ok = json_is_string(json) && *json_string_value(json);
  if (!ok) report_bad_value(c, describe_legal(msc_context_arena(c->ctx), type, range), json);
}

/* ---- values with a shape of their own ---- */

static void check_ascending(checker *c, const json_t *json) {
  bool ok = json_is_array(json);
  json_int_t last = 0;
  for (size_t i = 0; ok && i < json_array_size(json); i++) {
    const json_t *item = json_array_get(json, i);
    ok = json_is_integer(item) && json_integer_value(item) > last;
    last = json_integer_value(item);
  }
  if (!ok) report_bad_value(c, describe_legal(msc_context_arena(c->ctx), MSC_CONFIG_INTS, ""), json);
}

static void check_mesh_dict(checker *c, const json_t *json) {
  if (!json_is_object(json) || !json_object_size(json) || json_object_size(json) > MSC_MAX_AXES) {
    report_bad_value(c, describe_legal(msc_context_arena(c->ctx), MSC_CONFIG_MESH, ""), json);
    return;
  }
  const char *name;
  json_t *size;
  json_object_foreach((json_t *)(uintptr_t)json, name, size) {
    checker axis = checker_of_field(c, name);
    bool letter = (*name | 32) >= 'a' && (*name | 32) <= 'z';
    if (!letter || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name))
      axis.ok = msc_error(c->ctx, MSC_E_CONFIG, c->loc,
                          "%s: the name of an axis is a letter, then letters, digits and _", axis.key);
    check_scalar(&axis, MSC_CONFIG_INT, "1..65536", size);
    c->ok = c->ok && axis.ok;
  }
}

static bool is_int_tuple(const json_t *tuple) {
  if (!json_is_array(tuple) || json_array_size(tuple) > MSC_MAX_RANK) return false;
  for (size_t i = 0; i < json_array_size(tuple); i++) {
    const json_t *parts = json_array_get(tuple, i);
    if (!json_is_integer(parts) || json_integer_value(parts) < 1 || json_integer_value(parts) > MSC_MAX_DEVICES)
      return false;
  }
  return true;
}

static void check_strategy(checker *c, const char *range, const json_t *json) {
  bool ok = json_is_array(json) ? json_array_size(json) > 0 : json_is_string(json) && msc_config_in_range(range, json);
  for (size_t i = 0; json_is_array(json) && i < json_array_size(json); i++)
    ok = ok && is_int_tuple(json_array_get(json, i));
  if (!ok) report_bad_value(c, describe_legal(msc_context_arena(c->ctx), MSC_CONFIG_STRATEGY, range), json);
}

static void report_unknown_field(checker *c, const char *name, const char *const *names, size_t num) {
  const char *near = msc_nearest(name, names, num), *all = "";
  msc_arena *arena = msc_context_arena(c->ctx);
  for (size_t i = 0; i < num; i++)
    all = msc_arena_printf(arena, "%s%s%s", all, !i ? "" : i + 1 < num ? ", " : " or ", names[i]);
  const char *hint = near ? msc_arena_printf(arena, " (did you mean %s?)", near) : "";
  c->ok = msc_error(c->ctx, MSC_E_CONFIG, c->loc, "%s: unknown key '%s'; expected %s%s", c->key, name, all, hint);
}

/* {"mode": auto|size|index, "config": ...} of one operator. */
static void check_fusion_operator(checker *c, bool may_index, const json_t *json) {
  if (!json_is_object(json)) {
    report_bad_value(c, "an object such as {\"mode\": \"auto\", \"config\": null}", json);
    return;
  }
  static const char *const fields[] = {"mode", "config"};
  const char *name;
  json_t *item;
  json_object_foreach((json_t *)(uintptr_t)json, name, item) if (strcmp(name, "mode") && strcmp(name, "config"))
      report_unknown_field(c, name, fields, 2);
  const json_t *mode = json_object_get(json, "mode"), *config = json_object_get(json, "config");
  if (!mode || !config) {
    c->ok = msc_error(c->ctx, MSC_E_CONFIG, c->loc, "%s: the key '%s' is missing", c->key, mode ? "config" : "mode");
    return;
  }
  checker m = checker_of_field(c, "mode"), v = checker_of_field(c, "config");
  check_choice(&m, may_index ? "auto|size|index" : "auto|size", mode);
  if (!m.ok) c->ok = false;
  if (!m.ok) return;
  const char *word = json_string_value(mode);
  if (!strcmp(word, "auto") && !json_is_null(config) && !msc_config_in_range("optimal", config))
    report_bad_value(&v, "null or \"optimal\" with mode auto", config);
  if (!strcmp(word, "index")) check_ascending(&v, config);
  bool sizes = json_is_array(config) && json_array_size(config) > 0;
  for (size_t i = 0; sizes && i < json_array_size(config); i++)
    sizes = json_is_integer(json_array_get(config, i)) && json_integer_value(json_array_get(config, i)) >= 1;
  if (!strcmp(word, "size") && !sizes && !(json_is_integer(config) && json_integer_value(config) >= 1))
    report_bad_value(&v, "a whole number of MB, at least 1, or a list of them, with mode size", config);
  c->ok = c->ok && v.ok;
}

static void check_fusion_dict(checker *c, const json_t *json) {
  const char *keys[MSC_NUM_VERBS + 1];
  size_t num = fusion_keys(keys);
  if (!json_is_object(json)) {
    report_bad_value(c, describe_legal(msc_context_arena(c->ctx), MSC_CONFIG_FUSION, ""), json);
    return;
  }
  const char *name;
  json_t *item;
  json_object_foreach((json_t *)(uintptr_t)json, name, item) {
    size_t i = 0;
    while (i < num && strcmp(name, keys[i])) i++;
    checker one = checker_of_field(c, name);
    if (i == num) report_unknown_field(c, name, keys, num);
    else if (i + 1 == num) check_scalar(&one, MSC_CONFIG_BOOL, "", item);
    else check_fusion_operator(&one, i == 0, item);
    c->ok = c->ok && one.ok;
  }
}

static const struct {
  msc_key key;
  const char *name;
  msc_config_type type;
  const char *range;
} fields[] = {
#define KEY(name, type, range, fallback, supported, meaning)
#define FIELD(key, name, type, range) {MSC_KEY_##key, #name, MSC_CONFIG_##type, range},
#include "passes/config/config.def"
#undef FIELD
#undef KEY
};
enum { NUM_FIELDS = sizeof fields / sizeof *fields };

static void check_dict(checker *c, msc_key key, const json_t *json) {
  const char *names[NUM_FIELDS], *name;
  size_t num = 0;
  for (size_t i = 0; i < NUM_FIELDS; i++)
    if (fields[i].key == key) names[num++] = fields[i].name;
  if (!json_is_object(json)) {
    report_bad_value(c, msc_arena_printf(msc_context_arena(c->ctx), "an object with keys such as %s", names[0]), json);
    return;
  }
  json_t *item;
  json_object_foreach((json_t *)(uintptr_t)json, name, item) {
    size_t i = 0;
    while (i < NUM_FIELDS && !(fields[i].key == key && !strcmp(fields[i].name, name))) i++;
    checker field = checker_of_field(c, name);
    if (i == NUM_FIELDS) report_unknown_field(c, name, names, num);
    else check_scalar(&field, fields[i].type, fields[i].range, item);
    c->ok = c->ok && field.ok;
  }
}

/* "an object with threshold (a whole number, at least 0)" */
static const char *legal_fields(msc_arena *arena, msc_key key) {
  const char *text = "";
  for (size_t i = 0; i < NUM_FIELDS; i++)
    if (fields[i].key == key)
      text = msc_arena_printf(arena, "%s%s%s (%s)", text, *text ? ", " : " with ", fields[i].name,
                              describe_legal(arena, fields[i].type, fields[i].range));
  return msc_arena_printf(arena, "an object%s", text);
}

const char *msc_key_values(msc_key key, msc_arena *arena) {
  const msc_config_row *row = &msc_config_rows[key];
  const char *text =
      row->type == MSC_CONFIG_DICT ? legal_fields(arena, key) : describe_legal(arena, row->type, row->range);
  if (!strcmp(row->fallback, "null")) text = msc_arena_printf(arena, "%s, or null", text);
  if (strcmp(row->supported, "*"))
    text = msc_arena_printf(arena, "%s; so far only %s", text, msc_config_range_text(arena, "", row->supported));
  return text;
}

const char *msc_key_words(msc_key key) {
  const msc_config_row *row = &msc_config_rows[key];
  return row->type == MSC_CONFIG_BOOL ? "true|false" : row->type == MSC_CONFIG_CHOICE ? row->range : NULL;
}

bool msc_config_check_value(msc_context *ctx, const msc_loc *loc, msc_key key, const json_t *json) {
  const msc_config_row *row = &msc_config_rows[key];
  checker c = {ctx, loc, row->name, true};
  if (json_is_null(json) && !strcmp(row->fallback, "null")) return true;
  switch (row->type) {
    case MSC_CONFIG_INTS: check_ascending(&c, json); break;
    case MSC_CONFIG_MESH: check_mesh_dict(&c, json); break;
    case MSC_CONFIG_STRATEGY: check_strategy(&c, row->range, json); break;
    case MSC_CONFIG_FUSION: check_fusion_dict(&c, json); break;
    case MSC_CONFIG_DICT: check_dict(&c, key, json); break;
    default: check_scalar(&c, row->type, row->range, json);
  }
  return c.ok;
}
