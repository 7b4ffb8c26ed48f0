/* read_stablehlo.c: the text of a StableHLO module, as JAX prints it, in; a module with the function "forward" out.
 *
 * @main is the function; calls of others are replaced by their ops, loops are unrolled.  Arguments are data, unless
 * they have the attributes msc.name, msc.role, msc.init, as texts; @main itself may have msc.loss, the number of the
 * result that is minimized, and msc.optimizer.
 *
 * An op that cannot be read is reported, ops that use its results are not: so one run reports every fault of a file. */
#include <stdlib.h>
#include <string.h>

#include "ir/model.h"
#include "ir/stablehlo/hlo.h"
#include "ir/table.h"

typedef struct {
  const char *name;
  msc_value *value; /* NULL: its op was reported */
} named_value;

/* Names that ops see: their region's, then those of the regions around it. */
typedef struct scope {
  MSC_TABLE(named_value) names;
  const struct scope *outer;
} scope;

struct hlo_reader {
  msc_context *ctx;
  msc_arena *scratch;
  const hlo_module *module;
  msc_func *func;
  int depth, num_errors;
  size_t num_ops;
  size_t num_unknown;
  struct {
    const char *name;
    const msc_loc *first;
    size_t num;
  } * unknown;
};

/* ---- rows ---- */

static const hlo_row rows[] = {
#define PLAIN(text, kind, num_in) {text, NULL, OP_##kind, num_in},
#define BUILT(text, function)     {text, hlo_build_##function, 0, -1},
#include "ir/stablehlo/stablehlo.def"
#undef PLAIN
#undef BUILT
};

