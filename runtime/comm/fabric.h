/* fabric.h: data between ranks through a library that passes messages, in place of connections of our own. Such
 * libraries do not tell the other ranks who is lost; the control connections do. */
#ifndef MSCRT_COMM_FABRIC_H
#define MSCRT_COMM_FABRIC_H

#include "runtime/comm/tcp.h"

/* The library's handle of a message under way. */
typedef struct {
  _Alignas(void *) unsigned char bytes[sizeof(void *)];
} mscrt_request;

/* A library, as one rank of a job uses it: `link` is its own. Messages between two ranks arrive in their order.
 * Functions return an error code of the library, 0 for none, unless it says otherwise. */
typedef struct mscrt_fabric_calls {
  const char *name;
  bool needs_connections; /* `open` needs connections with all ranks, which are closed then */
  mscrt_status *(*open)(const mscrt_member *m, const int *fd, void **out_link);
  int (*send)(void *link, const void *src, int bytes, int to, mscrt_request *out_request);
  int (*receive)(void *link, void *dst, int bytes, int from, mscrt_request *out_request);
  int (*test)(void *link, mscrt_request *request, bool *out_done);
  void (*explain)(void *link, int code, char out_text[1024]);
  /* event: a file descriptor that becomes readable when a message moves; before sleeping on it `arm` must return true:
   * nothing has moved meanwhile. Both NULL: the library has none. */
  int (*event)(void *link);
  bool (*arm)(void *link);
  /* Ends this rank's part. idle: no message is under way. False: the memory of messages must stay valid. */
  bool (*close)(void *link, bool idle);
} mscrt_fabric_calls;

extern const mscrt_fabric_calls mscrt_over_mpi; /* mpi.c */
extern const mscrt_fabric_calls mscrt_over_ucx; /* ucx.c */

/* ---- fabric.c ---- */

typedef struct mscrt_fabric mscrt_fabric;

/* All ranks of the job open it at the same time. fd: connections with them if it needs any, which stay the caller's. */
mscrt_status *mscrt_fabric_open(const mscrt_fabric_calls *calls, const mscrt_member *m, const int *fd,
                                mscrt_fabric **out_fabric);
/* As mscrt_duplexes_move; CLOSED: the library failed, and *out_why says how. */
mscrt_duplexes_end mscrt_fabric_move(mscrt_fabric *f, mscrt_duplexes *l, uint32_t *out_duplex, const char **out_why);
/* Accepts NULL. False: the library may still read and write memory of duplexes, so that it must stay. */
bool mscrt_fabric_close(mscrt_fabric *f);

#endif
