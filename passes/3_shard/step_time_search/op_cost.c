/* op_cost.c: a member under a choice of parts -> time of its kernel and bytes that it keeps (see op_cost.h). */
#include "passes/3_shard/step_time_search/op_cost.h"

#include "ir/conv.h"

const msc_type *shard_tensor_type(msc_context *ctx, const shard_variable *v, const shard_member *m, int tensor) {
  if (!m->op) return msc_type_with_layout(ctx, v->copied->type, NULL);
  return tensor < m->op->num_in ? m->op->in[tensor].value->type : m->op->out[tensor - m->op->num_in].type;
}

/* Writes the sizes of the member's letters on one device. */
static void local_sizes(const shard_member *m, const int64_t *parts, int64_t *out_size) {
  int64_t own[MSC_MAX_LETTERS];
  for (int l = 0; l < m->rule->num_letters; l++) own[l] = m->to_variable[l] < 0 ? 1 : parts[m->to_variable[l]];
  msc_rule_sizes(m->rule, own, out_size);
}

/* The most rows of a dimension of so many that a rank receives: those that windows reach before and behind its part of
 * `own` windows, and those by which its part of the operand begins elsewhere. */
static int64_t received_rows(const msc_op *op, int dim, int64_t rows, int64_t parts, int64_t own, int64_t reach) {
  msc_conv c = msc_conv_of(op);
  const msc_window *w = &c.dim[dim - 2];
  int64_t part = (rows + parts - 1) / parts,
          step = c.of_x_result ? (w->x + parts - 1) / parts / w->stride : own * w->stride,
          shift = (step > part ? step - part : part - step) * (parts - 1);
  return msc_min(part + reach, reach + shift);
}

/* The time to receive the rows of other parts that windows see, for each operand and each dimension that is cut. It
 * takes the slowest level of links, over which some neighbours of a cut over all ranks talk. */
static int64_t halo_ns(const shard_model *of, const msc_cost *cost, const shard_variable *v, const shard_member *m,
                       const int64_t *size) {
  int64_t ns = 0;
  int level = 0;
  for (int a = 0; a < of->g->mesh->num_axes; a++) {
    int l = msc_cost_level(cost, (msc_subaxis){(uint32_t)a, 1, (uint32_t)of->g->mesh->axis[a].size});
    if (l > level) level = l;
  }
  for (size_t t = 0; t < m->op->num_in; t++) {
    const msc_tensor_letters *own = &m->rule->tensor[t];
    for (int d = 2; d < own->rank; d++) {
      int64_t lo, hi;
      int l = own->dim[d].num ? own->dim[d].letter[0] : -1;
      if (l < 0 || size[l] == m->rule->letter[l].size || !msc_halo_of(m->op, t, d, &lo, &hi)) continue;
      const msc_type *type = shard_tensor_type(of->g->ctx, v, m, (int)t);
      int64_t whole = m->rule->letter[l].size, parts = (whole + size[l] - 1) / size[l],
              received = received_rows(m->op, d, type->dim[d], parts, size[l], lo + hi), peers = 1 + (lo > 0 && hi > 0);
      if (!received) continue;
      double rows = (double)size[l] * (double)type->dim[d] / (double)whole;
      double bytes =
          msc_rule_elems(m->rule, t, type, size) / rows * (double)received * (double)msc_dtype_bytes(type->dtype);
      ns += msc_cost_collective(cost, &(msc_cost_transfer){MSC_EXCHANGE, level, peers + 1, (int64_t)bytes, peers});
    }
  }
  return ns;
}

int64_t shard_least_ns(const shard_model *of, const msc_cost *cost, int64_t devices) {
  double ns = 0;
  for (size_t v = 0; v < of->num_vars; v++)
    for (size_t k = 0; k < of->var[v].num_members; k++) {
      const shard_member *m = &of->var[v].member[k];
      if (!m->op || !m->rule || msc_info(m->op)->cost != MSC_COST_FLOPS || msc_info(m->op)->flags & MSC_COMPOSITE)
        continue;
      int64_t size[MSC_MAX_LETTERS];
      msc_rule_sizes(m->rule, NULL, size);
      msc_dtype dtype = shard_tensor_type(of->g->ctx, &of->var[v], m, 0)->dtype;
      ns += msc_rule_flops(m->op, m->rule, size) * 1e9 / cost->cluster->product_flops_per_s[dtype] / (double)devices;
    }
  return ns < 1e18 ? (int64_t)ns : (int64_t)1e18;
}

