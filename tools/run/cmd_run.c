/* cmd_run.c: msc run: a plan, data and weights in; a training, evaluation or prediction on ranks of this host out. 
 * Plan, data and weights are opened and checked once; ranks are forked afterwards and share them.  If the environment
 * says that this process is one rank of a job, it is that rank alone. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "ir/abi/clock.h"
#include "runtime/thread_pool.h"
#include "tools/compile/autotune.h"
#include "tools/status.h"
#include "tools/run/measured_trace.h"
#include "tools/run/training.h"

enum { DEFAULT_TIMEOUT = 300 /* seconds */, MSC_MOST_SERVERS = 64, MOST_SPARES = 64 };

/* ---- opening ---- */

/* Refuses what contradicts the environment, and one file for all where each rank writes its own. */
static bool check_joined_options(training *t) {
  cli *c = t->c;
  if (cli_text(c, "n") && cli_int(c, "n", 1) != t->job.ranks)
    return msc_error(c->ctx, MSC_E_DATA, NULL, "-n %" PRId64 " contradicts the environment: %s says rank %d of %d",
                     cli_int(c, "n", 1), t->job.family, t->job.rank, t->job.ranks);
  if (t->job.role == STARTUP_SERVER && !t->job.server)
    return msc_error(c->ctx, MSC_E_DATA, NULL,
                     "%s does not say which of the %d servers this is; MS_NODE_ID counts them from 0 on", t->job.family,
                     t->job.servers);
  if (t->job.role == STARTUP_WORKER && t->job.rank < 0 && strcmp(t->job.family, "MS_*"))
    return msc_error(c->ctx, MSC_E_DATA, NULL, "%s does not say which of the %d ranks this is; set MSC_RANK",
                     t->job.family, t->job.ranks);
  if (cli_text(c, "trace") && !strstr(cli_text(c, "trace"), "%r"))
    return msc_error(c->ctx, MSC_E_DATA, NULL,
                     "--trace: ranks that were started one by one write a file each: a name with %%r for the rank, "
                     "such as t.%%r.json");
  return true;
}

/* Which rank of a job this process is, if something else started the ranks. A rank table that is not complete yet is
 * read again. */
