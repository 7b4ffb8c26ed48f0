/* cmd_verify.c: files of any kind in; structure and meaning checked, nothing run.  Exit code 0: all are sound. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "passes/2_train/train.h"
#include "passes/check.h"
#include "runtime/data/data.h"
#include "tools/cli.h"

/* A failure of the runtime as a diagnostic of the file; its text names the file already. */
static bool report_file_status(cli *c, const char *path, msc_code code, mscrt_status *s) {
  if (!s) return true;
  const char *text = mscrt_status_text(s);
  size_t n = strlen(path);
  if (!strncmp(text, path, n) && !strncmp(text + n, ": ", 2)) text += n + 2;
  msc_error(c->ctx, code, cli_loc(c, path), "%s", text);
  mscrt_status_free(s);
  return false;
}

static bool verify_safetensors(cli *c, const char *path, const mscrt_blob *blob) {
  mscrt_safetensors tensors = {0};
  if (!report_file_status(c, path, MSC_E_FORMAT, mscrt_safetensors_parse(blob, &tensors))) return false;
  mscrt_safetensors_free(&tensors);
  return true;
}

static bool verify_plan(cli *c, const char *path) {
  cli_bytes file;
  return cli_read(c, path, &file) && report_file_status(c, path, MSC_E_PLAN, mscrt_plan_verify(file.data, file.size));
}

/* Checks a model: its graph, and what it says of its optimizer. */
static bool verify_model(cli *c, const char *path) {
  int code;
  msc_module *m = cli_read_model(c, path, &code);
  MSC_TRY(m && msc_check_module(m));
  msc_optimizer_groups groups;
  for (msc_func *f = m->first; f; f = f->next) {
    if (!msc_func_attr(f, MSC_FACT(optimizer))) continue;
    if (!f->loc->file) f->loc = cli_loc(c, path);
    MSC_TRY(msc_read_optimizer(f, msc_context_arena(c->ctx), &groups));
  }
  return true;
}

static bool has_suffix(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && !strcmp(text + n - k, end);
}

/* Finds the kind of the file, by its content or, where that is damaged, by its name, and verifies it. */
static bool verify_file(cli *c, const char *path, const char **out_kind) {
  mscrt_blob blob;
  *out_kind = "file";
  if (!strcmp(path, "-")) {
    *out_kind = "model";
    return verify_model(c, path);
  }
  if (!report_file_status(c, path, MSC_E_FILE, mscrt_blob_open(path, &blob))) return false;
  uint8_t head[16] = {0};
  size_t num = blob.bytes < sizeof head ? (size_t)blob.bytes : sizeof head;
  bool ok = report_file_status(c, path, MSC_E_FILE, mscrt_blob_read(&blob, 0, head, num));
  if (ok && num >= 8 && !memcmp(head + 4, "MSCP", 4)) {
    *out_kind = "plan";
    ok = verify_plan(c, path);
  } else if (ok && (mscrt_is_safetensors(head, num, blob.bytes) || has_suffix(path, ".safetensors"))) {
    *out_kind = "safetensors";
    ok = verify_safetensors(c, path, &blob);
  } else if (ok) {
    bool is_model = (num >= 8 && !memcmp(head + 4, "MSCM", 4)) || has_suffix(path, ".fbs");
    *out_kind = is_model ? "model" : "IR text";
    ok = !is_model && memchr(head, 0, num)
             ? msc_error(c->ctx, MSC_E_FORMAT, cli_loc(c, path), "neither a model, a plan, IR text nor safetensors")
             : verify_model(c, path);
  }
  mscrt_blob_close(&blob);
  return ok;
}

static json_t *verdict_json(const char *path, const char *kind, bool ok) {
  char *clean = cli_printable(path);
  json_t *one = json_pack("{s:s, s:s, s:b}", "file", clean ? clean : "?", "kind", kind, "ok", ok);
  free(clean);
  return one;
}

static int run_verify(cli *c) {
  bool all = true;
  json_t *files = json_array();
  for (int i = 0; i < c->num_operands; i++) {
    const char *kind, *path = c->operands[i];
    bool ok = verify_file(c, path, &kind);
    all = all && ok;
    json_array_append_new(files, verdict_json(path, kind, ok));
    if (ok && !c->json) printf("%s: sound (%s)\n", path, kind);
    cli_flush_diags(c);
  }
  json_t *result = json_pack("{s:o}", "files", files);
  if (c->json) {
    json_dumpf(result, stdout, JSON_COMPACT);
    putchar('\n');
  }
  json_decref(result);
  return all ? CLI_OK : CLI_INPUT;
}

static const cli_option options[] = {
  {"dim", CLI_PAIRS, "NAME=SIZE", "size of a dimension that a model leaves open: batch, or x.1"},
  {0},
};
const cli_command cmd_verify = {"FILE ...", 1, -1, options, run_verify};
