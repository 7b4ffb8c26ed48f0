/* msc.c: the program.  argv in, one command of commands.def run, its exit code out. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ir/msc.h"
#include "tools/cli_state.h"

void cli_list_commands(cli_row *out_rows) {
#define CMD(name, help) out_rows[CLI_COMMAND_##name] = (cli_row){#name, help, &cmd_##name};
#include "tools/commands.def"
#undef CMD
}

static int print_commands(const cli_row *rows, FILE *to) {
  fprintf(to, "usage: msc COMMAND [OPTION ...] [FILE ...]\n\ncommands:\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++)
    fprintf(to, "  %-10s %s%s\n", rows[i].name, rows[i].help, rows[i].command ? "" : " (not supported yet)");
  fprintf(to, "\nmsc COMMAND --help shows the options of a command.\n");
  return to == stdout ? CLI_OK : CLI_USAGE;
}

static const cli_row *find_command(const cli_row *rows, const char *name) {
  const char *names[CLI_NUM_COMMANDS];
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    if (!strcmp(rows[i].name, name)) return &rows[i];
    names[i] = rows[i].name;
  }
  const char *near = msc_nearest(name, names, CLI_NUM_COMMANDS);
  if (near)
    fprintf(stderr, "msc: error: unknown command '%s'; did you mean %s? (msc --help)\n", name, near);
  else
    fprintf(stderr, "msc: error: unknown command '%s' (msc --help)\n", name);
  return NULL;
}

typedef struct {
  cli *c;
  int argc, code;
  char **argv;
} call;

static bool wants_colour(const char *choice) {
  if (choice && strcmp(choice, "auto")) return !strcmp(choice, "always");
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

/* True for commands that report faults of keys themselves, together with others. */
static bool reads_keys(const cli_command *command) {
  const cli_command *const those[] = {&cmd_compile, &cmd_config, &cmd_opt, &cmd_reshard};
  for (size_t i = 0; i < sizeof those / sizeof *those; i++)
    if (command == those[i]) return true;
  return false;
}

static bool run_command(msc_context *ctx, void *arg) {
  call *k = arg;
  cli *c = k->c;
  c->state->values = msc_new_array(msc_context_arena(ctx), cli_value, k->argc + 1);
  c->state->operands = msc_new_array(msc_context_arena(ctx), const char *, k->argc + 1);
  if (!cli_parse(c, k->argc, k->argv)) return true;
  k->code = CLI_OK;
  if (cli_flag(c, "help")) {
    cli_print_help(c);
    return true;
  }
  const char *format = cli_text(c, "diagnostic-format");
  c->state->format = !format || *format == 't' ? CLI_DIAG_TEXT : *format == 'j' ? CLI_DIAG_JSON : CLI_DIAG_SARIF;
  c->state->colour = wants_colour(cli_text(c, "color"));
  msc_context_limit(ctx, (size_t)cli_int(c, "max-memory", 0));
  k->code = CLI_INPUT; /* what remains when the arena is exhausted */
  if (reads_keys(c->state->command) || cli_check_keys(c)) k->code = c->state->command->run(c);
  return true;
}

/* Makes output that did not reach stdout a failure, also when the reader of a pipe has gone. */
static int finish_stdout(int code) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  if (code == CLI_OK && errno != EPIPE) fprintf(stderr, "msc: error: cannot write to stdout: %s\n", strerror(errno));
  return code ? code : CLI_ENVIRONMENT;
}

static bool is_bug(const msc_context *ctx) {
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->code == MSC_E_INTERNAL) return true;
  return false;
}

/* True if an error is due to the machine and not to the user's input. */
static bool is_fault_of_machine(const msc_context *ctx) {
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->by_machine) return true;
  return false;
}

static int run_row(const cli_row *r, int argc, char **argv) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  if (!ctx) {
    fprintf(stderr, "msc: error: out of memory\n");
    return CLI_ENVIRONMENT;
  }
  struct cli_state state = {.name = r->name, .help = r->help, .command = r->command, .started_ns = cli_now_ns()};
  cli c = {.ctx = ctx, .state = &state};
  call k = {&c, argc, CLI_USAGE, argv};
  msc_protect(ctx, run_command, &k);
  int code = k.code;
  cli_progress_done(&c);
  cli_discard_outputs(&c);
  if (code == CLI_OK && msc_num_errors(ctx)) code = CLI_INPUT;
  if (code == CLI_INPUT && is_fault_of_machine(ctx)) code = CLI_ENVIRONMENT;
  if (is_bug(ctx)) code = CLI_BUG;
  cli_finish_diags(&c);
  msc_context_free(ctx);
  code = finish_stdout(code);
  if (c.at_once) _exit(code);
  return code;
}

/* Raises the limit of the stack, of this thread and of later ones, as far as the system allows if it is small; false
 * after an error. */
static bool deepen_stack(void) {
  const rlim_t wanted = 8 << 20, needed = 1 << 20;
  struct rlimit l;
  if (getrlimit(RLIMIT_STACK, &l) != 0 || l.rlim_cur >= wanted) return true;
  l.rlim_cur = l.rlim_max < wanted ? l.rlim_max : wanted;
  if (l.rlim_cur < needed) {
    fprintf(stderr, "msc: error: the stack may have only %lu KiB, msc needs %lu KiB: ulimit -s %lu\n",
            (unsigned long)(l.rlim_cur >> 10), (unsigned long)(needed >> 10), (unsigned long)(wanted >> 10));
    return false;
  }
  pthread_attr_t attr;
  setrlimit(RLIMIT_STACK, &l);
  if (pthread_attr_init(&attr) == 0) {
    if (pthread_attr_setstacksize(&attr, l.rlim_cur) == 0) pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
  }
  return true;
}

int main(int argc, char **argv) {
  cli_row rows[CLI_NUM_COMMANDS];
  if (!deepen_stack()) return CLI_ENVIRONMENT;
  cli_list_commands(rows);
  if (argc < 2) return print_commands(rows, stderr);
  bool help = !strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
  if (help && argc < 3) return finish_stdout(print_commands(rows, stdout));
  if (!strcmp(argv[1], "--version")) {
    printf("msc %s\n", msc_version());
    return finish_stdout(CLI_OK);
  }
  const cli_row *r = find_command(rows, argv[help ? 2 : 1]);
  if (!r) return CLI_USAGE;
  if (!r->command) {
    fprintf(stderr, "msc %s: error: not supported yet\n", r->name);
    return CLI_USAGE;
  }
  cli_catch_crashes(argc, argv);
  static char help_option[] = "--help";
  char *only_help[] = {help_option};
  return help ? run_row(r, 1, only_help) : run_row(r, argc - 2, argv + 2);
}
