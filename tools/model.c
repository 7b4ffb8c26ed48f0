/* model.c: a model file of any kind and the option --dim in; its bytes, or a module, out. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

/* --dim name=size, as given on the command line. */
static bool read_dims(cli *c, const msc_dim_size **out_dims, size_t *out_num) {
  const char *const *texts;
  msc_arena *arena = msc_context_arena(c->ctx);
  *out_num = cli_texts(c, "dim", &texts);
  msc_dim_size *dims = msc_new_array(arena, msc_dim_size, *out_num + 1);
  *out_dims = dims;
  for (size_t i = 0; i < *out_num; i++) {
    const char *equals = strchr(texts[i], '=');
    char *end;
    long long size = strtoll(equals + 1, &end, 10);
    if (equals[1] < '0' || equals[1] > '9' || *end || size < 1 || size > INT64_C(1) << 40)
      return cli_usage(c, "--dim %s: the size must be a whole number of at least 1", texts[i]), false;
    dims[i] = (msc_dim_size){msc_intern_n(c->ctx, texts[i], (size_t)(equals - texts[i])), size};
  }
  return true;
}

bool cli_read_model_bytes(cli *c, const char *path, msc_model_bytes *out, int *out_code) {
  cli_bytes file;
  *out = (msc_model_bytes){.name = path};
  *out_code = CLI_USAGE;
  MSC_TRY(read_dims(c, &out->dim, &out->num_dims));
  *out_code = CLI_INPUT;
  MSC_TRY(cli_read(c, path, &file));
  out->data = file.data, out->bytes = file.size;
  cli_read_beside(c, out);
  return true;
}

msc_module *cli_read_model(cli *c, const char *path, int *out_code) {
  msc_model_bytes bytes;
  return cli_read_model_bytes(c, path, &bytes, out_code) ? msc_read_model(c->ctx, &bytes) : NULL;
}
