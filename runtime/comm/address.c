/* address.c: converts texts to addresses of sockets, listens and connects; tries again while a name does not resolve
 * yet or a scheduler does not listen yet. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "runtime/comm/tcp.h"

#define FIRST_PAUSE_NS ((int64_t)2000000)
#define LAST_PAUSE_NS  ((int64_t)2000000000)

bool mscrt_is_network_address(const char *text) {
  const char *colon = strrchr(text, ':');
  return colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1) && text[0] != '@' &&
         !strchr(text, '/');
}

mscrt_status *mscrt_unix_address(const char *text, mscrt_address *out) {
  struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->at;
  size_t n = text ? strlen(text) : 0;
  *out = (mscrt_address){0};
  if (n < 2 || n >= sizeof un->sun_path)
    return mscrt_fail(MSCRT_ARGUMENT, "the address of the job must have 2 to %zu characters", sizeof un->sun_path - 1);
  un->sun_family = AF_UNIX;
  memcpy(un->sun_path, text, n);
  if (text[0] == '@') un->sun_path[0] = 0;
  out->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (text[0] != '@'));
  return NULL;
}

bool mscrt_is_local_address(const mscrt_address *a) {
  if (a->at.ss_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)(const void *)&a->at)->sin_addr.s_addr) >> 24 == 127;
  if (a->at.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&a->at)->sin6_addr);
  return a->at.ss_family == AF_UNIX;
}

void mscrt_address_text(const mscrt_address *a, char out[MSCRT_ADDRESS_TEXT]) {
  char host[96], port[8];
  if (a->at.ss_family == AF_UNIX) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&a->at;
    snprintf(out, MSCRT_ADDRESS_TEXT, "%s%.100s", un->sun_path[0] ? "" : "@", un->sun_path + !un->sun_path[0]);
  } else if (getnameinfo((const struct sockaddr *)&a->at, a->bytes, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
    snprintf(out, MSCRT_ADDRESS_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
  } else {
    snprintf(out, MSCRT_ADDRESS_TEXT, "an unknown address");
  }
}

/* Splits HOST:PORT and resolves it; returns 0, or the error of getaddrinfo. The caller frees *out with freeaddrinfo. */
static int look_up(const char *text, struct addrinfo **out) {
  char host[256];
  const char *colon = strrchr(text, ':');
  size_t n = (size_t)(colon - text);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  bool brackets = n > 2 && text[0] == '[' && colon[-1] == ']';
  if (n - 2 * brackets >= sizeof host) return EAI_NONAME;
  memcpy(host, text + brackets, n - 2 * brackets);
  host[n - 2 * brackets] = 0;
  return getaddrinfo(host, colon + 1, &hints, out);
}

/* Sleeps for *pause_ns, but not beyond the deadline, and makes *pause_ns longer. False if the deadline has passed. */
static bool pause_before_retry(int64_t *pause_ns, int64_t deadline_ns) {
  int64_t left = deadline_ns - mscrt_now_ns(), ns = *pause_ns < left ? *pause_ns : left;
  if (left <= 0) return false;
  nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
  *pause_ns = 3 * *pause_ns / 2 < LAST_PAUSE_NS ? 3 * *pause_ns / 2 : LAST_PAUSE_NS;
  return true;
}

mscrt_status *mscrt_resolve(const char *text, int64_t deadline_ns, mscrt_address *out) {
  struct addrinfo *all;
  int64_t pause = FIRST_PAUSE_NS;
  if (!mscrt_is_network_address(text)) return mscrt_unix_address(text, out);
  for (int error; (error = look_up(text, &all));)
    if (!pause_before_retry(&pause, deadline_ns))
      return mscrt_fail(MSCRT_ENVIRONMENT, "%s: the name does not resolve: %s", text, gai_strerror(error));
  *out = (mscrt_address){.bytes = all->ai_addrlen};
  memcpy(&out->at, all->ai_addr, all->ai_addrlen);
  freeaddrinfo(all);
  return NULL;
}

