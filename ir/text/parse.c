/* parse.c: IR text in; a module, or reports of its faults, out.  After a fault in an op, reading goes on at the next
 * op. */
#include <string.h>

#include "ir/text/symbols.h"
#include "ir/text/text.h"

enum { MAX_PER_OP = UINT16_MAX, MAX_UNKNOWN_LISTED = 100 };

/* A name of results before the equals sign: `%0:2`. */
typedef struct {
  msc_token at;
  int64_t count;
} result_name;

typedef struct {
  msc_token at;
  msc_value *value; /* NULL: its definition was faulty, or there is none and that has been reported */
} operand;

typedef struct {
  msc_token at;
  const msc_type *type;
} typed;

typedef struct {
  msc_op *op;
  msc_token at;
  const char *forward;
} pending;

typedef struct {
  const char *name;
  msc_token at;
  size_t count;
} unknown;

typedef struct {
  msc_parser p; /* first: the parser is the reader */
  msc_func *func;
  msc_symbols values, functions, kinds, unknown_index;
  bool args_lost; /* the function's arguments could not be read, so unknown values are not reported */
  struct {
    result_name *n;
    size_t num, room;
  } names;
  struct {
    operand *o;
    size_t num, room;
  } operands;
  struct {
    typed *t;
    size_t num, room;
  } types;
  struct {
    pending *f;
    size_t num, room;
  } pendings; /* ops whose forward op is to be found */
  struct {
    unknown *u;
    size_t num, room;
  } unknowns;
} reader;

/* One op while it is read. */
typedef struct {
  msc_token start, name, attrs_at;
  size_t names, operands, types, in_types; /* bases of its parts on the stacks; number of operand types */
  msc_block *body;
  msc_attr_array attrs;
  const msc_loc *loc;
  const char *user_name;
} op_text;

static bool parse_block(reader *r, msc_block *b);

/* ---- recovery ---- */

static bool begins_op(msc_token t) {
  return t.first && (t.kind == MSC_TOK_VALUE || t.kind == MSC_TOK_STRING || t.kind == MSC_TOK_BLOCK || t.kind == '}');
}

/* Skips to the next line that begins an op or ends a region, past regions that begin on the way. */
static void skip_to_op(msc_parser *p, msc_token start) {
  int depth = 0;
  if (p->tok.at == start.at) msc_advance(p);
  for (; p->tok.kind != MSC_TOK_END; msc_advance(p)) {
    int k = p->tok.kind;
    if (depth == 0 && begins_op(p->tok)) return;
    if (k == '(' || k == '[' || k == '{') depth++;
    else if ((k == ')' || k == ']' || k == '}') && depth > 0) depth--;
  }
}

/* ---- values ---- */

/* Defines a name.  One of count 0 was used before it was defined, which has been reported. */
static void define(reader *r, msc_token t, msc_value *values, int64_t count) {
  msc_symbol *s = msc_symbol_find(&r->values, t.at, t.num);
  if (s && s->count) {
    msc_error(r->p.ctx, MSC_E_SSA, msc_loc_at(&r->p, t), "value %.*s is defined twice", (int)t.num, t.at);
    return;
  }
  if (!s) s = msc_symbol_add(&r->values, t.at, t.num);
  s->values = values;
  s->count = count;
}

/* Defines the names of an op that could not be read, so that their uses are not reported too. */
static void define_lost(reader *r, size_t first) {
  for (size_t i = first; i < r->names.num; i++)
    if (!msc_symbol_find(&r->values, r->names.n[i].at.at, r->names.n[i].at.num)) define(r, r->names.n[i].at, NULL, 1);
}

static bool parse_result_number(reader *r, int64_t *out_number) {
  msc_parser *p = &r->p;
  *out_number = 0;
  if (p->tok.kind != MSC_TOK_HASH) return true;
  for (const char *s = p->tok.at + 1; s < p->tok.at + p->tok.num; s++) {
    if (*s < '0' || *s > '9' || *out_number > MAX_PER_OP) return msc_unexpected(p, "the number of a result");
    *out_number = *out_number * 10 + (*s - '0');
  }
  msc_advance(p);
  return true;
}

