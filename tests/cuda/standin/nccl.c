/* nccl.c: the stand-in's NCCL, between processes of one machine.  What one rank gives another is a file in a folder of
 * the job: it appears whole, and its reader takes it away.  All members of a collective must ask for the same thing in
 * the same order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda/standin/standin.h"

#define MAX_RANKS 64

struct ncclComm {
  char folder[64], name[48];     /* name: of this communicator in the job */
  int rank, ranks, splits;
  uint64_t collectives, sent[MAX_RANKS], received[MAX_RANKS];
  int busy;                      /* so often is the answer "in progress" */
  bool finalized, aborted;
  const char *window;            /* symmetric memory; NULL: none is registered */
  size_t window_bytes;
  int registered;                /* ranges that must be given back */
  bool gathers;                  /* not all members of the window have come */
  struct ncclComm *world;
};

typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE } kind;

/* What a rank asks for; the first part of its file, where peers compare it.  src, dst: where others read it and
 * write to it, as offsets into a window, which all members must have alike; 0: in none. */
typedef struct { uint32_t kind, type, op, ranks; uint64_t num, src, dst; } request;

typedef struct {
  nccl_comm comm;
  request r;
  const char *src;
  char *dst;
  int peer;
  bool begun;
  uint64_t number;               /* of the collective, or of the message between the two */
} operation;

typedef struct { size_t num; operation op[]; } group_job;

static struct { operation op[256]; cu_stream stream[256]; int num, depth; bool aborts; } group;

static size_t bytes_of(unsigned type) { return (const size_t[]){1, 1, 4, 4, 8, 8, 2, 4, 8, 2}[type]; }

/* ---- files ---- */

static void path_of(char path[256], const struct ncclComm *c, const char *what, int from, int to, uint64_t number) {
  snprintf(path, 256, "%s/%s.%s.%d.%d.%lu", c->folder, c->name, what, from, to, (unsigned long)number);
}

static void give(const struct ncclComm *c, const char *what, int to, uint64_t number, const request *r,
                 const void *data, size_t bytes) {
  char path[256], hidden[300];
  path_of(path, c, what, c->rank, to, number);
  snprintf(hidden, sizeof hidden, "%s.new", path);
  FILE *f = fopen(hidden, "w");
  if (!f) return; /* the job is over */
  fwrite(r, sizeof *r, 1, f);
  fwrite(data, bytes, 1, f);
  fclose(f);
  rename(hidden, path);
}

static bool has(const struct ncclComm *c, const char *what, int from, uint64_t number) {
  char path[256];
  path_of(path, c, what, from, c->rank, number);
  return access(path, R_OK) == 0;
}

static void take(const struct ncclComm *c, const char *what, int from, uint64_t number, request *r, void *data,
                 size_t bytes) {
  char path[256];
  path_of(path, c, what, from, c->rank, number);
  FILE *f = fopen(path, "r");
  if (!f || fread(r, sizeof *r, 1, f) != 1 || (bytes && fread(data, 1, bytes, f) != bytes))
    standin_broken("%s is not what was expected: ranks ask for different sizes", path);
  fclose(f);
  unlink(path);
}

/* ---- communicators ---- */

API unsigned ncclGetVersion(int *out) { return *out = (int)standin_number("MSC_STANDIN_NCCL", 22809), 0; }
API const char *ncclGetErrorString(nccl_result r) {
  return r == MSCRT_ncclRemoteError ? "remote error" : "an error of the stand-in's";
}
API const char *ncclGetLastError(nccl_comm c) { return (void)c, ""; }

API unsigned ncclGetUniqueId(nccl_id *out) {
  memset(out, 0, sizeof *out);
  snprintf(out->bytes, sizeof out->bytes, "/tmp/msc-standin-XXXXXX");
  if (!mkdtemp(out->bytes)) standin_broken("no folder for NCCL");
  return standin_call(__func__);
}

static void check_config(const nccl_config *k) {
  if (k->magic != 0xcafebeef || k->size < sizeof *k || k->blocking)
    standin_broken("NCCL's configuration is not a non-blocking one");
}

