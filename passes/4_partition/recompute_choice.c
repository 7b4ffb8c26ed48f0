/* recompute_choice.c: chooses which parts of the forward the backward recomputes, to save a number of bytes at the peak
 * or to keep a block within its limit (see recompute.h).
 *
 * The forward is cut into pieces where only one value crosses; 1, 2, 4 ... neighbouring pieces are a group. A group
 * keeps what the backward reads (KEEP), recomputes the ops that are cheap, without products and collectives (CHEAP), or
 * recomputes everything except its results (FULL). While the backward is in group g, memory holds what the groups
 * before g keep and all that g needs: the largest such sum is the peak. For each group size the choices that save most
 * bytes for their time are made until the peak is low enough, and those that were not needed are undone.
 *
 * A block with a limit is a group of its own and gets the first choice that keeps few enough bytes.
 *
 * How many bytes are to be saved with recompute=auto, codegen/recompute_trials.c finds out by compiling. */
#include <string.h>

#include "ir/alias.h"
#include "passes/4_partition/recompute.h"
#include "passes/5_comm/timing.h"
#include "passes/time_model.h"

typedef enum { KEEP, CHEAP, FULL, NUM_CHOICES } choice;

typedef struct {
  int64_t bytes[NUM_CHOICES]; /* kept until the backward of this group */
  int64_t ns[NUM_CHOICES];    /* time to recompute the rest */
  choice now;
} group;

typedef struct {
  msc_arena *arena;
  msc_func *f;
  const bool *forward;
  msc_cost cost;
  size_t num_ops, num_pieces;
  msc_op **op;
  uint32_t *piece;    /* by op id, of forward ops */
  size_t size, shift; /* pieces per group, and how many fewer the first group has */
  uint32_t first;     /* groups before this one are not changed */
  int64_t *saved;     /* by op id: bytes of its results that the backward reads */
} recompute_chooser;

static bool is_cheap_to_recompute(const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  return flags & MSC_PURE && !(flags & MSC_COLLECTIVE) && msc_info(op)->cost != MSC_COST_FLOPS;
}

static bool is_unmarked_pure(const msc_op *op, const msc_attr_value *mark) {
  return !mark && !msc_is_constant_op(op) && (msc_info(op)->flags & (MSC_PURE | MSC_MOVES));
}

/* ---- what ops cost ---- */

static int64_t recompute_ns(const recompute_chooser *c, const msc_op *op) {
  enum { LINK = 16 }; /* a link moves about this many times fewer bytes per second than memory */
  double bytes = 0;
  if (!(msc_info(op)->flags & MSC_COLLECTIVE)) return comm_work_ns(&c->cost, op, c->arena);
  for (size_t i = 0; i < op->num_in; i++) bytes += (double)msc_local_bytes(op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) bytes += (double)msc_local_bytes(op->out[i].type);
  return msc_cost_work(&c->cost, op->out[0].type->dtype, 0, LINK * bytes);
}

/* ---- what the backward reads ---- */

/* The op in whose result the value lies; NULL: it lies in an argument. */
static msc_op *op_of_memory(const msc_value *v) { return msc_memory_of(v).root->def; }

static void find_saved_bytes(recompute_chooser *c) {
  for (size_t i = 0; i < c->num_ops; i++)
    for (size_t k = 0; c->forward[i] && k < c->op[i]->num_out; k++) {
      const msc_value *v = &c->op[i]->out[k];
      bool read = false;
      for (const msc_use *u = v->uses; u && !read; u = u->next) read = !c->forward[u->user->id];
      const msc_op *m = read ? op_of_memory(v) : NULL;
      if (m && c->forward[m->id] && !msc_is_constant_op(m) && !c->saved[m->id])
        c->saved[m->id] = msc_local_bytes(v->type);
    }
}

/* ---- pieces ---- */

/* The last forward op that reads a result of op, or op itself. */
static uint32_t last_reader(const recompute_chooser *c, const msc_op *op) {
  uint32_t last = op->id;
  for (size_t k = 0; k < op->num_out; k++)
    for (const msc_use *u = op->out[k].uses; u; u = u->next)
      if (c->forward[u->user->id] && u->user != c->f->body->last && u->user->id > last) last = u->user->id;
  return last;
}

