/* readers.c: checks the readers of data files: right files arrive converted and in place, wrong ones are refused
 * with a reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "runtime/data/data.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/msc-readers-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static const char *put(const char *name, const void *data, size_t bytes) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
  return path;
}

static const char *put_gz(const char *name, const void *data, size_t bytes) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile f = gzopen(path, "wb");
  assert_int_equal(gzwrite(f, data, (unsigned)bytes), bytes);
  gzclose(f);
  return path;
}

static void expect_text(mscrt_status *s, mscrt_code code, const char *part) {
  if (!s || mscrt_status_code(s) != code || !strstr(mscrt_status_text(s), part))
    fail_msg("got '%s', expected '%s'", mscrt_status_text(s), part);
  mscrt_status_free(s);
}

static void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

static const mscrt_wanted image = {.name = "x", .dtype = MSCRT_F32, .rank = 2, .shape = {2, 6}};
static const mscrt_wanted label = {.name = "y", .role = MSCRT_LABEL, .dtype = MSCRT_I32, .rank = 1, .shape = {2}};
static const mscrt_wanted tokens = {.name = "t", .dtype = MSCRT_I32, .rank = 2, .shape = {2, 3}};

/* 3 samples of 2 x 3, value = 50 * sample + position */
static size_t idx_images(uint8_t out[64]) {
  memcpy(out, (uint8_t[]){0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 3}, 16);
  for (int i = 0; i < 18; i++) out[16 + i] = (uint8_t)(50 * (i / 6) + i % 6);
  return 34;
}

static void read_box(const mscrt_wanted *w, const char *file, const uint64_t *sample, msc_box box, void *out) {
  mscrt_samples s;
  expect_ok(mscrt_samples_open(w, file, &s));
  void *line = malloc(mscrt_samples_line(&s, w) + 1);
  expect_ok(mscrt_samples_read(&s, w, sample, &box, &box, line, out, &(uint64_t){0}));
  free(line);
  mscrt_samples_close(&s);
}

static void idx_reaches_its_place(void **state) {
  (void)state;
  uint8_t bytes[64];
  float out[12];
  size_t n = idx_images(bytes);
  for (int zipped = 0; zipped < 2; zipped++) {
    const char *path = zipped ? put_gz("i.gz", bytes, n) : put("i.idx", bytes, n);
    read_box(&image, path, (uint64_t[]){2, 0}, (msc_box){.size = {2, 6}}, out);
    for (int i = 0; i < 12; i++) assert_true(out[i] == (float)((i < 6 ? 100 : 0) + i % 6) / 255.0f);
    read_box(&image, path, (uint64_t[]){2, 1}, (msc_box){.begin = {1, 2}, .size = {1, 3}}, out);
    for (int i = 0; i < 3; i++) assert_true(out[i] == (float)(52 + i) / 255.0f);
  }
}

static void batch_may_be_any_dimension(void **state) {
  (void)state;
  uint8_t bytes[64];
  float out[8];
  const char *path = put("i.idx", bytes, idx_images(bytes));
  mscrt_wanted last = {
      .name = "x", .dtype = MSCRT_F32, .rank = 3, .shape = {2, 3, 2}, .batch_dim = 2, .role = MSCRT_MASK};
  read_box(&last, path, (uint64_t[]){1, 2}, (msc_box){.begin = {0, 1, 0}, .size = {2, 2, 2}}, out);
  assert_memory_equal(out, ((float[]){51, 101, 52, 102, 54, 104, 55, 105}), sizeof out);
  mscrt_wanted middle = last;
  memcpy(middle.shape, (int64_t[]){2, 2, 3}, 24);
  middle.batch_dim = 1;
  read_box(&middle, path, (uint64_t[]){1, 2}, (msc_box){.begin = {1, 0, 1}, .size = {1, 2, 2}}, out);
  assert_memory_equal(out, ((float[]){54, 55, 104, 105}), 16);
}

