/* config.c: checks configuration: values, their origins and exact messages, from JSON and assignments. */
#include "passes/config/config.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  msc_context *ctx;
  msc_config *config;
} fixture;

static fixture begin(void) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  return (fixture){ctx, msc_config_new(ctx)};
}

static void end(fixture *f) { msc_context_free(f->ctx); }

static bool read_text(fixture *f, const char *text) { return msc_config_read(f->config, "c.json", text, strlen(text)); }

/* All diagnostics as "place: text" lines. */
static char *messages(fixture *f) {
  static char all[8192];
  size_t n = 0;
  all[0] = 0;
  for (const msc_diag *d = msc_diags(f->ctx); d; d = d->next) {
    const char *file = d->loc ? d->loc->file : "-";
    if (d->loc && d->loc->line)
      n += (size_t)snprintf(all + n, sizeof all - n, "%s:%u:%u: %s [%d]\n", file, d->loc->line, d->loc->col, d->text,
                            d->code);
    else n += (size_t)snprintf(all + n, sizeof all - n, "%s: %s [%d]\n", file, d->text, d->code);
  }
  return all;
}

#define RUN(text) (read_text(&f, text) && msc_config_check(f.config))

static void test_defaults(void **state) {
  (void)state;
  for (int with = 0; with < 2; with++) {
    fixture f = begin();
    const msc_config *c = with ? f.config : NULL;
    assert_int_equal(msc_config_int(c, MSC_KEY_device_num), 1);
    assert_int_equal(msc_config_int(c, MSC_KEY_memory_limit), -1);
    assert_true(msc_config_bool(c, MSC_KEY_gradient_fp32_sync));
    assert_false(msc_config_bool(c, MSC_KEY_strict_parameter_layout));
    assert_int_equal(msc_config_parallel_mode(c), MSC_STAND_ALONE);
    assert_int_equal(msc_config_search_mode(c), MSC_DYNAMIC_PROGRAMMING);
    assert_int_equal(msc_config_input_mode(c), MSC_INPUT_DATA_PARALLEL);
    assert_null(msc_config_text(c, MSC_KEY_strategy_ckpt_load_file));
    assert_false(msc_config_is_set(c, MSC_KEY_device_num));
    end(&f);
  }
}

static void test_values_and_origins(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(read_text(&f,
                        "// eight ranks\n{\n  \"device_num\": 4, // overridden\n  \"mesh\": {\"tp\": 2, \"dp\": 4,},\n"
                        "  \"parallel_mode\": \"auto_parallel\",\n  \"dataset_strategy\": [[4, 1], [], [8],],\n}\n"));
  assert_true(msc_config_set(f.config, "device_num=8"));
  assert_true(msc_config_set(f.config, "strategy_ckpt_save_file=7"));
  assert_true(msc_config_check(f.config));
  msc_arena *arena = msc_context_arena(f.ctx);
  assert_int_equal(msc_config_int(f.config, MSC_KEY_device_num), 8);
  assert_string_equal(msc_config_origin_text(f.config, MSC_KEY_device_num, arena), "command line");
  assert_string_equal(msc_config_origin_text(f.config, MSC_KEY_mesh, arena), "c.json:4");
  assert_string_equal(msc_config_text(f.config, MSC_KEY_strategy_ckpt_save_file), "7");
  msc_mesh mesh;
  assert_true(msc_config_mesh(f.config, f.ctx, &mesh));
  assert_int_equal(mesh.num_axes, 2);
  assert_string_equal(mesh.axis[0].name, "tp"); /* order of the file */
  assert_int_equal(mesh.axis[1].size, 4);
  int64_t parts[MSC_MAX_RANK];
  assert_int_equal(msc_config_input_mode(f.config), MSC_INPUT_TUPLES);
  assert_int_equal(msc_config_input_parts(f.config, 0, parts), 2);
  assert_int_equal(parts[0], 4);
  assert_int_equal(msc_config_input_parts(f.config, 1, parts), 0);
  assert_int_equal(msc_config_input_parts(f.config, 3, parts), -1);
  assert_int_equal(msc_config_search_mode(f.config), MSC_DYNAMIC_PROGRAMMING);
  assert_string_equal(messages(&f), "");
  const char *json = msc_config_json(f.config, arena);
  assert_non_null(strstr(json, "\"device_num\":{\"value\":8,\"from\":\"command line\"}"));
  assert_non_null(strstr(json, "\"mesh\":{\"value\":{\"tp\":2,\"dp\":4},\"from\":\"c.json:4\"}"));
  assert_non_null(strstr(json, "\"search_mode\":{\"value\":\"dynamic_programming\",\"from\":\"default\"}"));
  end(&f);
}

