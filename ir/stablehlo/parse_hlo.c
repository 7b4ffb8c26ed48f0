/* parse_hlo.c: StableHLO text in; its functions and ops as the structs of hlo.h out, or the first fault at its
 * place. */
#include <stdlib.h>
#include <string.h>

#include "ir/stablehlo/hlo_text.h"

static bool parse_ops(hlo_text *r, hlo_region *to, const char *until);

/* ---- ops ---- */

static void add_word(hlo_text *r, hlo_op *op, const char *word) {
  msc_grow(r->arena, op->word, op->num_words);
  op->word[op->num_words++] = word;
}

static bool take_operand(hlo_text *r, hlo_op *op) {
  const char *name = hlo_expect_word(r, "expected a value");
  MSC_TRY(name);
  msc_grow(r->arena, op->in, op->num_in);
  op->in[op->num_in++] = name;
  return true;
}

/* A word that stands alone, or NAME = VALUE. */
static bool take_named(hlo_text *r, hlo_op *op) {
  const char *word = hlo_expect_word(r, "expected an operand, an attribute or ':'");
  MSC_TRY(word);
  if (!hlo_take_if(r, "=")) return add_word(r, op, word), true;
  msc_grow(r->arena, op->attr, op->num_attrs);
  hlo_value *v = &op->attr[op->num_attrs++];
  MSC_TRY(hlo_take_value(r, v));
  v->name = word;
  return true;
}

/* A region in braces: blocks' arguments, then ops. */
static bool take_region(hlo_text *r, hlo_op *op) {
  msc_grow(r->arena, op->region, op->num_regions);
  hlo_region *to = &op->region[op->num_regions++];
  *to = (hlo_region){0};
  MSC_TRY(hlo_expect(r, "{"));
  hlo_skip_space(r);
  if (r->p < r->end && *r->p == '^') {
    MSC_TRY(hlo_expect_word(r, "expected a block") && hlo_expect(r, "("));
    while (!hlo_take_if(r, ")")) {
      const char *name = hlo_expect_word(r, "expected an argument");
      MSC_TRY(name && hlo_expect(r, ":") && hlo_take_type(r) && hlo_take_loc(r, NULL, NULL));
      msc_grow(r->arena, to->arg, to->num_args);
      to->arg[to->num_args++] = name;
      if (!hlo_take_if(r, ",") && !hlo_see(r, ")")) return hlo_fault(r, "expected ',' or ')'");
    }
    MSC_TRY(hlo_expect(r, ":"));
  }
  return parse_ops(r, to, "}");
}

/* Reads the parts between an op's name and its types, in any order. */
static bool take_parts(hlo_text *r, hlo_op *op) {
  while (!hlo_see(r, ":")) {
    hlo_skip_space(r);
    if (r->p >= r->end) return hlo_fault(r, "expected ':'");
    if (hlo_take_if(r, ",") || hlo_take_if(r, ")") || hlo_take_if(r, "init:")) continue;
    if (*r->p == '%') MSC_TRY(take_operand(r, op));
    else if (hlo_take_if(r, "<{")) {
      MSC_TRY(hlo_take_members(r, "}", &op->num_attrs, &op->attr) && hlo_expect(r, ">"));
    } else if (hlo_take_if(r, "({")) {
      r->p--;
      do MSC_TRY(take_region(r, op));
      while (hlo_take_if(r, ","));
      MSC_TRY(hlo_expect(r, ")"));
    } else if (hlo_take_if(r, "(")) continue;
    else if (hlo_take_if(r, "{")) MSC_TRY(hlo_take_members(r, "}", &op->num_attrs, &op->attr));
    else if (*r->p == '[') {
      msc_grow(r->arena, op->list, op->num_lists);
      MSC_TRY(hlo_take_value(r, &op->list[op->num_lists]));
      op->num_lists++;
    } else if (*r->p == '}' || *r->p == '"') return hlo_fault(r, "expected ':' and the op's type");
    else MSC_TRY(take_named(r, op));
  }
  return true;
}

