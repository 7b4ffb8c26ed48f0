/* mpi.c: messages through MPI: loads and initializes the library of the mpirun that started the ranks, and makes a
 * communicator of the job. MPI has no file descriptor to sleep on. */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/comm/mpi.h"

enum { TAG = 1, SERIALIZED = 2 };

typedef struct {
  const mscrt_member *m;
  const mscrt_mpi_calls *calls;
  mscrt_request comm;
  bool has_comm, making;
} mpi_link;

/* ---- messages ---- */

static int send_by_mpi(void *link, const void *src, int bytes, int to, mscrt_request *out_request) {
  mpi_link *l = link;
  return l->calls->send(&l->comm, src, bytes, to, TAG, out_request);
}

static int receive_by_mpi(void *link, void *dst, int bytes, int from, mscrt_request *out_request) {
  mpi_link *l = link;
  return l->calls->receive(&l->comm, dst, bytes, from, TAG, out_request);
}

static int test_mpi(void *link, mscrt_request *request, bool *out_done) {
  return ((mpi_link *)link)->calls->test(request, out_done);
}

static void explain_mpi(void *link, int code, char out_text[1024]) {
  ((mpi_link *)link)->calls->explain(code, out_text);
}

/* ---- opening ---- */

static const mscrt_mpi_calls *begun; /* of the library that this process has initialized, and ends at exit */

static void end_begun(void) {
  if (begun && !begun->has_ended()) begun->end();
}

static void *open_library(const char *name, int also) { return dlopen(name, RTLD_NOW | RTLD_GLOBAL | also); }

/* Opens the library that the program has loaded already, else that of the launcher; NULL: none of those in `tried`. */
static void *find_library(char *tried, size_t room) {
  static const char *const open_mpi_first[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", NULL},
                           *const mpich_first[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40", NULL};
  const char *const *names = getenv("PMI_SIZE") && !getenv("OMPI_COMM_WORLD_SIZE") ? mpich_first : open_mpi_first;
  const char *given = getenv("MSC_MPI_LIBRARY");
  void *library = NULL;
  snprintf(tried, room, "%s", given ? given : "libmpi.so.40, libmpi.so.12 or libmpich.so.12");
  if (given) return open_library(given, 0);
  for (int i = 0; names[i] && !library; i++) library = open_library(names[i], RTLD_NOLOAD);
  for (int i = 0; names[i] && !library; i++) library = open_library(names[i], 0);
  return library;
}

static mscrt_status *load_mpi(mpi_link *mpi) {
  static const mscrt_mpi_calls *const known[] = {&mscrt_open_mpi, &mscrt_mpich};
  char tried[300];
  const char *why = NULL;
  void *library = find_library(tried, sizeof tried);
  if (!library) {
    why = dlerror();
    return mscrt_fail(MSCRT_ENVIRONMENT, "--comm mpi needs the library of MPI, %s: %s", tried, why ? why : "not there");
  }
  for (size_t i = 0; i < sizeof known / sizeof *known && !mpi->calls; i++) {
    why = known[i]->load(library);
    if (!why) mpi->calls = known[i];
  }
  if (mpi->calls) return NULL;
  return mscrt_fail(MSCRT_UNSUPPORTED, "%s is neither Open MPI nor MPICH: %s", tried, why);
}

static mscrt_status *mpi_failed(mpi_link *mpi, int code) {
  char text[1024] = "";
  if (!code) return NULL;
  mpi->calls->explain(code, text);
  return mscrt_fail(MSCRT_ENVIRONMENT, "%s failed: %s", mpi->calls->name, text);
}

static mscrt_status *begin_mpi(mpi_link *mpi) {
  const mscrt_mpi_calls *calls = mpi->calls;
  const mscrt_member *m = mpi->m;
  int level = 0, rank = -1, ranks = 0;
  bool own;
  if (calls->has_ended()) return mscrt_fail(MSCRT_ENVIRONMENT, "%s has been ended in this process", calls->name);
  MSCRT_CHECK(mpi_failed(mpi, calls->begin(&own, &level)));
  if (own) begun = calls, atexit(end_begun);
  if (level < SERIALIZED)
    return mscrt_fail(MSCRT_ENVIRONMENT, "this %s may be called by one thread only (level %d of 3)", calls->name,
                      level);
  MSCRT_CHECK(mpi_failed(mpi, calls->place(&rank, &ranks)));
  if (rank == m->rank && ranks == m->ranks) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "this is rank %d of %d, and %s says rank %d of %d: its mpirun has to start the ranks; "
                    "MSC_MPI_LIBRARY names another library",
                    m->rank, m->ranks, calls->name, rank, ranks);
}

static mscrt_status *make_comm(mpi_link *mpi) {
  mscrt_request request = {{0}};
  int64_t end = mscrt_now_ns() + (int64_t)mpi->m->o->meet_ms * 1000000;
  bool done = false;
  MSCRT_CHECK(mpi_failed(mpi, mpi->calls->copy_world(&mpi->comm, &request)));
  mpi->has_comm = mpi->making = true;
  while (!done) {
    MSCRT_CHECK(mpi_failed(mpi, mpi->calls->test(&request, &done)));
    if (!done && mscrt_now_ns() > end)
      return mscrt_fail(MSCRT_PEER, "waited %d ms for all ranks to begin with MPI", mpi->m->o->meet_ms);
    if (!done) sched_yield();
  }
  mpi->making = false;
  return NULL;
}

/* ---- opening and closing ---- */

static bool close_mpi(void *link, bool idle) {
  mpi_link *l = link;
  idle = idle && !l->making;
  if (idle && l->has_comm && !l->calls->has_ended()) l->calls->free_comm(&l->comm);
  if (!idle) begun = NULL; /* others may be gone, and ending MPI would wait for them */
  if (!idle && l->has_comm) return false;
  free(l);
  return true;
}

static mscrt_status *open_mpi(const mscrt_member *m, const int *fd, void **out_link) {
  mpi_link *l;
  (void)fd;
  MSCRT_CHECK(mscrt_new_array(&l, 1));
  *out_link = l;
  l->m = m;
  MSCRT_CHECK(load_mpi(l));
  MSCRT_CHECK(begin_mpi(l));
  return make_comm(l);
}

const mscrt_fabric_calls mscrt_over_mpi = {.name = "mpi",
                                           .open = open_mpi,
                                           .send = send_by_mpi,
                                           .receive = receive_by_mpi,
                                           .test = test_mpi,
                                           .explain = explain_mpi,
                                           .close = close_mpi};
