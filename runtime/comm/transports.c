/* transports.c: a name in; the transport that has it out. */
#include <string.h>

#include "runtime/comm/comm.h"

const mscrt_transport *mscrt_find_transport(const char *name, bool far) {
  static const mscrt_transport *const all[] = {&mscrt_comm_local, &mscrt_comm_hosts, &mscrt_comm_tcp, &mscrt_comm_mpi,
                                               &mscrt_comm_ucx};
  if (!name) return far ? &mscrt_comm_hosts : &mscrt_comm_local;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i]->name)) return all[i];
  return NULL;
}
