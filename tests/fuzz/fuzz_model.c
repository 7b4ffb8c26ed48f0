/* fuzz_model: any bytes as a model.fbs are refused with an error, or make a module that verifies, and that is the same
 * after it was written and read again.  Bytes without the file's identifier are taken as choices: a file that is sound
 * in structure is built by them, so that the meaning is fuzzed too. */
#include <stdlib.h>
#include <string.h>

#include "ir/fbs/flatbuf_build.h"
#include "tests/fuzz/protect.h"

#include "model_fbs.h"

static bool run(msc_context *ctx, void *arg) {
  const input *in = arg;
  const msc_dim_size batch = {"batch", 2};
  if (!msc_read_fbs(ctx, "fuzz.fbs", in->data, in->bytes, 1, &batch, NULL) && !msc_num_errors(ctx)) abort();
  msc_clear_diags(ctx);
  msc_module *m = msc_read_fbs(ctx, "fuzz.fbs", in->data, in->bytes, 0, NULL, NULL);
  if (!m && !msc_num_errors(ctx)) abort();
  if (!m) m = msc_read_fbs(ctx, "fuzz.fbs", in->data, in->bytes, 1, &batch, NULL); /* sizes may be open */
  if (!m) return false;
  msc_clear_diags(ctx);
  if (!msc_verify(m)) abort();
  msc_arena *arena = msc_context_arena(ctx);
  size_t size, text_size, again_size;
  const char *text = msc_print_text(m, arena, &text_size);
  const void *written = msc_write_fbs(m, arena, &size);
  msc_module *again = written ? msc_read_fbs(ctx, "again.fbs", written, size, 0, NULL, NULL) : NULL;
  if (!again) abort();
  const char *same = msc_print_text(again, arena, &again_size);
  if (text_size != again_size || memcmp(text, same, text_size)) abort();
  return true;
}

/* ---- a file by choices ---- */

typedef struct {
  const uint8_t *at, *end;
  flatbuf_builder *b;
  uint32_t num_values;
} choices;

/* 0 .. n-1; zeros when the bytes are used up */
static uint32_t pick(choices *c, uint32_t n) { return c->at < c->end ? *c->at++ % n : 0; }
static bool rarely(choices *c) { return pick(c, 16) == 15; }

static int64_t pick_size(choices *c) {
  static const int64_t odd[] = {0, -1, -2, 1 << 20, INT64_C(1) << 31, INT64_C(1) << 62, INT64_MAX, INT64_MIN};
  return rarely(c) ? odd[pick(c, 8)] : 1 + pick(c, 4);
}

/* Mostly a value that exists. */
static uint32_t pick_value(choices *c) { return rarely(c) ? pick(c, 256) : pick(c, c->num_values ? c->num_values : 1); }

static const char *pick_text(choices *c) {
  static const char *const texts[] = {"mean", "none", "sum", "erf",      "tanh", "lt", "eq",       "f32",
                                      "i8",   "bf16", "{a}", "{a:(1)2}", "",     "x",  "[{a},{}]", "[{a}] partial={b}"};
  return texts[pick(c, 16)];
}

static void put_value(choices *c, const msc_attr_spec *s) {
  flatbuf_builder *b = c->b;
  int64_t ints[9];
  size_t num = pick(c, 9);
  for (size_t i = 0; i < num; i++) ints[i] = pick(c, 2) ? pick(c, 4) : pick_size(c);
  bool list = s->is_list != rarely(c);
  if (s->kind == MSC_ATTR_INT && list) model_attr_begin_value_ints(b), model_ints_put_v(b, num, ints);
  else if (s->kind == MSC_ATTR_INT)
    model_attr_begin_value_int(b), model_int_put_v(b, pick(c, 2) ? pick(c, 4) : pick_size(c));
  else if (s->kind == MSC_ATTR_FLOAT) model_attr_begin_value_float(b), model_float_put_v(b, (double)pick_size(c) / 3);
  else if (s->kind == MSC_ATTR_BOOL) model_attr_begin_value_bool(b), model_bool_put_v(b, pick(c, 2));
  else if (s->kind == MSC_ATTR_STR) model_attr_begin_value_str(b), model_str_put_v(b, pick_text(c));
  else model_attr_begin_value_type_ref(b), model_type_ref_put_v(b, pick(c, 8));
  flatbuf_end(b);
}

