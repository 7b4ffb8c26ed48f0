/* check.c: a whole configuration in; do its keys fit each other, and can this version honour them. */
#include <string.h>

#include "passes/6_pipeline/schedule/schedule.h"
#include "passes/config/rows.h"

/* "device_num 8 (c.json:3)": a value with its origin, for messages. */
static const char *key_with_value(const msc_config *config, msc_key key) {
  msc_arena *arena = msc_context_arena(config->ctx);
  return msc_arena_printf(arena, "%s %s (%s)", msc_key_name(key), msc_config_value_text(config, key, arena),
                          msc_config_origin_text(config, key, arena));
}

static bool lives_in(const msc_config *config, const char *home) {
  static const char *const kinds[] = {"param", "optimizer", "activation"};
  bool any = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *own = msc_config_offload(config, kinds[i]);
    any |= own && !strcmp(own, home);
  }
  return any;
}
static bool has_disk(const msc_config *config) { return lives_in(config, "disk"); }
static bool has_host(const msc_config *config) {
  return lives_in(config, "cpu") || msc_config_bool(config, MSC_KEY_auto_offload);
}

static bool may_use_disk(const msc_config *config) {
  return has_disk(config) ||
         (msc_config_bool(config, MSC_KEY_auto_offload) && msc_config_value(config, MSC_KEY_offload_cpu_size));
}

/* The place to report a conflict of two keys at: that of `first` if it was set, else that of `second`. */
static const msc_loc *loc_of_later(const msc_config *config, msc_key first, msc_key second) {
  return msc_config_is_set(config, first) ? msc_config_loc(config, first) : msc_config_loc(config, second);
}

static bool check_supported(msc_config *config, msc_key key) {
  const msc_config_row *row = &msc_config_rows[key];
  if (!msc_config_value(config, key) || !strcmp(row->supported, "*")) return true;
  const char *text = msc_config_value_text(config, key, msc_context_arena(config->ctx));
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  bool ok = msc_config_in_range(row->supported, json);
  json_decref(json);
  if (ok) return true;
  if (!strcmp(row->supported, "null"))
    return msc_error(config->ctx, MSC_E_UNSUPPORTED, msc_config_loc(config, key), "%s: not supported yet", row->name);
  return msc_error(config->ctx, MSC_E_UNSUPPORTED, msc_config_loc(config, key), "%s: %s is not supported yet, only %s",
                   row->name, text,
                   msc_config_range_text(msc_context_arena(config->ctx),
                                         row->type == MSC_CONFIG_INT ? "a whole number" : "", row->supported));
}

static bool check_ranks(msc_config *config) {
  msc_context *ctx = config->ctx;
  int64_t ranks = msc_config_int(config, MSC_KEY_device_num), stages = msc_config_int(config, MSC_KEY_pipeline_stages);
  bool ok = true;
  if (msc_config_int(config, MSC_KEY_global_rank) >= ranks)
    ok = msc_error(ctx, MSC_E_CONFIG, loc_of_later(config, MSC_KEY_global_rank, MSC_KEY_device_num),
                   "%s must be below %s", key_with_value(config, MSC_KEY_global_rank),
                   key_with_value(config, MSC_KEY_device_num));
  if (ranks % stages != 0)
    ok = msc_error(ctx, MSC_E_CONFIG, loc_of_later(config, MSC_KEY_pipeline_stages, MSC_KEY_device_num),
                   "%s must divide %s", key_with_value(config, MSC_KEY_pipeline_stages),
                   key_with_value(config, MSC_KEY_device_num));
  if (ranks > 1 && msc_config_parallel_mode(config) == MSC_STAND_ALONE)
    ok = msc_error(ctx, MSC_E_CONFIG, loc_of_later(config, MSC_KEY_parallel_mode, MSC_KEY_device_num),
                   "%s is for one device and contradicts %s; choose data_parallel, semi_auto_parallel or auto_parallel",
                   key_with_value(config, MSC_KEY_parallel_mode), key_with_value(config, MSC_KEY_device_num));
  msc_mesh mesh;
  if (!msc_config_mesh(config, ctx, &mesh)) return ok;
  int64_t devices = 1;
  for (int i = 0; i < mesh.num_axes; i++) {
    if (devices > MSC_MAX_DEVICES) break;
    devices *= mesh.axis[i].size; /* each at most 65536: no overflow */
  }
  if (devices * stages != ranks)
    ok = msc_error(ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_mesh),
                   "%s has %" PRId64 " devices%s%s, but there is %s", key_with_value(config, MSC_KEY_mesh), devices,
                   stages > 1 ? " in each stage of " : "",
                   stages > 1 ? key_with_value(config, MSC_KEY_pipeline_stages) : "",
                   key_with_value(config, MSC_KEY_device_num));
  return ok;
}