static bool read_job(training *t) {
  cli *c = t->c;
  int64_t end = (int64_t)msc_clock_ns() + (int64_t)(cli_number(c, "timeout", DEFAULT_TIMEOUT) * 1e9);
  while (!startup_of_process(&t->job)) {
    int64_t now = (int64_t)msc_clock_ns();
    if (!t->job.pending || now >= end) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", t->job.error);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  t->joins = t->job.family && (t->job.ranks > 1 || t->job.role != STARTUP_WORKER);
  if (!t->joins) return true;
  t->token = startup_token(&t->job);
  if (t->job.error[0]) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", t->job.error);
  MSC_TRY(check_joined_options(t));
  bool scheduler = t->job.role == STARTUP_SCHEDULER;
  if (t->job.role == STARTUP_SERVER) return true;
  if (t->job.rank != 0 && !scheduler) return true;
  fprintf(stderr, "msc run: %s of %d, as %s says%s%s\n", scheduler ? "scheduler" : "rank 0", t->job.ranks,
          t->job.family, t->job.ignored[0] ? "; ignored: " : "", t->job.ignored);
  return true;
}

static void print_waiting(void *user, mscrt_log_level level, const char *text) {
  (void)user, (void)level;
  fprintf(stderr, "msc run: %s\n", text);
}

/* Lets the scheduler say which rank this is, where nothing else does. */
static int ask_for_rank(training *t) {
  mscrt_options o = {.struct_size = sizeof o,
                     .ranks = t->job.ranks,
                     .address = t->job.address,
                     .timeout_ms = (int)(cli_number(t->c, "timeout", 0) * 1000),
                     .meet_ms = t->job.topology_ms,
                     .token = t->token,
                     .led = true,
                     .log = print_waiting};
  if (!t->joins || t->job.rank >= 0 || t->job.role == STARTUP_SERVER) return CLI_OK;
  int code = status_of_rank(t->c, NULL, MSC_E_DATA, mscrt_ask_rank(&o, &t->job.rank));
  if (!code) fprintf(stderr, "msc run: rank %d of %d, as the scheduler says\n", t->job.rank, t->job.ranks);
  return code;
}

static bool check_run_options(training *t) {
  cli *c = t->c;
  MSC_TRY(read_job(t));
  const char *comm = cli_text(c, "comm");
  if (comm && !strcmp(comm, "mpi") && !t->joins && cli_int(c, "n", 1) > 1)
    return msc_error(c->ctx, MSC_E_DATA, NULL,
                     "--comm mpi connects ranks that mpirun started: mpirun -n %" PRId64 " msc run ... --comm mpi",
                     cli_int(c, "n", 1));
  t->choices = autotune_measured(t->choices_path);
  if (cli_flag(c, "autotune")) {
    if (!autotune_file(c, t->choices_path)) return false;
    t->choices = t->choices_path;
  }
  const char *scale = getenv("MSC_TIME_SCALE");
  char *end = NULL;
  t->timed = cli_text(c, "device") && !strcmp(cli_text(c, "device"), "timed");
  t->time_scale = scale ? strtod(scale, &end) : 1;
  if (scale && (*end || end == scale || !(t->time_scale > 0) || !isfinite(t->time_scale)))
    return msc_error(c->ctx, MSC_E_DATA, NULL, "MSC_TIME_SCALE: '%s' is no positive number", scale);
  static const char *const of_values[] = {"data", "ckpt-dir", "eval", "init", "output", "save"};
  for (size_t i = 0; t->timed && i < sizeof of_values / sizeof *of_values; i++)
    if (cli_text(c, of_values[i]))
      return msc_error(c->ctx, MSC_E_DATA, NULL, "--%s: the device timed has no values", of_values[i]);
  return true;
}

/* ---- the command ---- */

/* Decides whether the job goes on without the process `ended`. After all work is done it does, unless that process is
 * rank 0, which may not have printed everything. */
static bool decide_on_ranks(void *arg, const bool *alive, int ended) {
  training *t = arg;
  int rank = ended < 0 ? -1 : elastic_rank_of(t->elastic, ended);
  if (t->progress->finished) return rank != 0;
  if (ended >= 0) elastic_ended(t->elastic, ended);
  return elastic_decide(t->elastic, alive);
}

/* Prepares a job whose number of ranks changes when some are lost: if the plan contains plans for fewer ranks and this
 * process starts all ranks. */
static int prepare_elastic(training *t) {
  cli *c = t->c;
  int64_t spares = cli_int(c, "spares", 0);
  bool can = t->num_family > 1 && !t->joins && !t->timed;
  if (cli_text(c, "spares") && (spares < 0 || spares > MOST_SPARES))
    return cli_usage(c, "--spares is 0 to %d", MOST_SPARES);
  if (spares && !can) {
    msc_error(c->ctx, MSC_E_DATA, NULL,
              "--spares: they need a plan of several ranks that was compiled with --set elastic=true, whose ranks this "
              "command starts");
    return CLI_INPUT;
  }
  if (!can) return CLI_OK;
  if (t->trace || t->data_options.parts) {
    msc_error(c->ctx, MSC_E_DATA, NULL, "%s is for one number of ranks, and the plan is elastic",
              t->trace ? "--trace" : "--data with %r");
    return CLI_INPUT;
  }
  t->elastic = elastic_new((const mscrt_plan *const *)t->family, t->num_family, t->ranks + (int)spares);
  return t->elastic ? CLI_OK : CLI_ENVIRONMENT;
}

static int run_ranks(training *t) {
  uint64_t name[2];
  if (t->joins) return run_training_rank(t, t->job.server ? t->ranks + t->job.server - 1 : t->job.rank, NULL);
  if (t->ranks == 1) return run_training_rank(t, 0, NULL);
  if (getrandom(name, sizeof name, 0) != sizeof name) return CLI_ENVIRONMENT;
  snprintf(t->address, sizeof t->address, "@msc-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
  t->cores = mscrt_cores();
  int processes = t->elastic ? elastic_processes(t->elastic) : t->ranks;
  return start_ranks(t->c, &(ranks_job){.ranks = processes,
                                        .servers = t->servers,
                                        .copies = mscrt_plan_server_copies(t->plan),
                                        .grace_ms = (int)(cli_number(t->c, "grace", 0) * 1000),
                                        .replaced = t->replaced,
                                        .fn = run_training_rank,
                                        .decide = t->elastic ? decide_on_ranks : NULL,
                                        .arg = t});
}

/* Leads the job as a process of its own. */
static int run_scheduler(training *t) {
  cli *c = t->c;
  mscrt_options o = {.struct_size = sizeof o,
                     .ranks = t->job.ranks,
                     .address = t->job.address,
                     .timeout_ms = t->job.topology_ms ? t->job.topology_ms : (int)(cli_number(c, "timeout", 0) * 1000),
                     .token = t->token,
                     .silence_ms = t->job.silence_ms,
                     .recover = t->replaced > 0};
  return status_of_rank(c, NULL, MSC_E_DATA, mscrt_lead(&o));
}

static void *share(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int share_measured(training *t) {
  struct timespec now;
  size_t losses = t->replaced || t->elastic ? (size_t)t->steps + 1 : 0;
  t->progress = share(sizeof *t->progress + losses * sizeof *t->progress->loss);
  if (!t->progress) return CLI_ENVIRONMENT;
  t->progress->printed = -1;
  int processes = t->elastic ? elastic_processes(t->elastic) : t->ranks;
  t->seats = share((size_t)processes * sizeof *t->seats);
  t->process_of = share((size_t)t->ranks * sizeof *t->process_of);
  t->met = msc_new_array(msc_context_arena(t->c->ctx), seat, t->ranks);
  if (!t->seats || !t->process_of) return CLI_ENVIRONMENT;
  for (int r = 0; r < t->ranks; r++) t->process_of[r] = r;
  if (!t->timed && !t->trace && !cli_flag(t->c, "timing")) return CLI_OK;
  t->measured = share((size_t)t->ranks * sizeof *t->measured);
  if (!t->measured) return CLI_ENVIRONMENT;
  t->begin_ns = (int64_t)msc_clock_ns();
  if (t->joins && clock_gettime(CLOCK_REALTIME, &now) == 0) /* so that ranks of several hosts share a time line */
    t->begin_ns -= (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return CLI_OK;
}

/* The number of servers that the plan needs at least: one for each stage. */
static int least_servers(const training *t) {
  json_t *config = json_loads(mscrt_plan_config(t->plan), 0, NULL);
  json_int_t stages = json_integer_value(json_object_get(json_object_get(config, "pipeline_stages"), "value"));
  json_decref(config);
  return stages > 1 ? (int)stages : 1;
}

/* How many servers of parameters the job has: what the launcher says, or --servers; else as few as it may, if the plan
 * has parameters for them. */
static int count_servers(training *t) {
  cli *c = t->c;
  bool served = mscrt_plan_is_served(t->plan);
  int64_t said = cli_int(c, "servers", -1);
  if (said > MSC_MOST_SERVERS || (cli_text(c, "servers") && said < 0))
    return cli_usage(c, "--servers is 0 to %d", MSC_MOST_SERVERS);
  if (said > 0 && !served) {
    msc_error(c->ctx, MSC_E_DATA, NULL,
              "--servers: no parameter of the plan lives on servers: compile it for several ranks with --set "
              "'parameter_server={\"mode\":\"sync\"}'");
    return CLI_INPUT;
  }
  int copies = mscrt_plan_server_copies(t->plan);
  if (served && t->joins && t->job.servers % copies) {
    msc_error(c->ctx, MSC_E_DATA, NULL, "the job has %d servers: of a plan whose servers have a copy, an even number",
              t->job.servers);
    return CLI_INPUT;
  }
  int of_job = t->job.servers / copies;
  int usual = t->ranks > 1 ? least_servers(t) : 0;
  t->servers = !served || t->timed ? 0 : t->joins ? of_job : said >= 0 ? (int)said : usual;
  if (!t->job.server || t->servers) return CLI_OK;
  fprintf(stderr, "msc run: server %d of %d: no parameter of the plan lives on servers\n", t->job.server,
          t->job.servers);
  t->idle = true;
  return CLI_OK;
}

static int run_run(cli *c) {
  training t = {.c = c};
  if (!check_run_options(&t)) return CLI_INPUT;
  const char *launched = getenv("MSC_REPLACE"); /* by msc launch --replace */
  t.replaced = (int)cli_int(c, "replace", launched ? atoi(launched) : 0);
  if (t.replaced < 0) return cli_usage(c, "--replace is not negative");
  if (t.joins && t.job.role == STARTUP_SCHEDULER) return run_scheduler(&t);
  if (cli_int(c, "n", 1) < 1 || cli_int(c, "threads", 1) < 1) return cli_usage(c, "-n and --threads are at least 1");
  int code = ask_for_rank(&t);
  t.trace = cli_text(c, "trace");
  if (t.joins && t.trace) t.trace = file_of_rank(c, t.trace, t.job.rank);
  if (!code) code = open_training(&t);
  if (!code) code = count_servers(&t);
  if (!code) code = prepare_elastic(&t);
  if (!code) code = share_measured(&t);
  if (!code && !recorder_prepare(c, cli_text(c, "flight"))) code = CLI_INPUT;
  int first = t.joins ? t.job.rank : 0, num = t.joins ? 1 : t.ranks;
  if (!code && !t.idle && (code = run_ranks(&t)) && t.trace) trace_drop_parts(t.trace, first, num);
  if (!code && t.trace) code = trace_join(c, t.trace, first, num);
  mscrt_data_close(t.data);
  elastic_free(t.elastic);
  for (int i = 0; i < t.num_opened; i++) mscrt_plan_close(t.opened[i]);
  return code;
}

static const cli_option options[] = {
    {"n", CLI_INT, "RANKS",
     "local ranks to start; absent: as many as the plan is for, or this process alone where mpirun, torchrun, srun, "
     "msc launch or MS_ROLE started it as one of several"},
    {"servers", CLI_INT, "S",
     "servers of parameters to start, of a plan with the key parameter_server; default one for each pipeline "
     "stage; 0: ranks sum gradients and update parameters themselves, to the same bits"},
    {"data", CLI_PAIRS, "INPUT=FILE",
     "data of an input: idx (.gz), .npy, safetensors (FILE:TENSOR), .csv and .parquet (FILE:COLUMN,...), a folder of "
     "images, tar (FILE:EXTENSION), raw tokens (FILE:u8|u16|i32); with %r for the rank's number: its part of every "
     "batch, one behind the other"},
    {"train", CLI_TEXT, "A:B", "samples to train on; absent: all"},
    {"eval", CLI_TEXT, "A:B", "samples to evaluate on after training; absent: none"},
    {"eval-every", CLI_INT, "K", "evaluate every K steps, too"},
    {"output", CLI_PAIRS, "OUTPUT=FILE.npy",
     "write an output for the samples of --eval, or for all; nothing is trained unless --steps or --epochs say so, and "
     "labels that no output depends on need no data"},
    {"steps", CLI_INT, "K", "training steps"},
    {"epochs", CLI_INT, "E", "times over the training samples; default 1"},
    {"lr-schedule", CLI_TEXT, "KIND[:NAME=V,...]",
     "factor on the learning rate by the step: cosine, linear (both fall to min, 0, at the last step), step:every=N "
     "(times factor, 0.1, every N steps) or constant; of all: warmup=N steps from 0 on, steps=N in place of the run's"},
    {"seed", CLI_SEED, "S", "of initial weights and sample order; default 0"},
    {"skip-damaged", CLI_FLAG, NULL,
     "try all samples of pictures, tar archives and .csv files first, and leave damaged ones out"},
    {"in-order", CLI_FLAG, NULL, "take the samples as they are in the files instead of permuting every epoch"},
    {"init", CLI_TEXT, "W.safetensors", "initial parameters from a file, a checkpoint, or the newest of a --ckpt-dir"},
    {"weights", CLI_TEXT, "DIR", "folder of the files that the model names for its parameters; default: the model's"},
    {"save", CLI_TEXT, "W.safetensors", "write the trained parameters"},
    {"threads", CLI_INT, "T", "threads per rank; default: cores divided by ranks"},
    {"timeout", CLI_NUMBER, "S", "seconds that a rank waits for another, or for its GPU; default 300"},
    {"trust-native", CLI_FLAG, NULL, "run the plan's native code although it was not compiled here"},
    {"perf-map", CLI_FLAG, NULL, "write /tmp/perf-PID.map, the names of generated code for perf"},
    {"comm", CLI_CHOICE, "local|hosts|tcp|mpi|ucx|nccl",
     "transport between ranks; default: nccl where every rank has a GPU of its own, hosts where ranks meet at "
     "HOST:PORT, else local; hosts: TCP, and shared memory inside a host; tcp: without that; mpi: collectives go "
     "through the MPI (Open MPI, MPICH) whose mpirun started the ranks; ucx: through UCX, which knows RDMA hardware"},
    {"device", CLI_CHOICE, "cpu|cuda|timed",
     "what runs the calls; default: what the plan was compiled for; timed: no values, each sleeps for its predicted "
     "time "
     "(times MSC_TIME_SCALE) and order is checked"},
    {"autotune", CLI_FLAG, NULL,
     "measure the matrix products that were not measured yet on this GPU or CPU; the fastest ways are kept in the "
     "user's cache folder, for every later run"},
    {"overlap", CLI_CHOICE, "idle|always|never",
     "collectives in a thread of their own; default idle: when a core is free for it"},
    {"offload-path", CLI_TEXT, "DIR", "folder of what the plan offloads to disk; default: what the plan says"},
    {"ckpt-dir", CLI_TEXT, "DIR",
     "checkpoints, with the optimizer's state and the position in the data: after the last step, every --ckpt-every, "
     "and before SIGTERM ends the run"},
    {"ckpt-every", CLI_INT, "K", "steps between checkpoints"},
    {"mtbf", CLI_NUMBER, "H",
     "hours between failures of the whole job: say at the end how many steps between checkpoints lose least"},
    {"ckpt-keep", CLI_INT, "N", "checkpoints to keep; default 2"},
    {"resume", CLI_FLAG, NULL,
     "go on from the newest checkpoint, if there is one, to the same number of steps, bit for bit"},
    {"timing", CLI_FLAG, NULL, "tell how long calls, collectives and transfers took, and what was waited for"},
    {"trace", CLI_TEXT, "t.json",
     "write a timeline of calls and collectives, in Chrome's trace format; %r in the name is the rank's number where "
     "ranks were started one by one: then each writes its own"},
    {"flight", CLI_TEXT, "DIR",
     "write the last 2,000 operations with other ranks, a file for each rank, after a failure and on SIGUSR1; msc "
     "flight DIR merges them"},
    {"replace", CLI_INT, "N",
     "how many ranks that are lost are replaced, one after the other, while the others stay: their state comes from "
     "ranks that hold the same, at most one step is run again; where nobody does, all go back to the newest "
     "checkpoint"},
    {"spares", CLI_INT, "S",
     "processes that wait to take the places of ranks that are lost, of a plan with the key elastic; without them the "
     "others go on as fewer ranks; SIGUSR2 starts processes in the places of lost ones, and the ranks are more again"},
    {"grace", CLI_NUMBER, "S", "seconds that ranks have after SIGTERM to write a checkpoint; default 5"},
    {"alive", CLI_TEXT, "FILE", "set the time of this file at every step; an empty one is made"},
    {0},
};
const cli_command cmd_run = {"PLAN", 1, 1, options, run_run};
