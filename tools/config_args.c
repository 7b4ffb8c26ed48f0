/* config_args.c: --config, the environment and --set in, one checked configuration out. */
#include <stdlib.h>

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
