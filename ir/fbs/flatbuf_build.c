/* flatbuf_build.c: calls in document order in; the bytes of a FlatBuffer out.
 *
 * In the format children come before parents, and it is written from its end to its start, so a position is a distance
 * from the end ("ref").  A closed table, list or string is written at once; the fields of an open table are on stacks
 * until it is closed. */
#include "ir/fbs/flatbuf_build.h"

#include <stdlib.h>

/* A growing array; all of the builder's memory but `data` is of this kind. */
typedef struct {
  void *items;
  size_t num, capacity; /* in items */
} stack;

typedef struct {
  bool is_list;
  unsigned table; /* the number of the table, or of the tables that the list holds */
  unsigned field; /* where it goes in the frame around it, when that is a table */
  size_t first_pending, first_value, first_ref;
} frame;

/* A field given to an open table. */
typedef struct {
  unsigned id;
  bool is_ref;
  uint32_t at; /* a ref, or the index of the value's bytes in `values` */
} pending;

/* Contents already written, found by their bytes. */
typedef struct {
  uint32_t ref, bytes, hash; /* bytes 0: free */
} written_bytes;

typedef struct {
  written_bytes *slot;
  size_t num, capacity; /* a power of two */
} written_set;

struct flatbuf_builder {
  flatbuf_realloc *alloc;
  void *user;
  uint8_t *data; /* the last `used` of `capacity` bytes are written */
  size_t used, capacity;
  uint32_t align; /* largest asked for so far */
  uint32_t root;  /* ref of the root table, 0: not closed yet */
  const flatbuf_schema *schema;
  stack frames, pendings, values, refs;
  written_set strings, vtables;
  flatbuf_status status;
  char fault[96];
};

static void *c_library(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  (void)user, (void)old_bytes;
  if (bytes) return realloc(ptr, bytes);
  free(ptr);
  return NULL;
}

static bool fail(flatbuf_builder *b, flatbuf_status status, const char *table, const char *what) {
  if (b->status != FLATBUF_OK) return false;
  b->status = status;
  size_t n = 0;
  for (; *table && n < sizeof b->fault - 2; table++) b->fault[n++] = *table;
  if (n) b->fault[n++] = '.';
  for (; *what && n < sizeof b->fault - 1; what++) b->fault[n++] = *what;
  b->fault[n] = 0;
  return false;
}

/* Adds room for `num` items of `size` bytes on top of a stack and returns it; NULL after an error. */
static void *push_room(flatbuf_builder *b, stack *s, size_t size, size_t num) {
  if (num > s->capacity - s->num) {
    size_t capacity = s->capacity ? s->capacity : 16;
    while (capacity - s->num < num) capacity *= 2;
    void *items = b->alloc(b->user, s->items, s->capacity * size, capacity * size);
    if (!items) return fail(b, FLATBUF_NOMEM, "", "out of memory"), NULL;
    s->items = items, s->capacity = capacity;
  }
  s->num += num;
  return (uint8_t *)s->items + (s->num - num) * size;
}

static void *item(const stack *s, size_t size, size_t i) { return s->items ? (uint8_t *)s->items + i * size : NULL; }
static frame *top(const flatbuf_builder *b) {
  return b->frames.num ? item(&b->frames, sizeof(frame), b->frames.num - 1) : NULL;
}
static uint8_t *at_ref(const flatbuf_builder *b, uint32_t ref) { return b->data + b->capacity - ref; }

/* ---- bytes ---- */

