/* ucx.c: messages through UCX, which knows RDMA hardware: libucp is loaded when it is asked for, and ranks tell each
 * other their workers' addresses over connections that proved to have the job's token.
 *
 * What is declared here are the first members of UCX's structs, as all versions from 1.11 on have them, with room for
 * the rest: UCX reads members whose bit is in the mask (openucx.org, ucp/api/ucp.h; tests/runtime/ucx.c compares). */
#include "runtime/comm/ucx.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSE_MS = 2000, MOST_ADDRESS = 1 << 16 };

#define FUNCTIONS(X)                                                                                       \
  X(int, ucp_config_read, const char *, const char *, void **)                                             \
  X(void, ucp_config_release, void *)                                                                      \
  X(int, ucp_init_version, unsigned, unsigned, const mscrt_ucp_params *, const void *, void **)            \
  X(void, ucp_cleanup, void *)                                                                             \
  X(int, ucp_worker_create, void *, const mscrt_ucp_worker_params *, void **)                              \
  X(void, ucp_worker_destroy, void *)                                                                      \
  X(int, ucp_worker_get_address, void *, void **, size_t *)                                                \
  X(void, ucp_worker_release_address, void *, void *)                                                      \
  X(unsigned, ucp_worker_progress, void *)                                                                 \
  X(int, ucp_worker_get_efd, void *, int *)                                                                \
  X(int, ucp_worker_arm, void *)                                                                           \
  X(int, ucp_ep_create, void *, const mscrt_ucp_ep_params *, void **)                                      \
  X(void *, ucp_ep_close_nbx, void *, const mscrt_ucp_request_param *)                                     \
  X(void *, ucp_tag_send_nbx, void *, const void *, size_t, uint64_t, const mscrt_ucp_request_param *)     \
  X(void *, ucp_tag_recv_nbx, void *, void *, size_t, uint64_t, uint64_t, const mscrt_ucp_request_param *) \
  X(int, ucp_request_check_status, void *)                                                                 \
  X(void, ucp_request_free, void *)                                                                        \
  X(const char *, ucs_status_string, int8_t)

typedef struct {
  const mscrt_member *m;
  void *library, *context, *worker;
  void **ep; /* of each rank; NULL: this one */
  int event;
#define X(result, name, ...) result (*name)(__VA_ARGS__);
  FUNCTIONS(X)
#undef X
} ucx_link;

/* ---- codes ---- */

/* A status of UCX has one byte: what a function returns beyond that is not defined. */
static int code_of(int status) { return (int8_t)status; }

/* Converts what a function of UCX that begins a message returned: *out is the request, NULL inside where the message
 * has ended at once. Returns a code, 0 for success. */
static int request_of(void *began, mscrt_request *out) {
  intptr_t code = (intptr_t)began;
  bool failed = code < 0 && code > -128;
  void *request = failed ? NULL : began;
  memcpy(out->bytes, &request, sizeof request);
  return failed ? (int)code : 0;
}

static void explain_ucx(void *link, int code, char out_text[1024]) {
  snprintf(out_text, 1024, "%s", ((ucx_link *)link)->ucs_status_string((int8_t)code));
}

static mscrt_status *check_code(ucx_link *l, int status, const char *what) {
  return code_of(status) ? mscrt_fail(MSCRT_ENVIRONMENT, "UCX %s: %s", what, l->ucs_status_string((int8_t)status))
                         : NULL;
}

/* ---- messages ---- */

static int send_by_ucx(void *link, const void *src, int bytes, int to, mscrt_request *out_request) {
  ucx_link *l = link;
  const mscrt_ucp_request_param plain = {0};
  return request_of(l->ucp_tag_send_nbx(l->ep[to], src, (size_t)bytes, (uint64_t)l->m->rank, &plain), out_request);
}

static int receive_by_ucx(void *link, void *dst, int bytes, int from, mscrt_request *out_request) {
  ucx_link *l = link;
  const mscrt_ucp_request_param plain = {0};
  return request_of(l->ucp_tag_recv_nbx(l->worker, dst, (size_t)bytes, (uint64_t)from, UINT64_MAX, &plain),
                    out_request);
}

