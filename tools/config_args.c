/* config_args.c: --config, the environment and --set in, one checked configuration out; --cluster in, its figures out. */
#include <stdlib.h>
#include <string.h>

#include "passes/config.h"
#include "tools/cli.h"

static bool read_environment(msc_config *config) {
  bool ok = true;
#define ENV(name, meaning)                                                                       \
  do {                                                                                           \
    const char *text = getenv(#name);                                                            \
    if (text) ok = msc_config_env(config, #name, text) && ok;                                    \
  } while (0);
#include "passes/env.def"
#undef ENV
  return ok;
}

msc_config *cli_config(cli *c) {
  msc_config *config = msc_config_new(c->ctx);
  bool ok = read_environment(config);
  const char *path = cli_text(c, "config");
  if (path) {
    cli_bytes text;
    ok = cli_read(c, path, &text) && msc_config_read(config, path, text.data, text.size) && ok;
  }
  const char *const *assignments;
  size_t num = cli_texts(c, "set", &assignments);
  for (size_t i = 0; i < num; i++) ok = msc_config_set(config, assignments[i]) && ok;
  return msc_config_check(config) && ok ? config : NULL;
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
    return *out_cluster || msc_error(c->ctx, MSC_E_CLUSTER, NULL, "--cluster: there is no description '%s'; there are %s, or give a file, c.json", given,
                                     msc_cluster_names(msc_context_arena(c->ctx)));
  }
  cli_bytes text;
  if (!cli_read(c, given, &text)) return false;
  *out_cluster = msc_cluster_read(c->ctx, given, text.data, text.size);
  return *out_cluster != NULL;
}
