/* cli.h: what every command of msc uses: parsed options, a context for diagnostics, input files, output files that
 * appear when they are complete.
 *
 * A command is one file cmd_NAME.c of a folder of tools/, found through its row in commands.def:
 *
 *   static int run(cli *c) {
 *     cli_bytes text;
 *     if (!cli_read(c, c->operands[0], &text)) return CLI_INPUT;
 *     msc_module *m = msc_parse(c->ctx, c->operands[0], text.data, text.size);
 *     if (!m) return CLI_INPUT;               // what was reported to c->ctx is printed after return
 *     cli_output *out = cli_open(c, cli_text(c, "o"));
 *     if (!out) return CLI_INPUT;
 *     msc_print_module(m, cli_write, out);
 *     return cli_close(c, out);               // fsync and rename; nothing is left behind on any other way out
 *   }
 *   static const cli_option options[] = {{"o", CLI_TEXT, "FILE", "write here instead of stdout"}, {0}};
 *   const cli_command cmd_NAME = {"FILE.mlir", 1, 1, options, run};
 *
 * Arena exhaustion inside run leaves it through msc_protect; open outputs are then discarded. */
#ifndef MSC_TOOLS_CLI_H
#define MSC_TOOLS_CLI_H

#include "ir/ir.h"
#include "passes/cluster.h"

/* Exit codes; 128 + n: ended by signal n. */
enum { CLI_OK = 0, CLI_INPUT = 1, CLI_USAGE = 2, CLI_ENVIRONMENT = 3, CLI_BUG = 70 };

typedef enum {
  CLI_FLAG,     /* no argument */
  CLI_TEXT,     /* any text */
  CLI_TEXTS,    /* any text; may be repeated */
  CLI_PAIRS,    /* name=text; may be repeated, and one option takes all pairs that follow it */
  CLI_INT,      /* a whole number */
  CLI_SEED,     /* a whole number from 0 to 2^64 - 1 */
  CLI_NUMBER,   /* a number */
  CLI_BYTES,    /* a size: 4096, 64k, 2M, 1.5G (powers of 1024) */
  CLI_CHOICE,   /* one of the words of `arg`, separated by | */
} cli_type;

typedef struct {
  const char *name; /* without dashes; one letter: -o */
  cli_type type;
  const char *arg;  /* how help calls the argument: FILE */
  const char *help;
} cli_option;

typedef struct cli cli;

/* For max_operands: any number of operands; options end at the first operand, which is the name of a program. */
enum { CLI_REST = -2 };

typedef struct {
  const char *operands;           /* how help calls them: "MODEL", "FILE ..."; "" none */
  int min_operands, max_operands; /* max < 0: any number; CLI_REST below */
  const cli_option *options;      /* ends with a row without name; NULL: only the common ones */
  int (*run)(cli *c);             /* returns an exit code */
} cli_command;

struct cli {
  msc_context *ctx;          /* its arenas are bounded by --max-memory, its diagnostics printed when run returns */
  int num_operands;
  const char *const *operands;
  bool json;                 /* --json: stdout carries one JSON object and nothing else */
  bool at_once;              /* the process ends by _exit: exit handlers of libraries would wait for a stuck GPU */
  struct cli_state *state;
};

#define CMD(name, help) extern const cli_command cmd_##name __attribute__((weak));
#include "tools/commands.def"
#undef CMD

/* ---- options.c: asking for a name that is not in the command's table is a bug and ends the program ---- */

bool cli_flag(const cli *c, const char *name);
const char *cli_text(const cli *c, const char *name); /* the last one given; NULL: absent */
size_t cli_texts(const cli *c, const char *name, const char *const **out_texts); /* in order of appearance */
int64_t cli_int(const cli *c, const char *name, int64_t absent);                 /* CLI_INT and CLI_BYTES */
uint64_t cli_seed(const cli *c, const char *name);                               /* 0: absent */
double cli_number(const cli *c, const char *name, double absent);
/* Reports "msc NAME: error: ..." with a pointer to --help; returns CLI_USAGE. */
int cli_usage(const cli *c, const char *fmt, ...) MSC_PRINTF(2, 3);

/* ---- render.c ---- */

/* Prints the diagnostics so far (long commands call it before they go on); with json and sarif they are printed at the
 * end. */
void cli_flush_diags(cli *c);
/* The location of a file as a whole. */
const msc_loc *cli_loc(cli *c, const char *path);
/* Text of unknown origin made printable: control characters and broken UTF-8 become \xNN.  The caller frees it;
 * NULL: no memory. */
