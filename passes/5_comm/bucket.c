/* bucket: collectives of gradients and parameters, of those that comm_fusion names -> one op for several of them, with
 * its number as `bucket`.
 *
 * Collectives of one class (kind, reduction, element type and group) may be merged if no path leads from the result of
 * one to the operand of another. That holds for those with the same zone: the number of members of the class on the
 * longest path to the collective. Classes are merged one after the other, so a later class sees an earlier bucket as
 * one op, and no cycle can arise. Which collectives of a zone are merged:
 *   ids       those with an equal number of 1 or more, from the op, the parameter or the ops that use it; 0: never
 *   sizes     in the order in which they are ready, until a number of bytes is reached
 *   indices   after so many, in that order
 *   optimal   so that the last transfer ends first by the cost model; the rule if no key sets another */
#include <stdlib.h>
#include <string.h>

#include "passes/5_comm/gradients.h"
#include "passes/5_comm/timing.h"
#include "passes/7_lower/depend.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef enum { ALONE, OPTIMAL, BY_BYTES, BY_INDEX } way;

typedef struct {
  way way;
  size_t num;
  const int64_t *number; /* limits in bytes, or indices */
} rule;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_cost cost;
  size_t num;
  comm_candidate *c;
  const msc_layout **digits;
  uint32_t *zone;
  int64_t joined, buckets;
} bucket_maker;

/* ---- what the configuration wants ---- */

static rule read_fusion_limits(msc_arena *arena, way w, const msc_attr_value *v, int64_t unit) {
  bool list = v->kind == MSC_ATTR_LIST;
  size_t num = list ? v->list.num : 1;
  int64_t *n = msc_new_array(arena, int64_t, num);
  for (size_t i = 0; i < num; i++) {
    int64_t one = list ? v->list.v[i].i : v->i;
    n[i] = one > INT64_MAX / unit ? INT64_MAX : one * unit;
  }
  return (rule){w, num, n};
}

static const msc_attr_value *config_field(const msc_attr_value *dict, const char *name) {
  for (size_t i = 0; dict && i < dict->dict.num; i++) /* the dictionary is in the order of the file, not sorted */
    if (!strcmp(dict->dict.a[i].name, name)) return &dict->dict.a[i].value;
  return NULL;
}

/* Reads the rule for one kind of collective. config/check.c has filled in the kinds that comm_fusion leaves out. */
static rule read_fusion_rule(const bucket_maker *z, msc_verb verb) {
  static const int64_t automatic = 64 << 20;
  msc_arena *arena = z->pass->scratch;
  const msc_attr_value *fusion = msc_config_value(z->pass->config, MSC_KEY_comm_fusion),
                       *list = msc_config_value(z->pass->config, MSC_KEY_all_reduce_fusion_config);
  const msc_attr_value *one = config_field(fusion, msc_verb_row_of(verb)->fusion), *mode = config_field(one, "mode"),
                       *config = config_field(one, "config");
  if (!fusion)
    return list && verb == MSC_ALL_REDUCE ? read_fusion_limits(arena, BY_INDEX, list, 1) : (rule){.way = OPTIMAL};
  if (mode && !strcmp(mode->s, "size")) return read_fusion_limits(arena, BY_BYTES, config, 1 << 20);
  if (mode && !strcmp(mode->s, "index")) return read_fusion_limits(arena, BY_INDEX, config, 1);
  return config && config->kind == MSC_ATTR_STR ? (rule){.way = OPTIMAL} : (rule){BY_BYTES, 1, &automatic};
}

/* True if the configuration forbids merging, whatever ids say. */
static bool is_fusion_off(const msc_config *config) {
  const msc_attr_value *open = config_field(msc_config_value(config, MSC_KEY_comm_fusion), "openstate");
  return open && !open->b;
}

/* ---- times ---- */

/* Sets when the operand of each candidate is ready: when the op that makes it has run. Ops that wait for a candidate
 * do not delay the others; gathers of parameters before their use do. */
