/* model.c: a model file of any kind in, a module out; the option --dim. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

/* --dim name=size, as given on the command line. */
static bool read_dims(cli *c, msc_dim_size **out_dims, size_t *out_num) {
  const char *const *texts;
  msc_arena *arena = msc_context_arena(c->ctx);
  *out_num = cli_texts(c, "dim", &texts);
  *out_dims = msc_new_array(arena, msc_dim_size, *out_num + 1);
  for (size_t i = 0; i < *out_num; i++) {
    const char *equals = strchr(texts[i], '=');
    char *end;
    long long size = strtoll(equals + 1, &end, 10);
    if (equals[1] < '0' || equals[1] > '9' || *end || size < 1 || size > INT64_C(1) << 40)
      return cli_usage(c, "--dim %s: the size must be a whole number of at least 1", texts[i]), false;
    (*out_dims)[i] = (msc_dim_size){msc_intern_n(c->ctx, texts[i], (size_t)(equals - texts[i])), size};
  }
  return true;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && !strcmp(text + n - k, end);
}

msc_module *cli_read_model(cli *c, const char *path, int *out_code) {
  cli_bytes file;
  msc_dim_size *dims;
  size_t num_dims;
  *out_code = CLI_USAGE;
  if (!read_dims(c, &dims, &num_dims)) return NULL;
  *out_code = CLI_INPUT;
  if (!cli_read(c, path, &file)) return NULL;
  bool is_fbs = ends_with(path, ".fbs") || (file.size >= 8 && !memcmp(file.data + 4, "MSC", 3));
  if (is_fbs) return msc_read_fbs(c->ctx, path, file.data, file.size, num_dims, dims);
  static const char *const other[] = {".onnx", ".stablehlo"};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (ends_with(path, other[i]))
      return msc_error(c->ctx, MSC_E_UNSUPPORTED, cli_loc(c, path), "reading %s is not supported yet", other[i] + 1), NULL;
  if (num_dims) return msc_error(c->ctx, MSC_E_SHAPE, cli_loc(c, path), "--dim: IR text states all of its sizes"), NULL;
  msc_module *m = msc_parse(c->ctx, path, file.data, file.size);
  return m && msc_verify(m) ? m : NULL;
}
