/* row_cache.c: tables that live in host memory or on disk, of which the device holds some rows (Cache in plan.fbs).
 * A call of kind admit has the numbers of the rows that a step reads: it copies missing rows to the device and writes
 * the slot of each number. Changed rows are written back when they are evicted, or when the table is read.
 *
 * A device with memory of its own swaps rows with a pool in the host's memory: before that the pool has the missing
 * rows, behind it those that go back to the table.
 *
 * Evicted is the row that was used least, of several the one that came first. All counts are halved from time to time,
 * so that rows that were used long ago go too. Uses of rows that are not on the device count as well. Which slot a row
 * has changes no result. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/abi/row_cache.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"

enum {
  AHEAD = 16,      /* entries are prefetched so many numbers before they are read */
  TOGETHER = 64,   /* rows that a thread moves at a time */
  USES_HALVED = 64 /* counts are halved after so many uses for each row of the cache */
};

/* The state of one row of the table. */
typedef struct {
  uint32_t slot; /* 0: it is not on the device; 1 + its slot; or 1 + rows + the number of the move that will bring it */
  uint16_t uses, epoch; /* uses, as they counted in this epoch */
} entry;

/* A slot of the cache; also the head of a list of them, a ring. */
typedef struct {
  int64_t row;          /* -1: it is free */
  uint32_t before, next;
  uint32_t call;        /* the last call that named its row */
  bool dirty;           /* it was changed since it came */
} slot_node;

/* A row to be brought to a slot, in place of another. */
typedef struct {
  int64_t row;          /* that goes back; -1: none */
  uint32_t slot, pad;
} row_move;

_Static_assert(sizeof(entry) == MSC_ROW_ENTRY_BYTES, "row_cache.h");
_Static_assert(sizeof(slot_node) + sizeof(row_move) == MSC_ROW_SLOT_BYTES, "row_cache.h");

/* The table and its state: rows on the device, and where they live, in memory or at `offset` of a file. */
typedef struct {
  uint8_t *at, *home;   /* home NULL: in the file; at: of a device with its own memory, what the host fetches of it */
  uint8_t *pool;        /* rows to be swapped, by the number of the move; NULL: the device works in `at` */
  uint64_t offset, row_bytes;
} cached_rows;

struct mscrt_row_cache {
  const char *name;
  uint32_t num, rows;   /* of values; of the cache */
  cached_rows value[MSCRT_MOST_CACHED];
  int64_t begin, size, whole; /* of the rows of this rank's part; of the table */
  int file;             /* -1: none */
  entry *entry;
  slot_node *node;      /* slots, then heads of lists: of each level of uses, and of the slots that a call uses */
  row_move *move;
  uint32_t num_moves, num_held, least, call;
  uint16_t epoch;
  uint64_t used;        /* uses in this epoch */
  uint32_t *swaps;      /* where the pool begins; NULL: there is none */
  uint64_t named, missed;
  _Atomic int error;    /* errno */
};

typedef struct mscrt_row_cache cache;

/* ---- lists ---- */

static uint32_t head_of_level(const cache *k, uint32_t level) { return k->rows + level; }
static uint32_t head_of_held(const cache *k) { return k->rows + MSC_ROW_LEVELS; }

static void unlink_slot(cache *k, uint32_t i) {
  slot_node *n = &k->node[i];
  k->node[n->before].next = n->next;
  k->node[n->next].before = n->before;
}

static void append_slot(cache *k, uint32_t head, uint32_t i) {
  slot_node *n = &k->node[i], *h = &k->node[head];
  n->before = h->before, n->next = head;
  k->node[h->before].next = i;
  h->before = i;
}

/* Appends all of a list to another. */
static void append_list(cache *k, uint32_t to, uint32_t from) {
  slot_node *f = &k->node[from], *t = &k->node[to];
  if (f->next == from) return;
  k->node[t->before].next = f->next;
  k->node[f->next].before = t->before;
  k->node[f->before].next = to;
  t->before = f->before;
  f->before = f->next = from;
}