static void tensors_without_a_batch(void **state) {
  (void)state;
  uint8_t bytes[64];
  float out[4];
  mscrt_wanted fixed = {
      .name = "table", .dtype = MSCRT_F32, .rank = 2, .shape = {3, 6}, .batch_dim = -1, .role = MSCRT_MASK};
  const char *path = put("i.idx", bytes, idx_images(bytes));
  read_box(&fixed, path, NULL, (msc_box){.begin = {1, 2}, .size = {2, 2}}, out);
  assert_memory_equal(out, ((float[]){52, 53, 102, 103}), sizeof out);
  fixed.shape[0] = 2;
  mscrt_samples s;
  expect_text(mscrt_samples_open(&fixed, path, &s), MSCRT_INPUT,
              "shape [3,2,3] does not fit input 'table' of shape [2,6]");
}

static void npy_and_safetensors_convert(void **state) {
  (void)state;
  int32_t out[2];
  char npy[256] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
  for (size_t i = strlen(npy + 10) + 10; i < 128; i++) npy[i] = i == 127 ? '\n' : ' ';
  memcpy(npy + 128, (int64_t[]){7, -8, 1}, 24);
  read_box(&label, put("y.npy", npy, 152), (uint64_t[]){1, 0}, (msc_box){.size = {2}}, out);
  assert_int_equal(out[0], -8);
  assert_int_equal(out[1], 7);
  int64_t large = (int64_t)1 << 31;
  memcpy(npy + 136, &large, 8);
  mscrt_samples s;
  expect_ok(mscrt_samples_open(&label, put("y.npy", npy, 152), &s));
  msc_box box = {.size = {2}};
  int64_t line[2];
  expect_text(mscrt_samples_read(&s, &label, (uint64_t[]){0, 1}, &box, &box, line, out, &(uint64_t){0}), MSCRT_INPUT,
              "sample 1, element 0: the value does not fit i32 of input 'y'");
  mscrt_samples_close(&s);
  const char header[] =
      "{\"y\":{\"dtype\":\"U8\",\"shape\":[3,1],\"data_offsets\":[2,5]},\"w\":{\"dtype\":\"I8\",\"shape\":[2],\"data_"
      "offsets\":[0,2]}}";
  uint8_t st[256] = {sizeof header - 1};
  memcpy(st + 8, header, sizeof header - 1);
  memcpy(st + 8 + sizeof header - 1, (uint8_t[]){0xff, 0xfe, 4, 5, 6}, 5);
  char path[160];
  strcpy(path, put("a.safetensors", st, 8 + sizeof header - 1 + 5));
  read_box(&label, path, (uint64_t[]){2, 0}, (msc_box){.size = {2}}, out);
  assert_int_equal(out[0], 6);
  assert_int_equal(out[1], 4);
  strcat(path, ":w");
  read_box(&label, path, (uint64_t[]){1, 0}, (msc_box){.size = {2}}, out);
  assert_int_equal(out[0], -2);
}

static void tokens_are_windows(void **state) {
  (void)state;
  int32_t out[6];
  mscrt_wanted next = tokens;
  next.role = MSCRT_LABEL;
  const char *path = put("text", "abcdefghij", 10);
  read_box(&tokens, path, (uint64_t[]){2, 0}, (msc_box){.size = {2, 3}}, out);
  assert_memory_equal(out, ((int32_t[]){'g', 'h', 'i', 'a', 'b', 'c'}), 24);
  read_box(&next, path, (uint64_t[]){2, 0}, (msc_box){.size = {2, 3}}, out);
  assert_memory_equal(out, ((int32_t[]){'h', 'i', 'j', 'b', 'c', 'd'}), 24);
  mscrt_samples s;
  expect_ok(mscrt_samples_open(&tokens, path, &s));
  assert_int_equal(mscrt_samples_count(&s), 3);
  mscrt_samples_close(&s);
  put("wide", "a\0b\0c\1d\0", 8);
  char wide[160];
  snprintf(wide, sizeof wide, "%s/wide:u16", folder);
  read_box(&tokens, wide, (uint64_t[]){0, 0}, (msc_box){.size = {1, 3}}, out);
  assert_int_equal(out[2], 'c' + 256);
}

