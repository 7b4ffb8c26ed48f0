/* share.h: the share of each parameter server of a plan: the sums of gradients that it computes, the rows of gradients
 * that it gathers, the calls that it runs with them, and the parameters that these calls write. It depends on the plan
 * and the number of servers alone, so it is the same in every process. */
#ifndef MSCRT_SHARE_H
#define MSCRT_SHARE_H

#include "runtime/context.h"

/* A value of a served collective. */
typedef struct {
  const mscrt_record *record;
  uint32_t part; /* of the record */
  uint64_t at;   /* its first byte in a worker's push to this server */
} mscrt_served_part;

typedef struct {
  const mscrt_variable *v;
  uint64_t at, bytes; /* the value's bytes in a worker's pull */
} mscrt_served_value;

typedef struct {
  uint32_t num_parts, num_values, num_states, num_others;
  mscrt_served_part *part;   /* in the order of the plan; in a push sums come first, then what is gathered */
  /* parameters, behind them state, behind this what workers have too: what their own calls and the server's update, as
   * the number of the step, and numbers that can be set. `at` counts anew in each of the three. */
  mscrt_served_value *value;
  int64_t elems;             /* of a push that are summed */
  uint64_t push_bytes;       /* of a push in all */
  uint64_t value_bytes;      /* of a pull, and ... */
  uint64_t state_bytes;      /* ... of a pull of the state, for a checkpoint */
  uint64_t other_bytes;
  bool *runs;                /* by number of a served call: this server runs it */
} mscrt_share;

typedef struct {
  mscrt_dtype dtype;         /* of all gradients */
  uint32_t num_sections;     /* sections with served calls, in the order in which a training step runs them */
  const mscrt_section **section;
  int first_rank, ranks;     /* of the stage: its workers, which servers number from 0 on */
  int num;                   /* servers of the stage */
  mscrt_share *share;        /* of each of them */
} mscrt_shares;

/* Shares out the served calls of a context's stage among the servers of the stage: of all servers of the job number i
 * is one of stage number i modulo the number of stages. */
mscrt_status *mscrt_shares_new(const mscrt_context *c, mscrt_shares *out_shares);
/* Returns the number, among all servers of the job, of a server of the context's stage. */
int mscrt_server_of_stage(const mscrt_context *c, int number);
void mscrt_shares_free(mscrt_shares *s);
/* Returns the bytes of all that a server has of its share. */
uint64_t mscrt_all_bytes(const mscrt_share *share);
/* True if a served value is gathered, not summed. */
bool mscrt_is_gathered(const mscrt_served_part *p);
/* Returns the bytes of a worker's source of a served value, as large as that of any worker. */
uint64_t mscrt_served_bytes(const mscrt_served_part *p);
/* Writes the address at which server process number `server` of the job of `o` listens; copies are numbered behind all
 * servers. */
mscrt_status *mscrt_server_address(const mscrt_options *o, int server, char *out, size_t room);

/* ---- push_step.c: the workers' side ---- */

/* Connects to server process number `server`; waits for it as long as ranks wait for each other. If the job has a
 * token, both ends prove that they have it. */
mscrt_status *mscrt_dial_server(const mscrt_options *o, int server, int *out_fd);

typedef struct mscrt_pushing mscrt_pushing;

/* Connects this rank to the servers. */
mscrt_status *mscrt_pushing_new(const mscrt_context *c, mscrt_pushing **out_pushing);
/* Closes the connections; done: the work is done, and the servers are told that this rank leaves. Accepts NULL. */
void mscrt_pushing_free(mscrt_pushing *p, bool done);
/* Copies this rank's gradients, or rows, of a served collective, to be pushed at the end of the step. */
void mscrt_keep_gradient(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots);
/* Pushes the gradients kept in this step, and pulls the parameters when this worker may go on. */
mscrt_status *mscrt_push_and_pull(mscrt_context *c, mscrt_pushing *p);
/* Where all ranks begin anew, with values of a checkpoint or the initial ones, while servers have others: gives servers
 * these. To be called before each step of training; without servers it does nothing. */
mscrt_status *mscrt_put_values(mscrt_context *c);
/* Returns how often this rank has pushed its gradients; 0 without servers. */
uint64_t mscrt_num_pushes(const mscrt_context *c);
/* Returns the servers that this rank has lost, and whose copies it asks: bit i is server i of the job. */
uint64_t mscrt_lost_servers(const mscrt_context *c);
/* Tells the servers the new value of a number of the plan; every rank calls it, rank 0 tells. */
mscrt_status *mscrt_push_scalar(mscrt_context *c, mscrt_pushing *p, uint32_t parameter, double value);
/* Pulls the parameters as they are after the last step of all workers, so that all workers have the same; every worker
 * calls it. state: also pulls the optimizer's state, for a checkpoint. Without servers it does nothing. */
mscrt_status *mscrt_pull_settled(mscrt_context *c, bool state);

#endif