/* Members say which GPU they have: two on one are refused by the real one. */
API unsigned ncclCommInitRankConfig(nccl_comm *out, int ranks, nccl_id id, int rank, nccl_config *config) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_forbid_in_capture(__func__);
  check_config(config);
  if (ranks > MAX_RANKS || rank >= ranks) standin_broken("rank %d of %d", rank, ranks);
  *out = calloc(1, sizeof **out);
  if (getenv("NCCL_ALGO")) standin_log(getenv("NCCL_ALGO"));
  **out = (struct ncclComm){.name = "w", .rank = rank, .ranks = ranks, .busy = 3};
  memcpy((*out)->folder, id.bytes, sizeof (*out)->folder - 1);
  (*out)->world = *out;
  standin_count("NCCL communicators", 1);
  return MSCRT_ncclInProgress;
}

static void check_idle(const struct ncclComm *c, const char *what) {
  if (c->aborted || c->finalized) standin_broken("%s after the communicator's end", what);
  if (c->busy || c->gathers) standin_broken("%s before the call before is complete", what);
}

/* Waits for all of the parent, as the real one does in a thread of its own. */
static void learn_members(struct ncclComm *parent, int color, struct ncclComm *child) {
  request mine = {.kind = 100, .num = (uint64_t)(uint32_t)color}, theirs;
  for (int r = 0; r < parent->ranks; r++)
    if (r != parent->rank) give(parent, "split", r, (uint64_t)parent->splits, &mine, NULL, 0);
  for (int r = 0; r < parent->ranks; r++) {
    theirs = mine;
    for (int tries = 0; r != parent->rank && !has(parent, "split", r, (uint64_t)parent->splits); tries++) {
      if (tries > 400000) standin_broken("rank %d never splits", r);
      usleep(50);
    }
    if (r != parent->rank) take(parent, "split", r, (uint64_t)parent->splits, &theirs, NULL, 0);
    if (theirs.num != mine.num) continue;
    if (r < parent->rank) child->rank++;
    child->ranks++;
  }
}

API unsigned ncclCommSplit(nccl_comm parent, int color, int key, nccl_comm *out, nccl_config *config) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  check_idle(parent, __func__);
  check_config(config);
  if (key != parent->rank) standin_broken("a split that changes the order of ranks");
  struct ncclComm *child = calloc(1, sizeof *child);
  *child = (struct ncclComm){.busy = 2, .world = parent->world};
  memcpy(child->folder, parent->folder, sizeof child->folder);
  snprintf(child->name, sizeof child->name, "s%d-%d", parent->splits, color);
  learn_members(parent, color, child);
  parent->splits++;
  parent->busy = 2;
  *out = color < 0 ? NULL : child;
  if (color < 0) free(child);
  else standin_count("NCCL communicators", 1);
  return MSCRT_ncclInProgress;
}

API unsigned ncclCommFinalize(nccl_comm c) {
  check_idle(c, __func__);
  c->finalized = true;
  c->busy = 1;
  return MSCRT_ncclInProgress;
}

/* The folder goes with the last rank that has taken its files. */
static void leave(nccl_comm c) {
  if (c->world == c) rmdir(c->folder);
  standin_count("NCCL communicators", -1);
}

/* ---- registered memory ---- */

API unsigned ncclMemAlloc(void **out, size_t bytes) {
  cu_address memory = 0;
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  if (!failed && standin_allocate(&memory, bytes)) failed = 1;
  if (!failed) standin_count("pieces of NCCL's memory", 1);
  *out = (void *)(uintptr_t)memory;
  return failed;
}

API unsigned ncclMemFree(void *memory) {
  standin_count("pieces of NCCL's memory", -1);
  standin_free((cu_address)(uintptr_t)memory);
  return standin_call(__func__);
}

API unsigned ncclCommRegister(nccl_comm c, void *memory, size_t bytes, void **out_handle) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  check_idle(c, __func__);
  standin_check_memory((cu_address)(uintptr_t)memory, bytes, __func__);
  c->registered++;
  *out_handle = c;
  return 0;
}

API unsigned ncclCommDeregister(nccl_comm c, void *handle) {
  if (handle != c || !c->registered--) standin_broken("%s of what is not registered", __func__);
  return standin_call(__func__);
}

