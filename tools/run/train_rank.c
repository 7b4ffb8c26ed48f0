/* train_rank.c: a run and the number of a rank in; the rank's work out: it opens the plan, trains, saves checkpoints,
 * evaluates, and meets the others again when one of them was lost. */
#include <jansson.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/abi/clock.h"
#include "runtime/runtime.h"
#include "tools/run/checkpoint_folders.h"
#include "tools/status.h"
#include "tools/run/measured_trace.h"
#include "tools/run/training.h"

static double now_ms(void) { return 1e-6 * (double)msc_clock_ns(); }

/* Sets every learning rate of the plan to its first value times the factor of the schedule for step `step`, counted
 * from 0. */
static mscrt_status *set_learning_rates(training *t, int64_t step) {
  mscrt_status *s = NULL;
  if (t->schedule.kind == LR_AS_COMPILED) return NULL;
  for (size_t i = 0; i < mscrt_plan_num_scalars(t->plan) && !s; i++) {
    double initial;
    const char *name = mscrt_plan_scalar(t->plan, i, &initial);
    if (lr_is_learning_rate(name))
      s = mscrt_set_scalar(t->ctx, name, initial * lr_factor(&t->schedule, step, t->steps));
  }
  return s;
}

/* SIGTERM, where a checkpoint is to be written first. */
static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int number) {
  (void)number;
  stop_asked = 1;
}

static void *prune(void *arg) {
  const training *t = arg;
  checkpoint_prune(cli_text(t->c, "ckpt-dir"), cli_int(t->c, "ckpt-keep", 2));
  return NULL;
}

static void join_pruning(training *t) {
  if (t->prunes) pthread_join(t->pruning, NULL);
  t->prunes = false;
}

/* Removes old checkpoints in a thread: the system takes time to give back large files. */
static void prune_beside(training *t) {
  join_pruning(t);
  t->prunes = pthread_create(&t->pruning, NULL, prune, t) == 0;
  if (!t->prunes) prune(t);
}

/* Ends a checkpoint that is being written, if it is written, or waits for it; then the oldest may go. */
static mscrt_status *end_checkpoint(training *t, bool wait) {
  bool ended = false;
  if (!t->saves) return NULL;
  mscrt_status *s = mscrt_checkpoint_end(t->ctx, wait, &ended);
  if (s || !ended) return s;
  t->saves = false;
  if (t->rank == 0) prune_beside(t);
  return NULL;
}

/* Begins the checkpoint of a step if it is due, or if any rank was asked to stop. The last one is waited for, and each
 * one where ranks run apart: they meet for it, and for nothing else. */
static mscrt_status *keep_checkpoint(training *t, int64_t step) {
  const char *folder = cli_text(t->c, "ckpt-dir");
  int64_t every = cli_int(t->c, "ckpt-every", 0);
  bool stop = false, apart = mscrt_ranks_run_apart(t->ctx);
  char path[CHECKPOINT_PATH];
  if (!folder) return NULL;
  mscrt_status *s = mscrt_stop_together(t->ctx, stop_asked, &stop);
  t->stopped = stop;
  bool due = stop || step == t->steps || (every && step % every == 0);
  double begin = now_ms();
  if (!s && (due || !apart)) s = end_checkpoint(t, due);
  if (s || !due) return s;
  checkpoint_path(folder, step, path); /* its length was checked */
  s = mscrt_checkpoint_begin(t->ctx, path);
  t->saves = !s;
  if (!s && (stop || apart || step == t->steps)) s = end_checkpoint(t, true);
  t->save_ms += now_ms() - begin, t->saved++;
  return s;
}

/* Loads the newest checkpoint, if there is one and the user wants to go on from it; `again`: after ranks were lost,
 * then also one that this run has written. */
static mscrt_status *resume_checkpoint(training *t, bool again) {
  char path[CHECKPOINT_PATH];
  const char *folder = cli_text(t->c, "ckpt-dir");
  uint64_t begin = 0;
  if (!folder || !(again || cli_flag(t->c, "resume"))) return NULL;
  if (again && t->rank == 0) {
    t->resumed = -1;
    int code = choose_checkpoint(t, checkpoint_below(folder, INT64_MAX));
    if (code) t->resumed = -1;
  }
  mscrt_status *s = mscrt_max(t->ctx, (uint64_t)(t->resumed + 1), &begin);
  t->resumed = (int64_t)begin - 1;
  if (s || t->resumed < 0) return s;
  checkpoint_path(folder, t->resumed, path);
  return mscrt_resume(t->ctx, path);
}

