/* preload.h: a library for LD_PRELOAD, built by short_io.test.py: a network at its worst. What a program sends and
 * receives without waiting goes a few bytes at a time, or not at all for the moment, after interruptions and delays. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t draw(void) {
  static atomic_uint_fast64_t state;
  if (!atomic_load(&state)) atomic_store(&state, (uint64_t)getpid() * 2654435761U + 1);
  uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15U);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  return (uint32_t)(x >> 32);
}

/* Returns the bytes that may go now, or 0: none may, for the reason in errno. MSC_SHORT_BYTES: at most so many. */
static size_t allow(size_t wanted) {
  const char *most = getenv("MSC_SHORT_BYTES");
  uint32_t luck = draw() % 64;
  if (luck == 0) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
  errno = luck < 4 ? EINTR : EAGAIN;
  if (luck < 12) return 0;
  size_t limit = 1 + draw() % (uint32_t)(most ? atoi(most) : 7);
  return wanted < limit ? wanted : limit;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
  size_t now = flags & MSG_DONTWAIT && bytes ? allow(bytes) : bytes;
  return bytes && !now ? -1 : syscall(SYS_sendto, fd, data, now, flags, NULL, 0);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags) {
  size_t now = flags & MSG_DONTWAIT && bytes ? allow(bytes) : bytes;
  return bytes && !now ? -1 : syscall(SYS_recvfrom, fd, data, now, flags, NULL, NULL);
}

/* Passes the beginning of a message's first part on. */
static ssize_t pass_message(long call, int fd, const struct msghdr *m, int flags) {
  struct msghdr part = *m;
  struct iovec first;
  size_t at = 0;
  while (at < m->msg_iovlen && !m->msg_iov[at].iov_len) at++;
  if (!(flags & MSG_DONTWAIT) || at == m->msg_iovlen) return syscall(call, fd, m, flags);
  first = m->msg_iov[at];
  first.iov_len = allow(first.iov_len);
  if (!first.iov_len) return -1;
  part.msg_iov = &first, part.msg_iovlen = 1;
  return syscall(call, fd, &part, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) { return pass_message(SYS_sendmsg, fd, m, flags); }
ssize_t recvmsg(int fd, struct msghdr *m, int flags) { return pass_message(SYS_recvmsg, fd, m, flags); }

int poll(struct pollfd *fds, nfds_t num, int ms) {
  if (draw() % 64 == 0) {
    errno = EINTR;
    for (nfds_t i = 0; i < num; i++) fds[i].revents = 0;
    return -1;
  }
  return (int)syscall(SYS_poll, fds, num, ms);
}