/* Begins a window, which is there when all members have come with one of the same size. */
API unsigned ncclCommWindowRegister(nccl_comm c, void *memory, size_t bytes, nccl_window *out_window, int flags) {
  unsigned failed = standin_call(__func__);
  request mine = {.kind = 101, .num = bytes};
  if (failed) return failed;
  *out_window = NULL;
  if (!standin_number("NCCL_WIN_ENABLE", 1)) return 0;
  standin_forbid_in_capture(__func__);
  check_idle(c, __func__);
  standin_check_memory((cu_address)(uintptr_t)memory, bytes, __func__);
  if (flags != MSCRT_NCCL_WIN_COLL_SYMMETRIC || c->window) standin_broken("%s twice, or without symmetry", __func__);
  for (int r = 0; r < c->ranks; r++)
    if (r != c->rank) give(c, "window", r, 0, &mine, NULL, 0);
  c->registered++, c->busy = 2, c->gathers = true;
  c->window = memory, c->window_bytes = bytes;
  *out_window = (nccl_window)(void *)c;
  return MSCRT_ncclInProgress;
}

/* True once all members of a window have come. */
static bool has_gathered(struct ncclComm *c) {
  request theirs;
  for (int r = 0; r < c->ranks; r++)
    if (r != c->rank && !has(c, "window", r, 0)) return false;
  for (int r = 0; r < c->ranks; r++) {
    if (r == c->rank) continue;
    take(c, "window", r, 0, &theirs, NULL, 0);
    if (theirs.num != c->window_bytes)
      standin_broken("windows of %zu and %lu bytes", c->window_bytes, (unsigned long)theirs.num);
  }
  return true;
}

API unsigned ncclCommGetAsyncError(nccl_comm c, nccl_result *out) {
  unsigned failed = standin_call(__func__);
  if (c->gathers && !c->aborted) c->gathers = !has_gathered(c);
  *out = failed ? failed : c->busy || c->gathers ? MSCRT_ncclInProgress : 0;
  if (c->busy) c->busy--;
  return 0;
}

API unsigned ncclCommWindowDeregister(nccl_comm c, nccl_window window) {
  if ((void *)window != c || !c->window) standin_broken("%s of what is no window", __func__);
  check_idle(c, __func__);
  c->window = NULL, c->registered--;
  return standin_call(__func__);
}

API unsigned ncclCommDestroy(nccl_comm c) {
  if (c->registered) standin_broken("memory is still registered with a communicator that is destroyed");
  if (!c->finalized || c->busy) standin_broken("a communicator is destroyed before it has ended");
  leave(c);
  free(c);
  return standin_call(__func__);
}

/* Work of it that waits goes on without effect; it stays, since that work knows it.  All other work is waited for. */
API unsigned ncclCommAbort(nccl_comm c) {
  if (c->aborted) standin_broken("a communicator is aborted twice");
  c->aborted = true;
  leave(c);
  if (group.depth) group.aborts = true;
  else standin_wait_all();
  return standin_call(__func__);
}

/* ---- what runs ---- */

static double number_at(unsigned type, const char *at) {
  switch (type) {
    case MSCRT_ncclInt8: return *(const int8_t *)at;
    case MSCRT_ncclUint8: return *(const uint8_t *)at;
    case MSCRT_ncclInt32: return *(const int32_t *)at;
    case MSCRT_ncclUint32: return *(const uint32_t *)at;
    case MSCRT_ncclInt64: return (double)*(const int64_t *)at;
    case MSCRT_ncclUint64: return (double)*(const uint64_t *)at;
    case MSCRT_ncclFloat16: return (double)mscrt_from_f16(*(const uint16_t *)at);
    case MSCRT_ncclFloat32: return (double)*(const float *)at;
    case MSCRT_ncclBfloat16: return (double)mscrt_from_bf16(*(const uint16_t *)at);
    default: return *(const double *)at;
  }
}

/* Integers wrap around. */
static void put_number(unsigned type, char *at, double v) {
  switch (type) {
    case MSCRT_ncclInt8: *(int8_t *)at = (int8_t)(int64_t)v; return;
    case MSCRT_ncclUint8: *(uint8_t *)at = (uint8_t)(int64_t)v; return;
    case MSCRT_ncclInt32: *(int32_t *)at = (int32_t)(int64_t)v; return;
    case MSCRT_ncclUint32: *(uint32_t *)at = (uint32_t)(int64_t)v; return;
    case MSCRT_ncclInt64: *(int64_t *)at = (int64_t)v; return;
    case MSCRT_ncclUint64: *(uint64_t *)at = (uint64_t)v; return;
    case MSCRT_ncclFloat16: *(uint16_t *)at = mscrt_to_f16((float)v); return;
    case MSCRT_ncclFloat32: *(float *)at = (float)v; return;
    case MSCRT_ncclBfloat16: *(uint16_t *)at = mscrt_to_bf16((float)v); return;
    default: *(double *)at = v; return;
  }
}

