/* prepare_calls.c: turns the calls of a verified plan into flat records: every address, size and primitive is looked
 * up once, at load. */
#include <stdlib.h>

#include "runtime/execute/execute.h"
#include "runtime/kernels/windows.h"
#include "runtime/memory/memory.h"

/* A call that is estimated to be shorter runs on one thread: waking threads would cost more than it saves. */
#define ALONE_NS 12000

/* Estimates the time of a call on one thread: 8 bytes and 16 operations per ns. */
static uint64_t estimate_call_ns(plan_call call) { return plan_call_bytes(call) / 8 + plan_call_flops(call) / 16; }

/* ---- one block of memory for all records ---- */

typedef struct {
  char *next;   /* free memory; NULL: only counts bytes */
  size_t bytes; /* taken so far */
} block;

static void *take_from_block(block *b, size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  b->bytes += bytes;
  if (!b->next) return NULL;
  char *p = b->next;
  b->next += bytes;
  return p;
}

/* ---- addresses ---- */

static uint64_t arena_offset(const mscrt_context *c, plan_ref r, int slot) {
  return c->space_offset[r.space] + r.offset + (r.space == PLAN_SPACE_INPUT ? (uint64_t)slot * c->input_stride : 0);
}

void *mscrt_address_of(const mscrt_context *c, plan_ref r, int slot) {
  if (r.space == PLAN_SPACE_TILE) return NULL;
  if (r.space == PLAN_SPACE_CONSTANT) return (void *)(uintptr_t)(plan_plan_constants_data(c->plan->root) + r.offset);
  if (mscrt_is_offloaded(r.space) && c->offload) return mscrt_offload_at(c, r);
  void *shared = mscrt_shared_at(c, r);
  return shared ? shared : c->arena + arena_offset(c, r, slot);
}

/* Returns the address of a ref for calls; on a device with memory of its own it differs from the address on the
 * host. */
static void *device_address(const mscrt_context *c, plan_ref r) {
  if (r.space == PLAN_SPACE_TILE) return NULL;
  if (mscrt_is_offloaded(r.space) && c->offload) return mscrt_offload_at(c, r);
  void *shared = mscrt_shared_at(c, r);
  if (shared) return shared;
  return r.space == PLAN_SPACE_CONSTANT ? (void *)(uintptr_t)(c->constants + r.offset)
                                        : c->memory + arena_offset(c, r, 0);
}

static void set_call_buffers(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  uint32_t num = plan_call_buffers_num(call);
  uint8_t kind = plan_call_kind(call);
  bool moves = false, on_host = kind == PLAN_CALL_KIND_HOST_KERNEL || kind == PLAN_CALL_KIND_ADMIT;
  for (uint32_t i = 0; i < num; i++) moves = moves || mscrt_has_slots(plan_call_buffers(call, i).space);
  void **buffers = take_from_block(b, num * sizeof *buffers);
  uint8_t *space = moves ? take_from_block(b, num) : NULL;
  if (!buffers) return;
  for (uint32_t i = 0; i < num; i++)
    buffers[i] =
        on_host ? mscrt_address_of(c, plan_call_buffers(call, i), 0) : device_address(c, plan_call_buffers(call, i));
  for (uint32_t i = 0; i < num && moves; i++) space[i] = plan_call_buffers(call, i).space;
  r->buffers = buffers;
  r->space = space;
  r->ref = plan_call_buffers_data(call);
  r->num_buffers = num;
}

/* Sets the dims of a call. For each entry of `starts` in the plan a dim is the first element of the part of this rank,
 * or minus its size. */
static void set_dims_of_call(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  uint32_t num = plan_call_dims_num(call);
  int64_t *dims = take_from_block(b, num * sizeof *dims);
  if (!dims) return;
  for (uint32_t i = 0; i < num; i++) dims[i] = plan_call_dims(call, i);
  for (uint32_t i = 0; i < plan_call_starts_num(call); i++) {
    plan_start s = plan_call_starts(call, i);
    int64_t shape[MSCRT_MAX_RANK] = {0};
    msc_box box;
    for (uint32_t d = 0; d < plan_start_shape_num(s); d++) shape[d] = (int64_t)plan_start_shape(s, d);
    msc_box_of(&c->plan->mesh, &c->plan->layout[plan_start_layout(s)], shape, c->o.rank, &box);
    dims[plan_start_index(s)] = plan_start_behind(s) ? -box.size[plan_start_dim(s)] : box.begin[plan_start_dim(s)];
  }
  r->dims = dims;
}