/* Makes room for `bytes`, zeroed, in front of the bytes written so far, such that byte `lead` of it is aligned. */
static uint8_t *prepend(flatbuf_builder *b, size_t bytes, size_t lead, uint32_t align) {
  if (align > b->align) b->align = align;
  if (bytes > FLATBUF_MAX_BYTES) return fail(b, FLATBUF_TOO_BIG, "", "larger than 2 GiB"), NULL;
  size_t tail = b->used + bytes - lead;
  size_t room = bytes + (align - tail % align) % align;
  if (b->used + room > FLATBUF_MAX_BYTES) return fail(b, FLATBUF_TOO_BIG, "", "larger than 2 GiB"), NULL;
  if (room > b->capacity - b->used) {
    size_t capacity = b->capacity ? b->capacity : 1024;
    while (capacity - b->used < room) capacity *= 2;
    uint8_t *data = b->alloc(b->user, NULL, 0, capacity);
    if (!data) return fail(b, FLATBUF_NOMEM, "", "out of memory"), NULL;
    if (b->used) memcpy(data + capacity - b->used, at_ref(b, (uint32_t)b->used), b->used);
    if (b->data) b->alloc(b->user, b->data, b->capacity, 0);
    b->data = data, b->capacity = capacity;
  }
  b->used += room;
  uint8_t *p = at_ref(b, (uint32_t)b->used);
  memset(p, 0, room);
  return p;
}

static void store_u16(uint8_t *p, unsigned v) {
  uint16_t x = (uint16_t)v;
  memcpy(p, &x, sizeof x);
}
static void store_u32(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }
static void copy(uint8_t *to, const void *from, size_t bytes) {
  if (bytes) memcpy(to, from, bytes);
}

static uint32_t hash_of(const uint8_t *p, size_t bytes) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ bytes;
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return (uint32_t)(h ^ h >> 32);
}

/* Returns the slot of these bytes, or the free slot where they belong. */
static written_bytes *find(const flatbuf_builder *b, const written_set *set, const uint8_t *p, uint32_t bytes,
                           uint32_t hash) {
  for (size_t i = hash & (set->capacity - 1);; i = (i + 1) & (set->capacity - 1)) {
    written_bytes *s = &set->slot[i];
    if (!s->bytes || (s->hash == hash && s->bytes == bytes && !memcmp(at_ref(b, s->ref), p, bytes))) return s;
  }
}

static bool make_room(flatbuf_builder *b, written_set *set) {
  if (4 * set->num < 3 * set->capacity) return true;
  written_set bigger = {NULL, set->num, set->capacity ? 2 * set->capacity : 64};
  bigger.slot = b->alloc(b->user, NULL, 0, bigger.capacity * sizeof *bigger.slot);
  if (!bigger.slot) return fail(b, FLATBUF_NOMEM, "", "out of memory");
  memset(bigger.slot, 0, bigger.capacity * sizeof *bigger.slot);
  for (size_t i = 0; i < set->capacity; i++) {
    if (!set->slot[i].bytes) continue;
    size_t k = set->slot[i].hash & (bigger.capacity - 1);
    while (bigger.slot[k].bytes) k = (k + 1) & (bigger.capacity - 1);
    bigger.slot[k] = set->slot[i];
  }
  if (set->slot) b->alloc(b->user, set->slot, set->capacity * sizeof *set->slot, 0);
  *set = bigger;
  return true;
}

/* Returns the ref of an earlier copy of the last `bytes` written, and drops these; or, if there is none, their own ref.
 * before: what `used` was without them. */
static uint32_t share_written(flatbuf_builder *b, written_set *set, uint32_t bytes, size_t before) {
  if (!make_room(b, set)) return 0;
  const uint8_t *p = at_ref(b, (uint32_t)b->used);
  uint32_t hash = hash_of(p, bytes);
  written_bytes *s = find(b, set, p, bytes, hash);
  if (s->bytes) {
    b->used = before;
    return s->ref;
  }
  *s = (written_bytes){(uint32_t)b->used, bytes, hash};
  set->num++;
  return s->ref;
}

static uint32_t write_string(flatbuf_builder *b, const char *text, size_t bytes) {
  size_t before = b->used;
  uint8_t *p = prepend(b, bytes > FLATBUF_MAX_BYTES ? bytes : 4 + bytes + 1, 0, 4);
  if (!p) return 0;
  store_u32(p, (uint32_t)bytes);
  copy(p + 4, text, bytes);
  return share_written(b, &b->strings, 4 + (uint32_t)bytes, before);
}

