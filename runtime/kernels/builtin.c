/* builtin.c: built-in kernels that work along a dimension in order: scan, sort, unique, update (see
 * ir/abi/builtin.h). */
#include <string.h>

#include "runtime/kernels/builtin.h"

/* ---- scan: y[i] = x[0] + .. + x[i], or the product; in double or 64 bits, rounded once ---- */

/* The elements of a row in the order in which they are scanned: first, first + step, ... */
typedef struct {
  int64_t n, first, step;
  bool exclusive;
} row;

static row scan_row_of(int64_t item, const int64_t *d) {
  int64_t n = d[MSC_SCAN_N], inner = d[MSC_SCAN_INNER], first = item / inner * n * inner + item % inner;
  bool reverse = d[MSC_SCAN_REVERSE];
  return (row){n, reverse ? first + (n - 1) * inner : first, reverse ? -inner : inner, d[MSC_SCAN_EXCLUSIVE]};
}

/* Scans along rows. The gradient of a running product is dx[i] = P[i] S[i], with P[i] the product of all elements
 * before i and S[i] = dy[i] + x[i+1] S[i+1]; zeros need no special care. */
#define SCANS(NAME, T, A, LOAD, STORE)                                         \
  static void sum_##NAME(const T *x, T *y, const row *r) {                     \
    A all = 0;                                                                 \
    for (int64_t i = 0, at = r->first; i < r->n; i++, at += r->step) {         \
      A with = all + LOAD(x[at]);                                              \
      y[at] = (T)STORE(r->exclusive ? all : with);                             \
      all = with;                                                              \
    }                                                                          \
  }                                                                            \
  static void prod_##NAME(const T *x, T *y, const row *r) {                    \
    A all = 1;                                                                 \
    for (int64_t i = 0, at = r->first; i < r->n; i++, at += r->step) {         \
      A with = all * LOAD(x[at]);                                              \
      y[at] = (T)STORE(r->exclusive ? all : with);                             \
      all = with;                                                              \
    }                                                                          \
  }                                                                            \
  static void prod_grad_##NAME(const T *x, const T *dy, T *dx, const row *r) { \
    A all = 1, slope = 0;                                                      \
    int64_t last = r->first + (r->n - 1) * r->step;                            \
    for (int64_t i = 0, at = r->first; i < r->n; i++, at += r->step) {         \
      dx[at] = (T)STORE(all);                                                  \
      all *= LOAD(x[at]);                                                      \
    }                                                                          \
    for (int64_t i = 0, at = last; i < r->n; i++, at -= r->step) {             \
      if (!r->exclusive) slope += LOAD(dy[at]);                                \
      dx[at] = (T)STORE(LOAD(dx[at]) * slope);                                 \
      if (r->exclusive) slope = LOAD(dy[at]) + LOAD(x[at]) * slope;            \
      else slope *= LOAD(x[at]);                                               \
    }                                                                          \
  }
#define AS_IT_IS(v)  (v)
#define FROM_F16(v)  ((double)mscrt_from_f16(v))
#define FROM_BF16(v) ((double)mscrt_from_bf16(v))
#define TO_F16(v)    mscrt_to_f16((float)(v))
#define TO_BF16(v)   mscrt_to_bf16((float)(v))
#define AS_U64(v)    ((uint64_t)(int64_t)(v))
SCANS(F32, float, double, AS_IT_IS, AS_IT_IS)
SCANS(F64, double, double, AS_IT_IS, AS_IT_IS)
SCANS(F16, uint16_t, double, FROM_F16, TO_F16)
SCANS(BF16, uint16_t, double, FROM_BF16, TO_BF16)
SCANS(8, uint8_t, uint64_t, AS_U64, AS_IT_IS) /* wrapping arithmetic is the same for signed and unsigned */
SCANS(16, uint16_t, uint64_t, AS_U64, AS_IT_IS)
SCANS(32, uint32_t, uint64_t, AS_U64, AS_IT_IS)
SCANS(64, uint64_t, uint64_t, AS_U64, AS_IT_IS)

#define SCAN_ROW(NAME)                                           \
  {                                                              \
    if (kind == MSC_SCAN_SUM) sum_##NAME(b[0], b[1], &r);        \
    else if (kind == MSC_SCAN_PROD) prod_##NAME(b[0], b[1], &r); \
    else prod_grad_##NAME(b[0], b[1], b[2], &r);                 \
    break;                                                       \
  }
