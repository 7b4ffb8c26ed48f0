/* overlap: program order -> the order in which collectives start early, are waited for late, and other work runs in
 * between: the one that ends first on the described cluster within the limit of memory.
 *
 * Memory that the user asked to save stays saved: with parameters or gradients cut over ranks (zero 2, 3), or with
 * recomputed ops, an order may need what program order needs plus what prefetch_depth collectives (or one) hold. Where
 * memory matters, an order is placed as pass allocate will do it, and one that needs too much gives way to a slower
 * one.
 *
 * A `comm` op starts a collective; it must be finished when the first op reads its result. Its attribute `beside` says
 * for how many of the following ops it still reads its operands: their places are not reused until then. The order of
 * the ops is the whole schedule: every rank runs the ops in this order, on one compute stream and one stream of
 * collectives, so ranks that meet in a collective do so in the same order everywhere. */
#include <string.h>

#include "ir/alias.h"
#include "ir/fact.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/depend.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/transfer.h"
#include "passes/8_memory/allocate.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/stage_costs.h"
#include "passes/8_memory/list_scheduling.h"
#include "passes/config/config.h"
#include "passes/pass.h"

/* A piece of work is an op, or a product together with the op that takes its tiles. */
typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_nester *nester;
  msc_cost cost;
  msc_depend deps;
  uint32_t *piece_of;  /* by op id */
  msc_op **op, **user; /* by piece: its first op, and the op that takes its tiles or NULL */
  msc_streams s;
} overlapper;

