/* options.c: a command's option table and argv in, values out; usage errors and --help come from the same table. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/config/config.h"
#include "tools/cli_state.h"

const cli_option cli_common_options[] = {
  {"help", CLI_FLAG, NULL, "print this text"},
  {"json", CLI_FLAG, NULL, "print one JSON object on stdout"},
  {"config", CLI_TEXT, "FILE", "read configuration keys from this JSON file"},
  {"set", CLI_TEXTS, "KEY=VALUE", "set one configuration key; wins over the file; may be repeated"},
  {"diagnostic-format", CLI_CHOICE, "text|json|sarif", "how errors and warnings are written to stderr"},
  {"color", CLI_CHOICE, "auto|always|never", "colours in messages; auto: on a terminal unless NO_COLOR is set"},
  {"max-memory", CLI_BYTES, "BYTES", "upper bound for what the compiler itself allocates (64k, 2M, 1G)"},
  {0},
};

/* ---- values ---- */

static bool parse_int(const char *text, int64_t *out_value) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (errno || end == text || *end) return false;
  *out_value = v;
  return true;
}

static bool parse_seed(const char *text, uint64_t *out_value) {
  char *end;
  errno = 0;
  *out_value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !errno && !*end;
}

static bool parse_option_number(const char *text, double *out_value) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v)) return false;
  *out_value = v;
  return true;
}

/* True if `word` is one of the words of "a|b|c". */
static bool is_choice(const char *choices, const char *word) {
  size_t n = strlen(word);
  for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
    if (n && !strncmp(p, word, n) && (p[n] == '|' || !p[n])) return true;
  return false;
}

static bool check_value(const cli *c, const cli_option *o, const char *text) {
  const char *dashes = o->name[1] ? "--" : "-";
  int64_t i;
  uint64_t seed;
  double d;
  switch (o->type) {
    case CLI_INT:
      if (parse_int(text, &i)) return true;
      cli_usage(c, "%s%s: '%s' is not a whole number%s", dashes, o->name, text,
                errno == ERANGE ? " below 2^63, nor above -2^63" : "");
      return false;
    case CLI_SEED:
      if (parse_seed(text, &seed)) return true;
      cli_usage(c, "%s%s: '%s' is not a whole number from 0 to 2^64 - 1", dashes, o->name, text);
      return false;
    case CLI_NUMBER:
      if (parse_option_number(text, &d)) return true;
      cli_usage(c, "%s%s: '%s' is not a number", dashes, o->name, text);
      return false;
    case CLI_BYTES:
      if (msc_bytes_of_text(text, &i)) return true;
      cli_usage(c, "%s%s: '%s' is not a size such as 4096, 64k or 2G", dashes, o->name, text);
      return false;
    case CLI_CHOICE:
      if (is_choice(o->arg, text)) return true;
      cli_usage(c, "%s%s: '%s' is none of %s", dashes, o->name, text, o->arg);
      return false;
    case CLI_PAIRS:
      if (strchr(text, '=') && *text != '=') return true;
      cli_usage(c, "%s%s: '%s' is not %s", dashes, o->name, text, o->arg);
      return false;
    default:
      return true;
  }
}

static const cli_option *find_option(const cli *c, const char *name, size_t n) {
  const cli_option *tables[] = {c->state->command->options, cli_common_options};
  for (int t = 0; t < 2; t++)
    for (const cli_option *o = tables[t]; o && o->name; o++)
      if (strlen(o->name) == n && !memcmp(o->name, name, n)) return o;
  return NULL;
}

