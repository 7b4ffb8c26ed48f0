/* context.c: the life of one rank: opens memory and connections, runs steps, answers queries, and closes. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/execute/library_products.h"
#include "runtime/execute/measured_choices.h"
#include "runtime/job/job.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"
#include "runtime/trace/trace.h"
#include "runtime/wait.h"

#define TIMEOUT_MS 300000
#define MAX_THREADS 1024
#define AGAIN_NS    5000000

/* ---- opening ---- */

/* Chooses the device: the one that the plan was compiled for, or the timed one. */
static mscrt_status *choose_device(mscrt_context *c) {
  static const mscrt_device *const all[] = {&mscrt_device_cpu, &mscrt_device_cuda, &mscrt_device_timed};
  const char *target = plan_plan_target(c->plan->root), *name = c->o.device ? c->o.device : target;
  char names[64] = "";
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!strcmp(name, all[i]->name)) c->device = all[i];
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", all[i]->name);
  }
  if (!c->device) return mscrt_fail(MSCRT_UNSUPPORTED, "there is no device '%s', only %s", name, names);
  if (c->device->holds_values && strcmp(name, target))
    return mscrt_fail(MSCRT_INPUT, "the plan was compiled for the device '%s', not for '%s'", target, name);
  return NULL;
}

/* Chooses how ranks are connected. Where NCCL connects GPUs, it only carries their data: the ranks meet as ranks of one
 * host do. */
static mscrt_status *choose_transport(mscrt_context *c) {
  const char *comm = c->o.comm && !strcmp(c->o.comm, "nccl") ? NULL : c->o.comm;
  bool far = !c->o.comm && c->o.address && mscrt_is_network_address(c->o.address);
  const mscrt_transport *t = mscrt_find_transport(comm, far);
  if (!t)
    return mscrt_fail(MSCRT_UNSUPPORTED, "ranks are connected by local, hosts, tcp, mpi, ucx or nccl, not by '%s'",
                      comm);
  if (c->o.ranks == 1) t = &mscrt_comm_local;
  if (t->across_hosts && !c->device->has_tcp)
    return mscrt_fail(MSCRT_UNSUPPORTED, "%s connects ranks of the device cpu, not of '%s'", t->name, c->device->name);
  if (c->o.recover && !t->replaces)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "no rank can take the place of a lost one with %s; hosts, tcp and local let it", t->name);
  c->transport = t;
  return NULL;
}

static mscrt_status *check_servers(const mscrt_context *c) {
  const mscrt_options *o = &c->o;
  if (!o->servers && !o->server) return NULL;
  int copies = mscrt_plan_server_copies(c->plan);
  if (o->servers < 0 || o->servers > MSCRT_MOST_SERVERS || o->server < 0 || o->server > copies * o->servers)
    return mscrt_fail(MSCRT_ARGUMENT, "server %d of %d: 1 to %d servers, counted from 1%s", o->server, o->servers,
                      MSCRT_MOST_SERVERS, copies > 1 ? ", and their copies behind them" : "");
  if (!plan_plan_served(c->plan->root))
    return mscrt_fail(MSCRT_INPUT, "no parameter of the plan lives on servers: compile it with the key "
                                   "parameter_server, for several ranks");
  if (o->servers < (int)c->plan->num_stages)
    return mscrt_fail(MSCRT_ARGUMENT, "%d server%s for %u stages: each stage needs one at least", o->servers,
                      o->servers == 1 ? "" : "s", c->plan->num_stages);
  if (o->recover && plan_plan_asynchronous(c->plan->root))
    return mscrt_fail(MSCRT_UNSUPPORTED, "ranks that are lost are not replaced where they do not wait for one another: "
                                         "servers of mode async");
  if (!c->device->uses_arena)
    return mscrt_fail(MSCRT_UNSUPPORTED, "servers have the parameters of the device cpu, not of '%s'", c->device->name);
  return o->address ? NULL : mscrt_fail(MSCRT_ARGUMENT, "servers need the address of the job");
}

/* The first rank of the stage whose parameters a server has (see server/share.h). */
static int first_rank_of_server(const mscrt_context *c) {
  int stages = (int)c->plan->num_stages;
  return (c->o.server - 1) % c->o.servers % stages * (c->o.ranks / stages);
}

