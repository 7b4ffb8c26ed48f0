/* cmd_calibrate.c: msc calibrate -o c.json: measures this machine into a cluster description. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/pool.h"
#include "tools/measure.h"

/* ---- the machine ---- */

/* The CPU's name from /proc/cpuinfo, fit for JSON. */
static const char *cpu_name(msc_arena *a) {
  char line[256], *name = NULL;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && !name && fgets(line, sizeof line, f))
    if (!strncmp(line, "model name", 10) && strchr(line, ':')) name = strchr(line, ':') + 1;
  if (f) fclose(f);
  if (!name) return "CPU";
  while (*name == ' ' || *name == '\t') name++;
  name[strcspn(name, "\n")] = 0;
  for (char *p = name; *p; p++)
    if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ' || (unsigned char)*p > '~') *p = ' ';
  return msc_arena_printf(a, "%s", name);
}

/* Reads a file that holds one number, as those of a control group do; 0 if there is none. */
static int64_t number_in(const char *path) {
  long long v = 0;
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%lld", &v) != 1) v = 0;
  if (f) fclose(f);
  return v > 0 ? v : 0;
}

static int64_t memory_of_host(void) {
  int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
          limit = number_in("/sys/fs/cgroup/memory.max");
  if (!limit) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  return limit && limit < bytes ? limit : bytes;
}

/* ---- what the measurements say ---- */

static const msc_cluster_measure *find_measure(const measured *m, msc_verb verb, int64_t ranks, bool largest) {
  const msc_cluster_measure *found = NULL;
  for (size_t i = 0; i < m->num_collectives; i++) {
    const msc_cluster_measure *x = &m->collective[i];
    if (x->verb == verb && x->ranks == ranks && (!found || largest == (x->bytes > found->bytes))) found = x;
  }
  return found;
}

/* The bytes that each member of a measured collective receives, as passes/cost.h counts them. */
static double bytes_received(const msc_cluster_measure *x) {
  return (double)x->bytes * msc_verb_received_share(x->verb, x->ranks);
}

/* The latency of one step between neighbours: the geometric mean, over small tensors, of the time beyond the launch. */
static double latency_ns(const measured *m, int64_t ranks) {
  double sum = 0;
  int num = 0;
  for (msc_verb v = 0; v < MSC_NUM_VERBS; v++) {
    if (!msc_verb_is(v, MSC_VERB_MEASURED)) continue;
    const msc_cluster_measure *x = find_measure(m, v, ranks, false);
    sum += log(fmax(1, ((double)x->ns - m->launch_ns) / (double)msc_verb_rounds(v, ranks, ranks - 1)));
    num++;
  }
  return exp(sum / num);
}

/* The bandwidth of a link: the geometric mean over the collectives, each on its largest tensor. */
static double link_bytes_per_s(const measured *m, int64_t ranks) {
  double sum = 0;
  int num = 0;
  for (msc_verb v = 0; v < MSC_NUM_VERBS; v++) {
    if (!msc_verb_is(v, MSC_VERB_MEASURED)) continue;
    const msc_cluster_measure *x = find_measure(m, v, ranks, true), *small = find_measure(m, v, ranks, false);
    sum += log(bytes_received(x) / fmax((double)(x->ns - small->ns), 1) * 1e9);
    num++;
  }
  return exp(sum / num);
}

/* ---- the description ---- */

/* Rounds to three digits: more would be noise. */
static double round_to_two_digits(double v) {
  double unit = pow(10, floor(log10(v)) - 2);
  return round(v / unit) * unit;
}

static const char *format_machine_json(msc_arena *a, const measured *m, int64_t comm_ranks) {
  const char *text =
      msc_arena_printf(a, "{\n  \"device\": {\n    \"name\": \"%s, %d of %d core%s\",\n    \"flops_per_s\": {",
                       cpu_name(a), m->threads, mscrt_cores(), mscrt_cores() == 1 ? "" : "s");
  const char *before = "";
  for (int d = 0; d < MSC_NUM_DTYPES; d++) {
    if (!(m->flops_per_s[d] > 0)) continue;
    text = msc_arena_printf(a, "%s%s\"%s\": %g", text, before, msc_dtype_name((msc_dtype)d),
                            round_to_two_digits(m->flops_per_s[d]));
    before = ", ";
  }
  text = msc_arena_printf(
      a, "%s},\n    \"memory_bytes\": %" PRId64 ",\n    \"bytes_per_s\": %g,\n    \"launch_ns\": %.0f\n  },\n", text,
      m->memory_bytes, round_to_two_digits(m->bytes_per_s), fmax(1, m->launch_ns));
  text = msc_arena_printf(a,
                          "%s  \"levels\": [\n    {\"name\": \"host\", \"latency_ns\": %.0f, \"bytes_per_s\": %g}\n  "
                          "],\n  \"collectives\": [",
                          text, latency_ns(m, comm_ranks), round_to_two_digits(link_bytes_per_s(m, comm_ranks)));
  for (size_t i = 0; i < m->num_collectives; i++) {
    const msc_cluster_measure *x = &m->collective[i];
    text = msc_arena_printf(
        a, "%s%s\n    {\"op\": \"%s\", \"ranks\": %" PRId64 ", \"bytes\": %" PRId64 ", \"ns\": %" PRId64 "}", text,
        i ? "," : "", msc_verb_name(x->verb), x->ranks, x->bytes, x->ns);
  }
  return msc_arena_printf(a, "%s\n  ]\n}\n", text);
}

static int run_calibrate(cli *c) {
  int cores = mscrt_cores(), ranks = (int)cli_int(c, "ranks", cores < MEASURE_MAX_RANKS ? cores : MEASURE_MAX_RANKS);
  const char *target = cli_text(c, "target");
  if (ranks < 1 || ranks > MEASURE_MAX_RANKS) return cli_usage(c, "--ranks is 1 to %d", MEASURE_MAX_RANKS);
  if (target && strcmp(target, "cpu")) {
    msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL, "--target %s is not supported yet; cpu is", target);
    return CLI_INPUT;
  }
  measured m = {.ranks = ranks,
                .threads = cores / ranks > 0 ? cores / ranks : 1,
                .quick = cli_flag(c, "quick"),
                .memory_bytes = memory_of_host() / ranks};
  int comm_ranks = ranks > 1 ? ranks : 2, code = measure_device(c, &m);
  if (!code) code = measure_collectives(c, comm_ranks, &m);
  if (code) return code;
  const char *text = format_machine_json(msc_context_arena(c->ctx), &m, comm_ranks);
  if (!msc_cluster_read(c->ctx, "calibration", text, strlen(text))) return CLI_BUG;
  code = cli_write_file(c, cli_text(c, "o"), text, strlen(text));
  return code || !c->json || !cli_text(c, "o") ? code : cli_write_file(c, NULL, text, strlen(text));
}

static const cli_option options[] = {
  {"o", CLI_TEXT, "FILE", "write the description here instead of stdout"},
  {"ranks", CLI_INT, "N", "devices that this machine is to be; they share its cores.  Default: one per core"},
  {"target", CLI_TEXT, "cpu", "what to measure"},
  {"quick", CLI_FLAG, NULL, "a first look within seconds, less exact"},
  {0},
};
const cli_command cmd_calibrate = {"", 0, 0, options, run_calibrate};