/* True if an operand depends on the samples of the batch. */
static bool depends_on_samples(const recompute_chooser *c, const msc_op *op, const bool *of_samples) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (v->def ? of_samples[v->def->id] : msc_arg_role(c->f, v->index) <= MSC_ROLE_MASK) return true;
  }
  return false;
}

/* Cuts the forward where only one value that depends on the samples is live. A value with a far reader, as a mask,
 * is not counted: it would prevent every cut. */
static void find_chain_pieces(recompute_chooser *c) {
  size_t n = c->num_ops, far = n / 8 > 64 ? n / 8 : 64;
  bool *of_samples = msc_new_array(c->arena, bool, n);
  uint32_t *ends = msc_new_array(c->arena, uint32_t, n + 1);
  int64_t open = 0;
  c->num_pieces = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (!c->forward[i]) continue;
    c->piece[i] = (uint32_t)c->num_pieces - 1;
    of_samples[i] = depends_on_samples(c, c->op[i], of_samples);
    uint32_t last = last_reader(c, c->op[i]);
    open -= ends[i];
    if (of_samples[i] && last > i && last - i < far) open++, ends[last]++;
    if (open <= 1 && of_samples[i]) c->num_pieces++;
  }
}

/* ---- groups ---- */

static uint32_t group_of_op(const recompute_chooser *c, size_t id) {
  return (uint32_t)((c->piece[id] + c->shift) / c->size);
}

static bool is_read_by_other_group(const recompute_chooser *c, const msc_op *op) {
  for (size_t k = 0; k < op->num_out; k++)
    for (const msc_use *u = op->out[k].uses; u; u = u->next)
      if (c->forward[u->user->id] && group_of_op(c, u->user->id) != group_of_op(c, op->id)) return true;
  return false;
}

/* True if the user asked for op to be recomputed: by its own mark, or as part of a block, whose results are kept. */
static bool is_recompute_requested(const recompute_chooser *c, const msc_op *op) {
  const msc_attr_value *mark = msc_op_attr(op, MSC_FACT(recompute));
  if (!mark || mark->kind != MSC_ATTR_STR) return mark && mark->kind == MSC_ATTR_BOOL && mark->b;
  for (size_t k = 0; k < op->num_out; k++)
    for (const msc_use *u = op->out[k].uses; u; u = u->next) {
      const msc_attr_value *of_user = msc_op_attr(u->user, MSC_FACT(recompute));
      if (c->forward[u->user->id] && !(of_user && msc_attr_equal(of_user, mark))) return false;
    }
  return true;
}

static bool may_recompute(const recompute_chooser *c, const msc_op *op, choice k) {
  return k != KEEP && group_of_op(c, op->id) >= c->first &&
         is_unmarked_pure(op, msc_op_attr(op, MSC_FACT(recompute))) && !is_read_by_other_group(c, op) &&
         (k == FULL || is_cheap_to_recompute(op));
}

/* Adds up, for every group, the bytes it keeps and its recompute time under choice k. Walks backward: an op is
 * recomputed if it may be and either the backward or another recomputed op reads its result; otherwise its result is
 * kept for the group that reads it. */
static void price_groups(const recompute_chooser *c, group *g, choice k) {
  uint32_t *wanted = msc_new_array(c->arena, uint32_t, c->num_ops); /* 1 + the group that wants it, or 0 */
  for (size_t i = c->num_ops; i-- > 0;) {
    const msc_op *op = c->op[i];
    if (!c->forward[i] || msc_is_return(op) || msc_is_constant_op(op)) continue;
    group *own = &g[group_of_op(c, i)];
    bool again = (wanted[i] || c->saved[i]) && (is_recompute_requested(c, op) || may_recompute(c, op, k));
    if (!again) {
      own->bytes[k] += c->saved[i];
      if (wanted[i] && !c->saved[i]) g[wanted[i] - 1].bytes[k] += msc_local_bytes(op->out[0].type);
      continue;
    }
    own->ns[k] += recompute_ns(c, op);
    for (size_t in = 0; in < op->num_in; in++)
      if (op->in[in].value->def && !wanted[op->in[in].value->def->id])
        wanted[op->in[in].value->def->id] = group_of_op(c, i) + 1;
  }
}