/* Writes a vector of offsets to `num` refs and returns its own. */
static uint32_t write_refs(flatbuf_builder *b, const uint32_t *ref, size_t num) {
  uint8_t *p = prepend(b, 4 + 4 * num, 4, 4);
  if (!p) return 0;
  uint32_t here = (uint32_t)b->used;
  store_u32(p, (uint32_t)num);
  for (size_t i = 0; i < num; i++) store_u32(p + 4 + 4 * i, here - 4 - 4 * (uint32_t)i - ref[i]);
  return here;
}

/* ---- tables ---- */

static bool is_inline(const flatbuf_field *f) {
  return f->kind == FLATBUF_SCALAR || f->kind == FLATBUF_STRUCT || f->kind == FLATBUF_UNION_TYPE;
}
static unsigned inline_bytes(const flatbuf_field *f) { return is_inline(f) ? f->bytes : 4; }
static unsigned inline_align(const flatbuf_field *f) { return is_inline(f) ? f->align : 4; }

static bool complete(flatbuf_builder *b, const flatbuf_table *t, const pending *given, size_t num) {
  for (unsigned id = 0; id < t->num_fields; id++) {
    bool found = !t->field[id].required;
    for (size_t i = 0; i < num && !found; i++) found = given[i].id == id;
    if (!found) return fail(b, FLATBUF_MISUSE, t->name, t->field[id].name);
  }
  return true;
}

/* Writes the offsets of the fields into the vtable, large alignments first, so that there are no holes.  Returns the
 * bytes of the inline part. */
static unsigned lay_out(const flatbuf_table *t, const pending *given, size_t num, uint8_t *vtable,
                        unsigned *out_align) {
  unsigned end = 4;
  *out_align = 4;
  for (unsigned align = 16; align; align /= 2)
    for (size_t i = 0; i < num; i++) {
      const flatbuf_field *f = &t->field[given[i].id];
      if (inline_align(f) != align) continue;
      if (align > *out_align) *out_align = align;
      store_u16(vtable + 4 + 2 * given[i].id, end);
      end += inline_bytes(f);
    }
  return end;
}

enum { MAX_FIELDS = 256 };

static uint32_t write_table(flatbuf_builder *b, const flatbuf_table *t, const pending *given, size_t num) {
  uint8_t vtable[4 + 2 * MAX_FIELDS] = {0};
  unsigned align, num_slots = 0;
  if (t->num_fields > MAX_FIELDS) return fail(b, FLATBUF_MISUSE, t->name, "too many fields"), 0;
  if (!complete(b, t, given, num)) return 0;
  unsigned bytes = lay_out(t, given, num, vtable, &align);
  uint8_t *p = prepend(b, bytes, 4, align);
  if (!p) return 0;
  uint32_t table = (uint32_t)b->used;
  for (size_t i = 0; i < num; i++) {
    const flatbuf_field *f = &t->field[given[i].id];
    unsigned offset = flatbuf_load_u16(vtable + 4 + 2 * given[i].id);
    if (given[i].is_ref) store_u32(p + offset, table - offset - given[i].at);
    else copy(p + offset, item(&b->values, 1, given[i].at), inline_bytes(f));
    if (given[i].id >= num_slots) num_slots = given[i].id + 1;
  }
  unsigned vtable_bytes = 4 + 2 * num_slots;
  store_u16(vtable, vtable_bytes);
  store_u16(vtable + 2, bytes);
  size_t before = b->used;
  p = prepend(b, vtable_bytes, 0, 2);
  if (!p) return 0;
  memcpy(p, vtable, vtable_bytes);
  uint32_t v = share_written(b, &b->vtables, vtable_bytes, before);
  store_u32(at_ref(b, table), v - table);
  return table;
}

/* ---- the open document ---- */

/* Returns the schema's description of field `id` of table `in`. Tables are named by number, not by address, because
 * every file that includes the schema's header has its own copy of it. */