static size_t merge_ops_into_pieces(overlapper *z) {
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

static int64_t product_ns(const overlapper *z, const msc_op *op) {
  const msc_type *y = op->out[0].type;
  double bytes = msc_runs_in_tiles(op) ? 0 : (double)msc_type_bytes(y);
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_type_bytes(op->in[i].value->type);
  return msc_cost_product(&z->cost, y->dtype, msc_op_flops(op, z->pass->scratch), bytes);
}

static int64_t kernel_ns(const overlapper *z, const msc_op *op) {
  msc_nest_info info;
  const char *why;
  if (!op->num_out || !msc_nest_fits(z->nester, 1, &op, &info, &why)) return 0;
  double bytes = (double)info.bytes - (msc_runs_in_tiles(op) ? (double)msc_type_bytes(op->out[0].type) : 0);
  int64_t more = info.num_launches > 1 ? (info.num_launches - 1) * z->cost.cluster->launch_ns : 0;
  return msc_cost_work(&z->cost, op->out[0].type->dtype, (double)info.flops, bytes) + more;
}

/* The time of the op that takes the tiles of another one: its threads run it between tiles, which stay in the cache. It
 * needs no launch. */
static uint64_t taker_ns(const overlapper *z, const msc_op *maker, const msc_op *op) {
  msc_nest_info info;
  const char *why;
  double tiles = (double)msc_type_bytes(maker->out[0].type);
  if (!op->num_out || !msc_nest_fits(z->nester, 1, &op, &info, &why)) return 0;
  const msc_cluster *cluster = z->cost.cluster;
  double moved = (double)info.bytes > tiles ? (double)info.bytes - tiles : 0,
         arithmetic = (double)info.flops * 1e9 / cluster->flops_per_s[op->out[0].type->dtype],
         memory = moved * 1e9 / cluster->bytes_per_s;
  return (uint64_t)(arithmetic > memory ? arithmetic : memory);
}

static uint64_t op_ns(const overlapper *z, const msc_op *op, bool *out_link) {
  msc_cost_transfer t;
  *out_link = false;
  if (op->kind == OP_comm) {
    int64_t ns = msc_transfer_of(&z->cost, op, z->pass->scratch, &t) ? msc_cost_collective(&z->cost, &t) : 0;
    *out_link = ns > 0; /* a transfer within the rank is a copy, not a link */
    return (uint64_t)ns;
  }
  if (op->kind == OP_gemm) return (uint64_t)product_ns(z, op);
  if (msc_is_graph(op)) return (uint64_t)msc_graph_ns(op, &z->cost, z->pass->scratch);
  return msc_nest_can_fuse(op) ? (uint64_t)kernel_ns(z, op) : 0;
}

static bool predict_times(overlapper *z) {
  uint8_t *stream = msc_new_array(z->pass->scratch, uint8_t, z->s.num);
  uint64_t *ns = msc_new_array(z->pass->scratch, uint64_t, z->s.num);
  bool any = false;
  for (size_t i = 0; i < z->s.num; i++) {
    bool link;
    ns[i] = op_ns(z, z->op[i], &link) + (z->user[i] ? taker_ns(z, z->op[i], z->user[i]) : 0);
    stream[i] = link;
    any |= link;
  }
  z->s.stream = stream;
  z->s.ns = ns;
  return any;
}

/* ---- what waits for what ---- */

/* True if the piece is a message. Compute does not move past messages: other stages wait for those that are sent, and
 * those that are received do not arrive earlier. */
static bool is_message_piece(const overlapper *z, uint32_t piece) { return msc_is_message(z->op[piece]); }

/* The parameter whose parts the collective gathers; NULL: none. */
static const msc_value *gathered_parameter(const overlapper *z, const msc_op *op) {
  if (op->kind != OP_comm || !msc_verb_gathers(msc_op_verb(op))) return NULL;
  const msc_value *v = op->in[0].value;
  if (v->def && v->def->num_in == 1) v = v->def->in[0].value; /* a cast narrowed it first */
  return v->def || msc_arg_role(z->f, v->index) != MSC_ROLE_PARAMETER ? NULL : v;
}

/* True if two parameters belong to one layer, as layer1.dense.weight and layer1.dense.bias. */
static bool are_in_one_layer(const overlapper *z, const msc_value *a, const msc_value *b) {
  const char *x = msc_name_of_arg(z->f, a->index), *y = msc_name_of_arg(z->f, b->index), *end = strrchr(x, '.');
  return a == b || (end && !strncmp(x, y, (size_t)(end - x) + 1) && !strchr(y + (end - x) + 1, '.'));
}

static uint32_t first_user_piece(const overlapper *z, const msc_op *op) {
  uint32_t first = UINT32_MAX;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (z->piece_of[u->user->id] < first) first = z->piece_of[u->user->id];
  return first;
}

/* Under zero 3, for every piece that gathers parameters the piece that it must wait for, so that at most
 * prefetch_depth layers are gathered ahead of the one at work; UINT32_MAX for all other pieces. */
static const uint32_t *find_prefetch_limits(const overlapper *z) {
  uint32_t *ahead = msc_new_array(z->pass->scratch, uint32_t, z->s.num),
           *starts = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  const msc_value *last = NULL;
  size_t num = 0; /* number of layers so far; starts[] has the first user of each */
  memset(ahead, 0xff, z->s.num * sizeof *ahead);
  if (!z->pass->config || msc_config_zero(z->pass->config) < 3) return ahead;
  size_t depth = (size_t)msc_config_int(z->pass->config, MSC_KEY_prefetch_depth);
  for (size_t i = 0; i < z->s.num; i++) {
    const msc_value *v = gathered_parameter(z, z->op[i]);
    if (!v) continue;
    uint32_t user = first_user_piece(z, z->op[i]);
    if (!last || !are_in_one_layer(z, last, v)) starts[num++] = user;
    else if (user < starts[num - 1]) starts[num - 1] = user;
    last = v;
    if (num > depth + 1) ahead[i] = starts[num - depth - 2];
  }
  return ahead;
}

/* Lists the predecessors of every piece. The return waits for all pieces, so that it stays last. */
static void find_dependencies(overlapper *z) {
  size_t n = z->s.num;
  uint32_t *first = msc_new_array(z->pass->scratch, uint32_t, n + 1),
           *before = msc_new_array(z->pass->scratch, uint32_t, z->deps.first[z->deps.num_ops] + 4 * n);
  const uint32_t *ahead = find_prefetch_limits(z);
  for (uint32_t i = 0, op = 0, border = 0; i < n; i++) {
    bool last = i + 1 == n;
    first[i + 1] = first[i];
    for (; op < z->deps.num_ops && z->piece_of[op] == i; op++)
      for (const uint32_t *p = msc_depend_begin(&z->deps, op); p < msc_depend_end(&z->deps, op) && !last; p++)
        if (z->piece_of[*p] != i) before[first[i + 1]++] = z->piece_of[*p];
    if (ahead[i] < i) before[first[i + 1]++] = ahead[i];
    if (border < i && is_message_piece(z, border)) before[first[i + 1]++] = border;
    for (uint32_t k = last ? 0 : border; (last || is_message_piece(z, i)) && k < i; k++)
      if (last || !z->s.stream[k]) before[first[i + 1]++] = k;
    if (is_message_piece(z, i)) border = i;
  }
  z->s.first = first;
  z->s.before = before;
}

/* ---- memory ---- */

static bool may_be_summed_in_place(const msc_value *v) { return v->def && !msc_is_constant(v) && msc_has_one_use(v); }

/* Returns, by value id, the value whose place it uses: a view uses its operand's place, and so does a sum over ranks if
 * no other op reads the operand. */
static uint32_t *find_place_roots(const overlapper *z, size_t num_values) {
  uint32_t *root = msc_new_array(z->pass->scratch, uint32_t, num_values);
  for (uint32_t i = 0; i < num_values; i++) root[i] = i;
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    for (size_t k = 0; k < op->num_out; k++) root[op->out[k].id] = root[msc_memory_of(&op->out[k]).root->id];
    for (size_t k = 0; msc_sums_over_ranks(op) && k < op->num_in; k++)
      if (may_be_summed_in_place(op->in[k].value)) root[op->out[k].id] = root[op->in[k].value->id];
  }
  return root;
}

