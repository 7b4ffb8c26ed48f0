/* blob.c: the bytes of a file, of memory, or of a gzip file inflated into memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data/data.h"

mscrt_status *mscrt_blob_open(const char *path, mscrt_blob *out_blob) {
  *out_blob = (mscrt_blob){.fd = -1};
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* opening a pipe that nobody writes must not block */
  if (fd < 0) return mscrt_fail(MSCRT_INPUT, "%s: cannot open: %s", path, strerror(errno));
  struct stat st;
  mscrt_status *s = NULL;
  char *copy = strdup(path);
  if (fstat(fd, &st) != 0) s = mscrt_fail(MSCRT_ENVIRONMENT, "%s: %s", path, strerror(errno));
  else if (!S_ISREG(st.st_mode)) s = mscrt_fail(MSCRT_INPUT, "%s: not a regular file", path);
  else if (!copy) s = mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", path);
  if (s) {
    free(copy);
    close(fd);
    return s;
  }
  *out_blob = (mscrt_blob){.path = copy, .fd = fd, .bytes = (uint64_t)st.st_size};
  return NULL;
}

mscrt_status *mscrt_blob_of(const void *data, size_t bytes, mscrt_blob *out_blob) {
  *out_blob = (mscrt_blob){.path = strdup("memory"), .fd = -1, .memory = data, .bytes = bytes};
  return out_blob->path ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

void mscrt_blob_close(mscrt_blob *b) {
  if (!b->path) return;
  if (b->fd >= 0) close(b->fd);
  free(b->own);
  free((void *)(uintptr_t)b->path);
  *b = (mscrt_blob){.fd = -1};
}

mscrt_status *mscrt_blob_read(const mscrt_blob *b, uint64_t at, void *out, size_t num) {
  if (at > b->bytes || num > b->bytes - at)
    return mscrt_bad_file(b, "truncated: bytes %" PRIu64 " .. %" PRIu64 " are needed, the file has %" PRIu64, at,
                          at + num, b->bytes);
  if (b->fd < 0) {
    if (num) memcpy(out, b->memory + at, num);
    return NULL;
  }
  for (size_t done = 0; done < num;) {
    ssize_t n = pread(b->fd, (char *)out + done, num - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: cannot read: %s", b->path, strerror(errno));
    if (n == 0) return mscrt_bad_file(b, "the file was cut to %" PRIu64 " bytes while it was in use", at + done);
    done += (size_t)n;
  }
  return NULL;
}

static void move_to_memory(mscrt_blob *b, uint8_t *memory, uint64_t bytes) {
  if (b->fd >= 0) close(b->fd);
  free(b->own);
  b->fd = -1;
  b->memory = b->own = memory;
  b->bytes = bytes;
}

mscrt_status *mscrt_blob_keep(mscrt_blob *b) {
  if (b->fd < 0 || b->bytes > MSCRT_KEPT_BYTES) return NULL;
  uint8_t *memory = malloc(b->bytes ? (size_t)b->bytes : 1);
  mscrt_status *s = memory ? mscrt_blob_read(b, 0, memory, (size_t)b->bytes)
                           : mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", b->path);
  if (!s) move_to_memory(b, memory, b->bytes);
  else free(memory);
  return s;
}

/* ---- gzip ---- */

#define CHUNK 65536

typedef struct {
  const mscrt_blob *b;
  z_stream z;
  uint8_t *input;   /* CHUNK bytes */
  uint64_t at;      /* bytes of the file read so far */
  uint8_t *memory;  /* `used` of its `room` bytes are inflated */
  size_t room, used;
  uint64_t most;    /* most inflated bytes that are wanted */
} inflation;

static mscrt_status *grow_inflated(inflation *f) {
  if (f->room > f->used) return NULL;
  uint64_t need = f->used + 16 * CHUNK;
  if (mscrt_grow_bytes(&f->memory, &f->room, need < f->most ? need : f->most)) return NULL;
  return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory after inflating %zu bytes", f->b->path, f->used);
}

static mscrt_status *read_more(inflation *f) {
  uint64_t left = f->b->bytes - f->at;
  size_t num = left < CHUNK ? (size_t)left : CHUNK;
  MSCRT_CHECK(mscrt_blob_read(f->b, f->at, f->input, num));
  f->at += num;
  f->z.next_in = f->input;
  f->z.avail_in = (uInt)num;
  return NULL;
}

/* Inflates the members of the file one after the other, as gzip does, until `most` bytes are there or the file ends. */
static mscrt_status *inflate_all(inflation *f) {
  z_stream *z = &f->z;
  int state = Z_OK;
  while (f->used < f->most) {
    if (z->avail_in == 0 && f->at == f->b->bytes) break;
    if (z->avail_in == 0) MSCRT_CHECK(read_more(f));
    if (state == Z_STREAM_END && inflateReset(z) != Z_OK)
      return mscrt_fail(MSCRT_BUG, "%s: zlib cannot be reset", f->b->path);
    MSCRT_CHECK(grow_inflated(f));
    z->next_out = f->memory + f->used;
    uint64_t left = (f->room < f->most ? f->room : f->most) - f->used;
    z->avail_out = (uInt)(left > UINT32_MAX / 2 ? UINT32_MAX / 2 : left);
    uInt before = z->avail_out;
    state = inflate(z, Z_NO_FLUSH);
    f->used += before - z->avail_out;
    if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
      return mscrt_bad_file(f->b, "gzip data is damaged: %s", z->msg ? z->msg : "unknown reason");
  }
  bool ends = state == Z_STREAM_END || f->used == f->most;
  return ends ? NULL : mscrt_bad_file(f->b, "truncated: gzip data ends after %zu inflated bytes", f->used);
}

/* Inflates the first `most` bytes of a gzip file, or all if there are fewer; the caller frees them. */
static mscrt_status *inflate_at_most(const mscrt_blob *b, uint64_t most, uint8_t **out_memory, size_t *out_bytes) {
  inflation f = {.b = b, .input = malloc(CHUNK), .most = most};
  if (!f.input || inflateInit2(&f.z, 16 + MAX_WBITS) != Z_OK) {
    free(f.input);
    return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", b->path);
  }
  mscrt_status *s = inflate_all(&f);
  inflateEnd(&f.z);
  free(f.input);
  uint8_t *fitted = s ? NULL : realloc(f.memory, f.used ? f.used : 1);
  if (s) free(f.memory);
  *out_memory = fitted ? fitted : f.memory;
  *out_bytes = f.used;
  return s;
}

mscrt_status *mscrt_blob_inflate(mscrt_blob *b, uint64_t most) {
  uint8_t *memory;
  size_t bytes;
  MSCRT_CHECK(inflate_at_most(b, most + 1, &memory, &bytes));
  if (bytes <= most) {
    move_to_memory(b, memory, bytes);
    return NULL;
  }
  free(memory);
  return mscrt_bad_file(b, "more than %" PRIu64 " bytes are compressed in it", most);
}

mscrt_status *mscrt_blob_inflate_head(const mscrt_blob *b, mscrt_blob *out_head) {
  uint8_t *memory;
  size_t bytes;
  MSCRT_CHECK(inflate_at_most(b, MSCRT_HEAD_BYTES, &memory, &bytes));
  *out_head =
      (mscrt_blob){.path = strdup(b->path), .fd = -1, .memory = memory, .own = memory, .bytes = bytes, .cut = true};
  if (out_head->path) return NULL;
  free(memory);
  return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

/* ---- arrays ---- */

mscrt_status *mscrt_array_fills(const mscrt_blob *b, const char *format, const mscrt_array *a) {
  char shape[MSCRT_SHAPE_TEXT];
  if (b->cut) return NULL;
  mscrt_shape_text(a->rank, a->dim, shape);
  if (a->bytes > b->bytes - a->at)
    return mscrt_bad_file(b, "truncated: shape %s needs %" PRIu64 " bytes after the header, the file has %" PRIu64,
                          shape, a->bytes, b->bytes - a->at);
  if (a->bytes < b->bytes - a->at)
    return mscrt_bad_file(b, "%s: %" PRIu64 " bytes follow the data of shape %s", format, b->bytes - a->at - a->bytes,
                          shape);
  return NULL;
}