static void run_scan(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  int64_t kind = d[MSC_SCAN_KIND];
  (void)scalars;
  for (int64_t item = begin; item < end; item++) {
    row r = scan_row_of(item, d);
    switch (d[MSC_SCAN_DTYPE]) {
      case MSCRT_F32: SCAN_ROW(F32)
      case MSCRT_F64: SCAN_ROW(F64)
      case MSCRT_F16: SCAN_ROW(F16)
      case MSCRT_BF16: SCAN_ROW(BF16)
      case MSCRT_I1:
      case MSCRT_I8:
      case MSCRT_U8: SCAN_ROW(8)
      case MSCRT_I16:
      case MSCRT_U16: SCAN_ROW(16)
      case MSCRT_I32:
      case MSCRT_U32: SCAN_ROW(32)
      default: SCAN_ROW(64)
    }
  }
}

/* ---- sort: numbers of elements are moved in the index buffer; a heap needs no other memory ---- */

typedef struct {
  const char *x; /* element i starts at x + i * step */
  char *index;   /* likewise */
  int64_t step, index_step;
  mscrt_dtype dtype;
  bool wide;     /* indices are i64 */
  uint64_t flip; /* all ones: descending */
} sorting;

/* The bits of a float as an unsigned number in the order of values: -0 equals 0, NaN is the largest. */
static uint64_t order_float_bits(uint64_t bits, int width, uint64_t infinity) {
  uint64_t sign = UINT64_C(1) << (width - 1), magnitude = bits & (sign - 1);
  if (magnitude > infinity) return UINT64_MAX;
  if (!magnitude) return sign;
  return bits & sign ? sign - magnitude : sign + magnitude;
}

static uint64_t key_at(const sorting *s, int64_t i) {
  const char *p = s->x + i * s->step;
  uint64_t v = 0;
  memcpy(&v, p, mscrt_dtype_bytes(s->dtype)); /* little endian */
  switch (s->dtype) {
    case MSCRT_F32: return order_float_bits(v, 32, 0x7f800000);
    case MSCRT_F64: return order_float_bits(v, 64, 0x7ff0000000000000);
    case MSCRT_F16: return order_float_bits(v, 16, 0x7c00);
    case MSCRT_BF16: return order_float_bits(v, 16, 0x7f80);
    case MSCRT_I8: return v ^ 0x80;
    case MSCRT_I16: return v ^ 0x8000;
    case MSCRT_I32: return v ^ 0x80000000;
    case MSCRT_I64: return v ^ UINT64_C(1) << 63;
    default: return v;
  }
}

static int64_t read_index(const sorting *s, int64_t at) {
  const char *p = s->index + at * s->index_step;
  int32_t narrow;
  int64_t wide;
  if (s->wide) memcpy(&wide, p, 8);
  else memcpy(&narrow, p, 4), wide = narrow;
  return wide;
}

static void write_index(const sorting *s, int64_t at, int64_t v) {
  char *p = s->index + at * s->index_step;
  int32_t narrow = (int32_t)v;
  if (s->wide) memcpy(p, &v, 8);
  else memcpy(p, &narrow, 4);
}

/* True if element a comes before element b. */
static bool is_ordered_before(const sorting *s, int64_t a, int64_t b) {
  uint64_t x = key_at(s, a) ^ s->flip, y = key_at(s, b) ^ s->flip;
  return x < y || (x == y && a < b);
}

/* Puts v at position `at` of a heap and lets it sink; the top is the last in order. */
static void sift_down(const sorting *s, int64_t at, int64_t num, int64_t v) {
  for (int64_t child; (child = 2 * at + 1) < num; at = child) {
    int64_t c = read_index(s, child);
    if (child + 1 < num && is_ordered_before(s, c, read_index(s, child + 1))) c = read_index(s, ++child);
    if (!is_ordered_before(s, v, c)) break;
    write_index(s, at, c);
  }
  write_index(s, at, v);
}

/* Selects the first k of n elements, in order. */
static void select_sorted(const sorting *s, int64_t n, int64_t k) {
  if (!k) return;
  for (int64_t i = 0; i < k; i++) write_index(s, i, i);
  for (int64_t i = k / 2; i-- > 0;) sift_down(s, i, k, read_index(s, i));
  for (int64_t i = k; i < n; i++)
    if (is_ordered_before(s, i, read_index(s, 0))) sift_down(s, 0, k, i);
  for (int64_t i = k; i-- > 1;) {
    int64_t v = read_index(s, i);
    write_index(s, i, read_index(s, 0));
    sift_down(s, 0, i, v);
  }
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, FEW = 256 }; /* fewer elements are sorted by comparing them */