static bool check_input_shapes(msc_config *config) {
  msc_context *ctx = config->ctx;
  const msc_attr_value *strategy = msc_config_value(config, MSC_KEY_dataset_strategy);
  if (!strategy) return true;
  const msc_loc *loc = msc_config_loc(config, MSC_KEY_dataset_strategy);
  bool whole = strategy->kind == MSC_ATTR_STR && !strcmp(strategy->s, "full_batch"), ok = true;
  if (strategy->kind == MSC_ATTR_LIST && msc_config_parallel_mode(config) == MSC_HYBRID_PARALLEL)
    return msc_error(ctx, MSC_E_CONFIG, loc,
                     "dataset_strategy: a list says nothing with %s, where shapes are those of one rank's part",
                     key_with_value(config, MSC_KEY_parallel_mode));
  if (msc_config_value(config, MSC_KEY_full_batch) && msc_config_bool(config, MSC_KEY_full_batch) != whole)
    ok = msc_error(ctx, MSC_E_CONFIG, loc, "%s contradicts %s; give one of them",
                   key_with_value(config, MSC_KEY_dataset_strategy), key_with_value(config, MSC_KEY_full_batch));
  int64_t parts[MSC_MAX_RANK], ranks = msc_config_int(config, MSC_KEY_device_num);
  int num;
  for (size_t input = 0; (num = msc_config_input_parts(config, input, parts)) >= 0; input++) {
    int64_t product = 1;
    for (int i = 0; i < num && product <= MSC_MAX_DEVICES; i++) product *= parts[i];
    if (ranks % product != 0)
      ok = msc_error(ctx, MSC_E_STRATEGY, loc,
                     "dataset_strategy: input %zu is cut into %" PRId64 " parts, which does not divide %s", input,
                     product, key_with_value(config, MSC_KEY_device_num));
  }
  return ok;
}

static bool check_fusion_modes(msc_config *config) {
  const msc_attr_value *list = msc_config_value(config, MSC_KEY_all_reduce_fusion_config),
                       *fusion = msc_config_value(config, MSC_KEY_comm_fusion);
  if (!list || !fusion) return true;
  for (size_t i = 0; i < fusion->dict.num; i++) {
    if (strcmp(fusion->dict.a[i].name, "allreduce")) continue;
    const msc_attr_value *all_reduce = &fusion->dict.a[i].value;
    for (size_t j = 0; j < all_reduce->dict.num; j++)
      if (!strcmp(all_reduce->dict.a[j].name, "config") && msc_attr_equal(&all_reduce->dict.a[j].value, list))
        return true;
    return msc_error(config->ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_all_reduce_fusion_config),
                     "%s contradicts comm_fusion.allreduce; give one of them",
                     key_with_value(config, MSC_KEY_all_reduce_fusion_config));
  }
  return true;
}

