/* read_onnx.c: the bytes of an ONNX file in; a module with the function "forward", and the weights that its parameters
 * begin with, out.
 *
 * Each name of the file has an onnx_value.  Each node, in order, is built by the function of its row in onnx.def.  A
 * node of constants is computed at once by the interpreter, so that shapes that the file computes are known when an op
 * needs them.  Calls of functions and graphs of control flow are replaced by their ops.  A node that cannot be read is
 * reported, its results are faulty, and nodes that use them are not reported: so one run reports every fault of a
 * file. */
#include "ir/onnx/reader.h"
#include "ir/open_sizes.h"

static bool read_opsets(onnx_reader *r) {
  r->scope->num_opsets = r->model->num_opsets, r->scope->opset = r->model->opset;
  int version = onnx_opset_of(r, "");
  if (version > ONNX_LAST_OPSET)
    return onnx_report(r, NULL, r->loc, "the file is of opset %d; this msc reads up to %d", version, ONNX_LAST_OPSET);
  return true;
}

static msc_module *read_graph(onnx_reader *r) {
  onnx_enter(r, NULL);
  MSC_TRY(read_opsets(r));
  MSC_TRY(onnx_read_inits(r, r->model->graph) && onnx_read_inputs(r));
  onnx_run_nodes(r, r->model->graph->num_nodes, r->model->graph->node);
  onnx_report_unknown(r);
  if (r->num_errors || msc_num_errors(r->ctx) || !onnx_read_outputs(r)) return NULL;
  msc_drop_unused(r->func);
  return msc_verify(r->module) ? r->module : NULL;
}

static msc_module *read_file(msc_context *ctx, const msc_model_bytes *file, bool sizes_vary) {
  const msc_loc *loc = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, file->name), .implied = true});
  msc_weights none = {0};
  msc_model_bytes with_weights = *file;
  if (!file->weights) with_weights.weights = &none;
  onnx_reader r = {
      .ctx = ctx, .scratch = msc_arena_new(ctx), .file = &with_weights, .loc = loc, .sizes_vary = sizes_vary};
  r.dim_used = msc_new_array(r.scratch, bool, file->num_dims + 1);
  r.fixed_used = msc_new_array(r.scratch, bool, file->num_fixed + 1);
  const uint8_t *data = file->data;
  r.model = onnx_decode(ctx, r.scratch, loc, (proto_bytes){data, data + file->bytes});
  msc_module *m = NULL;
  if (r.model) {
    r.module = msc_module_new(ctx);
    r.func = msc_func_new(r.module, "forward");
    r.b = (msc_builder){.func = r.func, .block = r.func->body, .loc = loc};
    m = read_graph(&r);
  }
  if (m && none.num) {
    msc_error(ctx, MSC_E_UNSUPPORTED, loc, "its %zu weights belong into a file of their own: msc import reads it",
              none.num);
    m = NULL;
  }
  return m; /* the arena is not freed before the context: weights may have elements in it */
}

msc_module *msc_read_onnx(msc_context *ctx, const msc_model_bytes *file) { return read_file(ctx, file, false); }

msc_module *msc_read_onnx_at(msc_context *ctx, const msc_model_bytes *file) { return read_file(ctx, file, true); }

size_t msc_onnx_open_sizes(msc_context *ctx, const msc_model_bytes *file, const char *const **out_name) {
  const msc_loc *loc = msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, file->name), .implied = true});
  onnx_reader r = {.ctx = ctx, .scratch = msc_arena_new(ctx), .file = file, .loc = loc};
  r.dim_used = msc_new_array(r.scratch, bool, file->num_dims + 1);
  msc_diag_mark mark = msc_mark_diags(ctx);
  const uint8_t *data = file->data;
  r.model = onnx_decode(ctx, r.scratch, loc, (proto_bytes){data, data + file->bytes});
  size_t num = r.model && r.model->graph ? onnx_list_open_sizes(&r, out_name) : 0;
  msc_forget_diags(ctx, mark);
  msc_arena_free(r.scratch);
  return num;
}
