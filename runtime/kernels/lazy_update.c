/* lazy_update.c: updates of the rows of a table that were looked up (MSC_BUILTIN_LAZY of ir/abi/builtin.h).  Rows of
 * the gradient in, in the order of their numbers; the new table and its new state out, mostly in place. */
/* With O3 GCC's code is half as large again, and sums rows that stand several times 2.8 times as slowly. */
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "no-math-errno", "fp-contract=off")
#include <math.h>
#include <string.h>

#include "runtime/kernels/builtin.h"

/* GCC keeps loops with roots scalar unless it knows that these write no errno, which the pragma does not tell it. */
float sqrtf(float x) __attribute__((const));
double sqrt(double x) __attribute__((const));

enum {
  AHEAD = 24, /* places between the row that is worked on and the one that is fetched */
  STRIP = 256 /* columns of a row that are summed at a time */
};

/* A call, with a field for each of its buffers and numbers. */
typedef struct {
  char *w, *m, *v;                   /* new values */
  const char *old_w, *old_m, *old_v; /* old values, perhaps in the same place as the new ones */
  const char *g, *indices;
  const int32_t *order;
  int64_t kind, n, inner, start, num, rows;
  bool wide, nesterov;
  double lr, step, decay, mu, damp, beta1, beta2, eps; /* step: lr, corrected for the bias of both moments */
} lazy_call;

static int num_states(int64_t kind) { return kind == MSC_LAZY_ADAM ? 2 : kind == MSC_LAZY_SGD ? 0 : 1; }

/* Unpacks the buffers, dims and scalars of a call. False: the step is skipped and values stay as they were. */
static bool read_lazy_call(void *const *b, const int64_t *d, const double *scalars, lazy_call *c) {
  int at = 1 + num_states(d[MSC_LAZY_KIND]) + 3 + (d[MSC_LAZY_KIND] == MSC_LAZY_ADAM); /* of ok, and of rate behind */
  bool ok = d[MSC_LAZY_GIVEN] & MSC_LAZY_OK ? *(const uint8_t *)b[at++] : true;
  const double *rate = d[MSC_LAZY_GIVEN] & MSC_LAZY_RATE ? b[at] : NULL;
  double s[MSC_LAZY_SCALARS];
  for (int i = 0; i < MSC_LAZY_SCALARS; i++) {
    int place = msc_lazy_place(d[MSC_LAZY_HYPERS], i);
    s[i] = rate && place >= 0 ? rate[place] : scalars[i];
  }
  if (rate && !d[MSC_LAZY_HYPERS]) s[MSC_LAZY_LR] = *rate;
  *c = (lazy_call){.kind = d[MSC_LAZY_KIND],
                   .n = d[MSC_LAZY_N],
                   .inner = d[MSC_LAZY_INNER],
                   .start = d[MSC_LAZY_START],
                   .num = d[MSC_LAZY_NUM],
                   .rows = d[MSC_LAZY_ROWS],
                   .wide = d[MSC_LAZY_INDEX_DTYPE] == MSCRT_I64,
                   .nesterov = d[MSC_LAZY_GIVEN] & MSC_LAZY_NESTEROV,
                   .lr = s[MSC_LAZY_LR],
                   .decay = s[MSC_LAZY_DECAY],
                   .mu = s[MSC_LAZY_MOMENTUM_RATE],
                   .damp = 1 - s[MSC_LAZY_DAMPENING],
                   .beta1 = s[MSC_LAZY_BETA1],
                   .beta2 = s[MSC_LAZY_BETA2],
                   .eps = s[MSC_LAZY_EPS]};
  bool has_m = c->kind == MSC_LAZY_MOMENTUM || c->kind == MSC_LAZY_ADAM,
       has_v = c->kind == MSC_LAZY_ADAGRAD || c->kind == MSC_LAZY_ADAM;
  at = 0;
  c->old_w = b[at++];
  if (has_m) c->old_m = b[at++];
  if (has_v) c->old_v = b[at++];
  c->indices = b[at++], c->order = b[at++], c->g = b[at++];
  const float *t = c->kind == MSC_LAZY_ADAM ? b[at++] : NULL;
  at += (d[MSC_LAZY_GIVEN] & MSC_LAZY_OK ? 1 : 0) + (rate ? 1 : 0);
  c->w = b[at++];
  if (has_m) c->m = b[at++];
  if (has_v) c->v = b[at++];
  c->step = c->lr;
  bool is_pair = d[MSC_LAZY_GIVEN] & MSC_LAZY_PAIR;
  if (t) c->step *= sqrt(is_pair ? t[1] : 1 - pow(c->beta2, *t)) / (is_pair ? t[0] : 1 - pow(c->beta1, *t));
  return ok;
}

