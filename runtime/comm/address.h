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
/* Can only processes of this host connect to the address: Unix, 127.0.0.0/8, ::1? */
bool mscrt_is_local_address(const mscrt_address *a);
/* Writes an address as HOST:PORT in numbers, or @NAME. */
#define MSCRT_ADDRESS_TEXT 128
void mscrt_address_text(const mscrt_address *a, char out[MSCRT_ADDRESS_TEXT]);
/* Listens, without blocking; an address that others can reach is refused without a token. */
mscrt_status *mscrt_listen(const mscrt_address *a, bool has_token, int *out_fd);
/* The address to listen at for a text; tries again while the name does not resolve. */
mscrt_status *mscrt_resolve(const char *text, int64_t deadline_ns, mscrt_address *out);
/* Connects to the scheduler; tries again, with growing pauses, while the name does not resolve or nobody listens. */
mscrt_status *mscrt_dial(const char *text, int64_t deadline_ns, int *out_fd);
/* Begins to connect to a rank. */
mscrt_status *mscrt_dial_rank(const mscrt_address *a, int *out_fd);
/* False if the process at the other end of a connection over a Unix socket is of another user. */
bool mscrt_is_own_user(int fd);
/* Sets what all connections have: no delay, no blocking. */
void mscrt_set_socket(int fd);

#endif
