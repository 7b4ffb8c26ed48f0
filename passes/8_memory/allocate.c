/* allocate: gives every value a place: `place` on ops (see encode_place), and `scratch`, the bytes of the arena, on the
 * function; `host_scratch` is what lies in memory of the host beside it, in a second arena.
 *
 * Parameters and state are persistent, data and labels are inputs, constants with elements have memory of their own;
 * every other value is in the scratch arena, live from its op to its last user. A result may take the place of an
 * operand that dies with it; sums over ranks that one message carries lie side by side; values share the place of the
 * value whose memory they use (ir/alias.h); the new value of an argument takes the place of the argument once nobody
 * reads that. With own_outputs nothing shares the places of results. */
#include <string.h>

#include "ir/abi/pools.h"
#include "ir/alias.h"
#include "ir/gemm.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/allocate.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_nester *nester;
  size_t num_values, num_ops;
  uint32_t *root;  /* by value id: the value whose place it shares */
  uint32_t *first; /* by value id, of roots: first op that uses the place */
  uint32_t *last;  /* by value id, of roots: last op that uses the place, or that runs while it is used */
  /* by value id, of roots: last op that reads the place; last op that runs while a collective reads it */
  uint32_t *read, *busy;
  int64_t *offset; /* by value id, of roots in scratch; -1: elsewhere */
  msc_value **value;
  uint64_t *scratch_of; /* by op id: offset of its working memory */
} allocator;

static uint32_t place_root(allocator *z, const msc_value *v) {
  uint32_t r = v->id;
  while (z->root[r] != r) r = z->root[r] = z->root[z->root[r]];
  return r;
}

/* ---- sharing ---- */

static void list_values(allocator *z) {
  msc_block *b = z->f->body;
  for (size_t i = 0; i < b->num_args; i++) z->value[b->args[i]->id] = b->args[i];
  for (msc_op *op = b->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) z->value[op->out[i].id] = &op->out[i];
  for (size_t i = 0; i < z->num_values; i++) z->root[i] = (uint32_t)i;
}

static void share_views(allocator *z) {
  for (size_t i = 0; i < z->num_values; i++)
    if (z->value[i]) z->root[i] = msc_memory_of(z->value[i]).root->id;
}

static void find_lifetimes(allocator *z) {
  const uint32_t *ends = msc_ends_of_reads(z->pass->scratch, z->f);
  memset(z->last, 0, z->num_values * sizeof *z->last);
  memset(z->first, 0xff, z->num_values * sizeof *z->first);
  for (const msc_op *op = z->f->body->first; op; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) {
      uint32_t end = msc_end_of_read(ends, op, i);
      uint32_t r = place_root(z, op->in[i].value);
      if (z->last[r] < end) z->last[r] = end;
      z->read[r] = op->kind == OP_comm ? op->id : end;
      if (op->kind == OP_comm && z->busy[r] < end) z->busy[r] = end;
    }
    for (size_t i = 0; i < op->num_out; i++) {
      uint32_t r = place_root(z, &op->out[i]);
      if (z->last[r] < op->id) z->last[r] = op->id;
      if (z->first[r] > op->id) z->first[r] = op->id;
    }
  }
}

static bool is_scratch_value(const msc_value *v) {
  bool on_disk = v->def && v->def->kind == OP_stash && !msc_is_made_on_host(v);
  return v->def && !msc_is_constant_op(v->def) && !msc_runs_in_tiles(v->def) && !on_disk;
}

/* True if an op in tiles, which `op` takes, reads place r. */
static bool read_by_tiles(allocator *z, const msc_op *op, uint32_t r) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_op *maker = op->in[i].value->def;
    for (size_t k = 0; msc_runs_in_tiles(maker) && k < maker->num_in; k++)
      if (place_root(z, maker->in[k].value) == r) return true;
  }
  return false;
}

/* Lets the results of an all_reduce take the places of its operands: each rank reduces its slice in place and
 * receives the other slices there. operands: zero for every place, as it is left. */
static void share_reduced_operands(allocator *z, msc_op *op, uint32_t *operands) {
  for (size_t i = 0; i < op->num_in; i++) operands[place_root(z, op->in[i].value)]++;
  for (size_t i = 0; i < op->num_in; i++) {
    uint32_t r = place_root(z, op->in[i].value), y = op->out[i].id;
    if (operands[r] != 1 || place_root(z, &op->out[i]) != y || !is_scratch_value(z->value[r]) || z->read[r] != op->id)
      continue;
    if (z->last[r] < z->last[y]) z->last[r] = z->last[y];
    z->read[r] = z->read[y];
    if (z->busy[r] < z->busy[y]) z->busy[r] = z->busy[y];
    z->root[y] = r;
  }
  for (size_t i = 0; i < op->num_in; i++) operands[place_root(z, op->in[i].value)] = 0;
}

