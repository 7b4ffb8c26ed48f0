/* overlap: program order -> collectives start early and end late, other work in between: the order that ends first on
 * the described cluster, within the limit of memory.
 *
 * What was asked for to save memory is not taken back: with parameters or gradients cut over ranks (zero 2, 3), or ops
 * computed again, an order may need what program order needs, and beside it what prefetch_depth collectives hold, or
 * one.  Where it matters, an order is placed as pass allocate will do it, and one that needs too much makes room for a
 * slower one.
 *
 * A `comm` is a start; it is done when the first op needs its result.  `beside` on it says for how many ops after it,
 * its operands are still read: their places are not given to others meanwhile.  The order of the ops is the whole
 * schedule: every rank runs them in it, on one stream of compute and one of collectives, so ranks that meet do so in
 * the same order everywhere. */
#include <string.h>

#include "ir/alias.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/depend.h"
#include "passes/7_lower/graph.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/transfer.h"
#include "passes/8_memory/allocate.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/stage_costs.h"
#include "passes/8_memory/streams.h"
#include "passes/config/config.h"
#include "passes/pass.h"

/* A piece of work is an op, or a product with the op that takes its tiles, which stay together. */
typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_nester *nester;
  msc_cost cost;
  msc_depend deps;
  uint32_t *piece_of;   /* by op id */
  msc_op **op, **user;  /* by piece: its first op, and who takes its tiles or NULL */
  msc_streams s;
} overlapping;

static size_t find_pieces(overlapping *z) {
  size_t num = 0;
  z->piece_of = msc_new_array(z->pass->scratch, uint32_t, z->deps.num_ops);
  z->op = msc_new_array(z->pass->scratch, msc_op *, z->deps.num_ops);
  z->user = msc_new_array(z->pass->scratch, msc_op *, z->deps.num_ops);
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    bool joins = i && msc_runs_in_tiles(z->deps.op[i - 1]);
    if (joins) z->user[num - 1] = z->deps.op[i];
    else z->op[num++] = z->deps.op[i];
    z->piece_of[i] = (uint32_t)num - 1;
  }
  return num;
}

/* ---- time ---- */

static int64_t product_ns(const overlapping *z, const msc_op *op) {
  const msc_type *a = op->in[0].value->type, *y = op->out[0].type;
  double inner = (double)a->dim[a->rank - (msc_op_bool(op, "transpose_a") ? 2 : 1)], bytes = (double)msc_type_bytes(y);
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_type_bytes(op->in[i].value->type);
  return msc_cost_work(&z->cost, y->dtype, 2 * inner * (double)msc_type_elems(y), bytes);
}

static int64_t kernel_ns(const overlapping *z, const msc_op *op) {
  msc_nest_info info;
  const char *why;
  if (!op->num_out || !msc_nest_fits(z->nester, 1, &op, &info, &why)) return 0;
  return msc_cost_work(&z->cost, op->out[0].type->dtype, (double)info.flops, (double)info.bytes);
}

static uint64_t op_ns(const overlapping *z, const msc_op *op, bool *out_link) {
  msc_cost_transfer t;
  *out_link = false;
  if (op->kind == OP_comm) {
    int64_t ns = msc_transfer_of(&z->cost, op, z->pass->scratch, &t) ? msc_cost_collective(&z->cost, &t) : 0;
    *out_link = ns > 0; /* what stays on a rank is a copy */
    return (uint64_t)ns;
  }
  if (op->kind == OP_gemm) return (uint64_t)product_ns(z, op);
  if (msc_is_graph(op)) return (uint64_t)msc_graph_ns(op, &z->cost);
  return msc_nest_can_fuse(op) ? (uint64_t)kernel_ns(z, op) : 0;
}

static bool find_times(overlapping *z) {
  uint8_t *stream = msc_new_array(z->pass->scratch, uint8_t, z->s.num);
  uint64_t *ns = msc_new_array(z->pass->scratch, uint64_t, z->s.num);
  bool any = false;
  for (size_t i = 0; i < z->s.num; i++) {
    bool link;
    ns[i] = op_ns(z, z->op[i], &link);
    stream[i] = link;
    any |= link;
  }
  z->s.stream = stream;
  z->s.ns = ns;
  return any;
}

/* ---- what waits for what ---- */

/* Other stages wait for what is sent, and what is received is late enough where it stands: compute does not
 * pass a message. */
