/* mpi.h: the functions of MPI that are used, as a table. A handle is a pointer in Open MPI and a number in MPICH, so
 * the calls are compiled once for each (mpi_calls.h). */
#ifndef MSCRT_COMM_MPI_H
#define MSCRT_COMM_MPI_H

#include "runtime/comm/fabric.h"

/* ---- mpi_open_mpi.c, mpi_mpich.c ---- */

/* Handles of communicators and of messages. Functions return an error code of MPI, 0 for none, unless it says
 * otherwise. */
typedef struct {
  const char *name;
  /* Finds the functions in a library. Returns NULL, or a text that says why it cannot be used: it is another
   * implementation of MPI, or lacks a function. */
  const char *(*load)(void *library);
  /* Initializes MPI unless the program has. *out_level: from 0, for one thread, to 3, for any at a time. */
  int (*begin)(bool *out_began, int *out_level);
  bool (*has_ended)(void);
  int (*end)(void);
  int (*place)(int *out_rank, int *out_ranks);
  /* Begins to make a communicator of all ranks; it is there when the request has ended. */
  int (*copy_world)(mscrt_request *out_comm, mscrt_request *out_request);
  int (*free_comm)(mscrt_request *comm);
  int (*send)(const mscrt_request *comm, const void *src, int bytes, int to, int tag, mscrt_request *out_request);
  int (*receive)(const mscrt_request *comm, void *dst, int bytes, int from, int tag, mscrt_request *out_request);
  int (*test)(mscrt_request *request, bool *out_done);
  void (*explain)(int code, char out_text[1024]);
} mscrt_mpi_calls;

extern const mscrt_mpi_calls mscrt_open_mpi, mscrt_mpich;

#endif
