/* fuse: ops that can share one loop nest -> one `fused` op, if that saves more memory traffic than it computes
 * again.
 *
 * The pass visits ops in program order and tries to join each with the regions of its operands.  Regions stand in a
 * list in which each one comes after all its predecessors (for data, and for the new value of an argument, which
 * comes after every read of the old one).  To join two regions, those between them that depend on the first must
 * move behind the second.  If the second depends on one of them, this would close a cycle, and the two stay apart.
 * A value that only the backward needs is not computed in the forward if more would then be kept in between: of y =
 * tanh(x) only y is kept, not 1 - y * y too.  On a GPU, small independent casts, sums over micro-batches and updates
 * become one kernel too: a launch takes as long as they do. */

#include "ir/interp/interp.h"
#include "passes/7_lower/depend.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/direction.h"
#include "passes/pass.h"

/* Most regions between two that are joined, which keeps the pass linear; networks of fifty layers have fewer between
 * the first gradient and its update. */
enum { MAX_WINDOW = 8192 };

typedef struct region {
  size_t num;
  msc_op **op;   /* in program order */
  uint64_t cost; /* bytes moved and arithmetic of its kernel */
  msc_nest_kind kind;
  size_t place; /* in fusing.order */
  bool follows; /* depends on the first of the two regions that are to be joined */
  bool emitted;
} region;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_nester *nester;
  msc_depend deps;
  const bool *forward; /* by op id */
  region **of;         /* by op id */
  region **order;      /* NULL where a region was absorbed */
  size_t num_places;
  region **followers; /* room of `reorder` for those between two regions */
} fuser;

/* ---- constants ---- */

static bool is_splat_constant(const msc_op *op) {
  return msc_is_constant_op(op) &&
         msc_op_attr(op, "value")->dense.bytes == (size_t)msc_dtype_bytes(op->out[0].type->dtype);
}

/* True if user is the next op after op, not counting splats. */
static bool is_followed_by(const msc_op *op, const msc_op *user) {
  do op = op->next;
  while (op && is_splat_constant(op));
  return op == user;
}

/* Replaces a cast of a splat by a splat: several kernels may read it, and as a buffer it may be large. */
static void cast_splat(msc_func *f, msc_op *cast) {
  const msc_op *splat = cast->in[0].value->def;
  if (!splat || !is_splat_constant(splat) || !msc_is_float(splat->out[0].type->dtype) ||
      !msc_is_float(cast->out[0].type->dtype))
    return;
  const msc_attr_value *number = msc_op_attr(splat, "value");
  const msc_tensor one = {msc_type_of(f->module->ctx, splat->out[0].type->dtype, 0, NULL, NULL),
                          (void *)(uintptr_t)number->dense.data};
  msc_builder b = {.func = f, .before = cast, .loc = cast->loc};
  msc_value *made = msc_build_scalar(&b, cast->out[0].type->dtype, msc_tensor_get(&one, 0));
  if (!made) return;
  msc_attr_value value = *msc_op_attr(made->def, "value");
  value.dense.type = made->type = cast->out[0].type, made->whole = cast->out[0].whole;
  msc_op_set(made->def, "value", value);
  msc_replace_uses(&cast->out[0], made);
  msc_op_erase(cast);
}

static void cast_splats(msc_func *f) {
  for (msc_op *op = f->body->first, *following; op; op = following) {
    following = op->next;
    if (op->kind == OP_cast) cast_splat(f, op);
  }
}

/* Gives every user of a splat but one a copy of its own, and moves the splat in front of the user that is left. */
static void copy_for_users(msc_func *f, msc_op *splat) {
  while (msc_has_uses(&splat->out[0]) && !msc_has_one_use(&splat->out[0])) {
    msc_use *u = splat->out[0].uses;
    msc_op *copy = msc_op_new(f, OP_constant, 0, NULL, 1, splat->loc);
    msc_insert_before(u->user, copy);
    msc_op_set(copy, "value", *msc_op_attr(splat, "value"));
    copy->out[0].type = splat->out[0].type;
    for (msc_use *same = u, *next; same; same = next) { /* all operands of one user */
      next = same->next;
      if (same->user == u->user) msc_set_operand(same->user, (size_t)(same - same->user->in), &copy->out[0]);
    }
  }
  const msc_use *left = splat->out[0].uses;
  if (!left || is_followed_by(splat, left->user)) return;
  msc_op_unlink(splat);
  msc_insert_before(left->user, splat);
}

