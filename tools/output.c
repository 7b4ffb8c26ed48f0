/* output.c: whole files in; outputs that appear under their name only when complete; the progress line. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/abi/clock.h"
#include "ir/abi/path_fault.h"
#include "tools/cli_state.h"

const msc_loc *cli_loc(cli *c, const char *path) {
  msc_loc loc = {.file = msc_intern(c->ctx, strcmp(path, "-") ? path : "<stdin>")};
  return msc_loc_of(c->ctx, &loc);
}

/* ---- the inputs and outputs of the command ---- */

struct cli_known_file {
  cli_known_file *next;
  dev_t device;
  ino_t number;     /* of the file, or, while it is not there, of its folder */
  const char *name; /* in that folder; "": the file is there */
  const char *path; /* as the user gave it */
  bool written;     /* by this command, else read */
  bool claimed;     /* only to be written, later */
};

/* Returns the path that a link leads to, even if no file is there yet; `path` itself if it is no link. */
static const char *end_of_links(cli *c, const char *path) {
  enum { MOST_LINKS = 40 };
  msc_arena *arena = msc_context_arena(c->ctx);
  char to[PATH_MAX];
  for (int i = 0; i < MOST_LINKS; i++) {
    ssize_t n = readlink(path, to, sizeof to);
    if (n < 0 || n == (ssize_t)sizeof to) return path;
    const char *slash = strrchr(path, '/');
    int folder = *to == '/' || !slash ? 0 : (int)(slash - path) + 1;
    path = msc_arena_printf(arena, "%.*s%.*s", folder, path, (int)n, to);
  }
  return path;
}

static void note(cli *c, cli_known_file f) {
  f.next = c->state->known;
  c->state->known = msc_new(msc_context_arena(c->ctx), cli_known_file);
  *c->state->known = f;
}

static void note_file(cli *c, const char *path, const struct stat *info, bool written) {
  if (S_ISREG(info->st_mode)) note(c, (cli_known_file){NULL, info->st_dev, info->st_ino, "", path, written, false});
}

void cli_note_input(cli *c, const char *path) {
  struct stat info;
  if (stat(path, &info) == 0) note_file(c, path, &info, false);
}

/* Checks that `file` is none of the command's inputs and outputs, nor, with or_claimed, a claimed output; false after
 * a report. */
static bool check_unknown(cli *c, const char *path, const cli_known_file *file, bool or_claimed) {
  for (const cli_known_file *f = c->state->known; f; f = f->next) {
    if (f->device != file->device || f->number != file->number || strcmp(f->name, file->name) ||
        (f->claimed && !or_claimed))
      continue;
    return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, path), "cannot write: it is %s '%s' of this command",
                     f->written ? "the output" : "the input", f->path);
  }
  return true;
}

/* True if the command may write the file. False after a report: it is an input of this command, or the command has
 * written it already. */
static bool may_write(cli *c, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return true;
  return check_unknown(c, path, &(cli_known_file){.device = info.st_dev, .number = info.st_ino, .name = ""}, false);
}

bool cli_claim_output(cli *c, const char *path) {
  struct stat info;
  const char *target = path ? end_of_links(c, path) : NULL, *slash = target ? strrchr(target, '/') : NULL;
  if (!path || !strcmp(path, "-")) return true;
  bool exists = stat(target, &info) == 0;
  const char *folder =
      slash ? msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)(slash - target) + 1, target) : ".";
  if (exists ? !S_ISREG(info.st_mode) : stat(folder, &info) != 0) return true; /* cli_open tells what is wrong */
  cli_known_file f = {.device = info.st_dev,
                      .number = info.st_ino,
                      .name = exists ? "" : slash ? slash + 1 : target,
                      .path = path,
                      .written = true,
                      .claimed = true};
  MSC_TRY(check_unknown(c, path, &f, true));
  note(c, f);
  return true;
}

/* A dump's files are called 017-dce.mlir. */
static bool is_dumped(const char *name) { return strspn(name, "0123456789") == 3 && name[3] == '-'; }

bool cli_may_dump(cli *c, const char *folder) {
  struct stat into, from;
  signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is a failed write */
  if (stat(folder, &into) != 0) return true;
  for (const cli_known_file *f = c->state->known; f; f = f->next) {
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
    const char *parent =
        slash ? msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)(slash - f->path) + 1, f->path) : ".";
    if (!is_dumped(name) || stat(parent, &from) != 0 || from.st_dev != into.st_dev || from.st_ino != into.st_ino)
      continue;
    return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, folder),
                     "cannot dump here: '%s', the input of this command, is one of an earlier dump", f->path);
  }
  return true;
}

