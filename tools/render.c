/* render.c: collected diagnostics in; text with source lines and carets, JSON, or SARIF 2.1.0 on stderr out. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/msc.h"
#include "tools/cli_state.h"

enum { MAX_SHOWN = 100, MAX_LINE = 160, MAX_SOURCE_BYTES = 64 << 20 };

/* ---- text of unknown origin ---- */

/* Bytes of the well-formed UTF-8 character at p, or 0. */
static size_t utf8_length(const unsigned char *p) {
  size_t n = *p < 0x80 ? 1 : *p >= 0xC2 && *p < 0xE0 ? 2 : (*p & 0xF0) == 0xE0 ? 3 : *p >= 0xF0 && *p < 0xF5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if ((n == 3 && ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] >= 0xA0)))) return 0;
  if (n == 4 && ((*p == 0xF0 && p[1] < 0x90) || (*p == 0xF4 && p[1] >= 0x90))) return 0;
  return n;
}

char *cli_printable(const char *text) {
  char *out = malloc(strlen(text) * 4 + 1), *to = out;
  if (!out) return NULL;
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    size_t n = utf8_length(p);
    bool control = *p < 0x20 || *p == 0x7F || (n == 2 && *p == 0xC2 && p[1] < 0xA0);
    if (*p == '\t' || *p == '\n') {
      *to++ = (char)*p++;
    } else if (n && !control) {
      memcpy(to, p, n);
      to += n;
      p += n;
    } else {
      to += sprintf(to, "\\x%02x", *p++);
    }
  }
  *to = 0;
  return out;
}

static void print_printable(const char *text) {
  char *clean = cli_printable(text);
  fputs(clean ? clean : "?", stderr);
  free(clean);
}

static json_t *json_text(const char *text) {
  char *clean = cli_printable(text);
  json_t *j = json_string(clean ? clean : "?");
  free(clean);
  return j;
}

/* ---- text ---- */

static const struct {
  const char *word, *colour, *sarif;
} severities[] = {
  [MSC_DIAG_ERROR] = {"error", "\033[1;31m", "error"},
  [MSC_DIAG_WARNING] = {"warning", "\033[1;35m", "warning"},
  [MSC_DIAG_NOTE] = {"note", "\033[1;36m", "note"},
  [MSC_DIAG_REMARK] = {"remark", "\033[1;34m", "note"},
};

/* True for files that people write by hand. Only their lines are printed: a hostile model must not make msc print lines
 * of other files. */
static bool is_source(const char *path) {
  const char *dot = strrchr(path, '.');
  static const char *const kinds[] = {".mlir", ".py", ".json", ".jsonc"};
  for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(dot, kinds[i])) return true;
  return false;
}

/* Line `number` of a readable regular file without its line end, or NULL. */
static char *source_line(const char *path, uint32_t number) {
  if (!is_source(path)) return NULL;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd < 0) return NULL;
  FILE *file =
      fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= MAX_SOURCE_BYTES ? fdopen(fd, "r") : NULL;
  if (!file) {
    close(fd);
    return NULL;
  }
  char *line = NULL;
  size_t room = 0;
  ssize_t n = -1;
  for (uint32_t i = 0; i < number; i++)
    if ((n = getline(&line, &room, file)) < 0) break;
  fclose(file);
  if (n < 0 || strlen(line) != (size_t)n) {
    free(line);
    return NULL;
  }
  line[strcspn(line, "\r\n")] = 0;
  return line;
}

