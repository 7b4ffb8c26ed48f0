/* proto.h: the wire format of protocol buffers, read in place: bytes in, fields out.  Nothing is allocated, every
 * length is checked, and a fault stops the walk. */
#ifndef MSC_IR_ONNX_PROTO_H
#define MSC_IR_ONNX_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a message, or what is left of them. */
typedef struct {
  const uint8_t *at, *end;
} proto_bytes;

static inline size_t proto_size(proto_bytes b) { return (size_t)(b.end - b.at); }

typedef enum { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 } proto_wire;

typedef struct {
  uint32_t number;
  proto_wire wire;
  uint64_t scalar;   /* the value, unless wire is PROTO_BYTES */
  proto_bytes bytes; /* a text, a message, or packed numbers */
} proto_field;

/* Reads the next field. Returns false at the end, and at a fault, when *ok is false, too. */
bool proto_next(proto_bytes *from, proto_field *out_field, bool *ok);

/* Reads the next number of a repeated field, packed or not, and moves f behind it. `wire`: the encoding of an element.
 * Returns false if no number is left, or if the field is broken: then *ok is false. */
bool proto_number(proto_field *f, proto_wire wire, uint64_t *out_number, bool *ok);

#endif