/* True if the value fills the whole place of its root. */
static bool covers_whole_place(const msc_value *root, const msc_value *v) {
  return msc_memory_of(v).shift == 0 && msc_type_bytes(root->type) == msc_type_bytes(v->type);
}

/* Lets a product write its result over the operand that it adds, if nobody needs that operand afterwards. */
static void share_added_operand(allocator *z, msc_op *gemm) {
  const msc_value *added = msc_gemm_operand(gemm, MSC_GEMM_ADD);
  uint32_t y = gemm->out[0].id, r = added ? place_root(z, added) : 0, operands = 0;
  if (!added || place_root(z, &gemm->out[0]) != y || !is_scratch_value(z->value[r]) || z->last[r] != gemm->id ||
      z->busy[r] >= gemm->id || !covers_whole_place(z->value[r], added))
    return;
  for (size_t i = 0; i < gemm->num_in; i++) operands += place_root(z, gemm->in[i].value) == r;
  if (operands != 1) return;
  z->last[r] = z->last[y], z->read[r] = z->read[y], z->busy[r] = z->busy[y];
  z->root[y] = r;
}

/* Lets a result take the place of an operand of the same size that nobody needs after the op. */
static void share_dying_operands(allocator *z) {
  uint32_t *operands = msc_new_array(z->pass->scratch, uint32_t, z->num_values);
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    if (msc_sums_over_ranks(op)) share_reduced_operands(z, op, operands);
    if (op->kind == OP_gemm) share_added_operand(z, op);
    if (!msc_nest_can_fuse(op)) continue;
    bool *taken = msc_new_array(z->pass->scratch, bool, op->num_in + 1);
    for (size_t o = 0; o < op->num_out; o++) {
      if (place_root(z, &op->out[o]) != op->out[o].id) continue;
      for (size_t i = 0; i < op->num_in; i++) {
        msc_value *v = op->in[i].value;
        uint32_t r = place_root(z, v);
        if (taken[i] || !is_scratch_value(z->value[r]) || z->last[r] != op->id || z->busy[r] >= op->id) continue;
        if (msc_memory_of(v).shift || msc_type_bytes(v->type) != msc_type_bytes(op->out[o].type)) continue;
        if (!msc_may_overwrite(z->nester, op, i, o) || read_by_tiles(z, op, r)) continue;
        bool twice = false; /* another operand lies in the same place */
        for (size_t k = 0; k < op->num_in; k++) twice |= k != i && place_root(z, op->in[k].value) == r;
        if (twice) continue;
        taken[i] = true;
        z->last[r] = z->last[op->out[o].id];
        z->read[r] = z->read[op->out[o].id];
        z->busy[r] = z->busy[op->out[o].id];
        z->root[op->out[o].id] = r;
        break;
      }
    }
  }
}

/* ---- new values of arguments ---- */

/* True if the op may write result o over operand i while it still reads that operand. */
static bool is_updated_in_place(allocator *z, const msc_op *op, size_t i, size_t o) {
  /* only the nest knows in which order a kernel of several ops reads */
  if (!op->body && msc_tied_result(op, i) == (int)o) return true;
  if (op->kind == OP_scatter_update) return i == 0 && !msc_target_of_op(op)->is_gpu; /* where it writes rows alone */
  if (op->kind == OP_comm) return msc_sums_over_ranks(op) && i == o;
  if (op->kind == OP_gemm) return o == 0 && op->in[i].value == msc_gemm_operand(op, MSC_GEMM_ADD);
  return msc_nest_can_fuse(op) && msc_may_update(z->nester, op, i, o);
}

/* True if op may write result o over place `old`: nobody reads it afterwards, and op itself reads it at most once,
 * element by element. */
static bool may_overwrite_argument(allocator *z, uint32_t old, const msc_op *op, size_t o) {
  size_t operands = 0;
  bool beside = z->busy[old] && z->busy[old] >= op->id; /* 0 means that no collective reads it */
  if (z->last[old] > op->id || beside || read_by_tiles(z, op, old)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (place_root(z, op->in[i].value) == old && (operands++ || !is_updated_in_place(z, op, i, o))) return false;
  return true;
}

/* Lets the new value of an argument be made in the place of the argument where possible; elsewhere the plan copies
 * it there at the end of the step. */
static void share_tied_arguments(allocator *z) {
  const msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    const msc_value *old = arg < 0 ? NULL : z->f->body->args[arg], *made = z->value[place_root(z, ret->in[i].value)];
    if (!old || !is_scratch_value(made) || !covers_whole_place(made, ret->in[i].value) ||
        z->first[made->id] != made->def->id)
      continue;
    if (may_overwrite_argument(z, old->id, made->def, made->index)) z->root[made->id] = old->id;
  }
}