static bool take_types(hlo_text *r, size_t *num, const msc_type ***type) {
  bool many = hlo_take_if(r, "(");
  if (many && hlo_take_if(r, ")")) return true;
  do {
    const msc_type *t = hlo_take_type(r);
    MSC_TRY(t);
    msc_grow(r->arena, *type, *num);
    (*type)[(*num)++] = t;
  } while (hlo_take_if(r, ","));
  return !many || hlo_expect(r, ")");
}

/* (in, in) -> out, or the type that all have; of select the last of its types. */
static bool take_signature(hlo_text *r, hlo_op *op) {
  size_t num = 0;
  const msc_type **type = NULL;
  MSC_TRY(hlo_expect(r, ":"));
  if (hlo_see(r, "()")) hlo_take_if(r, "()"); /* no operands */
  else MSC_TRY(take_types(r, &num, &type));
  op->num_types = num;
  if (hlo_take_if(r, "->")) return take_types(r, &op->num_out, &op->out_type);
  if (!num) return true;
  op->out_type = msc_new_array(r->arena, const msc_type *, 1);
  op->out_type[0] = type[num - 1], op->num_out = 1;
  return true;
}

/* Reads reducer(%a: type, %b: type) (%c: type, %d: type) { ops }, which stands behind a reduction's types. */
static bool take_reducer(hlo_text *r, hlo_op *op) {
  msc_grow(r->arena, op->region, op->num_regions);
  hlo_region *to = &op->region[op->num_regions++];
  *to = (hlo_region){0};
  while (hlo_take_if(r, "(")) {
    while (!hlo_take_if(r, ")")) {
      const char *name = hlo_expect_word(r, "expected an argument");
      MSC_TRY(name && hlo_expect(r, ":") && hlo_take_type(r) && hlo_take_loc(r, NULL, NULL));
      msc_grow(r->arena, to->arg, to->num_args);
      to->arg[to->num_args++] = name;
      hlo_take_if(r, ",");
    }
  }
  return hlo_expect(r, "{") && parse_ops(r, to, "}");
}

/* stablehlo.constant dense<...> : type */
static bool take_constant(hlo_text *r, hlo_op *op) {
  if (hlo_take_if(r, "{")) MSC_TRY(hlo_take_members(r, "}", &op->num_attrs, &op->attr));
  msc_grow(r->arena, op->attr, op->num_attrs);
  hlo_value *v = &op->attr[op->num_attrs++];
  MSC_TRY(hlo_take_value(r, v));
  if (v->kind != HLO_DENSE) return hlo_fault(r, "expected dense<...>");
  v->name = "value";
  op->out_type = msc_new_array(r->arena, const msc_type *, 1);
  op->out_type[0] = v->type, op->num_out = 1;
  return true;
}

/* stablehlo.while(%x = %1, %y = %2) : types cond { ops } do { ops }, both with the arguments x and y */
static bool take_loop(hlo_text *r, hlo_op *op) {
  hlo_region *both = msc_new_array(r->arena, hlo_region, 2);
  MSC_TRY(hlo_expect(r, "("));
  while (!hlo_take_if(r, ")")) {
    const char *name = hlo_expect_word(r, "expected an argument");
    MSC_TRY(name && hlo_expect(r, "=") && take_operand(r, op));
    msc_grow(r->arena, both[0].arg, both[0].num_args);
    both[0].arg[both[0].num_args++] = name;
    if (!hlo_take_if(r, ",") && !hlo_see(r, ")")) return hlo_fault(r, "expected ',' or ')'");
  }
  both[1].arg = both[0].arg, both[1].num_args = both[0].num_args;
  op->region = both, op->num_regions = 2;
  MSC_TRY(hlo_expect(r, ":") && take_types(r, &op->num_out, &op->out_type));
  if (hlo_take_if(r, "attributes")) MSC_TRY(hlo_expect(r, "{") && hlo_take_members(r, "}", &op->num_attrs, &op->attr));
  return hlo_expect(r, "cond") && hlo_expect(r, "{") && parse_ops(r, &both[0], "}") && hlo_expect(r, "do") &&
         hlo_expect(r, "{") && parse_ops(r, &both[1], "}");
}