/* Removes constants that nobody reads, and gives every user of a splat one of its own, in front of it: inside a kernel
 * a splat costs nothing, as a buffer it does. */
static void copy_splats(msc_func *f) {
  for (msc_op *op = f->body->first, *following; op; op = following) {
    following = op->next;
    if (is_splat_constant(op)) copy_for_users(f, op);
    if (msc_is_constant_op(op) && !msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
}

/* ---- joining ---- */

static region *merge_regions(fuser *z, const region *a, const region *b) {
  region *m = msc_new(z->pass->scratch, region);
  m->num = a->num + b->num;
  m->op = msc_new_array(z->pass->scratch, msc_op *, m->num);
  for (size_t i = 0, ia = 0, ib = 0; i < m->num; i++) {
    bool from_a = ib == b->num || (ia < a->num && a->op[ia]->id < b->op[ib]->id);
    m->op[i] = from_a ? a->op[ia++] : b->op[ib++];
  }
  return m;
}

/* Bytes moved, and arithmetic as the bytes that the target moves meanwhile. */
static uint64_t count_work(const msc_target *target, const msc_nest_info *info) {
  return info->bytes + info->flops / (uint64_t)target->flops_of_byte;
}

static bool depends_on(const fuser *z, const region *r, const region *first) {
  for (size_t i = 0; i < r->num; i++)
    for (const uint32_t *p = msc_depend_begin(&z->deps, r->op[i]->id); p < msc_depend_end(&z->deps, r->op[i]->id);
         p++) {
      const region *before = z->of[*p];
      if (before == first || (before->follows && before != r)) return true;
    }
  return false;
}

/* Marks the regions between the two that depend on the first.  False: the second depends on one of them. */
static bool mark_between(fuser *z, const region *first, region *second) {
  bool through = false;
  for (size_t i = first->place + 1; i < second->place; i++)
    if (z->order[i]) z->order[i]->follows = depends_on(z, z->order[i], first);
  for (size_t i = 0; i < second->num && !through; i++)
    for (const uint32_t *p = msc_depend_begin(&z->deps, second->op[i]->id);
         p < msc_depend_end(&z->deps, second->op[i]->id) && !through; p++)
      through = z->of[*p]->follows && z->of[*p] != second;
  return !through;
}

/* Puts at the places from first to second: regions that do not follow, the merged region m, regions that do.  Clears
 * the marks. */
static void reorder(fuser *z, const region *first, const region *second, region *m) {
  size_t from = first->place, to = second->place, at = from;
  size_t num_followers = 0;
  for (size_t i = from + 1; i < to; i++) {
    region *r = z->order[i];
    if (r && r->follows) z->followers[num_followers++] = r;
    else if (r) z->order[at] = r, r->place = at++;
  }
  z->order[at] = m;
  m->place = at++;
  for (size_t i = 0; i < num_followers; i++) {
    region *r = z->order[at] = z->followers[i];
    r->follows = false;
    r->place = at++;
  }
  while (at <= to) z->order[at++] = NULL;
}

static void clear_marks(fuser *z, const region *first, const region *second) {
  for (size_t i = first->place + 1; i < second->place; i++)
    if (z->order[i]) z->order[i]->follows = false;
}

static bool is_fusible(const region *r) { return msc_nest_can_fuse(r->op[0]); }

/* True if one of its ops is a copy for reductions across rows (across.c). */
static bool is_apart_from_rows(const region *r) {
  size_t i = 0;
  while (i < r->num && !msc_op_attr(r->op[i], MSC_FACT(across))) i++;
  return i < r->num;
}

/* The results of the reduction of r with the fewest; 0: it has none. */
static int64_t fewest_sums(const region *r) {
  int64_t fewest = 0;
  for (size_t i = 0; i < r->num; i++) {
    int64_t num = msc_form_of(r->op[i]) == MSC_FORM_REDUCE ? msc_type_elems(r->op[i]->out[0].type) : 0;
    if (num && (!fewest || num < fewest)) fewest = num;
  }
  return fewest;
}

static bool has_lookups(const region *r) {
  size_t i = 0;
  while (i < r->num && r->op[i]->kind != OP_gather) i++;
  return i < r->num;
}

/* Does one region sum rows that it looks up, and the other sum the results further?  One kernel would read these rows
 * with the stride of the outer sum, and only as many threads as that has results would do all the work. */
static bool sums_sums_of_lookups(const region *a, const region *b) {
  int64_t of_a = fewest_sums(a), of_b = fewest_sums(b);
  return (of_b && has_lookups(a) && of_a > of_b) || (of_a && has_lookups(b) && of_b > of_a);
}

/* Would a kernel that sums across rows be merged into one that sums along them?  The vectors of such a row kernel lie
 * along the summed dimension, so here their elements would be a row apart, and the elements of a row would be visited
 * one by one.  The order of the sums would also differ from that of ranks that sum parts of rows by a collective. */
static bool turns_columns(const region *a, const region *b, msc_nest_kind merged) {
  return merged == MSC_NEST_ROW && (a->kind == MSC_NEST_COLUMN || b->kind == MSC_NEST_COLUMN);
}

static bool pays_to_merge(fuser *z, const region *a, const region *b, region *m) {
  msc_nest_info info;
  const char *why;
  if (sums_sums_of_lookups(a, b)) return false;
  if (!msc_nest_fits(z->nester, m->num, (const msc_op *const *)m->op, &info, &why)) {
    msc_remark(z->pass, m->op[m->num - 1], "not fused with %s: %s", msc_kind_name(m->op[0]->kind), why);
    return false;
  }
  if ((info.kind == MSC_NEST_ROW && is_apart_from_rows(m)) || turns_columns(a, b, info.kind)) return false;
  m->cost = count_work(msc_target_of_op(m->op[m->num - 1]), &info), m->kind = info.kind;
  return m->cost < a->cost + b->cost;
}

/* ---- values that the forward keeps for the backward ---- */

/* When an op, or the first one of a region, runs. */
typedef enum { FORWARD, AGAIN, BACKWARD } step_phase;

static step_phase step_phase_of(const fuser *z, const msc_op *op) {
  return z->forward[op->id] ? FORWARD : msc_op_attr(op, MSC_FACT(recompute)) ? AGAIN : BACKWARD;
}

static step_phase find_first_phase(const fuser *z, const region *r) {
  step_phase first = BACKWARD;
  for (size_t i = 0; i < r->num; i++)
    if (step_phase_of(z, r->op[i]) < first) first = step_phase_of(z, r->op[i]);
  return first;
}

static bool is_in(const fuser *z, const msc_op *op, const region *a, const region *b) {
  return op && op->block == z->f->body && (z->of[op->id] == a || z->of[op->id] == b);
}

static bool is_used_outside(const fuser *z, const msc_value *v, const region *a, const region *b) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (!is_in(z, u->user, a, b)) return true;
  return false;
}

/* Bytes of those results of r that ops outside a and b use. */
static uint64_t bytes_left(const fuser *z, const region *r, const region *a, const region *b) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->num; i++)
    for (size_t k = 0; k < r->op[i]->num_out; k++)
      if (is_used_outside(z, &r->op[i]->out[k], a, b)) bytes += (uint64_t)msc_type_bytes(r->op[i]->out[k].type);
  return bytes;
}

