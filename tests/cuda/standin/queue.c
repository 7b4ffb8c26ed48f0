/* queue.c: streams, events, captures and graphs of the stand-in.  Work is a node with the nodes it must follow; nothing
 * runs before somebody waits, and then what is ready runs in an order drawn by seed: an order that a missing event
 * allows will come. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/standin/standin.h"

#define WINDOW 256 /* nodes looked at for what may run next */
#define ROOM 1024  /* calls under way: who makes more waits, in the driver, for ever if need be */

typedef struct {
  const char *name;
  node_fn *fn;                   /* NULL: only joins what it follows */
  void *argument;
  size_t bytes;
  size_t after[2];               /* numbers of nodes, 0: none */
  bool done, hangs, counted;
  double ended_ms;
} node;

/* Nodes have numbers from 1. */
typedef struct { node *node; size_t num, room; } nodes;

struct CUgraph_st { nodes n; cu_stream origin; };
struct CUgraphExec_st { nodes n; };
struct CUstream_st {
  cu_stream next;
  cu_graph graph;                /* being captured into */
  size_t last;                   /* in the graph, else in the queue */
  size_t before;                 /* the capture: its last in the queue */
};
struct CUevent_st { cu_graph graph; size_t node; };

static nodes queue;
static size_t first_undone = 1, under_way;
static cu_stream streams;
static int captures;

static size_t add(nodes *n, node added) {
  if (n->num + 1 >= n->room) {
    n->room = n->room ? 2 * n->room : 64;
    n->node = realloc(n->node, n->room * sizeof *n->node);
  }
  n->node[++n->num] = added;
  return n->num;
}

static node copy_of(const node *from) {
  node n = *from;
  n.argument = from->bytes ? memcpy(malloc(from->bytes), from->argument, from->bytes) : NULL;
  n.done = false;
  return n;
}

static void free_nodes(nodes *n) {
  for (size_t i = 1; i <= n->num; i++) free(n->node[i].argument);
  free(n->node);
}

bool standin_capturing(void) { return captures > 0; }

void standin_forbid_in_capture(const char *what) {
  if (captures) standin_broken("%s while a stream is captured", what);
}

/* ---- execution ---- */

static bool is_done(size_t number) { return number == 0 || queue.node[number].done; }

static bool is_ready(const node *n) { return is_done(n->after[0]) && is_done(n->after[1]); }

/* "name:number" */
static bool never_ends(node *n) {
  static long calls;
  const char *order = getenv("MSC_STANDIN_HANG");
  size_t length = strlen(n->name);
  if (!n->hangs && order && !strncmp(order, n->name, length) && order[length] == ':')
    n->hangs = ++calls >= atol(order + length + 1);
  return n->hangs;
}

