/* answer_push_pull.h: a shard behind sockets: workers push and pull by frames. A push is answered when this server, and
 * the backup if there is one, has accepted it.  All numbers have the byte order of this machine. */
#ifndef MSCRT_ANSWER_PUSH_PULL_H
#define MSCRT_ANSWER_PUSH_PULL_H

#include "runtime/comm/rendezvous_scheduler.h"
#include "runtime/server/apply_pushes.h"

typedef enum {
  MSCRT_ASK_PUSH = 1, /* followed by the numbers of rows, unless all, and their gradients */
  MSCRT_ASK_PULL,     /* followed by the numbers of rows, unless all; answered when the worker may pull */
  /* The same, but gradients and values are at the beginning of the memory that the worker has lent. */
  MSCRT_ASK_PUSH_LENT,
  MSCRT_ASK_PULL_LENT,
  /* step: the version that the worker has; answered when it may pull, with what has changed since then: num spans, and
   * behind them their bytes, or at the beginning of the memory that the worker has lent */
  MSCRT_ASK_CHANGES,
  MSCRT_ASK_CHANGES_LENT,
  /* num: bytes of the memory whose file descriptor comes with the frame; answered EARLY if it cannot be mapped. */
  MSCRT_ASK_LEND,
  MSCRT_ASK_LEAVE,
  MSCRT_ASK_JOIN,  /* step, num, all: begin, epoch, forwarded of mscrt_join */
  MSCRT_ASK_STOP,  /* see mscrt_shard_stop */
  MSCRT_ASK_STATE, /* answered at once, with the state that belongs to the values */
  MSCRT_ASK_SET,   /* step: which number of the plan, num: the bits of its new value, a double */
  MSCRT_ASK_PUT,   /* followed by num bytes, all that the server has, as a worker has them */
  MSCRT_ANSWER_TAKEN,
  MSCRT_ANSWER_EARLY,
  MSCRT_ANSWER_VALUES, /* followed by them */
  MSCRT_ANSWER_BAD     /* the frame was wrong; the connection ends */
} mscrt_server_word;

#define MSCRT_SERVER_MAGIC 0x7673736du /* "mssv" */
#define MSCRT_NO_VERSION   UINT64_MAX
#define MSCRT_NO_EPOCH     UINT64_MAX

/* A part of a server's values. */
typedef struct {
  uint64_t at, bytes;
} mscrt_value_span;

typedef struct {
  uint32_t magic, word;
  int32_t worker;
  uint32_t all;  /* rows: 1, or 0 */
  uint64_t step; /* of a push; of an answer with values: the version of the shard; to a worker that joins: its next */
  int64_t num;   /* of rows */
  uint64_t stop; /* of an answer: the clock at which all workers stop, MSCRT_NO_STOP: none */
} mscrt_server_head;

/* How a worker joins. Epoch: how often workers have met; the first to join in a later epoch than the server's makes it
 * go back, or on, to version `begin`, or to version 0 with values that worker 0 is going to put (MSCRT_NO_VERSION), and
 * ends the connections of workers that joined before. The answer's num is 1 as long as these values are waited for. */
typedef struct {
  int worker;
  uint64_t epoch, begin;
  bool forwarded; /* a server tells its backup */
} mscrt_join;

/* Memory that a worker shares with the servers of its host, so that gradients and values need not go through
 * sockets. */
typedef struct {
  int fd; /* -1: only this process has the memory, because the system gave none to share */
  void *at;
  uint64_t bytes;
} mscrt_lent;

