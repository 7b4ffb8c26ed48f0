/* handshake.c: the start of every connection: three messages of fixed size, in which both ends prove that they have the
 * token of the job without showing it.
 *
 *   client: hello      nonce
 *   server: challenge  nonce, MAC("S", hello, challenge)
 *   client: proof      MAC("C", hello, challenge)
 *
 * The key of the connection is MAC("K", hello, challenge). MACs are libsodium's crypto_auth (HMAC-SHA-512-256), loaded
 * when there is a token, so that programs which run on one host do not need the library. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/comm/tcp.h"

#define MAGIC       "MSCRTTCP"
#define LEAST_TOKEN 22 /* characters of base64 that hold 128 bits */

enum { FINE, OTHER_VERSION, TOKEN_MISSING, TOKEN_UNKNOWN };
enum { HELLO, CHALLENGE, PROOF, FINISHED };

_Static_assert(sizeof(mscrt_greeting) == 104, "no padding");

mscrt_status *mscrt_key_open(const char *token, mscrt_key *out_key) {
  static const uint8_t zeros[MSCRT_MAC];
  *out_key = (mscrt_key){0};
  if (!token) return NULL;
  if (strlen(token) < LEAST_TOKEN)
    return mscrt_fail(MSCRT_ARGUMENT, "the token has %zu characters; %d are the least", strlen(token), LEAST_TOKEN);
  void *library = dlopen("libsodium.so.23", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libsodium.so.26", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return mscrt_fail(MSCRT_ENVIRONMENT, "a token needs libsodium (Debian: libsodium23), which cannot be loaded: %s",
                      dlerror());
  int (*init)(void);
  *(void **)&init = dlsym(library, "sodium_init");
  *(void **)&out_key->make = dlsym(library, "crypto_auth");
  *(void **)&out_key->verify = dlsym(library, "crypto_auth_verify");
  out_key->library = library;
  if (init && out_key->make && out_key->verify && init() >= 0) {
    out_key->make(out_key->bytes, (const uint8_t *)token, strlen(token), zeros);
    return NULL;
  }
  mscrt_key_close(out_key);
  return mscrt_fail(MSCRT_ENVIRONMENT, "libsodium has no crypto_auth");
}

void mscrt_key_close(mscrt_key *k) {
  if (k->library) dlclose(k->library);
  explicit_bzero(k, sizeof *k);
}

/* The input of the MACs of a handshake: `proof` is 'S', 'C' or 'K'. */
typedef struct {
  char proof;
  mscrt_greeting hello, challenge;
} transcript;

static size_t write_transcript(const mscrt_handshake *h, char proof, transcript *t) {
  memset(t, 0, sizeof *t);
  t->proof = proof, t->hello = h->hello, t->challenge = h->challenge;
  memset(t->challenge.mac, 0, sizeof t->challenge.mac);
  return sizeof *t;
}

static void make_mac(const mscrt_handshake *h, char proof, uint8_t *out_mac) {
  transcript t;
  size_t bytes = write_transcript(h, proof, &t);
  if (h->key->library) h->key->make(out_mac, (const uint8_t *)&t, bytes, h->key->bytes);
  else memset(out_mac, 0, MSCRT_MAC);
}

static bool is_mac(const mscrt_handshake *h, char proof, const uint8_t *mac) {
  transcript t;
  size_t bytes = write_transcript(h, proof, &t);
  return !h->key->library || h->key->verify(mac, (const uint8_t *)&t, bytes, h->key->bytes) == 0;
}

void mscrt_handshake_begin(mscrt_handshake *h, const mscrt_key *key, int fd, bool is_server, mscrt_purpose purpose,
                           int rank, uint64_t job, int64_t deadline_ns) {
  *h = (mscrt_handshake){.key = key, .fd = fd, .is_server = is_server, .deadline_ns = deadline_ns};
  mscrt_greeting g = {.version = MSCRT_PROTOCOL,
                      .purpose = (uint32_t)purpose,
                      .rank = rank,
                      .job = job,
                      .has_token = key->library != NULL};
  memcpy(g.magic, MAGIC, sizeof g.magic);
  if (getrandom(g.nonce, sizeof g.nonce, 0) != sizeof g.nonce) g.verdict = OTHER_VERSION; /* does not happen */
  *(is_server ? &h->challenge : &h->hello) = g;
}

static mscrt_greeting *message_of(mscrt_handshake *h) {
  return h->stage == HELLO ? &h->hello : h->stage == CHALLENGE ? &h->challenge : &h->proof;
}

static bool sends_now(const mscrt_handshake *h) { return (h->stage == CHALLENGE) == h->is_server; }