static mscrt_status *read_options(mscrt_context *c, const mscrt_options *o) {
  if (o) memcpy(&c->o, o, o->struct_size < sizeof c->o ? o->struct_size : sizeof c->o);
  if (c->o.ranks == 0) c->o.ranks = 1;
  if (c->o.timeout_ms <= 0) c->o.timeout_ms = TIMEOUT_MS;
  if (c->o.ranks != c->plan->ranks)
    return mscrt_fail(MSCRT_INPUT, "the plan is for %d rank%s, not for %d", c->plan->ranks,
                      c->plan->ranks == 1 ? "" : "s", c->o.ranks);
  if (c->o.rank < 0 || c->o.rank >= c->o.ranks)
    return mscrt_fail(MSCRT_ARGUMENT, "rank %d of %d", c->o.rank, c->o.ranks);
  MSCRT_CHECK(choose_device(c));
  MSCRT_CHECK(choose_transport(c));
  if (c->o.comm && !strcmp(c->o.comm, "nccl") && !c->device->has_nccl)
    return mscrt_fail(MSCRT_UNSUPPORTED, "nccl connects GPUs, and the device is '%s'", c->device->name);
  if (c->o.tune && !c->device->measures_products)
    return mscrt_fail(MSCRT_UNSUPPORTED, "matrix products of the device '%s' are not measured", c->device->name);
  if (c->o.tune && !c->o.choices) return mscrt_fail(MSCRT_ARGUMENT, "what is measured needs a file to be kept in");
  if (c->o.recover && !c->device->recovers)
    return mscrt_fail(MSCRT_UNSUPPORTED, "only ranks of the device cpu go on after one is lost, not of '%s'",
                      c->device->name);
  bool alone = c->o.ranks == 1 && !c->plan->num_collectives;
  if (c->o.allocate && (!alone || !c->device->uses_arena))
    return mscrt_fail(MSCRT_UNSUPPORTED, "only a job of one rank on the device cpu takes memory of the caller");
  MSCRT_CHECK(check_servers(c));
  if (c->o.server) c->o.rank = first_rank_of_server(c);
  if (!(c->o.time_scale >= 0)) return mscrt_fail(MSCRT_ARGUMENT, "time scale %g", c->o.time_scale);
  if ((unsigned)c->o.overlap > MSCRT_OVERLAP_NEVER)
    return mscrt_fail(MSCRT_ARGUMENT, "there is no overlap %d", (int)c->o.overlap);
  if (c->o.num_family < 0 || (c->o.num_family && !c->o.family))
    return mscrt_fail(MSCRT_ARGUMENT, "a family of %d plans", c->o.num_family);
  if (c->o.threads < 0 || c->o.threads > MAX_THREADS)
    return mscrt_fail(MSCRT_ARGUMENT, "%d threads: from 1 to %d, or 0 for as many as there are cores", c->o.threads,
                      MAX_THREADS);
  if (c->o.local_ranks <= 0 || c->o.local_ranks > c->o.ranks) c->o.local_ranks = c->o.ranks;
  if (c->o.cores <= 0) c->o.cores = mscrt_cores();
  int share = c->o.cores / c->o.local_ranks;
  c->threads = c->o.threads ? c->o.threads : share > 0 ? share : 1;
  return NULL;
}

static mscrt_status *measure_mailboxes(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&c->mailboxes, c->plan->num_stages));
  for (uint32_t i = 0; i < plan_plan_messages_num(c->plan->root); i++) {
    plan_message m = plan_plan_messages(c->plan->root, i);
    c->mailboxes[plan_message_to(m)] += msc_mailbox_bytes(mscrt_message_bytes(c, m), plan_message_depth(m));
  }
  c->mailbox_bytes = c->mailboxes[c->stage];
  return NULL;
}

/* The number of input slots. A device that takes the batches of a whole step has slots for these and for those of
 * the next step. */
static uint64_t count_input_slots(const mscrt_context *c) {
  uint64_t slots = c->plan->input_slots;
  for (uint32_t i = 0; c->device->runs_programs && i < c->plan->num_programs; i++)
    if (2 * (uint64_t)mscrt_program_micro(c->plan, i) > slots) slots = 2 * (uint64_t)mscrt_program_micro(c->plan, i);
  return slots;
}

/* Checks that a rank needs no more memory than the plan says. */
static mscrt_status *check_planned_memory(const mscrt_context *c) {
  uint64_t planned = plan_plan_memory_bytes(c->plan->root),
           needed =
               c->arena_bytes + c->plan->space_bytes[PLAN_SPACE_CONSTANT] + plan_plan_workspace_bytes(c->plan->root);
  return !planned || needed <= planned
             ? NULL
             : mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: a rank needs %" PRIu64 " bytes, not %" PRIu64,
                          needed, planned);
}

