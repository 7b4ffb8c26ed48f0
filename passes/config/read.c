/* read.c: JSON text with // comments and trailing commas in; values with their places stored in the configuration. */
#include <string.h>

#include "passes/config/rows.h"

/* Skips the string that begins at p. */
static char *skip_string_literal(char *p, char *end) {
  for (p++; p < end && *p != '"' && *p != '\n'; p++)
    if (*p == '\\' && p + 1 < end) p++;
  return p < end ? p + 1 : end;
}

/* Replaces comments and trailing commas by blanks, so that lines and columns stay. */
static void blank_comments(char *text, char *end) {
  char *comma = NULL; /* the last one, while only blanks have followed it */
  char last = 0;      /* before p, blanks aside */
  for (char *p = text; p < end;) {
    if (*p == '"') {
      comma = NULL;
      last = '"';
      p = skip_string_literal(p, end);
    } else if (*p == '/' && p + 1 < end && p[1] == '/') {
      while (p < end && *p != '\n') *p++ = ' ';
    } else {
      bool is_blank = strchr(" \t\r\n", *p) != NULL;
      if (*p == ',') comma = last && strchr("[{,:", last) ? NULL : p;
      else if ((*p == '}' || *p == ']') && comma) *comma = ' ';
      if (!is_blank && *p != ',') comma = NULL;
      if (!is_blank) last = *p;
      p++;
    }
  }
}

typedef struct {
  msc_config *config;
  const char *name;
  char *at, *end;
  char *line_begin;
  uint32_t line;
  int depth;
  json_t *json;
} reader;

/* The next key of the outermost object at or after r->at, which is moved behind it.  The text is known to be valid. */
static const msc_loc *next_key(reader *r) {
  while (r->at < r->end) {
    char *p = r->at;
    r->at = *p == '"' ? skip_string_literal(p, r->end) : p + 1;
    if (*p == '{' || *p == '[') r->depth++;
    if (*p == '}' || *p == ']') r->depth--;
    if (*p == '\n') {
      r->line++;
      r->line_begin = p + 1;
    }
    char *after = r->at;
    while (*p == '"' && after < r->end && strchr(" \t\r\n", *after)) after++;
    if (*p != '"' || r->depth != 1 || after == r->end || *after != ':') continue;
    msc_loc loc = {.file = r->name, .line = r->line, .col = (uint32_t)(p - r->line_begin) + 1};
    return msc_loc_of(r->config->ctx, &loc);
  }
  return NULL;
}

static bool put_members(msc_context *ctx, void *arg) {
  (void)ctx;
  reader *r = arg;
  bool ok = true;
  const char *key;
  json_t *value;
  json_object_foreach(r->json, key, value) { /* in the order of the text */
    const msc_loc *loc = next_key(r);
    ok = msc_config_put(r->config, key, value, MSC_ORIGIN_FILE, loc) && ok;
  }
  return ok;
}

bool msc_config_read(msc_config *config, const char *name, const char *text, size_t bytes) {
  msc_context *ctx = config->ctx;
  msc_arena *arena = msc_arena_new(ctx);
  char *copy = msc_arena_alloc(arena, bytes + 1);
  memcpy(copy, text, bytes);
  blank_comments(copy, copy + bytes);
  msc_loc loc = {.file = msc_intern(ctx, name)};
  json_error_t error;
  json_t *json = json_loadb(copy, bytes, JSON_REJECT_DUPLICATES, &error);
  bool ok = false;
  if (!json) {
    loc.line = error.line > 0 ? (uint32_t)error.line : 1;
    loc.col = error.column > 0 ? (uint32_t)error.column : 1;
    msc_error(ctx, MSC_E_SYNTAX, msc_loc_of(ctx, &loc), "%s", error.text);
  } else if (!json_is_object(json)) {
    loc.line = loc.col = 1;
    msc_error(ctx, MSC_E_CONFIG, msc_loc_of(ctx, &loc),
              "the configuration must be one JSON object, {\"key\": value, ...}");
  } else {
    reader r = {config, loc.file, copy, copy + bytes, copy, 1, 0, json};
    ok = msc_protect(ctx, put_members, &r); /* json is not the arena's: it must be freed in any case */
  }
  if (!ok) config->has_bad = true;
  json_decref(json);
  msc_arena_free(arena);
  return ok;
}
