/* cmd_config.c: names of keys, or none for all, in; their values and origins in the effective configuration out. */
#include <stdlib.h>
#include <string.h>

#include "passes/config/config.h"
#include "tools/cli.h"

static void print_key(cli *c, const msc_config *config, msc_key key) {
  msc_arena *arena = msc_context_arena(c->ctx);
  const char *value = msc_config_value_text(config, key, arena), *origin = msc_config_origin_text(config, key, arena);
  char *clean = cli_printable(value);
  printf("%-28s %-22s %-14s %s [%s]\n", msc_key_name(key), clean ? clean : "?", origin, msc_key_meaning(key),
         msc_key_values(key, arena));
  free(clean);
}

static void print_environment(const char *name, const char *meaning) {
  const char *text = getenv(name);
  char *clean = text ? cli_printable(text) : NULL;
  printf("%-28s %-22s %-14s %s\n", name, clean ? clean : "", text ? "environment" : "not set", meaning);
  free(clean);
}

static bool print_named(cli *c, const msc_config *config, const char *name) {
  const char *names[MSC_NUM_KEYS];
  for (int key = 0; key < MSC_NUM_KEYS; key++) {
    names[key] = msc_key_name((msc_key)key);
    if (strcmp(names[key], name)) continue;
    puts(msc_config_value_text(config, (msc_key)key, msc_context_arena(c->ctx)));
    return true;
  }
  const char *near = msc_nearest(name, names, MSC_NUM_KEYS);
  return near ? msc_error(c->ctx, MSC_E_CONFIG, NULL, "unknown key '%s'; did you mean '%s'?", name, near)
              : msc_error(c->ctx, MSC_E_CONFIG, NULL, "unknown key '%s'; `msc config` lists all keys", name);
}

static int run_config(cli *c) {
  const msc_config *config = cli_config(c);
  if (!config) return CLI_INPUT;
  if (c->json) {
    puts(msc_config_json(config, msc_context_arena(c->ctx)));
    return CLI_OK;
  }
  bool ok = true;
  for (int i = 0; i < c->num_operands; i++) ok = print_named(c, config, c->operands[i]) && ok;
  if (c->num_operands) return ok ? CLI_OK : CLI_INPUT;
  for (int key = 0; key < MSC_NUM_KEYS; key++) print_key(c, config, (msc_key)key);
#define ENV(name, meaning) print_environment(#name, meaning);
#include "passes/config/env.def"
#undef ENV
  return CLI_OK;
}

const cli_command cmd_config = {"[KEY ...]", 0, -1, NULL, run_config};