/* Sets the layout of the arena; the arenas of all ranks have the same size. */
static mscrt_status *set_arena_layout(mscrt_context *c) {
  MSCRT_CHECK(measure_mailboxes(c));
  c->input_slots = count_input_slots(c);
  c->input_stride = msc_pool_lines(c->plan->space_bytes[PLAN_SPACE_INPUT]);
  for (uint32_t i = 0; i < c->plan->num_stages; i++) {
    uint64_t at[MSCRT_NUM_SPACES], bytes = mscrt_set_space_offsets(c, i, at);
    if (bytes > c->arena_bytes) c->arena_bytes = bytes;
  }
  mscrt_set_space_offsets(c, c->stage, c->space_offset);
  /* behind the arena, so that offsets in different spaces never overlap */
  c->space_offset[PLAN_SPACE_HOST] = c->arena_bytes;
  c->space_offset[PLAN_SPACE_DISK] = c->arena_bytes + c->plan->stage[c->stage].bytes[PLAN_SPACE_HOST];
  return check_planned_memory(c);
}

static mscrt_status *make_exchanges(mscrt_context *c) {
  MSCRT_CHECK(mscrt_partitions_new(c->o.ranks, &c->partitions));
  MSCRT_CHECK(mscrt_new_array(&c->exchange, c->plan->num_collectives));
  for (uint32_t i = 0; i < c->plan->num_collectives; i++) {
    const mscrt_collective *k = &c->plan->collective[i];
    if (!k->num_members)
      MSCRT_CHECK(mscrt_exchange_make(&c->plan->mesh, c->o.rank, k, &c->partitions, c->transport->sends,
                                      &c->exchange[i]));
    bool ok = true;
    if (k->num_members)
      MSCRT_CHECK(mscrt_exchanges_join(k->num_members, k->members, c->o.rank, &c->partitions, c->exchange, &ok));
    if (!ok)
      return mscrt_fail(MSCRT_INPUT,
                        "the plan contradicts itself: collective %u puts some together for which other ranks meet", i);
  }
  return NULL;
}

static void enter_library(void *arg) {
  const mscrt_context *c = arg;
  if (c->library) mscrt_library_enter_worker(c->library);
}

/* Starts the worker threads. Each tells oneDNN, which must be loaded before, not to start threads of its own. */
static mscrt_status *start_threads(mscrt_context *c) {
  return mscrt_pool_new(c->threads, c->threads * c->o.local_ranks <= c->o.cores, enter_library, c, &c->pool);
}

static void log_waiting(void *user, const char *text) { mscrt_log_line(user, MSCRT_LOG_WARNING, "%s", text); }

/* Gets the arena from the caller; zeroes parameters and state, which are zero in memory of the system. */
static mscrt_status *allocate_arena(mscrt_context *c) {
  c->arena = c->o.allocate(c->o.memory_user, (size_t)c->arena_bytes);
  if (!c->arena) return mscrt_fail(MSCRT_NO_MEMORY, "the caller has no %" PRIu64 " bytes for an arena", c->arena_bytes);
  if ((uintptr_t)c->arena % 64) return mscrt_fail(MSCRT_ARGUMENT, "the caller's arena is not aligned to 64 bytes");
  memset(c->arena + c->space_offset[PLAN_SPACE_PERSISTENT], 0,
         (size_t)c->plan->stage[c->stage].bytes[PLAN_SPACE_PERSISTENT]);
  return NULL;
}