static void set_ready_times(bucket_maker *z) {
  msc_arena *arena = z->pass->scratch;
  msc_depend d = msc_depend_of(arena, z->f);
  bool *waits = msc_new_array(arena, bool, d.num_ops);
  int64_t *done = msc_new_array(arena, int64_t, d.num_ops), now = 0;
  for (size_t i = 0; i < z->num; i++) waits[z->c[i].op->id] = !z->c[i].at_once;
  for (size_t i = 0; i < d.num_ops; i++) {
    for (const uint32_t *b = msc_depend_begin(&d, (uint32_t)i); b < msc_depend_end(&d, (uint32_t)i); b++)
      waits[i] = waits[i] || waits[*b];
    const msc_layout *digits = waits[i] ? NULL : comm_digits_of(d.op[i], 0);
    if (digits)
      now += (int64_t)comm_link_of(&z->cost, msc_op_verb(d.op[i]), digits, comm_bytes_of(d.op[i], 0), 0).start_ns;
    else if (!waits[i]) now += comm_work_ns(&z->cost, d.op[i], arena);
    done[i] = now;
  }
  for (size_t i = 0; i < z->num; i++) {
    const msc_op *def = z->c[i].op->in[0].value->def;
    z->c[i].ready_ns = z->c[i].at_once || !def ? 0 : done[def->id];
  }
}

/* Compares by the time at which values are ready; those that are ready at the same time by program order. */
static int compare_ready_times(const void *a, const void *b) {
  const comm_candidate *x = a, *y = b;
  if (x->ready_ns != y->ready_ns) return x->ready_ns < y->ready_ns ? -1 : 1;
  return x->op->id < y->op->id ? -1 : x->op->id > y->op->id;
}

/* Sorts the candidates by ready time and numbers those of each kind; `index` rules count by that number. */
static void number_candidates(bucket_maker *z) {
  size_t next[MSC_NUM_VERBS] = {0};
  qsort(z->c, z->num, sizeof *z->c, compare_ready_times);
  for (size_t i = 0; i < z->num; i++) {
    comm_candidate *c = &z->c[i];
    if (c->id < 0) c->number = next[msc_op_verb(c->op)]++;
    z->digits[i] = comm_digits_of(c->op, 0);
  }
}

/* ---- classes and zones ---- */

static bool has_equal_attr(const msc_op *a, const msc_op *b, const char *name) {
  const msc_attr_value *x = msc_op_attr(a, name), *y = msc_op_attr(b, name);
  return x && y ? msc_attr_equal(x, y) : x == y;
}

static bool is_same_class(const bucket_maker *z, size_t i, size_t k) {
  const msc_op *a = z->c[i].op, *b = z->c[k].op;
  return a->kind == b->kind && z->digits[i] == z->digits[k] &&
         a->in[0].value->type->dtype == b->in[0].value->type->dtype && z->c[i].at_once == z->c[k].at_once &&
         has_equal_attr(a, b, MSC_FACT(stage)) && has_equal_attr(a, b, "axes") && has_equal_attr(a, b, "dim") &&
         has_equal_attr(a, b, "reduction");
}

/* Sets the zone of each member: how many members lie on the longest path to it. */
static void set_zones(bucket_maker *z, size_t num, const size_t *member) {
  msc_depend d = msc_depend_of(z->pass->scratch, z->f);
  uint32_t *depth = msc_new_array(z->pass->scratch, uint32_t, d.num_ops),
           *own = msc_new_array(z->pass->scratch, uint32_t, d.num_ops);
  for (size_t i = 0; i < num; i++) own[z->c[member[i]].op->id] = 1;
  for (uint32_t i = 0; i < d.num_ops; i++)
    for (const uint32_t *b = msc_depend_begin(&d, i); b < msc_depend_end(&d, i); b++)
      if (depth[i] < depth[*b] + own[*b]) depth[i] = depth[*b] + own[*b];
  for (size_t i = 0; i < num; i++) z->zone[member[i]] = depth[z->c[member[i]].op->id];
}

/* ---- merging ---- */

