/* weights.c: files beside a model that another tool wrote in; weights of parameters as a safetensors file out. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "tools/cli.h"

/* ---- reading beside a model ---- */

/* Opens `path` below the folder, one component after the other, and follows no link: nothing outside of the folder can
 * be reached.  -1 after setting *why. */
static int open_below(const char *folder, const char *path, const char **why) {
  char name[256];
  int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *why = at < 0 ? "cannot be opened: the model's folder cannot" : NULL;
  for (const char *p = path; at >= 0;) {
    size_t n = strcspn(p, "/");
    bool last = !p[n];
    if (n == 0 || n >= sizeof name || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
      *why = "leaves the model's folder; it must be relative, without '..'";
      break;
    }
    memcpy(name, p, n), name[n] = 0;
    int flags = last ? O_RDONLY | O_NONBLOCK : O_RDONLY | O_DIRECTORY;
    int next = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    close(at);
    at = next;
    if (at < 0)
      *why = error == ELOOP || error == ENOTDIR ? "is or goes through a link, which is not followed"
             : error == ENOENT                  ? "does not exist"
                                                : "cannot be opened";
    if (last) return at;
    p += n + 1;
  }
  if (at >= 0) close(at);
  return -1;
}

/* Returns NULL, or what is wrong, to follow the file's name. */
static const char *read_range(cli *c, int fd, uint64_t offset, uint64_t bytes, const void **out_data) {
  struct stat s;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return "is no file";
  if (offset > (uint64_t)s.st_size || bytes > (uint64_t)s.st_size - offset) return "ends before the tensor does";
  char *data = msc_arena_alloc(msc_context_arena(c->ctx), (size_t)bytes + 1);
  for (uint64_t have = 0; have < bytes;) {
    ssize_t n = pread(fd, data + have, (size_t)(bytes - have), (off_t)(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return "cannot be read";
    have += (uint64_t)n;
  }
  *out_data = data;
  return NULL;
}

typedef struct {
  cli *c;
  const char *folder;
} beside;

static const char *read_weights_beside(void *user, const char *path, uint64_t offset, uint64_t bytes,
                                       const void **out_data) {
  const beside *b = user;
  const char *why;
  int fd = open_below(b->folder, path, &why);
  if (fd < 0) return why;
  why = read_range(b->c, fd, offset, bytes, out_data);
  close(fd);
  if (!why) cli_note_input(b->c, msc_arena_printf(msc_context_arena(b->c->ctx), "%s/%s", b->folder, path));
  return why;
}

void cli_read_beside(cli *c, msc_model_bytes *model) {
  const char *slash = strrchr(model->name, '/');
  beside *b = msc_new(msc_context_arena(c->ctx), beside);
  b->c = c;
  b->folder = !slash                 ? "."
              : slash == model->name ? "/"
                                     : msc_intern_n(c->ctx, model->name, (size_t)(slash - model->name));
  model->read_beside = read_weights_beside, model->user = b;
}

/* ---- writing weights ---- */

/* Writes text as a JSON string: quotes, backslashes and control characters escaped. */
static void put_text(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') fprintf(out, "\\%c", *p);
    else if (*p < 32) fprintf(out, "\\u%04x", *p);
    else fputc(*p, out);
  }
  fputc('"', out);
}

static char *header_of(const msc_weights *w, size_t *out_bytes) {
  char *text = NULL;
  uint64_t at = 0;
  FILE *out = open_memstream(&text, out_bytes);
  if (!out) return NULL;
  fputc('{', out);
  for (size_t i = 0; i < w->num; i++) {
    const msc_type *t = w->item[i].type;
    uint64_t end = at + (uint64_t)msc_type_bytes(t);
    fputs(i ? "," : "", out);
    put_text(out, w->item[i].name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", mscrt_safetensors_dtype((mscrt_dtype)t->dtype));
    for (int d = 0; d < t->rank; d++) fprintf(out, "%s%" PRId64, d ? "," : "", t->dim[d]);
    fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
    at = end;
  }
  fputc('}', out);
  while (ftell(out) % 8) fputc(' ', out);
  if (fclose(out)) return free(text), NULL;
  return text;
}

int cli_write_weights(cli *c, const char *path, const msc_weights *w) {
  size_t bytes;
  char *header = header_of(w, &bytes);
  cli_output *out = header ? cli_open(c, path) : NULL;
  if (!out) return free(header), CLI_INPUT;
  uint64_t length = bytes; /* little endian, as elements are */
  cli_write(out, (const char *)&length, sizeof length);
  cli_write(out, header, bytes);
  free(header);
  for (size_t i = 0; i < w->num; i++) cli_write(out, w->item[i].data, (size_t)msc_type_bytes(w->item[i].type));
  return cli_close(c, out);
}