static double combined(unsigned op, double a, double b) {
  return op == MSCRT_ncclSum    ? a + b
         : op == MSCRT_ncclProd ? a * b
         : op == MSCRT_ncclMax  ? (a > b ? a : b)
         : a < b                ? a
                                : b;
}

/* All members' contributions side by side. */
static void finish_collective(operation *o, const char *all, size_t each) {
  struct ncclComm *c = o->comm;
  size_t size = bytes_of(o->r.type), first = o->r.kind == REDUCE_SCATTER ? (size_t)c->rank * o->r.num : 0;
  if (o->r.kind == ALL_GATHER) {
    memcpy(o->dst, all, each * (size_t)c->ranks);
    return;
  }
  for (size_t i = 0; i < o->r.num; i++) {
    double v = number_at(o->r.type, all + (first + i) * size);
    for (int r = 1; r < c->ranks; r++)
      v = combined(o->r.op, v, number_at(o->r.type, all + (size_t)r * each + (first + i) * size));
    put_number(o->r.type, o->dst + i * size, v);
  }
}

static bool run_collective(void *argument) {
  operation *o = argument;
  struct ncclComm *c = o->comm;
  size_t each = o->r.num * bytes_of(o->r.type) * (o->r.kind == REDUCE_SCATTER ? (size_t)c->ranks : 1);
  if (c->aborted) return true;
  if (!o->begun) {
    o->begun = true;
    o->number = c->collectives++;
    for (int r = 0; r < c->ranks; r++)
      if (r != c->rank) give(c, "c", r, o->number, &o->r, o->src, each);
  }
  for (int r = 0; r < c->ranks; r++)
    if (r != c->rank && !has(c, "c", r, o->number)) return false;
  char *all = malloc(each * (size_t)c->ranks + 1);
  for (int r = 0; r < c->ranks; r++) {
    request theirs = o->r;
    if (r == c->rank) memcpy(all + (size_t)r * each, o->src, each);
    else take(c, "c", r, o->number, &theirs, all + (size_t)r * each, each);
    if (memcmp(&theirs, &o->r, sizeof theirs))
      standin_broken(
          "rank %d of %s asks for another collective than rank %d: %u of %lu, not %u of %lu; at %lu, %lu, not %lu, %lu",
          r, c->name, c->rank, theirs.kind, (unsigned long)theirs.num, o->r.kind, (unsigned long)o->r.num,
          (unsigned long)theirs.src, (unsigned long)theirs.dst, (unsigned long)o->r.src, (unsigned long)o->r.dst);
  }
  finish_collective(o, all, each);
  free(all);
  return true;
}

/* All sends of a group at once, then its receipts as they come. */
static bool run_messages(void *argument) {
  group_job *g = argument;
  bool all = true;
  for (size_t i = 0; i < g->num; i++) {
    operation *o = &g->op[i];
    struct ncclComm *c = o->comm;
    if (c->aborted) return true;
    if (!o->begun) {
      o->begun = true;
      o->number = o->r.kind == SEND ? c->sent[o->peer]++ : c->received[o->peer]++;
      if (o->r.kind == SEND)
        give(c, "m", o->peer, o->number, &o->r, o->src, o->r.num * bytes_of(o->r.type)), o->peer = -1;
    }
    if (o->peer >= 0 && !has(c, "m", o->peer, o->number)) all = false;
  }
  for (size_t i = 0; all && i < g->num; i++) {
    operation *o = &g->op[i];
    request theirs;
    if (o->peer < 0) continue;
    take(o->comm, "m", o->peer, o->number, &theirs, o->dst, o->r.num * bytes_of(o->r.type));
    if (theirs.num != o->r.num)
      standin_broken("%lu elements are received of %lu", (unsigned long)o->r.num, (unsigned long)theirs.num);
  }
  return all;
}

/* ---- groups ---- */

