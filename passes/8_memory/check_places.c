/* check_places: checks a function with places; reports every value that is no longer there when it is read.
 *
 * The check goes through the ops in order and keeps a list of contents: a content is a value with all values that share
 * its place as views or parts. An op that writes to a range ends the contents that it touches. That is a fault if such
 * a content is still read: later, by a collective or a tiled product running at the same time, or by the op itself
 * unless it may work in place. The check reads the places alone and uses nothing of the lifetimes that pass allocate
 * computed. */
#include <string.h>

#include "ir/alias.h"
#include "ir/gemm.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/check.h"

enum { SCRATCH = -1, NOWHERE = -2, HOST_SCRATCH = -3 }; /* spaces; a number from 0 on is an argument */

/* Bytes [begin, end) of a space. */
typedef struct {
  int64_t space, begin, end;
} range;

/* A value with all values that share its place: where it lies, whether it is there, and who reads it last. */
typedef struct {
  range at;
  enum { UNBORN, THERE, LOST } state;
  const msc_op *thief; /* if LOST: the op that wrote over it */
  struct {
    const msc_op *op; /* the op that reads it longest; NULL: none yet */
    uint32_t until;   /* id of the op during which that read ends */
  } reader[2];        /* [0] calls, [1] collectives, which run one after the other */
} content;

typedef struct {
  msc_func *f;
  msc_arena *arena;
  msc_nester *nester;
  const uint32_t *ends; /* by op id: see msc_ends_of_reads */
  msc_value **value;    /* by id */
  uint32_t *root;       /* by id: the value whose place it shares */
  content *content;     /* by id, of roots */
  uint32_t *live;       /* roots of the contents that exist, sorted by space and offset; no two overlap */
  size_t num_live;
  int64_t scratch, host_scratch; /* bytes */
} place_checker;

static bool ranges_overlap(const range *a, const range *b) {
  return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static bool is_same_range(const range *a, const range *b) {
  return a->space == b->space && a->begin == b->begin && a->end == b->end;
}

static const char *describe_range(const place_checker *z, const range *r) {
  const char *bytes = msc_arena_printf(z->arena, "bytes %" PRId64 " to %" PRId64, r->begin, r->end);
  if (r->space < 0)
    return msc_arena_printf(z->arena, "%s of %s", bytes, r->space == SCRATCH ? "scratch" : "host scratch");
  const char *name = r->space < (int64_t)z->f->body->num_args ? z->f->body->args[r->space]->name : NULL;
  return msc_arena_printf(z->arena, "%s of argument %" PRId64 "%s%s", bytes, r->space, name ? " " : "",
                          name ? name : "");
}

/* ---- values that share a place ---- */

static uint32_t content_root(place_checker *z, uint32_t id) {
  while (z->root[id] != id) id = z->root[id] = z->root[z->root[id]];
  return id;
}

static content *content_of_value(place_checker *z, const msc_value *v) { return &z->content[content_root(z, v->id)]; }

static bool value_has_place(const msc_value *v) {
  bool on_disk = v->def && v->def->kind == OP_stash && !msc_is_made_on_host(v);
  return !v->def || (!msc_is_constant_op(v->def) && !msc_runs_in_tiles(v->def) && !on_disk);
}

static void find_content_roots(place_checker *z) {
  msc_block *b = z->f->body;
  for (size_t i = 0; i < b->num_args; i++)
    z->value[b->args[i]->id] = b->args[i], z->root[b->args[i]->id] = b->args[i]->id;
  for (msc_op *op = b->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++)
      z->value[op->out[i].id] = &op->out[i], z->root[op->out[i].id] = msc_memory_of(&op->out[i]).root->id;
}

/* ---- each place by itself ---- */

static const msc_attr_value *place_attr(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(place));
  if (!v || v->kind != MSC_ATTR_LIST || v->list.num != op->num_out) return NULL;
  for (size_t i = 0; i < v->list.num; i++)
    if (v->list.v[i].kind != MSC_ATTR_INT) return NULL;
  return v;
}