static bool is_border(const overlapping *z, uint32_t piece) {
  msc_op_kind kind = z->op[piece]->kind;
  return kind == OP_stage_send || kind == OP_stage_recv;
}

/* The parameter whose parts a collective gathers, or NULL. */
static const msc_value *gathered(const overlapping *z, const msc_op *op) {
  if (op->kind != OP_comm || strcmp(msc_op_str(op, "verb"), "all_gather") != 0) return NULL;
  const msc_value *v = op->in[0].value;
  if (v->def && v->def->num_in == 1) v = v->def->in[0].value; /* it was made narrower */
  return v->def || msc_arg_role(z->f, v->index) != MSC_ROLE_PARAMETER ? NULL : v;
}

/* "layer1.dense" of layer1.dense.weight and layer1.dense.bias: are they of one layer? */
static bool in_one_layer(const overlapping *z, const msc_value *a, const msc_value *b) {
  const char *x = msc_arg_name(z->f, a->index), *y = msc_arg_name(z->f, b->index), *end = strrchr(x, '.');
  return a == b || (end && !strncmp(x, y, (size_t)(end - x) + 1) && !strchr(y + (end - x) + 1, '.'));
}

static uint32_t first_user(const overlapping *z, const msc_op *op) {
  uint32_t first = UINT32_MAX;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (z->piece_of[u->user->id] < first) first = z->piece_of[u->user->id];
  return first;
}

/* By piece that gathers parameters, with zero 3: another one it waits for, so that no more than prefetch_depth layers
 * are there ahead of the one at work; of all others UINT32_MAX. */
static const uint32_t *find_ahead(const overlapping *z) {
  uint32_t *ahead = msc_new_array(z->pass->scratch, uint32_t, z->s.num),
           *starts = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  const msc_value *last = NULL;
  size_t num = 0; /* layers so far; their first users */
  memset(ahead, 0xff, z->s.num * sizeof *ahead);
  if (!z->pass->config || msc_config_zero(z->pass->config) < 3) return ahead;
  size_t depth = (size_t)msc_config_int(z->pass->config, MSC_KEY_prefetch_depth);
  for (size_t i = 0; i < z->s.num; i++) {
    const msc_value *v = gathered(z, z->op[i]);
    if (!v) continue;
    uint32_t user = first_user(z, z->op[i]);
    if (!last || !in_one_layer(z, last, v)) starts[num++] = user;
    else if (user < starts[num - 1]) starts[num - 1] = user;
    last = v;
    if (num > depth + 1) ahead[i] = starts[num - depth - 2];
  }
  return ahead;
}

/* The return waits for everything, so that it stays last. */
static void find_dependencies(overlapping *z) {
  size_t n = z->s.num;
  uint32_t *first = msc_new_array(z->pass->scratch, uint32_t, n + 1),
           *before = msc_new_array(z->pass->scratch, uint32_t, z->deps.first[z->deps.num_ops] + 4 * n);
  const uint32_t *ahead = find_ahead(z);
  for (uint32_t i = 0, op = 0, border = 0; i < n; i++) {
    bool last = i + 1 == n;
    first[i + 1] = first[i];
    for (; op < z->deps.num_ops && z->piece_of[op] == i; op++)
      for (const uint32_t *p = msc_depend_begin(&z->deps, op); p < msc_depend_end(&z->deps, op) && !last; p++)
        if (z->piece_of[*p] != i) before[first[i + 1]++] = z->piece_of[*p];
    if (ahead[i] < i) before[first[i + 1]++] = ahead[i];
    if (border < i && is_border(z, border)) before[first[i + 1]++] = border;
    for (uint32_t k = last ? 0 : border; (last || is_border(z, i)) && k < i; k++)
      if (last || !z->s.stream[k]) before[first[i + 1]++] = k;
    if (is_border(z, i)) border = i;
  }
  z->s.first = first;
  z->s.before = before;
}

/* ---- memory ---- */

static bool is_sum(const msc_op *op) { return op->kind == OP_comm && !strcmp(msc_op_str(op, "verb"), "all_reduce"); }
static bool may_be_summed_in_place(const msc_value *v) { return v->def && !msc_is_constant(v) && msc_has_one_use(v); }

/* The value whose place a value has: a view has its operand's, and so have sums over ranks where nobody
 * else reads that. */