static void prepare_kernel(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  set_dims_of_call(c, b, call, r);
  if (!b->next) return;
  r->index = plan_call_index(call);
  r->kernel = mscrt_plan_kernel(c->plan, r->index);
  r->scalars = plan_call_scalars_data(call);
  r->extent = (int64_t)plan_call_extent(call);
  r->grain = (int64_t)plan_call_grain(call);
  r->units = r->extent / r->grain + (r->extent % r->grain != 0);
  r->checks = plan_call_checks(call) != 0;
}

/* ---- matmuls ---- */

/* Prepares the epilogue of a product or of a kernel, and on a GPU that of the epilogue. */
static void prepare_epilogues(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  while (has_plan_call_epilogue(call)) {
    mscrt_record *e = take_from_block(b, sizeof *e);
    call = plan_call_epilogue(call);
    prepare_kernel(c, b, call, e);
    if (b->next) r->epilogue = e, r = e;
  }
}

static mscrt_status *prepare_matmul(mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  prepare_epilogues(c, b, call, r);
  if (!b->next) return NULL;
  r->matmul = &c->matmul[plan_call_index(call)];
  r->units = r->matmul->tiles;
  if (r->matmul->multiply == MSCRT_BY_LIBRARY)
    return c->library ? mscrt_library_tiles(c->library, r->matmul, r->tile) : NULL;
  r->pack = mscrt_plan_kernel(c->plan, r->matmul->pack);
  r->multiply = mscrt_plan_kernel(c->plan, r->matmul->multiply);
  return NULL;
}

/* Prepares an attention or convolution; on a CPU kernels compute its parts. */
static void prepare_graph(mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  if (!b->next) return;
  r->graph = &c->plan->graph[plan_call_index(call)];
  if (c->plan->target->calls_whole) return;
  r->pack = mscrt_plan_kernel(c->plan, r->graph->pack);
  r->multiply = mscrt_plan_kernel(c->plan, r->graph->multiply);
  msc_attention a = mscrt_attention_of(r->graph);
  r->units = mscrt_is_attention(r->graph) ? msc_attention_cut_of(&a).units : mscrt_windows_cut(r->graph).units;
}

/* ---- collectives ---- */

static mscrt_part part_of_call(const mscrt_context *c, plan_call call, uint32_t i) {
  uint32_t index = plan_call_index(call);
  const mscrt_collective *k = &c->plan->collective[index];
  plan_ref src = plan_call_buffers(call, 2 * i), dst = plan_call_buffers(call, 2 * i + 1);
  return (mscrt_part){.e = &c->exchange[k->num_members ? k->members[i] : index],
                      .src = arena_offset(c, src, 0),
                      .dst = mscrt_address_of(c, dst, 0)};
}

/* True if a collective in place would overwrite what peers still read. */
static bool overwrites_what_peers_read(const mscrt_context *c, const mscrt_record *r) {
  bool in_place = false, slices = true;
  for (uint32_t i = 0; i < r->num_parts; i++) {
    in_place = in_place || r->part[i].dst == c->arena + r->part[i].src;
    slices = slices && r->part[i].e->slices;
  }
  return in_place && !slices && r->part[0].e->group.num > 1;
}

static mscrt_status *prepare_collective(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  uint32_t num = plan_call_buffers_num(call) / 2;
  bool moves = false;
  for (uint32_t i = 0; i < 2 * num; i++) moves = moves || mscrt_has_slots(plan_call_buffers(call, i).space);
  mscrt_part *part = take_from_block(b, num * sizeof *part);
  uint8_t *space = moves ? take_from_block(b, 2 * num) : NULL;
  for (uint32_t i = 0; part && i < num; i++) {
    part[i] = part_of_call(c, call, i);
    part[i].at = i ? part[i - 1].at + part[i - 1].e->elems : 0;
    for (uint32_t k = 0; k < 2 && space; k++) space[2 * i + k] = plan_call_buffers(call, 2 * i + k).space;
  }
  if (!b->next) return NULL;
  r->part = part;
  r->part_space = space;
  r->ref = plan_call_buffers_data(call);
  r->num_parts = num;
  r->beside = r->part[0].e->group.num > 1 && !r->served;
  if (!overwrites_what_peers_read(c, r)) return NULL;
  return mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: %s %s cannot be done in place",
                    msc_verb_name(r->part[0].e->verb), r->name ? r->name : "");
}