static void test_numbers_of_bytes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t bytes;
  } right[] = {
      {"4096", 4096},
      {"4M", INT64_C(4) << 20},
      {"\"1.5g\"", INT64_C(3) << 29},
      {"2TiB", INT64_C(2) << 40},
  };
  static const char *const wrong[] = {"0", "0.3k", "4X", "4 M", "-1k", "1.5", "true", "1e400", "[1]", "\"\""};
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    fixture f = begin();
    assert_true(msc_config_set(f.config, msc_arena_printf(msc_context_arena(f.ctx), "memory_limit=%s", right[i].text)));
    assert_true(msc_config_check(f.config));
    assert_int_equal(msc_config_int(f.config, MSC_KEY_memory_limit), right[i].bytes);
    end(&f);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    fixture f = begin();
    assert_false(msc_config_set(f.config, msc_arena_printf(msc_context_arena(f.ctx), "memory_limit=%s", wrong[i])));
    if (!strstr(messages(&f),
                "memory_limit: must be a whole number of bytes, at least 1, or a text such as 64k, 2M or "
                "1G, not "))
      fail_msg("%s: %s", wrong[i], messages(&f));
    end(&f);
  }
}

static void test_command_line_wins_in_any_order(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(msc_config_set(f.config, "gradients_mean=true"));
  assert_true(read_text(&f, "{\"gradients_mean\": false}"));
  assert_true(msc_config_bool(f.config, MSC_KEY_gradients_mean));
  assert_true(msc_config_set(f.config, "gradients_mean=false")); /* of the same origin the last one */
  assert_false(msc_config_bool(f.config, MSC_KEY_gradients_mean));
  end(&f);
}

static void test_device_num_from_mesh(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(RUN("{\"mesh\": {\"dp\": 2, \"tp\": 4}, \"parallel_mode\": \"semi_auto_parallel\"}"));
  assert_int_equal(msc_config_int(f.config, MSC_KEY_device_num), 8);
  assert_true(msc_config_bool(f.config, MSC_KEY_strict_parameter_layout));
  end(&f);
}