/* The arena of a server, which meets no rank. */
static mscrt_status *open_alone(mscrt_context *c) {
  c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (c->wake < 0) return mscrt_fail(MSCRT_ENVIRONMENT, "a server gets no descriptor: %s", strerror(errno));
  void *base = mmap(NULL, (size_t)c->arena_bytes + 1, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for an arena of %" PRIu64 " bytes", c->arena_bytes);
  c->arena = c->memory = base;
  c->constants = plan_plan_constants_data(c->plan->root);
  return NULL;
}

static mscrt_status *join_other_ranks(mscrt_context *c) {
  MSCRT_CHECK(set_arena_layout(c));
  mscrt_comm_options o = {.rank = c->o.rank,
                          .ranks = c->o.ranks,
                          .address = c->o.address,
                          .timeout_ms = c->o.timeout_ms,
                          .spin = c->o.local_ranks <= c->o.cores,
                          .plan_hash = c->plan->hash,
                          .arena_bytes = c->o.allocate             ? 0
                                         : c->device->holds_values ? c->arena_bytes
                                                                   : c->device->shared_bytes(c),
                          .num_partitions = c->partitions.num,
                          .sparse = c->device->has_memory,
                          .has_mail = plan_plan_messages_num(c->plan->root) > 0,
                          .led = c->o.led,
                          .silence_ms = c->o.silence_ms,
                          .meet_ms = c->o.meet_ms,
                          .recovers = c->o.recover,
                          .token = c->o.token,
                          .host = c->o.host,
                          .log = c->o.log ? log_waiting : NULL,
                          .log_user = c};
  if (c->o.ranks > 1 && !c->o.address)
    return mscrt_fail(MSCRT_ARGUMENT, "%d ranks need an address to meet at", c->o.ranks);
  if (c->o.server) return open_alone(c);
  MSCRT_CHECK(c->transport->open(&o, &c->comm));
  if (c->o.allocate) MSCRT_CHECK(allocate_arena(c));
  else c->arena = c->transport->arena(c->comm);
  c->memory = c->arena;
  c->constants = plan_plan_constants_data(c->plan->root);
  return c->device->open ? c->device->open(c) : NULL;
}

/* The largest number of collectives with other ranks in a section. */
static uint32_t most_collectives(const mscrt_context *c) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    if (c->section[i].num_beside > most) most = c->section[i].num_beside;
  return most;
}

/* Starts the thread for collectives if the caller wants it always, or wants it when a core is free for it and one is;
 * on a device without values the thread needs no core. */
static mscrt_status *start_stream(mscrt_context *c) {
  int local = c->o.local_ranks;
  bool idle = mscrt_has_idle_core(c->threads, local, c->o.cores), timed = !c->device->holds_values;
  bool wanted = c->o.overlap == MSCRT_OVERLAP_ALWAYS || (c->o.overlap == MSCRT_OVERLAP_IDLE && (idle || timed));
  return wanted && c->o.ranks > 1 && !c->o.server && !c->device->orders_collectives
             ? mscrt_stream_new(c, idle, most_collectives(c), 1, NULL, mscrt_run_collective, &c->stream)
             : NULL;
}

/* Writes the initial values of a variable on disk part by part, so that only one part is in memory at a time. */
static void init_on_disk(const mscrt_context *c, const mscrt_variable *v, const msc_box *box, const msc_box *buffer) {
  enum { PART = 4 << 20 };
  uint8_t *out = mscrt_address_of(c, v->ref, 0);
  uint64_t row = mscrt_variable_bytes(v) / (uint64_t)buffer->size[0];
  int64_t rows = row < PART ? (int64_t)(PART / row) : 1;
  for (int64_t at = 0; at < box->size[0]; at += rows) {
    msc_box part = *box, room = *buffer;
    part.begin[0] += at, room.begin[0] += at;
    part.size[0] = room.size[0] = box->size[0] - at < rows ? box->size[0] - at : rows;
    mscrt_init_box(v, c->o.seed, &part, &room, out + (uint64_t)at * row);
    mscrt_drop_disk_pages(c, v->ref);
  }
}

static void init_parameter(void *arg, int64_t unit, int worker) {
  const mscrt_context *c = arg;
  const mscrt_variable *v = &c->plan->parameter[unit];
  msc_box box, buffer;
  (void)worker;
  if (v->stage != c->stage || mscrt_find_shared(c, v->ref)) return;
  mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
  if (v->ref.space == PLAN_SPACE_DISK && c->offload && v->rank && buffer.size[0] > 0)
    init_on_disk(c, v, &box, &buffer);
  else mscrt_init_box(v, c->o.seed, &box, &buffer, mscrt_address_of(c, v->ref, 0));
}

