/* output.c: whole files in; outputs that appear under their name only when complete; the progress line. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli_state.h"

/* ---- reading ---- */

static bool read_failed(cli *c, const char *path, const char *reason) {
  return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, path), "cannot read: %s", reason);
}

/* Reads to the end; a size that fstat tells is only a first guess (pipes, files that grow). */
static bool read_all(cli *c, int fd, const char *path, size_t guess, cli_bytes *out_bytes) {
  msc_arena *arena = msc_context_arena(c->ctx);
  size_t room = guess + 1, size = 0;
  char *data = msc_arena_alloc(arena, room + 64 + 1);
  data += -(uintptr_t)data & 63;
  for (;;) {
    ssize_t n = read(fd, data + size, room - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return read_failed(c, path, strerror(errno));
    if (n == 0) break;
    size += (size_t)n;
    if (size < room) continue;
    char *more = msc_arena_alloc(arena, room * 2 + 64 + 1);
    more += -(uintptr_t)more & 63;
    memcpy(more, data, size);
    data = more;
    room *= 2;
  }
  data[size] = 0;
  *out_bytes = (cli_bytes){data, size};
  return true;
}

bool cli_read(cli *c, const char *path, cli_bytes *out_bytes) {
  if (!strcmp(path, "-")) return read_all(c, STDIN_FILENO, "<stdin>", 64 * 1024, out_bytes);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return read_failed(c, path, strerror(errno));
  struct stat info;
  bool ok = false;
  if (fstat(fd, &info) != 0)
    read_failed(c, path, strerror(errno));
  else if (S_ISDIR(info.st_mode))
    read_failed(c, path, "it is a folder");
  else
    ok = read_all(c, fd, path, S_ISREG(info.st_mode) ? (size_t)info.st_size : 64 * 1024, out_bytes);
  close(fd);
  return ok;
}

/* ---- writing ---- */

struct cli_output {
  cli_output *next;
  FILE *file;
  const char *path;      /* as the user gave it; NULL: stdout */
  const char *target;    /* path with links followed */
  char *temporary;       /* NULL: written in place (stdout, devices, pipes) */
  int slot;              /* in `pending` */
  int error;             /* errno of the first failure */
};

/* Temporary names to be removed by a signal handler. */
enum { MAX_PENDING = 16 };
static const char *volatile pending[MAX_PENDING];

void cli_remove_temporaries(void) {
  for (int i = 0; i < MAX_PENDING; i++)
    if (pending[i]) unlink(pending[i]);
}

static void on_end(int number) {
  cli_remove_temporaries();
  signal(number, SIG_DFL);
  raise(number);
}

/* Signals that nobody handles yet remove the temporary files before they end the program. */
static void catch_end(void) {
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old, action = {.sa_handler = on_end};
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(signals[i], &action, NULL);
  }
}

static bool write_failed(cli *c, const char *path, int error) {
  return msc_error(c->ctx, MSC_E_FILE, path ? cli_loc(c, path) : NULL, "cannot write%s: %s", path ? "" : " to stdout", strerror(error));
}

static int take_slot(const char *temporary) {
  for (int i = 0; i < MAX_PENDING; i++)
    if (!pending[i]) {
      pending[i] = temporary;
      return i;
    }
  return -1;
}

/* A new file beside the target with the permissions the target has or would get. */
static bool open_temporary(cli *c, cli_output *out) {
  msc_arena *arena = msc_context_arena(c->ctx);
  const char *slash = strrchr(out->target, '/');
  int folder = slash ? (int)(slash - out->target) + 1 : 0;
  out->temporary = msc_arena_printf(arena, "%.*s.%s.XXXXXX", folder, out->target, out->target + folder);
  catch_end();
  signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is a failed write */
  int fd = mkostemp(out->temporary, O_CLOEXEC);
  if (fd < 0) return write_failed(c, out->path, errno);
  out->slot = take_slot(out->temporary);
  struct stat info;
  mode_t mask = umask(0);
  umask(mask);
  mode_t mode = stat(out->target, &info) == 0 ? info.st_mode & 0777 : 0666 & ~mask;
  if (fchmod(fd, mode) == 0 && (out->file = fdopen(fd, "wb"))) return true;
  int error = errno;
  close(fd);
  unlink(out->temporary);
  if (out->slot >= 0) pending[out->slot] = NULL;
  return write_failed(c, out->path, error);
}