typedef struct {
  mscrt_shard *shard;
  int64_t rows;
  uint64_t row_bytes;
  const void *values;   /* that workers pull: the rows of the shard, or value_bytes bytes whose changes they ask for */
  uint64_t value_bytes; /* 0: workers pull rows */
  /* Finds the parts of the values that have changed after version `since`, in order; with value_bytes. */
  void (*changes)(void *user, uint64_t since, int64_t *out_num, const mscrt_value_span **out_span);
  /* Returns state_bytes bytes of state that belongs to the values, and that no worker pulls for a step; NULL: none. */
  const void *(*state)(void *user);
  uint64_t state_bytes;
  /* Sets a number of the plan for the following updates; returns false if there is no such number. NULL: there are
   * none. */
  bool (*set)(void *user, uint64_t number, double value);
  /* Sets the values to those of a version; returns false if they are not known any more. NULL: a worker that is lost
   * is not replaced, and is waited for. Else who waits for one whose connection ends without leaving is dropped. */
  bool (*begin)(void *user, uint64_t version);
  void (*put)(void *user, const void *all); /* with `begin`: sets all that the server has, put_bytes bytes */
  uint64_t put_bytes;
  void *user;
  int listener;    /* where workers connect; not blocking; the caller's */
  const mscrt_key *key; /* of the job's token, which workers must prove that they have; NULL: there is none */
  int stop;        /* becomes readable when mscrt_serve must end, with `begin` as soon as no worker that has joined is
                    * connected; the caller's; -1: none */
  bool until_left; /* ends when all workers have left */
  int backup;      /* connection to a server of the same shard, as a worker has; -1: none; closed when lost */
  int backup_ms;   /* a backup that does not answer for so long is lost */
  mscrt_lent to_backup; /* of mscrt_serve: what is lent to a backup on this host, for the gradients of pushes */
  /* Called when the backup is lost: from then on only this server holds acknowledged pushes. May be NULL. */
  void (*alone)(void *user, const char *why);
  void *alone_user;
  uint64_t epoch; /* in which workers joined last; MSCRT_NO_EPOCH: with `begin`, the first to join says a version */
  bool awaits_put;
} mscrt_serving;

/* Serves until `stop` is readable.  Wrong frames end their connection, and no other. */
mscrt_status *mscrt_serve(mscrt_serving *s);

mscrt_status *mscrt_lent_new(uint64_t bytes, mscrt_lent *out_lent);
void mscrt_lent_free(mscrt_lent *l);
/* Lends memory to the server behind a connection; *out_taken false: the server cannot map it. */
mscrt_status *mscrt_ask_lend(int fd, int worker, const mscrt_lent *l, int timeout_ms, bool *out_taken);

/* A worker's side of a connection.  After a failure the connection cannot be used; the same push may go to the backup.
 * Gradient NULL: it is in the lent memory; out_values NULL: the server writes the values there. */
mscrt_status *mscrt_ask_push(int fd, uint64_t row_bytes, const mscrt_push *p, int timeout_ms, mscrt_push_end *out_end);
/* rows NULL: all `num` rows.  *out_stop (out_stop may be NULL): see mscrt_shard_stop. */
mscrt_status *mscrt_ask_pull(int fd, uint64_t row_bytes, int worker, int64_t num, const int64_t *rows, int timeout_ms,
                             void *out_values, uint64_t *out_version, uint64_t *out_stop);
/* What an answer about changes says. */
typedef struct {
  int64_t num;
  uint8_t *spans; /* an array of mscrt_value_span; the caller frees it with free */
  size_t room;    /* its bytes */
  uint64_t version, stop;
} mscrt_changes_told;
/* Asks what has changed since a version in values of value_bytes bytes. The bytes of all spans, one behind the other,
 * are written to out_values or, if it is NULL, to the lent memory. */
mscrt_status *mscrt_ask_changes(int fd, int worker, uint64_t since, uint64_t value_bytes, int timeout_ms,
                                void *out_values, mscrt_changes_told *out_told);
mscrt_status *mscrt_ask_stop(int fd, int worker, int timeout_ms, uint64_t *out_stop);
mscrt_status *mscrt_ask_state(int fd, int worker, uint64_t bytes, int timeout_ms, void *out_state);
/* Sets a number of the plan, for the updates of steps that not all workers have pushed yet. */
mscrt_status *mscrt_ask_set(int fd, int worker, uint64_t number, double value, int timeout_ms);
/* See mscrt_shard_leave and mscrt_shard_join; both may be repeated, also with the backup. */
mscrt_status *mscrt_ask_leave(int fd, int worker, int timeout_ms);
mscrt_status *mscrt_ask_join(int fd, const mscrt_join *j, int timeout_ms, uint64_t *out_step, bool *out_awaits_put);
/* Gives the server all that it has (see mscrt_serving.put). */
mscrt_status *mscrt_ask_put(int fd, int worker, uint64_t bytes, const void *all, int timeout_ms);

#endif