/* Keeps all other values out of the places of results, as the key own_outputs asks. */
static void keep_results_apart(allocator *z) {
  const msc_op *ret = z->f->body->last;
  if (!msc_config_bool(z->pass->config, MSC_KEY_own_outputs)) return;
  for (size_t i = 0; i < ret->num_in; i++) {
    uint32_t r = place_root(z, ret->in[i].value);
    if (is_scratch_value(z->value[r])) z->first[r] = 0, z->last[r] = ret->id;
  }
}

/* ---- placing ---- */

/* Finds the groups of sums that one message carries, as numbers of their buffers; a buffer is in one group only. */
static size_t find_place_groups(allocator *z, msc_buffer *buffer, const uint32_t *number, msc_offsets_group *group) {
  bool *grouped = msc_new_array(z->pass->scratch, bool, z->num_values);
  size_t num = 0;
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    uint32_t *member =
        op->num_in > 1 && msc_sums_over_ranks(op) ? msc_new_array(z->pass->scratch, uint32_t, op->num_in) : NULL;
    size_t n = 0;
    for (size_t i = 0; member && i < op->num_out; i++) {
      uint32_t r = place_root(z, &op->out[i]);
      if (grouped[r] || !is_scratch_value(z->value[r])) continue;
      grouped[r] = true;
      member[n++] = number[r];
      buffer[number[r]].bytes = msc_round_to_lines(buffer[number[r]].bytes);
    }
    if (n > 1) group[num++] = (msc_offsets_group){n, member};
  }
  return num;
}

static bool moves_to_or_from_disk(const msc_func *f, const msc_op *op) {
  if (op->kind == OP_stash) return msc_op_home(op) == MSC_HOME_DISK;
  if (op->kind != OP_fetch && op->kind != OP_stow) return false;
  const msc_value *away = op->in[0].value;
  return away->def ? moves_to_or_from_disk(f, away->def) : msc_home_said(f, away->index) == MSC_HOME_DISK;
}

/* The alignment of places: that of sectors where some are read from a disk, or written to one, else that of lines. */
static uint64_t alignment_of_places(const msc_func *f) {
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (moves_to_or_from_disk(f, op)) return MSC_SECTOR;
  return MSC_ALIGN;
}

/* on_host: of the values that the host makes, in the order of the ops: its calls and transfers run in that order. */
static msc_offsets_result place_scratch_values(allocator *z, bool on_host, uint64_t capacity) {
  size_t room = z->num_values + z->num_ops, num = 0;
  msc_buffer *buffer = msc_new_array(z->pass->scratch, msc_buffer, room);
  uint32_t *of = msc_new_array(z->pass->scratch, uint32_t, room),
           *number = msc_new_array(z->pass->scratch, uint32_t, z->num_values);
  msc_offsets_group *group = msc_new_array(z->pass->scratch, msc_offsets_group, z->num_ops);
  for (size_t i = 0; i < z->num_values; i++) {
    if (z->root[i] != i || !z->value[i] || !is_scratch_value(z->value[i])) continue;
    if (msc_is_made_on_host(z->value[i]) != on_host) continue;
    buffer[num] = (msc_buffer){z->first[i], z->last[i] + 1, (uint64_t)msc_type_bytes(z->value[i]->type)};
    number[i] = (uint32_t)num;
    of[num++] = (uint32_t)i;
  }
  size_t values = num, groups = on_host ? 0 : find_place_groups(z, buffer, number, group);
  for (const msc_op *op = z->f->body->first; op; op = op->next) {
    uint64_t bytes = msc_runs_on_host(op) == on_host ? msc_scratch_bytes(z->nester, op) : 0;
    if (!bytes) continue;
    buffer[num] = (msc_buffer){op->id, op->id + 1, bytes};
    of[num++] = op->id;
  }
  uint64_t *offset = msc_new_array(z->pass->scratch, uint64_t, num);
  msc_offsets_result r = msc_find_offsets(
      z->pass->scratch, num, buffer,
      &(msc_offsets_options){
          .align = alignment_of_places(z->f), .capacity = capacity, .num_groups = groups, .group = group},
      offset);
  for (size_t i = 0; i < num; i++) {
    if (i < values) z->offset[of[i]] = (int64_t)offset[i];
    else z->scratch_of[of[i]] = offset[i];
  }
  return r;
}

/* Encodes the place of a value: an offset in scratch, or -1 - i for the place of argument i. Constants, and values
 * in their memory, have no place (0). */
