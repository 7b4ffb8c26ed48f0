/* data_blob.c: bytes of a file, of memory, or of a gzip file that is inflated into memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data.h"

mscrt_status *mscrt_blob_open(const char *path, mscrt_blob *out_blob) {
  *out_blob = (mscrt_blob){.fd = -1};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
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
    return mscrt_bad_file(b, "truncated: bytes %" PRIu64 " .. %" PRIu64 " are needed, the file has %" PRIu64, at, at + num, b->bytes);
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

static void take_memory(mscrt_blob *b, uint8_t *memory, uint64_t bytes) {
  if (b->fd >= 0) close(b->fd);
  free(b->own);
  b->fd = -1;
  b->memory = b->own = memory;
  b->bytes = bytes;
}

mscrt_status *mscrt_blob_keep(mscrt_blob *b) {
  if (b->fd < 0 || b->bytes > MSCRT_KEPT_BYTES) return NULL;
  uint8_t *memory = malloc(b->bytes ? (size_t)b->bytes : 1);
  mscrt_status *s = memory ? mscrt_blob_read(b, 0, memory, (size_t)b->bytes) : mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", b->path);
  if (!s) take_memory(b, memory, b->bytes);
  else free(memory);
  return s;
}

/* ---- gzip ---- */

#define CHUNK 65536
#define MAX_INFLATED ((uint64_t)8 << 30)

static mscrt_status *grow(const mscrt_blob *b, uint8_t **memory, size_t *room, size_t used) {
  if (*room - used >= CHUNK) return NULL;
  if (*room >= MAX_INFLATED) return mscrt_bad_file(b, "holds more than %" PRIu64 " bytes; inflate it with gunzip first", MAX_INFLATED);
  size_t bytes = *room ? 2 * *room : 16 * CHUNK;
  uint8_t *more = realloc(*memory, bytes);
  if (!more) return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory after inflating %zu bytes", b->path, used);
  *memory = more;
  *room = bytes;
  return NULL;
}

/* Inflates one member after the other, as gzip does. */
static mscrt_status *inflate_all(const mscrt_blob *b, z_stream *z, uint8_t *input, uint8_t **memory, size_t *room, size_t *used) {
  uint64_t at = 0;
  int state = Z_OK;
  for (;;) {
    if (z->avail_in == 0) {
      uint64_t left = b->bytes - at;
      if (left == 0) break;
      size_t num = left < CHUNK ? (size_t)left : CHUNK;
      MSCRT_CHECK(mscrt_blob_read(b, at, input, num));
      at += num;
      z->next_in = input;
      z->avail_in = (uInt)num;
    }
    if (state == Z_STREAM_END && inflateReset(z) != Z_OK) return mscrt_fail(MSCRT_BUG, "%s: zlib cannot be reset", b->path);
    MSCRT_CHECK(grow(b, memory, room, *used));
    z->next_out = *memory + *used;
    z->avail_out = (uInt)(*room - *used > UINT32_MAX / 2 ? UINT32_MAX / 2 : *room - *used);
    uInt before = z->avail_out;
    state = inflate(z, Z_NO_FLUSH);
    *used += before - z->avail_out;
    if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
      return mscrt_bad_file(b, "gzip data is damaged: %s", z->msg ? z->msg : "unknown reason");
  }
  return state == Z_STREAM_END ? NULL : mscrt_bad_file(b, "truncated: gzip data ends after %zu inflated bytes", *used);
}

mscrt_status *mscrt_blob_inflate(mscrt_blob *b) {
  uint8_t *memory = NULL, *input = malloc(CHUNK);
  size_t room = 0, used = 0;
  z_stream z = {0};
  if (!input || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) {
    free(input);
    return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", b->path);
  }
  mscrt_status *s = inflate_all(b, &z, input, &memory, &room, &used);
  inflateEnd(&z);
  free(input);
  uint8_t *fitted = s ? NULL : realloc(memory, used ? used : 1);
  if (s) {
    free(memory);
    return s;
  }
  take_memory(b, fitted ? fitted : memory, used);
  return NULL;
}
