/* dial.c: a rank that reaches a socket of another user closes its connection once and keeps no descriptor of it. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/address.h"
#include "runtime/wait.h"

/* Listens as another user, tells that it does, and waits until the pipe is closed. */
static int listen_as_other_user(const mscrt_address *a, int told, int until_closed) {
  char byte = 1;
  int fd = -1;
  if (setuid(65534) != 0 || mscrt_listen(a, false, &fd) || write(told, &byte, 1) != 1) return 1;
  return read(until_closed, &byte, 1) != 0;
}

int main(void) {
  char name[64];
  mscrt_address address;
  int told[2], end[2], fd = 0, state;
  char byte;
  if (geteuid() != 0) {
    printf("skipped: only root can listen as another user\n");
    return 0;
  }
  snprintf(name, sizeof name, "@msc-test-dial-%d", (int)getpid());
  if (mscrt_unix_address(name, &address) || pipe(told) || pipe(end)) return 1;
  pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    _exit(listen_as_other_user(&address, told[1], end[0]));
  }
  close(end[0]), close(told[1]);
  if (read(told[0], &byte, 1) != 1) return fprintf(stderr, "nothing listens as another user\n"), 1;
  mscrt_status *s = mscrt_dial(name, mscrt_now_ns() + 5000000000, &fd);
  bool right = s && strstr(mscrt_status_text(s), "belongs to another user") && fd == -1;
  if (!right) fprintf(stderr, "status: %s, descriptor %d\n", mscrt_status_text(s), fd);
  mscrt_status_free(s);
  close(end[1]);
  waitpid(child, &state, 0);
  return right ? 0 : 1;
}