/* Bytes of those operands of r that are there when `other` runs, computed outside both, and that only these two use;
 * each is counted once. */
static uint64_t bytes_ended(const fuser *z, const region *r, const region *other) {
  step_phase last = find_first_phase(z, other);
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->num; i++)
    for (size_t k = 0; k < r->op[i]->num_in; k++) {
      const msc_value *v = r->op[i]->in[k].value;
      const msc_use *u = v->uses;
      if (!v->def || msc_is_constant_op(v->def) || is_in(z, v->def, r, other) || step_phase_of(z, v->def) > last ||
          is_used_outside(z, v, r, other))
        continue;
      while (!is_in(z, u->user, r, r)) u = u->next;
      if (u == &r->op[i]->in[k]) bytes += (uint64_t)msc_type_bytes(v->type);
    }
  return bytes;
}

static bool keeps_more_for_backward(const fuser *z, const region *a, const region *b) {
  step_phase ta = find_first_phase(z, a), tb = find_first_phase(z, b);
  if (ta == tb) return false;
  const region *early = ta < tb ? a : b, *late = ta < tb ? b : a;
  return bytes_left(z, early, a, b) + bytes_left(z, late, a, b) >
         bytes_left(z, early, early, early) + bytes_ended(z, late, early);
}

/* Replaces the two regions by m.  False: the second depends on a region between them, and nothing was changed. */
static bool replace_by_merged(fuser *z, region *a, region *b, region *m) {
  region *first = a->place < b->place ? a : b, *second = first == a ? b : a;
  if (!mark_between(z, first, second)) {
    clear_marks(z, first, second);
    return false;
  }
  reorder(z, first, second, m);
  for (size_t i = 0; i < m->num; i++) z->of[m->op[i]->id] = m;
  return true;
}