/* ---- messages ---- */

/* The mailboxes of a stage lie in the order of the messages. */
static void prepare_message(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  if (!b->next) return;
  plan_message m = plan_plan_messages(c->plan->root, plan_call_index(call));
  int per_stage = c->plan->ranks / (int)c->plan->num_stages;
  r->receives = plan_call_buffers(call, 0).written;
  r->channel.bytes = mscrt_message_bytes(c, m);
  r->channel.depth = plan_message_depth(m);
  r->channel.peer = (int)(r->receives ? plan_message_from(m) : plan_message_to(m)) * per_stage + c->o.rank % per_stage;
  for (uint32_t i = 0; i < plan_call_index(call); i++) {
    plan_message before = plan_plan_messages(c->plan->root, i);
    if (plan_message_to(before) == plan_message_to(m))
      r->channel.mailbox += msc_mailbox_bytes(mscrt_message_bytes(c, before), plan_message_depth(before));
  }
}

/* ---- transfers ---- */

static void prepare_transfer(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  bool disk = false;
  for (uint32_t i = 0; i < 2; i++) disk |= plan_call_buffers(call, i).space == PLAN_SPACE_DISK;
  if (!b->next) return;
  if (r->served == MSCRT_BY_SERVERS && !c->o.server) return; /* workers skip it */
  r->copies = c->o.server || (!disk && mscrt_copies_in_place(c));
  r->is_transfer = !r->copies && (c->offload || c->device->transfer);
}

/* Prepares a kernel that the host runs beside a GPU: in the order of transfers, as one of them. */
static void prepare_host_kernel(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  prepare_kernel(c, b, call, r);
  if (b->next) r->is_transfer = c->offload || c->device->transfer;
}

/* ---- tables with a cache ---- */

/* Prepares an admit, which beside a GPU runs in the order of transfers, as one of them. */
static void prepare_admit(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  set_call_buffers(c, b, call, r);
  set_dims_of_call(c, b, call, r);
  if (b->next) r->is_transfer = c->plan->target->has_images && (c->offload || c->device->transfer);
}

/* ---- waits ---- */

/* Adds the memory that a call touches. A tile belongs to a worker, and constants are never written, so neither
 * counts. */
static void add_spans(const mscrt_context *c, plan_call call, mscrt_record *r, msc_span *span,
                      mscrt_lingering lingers) {
  for (uint32_t i = 0; i < plan_call_buffers_num(call); i++) {
    plan_ref ref = plan_call_buffers(call, i);
    if (ref.space == PLAN_SPACE_TILE || ref.space == PLAN_SPACE_CONSTANT || !ref.bytes) continue;
    uint64_t begin = arena_offset(c, ref, 0);
    bool still_read = lingers == (ref.written ? MSCRT_LINGERS_DESTINATION : MSCRT_LINGERS_SOURCE);
    span[r->num_spans++] = (msc_span){begin, begin + ref.bytes, ref.space, ref.written != 0, still_read};
  }
}

static void set_spans(const mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  bool epilogue = has_plan_call_epilogue(call);
  uint32_t most = plan_call_buffers_num(call) + (epilogue ? plan_call_buffers_num(plan_call_epilogue(call)) : 0);
  msc_span *span = take_from_block(b, most * sizeof *span);
  if (!span) return;
  mscrt_lingering lingers =
      r->beside && !c->device->orders_collectives ? c->transport->lingers(r->num_parts, r->part) : MSCRT_LINGERS_NOT;
  r->span = span;
  r->lingers = lingers != MSCRT_LINGERS_NOT;
  add_spans(c, call, r, span, lingers);
  if (epilogue) add_spans(c, plan_call_epilogue(call), r, span, MSCRT_LINGERS_NOT);
}

/* Sets for which transfers of a section each call waits: transfers run one after the other, beside all other calls. */
static mscrt_status *set_transfer_waits(mscrt_section *s) {
  msc_hazards h = {0};
  size_t room = 0;
  for (uint32_t i = 0; i < s->num_calls; i++) room += s->call[i].is_transfer ? s->call[i].num_spans : 0;
  if (!room) return NULL;
  MSCRT_CHECK(mscrt_new_array(&h.pending, room));
  for (uint32_t i = 0; i < s->num_calls; i++) {
    mscrt_record *r = &s->call[i];
    r->awaited_transfers = msc_hazards_next(&h, r->num_spans, r->span, r->is_transfer).run;
    s->num_transfers += r->is_transfer;
  }
  free(h.pending);
  return NULL;
}

