/* mpi_mpich.c: MPI's functions as MPICH has them, and all that share its binary interface: Intel MPI, MVAPICH, Cray
 * MPICH. Their handles are numbers, and these constants are part of the interface. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HANDLE        int
#define WORLD         ((HANDLE)0x44000000)
#define BYTE          ((HANDLE)0x4c00010d)
#define RETURN_ERRORS ((HANDLE)0x54000001)
#define NO_STATUS     ((void *)1)

static bool is_this_library(void *library, const char *version) {
  static const char *const names[] = {"MPICH", "Intel(R) MPI", "MVAPICH"};
  (void)library;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(version, names[i])) return true;
  return false;
}

#include "runtime/comm/mpi_calls.h"

const mscrt_mpi_calls mscrt_mpich = MPI_TABLE("MPICH");