static void put_hints(choices *c) {
  flatbuf_builder *b = c->b;
  uint32_t parts[] = {pick(c, 5), pick(c, 3), 1};
  model_op_begin_hints(b);
  model_hints_begin_in_strategy(b);
  for (uint32_t i = pick(c, 4); i--;) model_split_begin(b), model_split_put_parts(b, pick(c, 4), parts), flatbuf_end(b);
  flatbuf_end(b);
  const char *layout[] = {pick_text(c), pick_text(c)};
  if (pick(c, 2)) model_hints_put_out_layout(b, pick(c, 3), layout);
  if (pick(c, 2)) model_hints_put_manual_split(b, pick(c, 3), (int64_t[]){pick_size(c), pick_size(c)});
  model_hints_put_pipeline_stage(b, (int32_t)pick_size(c));
  model_hints_put_recompute(b, (int8_t)(pick(c, 4) - 1));
  model_hints_put_priority(b, (uint8_t)pick(c, 256));
  flatbuf_end(b);
}

static void put_op(msc_context *ctx, choices *c) {
  flatbuf_builder *b = c->b;
  msc_op_kind kind = (msc_op_kind)pick(c, OP_COUNT);
  const msc_op_info *info = msc_op_info_of(ctx, kind);
  uint32_t operands[8], results[4];
  uint32_t num_in = (uint32_t)info->min_in + (info->max_in < 0 ? pick(c, 4) : 0) + rarely(c);
  uint32_t num_out = (uint32_t)info->min_out + (info->max_out < 0 ? pick(c, 3) : 0);
  for (uint32_t i = 0; i < num_in && i < 8; i++) operands[i] = pick_value(c);
  for (uint32_t i = 0; i < num_out && i < 4; i++) results[i] = rarely(c) ? pick_value(c) : c->num_values++;
  model_op_begin(b);
  model_op_put_kind(b, info->name);
  model_op_put_operands(b, num_in < 8 ? num_in : 8, operands);
  model_op_put_results(b, num_out < 4 ? num_out : 4, results);
  model_op_put_loc(b, pick(c, 4));
  model_op_put_block(b, pick(c, 3));
  model_op_begin_attrs(b);
  for (int i = 0; i < info->num_attrs; i++) {
    if (info->attr[i].has_default ? pick(c, 2) : rarely(c)) continue;
    model_attr_begin(b);
    model_attr_put_name(b, info->attr[i].name);
    put_value(c, &info->attr[i]);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  if (rarely(c)) put_hints(c);
  flatbuf_end(b);
}

static void put_arguments(choices *c) {
  flatbuf_builder *b = c->b;
  model_model_begin_inputs(b);
  for (uint32_t i = pick(c, 4); i--;) {
    model_input_begin(b), model_input_put_name(b, (const char[]){(char)('a' + i), 0});
    model_input_put_value(b, c->num_values++), model_input_put_role(b, (uint8_t)pick(c, 3)),
        model_input_put_batch_dim(b, (int32_t)pick(c, 3) - 1), flatbuf_end(b);
  }
  flatbuf_end(b);
  model_model_begin_parameters(b);
  for (uint32_t i = pick(c, 4); i--;) {
    model_parameter_begin(b), model_parameter_put_name(b, (const char[]){(char)('p' + i), 0}),
        model_parameter_put_value(b, c->num_values++);
    model_parameter_begin_init(b), model_op_put_kind(b, "zeros"), flatbuf_end(b);
    if (rarely(c)) model_parameter_put_layout(b, pick_text(c));
    flatbuf_end(b);
  }
  flatbuf_end(b);
  model_model_begin_constants(b);
  for (uint32_t i = pick(c, 3); i--;)
    model_constant_begin(b), model_constant_put_value(b, c->num_values++),
        model_constant_put_data(b, 1u << pick(c, 4), (const uint8_t[16]){0, 0, 128, 63}), flatbuf_end(b);
  flatbuf_end(b);
}

static void put_types(choices *c) {
  flatbuf_builder *b = c->b;
  uint32_t number[256];
  model_model_begin_types(b);
  for (int i = 0; i < 8; i++) {
    int64_t dims[9];
    size_t rank = rarely(c) ? 9 : pick(c, 4);
    for (size_t d = 0; d < rank; d++) dims[d] = pick_size(c);
    model_type_begin(b), model_type_put_dtype(b, (uint8_t)(pick(c, 3) ? 0 : pick(c, 14))),
        model_type_put_dims(b, rank, dims), flatbuf_end(b);
  }
  flatbuf_end(b);
  for (uint32_t i = 0; i < c->num_values && i < 256; i++) number[i] = rarely(c) ? pick(c, 9) : pick(c, 8);
  model_model_put_value_types(b, c->num_values < 256 ? c->num_values : 256, number);
}

static void put_rest(choices *c) {
  flatbuf_builder *b = c->b;
  model_model_begin_outputs(b);
  for (uint32_t i = 1 + pick(c, 3); i--;)
    model_output_begin(b), model_output_put_name(b, (const char[]){(char)('r' + i), 0}),
        model_output_put_value(b, pick_value(c)), flatbuf_end(b);
  flatbuf_end(b);
  if (pick(c, 2)) {
    model_model_begin_train(b), model_train_put_loss(b, pick_value(c)), model_train_begin_optimizers(b);
    model_optimizer_begin(b), model_optimizer_put_kind(b, "sgd"), flatbuf_end(b), flatbuf_end(b), flatbuf_end(b);
  }
  model_model_begin_locs(b);
  for (uint32_t i = pick(c, 4); i--;)
    model_loc_begin(b), model_loc_put_file(b, "m.py"), model_loc_put_line(b, pick(c, 9)),
        model_loc_put_caller(b, pick(c, 3)), flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_blocks(b);
  for (uint32_t i = pick(c, 4); i--;) {
    model_block_begin(b), model_block_put_name(b, "k"), model_block_put_parent(b, pick(c, 2)),
        model_block_begin_hints(b);
    model_hints_put_pipeline_stage(b, (int32_t)pick(c, 3)), flatbuf_end(b), flatbuf_end(b);
  }
  flatbuf_end(b);
  if (!pick(c, 2)) return;
  model_model_begin_mesh(b);
  model_axis_begin(b), model_axis_put_name(b, "a"), model_axis_put_size(b, 1 + pick(c, 8)), flatbuf_end(b);
  model_axis_begin(b), model_axis_put_name(b, "b"), model_axis_put_size(b, 2), flatbuf_end(b);
  flatbuf_end(b);
}

static bool run_choices(msc_context *ctx, void *arg) {
  choices *c = arg;
  input in = {NULL, 0};
  model_model_begin(c->b);
  model_model_put_version(c->b, 1);
  put_arguments(c);
  model_model_begin_body(c->b);
  model_graph_begin_ops(c->b);
  for (int i = 0; i < 12 && c->at < c->end && c->num_values < 200; i++) put_op(ctx, c);
  flatbuf_end(c->b);
  flatbuf_end(c->b);
  put_types(c);
  put_rest(c);
  flatbuf_end(c->b);
  in.data = flatbuf_finish(c->b, &in.bytes);
  if (!in.data) abort();
  return run(ctx, &in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  input in = {data, bytes};
  choices c = {data, data + bytes, flatbuf_builder_new(NULL, NULL), 0};
  if (bytes >= 8 && !memcmp(data + 4, "MSCM", 4)) run_protected(run, &in);
  else run_protected(run_choices, &c);
  flatbuf_builder_free(c.b);
  return 0;
}
