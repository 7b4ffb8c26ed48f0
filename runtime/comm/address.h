/* address.h: addresses of sockets, from texts and back; sockets that listen at them or connect to them. */
#ifndef MSCRT_ADDRESS_H
#define MSCRT_ADDRESS_H

#include <sys/socket.h>

#include "runtime/runtime.h"

typedef struct {
  struct sockaddr_storage at;
  socklen_t bytes;
} mscrt_address;

/* Converts the text of a Unix address: @NAME is in the abstract name space, anything else is a path. */
mscrt_status *mscrt_unix_address(const char *text, mscrt_address *out);
/* True if only processes of this host can connect to the address: Unix, 127.0.0.0/8, ::1. */
bool mscrt_is_local_address(const mscrt_address *a);
/* Writes an address as HOST:PORT in numbers, or @NAME. */
#define MSCRT_ADDRESS_TEXT 128
void mscrt_address_text(const mscrt_address *a, char out[MSCRT_ADDRESS_TEXT]);
/* Makes a socket that listens and does not block; the caller closes *out_fd. An address that other hosts can reach is
 * refused if the job has no token. */
mscrt_status *mscrt_listen(const mscrt_address *a, bool has_token, int *out_fd);
/* Converts the text of an address to listen at; tries again, until the deadline, while the name does not resolve. */
mscrt_status *mscrt_resolve(const char *text, int64_t deadline_ns, mscrt_address *out);
/* Connects to the scheduler; tries again, with growing pauses, while the name does not resolve or nobody listens.
 * *out_fd is -1 after a failure. */
mscrt_status *mscrt_dial(const char *text, int64_t deadline_ns, int *out_fd);
/* Begins to connect to a rank, without waiting. The caller closes *out_fd, also after a failure; -1: there is none. */
mscrt_status *mscrt_dial_rank(const mscrt_address *a, int *out_fd);
/* False if the process at the other end of a connection over a Unix socket is of another user. */
bool mscrt_is_own_user(int fd);
/* Makes a connection send small messages at once (TCP_NODELAY). */
void mscrt_set_socket(int fd);

#endif