static int64_t encode_place(allocator *z, const msc_value *v) {
  uint32_t r = place_root(z, v);
  if (z->offset[r] >= 0) return z->offset[r] + msc_memory_of(v).shift * msc_dtype_bytes(v->type->dtype);
  return z->value[r]->def ? 0 : -1 - (int64_t)z->value[r]->index;
}

static void write_places(allocator *z) {
  msc_context *ctx = z->pass->ctx;
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    int64_t *place = msc_new_array(z->pass->scratch, int64_t, op->num_out);
    for (size_t i = 0; i < op->num_out; i++) place[i] = encode_place(z, &op->out[i]);
    if (op->num_out) msc_op_put(op, msc_fact_place(ctx, op->num_out, place));
    if (msc_scratch_bytes(z->nester, op)) msc_op_put(op, msc_fact_work((int64_t)z->scratch_of[op->id]));
  }
}

/* Decides which values share places, and how long each place is used. Numbers the ops anew. */
static allocator share_places(msc_pass_ctx *pass, msc_func *f) {
  msc_numbering n = msc_number(f->body);
  allocator z = {.pass = pass,
                 .f = f,
                 .nester = msc_nester_new(pass->ctx, pass->scratch, msc_target_of(f->module)),
                 .num_values = n.num_values,
                 .num_ops = n.num_ops};
  z.root = msc_new_array(pass->scratch, uint32_t, n.num_values);
  z.first = msc_new_array(pass->scratch, uint32_t, n.num_values);
  z.last = msc_new_array(pass->scratch, uint32_t, n.num_values);
  z.read = msc_new_array(pass->scratch, uint32_t, n.num_values);
  z.busy = msc_new_array(pass->scratch, uint32_t, n.num_values);
  z.offset = msc_new_array(pass->scratch, int64_t, n.num_values);
  z.value = msc_new_array(pass->scratch, msc_value *, n.num_values);
  z.scratch_of = msc_new_array(pass->scratch, uint64_t, n.num_ops);
  memset(z.offset, 0xff, n.num_values * sizeof *z.offset);
  list_values(&z);
  share_views(&z);
  find_lifetimes(&z);
  share_tied_arguments(&z);
  share_dying_operands(&z);
  keep_results_apart(&z);
  return z;
}

/* capacity: the first plan that is no larger will do; 0: as small as possible. */
static allocator compute_places(msc_pass_ctx *pass, msc_func *f, uint64_t capacity, msc_offsets_result *out_result) {
  allocator z = share_places(pass, f);
  *out_result = place_scratch_values(&z, false, capacity);
  return z;
}

size_t msc_list_lifetimes(msc_pass_ctx *pass, msc_func *f, msc_lifetime **out_lifetime) {
  allocator z = share_places(pass, f);
  size_t num = 0;
  msc_lifetime *life = *out_lifetime = msc_new_array(pass->scratch, msc_lifetime, z.num_values + z.num_ops);
  for (size_t i = 0; i < z.num_values; i++)
    if (z.root[i] == i && z.value[i] && is_scratch_value(z.value[i]) && !msc_is_made_on_host(z.value[i]))
      life[num++] = (msc_lifetime){.value = z.value[i],
                                   .first = z.first[i],
                                   .last = z.last[i],
                                   .bytes = msc_round_to_lines((uint64_t)msc_type_bytes(z.value[i]->type))};
  for (const msc_op *op = f->body->first; op; op = op->next) {
    uint64_t bytes = msc_runs_on_host(op) ? 0 : msc_scratch_bytes(z.nester, op);
    if (bytes) life[num++] = (msc_lifetime){.first = op->id, .last = op->id, .bytes = msc_round_to_lines(bytes)};
  }
  return num;
}

uint64_t msc_scratch_of(msc_pass_ctx *pass, msc_func *f, uint64_t capacity) {
  msc_offsets_result r;
  compute_places(pass, f, capacity, &r);
  return r.bytes;
}

static void allocate_func(msc_pass_ctx *pass, msc_func *f) {
  msc_offsets_result r;
  allocator z = compute_places(pass, f, 0, &r);
  uint64_t on_host = place_scratch_values(&z, true, 0).bytes;
  msc_func_put(f, msc_fact_scratch((int64_t)r.bytes));
  if (on_host) msc_func_put(f, msc_fact_host_scratch((int64_t)on_host));
  msc_stat(pass, "scratch bytes", (int64_t)r.bytes);
  msc_stat(pass, "live bytes at the peak", (int64_t)r.bound);
  write_places(&z);
}

bool pass_allocate(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) allocate_func(pass, f);
  return true;
}