/* Orders n whole numbers x by digits, the least significant first: numbers of elements move between `to` and `from`,
 * which is where the result is returned from.  `sign` is the bit that makes numbers with a sign ones without. */
#define SORTS(NAME, T)                                                                                    \
  static int32_t *sort_##NAME(const T *x, int64_t n, T sign, T flip, int32_t *from, int32_t *to) {        \
    T low = (x[0] ^ sign) ^ flip, high = low;                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                     \
      T key = (x[i] ^ sign) ^ flip;                                                                       \
      low = key < low ? key : low, high = key > high ? key : high;                                        \
      from[i] = (int32_t)i;                                                                               \
    }                                                                                                     \
    for (int shift = 0; shift < (int)(8 * sizeof(T)) && (T)(high - low) >> shift; shift += DIGIT_BITS) {  \
      int32_t begin[DIGITS] = {0}, at = 0;                                                                \
      for (int64_t i = 0; i < n; i++) begin[(T)(((x[i] ^ sign) ^ flip) - low) >> shift & (DIGITS - 1)]++; \
      for (int i = 0; i < DIGITS; i++) at += begin[i], begin[i] = at - begin[i];                          \
      for (int64_t i = 0; i < n; i++) {                                                                   \
        int32_t k = from[i];                                                                              \
        to[begin[(T)(((x[k] ^ sign) ^ flip) - low) >> shift & (DIGITS - 1)]++] = k;                       \
      }                                                                                                   \
      int32_t *other = from;                                                                              \
      from = to, to = other;                                                                              \
    }                                                                                                     \
    return from;                                                                                          \
  }
SORTS(32, uint32_t)
SORTS(64, uint64_t)

/* Sorts all n elements, which lie one behind the other, if they are whole numbers. `room` is the buffer of the values,
 * whose contents are lost.  False: nothing is done. */
static bool sort_by_digits(const sorting *s, int64_t n, char *room) {
  bool wide = s->dtype == MSCRT_I64 || s->dtype == MSCRT_U64, sign = s->dtype == MSCRT_I64 || s->dtype == MSCRT_I32;
  if (n < FEW || n > INT32_MAX || !(wide || s->dtype == MSCRT_I32 || s->dtype == MSCRT_U32)) return false;
  const void *x = s->x;
  int32_t *first = (int32_t *)room, *second = (int32_t *)s->index, *last;
  if (wide) last = sort_64(x, n, sign ? UINT64_C(1) << 63 : 0, s->flip, first, second);
  else last = sort_32(x, n, sign ? UINT32_C(1) << 31 : 0, (uint32_t)s->flip, first, second);
  if (last != second) memcpy(second, last, (size_t)n * sizeof *last);
  for (int64_t i = n; s->wide && i-- > 0;) {
    int32_t k;
    memcpy(&k, s->index + i * (int64_t)sizeof k, sizeof k);
    write_index(s, i, k);
  }
  return true;
}

/* Writes the elements in order, `step` bytes apart. */
static void copy_sorted(const sorting *s, int64_t k, int64_t bytes, int64_t step, char *to) {
  if (bytes == 4)
    for (int64_t i = 0; i < k; i++) memcpy(to + i * step, s->x + read_index(s, i) * s->step, 4);
  else
    for (int64_t i = 0; i < k; i++) memcpy(to + i * step, s->x + read_index(s, i) * s->step, (size_t)bytes);
}

static void run_sort(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  mscrt_dtype dtype = (mscrt_dtype)d[MSC_SORT_DTYPE];
  int64_t n = d[MSC_SORT_N], inner = d[MSC_SORT_INNER], k = d[MSC_SORT_K], bytes = (int64_t)mscrt_dtype_bytes(dtype);
  bool wide = d[MSC_SORT_INDEX_DTYPE] == MSCRT_I64;
  (void)scalars;
  for (int64_t item = begin; item < end; item++) {
    int64_t from = item / inner * n * inner + item % inner, to = item / inner * k * inner + item % inner,
            index_bytes = wide ? 8 : 4;
    sorting s = {.x = (const char *)b[0] + from * bytes,
                 .index = (char *)b[2] + to * index_bytes,
                 .step = inner * bytes,
                 .index_step = inner * index_bytes,
                 .dtype = dtype,
                 .wide = wide,
                 .flip = d[MSC_SORT_DESCENDING] ? UINT64_MAX : 0};
    if (k < n || inner > 1 || !sort_by_digits(&s, n, (char *)b[1] + to * bytes)) select_sorted(&s, n, k);
    copy_sorted(&s, k, bytes, inner * bytes, (char *)b[1] + to * bytes);
  }
}

