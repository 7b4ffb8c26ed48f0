/* read_plan.c: plan.bin, or a model with the configuration that it would be compiled with, in; the bytes of a plan,
 * verified, out. */
#include <string.h>

#include "codegen/compile.h"
#include "codegen/plan/dump_plan.h"
#include "runtime/mscrt.h"
#include "tools/cli_state.h"
#include "tools/explain/explain_plan.h"

static bool verify_plan(cli *c, const char *path, const cli_plan *p) {
  mscrt_status *s = mscrt_plan_verify(p->data, p->bytes);
  if (s) msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, path), "%s", mscrt_status_text(s));
  mscrt_status_free(s);
  return !s;
}

/* Checks that no option says how the plan should be compiled, and no key anything else than the plan. False after
 * reports. */
static bool check_options_of_plan(cli *c, const char *path, const cli_plan *p) {
  static const cli_option of_model[] = {CLI_MODEL_OPTIONS};
  const char *config = msc_plan_config_text(p->data);
  bool ok = !config || cli_keys_fit(c, config);
  for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
    if (cli_text(c, of_model[i].name))
      ok = msc_error(c->ctx, MSC_E_NONE, cli_loc(c, path), "--%s is for models, and this is a plan, compiled already",
                     of_model[i].name);
  return ok;
}

static bool compile_model(cli *c, const msc_model_bytes *model, bool with_code, cli_plan *out) {
  const msc_target_words words = {cli_text(c, "target"), cli_text(c, "mcpu"), cli_loc(c, "--target"),
                                  cli_loc(c, "--mcpu")};
  struct msc_config *config = cli_config(c);
  msc_compile_options o = {.config = config, .verify = MSC_VERIFY_IR, .without_code = !with_code};
  msc_compiled made;
  MSC_TRY(config && msc_code_target_of(c->ctx, &words, &o.target) && cli_cluster(c, &o.cluster));
  o.target.vector_bytes = msc_config_vector_bytes(config);
  o.flags = cli_repeated_flags(c);
  cli_progress(c, "compiling");
  bool ok = msc_compile_model(c->ctx, model, &o, &made);
  cli_progress_done(c);
  if (ok) *out = (cli_plan){.data = made.bytes, .bytes = made.num_bytes, .of_model = true};
  return ok;
}

static bool is_plan(const msc_model_bytes *file) {
  return file->bytes >= 8 && !memcmp((const char *)file->data + 4, "MSCP", 4);
}

const cli_plan *cli_read_plan(cli *c, const char *path, bool with_code) {
  msc_model_bytes file;
  int code;
  for (const cli_plan *p = c->state->plans; p; p = p->next)
    if (!strcmp(p->path, path)) return p;
  cli_plan *p = msc_new(msc_context_arena(c->ctx), cli_plan);
  if (!cli_read_model_bytes(c, path, &file, &code)) return NULL;
  *p = (cli_plan){.data = file.data, .bytes = file.bytes};
  bool ok = is_plan(&file) ? verify_plan(c, path, p) && check_options_of_plan(c, path, p)
                           : compile_model(c, &file, with_code, p);
  if (!ok) return NULL;
  p->path = path, p->next = c->state->plans;
  c->state->plans = p;
  return p;
}
