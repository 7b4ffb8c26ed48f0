/* tensor.c: the bytes of a TensorProto in; its element type, shape and elements out.  Elements are in raw_data, in one
 * of the typed lists, or in a file beside the model. */
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/model.h"

static const struct {
  const char *name;
  int dtype; /* msc_dtype, -1: none */
  uint32_t list;
  proto_wire wire;
} kinds[] = {
    [0] = {"undefined", -1, 0, 0},
    [1] = {"float", MSC_F32, 4, PROTO_FIXED32},
    [2] = {"uint8", MSC_U8, 5, PROTO_VARINT},
    [3] = {"int8", MSC_I8, 5, PROTO_VARINT},
    [4] = {"uint16", MSC_U16, 5, PROTO_VARINT},
    [5] = {"int16", MSC_I16, 5, PROTO_VARINT},
    [6] = {"int32", MSC_I32, 5, PROTO_VARINT},
    [7] = {"int64", MSC_I64, 7, PROTO_VARINT},
    [8] = {"string", -1, 0, 0},
    [9] = {"bool", MSC_I1, 5, PROTO_VARINT},
    [10] = {"float16", MSC_F16, 5, PROTO_VARINT},
    [11] = {"double", MSC_F64, 10, PROTO_FIXED64},
    [12] = {"uint32", MSC_U32, 11, PROTO_VARINT},
    [13] = {"uint64", MSC_U64, 11, PROTO_VARINT},
    [14] = {"complex64", -1, 0, 0},
    [15] = {"complex128", -1, 0, 0},
    [16] = {"bfloat16", MSC_BF16, 5, PROTO_VARINT},
    [17] = {"float8e4m3fn", -1, 0, 0},
    [18] = {"float8e4m3fnuz", -1, 0, 0},
    [19] = {"float8e5m2", -1, 0, 0},
    [20] = {"float8e5m2fnuz", -1, 0, 0},
    [21] = {"uint4", -1, 0, 0},
    [22] = {"int4", -1, 0, 0},
    [23] = {"float4e2m1", -1, 0, 0},
};

enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

bool onnx_dtype(int data_type, msc_dtype *out_dtype) {
  if (data_type < 0 || data_type >= NUM_KINDS || kinds[data_type].dtype < 0) return false;
  *out_dtype = (msc_dtype)kinds[data_type].dtype;
  return true;
}

const char *onnx_dtype_name(int data_type) {
  return data_type >= 0 && data_type < NUM_KINDS ? kinds[data_type].name : "unknown";
}

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  const msc_model_bytes *file;
  int data_type, rank;
  int64_t dim[MSC_MAX_RANK];
  proto_bytes raw;
  bool has_raw, is_external, too_deep;
  const char *location;
  uint64_t offset, length;
  bool has_length, bad_number;
} tensor_fields;

static const char *text_of_bytes(tensor_fields *r, proto_bytes b) {
  if (memchr(b.at ? (const void *)b.at : "", 0, proto_size(b))) return "";
  return msc_intern_n(r->ctx, proto_size(b) ? (const char *)b.at : "", proto_size(b));
}

static uint64_t read_natural(tensor_fields *r, const char *text) {
  char *end;
  unsigned long long v = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || v > INT64_MAX) r->bad_number = true;
  return v;
}

/* Reads one StringStringEntryProto of external_data; keys that give no place, such as a checksum, are skipped. */
static void read_external(tensor_fields *r, proto_bytes b, bool *ok) {
  const char *key = "", *value = "";
  for (proto_field f; proto_next(&b, &f, ok);)
    if (f.wire != PROTO_BYTES) *ok = false;
    else if (f.number == 1) key = text_of_bytes(r, f.bytes);
    else if (f.number == 2) value = text_of_bytes(r, f.bytes);
  if (!strcmp(key, "location")) r->location = value;
  else if (!strcmp(key, "offset")) r->offset = read_natural(r, value);
  else if (!strcmp(key, "length")) r->length = read_natural(r, value), r->has_length = true;
}