static int test_ucx(void *link, mscrt_request *request, bool *out_done) {
  ucx_link *l = link;
  void *r;
  memcpy(&r, request->bytes, sizeof r);
  int code = r ? code_of(l->ucp_request_check_status(r)) : 0;
  if (code == MSCRT_UCS_INPROGRESS) {
    l->ucp_worker_progress(l->worker);
    code = code_of(l->ucp_request_check_status(r));
  }
  *out_done = code != MSCRT_UCS_INPROGRESS;
  if (*out_done && r) l->ucp_request_free(r);
  if (*out_done) memset(request->bytes, 0, sizeof request->bytes);
  return code == MSCRT_UCS_INPROGRESS ? 0 : code;
}

static int event_of_ucx(void *link) { return ((ucx_link *)link)->event; }

static bool arm_ucx(void *link) {
  ucx_link *l = link;
  return code_of(l->ucp_worker_arm(l->worker)) == 0;
}

/* ---- opening ---- */

static mscrt_status *load_ucx(ucx_link *l) {
  /* UCX reads these when it is loaded; without them it takes over signals and mmap of the whole process */
  static const char *const quiet[][2] = {{"UCX_ERROR_SIGNALS", ""},     {"UCX_DEBUG_SIGNO", ""},
                                         {"UCX_HANDLE_ERRORS", "none"}, {"UCX_MEM_EVENTS", "n"},
                                         {"UCX_VFS_ENABLE", "n"},       {"UCX_WARN_UNUSED_ENV_VARS", "n"}};
  for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) setenv(quiet[i][0], quiet[i][1], 0);
  const char *given = getenv("MSC_UCX_LIBRARY"), *name = given ? given : "libucp.so.0";
  l->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!l->library) {
    const char *why = dlerror();
    return mscrt_fail(MSCRT_ENVIRONMENT, "--comm ucx needs the library of UCX, %s: %s", name, why ? why : "not there");
  }
#define X(result, function, ...)                                 \
  *(void **)(void *)&l->function = dlsym(l->library, #function); \
  if (!l->function) return mscrt_fail(MSCRT_ENVIRONMENT, "%s is not UCX: it has no function %s", name, #function);
  FUNCTIONS(X)
#undef X
  return NULL;
}

static mscrt_status *begin_ucx(ucx_link *l) {
  const mscrt_ucp_params params = {.field_mask = MSCRT_UCP_PARAM_FEATURES | MSCRT_UCP_PARAM_NUM_EPS,
                                   .features = MSCRT_UCP_TAG | MSCRT_UCP_WAKEUP,
                                   .estimated_num_eps = (size_t)l->m->ranks};
  const mscrt_ucp_worker_params worker = {.field_mask = MSCRT_UCP_WORKER_THREAD_MODE,
                                          .thread_mode = MSCRT_UCS_THREAD_SERIALIZED};
  void *config = NULL;
  MSCRT_CHECK(check_code(l, l->ucp_config_read(NULL, NULL, &config), "cannot read its configuration"));
  int code = l->ucp_init_version(1, 11, &params, config, &l->context);
  l->ucp_config_release(config);
  MSCRT_CHECK(check_code(l, code, "cannot begin"));
  MSCRT_CHECK(check_code(l, l->ucp_worker_create(l->context, &worker, &l->worker), "cannot make a worker"));
  return check_code(l, l->ucp_worker_get_efd(l->worker, &l->event), "has nothing to wait on");
}

/* Sends or receives all bytes over a connection, until the deadline. */
static mscrt_status *move_all(int fd, bool sends, void *data, size_t bytes, int rank, int64_t deadline_ns) {
  uint8_t *at = data;
  while (bytes) {
    ssize_t n = sends ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, bytes, MSG_DONTWAIT);
    if (n > 0) {
      at += n, bytes -= (size_t)n;
      continue;
    }
    bool again = n < 0 && (errno == EAGAIN || errno == EINTR);
    int64_t left = deadline_ns - mscrt_now_ns();
    if (!again || left <= 0)
      return mscrt_fail(MSCRT_PEER, "rank %d did not tell its address of UCX%s", rank, again ? " in time" : "");
    poll(&(struct pollfd){.fd = fd, .events = sends ? POLLOUT : POLLIN}, 1, 100);
  }
  return NULL;
}

