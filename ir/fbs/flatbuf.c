/* flatbuf.c: any bytes and the tables that tools/fbtables.py makes from a schema in; true, so that every accessor stays
 * inside the buffer, or the first fault out. */
#include "ir/fbs/flatbuf.h"

/* Tables and list elements are counted at every visit, because tables that share children form a DAG with exponentially
 * many paths, all of which readers walk.  The bytes of vectors are counted at every visit too, because readers copy
 * them; real files share strings and short vectors, up to a few times the size of the file. */
#define SHARED_BYTES 32
#define SHARED_SLACK 65536

typedef struct {
  const flatbuf_schema *schema;
  const uint8_t *data;
  uint64_t bytes;
  uint32_t visits_left;
  uint64_t bytes_left;
  flatbuf_fault *fault;
} verifier;

/* The field being looked at, for messages. */
typedef struct {
  const flatbuf_table *table;
  const flatbuf_field *field;
} place;

static bool fault(const verifier *v, place p, uint64_t at, const char *what) {
  *v->fault = (flatbuf_fault){what, p.table ? p.table->name : NULL, p.field ? p.field->name : NULL, (uint32_t)at};
  return false;
}

static bool visit(verifier *v, place p, uint64_t at, uint32_t num) {
  if (v->visits_left < num) return fault(v, p, at, "more tables than allowed");
  v->visits_left -= num;
  return true;
}

/* Follows the offset stored at `at`, which is inside the buffer. */
static bool target_of(const verifier *v, place p, uint64_t at, uint64_t *out_target) {
  uint32_t offset = flatbuf_load_u32(v->data + at);
  if (offset == 0 || offset > FLATBUF_MAX_BYTES) return fault(v, p, at, "bad offset");
  *out_target = at + offset;
  if (*out_target % 4) return fault(v, p, at, "misaligned offset");
  if (*out_target + 4 > v->bytes) return fault(v, p, at, "offset leads outside the file");
  return true;
}

/* A vector of `size`-byte elements at `at`; an empty one may be misaligned, writers leave it so. */
static bool check_vector(verifier *v, place p, uint64_t at, uint32_t size, uint32_t align, uint32_t *out_num) {
  uint32_t num = flatbuf_load_u32(v->data + at);
  uint64_t bytes = (uint64_t)num * size;
  if (bytes > v->bytes - at - 4) return fault(v, p, at, "vector does not fit into the file");
  if (num && (at + 4) % align) return fault(v, p, at, "misaligned vector");
  if (bytes > v->bytes_left) return fault(v, p, at, "data shared too often");
  v->bytes_left -= bytes;
  *out_num = num;
  return true;
}

static bool check_string(verifier *v, place p, uint64_t at) {
  uint32_t num;
  if (!check_vector(v, p, at, 1, 1, &num)) return false;
  uint64_t end = at + 4 + num;
  if (end >= v->bytes || v->data[end]) return fault(v, p, at, "string without terminator");
  return true;
}

static bool check_table(verifier *v, unsigned number, uint64_t at, int depth);

static bool check_elements(verifier *v, place p, uint64_t at, int depth) {
  uint32_t num;
  if (!check_vector(v, p, at, 4, 4, &num) || !visit(v, p, at, num)) return false;
  for (uint32_t i = 0; i < num; i++) {
    uint64_t target;
    if (!target_of(v, p, at + 4 + 4 * (uint64_t)i, &target)) return false;
    bool good =
        p.field->kind == FLATBUF_STRINGS ? check_string(v, p, target) : check_table(v, p.field->target, target, depth);
    if (!good) return false;
  }
  return true;
}

/* `at` is the offset of the union's value, 0 when absent; its type stands in the field before. */
static bool check_union(verifier *v, place p, uint64_t type_at, uint64_t at, int depth) {
  const flatbuf_union *u = &v->schema->unions[p.field->target];
  uint8_t type = type_at ? v->data[type_at] : 0;
  uint64_t target;
  if (!type != !at) return fault(v, p, at ? at : type_at, "union has a type or a value, but not both");
  if (type >= u->num) return fault(v, p, type_at, "unknown union type");
  if (!type) return true;
  return target_of(v, p, at, &target) && check_table(v, u->member[type], target, depth);
}