/* ---- uses ---- */

static uint32_t uses_of(const cache *k, const entry *e) {
  uint32_t age = (uint16_t)(k->epoch - e->epoch);
  return age > 15 ? 0 : e->uses >> age;
}

static void count_use(cache *k, entry *e) {
  uint32_t uses = uses_of(k, e) + 1;
  e->uses = (uint16_t)(uses < MSC_ROW_LEVELS ? uses : MSC_ROW_LEVELS - 1);
  e->epoch = k->epoch;
  k->used++;
}

static void halve_uses(cache *k) {
  if (k->used < (uint64_t)USES_HALVED * k->rows) return;
  k->used = 0, k->least = 0;
  k->epoch++;
  for (uint32_t level = 1; level < MSC_ROW_LEVELS; level++)
    append_list(k, head_of_level(k, level / 2), head_of_level(k, level));
}

/* ---- a call ---- */

/* Marks a row as read by the running call: keeps its slot, or plans its move. False: the call reads more rows than the
 * cache has slots. */
static bool hold_row(cache *k, entry *e) {
  if (e->slot > k->rows) return true;
  if (e->slot) {
    slot_node *n = &k->node[e->slot - 1];
    if (n->call == k->call) return true;
    n->call = k->call;
    unlink_slot(k, e->slot - 1);
    append_slot(k, head_of_held(k), e->slot - 1);
  } else {
    if (k->num_held == k->rows) return false;
    k->move[k->num_moves].row = e - k->entry;
    e->slot = k->rows + 1 + k->num_moves++;
  }
  count_use(k, e);
  return ++k->num_held <= k->rows;
}

/* Gives every missing row the slot of a row that the call does not read. */
static void choose_slots_of_rows(cache *k) {
  for (uint32_t i = 0; i < k->num_moves; i++) {
    row_move *m = &k->move[i];
    int64_t row = m->row;
    while (k->node[head_of_level(k, k->least)].next == head_of_level(k, k->least)) k->least++;
    m->slot = k->node[head_of_level(k, k->least)].next;
    slot_node *n = &k->node[m->slot];
    unlink_slot(k, m->slot);
    append_slot(k, head_of_held(k), m->slot);
    if (n->row >= 0) k->entry[n->row].slot = 0;
    m->row = n->dirty ? n->row : -1;
    n->row = row, n->call = k->call, n->dirty = false;
    k->entry[row].slot = m->slot + 1;
  }
}

/* Moves the slots that the call held back to the lists of their levels. */
static void release_slots(cache *k) {
  uint32_t held = head_of_held(k);
  while (k->node[held].next != held) {
    uint32_t i = k->node[held].next, level = uses_of(k, &k->entry[k->node[i].row]);
    unlink_slot(k, i);
    append_slot(k, head_of_level(k, level), i);
    if (level < k->least) k->least = level;
  }
  k->num_held = k->num_moves = 0;
  halve_uses(k);
}

/* ---- moving rows ---- */

/* Copies a row of one value back to its table, or from there, to memory at `here`; returns errno, 0 for success. */
static int move_row(const cache *k, const cached_rows *v, bool back, uint8_t *here, int64_t row) {
  uint64_t there = (uint64_t)row * v->row_bytes;
  if (v->home) memcpy(back ? v->home + there : here, back ? here : v->home + there, (size_t)v->row_bytes);
  return v->home ? 0 : mscrt_pass_block(k->file, back, here, v->row_bytes, v->offset + there);
}

static uint8_t *slot_of(const cached_rows *v, uint32_t slot) { return v->at + slot * v->row_bytes; }

