/* cmd_import.c: a model in another format in; model.fbs out, and its weights as a safetensors file beside it. */
#include <string.h>

#include "ir/open_sizes.h"
#include "tools/convert/objective.h"

/* --fix name=elements, as given on the command line. */
static void read_fixed_inputs(cli *c, msc_model_bytes *model) {
  const char *const *texts;
  size_t num = cli_texts(c, "fix", &texts);
  msc_fixed_input *fixed = msc_new_array(msc_context_arena(c->ctx), msc_fixed_input, num + 1);
  for (size_t i = 0; i < num; i++) {
    const char *equals = strchr(texts[i], '=');
    fixed[i] = (msc_fixed_input){msc_intern_n(c->ctx, texts[i], (size_t)(equals - texts[i])), equals + 1};
  }
  model->num_fixed = num, model->fixed = fixed;
}

/* "a/model.fbs" -> "a/model.safetensors" */
static const char *weights_path(cli *c, const char *to) {
  size_t n = strlen(to);
  if (n > 4 && !strcmp(to + n - 4, ".fbs")) n -= 4;
  return msc_arena_printf(msc_context_arena(c->ctx), "%.*s.safetensors", (int)n, to);
}

typedef struct {
  cli *c;
  int code;
} finishing;

static bool add_objective(void *user, msc_module *m) {
  finishing *f = user;
  int code;
  bool ok = cli_add_objective(f->c, m, &code);
  if (!ok) f->code = code;
  return ok;
}

static const void *write_model(finishing *f, const msc_model_bytes *model, size_t *out_bytes) {
  msc_context *ctx = f->c->ctx;
  msc_module *m = msc_read_model(ctx, model);
  if (!m || !add_objective(f, m)) return NULL;
  const void *data = msc_write_fbs(m, msc_context_arena(ctx), out_bytes);
  /* read the file back: rules of model.fbs that the source need not keep are reported now, not at the user's compile */
  return data && msc_read_fbs(ctx, model->name, data, *out_bytes, 0, NULL, NULL) ? data : NULL;
}

static int run_import(cli *c) {
  int code;
  const char *to = cli_text(c, "o");
  msc_model_bytes model;
  if (!to) return cli_usage(c, "needs -o model.fbs");
  const char *beside = weights_path(c, to), *slash = strrchr(beside, '/');
  msc_weights weights = {.file = msc_intern(c->ctx, slash ? slash + 1 : beside)};
  if (!cli_read_model_bytes(c, c->operands[0], &model, &code)) return code;
  read_fixed_inputs(c, &model);
  model.weights = &weights;
  const char *const *open;
  size_t bytes, num_open = msc_onnx_open_sizes(c->ctx, &model, &open);
  finishing f = {c, CLI_INPUT};
  const void *data = num_open ? msc_write_open_fbs(c->ctx, &model, num_open, open, add_objective, &f, &bytes)
                              : write_model(&f, &model, &bytes);
  if (!data) return f.code;
  if (weights.num && !strcmp(to, "-")) return cli_usage(c, "weights go beside the model: -o needs a file's name");
  if (weights.num && (code = cli_write_weights(c, beside, &weights))) return code;
  return cli_write_file(c, to, data, bytes);
}

static const cli_option options[] = {
    {"o", CLI_TEXT, "FILE", "the model file to write; weights go beside it, into FILE.safetensors"},
    {"dim", CLI_PAIRS, "NAME=SIZE",
     "size of a dimension that the model leaves open: batch, or x.1; without it stays open, for msc compile"},
    {"fix", CLI_PAIRS, "INPUT=V,V,...", "ONNX: elements of an input that the model's shapes depend on"},
    {"loss", CLI_TEXT, "KIND:OUTPUT", "train it to make this loss of an output small; NAME=VALUE may follow commas"},
    {"optimizer", CLI_TEXT, "KIND:N=V,...", "by this optimizer: adamw:lr=0.001,weight_decay=0.01"},
    {0},
};
const cli_command cmd_import = {"FILE", 1, 1, options, run_import};