/* `%x` or `%x#1` */
static bool parse_operand(reader *r) {
  msc_parser *p = &r->p;
  operand o = {.at = p->tok};
  int64_t number;
  MSC_TRY(msc_expect(p, MSC_TOK_VALUE, "a value") && parse_result_number(r, &number));
  msc_symbol *s = msc_symbol_find(&r->values, o.at.at, o.at.num);
  if (!s) {
    if (!r->args_lost)
      msc_error(p->ctx, MSC_E_SSA, msc_loc_at(p, o.at), "value %.*s is not defined before this use", (int)o.at.num,
                o.at.at);
    s = msc_symbol_add(&r->values, o.at.at, o.at.num); /* so that it is reported once */
  } else if (s->values && number >= s->count) {
    msc_error(p->ctx, MSC_E_SSA, msc_loc_at(p, o.at), "value %.*s has no result %" PRId64 ", only 0 to %" PRId64,
              (int)o.at.num, o.at.at, number, s->count - 1);
  } else if (s->values) {
    o.value = &s->values[number];
  }
  MSC_PUSH(p, r->operands, o, o);
  return true;
}

/* ---- the parts of an op ---- */

/* `%a, %b:2 =` */
static bool parse_result_names(reader *r, op_text *op) {
  msc_parser *p = &r->p;
  if (p->tok.kind != MSC_TOK_VALUE) return true;
  int64_t total = 0;
  do {
    result_name n = {p->tok, 1};
    MSC_TRY(msc_expect(p, MSC_TOK_VALUE, "a value"));
    msc_token count = p->tok;
    if (msc_take(p, ':')) {
      count = p->tok;
      MSC_TRY(msc_expect(p, MSC_TOK_INT, "a number of results") && msc_read_int(p, count, MSC_I64, &n.count));
    }
    if (n.count < 1 || n.count > MAX_PER_OP || (total += n.count) > MAX_PER_OP)
      return msc_syntax(p, count, "a number of results is 1 to %d", MAX_PER_OP);
    MSC_PUSH(p, r->names, n, n);
  } while (msc_take(p, ','));
  op->start = r->names.n[op->names].at;
  return msc_expect(p, '=', "'='");
}

static bool parse_operands(reader *r, const op_text *op) {
  msc_parser *p = &r->p;
  MSC_TRY(msc_expect(p, '(', "'('"));
  if (msc_take(p, ')')) return true;
  do {
    if (r->operands.num - op->operands == MAX_PER_OP)
      return msc_syntax(p, p->tok, "an op has at most %d operands", MAX_PER_OP);
    MSC_TRY(parse_operand(r));
  } while (msc_take(p, ','));
  return msc_expect(p, ')', "',' or ')'");
}

/* Reads `({ ... })` into block b, which is made before its op. */
static bool parse_region(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  MSC_TRY(msc_nest(p) && msc_expect(p, '(', "'('") && msc_expect(p, '{', "'{'"));
  uint32_t outside = r->values.index.num;
  MSC_TRY(parse_block(r, b));
  msc_symbols_pop(&r->values, outside);
  MSC_TRY(msc_expect(p, '}', "'}'"));
  if (p->tok.kind == ',') return msc_syntax(p, p->tok, "an op has at most one region");
  p->depth--;
  return msc_expect(p, ')', "')'");
}

static bool parse_types(reader *r, const char *what) {
  msc_parser *p = &r->p;
  MSC_TRY(msc_expect(p, '(', what));
  if (msc_take(p, ')')) return true;
  do {
    typed t = {.at = p->tok};
    MSC_TRY(msc_parse_type(p, &t.type));
    MSC_PUSH(p, r->types, t, t);
  } while (msc_take(p, ','));
  return msc_expect(p, ')', "',' or ')'");
}