mscrt_status *mscrt_listen(const mscrt_address *a, bool has_token, int *out_fd) {
  char text[MSCRT_ADDRESS_TEXT];
  int one = 1;
  struct stat st;
  const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&a->at;
  mscrt_address_text(a, text);
  *out_fd = -1;
  if (!has_token && !mscrt_is_local_address(a))
    return mscrt_fail(MSCRT_ENVIRONMENT,
                      "%s can be reached from other hosts, and there is no token: give every rank the same, made by "
                      "`head -c 32 /dev/urandom | base64 -w0 >FILE; chmod 600 FILE`, as MSC_TOKEN_FILE or MSC_TOKEN",
                      text);
  int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (a->at.ss_family == AF_UNIX && un->sun_path[0] && lstat(un->sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
    unlink(un->sun_path);
  if (fd >= 0 && a->at.ss_family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (fd >= 0 && bind(fd, (const struct sockaddr *)&a->at, a->bytes) == 0 && listen(fd, SOMAXCONN) == 0) {
    *out_fd = fd;
    return NULL;
  }
  mscrt_status *s = mscrt_fail(MSCRT_ENVIRONMENT, "cannot listen at %s: %s%s", text, strerror(errno),
                               errno == EADDRNOTAVAIL ? "; it is no address of this host" : "");
  if (fd >= 0) close(fd);
  return s;
}

void mscrt_set_socket(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* not of Unix sockets */
}

bool mscrt_is_own_user(int fd) {
  struct ucred c;
  struct sockaddr_storage at;
  socklen_t n = sizeof at;
  if (getsockname(fd, (struct sockaddr *)&at, &n) == 0 && at.ss_family != AF_UNIX) return true;
  n = sizeof c;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == geteuid();
}

static int connect_now(const struct sockaddr *at, socklen_t bytes) {
  int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), error = errno;
  if (fd < 0) return errno = error, -1;
  if (connect(fd, at, bytes) == 0) return fd;
  error = errno;
  close(fd);
  return errno = error, -1;
}

static bool may_succeed_later(int error) {
  return error == ECONNREFUSED || error == ENOENT || error == EAGAIN || error == EINTR || error == ETIMEDOUT ||
         error == EHOSTUNREACH || error == ENETUNREACH || error == ECONNRESET;
}

/* Tries to connect once; on failure *out_fd is -1, and errno or *out_name_error has the reason. */
static mscrt_status *try_to_dial(const char *text, int *out_fd, int *out_name_error) {
  mscrt_address un;
  struct addrinfo *all = NULL;
  *out_fd = -1, *out_name_error = 0;
  if (!mscrt_is_network_address(text)) {
    MSCRT_CHECK(mscrt_unix_address(text, &un));
    *out_fd = connect_now((struct sockaddr *)&un.at, un.bytes);
    if (*out_fd < 0 || mscrt_is_own_user(*out_fd)) return NULL;
    close(*out_fd);
    *out_fd = -1;
    return mscrt_fail(MSCRT_ENVIRONMENT, "%s belongs to another user", text);
  }
  *out_name_error = look_up(text, &all);
  for (const struct addrinfo *a = all; a && *out_fd < 0; a = a->ai_next)
    *out_fd = connect_now(a->ai_addr, a->ai_addrlen);
  int error = errno;
  if (all) freeaddrinfo(all);
  return errno = error, NULL;
}

mscrt_status *mscrt_dial(const char *text, int64_t deadline_ns, int *out_fd) {
  int64_t pause = FIRST_PAUSE_NS;
  for (;;) {
    int name_error;
    MSCRT_CHECK(try_to_dial(text, out_fd, &name_error));
    if (*out_fd >= 0) break;
    int error = errno;
    if (!name_error && !may_succeed_later(error))
      return mscrt_fail(MSCRT_ENVIRONMENT, "cannot connect to %s: %s", text, strerror(error));
    if (!pause_before_retry(&pause, deadline_ns))
      return name_error
                 ? mscrt_fail(MSCRT_ENVIRONMENT, "%s: the name does not resolve: %s", text, gai_strerror(name_error))
                 : mscrt_fail(MSCRT_PEER, "nobody leads the job at %s: %s", text, strerror(error));
  }
  mscrt_set_socket(*out_fd);
  return NULL;
}

mscrt_status *mscrt_dial_rank(const mscrt_address *a, int *out_fd) {
  char text[MSCRT_ADDRESS_TEXT];
  *out_fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*out_fd >= 0 && (connect(*out_fd, (const struct sockaddr *)&a->at, a->bytes) == 0 || errno == EINPROGRESS)) {
    mscrt_set_socket(*out_fd);
    return NULL;
  }
  mscrt_address_text(a, text);
  return mscrt_fail(MSCRT_ENVIRONMENT, "cannot connect to %s: %s", text, strerror(errno));
}
