/* proto.c: bytes in; fields of protocol buffers out. */
#include "ir/onnx/proto.h"

static bool read_varint(proto_bytes *from, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (from->at == from->end) return false;
    uint8_t byte = *from->at++;
    if (shift == 63 && byte > 1) return false;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool read_fixed(proto_bytes *from, int bytes, uint64_t *out) {
  if (proto_size(*from) < (size_t)bytes) return false;
  *out = 0;
  for (int i = 0; i < bytes; i++) *out |= (uint64_t)from->at[i] << 8 * i;
  from->at += bytes;
  return true;
}

static bool read_wire_scalar(proto_bytes *from, proto_wire wire, uint64_t *out) {
  if (wire == PROTO_VARINT) return read_varint(from, out);
  return read_fixed(from, wire == PROTO_FIXED64 ? 8 : 4, out);
}

static bool read_field(proto_bytes *from, proto_field *f) {
  uint64_t tag, size;
  if (!read_varint(from, &tag) || tag >> 3 == 0 || tag >> 32) return false;
  f->number = (uint32_t)(tag >> 3);
  f->wire = (proto_wire)(tag & 7);
  if (f->wire == PROTO_VARINT || f->wire == PROTO_FIXED64 || f->wire == PROTO_FIXED32)
    return read_wire_scalar(from, f->wire, &f->scalar);
  if (f->wire != PROTO_BYTES || !read_varint(from, &size) || size > proto_size(*from)) return false;
  f->bytes = (proto_bytes){from->at, from->at + size};
  from->at += size;
  return true;
}

bool proto_next(proto_bytes *from, proto_field *out_field, bool *ok) {
  if (!*ok || from->at == from->end) return false;
  *out_field = (proto_field){0};
  return *ok = read_field(from, out_field);
}

bool proto_number(proto_field *f, proto_wire wire, uint64_t *out_number, bool *ok) {
  if (!*ok || f->number == 0) return false;
  if (f->wire == wire) {
    *out_number = f->scalar;
    f->number = 0;
    return true;
  }
  if (f->wire != PROTO_BYTES) return *ok = false;
  if (f->bytes.at == f->bytes.end) return false;
  return *ok = read_wire_scalar(&f->bytes, wire, out_number);
}
