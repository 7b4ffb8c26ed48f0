/* fuzz_frames: any bytes as what comes over a connection: the first says as what: a greeting to a server, the answer to
 * a client, frames of a control connection (to either end), the data of a collective. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/tcp.h"

/* Both ends of a connection on which the bytes have come, and after them its end. */
static bool open_connection(const uint8_t *data, size_t bytes, int out_fd[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, out_fd) != 0) return false;
  if (send(out_fd[1], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && bytes) {} /* as much as there is room for */
  shutdown(out_fd[1], SHUT_WR);
  return true;
}

static void shake(int fd, bool is_server) {
  mscrt_key none = {0};
  mscrt_handshake h;
  mscrt_handshake_begin(&h, &none, fd, is_server, MSCRT_FOR_CONTROL, 0, 0, mscrt_now_ns() + 1000000);
  mscrt_shake state;
  do state = mscrt_handshake_go(&h);
  while (state == MSCRT_SHAKING);
  if (state == MSCRT_UNSHAKEN && !h.why[0]) abort(); /* every failure has its reason */
}

static void read_frames(int fd, bool is_server) {
  mscrt_key none = {0};
  mscrt_handshake h = {.key = &none, .fd = dup(fd), .is_server = is_server};
  mscrt_link l;
  mscrt_frame f;
  mscrt_link_open(&l, &h);
  uint64_t sum = 0;
  while (mscrt_link_read(&l, &f) > 0) {
    if (f.bytes > MSCRT_MOST_FRAME) abort();
    for (uint32_t i = 0; i < f.bytes; i++) sum += f.payload[i];
  }
  if (l.in_room > (size_t)2 * MSCRT_MOST_FRAME || sum == UINT64_MAX) abort();
  mscrt_link_close(&l);
}

static void receive_data(int fd) {
  uint8_t values[64], own[16] = {0};
  mscrt_span in[2] = {{values, 24}, {values + 24, 40}}, out = {own, sizeof own};
  struct pollfd polled[2];
  mscrt_duplex duplex = {
      .fd = fd, .num_in = 2, .in = in, .in_bytes = 64, .num_out = 1, .out = &out, .out_bytes = 16, .ready = 16};
  duplex.own = (mscrt_duplex_head){.magic = 1, .bytes = 16, .back = 64};
  mscrt_duplexes duplexes = {.num = 1, .duplex = &duplex, .polled = polled, .wake = -1, .timeout_ms = 1};
  uint32_t at;
  mscrt_duplexes_move(&duplexes, &at);
  if (duplex.got > duplex.in_bytes || at != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  int fd[2];
  if (!bytes || !open_connection(data + 1, bytes - 1, fd)) return 0;
  switch (data[0] % 5) {
    case 0: shake(fd[0], true); break;
    case 1: shake(fd[0], false); break;
    case 2: read_frames(fd[0], true); break;
    case 3: read_frames(fd[0], false); break;
    default: receive_data(fd[0]); break;
  }
  close(fd[0]);
  close(fd[1]);
  return 0;
}
