/* cmd_manual.c: the tables of commands, options and keys in; a page for man out: of msc, or of one command. */
#include <string.h>

#include "ir/msc.h"
#include "passes/config/config.h"
#include "tools/cli_state.h"

/* Text in which nothing is a request or an escape. */
static void print_text(const char *text) {
  for (const char *p = text; *p; p++) {
    if (*p == '\\') fputs("\\e", stdout);
    else if (*p == '-') fputs("\\-", stdout);
    else if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n')) printf("\\&%c", *p);
    else putchar(*p);
  }
}

static void print_bold(const char *before, const char *text) {
  printf("\\fB");
  print_text(before);
  print_text(text);
  printf("\\fR");
}

static void print_title(const char *name, const char *help) {
  printf(".TH \"");
  for (const char *p = name; *p; p++) putchar(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
  printf("\" 1 \"\" \"msc %s\"\n.SH NAME\n", msc_version());
  print_text(name);
  printf(" \\- ");
  print_text(help);
  putchar('\n');
}

static void print_options_section(const char *title, const cli_option *options) {
  if (!options || !options->name) return;
  printf(".SH %s\n", title);
  for (const cli_option *o = options; o->name; o++) {
    printf(".TP\n");
    print_bold(o->name[1] ? "--" : "-", o->name);
    if (o->arg) {
      printf(" \\fI");
      print_text(o->arg);
      printf("\\fR");
    }
    putchar('\n');
    print_text(o->help);
    putchar('\n');
  }
}

static void print_exit_codes(void) {
  printf(".SH EXIT STATUS\n"
         "0 done, 1 the input is wrong or cannot be met, 2 usage, 3 the environment failed (a rank lost, disk full), "
         "70 a bug in msc, 128 + n: ended by signal n.\n");
}

static void print_keys(cli *c) {
  printf(".SH CONFIGURATION KEYS\n"
         "Of every command's \\-\\-config and \\-\\-set, with what each may be.\n");
  for (int key = 0; key < MSC_NUM_KEYS; key++) {
    printf(".TP\n");
    print_bold("", msc_key_name((msc_key)key));
    putchar('\n');
    print_text(msc_key_meaning((msc_key)key));
    printf(" [");
    print_text(msc_key_values((msc_key)key, msc_context_arena(c->ctx)));
    printf("]\n");
  }
}

static void print_command(cli *c, const cli_row *r) {
  char name[64];
  snprintf(name, sizeof name, "msc-%s", r->name);
  print_title(name, r->help);
  printf(".SH SYNOPSIS\n");
  print_bold("msc ", r->name);
  printf(" [OPTION ...] ");
  print_text(r->command->operands);
  putchar('\n');
  print_options_section("OPTIONS", r->command->options);
  print_options_section("OPTIONS OF EVERY COMMAND", cli_common_options);
  if (!strcmp(r->name, "config")) print_keys(c);
  print_exit_codes();
  printf(".SH SEE ALSO\n.BR msc (1)\n");
}

static void print_all(const cli_row *rows) {
  print_title("msc", "compiles a training graph into one plan that any number of ranks execute");
  printf(".SH SYNOPSIS\n\\fBmsc\\fR COMMAND [OPTION ...] [FILE ...]\n.SH COMMANDS\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    printf(".TP\n.BR msc\\-%s (1)\n", rows[i].name);
    print_text(rows[i].help);
    printf("%s\n", rows[i].command ? "" : " (not supported yet)");
  }
  print_options_section("OPTIONS OF EVERY COMMAND", cli_common_options);
  print_exit_codes();
}

static int run_manual(cli *c) {
  cli_row rows[CLI_NUM_COMMANDS];
  const char *names[CLI_NUM_COMMANDS];
  cli_list_commands(rows);
  if (!c->num_operands) {
    print_all(rows);
    return CLI_OK;
  }
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    names[i] = rows[i].name;
    if (strcmp(rows[i].name, c->operands[0]) || !rows[i].command) continue;
    print_command(c, &rows[i]);
    return CLI_OK;
  }
  const char *near = msc_nearest(c->operands[0], names, CLI_NUM_COMMANDS);
  return near ? cli_usage(c, "there is no page of '%s'; did you mean %s?", c->operands[0], near)
              : cli_usage(c, "there is no page of '%s'", c->operands[0]);
}

const cli_command cmd_manual = {"[COMMAND]", 0, 1, NULL, run_manual};