/* The first op of a region that is no constant; NULL: there is none. */
static const msc_op *first_computed(const region *r) {
  size_t i = 0;
  while (i < r->num && msc_is_constant_op(r->op[i])) i++;
  return i < r->num ? r->op[i] : NULL;
}

static bool run_in_one_place(const region *a, const region *b) {
  const msc_op *x = first_computed(a), *y = first_computed(b);
  return !x || !y || msc_runs_on_host(x) == msc_runs_on_host(y);
}

static bool may_be_joined(const region *a, const region *b) {
  size_t apart = a->place < b->place ? b->place - a->place : a->place - b->place;
  return a != b && is_fusible(a) && is_fusible(b) && apart <= MAX_WINDOW && run_in_one_place(a, b);
}

static void join_if_cheaper(fuser *z, region *a, region *b) {
  if (!may_be_joined(a, b)) return;
  region *m = merge_regions(z, a, b);
  if (!keeps_more_for_backward(z, a, b) && pays_to_merge(z, a, b, m)) replace_by_merged(z, a, b, m);
}

/* ---- independent small kernels ---- */

/* True for casts that become one value, as biases of queries, keys and values. */
static bool is_concat_of_casts(const region *r) {
  enum { FEW = 4 };
  size_t i = 0;
  while (i + 1 < r->num && r->op[i]->kind == OP_cast) i++;
  return i + 1 == r->num && r->num <= FEW && r->op[i]->kind == OP_concat;
}

/* True for a cast, an update, perhaps with a cast of what it updates, or an addition to a sum over micro-batches; of a
 * gradient, or of some columns of one; and for casts that become one value. */
static bool has_few_ops(const region *r) {
  size_t columns = r->op[0]->kind == OP_slice;
  const msc_op *op = columns && r->num > 1 ? r->op[1] : r->op[0], *then = r->op[r->num - 1];
  bool updates = msc_info(op)->flags & MSC_UPDATE;
  if (r->num == 2 + columns)
    return (op->kind == OP_add && then->kind == OP_select) || (updates && then->kind == OP_cast);
  if (is_concat_of_casts(r)) return true;
  return r->num == 1 + columns && (op->kind == OP_cast || updates);
}

/* True if a GPU runs the region in about the time of a launch. */
static bool is_short_and_small(const region *r) {
  enum { SMALL = 1 << 20 };
  return r && has_few_ops(r) && r->op[0]->out[0].type->rank && msc_type_elems(r->op[0]->out[0].type) <= SMALL;
}