/* `(types) -> type`, checked against the numbers of operands and results */
static bool parse_signature(reader *r, op_text *op) {
  msc_parser *p = &r->p;
  msc_token in_at = p->tok;
  MSC_TRY(parse_types(r, "'(' and the operands' types"));
  op->in_types = r->types.num - op->types;
  size_t num_in = r->operands.num - op->operands, named = 0;
  if (op->in_types != num_in) return msc_syntax(p, in_at, "operands: %zu, their types: %zu", num_in, op->in_types);
  MSC_TRY(msc_expect(p, MSC_TOK_ARROW, "'->'"));
  msc_token out_at = p->tok;
  if (p->tok.kind == '(') {
    MSC_TRY(parse_types(r, "'('"));
  } else {
    typed t = {.at = p->tok};
    MSC_TRY(msc_parse_type(p, &t.type));
    MSC_PUSH(p, r->types, t, t);
  }
  size_t num_out = r->types.num - op->types - op->in_types;
  for (size_t i = op->names; i < r->names.num; i++) named += (size_t)r->names.n[i].count;
  if (num_out > MAX_PER_OP || (named != num_out && r->names.num > op->names))
    return msc_syntax(p, out_at, "results: %zu, their types: %zu", named, num_out);
  return true;
}

/* ---- making the op ---- */

/* Reads attribute `part_of`: the whole tensor of each result, or "". */
static bool read_wholes(reader *r, const op_text *t, msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "part_of");
  if (!v) return true;
  bool ok = v->kind == MSC_ATTR_LIST && v->list.num == op->num_out;
  for (size_t i = 0; ok && i < v->list.num; i++) {
    const msc_attr_value *one = &v->list.v[i];
    ok = one->kind == MSC_ATTR_TYPE || (one->kind == MSC_ATTR_STR && !*one->s);
    if (one->kind == MSC_ATTR_TYPE) op->out[i].whole = one->type;
  }
  msc_op_unset(op, "part_of");
  return ok || msc_error(r->p.ctx, MSC_E_ROW, msc_loc_at(&r->p, t->attrs_at),
                         "attribute part_of must be a list of a type, or \"\", for every result");
}

/* Reads attributes `forward` and `letters` into the op's fields; `forward` names an op or, as %3, the op of a value. */
static bool read_links(reader *r, const op_text *t, msc_op *op) {
  op->attrs = msc_arena_copy(msc_context_arena(r->p.ctx), t->attrs.attrs, t->attrs.num * sizeof *op->attrs);
  op->num_attrs = t->attrs.num;
  static const char *const links[] = {MSC_FACT(forward), "letters"};
  for (int i = 0; i < 2; i++) {
    const msc_attr_value *v = msc_op_attr(op, links[i]);
    if (!v) continue;
    if (v->kind != MSC_ATTR_STR)
      return msc_error(r->p.ctx, MSC_E_ROW, msc_loc_at(&r->p, t->attrs_at), "attribute %s must be a string", links[i]);
    pending f = {op, t->start, v->s};
    if (i == 0) MSC_PUSH(&r->p, r->pendings, f, f);
    else op->letters = v->s;
    msc_op_unset(op, links[i]);
  }
  return msc_read_layouts(r->p.module, op->loc, op->attrs, op->num_attrs, msc_info(op)) && read_wholes(r, t, op);
}

static bool check_operand(reader *r, const op_text *t, size_t i) {
  const operand *o = &r->operands.o[t->operands + i];
  const typed *type = &r->types.t[t->types + i];
  if (!o->value || o->value->type == type->type) return true;
  msc_arena *a = r->p.scratch;
  const msc_mesh *mesh = &r->p.module->mesh;
  return msc_error(r->p.ctx, MSC_E_TYPE, msc_loc_at(&r->p, type->at), "operand %zu, %.*s, is %s, not %s", i,
                   (int)o->at.num, o->at.at, msc_type_text(a, mesh, o->value->type),
                   msc_type_text(a, mesh, type->type));
}