static bool check_field(verifier *v, place p, uint64_t at, int depth) {
  const flatbuf_field *f = p.field;
  uint64_t target;
  uint32_t num;
  if (f->kind == FLATBUF_SCALAR || f->kind == FLATBUF_STRUCT || f->kind == FLATBUF_UNION_TYPE) return true;
  if (!target_of(v, p, at, &target)) return false;
  switch (f->kind) {
    case FLATBUF_STRING: return check_string(v, p, target);
    case FLATBUF_TABLE: return check_table(v, f->target, target, depth);
    case FLATBUF_SCALARS:
    case FLATBUF_STRUCTS: return check_vector(v, p, target, f->bytes, f->align, &num);
    default: return check_elements(v, p, target, depth);
  }
}

/* Checks the heads of the table at `at` and of its vtable.  The size of the table in a vtable is not checked: writers
 * that share vtables leave another table's there. */
static bool check_head(verifier *v, place p, uint64_t at, uint64_t *out_vtable, unsigned *out_vtable_bytes) {
  if (at % 4 || at + 4 > v->bytes) return fault(v, p, at, "table outside the file or misaligned");
  int64_t vtable = (int64_t)at - flatbuf_load_i32(v->data + at);
  if (vtable < 0 || vtable % 2 || (uint64_t)vtable + 4 > v->bytes) return fault(v, p, at, "bad vtable offset");
  *out_vtable = (uint64_t)vtable;
  *out_vtable_bytes = flatbuf_load_u16(v->data + vtable);
  if (*out_vtable_bytes < 4 || *out_vtable_bytes % 2 || *out_vtable + *out_vtable_bytes > v->bytes)
    return fault(v, p, at, "bad vtable size");
  return true;
}

static bool check_table(verifier *v, unsigned number, uint64_t at, int depth) {
  const flatbuf_table *t = &v->schema->table[number];
  place p = {t, NULL};
  uint64_t vtable, before = 0; /* where the field before stands, 0: absent */
  unsigned vtable_bytes;
  if (depth >= FLATBUF_MAX_DEPTH) return fault(v, p, at, "tables nested too deep");
  if (!visit(v, p, at, 1) || !check_head(v, p, at, &vtable, &vtable_bytes)) return false;
  for (unsigned i = 0; i < t->num_fields; i++) {
    const flatbuf_field *f = p.field = &t->field[i];
    if (f->kind == FLATBUF_NONE) continue;
    unsigned slot = 4 + 2 * i;
    unsigned offset = slot + 2 <= vtable_bytes ? flatbuf_load_u16(v->data + vtable + slot) : 0;
    uint64_t here = offset ? at + offset : 0;
    unsigned align = f->kind == FLATBUF_SCALAR || f->kind == FLATBUF_STRUCT ? f->align
                     : f->kind == FLATBUF_UNION_TYPE                        ? 1
                                                                            : 4;
    unsigned bytes = f->kind == FLATBUF_SCALAR || f->kind == FLATBUF_STRUCT ? f->bytes : align;
    if (!offset && f->required) return fault(v, p, at, "required field is missing");
    if (offset && (offset < 4 || at + offset + bytes > v->bytes)) return fault(v, p, at, "field outside the file");
    if (here % align) return fault(v, p, here, "misaligned field");
    if (f->kind == FLATBUF_UNION) {
      if (!check_union(v, p, before, here, depth + 1)) return false;
    } else if (offset && !check_field(v, p, here, depth + 1)) {
      return false;
    }
    before = here;
  }
  return true;
}

bool flatbuf_verify(const flatbuf_schema *schema, const void *data, size_t bytes, uint32_t max_tables,
                    flatbuf_fault *out_fault) {
  verifier v = {schema, data, bytes, max_tables, SHARED_BYTES * (uint64_t)bytes + SHARED_SLACK, out_fault};
  place p = {NULL, NULL};
  uint64_t root;
  *out_fault = (flatbuf_fault){0};
  if (bytes > FLATBUF_MAX_BYTES) return fault(&v, p, 0, "larger than 2 GiB");
  if (bytes < 12) return fault(&v, p, 0, "too short");
  if (memcmp(v.data + 4, schema->identifier, 4)) return fault(&v, p, 4, "wrong file identifier");
  return target_of(&v, p, 0, &root) && check_table(&v, schema->root, root, 0);
}