static msc_op *merge_collectives(bucket_maker *z, size_t num, const size_t *member) {
  static const char *const kept[] = {"axes", "dim", "reduction", MSC_FACT(stage)};
  msc_op *first = z->c[member[0]].op, *last = first;
  msc_value **in = msc_new_array(z->pass->scratch, msc_value *, num);
  for (size_t i = 0; i < num; i++) {
    msc_op *op = z->c[member[i]].op;
    in[i] = op->in[0].value;
    if (op->id > last->id) last = op;
  }
  msc_op *all = msc_op_new(z->f, (msc_op_kind)first->kind, num, in, num, first->loc);
  all->name = first->name;
  all->id = last->id;
  msc_insert_before(last, all);
  for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
    if (msc_op_attr(first, kept[k])) msc_op_set(all, kept[k], *msc_op_attr(first, kept[k]));
  for (size_t i = 0; i < num; i++) {
    msc_op *op = z->c[member[i]].op;
    all->out[i].type = op->out[0].type;
    msc_replace_uses(&op->out[0], &all->out[i]);
    msc_op_erase(op);
  }
  z->joined += (int64_t)num;
  return all;
}

/* Moves the collective directly behind the op that makes its last operand, and behind buckets already there, so that
 * buckets are sent in the order in which they are ready. */
static void move_after_operands(msc_op *op) {
  msc_op *after = NULL;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_op *def = op->in[i].value->def;
    if (!def) return;
    if (!after || def->id > after->id) after = def;
  }
  while (after->next && after->next->id == after->id) after = after->next;
  if (after->next == op || after == op) return;
  op->id = after->id;
  msc_op_unlink(op);
  msc_insert_after(after, op);
}

static void form_bucket(bucket_maker *z, size_t num, const size_t *member) {
  int64_t bytes = 0, ready = 0;
  for (size_t i = 0; i < num; i++) {
    const comm_candidate *c = &z->c[member[i]];
    bytes += comm_bytes_of(c->op, 0);
    if (c->ready_ns > ready) ready = c->ready_ns;
  }
  msc_op *op = num > 1 ? merge_collectives(z, num, member) : z->c[member[0]].op;
  if (!z->c[member[0]].at_once) move_after_operands(op);
  msc_op_put(op, msc_fact_bucket(z->buckets++));
  msc_remark(z->pass, op, "%zu together, %" PRId64 " bytes, ready after %" PRId64 " ns", num, bytes, ready);
}

/* Sorts the ops of the block topologically. Each op keeps its turn; one whose turn comes before its operands follows
 * as soon as they are made. */
static void restore_order(bucket_maker *z) {
  msc_arena *a = z->pass->scratch;
  msc_depend d = msc_depend_of(a, z->f);
  size_t n = d.num_ops;
  uint32_t *pending = msc_new_array(a, uint32_t, n), *first = msc_new_array(a, uint32_t, n + 2),
           *waiter = msc_new_array(a, uint32_t, d.first[n] + 1);
  uint32_t *stack = msc_new_array(a, uint32_t, n + 1);
  for (size_t e = 0; e < d.first[n]; e++) first[d.before[e] + 2]++;
  for (size_t i = 0; i < n; i++) first[i + 2] += first[i + 1];
  for (uint32_t i = 0; i < n; i++)
    for (const uint32_t *b = msc_depend_begin(&d, i); b < msc_depend_end(&d, i); b++, pending[i]++)
      waiter[first[*b + 1]++] = i;
  z->f->body->first = z->f->body->last = NULL;
  for (uint32_t turn = 0; turn < n; turn++) {
    size_t depth = 0;
    if (pending[turn] == 0) stack[depth++] = turn;
    while (depth) {
      uint32_t i = stack[--depth];
      msc_append(z->f->body, d.op[i]);
      for (uint32_t k = first[i + 1]; k-- > first[i];)
        if (--pending[waiter[k]] == 0 && waiter[k] < turn) stack[depth++] = waiter[k];
    }
  }
}

/* ---- one class ---- */

/* Forms buckets, by the rule of the configuration, of members that may be merged, given in ready order. */
static void form_buckets_by_rule(bucket_maker *z, const rule *r, size_t num, const size_t *member) {
  msc_arena *arena = z->pass->scratch;
  comm_item *item = msc_new_array(arena, comm_item, num);
  size_t *end = msc_new_array(arena, size_t, num), *number = msc_new_array(arena, size_t, num), groups = num;
  int64_t few = INT64_MAX, many = 0;
  for (size_t i = 0; i < num; i++) {
    const comm_candidate *c = &z->c[member[i]];
    item[i] = (comm_item){c->ready_ns, comm_bytes_of(c->op, 0)};
    number[i] = c->number, end[i] = i + 1;
    many += item[i].bytes;
    if (item[i].bytes < few) few = item[i].bytes;
  }
  const comm_candidate *c = &z->c[member[0]];
  comm_link link = comm_link_of(&z->cost, msc_op_verb(c->op), z->digits[member[0]], few, many);
  if (r->way == BY_BYTES) groups = comm_group_by_bytes(num, item, r->num, r->number, end);
  if (r->way == BY_INDEX) groups = comm_group_by_index(num, number, r->num, r->number, end);
  /* parameters that are ready at once would all be held whole at once */
  if (r->way == OPTIMAL && !c->at_once) groups = comm_group_optimal(arena, num, item, &link, end);
  for (size_t g = 0, i = 0; g < groups; i = end[g++]) form_bucket(z, end[g] - i, member + i);
}

