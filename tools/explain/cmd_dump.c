/* cmd_dump.c: model.fbs or plan.bin in, checked; text out: IR of a model, a plan's calls in order. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/plan/dump_plan.h"
#include "ir/text/text.h"
#include "plan_fbs.h"
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

/* {"kind":"plan","model":"net","config":{...},"text":"..."}: the text is what is printed without --json. */
static int write_dump_json(cli *c, const char *kind, const char *model, const char *config, const msc_text *text) {
  char *clean = cli_printable(model), *again = NULL;
  json_t *lines = json_stringn(text->text, text->num);
  if (!lines) lines = json_string(again = cli_printable(text->text)); /* names that are no UTF-8 */
  json_t *set = config ? json_loads(config, 0, NULL) : NULL;
  json_t *all = json_pack("{s:s, s:s, s:o*, s:o}", "kind", kind, "model", clean ? clean : "?", "config", set, "text",
                          lines ? lines : json_string("?"));
  char *dump = json_dumps(all, JSON_COMPACT);
  free(clean);
  free(again);
  json_decref(all);
  cli_output *out = dump ? cli_open(c, cli_text(c, "o")) : NULL;
  if (out) cli_printf(out, "%s\n", dump);
  free(dump);
  return out ? cli_close(c, out) : CLI_INPUT;
}

/* The text, which is in the arena, as it is or within JSON. */
static int write_text_or_json(cli *c, const char *kind, const char *model, const char *config, const msc_text *text) {
  return c->json ? write_dump_json(c, kind, model, config, text)
                 : cli_write_file(c, cli_text(c, "o"), text->text, text->num);
}

static int dump_plan(cli *c, const char *path, const cli_bytes *file) {
  if (!check_plan(c, path, file)) return CLI_INPUT;
  plan_plan root = plan_plan_root(file->data);
  int64_t ranks = 1, rank;
  for (uint32_t i = 0; i < plan_plan_mesh_num(root); i++) ranks *= plan_axis_size(plan_plan_mesh(root, i));
  if (!cli_rank(c, plan_plan_config(root) ? cli_recorded(plan_plan_config(root), "global_rank") : -1, ranks, &rank))
    return CLI_INPUT;
  msc_text text = {.arena = msc_context_arena(c->ctx)};
  msc_dump_plan(file->data, rank, msc_text_write, &text);
  return write_text_or_json(c, "plan", msc_plan_model_name(file->data), msc_plan_config_text(file->data), &text);
}

static int dump_model(cli *c, const char *path) {
  int code;
  msc_module *m = cli_read_model(c, path, &code);
  if (!m) return code;
  msc_text text = {.arena = msc_context_arena(c->ctx)};
  msc_print_module(m, msc_text_write, &text);
  const msc_attr_value *name = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_name));
  return write_text_or_json(c, "model", name && name->kind == MSC_ATTR_STR ? name->s : path, NULL, &text);
}

static int run_dump(cli *c) {
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
const cli_command cmd_dump = {"FILE", 1, 1, options, run_dump};