/* ---- reading ---- */

enum { PIPE_WAIT_MS = 5000, PIPE_POLL_MS = 20 };
#define MAX_FILE_BYTES ((size_t)INT32_MAX)      /* of a model or a plan, by their format */
#define MAX_DEVICE_BYTES ((size_t)16 << 20)     /* a terminal ends, /dev/null as well; others may not */

typedef struct {
  cli *c;
  const char *path;
  int fd;
  size_t guess, most;
  bool pipe; /* a named pipe, opened without waiting for a writer */
} source;

static bool read_failed(cli *c, const char *path, const char *reason) {
  return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, path), "cannot read: %s", reason);
}

/* Reads like read(): the number of bytes, 0 at the end, -1 with errno. On a named pipe it waits some seconds for
 * somebody to open it for writing. */
static ssize_t read_some(const source *s, char *data, size_t room, bool first) {
  for (int waited = 0;;) {
    ssize_t n = read(s->fd, data, room);
    if (n < 0 && errno == EINTR) continue;
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    if (n < 0 && errno == EAGAIN && s->pipe) {
      poll(&p, 1, -1);
      first = false;
    } else if (n == 0 && s->pipe && first && waited < PIPE_WAIT_MS) {
      poll(NULL, 0, PIPE_POLL_MS);
      waited += PIPE_POLL_MS;
    } else {
      if (n == 0 && s->pipe && first) errno = ETIMEDOUT;
      return n == 0 && s->pipe && first ? -1 : n;
    }
  }
}

static char *room_for(cli *c, size_t bytes) {
  char *data = msc_arena_alloc(msc_context_arena(c->ctx), bytes + 64 + 1);
  return data + (-(uintptr_t)data & 63);
}

/* Reads to the end; a size that fstat tells is only a first guess (pipes, files that grow). */
static bool read_to_end(const source *s, cli_bytes *out_bytes) {
  size_t room = s->guess + 1, size = 0;
  char *data = room_for(s->c, room);
  for (;;) {
    ssize_t n = read_some(s, data + size, room - size, size == 0);
    if (n < 0) return read_failed(s->c, s->path, errno == ETIMEDOUT ? "nobody writes into this pipe" : strerror(errno));
    if (n == 0) break;
    size += (size_t)n;
    if (size > s->most)
      return read_failed(s->c, s->path, msc_arena_printf(msc_context_arena(s->c->ctx), "more than %zu bytes", s->most));
    if (size < room) continue;
    char *more = room_for(s->c, room * 2);
    memcpy(more, data, size);
    data = more;
    room *= 2;
  }
  data[size] = 0;
  *out_bytes = (cli_bytes){data, size};
  return true;
}