/* By value id: has it a place of its own? New values of arguments lie in the places of the arguments. */
static bool *find_placed(const overlapper *z, const uint32_t *root, size_t num_values) {
  bool *placed = msc_new_array(z->pass->scratch, bool, num_values);
  const msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < z->deps.num_ops; i++)
    for (size_t k = 0; k < z->deps.op[i]->num_out; k++) {
      const msc_value *v = &z->deps.op[i]->out[k];
      placed[v->id] = root[v->id] == v->id && !msc_is_constant_op(v->def) && !msc_runs_in_tiles(v->def);
    }
  for (size_t i = 0; i < ret->num_in; i++)
    if (msc_tied_argument(z->f, i) >= 0) placed[root[ret->in[i].value->id]] = false;
  return placed;
}

static void list_placed_values(overlapper *z) {
  msc_arena *a = z->pass->scratch;
  size_t num_values = msc_number(z->f->body).num_values, num = 0;
  const uint32_t *root = find_place_roots(z, num_values);
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

static void write_order(overlapper *z, const uint32_t *order) {
  uint32_t *beside = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  msc_streams_measure(z->pass->scratch, &z->s, order, beside);
  z->f->body->first = z->f->body->last = NULL;
  for (size_t p = 0; p < z->s.num; p++) {
    uint32_t i = order[p];
    int64_t ops = beside[p];
    for (size_t k = p + 1; k <= p + beside[p]; k++) ops += z->user[order[k]] != NULL;
    msc_append(z->f->body, z->op[i]);
    if (z->user[i]) msc_append(z->f->body, z->user[i]);
    if (ops) msc_op_put(z->op[i], msc_fact_beside(ops));
    else msc_op_unset(z->op[i], MSC_FACT(beside));
  }
}

static overlapper start_overlapping(msc_pass_ctx *pass, msc_func *f) {
  overlapper z = {.pass = pass,
                  .f = f,
                  .nester = msc_nester_new(pass->ctx, pass->scratch, msc_target_of(f->module)),
                  .deps = msc_depend_of(pass->scratch, f)};
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &z.cost);
  z.s.num = merge_ops_into_pieces(&z);
  z.s.is_trial = pass->options && pass->options->is_trial;
  return z;
}

static uint32_t *program_order(const overlapper *z) {
  uint32_t *order = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  for (uint32_t i = 0; i < z->s.num; i++) order[i] = i;
  return order;
}

