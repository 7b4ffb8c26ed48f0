/* thrift.c: Thrift's compact protocol: bytes in; fields, numbers and texts out (see thrift.h). */
#include "runtime/data/formats/thrift.h"

enum { MOST_DEPTH = 32 };

static uint8_t take_byte(mscrt_thrift *t) {
  if (t->at < t->end && !t->bad) return *t->at++;
  t->bad = true;
  return 0;
}

static uint64_t take_varint(mscrt_thrift *t) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t b = take_byte(t);
    v |= (uint64_t)(b & 127) << shift;
    if (!(b & 128)) return t->bad ? 0 : v;
  }
  t->bad = true;
  return 0;
}

static int64_t take_zigzag(mscrt_thrift *t) {
  uint64_t v = take_varint(t);
  return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static const char *take_bytes(mscrt_thrift *t, uint64_t bytes) {
  if (t->bad || bytes > (uint64_t)(t->end - t->at)) {
    t->bad = true;
    return NULL;
  }
  t->at += bytes;
  return (const char *)t->at - bytes;
}

bool mscrt_thrift_next(mscrt_thrift *t, mscrt_thrift_field *f) {
  uint8_t head = take_byte(t);
  int step = head >> 4;
  f->type = (mscrt_thrift_type)(head & 15);
  if (f->type == MSCRT_THRIFT_STOP || t->bad) return false;
  f->id = step ? f->id + step : (int)take_zigzag(t);
  t->bad |= f->type > MSCRT_THRIFT_STRUCT || f->id < 0 || f->id > INT16_MAX;
  return !t->bad;
}

int64_t mscrt_thrift_number(mscrt_thrift *t, mscrt_thrift_field f, int64_t otherwise) {
  if (f.type >= MSCRT_THRIFT_I16 && f.type <= MSCRT_THRIFT_I64) return take_zigzag(t);
  if (f.type == MSCRT_THRIFT_BYTE) return (int8_t)take_byte(t);
  mscrt_thrift_skip(t, f.type);
  return otherwise;
}

bool mscrt_thrift_bool(mscrt_thrift *t, mscrt_thrift_field f, bool otherwise) {
  if (f.type == MSCRT_THRIFT_TRUE || f.type == MSCRT_THRIFT_FALSE) return f.type == MSCRT_THRIFT_TRUE;
  mscrt_thrift_skip(t, f.type);
  return otherwise;
}

const char *mscrt_thrift_text(mscrt_thrift *t, mscrt_thrift_field f, size_t *out_bytes) {
  *out_bytes = 0;
  if (f.type != MSCRT_THRIFT_BINARY) return mscrt_thrift_skip(t, f.type), NULL;
  uint64_t bytes = take_varint(t);
  const char *text = take_bytes(t, bytes);
  *out_bytes = text ? (size_t)bytes : 0;
  return text;
}

/* The head of a list: the number of its entries, and their type. Every entry has a byte at least. */
static int64_t take_list(mscrt_thrift *t, mscrt_thrift_type *out_type) {
  uint8_t head = take_byte(t);
  uint64_t num = head >> 4;
  *out_type = (mscrt_thrift_type)(head & 15);
  if (num == 15) num = take_varint(t);
  t->bad |= num > (uint64_t)(t->end - t->at) || *out_type == MSCRT_THRIFT_STOP || *out_type > MSCRT_THRIFT_STRUCT;
  return t->bad ? 0 : (int64_t)num;
}

static void skip_value(mscrt_thrift *t, mscrt_thrift_type type, int depth, bool entry) {
  mscrt_thrift_type of;
  mscrt_thrift_field f = {0};
  if (depth > MOST_DEPTH) t->bad = true;
  if (t->bad) return;
  switch (type) {
    case MSCRT_THRIFT_TRUE:
    case MSCRT_THRIFT_FALSE:
      if (entry) take_byte(t); /* of a field, the type is the value */
      return;
    case MSCRT_THRIFT_BYTE: take_byte(t); return;
    case MSCRT_THRIFT_I16:
    case MSCRT_THRIFT_I32:
    case MSCRT_THRIFT_I64: take_varint(t); return;
    case MSCRT_THRIFT_DOUBLE: take_bytes(t, 8); return;
    case MSCRT_THRIFT_BINARY: take_bytes(t, take_varint(t)); return;
    case MSCRT_THRIFT_LIST:
    case MSCRT_THRIFT_SET:
      for (int64_t i = take_list(t, &of); i > 0 && !t->bad; i--) skip_value(t, of, depth + 1, true);
      return;
    case MSCRT_THRIFT_MAP: {
      uint64_t num = take_varint(t);
      uint8_t types = num ? take_byte(t) : 0;
      for (; num > 0 && !t->bad; num--) {
        skip_value(t, (mscrt_thrift_type)(types >> 4), depth + 1, true);
        skip_value(t, (mscrt_thrift_type)(types & 15), depth + 1, true);
      }
      return;
    }
    case MSCRT_THRIFT_STRUCT:
      while (mscrt_thrift_next(t, &f)) skip_value(t, f.type, depth + 1, false);
      return;
    default: t->bad = true;
  }
}

void mscrt_thrift_skip(mscrt_thrift *t, mscrt_thrift_type type) { skip_value(t, type, 0, false); }

int64_t mscrt_thrift_list(mscrt_thrift *t, mscrt_thrift_field f, mscrt_thrift_type type) {
  mscrt_thrift_type of;
  if (f.type != MSCRT_THRIFT_LIST) {
    mscrt_thrift_skip(t, f.type);
    return 0;
  }
  int64_t num = take_list(t, &of);
  if (of == type || !num) return num;
  for (; num > 0 && !t->bad; num--) skip_value(t, of, 1, true);
  return 0;
}
