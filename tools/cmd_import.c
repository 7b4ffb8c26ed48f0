/* cmd_import.c: a model in another format in; model.fbs out. */
#include <string.h>

#include "tools/cli.h"

static int run_import(cli *c) {
  int code;
  const char *to = cli_text(c, "o");
  if (!to) return cli_usage(c, "needs -o model.fbs");
  msc_module *m = cli_read_model(c, c->operands[0], &code);
  if (!m) return code;
  size_t bytes;
  const void *data = msc_write_fbs(m, msc_context_arena(c->ctx), &bytes);
  /* what is written can be read: rules of the file that the text did not have to keep show here, not at
   * the user's compile */
  if (!data || !msc_read_fbs(c->ctx, c->operands[0], data, bytes, 0, NULL)) return CLI_INPUT;
  return cli_write_file(c, to, data, bytes);
}

static const cli_option options[] = {
    {"o", CLI_TEXT, "FILE", "the model file to write"},
    {"dim", CLI_PAIRS, "NAME=SIZE", "size of a dimension that the model leaves open: batch, or x.1"},
    {0},
};
const cli_command cmd_import = {"FILE", 1, 1, options, run_import};