/* True if both ops have one kind and the same types.  Slices must begin at the same column: then groups with several of
 * them share one kernel, too. */
static bool ops_are_alike(const msc_op *a, const msc_op *b) {
  if (a->kind == OP_slice && b->kind == OP_slice &&
      !msc_attr_equal(msc_op_attr(a, MSC_FACT(start)), msc_op_attr(b, MSC_FACT(start))))
    return false;
  return a->kind == b->kind && a->out[0].type == b->out[0].type && a->num_in == b->num_in &&
         a->in[0].value->type == b->in[0].value->type;
}

static bool regions_are_alike(const region *group, const region *r) {
  return group->num % r->num == 0 && ops_are_alike(group->op[0], r->op[0]) &&
         ops_are_alike(group->op[group->num - 1], r->op[r->num - 1]);
}

static region *join_group(fuser *z, region *group, region *r) {
  msc_nest_info info;
  const char *why;
  if (group->num + r->num > MSC_NEST_OPS || !regions_are_alike(group, r) || !may_be_joined(group, r)) return NULL;
  region *m = merge_regions(z, group, r);
  if (!msc_nest_fits(z->nester, m->num, (const msc_op *const *)m->op, &info, &why)) return NULL;
  return replace_by_merged(z, group, r, m) ? m : NULL;
}

/* Joins small casts, sums and updates, which do not depend on each other, into kernels of several. */
static void join_small(fuser *z) {
  enum { GROUPS = 16 };
  region *group[GROUPS] = {0};
  size_t next = 0;
  for (size_t id = 0; id < z->deps.num_ops; id++) {
    region *r = z->of[id], *m = NULL;
    if (!is_short_and_small(r) || r->op[0]->id != id) continue;
    for (size_t g = 0; g < GROUPS && !m; g++)
      if (group[g] && (m = join_group(z, group[g], r))) group[g] = m;
    if (!m) group[next++ % GROUPS] = r;
  }
}

static void start_region(fuser *z, msc_op *op) {
  region *r = msc_new(z->pass->scratch, region);
  msc_nest_info info;
  const char *why;
  const msc_op *one = op;
  r->num = 1;
  r->op = msc_arena_copy(z->pass->scratch, &op, sizeof op);
  if (msc_nest_can_fuse(op) && msc_nest_fits(z->nester, 1, &one, &info, &why))
    r->cost = count_work(msc_target_of_op(op), &info), r->kind = info.kind;
  r->place = z->num_places;
  z->order[z->num_places++] = r;
  z->of[op->id] = r;
}

static void join_operand_regions(fuser *z, msc_op *op) {
  for (int i = op->num_in; i-- > 0;) {
    const msc_op *def = op->in[i].value->def;
    if (def) join_if_cheaper(z, z->of[def->id], z->of[op->id]);
  }
}

/* Joins op with kernels before it that read the same large value, which then is read once. */
static void join_reader_regions(fuser *z, msc_op *op) {
  enum { LARGE = 1 << 20, MOST_READERS = 8 };
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    size_t readers = 0;
    if (msc_type_elems(v->type) < LARGE || !is_fusible(z->of[op->id])) continue;
    for (const msc_use *u = v->uses; u && readers++ < MOST_READERS; u = u->next)
      if (u->user->id < op->id && u->user->block == z->f->body) join_if_cheaper(z, z->of[u->user->id], z->of[op->id]);
  }
}

/* ---- building ---- */

typedef struct {
  size_t num;
  msc_value **value;
} value_list;

static size_t index_of(const value_list *l, const msc_value *v) {
  size_t i = 0;
  while (i < l->num && l->value[i] != v) i++;
  return i;
}

static bool is_inside_region(const fuser *z, const region *r, const msc_op *op) {
  return op && op->block == z->f->body && z->of[op->id] == r;
}