/* The operands' values; a missing one is replaced by a new value of the type in the text. */
static msc_value **find_operands(reader *r, const op_text *t) {
  msc_value **in = msc_new_array(r->p.scratch, msc_value *, t->in_types);
  for (size_t i = 0; i < t->in_types; i++) {
    in[i] = r->operands.o[t->operands + i].value;
    if (in[i]) continue;
    in[i] = msc_new(r->p.scratch, msc_value);
    in[i]->type = r->types.t[t->types + i].type;
  }
  return in;
}

static void define_results(reader *r, const op_text *t, msc_value *out) {
  for (size_t i = t->names; i < r->names.num; i++) {
    define(r, r->names.n[i].at, out, r->names.n[i].count);
    out += r->names.n[i].count;
  }
}

static msc_value *declared_results(const reader *r, const op_text *t, msc_value *out) {
  const typed *type = r->types.t + t->types + t->in_types;
  for (size_t i = 0; type + i < r->types.t + r->types.num; i++) out[i].type = type[i].type;
  return out;
}

static void check_written_types(reader *r, const op_text *t, const msc_op *op) {
  msc_arena *a = r->p.scratch;
  const msc_mesh *mesh = &r->p.module->mesh;
  for (size_t i = 0; i < op->num_out; i++) {
    const typed *type = &r->types.t[t->types + t->in_types + i];
    if (op->out[i].type == type->type) continue;
    msc_error(r->p.ctx, MSC_E_TYPE, msc_loc_at(&r->p, type->at), "result %zu of %s is %s, not %s", i,
              msc_kind_name(op->kind), msc_type_text(a, mesh, op->out[i].type), msc_type_text(a, mesh, type->type));
  }
}

static void count_unknown(reader *r, const op_text *t) {
  msc_symbol *s = msc_symbol_find(&r->unknown_index, t->name.at, t->name.num);
  if (!s) {
    s = msc_symbol_add(&r->unknown_index, t->name.at, t->name.num);
    s->count = (int64_t)r->unknowns.num;
    unknown u = {msc_token_string(&r->p, t->name), t->name, 0};
    MSC_PUSH(&r->p, r->unknowns, u, u);
  }
  r->unknowns.u[s->count].count++;
}

static bool find_kind(const reader *r, msc_token name, msc_op_kind *out_kind) {
  const msc_symbol *s =
      name.num > 6 && memcmp(name.at, "\"msc.", 5) == 0 ? msc_symbol_find(&r->kinds, name.at + 5, name.num - 6) : NULL;
  if (s) *out_kind = (msc_op_kind)s->count;
  return s;
}

/* Builds and checks an op that has been read.  Its results' names are defined even if a check fails. */
static bool make_op(reader *r, const op_text *t, msc_block *b, int errors_before) {
  msc_context *ctx = r->p.ctx;
  msc_op_kind kind;
  size_t num_out = r->types.num - t->types - t->in_types;
  if (!find_kind(r, t->name, &kind)) {
    count_unknown(r, t);
    define_results(r, t, declared_results(r, t, msc_new_array(r->p.scratch, msc_value, num_out)));
    return true;
  }
  for (size_t i = 0; i < t->in_types; i++) check_operand(r, t, i);
  msc_op *op = msc_op_new(r->func, kind, t->in_types, find_operands(r, t), num_out, t->loc);
  op->name = t->user_name;
  op->body = t->body;
  if (op->body) op->body->parent = op;
  msc_append(b, op);
  declared_results(r, t, op->out);
  define_results(r, t, op->out);
  MSC_TRY(read_links(r, t, op));
  if (msc_num_errors(ctx) == errors_before && msc_infer(op)) check_written_types(r, t, op);
  declared_results(r, t, op->out); /* so that users are checked against the types in the text */
  return true;
}