char *cli_printable(const char *text);

/* ---- output.c ---- */

typedef struct {
  const char *data; /* in the context's arena, 64-byte aligned, a zero byte follows */
  size_t size;
} cli_bytes;

/* Reads a whole file or pipe ("-": stdin), of a size that a model or a plan may have; false after a report. */
bool cli_read(cli *c, const char *path, cli_bytes *out_bytes);
/* Notes a file that is read by other means than cli_read, so that no output is written over it. */
void cli_note_input(cli *c, const char *path);
/* Claims an output of the command; called for every output before the first is written. False after a report:
 * it is an input of this command, or was claimed before. NULL and "-" are no files. */
bool cli_claim_output(cli *c, const char *path);
/* True if files may be dumped into the folder of --dump-dir; false after a report: a dump would replace an input. */
bool cli_may_dump(cli *c, const char *folder);

typedef struct cli_output cli_output;

/* Opens an output: NULL or "-" is stdout, else a temporary name in the same folder until cli_close. NULL after a
 * report. */
cli_output *cli_open(cli *c, const char *path);
/* a msc_write_fn; the first failure is reported by cli_close */
void cli_write(void *output, const char *data, size_t bytes);
void cli_printf(cli_output *out, const char *fmt, ...) MSC_PRINTF(2, 3);
int cli_close(cli *c, cli_output *out); /* an exit code */
/* Writes a whole file, by cli_open, cli_write and cli_close. */
int cli_write_file(cli *c, const char *path, const char *data, size_t bytes);
bool cli_make_folder(cli *c, const char *path); /* or it is there already */

/* Shows on a terminal how far long work is, in one line; silent in the first second and when stderr is no terminal. */
void cli_progress(cli *c, const char *fmt, ...) MSC_PRINTF(2, 3);
void cli_progress_done(cli *c);

/* ---- config_args.c ---- */

/* The flags that a reproducer must repeat: every --set. */
const char *cli_repeated_flags(cli *c);

/* The configuration of passes/config/config.h from --config, the environment and --set, checked; NULL after reports. */
struct msc_config *cli_config(cli *c);
/* Checks each key of --config and --set by itself, for commands that do not read them, too; false after reports. */
bool cli_check_keys(cli *c);
/* True if the keys of --config and --set have the values that a plan records (JSON, as mscrt_plan_config gives it);
 * false after reports. Which rank is asked about, and where strategies lie, is not the plan's. */
bool cli_keys_fit(cli *c, const char *recorded);
/* *out_rank: the rank of a plan for `ranks` ranks that the command is about: the key global_rank of this command, else
 * `recorded`, its value in the plan (-1: not set).  False after a report: there is no such rank. */
bool cli_rank(cli *c, int64_t recorded, int64_t ranks, int64_t *out_rank);
/* Returns the value, a whole number, of a key in the configuration that a plan records; -1: it was not set. */
int64_t cli_recorded(const char *config, const char *key);
/* --cluster, a name or a file; NULL: not given.  False after a report. */
bool cli_cluster(cli *c, const msc_cluster **out_cluster);

/* ---- model.c ---- */

/* Reads and verifies a model.fbs or IR text; NULL after reports, with the exit code. The command must have the option
 * {"dim", CLI_PAIRS, "NAME=SIZE", ...}. */
msc_module *cli_read_model(cli *c, const char *path, int *out_code);
/* Reads the bytes of a model, without parsing them; false after reports. */
bool cli_read_model_bytes(cli *c, const char *path, msc_model_bytes *out, int *out_code);

/* ---- weights.c ---- */

/* Allows the reader of a model to read files inside the model's folder, but not through links. */
void cli_read_beside(cli *c, msc_model_bytes *model);
/* Writes a safetensors file; an exit code. */
int cli_write_weights(cli *c, const char *path, const msc_weights *weights);

/* ---- crash.c ---- */

#define CLI_REPRODUCER "msc-repro.mlir"

/* Sets what is saved as CLI_REPRODUCER if msc crashes from here on: a first line and the IR text, which are not copied.
 * NULL: the command itself is saved, as msc-repro.sh. */
void cli_keep_reproducer(const char *line, const char *text, size_t bytes);
/* After a bug of a pass: writes its IR text, or the command if `text` is NULL, to a reproducer and reports the name of
 * that file. */
void cli_write_reproducer(cli *c, const char *pass, const char *text, size_t bytes);

#endif