typedef struct {
  const char *what, *data;
  size_t bytes;
  const char *tail; /* not NULL: data is the header of a safetensors file, tail the rest */
  const mscrt_wanted *wanted;
  const char *text;
} bad_case;

#define B(text) text, sizeof text - 1, NULL
#define S(header, tail) header, sizeof header - 1, tail

static const bad_case bad_cases[] = {
  {"idx cut", B("\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3abc"), &image,
   "truncated: shape [1,2,3] needs 6 bytes after the header, the file has 3"},
  {"idx header cut", B("\0\0\10\3\0\0\0\1\0\0"), &image, "truncated: bytes 4 .. 16 are needed, the file has 10"},
  {"idx too long", B("\0\0\10\1\0\0\0\1ab"), &label, "1 bytes follow the data of shape [1]"},
  {"idx huge", B("\0\0\10\4\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377"), &image, "is too large"},
  {"idx shape", B("\0\0\10\3\0\0\0\1\0\0\0\3\0\0\0\3abcdefghi"), &image,
   "shape [1,3,3] does not fit input 'x' of shape [2,6]"},
  {"float for ints", B("\0\0\15\1\0\0\0\1abcd"), &label, "f32 values do not go into input 'y' of i32"},
  {"npy records", B("\x93NUMPY\1\0\47\0{'descr': [('a', '<i8')], 'shape': (3,)}"), &label, "records are not supported"},
  {"npy order", B("\x93NUMPY\1\0\76\0{'descr': '<i4', 'fortran_order': True, 'shape': (2, 1)}      \n"), &label,
   "Fortran order"},
  {"npy type", B("\x93NUMPY\1\0\76\0{'descr': '<U4', 'fortran_order': False, 'shape': (2, 1)}     \n"), &label,
   "element type '<U4' is not supported"},
  {"npy no shape", B("\x93NUMPY\1\0\20\0{'descr': '<i4'}"), &label, "the header lacks shape"},
  {"npy negative", B("\x93NUMPY\1\0\76\0{'descr': '<i4', 'fortran_order': False, 'shape': (-2, 1)}    \n"), &label,
   "the shape is not a tuple of sizes"},
  {"npy version", B("\x93NUMPY\7\0\76\0{"), &label, "version 7 is not supported"},
  {"npy huge header", B("\x93NUMPY\2\0\377\377\377\377"), &label, "the header has 4294967295 bytes"},
  {"npy cut", B("\x93NUMPY\1\0\76\0{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1)}     \nabc"), &label,
   "truncated"},
  {"tokens to floats", B("hello world"), &image, "raw tokens go to integer inputs: input 'x' is f32"},
  {"tokens short", B("abc"), &tokens, "3 tokens are fewer than one window of 3"},
  {"gzip damaged", B("\x1f\x8b\10\0\0\0\0\0\0\3\377\377\377"), &image, "gzip data is damaged"},
  {"gzip cut", B("\x1f\x8b\10\0\0\0\0\0\0\3"), &image, "truncated: gzip"},
  {"header too long", B("z\0\0\0\0\0\0\0{}"), &image, "truncated: the header claims 122 bytes, 2 follow"},
  {"no data", B("\2\0\0\0\0\0\0\0{}"), &image, "has no tensor 'x'"},
  {"not json", B("\3\0\0\0\0\0\0\0{a}"), &image, "a name is expected at byte 1 of the header"},
  {"trailing", B("\4\0\0\0\0\0\0\0{}}}"), &image, "something follows the object"},
  {"overlap",
   S("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", "abc"),
   &label, "tensor 'b' overlaps the one before it"},
  {"gap",
   S("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}", "abcd"),
   &label, "tensor 'b' leaves a gap"},
  {"double",
   S("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", "abc"),
   &label, "two tensors are called 'a'"},
  {"extent", S("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "abcd"), &label,
   "shape and type need 8 bytes, its range has 4"},
  {"overflow", S("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", "abcd"),
   &label, "whose product fits"},
  {"outside", S("{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", "abcd"), &label,
   "bytes 0 .. 9 are not inside the 4 bytes"},
  {"tail", S("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", "abcd"), &label,
   "2 bytes at the end belong to no tensor"},
};

static void bad_files_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_cases / sizeof *bad_cases; i++) {
    mscrt_samples s;
    const bad_case *c = &bad_cases[i];
    uint8_t bytes[512] = {(uint8_t)c->bytes};
    size_t head = c->tail ? 8 : 0, tail = c->tail ? strlen(c->tail) : 0;
    memcpy(bytes + head, c->data, c->bytes);
    if (tail) memcpy(bytes + head + c->bytes, c->tail, tail);
    mscrt_status *status = mscrt_samples_open(c->wanted, put("bad", bytes, head + c->bytes + tail), &s);
    if (!status || !strstr(mscrt_status_text(status), c->text))
      fail_msg("%s: got '%s', expected '%s'", c->what, mscrt_status_text(status), c->text);
    assert_int_equal(mscrt_status_exit(status), 1);
    mscrt_status_free(status);
  }
  mscrt_samples s;
  expect_text(mscrt_samples_open(&image, "/nonexistent/file", &s), MSCRT_INPUT,
              "/nonexistent/file: cannot open: No such file");
  expect_text(mscrt_samples_open(&image, "/dev/zero", &s), MSCRT_INPUT, "/dev/zero: not a regular file");
}

