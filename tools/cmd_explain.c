/* cmd_explain.c: the story of a diagnostic code out; explaining a plan is not supported yet. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

/* "E0102", "e102" or "102"; 0: not a code. */
static unsigned code_number(const char *text) {
  if (*text == 'E' || *text == 'e') text++;
  char *end;
  unsigned long n = strtoul(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && n < 10000 ? (unsigned)n : 0;
}

static int unknown_code(cli *c, const char *text) {
  msc_error(c->ctx, MSC_E_NONE, NULL, "there is no diagnostic code '%s'; the codes are:", text);
#define DIAG(name, number, title, story) msc_note(c->ctx, NULL, "E%04d %s", number, title);
#include "ir/diag.def"
#undef DIAG
  return CLI_INPUT;
}

static int explain_code(cli *c, const char *text, unsigned number) {
  const char *title = msc_code_title((msc_code)number);
  if (!title) return unknown_code(c, text);
  const char *story = msc_code_story((msc_code)number);
  if (!c->json) {
    printf("E%04u: %s\n\n%s\n", number, title, story);
    return CLI_OK;
  }
  json_t *j = json_pack("{s:o, s:s, s:s}", "code", json_sprintf("E%04u", number), "title", title, "story", story);
  json_dumpf(j, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(j);
  return CLI_OK;
}

static int run(cli *c) {
  const char *what = c->operands[0];
  unsigned number = code_number(what);
  if (number) return explain_code(c, what, number);
  if ((*what == 'E' || *what == 'e') && strspn(what + 1, "0123456789") == strlen(what + 1)) return unknown_code(c, what);
  msc_error(c->ctx, MSC_E_UNSUPPORTED, cli_loc(c, what), "explaining a plan is not supported yet; `msc dump` shows its decisions");
  return CLI_USAGE;
}

static const cli_option options[] = {
  {"diff", CLI_TEXT, "PLAN", "compare with another plan (not supported yet)"},
  {"redundancy", CLI_FLAG, NULL, "for every rank who could restore it (not supported yet)"},
  {0},
};
const cli_command cmd_explain = {"PLAN|CODE [OP]", 1, 2, options, run};
