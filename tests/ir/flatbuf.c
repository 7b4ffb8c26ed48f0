/* flatbuf.c: what the builder writes is verified and read back; hostile buffers are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/fbs/flatbuf_build.h"

#include "model_fbs.h"
#include "plan_fbs.h"

enum { MAX_TABLES = 100000 };

static void put_op(flatbuf_builder *b, const char *kind, uint32_t result) {
  model_op_begin(b);
  model_op_put_results(b, 1, &result);
  model_op_put_kind(b, kind);
  model_op_begin_attrs(b);
  model_attr_begin(b);
  model_attr_put_name(b, "shape");
  model_attr_begin_value_ints(b);
  model_ints_put_v(b, 3, (int64_t[]){4, -1, INT64_MIN});
  flatbuf_end(b);
  flatbuf_end(b);
  model_attr_begin(b);
  model_attr_begin_value_float(b);
  model_float_put_v(b, -0.0);
  flatbuf_end(b);
  model_attr_put_name(b, "value");
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
}

static void put_model(flatbuf_builder *b) {
  model_model_begin(b);
  model_model_put_version(b, 1);
  model_model_begin_body(b);
  model_graph_begin_ops(b);
  put_op(b, "reshape", 7);
  put_op(b, "matmul", 8);
  put_op(b, "matmul", 9);
  flatbuf_end(b);
  model_graph_put_args(b, 0, NULL);
  flatbuf_end(b);
  model_model_begin_constants(b);
  model_constant_begin(b);
  model_constant_put_data(b, 5, (const uint8_t[]){1, 2, 3, 4, 5});
  flatbuf_end(b);
  flatbuf_end(b);
  model_model_begin_blocks(b);
  model_block_begin(b);
  model_block_put_name(b, "");
  model_block_begin_hints(b);
  model_hints_put_recompute(b, MODEL_TRI_YES);
  model_hints_put_in_layout(b, 2, (const char *const[]){"[{a}]", "[{}]"});
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
}

/* The model above in memory that reads of typed vectors may use; freed by the caller. */
static uint8_t *make_model(size_t *out_bytes) {
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  put_model(b);
  void *data = flatbuf_finish(b, out_bytes);
  assert_non_null(data);
  uint8_t *held = aligned_alloc(FLATBUF_ALIGN, (*out_bytes + FLATBUF_ALIGN - 1) / FLATBUF_ALIGN * FLATBUF_ALIGN);
  memcpy(held, data, *out_bytes);
  flatbuf_builder_free(b);
  return held;
}

static void written_is_read(void **state) {
  (void)state;
  size_t bytes;
  flatbuf_fault fault;
  uint8_t *data = make_model(&bytes);
  assert_true(flatbuf_verify(&model_schema, data, bytes, MAX_TABLES, &fault));
  model_model m = model_model_root(data);
  assert_int_equal(model_model_version(m), 1);
  model_graph body = model_model_body(m);
  assert_int_equal(model_graph_ops_num(body), 3);
  assert_true(has_model_graph_args(body));
  assert_int_equal(model_graph_args_num(body), 0);
  assert_false(has_model_graph_results(body));
  model_op op = model_graph_ops(body, 2);
  assert_string_equal(model_op_kind(op), "matmul");
  assert_int_equal(model_op_kind_len(op), 6);
  assert_null(model_op_name(op));
  assert_int_equal(model_op_results(op, 0), 9);
  assert_int_equal(model_op_results(op, 1), 0);
  model_attr shape = model_op_attrs(op, 0), value = model_op_attrs(op, 1);
  assert_int_equal(model_attr_value_type(shape), MODEL_ATTR_VALUE_INTS);
  assert_int_equal(model_ints_v(model_attr_value_ints(shape), 2), INT64_MIN);
  assert_int_equal(model_ints_v_data(model_attr_value_ints(shape))[1], -1);
  assert_null(model_attr_value_str(shape).at);
  double zero = model_float_v(model_attr_value_float(value));
  assert_true(zero == 0 && 1 / zero < 0);
  model_constant c = model_model_constants(m, 0);
  assert_int_equal(model_constant_data_num(c), 5);
  assert_int_equal((uintptr_t)model_constant_data_data(c) % 16, 0);
  model_hints h = model_block_hints(model_model_blocks(m, 0));
  assert_int_equal(model_hints_recompute(h), 1);
  assert_int_equal(model_hints_mp_comm_recompute(h), -1);
  assert_int_equal(model_hints_comm_fusion(h), -1);
  assert_string_equal(model_hints_in_layout(h, 1), "[{}]");
  assert_null(model_hints_in_layout(h, 2));
  free(data);
}