/* The key by which members of a class are sorted: equal zone and id may be merged. */
typedef struct {
  uint32_t zone;
  int64_t id;
  size_t member;
} choice;

static int compare_choices(const void *a, const void *b) {
  const choice *x = a, *y = b;
  if (x->zone != y->zone) return x->zone < y->zone ? -1 : 1;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return x->member < y->member ? -1 : x->member > y->member;
}

static void bucket_class(bucket_maker *z, size_t num, size_t *member) {
  choice *c = msc_new_array(z->pass->scratch, choice, num);
  rule r = read_fusion_rule(z, msc_op_verb(z->c[member[0]].op));
  set_zones(z, num, member);
  for (size_t i = 0; i < num; i++) c[i] = (choice){z->zone[member[i]], z->c[member[i]].id, member[i]};
  qsort(c, num, sizeof *c, compare_choices);
  for (size_t i = 0; i < num; i++) member[i] = c[i].member;
  for (size_t i = 0, end; i < num; i = end) {
    for (end = i + 1; end < num && c[end].zone == c[i].zone && c[end].id == c[i].id;) end++;
    if (c[i].id < 0) form_buckets_by_rule(z, &r, end - i, member + i);
    if (c[i].id > 0) form_bucket(z, end - i, member + i);
  }
  restore_order(z);
}

/* ---- all ---- */

static void warn_of_unused_indices(const bucket_maker *z) {
  rule r = read_fusion_rule(z, MSC_ALL_REDUCE);
  const msc_config *config = z->pass->config;
  msc_key key = msc_config_value(config, MSC_KEY_comm_fusion) ? MSC_KEY_comm_fusion : MSC_KEY_all_reduce_fusion_config;
  size_t count = 0;
  for (size_t i = 0; i < z->num; i++) count += z->c[i].op->kind == OP_all_reduce && z->c[i].id < 0 && z->c[i].serves;
  for (size_t i = 0; i < r.num && r.way == BY_INDEX; i++)
    if ((size_t)r.number[i] >= count)
      msc_warning(z->pass->ctx, MSC_E_CONFIG, msc_config_loc(config, key),
                  "%s: index %" PRId64 " is ignored: there are %zu all_reduces of gradients", msc_key_name(key),
                  r.number[i], count);
}

static void bucket_func(bucket_maker *z) {
  msc_arena *arena = z->pass->scratch;
  bool *taken = msc_new_array(arena, bool, z->num);
  size_t *member = msc_new_array(arena, size_t, z->num);
  z->zone = msc_new_array(arena, uint32_t, z->num);
  z->digits = msc_new_array(arena, const msc_layout *, z->num);
  set_ready_times(z);
  number_candidates(z);
  warn_of_unused_indices(z);
  for (size_t i = 0; i < z->num; i++) {
    size_t num = 0;
    for (size_t k = i; k < z->num && !taken[i]; k++)
      if (!taken[k] && is_same_class(z, i, k)) member[num++] = k;
    for (size_t k = 0; k < num; k++) taken[member[k]] = true;
    if (num) bucket_class(z, num, member);
  }
}

bool pass_bucket(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    bucket_maker z = {.pass = pass, .f = f};
    msc_cost_of(msc_pass_cluster(pass), &m->mesh, &z.cost);
    z.c = comm_candidates(pass->scratch, f, &z.num);
    if (z.num && !is_fusion_off(pass->config)) bucket_func(&z);
    for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(comm_fusion));
    msc_stat(pass, "buckets", z.buckets);
    msc_stat(pass, "collectives put together", z.joined);
  }
  return true;
}
