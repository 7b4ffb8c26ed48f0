/* embed.c: the functions of ir/msc.h: a configuration and a model in memory in, the bytes of a plan and messages
 * out. */
#include "ir/msc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/compile.h"

struct msc_compiler {
  msc_context *ctx;
  msc_config *config;
  msc_compile_options o;
  size_t num_dims;
  msc_dim_size *dim;
  const char *cluster;
  msc_target_words words;
  bool used;
  const msc_plan *plan; /* NULL: none was made */
};

/* A call of a function under msc_protect, which turns running out of memory into a message and false. */
typedef struct {
  msc_compiler *c;
  const char *name, *text;
  const void *data;
  size_t bytes;
  const msc_compiler_options *options;
  msc_compiled compiled;
} embedded_call;

const char *msc_version(void) { return MSC_VERSION; }

static const char *intern_or_null(msc_context *ctx, const char *text) { return text ? msc_intern(ctx, text) : NULL; }

static bool set_up_compiler(msc_context *ctx, void *arg) {
  embedded_call *k = arg;
  msc_compiler *c = k->c;
  const msc_compiler_options *o = k->options;
  c->config = msc_config_new(ctx);
  c->o = (msc_compile_options){.config = c->config, .verify = MSC_VERIFY_IR, .time_limit_s = o->time_limit_s};
  c->cluster = intern_or_null(ctx, o->cluster);
  c->words = (msc_target_words){.target = intern_or_null(ctx, o->target), .cpu = intern_or_null(ctx, o->cpu)};
  c->num_dims = o->num_sizes;
  c->dim = msc_new_array(msc_context_arena(ctx), msc_dim_size, o->num_sizes + 1);
  for (size_t i = 0; i < o->num_sizes; i++)
    c->dim[i] = (msc_dim_size){msc_intern(ctx, o->sizes[i].name), o->sizes[i].size};
  return true;
}

msc_compiler *msc_compiler_new(const msc_compiler_options *options) {
  msc_compiler_options o = {0};
  if (options) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
  msc_compiler *c = calloc(1, sizeof *c);
  if (c) c->ctx = msc_context_new(NULL, NULL);
  if (c && c->ctx && msc_protect(c->ctx, set_up_compiler, &(embedded_call){.c = c, .options = &o})) {
    msc_context_limit(c->ctx, o.max_bytes);
    return c;
  }
  msc_compiler_free(c);
  return NULL;
}

void msc_compiler_free(msc_compiler *c) {
  if (!c) return;
  if (c->ctx) msc_context_free(c->ctx);
  free(c);
}

/* ---- configuration ---- */

static bool configure(msc_context *ctx, void *arg) {
  embedded_call *k = arg;
  return msc_config_read(k->c->config, msc_intern(ctx, k->name), k->data, k->bytes);
}

bool msc_compiler_configure(msc_compiler *c, const char *name, const char *json, size_t bytes) {
  return msc_protect(c->ctx, configure, &(embedded_call){.c = c, .name = name, .data = json, .bytes = bytes});
}

static bool find_value(msc_context *ctx, void *arg) {
  embedded_call *k = arg;
  for (int key = 0; key < MSC_NUM_KEYS && !k->text; key++)
    if (!strcmp(msc_key_name((msc_key)key), k->name))
      k->text = msc_config_value_text(k->c->config, (msc_key)key, msc_context_arena(ctx));
  return true;
}

const char *msc_compiler_value(msc_compiler *c, const char *key) {
  embedded_call k = {.c = c, .name = key};
  return msc_protect(c->ctx, find_value, &k) ? k.text : NULL;
}

/* ---- compiling ---- */

static bool check_sizes_given(const msc_compiler *c) {
  bool ok = true;
  for (size_t i = 0; i < c->num_dims; i++)
    if (c->dim[i].size < 1)
      ok = msc_error(c->ctx, MSC_E_SHAPE, NULL, "size %" PRId64 " of %s: at least 1", c->dim[i].size, c->dim[i].name);
  return ok;
}

static bool find_cluster(msc_compiler *c) {
  if (!c->cluster) return true;
  c->o.cluster = msc_cluster_named(c->ctx, c->cluster);
  return c->o.cluster ||
         msc_error(c->ctx, MSC_E_CLUSTER, NULL, "there is no description '%s' of a cluster; there are %s", c->cluster,
                   msc_cluster_names(msc_context_arena(c->ctx)));
}