/* Every bad value, with everything said about it. */
static const struct {
  const char *text, *messages;
} bad[] = {
    {"{\"device_nmu\": 8}", "c.json:1:2: unknown key 'device_nmu'; did you mean 'device_num'? [110]\n"},
    {"{\"color\": 8}", "c.json:1:2: unknown key 'color'; `msc config` lists all keys [110]\n"},
    {"{\"device_num\": 0,\n \"pipeline_stages\": \"two\"}",
     "c.json:1:2: device_num: must be a whole number from 1 to 65536, not 0 [110]\n"
     "c.json:2:2: pipeline_stages: must be a whole number from 1 to 65536, not \"two\" [110]\n"},
    {"{\"device_num\": 65537}", "c.json:1:2: device_num: must be a whole number from 1 to 65536, not 65537 [110]\n"},
    {"{\"device_num\": 8.0}", "c.json:1:2: device_num: must be a whole number from 1 to 65536, not 8.0 [110]\n"},
    {"{\"device_num\": true}", "c.json:1:2: device_num: must be a whole number from 1 to 65536, not true [110]\n"},
    {"{\"full_batch\": null}", "c.json:1:2: full_batch: must be true or false, not null [110]\n"},
    {"{\"gradients_mean\": 1}", "c.json:1:2: gradients_mean: must be true or false, not 1 [110]\n"},
    {"{\"parallel_mode\": \"semi_auto\"}",
     "c.json:1:2: parallel_mode: must be stand_alone, data_parallel, hybrid_parallel, semi_auto_parallel or "
         "auto_parallel (did you mean "
     "semi_auto_parallel?), not \"semi_auto\" [110]\n"},
    {"{\"search_mode\": \"shardin_propagation\"}",
     "c.json:1:2: search_mode: must be dynamic_programming, recursive_programming or sharding_propagation (did you "
         "mean "
     "sharding_propagation?), "
     "not \"shardin_propagation\" [110]\n"},
    {"{\"micro_batch_interleaved\": \"all\"}",
     "c.json:1:2: micro_batch_interleaved: must be a whole number, at least 1 or auto, not \"all\" [110]\n"},
    {"{\"strategy_ckpt_load_file\": \"\"}", "c.json:1:2: strategy_ckpt_load_file: must be a text, not \"\" [110]\n"},
    {"{\"all_reduce_fusion_config\": [20, 20]}",
     "c.json:1:2: all_reduce_fusion_config: must be a list of whole numbers, each larger than the one before, such as "
         "[20, 35], not "
     "[20,20] [110]\n"},
    {"{\"mesh\": {}}", "c.json:1:2: mesh: must be 1 to 8 axes with their sizes, such as {\"dp\": 2, \"tp\": 4}, not {} "
     "[110]\n"},
    {"{\"mesh\": {\"2d\": 0}}",
     "c.json:1:2: mesh.2d: the name of an axis is a letter, then letters, digits and _ [110]\n"
     "c.json:1:2: mesh.2d: must be a whole number from 1 to 65536, not 0 [110]\n"},
    {"{\"dataset_strategy\": [[8], [0]]}",
     "c.json:1:2: dataset_strategy: must be data_parallel, full_batch or one list of parts per input, such as [[8, 1], "
         "[8]], not [[8],[0]] "
     "[110]\n"},
    {"{\"parallel_optimizer_config\": {\"gradient_accumulation_shards\": true}}",
     "c.json:1:2: parallel_optimizer_config: unknown key 'gradient_accumulation_shards'; expected "
         "gradient_accumulation_shard or "
     "parallel_optimizer_threshold (did you mean gradient_accumulation_shard?) [110]\n"},
    {"{\"offload\": {\"param\": \"gpu\"}}",
     "c.json:1:2: offload.param: must be cpu or disk (did you mean cpu?), not \"gpu\" [110]\n"},
    /* a dictionary of dictionaries */
    {"{\"comm_fusion\": [1, 2]}",
     "c.json:1:2: comm_fusion: must be an object with the keys allreduce, allgather, reducescatter or openstate, not "
         "[1,2] [110]\n"},
    {"{\"comm_fusion\": {\"all\": {\"mode\": \"size\", \"config\": 30}, \"allgather\": 3}}",
     "c.json:1:2: comm_fusion: unknown key 'all'; expected allreduce, allgather, reducescatter or openstate [110]\n"
     "c.json:1:2: comm_fusion.allgather: must be an object such as {\"mode\": \"auto\", \"config\": null}, not 3 "
         "[110]\n"},
    {"{\"comm_fusion\": {\"allgather\": {\"mode\": \"index\", \"config\": [1]}}}",
     "c.json:1:2: comm_fusion.allgather.mode: must be auto or size, not \"index\" [110]\n"},
    {"{\"comm_fusion\": {\"allreduce\": {\"mode\": \"sizes\", \"config\": 1, \"sise\": 2}}}",
     "c.json:1:2: comm_fusion.allreduce: unknown key 'sise'; expected mode or config [110]\n"
     "c.json:1:2: comm_fusion.allreduce.mode: must be auto, size or index (did you mean size?), not \"sizes\" [110]\n"},
    {"{\"comm_fusion\": {\"allreduce\": {\"mode\": \"auto\"}}}",
     "c.json:1:2: comm_fusion.allreduce: the key 'config' is missing [110]\n"},
    {"{\"comm_fusion\": {\"allreduce\": {\"mode\": \"auto\", \"config\": 64}}}",
     "c.json:1:2: comm_fusion.allreduce.config: must be null or \"optimal\" with mode auto, not 64 [110]\n"},
    {"{\"comm_fusion\": {\"allreduce\": {\"mode\": \"size\", \"config\": true}}}",
     "c.json:1:2: comm_fusion.allreduce.config: must be a whole number of MB, at least 1, or a list of them, with mode "
         "size, not true "
     "[110]\n"},
    {"{\"comm_fusion\": {\"allreduce\": {\"mode\": \"index\", \"config\": [35, 20]}}}",
     "c.json:1:2: comm_fusion.allreduce.config: must be a list of whole numbers, each larger than the one before, such "
         "as [20, 35], not "
     "[35,20] [110]\n"},
    /* the text itself */
    {"{\"device_num\": 8,\n \"device_num\": 4}", "c.json:2:13: duplicate object key near '\"device_num\"' [101]\n"},
    {"[8]", "c.json:1:1: the configuration must be one JSON object, {\"key\": value, ...} [110]\n"},
    {"{\"mesh\": [1,,2]}", "c.json:1:13: unexpected token near ',' [101]\n"},
    {"{,}", "c.json:1:2: string or '}' expected near ',' [101]\n"},
    {"", "c.json:1:1: '[' or '{' expected near end of file [101]\n"},
    /* several keys */
    {"{\"device_num\": 8}",
     "c.json:1:2: parallel_mode \"stand_alone\" (default) is for one device and contradicts device_num 8 (c.json:1); "
         "choose data_parallel, "
     "semi_auto_parallel or auto_parallel [110]\n"},
    {"{\"pipeline_chunks\": 4294967297, \"pipeline_stages\": 2, \"device_num\": 2, \"parallel_mode\": "
     "\"semi_auto_parallel\"}",
     "c.json:1:2: pipeline_chunks 4294967297 (c.json:1) is more than the 1 of pipeline_scheduler \"1f1b\" (default); "
     "interleaved has up to 256 [110]\n"},
    {"{\"pipeline_chunks\": 2, \"gradients_mean_of\": \"parameter\", \"loss_scale_config\": {\"init\": 2}}",
     "c.json:1:2: pipeline_chunks says nothing without pipeline_stages of 2 and more [110]\n"
     "c.json:1:24: gradients_mean_of says nothing without gradients_mean in semi_auto_parallel or auto_parallel [110]\n"
     "c.json:1:58: loss_scale_config says nothing without loss_scale dynamic [110]\n"},
    {"{\"device_num\": 2, \"parallel_mode\": \"hybrid_parallel\", \"dataset_strategy\": [[2]]}",
     "c.json:1:55: dataset_strategy: a list says nothing with parallel_mode \"hybrid_parallel\" (c.json:1), where "
         "shapes are those of one "
     "rank's part [110]\n"},
    {"{\"device_num\": 8, \"parallel_mode\": \"data_parallel\",\n \"global_rank\": 8}",
     "c.json:2:2: global_rank 8 (c.json:2) must be below device_num 8 (c.json:1) [110]\n"},
    {"{\"device_num\": 8, \"parallel_mode\": \"data_parallel\", \"mesh\": {\"dp\": 4}}",
     "c.json:1:53: mesh {\"dp\":4} (c.json:1) has 4 devices, but there is device_num 8 (c.json:1) [110]\n"},
    {"{\"device_num\": 8, \"parallel_mode\": \"semi_auto_parallel\", \"mesh\": {\"dp\": 8}, "
     "\"pipeline_stages\": 4}",
     "c.json:1:58: mesh {\"dp\":8} (c.json:1) has 8 devices in each stage of pipeline_stages 4 (c.json:1), but there "
     "is device_num 8 (c.json:1) [110]\n"},
    {"{\"device_num\": 8, \"parallel_mode\": \"data_parallel\", \"pipeline_stages\": 3}",
     "c.json:1:53: pipeline_stages 3 (c.json:1) must divide device_num 8 (c.json:1) [110]\n"},
    {"{\"full_batch\": true, \"dataset_strategy\": \"data_parallel\"}",
     "c.json:1:22: dataset_strategy \"data_parallel\" (c.json:1) contradicts full_batch true (c.json:1); give one of "
         "them [110]\n"},
    {"{\"device_num\": 4, \"parallel_mode\": \"data_parallel\", \"dataset_strategy\": [[4], [3, 1]]}",
     "c.json:1:53: dataset_strategy: input 1 is cut into 3 parts, which does not divide device_num 4 (c.json:1) "
         "[109]\n"},
    {"{\"all_reduce_fusion_config\": [20], \"comm_fusion\": {\"allreduce\": {\"mode\": \"index\", \"config\": [21]}}}",
     "c.json:1:2: all_reduce_fusion_config [20] (c.json:1) contradicts comm_fusion.allreduce; give one of them "
         "[110]\n"},
    {"{\"enable_parallel_optimizer\": false, \"zero\": 1}",
     "c.json:1:38: zero 1 (c.json:1) contradicts enable_parallel_optimizer false (c.json:1); give one of them [110]\n"},
    {"{\"zero\": 1, \"parallel_optimizer_config\": {\"gradient_accumulation_shard\": true}}",
     "c.json:1:2: zero 1 (c.json:1) contradicts gradient_accumulation_shard in parallel_optimizer_config "
     "{\"gradient_accumulation_shard\":true} (c.json:1); it is true with stage 2 and 3 [110]\n"},
    {"{\"loss_scale\": 1e40}",
     "c.json:1:2: loss_scale: must be a number from 1 to 3e38 or dynamic, not 1e40 [110]\n"},
    {"{\"loss_scale\": 0.5, \"compute_type\": \"fp16\", \"loss_scale_config\": {\"windows\": 3, \"factor\": \"2\"}}",
     "c.json:1:2: loss_scale: must be a number from 1 to 3e38 or dynamic, not 0.5 [110]\n"
     "c.json:1:21: compute_type: must be f32, bf16 or f16 (did you mean f16?), not \"fp16\" [110]\n"
     "c.json:1:45: loss_scale_config: unknown key 'windows'; expected init, window or factor (did you mean window?) "
         "[110]\n"
     "c.json:1:45: loss_scale_config.factor: must be a number from 1 to 65536, not \"2\" [110]\n"},
    /* recognised, not honoured */
    {"{\"post_validation\": false}", "c.json:1:2: post_validation: false is not supported yet, only true [111]\n"},
    {"{\"elastic\": true}",
     "c.json:1:2: elastic says nothing without several devices, and an axis dp if there is a mesh [110]\n"},
    {"{\"elastic\": true, \"device_num\": 4, \"parallel_mode\": \"data_parallel\", \"offload_path\": \"/disk\", "
     "\"offload\": {\"optimizer\": \"disk\"}}",
     "c.json:1:2: elastic: not supported yet with offload {\"optimizer\":\"disk\"} (c.json:1), which puts values on "
     "disk; from a checkpoint a plan for fewer ranks goes on, with --resume [111]\n"},
};