/* Numbers the collectives of a section and sets for which of them each call waits. */
static mscrt_status *set_waits(mscrt_section *s) {
  msc_hazards h = {0};
  size_t room = 0;
  for (uint32_t i = 0; i < s->num_calls; i++) {
    if (!s->call[i].beside) continue;
    room += s->call[i].num_spans;
    s->num_beside++;
  }
  MSCRT_CHECK(mscrt_new_array(&s->beside, s->num_beside));
  MSCRT_CHECK(mscrt_new_array(&h.pending, room));
  for (uint32_t i = 0; i < s->num_calls; i++) {
    mscrt_record *r = &s->call[i];
    r->waits = msc_hazards_next(&h, r->num_spans, r->span, r->beside);
    if (r->beside) s->beside[h.started - 1] = r;
  }
  free(h.pending);
  return NULL;
}

/* ---- packed operands ---- */

static bool packs_for_all(const mscrt_record *r) {
  return r->kind == PLAN_CALL_KIND_MATMUL && r->matmul->shared_columns > 0;
}

/* True if two products pack all columns of one b into the same panels. */
static bool pack_alike(const mscrt_record *x, const mscrt_record *y) {
  const mscrt_matmul *a = x->matmul, *b = y->matmul;
  plan_ref p = x->ref[1], q = y->ref[1];
  return a->shared_columns == a->n && b->shared_columns == b->n && x->pack == y->pack && a->n == b->n && a->k == b->k &&
         a->blocks == b->blocks && a->transpose_b == b->transpose_b && p.space == q.space && p.offset == q.offset;
}

static bool writes_to(const mscrt_context *c, const mscrt_record *r, plan_ref ref) {
  uint64_t begin = arena_offset(c, ref, 0), end = begin + ref.bytes;
  for (uint32_t i = 0; i < r->num_spans; i++)
    if (r->span[i].written && r->span[i].begin < end && begin < r->span[i].end) return true;
  return false;
}

/* Finds the products whose b the product before them has packed, as the steps of a recurrent network do: no call in
 * between packs another one or writes to it. */
static void find_packed(const mscrt_context *c, mscrt_section *s) {
  const mscrt_record *last = NULL;
  for (uint32_t i = 0; i < s->num_calls; i++) {
    mscrt_record *r = &s->call[i];
    bool packs = packs_for_all(r) && !r->served;
    if (packs) r->finds_packed = last && pack_alike(last, r), last = r;
    if (last && writes_to(c, r, last->ref[1])) last = NULL;
  }
}

/* ---- chains ---- */

/* Finds the chain that begins with call number `first` of a section. It runs strip by strip if there are several
 * threads, at least one strip for each and enough work, or if a test wants strips to run one after the other. */
static void set_chain(const mscrt_context *c, plan_section section, uint32_t first, mscrt_record *r) {
  uint32_t num = plan_section_calls_num(section), end = first + 1;
  plan_call call = plan_section_calls(section, first);
  uint64_t ns = 0;
  r->strips = plan_call_strips(call);
  while (end < num && plan_call_goes_on(plan_section_calls(section, end))) end++;
  for (uint32_t i = first; i < end; i++) ns += estimate_call_ns(plan_section_calls(section, i));
  for (uint32_t i = first; i < end; i++) {
    call = plan_section_calls(section, i);
    if (plan_call_kind(call) == PLAN_CALL_KIND_MATMUL && c->matmul[plan_call_index(call)].multiply == MSCRT_BY_LIBRARY)
      return; /* which computes whole tiles */
  }
  bool pays = c->threads > 1 && (uint32_t)c->threads <= r->strips && ns >= ALONE_NS;
  if (c->device->runs_strips && (pays || c->strips_apart)) r->chained = end - first;
}

/* ---- sections ---- */