static uint32_t *find_roots(const overlapping *z, size_t num_values) {
  uint32_t *root = msc_new_array(z->pass->scratch, uint32_t, num_values);
  for (uint32_t i = 0; i < num_values; i++) root[i] = i;
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    for (size_t k = 0; k < op->num_out; k++) root[op->out[k].id] = root[msc_memory_of(&op->out[k]).root->id];
    for (size_t k = 0; is_sum(op) && k < op->num_in; k++)
      if (may_be_summed_in_place(op->in[k].value)) root[op->out[k].id] = root[op->in[k].value->id];
  }
  return root;
}

/* By value id: values with a place of their own.  New values of arguments lie in the arguments' places. */
static bool *find_placed(const overlapping *z, const uint32_t *root, size_t num_values) {
  bool *placed = msc_new_array(z->pass->scratch, bool, num_values);
  const msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < z->deps.num_ops; i++)
    for (size_t k = 0; k < z->deps.op[i]->num_out; k++) {
      const msc_value *v = &z->deps.op[i]->out[k];
      placed[v->id] = root[v->id] == v->id && v->def->kind != OP_constant && !msc_runs_in_tiles(v->def);
    }
  for (size_t i = 0; i < ret->num_in; i++)
    if (msc_tied_argument(z->f, i) >= 0) placed[root[ret->in[i].value->id]] = false;
  return placed;
}

static void find_values(overlapping *z) {
  msc_arena *a = z->pass->scratch;
  size_t num_values = msc_number(z->f->body).num_values, num = 0;
  const uint32_t *root = find_roots(z, num_values);
  const bool *placed = find_placed(z, root, num_values);
  uint64_t *bytes = msc_new_array(a, uint64_t, num_values);
  uint32_t *maker = msc_new_array(a, uint32_t, num_values), *first = msc_new_array(a, uint32_t, num_values + 2),
           *number = msc_new_array(a, uint32_t, num_values);
  for (size_t i = 0; i < z->deps.num_ops; i++)
    for (size_t k = 0; k < z->deps.op[i]->num_out; k++) {
      const msc_value *v = &z->deps.op[i]->out[k];
      if (!placed[v->id]) continue;
      bytes[num] = (uint64_t)msc_type_bytes(v->type), maker[num] = z->piece_of[i];
      number[v->id] = (uint32_t)num++;
    }
  uint32_t *use = NULL;
  for (int filling = 0; filling < 2; filling++) {
    for (size_t i = 0; i < z->deps.num_ops; i++)
      for (size_t k = 0; k < z->deps.op[i]->num_in; k++) {
        uint32_t r = root[z->deps.op[i]->in[k].value->id];
        if (!placed[r]) continue;
        if (filling) use[first[number[r] + 1]++] = z->piece_of[i];
        else first[number[r] + 2]++;
      }
    for (size_t v = 0; !filling && v <= num; v++) first[v + 1] += first[v];
    if (!filling) use = msc_new_array(a, uint32_t, first[num + 1] + 1);
  }
  z->s.num_values = num;
  z->s.bytes = bytes, z->s.maker = maker, z->s.first_use = first, z->s.use = use;
}

/* ---- the order ---- */

static void write_order(overlapping *z, const uint32_t *order) {
  uint32_t *beside = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  msc_streams_measure(z->pass->scratch, &z->s, order, beside);
  z->f->body->first = z->f->body->last = NULL;
  for (size_t p = 0; p < z->s.num; p++) {
    uint32_t i = order[p];
    int64_t ops = beside[p];
    for (size_t k = p + 1; k <= p + beside[p]; k++) ops += z->user[order[k]] != NULL;
    msc_append(z->f->body, z->op[i]);
    if (z->user[i]) msc_append(z->f->body, z->user[i]);
    if (ops) msc_op_set(z->op[i], "beside", msc_int(ops));
    else msc_op_unset(z->op[i], "beside");
  }
}

static overlapping look_at(msc_pass_ctx *pass, msc_func *f) {
  overlapping z = {.pass = pass,
                   .f = f,
                   .nester = msc_nester_new(pass->ctx, msc_target_of(f->module)),
                   .deps = msc_depend_of(pass->scratch, f)};
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &z.cost);
  z.s.num = find_pieces(&z);
  return z;
}