static mscrt_status *open_once(const mscrt_plan *plan, const mscrt_options *options, const mscrt_kept *kept,
                               mscrt_context **out_ctx) {
  mscrt_context *c = NULL;
  mscrt_status *s = NULL;
  *out_ctx = NULL;
  MSCRT_CHECK(mscrt_new_array(&c, 1));
  c->plan = mscrt_plan_keep(plan);
  c->process = getpid(), c->wake = -1;
  c->last_program = plan->num_programs;
  MSCRT_GOTO(read_options(c, options));
  c->stage = mscrt_stage_of(plan, c->o.rank);
  MSCRT_GOTO(mscrt_load_library(c));
  MSCRT_GOTO(mscrt_choose_tiles(c));
  MSCRT_GOTO(mscrt_new_array(&c->input, plan->num_inputs));
  MSCRT_GOTO(make_exchanges(c));
  MSCRT_GOTO(mscrt_flight_new(c->partitions.num, &c->flight));
  MSCRT_GOTO(start_threads(c));
  MSCRT_GOTO(join_other_ranks(c));
  MSCRT_GOTO(mscrt_offload_open(c));
  MSCRT_GOTO(mscrt_row_caches_open(c));
  MSCRT_GOTO(mscrt_share_parameters(c));
  MSCRT_GOTO(mscrt_agree_on_library(c));
  MSCRT_GOTO(mscrt_prepare_calls(c));
  if (c->device->ready) MSCRT_GOTO(c->device->ready(c));
  if (c->o.measure) MSCRT_GOTO(mscrt_timeline_new(c->o.events, &c->timeline));
  MSCRT_GOTO(start_stream(c));
  MSCRT_GOTO(mscrt_start_mover(c));
  if (c->o.recover && !c->o.server) MSCRT_GOTO(mscrt_restore_state(c, kept));
  bool init = !c->o.no_init && !c->recovery.from_peers && c->device->holds_values;
  if (init) mscrt_pool_run(c->pool, init_parameter, c, plan->num_parameters);
  if (c->o.recover && c->o.server) MSCRT_GOTO(mscrt_restore_server(c, kept));
  MSCRT_GOTO(
      mscrt_store(c, c->space_offset[PLAN_SPACE_PERSISTENT], plan->stage[c->stage].bytes[PLAN_SPACE_PERSISTENT]));
  if (c->o.servers && !c->o.server) MSCRT_GOTO(mscrt_pushing_new(c, &c->pushing));
  if (c->o.perf_map && plan->code) MSCRT_GOTO(mscrt_write_perf_map(plan));
  mscrt_log_line(c, MSCRT_LOG_INFO, "rank %d of %d: %d threads, arena of %" PRIu64 " bytes, plan %016" PRIx64,
                 c->o.rank, c->o.ranks, c->threads, c->arena_bytes, plan->hash);
  *out_ctx = c;
  return NULL;
fail:
  c->broken = true; /* do not wait for ranks that still wait for this one */
  if (c->comm) c->transport->abort(c->comm, mscrt_status_text(s));
  mscrt_close(c);
  return s;
}

/* Opens a context, as mscrt_open_with. If ranks may be replaced and one is lost while they meet, they meet again, for
 * meet_ms at most. */
static mscrt_status *open_until_met(const mscrt_plan *plan, const mscrt_options *options, const mscrt_kept *kept,
                                    mscrt_context **out_ctx) {
  mscrt_options o = {0};
  if (options) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
  int ms = o.meet_ms > 0 ? o.meet_ms : o.timeout_ms > 0 ? o.timeout_ms : TIMEOUT_MS;
  int64_t end = mscrt_now_ns() + (int64_t)ms * 1000000;
  for (;;) {
    mscrt_status *s = open_once(plan, options, kept, out_ctx);
    if (!s || !o.recover || mscrt_status_code(s) != MSCRT_PEER || mscrt_now_ns() >= end) return s;
    mscrt_status_free(s);
    nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
  }
}

mscrt_status *mscrt_open(const mscrt_plan *plan, const mscrt_options *options, mscrt_context **out_ctx) {
  MSCRT_NEEDS(plan && out_ctx);
  return open_until_met(plan, options, NULL, out_ctx);
}

static void free_sections(mscrt_context *c) {
  for (uint32_t i = 0; c->section && i < c->plan->num_sections; i++)
    free(c->section[i].beside);
  for (uint32_t i = 0; c->program && i < c->plan->num_programs; i++) free(c->program[i].release);
  free(c->section);
  free(c->program);
  for (int i = 0; i < 2; i++) free(c->shifted_buffers[i]);
  for (int i = 0; i < 2; i++) free(c->parts[i]);
  free(c->records);
  free(c->matmul);
}