static const flatbuf_field *field_of(const flatbuf_builder *b, unsigned in, unsigned id) {
  return &b->schema->table[in].field[id];
}

/* True if field `id` of table `in` may be given now. */
static bool accepts(flatbuf_builder *b, unsigned in, unsigned id) {
  if (b->status != FLATBUF_OK) return false;
  if (!b->schema) return fail(b, FLATBUF_MISUSE, "", "put before begin");
  const frame *f = top(b);
  const char *table = b->schema->table[in].name, *name = field_of(b, in, id)->name;
  if (!f || f->is_list || f->table != in) return fail(b, FLATBUF_MISUSE, table, name);
  const pending *p = b->pendings.items;
  for (size_t i = f->first_pending; i < b->pendings.num; i++)
    if (p[i].id == id) return fail(b, FLATBUF_MISUSE, table, name);
  return true;
}

static void give_field(flatbuf_builder *b, unsigned id, bool is_ref, uint32_t at) {
  if (is_ref && !at) return; /* its writing failed */
  pending *p = push_room(b, &b->pendings, sizeof *p, 1);
  if (p) *p = (pending){id, is_ref, at};
}

static void open_frame(flatbuf_builder *b, bool is_list, unsigned table, unsigned field) {
  frame *f = push_room(b, &b->frames, sizeof *f, 1);
  if (f) *f = (frame){is_list, table, field, b->pendings.num, b->values.num, b->refs.num};
}

void flatbuf_begin(flatbuf_builder *b, const flatbuf_schema *schema, unsigned table) {
  if (b->status != FLATBUF_OK) return;
  const frame *f = top(b);
  bool is_root = !f && !b->root && table == schema->root;
  bool is_element = f && f->is_list && f->table == table && !memcmp(b->schema->identifier, schema->identifier, 4);
  if (!is_root && !is_element) {
    fail(b, FLATBUF_MISUSE, schema->table[table].name, "begin");
    return;
  }
  if (is_root) b->schema = schema;
  open_frame(b, false, table, 0);
}

void flatbuf_begin_field(flatbuf_builder *b, unsigned in, unsigned id, unsigned table) {
  if (accepts(b, in, id)) open_frame(b, false, table, id);
}

void flatbuf_begin_list(flatbuf_builder *b, unsigned in, unsigned id) {
  if (accepts(b, in, id)) open_frame(b, true, field_of(b, in, id)->target, id);
}

void flatbuf_put(flatbuf_builder *b, unsigned in, unsigned id, const void *value) {
  if (!accepts(b, in, id)) return;
  size_t bytes = field_of(b, in, id)->bytes;
  uint8_t *p = push_room(b, &b->values, 1, bytes);
  if (!p) return;
  memcpy(p, value, bytes);
  give_field(b, id, false, (uint32_t)(b->values.num - bytes));
}

void flatbuf_put_string(flatbuf_builder *b, unsigned in, unsigned id, const char *text, size_t bytes) {
  if (accepts(b, in, id)) give_field(b, id, true, write_string(b, text, bytes));
}

void flatbuf_put_strings(flatbuf_builder *b, unsigned in, unsigned id, size_t num, const char *const *text) {
  if (!accepts(b, in, id)) return;
  size_t first = b->refs.num;
  for (size_t i = 0; i < num; i++) {
    uint32_t ref = write_string(b, text[i], strlen(text[i]));
    uint32_t *slot = ref ? push_room(b, &b->refs, sizeof *slot, 1) : NULL;
    if (!slot) return;
    *slot = ref;
  }
  give_field(b, id, true, write_refs(b, item(&b->refs, sizeof(uint32_t), first), num));
  b->refs.num = first;
}