static uint32_t *program_order(const overlapping *z) {
  uint32_t *order = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  for (uint32_t i = 0; i < z->s.num; i++) order[i] = i;
  return order;
}

uint64_t msc_section_ns(msc_pass_ctx *pass, msc_func *f) {
  overlapping z = look_at(pass, f);
  find_times(&z);
  find_dependencies(&z);
  return msc_streams_measure(pass->scratch, &z.s, program_order(&z), NULL).ns;
}

/* ---- memory that the user saves ---- */

static bool computes_again(const overlapping *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++)
    if (msc_op_attr(z->deps.op[i], "recompute")) return true;
  return false;
}

/* Bytes that the largest collective reads or makes. */
static uint64_t largest_collective(const overlapping *z) {
  uint64_t most = 0;
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    uint64_t in = 0, out = 0;
    for (size_t k = 0; op->kind == OP_comm && k < op->num_in; k++)
      in += (uint64_t)msc_type_bytes(op->in[k].value->type);
    for (size_t k = 0; op->kind == OP_comm && k < op->num_out; k++) out += (uint64_t)msc_type_bytes(op->out[k].type);
    if (in > most) most = in;
    if (out > most) most = out;
  }
  return most;
}

/* What an order may need more than program order: what so many collectives that are under way hold.  UINT64_MAX:
 * nothing is saved. */
static uint64_t allowance(const overlapping *z) {
  int64_t zero = z->pass->config ? msc_config_zero(z->pass->config) : 0;
  if (zero >= 2) return (uint64_t)msc_config_int(z->pass->config, MSC_KEY_prefetch_depth) * largest_collective(z);
  return computes_again(z) ? largest_collective(z) : UINT64_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The fastest order found that needs no more than `most`, as pass allocate places it; else program order. */
static msc_streams_time order_within(overlapping *z, uint64_t most, uint32_t *order) {
  enum { TRIES = 6 };
  for (int i = 0; i < TRIES; i++) {
    msc_streams_time t = msc_streams_order(z->pass->scratch, &z->s, order);
    write_order(z, order);
    uint64_t bytes = msc_scratch_of(z->pass, z->f);
    if (bytes <= most) return t;
    uint64_t limit = least(z->s.limit, t.peak);
    z->s.limit = limit - least(limit, (uint64_t)(i + 1) * (bytes - most));
  }
  for (uint32_t i = 0; i < z->s.num; i++) order[i] = i;
  write_order(z, order);
  for (size_t i = 0; i < z->s.num; i++) msc_op_unset(z->op[i], "beside"); /* what is written over waits */
  return msc_streams_measure(z->pass->scratch, &z->s, order, NULL);
}

static void overlap_func(msc_pass_ctx *pass, msc_func *f) {
  overlapping z = look_at(pass, f);
  if (!find_times(&z)) return;
  find_dependencies(&z);
  find_values(&z);
  uint32_t *order = program_order(&z);
  uint64_t room = msc_room_for_values(pass, f), more = allowance(&z);
  msc_streams_time before = msc_streams_measure(pass->scratch, &z.s, order, NULL), after;
  z.s.limit = least(room, plus(before.peak, more));
  bool matters = more != UINT64_MAX || plus(before.peak, before.peak) > room;
  if (matters) {
    uint64_t bytes = msc_scratch_of(pass, f);
    after = order_within(&z, least(plus(bytes, more), room > bytes ? room : bytes), order);
  } else {
    after = msc_streams_order(pass->scratch, &z.s, order);
    write_order(&z, order);
  }
  msc_remark(
      pass, NULL,
      "%s: %.3f ms, of it %.3f ms waiting for collectives; in program order %.3f ms and %.3f ms; live bytes %" PRIu64
      " after %" PRIu64,
      f->name, (double)after.ns / 1e6, (double)after.exposed / 1e6, (double)before.ns / 1e6,
      (double)before.exposed / 1e6, after.peak, before.peak);
  msc_stat(pass, "ns hidden", (int64_t)(before.ns - after.ns));
}

bool pass_overlap(msc_pass_ctx *pass, msc_module *m) {
  if (pass->config && !msc_config_bool(pass->config, MSC_KEY_overlap)) return true;
  for (msc_func *f = m->first; f; f = f->next)
    if (msc_mesh_size(&m->mesh) > 1) overlap_func(pass, f);
  return true;
}
