/* explain_plan.c: the program that a plan carries, its strategies decided, in; reasons, collectives with their causes
 * and warnings out (see explain_plan.h). */
#include "tools/explain/explain_plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "passes/2_train/train.h"
#include "passes/3_shard/explain/explain.h"
#include "passes/3_shard/reshard/reshard.h"
#include "passes/7_lower/transfer.h"
#include "passes/config/config.h"
#include "passes/time_model.h"
#include "plan_fbs.h"

enum { LARGE_BYTES = 1 << 20, LONG_CHAIN = 2, CHAIN_BYTES = 1 << 16 }; /* from these on there is a warning */
static const double UNEQUAL = 1.1;

typedef struct {
  cli *c;
  const void *file;
  const char *path, *op, *cuts; /* the op asked for, and a way to cut it, or NULL */
  msc_context *ctx;
  msc_arena *arena;
  msc_module *m;
  msc_config *config;
  const msc_cluster *cluster;
  msc_cost cost;
  msc_reshard *planner;
  json_t *warnings;
} explained;

/* ---- reading the plan ---- */

static const char *text_or_empty(const char *s) { return s ? s : ""; }

static bool read_program(explained *e, plan_plan root, msc_module **out_m) {
  size_t packed = plan_plan_searched_num(root), bytes = plan_plan_searched_bytes(root);
  const uint8_t *data = plan_plan_searched_data(root);
  if (!packed || bytes > (size_t)1 << 31)
    return msc_error(e->ctx, MSC_E_PLAN, cli_loc(e->c, e->path), "the plan does not carry its program");
  char *text = msc_arena_alloc(e->arena, bytes + 1);
  uLongf unpacked = (uLongf)bytes;
  if (uncompress((Bytef *)text, &unpacked, data, (uLong)packed) != Z_OK || unpacked != bytes)
    return msc_error(e->ctx, MSC_E_PLAN, cli_loc(e->c, e->path), "the program in the plan is damaged");
  *out_m = msc_parse(e->ctx, e->path, text, bytes);
  return *out_m && msc_verify(*out_m);
}

int64_t cli_recorded(const char *config, const char *key) {
  json_t *all = json_loads(config, 0, NULL), *one = json_object_get(all, key), *value = json_object_get(one, "value");
  const char *from = json_string_value(json_object_get(one, "from"));
  int64_t number = from && strcmp(from, "default") && json_is_integer(value) ? json_integer_value(value) : -1;
  json_decref(all);
  return number;
}

/* {"key": {"value": v, "from": text}, ...}: what was set, set again. */
static bool read_config(explained *e, const char *text) {
  json_t *all = json_loads(text, 0, NULL), *one;
  const char *key;
  e->config = msc_config_new(e->ctx);
  json_object_foreach(all, key, one) {
    const char *origin = json_string_value(json_object_get(one, "from"));
    json_t *value = json_object_get(one, "value");
    if (!origin || !strcmp(origin, "default") || json_is_null(value)) continue;
    char *v = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (v) msc_config_set(e->config, msc_arena_printf(e->arena, "%s=%s", key, v));
    free(v);
  }
  json_decref(all);
  return msc_config_check(e->config);
}

const msc_cluster *cli_cluster_of_plan(cli *c, const char *path, const void *plan) {
  const char *cluster = text_or_empty(plan_plan_cluster(plan_plan_root(plan)));
  return *cluster ? msc_cluster_read(c->ctx, path, cluster, strlen(cluster)) : msc_cluster_named(c->ctx, "cpu");
}

static bool open_explained_plan(explained *e, plan_plan *out_root) {
  const cli_plan *plan = cli_read_plan(e->c, e->path, false);
  MSC_TRY(plan);
  e->file = plan->data;
  *out_root = plan_plan_root(plan->data);
  e->cluster = cli_cluster_of_plan(e->c, e->path, plan->data);
  MSC_TRY(e->cluster && read_program(e, *out_root, &e->m) &&
          read_config(e, text_or_empty(plan_plan_config(*out_root))));
  msc_cost_of(e->cluster, &e->m->mesh, &e->cost);
  e->planner = msc_reshard_new(e->ctx, &e->m->mesh, NULL);
  return true;
}

