/* config_args.c: --config, the environment and --set in, one checked configuration out; --cluster in,
 * its figures out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "passes/config/config.h"
#include "tools/cli_state.h"

static bool read_environment(msc_config *config) {
  bool ok = true;
#define ENV(name, meaning)                                    \
  do {                                                        \
    const char *text = getenv(#name);                         \
    if (text) ok = msc_config_env(config, #name, text) && ok; \
  } while (0);
#include "passes/config/env.def"
#undef ENV
  return ok;
}

/* Reads the options, once: --config may be a pipe. What keys say together is not checked. ok: nothing was reported. */
static msc_config *read_config_options(cli *c, bool *out_ok) {
  *out_ok = c->state->config_ok;
  if (c->state->config) return c->state->config;
  msc_config *config = c->state->config = msc_config_new(c->ctx);
  bool ok = read_environment(config);
  const char *path = cli_text(c, "config");
  if (path) {
    cli_bytes text;
    ok = cli_read(c, path, &text) && msc_config_read(config, path, text.data, text.size) && ok;
  }
  const char *const *assignments;
  size_t num = cli_texts(c, "set", &assignments);
  for (size_t i = 0; i < num; i++) ok = msc_config_set(config, assignments[i]) && ok;
  *out_ok = c->state->config_ok = ok;
  return config;
}

bool cli_check_keys(cli *c) {
  const char *const *assignments;
  bool ok = true;
  if (cli_text(c, "config") || cli_texts(c, "set", &assignments)) read_config_options(c, &ok);
  return ok;
}

bool cli_keys_fit(cli *c, const char *recorded) {
  static const msc_key free_keys[] = {MSC_KEY_global_rank, MSC_KEY_strategy_ckpt_save_file,
                                      MSC_KEY_strategy_ckpt_load_file};
  msc_arena *arena = msc_context_arena(c->ctx);
  bool ok;
  const msc_config *config = read_config_options(c, &ok);
  json_t *all = json_loads(recorded, 0, NULL);
  for (int key = 0; key < MSC_NUM_KEYS; key++) {
    json_t *there = json_object_get(json_object_get(all, msc_key_name((msc_key)key)), "value");
    bool is_free = false;
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++) is_free |= free_keys[i] == (msc_key)key;
    if (is_free || !there || !msc_config_is_set(config, (msc_key)key)) continue;
    const char *text = msc_config_value_text(config, (msc_key)key, arena);
    json_t *here = json_loads(text, JSON_DECODE_ANY, NULL);
    char *was = json_dumps(there, JSON_ENCODE_ANY);
    if (!json_equal(here, there))
      ok = msc_error(c->ctx, MSC_E_CONFIG, msc_config_loc(config, (msc_key)key),
                     "%s is %s, but the plan was compiled with %s; keys are for msc compile",
                     msc_key_name((msc_key)key), text, was ? was : "another value");
    free(was);
    json_decref(here);
  }
  json_decref(all);
  return ok;
}

msc_config *cli_config(cli *c) {
  bool ok;
  msc_config *config = read_config_options(c, &ok);
  return msc_config_check(config) && ok ? config : NULL;
}

bool cli_rank(cli *c, int64_t recorded, int64_t ranks, int64_t *out_rank) {
  bool ok;
  const msc_config *config = read_config_options(c, &ok);
  MSC_TRY(ok);
  bool given = msc_config_is_set(config, MSC_KEY_global_rank);
  *out_rank = given ? msc_config_int(config, MSC_KEY_global_rank) : recorded;
  return *out_rank < ranks ||
         msc_error(c->ctx, MSC_E_CONFIG, given ? msc_config_loc(config, MSC_KEY_global_rank) : NULL,
                   "global_rank %" PRId64 ": the plan is for ranks 0 to %" PRId64, *out_rank, ranks - 1);
}

const char *cli_repeated_flags(cli *c) {
  msc_arena *arena = msc_context_arena(c->ctx);
  const char *const *sets, *text = "";
  size_t num = cli_texts(c, "set", &sets);
  for (size_t i = 0; i < num; i++) text = msc_arena_printf(arena, "%s%s--set '%s'", text, *text ? " " : "", sets[i]);
  return text;
}

bool cli_cluster(cli *c, const msc_cluster **out_cluster) {
  const char *given = cli_text(c, "cluster");
  *out_cluster = NULL;
  if (!given) return true;
  if (!strpbrk(given, "./")) {
    *out_cluster = msc_cluster_named(c->ctx, given);
    return *out_cluster || msc_error(c->ctx, MSC_E_CLUSTER, NULL,
                                     "--cluster: there is no description '%s'; there are %s, or give a file, c.json",
                                     given, msc_cluster_names(msc_context_arena(c->ctx)));
  }
  cli_bytes text;
  if (!cli_read(c, given, &text)) return false;
  *out_cluster = msc_cluster_read(c->ctx, given, text.data, text.size);
  return *out_cluster != NULL;
}
