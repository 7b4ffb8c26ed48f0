/* elastic.h: a run whose number of ranks changes: which process is which rank of which plan. The launcher decides, and
 * writes its decisions to memory that all processes share. A process that is no rank is a spare, and waits. */
#ifndef MSC_TOOLS_ELASTIC_H
#define MSC_TOOLS_ELASTIC_H

#include "runtime/mscrt.h"
#include "tools/cli.h"

typedef struct elastic_job elastic_job;

/* The part of one process from one decision to the next. */
typedef struct {
  unsigned number; /* of the decision; 0: none was read yet */
  int plan, rank;  /* of the family; rank -1: a spare */
} elastic_round;

/* The first decision: process r is rank r of the plan, those behind the ranks are spares. family: plans, the most ranks
 * first; none with more ranks than the first is ever chosen. NULL: out of memory. */
elastic_job *elastic_new(const mscrt_plan *const *family, int num_family, int processes);
/* Accepts NULL. */
void elastic_free(elastic_job *e);
int elastic_processes(const elastic_job *e);
/* The newest decision about a process. */
elastic_round elastic_round_of(elastic_job *e, int process);
/* The number of the newest decision. */
unsigned elastic_newest(elastic_job *e);
/* Waits until there is a newer decision than `number`, the work is finished, or so many ms have passed; -1: however
 * long it takes. */
bool elastic_wait(elastic_job *e, unsigned number, const bool *finished, int ms);
/* For the launcher: the process has ended; another may be started in its place. */
void elastic_ended(elastic_job *e, int process);
/* For the launcher: decides anew after processes ended or began: the plan of the most ranks for those that are alive;
 * ranks that have state before others. False: there is no such plan. */
bool elastic_decide(elastic_job *e, const bool *alive);
/* The rank that a process is by the newest decision. */
int elastic_rank_of(const elastic_job *e, int process);

#endif