/* Reads a source; how many bytes at most depends on the kind of file. */
static bool read_source(source *s, cli_bytes *out_bytes) {
  struct stat info;
  if (fstat(s->fd, &info) != 0) return read_failed(s->c, s->path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return read_failed(s->c, s->path, "it is a folder");
  bool regular = S_ISREG(info.st_mode), device = S_ISCHR(info.st_mode);
  if (!regular && !device && !S_ISFIFO(info.st_mode) && s->fd != STDIN_FILENO)
    return read_failed(s->c, s->path, "it is neither a file nor a pipe");
  s->most = device ? MAX_DEVICE_BYTES : MAX_FILE_BYTES;
  if (regular && (size_t)info.st_size > s->most)
    return read_failed(s->c, s->path,
                       msc_arena_printf(msc_context_arena(s->c->ctx), "it has more than %zu bytes", s->most));
  s->guess = regular ? (size_t)info.st_size : 64 * 1024;
  s->pipe = S_ISFIFO(info.st_mode) && s->fd != STDIN_FILENO;
  note_file(s->c, s->path, &info, false);
  return read_to_end(s, out_bytes);
}

bool cli_read(cli *c, const char *path, cli_bytes *out_bytes) {
  source s = {.c = c, .path = path, .fd = STDIN_FILENO};
  if (!strcmp(path, "-")) {
    s.path = "<stdin>";
    return read_source(&s, out_bytes);
  }
  s.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (s.fd < 0) return read_failed(c, path, strerror(errno));
  bool ok = read_source(&s, out_bytes);
  close(s.fd);
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

/* Installs handlers for signals that have none: they remove the temporary files before they end the program. */
static void catch_end(void) {
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old, action = {.sa_handler = on_end};
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(signals[i], &action, NULL);
  }
}

static bool write_failed(cli *c, const char *path, int error) {
  return msc_write_error(c->ctx, path ? cli_loc(c, path) : NULL, error, "cannot write%s", path ? "" : " to stdout");
}

static int take_slot(const char *temporary) {
  for (int i = 0; i < MAX_PENDING; i++)
    if (!pending[i]) {
      pending[i] = temporary;
      return i;
    }
  return -1;
}

/* Opens a new file in the folder of the target, with the permissions that the target has or would get. */
static bool open_temporary_output(cli *c, cli_output *out) {
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

/* A named pipe, opened when somebody reads from it; NULL with errno, ETIMEDOUT: for some seconds nobody did. */
static FILE *open_pipe(const char *path) {
  int fd, waited = 0;
  while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO && waited < PIPE_WAIT_MS) {
    poll(NULL, 0, PIPE_POLL_MS);
    waited += PIPE_POLL_MS;
  }
  if (fd < 0 && errno == ENXIO) errno = ETIMEDOUT;
  if (fd < 0) return NULL;
  fcntl(fd, F_SETFL, O_WRONLY);
  return fdopen(fd, "wb");
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
  if (!exists && errno == ELOOP) return write_failed(c, path, errno), NULL;
  if (!may_write(c, path)) return NULL;
  if (exists && !S_ISREG(info.st_mode)) {
    out->file = S_ISFIFO(info.st_mode) ? open_pipe(path) : fopen(path, "wbe");
    if (!out->file && errno == ETIMEDOUT)
      return msc_error(c->ctx, MSC_E_FILE, cli_loc(c, path), "cannot write: nobody reads from this pipe"), NULL;
    if (!out->file) return write_failed(c, path, errno), NULL;
  } else {
    out->target = end_of_links(c, path);
    if (!open_temporary_output(c, out)) return NULL;
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

static void forget_output(cli *c, cli_output *out) {
  for (cli_output **p = &c->state->outputs; *p; p = &(*p)->next)
    if (*p == out) {
      *p = out->next;
      break;
    }
  if (out->slot >= 0) pending[out->slot] = NULL;
}

int cli_close(cli *c, cli_output *out) {
  struct stat info;
  if (fflush(out->file) != 0 && !out->error) out->error = errno;
  if (out->temporary && !out->error && fsync(fileno(out->file)) != 0) out->error = errno;
  if (out->path && fclose(out->file) != 0 && !out->error) out->error = errno;
  if (out->temporary && !out->error && rename(out->temporary, out->target) != 0) out->error = errno;
  if (out->temporary && !out->error && stat(out->target, &info) == 0) note_file(c, out->path, &info, true);
  if (out->temporary && !out->error) sync_folder(out->target);
  if (out->temporary && out->error) unlink(out->temporary);
  forget_output(c, out);
  if (!out->error) return CLI_OK;
  if (!out->path && out->error == EPIPE) return CLI_ENVIRONMENT;
  write_failed(c, out->path, out->error);
  return msc_is_path_fault(out->error) ? CLI_INPUT : CLI_ENVIRONMENT;
}

void cli_discard_outputs(cli *c) {
  while (c->state->outputs) {
    cli_output *out = c->state->outputs;
    fclose(out->file);
    if (out->temporary) unlink(out->temporary);
    forget_output(c, out);
  }
}

int cli_write_file(cli *c, const char *path, const char *data, size_t bytes) {
  cli_output *out = cli_open(c, path);
  if (!out) return CLI_INPUT;
  cli_write(out, data, bytes);
  return cli_close(c, out);
}

bool cli_make_folder(cli *c, const char *path) {
  struct stat info;
  if (mkdir(path, 0777) == 0) return true;
  if (errno != EEXIST) return msc_write_error(c->ctx, cli_loc(c, path), errno, "cannot make the folder");
  if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) errno = ENOTDIR;
  else if (access(path, W_OK | X_OK) == 0) return true;
  return msc_write_error(c->ctx, cli_loc(c, path), errno, "cannot write into it");
}

/* ---- progress ---- */

int64_t cli_now_ns(void) { return (int64_t)msc_clock_ns(); }

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