/* return %1, %2 : types */
static bool take_return(hlo_text *r, hlo_op *op) {
  size_t num = 0;
  const msc_type **type = NULL;
  hlo_skip_space(r);
  while (r->p < r->end && *r->p == '%') {
    MSC_TRY(take_operand(r, op));
    hlo_take_if(r, ",");
    hlo_skip_space(r);
  }
  return !op->num_in || (hlo_expect(r, ":") && take_types(r, &num, &type));
}

static bool take_results(hlo_text *r, hlo_op *op) {
  hlo_skip_space(r);
  if (r->p >= r->end || *r->p != '%') return true;
  do {
    const char *name = hlo_expect_word(r, "expected a result");
    MSC_TRY(name);
    msc_grow(r->arena, op->result, op->num_names);
    op->result[op->num_names++] = name;
    if (hlo_take_if(r, ":")) (void)strtoul(r->p, (char **)&r->p, 10); /* %1:2; the types say it again */
  } while (hlo_take_if(r, ","));
  return hlo_expect(r, "=");
}

static bool take_op(hlo_text *r, hlo_op *op) {
  *op = (hlo_op){0};
  if (++r->num_ops > HLO_MAX_OPS) return hlo_fault(r, "there are too many ops");
  if (++r->depth > HLO_MAX_DEPTH) return hlo_fault(r, "regions are too deep");
  MSC_TRY(take_results(r, op));
  hlo_skip_space(r);
  op->loc = hlo_here(r);
  bool is_pretty = *r->p != '"';
  op->name = *r->p == '"' ? hlo_take_text(r) : hlo_expect_word(r, "expected an op");
  MSC_TRY(op->name);
  bool ends = !strcmp(op->name, "return") || !strcmp(op->name, "func.return") || !strcmp(op->name, "stablehlo.return");
  if (ends && !hlo_see(r, "(")) MSC_TRY(take_return(r, op));
  else if (!strcmp(op->name, "stablehlo.constant") && !hlo_see(r, "(")) MSC_TRY(take_constant(r, op));
  else if (is_pretty && !strcmp(op->name, "stablehlo.while")) MSC_TRY(take_loop(r, op));
  else {
    MSC_TRY(take_parts(r, op) && take_signature(r, op));
    if (hlo_take_if(r, "reducer")) MSC_TRY(take_reducer(r, op));
  }
  r->depth--;
  return hlo_take_loc(r, &op->loc, NULL);
}

static bool parse_ops(hlo_text *r, hlo_region *to, const char *until) {
  while (!hlo_take_if(r, until)) {
    hlo_op op;
    MSC_TRY(take_op(r, &op));
    msc_grow(r->arena, to->op, to->num_ops);
    to->op[to->num_ops++] = op;
  }
  return true;
}

/* ---- functions ---- */

static bool take_args(hlo_text *r, hlo_func *f) {
  MSC_TRY(hlo_expect(r, "("));
  while (!hlo_take_if(r, ")")) {
    hlo_arg a = {0};
    a.name = hlo_expect_word(r, "expected an argument");
    MSC_TRY(a.name && hlo_expect(r, ":") && (a.type = hlo_take_type(r)));
    if (hlo_take_if(r, "{")) MSC_TRY(hlo_take_members(r, "}", &a.num_attrs, &a.attr));
    MSC_TRY(hlo_take_loc(r, NULL, &a.said));
    msc_grow(r->arena, f->arg, f->num_args);
    f->arg[f->num_args++] = a;
    if (!hlo_take_if(r, ",") && !hlo_see(r, ")")) return hlo_fault(r, "expected ',' or ')'");
  }
  return true;
}