/* "layer3.mlp.up" and "blocks.3.mlp.up" are the same, "3 collectives" and "4 collectives" are not. */
const char *cli_name_of_alike(cli *c, const char *name) {
  char *pattern = msc_arena_copy(msc_context_arena(c->ctx), name, strlen(name) + 1), *to = pattern;
  for (const char *at = name; *at; at++) {
    bool counts = at > name && (isalpha((unsigned char)at[-1]) || at[-1] == '.' || at[-1] == '_');
    *to++ = counts && isdigit((unsigned char)*at) ? '#' : *at;
    while (to[-1] == '#' && isdigit((unsigned char)at[1])) at++;
  }
  *to = 0;
  return pattern;
}

/* ---- ops ---- */

static const char *file_and_line(const explained *e, const msc_loc *loc) {
  return loc && loc->file && !loc->implied ? msc_arena_printf(e->arena, "%s:%u", loc->file, loc->line) : "";
}

static json_t *way_json(const shard_way *w) {
  return json_pack("{s:s, s:s, s:I, s:I, s:I}", "cuts", w->cuts, "layouts", w->layouts, "work_ns",
                   (json_int_t)w->work_ns, "move_ns", (json_int_t)w->move_ns, "bytes", (json_int_t)w->bytes);
}

/* {"digits", "from", "loc", "through"}: of digits that were handed on. */
static json_t *chain_of_digits(const explained *e, const shard_chain *c) {
  json_t *through = json_array();
  for (size_t i = 0; i < c->num; i++) json_array_append_new(through, json_string(c->through[i]));
  const char *digits = msc_digits_print(e->arena, &e->m->mesh, c->digits);
  return json_pack("{s:s, s:s, s:s, s:I, s:o}", "digits", digits, "from", c->origin, "loc", file_and_line(e, c->loc),
                   "left_out", (json_int_t)c->left_out, "through", through);
}

static json_t *chains_json(const explained *e, const shard_reason *r) {
  json_t *all = json_array();
  for (size_t i = 0; i < r->num_chains; i++) json_array_append_new(all, chain_of_digits(e, &r->chain[i]));
  return all;
}

static json_t *conflict_json(const explained *e, const shard_conflict *c) {
  return json_pack("{s:s, s:s, s:I, s:o, s:o}", "op", c->op, "value", c->value, "dim", (json_int_t)c->dim, "here",
                   chain_of_digits(e, &c->here), "there", chain_of_digits(e, &c->there));
}

static json_t *instead_json(const shard_instead *i) {
  json_t *changed = json_array();
  for (size_t k = 0; k < i->num_changed; k++) json_array_append_new(changed, json_string(i->changed[k]));
  return json_pack("{s:o, s:I, s:I, s:I, s:I, s:o}", "way", way_json(&i->way), "step_ns", (json_int_t)i->step_ns,
                   "bytes", (json_int_t)i->bytes, "work_ns", (json_int_t)i->work_ns, "move_ns", (json_int_t)i->move_ns,
                   "changed", changed);
}

static json_t *reason_json(const explained *e, const shard_reason *r) {
  json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:b, s:o, s:o}", "op", r->op->name, "kind",
                        msc_kind_name(r->op->kind), "letters", r->letters, "loc", file_and_line(e, r->op->loc), "by",
                        r->by, "ways", (json_int_t)r->num_ways, "own_order", r->own_order, "chosen",
                        way_json(&r->chosen), "inherited", chains_json(e, r));
  if (r->num_instead) {
    json_t *instead = json_array();
    for (size_t i = 0; i < r->num_instead; i++) json_array_append_new(instead, instead_json(&r->instead[i]));
    json_object_set_new(j, "instead", instead);
  }
  if (!r->next.cuts) return j;
  json_object_set_new(j, "next", way_json(&r->next));
  json_object_set_new(
      j, "next_costs_ns",
      json_integer((json_int_t)(r->next.work_ns + r->next.move_ns - r->chosen.work_ns - r->chosen.move_ns)));
  return j;
}