cli_output *cli_open(cli *c, const char *path) {
  cli_output *out = msc_new(msc_context_arena(c->ctx), cli_output);
  out->slot = -1;
  if (!path || !strcmp(path, "-")) {
    out->file = stdout;
    return out;
  }
  out->path = out->target = path;
  struct stat info;
  bool exists = stat(path, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return write_failed(c, path, EISDIR), NULL;
  if (exists && !S_ISREG(info.st_mode)) {
    out->file = fopen(path, "wbe");
    if (!out->file) return write_failed(c, path, errno), NULL;
  } else {
    char *real = exists ? realpath(path, NULL) : NULL;
    if (real) out->target = msc_arena_printf(msc_context_arena(c->ctx), "%s", real);
    free(real);
    if (!open_temporary(c, out)) return NULL;
  }
  out->next = c->state->outputs;
  c->state->outputs = out;
  return out;
}

void cli_write(void *output, const char *data, size_t bytes) {
  cli_output *out = output;
  if (bytes && !out->error && fwrite(data, 1, bytes, out->file) != bytes) out->error = errno ? errno : EIO;
}

void cli_printf(cli_output *out, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!out->error && vfprintf(out->file, fmt, ap) < 0) out->error = errno ? errno : EIO;
  va_end(ap);
}

static void sync_folder(const char *path) {
  char folder[4096];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd); /* some file systems cannot; the data itself is safe */
  close(fd);
}

static void forget(cli *c, cli_output *out) {
  for (cli_output **p = &c->state->outputs; *p; p = &(*p)->next)
    if (*p == out) {
      *p = out->next;
      break;
    }
  if (out->slot >= 0) pending[out->slot] = NULL;
}

int cli_close(cli *c, cli_output *out) {
  if (fflush(out->file) != 0 && !out->error) out->error = errno;
  if (out->temporary && !out->error && fsync(fileno(out->file)) != 0) out->error = errno;
  if (out->path && fclose(out->file) != 0 && !out->error) out->error = errno;
  if (out->temporary && !out->error && rename(out->temporary, out->target) != 0) out->error = errno;
  if (out->temporary && !out->error) sync_folder(out->target);
  if (out->temporary && out->error) unlink(out->temporary);
  forget(c, out);
  if (!out->error) return CLI_OK;
  if (!out->path && out->error == EPIPE) return CLI_ENVIRONMENT;
  write_failed(c, out->path, out->error);
  bool is_environment = out->error == ENOSPC || out->error == EDQUOT || out->error == EFBIG || out->error == EIO;
  return is_environment ? CLI_ENVIRONMENT : CLI_INPUT;
}

void cli_discard_outputs(cli *c) {
  while (c->state->outputs) {
    cli_output *out = c->state->outputs;
    fclose(out->file);
    if (out->temporary) unlink(out->temporary);
    forget(c, out);
  }
}

int cli_write_file(cli *c, const char *path, const char *data, size_t bytes) {
  cli_output *out = cli_open(c, path);
  if (!out) return CLI_INPUT;
  cli_write(out, data, bytes);
  return cli_close(c, out);
}

bool cli_make_folder(cli *c, const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
  return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, path), "cannot make the folder: %s", strerror(errno));
}

/* ---- progress ---- */

int64_t cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

enum { PROGRESS_AFTER_MS = 1000, PROGRESS_EVERY_MS = 100 };

void cli_progress(cli *c, const char *fmt, ...) {
  int64_t now = cli_now_ns();
  if (now - c->state->started_ns < PROGRESS_AFTER_MS * INT64_C(1000000)) return;
  if (now - c->state->progress_ns < PROGRESS_EVERY_MS * INT64_C(1000000)) return;
  c->state->progress_ns = now;
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r\033[K");
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fflush(stderr);
  c->state->progress_shown = true;
}

void cli_progress_done(cli *c) {
  if (c->state->progress_shown) fprintf(stderr, "\r\033[K");
  c->state->progress_shown = false;
}