static mscrt_status *evaluate_between(training *t, int64_t step) {
  int64_t every = cli_int(t->c, "eval-every", 0);
  mscrt_evaluation e = {.struct_size = sizeof e};
  if (!every || step % every || step == t->steps) return NULL; /* after the last step it is done anyway */
  mscrt_status *s = mscrt_evaluate(t->ctx, &e);
  if (!s && t->rank == 0) cli_progress_done(t->c), print_evaluation(t, &e);
  return s;
}

mscrt_status *touch_alive(const training *t) {
  const char *path = cli_text(t->c, "alive");
  if (!path || (t->joins ? t->job.local_rank > 0 : t->rank != 0)) return NULL;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  bool done = fd >= 0 && futimens(fd, NULL) == 0;
  mscrt_status *s = done ? NULL : mscrt_fail_path(path, "cannot be touched");
  if (fd >= 0) close(fd);
  return s;
}

/* Leaves, with all others, if there is a newer decision about the number of ranks. */
static mscrt_status *see_decision(training *t) {
  uint64_t newest;
  if (!t->elastic) return NULL;
  mscrt_status *s = mscrt_max(t->ctx, elastic_newest(t->elastic), &newest);
  t->leaves = !s && newest > t->round.number;
  return s;
}

/* Notes what a step took. */
static mscrt_status *note_time(training *t, double ms) {
  if (t->done == t->ms_room) {
    int64_t room = t->ms_room ? 2 * t->ms_room : 1024;
    double *more = realloc(t->ms, (size_t)room * sizeof *more);
    if (!more) return mscrt_fail(MSCRT_NO_MEMORY, "no memory for the times of so many steps");
    t->ms = more, t->ms_room = room;
  }
  t->ms[t->done++] = ms;
  t->lost_ms = 0;
  return NULL;
}

static mscrt_status *train(training *t) {
  double epoch_loss = 0;
  int64_t epoch_steps = 0;
  mscrt_stats begun = {.struct_size = sizeof begun};
  mscrt_get_stats(t->ctx, &begun);
  mscrt_status *touched = touch_alive(t);
  if (touched) return touched;
  for (int64_t step = begun.steps + 1; step <= t->steps && !t->stopped; step++) {
    double loss, begin = now_ms();
    mscrt_status *s = set_learning_rates(t, step - 1);
    if (!s) s = mscrt_run(t->ctx, "train", 1, &loss);
    if (s) return s;
    double ms = now_ms() - begin;
    s = note_time(t, ms);
    if (s) return s;
    if (t->replaced || t->elastic) t->progress->loss[step] = (step_loss){loss, true};
    if (t->rank == 0) tell_step(t, step, loss, ms);
    s = touch_alive(t);
    if (!s) s = keep_checkpoint(t, step);
    if (!s && !t->stopped) s = evaluate_between(t, step);
    if (!s && !t->stopped && step < t->steps) s = see_decision(t);
    if (s || t->leaves) return s;
    epoch_loss += loss, epoch_steps++;
    if (t->rank || step % t->per_epoch || t->timed) continue;
    if (!t->c->json && t->steps > t->per_epoch) {
      cli_progress_done(t->c);
      printf("epoch %-7" PRId64 " mean loss %.6g\n", step / t->per_epoch, epoch_loss / (double)epoch_steps);
    }
    epoch_loss = 0, epoch_steps = 0;
  }
  cli_progress_done(t->c);
  return NULL;
}

/* Writes the times of this rank into memory that ranks share; rank 0 reads it after all have met. */
static void note_measured(training *t) {
  mscrt_stats s = {.struct_size = sizeof s};
  mscrt_get_stats(t->ctx, &s);
  double steps = 1e6 * (double)(t->done ? t->done : 1);
  t->measured[t->rank] = (rank_times){(double)s.compute_ns / steps,   (double)s.collective_ns / steps,
                                      (double)s.exposed_ns / steps,   (double)s.section_ns / steps,
                                      (double)s.transfer_ns / steps,  (double)s.transfer_wait_ns / steps,
                                      (double)s.data_wait_ns / steps, 1e6 * (double)s.data_bytes / steps};
}

