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

/* In CUDA_HOME, where it is said, else where the toolkit usually is. */
static const char *find_ptxas(msc_arena *arena) {
  const char *path = getenv("PATH"), *home = getenv("CUDA_HOME");
  const char *list = msc_arena_printf(arena, "%s:%s/bin", path ? path : "", home ? home : "/usr/local/cuda");
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ":");
    const char *file = msc_arena_printf(arena, "%.*s/ptxas", (int)n, at);
    if (n && access(file, X_OK) == 0) return file;
    at += n + (at[n] == ':');
  }
  return NULL;
}

/* ---- GPUs that it may not know ---- */

static const char known[] = "sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121";

static bool is_known(int arch) {
  char name[16];
  snprintf(name, sizeof name, "sm_%d", arch);
  const char *at = strstr(known, name);
  while (at && at[strlen(name)] != ',' && at[strlen(name)]) at = strstr(at + 1, name);
  return at != NULL;
}

/* PTX is enough: the GPU's driver compiles it. */
static bool do_without(msc_context *ctx, int arch, const char *why) {
  if (!is_known(arch)) return msc_error(ctx, MSC_E_TARGET, NULL, "no architecture sm_%d is known; there are %s (%s)", arch, known, why);
  msc_warning(ctx, MSC_E_TARGET, NULL, "the plan has no machine code for sm_%d, only PTX, which the GPU's driver compiles when it is loaded: %s", arch, why);
  return true;
}

/* ---- running it ---- */

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

/* "Cuda compilation tools, release 13.0, V13.0.88": the last word. */
static const char *version_of(msc_arena *arena, const char *program, int log) {
  char *argument[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--version", NULL};
  size_t bytes;
  const char *text = run(program, argument, log) == 0 ? read_all(arena, log, &bytes) : NULL, *release = text ? strstr(text, "release ") : NULL;
  const char *version = release ? strstr(release, ", V") : NULL;
  return version ? msc_arena_printf(arena, "%.*s", (int)strcspn(version + 3, " \n"), version + 3) : "of no version";
}

/* Its first line, which may be long. */
static const char *told(msc_arena *arena, const char *program, int log, int code) {
  size_t bytes = 0;
  const char *text = read_all(arena, log, &bytes);
  return msc_arena_printf(arena, "%s failed with exit code %d%s%.*s", program, code, bytes ? ": " : "", (int)strcspn(text ? text : "", "\n"), text ? text : "");
}

enum { TEXT, CODE, MESSAGES, VERSION, NUM_FILES };

static bool assemble(msc_context *ctx, msc_arena *arena, const char *program, const msc_image *ptx, int arch, temporary *file, msc_image *out, bool *out_made) {
  const char *option = msc_arena_printf(arena, "-arch=sm_%d", arch);
  char *argument[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)option, (char *)(uintptr_t) "-O3", file[TEXT].path, (char *)(uintptr_t) "-o", file[CODE].path, NULL};
  if (!write_all(file[TEXT].fd, ptx->bytes, ptx->num_bytes - 1)) return msc_error(ctx, MSC_E_TARGET, NULL, "ptxas: %s: %s", file[TEXT].path, strerror(errno));
  int code = run(program, argument, file[MESSAGES].fd);
  if (code != 0) return do_without(ctx, arch, told(arena, program, file[MESSAGES].fd, code));
  int fd = open(file[CODE].path, O_RDONLY | O_CLOEXEC); /* the program may have made it anew */
  out->bytes = fd >= 0 ? read_all(arena, fd, &out->num_bytes) : NULL;
  if (fd >= 0) close(fd);
  *out_made = out->bytes && out->num_bytes >= 64; /* an ELF header */
  return *out_made || do_without(ctx, arch, msc_arena_printf(arena, "%s made nothing", program));
}

bool msc_ptxas(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_image *out, bool *out_made) {
  const char *program = find_ptxas(arena);
  temporary file[NUM_FILES] = {{.fd = -1}, {.fd = -1}, {.fd = -1}, {.fd = -1}};
  *out_made = false;
  if (!program) return do_without(ctx, arch, "there is no ptxas in PATH, nor in CUDA_HOME/bin");
  bool ok = true;
  for (int i = 0; i < NUM_FILES && ok; i++) ok = open_temporary(ctx, &file[i]);
  if (ok) *out = (msc_image){.arch = arch, .is_cubin = true, .made_by = msc_arena_printf(arena, "%s, ptxas %s -O3", ptx->made_by, version_of(arena, program, file[VERSION].fd))};
  ok = ok && assemble(ctx, arena, program, ptx, arch, file, out, out_made);
  for (int i = 0; i < NUM_FILES; i++) close_temporary(&file[i]);
  return ok;
}