uint64_t msc_section_ns(msc_pass_ctx *pass, msc_func *f) {
  overlapper z = start_overlapping(pass, f);
  predict_times(&z);
  find_dependencies(&z);
  return msc_streams_measure(pass->scratch, &z.s, program_order(&z), NULL).ns;
}

const uint64_t *msc_op_times(msc_pass_ctx *pass, msc_func *f) {
  uint64_t *ns = msc_new_array(pass->scratch, uint64_t, msc_number(f->body).num_ops);
  overlapper z = start_overlapping(pass, f);
  bool link;
  for (const msc_op *op = f->body->first; op; op = op->next)
    ns[op->id] = op->prev && msc_runs_in_tiles(op->prev) ? taker_ns(&z, op->prev, op) : op_ns(&z, op, &link);
  return ns;
}

/* ---- memory that the user saves ---- */

static bool recomputes_ops(const overlapper *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++)
    if (msc_op_attr(z->deps.op[i], MSC_FACT(recompute))) return true;
  return false;
}

/* The bytes that the largest collective reads or makes, whichever is more. */
static uint64_t largest_collective(const overlapper *z) {
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

/* The bytes that an order may need beyond program order: those that collectives under way hold. UINT64_MAX: the user
 * saves no memory. */
static uint64_t allowed_extra_bytes(const overlapper *z) {
  int64_t zero = z->pass->config ? msc_config_zero(z->pass->config) : 0;
  uint64_t depth, bytes;
  if (zero >= 2) {
    depth = (uint64_t)msc_config_int(z->pass->config, MSC_KEY_prefetch_depth);
    return __builtin_mul_overflow(depth, largest_collective(z), &bytes) ? UINT64_MAX : bytes;
  }
  return recomputes_ops(z) ? largest_collective(z) : UINT64_MAX;
}

static uint64_t add_saturating(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static uint64_t smaller_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Finds the fastest order that needs at most `most` bytes as pass allocate places it; if none does, program order. */
static msc_streams_time find_order_within(overlapper *z, uint64_t most, uint32_t *order) {
  enum { TRIES = 6 };
  uint32_t *last = msc_new_array(z->pass->scratch, uint32_t, z->s.num);
  uint64_t bytes = 0;
  for (int i = 0; i < TRIES; i++) {
    msc_streams_time t = msc_streams_order(z->pass->scratch, &z->s, order);
    if (!i || memcmp(last, order, z->s.num * sizeof *order) != 0) { /* less memory often gives the same order */
      write_order(z, order);
      bytes = msc_scratch_of(z->pass, z->f, most);
    }
    if (bytes <= most) return t;
    memcpy(last, order, z->s.num * sizeof *order);
    uint64_t limit = smaller_of(z->s.limit, t.peak);
    z->s.limit = limit - smaller_of(limit, (uint64_t)(i + 1) * (bytes - most));
  }
  for (uint32_t i = 0; i < z->s.num; i++) order[i] = i;
  write_order(z, order);
  /* without `beside` an op that overwrites an operand of a collective waits for the collective */
  for (size_t i = 0; i < z->s.num; i++) msc_op_unset(z->op[i], MSC_FACT(beside));
  return msc_streams_measure(z->pass->scratch, &z->s, order, NULL);
}

static void order_func_for_overlap(msc_pass_ctx *pass, msc_func *f) {
  overlapper z = start_overlapping(pass, f);
  if (!predict_times(&z)) return;
  find_dependencies(&z);
  list_placed_values(&z);
  uint32_t *order = program_order(&z);
  uint64_t room = msc_room_for_values(pass, f), more = allowed_extra_bytes(&z);
  msc_streams_time before = msc_streams_measure(pass->scratch, &z.s, order, NULL), after;
  z.s.limit = smaller_of(room, add_saturating(before.peak, more));
  bool matters = more != UINT64_MAX || add_saturating(before.peak, before.peak) > room;
  if (matters) {
    uint64_t bytes = msc_scratch_of(pass, f, more == UINT64_MAX ? room : 0);
    after = find_order_within(&z, smaller_of(add_saturating(bytes, more), room > bytes ? room : bytes), order);
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
    if (msc_mesh_size(&m->mesh) > 1) order_func_for_overlap(pass, f);
  return true;
}
