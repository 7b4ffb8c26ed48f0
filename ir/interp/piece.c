/* piece.c: reads and writes elements of tensors and of the pieces that ranks hold, as scalars, and walks over their
 * indexes. */
#include <math.h>
#include <string.h>

#include "ir/alias.h"
#include "ir/interp/kernel.h"

/* ---- scalars ---- */

/* Computes the range of an integer type; that of i1 is 0 .. 1. */
static void integer_range(msc_dtype d, int64_t *out_min, uint64_t *out_max) {
  int bits = d == MSC_I1 ? 1 : 8 * (int)msc_dtype_bytes(d);
  bool sign = msc_dtype_class_of(d) == MSC_CLASS_INT;
  *out_max = UINT64_MAX >> (64 - bits + sign);
  *out_min = sign ? -(int64_t)*out_max - 1 : 0;
}

/* Converts a float to an element of type d: rounded toward zero, the nearest number when out of range, 0 for NaN. */
msc_scalar msc_scalar_of(msc_dtype d, double v) {
  int64_t min;
  uint64_t max;
  if (msc_is_float(d)) return (msc_scalar){.f = v};
  if (d == MSC_I1) return (msc_scalar){.i = v != 0};
  integer_range(d, &min, &max);
  if (v != v) return (msc_scalar){.i = 0};
  if (v <= (double)min) return (msc_scalar){.i = min};
  if (v >= (double)max) return (msc_scalar){.u = max};
  return msc_is_unsigned(d) ? (msc_scalar){.u = (uint64_t)v} : (msc_scalar){.i = (int64_t)v};
}

msc_scalar msc_identity(msc_reduction r, msc_dtype d) {
  int64_t min;
  uint64_t max;
  if (r == MSC_SUM || r == MSC_PROD) return msc_scalar_of(d, r == MSC_PROD);
  if (msc_is_float(d)) return (msc_scalar){.f = r == MSC_MAX ? -INFINITY : INFINITY};
  integer_range(d, &min, &max);
  return r == MSC_MAX ? (msc_scalar){.i = min} : (msc_scalar){.u = max};
}

/* ---- elements ---- */

static double load_float(msc_dtype dtype, const void *p) {
  switch (dtype) {
    case MSC_F32: {
      float v;
      memcpy(&v, p, 4);
      return v;
    }
    case MSC_F16: {
      _Float16 v;
      memcpy(&v, p, 2);
      return (double)v;
    }
    case MSC_BF16: {
      uint16_t half;
      memcpy(&half, p, 2);
      uint32_t bits = (uint32_t)half << 16;
      float v;
      memcpy(&v, &bits, 4);
      return v;
    }
    default: {
      double v;
      memcpy(&v, p, 8);
      return v;
    }
  }
}

static void store_float(msc_dtype dtype, void *p, double v) {
  switch (dtype) {
    case MSC_F32: {
      float f = (float)v;
      memcpy(p, &f, 4);
      break;
    }
    case MSC_F16: {
      _Float16 h = (_Float16)v;
      memcpy(p, &h, 2);
      break;
    }
    case MSC_BF16: { /* to f32, then to the nearest, ties to even */
      float f = (float)v;
      uint32_t bits;
      memcpy(&bits, &f, 4);
      uint16_t half = v != v ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      memcpy(p, &half, 2);
      break;
    }
    default: memcpy(p, &v, 8);
  }
}

msc_scalar msc_load(msc_dtype dtype, const void *data, int64_t offset) {
  int64_t bytes = msc_dtype_bytes(dtype);
  const char *p = (const char *)data + offset * bytes;
  if (msc_is_float(dtype)) return (msc_scalar){.f = load_float(dtype, p)};
  uint64_t v = 0;
  memcpy(&v, p, (size_t)bytes);
  int unused = 64 - 8 * (int)bytes;
  return msc_dtype_class_of(dtype) == MSC_CLASS_UINT ? (msc_scalar){.u = v}
                                                     : (msc_scalar){.i = (int64_t)(v << unused) >> unused};
}

void msc_store(msc_dtype dtype, void *data, int64_t offset, msc_scalar v) {
  int64_t bytes = msc_dtype_bytes(dtype);
  char *p = (char *)data + offset * bytes;
  if (msc_is_float(dtype)) store_float(dtype, p, v.f);
  else memcpy(p, &v.u, (size_t)bytes); /* little endian: the low bytes */
}