static int64_t find_peak_group(const group *g, size_t num, size_t *out_at) {
  int64_t before = 0, peak = 0;
  for (size_t i = 0; i < num; i++) {
    if (before + g[i].bytes[KEEP] > peak) peak = before + g[i].bytes[KEEP], *out_at = i;
    before += g[i].bytes[g[i].now];
  }
  return peak;
}

/* Makes the choice in a group before `at` that saves most bytes for its time; false if none saves any. */
static bool improve_best_group(group *g, size_t at) {
  double best = 0;
  group *which = NULL;
  choice what = KEEP;
  for (size_t i = 0; i < at; i++)
    for (int k = g[i].now + 1; k < NUM_CHOICES; k++) {
      int64_t bytes = g[i].bytes[g[i].now] - g[i].bytes[k], ns = g[i].ns[k] - g[i].ns[g[i].now];
      double worth = bytes > 0 ? (double)bytes / (double)(ns > 0 ? ns : 1) : 0;
      if (worth > best) best = worth, which = &g[i], what = (choice)k;
    }
  if (which) which->now = what;
  return which != NULL;
}

static void undo_needless_choices(group *g, size_t num, int64_t target) {
  size_t at;
  for (size_t i = num; i-- > 0;)
    for (choice was = g[i].now, k = KEEP; k < was && g[i].now == was; k++) {
      g[i].now = k;
      if (find_peak_group(g, num, &at) > target) g[i].now = was;
    }
}

/* Chooses for every group until the peak is at most `target`. Returns the recompute time; *out_peak is the peak
 * reached. */
static int64_t choose_per_group(group *g, size_t num, int64_t target, int64_t *out_peak) {
  size_t at = 0;
  int64_t ns = 0;
  while (find_peak_group(g, num, &at) > target && improve_best_group(g, at)) continue;
  *out_peak = find_peak_group(g, num, &at);
  if (*out_peak <= target) undo_needless_choices(g, num, target);
  /* the target cannot be reached by what is counted here: keep as little as possible */
  for (size_t i = 0; i<num && * out_peak> target; i++) g[i].now = FULL;
  for (size_t i = 0; i < num; i++) ns += g[i].ns[g[i].now];
  return ns;
}

/* ---- marks ---- */

static void mark_chosen_ops(const recompute_chooser *c, const group *g) {
  msc_context *ctx = c->f->module->ctx;
  for (size_t i = 0; i < c->num_ops; i++) {
    msc_op *op = c->op[i];
    if (!c->forward[i] || msc_is_return(op) || !is_unmarked_pure(op, msc_op_attr(op, MSC_FACT(recompute)))) continue;
    choice now = g[group_of_op(c, i)].now;
    if (now == FULL)
      msc_op_put(op, msc_fact_recompute(msc_str(ctx, msc_arena_printf(c->arena, "group%u", group_of_op(c, i)))));
    else if (now == CHEAP && is_cheap_to_recompute(op) && !is_read_by_other_group(c, op))
      msc_op_put(op, msc_fact_recompute(msc_bool(true)));
  }
}

static recompute_chooser choosing_of(msc_pass_ctx *pass, msc_func *f, const bool *forward) {
  msc_arena *a = pass->scratch;
  recompute_chooser c = {.arena = a, .f = f, .forward = forward, .num_ops = f->body->last->id + 1, .size = 1};
  msc_cost_of(msc_pass_cluster(pass), &f->module->mesh, &c.cost);
  c.op = msc_new_array(a, msc_op *, c.num_ops);
  c.piece = msc_new_array(a, uint32_t, c.num_ops);
  c.saved = msc_new_array(a, int64_t, c.num_ops);
  for (msc_op *op = f->body->first; op; op = op->next) c.op[op->id] = op;
  find_saved_bytes(&c);
  return c;
}