/* ---- unique ---- */

/* The index of the value with this key among `count` ascending values. */
static int64_t index_of_key(const sorting *values, int64_t count, uint64_t key) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (key_at(values, middle) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void run_unique(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  mscrt_dtype dtype = (mscrt_dtype)d[MSC_UNIQUE_DTYPE];
  int64_t n = d[MSC_UNIQUE_N], bytes = (int64_t)mscrt_dtype_bytes(dtype), count = 0;
  bool wide = d[MSC_UNIQUE_INDEX_DTYPE] == MSCRT_I64;
  sorting s = {.x = b[0], .index = b[2], .step = bytes, .index_step = wide ? 8 : 4, .dtype = dtype, .wide = wide},
          values = s, out = s;
  (void)scalars;
  if (begin == end) return;
  values.x = b[1], out.index = b[3];
  select_sorted(&s, n, n);
  for (int64_t i = 0; i < n; i++) {
    const char *v = s.x + read_index(&s, i) * bytes;
    if (!i || key_at(&s, read_index(&s, i)) != key_at(&values, count - 1))
      memcpy((char *)b[1] + count++ * bytes, v, (size_t)bytes);
  }
  for (int64_t i = count; i < n; i++)
    memcpy((char *)b[1] + i * bytes, (char *)b[1] + (count - 1) * bytes, (size_t)bytes);
  for (int64_t i = 0; i < n; i++) write_index(&s, i, index_of_key(&values, count, key_at(&s, i)));
  write_index(&out, 0, count);
}

/* ---- update ---- */

static void run_update(void *const *b, int64_t begin, int64_t end, const int64_t *d, const double *scalars) {
  int64_t n = d[MSC_UPDATE_N], num = d[MSC_UPDATE_NUM], start = d[MSC_UPDATE_START];
  size_t row_bytes = (size_t)d[MSC_UPDATE_INNER] * mscrt_dtype_bytes((mscrt_dtype)d[MSC_UPDATE_DTYPE]);
  sorting indices = {.index = b[1],
                     .index_step = d[MSC_UPDATE_INDEX_DTYPE] == MSCRT_I64 ? 8 : 4,
                     .wide = d[MSC_UPDATE_INDEX_DTYPE] == MSCRT_I64};
  (void)scalars;
  for (int64_t item = begin; item < end; item++) {
    char *y = (char *)b[3] + (size_t)(item * n) * row_bytes;
    const char *updates = (const char *)b[2] + (size_t)(item * num) * row_bytes;
    if (b[0] != b[3]) memcpy(y, (const char *)b[0] + (size_t)(item * n) * row_bytes, (size_t)n * row_bytes);
    for (int64_t i = 0; i < num; i++) {
      int64_t k = read_index(&indices, i), at = k - start;
      if (k < 0 || k >= d[MSC_UPDATE_WHOLE]) *(int32_t *)b[4] = 1;
      else if (at >= 0 && at < n) memcpy(y + (size_t)at * row_bytes, updates + (size_t)i * row_bytes, row_bytes);
    }
  }
}

/* ---- checking calls ---- */

static mscrt_kernel *const builtins[MSC_NUM_BUILTINS] = {[MSC_BUILTIN_SCAN] = run_scan,
                                                         [MSC_BUILTIN_SORT] = run_sort,
                                                         [MSC_BUILTIN_UNIQUE] = run_unique,
                                                         [MSC_BUILTIN_UPDATE] = run_update,
                                                         [MSC_BUILTIN_POOLING] = mscrt_run_pool,
                                                         [MSC_BUILTIN_LAZY] = mscrt_run_lazy,
                                                         [MSC_BUILTIN_SEGMENTS] = mscrt_run_segments};

mscrt_kernel *mscrt_builtin(uint32_t number) { return builtins[number]; }

/* True if `bytes` hold a * b * c elements. */
static bool bytes_suffice(uint64_t bytes, int64_t dtype, int64_t a, int64_t b, int64_t c) {
  int64_t need;
  if (dtype < 0 || dtype >= MSCRT_NUM_DTYPES || a < 0 || b < 0 || c < 0) return false;
  return !__builtin_mul_overflow(a, b, &need) && !__builtin_mul_overflow(need, c, &need) &&
         !__builtin_mul_overflow(need, (int64_t)mscrt_dtype_bytes((mscrt_dtype)dtype), &need) &&
         (uint64_t)need <= bytes;
}

static bool is_index(int64_t dtype) { return dtype == MSCRT_I32 || dtype == MSCRT_I64; }

static bool scan_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  bool ok = d[MSC_SCAN_KIND] >= 0 && d[MSC_SCAN_KIND] < MSC_NUM_SCANS && d[MSC_SCAN_INNER] > 0 &&
            num == (d[MSC_SCAN_KIND] == MSC_SCAN_PROD_GRAD ? 3u : 2u);
  for (uint32_t i = 0; i < num && ok; i++) ok = bytes_suffice(bytes[i], d[MSC_SCAN_DTYPE], items, d[MSC_SCAN_N], 1);
  return ok;
}