static const hlo_row *find_op_row(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

/* ---- what builders ask ---- */

bool hlo_refuse(hlo_node *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(n->scratch, fmt, ap);
  va_end(ap);
  n->r->num_errors++;
  return msc_error(n->ctx, MSC_E_UNSUPPORTED, n->op->loc, "%s: %s", n->op->name, text);
}

bool hlo_set(hlo_node *n, msc_value *v) {
  if (!v) return false;
  if (n->op->num_out != 1) return hlo_refuse(n, "has %zu results, not one", n->op->num_out);
  n->out[0] = v;
  return true;
}

const hlo_value *hlo_attr(const hlo_node *n, const char *name) {
  for (size_t i = 0; i < n->op->num_attrs; i++)
    if (!strcmp(n->op->attr[i].name, name)) return &n->op->attr[i];
  return NULL;
}

int hlo_ints_of(const hlo_value *v, int64_t *out, int max) {
  if (v->kind == HLO_DENSE) {
    msc_tensor t = {.type = v->type, .data = (void *)(uintptr_t)v->data};
    int64_t num = msc_type_elems(v->type);
    for (int64_t i = 0; i < num && num <= max; i++) out[i] = (int64_t)msc_tensor_get(&t, i);
    return num <= max ? (int)num : -1;
  }
  if (v->kind == HLO_INT && max > 0) return out[0] = v->i, 1;
  if (v->kind != HLO_LIST || v->num > (size_t)max) return -1;
  for (size_t i = 0; i < v->num; i++) {
    bool yes = v->item[i].kind == HLO_WORD && !strcmp(v->item[i].s, "true");
    if (v->item[i].kind != HLO_INT && v->item[i].kind != HLO_WORD) return -1;
    out[i] = v->item[i].kind == HLO_INT ? v->item[i].i : yes;
  }
  return (int)v->num;
}

int hlo_ints(hlo_node *n, const char *name, int64_t *out, int max) {
  const hlo_value *v = hlo_attr(n, name);
  int num = v ? hlo_ints_of(v, out, max) : 0;
  if (num < 0) hlo_refuse(n, "attribute '%s' is no list of at most %d numbers", name, max);
  return num;
}

bool hlo_has_word(const hlo_op *op, const char *word) {
  for (size_t i = 0; i < op->num_words; i++)
    if (!strcmp(op->word[i], word)) return true;
  return false;
}

/* The value of which v is a reshape or broadcast, through any number of these. */
static const msc_value *source_of(const msc_value *v) {
  while (v->def && (v->def->kind == OP_broadcast_to || v->def->kind == OP_reshape)) v = v->def->in[0].value;
  return v;
}

bool hlo_counts(const msc_value *v) {
  v = source_of(v);
  return v->def && v->def->kind == OP_iota;
}

bool hlo_splat(const msc_value *v, double *out) {
  const msc_attr_value *c = msc_constant_elements(source_of(v));
  if (!c || c->kind != MSC_ATTR_DENSE) return false;
  msc_tensor t = {.type = c->dense.type, .data = (void *)(uintptr_t)c->dense.data};
  *out = msc_tensor_get(&t, 0);
  for (int64_t i = 1; i < msc_type_elems(t.type); i++)
    if (msc_tensor_get(&t, i) != *out) return false;
  return true;
}

/* The op between the two arguments of a region that returns its result; NULL: the region is none of these. */
static const hlo_row *row_of_region(const hlo_region *body) {
  if (body->num_ops != 2 || body->num_args != 2 || body->op[0].num_in != 2 || body->op[1].num_in != 1) return NULL;
  bool uses_both = strcmp(body->op[0].in[0], body->op[0].in[1]) != 0;
  bool returns_it = body->op[0].num_names == 1 && !strcmp(body->op[1].in[0], body->op[0].result[0]);
  return uses_both && returns_it ? find_op_row(body->op[0].name) : NULL;
}

bool hlo_combiner_of(const hlo_op *op, hlo_combiner *out) {
  const hlo_row *row = op->num_regions == 1 ? row_of_region(&op->region[0]) : NULL;
  for (size_t i = 0; !row && i < op->num_words; i++) row = find_op_row(op->word[i]);
  if (!row || row->build) return false;
  *out = (hlo_combiner){.kind = row->kind};
  out->logical = row->kind == OP_bitwise_and || row->kind == OP_bitwise_or;
  if (out->logical) out->reduction = row->kind == OP_bitwise_and ? MSC_MIN : MSC_MAX;
  return out->logical || msc_reduction_between(row->kind, &out->reduction);
}

/* ---- values by name ---- */

static const named_value *find_name(const scope *s, const char *name) {
  const named_value *v = NULL;
  for (; s && !v; s = s->outer) v = msc_table_find(&s->names, &name);
  return v;
}

static msc_value *value_of(const scope *s, const char *name) {
  const named_value *v = find_name(s, name);
  return v ? v->value : NULL;
}

static bool define(hlo_reader *r, scope *s, const hlo_op *op, size_t i, msc_value *v) {
  const char *name = op->num_names == op->num_out
                         ? op->result[i]
                         : msc_intern(r->ctx, msc_arena_printf(r->scratch, "%s#%zu", op->result[0], i));
  if (msc_table_find(&s->names, &name)) return msc_error(r->ctx, MSC_E_SYNTAX, op->loc, "%s is defined twice", name);
  msc_table_at(&s->names, &name)->value = v;
  return true;
}

/* ---- ops ---- */

static void count_unknown_op(hlo_reader *r, const hlo_op *op) {
  for (size_t i = 0; i < r->num_unknown; i++)
    if (r->unknown[i].name == op->name) {
      r->unknown[i].num++;
      return;
    }
  msc_grow(r->scratch, r->unknown, r->num_unknown);
  r->unknown[r->num_unknown].name = op->name, r->unknown[r->num_unknown].first = op->loc;
  r->unknown[r->num_unknown++].num = 1;
}

static void report_unknown(hlo_reader *r) {
  for (size_t i = 0; i < r->num_unknown; i++)
    msc_error(r->ctx, MSC_E_UNSUPPORTED, r->unknown[i].first, "%s is not read by this msc (%zu of them)",
              r->unknown[i].name, r->unknown[i].num);
}

static bool build_hlo_region(hlo_reader *r, scope *s, const hlo_region *region, size_t *out_num, msc_value ***out);

/* Builds the ops of the called function. */
static bool build_hlo_call(hlo_reader *r, hlo_node *n) {
  const hlo_func *f = NULL;
  for (size_t i = 0; i < r->module->num_funcs && n->op->num_words; i++)
    if (!strcmp(r->module->func[i].name, n->op->word[0] + (n->op->word[0][0] == '@'))) f = &r->module->func[i];
  if (!f || f->num_args != n->op->num_in) return hlo_refuse(n, "there is no such function of so many arguments");
  if (++r->depth > HLO_MAX_DEPTH) return hlo_refuse(n, "functions call each other too deep");
  scope inner = {.names.index.arena = r->scratch};
  size_t num = 0;
  msc_value **result = NULL;
  for (size_t i = 0; i < f->num_args; i++) msc_table_at(&inner.names, &f->arg[i].name)->value = n->in[i];
  bool ok = build_hlo_region(r, &inner, &f->body, &num, &result);
  r->depth--;
  if (ok && num != n->op->num_out) return hlo_refuse(n, "has %zu results, and the function %zu", n->op->num_out, num);
  for (size_t i = 0; ok && i < num; i++) n->out[i] = result[i];
  return ok;
}

/* Builds all branches, which have no effects, and selects the results of one by its number; a number out of range means
 * the last one. */
static bool run_branches(hlo_reader *r, const scope *s, hlo_node *n) {
  bool by_truth = n->op->num_in == 1 && n->in[0]->type->dtype == MSC_I1; /* stablehlo.if: true is the first */
  size_t branches = n->op->num_regions;
  double known;
  if (n->op->num_in != 1 || !branches || (by_truth && branches != 2))
    return hlo_refuse(n, "needs a number and branches");
  bool is_known = hlo_splat(n->in[0], &known);
  if (++r->depth > HLO_MAX_DEPTH) return hlo_refuse(n, "regions are too deep");
  for (size_t k = branches; k-- > 0;) {
    size_t num = 0, chosen = by_truth                                 ? known == 0
                             : known >= 0 && known < (double)branches ? (size_t)known
                                                                      : branches - 1;
    msc_value **result = NULL;
    scope inner = {.names.index.arena = r->scratch, .outer = s};
    if (is_known && k != chosen) continue;
    MSC_TRY(build_hlo_region(r, &inner, &n->op->region[k], &num, &result));
    if (num != n->op->num_out) return hlo_refuse(n, "has %zu results, and a branch %zu", n->op->num_out, num);
    msc_value *here = by_truth ? n->in[0] : compare(n->b, MSC_EQ, n->in[0], number(n->b, n->in[0], (double)k));
    for (size_t i = 0; i < num; i++) {
      if (!result[i]) return false;
      n->out[i] = n->out[i] ? choose(n->b, here, result[i], n->out[i]) : result[i];
    }
  }
  r->depth--;
  return true;
}

static bool run_part(hlo_reader *r, const scope *s, const hlo_region *part, msc_value *const *in, size_t *out_num,
                     msc_value ***out) {
  scope inner = {.names.index.arena = r->scratch, .outer = s};
  for (size_t i = 0; i < part->num_args; i++) msc_table_at(&inner.names, &part->arg[i])->value = in[i];
  return build_hlo_region(r, &inner, part, out_num, out);
}

/* Unrolls a loop whose condition follows from constants, as those of lax.scan and lax.fori_loop do. */
static bool run_loop(hlo_reader *r, const scope *s, hlo_node *n) {
  enum { MOST_TURNS = 1 << 16 };
  size_t num = 0;
  double goes_on;
  if (n->op->num_regions != 2 || n->op->num_in != n->op->num_out || n->op->region[0].num_args != n->op->num_in ||
      n->op->region[1].num_args != n->op->num_in)
    return hlo_refuse(n, "needs a condition and a body of as many arguments as results");
  if (++r->depth > HLO_MAX_DEPTH) return hlo_refuse(n, "regions are too deep");
  msc_value *const *now = n->in;
  for (int iteration = 0;; iteration++) {
    msc_value **found = NULL;
    MSC_TRY(run_part(r, s, &n->op->region[0], now, &num, &found));
    if (num != 1 || !found[0] || !hlo_splat(found[0], &goes_on))
      return hlo_refuse(n, "how often it turns is not known when it is compiled: such loops are not read");
    if (goes_on == 0) break;
    if (iteration == MOST_TURNS) return hlo_refuse(n, "turns more than %d times", MOST_TURNS);
    MSC_TRY(run_part(r, s, &n->op->region[1], now, &num, &found));
    if (num != n->op->num_in) return hlo_refuse(n, "has %zu results, not %zu", num, n->op->num_in);
    for (size_t i = 0; i < num; i++)
      if (!found[i]) return false;
    now = found;
  }
  memcpy(n->out, now, n->op->num_in * sizeof *n->out);
  r->depth--;
  return true;
}

static bool are_numbers(const hlo_node *n) {
  for (size_t i = 0; i < n->op->num_in; i++)
    if (n->in[i]->type->rank || !msc_constant_elements(n->in[i])) return false;
  return n->op->num_in > 0 && n->op->num_out == 1 && n->op->out_type[0]->rank == 0;
}

/* Computes an op of constants with one element now, so that counters of loops are known.  False, and nothing is
 * changed: the op must be built. */
static bool fold_numbers(hlo_reader *r, hlo_node *n, const hlo_row *row) {
  msc_func *f = msc_func_new(r->func->module, "fold");
  msc_builder b = {.func = f, .block = f->body, .loc = n->op->loc};
  hlo_node inner = *n;
  msc_value *result = NULL;
  msc_tensor value;
  inner.b = &b;
  inner.in = msc_new_array(r->scratch, msc_value *, n->op->num_in);
  inner.out = &result;
  for (size_t i = 0; i < n->op->num_in; i++) {
    const msc_attr_value *c = msc_constant_elements(n->in[i]);
    inner.in[i] = constant_of(&b, c->dense.type, c->dense.data);
  }
  bool ok = (row->build ? row->build(&inner) : hlo_set(&inner, msc_build(&b, row->kind, n->op->num_in, inner.in))) &&
            result && !result->type->rank;
  if (ok) {
    msc_append_return(f, 1, &result, n->op->loc);
    ok = msc_interpret(f, msc_context_arena(r->ctx), NULL, &value);
  }
  if (ok) n->out[0] = constant_of(n->b, value.type, value.data);
  msc_func_remove(f);
  return ok && n->out[0];
}

static bool build_op(hlo_reader *r, const scope *s, hlo_node *n) {
  const hlo_op *op = n->op;
  if (!strcmp(op->name, "stablehlo.while")) return run_loop(r, s, n);
  if (!strcmp(op->name, "stablehlo.case") || !strcmp(op->name, "stablehlo.if")) return run_branches(r, s, n);
  if (!strcmp(op->name, "call") || !strcmp(op->name, "func.call")) return build_hlo_call(r, n);
  const hlo_row *row = find_op_row(op->name);
  if (!row) return count_unknown_op(r, op), false;
  if (row->num_in >= 0 && (size_t)row->num_in != op->num_in)
    return hlo_refuse(n, "takes %d operands, not %zu", row->num_in, op->num_in);
  int errors = msc_num_errors(r->ctx);
  if (are_numbers(n) && fold_numbers(r, n, row)) return true;
  if (msc_num_errors(r->ctx) > errors) return false;
  return row->build ? row->build(n) : hlo_set(n, msc_build(n->b, row->kind, op->num_in, n->in));
}

/* Checks that results have the types in the text; others are a fault of the reader or of the text. */
static bool check_types(hlo_reader *r, hlo_node *n) {
  for (size_t i = 0; i < n->op->num_out; i++) {
    const msc_type *want = n->op->out_type[i], *is = n->out[i] ? n->out[i]->type : NULL;
    bool same = is && is->dtype == want->dtype && is->rank == want->rank;
    for (int d = 0; same && d < want->rank; d++) same = is->dim[d] == want->dim[d];
    if (is && !same) {
      r->num_errors++;
      return msc_error(r->ctx, MSC_E_SHAPE, n->op->loc, "%s: its result is %s, not %s as the text says", n->op->name,
                       msc_type_text(r->scratch, NULL, is), msc_type_text(r->scratch, NULL, want));
    }
  }
  return true;
}

static bool build_hlo_op(hlo_reader *r, scope *s, const hlo_op *op) {
  msc_builder b = {.func = r->func, .block = r->func->body, .loc = op->loc};
  hlo_node n = {.r = r, .b = &b, .ctx = r->ctx, .scratch = r->scratch, .op = op};
  bool known = true;
  if (++r->num_ops > HLO_MAX_OPS) return hlo_refuse(&n, "there are too many ops");
  n.in = msc_new_array(r->scratch, msc_value *, op->num_in + 1);
  n.out = msc_new_array(r->scratch, msc_value *, op->num_out + 1);
  for (size_t i = 0; i < op->num_in; i++) {
    if (!find_name(s, op->in[i])) return hlo_refuse(&n, "%s is not defined", op->in[i]);
    known &= (n.in[i] = value_of(s, op->in[i])) != NULL;
  }
  int before = msc_num_errors(r->ctx);
  if (known && !(build_op(r, s, &n) && check_types(r, &n))) memset(n.out, 0, op->num_out * sizeof *n.out);
  if (msc_num_errors(r->ctx) > before) r->num_errors++;
  if (op->num_names > 1 && op->num_names != op->num_out) return hlo_refuse(&n, "has %zu results", op->num_out);
  for (size_t i = 0; i < op->num_out && op->num_names; i++) MSC_TRY(define(r, s, op, i, n.out[i]));
  return true;
}

/* The operands of the region's return. */
static bool build_hlo_region(hlo_reader *r, scope *s, const hlo_region *region, size_t *out_num, msc_value ***out) {
  for (size_t i = 0; i < region->num_ops; i++) {
    const hlo_op *op = &region->op[i];
    if (strcmp(op->name, "return") && strcmp(op->name, "func.return") && strcmp(op->name, "stablehlo.return")) {
      MSC_TRY(build_hlo_op(r, s, op));
      continue;
    }
    *out_num = op->num_in;
    *out = msc_new_array(r->scratch, msc_value *, op->num_in + 1);
    for (size_t k = 0; k < op->num_in; k++) {
      if (!find_name(s, op->in[k])) return msc_error(r->ctx, MSC_E_SYNTAX, op->loc, "%s is not defined", op->in[k]);
      (*out)[k] = value_of(s, op->in[k]);
    }
    return true;
  }
  return msc_error(r->ctx, MSC_E_SYNTAX, region->num_ops ? region->op[0].loc : NULL, "a function does not return");
}

/* ---- arguments and results ---- */

/* "p['layers'][0]['w']" -> "p.layers.0.w": a name that a user can write in a configuration. */
static const char *plain_name(hlo_reader *r, const char *said) {
  char *to = msc_arena_alloc(r->scratch, strlen(said) + 1), *at = to;
  for (const char *p = said; *p; p++) {
    bool plain =
        (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' || *p == '-';
    if (plain) *at++ = *p;
    else if (at > to && at[-1] != '.') *at++ = '.';
  }
  while (at > to && at[-1] == '.') at--;
  *at = 0;
  return msc_intern(r->ctx, to);
}

static const hlo_value *member_of(size_t num, const hlo_value *member, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(member[i].name, name)) return &member[i];
  return NULL;
}

/* A name that no argument or result before it has. */
static const char *own_name(hlo_reader *r, const char *wanted, size_t num, const char *const *taken) {
  const char *name = *wanted ? wanted : "value";
  for (int k = 2;; k++) {
    bool free = true;
    for (size_t i = 0; i < num && free; i++) free = strcmp(taken[i], name) != 0;
    if (free) return msc_intern(r->ctx, name);
    name = msc_arena_printf(r->scratch, "%s.%d", *wanted ? wanted : "value", k);
  }
}

static void add_argument(hlo_reader *r, scope *s, const hlo_arg *a, size_t index, const char **names) {
  const hlo_value *name = member_of(a->num_attrs, a->attr, MSC_FACT(msc_name)),
                  *role = member_of(a->num_attrs, a->attr, MSC_FACT(msc_role)),
                  *init = member_of(a->num_attrs, a->attr, MSC_FACT(msc_init));
  const char *wanted = name && name->s ? name->s : plain_name(r, a->said ? a->said : a->name + 1);
  names[index] = own_name(r, wanted, index, names);
  msc_value *v = msc_add_arg(r->func->body, a->type, names[index]);
  msc_arg_put(r->func, index, msc_fact_msc_name(r->ctx, names[index]));
  msc_arg_put(r->func, index, msc_fact_msc_role(r->ctx, MSC_ROLE_DATA));
  if (role && role->s)
    msc_arg_set(r->func, index, MSC_FACT(msc_role), msc_str(r->ctx, role->s)); /* msc_verify checks it */
  if (init && init->s) msc_arg_put(r->func, index, msc_fact_msc_init(r->ctx, init->s));
  if (!role)
    msc_arg_put(r->func, index, msc_fact_msc_batch_dim(-1)); /* whether it has a batch dimension is not known */
  msc_table_at(&s->names, &a->name)->value = v;
}

static void name_results(hlo_reader *r, const hlo_func *f, size_t num) {
  const char **names = msc_new_array(msc_context_arena(r->ctx), const char *, num + 1);
  for (size_t i = 0; i < num; i++) {
    const char *said = i < f->num_results && f->result[i] ? plain_name(r, f->result[i])
                                                          : msc_arena_printf(r->scratch, "result.%zu", i);
    names[i] = own_name(r, said, i, names);
  }
  msc_attr_value *texts = msc_new_array(r->scratch, msc_attr_value, num + 1);
  for (size_t i = 0; i < num; i++) texts[i] = msc_str(r->ctx, names[i]);
  msc_func_put(r->func, msc_fact_results(r->ctx, num, texts));
}

static msc_attr_value plain_value(hlo_reader *r, const hlo_value *v) {
  return v->kind == HLO_TEXT    ? msc_str(r->ctx, v->s)
         : v->kind == HLO_FLOAT ? msc_float(v->f)
         : v->kind == HLO_INT   ? msc_int(v->i)
                                : msc_bool(v->s && !strcmp(v->s, "true"));
}

/* Sets the facts of training: msc.loss = 0, msc.optimizer = {kind = "adam", lr = 1.0e-03}. */
static void put_objective(hlo_reader *r, const hlo_func *f) {
  const hlo_value *loss = member_of(f->num_attrs, f->attr, "msc.loss"),
                  *optimizer = member_of(f->num_attrs, f->attr, "msc.optimizer");
  if (loss && loss->kind == HLO_INT) msc_func_put(r->func, msc_fact_loss(loss->i));
  if (!optimizer || optimizer->kind != HLO_DICT) return;
  msc_attr *hyper = NULL;
  size_t num = 0;
  for (size_t i = 0; i < optimizer->num; i++)
    msc_attrs_put(r->ctx, &hyper, &num,
                  msc_named(r->ctx, optimizer->item[i].name, plain_value(r, &optimizer->item[i])));
  msc_func_put(r->func, msc_fact_optimizer((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, hyper}}));
}