/* Characters, not bytes, before column `col`; a tab is shown as one space. */
static void print_source(const cli *c, const msc_loc *loc) {
  char *line = source_line(loc->file, loc->line);
  if (!line) return;
  size_t length = strlen(line), at = loc->col ? loc->col - 1 : 0;
  size_t from = at > MAX_LINE / 2 && length > MAX_LINE ? at - MAX_LINE / 2 : 0;
  if (at > length) at = length;
  for (char *p = line; *p; p++)
    if (*p == '\t') *p = ' ';
  while (from > 0 && ((unsigned char)line[from] & 0xC0) == 0x80) from--;
  size_t end = length - from > MAX_LINE ? from + MAX_LINE : length;
  while (end < length && ((unsigned char)line[end] & 0xC0) == 0x80) end++;
  line[end] = 0;
  fprintf(stderr, "%5u | ", loc->line);
  print_printable(line + from);
  fputc('\n', stderr);
  if (loc->col) {
    char kept = line[at];
    line[at] = 0;
    char *before = cli_printable(line + from);
    line[at] = kept;
    fprintf(stderr, "      | ");
    for (const char *p = before ? before : ""; *p; p++)
      if (((unsigned char)*p & 0xC0) != 0x80) fputc(' ', stderr);
    fprintf(stderr, "%s^%s\n", c->state->colour ? "\033[1;32m" : "", c->state->colour ? "\033[0m" : "");
    free(before);
  }
  free(line);
}

static void print_place(const msc_loc *loc) {
  if (!loc || !loc->file) {
    fprintf(stderr, "msc: ");
    return;
  }
  print_printable(loc->file);
  if (loc->line) fprintf(stderr, ":%u", loc->line);
  if (loc->line && loc->col) fprintf(stderr, ":%u", loc->col);
  fprintf(stderr, ": ");
}

static void print_diag(const cli *c, const msc_diag *d) {
  bool colour = c->state->colour;
  print_place(d->loc);
  fprintf(stderr, "%s%s:%s ", colour ? severities[d->severity].colour : "", severities[d->severity].word,
          colour ? "\033[0m" : "");
  if (d->op_name) {
    fprintf(stderr, "op '");
    print_printable(d->op_name);
    fprintf(stderr, "': ");
  }
  print_printable(d->text);
  if (d->code) fprintf(stderr, " [E%04d]", d->code);
  fputc('\n', stderr);
  if (d->loc && d->loc->file && d->loc->line) print_source(c, d->loc);
  if (d->severity == MSC_DIAG_NOTE || !d->loc) return;
  if (d->loc->scope) {
    fprintf(stderr, "  in ");
    print_printable(d->loc->scope);
    fputc('\n', stderr);
  }
  for (const msc_loc *from = d->loc->caller; from; from = from->caller) {
    print_place(from);
    fprintf(stderr, "note: called from here\n");
  }
}

static void print_new(cli *c) {
  size_t i = 0, hidden = 0;
  for (const msc_diag *d = msc_diags(c->ctx); d; d = d->next, i++) {
    if (i < c->state->printed_diags) continue;
    if (i >= MAX_SHOWN)
      hidden++;
    else
      print_diag(c, d);
  }
  if (hidden) fprintf(stderr, "msc: %zu more messages; --diagnostic-format=json shows all\n", hidden);
  c->state->printed_diags = i;
}

/* ---- JSON and SARIF ---- */

static void put_loc_json(json_t *object, const msc_loc *loc) {
  if (!loc || !loc->file) return;
  json_object_set_new(object, "file", json_text(loc->file));
  if (loc->line) json_object_set_new(object, "line", json_integer(loc->line));
  if (loc->line && loc->col) json_object_set_new(object, "column", json_integer(loc->col));
  if (loc->scope) json_object_set_new(object, "scope", json_text(loc->scope));
}

static json_t *code_text(msc_code code) { return json_sprintf("E%04d", code); }

static json_t *diags_as_json(const cli *c) {
  json_t *list = json_array(), *last = NULL;
  for (const msc_diag *d = msc_diags(c->ctx); d; d = d->next) {
    json_t *one = json_object();
    put_loc_json(one, d->loc);
    if (d->op_name) json_object_set_new(one, "op", json_text(d->op_name));
    json_object_set_new(one, "message", json_text(d->text));
    if (d->severity == MSC_DIAG_NOTE && last) {
      json_array_append_new(json_object_get(last, "notes"), one);
      continue;
    }
    json_object_set_new(one, "severity", json_string(severities[d->severity].word));
    if (d->code) json_object_set_new(one, "code", code_text(d->code));
    json_object_set_new(one, "notes", json_array());
    json_array_append_new(list, one);
    last = one;
  }
  return json_pack("{s:o, s:i}", "diagnostics", list, "errors", msc_num_errors(c->ctx));
}