/* "name:microseconds": all work of this name takes so much longer. */
static void slow_down(const node *n) {
  const char *order = getenv("MSC_STANDIN_SLOW");
  size_t length = strlen(n->name);
  if (order && !strncmp(order, n->name, length) && order[length] == ':') usleep((useconds_t)atol(order + length + 1));
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static bool try_node(size_t number) {
  node *n = &queue.node[number];
  if (never_ends(n) || (n->fn && !n->fn(n->argument))) return false;
  slow_down(&queue.node[number]);
  n = &queue.node[number];
  n->done = true, n->ended_ms = now_ms();
  under_way -= n->counted;
  free(n->argument);
  n->argument = NULL;
  while (first_undone <= queue.num && queue.node[first_undone].done) first_undone++;
  return true;
}

/* One node that may run now, if there is one.  All that are ready get a chance before it gives up. */
static bool run_one(void) {
  size_t ready[WINDOW], num = 0;
  for (size_t i = first_undone; i <= queue.num && i < first_undone + WINDOW; i++)
    if (!queue.node[i].done && is_ready(&queue.node[i])) ready[num++] = i;
  for (size_t tried = 0, at = num ? standin_random() % num : 0; tried < num; tried++)
    if (try_node(ready[(at + tried) % num])) return true;
  return false;
}

static void run_until(size_t number) {
  while (!is_done(number))
    if (!run_one()) usleep(50);
}

void standin_issue(cu_stream s, const char *name, node_fn *fn, const void *argument, size_t bytes) {
  if (!s) standin_broken("%s goes to the default stream, which waits for all others", name);
  while (!s->graph && under_way >= ROOM)
    if (!run_one()) usleep(50);
  node n = {.name = name, .fn = fn, .argument = (void *)(uintptr_t)argument, .bytes = bytes, .after = {s->last, 0}};
  s->last = add(s->graph ? &s->graph->n : &queue, copy_of(&n));
  if (s->graph) return;
  queue.node[s->last].counted = true;
  under_way++;
}

bool standin_follows(cu_stream s, const char *name) {
  const nodes *n = s->graph ? &s->graph->n : &queue;
  size_t last = s->last;
  while (last && !strcmp(n->node[last].name, "event")) last = n->node[last].after[0];
  return last && !strcmp(n->node[last].name, name);
}

void standin_wait(cu_stream s) { run_until(s->last); }

void standin_wait_all(void) {
  for (cu_stream s = streams; s; s = s->next)
    if (!s->graph) run_until(s->last);
}

/* What is done is forgotten when nothing else is there. */
static void forget(void) {
  if (first_undone <= queue.num) return;
  for (cu_stream s = streams; s; s = s->next)
    if (!s->graph) s->last = 0;
}

/* ---- functions of the host ---- */

typedef struct {
  void (*function)(void *);
  void *user;
} host_function;

static bool call_host_function(void *argument) {
  const host_function *h = argument;
  h->function(h->user);
  return true;
}

API unsigned cuLaunchHostFunc(cu_stream s, void (*function)(void *), void *user) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_issue(s, __func__, call_host_function, &(host_function){function, user}, sizeof(host_function));
  return 0;
}

/* ---- streams ---- */

API unsigned cuStreamCreate(cu_stream *out, unsigned flags) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_forbid_in_capture(__func__);
  if (flags != MSCRT_CU_STREAM_NON_BLOCKING) standin_broken("a stream that waits for the default stream");
  *out = calloc(1, sizeof **out);
  (*out)->next = streams;
  streams = *out;
  standin_count("streams", 1);
  return 0;
}

API unsigned cuStreamDestroy_v2(cu_stream s) {
  if (s->graph) standin_broken("a stream is destroyed while it is captured");
  run_until(s->last);
  cu_stream *at = &streams;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  free(s);
  standin_count("streams", -1);
  return standin_call(__func__);
}

/* Time passes while somebody asks: now and then something runs. */
static bool comes_to(size_t number) {
  for (int i = 0; i < 16 && !is_done(number); i++)
    if (!run_one()) break;
  if (is_done(number)) forget();
  return is_done(number);
}

API unsigned cuStreamQuery(cu_stream s) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  return failed ? failed : comes_to(s->last) ? 0 : MSCRT_CUDA_ERROR_NOT_READY;
}

/* A stream that follows an event of a capture takes part in it. */
API unsigned cuStreamWaitEvent(cu_stream s, cu_event e, unsigned flags) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (flags) standin_broken("cuStreamWaitEvent with flags %u", flags);
  if (!e->node) return 0;
  if (e->graph && !s->graph) {
    s->before = s->last;
    s->graph = e->graph;
    s->last = e->node;
    return 0;
  }
  if (s->graph != e->graph) standin_broken("a captured stream follows an event from outside, or of another capture");
  node n = {.name = "join", .after = {s->last, e->node}};
  s->last = add(s->graph ? &s->graph->n : &queue, n);
  return 0;
}

/* ---- events ---- */

API unsigned cuEventCreate(cu_event *out, unsigned flags) {
  unsigned failed = standin_call(__func__);
  (void)flags;
  if (failed) return failed;
  *out = calloc(1, sizeof **out);
  standin_count("events", 1);
  return 0;
}

API unsigned cuEventDestroy_v2(cu_event e) {
  free(e);
  standin_count("events", -1);
  return standin_call(__func__);
}