/* 64 MiB of zeros behind a header: what the header says is all that is inflated, and only if it is wanted. */
static void gzip_is_inflated_as_far_as_its_header_says(void **state) {
  (void)state;
  static const struct {
    const char *what, *head;
    size_t bytes;
    const mscrt_wanted *wanted;
    const char *text;
  } bombs[] = {
      {"longer than its header", "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3", 16, &image,
       "more than 22 bytes are compressed in it"},
      {"of another shape", "\0\0\10\2\0\0\100\0\0\0\20\0", 12, &image,
       "shape [16384,4096] does not fit input 'x' of shape [2,6]"},
      {"of another type", "\0\0\15\1\1\0\0\0", 8, &label, "f32 values do not go into input 'y' of i32"},
      {"npy", "\x93NUMPY\1\0\76\0{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1)}     \n", 72, &label,
       "more than 80 bytes are compressed in it"},
      {"nothing that has a header", "hello", 5, &image, "raw tokens go to integer inputs: input 'x' is f32"},
  };
  size_t zeros = 64 << 20;
  uint8_t *bytes = calloc(1, zeros);
  assert_non_null(bytes);
  for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
    mscrt_samples s;
    memcpy(bytes, bombs[i].head, bombs[i].bytes);
    mscrt_status *status = mscrt_samples_open(bombs[i].wanted, put_gz("bomb.gz", bytes, zeros), &s);
    if (!status || !strstr(mscrt_status_text(status), bombs[i].text))
      fail_msg("%s: got '%s', expected '%s'", bombs[i].what, mscrt_status_text(status), bombs[i].text);
    mscrt_status_free(status);
  }
  free(bytes);
}

static void cut_while_in_use(void **state) {
  (void)state;
  uint8_t bytes[64];
  char path[160];
  strcpy(path, put("i.idx", bytes, idx_images(bytes)));
  mscrt_samples s;
  expect_ok(mscrt_samples_open(&image, path, &s));
  assert_int_equal(truncate(path, 20), 0);
  float out[12];
  uint8_t line[6];
  msc_box box = {.size = {2, 6}};
  expect_text(mscrt_samples_read(&s, &image, (uint64_t[]){0, 1}, &box, &box, line, out, &(uint64_t){0}), MSCRT_INPUT,
              "was cut to 20 bytes while it was in use");
  mscrt_samples_close(&s);
}