static void collect_region_values(const fuser *z, const region *r, value_list *in, value_list *out) {
  for (size_t i = 0; i < r->num; i++) {
    for (int k = 0; k < r->op[i]->num_in; k++) {
      msc_value *v = r->op[i]->in[k].value;
      if (!is_inside_region(z, r, v->def) && index_of(in, v) == in->num) in->value[in->num++] = v;
    }
    for (int k = 0; k < r->op[i]->num_out; k++) {
      bool leaves = false;
      for (const msc_use *u = r->op[i]->out[k].uses; u && !leaves; u = u->next)
        leaves = !is_inside_region(z, r, u->user);
      if (leaves) out->value[out->num++] = &r->op[i]->out[k];
    }
  }
}

static value_list new_value_list(fuser *z, const region *r, bool in) {
  size_t room = 0;
  for (size_t i = 0; i < r->num; i++) room += in ? r->op[i]->num_in : r->op[i]->num_out;
  return (value_list){0, msc_new_array(z->pass->scratch, msc_value *, room)};
}

/* The value computed before the region that v, a result of one of its ops, has the elements of, in their order; NULL:
 * v is computed in the region, or what it shows is an argument, which may be overwritten before v is read. */
static msc_value *shown_by(const fuser *z, const region *r, msc_value *v) {
  while (is_inside_region(z, r, v->def) && msc_form_of(v->def) == MSC_FORM_RESHAPE) v = v->def->in[0].value;
  return v->def && !msc_is_constant_op(v->def) && !is_inside_region(z, r, v->def) ? v : NULL;
}

/* Gives other ops outside of the region reshapes of their own of what its ops only reshape: as views these cost
 * nothing, from a kernel they would be copies. */
static void reshape_for_users(fuser *z, const region *r) {
  for (size_t i = 0; i < r->num; i++) {
    msc_value *v = &r->op[i]->out[0], *shown = msc_form_of(r->op[i]) == MSC_FORM_RESHAPE ? shown_by(z, r, v) : NULL;
    msc_op *view = NULL;
    for (msc_use *u = shown ? v->uses : NULL, *next; u; u = next) {
      next = u->next;
      if (is_inside_region(z, r, u->user) || msc_info(u->user)->flags & MSC_TERMINATOR) continue;
      if (!view) {
        view = msc_op_new(z->f, OP_reshape, 1, &shown, 1, r->op[i]->loc);
        msc_op_put(view, msc_fact_shape(z->pass->ctx, v->type->rank, v->type->dim));
        msc_op_copy_attr(view, r->op[i], MSC_FACT(recompute));
        msc_op_copy_attr(view, r->op[i], MSC_FACT(primitive_target));
        view->name = r->op[i]->name, view->id = r->op[i]->id;
        view->out[0].type = v->type, view->out[0].whole = v->whole;
        msc_append(z->f->body, view);
      }
      msc_set_operand(u->user, (size_t)(u - u->user->in), &view->out[0]);
    }
  }
}

/* Moves the region's ops into the body of a new op at the end of the function. */
static void build_fused_op(fuser *z, const region *r) {
  reshape_for_users(z, r);
  value_list in = new_value_list(z, r, true), out = new_value_list(z, r, false);
  collect_region_values(z, r, &in, &out);
  const msc_op *named = r->op[r->num - 1];
  msc_op *fused = msc_op_new(z->f, OP_fused, in.num, in.value, out.num, named->loc);
  fused->name = named->name;
  fused->id = named->id; /* it takes their place in the numbering */
  msc_append(z->f->body, fused);
  bool again = true;
  for (size_t i = 0; i < r->num; i++) again &= msc_op_attr(r->op[i], MSC_FACT(recompute)) != NULL;
  if (again) msc_op_put(fused, msc_fact_recompute(msc_bool(true)));
  if (msc_runs_on_host(named)) msc_op_set(fused, MSC_FACT(primitive_target), msc_str(z->pass->ctx, "CPU"));
  fused->body = msc_block_new(z->f, fused);
  for (size_t i = 0; i < in.num; i++) msc_add_arg(fused->body, in.value[i]->type, NULL);
  for (size_t i = 0; i < out.num; i++) {
    fused->out[i].type = out.value[i]->type;
    for (msc_use *u = out.value[i]->uses, *next; u; u = next) {
      next = u->next;
      if (!is_inside_region(z, r, u->user)) msc_set_operand(u->user, (size_t)(u - u->user->in), &fused->out[i]);
    }
  }
  for (size_t i = 0; i < r->num; i++) {
    msc_op *op = r->op[i];
    for (int k = 0; k < op->num_in; k++) {
      size_t at = index_of(&in, op->in[k].value);
      if (at < in.num) msc_set_operand(op, (size_t)k, fused->body->args[at]);
    }
    msc_append(fused->body, op);
  }
  msc_append(fused->body, msc_op_new(z->f, OP_yield, out.num, out.value, 0, named->loc));
}