static bool read_fields(tensor_fields *r, proto_bytes b) {
  bool ok = true;
  for (proto_field f; proto_next(&b, &f, &ok);) {
    uint64_t v;
    if (f.number == 1)
      while (proto_number(&f, PROTO_VARINT, &v, &ok)) {
        if (r->rank == MSC_MAX_RANK) r->too_deep = true;
        else r->dim[r->rank++] = (int64_t)v;
      }
    else if (f.number == 2) r->data_type = f.scalar < NUM_KINDS ? (int)f.scalar : -1;
    else if (f.number == 9 && f.wire == PROTO_BYTES) r->raw = f.bytes, r->has_raw = true;
    else if (f.number == 13 && f.wire == PROTO_BYTES) read_external(r, f.bytes, &ok);
    else if (f.number == 14) r->is_external = f.scalar == 1;
  }
  return ok;
}

/* Reads the `elems` elements of the typed list; returns the fault, NULL: none. */
static const char *read_list(tensor_fields *r, proto_bytes b, msc_dtype dtype, int64_t elems, onnx_tensor *out) {
  int64_t size = msc_dtype_bytes(dtype), n = 0;
  if ((uint64_t)elems > proto_size(b)) return "has fewer elements than its shape says";
  uint8_t *data = msc_arena_alloc(r->arena, (size_t)(elems * size) + 1);
  bool ok = true;
  for (proto_field f; proto_next(&b, &f, &ok);) {
    if (f.number != kinds[r->data_type].list) continue;
    for (uint64_t v; proto_number(&f, kinds[r->data_type].wire, &v, &ok); n++)
      if (n < elems) memcpy(data + n * size, &v, (size_t)size);
  }
  if (!ok) return "is damaged";
  if (n != elems) return n < elems ? "has fewer elements than its shape says" : "has more elements than its shape says";
  out->data = data;
  return NULL;
}

static const char *read_raw(tensor_fields *r, proto_bytes raw, msc_dtype dtype, onnx_tensor *out) {
  if (proto_size(raw) != out->bytes) return "has another number of bytes than its shape says";
  bool copy = dtype == MSC_I1 || (uintptr_t)raw.at % (size_t)msc_dtype_bytes(dtype);
  out->data = copy && out->bytes ? msc_arena_copy(r->arena, raw.at, out->bytes) : raw.at;
  return NULL;
}

static const char *read_beside(tensor_fields *r, onnx_tensor *out) {
  if (!r->location || !*r->location) return "names no file for its external data";
  if (r->bad_number) return "has an offset or length that is no number";
  if (r->has_length && r->length != out->bytes) return "has another number of bytes than its shape says";
  if (!r->file || !r->file->read_beside) return "is in another file, which cannot be read here";
  const char *why = r->file->read_beside(r->file->user, r->location, r->offset, out->bytes, &out->data);
  return why ? msc_arena_printf(r->arena, "is in the file '%s', which %s", r->location, why) : NULL;
}

const char *onnx_read_tensor(msc_context *ctx, msc_arena *arena, const msc_model_bytes *file, proto_bytes bytes,
                             onnx_tensor *out_tensor) {
  tensor_fields r = {.ctx = ctx, .arena = arena, .file = file};
  onnx_tensor t = {.name = ""};
  msc_dtype dtype;
  if (!read_fields(&r, bytes)) return "is damaged";
  if (!onnx_dtype(r.data_type, &dtype))
    return msc_arena_printf(arena, "has elements of type %s, which msc does not have", onnx_dtype_name(r.data_type));
  if (r.too_deep) return msc_arena_printf(arena, "has more than %d dimensions", MSC_MAX_RANK);
  t.type = msc_type_of(ctx, dtype, r.rank, r.dim, NULL);
  if (msc_type_bytes(t.type) < 0) return "has a shape whose size is negative or too large";
  t.bytes = (size_t)msc_type_bytes(t.type);
  const char *wrong = r.is_external ? read_beside(&r, &t)
                      : r.has_raw   ? read_raw(&r, r.raw, dtype, &t)
                                    : read_list(&r, bytes, dtype, msc_type_elems(t.type), &t);
  if (wrong) return wrong;
  if (dtype == MSC_I1 && t.bytes) {
    uint8_t *b = msc_arena_copy(arena, t.data, t.bytes);
    for (size_t i = 0; i < t.bytes; i++) b[i] = b[i] != 0;
    t.data = b;
  }
  *out_tensor = t;
  return NULL;
}