/* Receives the address of another rank's worker, and connects to it. */
static mscrt_status *connect_worker(ucx_link *l, int rank, int fd, int64_t deadline_ns) {
  uint32_t bytes = 0;
  MSCRT_CHECK(move_all(fd, false, &bytes, sizeof bytes, rank, deadline_ns));
  if (!bytes || bytes > MOST_ADDRESS)
    return mscrt_fail(MSCRT_PEER, "rank %d tells an address of UCX of %u bytes", rank, bytes);
  void *address;
  MSCRT_CHECK(mscrt_allocate(&address, bytes, 1));
  mscrt_status *s = move_all(fd, false, address, bytes, rank, deadline_ns);
  mscrt_ucp_ep_params params = {.field_mask = MSCRT_UCP_EP_REMOTE_ADDRESS, .address = address};
  if (!s) s = check_code(l, l->ucp_ep_create(l->worker, &params, &l->ep[rank]), "cannot connect two ranks");
  free(address);
  return s;
}

static mscrt_status *connect_workers(ucx_link *l, const int *fd) {
  int64_t deadline = mscrt_now_ns() + (int64_t)l->m->o->meet_ms * 1000000;
  void *address;
  size_t bytes;
  MSCRT_CHECK(check_code(l, l->ucp_worker_get_address(l->worker, &address, &bytes), "has no address"));
  uint32_t told = (uint32_t)bytes;
  mscrt_status *s =
      bytes > MOST_ADDRESS ? mscrt_fail(MSCRT_ENVIRONMENT, "UCX has an address of %zu bytes", bytes) : NULL;
  for (int r = 0; r < l->m->ranks && !s; r++) {
    if (fd[r] < 0) continue;
    s = move_all(fd[r], true, &told, sizeof told, r, deadline);
    if (!s) s = move_all(fd[r], true, address, bytes, r, deadline);
  }
  for (int r = 0; r < l->m->ranks && !s; r++)
    if (fd[r] >= 0) s = connect_worker(l, r, fd[r], deadline);
  l->ucp_worker_release_address(l->worker, address);
  return s;
}

/* ---- closing ---- */

/* Ends the connections; what was sent is on its way when this returns, unless the others are gone. */
static void close_eps(ucx_link *l, bool idle) {
  const mscrt_ucp_request_param how = {.op_attr_mask = MSCRT_UCP_OP_FLAGS,
                                       .flags = idle ? 0 : MSCRT_UCP_EP_CLOSE_FORCE};
  int64_t deadline = mscrt_now_ns() + (int64_t)CLOSE_MS * 1000000;
  for (int r = 0; r < l->m->ranks; r++) {
    mscrt_request request;
    bool done = false;
    if (!l->ep[r] || request_of(l->ucp_ep_close_nbx(l->ep[r], &how), &request)) continue;
    while (!done && mscrt_now_ns() < deadline && !test_ucx(l, &request, &done) && !done) poll(NULL, 0, 0);
  }
}

static bool close_ucx(void *link, bool idle) {
  ucx_link *l = link;
  if (!idle && l->worker) return false; /* receives under way belong to no connection: their memory stays */
  if (l->worker) close_eps(l, idle);
  if (l->worker) l->ucp_worker_destroy(l->worker);
  if (l->context) l->ucp_cleanup(l->context);
  free(l->ep);
  free(l); /* the library stays: it does not bear to be unloaded */
  return true;
}

static mscrt_status *open_ucx(const mscrt_member *m, const int *fd, void **out_link) {
  ucx_link *l;
  MSCRT_CHECK(mscrt_new_array(&l, 1));
  *out_link = l;
  l->m = m;
  MSCRT_CHECK(mscrt_new_array(&l->ep, m->ranks));
  MSCRT_CHECK(load_ucx(l));
  MSCRT_CHECK(begin_ucx(l));
  return connect_workers(l, fd);
}

const mscrt_fabric_calls mscrt_over_ucx = {.name = "ucx",
                                           .needs_connections = true,
                                           .open = open_ucx,
                                           .send = send_by_ucx,
                                           .receive = receive_by_ucx,
                                           .test = test_ucx,
                                           .explain = explain_ucx,
                                           .event = event_of_ucx,
                                           .arm = arm_ucx,
                                           .close = close_ucx};