/* Absent tables read as defaults, however deep one goes. */
static void absent_reads_as_default(void **state) {
  (void)state;
  size_t bytes;
  uint8_t *data = make_model(&bytes);
  model_train train = model_model_train(model_model_root(data));
  assert_null(train.at);
  assert_int_equal(model_train_micro_size(train), 1);
  assert_null(model_optimizer_kind(model_train_optimizers(train, 3)));
  free(data);
}

static void structs_and_alignment(void **state) {
  (void)state;
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  plan_plan_begin(b);
  plan_plan_put_code(b, 3, (const uint8_t[]){1, 2, 3});
  plan_plan_put_input_stride(b, 1ull << 40);
  plan_plan_begin_sections(b);
  plan_section_begin(b);
  plan_section_put_name(b, "train");
  plan_section_begin_calls(b);
  plan_call_begin(b);
  plan_call_put_checks(b, 1);
  plan_call_put_extent(b, 77);
  plan_call_put_buffers(
      b, 2, (const plan_ref[]){{.offset = 64, .space = PLAN_SPACE_SCRATCH}, {.offset = 128, .space = PLAN_SPACE_TILE}});
  plan_call_begin_epilogue(b);
  plan_call_put_index(b, 5);
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  flatbuf_end(b);
  size_t bytes;
  void *data = flatbuf_finish(b, &bytes);
  flatbuf_fault fault;
  assert_non_null(data);
  assert_true(flatbuf_verify(&plan_schema, data, bytes, MAX_TABLES, &fault));
  plan_plan p = plan_plan_root(data);
  assert_int_equal(((const uint8_t *)plan_plan_code_data(p) - (uint8_t *)data) % 64, 0);
  assert_int_equal(plan_plan_input_stride(p), 1ull << 40);
  plan_call call = plan_section_calls(plan_plan_sections(p, 0), 0);
  assert_int_equal(plan_call_buffers(call, 1).offset, 128);
  assert_int_equal(plan_call_buffers(call, 1).space, PLAN_SPACE_TILE);
  assert_int_equal(plan_call_buffers(call, 2).offset, 0);
  assert_int_equal(plan_call_index(plan_call_epilogue(call)), 5);
  assert_int_equal(plan_call_extent(call), 77);
  assert_int_equal(plan_call_grain(call), 1);
  assert_null(plan_call_epilogue(plan_call_epilogue(call)).at);
  flatbuf_builder_free(b);
}

static void same_calls_same_bytes(void **state) {
  (void)state;
  size_t first_bytes, second_bytes;
  uint8_t *first = make_model(&first_bytes);
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  put_model(b);
  flatbuf_finish(b, &second_bytes);
  flatbuf_builder_reset(b);
  put_model(b);
  void *second = flatbuf_finish(b, &second_bytes);
  assert_int_equal(first_bytes, second_bytes);
  assert_memory_equal(first, second, first_bytes);
  free(first);
  flatbuf_builder_free(b);
}

/* ---- misuse and failing memory ---- */

