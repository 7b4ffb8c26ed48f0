/* cmd_bench.c: msc bench comm: times every collective at every size, on ranks that it starts here, or as one rank of
 * a cluster's job; time, bus bandwidth and bytes out. Bus bandwidth is what each rank receives at least, by time:
 * the same measure for all collectives and numbers of ranks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/cluster/measure.h"
#include "tools/cluster/startup.h"

enum { MOST_SIZES = 64 };

/* Reads a range, "1k..8M": sizes from the first to the second, each four times the one before. */
static bool read_size_range(cli *c, size_t *out_num, int64_t *out_sizes) {
  const char *text = cli_text(c, "sizes");
  int64_t ends[2] = {1 << 10, 1 << 24};
  const char *at = text;
  for (int i = 0; text && i < 2; i++) {
    char *end;
    double v = strtod(at, &end);
    int shift = *end == 'k' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == at || !(v >= 1 && v < 1e12))
      return cli_usage(c, "--sizes: '%s' is no range such as 1k..16M", text), false;
    end += shift != 0;
    ends[i] = (int64_t)(v * (double)((int64_t)1 << shift));
    bool range = !strncmp(end, "..", 2);
    if (i == 0 && !range && !*end) ends[1] = ends[0];
    if (i == 0 && !range && !*end) break;
    if (i == 0 ? !range : *end != 0) return cli_usage(c, "--sizes: '%s' is no range such as 1k..16M", text), false;
    at = end + 2;
  }
  if (ends[0] < 4 || ends[1] < ends[0] || ends[1] > (int64_t)1 << 30)
    return cli_usage(c, "--sizes: '%s' is no range of 4 bytes to 1G", text), false;
  for (int64_t size = ends[0]; size <= ends[1] && *out_num < MOST_SIZES; size *= 4) out_sizes[(*out_num)++] = size;
  return true;
}

/* Reads "all_reduce,permute": what is not in it is left out. */
static bool read_collectives(cli *c, uint32_t *out_without) {
  const char *text = cli_text(c, "collectives"), *end;
  *out_without = text ? ~(uint32_t)0 : 0;
  for (const char *at = text; at; at = *end ? end + 1 : NULL) {
    char word[32] = "";
    end = at + strcspn(at, ",");
    if ((size_t)(end - at) < sizeof word) memcpy(word, at, (size_t)(end - at));
    msc_verb v = msc_verb_parse(word);
    if (v == MSC_NUM_VERBS || !msc_verb_is(v, MSC_VERB_MEASURED))
      return cli_usage(c, "--collectives: '%.*s' is none that is timed", (int)(end - at), at), false;
    *out_without &= ~((uint32_t)1 << v);
  }
  return true;
}

/* The bytes that a rank must receive, at least, for a collective of so many bytes. */
static double least_bytes(const comm_time *t, int ranks) {
  return msc_verb_received_share(t->verb, ranks) * (double)t->bytes;
}

static void print_comm_times(const cli *c, const comm_request *r, size_t num, const comm_time *times) {
  json_t *all = json_array();
  if (!c->json)
    printf("%d ranks, %s\n%-16s %12s %12s %12s %14s\n", r->ranks,
           strcmp(r->comm, "local") ? r->comm : "shared memory", "collective", "bytes", "us", "bus GB/s", "received");
  for (size_t i = 0; i < num; i++) {
    double speed = times[i].ns ? least_bytes(&times[i], r->ranks) / (double)times[i].ns : 0;
    if (!c->json)
      printf("%-16s %12" PRId64 " %12.2f %12.3f %14" PRIu64 "\n", msc_verb_name(times[i].verb), times[i].bytes,
             (double)times[i].ns / 1e3, speed, times[i].received);
    json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:f, s:I}", "op", msc_verb_name(times[i].verb), "bytes",
                                         (json_int_t)times[i].bytes, "ns", (json_int_t)times[i].ns, "bus_bytes_per_s",
                                         speed * 1e9, "received_bytes", (json_int_t)times[i].received));
  }
  json_t *root = json_pack("{s:i, s:s, s:o}", "ranks", r->ranks, "comm", r->comm, "collectives", all);
  char *text = c->json ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  if (text) printf("%s\n", text);
  free(text);
  json_decref(root);
}

/* Finds the ranks: those of the job that started this process, or --ranks. */
static int choose_ranks(cli *c, startup *job, comm_request *r) {
  const char *comm = cli_text(c, "comm");
  if (!startup_of_process(job)) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", job->error), CLI_INPUT;
  bool joins = job->family && job->ranks > 1;
  *r = (comm_request){.ranks = (int)cli_int(c, "ranks", joins ? job->ranks : 2), .rank = -1};
  if (joins) {
    r->token = startup_token(job);
    if (job->error[0]) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", job->error), CLI_INPUT;
    if (r->ranks != job->ranks || job->rank < 0 || job->role != STARTUP_WORKER)
      return cli_usage(c, "--ranks %d contradicts the environment: %s says rank %d of %d", r->ranks, job->family,
                       job->rank, job->ranks);
    r->rank = job->rank, r->local_ranks = job->local_ranks, r->address = job->address;
    r->host = job->host[0] ? job->host : NULL;
  }
  if (r->ranks < 2 || r->ranks > MEASURE_MAX_RANKS) return cli_usage(c, "--ranks is from 2 to %d", MEASURE_MAX_RANKS);
  r->comm = comm ? comm : joins && job->address[0] != '@' ? "hosts" : "local";
  return CLI_OK;
}

static int run_bench(cli *c) {
  comm_request r;
  startup job;
  int64_t sizes[MOST_SIZES];
  size_t num = 0, num_sizes = 0;
  comm_time *times;
  if (strcmp(c->operands[0], "comm")) return cli_usage(c, "'%s' is not comm", c->operands[0]);
  if (!read_size_range(c, &num_sizes, sizes)) return CLI_USAGE;
  int code = choose_ranks(c, &job, &r);
  if (code) return code;
  r.sizes = sizes, r.num_sizes = num_sizes;
  if (!read_collectives(c, &r.without)) return CLI_USAGE;
  code = measure_comm(c, &r, &num, &times);
  if (!code && r.rank <= 0) print_comm_times(c, &r, num, times);
  return code;
}

static const cli_option options[] = {
    {"ranks", CLI_INT, "N", "ranks to start on this host; default 2, or those of the job that started this process"},
    {"sizes", CLI_TEXT, "A..B", "bytes of the collectives, four times as many each; default 1k..16M"},
    {"collectives", CLI_TEXT, "NAME,...", "time only these: all_reduce, all_gather, reduce_scatter and others"},
    {"comm", CLI_CHOICE, "local|hosts|tcp|ucx",
     "shared memory, TCP without it or with it inside a host, or UCX; default: as msc run would"},
    {0},
};
const cli_command cmd_bench = {"comm", 1, 1, options, run_bench};