/* Checks the keys of the parallel optimizer: two of them say one thing, and its details say nothing without it. */
static bool check_parallel_optimizer(msc_config *config) {
  msc_context *ctx = config->ctx;
  const msc_attr_value *zero = msc_config_value(config, MSC_KEY_zero),
                       *on = msc_config_value(config, MSC_KEY_enable_parallel_optimizer);
  const msc_attr_value *details = msc_config_value(config, MSC_KEY_parallel_optimizer_config), *shard = NULL;
  bool ok = true;
  for (size_t i = 0; details && i < details->dict.num; i++)
    if (!strcmp(details->dict.a[i].name, "gradient_accumulation_shard")) shard = &details->dict.a[i].value;
  if (zero && on && on->b != (zero->i > 0))
    ok = msc_error(ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_zero), "%s contradicts %s; give one of them",
                   key_with_value(config, MSC_KEY_zero), key_with_value(config, MSC_KEY_enable_parallel_optimizer));
  if (zero && zero->i > 0 && shard && shard->b != (zero->i > 1))
    ok = msc_error(ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_zero),
                   "%s contradicts gradient_accumulation_shard in %s; it is true with stage 2 and 3",
                   key_with_value(config, MSC_KEY_zero), key_with_value(config, MSC_KEY_parallel_optimizer_config));
  static const msc_key details_of[] = {MSC_KEY_parallel_optimizer_config, MSC_KEY_optimizer_weight_shard_size};
  for (size_t i = 0; ok && !msc_config_zero(config) && i < sizeof details_of / sizeof *details_of; i++)
    if (msc_config_value(config, details_of[i]))
      msc_warning(ctx, MSC_E_CONFIG, msc_config_loc(config, details_of[i]),
                  "%s says nothing without enable_parallel_optimizer or zero", msc_key_name(details_of[i]));
  return ok;
}

/* Refuses more chunks of a stage than the scheduler has. */
static bool check_chunks(msc_config *config) {
  int64_t chunks = msc_config_int(config, MSC_KEY_pipeline_chunks);
  msc_schedule_kind kind = MSC_SCHEDULE_1F1B;
  msc_schedule_of_name(msc_config_text(config, MSC_KEY_pipeline_scheduler), &kind);
  return msc_config_int(config, MSC_KEY_pipeline_stages) == 1 || chunks <= msc_schedule_most_chunks(kind) ||
         msc_error(config->ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_pipeline_chunks),
                   "%s is more than the %d of %s; interleaved has up to %d",
                   key_with_value(config, MSC_KEY_pipeline_chunks), msc_schedule_most_chunks(kind),
                   key_with_value(config, MSC_KEY_pipeline_scheduler), MSC_MAX_CHUNKS);
}

/* Checks the keys of offload: values on disk need offload_path, and some kinds are not supported yet. */
static bool check_offload(msc_config *config) {
  msc_context *ctx = config->ctx;
  const msc_loc *loc = msc_config_loc(config, MSC_KEY_offload);
  bool ok = true;
  if (msc_config_offload(config, "activation") && msc_config_int(config, MSC_KEY_pipeline_stages) > 1)
    ok = msc_error(ctx, MSC_E_UNSUPPORTED, loc, "offload.activation: not supported yet with %s",
                   key_with_value(config, MSC_KEY_pipeline_stages));
  const char *state = msc_config_offload(config, "optimizer");
  if (msc_config_updates_on_host(config) && !(state && !strcmp(state, "cpu")) &&
      !msc_config_bool(config, MSC_KEY_auto_offload))
    ok = msc_error(ctx, MSC_E_CONFIG, loc,
                   "offload.update says nothing without \"optimizer\": \"cpu\", or auto_offload: no state lives in "
                   "host memory");
  if (has_disk(config) && !msc_config_value(config, MSC_KEY_offload_path))
    ok = msc_error(ctx, MSC_E_CONFIG, loc, "%s needs a folder on that disk: the key offload_path",
                   key_with_value(config, MSC_KEY_offload));
  if (msc_config_int(config, MSC_KEY_host_mem_block_size) % 4096)
    ok = msc_error(ctx, MSC_E_CONFIG, msc_config_loc(config, MSC_KEY_host_mem_block_size),
                   "%s is no multiple of 4096, as a disk reads and writes",
                   key_with_value(config, MSC_KEY_host_mem_block_size));
  return ok;
}

/* Refuses configurations of parameter_server that contradict it, and those in which gradients are not sums over all
 * ranks, which is what servers add up. */