static mscrt_status *prepare_call(mscrt_context *c, block *b, plan_call call, mscrt_record *r) {
  if (b->next) {
    uint64_t ns = estimate_call_ns(call);
    *r = (mscrt_record){.kind = plan_call_kind(call),
                        .index = plan_call_index(call),
                        .name = plan_call_name(call),
                        .loc = plan_call_loc(call),
                        .served = c->o.servers ? plan_call_served(call) : 0,
                        .alone = ns > 0 && ns < ALONE_NS,
                        .predicted_ns = (int64_t)plan_call_predicted_ns(call)};
  }
  switch (plan_call_kind(call)) {
    case PLAN_CALL_KIND_MATMUL: MSCRT_CHECK(prepare_matmul(c, b, call, r)); break;
    case PLAN_CALL_KIND_COLLECTIVE: MSCRT_CHECK(prepare_collective(c, b, call, r)); break;
    case PLAN_CALL_KIND_MESSAGE: prepare_message(c, b, call, r); break;
    case PLAN_CALL_KIND_GRAPH: prepare_graph(c, b, call, r); break;
    case PLAN_CALL_KIND_TRANSFER: prepare_transfer(c, b, call, r); break;
    case PLAN_CALL_KIND_HOST_KERNEL: prepare_host_kernel(c, b, call, r); break;
    case PLAN_CALL_KIND_ADMIT: prepare_admit(c, b, call, r); break;
    default: prepare_kernel(c, b, call, r), prepare_epilogues(c, b, call, r);
  }
  set_spans(c, b, call, r);
  return NULL;
}

static bool call_reads_input(plan_call call) {
  for (uint32_t i = 0; i < plan_call_buffers_num(call); i++)
    if (plan_call_buffers(call, i).space == PLAN_SPACE_INPUT) return true;
  return has_plan_call_epilogue(call) && call_reads_input(plan_call_epilogue(call));
}

static bool section_reads_inputs(plan_section section) {
  for (uint32_t i = 0; i < plan_section_calls_num(section); i++)
    if (call_reads_input(plan_section_calls(section, i))) return true;
  return plan_section_inputs(section);
}

static mscrt_status *prepare_section(mscrt_context *c, block *b, uint32_t index) {
  plan_section section = plan_plan_sections(c->plan->root, index);
  uint32_t num = plan_section_stage(section) == c->stage ? plan_section_calls_num(section) : 0;
  mscrt_record *calls = take_from_block(b, num * sizeof *calls);
  if (b->next)
    c->section[index] = (mscrt_section){.name = plan_section_name(section),
                                        .num_calls = num,
                                        .call = calls,
                                        .inputs = section_reads_inputs(section),
                                        .copies = plan_section_copies(section)};
  for (uint32_t i = 0; i < num; i++) {
    mscrt_status *s = prepare_call(c, b, plan_section_calls(section, i), calls ? &calls[i] : NULL);
    if (s) return mscrt_add_prefix(s, "section '%s', call %u", plan_section_name(section), i);
    plan_call call = plan_section_calls(section, i);
    if (calls && plan_call_strips(call) && !plan_call_goes_on(call)) set_chain(c, section, i, &calls[i]);
  }
  if (b->next) find_packed(c, &c->section[index]);
  if (b->next) MSCRT_CHECK(set_transfer_waits(&c->section[index]));
  return b->next ? set_waits(&c->section[index]) : NULL;
}

/* ---- programs ---- */

/* Counts for each entry of a program how many batches, in their order, are no longer needed after it. */
static mscrt_status *count_releases(const mscrt_context *c, mscrt_program *g) {
  uint32_t *last, done = 0, used = 0;
  MSCRT_CHECK(mscrt_new_array(&g->release, g->num + 1));
  MSCRT_CHECK(mscrt_new_array(&last, g->micro));
  for (uint32_t i = 0; i < g->num; i++)
    for (uint32_t k = 0; c->section[g->entry[i].section].inputs && k < c->section[g->entry[i].section].copies; k++)
      last[g->entry[i].micro + k] = i;
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < g->num && !s; i++) {
    const mscrt_section *section = &c->section[g->entry[i].section];
    if (!section->inputs) continue;
    if (g->entry[i].micro > used || g->entry[i].micro < done)
      s = mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: micro-batches of a stage are out of order");
    if (g->entry[i].micro == used) used += section->copies;
    if (used - done > c->input_slots)
      s = mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: %u micro-batches in use with %" PRIu64 " slots",
                     used - done, c->input_slots);
    for (; !s && done < used && last[done] <= i; done++) g->release[i]++;
  }
  if (!s && used && used != g->micro)
    s = mscrt_fail(MSCRT_INPUT, "the plan contradicts itself: %u of %u micro-batches are read", used, g->micro);
  free(last);
  return s;
}

