/* flatbuf.h: checks and reads FlatBuffers in place; libc only, shared by compiler and runtime.
 *
 * tools/fbtables.py turns a schema into NAME_fbs.h: the tables below for flatbuf_verify, and typed accessors.
 *
 *     plan_plan p;
 *     flatbuf_fault fault;
 *     if (!flatbuf_verify(&plan_schema, data, bytes, 100000, &fault)) return report_damage(&fault);
 *     p = plan_plan_root(data);
 *     for (uint32_t i = 0; i < plan_plan_kernels_num(p); i++) use(plan_kernel_name(plan_plan_kernels(p, i)));
 *
 * Accessors are safe on a verified buffer for any argument: an absent table reads as all defaults, an index outside
 * as absent.  Strings are NUL-terminated; a string or a table that is absent is NULL or has .at NULL.
 * Pointers returned by ..._data have the element's alignment when the buffer itself has FLATBUF_ALIGN. */
#ifndef MSC_IR_FLATBUF_H
#define MSC_IR_FLATBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLATBUF_ALIGN 64           /* wanted of the memory that holds a buffer */
#define FLATBUF_MAX_BYTES 0x7fffffffu
#define FLATBUF_MAX_DEPTH 64

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "FlatBuffers are read in place: little-endian hosts only");

/* ---- what a schema says ---- */

typedef enum {
  FLATBUF_NONE,   /* an id that is not in use (a union's type has its own row) */
  FLATBUF_SCALAR, FLATBUF_STRUCT, FLATBUF_STRING, FLATBUF_TABLE, FLATBUF_UNION, FLATBUF_UNION_TYPE,
  FLATBUF_SCALARS, FLATBUF_STRUCTS, FLATBUF_STRINGS, FLATBUF_TABLES /* vectors */
} flatbuf_kind;

typedef struct {
  const char *name;
  uint8_t kind;      /* flatbuf_kind */
  uint8_t align;     /* of the value, or of a vector's elements (force_align included) */
  uint16_t bytes;    /* of the value, or of one element */
  uint16_t target;   /* TABLE, TABLES: number of the table; UNION: number of the union */
  bool required;
} flatbuf_field;

typedef struct {
  const char *name;
  uint16_t num_fields;
  const flatbuf_field *field; /* by id */
} flatbuf_table;

typedef struct {
  uint16_t num;           /* members, NONE included */
  const uint16_t *member; /* number of the table; [0] is unused */
} flatbuf_union;

typedef struct {
  const char *identifier; /* 4 characters */
  uint16_t root;
  const flatbuf_table *table;
  const flatbuf_union *unions;
} flatbuf_schema;

/* ---- verification ---- */

typedef struct {
  const char *what;  /* what is wrong, a constant string */
  const char *table; /* where: name of the table, and of its field or NULL */
  const char *field;
  uint32_t at;       /* position in the buffer */
} flatbuf_fault;

/* Structure only: after true every accessor stays inside the buffer.  Does not allocate; visits at most max_tables
 * tables, counted by visit, to FLATBUF_MAX_DEPTH.  `data` must be private memory: nobody may change it afterwards. */
bool flatbuf_verify(const flatbuf_schema *schema, const void *data, size_t bytes, uint32_t max_tables,
                    flatbuf_fault *out_fault);

/* ---- reading: what the generated accessors are made of ---- */

typedef struct { const uint8_t *at; } flatbuf_any; /* a union's value of any type */

#define FLATBUF_READ(T, name)                           \
  static inline T flatbuf_##name(const uint8_t *p) {    \
    T v;                                                \
    memcpy(&v, p, sizeof v);                            \
    return v;                                           \
  }
FLATBUF_READ(uint8_t, load_u8)
FLATBUF_READ(int8_t, load_i8)
FLATBUF_READ(uint16_t, load_u16)
FLATBUF_READ(int16_t, load_i16)
FLATBUF_READ(uint32_t, load_u32)
FLATBUF_READ(int32_t, load_i32)
FLATBUF_READ(uint64_t, load_u64)
FLATBUF_READ(int64_t, load_i64)
FLATBUF_READ(float, load_f32)
FLATBUF_READ(double, load_f64)
#undef FLATBUF_READ

static inline const uint8_t *flatbuf_root(const void *data) {
  return (const uint8_t *)data + flatbuf_load_u32((const uint8_t *)data);
}

/* The inline value of field `id`, NULL when it is absent. */
static inline const uint8_t *flatbuf_inline(const uint8_t *table, unsigned id) {
  if (!table) return NULL;
  const uint8_t *vtable = table - flatbuf_load_i32(table);
  unsigned slot = 4 + 2 * id;
  unsigned offset = slot + 2 <= flatbuf_load_u16(vtable) ? flatbuf_load_u16(vtable + slot) : 0;
  return offset ? table + offset : NULL;
}

/* Returns what the offset in field `id` points to; NULL when the field is absent. */
static inline const uint8_t *flatbuf_follow(const uint8_t *table, unsigned id) {
  const uint8_t *p = flatbuf_inline(table, id);
  return p ? p + flatbuf_load_u32(p) : NULL;
}

static inline uint32_t flatbuf_length(const uint8_t *vector) { return vector ? flatbuf_load_u32(vector) : 0; }

/* Element i of a vector of offsets, NULL outside. */
static inline const uint8_t *flatbuf_element(const uint8_t *vector, uint32_t i) {
  if (i >= flatbuf_length(vector)) return NULL;
  const uint8_t *p = vector + 4 + 4 * (size_t)i;
  return p + flatbuf_load_u32(p);
}

#endif
