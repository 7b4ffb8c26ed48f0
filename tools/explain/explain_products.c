/* explain_products.c: a verified plan in; its products that a library may compute in place of the plan's kernels out
 * (see explain_plan.h). */
#include "codegen/plan/plan.h"
#include "tools/explain/explain_plan.h"

static json_t *product_json(plan_call call, plan_matmul p) {
  msc_plan_matmul sizes = {.batch = plan_matmul_batch(p),
                           .m = plan_matmul_m(p),
                           .n = plan_matmul_n(p),
                           .k = plan_matmul_k(p),
                           .transpose_a = plan_matmul_transpose_a(p),
                           .transpose_b = plan_matmul_transpose_b(p)};
  const char *why = msc_why_by_library(&sizes);
  const char *name = plan_call_name(call);
  bool preferred = plan_matmul_library(p) == PLAN_LIBRARY_USE_PREFERRED;
  json_t *one =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "op", name ? name : "", "batch", (json_int_t)plan_matmul_batch(p),
                "m", (json_int_t)plan_matmul_m(p), "n", (json_int_t)plan_matmul_n(p), "k", (json_int_t)plan_matmul_k(p),
                "library", preferred ? "preferred" : "measured");
  if (preferred && why) json_object_set_new(one, "why", json_string(why));
  return one;
}

json_t *cli_explain_products(const void *file) {
  plan_plan root = plan_plan_root(file);
  json_t *all = json_array();
  for (uint32_t i = 0; i < plan_plan_sections_num(root); i++) {
    plan_section s = plan_plan_sections(root, i);
    for (uint32_t k = 0; k < plan_section_calls_num(s); k++) {
      plan_call call = plan_section_calls(s, k);
      if (plan_call_kind(call) != PLAN_CALL_KIND_MATMUL) continue;
      plan_matmul p = plan_plan_matmuls(root, plan_call_index(call));
      if (plan_matmul_library(p)) json_array_append_new(all, product_json(call, p));
    }
  }
  if (json_array_size(all)) return all;
  json_decref(all);
  return NULL;
}