/* Messages of a communicator and a stream go together. */
static void issue_messages(int first) {
  group_job *g = calloc(1, sizeof *g + sizeof(operation) * (size_t)group.num);
  for (int i = first; i < group.num; i++)
    if (group.op[i].comm == group.op[first].comm && group.op[i].r.kind >= SEND &&
        group.stream[i] == group.stream[first])
      g->op[g->num++] = group.op[i];
  standin_issue(group.stream[first], "messages", run_messages, g, sizeof *g + sizeof(operation) * g->num);
  for (int i = group.num; i-- > first;)
    if (i != first && group.op[i].comm == group.op[first].comm && group.op[i].r.kind >= SEND &&
        group.stream[i] == group.stream[first])
      group.op[i].comm = NULL;
  free(g);
}

static unsigned issue_group(void) {
  for (int i = 0; i < group.num; i++) {
    struct ncclComm *c = group.op[i].comm;
    if (!c) continue;
    if (group.op[i].r.kind >= SEND) issue_messages(i);
    else standin_issue(group.stream[i], "collective", run_collective, &group.op[i], sizeof group.op[i]);
    c->busy = 1;
  }
  unsigned result = group.num ? MSCRT_ncclInProgress : 0;
  group.num = 0;
  return result;
}

API unsigned ncclGroupStart(void) {
  group.depth++;
  return standin_call(__func__);
}

API unsigned ncclGroupEnd(void) {
  unsigned failed = standin_call(__func__);
  if (group.depth-- < 1) standin_broken("a group ends that did not begin");
  if (group.aborts) standin_wait_all(), group.aborts = false;
  return failed ? failed : group.depth ? 0 : issue_group();
}

static bool is_in_window(const struct ncclComm *c, const char *at) {
  return c->window && at >= c->window && at < c->window + c->window_bytes;
}

static unsigned add(const char *name, cu_stream s, operation o, size_t src_elems, size_t dst_elems) {
  unsigned failed = standin_call(name);
  if (failed) return failed;
  if (!group.num || group.op[group.num - 1].comm != o.comm) check_idle(o.comm, name);
  if (group.num == 256) standin_broken("more than 256 calls in a group");
  if (src_elems) standin_check_memory((cu_address)(uintptr_t)o.src, src_elems * bytes_of(o.r.type), name);
  if (dst_elems) standin_check_memory((cu_address)(uintptr_t)o.dst, dst_elems * bytes_of(o.r.type), name);
  o.r.ranks = (uint32_t)o.comm->ranks;
  if ((o.r.kind == ALL_REDUCE || o.r.kind == REDUCE_SCATTER) && is_in_window(o.comm, o.src))
    o.r.src = (uint64_t)(o.src - o.comm->window) + 1;
  if ((o.r.kind == ALL_REDUCE || o.r.kind == ALL_GATHER) && is_in_window(o.comm, o.dst))
    o.r.dst = (uint64_t)(o.dst - o.comm->window) + 1;
  group.op[group.num] = o, group.stream[group.num++] = s;
  return group.depth ? 0 : issue_group();
}

API unsigned ncclAllReduce(const void *src, void *dst, size_t num, unsigned type, unsigned op, nccl_comm c,
                           cu_stream s) {
  return add(
      __func__, s,
      (operation){.comm = c, .r = {.kind = ALL_REDUCE, .type = type, .op = op, .num = num}, .src = src, .dst = dst},
      num, num);
}
API unsigned ncclAllGather(const void *src, void *dst, size_t num, unsigned type, nccl_comm c, cu_stream s) {
  return add(__func__, s,
             (operation){.comm = c, .r = {.kind = ALL_GATHER, .type = type, .num = num}, .src = src, .dst = dst}, num,
             num * (size_t)c->ranks);
}
API unsigned ncclReduceScatter(const void *src, void *dst, size_t num, unsigned type, unsigned op, nccl_comm c,
                               cu_stream s) {
  return add(
      __func__, s,
      (operation){.comm = c, .r = {.kind = REDUCE_SCATTER, .type = type, .op = op, .num = num}, .src = src, .dst = dst},
      num * (size_t)c->ranks, num);
}
API unsigned ncclSend(const void *src, size_t num, unsigned type, int peer, nccl_comm c, cu_stream s) {
  return add(__func__, s,
             (operation){.comm = c, .r = {.kind = SEND, .type = type, .num = num}, .src = src, .peer = peer}, num, 0);
}
API unsigned ncclRecv(void *dst, size_t num, unsigned type, int peer, nccl_comm c, cu_stream s) {
  return add(__func__, s,
             (operation){.comm = c, .r = {.kind = RECEIVE, .type = type, .num = num}, .dst = dst, .peer = peer}, 0,
             num);
}