static void misuse_is_named(void **state) {
  (void)state;
  size_t bytes;
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  model_op_begin(b); /* not the root */
  assert_int_equal(flatbuf_builder_status(b), FLATBUF_MISUSE);
  assert_string_equal(flatbuf_builder_fault(b), "Op.begin");
  flatbuf_builder_reset(b);
  model_model_begin(b);
  flatbuf_end(b); /* body is required */
  assert_string_equal(flatbuf_builder_fault(b), "Model.body");
  assert_null(flatbuf_finish(b, &bytes));
  flatbuf_builder_reset(b);
  model_model_begin(b);
  model_model_put_version(b, 1);
  model_model_put_version(b, 2);
  assert_string_equal(flatbuf_builder_fault(b), "Model.version");
  flatbuf_builder_reset(b);
  model_model_begin(b);
  model_model_begin_types(b);
  model_attr_begin(b); /* not an element of this list */
  assert_string_equal(flatbuf_builder_fault(b), "Attr.begin");
  flatbuf_builder_reset(b);
  model_model_begin(b);
  assert_null(flatbuf_finish(b, &bytes));
  assert_int_equal(flatbuf_builder_status(b), FLATBUF_MISUSE);
  flatbuf_builder_reset(b);
  flatbuf_end(b);
  assert_int_equal(flatbuf_builder_status(b), FLATBUF_MISUSE);
  flatbuf_builder_free(b);
}

typedef struct {
  int left;
  long balance;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  failing *f = user;
  if (bytes && f->left-- <= 0) return NULL;
  f->balance += (long)bytes - (ptr ? (long)old_bytes : 0);
  if (bytes) return realloc(ptr, bytes);
  free(ptr);
  return NULL;
}

/* Each allocation fails once: a status, and nothing leaks. */
static void memory_fails(void **state) {
  (void)state;
  bool done = false;
  for (int n = 0; !done; n++) {
    failing f = {n, 0};
    size_t bytes;
    flatbuf_builder *b = flatbuf_builder_new(failing_alloc, &f);
    if (b) {
      put_model(b);
      done = flatbuf_finish(b, &bytes) != NULL;
      assert_int_equal(flatbuf_builder_status(b), done ? FLATBUF_OK : FLATBUF_NOMEM);
      flatbuf_builder_free(b);
    }
    assert_int_equal(f.balance, 0);
  }
}

/* ---- hostile buffers, by hand ---- */

typedef struct {
  _Alignas(FLATBUF_ALIGN) uint8_t data[1 << 16];
  size_t bytes;
} raw;

static void u16(raw *r, unsigned v) {
  uint16_t x = (uint16_t)v;
  memcpy(r->data + r->bytes, &x, 2);
  r->bytes += 2;
}
static void u32(raw *r, uint32_t v) {
  memcpy(r->data + r->bytes, &v, 4);
  r->bytes += 4;
}
static void set32(raw *r, size_t at, uint32_t v) { memcpy(r->data + at, &v, 4); }

static void expect_fault(const flatbuf_schema *s, const void *data, size_t bytes, const char *what) {
  flatbuf_fault fault;
  assert_false(flatbuf_verify(s, data, bytes, MAX_TABLES, &fault));
  assert_string_equal(fault.what, what);
}

static void too_short_or_strange(void **state) {
  (void)state;
  size_t bytes;
  uint8_t *data = make_model(&bytes);
  flatbuf_fault fault;
  expect_fault(&model_schema, data, 0, "too short");
  expect_fault(&model_schema, data, 11, "too short");
  expect_fault(&plan_schema, data, bytes, "wrong file identifier");
  assert_false(flatbuf_verify(&model_schema, data, (size_t)FLATBUF_MAX_BYTES + 1, MAX_TABLES, &fault));
  assert_string_equal(fault.what, "larger than 2 GiB");
  for (size_t n = 0; n < bytes; n++) { /* exact allocation: a sanitizer sees a read past the end */
    uint8_t *cut = malloc(n ? n : 1);
    memcpy(cut, data, n);
    bool good = flatbuf_verify(&model_schema, cut, n, MAX_TABLES, &fault);
    if (good) assert_true(bytes - n < 16); /* trailing padding */
    free(cut);
  }
  set32((raw *)(void *)data, 0, 0);
  expect_fault(&model_schema, data, bytes, "bad offset");
  set32((raw *)(void *)data, 0, 0x7ffffffc);
  expect_fault(&model_schema, data, bytes, "offset leads outside the file");
  set32((raw *)(void *)data, 0, 0xfffffffc);
  expect_fault(&model_schema, data, bytes, "bad offset");
  set32((raw *)(void *)data, 0, 10);
  expect_fault(&model_schema, data, bytes, "misaligned offset");
  free(data);
}