/* What is kept in memory gives the same samples, whatever becomes of the file; cut before, it says so. */
static void kept_in_memory(void **state) {
  (void)state;
  uint8_t bytes[64];
  char path[160];
  strcpy(path, put("k.idx", bytes, idx_images(bytes)));
  mscrt_samples read, kept;
  expect_ok(mscrt_samples_open(&image, path, &read));
  expect_ok(mscrt_samples_open(&image, path, &kept));
  expect_ok(mscrt_blob_keep(&kept.blob));
  float a[12], b[12];
  uint8_t line[6];
  msc_box box = {.size = {2, 6}};
  expect_ok(mscrt_samples_read(&read, &image, (uint64_t[]){1, 2}, &box, &box, line, a, &(uint64_t){0}));
  assert_int_equal(truncate(path, 20), 0);
  expect_ok(mscrt_samples_read(&kept, &image, (uint64_t[]){1, 2}, &box, &box, line, b, &(uint64_t){0}));
  assert_memory_equal(a, b, sizeof a);
  expect_text(mscrt_blob_keep(&read.blob), MSCRT_INPUT, "was cut to 20 bytes while it was in use");
  mscrt_samples_close(&read);
  mscrt_samples_close(&kept);
}

static void halves_round_to_even(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    float f = mscrt_from_f16((uint16_t)h), b = mscrt_from_bf16((uint16_t)h);
    if (isnan(f)) assert_true((mscrt_to_f16(f) & 0x7fff) > 0x7c00);
    else assert_int_equal(mscrt_to_f16(f), h);
    if (isnan(b)) assert_true((mscrt_to_bf16(b) & 0x7fff) > 0x7f80);
    else assert_int_equal(mscrt_to_bf16(b), h);
  }
  assert_int_equal(mscrt_to_f16(65519.0f), 0x7bff);
  assert_int_equal(mscrt_to_f16(65520.0f), 0x7c00);
  assert_int_equal(mscrt_to_f16(1.0f + 0x1p-11f), 0x3c00);
  assert_int_equal(mscrt_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
  assert_int_equal(mscrt_to_f16(0x1p-25f), 0);
  assert_int_equal(mscrt_to_f16(0x1.8p-24f), 2);
  assert_int_equal(mscrt_to_bf16(1.0f + 0x1p-8f), 0x3f80);
}

static void orders_are_permutations(void **state) {
  (void)state;
  static uint8_t seen[1000];
  for (uint64_t num = 1; num <= 1000; num += num < 20 ? 1 : 97) {
    mscrt_order o = mscrt_order_of(5, num, num);
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < num; i++) seen[mscrt_order_at(&o, i)]++;
    for (uint64_t i = 0; i < num; i++) assert_int_equal(seen[i], 1);
  }
  mscrt_order a = mscrt_order_of(1, 0, 1000), b = mscrt_order_of(1, 1, 1000);
  int same = 0;
  for (uint64_t i = 0; i < 1000; i++) same += mscrt_order_at(&a, i) == mscrt_order_at(&b, i);
  assert_true(same < 10);
}

/* The known answers of Salmon et al.'s Random123. */
static void philox_known_answers(void **state) {
  (void)state;
  uint32_t out[4];
  mscrt_philox((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0}, out);
  assert_memory_equal(out, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
  mscrt_philox((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, (uint32_t[]){0xa4093822, 0x299f31d0}, out);
  assert_memory_equal(out, ((uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}), 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(idx_reaches_its_place), cmocka_unit_test(batch_may_be_any_dimension),
        cmocka_unit_test(tensors_without_a_batch), cmocka_unit_test(npy_and_safetensors_convert),
    cmocka_unit_test(tokens_are_windows), cmocka_unit_test(bad_files_are_refused),
    cmocka_unit_test(gzip_is_inflated_as_far_as_its_header_says), cmocka_unit_test(cut_while_in_use),
        cmocka_unit_test(kept_in_memory),
    cmocka_unit_test(halves_round_to_even), cmocka_unit_test(orders_are_permutations),
        cmocka_unit_test(philox_known_answers),
  };
  return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