static bool parse_op(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  op_text t = {.start = p->tok, .names = r->names.num, .operands = r->operands.num, .types = r->types.num};
  int errors_before = msc_num_errors(p->ctx);
  MSC_TRY(parse_result_names(r, &t));
  t.name = p->tok;
  MSC_TRY(msc_expect(p, MSC_TOK_STRING, "an op in generic form, as in \"msc.neg\"(%0)") && parse_operands(r, &t));
  if (p->tok.kind == '(') {
    t.body = msc_block_new(r->func, NULL);
    MSC_TRY(parse_region(r, t.body));
  }
  t.attrs_at = p->tok;
  if (p->tok.kind == '{') MSC_TRY(msc_parse_dict(p, false, &t.attrs));
  MSC_TRY(msc_expect(p, ':', "':' and the op's types") && parse_signature(r, &t));
  MSC_TRY(msc_parse_loc(p, t.start, &t.loc, &t.user_name));
  return make_op(r, &t, b, errors_before);
}

/* Parses one op; after a fault goes to the next, with all stacks as they were. */
static void parse_op_or_skip(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  msc_token start = p->tok;
  size_t names = r->names.num, operands = r->operands.num, types = r->types.num, values = p->values.num,
         entries = p->entries.num;
  int depth = p->depth;
  uint32_t outside = r->values.index.num;
  if (!parse_op(r, b)) {
    p->depth = depth, p->values.num = values, p->entries.num = entries;
    msc_symbols_pop(&r->values, outside);
    define_lost(r, names);
    skip_to_op(p, start);
  }
  r->names.num = names, r->operands.num = operands, r->types.num = types;
}

/* ---- blocks ---- */

static bool is_number_name(msc_token t) { return t.at[1] >= '0' && t.at[1] <= '9'; }

static bool parse_argument(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  msc_token t = p->tok;
  const msc_type *type;
  const msc_loc *loc;
  const char *name;
  MSC_TRY(msc_expect(p, MSC_TOK_VALUE, "an argument") && msc_expect(p, ':', "':' and the argument's type") &&
          msc_parse_type(p, &type));
  MSC_TRY(msc_parse_loc(p, t, &loc, &name)); /* arguments have no place of their own */
  bool named = b == r->func->body && !is_number_name(t);
  define(r, t, msc_add_arg(b, type, named ? msc_intern_n(p->ctx, t.at + 1, t.num - 1) : NULL), 1);
  return true;
}

/* `^bb0(%x: type, ...):` */
static bool parse_label(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  msc_advance(p);
  if (msc_take(p, '(') && !msc_take(p, ')')) {
    do MSC_TRY(parse_argument(r, b));
    while (msc_take(p, ','));
    MSC_TRY(msc_expect(p, ')', "',' or ')'"));
  }
  return msc_expect(p, ':', "':'");
}

/* Reports a second block, and defines its arguments, so that their uses are not reported too. */
static void parse_second_block(reader *r) {
  msc_token start = r->p.tok;
  msc_syntax(&r->p, start, "a region has one block");
  if (!parse_label(r, msc_block_new(r->func, NULL))) skip_to_op(&r->p, start);
}

static bool parse_block(reader *r, msc_block *b) {
  msc_parser *p = &r->p;
  msc_token start = p->tok;
  if (p->tok.kind == MSC_TOK_BLOCK && !parse_label(r, b)) {
    r->args_lost = true;
    skip_to_op(p, start);
  }
  while (p->tok.kind != '}' && p->tok.kind != MSC_TOK_END) {
    if (p->tok.kind == MSC_TOK_BLOCK) parse_second_block(r);
    else parse_op_or_skip(r, b);
  }
  return true;
}

/* ---- functions ---- */

typedef struct {
  const char *name;
  msc_op *op; /* the first of that name */
} named_op;
typedef MSC_TABLE(named_op) op_names;

