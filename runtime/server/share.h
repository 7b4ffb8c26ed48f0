/* share.h: what each of several servers has of a plan: the sums of gradients that it makes, the calls that it runs
 * with them, and the parameters that these write. The same in every process: it follows from the plan and the number
 * of servers alone. */
#ifndef MSCRT_SHARE_H
#define MSCRT_SHARE_H

#include "runtime/context.h"

/* A value of a served collective. */
typedef struct {
  const mscrt_record *record;
  uint32_t part;  /* of the record */
  int64_t at;     /* where its elements begin in what a worker pushes to this server */
} mscrt_served_sum;

typedef struct {
  const mscrt_variable *v;
  uint64_t at, bytes; /* in what a worker pulls */
} mscrt_served_value;

typedef struct {
  uint32_t num_sums, num_values, num_states;
  mscrt_served_sum *sum;     /* in the order of the plan */
  mscrt_served_value *value; /* parameters, and behind them state, whose `at` counts anew */
  int64_t elems;             /* that a worker pushes */
  uint64_t value_bytes;      /* that it pulls, and ... */
  uint64_t state_bytes;      /* ... for a checkpoint */
  bool *runs;                /* by number of a served call: this server runs it */
} mscrt_share;

/* The sections with served calls, in the order in which a step of training runs them. */
typedef struct {
  mscrt_dtype dtype;         /* of all gradients */
  uint32_t num_sections;
  const mscrt_section **section;
  int num;
  mscrt_share *share;        /* of each server */
} mscrt_shares;

/* Shares out the served calls of a context's plan among `num` servers. */
mscrt_status *mscrt_shares_new(const mscrt_context *c, int num, mscrt_shares *out_shares);
void mscrt_shares_free(mscrt_shares *s);
/* The bytes of a value of a collective, which all ranks have whole. */
uint64_t mscrt_sum_bytes(const mscrt_served_sum *s);
/* Where process number `server` of a job's servers listens; the copies are behind all servers. */
mscrt_status *mscrt_server_address(const char *job, int server, char *out, size_t room);

/* ---- push_step.c: the workers' side ---- */

/* Connects to process number `server` of the servers; waits for it as ranks wait for each other. */
mscrt_status *mscrt_dial_server(const mscrt_options *o, int server, int *out_fd);

typedef struct mscrt_pushing mscrt_pushing;

/* Connects this rank to the servers. */
mscrt_status *mscrt_pushing_new(const mscrt_context *c, mscrt_pushing **out_pushing);
/* Leaves the servers, if it has done its work. */
void mscrt_pushing_free(mscrt_pushing *p, bool done);
/* Keeps what this rank adds to the sums of a served collective. */
void mscrt_keep_gradient(mscrt_pushing *p, const mscrt_record *r);
/* Pushes what was kept in this step, and pulls the parameters when all workers have pushed. */
mscrt_status *mscrt_push_and_pull(mscrt_context *c, mscrt_pushing *p);
/* Tells the servers the new value of a number of the plan, once for all ranks. */
mscrt_status *mscrt_push_scalar(mscrt_context *c, mscrt_pushing *p, uint32_t parameter, double value);
/* Makes the parameters those after the last step of all workers, the same in all of them, which must all ask; with
 * `state` the optimizer's state too, for a checkpoint. Without servers it does nothing. */
mscrt_status *mscrt_pull_settled(mscrt_context *c, bool state);

#endif