static bool check_server(msc_config *config) {
  msc_context *ctx = config->ctx;
  msc_key key = MSC_KEY_parameter_server;
  const msc_loc *loc = msc_config_loc(config, key);
  msc_servers servers = msc_config_servers(config);
  if (!servers.asked) return true;
  if (servers.sync && servers.staleness > 0)
    return msc_error(ctx, MSC_E_CONFIG, loc, "parameter_server.staleness: workers are not behind in mode sync: 0");
  if (msc_config_zero(config))
    return msc_error(
        ctx, MSC_E_CONFIG, loc, "parameter_server contradicts %s: the state lives on servers, or is cut over the ranks",
        key_with_value(config,
                       msc_config_value(config, MSC_KEY_zero) ? MSC_KEY_zero : MSC_KEY_enable_parallel_optimizer));
  return true;
}

/* Refuses what ranks that go on with others do not move, and what says the parts of each rank. */
static bool check_elastic(msc_config *config) {
  msc_context *ctx = config->ctx;
  const msc_loc *loc = msc_config_loc(config, MSC_KEY_elastic);
  bool ok = true;
  if (!msc_config_bool(config, MSC_KEY_elastic)) return true;
  msc_servers servers = msc_config_servers(config);
  bool disk = may_use_disk(config), apart = servers.asked && !servers.sync;
  if (disk || apart)
    ok = msc_error(ctx, MSC_E_UNSUPPORTED, loc,
                   "elastic: not supported yet with %s, %s; from a checkpoint a plan for fewer ranks goes on, with "
                   "--resume",
                   key_with_value(config, apart              ? MSC_KEY_parameter_server
                                          : has_disk(config) ? MSC_KEY_offload
                                                             : MSC_KEY_auto_offload),
                   apart ? "whose workers are at different steps" : "which puts values on disk");
  if (msc_config_parallel_mode(config) == MSC_HYBRID_PARALLEL)
    ok = msc_error(ctx, MSC_E_CONFIG, loc, "elastic contradicts %s, whose program is one rank's",
                   key_with_value(config, MSC_KEY_parallel_mode));
  if (msc_config_input_mode(config) == MSC_INPUT_TUPLES)
    ok = msc_error(ctx, MSC_E_CONFIG, loc, "elastic contradicts %s, which is for one number of ranks",
                   key_with_value(config, MSC_KEY_dataset_strategy));
  return ok;
}

/* ---- keys that say nothing without another ---- */

static bool has_pipeline(const msc_config *c) { return msc_config_int(c, MSC_KEY_pipeline_stages) > 1; }
static bool has_mean(const msc_config *c) {
  return msc_config_bool(c, MSC_KEY_gradients_mean) && msc_config_parallel_mode(c) >= MSC_SEMI_AUTO_PARALLEL;
}
static bool can_shrink(const msc_config *c) { return msc_config_elastic_size(c) > 1; }
static bool has_dynamic_scale(const msc_config *c) { return msc_config_loss_scale(c).dynamic; }

#define DISK_USER "something on disk in the key offload, or auto_offload with offload_cpu_size"

static const struct {
  msc_key key;
  bool (*is_there)(const msc_config *config);
  const char *what;
} needs[] = {
    {MSC_KEY_pipeline_chunks, has_pipeline, "pipeline_stages of 2 and more"},
    {MSC_KEY_gradients_mean_of, has_mean, "gradients_mean in semi_auto_parallel or auto_parallel"},
    {MSC_KEY_loss_scale_config, has_dynamic_scale, "loss_scale dynamic"},
    {MSC_KEY_offload_path, may_use_disk, DISK_USER},
    {MSC_KEY_offload_disk_size, may_use_disk, DISK_USER},
    {MSC_KEY_host_mem_block_size, may_use_disk, DISK_USER},
    {MSC_KEY_elastic, can_shrink, "several devices, and an axis dp if there is a mesh"},
    {MSC_KEY_offload_cpu_size, has_host, "something in host memory, cpu, in the key offload, or auto_offload"},
};