static range scratch_range(bool on_host, int64_t begin, int64_t bytes) {
  int64_t end;
  return (range){on_host ? HOST_SCRATCH : SCRATCH, begin, __builtin_add_overflow(begin, bytes, &end) ? INT64_MAX : end};
}

/* The range of the value, as its op says. */
static range range_of_value(const msc_value *v) {
  int64_t bytes = msc_type_bytes(v->type);
  if (!value_has_place(v)) return (range){.space = NOWHERE};
  if (!v->def) return (range){v->index, 0, bytes};
  int64_t place =
      msc_op_attr(v->def, MSC_FACT(place))->list.v[v->index].i; /* check_each_place has checked that it exists */
  return place < 0 ? (range){-1 - place, 0, bytes} : scratch_range(msc_is_made_on_host(v), place, bytes);
}

static bool check_inside(const place_checker *z, const msc_op *op, const char *what, const range *r) {
  int64_t room = r->space == HOST_SCRATCH ? z->host_scratch : z->scratch, args = (int64_t)z->f->body->num_args;
  if (r->space >= args)
    return msc_op_error(op, MSC_E_PLAN, "%s: %s lies in argument %" PRId64 ", but there are %" PRId64,
                        msc_kind_name(op->kind), what, r->space, args);
  if (r->space >= 0) room = msc_type_bytes(z->f->body->args[r->space]->type);
  if (r->end > room || r->begin > r->end)
    return msc_op_error(op, MSC_E_PLAN, "%s: %s lies in %s, which has %" PRId64, msc_kind_name(op->kind), what,
                        describe_range(z, r), room);
  if (r->begin % MSC_ALIGN == 0) return true;
  return msc_op_error(op, MSC_E_PLAN, "%s: %s lies in %s, which does not begin at a multiple of %d",
                      msc_kind_name(op->kind), what, describe_range(z, r), MSC_ALIGN);
}

static bool check_view(place_checker *z, const msc_value *v, const msc_value *of, int64_t shift) {
  range mine = range_of_value(v), its = range_of_value(of);
  if (its.space == NOWHERE ||
      (mine.space == its.space && mine.begin == its.begin + shift * msc_dtype_bytes(v->type->dtype)))
    return true;
  msc_op_error(v->def, MSC_E_PLAN,
               "%s: result %u lies in %s, but shares the place of what lies in %s, %" PRId64
               " elements behind its begin",
               msc_kind_name(v->def->kind), v->index, describe_range(z, &mine), describe_range(z, &its), shift);
  return false;
}

static bool check_result_place(place_checker *z, const msc_value *v) {
  uint32_t root = content_root(z, v->id);
  if (!value_has_place(v)) return true;
  msc_memory m = msc_memory_of(v);
  if (m.root != v) return check_view(z, v, m.root, m.shift);
  range r = z->content[root].at = range_of_value(v);
  return check_inside(z, v->def, msc_arena_printf(z->arena, "result %u", v->index), &r);
}

static bool needs_working_memory(const place_checker *z, const msc_op *op) {
  return msc_scratch_bytes(z->nester, op) > 0;
}

static range range_of_work(const place_checker *z, const msc_op *op) {
  int64_t at = msc_op_attr(op, MSC_FACT(work))->i;
  return scratch_range(msc_runs_on_host(op), at, (int64_t)msc_scratch_bytes(z->nester, op));
}

static bool check_working_memory(const place_checker *z, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(work));
  if (!needs_working_memory(z, op)) return true;
  if (!v || v->kind != MSC_ATTR_INT || v->i < 0)
    return msc_op_error(op, MSC_E_PLAN, "%s: has no place for its working memory", msc_kind_name(op->kind));
  range r = range_of_work(z, op);
  return check_inside(z, op, "its working memory", &r);
}

