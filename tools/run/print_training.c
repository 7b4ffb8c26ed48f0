/* print_training.c: what rank 0 prints of a run: steps, evaluations, totals and the replacement of lost ranks. */
#include <math.h>
#include <stdlib.h>

#include "tools/explain/explain_plan.h"
#include "tools/run/training.h"

static void print_member(const char *key, double v) {
  if (isfinite(v)) printf("\"%s\":%.9g", key, v);
  else printf("\"%s\":null", key);
}

/* Prints every step as JSON; as text about twenty steps and every epoch. */
static void print_step(const training *t, int64_t step, double loss, double ms) {
  if (t->c->json) {
    printf("{\"step\":%" PRId64 ",", step);
    print_member("loss", loss);
    printf(",\"ms\":%.4f}\n", ms);
    return;
  }
  int64_t every = t->steps > 20 ? t->steps / 20 : 1;
  cli_progress(t->c, "step %" PRId64 " of %" PRId64 ", loss %.6g", step, t->steps, loss);
  if (step % every && step != t->steps) return;
  cli_progress_done(t->c);
  if (isnan(loss) && t->timed) printf("step %-8" PRId64 " %.3f ms\n", step, ms);
  else printf("step %-8" PRId64 " loss %-12.6g %.3f ms\n", step, loss, ms);
}

/* Tells once of a loss that is infinite or no number.  Nobody computes losses on the device `timed`. */
static void warn_of_loss(const training *t, double loss, const char *of) {
  if (isfinite(loss) || t->timed || t->progress->warned) return;
  t->progress->warned = true;
  cli_progress_done(t->c);
  fflush(stdout);
  fprintf(stderr, "msc run: warning: the loss of %s is %s%s; later ones are not told of\n", of,
          isnan(loss) ? "no number (nan)" : "infinite", t->c->json ? ", which JSON has as null" : "");
}

void tell_step(const training *t, int64_t step, double loss, double ms) {
  char of[32];
  snprintf(of, sizeof of, "step %" PRId64, step);
  print_step(t, step, loss, ms);
  warn_of_loss(t, loss, of);
  t->progress->printed = step;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int64_t num) {
  if (num == 0) return 0;
  qsort(v, (size_t)num, sizeof *v, compare_doubles);
  return v[num / 2];
}

void print_evaluation(const training *t, const mscrt_evaluation *e) {
  bool right = isfinite(e->accuracy);
  warn_of_loss(t, e->loss, "the evaluation");
  if (t->c->json) {
    printf("{\"eval\":{");
    print_member("loss", e->loss);
    if (right) printf(",\"accuracy\":%.9g", e->accuracy);
    printf(",\"samples\":%" PRId64 "}}\n", e->samples);
    return;
  }
  printf("evaluation: loss %.6g", e->loss);
  if (right) printf(", accuracy %.2f %%", 100 * e->accuracy);
  printf(" (%" PRId64 " samples)\n", e->samples);
}

static void print_series(const training *t, const char *key, size_t offset) {
  printf(",\"%s\":[", key);
  for (int r = 0; r < t->ranks; r++)
    printf("%s%.4f", r ? "," : "", *(const double *)((const char *)&t->measured[r] + offset));
  printf("]");
}

/* The share of transfers that ran beside calls. */
static double hidden_percent(double ms, double wait_ms) { return wait_ms < ms ? 100 * (1 - wait_ms / ms) : 0; }

/* What was predicted of the transfers of each stage, as msc explain tells it; NULL: nothing is offloaded. */
static json_t *predict_transfers(const training *t) {
  cli_bytes file;
  const char *path = t->c->operands[0];
  const msc_cluster *cluster;
  if (t->num_family > 1 || !cli_read(t->c, path, &file)) return NULL;
  cluster = cli_cluster_of_plan(t->c, path, file.data);
  return cluster ? cli_explain_offload(t->c->ctx, file.data, cluster) : NULL;
}

