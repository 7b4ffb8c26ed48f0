/* crash.c: a signal that means a bug in msc becomes a reproducer on disk, a message and exit code 70.  Only the program
 * does this; the libraries never touch signals. */
#include <fcntl.h>
#include <signal.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <ucontext.h>
#endif
#include <string.h>
#include <unistd.h>

#include "tools/cli_state.h"

#define COMMAND "msc-repro.sh"

/* A signal handler has no other way to its data. */
static struct {
  const char *volatile line, *volatile text;
  volatile size_t bytes;
  int argc;
  char **argv;
} crash;

void cli_keep_reproducer(const char *line, const char *text, size_t bytes) {
  crash.text = NULL;
  crash.line = line;
  crash.bytes = bytes;
  crash.text = text;
}

static void write_bytes(int fd, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, data, bytes);
    if (n <= 0) return;
    data += n;
    bytes -= (size_t)n;
  }
}

static void write_words(int fd, const char *text) { write_bytes(fd, text, strlen(text)); }

/* The command as the shell reads it: every word in quotes, a quote itself as '\'' */
static void write_command(int fd) {
  write_words(fd, "msc");
  for (int i = 1; i < crash.argc; i++) {
    write_words(fd, " '");
    for (const char *c = crash.argv[i]; *c; c++) *c == '\'' ? write_words(fd, "'\\''") : write_bytes(fd, c, 1);
    write_words(fd, "'");
  }
  write_words(fd, "\n");
}

static int create_file(const char *path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); }

static bool save_case(void) {
  int fd = crash.text ? create_file(CLI_REPRODUCER) : -1;
  if (fd < 0) return false;
  write_bytes(fd, crash.line, strlen(crash.line));
  write_bytes(fd, crash.text, crash.bytes);
  close(fd);
  return true;
}

static bool save_command(void) {
  int fd = create_file(COMMAND);
  if (fd < 0) return false;
  write_command(fd);
  close(fd);
  return true;
}

void cli_write_reproducer(cli *c, const char *pass, const char *text, size_t bytes) {
  c->state->known = NULL; /* it may be the input of this command: then it is still a case of what went wrong */
  bool saved = text ? cli_write_file(c, CLI_REPRODUCER, text, bytes) == CLI_OK : save_command();
  if (saved) msc_note(c->ctx, NULL, "reproducer of pass '%s': %s", pass, text ? CLI_REPRODUCER : COMMAND);
}

static void on_crash(int number) {
  write_words(STDERR_FILENO, "msc: internal error: signal ");
  char digits[3] = {(char)('0' + number / 10), (char)('0' + number % 10), 0};
  write_words(STDERR_FILENO, digits);
  write_words(STDERR_FILENO, "; this is a bug in msc [E0170]\nreproducer: ");
  if (save_case()) write_words(STDERR_FILENO, CLI_REPRODUCER "\n");
  else if (save_command()) write_words(STDERR_FILENO, COMMAND "\n");
  else write_command(STDERR_FILENO);
  cli_remove_temporaries();
  _exit(CLI_BUG);
}

#ifdef __SANITIZE_ADDRESS__
/* Where checked code of a plan stops (codegen/emit/sanitize.c). */
static void on_memory_fault(int number, siginfo_t *info, void *context) {
  const ucontext_t *u = context;
  (void)info;
  write_words(STDERR_FILENO, "a kernel touches memory that is no buffer of its call:\n");
  __asan_describe_address((void *)u->uc_mcontext.gregs[REG_RAX]);
  on_crash(number);
}
#endif

void cli_catch_crashes(int argc, char **argv) {
  crash.argc = argc;
  crash.argv = argv;
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer's own report says more */
  static char stack[64 * 1024]; /* so that a stack overflow is reported too */
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternative, NULL);
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | (int)SA_RESETHAND};
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
#else
  struct sigaction action = {.sa_sigaction = on_memory_fault, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
  sigaction(SIGILL, &action, NULL);
#endif
}
