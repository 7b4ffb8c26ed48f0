/* engines.c: a plan in; engines for its graphs out (engines.h).  A process of its own, `msc engines`, reads the plan
 * and writes the engines as text; both go through files in memory (memfd_create). */
#include "tools/compile/engines.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 120 }; /* for all graphs of a plan */

/* ---- the other process ---- */

/* Becomes `msc engines`, which reads the plan and writes text. Without address randomization: cuDNN copies some of its
 * memory, addresses too, into the text of an engine, and a plan must have the same bytes each time. */
static void exec_engines(int plan, int text) {
  char *argument[] = {(char *)(uintptr_t) "msc", (char *)(uintptr_t) "engines", (char *)(uintptr_t) "/dev/stdin", NULL};
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  personality(ADDR_NO_RANDOMIZE);
  alarm(LIMIT_S);
  int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (dup2(plan, STDIN_FILENO) < 0 || dup2(text, STDOUT_FILENO) < 0 || dup2(quiet, STDERR_FILENO) < 0) _exit(127);
  execv("/proc/self/exe", argument);
  _exit(127);
}

static bool run_engines_process(int plan, int text) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) exec_engines(plan, text);
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
}

static bool write_memory_file(int fd, const char *bytes, size_t num) {
  for (ssize_t n; num; bytes += n, num -= (size_t)n)
    if ((n = write(fd, bytes, num)) <= 0) return false;
  return true;
}

static char *read_memory_file(msc_arena *arena, int fd) {
  struct stat s;
  if (fstat(fd, &s)) return NULL;
  char *text = msc_arena_alloc(arena, (size_t)s.st_size + 1);
  ssize_t n = pread(fd, text, (size_t)s.st_size, 0);
  text[n > 0 ? n : 0] = 0;
  return text;
}

/* Runs `msc engines` on a plan and returns what it printed; NULL: it could not be run, or cuDNN is not installed. */
static char *run_msc_engines(msc_arena *arena, const void *bytes, size_t num) {
  int plan = memfd_create("plan.bin", MFD_CLOEXEC), text = memfd_create("engines", MFD_CLOEXEC);
  bool ok = plan >= 0 && text >= 0 && write_memory_file(plan, bytes, num) && run_engines_process(plan, text);
  char *output = ok ? read_memory_file(arena, text) : NULL;
  if (plan >= 0) close(plan);
  if (text >= 0) close(text);
  return output;
}

/* ---- the plan ---- */

/* Cuts the next line off *at and returns it without its newline; NULL if there is none. */
static char *next_line(char **at) {
  char *line = *at, *end = strchr(line, '\n');
  if (!end) return NULL;
  *end = 0;
  *at = end + 1;
  return line;
}

static const char *put_engine_lines(msc_plan *p, char *text) {
  size_t version;
  const char *why = NULL, *head = next_line(&text);
  if (!head || sscanf(head, ENGINES_HEAD, &version, &p->engines_arch) != 2) return "msc engines says something else";
  p->engines_version = version;
  p->engine = msc_new_array(p->arena, const char *, p->num_graphs);
  for (size_t i = 0; i < p->num_graphs; i++) {
    const char *line = next_line(&text);
    if (line && *line == '{') p->engine[i] = line;
    else why = line ? line : "msc engines ended early";
  }
  return why;
}

bool engines_put(const msc_compile_options *o, msc_plan *p, const char **out_why) {
  size_t num;
  *out_why = NULL;
  if (!p->num_graphs || !o->target.arch || !msc_config_bool(o->config, MSC_KEY_library_engines)) return true;
  if (o->cluster->gpu.arch != o->target.arch) {
    *out_why = msc_arena_printf(p->arena, "the cluster describes no GPU of sm_%d", o->target.arch);
    return true;
  }
  const void *bytes = msc_plan_bytes(p, &num);
  MSC_TRY(bytes);
  char *text = run_msc_engines(p->arena, bytes, num);
  *out_why = text ? put_engine_lines(p, text) : "cuDNN cannot be loaded; `msc engines` says more";
  return true;
}