static void find_forward_op(reader *r, const pending *f, const op_names *names) {
  const msc_symbol *s = f->forward[0] == '%' ? msc_symbol_find(&r->values, f->forward, strlen(f->forward)) : NULL;
  const named_op *named = msc_table_find(names, &f->forward);
  if (s && !s->values) return; /* a faulty op, reported */
  if (s) f->op->forward = s->values->def;
  else if (named) f->op->forward = named->op;
  if (f->op->forward) return;
  msc_error(r->p.ctx, MSC_E_SSA, msc_loc_at(&r->p, f->at),
            "there is no op \"%s\" in this function to be the forward op", f->forward);
}

static void find_forward_ops(reader *r) {
  op_names names = {.index.arena = r->p.scratch};
  for (msc_op *op = r->pendings.num ? r->func->body->first : NULL; op; op = op->next) {
    named_op *n = op->name ? msc_table_at(&names, &op->name) : NULL;
    if (n && !n->op) n->op = op;
  }
  for (size_t i = 0; i < r->pendings.num; i++) find_forward_op(r, &r->pendings.f[i], &names);
  r->pendings.num = 0;
}

static bool take_arg_attrs(reader *r, msc_token at, const msc_attr_value *list) {
  msc_parser *p = &r->p;
  msc_func *f = r->func;
  if (list->kind != MSC_ATTR_LIST || (list->list.num != f->body->num_args && !r->args_lost))
    return msc_syntax(p, at, "arg_attrs must be a list of %zu dictionaries, one per argument", f->body->num_args);
  for (size_t i = 0; i < list->list.num && i < f->body->num_args; i++) {
    const msc_attr_value *v = &list->list.v[i];
    if (v->kind != MSC_ATTR_DICT) return msc_syntax(p, at, "arg_attrs must be a list of dictionaries");
    f->arg[i].attrs = msc_arena_copy(msc_context_arena(p->ctx), v->dict.a, v->dict.num * sizeof(msc_attr));
    f->arg[i].num_attrs = v->dict.num;
    MSC_TRY(msc_read_layouts(p->module, msc_loc_at(p, at), f->arg[i].attrs, f->arg[i].num_attrs, NULL));
    const msc_attr_value *name = msc_arg_attr(f, i, MSC_FACT(msc_name));
    if (name && name->kind == MSC_ATTR_STR) f->body->args[i]->name = name->s;
  }
  return true;
}

/* Reads the function's attributes; its name and its arguments' attributes go into fields. */
static bool read_func_attrs(reader *r, msc_token at, msc_attr_array attrs) {
  msc_parser *p = &r->p;
  msc_func *f = r->func;
  f->attrs = msc_arena_copy(msc_context_arena(p->ctx), attrs.attrs, attrs.num * sizeof *f->attrs);
  f->num_attrs = attrs.num;
  const msc_attr_value *name = msc_func_attr(f, "sym_name"), *args = msc_func_attr(f, "arg_attrs");
  if (!name || name->kind != MSC_ATTR_STR)
    return msc_syntax(p, at, "a function needs its name, as in {sym_name = \"forward\"}");
  f->name = name->s;
  if (args) MSC_TRY(take_arg_attrs(r, at, args));
  msc_drop_attr(f->attrs, &f->num_attrs, "sym_name");
  msc_drop_attr(f->attrs, &f->num_attrs, "arg_attrs");
  if (msc_symbol_find(&r->functions, f->name, strlen(f->name)))
    return msc_syntax(p, at, "function %s is defined twice", f->name);
  msc_symbol_add(&r->functions, f->name, strlen(f->name));
  return msc_read_layouts(p->module, msc_loc_at(p, at), f->attrs, f->num_attrs, NULL);
}

static bool is_op_name(const msc_parser *p, const char *name) {
  size_t n = strlen(name);
  return p->tok.kind == MSC_TOK_STRING && p->tok.num == n + 2 && memcmp(p->tok.at + 1, name, n) == 0;
}

static bool parse_nothing(msc_parser *p) { return msc_expect(p, '(', "'('") && msc_expect(p, ')', "')'"); }

