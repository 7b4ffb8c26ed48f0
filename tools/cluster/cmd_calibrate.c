/* cmd_calibrate.c: msc calibrate -o c.json: measures this machine into a cluster description. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "passes/7_lower/target.h"
#include "runtime/thread_pool.h"
#include "tools/cluster/host_memory.h"
#include "tools/cluster/measure.h"

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

/* ---- what the measurements say ---- */

static const msc_cluster_measure *find_measure(const measured *m, msc_verb verb, int64_t ranks, bool largest) {
  const msc_cluster_measure *found = NULL;
  for (size_t i = 0; i < m->num_collectives; i++) {
    const msc_cluster_measure *x = &m->collective[i];
    if (x->verb == verb && x->ranks == ranks && (!found || largest == (x->bytes > found->bytes))) found = x;
  }
  return found;
}

/* The bytes that each member of a measured collective receives, as passes/time_model.h counts them. */
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
static double round_to_three_digits(double v) {
  double unit = pow(10, floor(log10(v)) - 2);
  return round(v / unit) * unit;
}

static const char *format_device_json(msc_arena *a, const measured *m) {
  const char *text = msc_arena_printf(a, "  \"device\": {\n    \"name\": \"%s\",\n    \"flops_per_s\": {", m->device);
  const char *before = "";
  for (int d = 0; d < MSC_NUM_DTYPES; d++) {
    if (!(m->flops_per_s[d] > 0)) continue;
    text = msc_arena_printf(a, "%s%s\"%s\": %g", text, before, msc_dtype_name((msc_dtype)d),
                            round_to_three_digits(m->flops_per_s[d]));
    before = ", ";
  }
  text =
      msc_arena_printf(a, "%s},\n    \"memory_bytes\": %" PRId64 ",\n    \"bytes_per_s\": %g,\n    \"launch_ns\": %.0f",
                       text, m->memory_bytes, round_to_three_digits(m->bytes_per_s), fmax(1, m->launch_ns));
  if (m->host_bytes_per_s > 0)
    text = msc_arena_printf(a, "%s,\n    \"host_bytes_per_s\": %g", text, round_to_three_digits(m->host_bytes_per_s));
  if (m->disk_bytes_per_s > 0)
    text = msc_arena_printf(a, "%s,\n    \"disk_bytes_per_s\": %g", text, round_to_three_digits(m->disk_bytes_per_s));
  const msc_cluster_gpu *g = &m->figures;
  if (m->target->is_gpu)
    text = msc_arena_printf(a,
                            "%s,\n    \"gpu\": {\"arch\": %" PRId64 ", \"multiprocessors\": %" PRId64
                            ", \"clock_hz\": %" PRId64 ", \"memory_clock_hz\": %" PRId64 ", \"cache_bytes\": %" PRId64
                            ", \"shared_bytes\": %" PRId64 ", \"threads\": %" PRId64 ", \"blocks\": %" PRId64 "}",
                            text, g->arch, g->multiprocessors, g->clock_hz, g->memory_clock_hz, g->cache_bytes,
                            g->shared_bytes, g->threads, g->blocks);
  return msc_arena_printf(a, "%s\n  }", text);
}

static const char *format_machine_json(msc_arena *a, const measured *m) {
  const char *text = msc_arena_printf(
      a,
      "{\n%s,\n  \"levels\": [\n    {\"name\": \"host\", \"latency_ns\": %.0f, \"bytes_per_s\": %g}\n  ],\n  "
      "\"collectives\": [",
      format_device_json(a, m), m->latency_ns, round_to_three_digits(m->link_bytes_per_s));
  for (size_t i = 0; i < m->num_collectives; i++) {
    const msc_cluster_measure *x = &m->collective[i];
    text = msc_arena_printf(
        a, "%s%s\n    {\"op\": \"%s\", \"ranks\": %" PRId64 ", \"bytes\": %" PRId64 ", \"ns\": %" PRId64 "}", text,
        i ? "," : "", msc_verb_name(x->verb), x->ranks, x->bytes, x->ns);
  }
  text = msc_arena_printf(a, "%s%s],\n  \"products\": [", text, m->num_collectives ? "\n  " : "");
  for (int i = 0; i < m->num_products; i++) {
    const measured_product *p = &m->product[i];
    text = msc_arena_printf(a,
                            "%s%s\n    {\"type\": \"%s\", \"rows\": %" PRId64 ", \"inner\": %" PRId64
                            ", \"columns\": %" PRId64 ", \"ns\": %" PRId64 "}",
                            text, i ? "," : "", msc_dtype_name(p->dtype), p->n, p->n, p->n, p->ns);
  }
  return msc_arena_printf(a, "%s\n  ]\n}\n", text);
}