API unsigned cuEventRecord(cu_event e, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  node n = {.name = "event", .after = {s->last, 0}};
  s->last = add(s->graph ? &s->graph->n : &queue, n);
  e->graph = s->graph;
  e->node = s->last;
  return 0;
}

API unsigned cuEventQuery(cu_event e) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (e->graph) standin_broken("a captured event is asked for");
  return comes_to(e->node) ? 0 : MSCRT_CUDA_ERROR_NOT_READY;
}

API unsigned cuEventSynchronize(cu_event e) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (e->node) run_until(e->node);
  return 0;
}

API unsigned cuEventElapsedTime(float *out_ms, cu_event begin, cu_event end) {
  if (!is_done(begin->node) || !is_done(end->node)) return MSCRT_CUDA_ERROR_NOT_READY;
  *out_ms = getenv("MSC_STANDIN_SLOW") ? (float)(queue.node[end->node].ended_ms - queue.node[begin->node].ended_ms)
                                       : 1e-3f * (float)(1 + standin_random() % 1000);
  return standin_call(__func__);
}

/* ---- graphs ---- */

API unsigned cuStreamBeginCapture_v2(cu_stream s, unsigned mode) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (s->graph) standin_broken("a stream is captured twice");
  if (mode != MSCRT_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) standin_broken("a capture that disturbs other threads");
  s->graph = calloc(1, sizeof *s->graph);
  s->graph->origin = s;
  s->before = s->last;
  s->last = 0;
  captures++;
  standin_count("graphs", 1);
  return 0;
}

static bool follows(const nodes *n, size_t later, size_t number) {
  bool *seen = calloc(later + 1, 1);
  seen[later] = true;
  for (size_t i = later; i > number; i--)
    for (int k = 0; seen[i] && k < 2; k++) seen[n->node[i].after[k]] = true;
  bool is = seen[number];
  free(seen);
  return is;
}

/* After a failure streams may still be apart: then there is no graph, as with the real one. */
API unsigned cuStreamEndCapture(cu_stream s, cu_graph *out) {
  cu_graph g = s->graph;
  bool apart = false;
  if (!g || g->origin != s) standin_broken("a capture ends that did not begin on this stream");
  for (cu_stream other = streams; other; other = other->next) {
    if (other->graph != g || other == s) continue;
    apart = apart || !follows(&g->n, s->last, other->last);
    other->graph = NULL;
    other->last = other->before;
  }
  s->graph = NULL;
  s->last = s->before;
  captures--;
  *out = apart ? NULL : g;
  if (!apart) return standin_call(__func__);
  cuGraphDestroy(g);
  return MSCRT_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

API unsigned cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph g, unsigned long long flags) {
  unsigned failed = standin_call(__func__);
  (void)flags;
  if (failed) return failed;
  *out = calloc(1, sizeof **out);
  for (size_t i = 1; i <= g->n.num; i++) add(&(*out)->n, copy_of(&g->n.node[i]));
  standin_count("executable graphs", 1);
  return 0;
}

/* After all of the stream; what the stream gets later is after all of the graph. */
API unsigned cuGraphLaunch(cu_graph_exec e, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (s->graph) standin_broken("a graph is launched into a capture");
  size_t before = s->last, base = queue.num;
  for (size_t i = 1; i <= e->n.num; i++) {
    node n = copy_of(&e->n.node[i]);
    for (int k = 0; k < 2; k++) n.after[k] = n.after[k] ? n.after[k] + base : 0;
    if (!n.after[0] && !n.after[1]) n.after[0] = before;
    add(&queue, n);
  }
  size_t end = queue.num;
  for (size_t i = base + 1; i <= end; i++) s->last = add(&queue, (node){.name = "graph", .after = {s->last, i}});
  return 0;
}

API unsigned cuGraphDestroy(cu_graph g) {
  free_nodes(&g->n);
  free(g);
  standin_count("graphs", -1);
  return standin_call(__func__);
}

API unsigned cuGraphExecDestroy(cu_graph_exec e) {
  free_nodes(&e->n);
  free(e);
  standin_count("executable graphs", -1);
  return standin_call(__func__);
}