static bool check_each_place(place_checker *z) {
  bool ok = true;
  for (size_t i = 0; i < z->f->body->num_args; i++) {
    const msc_value *v = z->f->body->args[i];
    z->content[v->id] = (content){.at = {(int64_t)i, 0, msc_type_bytes(v->type)}, .state = THERE};
  }
  for (const msc_op *op = z->f->body->first; op; op = op->next)
    if (op->num_out && !place_attr(op))
      ok = msc_op_error(op, MSC_E_PLAN, "%s: has no places for its %u results", msc_kind_name(op->kind), op->num_out);
  bool complete = ok;
  for (const msc_op *op = z->f->body->first; complete && op; op = op->next) ok &= check_working_memory(z, op);
  for (const msc_op *op = z->f->body->first; complete && op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) ok &= check_result_place(z, &op->out[i]);
  return ok;
}

/* ---- live contents ---- */

static int compare_ranges(const range *a, const range *b) {
  if (a->space != b->space) return a->space < b->space ? -1 : 1;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Index of the first live content that ends after the begin of r. */
static size_t first_live_at(const place_checker *z, const range *r) {
  size_t low = 0, high = z->num_live;
  while (low < high) {
    size_t mid = (low + high) / 2;
    const range *at = &z->content[z->live[mid]].at;
    bool before = at->space == r->space ? at->end <= r->begin : compare_ranges(at, r) < 0;
    if (before) low = mid + 1;
    else high = mid;
  }
  return low;
}

static const char *describe_root(const place_checker *z, uint32_t root) {
  const msc_value *v = z->value[root];
  if (!v->def)
    return msc_arena_printf(z->arena, "argument %u%s%s", v->index, v->name ? " " : "", v->name ? v->name : "");
  return msc_arena_printf(z->arena, "result %u of %s%s%s", v->index, msc_kind_name(v->def->kind),
                          v->def->name ? " " : "", v->def->name ? v->def->name : "");
}

static bool report_lost(const place_checker *z, const msc_op *reader, const char *what, uint32_t root) {
  const content *c = &z->content[root];
  msc_op_error(reader, MSC_E_PLAN, "%s: reads %s in %s, which %s has overwritten", msc_kind_name(reader->kind), what,
               describe_range(z, &c->at), msc_kind_name(c->thief->kind));
  msc_note(msc_op_ctx(reader), c->thief->loc, "overwritten here");
  return false;
}

static bool check_reader(place_checker *z, const msc_op *op, const range *r, uint32_t root, bool collective) {
  const msc_op *reader = z->content[root].reader[collective].op;
  if (!reader || reader == op || z->content[root].reader[collective].until < op->id) return true;
  msc_op_error(op, MSC_E_PLAN, "%s: writes to %s, where %s still reads %s", msc_kind_name(op->kind),
               describe_range(z, r), msc_kind_name(reader->kind), describe_root(z, root));
  msc_note(msc_op_ctx(op), reader->loc, "read here, until that one is done");
  return false;
}

/* Ends all contents that overlap r; false, after reports, if one of them is still read while op runs. */
static bool overwrite_range(place_checker *z, const msc_op *op, const range *r) {
  size_t from = first_live_at(z, r), to = from;
  bool ok = true;
  for (; to < z->num_live && ranges_overlap(&z->content[z->live[to]].at, r); to++) {
    uint32_t root = z->live[to];
    z->content[root].state = LOST, z->content[root].thief = op;
    ok &= check_reader(z, op, r, root, false) && (op->kind == OP_comm || check_reader(z, op, r, root, true));
  }
  memmove(z->live + from, z->live + to, (z->num_live - to) * sizeof *z->live);
  z->num_live -= to - from;
  return ok;
}

static void add_live_content(place_checker *z, uint32_t root) {
  const range *r = &z->content[root].at;
  if (r->begin == r->end) return; /* an empty content overlaps nothing */
  size_t at = first_live_at(z, r);
  memmove(z->live + at + 1, z->live + at, (z->num_live - at) * sizeof *z->live);
  z->live[at] = root;
  z->num_live++;
}

/* ---- in place ---- */

/* True if the op may write result o over operand i. */
static bool may_write_over_operand(const place_checker *z, const msc_op *op, size_t i, size_t o) {
  if (msc_sums_over_ranks(op)) return i == o;
  if (op->kind == OP_scatter_update) return i == 0 && !msc_target_of_op(op)->is_gpu;
  if (op->kind == OP_gemm) return o == 0 && op->in[i].value == msc_gemm_operand(op, MSC_GEMM_ADD);
  if (!op->body && !msc_nest_can_fuse(op)) return msc_tied_result(op, i) == (int)o;
  return msc_nest_can_fuse(op) && msc_may_update(z->nester, op, i, o);
}

/* Checks that r, which op writes, overlaps no operand except one that may be overwritten. out: the number of the
 * result, or -1 for working memory. */
static bool check_beside_operands(place_checker *z, const msc_op *op, const char *what, const range *r, int64_t out) {
  size_t met = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const content *c = content_of_value(z, v);
    bool other_part = out >= 0 && content_root(z, v->id) == content_root(z, op->out[out].id);
    if (!value_has_place(z->value[content_root(z, v->id)]) || other_part || !ranges_overlap(&c->at, r)) continue;
    range mine = range_of_value(v);
    if (out >= 0 && !met++ && is_same_range(&mine, r) && may_write_over_operand(z, op, i, (size_t)out)) continue;
    return msc_op_error(op, MSC_E_PLAN, "%s: %s lies in %s, over operand %zu, which it still reads",
                        msc_kind_name(op->kind), what, describe_range(z, r), i);
  }
  return true;
}