/* Makes the moves, or, with a pool, puts the new rows there. */
static void make_moves(void *arg, int64_t unit, int worker) {
  cache *k = arg;
  int64_t end = (unit + 1) * TOGETHER < k->num_moves ? (unit + 1) * TOGETHER : k->num_moves;
  int error = 0;
  (void)worker;
  for (int64_t i = unit * TOGETHER; i < end; i++) {
    const row_move *m = &k->move[i];
    for (uint32_t v = 0; v < k->num && m->row >= 0 && !k->swaps && !error; v++)
      error = move_row(k, &k->value[v], true, slot_of(&k->value[v], m->slot), m->row);
    for (uint32_t v = 0; v < k->num && !error; v++) {
      uint8_t *pool = k->value[v].pool;
      uint8_t *here = pool ? pool + (uint64_t)i * k->value[v].row_bytes : slot_of(&k->value[v], m->slot);
      error = move_row(k, &k->value[v], false, here, k->node[m->slot].row);
    }
  }
  if (error) atomic_store(&k->error, error);
}

static mscrt_status *status_of_moves(const mscrt_context *c, cache *k) {
  int error = atomic_load(&k->error);
  if (!error) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "rank %d: rows of '%s' cannot be read or written on disk: %s", c->o.rank,
                    k->name, strerror(error));
}

/* ---- numbers ---- */

typedef struct {
  const void *at;
  int32_t *slot;
  int64_t num;
  bool wide;
} row_numbers;

static inline int64_t number_at(const row_numbers *r, int64_t i) {
  return r->wide ? ((const int64_t *)r->at)[i] : ((const int32_t *)r->at)[i];
}

/* Returns a row of the table as counted from the first row of this rank's part. Data may hold any number: what lies
 * outside of the part is below 0 or not below its size. */
static inline int64_t row_of_part(const cache *k, int64_t number) {
  return (int64_t)((uint64_t)number - (uint64_t)k->begin);
}

static row_numbers numbers_of(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, uint32_t i) {
  void *const *buffers = mscrt_buffers_of(c, r, slots, 0);
  uint32_t num = r->num_buffers / 2;
  return (row_numbers){.at = buffers[i],
                       .slot = buffers[num + i],
                       .num = (int64_t)(r->ref[num + i].bytes / sizeof(int32_t)),
                       .wide = r->dims[i + 1] == MSCRT_I64};
}

/* Returns how many different rows of this rank's part a call reads; 0: no memory to count them. */
static int64_t count_distinct_rows(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, const cache *k) {
  uint8_t *seen = NULL;
  int64_t num = 0;
  mscrt_status *s = mscrt_new_array(&seen, (size_t)k->size / 8 + 1);
  mscrt_status_free(s);
  for (uint32_t b = 0; seen && b < r->num_buffers / 2; b++) {
    row_numbers n = numbers_of(c, r, slots, b);
    for (int64_t i = 0; i < n.num; i++) {
      int64_t row = row_of_part(k, number_at(&n, i));
      if (row < 0 || row >= k->size || seen[row / 8] >> row % 8 & 1) continue;
      seen[row / 8] |= (uint8_t)(1 << row % 8);
      num++;
    }
  }
  free(seen);
  return num;
}

static mscrt_status *report_small_cache(mscrt_context *c, const mscrt_execution *t, const cache *k) {
  int64_t need = count_distinct_rows(c, t->record, t->slots, k);
  return mscrt_fail(MSCRT_INPUT,
                    "rank %d: step %" PRId64 ": the cache of '%s' has room for %u rows, and the step uses %" PRId64
                    "; cache_rows of that many would do",
                    c->o.rank, mscrt_step_number(t->step), k->name, k->rows, need);
}

/* Holds all rows that the numbers `n` name. counts: they are counted in the statistics. */
static mscrt_status *hold_rows(mscrt_context *c, const mscrt_execution *t, cache *k, const row_numbers *n,
                               bool counts) {
  for (int64_t i = 0; i < n->num; i++) {
    int64_t number = number_at(n, i), row = row_of_part(k, number);
    if (i + AHEAD < n->num) {
      int64_t later = row_of_part(k, number_at(n, i + AHEAD));
      if (later >= 0 && later < k->size) __builtin_prefetch(&k->entry[later]);
    }
    if (number < 0 || number >= k->whole) return mscrt_kernel_error_status(c, t->record, t->step, 1);
    if (row < 0 || row >= k->size) continue;
    uint32_t before = k->num_moves;
    if (!hold_row(k, &k->entry[row])) return report_small_cache(c, t, k);
    k->named += counts, k->missed += counts * (k->num_moves - before);
  }
  return NULL;
}

