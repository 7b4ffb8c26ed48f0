/* table.h: the containers of the compiler, all in arenas: a growable array, a hash table, a binary heap.
 *
 * Arena exhaustion leaves through the context's recovery point, as everywhere; nothing here fails.  What an array or a
 * table has outgrown stays in the arena until the arena goes: at most as much again as it has now.
 *
 *   array  msc_grow (context.h): for arrays that are only appended to; their room follows from their length.
 *          msc_reserve: for arrays that keep their room beside them, because they shrink, or grow by more than one.
 *   table  MSC_TABLE: items by a key of whole words (pointers, integers) with which each item begins.
 *          msc_copies: one copy of each string of bytes, numbered, as keys of any length.
 *          msc_index: the hash table alone, for items that are compared in another way.
 *   sets   msc_set_root: disjoint sets of numbers, which are joined one by one.
 *   heap   MSC_HEAP: the functions of a binary heap over an array of any type, in any order. */
#ifndef MSC_IR_TABLE_H
#define MSC_IR_TABLE_H

#include <string.h>

#include "ir/ir.h"

/* ---- array ---- */

/* Makes room for at least `need` items in `array`, whose room is the variable `room`: when that is less, the array is
 * copied to one with twice the room, at least.  What is new is zero. */
#define msc_reserve(arena, array, room, need)                                              \
  do {                                                                                     \
    if ((size_t)(need) > (size_t)(room)) {                                                 \
      size_t wider_ = (size_t)(room) ? 2 * (size_t)(room) : 16;                            \
      while (wider_ < (size_t)(need)) wider_ *= 2;                                         \
      (array) = msc_array_copy((arena), (array), (size_t)(room), wider_, sizeof *(array)); \
      (room) = (__typeof__(room))wider_;                                                   \
    }                                                                                      \
  } while (0)

/* Returns a copy of `num` items of `array`, followed by zeros up to `room` items. */
static inline void *msc_array_copy(msc_arena *arena, const void *array, size_t num, size_t room, size_t item_bytes) {
  void *p = msc_arena_alloc(arena, room * item_bytes);
  if (num) memcpy(p, array, num * item_bytes);
  return p;
}

/* ---- hash table ---- */

/* Numbers by hash.  The owner keeps the items in an array, gives each its number when it adds it, and compares keys.
 * To begin with, all is zero but the arena.  A number is less than 2^32 - 1. */
typedef struct {
  msc_arena *arena;
  struct msc_index_slot {
    uint32_t hash, number;
  } * slot;           /* number: 1 + the item's number; 0: the slot is free */
  uint32_t num, mask; /* numbers in the table; slots, a power of two, less 1; 0: none yet */
} msc_index;

enum { MSC_INDEX_FIRST_SLOTS = 16 };

/* Returns the part of a hash that is compared: its upper half, which msc_mix and XXH3 mix well. */
static inline uint32_t msc_index_fold(uint64_t hash) { return (uint32_t)(hash >> 32); }

/* Finds the next number with this hash; `*at` says where to look, and is moved on. False: there is no more. */
static inline bool msc_index_next(const msc_index *x, uint32_t hash, uint32_t *at, uint32_t *out_number) {
  if (!x->mask) return false;
  for (;; ++*at) {
    const struct msc_index_slot *s = &x->slot[*at & x->mask];
    if (!s->number) return false;
    if (s->hash != hash) continue;
    *out_number = s->number - 1;
    ++*at;
    return true;
  }
}

/* Runs the statement behind it for each number whose item has this hash, first added first:
 *   MSC_INDEX_EACH(&x, hash, i) if (is_same(&item[i], key)) return &item[i]; */