static mscrt_overlap overlap_of(const cli *c) {
  const char *text = cli_text(c, "overlap");
  return !text || !strcmp(text, "idle") ? MSCRT_OVERLAP_IDLE
         : !strcmp(text, "always")      ? MSCRT_OVERLAP_ALWAYS
                                        : MSCRT_OVERLAP_NEVER;
}

static void print_log(void *user, mscrt_log_level level, const char *text) {
  const training *t = user;
  bool warns = level == MSCRT_LOG_WARNING;
  if (t->rank == 0 && (warns || status_debug_level() >= 1))
    fprintf(stderr, "msc run: %s%s\n", warns ? "warning: " : "", text);
}

static mscrt_options options_of_rank(training *t) {
  const cli *c = t->c;
  return (mscrt_options){.struct_size = sizeof(mscrt_options),
                         .rank = t->rank,
                         .ranks = t->ranks,
                         .address = t->ranks > 1 ? t->joins ? t->job.address : t->address : NULL,
                         .local_ranks = t->joins ? t->job.local_ranks : 0,
                         .token = t->token,
                         .offload_path = cli_text(t->c, "offload-path"),
                         .host = t->job.host[0] ? t->job.host : NULL,
                         .led = t->joins && !strcmp(t->job.family, "MS_*"),
                         .meet_ms = t->job.topology_ms,
                         .silence_ms = t->job.silence_ms,
                         .threads = (int)cli_int(c, "threads", 0),
                         .seed = cli_seed(c, "seed"),
                         .timeout_ms = (int)(cli_number(c, "timeout", 0) * 1000),
                         .perf_map = cli_flag(c, "perf-map"),
                         .device = cli_text(c, "device"),
                         .comm = cli_text(c, "comm"),
                         .choices = t->choices,
                         .tune = cli_flag(c, "autotune"),
                         .time_scale = t->time_scale,
                         .overlap = overlap_of(c),
                         .measure = t->measured != NULL,
                         .events = t->trace ? TRACE_EVENTS : 0,
                         .log = print_log,
                         .log_user = t,
                         .recover = t->replaced > 0 || t->elastic,
                         .family = (const mscrt_plan *const *)t->family,
                         .num_family = t->num_family,
                         .servers = t->servers,
                         .server_hosts = t->job.server_hosts,
                         .cores = t->cores};
}

/* Loads weights or a checkpoint from files, unless ranks that were not lost have given this one the state already; then
 * gives the context its data. */
static mscrt_status *begin_or_go_on(training *t) {
  cli *c = t->c;
  mscrt_recovery r = {.struct_size = sizeof r};
  mscrt_status *s = NULL;
  if (cli_text(c, "ckpt-dir")) signal(SIGTERM, ask_to_stop);
  mscrt_get_recovery(t->ctx, &r);
  bool again = r.lost || t->round.number > 1;
  if (t->rank == 0 && again) print_recovery(t, &r);
  if (!r.from_peers && t->weights) s = mscrt_load_weights(t->ctx, t->weights);
  if (!r.from_peers && !s && t->init) s = mscrt_load(t->ctx, t->init);
  if (!r.from_peers && !s) s = resume_checkpoint(t, again);
  if (!s && t->data) s = mscrt_set_data(t->ctx, t->data);
  return s;
}

/* Trains; then evaluates, predicts and saves as the options say, and prints the totals. */
static mscrt_status *work(training *t) {
  cli *c = t->c;
  double begin = now_ms();
  mscrt_status *s = train(t);
  double total_ms = now_ms() - begin;
  if (!s && t->measured && !t->leaves) note_measured(t);
  if (!s && t->rank == 0 && cli_text(c, "mtbf") && !t->leaves) print_interval(t);
  mscrt_evaluation e = {.struct_size = sizeof e};
  if (s || t->stopped || t->leaves) return s; /* if it was stopped, the checkpoint is written */
  if (t->evaluates) s = mscrt_evaluate(t->ctx, &e);
  if (!s && t->evaluates && t->rank == 0) print_evaluation(t, &e);
  if (!s && t->num_sinks) s = mscrt_predict(t->ctx, t->num_sinks, t->sinks);
  if (!s && cli_text(c, "save")) s = mscrt_save(t->ctx, cli_text(c, "save"));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  uint64_t resident = 0;
  if (!s) s = mscrt_max(t->ctx, (uint64_t)usage.ru_maxrss * 1024, &resident);
  if (!s) t->progress->finished = true;
  if (!s && t->rank == 0) print_totals(t, total_ms, resident);
  return s;
}