void mscrt_close(mscrt_context *c) {
  if (!c || c->process != getpid()) return;
  mscrt_pushing_free(c->pushing, !c->broken);
  mscrt_saving_free(c);
  mscrt_kept_free(c->kept);
  mscrt_feed_free(c->feed);
  mscrt_stream_free(c->stream);
  mscrt_stream_free(c->mover);
  mscrt_pool_free(c->pool);
  if (c->device && c->device->close) c->device->close(c);
  mscrt_timeline_free(c->timeline);
  mscrt_flight_free(c->flight);
  free_sections(c);
  free(c->ticket);
  free(c->mailboxes);
  for (int w = 0; c->worker && w < c->threads; w++) {
    free(c->worker[w].tile);
    free(c->worker[w].panels);
    free(c->worker[w].room);
    free(c->worker[w].buffers);
  }
  free(c->worker);
  free(c->chain_ns);
  free(c->panels);
  if (c->comm) c->transport->close(c->comm);
  if (c->o.allocate && c->o.release && c->arena) c->o.release(c->o.memory_user, c->arena, (size_t)c->arena_bytes);
  if (c->wake >= 0) close(c->wake);
  if (c->o.server && c->arena) munmap(c->arena, (size_t)c->arena_bytes + 1);
  mscrt_row_caches_free(c);
  mscrt_offload_free(c->offload);
  mscrt_library_close(c->library);
  mscrt_status_free(c->no_library);
  for (uint32_t i = 0; c->exchange && i < c->plan->num_collectives; i++) mscrt_exchange_free(&c->exchange[i]);
  free(c->exchange);
  mscrt_partitions_free(&c->partitions);
  mscrt_free_inputs(c);
  mscrt_free_outputs(c);
  free(c->shared);
  mscrt_plan_close((mscrt_plan *)(uintptr_t)c->plan);
  free(c);
}

mscrt_status *mscrt_open_with(const mscrt_plan *plan, const mscrt_options *options, const mscrt_kept *kept,
                              mscrt_context **out_ctx) {
  MSCRT_NEEDS(plan && out_ctx);
  return open_until_met(plan, options, kept, out_ctx);
}

mscrt_status *mscrt_leave(mscrt_context **ctx, mscrt_kept **out_kept) {
  MSCRT_NEEDS(ctx && *ctx && out_kept);
  *out_kept = NULL;
  MSCRT_CHECK(mscrt_leave_with_kept(*ctx, out_kept));
  mscrt_close(*ctx);
  *ctx = NULL;
  return NULL;
}

mscrt_status *mscrt_recover(mscrt_context **ctx) {
  MSCRT_NEEDS(ctx && *ctx);
  mscrt_options o = (*ctx)->o;
  const mscrt_plan *plan = (*ctx)->plan;
  mscrt_kept *kept;
  MSCRT_CHECK(mscrt_leave(ctx, &kept));
  mscrt_status *s = open_until_met(plan, &o, kept, ctx);
  mscrt_kept_free(kept);
  return s;
}

/* ---- steps ---- */

/* Checks files with parts: they must be those of this rank, with as many batches as the other ranks have. */
static mscrt_status *check_same_batches(mscrt_context *c, const mscrt_data *data) {
  uint64_t mine = (uint64_t)data->count, most, least;
  if (data->o.rank != c->o.rank)
    return mscrt_fail(MSCRT_ARGUMENT, "the data set holds the parts of rank %d, this is rank %d", data->o.rank,
                      c->o.rank);
  /* true if this rank reads any input with a batch */
  bool reads = mine != (uint64_t)(INT64_MAX / data->batch * data->batch);
  MSCRT_CHECK(mscrt_max(c, reads ? mine : 0, &most));
  MSCRT_CHECK(mscrt_max(c, UINT64_MAX - mine, &least));
  least = UINT64_MAX - least;
  if (least == most || !most) return NULL;
  return mscrt_fail(MSCRT_INPUT,
                    "the files of this rank hold the parts of %" PRId64 " batches; of all ranks, some hold %" PRIu64
                    " and some %" PRIu64,
                    data->count / data->batch, least / (uint64_t)data->batch, most / (uint64_t)data->batch);
}

mscrt_status *mscrt_set_data(mscrt_context *c, const mscrt_data *data) {
  MSCRT_NEEDS(c && data);
  MSCRT_CHECK(mscrt_check_holds_values(c));
  if (data->plan != c->plan) return mscrt_fail(MSCRT_ARGUMENT, "the data set was opened for another plan");
  if (data->o.parts) MSCRT_CHECK(check_same_batches(c, data));
  mscrt_feed *feed;
  MSCRT_CHECK(mscrt_feed_new(c, data, &feed));
  mscrt_unborrow_inputs(c);
  mscrt_feed_free(c->feed);
  c->feed = feed;
  if (c->resumed_samples && c->resumed_samples != (uint64_t)c->step * mscrt_samples_per_step(c))
    mscrt_log_line(c, MSCRT_LOG_WARNING,
                   "the checkpoint of step %" PRId64 " had read %" PRIu64 " samples; with %" PRIu64
                   " a step this goes on at sample %" PRIu64,
                   c->step, c->resumed_samples, mscrt_samples_per_step(c),
                   (uint64_t)c->step * mscrt_samples_per_step(c));
  int64_t batch = data->batch * mscrt_train_micro(c->plan),
          left_out = data->o.only_predict ? 0 : (data->o.train_end - data->o.train_begin) % batch;
  if (left_out)
    mscrt_log_line(c, MSCRT_LOG_INFO, "%" PRId64 " samples of every epoch are left out: they fill no batch of %" PRId64,
               left_out, batch);
  return NULL;
}