static void print_predicted_transfers(const training *t) {
  json_t *all = predict_transfers(t), *one;
  size_t i;
  if (all && t->c->json) {
    const char *const keys[] = {"transfer_ms", "hidden"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      printf(",\"predicted_%s\":[", keys[k]);
      json_array_foreach(all, i, one) printf("%s%.4f", i ? "," : "", json_number_value(json_object_get(one, keys[k])));
      printf("]");
    }
  }
  json_array_foreach(all, i, one) if (!t->c->json)
      printf("predicted of stage %" JSON_INTEGER_FORMAT ": %.3f ms in transfers, %.1f %% hidden\n",
             json_integer_value(json_object_get(one, "stage")), json_number_value(json_object_get(one, "transfer_ms")),
             100 * json_number_value(json_object_get(one, "hidden")));
  json_decref(all);
}

/* Prints what ranks measured per step: as JSON of each rank, as text their mean. */
static void print_measured(const training *t) {
  rank_times mean = {0};
  int64_t exposed_ns, step_ns = mscrt_plan_predicted_ns(t->plan, &exposed_ns);
  if (t->c->json) {
    printf(",\"predicted_step_ms\":%.6f,\"predicted_exposed_comm_ms\":%.6f,\"time_scale\":%.9g", (double)step_ns / 1e6,
           (double)exposed_ns / 1e6, t->timed ? t->time_scale : 1);
    print_series(t, "compute_ms", offsetof(rank_times, compute_ms));
    print_series(t, "comm_ms", offsetof(rank_times, comm_ms));
    print_series(t, "exposed_comm_ms", offsetof(rank_times, exposed_ms));
    print_series(t, "section_ms", offsetof(rank_times, section_ms));
    print_series(t, "transfer_ms", offsetof(rank_times, transfer_ms));
    print_series(t, "transfer_wait_ms", offsetof(rank_times, transfer_wait_ms));
    print_predicted_transfers(t);
    print_series(t, "data_wait_ms", offsetof(rank_times, data_wait_ms));
    print_series(t, "data_bytes", offsetof(rank_times, data_bytes));
    return;
  }
  for (int r = 0; r < t->ranks; r++) {
    mean.compute_ms += t->measured[r].compute_ms / t->ranks;
    mean.comm_ms += t->measured[r].comm_ms / t->ranks;
    mean.exposed_ms += t->measured[r].exposed_ms / t->ranks;
    mean.transfer_ms += t->measured[r].transfer_ms / t->ranks;
    mean.transfer_wait_ms += t->measured[r].transfer_wait_ms / t->ranks;
    mean.data_wait_ms += t->measured[r].data_wait_ms / t->ranks;
    mean.data_bytes += t->measured[r].data_bytes / t->ranks;
  }
  printf("per step and rank: %.3f ms in calls, %.3f ms in collectives, %.3f ms waiting for them\n", mean.compute_ms,
         mean.comm_ms, mean.exposed_ms);
  if (mean.transfer_ms > 0) {
    printf("of what is offloaded: %.3f ms in transfers, %.3f ms waiting for them, %.1f %% hidden\n", mean.transfer_ms,
           mean.transfer_wait_ms, hidden_percent(mean.transfer_ms, mean.transfer_wait_ms));
    print_predicted_transfers(t);
  }
  if (t->data) printf("of data: %.3f ms waiting, %.3f MB read from files\n", mean.data_wait_ms, mean.data_bytes / 1e6);
  if (t->timed)
    printf("predicted: %.3f ms per step, of it %.3f ms waiting for collectives; times %g\n", (double)step_ns / 1e6,
           (double)exposed_ns / 1e6, t->time_scale);
}

