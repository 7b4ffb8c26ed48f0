/* frames.c: frames on a control connection: a head of type, length and number, which tells the direction too, the
 * payload, and a MAC over both. A frame that is too long, out of order or without the right MAC ends the connection. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/tcp.h"

typedef struct {
  uint32_t type, bytes;
  uint64_t number; /* of the frame in its direction; a server's have the highest bit */
} frame_head;

#define FROM_SERVER ((uint64_t)1 << 63)
#define MOST_QUEUED ((size_t)16 << 20) /* with more bytes to send, the connection counts as broken */

static bool has_macs(const mscrt_link *l) { return l->key && l->key->library; }

void mscrt_link_open(mscrt_link *l, const mscrt_handshake *h) {
  *l = (mscrt_link){.key = h->key, .fd = h->fd, .is_server = h->is_server};
  memcpy(l->session, h->session, sizeof l->session);
}

void mscrt_link_close(mscrt_link *l) {
  if (l->fd >= 0) close(l->fd);
  free(l->in);
  free(l->out);
  *l = (mscrt_link){.fd = -1};
}

bool mscrt_link_flush(mscrt_link *l) {
  size_t done = 0;
  while (done < l->out_bytes) {
    ssize_t n = send(l->fd, l->out + done, l->out_bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return false;
    done += (size_t)n;
  }
  if (done) memmove(l->out, l->out + done, l->out_bytes - done);
  l->out_bytes -= done;
  return true;
}

bool mscrt_link_send(mscrt_link *l, mscrt_frame_type type, const void *payload, size_t bytes) {
  frame_head head = {(uint32_t)type, (uint32_t)bytes, l->sent++ | (l->is_server ? FROM_SERVER : 0)};
  size_t whole = sizeof head + bytes + MSCRT_MAC;
  if (bytes > MSCRT_MOST_FRAME || l->out_bytes + whole > MOST_QUEUED ||
      !mscrt_grow_bytes(&l->out, &l->out_room, l->out_bytes + whole))
    return false;
  uint8_t *at = l->out + l->out_bytes;
  memcpy(at, &head, sizeof head);
  if (bytes) memcpy(at + sizeof head, payload, bytes);
  if (has_macs(l)) l->key->make(at + sizeof head + bytes, at, sizeof head + bytes, l->session);
  else memset(at + sizeof head + bytes, 0, MSCRT_MAC);
  l->out_bytes += whole;
  return mscrt_link_flush(l);
}

/* Returns 1 if the buffer holds a complete frame, 0 if not yet, -1 if it is wrong. */
static int check_frame(const mscrt_link *l, mscrt_frame *out_frame) {
  frame_head head;
  if (l->in_bytes < sizeof head) return 0;
  memcpy(&head, l->in, sizeof head);
  if (head.bytes > MSCRT_MOST_FRAME || head.type == 0 || head.type >= MSCRT_NUM_FRAMES ||
      head.number != (l->received | (l->is_server ? 0 : FROM_SERVER)))
    return -1;
  size_t bytes = sizeof head + head.bytes;
  if (l->in_bytes < bytes + MSCRT_MAC) return 0;
  if (has_macs(l) && l->key->verify(l->in + bytes, l->in, bytes, l->session) != 0) return -1;
  *out_frame = (mscrt_frame){(mscrt_frame_type)head.type, head.bytes, l->in + sizeof head};
  return 1;
}

/* The bytes of the frame that is being received; only those of its head until the head is there. */
static size_t expected_bytes(const mscrt_link *l) {
  frame_head head = {0};
  if (l->in_bytes < sizeof head) return sizeof head;
  memcpy(&head, l->in, sizeof head);
  return sizeof head + head.bytes + MSCRT_MAC;
}

/* Receives one frame only: bytes of the next one stay in the socket. */
int mscrt_link_read(mscrt_link *l, mscrt_frame *out_frame) {
  for (;;) {
    int state = check_frame(l, out_frame);
    if (state) {
      if (state > 0) l->received++, l->in_bytes = 0;
      return state;
    }
    size_t need = expected_bytes(l);
    if (!mscrt_grow_bytes(&l->in, &l->in_room, need)) return -1;
    ssize_t n = recv(l->fd, l->in + l->in_bytes, need - l->in_bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    l->in_bytes += (size_t)n;
  }
}

int mscrt_link_wait(mscrt_link *l, int64_t deadline_ns, mscrt_frame *out_frame) {
  for (;;) {
    int state = mscrt_link_read(l, out_frame);
    if (state) return state;
    int64_t left = deadline_ns - mscrt_now_ns();
    if (left <= 0) return 0;
    struct pollfd p = {.fd = l->fd, .events = (short)(POLLIN | (l->out_bytes ? POLLOUT : 0))};
    poll(&p, 1, (int)(left / 1000000 < 1000 ? left / 1000000 + 1 : 1000));
    if (!mscrt_link_flush(l)) return -1;
  }
}