static inline int64_t number_at(const lazy_call *c, int64_t i) {
  return c->wide ? ((const int64_t *)c->indices)[i] : ((const int32_t *)c->indices)[i];
}

/* Returns the row of g at place i; 0 instead of a row out of bounds, which only a broken plan has. */
static inline int64_t gradient_at(const lazy_call *c, int64_t i) {
  uint32_t at = (uint32_t)c->order[i];
  return at < (uint64_t)c->rows ? at : 0;
}

/* ---- one row ---- */

#define INLINE static inline __attribute__((always_inline))
/* Steps n elements of w along g. */
#define STEPS(T, SQRT)                                                                                                 \
  INLINE void step_##T(const lazy_call *c, int64_t n, T *restrict w, T *restrict m, T *restrict v,                     \
                       const T *restrict g) {                                                                          \
    const T lr = (T)c->lr, step = (T)c->step, decay = (T)c->decay, mu = (T)c->mu, damp = (T)c->damp, b1 = (T)c->beta1, \
            b2 = (T)c->beta2, l1 = (T)(1 - c->beta1), l2 = (T)(1 - c->beta2), eps = (T)c->eps;                         \
    if (c->kind == MSC_LAZY_SGD) {                                                                                     \
      for (int64_t i = 0; i < n; i++) w[i] -= lr * (g[i] + decay * w[i]);                                              \
    } else if (c->kind == MSC_LAZY_MOMENTUM && c->nesterov) {                                                          \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = g[i] + decay * w[i];                                                                                     \
        m[i] = mu * m[i] + damp * x, w[i] -= lr * (x + mu * m[i]);                                                     \
      }                                                                                                                \
    } else if (c->kind == MSC_LAZY_MOMENTUM) {                                                                         \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = g[i] + decay * w[i];                                                                                     \
        m[i] = mu * m[i] + damp * x, w[i] -= lr * m[i];                                                                \
      }                                                                                                                \
    } else if (c->kind == MSC_LAZY_ADAGRAD) {                                                                          \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = g[i] + decay * w[i];                                                                                     \
        v[i] += x * x, w[i] -= lr * x / (SQRT(v[i]) + eps);                                                            \
      }                                                                                                                \
    } else {                                                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = g[i] + decay * w[i];                                                                                     \
        m[i] = b1 * m[i] + l1 * x, v[i] = b2 * v[i] + l2 * x * x, w[i] -= step * m[i] / (SQRT(v[i]) + eps);            \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Steps the row `row` of the part along the sum of the gradients at places [from, to). */                           \
  INLINE void update_row_##T(const lazy_call *c, int64_t row, int64_t from, int64_t to) {                              \
    T sum[STRIP];                                                                                                      \
    int64_t inner = c->inner;                                                                                          \
    for (int64_t at = 0; at < inner; at += STRIP) {                                                                    \
      int64_t n = inner - at < STRIP ? inner - at : STRIP, own = row * inner + at;                                     \
      const T *g = (const T *)c->g + gradient_at(c, from) * inner + at;                                                \
      if (to > from + 1) {                                                                                             \
        const T *second = (const T *)c->g + gradient_at(c, from + 1) * inner + at;                                     \
        for (int64_t i = 0; i < n; i++) sum[i] = g[i] + second[i];                                                     \
        for (int64_t k = from + 2; k < to; k++) {                                                                      \
          const T *more = (const T *)c->g + gradient_at(c, k) * inner + at;                                            \
          for (int64_t i = 0; i < n; i++) sum[i] += more[i];                                                           \
        }                                                                                                              \
        g = sum;                                                                                                       \
      }                                                                                                                \
      step_##T(c, n, (T *)c->w + own, c->m ? (T *)c->m + own : NULL, c->v ? (T *)c->v + own : NULL, g);                \
    }                                                                                                                  \
  }
