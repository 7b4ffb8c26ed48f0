/* fuzz_config: any bytes as a configuration file, and as an assignment, leave a usable configuration. */
#include <stdlib.h>
#include <string.h>

#include "passes/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct {
  const char *text;
  size_t bytes;
} input;

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  msc_config *config = msc_config_new(ctx);
  msc_config_read(config, "fuzz.json", in->text, in->bytes);
  msc_config_set(config, in->text);
  bool ok = msc_config_check(config);
  const char *json = msc_config_json(config, msc_context_arena(ctx));
  msc_config *again = msc_config_new(ctx);
  msc_mesh mesh;
  int64_t parts[MSC_MAX_RANK];
  if (ok && msc_config_mesh(config, ctx, &mesh) && msc_mesh_size(&mesh) < 1) abort();
  for (size_t i = 0; ok && msc_config_input_parts(config, i, parts) >= 0; i++)
    if (i > in->bytes) abort();
  /* text that any JSON reader takes; its keys hold objects */
  return msc_config_read(again, "again.json", json, strlen(json));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char *text = malloc(bytes + 1);
  memcpy(text, data, bytes);
  text[bytes] = 0;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_context_limit(ctx, 64 << 20);
  input in = {text, bytes};
  msc_protect(ctx, run, &in);
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next)
    if (d->code == MSC_E_SYNTAX && d->loc && !strcmp(d->loc->file, "again.json")) abort();
  msc_context_free(ctx);
  free(text);
  return 0;
}