static msc_module *read_main(hlo_reader *r, const hlo_func *f, msc_module *m) {
  scope s = {.names.index.arena = r->scratch};
  size_t num = 0;
  msc_value **result = NULL;
  const char **names = msc_new_array(r->scratch, const char *, f->num_args + 1);
  for (size_t i = 0; i < f->num_args; i++) add_argument(r, &s, &f->arg[i], i, names);
  bool ok = build_hlo_region(r, &s, &f->body, &num, &result);
  report_unknown(r);
  if (!ok || r->num_errors || msc_num_errors(r->ctx)) return NULL;
  msc_append_return(r->func, num, result, f->loc);
  name_results(r, f, num);
  put_objective(r, f);
  msc_drop_unused(r->func);
  return msc_verify(m) ? m : NULL;
}

msc_module *msc_read_stablehlo(msc_context *ctx, const char *name, const char *text, size_t bytes) {
  msc_arena *scratch = msc_arena_new(ctx);
  char *copy = msc_arena_alloc(scratch, bytes + 1); /* functions that parse numbers need a zero behind the text */
  memcpy(copy, text, bytes);
  hlo_reader r = {.ctx = ctx, .scratch = scratch, .module = hlo_parse(ctx, scratch, name, copy, bytes)};
  const hlo_func *f = NULL;
  for (size_t i = 0; r.module && i < r.module->num_funcs; i++)
    if (!strcmp(r.module->func[i].name, "main")) f = &r.module->func[i];
  if (r.module && !f)
    msc_error(ctx, MSC_E_UNSUPPORTED, msc_loc_of(ctx, &(msc_loc){.file = msc_intern(ctx, name)}),
              "there is no function @main");
  msc_module *m = f ? msc_module_new(ctx) : NULL;
  if (m) {
    r.func = msc_func_new(m, "forward");
    r.func->loc = f->loc;
    m = read_main(&r, f, m);
  }
  msc_arena_free(scratch);
  return m;
}
