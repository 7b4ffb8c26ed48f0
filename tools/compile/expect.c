/* expect.c: IR text with `// expected-error` comments and the diagnostics of a run in; an error per difference out. */
#include <stdlib.h>
#include <string.h>

#include "tools/compile/expect.h"

typedef struct {
  msc_severity severity;
  uint32_t line;            /* where it is expected; 0: at no place of the file */
  uint32_t at_line, at_col; /* of the comment */
  const char *text;
  bool found;
} expectation;

typedef struct {
  cli *c;
  const char *path;
  const char **lines; /* copies, from index 1 */
  uint32_t num_lines;
  expectation *list;
  size_t num, room;
} expectations;

static const char *const words[] = {
    [MSC_DIAG_ERROR] = "error", [MSC_DIAG_WARNING] = "warning", [MSC_DIAG_NOTE] = "note", [MSC_DIAG_REMARK] = "remark"};

static void split_lines(expectations *e, const char *text, size_t bytes) {
  msc_arena *a = msc_context_arena(e->c->ctx);
  for (size_t i = 0; i < bytes; i++) e->num_lines += text[i] == '\n';
  e->lines = msc_new_array(a, const char *, ++e->num_lines + 2);
  const char *p = text, *end = text + bytes;
  for (uint32_t line = 1; line <= e->num_lines; line++) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    e->lines[line] = msc_arena_printf(a, "%.*s", (int)(stop - p), p);
    p = stop < end ? stop + 1 : end;
  }
}

static bool has_comment(const expectations *e, uint32_t line) {
  const char *comment = strstr(e->lines[line], "//");
  return comment && strstr(comment, "expected-");
}

/* `@+2`, `@above` ... to a line; *p goes behind it. */
static uint32_t read_line_offset(const expectations *e, uint32_t line, const char **p) {
  if (**p != '@') return line;
  const char *word = ++*p;
  *p += strcspn(word, " {");
  if (*word == '+' || *word == '-') {
    long target = (long)line + strtol(word, NULL, 10);
    return target > 0 && target <= UINT32_MAX ? (uint32_t)target : 0;
  }
  if (!strncmp(word, "below", 5))
    for (line++; line <= e->num_lines && has_comment(e, line);) line++;
  else if (!strncmp(word, "above", 5))
    for (line--; line > 0 && has_comment(e, line);) line--;
  else
    line = 0;
  return line;
}

static bool report_malformed(expectations *e, uint32_t line, const char *at) {
  msc_loc loc = {.file = msc_intern(e->c->ctx, e->path), .line = line, .col = (uint32_t)(at - e->lines[line]) + 1};
  return msc_error(e->c->ctx, MSC_E_NONE, msc_loc_of(e->c->ctx, &loc), "not of the form expected-error @+1 {{text}}");
}

static bool read_comment(expectations *e, uint32_t line, const char *at) {
  const char *p = at + strlen("expected-");
  expectation x = {.at_line = line, .at_col = (uint32_t)(at - e->lines[line]) + 1};
  size_t severity = 0, n = strcspn(p, " @{");
  while (severity < 4 && (strlen(words[severity]) != n || strncmp(p, words[severity], n))) severity++;
  if (severity == 4) return report_malformed(e, line, at);
  x.severity = (msc_severity)severity;
  p += n;
  p += strspn(p, " ");
  x.line = read_line_offset(e, line, &p);
  p += strspn(p, " ");
  const char *end = strstr(p, "}}");
  if (strncmp(p, "{{", 2) || !end) return report_malformed(e, line, at);
  x.text = msc_arena_printf(msc_context_arena(e->c->ctx), "%.*s", (int)(end - p - 2), p + 2);
  e->list[e->num++] = x;
  return true;
}

static bool read_comments(expectations *e) {
  bool ok = true;
  size_t num = 0;
  for (uint32_t line = 1; line <= e->num_lines; line++)
    for (const char *p = e->lines[line]; (p = strstr(p, "expected-")); p++) num++;
  e->list = msc_new_array(msc_context_arena(e->c->ctx), expectation, num);
  for (uint32_t line = 1; line <= e->num_lines; line++) {
    const char *p = strstr(e->lines[line], "//");
    while (p && (p = strstr(p, "expected-"))) ok = read_comment(e, line, p++) && ok;
  }
  return ok;
}

static expectation *find_expectation(expectations *e, const msc_diag *d) {
  bool here = d->loc && d->loc->file && !strcmp(d->loc->file, e->path);
  char code[16];
  snprintf(code, sizeof code, "[E%04d]", d->code);
  for (size_t i = 0; i < e->num; i++) {
    expectation *x = &e->list[i];
    if (!x->found && x->severity == d->severity && x->line == (here ? d->loc->line : 0) &&
        (strstr(d->text, x->text) || !strcmp(code, x->text)))
      return x;
  }
  return NULL;
}

bool expect_reported(cli *c, const char *path, const char *text, size_t bytes) {
  expectations e = {.c = c, .path = strcmp(path, "-") ? path : "<stdin>"};
  const msc_diag *reported = msc_diags(c->ctx);
  msc_clear_diags(c->ctx);
  split_lines(&e, text, bytes);
  bool ok = read_comments(&e);
  for (const msc_diag *d = reported; d; d = d->next) {
    expectation *x = find_expectation(&e, d);
    if (x) x->found = true;
    else if (d->severity <= MSC_DIAG_WARNING)
      ok = msc_error(c->ctx, d->code, d->loc, "unexpected %s: %s", words[d->severity], d->text);
  }
  for (size_t i = 0; i < e.num; i++) {
    const expectation *x = &e.list[i];
    if (x->found) continue;
    msc_loc loc = {.file = msc_intern(c->ctx, e.path), .line = x->at_line, .col = x->at_col};
    ok = msc_error(c->ctx, MSC_E_NONE, msc_loc_of(c->ctx, &loc), "this %s was not reported%s: %s", words[x->severity],
                   x->line ? "" : " (without a place in this file)", x->text);
  }
  return ok;
}