/* Root table with only `body` (id 6) in place; its offset is to be set.  Returns where that stands. */
static size_t begin_raw(raw *r) {
  r->bytes = 0;
  u32(r, 28);
  memcpy(r->data + 4, "MSCM", 4);
  r->bytes = 8;
  u16(r, 18), u16(r, 8); /* vtable at 8: up to id 6 */
  for (int id = 0; id < 6; id++) u16(r, 0);
  u16(r, 4);
  u16(r, 0);
  assert_int_equal(r->bytes, 28);
  u32(r, 20);
  u32(r, 0);
  return 32;
}

/* Levels of Graph and Op whose children are all the same: 2 KB, and 8^28 paths. */
static void exponential_visits(void **state) {
  (void)state;
  static raw r;
  size_t body = begin_raw(&r);
  size_t graph_vtable = r.bytes;
  u16(&r, 8), u16(&r, 8), u16(&r, 0), u16(&r, 4); /* Graph: ops (id 1) */
  size_t op_vtable = r.bytes;
  /* Op: kind, regions (5) */
  u16(&r, 16), u16(&r, 12), u16(&r, 4), u16(&r, 0), u16(&r, 0), u16(&r, 0), u16(&r, 0), u16(&r, 8);
  size_t kind = r.bytes;
  u32(&r, 1), u32(&r, 'x');
  set32(&r, kind + 4, 'x');
  size_t link = body; /* an offset that must lead to the next graph */
  for (int level = 0; level < 28; level++) {
    size_t graph = r.bytes;
    for (int i = 0; i < (level ? 8 : 1); i++)
      set32(&r, link + 4 * (size_t)i, (uint32_t)(graph - link) - 4 * (uint32_t)i);
    u32(&r, (uint32_t)(graph - graph_vtable));
    u32(&r, 4);
    u32(&r, 1), u32(&r, 4); /* ops: one */
    size_t op = r.bytes;
    u32(&r, (uint32_t)(op - op_vtable));
    u32(&r, 0), u32(&r, level < 27 ? 4 : 0);
    /* kind must come after the op: a string of its own */
    set32(&r, op + 4, 4 + 4 + (level < 27 ? 4 * 9 : 0));
    if (level == 27) {
      set32(&r, op, (uint32_t)(op - op_vtable));
      set32(&r, op + 8, 8); /* regions: shares the string's bytes as an empty vector */
    }
    if (level < 27) {
      u32(&r, 8);
      link = r.bytes;
      for (int i = 0; i < 8; i++) u32(&r, 0);
    }
    u32(&r, 1), u32(&r, 'x');
    if (level == 27) u32(&r, 0);
    if (level == 27) set32(&r, op + 8, (uint32_t)(r.bytes - 4 - op - 8));
  }
  assert_true(r.bytes < 4096);
  flatbuf_fault fault;
  assert_false(flatbuf_verify(&model_schema, r.data, r.bytes, 1000, &fault));
  assert_string_equal(fault.what, "more tables than allowed");
  expect_fault(&model_schema, r.data, r.bytes, "data shared too often");
}

