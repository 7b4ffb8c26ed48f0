/* cmd_dump.c: model.fbs or plan.bin in, checked; text out: IR of a model, a plan's calls in order. */
#include <string.h>

#include "codegen/dump_plan.h"
#include "runtime/mscrt.h"
#include "tools/cli.h"

static bool is_plan(const cli_bytes *file) { return file->size >= 8 && !memcmp(file->data + 4, "MSCP", 4); }

static bool check_plan(cli *c, const char *path, const cli_bytes *file) {
  mscrt_status *s = mscrt_plan_verify(file->data, file->size);
  if (s) msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, path), "%s", mscrt_status_text(s));
  bool ok = !s;
  mscrt_status_free(s);
  return ok;
}

static int dump_plan(cli *c, const char *path, const cli_bytes *file) {
  if (!check_plan(c, path, file)) return CLI_INPUT;
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  msc_dump_plan(file->data, cli_write, out);
  return cli_close(c, out);
}

static int dump_model(cli *c, const char *path) {
  int code;
  msc_module *m = cli_read_model(c, path, &code);
  if (!m) return code;
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  msc_print_module(m, cli_write, out);
  return cli_close(c, out);
}

static int run(cli *c) {
  cli_bytes file;
  const char *path = c->operands[0];
  if (!strcmp(path, "-")) return dump_model(c, path); /* it can be read once only */
  if (!cli_read(c, path, &file)) return CLI_INPUT;
  return is_plan(&file) ? dump_plan(c, path, &file) : dump_model(c, path);
}

static const cli_option options[] = {
  {"o", CLI_TEXT, "FILE", "write here instead of stdout"},
  {"dim", CLI_PAIRS, "NAME=SIZE", "size of a dimension that the model leaves open: batch, or x.1"},
  {0},
};
const cli_command cmd_dump = {"FILE", 1, 1, options, run};