void flatbuf_put_vector(flatbuf_builder *b, unsigned in, unsigned id, size_t num, const void *data) {
  if (!accepts(b, in, id)) return;
  const flatbuf_field *f = field_of(b, in, id);
  if (num > FLATBUF_MAX_BYTES) {
    fail(b, FLATBUF_TOO_BIG, "", f->name);
    return;
  }
  uint8_t *p = prepend(b, 4 + num * f->bytes, 4, f->align < 4 ? 4 : f->align);
  if (!p) return;
  store_u32(p, (uint32_t)num);
  copy(p + 4, data, num * f->bytes);
  give_field(b, id, true, (uint32_t)b->used);
}

void flatbuf_end(flatbuf_builder *b) {
  if (b->status != FLATBUF_OK) return;
  if (!b->frames.num) {
    fail(b, FLATBUF_MISUSE, "", "end without begin");
    return;
  }
  frame f = *top(b);
  const pending *given = item(&b->pendings, sizeof *given, f.first_pending);
  const uint32_t *refs = item(&b->refs, sizeof *refs, f.first_ref);
  uint32_t ref = f.is_list ? write_refs(b, refs, b->refs.num - f.first_ref)
                           : write_table(b, &b->schema->table[f.table], given, b->pendings.num - f.first_pending);
  if (!ref || b->status != FLATBUF_OK) return;
  b->frames.num--;
  b->pendings.num = f.first_pending, b->values.num = f.first_value, b->refs.num = f.first_ref;
  const frame *around = top(b);
  if (!around) b->root = ref;
  else if (!around->is_list) give_field(b, f.field, true, ref);
  else {
    uint32_t *slot = push_room(b, &b->refs, sizeof *slot, 1);
    if (slot) *slot = ref;
  }
}

void *flatbuf_finish(flatbuf_builder *b, size_t *out_bytes) {
  if (b->status == FLATBUF_OK && (b->frames.num || !b->root))
    fail(b, FLATBUF_MISUSE, "", "finish before the root was closed");
  uint8_t *p = b->status == FLATBUF_OK ? prepend(b, 8, 0, b->align) : NULL;
  if (!p) return NULL;
  store_u32(p, (uint32_t)b->used - b->root);
  memcpy(p + 4, b->schema->identifier, 4);
  *out_bytes = b->used;
  return p;
}

/* ---- life ---- */

flatbuf_builder *flatbuf_builder_new(flatbuf_realloc *alloc, void *user) {
  if (!alloc) alloc = c_library;
  flatbuf_builder *b = alloc(user, NULL, 0, sizeof *b);
  if (!b) return NULL;
  *b = (flatbuf_builder){.alloc = alloc, .user = user, .align = 8};
  return b;
}

static void release(flatbuf_builder *b, void *ptr, size_t bytes) {
  if (ptr) b->alloc(b->user, ptr, bytes, 0);
}

void flatbuf_builder_free(flatbuf_builder *b) {
  if (!b) return;
  release(b, b->data, b->capacity);
  release(b, b->frames.items, b->frames.capacity * sizeof(frame));
  release(b, b->pendings.items, b->pendings.capacity * sizeof(pending));
  release(b, b->values.items, b->values.capacity);
  release(b, b->refs.items, b->refs.capacity * sizeof(uint32_t));
  release(b, b->strings.slot, b->strings.capacity * sizeof(written_bytes));
  release(b, b->vtables.slot, b->vtables.capacity * sizeof(written_bytes));
  b->alloc(b->user, b, sizeof *b, 0);
}

void flatbuf_builder_reset(flatbuf_builder *b) {
  b->used = 0, b->align = 8, b->root = 0, b->status = FLATBUF_OK;
  b->frames.num = b->pendings.num = b->values.num = b->refs.num = 0;
  written_set *sets[] = {&b->strings, &b->vtables};
  for (int i = 0; i < 2; i++) {
    if (sets[i]->slot) memset(sets[i]->slot, 0, sets[i]->capacity * sizeof(written_bytes));
    sets[i]->num = 0;
  }
}

flatbuf_status flatbuf_builder_status(const flatbuf_builder *b) { return b->status; }
const char *flatbuf_builder_fault(const flatbuf_builder *b) { return b->fault; }
