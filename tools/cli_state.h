/* cli_state.h: shared by the files that implement cli.h, and by the commands that print the tables of all commands. */
#ifndef MSC_TOOLS_CLI_STATE_H
#define MSC_TOOLS_CLI_STATE_H

#include "tools/cli.h"

typedef struct {
  const cli_option *option;
  const char *text; /* NULL for a flag */
} cli_value;

typedef enum { CLI_DIAG_TEXT, CLI_DIAG_JSON, CLI_DIAG_SARIF } cli_format;

typedef struct cli_known_file cli_known_file;

struct cli_state {
  const char *name;           /* of the command */
  const char *help;           /* of the command */
  const cli_command *command;
  cli_value *values;          /* in order of appearance */
  size_t num_values;
  const char **operands;
  cli_format format;
  bool colour, progress_shown;
  size_t printed_diags;       /* diagnostics already printed as text */
  int64_t started_ns, progress_ns;
  cli_output *outputs;        /* open ones */
  cli_known_file *known;      /* files that were read or written so far */
  struct msc_config *config;  /* of --config, the environment and --set, once it was read */
  bool config_ok;             /* nothing was reported then */
  const struct cli_plan *plans; /* files that tools/explain/read_plan.c has read */
};

/* msc.c: the commands, in the order of commands.def */
enum {
#define CMD(name, help) CLI_COMMAND_##name,
#include "tools/commands.def"
#undef CMD
  CLI_NUM_COMMANDS
};

typedef struct {
  const char *name, *help;
  const cli_command *command; /* NULL: its file does not exist yet */
} cli_row;

void cli_list_commands(cli_row *out_rows);

/* options.c */
extern const cli_option cli_common_options[];
bool cli_parse(cli *c, int argc, char **argv); /* false after usage errors */
void cli_print_help(const cli *c);

/* render.c */
void cli_finish_diags(cli *c); /* the last flush; json and sarif print here */

/* output.c */
void cli_discard_outputs(cli *c); /* removes temporary files */
void cli_remove_temporaries(void); /* the same from a signal handler */
int64_t cli_now_ns(void);

/* crash.c */
void cli_catch_crashes(int argc, char **argv);

#endif
