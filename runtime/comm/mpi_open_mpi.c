/* mpi_open_mpi.c: MPI's functions as Open MPI has them, whose handles are the addresses of objects. */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#define HANDLE        void *
#define WORLD         objects.world
#define BYTE          objects.byte
#define RETURN_ERRORS objects.return_errors
#define NO_STATUS     NULL

static struct {
  void *world, *byte, *return_errors;
} objects;

static bool is_this_library(void *library, const char *version) {
  objects.world = dlsym(library, "ompi_mpi_comm_world");
  objects.byte = dlsym(library, "ompi_mpi_byte");
  objects.return_errors = dlsym(library, "ompi_mpi_errors_return");
  return objects.world && objects.byte && objects.return_errors && strstr(version, "Open MPI");
}

#include "runtime/comm/mpi_calls.h"

const mscrt_mpi_calls mscrt_open_mpi = MPI_TABLE("Open MPI");