static const char *text_member(size_t num, const hlo_value *member, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(member[i].name, name) && member[i].kind == HLO_TEXT) return member[i].s;
  return NULL;
}

static bool take_func_results(hlo_text *r, hlo_func *f) {
  if (!hlo_take_if(r, "->")) return true;
  bool many = hlo_take_if(r, "(");
  if (many && hlo_take_if(r, ")")) return true;
  do {
    size_t num = 0;
    hlo_value *member = NULL;
    MSC_TRY(hlo_take_type(r));
    if (many && hlo_take_if(r, "{")) MSC_TRY(hlo_take_members(r, "}", &num, &member));
    msc_grow(r->arena, f->result, f->num_results);
    f->result[f->num_results++] = text_member(num, member, "jax.result_info");
  } while (hlo_take_if(r, ","));
  return !many || hlo_expect(r, ")");
}

static bool take_func(hlo_text *r, hlo_func *f) {
  f->loc = hlo_here(r);
  if (!hlo_take_if(r, "public")) hlo_take_if(r, "private");
  const char *name = hlo_expect_word(r, "expected the name of a function");
  MSC_TRY(name);
  f->name = name[0] == '@' ? msc_intern(r->ctx, name + 1) : name;
  MSC_TRY(take_args(r, f) && take_func_results(r, f));
  if (hlo_take_if(r, "attributes")) MSC_TRY(hlo_expect(r, "{") && hlo_take_members(r, "}", &f->num_attrs, &f->attr));
  MSC_TRY(hlo_expect(r, "{") && parse_ops(r, &f->body, "}"));
  return hlo_take_loc(r, NULL, NULL);
}

/* Skips #loc = ..., sdy.mesh @mesh = <...> and the like, to the end of their line. */
static void skip_line(hlo_text *r) {
  while (r->p < r->end && *r->p != '\n') r->p++;
}

static bool parse_module(hlo_text *r, hlo_module *m) {
  size_t num = 0;
  hlo_value *attr = NULL;
  while (hlo_see(r, "#") || (r->p < r->end && *r->p == '#')) skip_line(r);
  MSC_TRY(hlo_expect(r, "module"));
  hlo_skip_space(r);
  if (*r->p == '@') MSC_TRY(hlo_expect_word(r, "expected a name"));
  if (hlo_take_if(r, "attributes")) MSC_TRY(hlo_expect(r, "{") && hlo_take_members(r, "}", &num, &attr));
  MSC_TRY(hlo_expect(r, "{"));
  while (!hlo_take_if(r, "}")) {
    hlo_func f = {0};
    if (!hlo_take_if(r, "func.func")) {
      if (!hlo_see(r, "sdy.mesh")) return hlo_fault(r, "expected func.func");
      skip_line(r);
      continue;
    }
    MSC_TRY(take_func(r, &f));
    msc_grow(r->arena, m->func, m->num_funcs);
    m->func[m->num_funcs++] = f;
  }
  MSC_TRY(hlo_take_loc(r, NULL, NULL));
  for (hlo_skip_space(r); r->p < r->end && *r->p == '#'; hlo_skip_space(r)) skip_line(r);
  return r->p >= r->end || hlo_fault(r, "expected the end of the text");
}

hlo_module *hlo_parse(msc_context *ctx, msc_arena *arena, const char *file, const char *text, size_t bytes) {
  hlo_text r = {.ctx = ctx,
                .arena = arena,
                .file = msc_intern(ctx, file),
                .text = text,
                .end = text + bytes,
                .p = text,
                .line_at = text,
                .line = 1};
  r.named.index.arena = arena;
  hlo_module *m = msc_new(arena, hlo_module);
  hlo_note_locs(&r);
  return parse_module(&r, m) ? m : NULL;
}