/* `: () -> ()` */
static bool parse_no_types(msc_parser *p) {
  return msc_expect(p, ':', "':'") && parse_nothing(p) && msc_expect(p, MSC_TOK_ARROW, "'->'") && parse_nothing(p);
}

static bool parse_func(reader *r) {
  msc_parser *p = &r->p;
  msc_token start = p->tok;
  if (!is_op_name(p, "msc.func")) return msc_unexpected(p, "\"msc.func\"");
  msc_advance(p);
  MSC_TRY(parse_nothing(p));
  r->func = msc_func_new(p->module, "");
  r->args_lost = false;
  MSC_TRY(msc_nest(p) && msc_expect(p, '(', "'('") && msc_expect(p, '{', "'{'") && parse_block(r, r->func->body));
  find_forward_ops(r);
  MSC_TRY(msc_expect(p, '}', "'}'") && msc_expect(p, ')', "')'"));
  p->depth--;
  msc_token at = p->tok;
  msc_attr_array attrs = {0};
  const char *name;
  if (p->tok.kind == '{') MSC_TRY(msc_parse_dict(p, false, &attrs));
  MSC_TRY(read_func_attrs(r, at, attrs) && parse_no_types(p) && msc_parse_loc(p, start, &r->func->loc, &name));
  if (!name) return true;
  msc_loc loc = *r->func->loc; /* a function's one name in a location is its scope */
  if (!loc.scope) loc.scope = name;
  r->func->loc = msc_loc_of(p->ctx, &loc);
  return true;
}

static void parse_funcs(reader *r) {
  msc_parser *p = &r->p;
  while (p->tok.kind != '}' && p->tok.kind != MSC_TOK_END) {
    msc_token start = p->tok;
    int depth = p->depth;
    if (!parse_func(r)) {
      p->depth = depth, p->values.num = p->entries.num = r->pendings.num = 0;
      skip_to_op(p, start);
    }
    msc_symbols_pop(&r->values, 0);
  }
}

/* ---- modules ---- */

static bool take_module_attrs(msc_parser *p) {
  msc_attr_array attrs;
  MSC_TRY(msc_parse_dict(p, true, &attrs));
  p->module->attrs = msc_arena_copy(msc_context_arena(p->ctx), attrs.attrs, attrs.num * sizeof *attrs.attrs);
  p->module->num_attrs = attrs.num;
  return true;
}

/* `module attributes {...} {...}` */
static bool parse_short_module(reader *r) {
  msc_parser *p = &r->p;
  if (msc_take_word(p, "attributes")) MSC_TRY(take_module_attrs(p));
  MSC_TRY(msc_expect(p, '{', "'{'"));
  parse_funcs(r);
  return msc_expect(p, '}', "\"msc.func\" or '}'");
}

/* Reads the attributes behind the functions of the generic form first, because layouts need the mesh among them.  The
 * parser is then where it was before; *out_tok and *out_lex are behind the attributes. */
static bool read_ahead(msc_parser *p, msc_token *out_tok, msc_lexer *out_lex) {
  msc_token tok = p->tok;
  msc_lexer lex = p->lex;
  for (int depth = 1; p->tok.kind != MSC_TOK_END; msc_advance(p)) {
    if (p->tok.kind == '{') depth++;
    if (p->tok.kind == '}' && --depth == 0) break;
  }
  msc_take(p, '}');
  if (msc_take(p, ')') && p->tok.kind == '{') MSC_TRY(take_module_attrs(p));
  *out_tok = p->tok, *out_lex = p->lex;
  p->tok = tok, p->lex = lex;
  return true;
}