#define MSC_INDEX_EACH(index, hash_, number)                                                  \
  for (uint32_t number = 0, key_##number = msc_index_fold(hash_), at_##number = key_##number; \
       msc_index_next((index), key_##number, &at_##number, &number);)

static inline void msc_index_place(msc_index *x, struct msc_index_slot s) {
  uint32_t at = s.hash;
  while (x->slot[at & x->mask].number) at++;
  x->slot[at & x->mask] = s;
}

/* Grows the index so that at least half of the slots stay free. */
static inline void msc_index_grow(msc_index *x) {
  const msc_index old = *x;
  uint32_t num = old.mask ? 4 * (old.mask + 1) : MSC_INDEX_FIRST_SLOTS, gap = 0;
  x->slot = msc_new_array(x->arena, struct msc_index_slot, num);
  x->mask = num - 1;
  if (!old.mask) return;
  while (old.slot[gap].number) gap++; /* behind the end of a run, slots are in the order in which they were added */
  for (uint32_t i = 1; i <= old.mask; i++)
    if (old.slot[(gap + i) & old.mask].number) msc_index_place(x, old.slot[(gap + i) & old.mask]);
}

/* Adds a number that is not there yet. */
static inline void msc_index_add(msc_index *x, uint64_t hash, uint32_t number) {
  if (2 * x->num >= x->mask) msc_index_grow(x);
  msc_index_place(x, (struct msc_index_slot){msc_index_fold(hash), number + 1});
  x->num++;
}

/* Removes a number that was added with this hash. */
static inline void msc_index_remove(msc_index *x, uint64_t hash, uint32_t number) {
  uint32_t hole = msc_index_fold(hash);
  while (x->slot[hole & x->mask].number != number + 1) hole++;
  for (uint32_t at = hole + 1; x->slot[at & x->mask].number; at++) {
    uint32_t from_home = (at - x->slot[at & x->mask].hash) & x->mask;
    if (from_home < ((at - hole) & x->mask)) continue; /* an item must not stand before the first slot of its hash */
    x->slot[hole & x->mask] = x->slot[at & x->mask];
    hole = at;
  }
  x->slot[hole & x->mask] = (struct msc_index_slot){0, 0};
  x->num--;
}

/* A table of items of type T.  T is a struct whose first members are the key, without padding, in multiples of eight
 * bytes, or T is the key itself.  `item` are the items in the order in which they were added, `index.num` how many.  To
 * begin with, all is zero but index.arena. */
#define MSC_TABLE(T) \
  struct {           \
    msc_index index; \
    T *item;         \
  }

#define msc_table_num(table) ((table)->index.num)

/* Returns the item whose key equals *key; NULL: there is none. The type of *key may be T itself when all of T is the
 * key, or any other type that has the same bytes as T's first members. */
#define msc_table_find(table, key)                                                                           \
  ((__typeof__((table)->item))msc_table_search(&(table)->index, (table)->item, sizeof *(table)->item, (key), \
                                               MSC_KEY_BYTES(key), msc_hash_key((key), MSC_KEY_BYTES(key))))

/* Returns the item whose key equals *key. If there is none, adds one that is zero except for its key; items may
 * move. */
#define msc_table_at(table, key)                                                                        \
  ({                                                                                                    \
    __typeof__(table) table_ = (table);                                                                 \
    const void *key_ = (key);                                                                           \
    uint64_t hash_ = msc_hash_key(key_, MSC_KEY_BYTES(key));                                            \
    __typeof__(table_->item) item_ =                                                                    \
        msc_table_search(&table_->index, table_->item, sizeof *item_, key_, MSC_KEY_BYTES(key), hash_); \
    if (!item_) {                                                                                       \
      msc_grow(table_->index.arena, table_->item, table_->index.num);                                   \
      item_ = &table_->item[table_->index.num];                                                         \
      memcpy(item_, key_, MSC_KEY_BYTES(key));                                                          \
      msc_index_add(&table_->index, hash_, table_->index.num);                                          \
    }                                                                                                   \
    item_;                                                                                              \
  })

#define MSC_KEY_BYTES(key) (sizeof *(key) + 0 * sizeof(char[sizeof *(key) % 8 ? -1 : 1])) /* a multiple of 8 */

static inline uint64_t msc_hash_key(const void *key, size_t bytes) {
  uint64_t hash = 0;
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    if (bytes - i < 8) memcpy(&word, (const char *)key + i, bytes - i);
    else memcpy(&word, (const char *)key + i, 8);
    hash = msc_mix(hash, word);
  }
  return hash;
}

static inline void *msc_table_search(const msc_index *x, const void *item, size_t item_bytes, const void *key,
                                     size_t key_bytes, uint64_t hash) {
  MSC_INDEX_EACH(x, hash, i) {
    const char *p = (const char *)item + i * item_bytes;
    if (!memcmp(p, key, key_bytes)) return (void *)(uintptr_t)p;
  }
  return NULL;
}

/* Strings of bytes in the order in which they were added.  To begin with, all is zero but index.arena. */
typedef struct {
  msc_index index;
  struct msc_copy {
    const void *data;
    size_t bytes;
  } * item;
} msc_copies;

/* Returns the number of the copy of these bytes. If there is none, adds one: its number is then what index.num was
 * before. */
static inline uint32_t msc_copy_of(msc_copies *t, const void *data, size_t bytes) {
  uint64_t hash = msc_mix(msc_hash_key(data, bytes), bytes);
  MSC_INDEX_EACH(&t->index, hash, i)
  if (t->item[i].bytes == bytes && !memcmp(t->item[i].data, data, bytes)) return i;
  msc_grow(t->index.arena, t->item, t->index.num);
  t->item[t->index.num] = (struct msc_copy){msc_arena_copy(t->index.arena, data, bytes), bytes};
  msc_index_add(&t->index, hash, t->index.num);
  return t->index.num - 1;
}

/* ---- disjoint sets ---- */

/* Returns the number that represents the set of i. parent[i] is the number above i in the tree of its set, or i itself
 * at the top; at first it is i for all. parent[msc_set_root(parent, i)] = j joins the set of i to that of j, where j
 * represents another set. */
static inline uint32_t msc_set_root(uint32_t *parent, uint32_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

/* ---- heap ---- */

/* Defines for arrays of T, of which `comes_first(c, a, b)` says whether a comes before b (two T's, false of equals):
 *   void NAME_push(C c, T *heap, size_t num, T x)  adds x to a heap of `num` items; the array has room for it
 *   T NAME_pop(C c, T *heap, size_t num)           removes and returns the first of `num` > 0 items
 *   void NAME_rise(C c, T *heap, size_t at, T x)   puts x, which stands at `at` and now comes earlier, in its place
 * `moved(c, x, at)` is called with each item's new place; MSC_STAYS where nobody wants to know.  Of equal items, which
 * comes first follows from the order of the calls alone. */
#define MSC_HEAP(name, C, T, comes_first, moved)                                                  \
  static inline void name##_rise(C c, T *heap, size_t at, T x) {                                  \
    (void)c;                                                                                      \
    for (; at && comes_first(c, x, heap[(at - 1) / 2]); at = (at - 1) / 2) {                      \
      heap[at] = heap[(at - 1) / 2];                                                              \
      moved(c, heap[at], at);                                                                     \
    }                                                                                             \
    heap[at] = x;                                                                                 \
    moved(c, x, at);                                                                              \
  }                                                                                               \
  static inline void name##_push(C c, T *heap, size_t num, T x) { name##_rise(c, heap, num, x); } \
  static inline T name##_pop(C c, T *heap, size_t num) {                                          \
    (void)c;                                                                                      \
    T top = heap[0], last = heap[--num];                                                          \
    size_t at = 0;                                                                                \
    for (size_t child; (child = 2 * at + 1) < num; at = child) {                                  \
      if (child + 1 < num && comes_first(c, heap[child + 1], heap[child])) child++;               \
      if (!comes_first(c, heap[child], last)) break;                                              \
      heap[at] = heap[child];                                                                     \
      moved(c, heap[at], at);                                                                     \
    }                                                                                             \
    heap[at] = last;                                                                              \
    moved(c, last, at);                                                                           \
    return top;                                                                                   \
  }
#define MSC_STAYS(c, x, at) ((void)0)

#endif
