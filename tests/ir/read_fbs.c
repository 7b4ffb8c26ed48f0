/* read_fbs.c: reading when memory runs out at every allocation, unaligned bytes, and graphs of 100,000 ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/fbs/flatbuf_build.h"
#include "ir/ir.h"

#include "model_fbs.h"

/* y = relu(relu(... x)), in nested blocks with a hint each. */
static flatbuf_builder *build_chain(uint32_t num_ops) {
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  model_model_begin(b);
  model_model_put_version(b, 1);
  model_model_begin_types(b);
  model_type_begin(b), model_type_put_dims(b, 2, (int64_t[]){4, 8}), flatbuf_end(b);
  flatbuf_end(b);
  uint32_t *types = calloc(num_ops + 1, sizeof *types);
  model_model_put_value_types(b, num_ops + 1, types);
  free(types);
  model_model_begin_blocks(b);
  model_block_begin(b), model_block_put_name(b, ""), flatbuf_end(b);
  model_block_begin(b), model_block_put_name(b, "body"), model_block_begin_hints(b),
      model_hints_put_pipeline_stage(b, 3), flatbuf_end(b), flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_locs(b);
  model_loc_begin(b), model_loc_put_file(b, "net.py"), model_loc_put_line(b, 3), flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_inputs(b);
  model_input_begin(b), model_input_put_name(b, "x"), flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_body(b);
  model_graph_begin_ops(b);
  for (uint32_t i = 0; i < num_ops; i++) {
    uint32_t out = i + 1;
    model_op_begin(b), model_op_put_kind(b, "relu"), model_op_put_operands(b, 1, &i), model_op_put_results(b, 1, &out);
    model_op_put_block(b, 1), model_op_put_loc(b, 1), flatbuf_end(b);
  }
  flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_outputs(b);
  model_output_begin(b), model_output_put_name(b, "y"), model_output_put_value(b, num_ops), flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  return b;
}

typedef struct {
  int left;
  long balance;
  const void *data;
  size_t bytes;
  msc_module *module;
} reading;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  reading *r = user;
  if (bytes && r->left-- <= 0) return NULL;
  r->balance += (long)bytes - (ptr ? (long)old_bytes : 0);
  if (bytes) return realloc(ptr, bytes);
  free(ptr);
  return NULL;
}

static bool read_it(msc_context *ctx, void *arg) {
  reading *r = arg;
  r->module = msc_read_fbs(ctx, "chain.fbs", r->data, r->bytes, 0, NULL, NULL);
  return r->module != NULL;
}

static void memory_runs_out(void **state) {
  (void)state;
  flatbuf_builder *b = build_chain(500);
  size_t bytes;
  void *data = flatbuf_finish(b, &bytes);
  assert_non_null(data);
  int failures = 0;
  for (bool done = false; !done; failures++) {
    reading r = {.left = failures, .data = data, .bytes = bytes};
    msc_context *ctx = msc_context_new(failing_alloc, &r);
    if (ctx) {
      done = msc_protect(ctx, read_it, &r);
      assert_int_equal(msc_num_errors(ctx), done ? 0 : 1);
      msc_context_free(ctx);
    }
    assert_int_equal(r.balance, 0);
  }
  assert_true(failures > 5);
  flatbuf_builder_free(b);
}

static void large_and_unaligned(void **state) {
  (void)state;
  enum { NUM = 100000 };
  flatbuf_builder *b = build_chain(NUM);
  size_t bytes, num = 0;
  void *data = flatbuf_finish(b, &bytes);
  char *shifted = malloc(bytes + 1);
  memcpy(shifted + 1, data, bytes);
  flatbuf_builder_free(b);
  msc_context *ctx = msc_context_new(NULL, NULL);
  reading r = {.data = shifted + 1, .bytes = bytes};
  assert_true(msc_protect(ctx, read_it, &r));
  for (const msc_op *op = msc_find_func(r.module, "forward")->body->first; op; op = op->next, num++) {
    if (op->kind == OP_return) break;
    assert_int_equal(msc_op_int(op, "pipeline_stage"), 3);
    assert_string_equal(op->loc->scope, "body");
  }
  assert_int_equal(num, NUM);
  msc_context_free(ctx);
  free(shifted);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory_runs_out), cmocka_unit_test(large_and_unaligned)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