/* ---- op by op ---- */

static void record_reader(content *c, const msc_op *op, uint32_t until) {
  bool collective = op->kind == OP_comm;
  if (c->reader[collective].op && c->reader[collective].until >= until) return;
  c->reader[collective].op = op, c->reader[collective].until = until;
}

static bool read_operands(place_checker *z, const msc_op *op) {
  bool ok = true;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    uint32_t root = content_root(z, v->id);
    content *c = &z->content[root];
    if (!value_has_place(z->value[root])) continue;
    if (c->state == LOST)
      ok = report_lost(z, op, msc_arena_printf(z->arena, "operand %zu, %s,", i, describe_root(z, root)), root);
    record_reader(c, op, msc_end_of_read(z->ends, op, i));
  }
  return ok;
}

static bool write_op_result(place_checker *z, const msc_op *op, size_t o) {
  const msc_value *v = &op->out[o];
  uint32_t root = content_root(z, v->id);
  content *c = &z->content[root];
  if (!value_has_place(v)) return true;
  range part = range_of_value(v), whole = root == v->id ? part : c->at;
  bool ok = check_beside_operands(z, op, msc_arena_printf(z->arena, "result %zu", o), &whole, (int64_t)o);
  for (size_t k = 0; k < o; k++) {
    range other = range_of_value(&op->out[k]);
    if (content_root(z, op->out[k].id) != root && ranges_overlap(&other, &part))
      ok = msc_op_error(op, MSC_E_PLAN, "%s: results %zu and %zu lie over each other in %s", msc_kind_name(op->kind), k,
                        o, describe_range(z, &part));
  }
  if (c->state != UNBORN) return ok; /* another part of the same content was written, or lost, before */
  ok &= overwrite_range(z, op, &c->at);
  c->state = THERE;
  add_live_content(z, root);
  return ok;
}

static bool use_working_memory(place_checker *z, const msc_op *op) {
  if (!needs_working_memory(z, op)) return true;
  range r = range_of_work(z, op);
  bool ok = check_beside_operands(z, op, "its working memory", &r, -1);
  for (size_t o = 0; o < op->num_out; o++) {
    const content *c = content_of_value(z, &op->out[o]);
    if (value_has_place(&op->out[o]) && ranges_overlap(&c->at, &r))
      ok = msc_op_error(op, MSC_E_PLAN, "%s: its working memory lies over result %zu in %s", msc_kind_name(op->kind), o,
                        describe_range(z, &r));
  }
  return overwrite_range(z, op, &r) && ok;
}

/* Checks the end of the step: new values of arguments that were made elsewhere are copied one after the other, then
 * results are read. */
