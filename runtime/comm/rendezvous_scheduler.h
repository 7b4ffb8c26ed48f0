/* rendezvous_scheduler.h: the leader of a job over TCP, which tells all ranks where the others listen and who is lost
 * (see tcp.h). */
#ifndef MSCRT_RENDEZVOUS_SCHEDULER_H
#define MSCRT_RENDEZVOUS_SCHEDULER_H

#include "runtime/comm/comm.h"

/* ---- handshake.c ---- */

#define MSCRT_MAC      32
#define MSCRT_PROTOCOL 1

/* The key of a job; without a token there is none, and nothing is proved. */
typedef struct {
  void *library;
  int (*make)(uint8_t *mac, const uint8_t *text, unsigned long long bytes, const uint8_t *key);
  int (*verify)(const uint8_t *mac, const uint8_t *text, unsigned long long bytes, const uint8_t *key);
  uint8_t bytes[MSCRT_MAC];
} mscrt_key;

/* Makes the key from a token; NULL: there is no token. Loads libsodium if there is one. */
mscrt_status *mscrt_key_open(const char *token, mscrt_key *out_key);
void mscrt_key_close(mscrt_key *k);

/* ---- rendezvous_scheduler.c ---- */

typedef struct mscrt_scheduler mscrt_scheduler;

/* Listens at o->address and starts the thread that leads a job of o->ranks ranks. The key must stay valid until the
 * scheduler is freed, by mscrt_scheduler_wait or mscrt_scheduler_stop. */
mscrt_status *mscrt_scheduler_start(const mscrt_comm_options *o, const mscrt_key *key, mscrt_scheduler **out_scheduler);
/* Waits until the job has ended and frees the scheduler. Returns a status if the job could not start or lost a rank;
 * *out_lost: it lost one. */
mscrt_status *mscrt_scheduler_wait(mscrt_scheduler *s, bool *out_lost);
/* Ends the thread; ranks that are left are told that the scheduler has ended its work. Accepts NULL. */
void mscrt_scheduler_stop(mscrt_scheduler *s);

/* ---- rendezvous_member.c ---- */

/* Asks the leader of the job which rank this process is to be; it answers when all other ranks have joined or asked.
 * Reads of the options only ranks, address, token, meet_ms, led and log. */
mscrt_status *mscrt_ask_leader(const mscrt_comm_options *o, int *out_rank);

#endif