/* A table may use bytes of its own fields as vtable; reading stays inside, so it is only required to be consistent. */
static void overlapping_vtables(void **state) {
  (void)state;
  static raw r;
  flatbuf_fault fault;
  size_t body = begin_raw(&r);
  size_t graph = r.bytes;
  set32(&r, body, (uint32_t)(graph - body));
  u32(&r, (uint32_t)-4);  /* vtable 4 bytes into the table itself */
  u16(&r, 4), u16(&r, 8); /* no fields */
  assert_true(flatbuf_verify(&model_schema, r.data, r.bytes, MAX_TABLES, &fault));
  set32(&r, graph, 0); /* vtable = the table: its first bytes read as sizes 0, 0 */
  expect_fault(&model_schema, r.data, r.bytes, "bad vtable size");
  set32(&r, graph, 0x80000000u);
  expect_fault(&model_schema, r.data, r.bytes, "bad vtable offset");
  set32(&r, graph, 0x7fffffffu);
  expect_fault(&model_schema, r.data, r.bytes, "bad vtable offset");
  set32(&r, graph, 3);
  expect_fault(&model_schema, r.data, r.bytes, "bad vtable offset");
}

/* Graph whose args vector lies at `at` with `num` elements. */
static void graph_with_args(raw *r, unsigned pad, uint32_t num, uint32_t offset) {
  size_t body = begin_raw(r);
  u16(r, 6), u16(r, 8), u16(r, 4), u16(r, 0);
  size_t graph = r->bytes;
  set32(r, body, (uint32_t)(graph - body));
  u32(r, 8);
  u32(r, offset ? offset : 4 + pad);
  for (unsigned i = 0; i < pad; i++) r->data[r->bytes++] = 0;
  u32(r, num);
}

static void vectors(void **state) {
  (void)state;
  static raw r;
  flatbuf_fault fault;
  graph_with_args(&r, 0, 0, 0);
  assert_true(flatbuf_verify(&model_schema, r.data, r.bytes, MAX_TABLES, &fault));
  graph_with_args(&r, 0, 1, 0);
  expect_fault(&model_schema, r.data, r.bytes, "vector does not fit into the file");
  assert_string_equal((flatbuf_verify(&model_schema, r.data, r.bytes, MAX_TABLES, &fault), fault.table), "Graph");
  assert_string_equal(fault.field, "args");
  graph_with_args(&r, 0, 0xffffffffu, 0);
  expect_fault(&model_schema, r.data, r.bytes, "vector does not fit into the file");
  graph_with_args(&r, 0, 0x40000000u, 0); /* times 4 = 2^32 */
  expect_fault(&model_schema, r.data, r.bytes, "vector does not fit into the file");
  graph_with_args(&r, 0, 0, 0x7ffffffcu);
  expect_fault(&model_schema, r.data, r.bytes, "offset leads outside the file");
  graph_with_args(&r, 0, 0, 0x80000000u);
  expect_fault(&model_schema, r.data, r.bytes, "bad offset");
  graph_with_args(&r, 2, 0, 0);
  expect_fault(&model_schema, r.data, r.bytes, "misaligned offset");
}

/* 8-byte elements: an empty vector may lie on a multiple of 4, one with elements may not. */
static void misaligned_elements(void **state) {
  (void)state;
  size_t bytes;
  flatbuf_fault fault;
  for (uint32_t num = 0; num < 2; num++) {
    uint8_t *data = make_model(&bytes);
    model_attr shape = model_op_attrs(model_graph_ops(model_model_body(model_model_root(data)), 0), 0);
    uint8_t *field = (uint8_t *)(uintptr_t)flatbuf_inline(model_attr_value_ints(shape).at, 0);
    uint32_t offset = flatbuf_load_u32(field) + 4;
    memcpy(field, &offset, 4);
    memcpy(field + offset, &num, 4);
    bool good = flatbuf_verify(&model_schema, data, bytes, MAX_TABLES, &fault);
    assert_int_equal(good, num == 0);
    if (num) assert_string_equal(fault.what, "misaligned vector");
    free(data);
  }
}