static bool check_return(place_checker *z, const msc_op *ret) {
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    if (arg < 0) continue;
    uint32_t root = content_root(z, ret->in[i].value->id);
    const content *c = &z->content[root];
    if (!value_has_place(z->value[root])) continue;
    range to = {arg, 0, msc_type_bytes(z->f->body->args[arg]->type)}, from = range_of_value(ret->in[i].value);
    if (c->state == LOST)
      ok = report_lost(z, ret, msc_arena_printf(z->arena, "result %zu, %s,", i, describe_root(z, root)), root);
    if (!is_same_range(&from, &to)) ok &= overwrite_range(z, ret, &to);
  }
  for (size_t i = 0; i < ret->num_in; i++) {
    uint32_t root = content_root(z, ret->in[i].value->id);
    bool tied = msc_tied_argument(z->f, i) >= 0;
    if (!tied && value_has_place(z->value[root]) && z->content[root].state == LOST)
      ok = report_lost(z, ret, msc_arena_printf(z->arena, "result %zu, %s,", i, describe_root(z, root)), root);
  }
  return ok;
}

/* A product in tiles is nowhere whole: the kernel right behind it takes each tile. */
static bool check_tiles(const msc_op *op) {
  const msc_op *user = op->next;
  if (msc_has_one_use(&op->out[0]) && op->out[0].uses->user == user && msc_nest_can_fuse(user) && !msc_is_view(user))
    return true;
  return msc_op_error(op, MSC_E_PLAN, "%s: no kernel behind it takes its tiles", msc_kind_name(op->kind));
}

static bool check_op_places(place_checker *z, const msc_op *op) {
  if (msc_info(op)->flags & MSC_TERMINATOR) return check_return(z, op);
  if (msc_runs_in_tiles(op)) MSC_TRY(check_tiles(op));
  bool ok = read_operands(z, op);
  if (msc_is_view(op) || msc_moves_nothing(op)) return ok;
  ok &= use_working_memory(z, op);
  for (size_t o = 0; o < op->num_out; o++) ok &= write_op_result(z, op, o);
  return ok;
}

static bool is_placed(const msc_func *f) {
  if (msc_func_attr(f, MSC_FACT(scratch))) return true;
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_op_attr(op, MSC_FACT(place))) return true;
  return false;
}

static bool check_func_places(msc_func *f, msc_arena *arena) {
  const msc_attr_value *scratch = msc_func_attr(f, MSC_FACT(scratch));
  msc_numbering n = msc_number(f->body);
  place_checker z = {.f = f,
                     .arena = arena,
                     .nester = msc_nester_new(f->module->ctx, arena, msc_target_of(f->module)),
                     .ends = msc_ends_of_reads(arena, f)};
  if (scratch && (scratch->kind != MSC_ATTR_INT || scratch->i < 0))
    return msc_error(f->module->ctx, MSC_E_PLAN, f->loc, "%s: scratch must be a number of bytes", f->name);
  z.scratch = scratch ? scratch->i : 0;
  z.host_scratch = msc_fact_read(f, host_scratch, 0);
  z.value = msc_new_array(arena, msc_value *, n.num_values);
  z.root = msc_new_array(arena, uint32_t, n.num_values);
  z.content = msc_new_array(arena, content, n.num_values);
  z.live = msc_new_array(arena, uint32_t, n.num_values + 1);
  find_content_roots(&z);
  MSC_TRY(check_each_place(&z));
  for (size_t i = 0; i < f->body->num_args; i++) add_live_content(&z, f->body->args[i]->id);
  bool ok = true;
  for (const msc_op *op = f->body->first; op; op = op->next) ok &= check_op_places(&z, op);
  return ok;
}

bool msc_check_places(msc_module *m) {
  bool ok = true;
  for (msc_func *f = m->first; f; f = f->next) {
    msc_arena *arena = msc_arena_new(m->ctx);
    if (is_placed(f)) ok &= check_func_places(f, arena);
    msc_arena_free(arena);
  }
  return ok;
}