mscrt_status *mscrt_plan_part(const mscrt_plan *plan, int rank, const char *name, mscrt_tensor *out_tensor) {
  MSCRT_NEEDS(plan && name && out_tensor);
  const mscrt_variable *v = mscrt_find_variable(plan->num_inputs, plan->input, name);
  if (!v) return mscrt_fail(MSCRT_ARGUMENT, "the model has no input '%s'", name);
  if (rank < 0 || rank >= mscrt_plan_ranks(plan))
    return mscrt_fail(MSCRT_ARGUMENT, "there is no rank %d: the plan is for %d", rank, mscrt_plan_ranks(plan));
  msc_box box, buffer;
  mscrt_variable_box(plan, v, rank, &box, &buffer);
  *out_tensor = (mscrt_tensor){.name = v->name, .dtype = v->dtype, .rank = v->rank};
  memcpy(out_tensor->shape, v->shape, sizeof v->shape);
  memcpy(out_tensor->begin, box.begin, sizeof box.begin);
  memcpy(out_tensor->size, box.size, sizeof box.size);
  memcpy(out_tensor->room, buffer.size, sizeof buffer.size);
  return NULL;
}

mscrt_status *mscrt_run(mscrt_context *c, const char *section, int64_t steps, double *out_loss) {
  MSCRT_NEEDS(c && section);
  uint32_t index;
  bool train = !strcmp(section, "train");
  MSCRT_CHECK(mscrt_check_not_broken(c));
  if (steps < 0) return mscrt_fail(MSCRT_ARGUMENT, "%" PRId64 " steps", steps);
  if (!mscrt_find_program(c->plan, section, &index))
    return mscrt_fail(MSCRT_INPUT, "the plan has no section '%s'", section);
  if (!c->feed) MSCRT_CHECK(mscrt_check_inputs(c, index));
  const mscrt_data *data = c->feed ? mscrt_feed_data(c->feed) : NULL;
  if (train && data && data->o.only_predict) return mscrt_fail(MSCRT_ARGUMENT, "the data set is for predictions alone");
  c->step = mscrt_next_step(c);
  for (int64_t i = 0; i < steps; i++) {
    if (train) MSCRT_CHECK(mscrt_put_values(c));
    if (train) mscrt_keep_state(c);
    MSCRT_CHECK(mscrt_run_program(c, index, train ? c->step : i));
    MSCRT_CHECK(mscrt_copy_outputs(c, index));
    if (train) MSCRT_CHECK(mscrt_commit_step(c, mscrt_loss_of(c, index)));
    mscrt_set_step(c, c->step + train);
  }
  if (out_loss) *out_loss = data && !mscrt_data_has_labels(data) ? (double)NAN : mscrt_loss_of(c, index);
  return NULL;
}

static mscrt_status *report_no_scalar(const mscrt_plan *plan, const char *name) {
  char all[200] = "";
  size_t n = 0, num = mscrt_plan_num_scalars(plan);
  double initial;
  for (size_t i = 0; i < num && n < sizeof all; i++)
    n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", mscrt_plan_scalar(plan, i, &initial));
  return mscrt_fail(MSCRT_ARGUMENT,
                    "the plan has no number '%s' that can be changed%s%s%s; the keys variable_lr and variable_hypers "
                    "say which numbers of an optimizer can be",
                    name, num ? ", only " : "", all, n < sizeof all ? "" : "...");
}

mscrt_status *mscrt_set_scalar(mscrt_context *c, const char *name, double value) {
  MSCRT_NEEDS(c && name);
  bool found = false;
  MSCRT_CHECK(mscrt_check_holds_values(c));
  MSCRT_CHECK(mscrt_check_not_broken(c));
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) { /* a stage has its own */
    const mscrt_variable *v = &c->plan->parameter[i];
    if (!mscrt_is_scalar(v) || strcmp(v->name, name)) continue;
    found = true;
    if (v->stage != c->stage) continue;
    void *at = mscrt_address_of(c, v->ref, 0);
    mscrt_convert(v->dtype, at, 1, MSCRT_F64, &value, false, false, 1);
    MSCRT_CHECK(mscrt_store_variable(c, v, at));
    if (c->pushing) MSCRT_CHECK(mscrt_push_scalar(c, c->pushing, i, value));
  }
  return found ? NULL : report_no_scalar(c->plan, name);
}