static void warn(explained *e, const char *text) { json_array_append_new(e->warnings, json_string(text)); }

/* Warns of work that every rank repeats. */
static void warn_whole(explained *e, const shard_reason *r) {
  if (msc_mesh_size(&e->m->mesh) == 1 || msc_info(r->op)->cost != MSC_COST_FLOPS ||
      strcmp(r->chosen.cuts, "whole") != 0)
    return;
  warn(e, msc_arena_printf(e->arena, "%s is not cut: every rank computes all of it", r->op->name));
}

/* Warns of ranks that wait for the one with the largest part. */
static void warn_imbalance(explained *e, const shard_reason *r) {
  if (msc_info(r->op)->cost == MSC_COST_FLOPS && r->imbalance >= UNEQUAL)
    warn(e, msc_arena_printf(e->arena, "the parts of %s are unequal: the largest is %.0f %% above the mean; %s",
                             r->op->name, 100 * (r->imbalance - 1), r->letters));
}

static json_t *figures_json(const shard_figures *f) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "step_ns", (json_int_t)f->step_ns, "bytes", (json_int_t)f->bytes,
                   "least_ns", (json_int_t)f->kept_ns, "least_bytes", (json_int_t)f->kept_bytes, "free_ns",
                   (json_int_t)f->free_ns);
}

/* Runs the passes from the program in the plan to the program with all its collectives. */
static bool partition(explained *e) {
  msc_pass_options o = {.config = e->config, .cluster = e->cluster, .verify = MSC_VERIFY_IR};
  return msc_run_stretch(e->ctx, e->m, &o, MSC_AT_searched, MSC_AT_partitioned);
}

static bool explain_ops(explained *e, msc_module *m, json_t *all) {
  msc_pass_options options = {.config = e->config, .cluster = e->cluster};
  msc_pass_ctx pass = {.ctx = e->ctx, .scratch = e->arena, .config = e->config, .options = &options};
  json_t *ops = json_array(), *conflicts = json_array();
  shard_explanation x;
  json_object_set_new(all, "ops", ops);
  json_object_set_new(all, "conflicts", conflicts);
  MSC_TRY(msc_step_func(m) && shard_explain(&pass, msc_step_func(m), e->op, e->cuts, &x));
  for (size_t i = 0; i < x.num; i++) {
    const shard_reason *r = &x.reason[i];
    json_array_append_new(ops, reason_json(e, r));
    for (size_t k = 0; k < r->num_conflicts; k++) json_array_append_new(conflicts, conflict_json(e, &r->conflict[k]));
    warn_whole(e, r);
    warn_imbalance(e, r);
  }
  if (x.figures.step_ns) json_object_set_new(all, "figures", figures_json(&x.figures));
  return true;
}

/* ---- collectives ---- */

static bool is_move(const msc_op *op) { return op && (msc_info(op)->flags & MSC_MOVES) && op->out[0].type->layout; }

static const char *op_text(const msc_op *op) { return op ? msc_op_title(op) : ""; }

static const msc_op *only_next_move(const msc_op *op) {
  const msc_op *next = msc_has_one_use(&op->out[0]) ? op->out[0].uses->user : NULL;
  return is_move(next) ? next : NULL;
}