/* Notes which processes this rank has met, for end_lost_rank. A rank may be lost again at once, and the process that
 * takes its place may write its own number before it is read here: so each rank meets all others twice more. Whoever
 * comes to the second time has passed the first, when all had read: it was not replaced then. Where one does not come,
 * no process is known. */
static mscrt_status *note_meeting(training *t) {
  uint64_t all;
  size_t bytes = (size_t)t->ranks * sizeof *t->met;
  recorder_start(&t->recorder, cli_text(t->c, "flight"), t->rank, t->ctx);
  for (int r = 0; r < t->ranks; r++) t->met[r] = t->seats[t->process_of[r]];
  mscrt_status *s = mscrt_max(t->ctx, 0, &all);
  if (!s) s = mscrt_max(t->ctx, 0, &all);
  if (s) memset(t->met, 0, bytes);
  return s;
}

/* A rank that is lost, and neither ends by itself nor comes to meet the others, is stopped, or stuck: it must make room
 * for another. One that comes has only told them first of a loss, maybe that of a server. */
static void end_lost_rank(const training *t, int lost) {
  enum { PATIENCE_MS = 1000, STEP_MS = 2 };
  seat met = lost >= 0 && lost != t->rank && !t->joins ? t->met[lost] : (seat){0};
  for (int ms = 0; met.pid && ms < PATIENCE_MS; ms += STEP_MS) {
    if (kill(met.pid, 0) != 0 || t->seats[met.process].comes != met.comes) return;
    nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
  }
  if (met.pid) kill(met.pid, SIGKILL);
}

/* Goes on after the loss of another rank: meets the others again, and whoever takes its place. */
static mscrt_status *meet_again(training *t, mscrt_status *lost) {
  if (status_debug_level() >= 1) fprintf(stderr, "msc run: rank %d: %s\n", t->rank, mscrt_status_text(lost));
  join_pruning(t);
  recorder_stop(&t->recorder, lost);
  mscrt_status_free(lost);
  t->seats[t->process].comes++;
  end_lost_rank(t, mscrt_lost_rank(t->ctx));
  t->saves = false;
  mscrt_status *s = mscrt_recover(&t->ctx);
  return s ? s : note_meeting(t);
}

static mscrt_status *train_rank(training *t) {
  mscrt_options o = options_of_rank(t);
  if (t->progress->finished && t->rank) return NULL; /* in the place of one that was lost after that: nobody is left */
  if (t->progress->finished)
    return mscrt_fail(MSCRT_PEER, "rank 0 was lost when all work was done: what it did not print is lost");
  mscrt_status *s = mscrt_open(t->plan, &o, &t->ctx);
  if (!s) s = note_meeting(t);
  if (!s) s = open_own_data(t);
  for (int met = 0;; met++) {
    if (!s) s = begin_or_go_on(t);
    if (!s) s = work(t);
    if (mscrt_status_code(s) != MSCRT_PEER || met == t->replaced || !t->ctx) return s;
    if (t->progress->finished) { /* a rank was lost after that */
      mscrt_status_free(s);
      return NULL;
    }
    s = meet_again(t, s);
  }
}

/* ---- where the number of ranks changes ---- */

enum { MEET_MS = 1000, DECISION_MS = 20000 };

/* Makes this process the rank of the newest decision. */
static mscrt_status *become_decided_rank(training *t) {
  t->round = elastic_round_of(t->elastic, t->process);
  t->rank = t->round.rank;
  t->leaves = false;
  if (t->rank < 0) return NULL;
  const mscrt_plan *before = t->plan;
  t->plan = t->family[t->round.plan];
  t->ranks = mscrt_plan_ranks(t->plan);
  t->process_of[t->rank] = t->process;
  return t->plan == before ? NULL : open_data_again(t);
}