void print_totals(const training *t, double total_ms, uint64_t resident) {
  mscrt_stats s = {.struct_size = sizeof s};
  mscrt_get_stats(t->ctx, &s);
  double step_ms = median(t->ms, t->done);
  uint64_t received = t->done ? s.received_bytes / (uint64_t)t->done : 0;
  if (t->c->json)
    printf("{\"steps\":%" PRId64
           ",\"total_ms\":%.3f,\"step_ms\":%.4f,\"ranks\":%d,\"threads\":%d,\"rss_bytes\":%" PRIu64
           ",\"arena_bytes\":%" PRIu64 ",\"constant_bytes\":%" PRIu64 ",\"thread_bytes\":%" PRIu64
           ",\"link_bytes\":%" PRIu64 ",\"planned_bytes\":%" PRIu64 ",\"comm_bytes_per_step\":%" PRIu64
           ",\"host_bytes\":%" PRIu64 ",\"disk_bytes\":%" PRIu64,
           t->done, total_ms, step_ms, t->ranks, s.threads, resident, s.arena_bytes, s.constant_bytes, s.thread_bytes,
           s.link_bytes, s.planned_bytes, received, s.host_bytes, s.disk_bytes);
  else {
    for (size_t i = 0; i < t->num_sinks; i++) printf("%s: in %s\n", t->sinks[i].output, t->sinks[i].file);
    if (t->done) printf("%" PRId64 " steps in %.2f s, median %.3f ms; ", t->done, total_ms / 1e3, step_ms);
    printf("%d rank%s of %d thread%s; %.1f MB resident, %.2f MB arena per rank\n", t->ranks, t->ranks == 1 ? "" : "s",
           s.threads, s.threads == 1 ? "" : "s", (double)resident / 1e6, (double)s.arena_bytes / 1e6);
  }
  if (!t->c->json && s.host_bytes + s.disk_bytes)
    printf("%.2f MB per rank live in host memory, %.2f MB on disk\n", (double)s.host_bytes / 1e6,
           (double)s.disk_bytes / 1e6);
  double there = s.cache_rows ? 1 - (double)s.cache_misses / (double)s.cache_rows : 1;
  if (t->c->json && s.cache_rows)
    printf(",\"cache_rows\":%" PRIu64 ",\"cache_misses\":%" PRIu64 ",\"cache_hit_rate\":%.6f", s.cache_rows,
           s.cache_misses, there);
  else if (s.cache_rows)
    printf("%.2f %% of %" PRIu64 " rows that steps named were on the device\n", 100 * there, s.cache_rows);
  if (t->c->json && s.launch_ns) printf(",\"launch_us\":%.3f", (double)s.launch_ns / 1e3);
  if (t->measured) print_measured(t);
  if (t->c->json) printf("}\n");
}

void print_interval(const training *t) {
  double step_s = 0, save_s = t->save_ms / 1e3 / (double)t->saved, failure_s = cli_number(t->c, "mtbf", 0) * 3600;
  for (int64_t i = 0; i < t->done; i++) step_s += t->ms[i] / 1e3 / (double)t->done;
  if (!t->saved || !t->done) return;
  double apart_s = sqrt(2 * save_s * failure_s), steps = apart_s / step_s;
  cli_progress_done(t->c);
  fprintf(stderr,
          "msc run: a checkpoint cost %.4g s and a step %.4g s; with a failure every %.4g h, --ckpt-every %.0f loses "
          "least\n",
          save_s, step_s, failure_s / 3600, steps < 1 ? 1 : steps);
}

void print_recovery(training *t, const mscrt_recovery *r) {
  cli_progress_done(t->c);
  if (t->elastic)
    fprintf(stderr, "msc run: %d rank%s on at step %" PRId64 ", %s\n", t->ranks, t->ranks == 1 ? " goes" : "s go",
            r->from_peers ? r->step : 0,
            r->from_peers ? "with the state of those that had it"
                          : "or the newest checkpoint: nobody has all parts of a later state");
  else if (r->from_peers)
    fprintf(stderr, "msc run: %d rank%s replaced, the state of step %" PRId64 " came from other ranks\n", r->lost,
            r->lost == 1 ? " is" : "s are", r->step);
  else
    fprintf(stderr, "msc run: %d rank%s replaced, of whose state nobody else has all parts: all go on from %s\n",
            r->lost, r->lost == 1 ? " is" : "s are",
            cli_text(t->c, "ckpt-dir") ? "the newest checkpoint" : "the start");
  if (!r->from_peers) {
    t->progress->printed = -1;
    return;
  }
  /* ranks that exchange nothing may be a step ahead of rank 0, which did not print the one before either */
  for (int64_t step = t->progress->printed + 1; step > 0 && step < r->step && t->progress->loss[step].known; step++)
    tell_step(t, step, t->progress->loss[step].loss, 0);
  if (t->progress->printed == r->step - 1 && isfinite(r->loss)) tell_step(t, r->step, r->loss, 0);
}
