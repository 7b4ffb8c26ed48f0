/* mpi.h: data between ranks through MPI, in place of connections of our own: duplexes in, the same duplexes moved out.
 *
 * MPI's libraries differ in what a handle is, a pointer in Open MPI and a number in MPICH, so what is used of them is
 * compiled once for each (mpi_calls.h) and called through a table. Who is lost the control connections say, since MPI
 * tells no survivor. */
#ifndef MSCRT_COMM_MPI_H
#define MSCRT_COMM_MPI_H

#include "runtime/comm/tcp.h"

/* ---- mpi_open_mpi.c, mpi_mpich.c: what is used of an implementation ---- */

/* Room for a handle of any implementation. */
typedef struct {
  _Alignas(void *) unsigned char bytes[sizeof(void *)];
} mscrt_mpi_handle;

/* Functions return an error code of MPI, 0 for none, unless it says otherwise. */
typedef struct {
  const char *name;
  /* Finds the functions in a library; NULL, or what is wrong: the library is another, or lacks a function. */
  const char *(*load)(void *library);
  /* Initializes MPI unless the program has. *out_level: from 0, for one thread, to 3, for any at a time. */
  int (*begin)(bool *out_began, int *out_level);
  bool (*has_ended)(void);
  int (*end)(void);
  int (*place)(int *out_rank, int *out_ranks);
  /* Begins to make a communicator of all ranks; it is there when the request has ended. */
  int (*copy_world)(mscrt_mpi_handle *out_comm, mscrt_mpi_handle *out_request);
  int (*free_comm)(mscrt_mpi_handle *comm);
  int (*send)(const mscrt_mpi_handle *comm, const void *src, int bytes, int to, int tag,
              mscrt_mpi_handle *out_request);
  int (*receive)(const mscrt_mpi_handle *comm, void *dst, int bytes, int from, int tag,
                 mscrt_mpi_handle *out_request);
  int (*test)(mscrt_mpi_handle *request, bool *out_done);
  void (*explain)(int code, char out_text[1024]);
} mscrt_mpi_calls;

extern const mscrt_mpi_calls mscrt_open_mpi, mscrt_mpich;

/* ---- mpi.c ---- */

typedef struct mscrt_mpi mscrt_mpi;

/* Makes this rank one of MPI's: all ranks of the job do so at the same time, as MPI numbers them. The library is that
 * of the mpirun which started the process, or the one that MSC_MPI_LIBRARY names. */
mscrt_status *mscrt_mpi_open(const mscrt_member *m, mscrt_mpi **out_mpi);
/* As mscrt_duplexes_move; CLOSED: MPI failed, and *out_why says how. */
mscrt_duplexes_end mscrt_mpi_move(mscrt_mpi *mpi, mscrt_duplexes *l, uint32_t *out_duplex, const char **out_why);
/* False: MPI may still read and write memory that duplexes have given it, so that it must stay. */
bool mscrt_mpi_close(mscrt_mpi *mpi);

#endif
