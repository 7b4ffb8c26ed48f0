/* mpi_calls.h: the table of MPI's functions for one implementation. Whoever includes it has defined HANDLE, the type of
 * its handles, the constants WORLD, BYTE, RETURN_ERRORS and NO_STATUS, and is_this_library(library,
 * version), which may look up what the constants need. */
#include <dlfcn.h>
#include <string.h>

#include "runtime/comm/mpi.h"

#define FUNCTIONS(X)                                              \
  X(Init_thread, int *, char ***, int, int *)                     \
  X(Initialized, int *)                                           \
  X(Finalized, int *)                                             \
  X(Query_thread, int *)                                          \
  X(Finalize, void)                                               \
  X(Get_library_version, char *, int *)                           \
  X(Comm_rank, HANDLE, int *)                                     \
  X(Comm_size, HANDLE, int *)                                     \
  X(Comm_idup, HANDLE, HANDLE *, HANDLE *)                        \
  X(Comm_free, HANDLE *)                                          \
  X(Comm_set_errhandler, HANDLE, HANDLE)                          \
  X(Isend, const void *, int, HANDLE, int, int, HANDLE, HANDLE *) \
  X(Irecv, void *, int, HANDLE, int, int, HANDLE, HANDLE *)       \
  X(Test, HANDLE *, int *, void *)                                \
  X(Error_string, int, char *, int *)

enum { ANY_THREAD = 3, VERSION_CHARS = 8192 };

static struct {
  void *library;
#define X(name, ...) int (*name)(__VA_ARGS__);
  FUNCTIONS(X)
#undef X
} mpi;

static HANDLE handle_in(const mscrt_request *h) {
  HANDLE handle;
  memcpy(&handle, h->bytes, sizeof handle);
  return handle;
}

/* A handle that MPI sets, at once or later. */
static HANDLE *handle_at(mscrt_request *h) { return (HANDLE *)(void *)h->bytes; }

static const char *load_functions(void *library) {
  char version[VERSION_CHARS];
  int chars;
  mpi.library = library;
#define X(name, ...)                                             \
  *(void **)(void *)&mpi.name = dlsym(library, "MPI_" #name);    \
  if (!mpi.name) return "it has no function MPI_" #name;
  FUNCTIONS(X)
#undef X
  if (mpi.Get_library_version(version, &chars) != 0) return "it does not say its version";
  return is_this_library(library, version) ? NULL : "it is another implementation";
}

static int begin_mpi(bool *out_began, int *out_level) {
  int there, code = mpi.Initialized(&there);
  *out_began = false;
  if (!code && there) return mpi.Query_thread(out_level);
  if (!code) code = mpi.Init_thread(NULL, NULL, ANY_THREAD, out_level);
  *out_began = !code;
  return code;
}

static bool has_mpi_ended(void) {
  int ended = 0;
  return mpi.Finalized(&ended) != 0 || ended;
}

static int end_mpi(void) { return mpi.Finalize(); }

static int place_in_world(int *out_rank, int *out_ranks) {
  int code = mpi.Comm_rank(WORLD, out_rank);
  return code ? code : mpi.Comm_size(WORLD, out_ranks);
}

static int copy_world(mscrt_request *out_comm, mscrt_request *out_request) {
  int code = mpi.Comm_set_errhandler(WORLD, RETURN_ERRORS);
  return code ? code : mpi.Comm_idup(WORLD, handle_at(out_comm), handle_at(out_request));
}

static int free_comm(mscrt_request *comm) { return mpi.Comm_free(handle_at(comm)); }

static int send_bytes(const mscrt_request *comm, const void *src, int bytes, int to, int tag,
                      mscrt_request *out_request) {
  return mpi.Isend(src, bytes, BYTE, to, tag, handle_in(comm), handle_at(out_request));
}

static int receive_bytes(const mscrt_request *comm, void *dst, int bytes, int from, int tag,
                         mscrt_request *out_request) {
  return mpi.Irecv(dst, bytes, BYTE, from, tag, handle_in(comm), handle_at(out_request));
}

static int test_request(mscrt_request *request, bool *out_done) {
  int done = 0, code = mpi.Test(handle_at(request), &done, NO_STATUS);
  *out_done = done;
  return code;
}

static void explain_code(int code, char out_text[1024]) {
  int chars = 0;
  if (mpi.Error_string(code, out_text, &chars) != 0) chars = 0;
  out_text[chars] = 0;
}

#define MPI_TABLE(name_)                                                                                              \
  {                                                                                                                   \
    .name = name_, .load = load_functions, .begin = begin_mpi, .has_ended = has_mpi_ended, .end = end_mpi,            \
    .place = place_in_world, .copy_world = copy_world, .free_comm = free_comm, .send = send_bytes,                    \
    .receive = receive_bytes, .test = test_request, .explain = explain_code,                                          \
  }