static void test_bad_input(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    fixture f = begin();
    read_text(&f, bad[i].text);
    assert_false(msc_config_check(f.config));
    assert_string_equal(messages(&f), bad[i].messages);
    end(&f);
  }
}

/* A value that is the supported one may be written down. */
static void test_supported_values_may_be_given(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(
      RUN("{\"zero\": 0, \"search_mode\": \"sharding_propagation\", \"pipeline_stages\": 1, \"loss_scale\": 1.0, "
          "\"comm_fusion\": null}"));
  assert_string_equal(messages(&f), "");
  end(&f);
}

/* The stage of the parallel optimizer, however it is said. */
static void test_parallel_optimizer(void **state) {
  (void)state;
  static const struct { const char *text; int64_t stage, threshold; } said[] = {
    {"{}", 0, 64},
    {"{\"zero\": 3}", 3, 64},
    {"{\"enable_parallel_optimizer\": true}", 1, 64},
    {"{\"enable_parallel_optimizer\": true, \"zero\": 2}", 2, 64},
    {"{\"enable_parallel_optimizer\": true, \"parallel_optimizer_config\": {\"gradient_accumulation_shard\": true}}", 2,
     64},
    {"{\"zero\": 1, \"parallel_optimizer_config\": {\"gradient_accumulation_shard\": false, "
     "\"parallel_optimizer_threshold\": 0}}", 1, 0},
  };
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    fixture f = begin();
    read_text(&f, said[i].text);
    assert_true(msc_config_check(f.config));
    assert_int_equal(msc_config_zero(f.config), said[i].stage);
    assert_int_equal(msc_config_optimizer_threshold(f.config), said[i].threshold);
    end(&f);
  }
}