/* Where the ranks of this round meet. */
static const char *address_of_round(training *t) {
  snprintf(t->round_address, sizeof t->round_address, "%s-%u", t->address, t->round.number);
  return t->round_address;
}

/* Meets the other ranks of this round, for as long as there is no newer decision; *out_s: a failure other than that. */
static bool meet_in_round(training *t, const mscrt_kept *kept, mscrt_status **out_s) {
  double end = now_ms() + 1000 * cli_number(t->c, "timeout", 300);
  mscrt_options o = options_of_rank(t);
  o.address = t->ranks > 1 ? address_of_round(t) : NULL;
  o.meet_ms = MEET_MS;
  do {
    mscrt_status_free(*out_s);
    *out_s = mscrt_open_with(t->plan, &o, kept, &t->ctx);
    if (!*out_s) return true;
    if (mscrt_status_code(*out_s) != MSCRT_PEER || now_ms() > end) return false;
  } while (elastic_newest(t->elastic) == t->round.number);
  mscrt_status_free(*out_s);
  *out_s = NULL;
  return false;
}

/* Trains as the rank of one decision; *kept is what it knew before, and what it knows behind it. True: another decision
 * is waited for. */
static bool train_in_round(training *t, mscrt_kept **kept, mscrt_status **out_s) {
  if ((*out_s = become_decided_rank(t))) return false;
  if (t->rank < 0) /* its state may be wanted yet, if others are lost before they have met */
    return elastic_wait(t->elastic, t->round.number, &t->progress->finished, -1);
  if (!meet_in_round(t, *kept, out_s)) return !*out_s;
  mscrt_kept_free(*kept);
  *kept = NULL;
  mscrt_status *s = note_meeting(t);
  if (!s) s = begin_or_go_on(t);
  if (!s) s = work(t);
  *out_s = s;
  if (t->progress->finished && mscrt_status_code(s) == MSCRT_PEER) { /* a rank was lost after that */
    mscrt_status_free(s);
    *out_s = NULL;
  }
  if (t->progress->finished || (!s && !t->leaves) || (s && mscrt_status_code(s) != MSCRT_PEER)) return false;
  if (s && status_debug_level() >= 1) fprintf(stderr, "msc run: rank %d: %s\n", t->rank, mscrt_status_text(s));
  join_pruning(t);
  recorder_stop(&t->recorder, s);
  t->seats[t->process].comes++;
  if (s) end_lost_rank(t, mscrt_lost_rank(t->ctx));
  t->saves = false;
  /* without a newer decision all meet once more: one may have been slow, or its server */
  if (!t->lost_ms) t->lost_ms = now_ms();
  if (!elastic_wait(t->elastic, t->round.number, &t->progress->finished, s ? MEET_MS : -1) &&
      (t->progress->finished || now_ms() > t->lost_ms + DECISION_MS))
    return false;
  mscrt_status_free(s);
  *out_s = mscrt_leave(&t->ctx, kept);
  return !*out_s;
}

static mscrt_status *train_elastic(training *t) {
  mscrt_kept *kept = NULL;
  mscrt_status *s = NULL;
  while (!t->progress->finished && train_in_round(t, &kept, &s)) {}
  mscrt_kept_free(kept);
  return s;
}

/* Sums of NCCL's in an order of its own choice, but always the same: not by the switch between GPUs.  Its
 * own variables win. */
static void pin_order(const training *t) {
  json_t *config = json_loads(mscrt_plan_config(t->plan), 0, NULL);
  if (json_is_true(json_object_get(json_object_get(config, "deterministic"), "value"))) {
    setenv("NCCL_ALGO", "Ring,Tree", 0);
    setenv("NCCL_WIN_ENABLE", "0", 0); /* kernels of symmetric memory do not ask for the algorithm */
  }
  json_decref(config);
}

/* Tells a server to end when there is a newer decision about the number of ranks, or all work is done. */
static void *end_server_in_time(void *arg) {
  training *t = arg;
  while (!atomic_load(&t->served) && !t->progress->finished && elastic_newest(t->elastic) == t->round.number)
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  mscrt_cancel(t->ctx);
  return NULL;
}

