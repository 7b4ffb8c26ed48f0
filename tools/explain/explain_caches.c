/* explain_caches.c: a verified plan in; its tables of which the device holds some rows, their bytes, and the share of
 * the rows that a step reads which are expected to be there, out (see explain_plan.h). */
#include "codegen/plan/plan.h"
#include "ir/abi/row_cache.h"
#include "tools/explain/explain_plan.h"

/* The share of rows that are there, if each of so many columns draws from a part of the table of its own. */
static double hit_rate(uint64_t rows, uint64_t cached, double numbers, uint64_t columns) {
  double missed = msc_expected_misses(rows / columns, cached / columns, numbers / (double)columns) * (double)columns;
  return numbers > 0 ? 1 - missed / numbers : 1;
}

static json_t *cache_json(plan_plan root, plan_cache k) {
  plan_parameter table = plan_plan_parameters(root, plan_cache_parameters(k, 0));
  uint64_t rows = plan_cache_rows(k), device = 0, home = 0, bytes = plan_cache_index(k).bytes,
           columns = plan_cache_columns(k);
  for (uint32_t i = 0; i < plan_cache_parameters_num(k); i++) {
    device += plan_cache_at(k, i).bytes;
    home += plan_parameter_ref(plan_plan_parameters(root, plan_cache_parameters(k, i))).bytes;
  }
  /* rows of a rank's part, and how many of the numbers are of them if all parts are alike */
  uint64_t whole = (bytes - msc_row_index_bytes(0, rows)) / MSC_ROW_ENTRY_BYTES;
  double numbers = (double)plan_cache_numbers(k) * (double)whole / (double)plan_parameter_shape(table, 0);
  bool apart = columns > 1 && whole % columns == 0 && rows >= columns;
  uint64_t pool = plan_cache_pool(k).bytes;
  json_t *one = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:f, s:f}", "table", plan_parameter_name(table),
                          "rows", (json_int_t)rows, "table_rows", (json_int_t)whole, "device_bytes",
                          (json_int_t)device, "home_bytes", (json_int_t)home, "index_bytes", (json_int_t)bytes, "home",
                          plan_parameter_ref(table).space == PLAN_SPACE_DISK ? "disk" : "cpu", "numbers",
                          (json_int_t)numbers, "zipf", MSC_ZIPF_EXPONENT, "hit_rate",
                          hit_rate(whole, rows, numbers, 1));
  if (pool) json_object_set_new(one, "pool_bytes", json_integer((json_int_t)pool));
  if (apart)
    json_object_set_new(one, "hit_rate_by_column", json_real(hit_rate(whole, rows, numbers, columns)));
  if (apart) json_object_set_new(one, "columns", json_integer((json_int_t)columns));
  return one;
}

json_t *cli_explain_caches(const void *file) {
  plan_plan root = plan_plan_root(file);
  if (!plan_plan_caches_num(root)) return NULL;
  json_t *all = json_array();
  for (uint32_t i = 0; i < plan_plan_caches_num(root); i++)
    json_array_append_new(all, cache_json(root, plan_plan_caches(root, i)));
  return all;
}