short mscrt_handshake_events(const mscrt_handshake *h) { return sends_now(h) ? POLLOUT : POLLIN; }

static mscrt_shake __attribute__((format(printf, 2, 3))) fail_handshake(mscrt_handshake *h, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(h->why, sizeof h->why, fmt, ap);
  va_end(ap);
  return MSCRT_UNSHAKEN;
}

/* Sends or receives bytes of the current message: 1: it is complete, 0: not yet, -1: the connection has ended. */
static int move_message(mscrt_handshake *h) {
  uint8_t *at = (uint8_t *)message_of(h);
  while (h->done < sizeof(mscrt_greeting)) {
    size_t left = sizeof(mscrt_greeting) - h->done;
    ssize_t n = sends_now(h) ? send(h->fd, at + h->done, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                             : recv(h->fd, at + h->done, left, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return 0;
    if (n <= 0) return -1;
    h->done += (size_t)n;
  }
  h->done = 0;
  return 1;
}

/* Checks the client's hello on the server's side, and answers. */
static mscrt_shake check_hello(mscrt_handshake *h) {
  const mscrt_greeting *c = &h->hello;
  if (memcmp(c->magic, MAGIC, sizeof c->magic)) return fail_handshake(h, "what came is no greeting of a rank");
  if (c->version != MSCRT_PROTOCOL) {
    h->challenge.verdict = OTHER_VERSION;
    fail_handshake(h, "it speaks version %u of the protocol, not %u", c->version, MSCRT_PROTOCOL);
  } else if (c->has_token && !h->key->library) {
    h->challenge.verdict = TOKEN_UNKNOWN;
    fail_handshake(h, "it has a token, this end has none");
  } else if (!c->has_token && h->key->library) {
    h->challenge.verdict = TOKEN_MISSING;
    fail_handshake(h, "it has no token");
  } else {
    make_mac(h, 'S', h->challenge.mac);
  }
  return MSCRT_SHAKING;
}

static mscrt_shake check_challenge(mscrt_handshake *h) {
  const mscrt_greeting *s = &h->challenge;
  if (memcmp(s->magic, MAGIC, sizeof s->magic)) return fail_handshake(h, "what answers there is not msc");
  if (s->version != MSCRT_PROTOCOL || s->verdict == OTHER_VERSION)
    return fail_handshake(h, "it speaks version %u of the protocol, this rank %u: run the same msc on all hosts",
                          s->version, MSCRT_PROTOCOL);
  if (s->verdict == TOKEN_MISSING) return fail_handshake(h, "the job has a token, this rank has none");
  if (s->verdict == TOKEN_UNKNOWN) return fail_handshake(h, "the job has no token, this rank has one");
  if (s->verdict || !is_mac(h, 'S', s->mac)) return fail_handshake(h, "the job has another token than this rank");
  h->proof = h->hello;
  make_mac(h, 'C', h->proof.mac);
  return MSCRT_SHAKING;
}

mscrt_shake mscrt_handshake_wait(mscrt_handshake *h) {
  mscrt_shake state;
  while ((state = mscrt_handshake_go(h)) == MSCRT_SHAKING) {
    int64_t left = h->deadline_ns - mscrt_now_ns();
    poll(&(struct pollfd){.fd = h->fd, .events = mscrt_handshake_events(h)}, 1,
         left > 0 ? (int)(left / 1000000) + 1 : 0);
  }
  return state;
}

mscrt_shake mscrt_handshake_go(mscrt_handshake *h) {
  while (h->stage != FINISHED) {
    int moved = move_message(h);
    h->ended = moved < 0;
    if (moved < 0)
      return h->stage == PROOF && h->is_server ? fail_handshake(h, "it has another token, or left")
                                               : fail_handshake(h, "the connection ended");
    if (moved == 0)
      return mscrt_now_ns() < h->deadline_ns ? MSCRT_SHAKING : fail_handshake(h, "it did not say who it is in time");
    mscrt_shake s = MSCRT_SHAKING;
    if (h->stage == HELLO && h->is_server) s = check_hello(h);
    if (h->stage == CHALLENGE && !h->is_server) s = check_challenge(h);
    if (h->stage == CHALLENGE && h->is_server && h->challenge.verdict) return MSCRT_UNSHAKEN;
    if (h->stage == PROOF && h->is_server && !is_mac(h, 'C', h->proof.mac))
      return fail_handshake(h, "its token is wrong");
    if (s == MSCRT_UNSHAKEN) return s;
    h->stage++;
  }
  make_mac(h, 'K', h->session);
  return MSCRT_SHAKEN;
}