static int calibrate_host(cli *c, measured *m, int ranks) {
  int cores = m->cores, comm_ranks = ranks > 1 ? ranks : 2;
  msc_arena *a = msc_context_arena(c->ctx);
  m->ranks = ranks;
  m->threads = cores / ranks > 0 ? cores / ranks : 1;
  m->device = msc_arena_printf(a, "%s, %d of %d core%s", cpu_name(a), m->threads, cores, cores == 1 ? "" : "s");
  m->memory_bytes = host_memory() / ranks;
  int code = measure_device(c, m);
  if (!code) code = measure_transfers(c, cli_text(c, "offload-path"), m);
  if (!code) code = measure_collectives(c, comm_ranks, m);
  if (code) return code;
  m->latency_ns = latency_ns(m, comm_ranks), m->link_bytes_per_s = link_bytes_per_s(m, comm_ranks);
  return CLI_OK;
}

/* Takes the links from the shipped description of this GPU: a single GPU has none that could be measured. */
static void assume_links(cli *c, measured *m) {
  const char *name = strstr(m->device, "A100") ? "a100" : strstr(m->device, "H200") ? "h200" : "h100";
  const msc_cluster *known = msc_cluster_named(c->ctx, name);
  m->latency_ns = (double)known->level[0].latency_ns, m->link_bytes_per_s = known->level[0].bytes_per_s;
  msc_warning(c->ctx, MSC_E_TARGET, NULL, "one GPU has no links to others: they are described as those of %s", name);
}

static int calibrate_gpus(cli *c, measured *m, int ranks) {
  m->ranks = ranks;
  int code = measure_gpu(c, m);
  m->threads = m->cores / (m->ranks ? m->ranks : 1);
  if (m->threads < 1) m->threads = 1;
  if (!code) code = measure_device(c, m);
  if (!code && m->ranks == 1) assume_links(c, m);
  return code;
}

static int run_calibrate(cli *c) {
  const char *name = cli_text(c, "target");
  const msc_target *target = msc_target_named(name ? name : "cpu");
  bool gpu = target && target->is_gpu;
  int usual = mscrt_cores() < MEASURE_MAX_RANKS ? mscrt_cores() : MEASURE_MAX_RANKS;
  int ranks = (int)cli_int(c, "ranks", gpu ? 0 : usual);
  if ((ranks < 1 && !gpu) || ranks < 0 || ranks > MEASURE_MAX_RANKS)
    return cli_usage(c, "--ranks is 1 to %d", MEASURE_MAX_RANKS);
  if (!target) {
    msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL, "--target %s is not supported yet; %s are", name,
              msc_target_names(msc_context_arena(c->ctx), " and "));
    return CLI_INPUT;
  }
  if (gpu && cli_text(c, "offload-path"))
    return cli_usage(c, "--offload-path: values on disk are not supported yet for cuda");
  measured m = {.target = target, .quick = cli_flag(c, "quick"), .cores = mscrt_cores()};
  int code = gpu ? calibrate_gpus(c, &m, ranks) : calibrate_host(c, &m, ranks);
  if (code) return code;
  const char *text = format_machine_json(msc_context_arena(c->ctx), &m);
  if (!msc_cluster_read(c->ctx, "calibration", text, strlen(text))) return CLI_BUG;
  code = cli_write_file(c, cli_text(c, "o"), text, strlen(text));
  return code || !c->json || !cli_text(c, "o") ? code : cli_write_file(c, NULL, text, strlen(text));
}

static const cli_option options[] = {
  {"o", CLI_TEXT, "FILE", "write the description here instead of stdout"},
  {"ranks", CLI_INT, "N", "devices that this machine is to be; they share its cores.  Default: all cores, or GPUs"},
  {"target", CLI_TEXT, "cpu|cuda", "what to measure.  Default: cpu"},
  {"offload-path", CLI_TEXT, "DIR", "measure the disk of this folder too, where values may be offloaded to"},
  {"quick", CLI_FLAG, NULL, "a first look within seconds, less exact"},
  {0},
};
const cli_command cmd_calibrate = {"", 0, 0, options, run_calibrate};
