/* ptxas.c: runs NVIDIA's assembler (see ptxas.h). The text goes through two temporary files, which are deleted
 * afterwards. */
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

/* Returns the path of ptxas: in CUDA_HOME if that is set, else where the toolkit usually is; NULL: there is none. */
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

static bool is_sm_known(int arch) {
  char name[16];
  snprintf(name, sizeof name, "sm_%d", arch);
  const char *at = strstr(known, name);
  while (at && at[strlen(name)] != ',' && at[strlen(name)]) at = strstr(at + 1, name);
  return at != NULL;
}

/* Warns that the plan gets no machine code.  PTX is enough: the driver compiles it. */
static bool warn_without_ptxas(msc_context *ctx, int arch, const char *why) {
  if (!is_sm_known(arch))
    return msc_error(ctx, MSC_E_TARGET, NULL, "no architecture sm_%d is known; there are %s (%s)", arch, known, why);
  msc_warning(ctx, MSC_E_TARGET, NULL,
              "the plan has no machine code for sm_%d, only PTX, which the GPU's driver compiles when it is loaded: %s",
              arch, why);
  return true;
}

/* ---- running it ---- */

typedef struct {
  char path[64];
  int fd;
} temporary;

static bool open_temporary_file(msc_context *ctx, temporary *t) {
  snprintf(t->path, sizeof t->path, "/tmp/msc-ptxas-XXXXXX");
  t->fd = mkostemp(t->path, O_CLOEXEC);
  return t->fd >= 0 || msc_error(ctx, MSC_E_TARGET, NULL, "ptxas: no temporary file: %s", strerror(errno));
}

static void close_temporary(temporary *t) {
  if (t->fd < 0) return;
  close(t->fd);
  unlink(t->path);
}

static bool write_fd(int fd, const char *bytes, size_t num) {
  for (ssize_t n; num; bytes += n, num -= (size_t)n) {
    n = write(fd, bytes, num);
    if (n <= 0) return false;
  }
  return true;
}

static char *read_fd(msc_arena *arena, int fd, size_t *out_num) {
  struct stat s;
  if (fstat(fd, &s) || lseek(fd, 0, SEEK_SET)) return NULL;
  char *bytes = msc_arena_alloc(arena, (size_t)s.st_size + 1);
  size_t num = 0;
  for (ssize_t n; num < (size_t)s.st_size && (n = read(fd, bytes + num, (size_t)s.st_size - num)) > 0;)
    num += (size_t)n;
  bytes[num] = 0;
  *out_num = num;
  return bytes;
}

extern char **environ;

/* Starts a program whose output goes to `log`; -1: it could not be started. */
static pid_t start_process(const char *program, char *const *argument, int log) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log, 1);
  posix_spawn_file_actions_adddup2(&actions, log, 2);
  if (posix_spawn(&child, program, &actions, NULL, argument, environ)) child = -1;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