STEPS(float, sqrtf)
STEPS(double, sqrt)

/* To the second level: the first has no room for so many lines under way. */
INLINE void fetch(const char *p, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + at, 0, 2);
}

/* Prefetches the rows that place i will need. */
INLINE void fetch_row(const lazy_call *c, int64_t i, int64_t row_bytes) {
  int64_t row = number_at(c, i) - c->start, bytes = row_bytes < 1024 ? row_bytes : 1024;
  fetch(c->g + gradient_at(c, i) * row_bytes, bytes);
  if (row < 0 || row >= c->n) return;
  fetch(c->w + row * row_bytes, bytes);
  if (c->m) fetch(c->m + row * row_bytes, bytes);
  if (c->v) fetch(c->v + row * row_bytes, bytes);
}

/* ---- all rows ---- */

/* The first place from `at` on where a row's number stands for the first time. */
static int64_t first_place(const lazy_call *c, int64_t at) {
  while (at && at < c->num && number_at(c, at) == number_at(c, at - 1)) at++;
  return at;
}

/* The first row that belongs to place `at` of the sorted numbers. Rows between two numbers belong to the place before:
 * they were not looked up. */
static int64_t row_of_place(const lazy_call *c, int64_t at) {
  int64_t row = !at ? 0 : at == c->num ? c->n : number_at(c, at) - c->start;
  return row < 0 ? 0 : row < c->n ? row : c->n;
}

static void copy_part(char *to, const char *from, int64_t begin, int64_t end, int64_t row_bytes) {
  if (to == from || begin >= end) return;
  memcpy(to + begin * row_bytes, from + begin * row_bytes, (size_t)((end - begin) * row_bytes));
}

/* Where new values lie elsewhere than old ones: copies the rows that belong to places [begin, end). */
static void copy_rows(const lazy_call *c, int64_t begin, int64_t end, int64_t row_bytes) {
  int64_t from = row_of_place(c, begin), to = row_of_place(c, end);
  copy_part(c->w, c->old_w, from, to, row_bytes);
  if (c->m) copy_part(c->m, c->old_m, from, to, row_bytes);
  if (c->v) copy_part(c->v, c->old_v, from, to, row_bytes);
}

typedef void update_rows(const lazy_call *c, int64_t begin, int64_t end);

/* Updates the rows whose numbers stand at places [begin, end); both are the first place of a number. */
#define UPDATE_ROWS(T, NAME, ATTRIBUTE)                                                     \
  ATTRIBUTE static void NAME(const lazy_call *c, int64_t begin, int64_t end) {              \
    for (int64_t from = begin, to; from < end; from = to) {                                 \
      int64_t number = number_at(c, from), row = number - c->start;                         \
      for (to = from + 1; to < c->num && number_at(c, to) == number;) to++;                 \
      if (from + AHEAD < c->num) fetch_row(c, from + AHEAD, c->inner * (int64_t)sizeof(T)); \
      if (row >= 0 && row < c->n) update_row_##T(c, row, from, to);                         \
    }                                                                                       \
  }
UPDATE_ROWS(float, update_floats, )
UPDATE_ROWS(double, update_doubles, )
#ifdef __x86_64__
UPDATE_ROWS(float, update_floats_avx2, __attribute__((target("avx2"))))
UPDATE_ROWS(double, update_doubles_avx2, __attribute__((target("avx2"))))
#endif

static update_rows *find_update_rows(bool is_double) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return is_double ? update_doubles_avx2 : update_floats_avx2;
#endif
  return is_double ? update_doubles : update_floats;
}

void mscrt_run_lazy(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  lazy_call c;
  bool ok = read_lazy_call(buffers, dims, scalars, &c), is_double = dims[MSC_LAZY_DTYPE] == MSCRT_F64;
  begin = first_place(&c, begin), end = first_place(&c, end);
  copy_rows(&c, begin, end, c.inner * (is_double ? 8 : 4));
  if (ok) find_update_rows(is_double)(&c, begin, end);
}