/* ---- tensors ---- */

msc_tensor msc_tensor_new(msc_arena *arena, const msc_type *type) {
  return (msc_tensor){type, msc_arena_alloc(arena, (size_t)msc_type_bytes(type))};
}

double msc_tensor_get(const msc_tensor *t, int64_t i) {
  msc_scalar v = msc_load(t->type->dtype, t->data, i);
  if (msc_is_float(t->type->dtype)) return v.f;
  return msc_dtype_class_of(t->type->dtype) == MSC_CLASS_UINT ? (double)v.u : (double)v.i;
}

bool msc_is_splat(const msc_value *v, double c) {
  const msc_attr_value *value = msc_is_constant(v) ? msc_op_attr(v->def, "value") : NULL;
  if (!value || value->dense.bytes != (size_t)msc_dtype_bytes(value->dense.type->dtype)) return false;
  msc_tensor one = {msc_type_of(msc_op_ctx(v->def), value->dense.type->dtype, 0, NULL, NULL),
                    (void *)(uintptr_t)value->dense.data};
  return msc_tensor_get(&one, 0) == c;
}

void msc_tensor_set(msc_tensor *t, int64_t i, double v) {
  msc_store(t->type->dtype, t->data, i, msc_scalar_of(t->type->dtype, v));
}

/* ---- pieces ---- */

msc_piece msc_piece_whole(const msc_type *t, void *data) {
  msc_piece p = {.dtype = t->dtype, .rank = t->rank, .data = data};
  memcpy(p.full, t->dim, sizeof p.full);
  memcpy(p.box.size, t->dim, sizeof p.box.size);
  return p;
}

int64_t msc_piece_elems(const msc_piece *p) { return msc_box_elems(p->rank, &p->box); }

int64_t msc_piece_offset(const msc_piece *p, const int64_t *index) {
  int64_t offset = 0;
  for (int d = 0; d < p->rank; d++) {
    int64_t at = index[d] - p->box.begin[d];
    if (at < 0 || at >= p->box.size[d]) return -1;
    offset = offset * p->box.size[d] + at;
  }
  return offset;
}

bool msc_first_index(const msc_piece *p, int64_t *out_index) {
  for (int d = 0; d < p->rank; d++) out_index[d] = p->box.begin[d];
  return msc_piece_elems(p) > 0;
}

bool msc_next_index(const msc_piece *p, int64_t *index) {
  for (int d = p->rank - 1; d >= 0; d--) {
    if (++index[d] < p->box.begin[d] + p->box.size[d]) return true;
    index[d] = p->box.begin[d];
  }
  return false;
}

/* ---- access from kernels ---- */

void msc_fault(msc_eval *e, const char *fmt, ...) {
  if (e->fault) return;
  char text[200];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  e->fault = msc_arena_printf(e->arena, "%s", text);
}

static void report_not_held(msc_eval *e, const char *which, size_t i, const msc_piece *p, const int64_t *index) {
  char text[MSC_MAX_RANK * 21 + 1] = "";
  for (int d = 0, n = 0; d < p->rank; d++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRId64, d ? "," : "", index[d]);
  msc_fault(e, "%s %zu: the rank does not hold element [%s]", which, i, text);
}

msc_scalar msc_piece_get(msc_eval *e, size_t i, const int64_t *index) {
  const msc_piece *p = &e->in[i];
  int64_t offset = msc_piece_offset(p, index);
  if (offset >= 0) return msc_load(p->dtype, p->data, offset);
  report_not_held(e, "operand", i, p, index);
  return (msc_scalar){.u = 0};
}

msc_scalar msc_piece_get_stretched(msc_eval *e, size_t i, int rank, const int64_t *index) {
  const msc_piece *p = &e->in[i];
  int64_t own[MSC_MAX_RANK];
  for (int d = 0; d < p->rank; d++) own[d] = p->full[d] == 1 ? 0 : index[d + rank - p->rank];
  return msc_piece_get(e, i, own);
}

void msc_piece_put(msc_eval *e, size_t i, const int64_t *index, msc_scalar v) {
  const msc_piece *p = &e->out[i];
  int64_t offset = msc_piece_offset(p, index);
  if (offset >= 0) msc_store(p->dtype, p->data, offset, v);
  else report_not_held(e, "result", i, p, index);
}
