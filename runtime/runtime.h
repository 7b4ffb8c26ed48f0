/* runtime.h: shared by all files of the runtime: failures, element types, random numbers, memory, threads. */
#ifndef MSCRT_RUNTIME_H
#define MSCRT_RUNTIME_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "runtime/mscrt.h"

#define MSCRT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- status.c ---- */

/* Makes a status; its trail starts with the place of the call. If there is no memory for it, returns a constant one. */
#define mscrt_fail(code, ...) mscrt_fail_at(code, __FILE__, __LINE__, __VA_ARGS__)
mscrt_status *mscrt_fail_at(mscrt_code code, const char *file, int line, const char *fmt, ...) MSCRT_PRINTF(4, 5);
/* Fails with errno, as "PATH: WHAT: No such file"; its code tells a wrong path from a machine that failed. */
#define mscrt_fail_path(path, what) mscrt_fail_path_at(__FILE__, __LINE__, path, what)
mscrt_status *mscrt_fail_path_at(const char *file, int line, const char *path, const char *what);
/* Adds a line to the trail; accepts NULL. */
mscrt_status *mscrt_add_to_trail(mscrt_status *s, const char *file, int line);
/* Puts "prefix: " in front of the text; accepts NULL. */
mscrt_status *mscrt_add_prefix(mscrt_status *s, const char *fmt, ...) MSCRT_PRINTF(2, 3);
/* Changes the code of a status; accepts NULL. */
mscrt_status *mscrt_change_code(mscrt_status *s, mscrt_code code);

#define MSCRT_CHECK(call)                                             \
  do {                                                                \
    mscrt_status *status_ = (call);                                   \
    if (status_) return mscrt_add_to_trail(status_, __FILE__, __LINE__); \
  } while (0)
/* For functions that own something: leaves through `fail`, with the status in `s`. */
#define MSCRT_GOTO(call)                                              \
  do {                                                                \
    s = (call);                                                       \
    if (s) {                                                          \
      s = mscrt_add_to_trail(s, __FILE__, __LINE__);                   \
      goto fail;                                                      \
    }                                                                 \
  } while (0)

/* Begins a public call: returns a failure from it if a pointer is NULL that must not be. */
#define MSCRT_NEEDS(pointers)                                                               \
  do {                                                                                      \
    if (!(pointers)) return mscrt_fail(MSCRT_ARGUMENT, "%s needs %s", __func__, #pointers); \
  } while (0)

/* Allocates `num` elements, zeroed, which the caller frees with free; num may be 0. */
#define mscrt_new_array(out, num) mscrt_allocate((void **)(out), (size_t)(num), sizeof **(out))
mscrt_status *mscrt_allocate(void **out_memory, size_t num, size_t bytes);
/* Makes room for one item more behind the `num` items of `bytes` bytes each in *array, a pointer from malloc or NULL
 * for none. *room: how many items there is room for. New items are not initialized. */
mscrt_status *mscrt_grow(void *array, int64_t num, int64_t *room, size_t bytes);
/* Makes *buffer, a pointer from malloc or NULL, at least `need` bytes long; *room: its length. Its contents stay.
 * False: there is no memory, and nothing changed. */
bool mscrt_grow_bytes(uint8_t **buffer, size_t *room, size_t need);

/* The smaller of two numbers. */
static inline int64_t mscrt_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
/* The number of a step as people read it, in messages and with losses: the first is 1. The runtime counts from 0. */
static inline int64_t mscrt_step_number(int64_t step) { return step + 1; }

/* Makes text of unknown origin fit for one line: control characters become '?', long text ends in "...". */
const char *mscrt_clean_text(const char *text, size_t bytes, char *buffer, size_t buffer_bytes);

/* ---- dtype.c ---- */

#define MSCRT_CONVERTED (-1) /* mscrt_convert: all values fit */

const char *mscrt_dtype_name(mscrt_dtype d); /* the name in IR text: f32, ui8 */
size_t mscrt_dtype_bytes(mscrt_dtype d);
bool mscrt_is_float(mscrt_dtype d);
float mscrt_from_f16(uint16_t v);
uint16_t mscrt_to_f16(float v); /* rounds to nearest, ties to even, as does the next */
float mscrt_from_bf16(uint16_t v);
uint16_t mscrt_to_bf16(float v);
/* True if elements of one type may be read into an input of another. */
bool mscrt_converts(mscrt_dtype from, mscrt_dtype to);
/* Converts num elements. scale: u8 converted to a float is divided by 255; big_endian: the byte order of src. No
 * alignment is needed. Returns MSCRT_CONVERTED, or the first element whose value does not fit. */
int64_t mscrt_convert(mscrt_dtype to, void *dst, int64_t dst_stride, mscrt_dtype from, const void *src, bool big_endian,
                      bool scale, int64_t num);
#define MSCRT_SHAPE_TEXT 192
/* Writes a shape as "[32,784]"; returns buffer. */
const char *mscrt_shape_text(int rank, const int64_t *shape, char buffer[MSCRT_SHAPE_TEXT]);
/* The product of the sizes times elem_bytes; false if a size is negative or the product does not fit 62 bits. */
bool mscrt_shape_bytes(int rank, const int64_t *shape, size_t elem_bytes, uint64_t *out_bytes);

/* ---- random.c ---- */

/* Philox4x32-10 (Salmon et al., 2011): out[4] of a counter and a key. */
void mscrt_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A permutation of 0 .. num-1 that is computed one element at a time. */
typedef struct {
  uint64_t num;
  int bits;          /* bits of each half of the Feistel network */
  uint32_t key[8];
} mscrt_order;
mscrt_order mscrt_order_of(uint64_t seed, uint64_t epoch, uint64_t num);
uint64_t mscrt_order_at(const mscrt_order *o, uint64_t i); /* the number at place i of the permutation */

#endif