/* The time of a collective alone, without the bucket that gradients share, or other work beside it. */
static int64_t step_ns(explained *e, const msc_op *op, int64_t bytes) {
  msc_subaxis digit[MSC_MAX_SUBAXES];
  msc_cost_transfer t = {.verb = msc_op_verb(op), .ranks = 1, .bytes = bytes};
  int num = msc_moved_digits(e->ctx, &e->m->mesh, op->in[0].value->type->layout, op->out[0].type->layout, digit);
  for (int i = 0; i < num; i++) {
    int level = msc_cost_level(&e->cost, digit[i]);
    t.ranks *= digit[i].size;
    if (level > t.level) t.level = level;
  }
  t.peers = t.ranks - 1;
  return op->kind == OP_shard || t.ranks == 1 ? 0 : msc_cost_collective(&e->cost, &t);
}

static json_t *step_json(explained *e, const msc_op *op) {
  const msc_type *from = op->in[0].value->type, *to = op->out[0].type;
  msc_reshard_plan p;
  int64_t bytes = msc_reshard_plan_of(e->planner, msc_type_with_layout(e->ctx, to, NULL), from->layout, to->layout, &p)
                      ? p.bytes
                      : 0;
  return json_pack("{s:s, s:s, s:I, s:I}", "op", op->kind == OP_shard ? "slice" : msc_kind_name(op->kind), "to",
                   msc_layout_print(e->arena, &e->m->mesh, to->layout), "bytes", (json_int_t)bytes, "ns",
                   (json_int_t)step_ns(e, op, bytes));
}

static const char *type_text(const explained *e, const msc_type *t) {
  const char *text = "";
  for (int d = 0; d < t->rank; d++) text = msc_arena_printf(e->arena, "%s%" PRId64 "x", text, t->dim[d]);
  return msc_arena_printf(e->arena, "%s%s", text, msc_dtype_name(t->dtype));
}

/* True if the change of layout only finishes a sum, without cutting or gathering. Such a sum may take several
 * collectives, one for each level of links, which is cheaper than one. */
static bool is_sum(const msc_layout *from, const msc_layout *to) {
  int num = from->first[from->rank];
  return from->num_partial && !to->num_partial && num == to->first[to->rank] &&
         !memcmp(from->first, to->first, sizeof from->first) &&
         !memcmp(from->sub, to->sub, (size_t)num * sizeof *from->sub);
}

/* What a value is brought into another layout for. */
static const char *cause_of(const msc_value *value, const msc_op *user) {
  const msc_op *def = value->def;
  if (user && msc_info(user)->flags & MSC_UPDATE) return "gradients of parameters";
  if (!def || msc_info(def)->flags & MSC_UPDATE) return "parameters and inputs";
  if (!user || msc_info(user)->flags & MSC_TERMINATOR) return "results";
  size_t n = user->name ? strlen(user->name) : 0;
  return def->forward || user->forward || (n > 5 && !strcmp(user->name + n - 5, ".grad")) ? "backward" : "forward";
}

/* One value brought from one layout into another: `first` and what follows it. */
static json_t *chain_json(explained *e, const msc_op *first) {
  json_t *steps = json_array();
  const msc_op *last = first;
  int64_t bytes = 0, ns = 0;
  int num = 0;
  for (const msc_op *op = first; op; op = only_next_move(op)) {
    json_t *step = step_json(e, op);
    bytes += json_integer_value(json_object_get(step, "bytes"));
    ns += json_integer_value(json_object_get(step, "ns"));
    num += op->kind != OP_shard;
    json_array_append_new(steps, step);
    last = op;
  }
  const msc_value *value = first->in[0].value;
  const msc_op *user = last->out[0].uses ? last->out[0].uses->user : NULL;
  msc_reshard_plan p = {.lower_bound = -1};
  msc_reshard_plan_of(e->planner, msc_type_with_layout(e->ctx, value->type, NULL), value->type->layout,
                      last->out[0].type->layout, &p);
  const char *from = value->def ? op_text(value->def) : value->name ? value->name : "";
  if (num > LONG_CHAIN && bytes >= CHAIN_BYTES && !is_sum(value->type->layout, last->out[0].type->layout))
    warn(e, msc_arena_printf(e->arena, "%d collectives in a row bring %s to %s", num, from, op_text(user)));
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "cause", cause_of(value, user),
                   "from_op", from, "from_loc", file_and_line(e, value->def ? value->def->loc : first->loc), "to_op",
                   op_text(user), "to_loc", file_and_line(e, user ? user->loc : NULL), "shape",
                   type_text(e, value->type), "from", msc_layout_print(e->arena, &e->m->mesh, value->type->layout),
                   "to", msc_layout_print(e->arena, &e->m->mesh, last->out[0].type->layout), "bytes", (json_int_t)bytes,
                   "ns", (json_int_t)ns, "lower_bound",
                   p.lower_bound < 0 ? json_null() : json_integer((json_int_t)p.lower_bound), "steps", steps);
}

