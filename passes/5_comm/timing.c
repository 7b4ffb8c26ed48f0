/* timing.c: the times of ops and collectives on the described cluster (see timing.h). */
#include "passes/5_comm/timing.h"

#include <math.h>
#include <string.h>

/* ---- work ---- */

int64_t comm_work_ns(const msc_cost *cost, const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  if (info->cost == MSC_COST_NONE || info->cost == MSC_COST_COMM || !op->num_in || !op->num_out) return 0;
  double bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_local_bytes(op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) bytes += (double)msc_local_bytes(op->out[i].type);
  msc_dtype dtype = op->in[0].value->type->dtype;
  return info->cost == MSC_COST_FLOPS
             ? msc_cost_product(cost, dtype, msc_rank_flops(op, arena), bytes)
             : msc_cost_work(cost, dtype, 0, bytes);
}

/* ---- collectives ---- */

/* The digits over which `from` is partial (or, if not `partial`, by which it is cut) and `to` is not. */
static const msc_layout *find_lost_digits(const msc_op *op, const msc_layout *from, const msc_layout *to,
                                          bool partial) {
  msc_context *ctx = msc_op_ctx(op);
  const msc_mesh *mesh = &op->block->func->module->mesh;
  msc_atoms atoms;
  uint8_t in_from[MSC_MAX_SUBAXES], in_to[MSC_MAX_SUBAXES];
  msc_layout raw;
  if (!msc_atoms_of(mesh, 2, (const msc_layout *[]){from, to}, &atoms)) return NULL;
  const msc_layout *l[2] = {from, to};
  int num[2], count = 0;
  for (int k = 0; k < 2; k++) {
    int cuts = l[k]->first[l[k]->rank];
    num[k] = msc_atoms_in(&atoms, partial ? l[k]->num_partial : cuts, partial ? l[k]->sub + cuts : l[k]->sub,
                          k ? in_to : in_from);
  }
  memset(&raw, 0, sizeof raw);
  raw.rank = 1;
  for (int a = 0; a < atoms.num; a++)
    if (num[0] && memchr(in_from, a, (size_t)num[0]) && !(num[1] && memchr(in_to, a, (size_t)num[1])))
      raw.sub[count++] = atoms.atom[a];
  raw.first[1] = (uint8_t)count;
  return msc_layout_of(ctx, mesh, &raw);
}

const msc_layout *comm_digits_of(const msc_op *op, size_t i) {
  msc_verb verb = msc_op_verb(op);
  if (!msc_verb_fuses(verb)) return NULL;
  const msc_layout *axes = msc_op_layout(op, "axes");
  return axes ? axes
              : find_lost_digits(op, op->in[i].value->type->layout, op->out[i].type->layout, msc_verb_reduces(verb));
}

int64_t comm_bytes_of(const msc_op *op, size_t i) {
  return msc_local_bytes(msc_verb_gathers(msc_op_verb(op)) ? op->out[i].type : op->in[i].value->type);
}

static double collective_ns(const msc_cost *cost, msc_verb verb, const msc_layout *digits, int64_t bytes) {
  msc_cost_transfer t = {.verb = verb, .ranks = msc_layout_parts(digits, 0)};
  for (int i = 0; i < digits->first[1]; i++) {
    int level = msc_cost_level(cost, digits->sub[i]);
    if (level > t.level) t.level = level;
  }
  t.bytes = (bytes - bytes / t.ranks) * (msc_verb_row_of(verb)->receives == MSC_RECEIVES_TWICE ? 2 : 1);
  return (double)msc_cost_collective(cost, &t);
}

comm_link comm_link_of(const msc_cost *cost, msc_verb verb, const msc_layout *digits, int64_t few, int64_t many) {
  double low = collective_ns(cost, verb, digits, few), high = collective_ns(cost, verb, digits, many);
  if (many <= few) return (comm_link){.start_ns = low};
  double slope = (high - low) / (double)(many - few), start = low - slope * (double)few;
  return (comm_link){.start_ns = start > 0 ? start : 0, .ns_per_byte = slope > 0 ? slope : 0};
}