/* A path as a URI reference: everything outside the unreserved characters is %XX. */
static json_t *uri_of(const char *path) {
  char *uri = malloc(strlen(path) * 3 + 1), *to = uri;
  if (!uri) return json_string("");
  for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
    bool plain = (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') || strchr("/-._~", *p);
    to += sprintf(to, plain ? "%c" : "%%%02X", *p);
  }
  json_t *j = json_string(uri);
  free(uri);
  return j;
}

static json_t *sarif_location(const msc_diag *d) {
  json_t *location = json_object();
  if (d->loc && d->loc->file) {
    json_t *place = json_pack("{s:{s:o}}", "artifactLocation", "uri", uri_of(d->loc->file));
    if (d->loc->line) {
      json_t *region = json_pack("{s:i}", "startLine", (int)d->loc->line);
      if (d->loc->col) json_object_set_new(region, "startColumn", json_integer(d->loc->col));
      json_object_set_new(place, "region", region);
    }
    json_object_set_new(location, "physicalLocation", place);
  }
  if (d->op_name)
    json_object_set_new(location, "logicalLocations", json_pack("[{s:o}]", "name", json_text(d->op_name)));
  return location;
}

static json_t *sarif_rules(void) {
  json_t *rules = json_array();
#define DIAG(id, number, title, story)                                                                         \
  json_array_append_new(rules, json_pack("{s:o, s:s, s:{s:s}, s:{s:s}}", "id", code_text(number), "name", #id, \
                                         "shortDescription", "text", title, "fullDescription", "text", story));
#include "ir/diag.def"
#undef DIAG
  return rules;
}

static json_t *diags_as_sarif(const cli *c) {
  json_t *results = json_array(), *last = NULL;
  for (const msc_diag *d = msc_diags(c->ctx); d; d = d->next) {
    json_t *location = sarif_location(d), *message = json_pack("{s:o}", "text", json_text(d->text));
    if (d->severity == MSC_DIAG_NOTE && last) {
      json_object_set_new(location, "message", message);
      if (!json_object_get(last, "relatedLocations")) json_object_set_new(last, "relatedLocations", json_array());
      json_array_append_new(json_object_get(last, "relatedLocations"), location);
      continue;
    }
    last = json_pack("{s:s, s:o}", "level", severities[d->severity].sarif, "message", message);
    if (d->code) json_object_set_new(last, "ruleId", code_text(d->code));
    json_object_set_new(last, "locations", json_array());
    if (json_object_size(location)) json_array_append(json_object_get(last, "locations"), location);
    json_decref(location);
    json_array_append_new(results, last);
  }
  json_t *driver = json_pack("{s:s, s:s, s:o}", "name", "msc", "version", msc_version(), "rules", sarif_rules());
  return json_pack("{s:s, s:s, s:[{s:{s:o}, s:o}]}", "$schema", "https://json.schemastore.org/sarif-2.1.0.json",
                   "version", "2.1.0", "runs", "tool", "driver", driver, "results", results);
}

void cli_flush_diags(cli *c) {
  cli_progress_done(c);
  if (c->state->format == CLI_DIAG_TEXT) print_new(c);
}

void cli_finish_diags(cli *c) {
  cli_flush_diags(c);
  if (c->state->format == CLI_DIAG_TEXT) return;
  json_t *all = c->state->format == CLI_DIAG_JSON ? diags_as_json(c) : diags_as_sarif(c);
  if (!all || json_dumpf(all, stderr, JSON_COMPACT) != 0) fprintf(stderr, "msc: error: out of memory");
  fputc('\n', stderr);
  json_decref(all);
}