static mscrt_status *prepare_programs(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&c->program, c->plan->num_programs));
  for (uint32_t i = 0; i < c->plan->num_programs; i++) {
    mscrt_program *g = &c->program[i];
    g->micro = mscrt_program_micro(c->plan, i);
    g->entry = mscrt_program_lane(c->plan, i, c->stage, &g->num);
    MSCRT_CHECK(count_releases(c, g));
    for (uint32_t k = 0; k < c->plan->num_outputs; k++) {
      const mscrt_variable *v = &c->plan->output[k];
      if (v->loss && v->program == i && v->stage == c->stage) g->loss = v;
    }
  }
  return NULL;
}

/* ---- workers ---- */

/* Allocates exactly `bytes` bytes, so that the sanitizer sees writes beyond them; 0: *out is NULL. */
static mscrt_status *allocate_room(uint64_t bytes, void **out) {
  *out = NULL;
  return !bytes || !posix_memalign(out, 64, (size_t)bytes)
             ? NULL
             : mscrt_fail(MSCRT_NO_MEMORY, "no memory for tiles of %" PRIu64 " bytes", bytes);
}

/* Allocates the memory that products and their epilogues need in every worker, and the memory that workers share. */
static mscrt_status *make_workers(mscrt_context *c) {
  uint64_t tile = c->plan->space_bytes[PLAN_SPACE_TILE], panels = 0, room = 0;
  for (uint32_t i = 0; i < c->plan->num_matmuls; i++) {
    const mscrt_matmul *m = &c->matmul[i];
    uint64_t *most = m->shared_columns ? &c->panel_bytes : &panels;
    if (m->panel_bytes > *most) *most = m->panel_bytes;
    if (m->room_bytes > room) room = m->room_bytes;
  }
  for (uint32_t i = 0; i < c->plan->num_graphs; i++)
    if (c->plan->graph[i].bytes > room) room = c->plan->graph[i].bytes;
  uint32_t buffers = 0, moved = 0, parts = 0, chained = 0;
  for (uint32_t s = 0; s < c->plan->num_sections; s++)
    for (uint32_t i = 0; i < c->section[s].num_calls; i++) {
      if (c->section[s].call[i].chained > chained) chained = c->section[s].call[i].chained;
      if (c->section[s].call[i].num_parts > parts) parts = c->section[s].call[i].num_parts;
      if (c->section[s].call[i].num_buffers > moved) moved = c->section[s].call[i].num_buffers;
      for (const mscrt_record *e = c->section[s].call[i].epilogue; e; e = e->epilogue)
        if (e->num_buffers > buffers) buffers = e->num_buffers;
    }
  for (int i = 0; i < 2; i++) MSCRT_CHECK(mscrt_new_array(&c->parts[i], parts + 1));
  for (int i = 0; i < 2; i++)
    MSCRT_CHECK(mscrt_new_array(&c->shifted_buffers[i], (moved > buffers ? moved : buffers) + 1));
  if (c->o.measure) MSCRT_CHECK(mscrt_new_array(&c->chain_ns, chained + 1));
  c->room_bytes = tile + panels + room;
  MSCRT_CHECK(allocate_room(c->panel_bytes, &c->panels));
  MSCRT_CHECK(mscrt_new_array(&c->worker, c->threads));
  for (int w = 0; w < c->threads; w++) {
    MSCRT_CHECK(allocate_room(tile, &c->worker[w].tile));
    MSCRT_CHECK(allocate_room(panels, &c->worker[w].panels));
    MSCRT_CHECK(allocate_room(room, &c->worker[w].room));
    MSCRT_CHECK(mscrt_new_array(&c->worker[w].buffers, buffers));
  }
  return NULL;
}

mscrt_status *mscrt_prepare_calls(mscrt_context *c) {
  c->strips_apart = getenv("MSC_STRIPS_APART") != NULL;
  block counting = {0};
  for (uint32_t i = 0; i < c->plan->num_sections; i++) MSCRT_CHECK(prepare_section(c, &counting, i));
  MSCRT_CHECK(mscrt_new_array(&c->section, c->plan->num_sections));
  MSCRT_CHECK(mscrt_new_array(&c->records, counting.bytes + 16));
  block b = {.next = c->records};
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++) {
    MSCRT_CHECK(prepare_section(c, &b, i));
    if (c->section[i].num_beside > most) most = c->section[i].num_beside;
  }
  MSCRT_CHECK(mscrt_new_array(&c->ticket, most + 1));
  if (c->library) MSCRT_CHECK(mscrt_library_ready(c->library));
  MSCRT_CHECK(mscrt_check_shared(c));
  MSCRT_CHECK(prepare_programs(c));
  return make_workers(c);
}