void mscrt_find_lazy_rows(void *const *buffers, const int64_t *d, mscrt_lazy_rows *out_rows) {
  uint32_t numbers = 1 + (uint32_t)num_states(d[MSC_LAZY_KIND]), table = numbers + 3;
  int64_t given = d[MSC_LAZY_GIVEN];
  table += (d[MSC_LAZY_KIND] == MSC_LAZY_ADAM) + !!(given & MSC_LAZY_OK) + !!(given & MSC_LAZY_RATE);
  *out_rows = (mscrt_lazy_rows){.table = table,
                                .num = d[MSC_LAZY_NUM],
                                .row_bytes = (uint64_t)d[MSC_LAZY_INNER] * (d[MSC_LAZY_DTYPE] == MSCRT_F64 ? 8 : 4),
                                .start = d[MSC_LAZY_START],
                                .rows = d[MSC_LAZY_N],
                                .wide = d[MSC_LAZY_INDEX_DTYPE] == MSCRT_I64,
                                .numbers = buffers[numbers]};
}

int64_t mscrt_lazy_row(const mscrt_lazy_rows *l, int64_t i) {
  int64_t row = (l->wide ? ((const int64_t *)l->numbers)[i] : ((const int32_t *)l->numbers)[i]) - l->start;
  return row < 0 || row >= l->rows ? -1 : row;
}

static bool suffices(uint64_t bytes, int64_t rows, int64_t inner, int64_t each) {
  int64_t need;
  return !__builtin_mul_overflow(rows, inner, &need) && !__builtin_mul_overflow(need, each, &need) &&
         (uint64_t)need <= bytes;
}

bool mscrt_lazy_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  int64_t dtype = d[MSC_LAZY_DTYPE], index = d[MSC_LAZY_INDEX_DTYPE], kind = d[MSC_LAZY_KIND], n = d[MSC_LAZY_N],
          inner = d[MSC_LAZY_INNER], places = d[MSC_LAZY_NUM], rows = d[MSC_LAZY_ROWS], given = d[MSC_LAZY_GIVEN];
  if ((dtype != MSCRT_F32 && dtype != MSCRT_F64) || (index != MSCRT_I32 && index != MSCRT_I64) || kind < 0 ||
      kind >= MSC_NUM_LAZY || n < 0 || inner < 0 || rows < 0 || places < 0 || (places && !rows) || places > INT32_MAX ||
      items != places || given < 0)
    return false;
  uint32_t states = (uint32_t)num_states(kind), at = 1 + states, adam = kind == MSC_LAZY_ADAM,
           ok = given & MSC_LAZY_OK ? 1 : 0, rate = given & MSC_LAZY_RATE ? 1 : 0;
  int64_t each = dtype == MSCRT_F64 ? 8 : 4;
  if (num != at + 3 + adam + ok + rate + 1 + states || num > MSC_MOST_BUILTIN_BUFFERS) return false;
  bool fits = suffices(bytes[at], places, 1, index == MSCRT_I64 ? 8 : 4) && suffices(bytes[at + 1], places, 1, 4) &&
              suffices(bytes[at + 2], rows, inner, each);
  for (uint32_t i = 0; i < at; i++) fits = fits && suffices(bytes[i], n, inner, each);
  for (uint32_t i = num - 1 - states; fits && i < num; i++) fits = suffices(bytes[i], n, inner, each);
  at += 3;
  if (adam) fits = fits && bytes[at++] >= (given & MSC_LAZY_PAIR ? 8 : 4);
  if (ok) fits = fits && bytes[at++] >= 1;
  int64_t numbers = 1;
  for (int i = 0; i < MSC_LAZY_SCALARS; i++) {
    int place = msc_lazy_place(d[MSC_LAZY_HYPERS], i);
    if (place >= numbers) numbers = place + 1;
  }
  if (rate) fits = fits && suffices(bytes[at++], numbers, 1, 8);
  return fits;
}