static void write_slots(cache *k, const row_numbers *n, bool updates) {
  for (int64_t i = 0; i < n->num; i++) {
    int64_t row = row_of_part(k, number_at(n, i));
    bool own = row >= 0 && row < k->size;
    n->slot[i] = own ? (int32_t)k->entry[row].slot - 1 : (int32_t)k->rows;
    if (own && updates) k->node[n->slot[i]].dirty = true;
  }
}

/* Writes the list of swaps into the pool. */
static void list_swaps(const cache *k) {
  uint32_t *next = k->swaps + MSC_ROW_POOL_HEAD / sizeof *next;
  for (uint32_t i = 0; i < k->num_moves; i++) *next++ = k->move[i].slot, *next++ = k->move[i].row >= 0;
  *k->swaps = k->num_moves;
}

mscrt_status *mscrt_admit_rows(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  cache *k = &c->row_cache[r->index];
  bool updates = r->dims[0];
  k->call++;
  if (k->swaps) *k->swaps = 0; /* none, if the call fails */
  for (uint32_t i = 0; i < r->num_buffers / 2; i++) {
    row_numbers n = numbers_of(c, r, t->slots, i);
    MSCRT_CHECK(hold_rows(c, t, k, &n, !updates || !i));
  }
  choose_slots_of_rows(k);
  mscrt_pool_run(pool, make_moves, k, (k->num_moves + TOGETHER - 1) / TOGETHER);
  for (uint32_t i = 0; i < r->num_buffers / 2; i++) {
    row_numbers n = numbers_of(c, r, t->slots, i);
    write_slots(k, &n, updates && !i);
  }
  if (k->swaps) list_swaps(k);
  release_slots(k);
  return status_of_moves(c, k);
}

mscrt_status *mscrt_put_swapped_rows_back(mscrt_context *c, uint32_t index) {
  cache *k = &c->row_cache[index];
  int error = 0;
  for (uint32_t i = 0; i < *k->swaps; i++)
    for (uint32_t v = 0; v < k->num && k->move[i].row >= 0 && !error; v++)
      error = move_row(k, &k->value[v], true, k->value[v].pool + i * k->value[v].row_bytes, k->move[i].row);
  if (error) atomic_store(&k->error, error);
  return status_of_moves(c, k);
}

/* ---- the table as others see it ---- */

/* Fetches the rows of a cache from a device with memory of its own, if any was changed there. */
static mscrt_status *fetch_rows(mscrt_context *c, const cache *k) {
  uint32_t i = 0;
  while (i < k->rows && !k->node[i].dirty) i++;
  for (uint32_t v = 0; v < k->num && i < k->rows && k->swaps; v++)
    MSCRT_CHECK(mscrt_fetch(c, (uint64_t)(k->value[v].at - c->arena), k->rows * k->value[v].row_bytes));
  return NULL;
}

static mscrt_status *write_back(mscrt_context *c, cache *k) {
  MSCRT_CHECK(fetch_rows(c, k));
  for (uint32_t i = 0; i < k->rows; i++) {
    slot_node *n = &k->node[i];
    for (uint32_t v = 0; v < k->num && n->dirty; v++) {
      int error = move_row(k, &k->value[v], true, slot_of(&k->value[v], i), n->row);
      if (error) atomic_store(&k->error, error);
    }
    n->dirty = false;
  }
  return status_of_moves(c, k);
}

mscrt_status *mscrt_write_rows_back(mscrt_context *c) {
  for (uint32_t i = 0; c->row_cache && i < c->plan->num_caches; i++) MSCRT_CHECK(write_back(c, &c->row_cache[i]));
  return NULL;
}