static bool unknown_option(const cli *c, const char *arg) {
  const char *names[64];
  size_t num = 0;
  const cli_option *tables[] = {c->state->command->options, cli_common_options};
  for (int t = 0; t < 2; t++)
    for (const cli_option *o = tables[t]; o && o->name && num < 64; o++) names[num++] = o->name;
  char word[64];
  const char *name = arg + strspn(arg, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
  const char *near = word[0] && word[1] ? msc_nearest(word, names, num) : NULL;
  if (near)
    cli_usage(c, "unknown option %s; did you mean --%s?", arg, near);
  else
    cli_usage(c, "unknown option %s", arg);
  return false;
}

/* ---- argv ---- */

typedef struct {
  cli *c;
  int argc, at;
  char **argv;
} args;

static void add_value(cli *c, const cli_option *o, const char *text) {
  c->state->values[c->state->num_values++] = (cli_value){o, text};
}

/* Parses an argument that begins with a dash, and the value that follows it. False after a usage error. */
static bool parse_option(args *a) {
  cli *c = a->c;
  const char *arg = a->argv[a->at++], *text = NULL;
  const cli_option *o;
  if (arg[1] == '-') {
    size_t n = strcspn(arg + 2, "=");
    o = find_option(c, arg + 2, n);
    if (arg[2 + n]) text = arg + 2 + n + 1;
    if (o && !o->name[1]) o = NULL;
  } else {
    o = strcmp(arg, "-h") ? find_option(c, arg + 1, 1) : find_option(c, "help", 4);
    if (arg[2]) text = arg + 2 + (arg[2] == '=');
  }
  if (!o) return unknown_option(c, arg);
  if (o->type == CLI_FLAG) {
    if (text) return cli_usage(c, "%s: takes no value", arg), false;
    add_value(c, o, NULL);
    return true;
  }
  if (!text) {
    if (a->at >= a->argc) return cli_usage(c, "%s: needs %s", arg, o->arg), false;
    text = a->argv[a->at++];
  }
  add_value(c, o, text);
  bool ok = check_value(c, o, text);
  while (o->type == CLI_PAIRS && a->at < a->argc && a->argv[a->at][0] != '-' && strchr(a->argv[a->at], '='))
    add_value(c, o, a->argv[a->at++]);
  return ok;
}

bool cli_parse(cli *c, int argc, char **argv) {
  args a = {c, argc, 0, argv};
  bool ok = true, only_operands = false;
  while (a.at < argc) {
    const char *arg = argv[a.at];
    if (!only_operands && !strcmp(arg, "--")) {
      only_operands = true;
      a.at++;
    } else if (!only_operands && arg[0] == '-' && arg[1]) {
      ok = parse_option(&a) && ok;
    } else {
      c->state->operands[c->num_operands++] = arg;
      only_operands = only_operands || c->state->command->max_operands == CLI_REST;
      a.at++;
    }
  }
  c->operands = c->state->operands;
  c->json = cli_flag(c, "json");
  if (!ok || cli_flag(c, "help")) return ok;
  const cli_command *command = c->state->command;
  if (c->num_operands < command->min_operands) return cli_usage(c, "needs %s", command->operands), false;
  if (command->max_operands >= 0 && c->num_operands > command->max_operands)
    return cli_usage(c, "one operand too many: '%s'", c->operands[command->max_operands]), false;
  return true;
}

/* ---- access ---- */

static const cli_option *option_of(const cli *c, const char *name) {
  const cli_option *o = find_option(c, name, strlen(name));
  if (o) return o;
  fprintf(stderr, "msc %s: option %s is asked for but not in its table\n", c->state->name, name);
  abort();
}

bool cli_flag(const cli *c, const char *name) {
  const cli_option *o = option_of(c, name);
  for (size_t i = 0; i < c->state->num_values; i++)
    if (c->state->values[i].option == o) return true;
  return false;
}

const char *cli_text(const cli *c, const char *name) {
  const cli_option *o = option_of(c, name);
  for (size_t i = c->state->num_values; i-- > 0;)
    if (c->state->values[i].option == o) return c->state->values[i].text;
  return NULL;
}

size_t cli_texts(const cli *c, const char *name, const char *const **out_texts) {
  const cli_option *o = option_of(c, name);
  const char **texts = msc_new_array(msc_context_arena(c->ctx), const char *, c->state->num_values + 1);
  size_t num = 0;
  for (size_t i = 0; i < c->state->num_values; i++)
    if (c->state->values[i].option == o) texts[num++] = c->state->values[i].text;
  *out_texts = texts;
  return num;
}

int64_t cli_int(const cli *c, const char *name, int64_t absent) {
  const char *text = cli_text(c, name);
  int64_t v = absent;
  if (text && option_of(c, name)->type == CLI_BYTES) msc_bytes_of_text(text, &v);
  else if (text)
    parse_int(text, &v);
  return v;
}

uint64_t cli_seed(const cli *c, const char *name) {
  const char *text = cli_text(c, name);
  uint64_t v = 0;
  if (text) parse_seed(text, &v);
  return v;
}

double cli_number(const cli *c, const char *name, double absent) {
  const char *text = cli_text(c, name);
  double v = absent;
  if (text) parse_option_number(text, &v);
  return v;
}

/* ---- help ---- */

int cli_usage(const cli *c, const char *fmt, ...) {
  va_list ap;
  fprintf(stderr, "msc %s: error: ", c->state->name);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fprintf(stderr, " (msc %s --help)\n", c->state->name);
  return CLI_USAGE;
}

static void print_options(const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    char left[80];
    snprintf(left, sizeof left, "%s%s%s%s", o->name[1] ? "--" : "-", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    if (strlen(left) > 30)
      printf("  %s\n  %-30s  %s\n", left, "", o->help);
    else
      printf("  %-30s  %s\n", left, o->help);
  }
}

void cli_print_help(const cli *c) {
  const cli_command *command = c->state->command;
  printf("usage: msc %s [OPTION ...]%s%s\n%s\n", c->state->name, *command->operands ? " " : "", command->operands,
         c->state->help);
  if (command->options && command->options->name) {
    printf("\noptions:\n");
    print_options(command->options);
  }
  printf("\noptions of every command:\n");
  print_options(cli_common_options);
}