int64_t shard_work_ns(const shard_model *of, const msc_cost *cost, const shard_variable *v, const shard_member *m,
                      const int64_t *parts) {
  msc_cost_class class = m->op ? msc_info(m->op)->cost : MSC_COST_NONE;
  if (m->op && msc_info(m->op)->flags & MSC_COMPOSITE) return 0; /* priced as its expansion */
  if (!m->op || !m->rule || class == MSC_COST_NONE || class == MSC_COST_COMM) return 0;
  int64_t size[MSC_MAX_LETTERS];
  local_sizes(m, parts, size);
  msc_op_work w = msc_rule_work(m->op, m->rule, size);
  msc_dtype dtype = shard_tensor_type(of->g->ctx, v, m, 0)->dtype;
  int64_t ns = class == MSC_COST_FLOPS ? msc_cost_product(cost, dtype, w.flops, w.bytes)
                                       : msc_cost_work(cost, dtype, 0, w.bytes);
  return ns + (msc_is_windowed(m->op) ? halo_ns(of, cost, v, m, size) : 0);
}

int64_t shard_accumulate_ns(const shard_model *of, const msc_cost *cost, const shard_variable *v, const shard_member *m,
                            const int64_t *parts) {
  int g = of->num_micro > 1 && m->op && m->rule && msc_info(m->op)->flags & MSC_UPDATE ? msc_operand_called(m->op, "g")
                                                                                       : -1;
  if (g < 0) return 0;
  int64_t size[MSC_MAX_LETTERS];
  local_sizes(m, parts, size);
  const msc_type *type = shard_tensor_type(of->g->ctx, v, m, g);
  double bytes = msc_rule_elems(m->rule, (size_t)g, type, size) * (double)msc_dtype_bytes(type->dtype);
  return msc_cost_work(cost, type->dtype, 0, bytes); /* the product that makes it reads the sum, too */
}

/* The number of ranks among which the parallel optimizer cuts an operand of an update, of those that hold the same
 * part. */
static int64_t count_sharing_ranks(const shard_model *of, const shard_zero *zero, const shard_member *m, int operand,
                                   const int64_t *size) {
  const msc_tensor_letters *t = &m->rule->tensor[operand];
  int64_t repeats = msc_mesh_size(of->g->mesh);
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < t->dim[d].num; i++) {
      int64_t whole = m->rule->letter[t->dim[d].letter[i]].size, part = size[t->dim[d].letter[i]];
      if (part > 0) repeats /= (whole + part - 1) / part;
    }
  return repeats > 1 ? shard_zero_ranks(zero, m->op, operand, repeats) : 1;
}

double shard_kept_bytes(const shard_model *of, const shard_zero *zero, const shard_variable *v, const shard_member *m,
                        const int64_t *parts, bool *out_parameters) {
  *out_parameters = m->op && msc_info(m->op)->flags & MSC_UPDATE;
  if (!m->kept) return 0;
  const msc_op_info *info = m->op ? msc_info(m->op) : NULL;
  int64_t size[MSC_MAX_LETTERS];
  double bytes = 0;
  local_sizes(m, parts, size);
  for (int t = 0; t < 64 && m->kept >> t; t++) {
    if (!(m->kept >> t & 1)) continue;
    const msc_type *type = shard_tensor_type(of->g->ctx, v, m, t);
    double own = msc_rule_elems(m->rule, (size_t)t, type, size) * (double)msc_dtype_bytes(type->dtype);
    bool tied = *out_parameters && t < info->num_operands && info->operand[t].tied >= 0;
    bytes += tied && zero->stage ? own / (double)count_sharing_ranks(of, zero, m, t, size) : own;
  }
  return bytes;
}