int64_t recompute_choose(msc_pass_ctx *pass, msc_func *f, const bool *forward, int64_t saving, size_t only,
                         size_t shift) {
  enum { MOST_GROUPS = 512, MOST_SHIFTS = 4 };
  msc_arena *a = pass->scratch;
  recompute_chooser c = choosing_of(pass, f, forward);
  find_chain_pieces(&c);
  group *best = NULL;
  size_t best_size = 1, best_shift = 0, at;
  int64_t best_ns = 0, best_missed = 0;
  for (c.size = 1; c.size <= 2 * c.num_pieces; c.size *= 2)
    for (c.shift = 0; c.shift < c.size && c.shift < MOST_SHIFTS; c.shift++) {
      size_t num = (c.num_pieces + c.shift + c.size - 1) / c.size;
      if (num > MOST_GROUPS || (only && (c.size != only || c.shift != shift))) continue;
      group *g = msc_new_array(a, group, num);
      for (int k = 0; k < NUM_CHOICES; k++) price_groups(&c, g, (choice)k);
      int64_t target = find_peak_group(g, num, &at) - saving, peak = 0, ns = choose_per_group(g, num, target, &peak),
              missed = peak > target ? peak - target : 0;
      if (best && (missed > best_missed || (missed == best_missed && ns >= best_ns))) continue;
      best = g, best_size = c.size, best_shift = c.shift, best_ns = ns, best_missed = missed;
    }
  c.size = best_size, c.shift = best_shift;
  if (best && saving > 0) mark_chosen_ops(&c, best);
  return best && saving > 0 ? best_ns : 0;
}

/* ---- blocks with a limit ---- */

/* The `memory_limit` of the op's block, {bytes = N, name = "block"}; NULL: no limit. */
static const msc_attr_value *memory_limit_attr(const msc_op *op) { return msc_op_attr(op, MSC_FACT(memory_limit)); }

static int64_t bytes_of_limit(const msc_attr_value *limit) {
  return msc_find_attr(limit->dict.a, limit->dict.num, "bytes")->i;
}

/* Makes every block with a limit a piece, numbered from 1; piece 0 is everything else. Returns the first op of each
 * block. */
static const msc_op **find_limited_blocks(recompute_chooser *c) {
  const msc_op **block = msc_new_array(c->arena, const msc_op *, c->num_ops + 1);
  c->num_pieces = 1;
  for (size_t i = 0; i < c->num_ops; i++) {
    const msc_attr_value *limit = c->forward[i] ? memory_limit_attr(c->op[i]) : NULL;
    size_t b = limit ? 1 : 0;
    while (limit && b < c->num_pieces && !msc_attr_equal(limit, memory_limit_attr(block[b]))) b++;
    if (b == c->num_pieces) block[c->num_pieces++] = c->op[i];
    c->piece[i] = (uint32_t)b;
  }
  return block;
}

static bool choose_within_limit(group *g, const msc_op *block) {
  const msc_attr_value *limit = memory_limit_attr(block);
  int64_t most = bytes_of_limit(limit);
  while (g->bytes[g->now] > most)
    if (++g->now == NUM_CHOICES)
      return msc_op_error(block, MSC_E_INFEASIBLE,
                          "memory_limit of block '%s' is %" PRId64 " bytes, and it keeps at least %" PRId64
                          " for the backward of a micro-batch",
                          msc_find_attr(limit->dict.a, limit->dict.num, "name")->s, most, g->bytes[FULL]);
  return true;
}

bool recompute_limit_blocks(msc_pass_ctx *pass, msc_func *f, const bool *forward) {
  recompute_chooser c = choosing_of(pass, f, forward);
  const msc_op **block = find_limited_blocks(&c);
  if (c.num_pieces == 1) return true;
  c.first = 1;
  group *g = msc_new_array(c.arena, group, c.num_pieces);
  for (int k = 0; k < NUM_CHOICES; k++) price_groups(&c, g, (choice)k);
  bool ok = true;
  for (size_t b = 1; b < c.num_pieces; b++) ok &= choose_within_limit(&g[b], block[b]);
  if (ok) mark_chosen_ops(&c, g);
  return ok;
}