static void nested_too_deep(void **state) {
  (void)state;
  for (int depth = 61; depth <= 64; depth++) { /* epilogues; Plan, Section and the first Call come on top */
    flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
    plan_plan_begin(b);
    plan_plan_begin_sections(b);
    plan_section_begin(b);
    plan_section_put_name(b, "train");
    plan_section_begin_calls(b);
    plan_call_begin(b);
    for (int i = 0; i < depth; i++) plan_call_begin_epilogue(b);
    for (int i = 0; i < depth + 5; i++) flatbuf_end(b);
    size_t bytes;
    flatbuf_fault fault;
    void *data = flatbuf_finish(b, &bytes);
    assert_non_null(data);
    assert_int_equal(flatbuf_verify(&plan_schema, data, bytes, MAX_TABLES, &fault), depth <= 61);
    if (depth > 61) assert_string_equal(fault.what, "tables nested too deep");
    flatbuf_builder_free(b);
  }
}

/* One long vector used by thousands of tables: readers would copy gigabytes. */
static void data_shared_too_often(void **state) {
  (void)state;
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  static char text[100000];
  memset(text, 'a', sizeof text - 1);
  model_model_begin(b);
  model_model_begin_body(b);
  flatbuf_end(b);
  model_model_begin_locs(b);
  for (int i = 0; i < 1000; i++) {
    model_loc_begin(b);
    model_loc_put_file(b, text);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  flatbuf_end(b);
  size_t bytes;
  void *data = flatbuf_finish(b, &bytes);
  assert_non_null(data);
  assert_true(bytes < 120000);
  expect_fault(&model_schema, data, bytes, "data shared too often");
  flatbuf_builder_free(b);
}

/* Writers that share vtables leave another table's size in them; fields are held against the file. */
static void sizes_in_vtables(void **state) {
  (void)state;
  size_t bytes;
  flatbuf_fault fault;
  uint8_t *data = make_model(&bytes);
  uint8_t *root = data + flatbuf_load_u32(data), *vtable = root - flatbuf_load_i32(root);
  const uint16_t sizes[] = {0, 4, 0xffff}, offsets[] = {0xfffc, 2};
  for (int i = 0; i < 3; i++) {
    memcpy(vtable + 2, &sizes[i], 2);
    assert_true(flatbuf_verify(&model_schema, data, bytes, MAX_TABLES, &fault));
  }
  for (int i = 0; i < 2; i++) {
    memcpy(vtable + 4, &offsets[i], 2);
    expect_fault(&model_schema, data, bytes, "field outside the file");
  }
  free(data);
}

static void unions(void **state) {
  (void)state;
  size_t bytes;
  uint8_t *data = make_model(&bytes);
  model_attr shape = model_op_attrs(model_graph_ops(model_model_body(model_model_root(data)), 0), 0);
  uint8_t *type = (uint8_t *)(uintptr_t)flatbuf_inline(shape.at, 1);
  *type = 0;
  expect_fault(&model_schema, data, bytes, "union has a type or a value, but not both");
  *type = 200;
  expect_fault(&model_schema, data, bytes, "unknown union type");
  *type = MODEL_ATTR_VALUE_STRS; /* the integers read as offsets */
  expect_fault(&model_schema, data, bytes, "string without terminator");
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_is_read),
      cmocka_unit_test(absent_reads_as_default),
      cmocka_unit_test(structs_and_alignment),
      cmocka_unit_test(same_calls_same_bytes),
      cmocka_unit_test(misuse_is_named),
      cmocka_unit_test(memory_fails),
      cmocka_unit_test(too_short_or_strange),
      cmocka_unit_test(exponential_visits),
      cmocka_unit_test(overlapping_vtables),
      cmocka_unit_test(vectors),
      cmocka_unit_test(misaligned_elements),
      cmocka_unit_test(nested_too_deep),
      cmocka_unit_test(data_shared_too_often),
      cmocka_unit_test(sizes_in_vtables),
      cmocka_unit_test(unions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