static bool sort_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  int64_t n = d[MSC_SORT_N], k = d[MSC_SORT_K];
  if (num != 3 || !is_index(d[MSC_SORT_INDEX_DTYPE]) || d[MSC_SORT_INNER] <= 0 || k > n) return false;
  return bytes_suffice(bytes[0], d[MSC_SORT_DTYPE], items, n, 1) &&
         bytes_suffice(bytes[1], d[MSC_SORT_DTYPE], items, k, 1) &&
         bytes_suffice(bytes[2], d[MSC_SORT_INDEX_DTYPE], items, k, 1);
}

static bool unique_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  int64_t n = d[MSC_UNIQUE_N], dtype = d[MSC_UNIQUE_DTYPE], index = d[MSC_UNIQUE_INDEX_DTYPE];
  if (num != 4 || !is_index(index) || items > 1) return false;
  return bytes_suffice(bytes[0], dtype, n, 1, 1) && bytes_suffice(bytes[1], dtype, n, 1, 1) &&
         bytes_suffice(bytes[2], index, n, 1, 1) && bytes_suffice(bytes[3], index, 1, 1, 1);
}

static bool update_call_fits(uint32_t num, const uint64_t *bytes, const int64_t *d, int64_t items) {
  int64_t dtype = d[MSC_UPDATE_DTYPE], inner = d[MSC_UPDATE_INNER], n = d[MSC_UPDATE_N], count = d[MSC_UPDATE_NUM];
  if (num != 5 || !is_index(d[MSC_UPDATE_INDEX_DTYPE]) || bytes[4] < 4) return false;
  return bytes_suffice(bytes[0], dtype, items, n, inner) && bytes_suffice(bytes[3], dtype, items, n, inner) &&
         bytes_suffice(bytes[2], dtype, items, count, inner) &&
         bytes_suffice(bytes[1], d[MSC_UPDATE_INDEX_DTYPE], count, 1, 1);
}

bool mscrt_builtin_fits(uint32_t number, uint32_t num_buffers, const uint64_t *bytes, uint32_t num_dims,
                        const int64_t *dims, uint64_t items) {
  static const uint32_t wanted[MSC_NUM_BUILTINS] = {0,
                                                    MSC_SCAN_DIMS,
                                                    MSC_SORT_DIMS,
                                                    MSC_UNIQUE_DIMS,
                                                    MSC_UPDATE_DIMS,
                                                    MSC_POOLING_DIMS,
                                                    MSC_LAZY_DIMS,
                                                    MSC_SEGMENTS_DIMS};
  if (number == MSC_BUILTIN_NONE || number >= MSC_NUM_BUILTINS || num_dims != wanted[number] || items > INT64_MAX)
    return false;
  switch (number) {
    case MSC_BUILTIN_SCAN: return scan_fits(num_buffers, bytes, dims, (int64_t)items);
    case MSC_BUILTIN_SORT: return sort_fits(num_buffers, bytes, dims, (int64_t)items);
    case MSC_BUILTIN_UNIQUE: return unique_fits(num_buffers, bytes, dims, (int64_t)items);
    case MSC_BUILTIN_LAZY: return mscrt_lazy_fits(num_buffers, bytes, dims, (int64_t)items);
    case MSC_BUILTIN_SEGMENTS: return mscrt_segments_fit(num_buffers, bytes, dims, (int64_t)items);
    case MSC_BUILTIN_POOLING: return mscrt_pool_fits(num_buffers, bytes, dims, (int64_t)items);
    default: return update_call_fits(num_buffers, bytes, dims, (int64_t)items);
  }
}