static void forget_rows(cache *k) {
  uint32_t heads = k->rows;
  for (uint32_t i = 0; i <= MSC_ROW_LEVELS; i++)
    k->node[heads + i] = (slot_node){.row = -1, .before = heads + i, .next = heads + i};
  for (uint32_t i = 0; i < k->rows; i++) {
    if (k->node[i].row >= 0) k->entry[k->node[i].row].slot = 0;
    k->node[i] = (slot_node){.row = -1};
    append_slot(k, head_of_level(k, 0), i);
  }
  k->least = 0;
}

mscrt_status *mscrt_forget_rows(mscrt_context *c) {
  MSCRT_CHECK(mscrt_write_rows_back(c));
  for (uint32_t i = 0; c->row_cache && i < c->plan->num_caches; i++) forget_rows(&c->row_cache[i]);
  return NULL;
}

void mscrt_count_rows(const mscrt_context *c, uint64_t *out_named, uint64_t *out_missed) {
  *out_named = *out_missed = 0;
  for (uint32_t i = 0; c->row_cache && i < c->plan->num_caches; i++)
    *out_named += c->row_cache[i].named, *out_missed += c->row_cache[i].missed;
}

/* ---- opening ---- */

/* Finds the rows to be swapped in the pool. */
static void place_pool(const mscrt_context *c, const mscrt_plan_cache *p, cache *k) {
  uint64_t row_bytes[MSCRT_MOST_CACHED];
  k->swaps = mscrt_address_of(c, p->pool, 0);
  for (uint32_t i = 0; i < k->num; i++) row_bytes[i] = k->value[i].row_bytes;
  for (uint32_t i = 0; i < k->num; i++)
    k->value[i].pool = (uint8_t *)k->swaps + msc_row_pool_at(p->swaps, i, row_bytes);
}

static mscrt_status *open_cache(const mscrt_context *c, const mscrt_plan_cache *p, cache *k) {
  const mscrt_variable *v = &c->plan->parameter[p->parameter[0]];
  msc_box box, buffer;
  mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
  *k = (cache){.name = v->name, .num = p->num, .rows = p->rows, .whole = v->shape[0], .file = -1};
  k->begin = box.begin[0], k->size = box.size[0];
  for (uint32_t i = 0; i < p->num; i++) {
    const mscrt_variable *value = &c->plan->parameter[p->parameter[i]];
    k->value[i] = (cached_rows){.at = mscrt_address_of(c, p->at[i], 0),
                                .offset = value->ref.offset,
                                .row_bytes = mscrt_variable_bytes(value) / (uint64_t)buffer.size[0]};
    if (value->ref.space == PLAN_SPACE_HOST) k->value[i].home = mscrt_address_of(c, value->ref, 0);
    else if (k->file < 0) MSCRT_CHECK(mscrt_offload_file(c, &k->file));
  }
  if (p->swaps) place_pool(c, p, k);
  k->entry = mscrt_address_of(c, p->index, 0);
  k->node = (slot_node *)(k->entry + buffer.size[0]);
  k->move = (row_move *)(k->node + k->rows + MSC_ROW_LEVELS + 1);
  for (uint32_t i = 0; i < k->rows; i++) k->node[i].row = -1;
  forget_rows(k);
  return NULL;
}

mscrt_status *mscrt_row_caches_open(mscrt_context *c) {
  if (!c->offload || !c->plan->num_caches) return NULL;
  MSCRT_CHECK(mscrt_new_array(&c->row_cache, c->plan->num_caches));
  for (uint32_t i = 0; i < c->plan->num_caches; i++) c->row_cache[i].file = -1;
  for (uint32_t i = 0; i < c->plan->num_caches; i++)
    if (c->plan->parameter[c->plan->cache[i].parameter[0]].stage == c->stage)
      MSCRT_CHECK(open_cache(c, &c->plan->cache[i], &c->row_cache[i]));
  return NULL;
}

void mscrt_row_caches_free(mscrt_context *c) {
  for (uint32_t i = 0; c->row_cache && i < c->plan->num_caches; i++)
    if (c->row_cache[i].file >= 0) close(c->row_cache[i].file);
  free(c->row_cache);
}