/* True if the region moves nothing: as one kernel it would be a copy. */
static bool is_all_views(const region *r) {
  for (size_t i = 0; i < r->num; i++)
    if (msc_form_of(r->op[i]) != MSC_FORM_RESHAPE) return false;
  return true;
}

/* Appends region r to the function, after its predecessors that are not there yet.  Returns the number of kernels.  A
 * stack, not recursion: chains are long. */
static int64_t emit_with_predecessors(fuser *z, region *r, region **stack) {
  size_t depth = 0;
  int64_t kernels = 0;
  stack[depth++] = r;
  while (depth) {
    region *top = stack[depth - 1];
    size_t own = depth;
    for (size_t i = 0; i < top->num && !top->emitted; i++)
      for (const uint32_t *p = msc_depend_begin(&z->deps, top->op[i]->id); p < msc_depend_end(&z->deps, top->op[i]->id);
           p++)
        if (z->of[*p] != top && !z->of[*p]->emitted) stack[depth++] = z->of[*p];
    if (depth > own) continue;
    depth--;
    if (top->emitted) continue;
    top->emitted = true;
    if (top->num == 1 || is_all_views(top))
      for (size_t i = 0; i < top->num; i++) msc_append(z->f->body, top->op[i]);
    else build_fused_op(z, top), kernels++;
  }
  return kernels;
}

/* Appends all regions to the empty function, each where its last op stood, or in front of an earlier successor.  So an
 * op of the backward that was joined with an update at the end delays nothing, and no op runs earlier than it did. */
static int64_t emit_regions(fuser *z) {
  size_t n = z->deps.num_ops;
  region **stack = msc_new_array(z->pass->scratch, region *, z->deps.first[n] + 1);
  int64_t kernels = 0;
  z->f->body->first = z->f->body->last = NULL;
  for (size_t i = 0; i < n; i++) {
    region *r = z->of[i];
    if (r->op[r->num - 1]->id == i) kernels += emit_with_predecessors(z, r, stack);
  }
  return kernels;
}

static void fuse_func(msc_pass_ctx *pass, msc_func *f) {
  fuser z = {.pass = pass, .f = f, .nester = msc_nester_new(pass->ctx, pass->scratch, msc_target_of(f->module))};
  cast_splats(f);
  copy_splats(f);
  z.forward = msc_forward_ops(pass->scratch, f);
  z.deps = msc_depend_of(pass->scratch, f);
  z.of = msc_new_array(pass->scratch, region *, z.deps.num_ops);
  z.order = msc_new_array(pass->scratch, region *, z.deps.num_ops);
  z.followers = msc_new_array(pass->scratch, region *, z.deps.num_ops);
  for (msc_op *op = f->body->first; op; op = op->next) {
    start_region(&z, op);
    join_operand_regions(&z, op);
  }
  if (msc_target_of(f->module)->joins_readers)
    for (msc_op *op = f->body->first; op; op = op->next) join_reader_regions(&z, op);
  if (msc_target_of(f->module)->joins_small_kernels) join_small(&z);
  msc_stat(pass, "fused kernels", emit_regions(&z));
}

bool pass_fuse(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) fuse_func(pass, f);
  return true;
}