static void list_chains(explained *e, const msc_func *f, json_t *collectives) {
  for (const msc_op *op = f->body->first; op; op = op->next) {
    if (!is_move(op)) continue;
    const msc_op *before = op->in[0].value->def;
    if (is_move(before) && only_next_move(before) == op) continue;
    bool traffic = false;
    for (const msc_op *o = op; o && !traffic; o = only_next_move(o)) traffic = o->kind != OP_shard;
    if (traffic) json_array_append_new(collectives, chain_json(e, op));
  }
}

static bool is_whole_and_large(const explained *e, const msc_type *t) {
  return msc_mesh_size(&e->m->mesh) > 1 && t->layout && msc_layout_is_replicated(t->layout) &&
         msc_type_bytes(t) >= LARGE_BYTES;
}

/* Warns of parameters, and results of the model's ops, that every rank holds whole. */
static void warn_replicated(explained *e, const msc_func *f) {
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_value *v = f->body->args[i];
    if (msc_arg_role(f, i) == MSC_ROLE_PARAMETER && is_whole_and_large(e, v->type))
      warn(e, msc_arena_printf(e->arena, "parameter %s, %" PRId64 " bytes, is held whole by every rank",
                               v->name ? v->name : "", msc_type_bytes(v->type)));
  }
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (op->name && op->num_in && op->num_out && !op->forward && !is_move(op) && !(msc_info(op)->flags & MSC_UPDATE) &&
        is_whole_and_large(e, op->out[0].type))
      warn(e, msc_arena_printf(e->arena, "what %s makes, %" PRId64 " bytes, is held whole by every rank", op->name,
                               msc_type_bytes(op->out[0].type)));
}

/* What the parallel optimizer chose for each parameter. */
static void list_parameters(const msc_func *f, json_t *parameters) {
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_attr_value *zero = msc_arg_attr(f, i, MSC_FACT(msc_zero)), *name = msc_arg_attr(f, i, MSC_FACT(msc_name));
    if (zero && name)
      json_array_append_new(parameters, json_pack("{s:s, s:s}", "parameter", name->s, "optimizer", zero->s));
  }
}

static bool explain_collectives(explained *e, json_t *collectives, json_t *parameters) {
  MSC_TRY(partition(e));
  const msc_func *f = msc_step_func(e->m);
  list_chains(e, f, collectives);
  warn_replicated(e, f);
  list_parameters(f, parameters);
  return true;
}

/* ---- the explanation ---- */

/* {"rank", "stage", "at": {axis: coordinate}, "with": {axis: [first ranks of its group]}}: where a rank is, and along
 * each axis who is there with it. */
static json_t *rank_json(const explained *e, int64_t rank) {
  enum { MOST = 64 };
  const msc_mesh *mesh = &e->m->mesh;
  int64_t devices = msc_mesh_size(mesh), first = rank / devices * devices, stride = devices;
  json_t *at = json_object(), *with = json_object();
  for (int a = 0; a < mesh->num_axes; a++) {
    json_t *group = json_array();
    stride /= mesh->axis[a].size;
    int64_t digit = (rank - first) / stride % mesh->axis[a].size;
    for (int64_t i = 0; i < mesh->axis[a].size && i < MOST; i++)
      json_array_append_new(group, json_integer((json_int_t)(rank + (i - digit) * stride)));
    json_object_set_new(at, mesh->axis[a].name, json_integer((json_int_t)digit));
    json_object_set_new(with, mesh->axis[a].name, group);
  }
  return json_pack("{s:I, s:I, s:o, s:o}", "rank", (json_int_t)rank, "stage", (json_int_t)(rank / devices), "at", at,
                   "with", with);
}

