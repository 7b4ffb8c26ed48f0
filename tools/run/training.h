/* training.h: a run of `msc run`: its options, plan and data, and the memory that its ranks share.  open_training.c
 * opens everything before ranks are started, train_rank.c is the work of a rank, print_training.c prints what rank 0
 * prints. */
#ifndef MSC_TOOLS_TRAINING_H
#define MSC_TOOLS_TRAINING_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/mscrt.h"
#include "tools/cli.h"
#include "tools/run/elastic.h"
#include "tools/run/start_ranks.h"
#include "tools/run/lr_schedule.h"
#include "tools/run/recorder.h"
#include "tools/cluster/startup.h"

/* The measured times of a rank, per step. */
typedef struct {
  double compute_ms, comm_ms, exposed_ms, section_ms, transfer_ms, transfer_wait_ms, data_wait_ms, data_bytes;
} rank_times;

typedef struct {
  double loss;
  bool known;
} step_loss;

/* A process that is a rank, or may become one. */
typedef struct {
  pid_t pid;
  int process;
  unsigned comes; /* how often it has left a job that has failed, to meet the others again */
} seat;

/* How far a run is, in memory that ranks share. */
typedef struct {
  int64_t printed;   /* the last step that rank 0 has printed; -1: none */
  bool finished;     /* all ranks have done all their work, and may have left */
  bool warned;       /* rank 0 has told of a loss that is no finite number */
  step_loss loss[];  /* by step, where lost ranks are replaced: what any rank has found out */
} run_progress;

typedef struct {
  cli *c;
  mscrt_plan *plan;
  mscrt_data *data;     /* NULL: the plan has no inputs */
  mscrt_data_options data_options;
  int ranks, servers;   /* servers: of parameters; the processes behind the ranks, where this one starts all */
  int cores;            /* of this host, which the ranks share; 0: those that this process may use */
  startup job;          /* what started this process */
  recorder recorder;    /* writes flight records */
  bool joins;           /* this process is one rank of the job; else it starts all */
  const char *token;    /* of the job; NULL: none */
  char address[48], choices_path[4200];
  const char *choices;  /* NULL: nothing was ever measured here */
  int64_t steps, per_epoch;
  bool evaluates, timed, idle; /* idle: a server that has nothing to serve */
  const char *weights; /* folder of the files that the model names for its parameters; NULL: not taken */
  const char *init;    /* file or checkpoint with initial parameters; NULL: not given */
  int64_t resumed;      /* the step of the newest checkpoint; -1: none */
  const char *trace;    /* the file of the timeline; NULL: none */
  lr_schedule schedule; /* of the learning rate */
  size_t num_sinks;
  mscrt_sink *sinks; /* outputs that are written */
  double time_scale;
  int replaced;         /* how many lost ranks may be replaced while the others go on */
  mscrt_plan **family;  /* the plan and those that it contains, from that for `ranks` ranks on */
  mscrt_plan **opened;  /* all that the file holds */
  int num_family, num_opened;
  elastic_job *elastic; /* the number of ranks changes; NULL: it does not */
  seat *seats;          /* of each process, in memory that ranks share, and ... */
  int *process_of;      /* ... of each rank its process */
  seat *met;            /* those that this rank has met last, by rank; pid 0: not known */
  run_progress *progress;
  rank_times *measured;   /* of each rank, in memory that they share; NULL: nothing is measured */
  int64_t begin_ns;
  /* of this rank */
  mscrt_context *ctx;
  int rank, process;    /* process: the number of this one among ranks and spares */
  elastic_round round;
  char round_address[64]; /* where ranks of this round meet; the context reads it as long as it is open */
  atomic_bool served;   /* by a server: it has ended */
  bool leaves;          /* at the end of a step, as there is a newer decision about the number of ranks */
  double *ms;           /* of each step that this run did */
  double lost_ms;       /* when a step failed, or a meeting, behind which no step is done yet; 0: none is */
  int64_t ms_room;
  int64_t done;         /* how many these are */
  bool stopped;         /* by SIGTERM, after a checkpoint */
  double save_ms;       /* time in which steps stood still for checkpoints, and ... */
  int64_t saved;        /* for how many */
  bool saves, prunes;   /* a checkpoint is being written; old ones are being removed, by rank 0 */
  pthread_t pruning;
} training;

/* open_training.c: all returns exit codes, after a report. */
/* Opens plan, data, weights and checkpoints as the options say, and refuses options that contradict each other. */
int open_training(training *t);
/* The file name with the rank's number in place of %r. */
const char *file_of_rank(const cli *c, const char *file, int rank);
/* Opens the data for t->plan, which is another one than before. */
mscrt_status *open_data_again(training *t);
/* Opens the files of this rank, instead of those of rank 0. */
mscrt_status *open_own_data(training *t);
/* Sets the step of the newest checkpoint that is sound, and tells of those that are not. */
int choose_checkpoint(training *t, int64_t newest);

/* train_rank.c */
/* Sets the time of the file --alive to now; the first rank of a host does it for all. */
mscrt_status *touch_alive(const training *t);
/* What a rank does from opening to its exit code; `arg` is the training, line NULL where nothing launched it. */
int run_training_rank(void *arg, int rank, const launcher_line *line);

/* print_training.c: as text, or as JSON with --json. */
/* A step, and a note that it was printed.  A line that was printed, and not noted, is printed twice when rank 0 is
 * replaced; none is left out. */
void tell_step(const training *t, int64_t step, double loss, double ms);
void print_evaluation(const training *t, const mscrt_evaluation *e);
void print_totals(const training *t, double total_ms, uint64_t resident);
/* Prints a line about the ranks that were replaced, and the steps whose losses a lost rank 0 did not get to print. */
void print_recovery(training *t, const mscrt_recovery *r);
/* How often checkpoints lose least by a failure every --mtbf hours: sqrt(2 * cost * time between failures) apart
 * (Young 1974). */
void print_interval(const training *t);

#endif