/* Refuses a key that is not at its default and has no effect because another key, which it refines, is not set. */
static bool check_needs(msc_config *config) {
  bool ok = true;
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
    msc_key key = needs[i].key;
    if (!msc_config_value(config, key) || needs[i].is_there(config)) continue;
    const char *text = msc_config_value_text(config, key, msc_context_arena(config->ctx)),
               *fallback = msc_config_rows[key].fallback;
    size_t n = strlen(fallback);
    if (!strcmp(text, fallback) || (text[0] == '"' && strlen(text) == n + 2 && !strncmp(text + 1, fallback, n)))
      continue;
    ok = msc_error(config->ctx, MSC_E_CONFIG, msc_config_loc(config, key), "%s says nothing without %s",
                   msc_key_name(key), needs[i].what);
  }
  return ok;
}

static bool has_field(size_t num, const msc_attr *a, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(a[i].name, name)) return true;
  return false;
}

static msc_attr_value mode_of(msc_context *ctx, const char *mode, msc_attr_value config) {
  msc_attr *a = msc_new_array(msc_context_arena(ctx), msc_attr, 2);
  a[0] = msc_named(ctx, "mode", msc_str(ctx, mode));
  a[1] = msc_named(ctx, "config", config);
  return (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {2, a}};
}

/* Fills in the collectives that comm_fusion leaves out: all_reduce_fusion_config for all_reduce if it is given, else
 * auto; and `openstate` as true. */
static void complete_fusion(msc_config *config) {
  msc_context *ctx = config->ctx;
  const msc_attr_value *given = msc_config_value(config, MSC_KEY_comm_fusion),
                       *list = msc_config_value(config, MSC_KEY_all_reduce_fusion_config);
  if (!given) return;
  msc_attr_value *v = msc_new(msc_context_arena(ctx), msc_attr_value);
  msc_attr *a = msc_new_array(msc_context_arena(ctx), msc_attr, given->dict.num + MSC_NUM_VERBS + 1);
  size_t num = given->dict.num;
  memcpy(a, given->dict.a, num * sizeof *a);
  for (msc_verb verb = 0; verb < MSC_NUM_VERBS; verb++) {
    const char *key = msc_verb_row_of(verb)->fusion;
    if (!key || has_field(num, a, key)) continue;
    a[num++] = msc_named(
        ctx, key,
        verb == MSC_ALL_REDUCE && list ? mode_of(ctx, "index", *list) : mode_of(ctx, "auto", msc_type_attr(NULL)));
  }
  if (!has_field(num, a, "openstate")) a[num++] = msc_named(ctx, "openstate", msc_bool(true));
  *v = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, a}};
  config->slot[MSC_KEY_comm_fusion].value = v;
}

/* Sets keys whose default depends on another key. */
static void derive_values(msc_config *config) {
  msc_mesh mesh;
  if (!msc_config_is_set(config, MSC_KEY_device_num) && msc_config_mesh(config, config->ctx, &mesh)) {
    int64_t devices = msc_config_int(config, MSC_KEY_pipeline_stages);
    for (int i = 0; i < mesh.num_axes && devices <= MSC_MAX_DEVICES; i++) devices *= mesh.axis[i].size;
    msc_attr_value *v = msc_new(msc_context_arena(config->ctx), msc_attr_value);
    *v = msc_int(devices);
    if (devices <= MSC_MAX_DEVICES) config->slot[MSC_KEY_device_num] = config->slot[MSC_KEY_mesh];
    if (devices <= MSC_MAX_DEVICES) config->slot[MSC_KEY_device_num].value = v;
  }
}

bool msc_config_check(msc_config *config) {
  bool ok = !config->has_bad;
  if (ok) {
    derive_values(config);
    ok = check_ranks(config);
    ok = check_input_shapes(config) && ok;
    ok = check_fusion_modes(config) && ok;
    ok = check_parallel_optimizer(config) && ok;
    ok = check_chunks(config) && ok;
    ok = check_offload(config) && ok;
    ok = check_server(config) && ok;
    ok = check_elastic(config) && ok;
    ok = check_needs(config) && ok;
    if (ok) complete_fusion(config);
  }
  for (int key = 0; key < MSC_NUM_KEYS; key++) ok = check_supported(config, (msc_key)key) && ok;
  return ok;
}