/* `"builtin.module"() ({...}) {...} : () -> ()` */
static bool parse_generic_module(reader *r) {
  msc_parser *p = &r->p;
  msc_token behind;
  msc_lexer lex;
  MSC_TRY(parse_nothing(p) && msc_expect(p, '(', "'('") && msc_expect(p, '{', "'{'") && read_ahead(p, &behind, &lex));
  if (msc_take(p, MSC_TOK_BLOCK)) MSC_TRY(msc_expect(p, ':', "':'"));
  parse_funcs(r);
  MSC_TRY(msc_expect(p, '}', "\"msc.func\" or '}'") && msc_expect(p, ')', "')'"));
  if (p->tok.kind == '{') p->tok = behind, p->lex = lex;
  return parse_no_types(p);
}

static bool parse_module(reader *r) {
  msc_parser *p = &r->p;
  const msc_loc *loc;
  const char *name;
  msc_token start = p->tok;
  if (is_op_name(p, "builtin.module")) {
    msc_advance(p);
    MSC_TRY(parse_generic_module(r));
  } else {
    if (!msc_take_word(p, "module")) return msc_unexpected(p, "a module");
    MSC_TRY(parse_short_module(r));
  }
  return msc_parse_loc(p, start, &loc, &name) &&
         (p->tok.kind == MSC_TOK_END || msc_unexpected(p, "the end of the text: it holds one module"));
}

static void report_unknown_words(reader *r) {
  const char *names[OP_COUNT], *text = "";
  for (int k = 0; k < OP_COUNT; k++) names[k] = msc_kind_name((unsigned)k);
  for (size_t i = 0; i < r->unknowns.num && i < MAX_UNKNOWN_LISTED; i++) {
    const unknown *u = &r->unknowns.u[i];
    bool ours = strncmp(u->name, "msc.", 4) == 0;
    msc_token bare = {.at = u->at.at + 1, .num = u->at.num - 2};
    const char *near = msc_nearest(u->name + (ours ? 4 : 0), names, OP_COUNT);
    text = msc_arena_printf(r->p.scratch, "%s%s%s (%zu, first at line %u%s%s%s)", text, i ? ", " : "",
                            msc_token_text(&r->p, bare), u->count, u->at.line, near ? "; did you mean msc." : "",
                            near ? near : "", near ? "?" : "");
  }
  if (r->unknowns.num > MAX_UNKNOWN_LISTED)
    text = msc_arena_printf(r->p.scratch, "%s and %zu more", text, r->unknowns.num - MAX_UNKNOWN_LISTED);
  if (r->unknowns.num)
    msc_error(r->p.ctx, MSC_E_UNKNOWN_OP, msc_loc_at(&r->p, r->unknowns.u[0].at), "unknown ops: %s", text);
}

msc_module *msc_parse_part(msc_context *ctx, const char *name, uint32_t first_line, const char *text, size_t bytes) {
  msc_arena *scratch = msc_arena_new(ctx);
  reader *r = msc_new(scratch, reader);
  int errors = msc_num_errors(ctx);
  r->p = (msc_parser){.ctx = ctx,
                      .scratch = scratch,
                      .module = msc_module_new(ctx),
                      .file = msc_intern(ctx, name),
                      .lex = msc_lexer_of(text, bytes)};
  r->p.lex.line = first_line;
  r->values.index.arena = r->functions.index.arena = r->kinds.index.arena = r->unknown_index.index.arena = scratch;
  msc_reserve(scratch, r->p.values.v, r->p.values.room, 1); /* never NULL: a part of none has an address too */
  msc_reserve(scratch, r->p.entries.e, r->p.entries.room, 1);
  msc_reserve(scratch, r->types.t, r->types.room, 1);
  for (int k = 0; k < OP_COUNT; k++) {
    const char *kind = msc_kind_name((unsigned)k);
    msc_symbol_add(&r->kinds, kind, strlen(kind))->count = k;
  }
  msc_advance(&r->p);
  parse_module(r);
  report_unknown_words(r);
  msc_module *m = msc_num_errors(ctx) == errors ? r->p.module : NULL;
  msc_arena_free(scratch);
  return m;
}

msc_module *msc_parse(msc_context *ctx, const char *name, const char *text, size_t bytes) {
  return msc_parse_part(ctx, name, 1, text, bytes);
}