json_t *cli_explain_plan(cli *c, const char *path, const char *op, const char *cuts) {
  explained e = {.c = c, .path = path, .op = op, .cuts = cuts, .ctx = c->ctx, .arena = msc_context_arena(c->ctx)};
  plan_plan root;
  if (!open_explained_plan(&e, &root)) return NULL;
  json_t *collectives = json_array(), *parameters = json_array();
  e.warnings = json_array();
  msc_func *f = msc_step_func(e.m);
  msc_module *again; /* explaining ops changes what it looks at */
  int64_t stages = msc_config_int(e.config, MSC_KEY_pipeline_stages), ranks = msc_mesh_size(&e.m->mesh) * stages;
  json_t *all = json_pack("{s:s, s:I, s:I, s:s, s:f}", "plan", text_or_empty(plan_plan_model(root)), "ranks",
                          (json_int_t)ranks, "stages", (json_int_t)stages, "mesh", msc_mesh_print(e.arena, &e.m->mesh),
                          "predicted_step_ms", (double)plan_plan_predicted_step_ns(root) / 1e6);
  bool ok = f && read_program(&e, root, &again) && explain_ops(&e, again, all) &&
            explain_collectives(&e, collectives, parameters);
  json_object_set_new(all, "parameters", parameters);
  json_object_set_new(all, "collectives", collectives);
  json_object_set_new(all, "warnings", e.warnings);
  const msc_attr_value *ns = f ? msc_func_attr(f, MSC_FACT(step_ns)) : NULL,
                       *least = f ? msc_func_attr(f, MSC_FACT(least_step_ns)) : NULL;
  const msc_attr_value *compared = f ? msc_func_attr(f, MSC_FACT(compared)) : NULL;
  if (ns && least && ns->kind == MSC_ATTR_INT && least->kind == MSC_ATTR_INT)
    json_object_set_new(all, "search",
                        json_pack("{s:I, s:I, s:I, s:s, s:b}", "step_ns", (json_int_t)ns->i, "at_least_ns",
                                  (json_int_t)least->i, "micro_batches", (json_int_t)msc_fact_read(f, micro, 1),
                                  "compared", compared && compared->kind == MSC_ATTR_STR ? compared->s : "all",
                                  "data_parallel", msc_func_attr(f, MSC_FACT(batch_cut)) != NULL));
  int64_t rank = -1;
  ok = ok && cli_rank(c, cli_recorded(text_or_empty(plan_plan_config(root)), "global_rank"), ranks, &rank);
  if (ok && rank >= 0) json_object_set_new(all, "rank", rank_json(&e, rank));
  const msc_func *train = ok ? msc_program_func(e.m, MSC_PROGRAM_TRAIN) : NULL;
  const msc_attr_value *over = train ? msc_func_attr(train, MSC_FACT(gradients_over)) : NULL;
  if (over) json_object_set_new(all, "gradients_over", json_integer((json_int_t)over->i));
  json_t *offload = ok ? cli_explain_offload(c->ctx, e.file, e.cluster) : NULL;
  if (offload) json_object_set_new(all, "offload", offload);
  json_t *servers = ok ? cli_explain_servers(e.file) : NULL;
  if (servers) json_object_set_new(all, "servers", servers);
  json_t *caches = ok ? cli_explain_caches(e.file) : NULL;
  if (caches) json_object_set_new(all, "caches", caches);
  json_t *products = ok ? cli_explain_products(e.file) : NULL;
  if (products) json_object_set_new(all, "products", products);
  if (ok) return all;
  json_decref(all);
  return NULL;
}