/* Returns the exit status of the child; -1: a signal ended it. */
static int wait_for_exit(pid_t child) {
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns the version, the last word of ptxas' output: "Cuda compilation tools, release 13.0, V13.0.88". */
static const char *version_of(msc_arena *arena, const char *program, int log) {
  char *argument[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--version", NULL};
  size_t bytes;
  const char *text = wait_for_exit(start_process(program, argument, log)) == 0 ? read_fd(arena, log, &bytes) : NULL,
             *release = text ? strstr(text, "release ") : NULL;
  const char *version = release ? strstr(release, ", V") : NULL;
  return version ? msc_arena_printf(arena, "%.*s", (int)strcspn(version + 3, " \n"), version + 3) : "of no version";
}

/* Returns the first line of the log, for a message. */
static const char *read_assembler_log(msc_arena *arena, const char *program, int log, int code) {
  size_t bytes = 0;
  const char *text = read_fd(arena, log, &bytes);
  return msc_arena_printf(arena, "%s failed with exit code %d%s%.*s", program, code, bytes ? ": " : "",
                          (int)strcspn(text ? text : "", "\n"), text ? text : "");
}

/* Returns the value of the option for the number of threads: a fixed number, because the bytes depend on it, and 1 for
 * older versions of ptxas. */
static const char *threads_of(const char *version) {
  int major = 0, minor = 0;
  return sscanf(version, "%d.%d", &major, &minor) == 2 && 100 * major + minor >= 1202 ? "4" : "1";
}

enum { TEXT, CODE, MESSAGES, VERSION, NUM_FILES };

struct msc_ptxas {
  msc_context *ctx;
  msc_arena *arena;
  const char *program, *made_by;
  int arch;
  bool waits; /* the kernels of the text, see msc_image */
  pid_t child;
  temporary file[NUM_FILES];
};

static bool assemble(msc_ptxas *a, const msc_image *ptx) {
  const char *version = version_of(a->arena, a->program, a->file[VERSION].fd), *threads = threads_of(version);
  const char *option = msc_arena_printf(a->arena, "-arch=sm_%d", a->arch),
             *split = msc_arena_printf(a->arena, "--split-compile=%s", threads);
  char *argument[] = {
      (char *)(uintptr_t)a->program, (char *)(uintptr_t)option, (char *)(uintptr_t) "-O3", a->file[TEXT].path,
      (char *)(uintptr_t) "-o",      a->file[CODE].path,        (char *)(uintptr_t)split,  NULL};
  if (!strcmp(threads, "1")) argument[6] = NULL; /* an old ptxas may not know the option */
  a->made_by = msc_arena_printf(a->arena, "%s, ptxas %s -O3 in %s thread%s", ptx->made_by, version, threads,
                                strcmp(threads, "1") ? "s" : "");
  if (!write_fd(a->file[TEXT].fd, ptx->bytes, ptx->num_bytes - 1))
    return msc_error(a->ctx, MSC_E_TARGET, NULL, "ptxas: %s: %s", a->file[TEXT].path, strerror(errno));
  a->child = start_process(a->program, argument, a->file[MESSAGES].fd);
  return true;
}

static void close_temporaries(msc_ptxas *a) {
  for (int i = 0; i < NUM_FILES; i++) close_temporary(&a->file[i]);
}

bool msc_ptxas_begin(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_ptxas **out) {
  msc_ptxas *a = msc_new(arena, msc_ptxas);
  *a = (msc_ptxas){.ctx = ctx,
                   .arena = arena,
                   .program = find_ptxas(arena),
                   .arch = arch,
                   .waits = ptx->waits,
                   .child = -1,
                   .file = {{.fd = -1}, {.fd = -1}, {.fd = -1}, {.fd = -1}}};
  *out = NULL;
  if (!a->program) return warn_without_ptxas(ctx, arch, "there is no ptxas in PATH, nor in CUDA_HOME/bin");
  bool ok = true;
  for (int i = 0; i < NUM_FILES && ok; i++) ok = open_temporary_file(ctx, &a->file[i]);
  ok = ok && assemble(a, ptx);
  if (ok) *out = a;
  else close_temporaries(a);
  return ok;
}

/* Reads the machine code.  The assembler may have replaced the file, so it is opened again. */
static bool collect_cubin(const msc_ptxas *a, int code, msc_image *out, bool *out_made) {
  *out = (msc_image){.arch = a->arch, .is_cubin = true, .waits = a->waits, .made_by = a->made_by};
  if (code != 0)
    return warn_without_ptxas(a->ctx, a->arch, read_assembler_log(a->arena, a->program, a->file[MESSAGES].fd, code));
  int fd = open(a->file[CODE].path, O_RDONLY | O_CLOEXEC);
  out->bytes = fd >= 0 ? read_fd(a->arena, fd, &out->num_bytes) : NULL;
  if (fd >= 0) close(fd);
  *out_made = out->bytes && out->num_bytes >= 64; /* an ELF header */
  return *out_made || warn_without_ptxas(a->ctx, a->arch, msc_arena_printf(a->arena, "%s made nothing", a->program));
}

bool msc_ptxas_end(msc_ptxas *a, msc_image *out_cubin, bool *out_made) {
  *out_made = false;
  if (!a) return true;
  bool ok = collect_cubin(a, wait_for_exit(a->child), out_cubin, out_made);
  close_temporaries(a);
  return ok;
}
