/* init.c: initial values of parameters. Element i of parameter `name` depends only on (seed, name, i), so values are
 * the same for every layout, number of ranks and number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/data/data.h"
#include "runtime/data/draw.h"
#include "runtime/plan/plan.h"

/* SEED: the seed of the run, in a state of i64 */
typedef enum { ZEROS, ONES, SEED, CONSTANT, NORMAL, UNIFORM } init_kind;

static bool parse_decimal(const char *text, double *out) {
  if (!*text || strlen(text) > 40 || text[strspn(text, "0123456789+-.eE")]) return false;
  char *end;
  return mscrt_read_decimal(text, &end, out) && !*end && isfinite(*out);
}

static bool parse_init(const char *text, init_kind *out_kind, double *out_value) {
  static const struct { const char *name; init_kind kind; } kinds[] = {
    {"zeros", ZEROS}, {"ones", ONES}, {"seed", SEED}, {"constant:", CONSTANT}, {"normal:", NORMAL}, {"uniform:",
     UNIFORM},
  };
  *out_value = 0;
  if (!text) {
    *out_kind = ZEROS;
    return true;
  }
  for (int i = 0; i < 6; i++) {
    size_t n = strlen(kinds[i].name);
    if (strncmp(text, kinds[i].name, n)) continue;
    *out_kind = kinds[i].kind;
    if (kinds[i].kind <= SEED) return !text[n];
    return parse_decimal(text + n, out_value) && (kinds[i].kind == CONSTANT || *out_value >= 0);
  }
  return false;
}

bool mscrt_init_ok(const char *init, mscrt_dtype dtype) {
  init_kind kind;
  double value;
  if (!parse_init(init, &kind, &value)) return false;
  if (kind == SEED) return dtype == MSCRT_I64;
  return mscrt_is_float(dtype) || kind <= ONES ||
         (kind == CONSTANT && value == rint(value) && value >= 0 && value <= (dtype == MSCRT_I1 ? 1 : 127));
}

typedef struct {
  init_kind kind;
  double value;
  uint32_t key[2];
  mscrt_dtype dtype;
  size_t bytes;
  char *out;
} filling;

static void write_elements(const filling *f, int64_t at, int64_t num, const double *v) {
  char *out = f->out + (size_t)at * f->bytes;
  if (mscrt_is_float(f->dtype)) {
    mscrt_convert(f->dtype, out, 1, MSCRT_F64, v, false, false, num);
    return;
  }
  for (int64_t i = 0; i < num; i++) {
    int64_t whole = (int64_t)v[i];
    mscrt_convert(f->dtype, out + (size_t)i * f->bytes, 1, MSCRT_I64, &whole, false, false, 1);
  }
}

static void fill_run(void *user, int64_t to, int64_t element, int64_t num) {
  enum { ROOM = 4 * MSCRT_DRAWN_BLOCKS };
  const filling *f = user;
  double v[ROOM];
  for (int i = 0; i < ROOM; i++) v[i] = f->kind == ONES ? 1 : f->value;
  for (int64_t at = 0, n; at < num; at += n) {
    int64_t skipped = (element + at) % 4, block = (element + at) / 4;
    n = mscrt_smaller(ROOM - skipped, num - at);
    if (f->kind >= NORMAL) mscrt_draw_blocks(f->kind == NORMAL, f->value, f->key, (uint64_t)block, v, false);
    write_elements(f, to + at, n, v + skipped);
  }
}

void mscrt_init_box(const mscrt_variable *v, uint64_t seed, const msc_box *box, const msc_box *out_box, void *out) {
  filling f = {.dtype = v->dtype, .bytes = mscrt_dtype_bytes(v->dtype), .out = out};
  int64_t room = msc_box_elems(v->rank, out_box);
  bool is_zero = !parse_init(v->init, &f.kind, &f.value) || f.kind == ZEROS;
  if (is_zero || msc_box_elems(v->rank, box) < room) memset(out, 0, (size_t)room * f.bytes);
  if (is_zero) return;
  if (f.kind == SEED) {
    for (int64_t i = 0; i < room; i++) memcpy((char *)out + 8 * i, &seed, 8);
    return;
  }
  uint64_t key = XXH3_64bits_withSeed(v->name, strlen(v->name), seed);
  f.key[0] = (uint32_t)key;
  f.key[1] = (uint32_t)(key >> 32);
  msc_box whole = {0};
  memcpy(whole.size, v->shape, sizeof whole.size);
  msc_box_runs(v->rank, box, out_box, &whole, fill_run, &f);
}
