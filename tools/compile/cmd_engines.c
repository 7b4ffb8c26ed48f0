/* cmd_engines.c: a plan in; a line for every graph of it, out: the engine that cuDNN has for it on the GPU of the
 * plan's cluster, or why there is none.  msc compile runs it, as a program of its own: NVIDIA's libraries stay out
 * of the compiler. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/cuda/cudnn.h"
#include "tools/cli.h"
#include "tools/compile/engines.h"
#include "tools/status.h"

typedef struct {
  const mscrt_plan *plan;
  mscrt_gpu gpu;
  mscrt_dnn dnn;
  cli_output *out;
} engines;

static void print_engine(const engines *e, const mscrt_graph *g) {
  mscrt_dnn_graph made = {0};
  char *text = NULL;
  mscrt_status *s = mscrt_dnn_prepare(&e->dnn, g, g->bytes, e->gpu.name, &made);
  if (!s) s = mscrt_dnn_text(&e->dnn, &made, &text);
  cli_printf(e->out, "%s\n", s ? mscrt_status_text(s) : text);
  mscrt_status_free(s);
  mscrt_dnn_free(&e->dnn, &made);
  free(text);
}

static void *print_all(void *user) {
  engines *e = user;
  cli_printf(e->out, ENGINES_HEAD "\n", e->dnn.api.cudnnGetVersion(), e->gpu.arch);
  for (uint32_t i = 0; i < e->plan->num_graphs; i++) print_engine(e, &e->plan->graph[i]);
  return NULL;
}

/* Prints engines from a thread with a fixed stack. The library writes what was on its stack into the text, addresses
 * too, and those of the main thread's stack depend on the environment. */
static void print_in_thread(engines *e) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, print_all, e)) print_all(e);
  else pthread_join(thread, NULL);
}

static int print_engines(cli *c, const mscrt_plan *plan, const msc_cluster *cluster) {
  const msc_cluster_gpu *g = &cluster->gpu;
  engines e = {.plan = plan,
               .gpu = {cluster->device, (int)g->arch, g->multiprocessors, g->clock_hz, g->memory_clock_hz,
                       cluster->memory_bytes, g->cache_bytes, g->shared_bytes, g->threads, g->blocks}};
  mscrt_status *s = mscrt_dnn_describe(&e.gpu, &e.dnn);
  int code = s ? status_report(c, c->operands[0], "", s) : CLI_INPUT;
  e.out = s ? NULL : cli_open(c, cli_text(c, "o"));
  if (e.out) print_in_thread(&e);
  if (e.out) code = cli_close(c, e.out);
  mscrt_dnn_forget(&e.dnn);
  return code;
}

static const msc_cluster *cluster_of(cli *c, const mscrt_plan *plan) {
  const char *text = plan_plan_cluster(plan->root);
  const msc_cluster *cluster = text ? msc_cluster_read(c->ctx, c->operands[0], text, strlen(text)) : NULL;
  if (cluster && cluster->gpu.arch) return cluster;
  if (cluster || !text)
    msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, c->operands[0]),
              "the cluster it was compiled for describes no GPU; compile with --cluster h100, or one with device.gpu");
  return NULL;
}

static int run_engines(cli *c) {
  cli_bytes file;
  mscrt_plan *plan;
  const char *path = c->operands[0];
  if (!cli_read(c, path, &file)) return CLI_INPUT;
  /* nothing of it is executed */
  mscrt_status *s =
      mscrt_plan_open(file.data, file.size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  if (s) return status_report(c, path, "", s);
  const msc_cluster *cluster = cluster_of(c, plan);
  int code = cluster ? print_engines(c, plan, cluster) : CLI_INPUT;
  mscrt_plan_close(plan);
  return code;
}

static const cli_option options[] = {
  {"o", CLI_TEXT, "FILE", "write here instead of stdout"},
  {0},
};
const cli_command cmd_engines = {"PLAN", 1, 1, options, run_engines};
