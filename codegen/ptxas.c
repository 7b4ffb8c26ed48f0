/* ptxas.c: see ptxas.h.  The text goes through two temporary files, which are gone afterwards. */
#include "codegen/ptxas.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *find_ptxas(msc_arena *arena) {
  const char *path = getenv("PATH"), *home = getenv("CUDA_HOME");
  const char *list = msc_arena_printf(arena, "%s:%s%s/usr/local/cuda/bin", path ? path : "", home ? home : "", home ? "/bin:" : "");
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ":");
    const char *file = msc_arena_printf(arena, "%.*s/ptxas", (int)n, at);
    if (n && access(file, X_OK) == 0) return file;
    at += n + (at[n] == ':');
  }
  return NULL;
}

typedef struct {
  char path[64];
  int fd;
} temporary;

static bool open_temporary(msc_context *ctx, temporary *t) {
  snprintf(t->path, sizeof t->path, "/tmp/msc-ptxas-XXXXXX");
  t->fd = mkstemp(t->path);
  return t->fd >= 0 || msc_error(ctx, MSC_E_TARGET, NULL, "ptxas: no temporary file: %s", strerror(errno));
}

static void close_temporary(temporary *t) {
  if (t->fd < 0) return;
  close(t->fd);
  unlink(t->path);
}

static bool write_all(int fd, const char *bytes, size_t num) {
  for (ssize_t n; num; bytes += n, num -= (size_t)n) {
    n = write(fd, bytes, num);
    if (n <= 0) return false;
  }
  return true;
}

static char *read_all(msc_arena *arena, int fd, size_t *out_num) {
  struct stat s;
  if (fstat(fd, &s) || lseek(fd, 0, SEEK_SET)) return NULL;
  char *bytes = msc_arena_alloc(arena, (size_t)s.st_size + 1);
  size_t num = 0;
  for (ssize_t n; num < (size_t)s.st_size && (n = read(fd, bytes + num, (size_t)s.st_size - num)) > 0;) num += (size_t)n;
  bytes[num] = 0;
  *out_num = num;
  return bytes;
}

extern char **environ;

/* The exit status; -1: it did not run.  What it says goes to `log`. */
static int run(const char *program, char *const *argument, int log) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log, 1);
  posix_spawn_file_actions_adddup2(&actions, log, 2);
  if (posix_spawn(&child, program, &actions, NULL, argument, environ) == 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  posix_spawn_file_actions_destroy(&actions);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool assemble(msc_context *ctx, msc_arena *arena, const char *program, const msc_image *ptx, int arch, temporary *file, msc_image *out) {
  const char *option = msc_arena_printf(arena, "-arch=sm_%d", arch);
  char *argument[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)option, (char *)(uintptr_t) "-O3", file[0].path, (char *)(uintptr_t) "-o", file[1].path, NULL};
  if (!write_all(file[0].fd, ptx->bytes, ptx->num_bytes - 1)) return msc_error(ctx, MSC_E_TARGET, NULL, "ptxas: %s: %s", file[0].path, strerror(errno));
  int code = run(program, argument, file[2].fd);
  size_t bytes;
  const char *text = read_all(arena, file[2].fd, &bytes);
  if (code != 0) return msc_error(ctx, MSC_E_TARGET, NULL, "%s -arch=sm_%d failed: %s", program, arch, text ? text : "");
  int fd = open(file[1].path, O_RDONLY | O_CLOEXEC); /* the program may have made it anew */
  out->bytes = fd >= 0 ? read_all(arena, fd, &out->num_bytes) : NULL;
  if (fd >= 0) close(fd);
  return out->bytes || msc_error(ctx, MSC_E_TARGET, NULL, "%s made nothing", program);
}

bool msc_ptxas(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_image *out, bool *out_made) {
  const char *program = find_ptxas(arena);
  temporary file[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}}; /* text, code, messages */
  *out_made = program != NULL;
  if (!program) return true;
  *out = (msc_image){.arch = arch, .is_cubin = true, .made_by = msc_arena_printf(arena, "%s, ptxas -O3", ptx->made_by)};
  bool ok = true;
  for (int i = 0; i < 3 && ok; i++) ok = open_temporary(ctx, &file[i]);
  ok = ok && assemble(ctx, arena, program, ptx, arch, file, out);
  for (int i = 0; i < 3; i++) close_temporary(&file[i]);
  return ok;
}
