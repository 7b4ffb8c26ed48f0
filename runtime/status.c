/* status.c: failures of the runtime as values: a code, a line of text, and the places that it passed on its way up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/abi/path_fault.h"
#include "runtime/runtime.h"

struct mscrt_status {
  mscrt_code code;
  char *text, *trail;
};

static char no_memory_text[] = "out of memory", no_trail[] = "";
/* Returned if there is no memory for a status; never written, never freed. */
static const mscrt_status no_memory = {MSCRT_NO_MEMORY, no_memory_text, no_trail};

static mscrt_status *constant_status(void) { return (mscrt_status *)(uintptr_t)&no_memory; }

mscrt_code mscrt_status_code(const mscrt_status *s) { return s ? s->code : MSCRT_OK; }

int mscrt_status_exit(const mscrt_status *s) {
  static const unsigned char exits[] = {
#define X(name, exit) exit,
    MSCRT_STATUSES(X)
#undef X
  };
  return exits[mscrt_status_code(s)];
}

const char *mscrt_status_text(const mscrt_status *s) { return s ? s->text : "ok"; }
const char *mscrt_status_trail(const mscrt_status *s) { return s ? s->trail : ""; }

void mscrt_status_free(mscrt_status *s) {
  if (!s || s == &no_memory) return;
  free(s->text);
  free(s->trail);
  free(s);
}

static char *concatenate(const char *a, const char *b) {
  char *text = malloc(strlen(a) + strlen(b) + 1);
  if (text) strcat(strcpy(text, a), b);
  return text;
}

mscrt_status *mscrt_add_to_trail(mscrt_status *s, const char *file, int line) {
  if (!s || s == &no_memory) return s;
  char place[128];
  snprintf(place, sizeof place, "  at %s:%d\n", file, line);
  char *trail = concatenate(s->trail, place);
  if (!trail) return s;
  free(s->trail);
  s->trail = trail;
  return s;
}

mscrt_status *mscrt_fail_at(mscrt_code code, const char *file, int line, const char *fmt, ...) {
  mscrt_status *s = calloc(1, sizeof *s);
  if (!s) return constant_status();
  s->code = code;
  va_list ap;
  va_start(ap, fmt);
  if (vasprintf(&s->text, fmt, ap) < 0) s->text = NULL;
  va_end(ap);
  s->trail = strdup("");
  if (!s->text || !s->trail) {
    mscrt_status_free(s);
    return constant_status();
  }
  return mscrt_add_to_trail(s, file, line);
}

mscrt_status *mscrt_fail_path_at(const char *file, int line, const char *path, const char *what) {
  int error = errno;
  return mscrt_fail_at(msc_is_path_fault(error) ? MSCRT_INPUT : MSCRT_ENVIRONMENT, file, line, "%s: %s: %s", path,
                       what, strerror(error));
}

mscrt_status *mscrt_change_code(mscrt_status *s, mscrt_code code) {
  if (s && s != &no_memory) s->code = code;
  return s;
}

mscrt_status *mscrt_add_prefix(mscrt_status *s, const char *fmt, ...) {
  if (!s || s == &no_memory) return s;
  char *prefix = NULL, *text = NULL;
  va_list ap;
  va_start(ap, fmt);
  if (vasprintf(&prefix, fmt, ap) < 0) prefix = NULL;
  va_end(ap);
  if (!prefix || asprintf(&text, "%s: %s", prefix, s->text) < 0) text = NULL;
  free(prefix);
  if (!text) return s;
  free(s->text);
  s->text = text;
  return s;
}

mscrt_status *mscrt_allocate(void **out_memory, size_t num, size_t bytes) {
  *out_memory = calloc(num ? num : 1, bytes);
  return *out_memory ? NULL : constant_status();
}

mscrt_status *mscrt_grow(void *array, int64_t num, int64_t *room, size_t bytes) {
  if (num < *room) return NULL;
  int64_t more = *room ? 2 * *room : 16;
  void *grown = realloc(*(void **)array, (size_t)more * bytes);
  if (!grown) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  *(void **)array = grown;
  *room = more;
  return NULL;
}

bool mscrt_grow_bytes(uint8_t **buffer, size_t *room, size_t need) {
  if (need <= *room) return true;
  size_t bytes = need < 4096 ? 4096 : need + need / 2;
  uint8_t *grown = realloc(*buffer, bytes);
  if (grown) *buffer = grown, *room = bytes;
  return grown;
}

const char *mscrt_clean_text(const char *text, size_t bytes, char *buffer, size_t buffer_bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes && text[i] && n + 4 < buffer_bytes; i++)
    buffer[n++] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
  buffer[n] = 0;
  if (n < bytes && text[n]) strcpy(buffer + n, "...");
  return buffer;
}