/* Runs a parameter server: it begins with the ranks' weights or with what it kept, and serves until the ranks have
 * ended. */
static mscrt_status *serve(training *t, const mscrt_options *o, const mscrt_kept *kept) {
  mscrt_recovery r = {.struct_size = sizeof r};
  pthread_t watcher;
  mscrt_status *s = mscrt_open_with(t->plan, o, kept, &t->ctx);
  if (s) return s;
  mscrt_get_recovery(t->ctx, &r);
  bool begins = !r.from_peers;
  if (begins && t->weights) s = mscrt_load_weights(t->ctx, t->weights);
  if (begins && !s && t->init) s = mscrt_load(t->ctx, t->init);
  if (begins && !s && cli_flag(t->c, "resume") && t->resumed >= 0) {
    char path[CHECKPOINT_PATH];
    checkpoint_path(cli_text(t->c, "ckpt-dir"), t->resumed, path);
    s = mscrt_resume(t->ctx, path);
  }
  if (s || !t->elastic) return s ? s : mscrt_run_server(t->ctx);
  atomic_store(&t->served, false);
  bool watched = pthread_create(&watcher, NULL, end_server_in_time, t) == 0;
  s = watched ? mscrt_run_server(t->ctx) : mscrt_fail(MSCRT_ENVIRONMENT, "a server cannot start a thread");
  atomic_store(&t->served, true);
  if (watched) pthread_join(watcher, NULL);
  return s;
}

/* Serves the ranks of one decision after the other. */
static mscrt_status *serve_elastic(training *t, mscrt_options *o) {
  mscrt_kept *kept = NULL;
  mscrt_status *s = NULL;
  for (bool again = true; again && !s;) {
    t->round = elastic_round_of(t->elastic, 0);
    t->plan = t->family[t->round.plan];
    o->ranks = mscrt_plan_ranks(t->plan), o->address = address_of_round(t);
    if (kept) o->meet_ms = MEET_MS;
    s = serve(t, o, kept);
    mscrt_kept_free(kept);
    kept = NULL;
    again = mscrt_status_code(s) == MSCRT_CANCELLED;
    if (!again) break;
    mscrt_status_free(s);
    s = t->progress->finished ? NULL : mscrt_leave(&t->ctx, &kept);
    again = kept != NULL;
  }
  mscrt_kept_free(kept);
  return s;
}

static int run_server_of(training *t, int server, const launcher_line *line) {
  mscrt_options o = options_of_rank(t);
  o.rank = 0, o.server = server;
  if (cli_text(t->c, "ckpt-dir")) signal(SIGTERM, SIG_IGN); /* ranks that were told to end save its state first */
  mscrt_status *s = t->elastic ? serve_elastic(t, &o) : serve(t, &o, NULL);
  int code = status_of_rank(t->c, line, MSC_E_DATA, s);
  mscrt_close(t->ctx);
  return code;
}

int run_training_rank(void *arg, int rank, const launcher_line *line) {
  training *t = arg;
  t->process = rank;
  int workers = t->elastic ? elastic_processes(t->elastic) : t->ranks;
  if (rank >= workers) return run_server_of(t, rank - workers + 1, line);
  if (t->ranks > 1) pin_order(t);
  t->rank = rank;
  t->seats[rank].pid = getpid(), t->seats[rank].process = rank;
  if (rank == 0 || t->elastic) setvbuf(stdout, NULL, _IOLBF, 0);
  mscrt_status *s = t->elastic ? train_elastic(t) : train_rank(t);
  join_pruning(t);
  recorder_stop(&t->recorder, s);
  cli_progress_done(t->c);
  int code = status_of_rank(t->c, line, MSC_E_DATA, s);
  if (!s && t->stopped) code = 128 + SIGTERM;
  if (!s && t->trace && t->ctx && !trace_part(t->trace, rank, t->ctx, t->begin_ns)) {
    report_to_launcher(t->c, line, MSC_E_TARGET,
                       msc_arena_printf(msc_context_arena(t->c->ctx), "%s: the trace cannot be written: %s", t->trace,
                                        strerror(errno)));
    code = CLI_ENVIRONMENT;
  }
  mscrt_close(t->ctx);
  free(t->ms);
  return code;
}