static bool check_time_limit(const msc_compiler *c) {
  double limit = c->o.time_limit_s;
  return (limit >= 0 && limit < 1e9) ||
         msc_error(c->ctx, MSC_E_CONFIG, NULL, "time limit %g: seconds, from 0 on", limit);
}

/* Writes the file of strategy_ckpt_save_file; what stood there before stays until the new one is complete. */
static bool write_strategies(const msc_compiler *c, const char *text) {
  const char *path = msc_config_text(c->config, MSC_KEY_strategy_ckpt_save_file), *temporary;
  if (!path || !*path) return true;
  temporary = msc_arena_printf(msc_context_arena(c->ctx), "%s.%d.tmp", path, (int)getpid());
  FILE *out = fopen(temporary, "wb");
  bool ok = out && fwrite(text, 1, strlen(text), out) == strlen(text);
  int why = errno;
  if (out && fclose(out) && ok) ok = false, why = errno;
  if (ok && rename(temporary, path)) ok = false, why = errno;
  if (ok) return true;
  if (out) unlink(temporary);
  return msc_write_error(c->ctx, msc_config_loc(c->config, MSC_KEY_strategy_ckpt_save_file), why, "%s", path);
}

static bool compile_protected(msc_context *ctx, void *arg) {
  embedded_call *k = arg;
  msc_compiler *c = k->c;
  const msc_model_bytes model = {.name = msc_intern(ctx, k->name),
                                 .data = msc_arena_copy(msc_context_arena(ctx), k->data, k->bytes),
                                 .bytes = k->bytes,
                                 .num_dims = c->num_dims,
                                 .dim = c->dim};
  bool ok = msc_config_check(c->config);
  ok = find_cluster(c) && msc_code_target_of(ctx, &c->words, &c->o.target) && ok;
  ok = check_sizes_given(c) && check_time_limit(c) && ok;
  return ok && msc_compile_model(ctx, &model, &c->o, &k->compiled) && write_strategies(c, k->compiled.plan->strategies);
}

bool msc_compiler_compile(msc_compiler *c, const char *name, const void *model, size_t bytes, const void **out_plan,
                          size_t *out_bytes) {
  embedded_call k = {.c = c, .name = name, .data = model, .bytes = bytes};
  if (c->used) return msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL, "a compiler compiles one model: make another one");
  c->used = true;
  MSC_TRY(msc_protect(c->ctx, compile_protected, &k) && !msc_num_errors(c->ctx));
  c->plan = k.compiled.plan;
  *out_plan = k.compiled.bytes, *out_bytes = k.compiled.num_bytes;
  return true;
}

void msc_compiler_cancel(msc_compiler *c) { msc_context_cancel(c->ctx); }

bool msc_compiler_report(const msc_compiler *c, msc_report *out_report) {
  if (!c->plan) return false;
  msc_plan_memory m = msc_plan_memory_of(c->plan);
  msc_report r = {.struct_size = sizeof r,
                  .ranks = msc_mesh_size(&c->plan->module->mesh),
                  .stages = c->plan->num_stages,
                  .memory_bytes = msc_plan_rank_bytes(c->plan),
                  .parameters = m.parameters,
                  .state = m.state,
                  .sums = m.sums + m.copies,
                  .carried = m.carried,
                  .messages = m.messages,
                  .alignment = m.alignment,
                  .inputs = m.inputs,
                  .scratch = m.scratch,
                  .constants = m.constants,
                  .workspace = m.workspace,
                  .predicted_step_ns = (int64_t)c->plan->predicted_step_ns,
                  .exposed_comm_ns = (int64_t)c->plan->exposed_comm_ns};
  size_t known = out_report->struct_size;
  memcpy(out_report, &r, known && known < sizeof r ? known : sizeof r);
  return true;
}

/* ---- messages ---- */

size_t msc_compiler_num_messages(const msc_compiler *c) {
  size_t n = 0;
  for (const msc_diag *d = msc_diags(c->ctx); d; d = d->next) n++;
  return n;
}

msc_message msc_compiler_message(const msc_compiler *c, size_t i) {
  const msc_diag *d = msc_diags(c->ctx);
  while (d && i--) d = d->next;
  if (!d) return (msc_message){.text = ""};
  msc_message m = {.kind = (msc_message_kind)d->severity, .text = d->text, .op = d->op_name};
  if (d->code) snprintf(m.code, sizeof m.code, "E%04u", (unsigned)d->code % 10000);
  if (d->loc) m.file = d->loc->file, m.line = d->loc->line, m.column = d->loc->col;
  return m;
}