/* ---- reading values ---- */

static mscrt_status *find_parameter_or_output(const mscrt_context *c, const char *name, const mscrt_variable **out) {
  const mscrt_plan *p = c->plan;
  MSCRT_CHECK(mscrt_check_holds_values(c));
  *out = mscrt_find_variable(p->num_parameters, p->parameter, name);
  for (uint32_t i = 0; i < p->num_outputs && !*out; i++)
    if (p->output[i].program == c->last_program && !strcmp(p->output[i].name, name)) *out = &p->output[i];
  return *out ? NULL
              : mscrt_fail(MSCRT_ARGUMENT, "there is no parameter or output '%s' of the section that ran last", name);
}

mscrt_status *mscrt_local(mscrt_context *c, const char *name, mscrt_tensor *out_tensor) {
  MSCRT_NEEDS(c && name && out_tensor);
  const mscrt_variable *v;
  msc_box box, buffer;
  MSCRT_CHECK(find_parameter_or_output(c, name, &v));
  MSCRT_CHECK(mscrt_write_rows_back(c));
  mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
  *out_tensor = (mscrt_tensor){
      .name = v->name, .dtype = v->dtype, .rank = v->rank, .data = mscrt_address_of(c, v->ref, c->last_slot)};
  memcpy(out_tensor->shape, v->shape, sizeof v->shape);
  memcpy(out_tensor->begin, box.begin, sizeof box.begin);
  memcpy(out_tensor->size, box.size, sizeof box.size);
  memcpy(out_tensor->room, buffer.size, sizeof buffer.size);
  if (mscrt_output_in_caller_memory(c, v)) {
    out_tensor->data = (void *)(uintptr_t)mscrt_output_in_caller_memory(c, v);
    return NULL;
  }
  return v->stage == c->stage ? mscrt_fetch_variable(c, v, out_tensor->data) : NULL;
}

mscrt_status *mscrt_read(mscrt_context *c, const char *name, void *out_data, size_t bytes) {
  MSCRT_NEEDS(c && name);
  const mscrt_variable *v;
  MSCRT_CHECK(mscrt_check_not_broken(c));
  MSCRT_CHECK(find_parameter_or_output(c, name, &v));
  uint64_t need = mscrt_whole_bytes(v);
  if (out_data && bytes != need)
    return mscrt_fail(MSCRT_ARGUMENT, "'%s' has %" PRIu64 " bytes, not %zu", name, need, bytes);
  return mscrt_gather(c, v, out_data);
}

void mscrt_get_stats(const mscrt_context *c, mscrt_stats *out_stats) {
  mscrt_stats s = {.struct_size = sizeof s,
                   .steps = c->step,
                   .threads = c->threads,
                   .arena_bytes = c->arena_bytes,
                   .received_bytes = c->received_bytes};
  s.compute_ns = mscrt_event_ns(c, MSCRT_EVENT_COMPUTE);
  s.collective_ns = mscrt_event_ns(c, MSCRT_EVENT_COLLECTIVE);
  s.exposed_ns = mscrt_event_ns(c, MSCRT_EVENT_WAIT);
  s.section_ns = mscrt_event_ns(c, MSCRT_EVENT_SECTION);
  s.transfer_ns = mscrt_event_ns(c, MSCRT_EVENT_TRANSFER);
  s.transfer_wait_ns = mscrt_event_ns(c, MSCRT_EVENT_TRANSFER_WAIT);
  s.host_bytes = c->plan->stage[c->stage].bytes[PLAN_SPACE_HOST];
  s.disk_bytes = c->plan->stage[c->stage].bytes[PLAN_SPACE_DISK];
  s.launch_ns = c->launch_ns;
  s.planned_bytes = plan_plan_memory_bytes(c->plan->root);
  s.constant_bytes = c->plan->space_bytes[PLAN_SPACE_CONSTANT];
  s.thread_bytes = (uint64_t)c->threads * c->room_bytes + c->panel_bytes;
  s.link_bytes = c->transport->link_bytes(c->comm);
  s.loaded_bytes = c->loaded_bytes;
  s.needed_bytes = c->needed_bytes;
  if (c->feed) mscrt_feed_costs(c->feed, &s.data_wait_ns, &s.data_bytes);
  mscrt_count_rows(c, &s.cache_rows, &s.cache_misses);
  size_t known = out_stats->struct_size;
  memcpy(out_stats, &s, known && known < sizeof s ? known : sizeof s);
}