/* What comm_fusion leaves out is automatic, or as the other key says. */
static void test_fusion_is_completed(void **state) {
  (void)state;
  static const struct { const char *given, *json; } cases[] = {
    {"{\"comm_fusion\": {}}",
     "{\"allreduce\":{\"mode\":\"auto\",\"config\":null},\"allgather\":{\"mode\":\"auto\",\"config\":null},"
     "\"reducescatter\":{\"mode\":\"auto\",\"config\":null},\"openstate\":true}"},
    {"{\"comm_fusion\": {\"openstate\": false, \"allgather\": {\"mode\": \"size\", \"config\": [1, 25]}}, "
     "\"all_reduce_fusion_config\": []}",
     "{\"openstate\":false,\"allgather\":{\"mode\":\"size\",\"config\":[1,25]},"
     "\"allreduce\":{\"mode\":\"index\",\"config\":[]},"
     "\"reducescatter\":{\"mode\":\"auto\",\"config\":null}}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = begin();
    assert_true(RUN(cases[i].given));
    assert_string_equal(messages(&f), "");
    assert_string_equal(msc_config_value_text(f.config, MSC_KEY_comm_fusion, msc_context_arena(f.ctx)), cases[i].json);
    end(&f);
  }
}

static void test_assignments(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(msc_config_set(f.config, "parallel_mode=data_parallel"));
  assert_false(msc_config_set(f.config, "device_num"));
  assert_false(msc_config_set(f.config, "device_num=eight"));
  assert_false(msc_config_set(f.config, "full_batch=\xff"));
  assert_false(msc_config_env(f.config, "MSC_DEBUG", "6"));
  assert_true(msc_config_env(f.config, "MSC_DEBUG", "3"));
  assert_int_equal(msc_config_debug(f.config), 3);
  assert_true(msc_config_env(f.config, "MSC_VECTOR_BYTES", "64"));
  assert_int_equal(msc_config_vector_bytes(f.config), 64);
  assert_false(msc_config_env(f.config, "MSC_VECTOR_BYTES", "640"));
  assert_string_equal(messages(&f),
                      "--set device_num: expected key=value, not 'device_num' [110]\n"
                      "--set device_num: device_num: must be a whole number from 1 to 65536, not \"eight\" [110]\n"
                      "--set full_batch: the value is not UTF-8 text [110]\n"
                      "-: environment variable MSC_DEBUG must be 0 to 5, not '6' [110]\n"
                      "-: environment variable MSC_VECTOR_BYTES must be 16, 32 or 64, not '640' [110]\n");
  end(&f);
}

static void test_old_name(void **state) {
  (void)state;
  fixture f = begin();
  assert_true(read_text(&f, "{\"auto_parallel_search_mode\": \"sharding_propagation\"}"));
  assert_int_equal(msc_config_search_mode(f.config), MSC_SHARDING_PROPAGATION);
  assert_string_equal(messages(&f), "c.json:1:2: 'auto_parallel_search_mode' is the old name of 'search_mode' [110]\n");
  end(&f);
}

/* Memory that runs out anywhere is an error, never a crash; nothing leaks (asan). */
static bool read_it(msc_context *ctx, void *arg) {
  (void)ctx;
  return read_text(arg,
                   "{\"mesh\": {\"dp\": 2, \"tp\": 4}, \"device_num\": 8, \"parallel_mode\": \"auto_parallel\"}") &&
         msc_config_check(((fixture *)arg)->config);
}

static void *failing_realloc(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  (void)old_bytes;
  if (bytes && --*(int *)user < 0) return NULL;
  if (bytes) return realloc(ptr, bytes);
  free(ptr);
  return NULL;
}

static void test_out_of_memory(void **state) {
  (void)state;
  bool ok = false;
  for (int n = 0; n < 100 && !ok; n++) {
    int left = 1000;
    msc_context *ctx = msc_context_new(failing_realloc, &left);
    fixture f = {ctx, msc_config_new(ctx)};
    left = n;
    ok = msc_protect(ctx, read_it, &f);
    if (!ok) assert_int_equal(msc_diags(ctx)->code, MSC_E_OUT_OF_MEMORY);
    left = 1000;
    msc_context_free(ctx);
  }
  assert_true(ok);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_values_and_origins),
      cmocka_unit_test(test_numbers_of_bytes),
      cmocka_unit_test(test_command_line_wins_in_any_order),
      cmocka_unit_test(test_device_num_from_mesh),
      cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_supported_values_may_be_given),
      cmocka_unit_test(test_parallel_optimizer),
      cmocka_unit_test(test_fusion_is_completed),
      cmocka_unit_test(test_assignments),
      cmocka_unit_test(test_old_name),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
