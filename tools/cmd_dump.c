/* cmd_dump.c: model.fbs in, checked; its IR text out. */
#include "tools/cli.h"

static int run(cli *c) {
  int code;
  msc_module *m = cli_read_model(c, c->operands[0], &code);
  if (!m) return code;
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  msc_print_module(m, cli_write, out);
  return cli_close(c, out);
}

static const cli_option options[] = {
    {"o", CLI_TEXT, "FILE", "write here instead of stdout"},
    {"dim", CLI_PAIRS, "NAME=SIZE", "size of a dimension that the model leaves open: batch, or x.1"},
    {0},
};
const cli_command cmd_dump = {"FILE", 1, 1, options, run};
