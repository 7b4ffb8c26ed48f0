/* autotune.c: a plan in; the fastest algorithms of its products on this GPU, or their tiles on this CPU, measured here,
 * out: in the user's cache folder, where every `msc run` finds them. */
#include "tools/compile/autotune.h"

#include <stdio.h>

#include "codegen/plan/plan.h"
#include "runtime/mscrt.h"
#include "tools/status.h"
#include "tools/compile/trust.h"

bool autotune_file(cli *c, char out_path[4200]) {
  char folder[4096];
  if (!trust_folder("products", true, folder))
    return msc_error(c->ctx, MSC_E_TARGET, NULL, "--autotune: there is no cache folder that only you can write to");
  snprintf(out_path, 4200, "%s/choices", folder);
  return true;
}

const char *autotune_measured(char path[4200]) {
  char folder[4096];
  if (!trust_folder("products", false, folder)) return NULL;
  snprintf(path, 4200, "%s/choices", folder);
  return path;
}

static int report_runtime(cli *c, mscrt_status *s) { return status_report(c, NULL, "--autotune: ", s); }

/* Opens the plan, which measures and chooses the algorithms of its products. */
static int measure_products(cli *c, const mscrt_plan *plan) {
  char choices[4200];
  mscrt_options o = {.struct_size = sizeof o, .ranks = 1, .choices = choices, .tune = true};
  mscrt_context *ctx = NULL;
  if (mscrt_plan_ranks(plan) > 1) {
    msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL,
              "--autotune: a plan for %d ranks is not supported yet here: msc run --autotune measures when they begin",
              mscrt_plan_ranks(plan));
    return CLI_INPUT;
  }
  if (!autotune_file(c, choices)) return CLI_ENVIRONMENT;
  mscrt_status *s = mscrt_open(plan, &o, &ctx);
  mscrt_close(ctx);
  return s ? report_runtime(c, s) : CLI_OK;
}

int autotune_plan(cli *c, const msc_compiled *made) {
  mscrt_plan *plan = NULL;
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_status *s = mscrt_plan_open(made->bytes, made->num_bytes, &trust, &plan);
  int code = s ? report_runtime(c, s) : measure_products(c, plan);
  mscrt_plan_close(plan);
  return code;
}
