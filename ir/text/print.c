/* print.c: a module in; its IR text out.  Everything has one spelling: reading the text and printing it again gives
 * the same bytes. */
#include <string.h>

#include "ir/text/text.h"

/* The %name of an op's results or of an argument. */
typedef struct {
  const void *key;  /* the op or the argument */
  const char *text; /* NULL: it is the number */
  uint32_t number;
} value_name;

typedef struct {
  const char *name; /* interned */
  const msc_op *op; /* the first of that name */
} named_op;

/* The function being printed. */
typedef struct {
  msc_printer w; /* first: the printer is the writer */
  MSC_TABLE(value_name) ids;
  MSC_TABLE(const char *) used; /* interned argument names that are taken */
  MSC_TABLE(named_op) named;    /* empty when no op has a forward op */
  uint32_t next_id;
  bool has_forward;
} writer;

/* ---- names of values ---- */

static bool is_ssa_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$.-", digits[] = "0123456789";
  if (!*name || strchr(digits, *name)) return false;
  while (*name && (strchr(letters, *name) || strchr(digits, *name))) name++;
  return !*name;
}

static const char *printed_arg_name(const msc_func *f, size_t i) {
  const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_name));
  return v && v->kind == MSC_ATTR_STR ? v->s : f->body->args[i]->name;
}

static void name_arg(writer *r, const msc_value *arg, const char *name) {
  value_name *id = msc_table_at(&r->ids, &arg);
  if (name && is_ssa_name(name) && !msc_table_find(&r->used, &name)) {
    msc_table_at(&r->used, &name);
    id->text = name;
  } else {
    id->number = r->next_id++;
  }
}

static void number_ops(writer *r, const msc_block *b) {
  for (const msc_op *op = b->first; op; op = op->next) {
    if (op->num_out) msc_table_at(&r->ids, &op)->number = r->next_id++;
    r->has_forward = r->has_forward || op->forward;
    for (size_t i = 0; op->body && i < op->body->num_args; i++) name_arg(r, op->body->args[i], NULL);
    if (op->body) number_ops(r, op->body);
  }
}

static void note_name(writer *r, const msc_op *op) {
  named_op *n = op->name ? msc_table_at(&r->named, &op->name) : NULL;
  if (n && !n->op) n->op = op;
}

static void name_values(writer *r, const msc_func *f) {
  memset(&r->ids, 0, sizeof r->ids), memset(&r->used, 0, sizeof r->used), memset(&r->named, 0, sizeof r->named);
  r->ids.index.arena = r->used.index.arena = r->named.index.arena = r->w.scratch;
  r->next_id = 0;
  r->has_forward = false;
  for (size_t i = 0; i < f->body->num_args; i++) name_arg(r, f->body->args[i], printed_arg_name(f, i));
  number_ops(r, f->body);
  for (const msc_op *op = r->has_forward ? f->body->first : NULL; op; op = op->next) note_name(r, op);
}

static void put_id(writer *r, const void *key) {
  const value_name *id = msc_table_find(&r->ids, &key);
  if (!id) msc_puts(&r->w, "%?"); /* of IR that is broken */
  else if (id->text) msc_puts(&r->w, "%"), msc_puts(&r->w, id->text);
  else msc_puts(&r->w, "%"), msc_put_number(&r->w, id->number);
}

static void put_use(writer *r, const msc_value *v) {
  put_id(r, v && v->def ? (const void *)v->def : v);
  if (v && v->def && v->def->num_out > 1) msc_puts(&r->w, "#"), msc_put_number(&r->w, v->index);
}

/* ---- locations ---- */

static void put_place(msc_printer *w, const msc_loc *l) {
  if (!l->file || l->implied) {
    msc_puts(w, "unknown");
    return;
  }
  msc_put_string(w, l->file);
  msc_puts(w, ":"), msc_put_number(w, l->line);
  msc_puts(w, ":"), msc_put_number(w, l->col);
}

/* `callsite("f":1:2 at callsite("scope"("g":3:4) at ...))` */
static void put_calls(msc_printer *w, const msc_loc *l) {
  int open = 0;
  for (; l->caller && open < MSC_MAX_CALLERS; l = l->caller, open++) {
    msc_puts(w, "callsite(");
    if (open && l->scope) msc_put_string(w, l->scope), msc_puts(w, "("), put_place(w, l), msc_puts(w, ")");
    else put_place(w, l);
    msc_puts(w, " at ");
  }
  if (open && l->scope) msc_put_string(w, l->scope), msc_puts(w, "("), put_place(w, l), msc_puts(w, ")");
  else put_place(w, l);
  while (open--) msc_puts(w, ")");
}

/* Writes ` loc("scope"("name"(place)))` without the parts that are not known; with a scope and no name, the name is
 * empty. */
static void put_loc(msc_printer *w, const msc_loc *l, const char *name) {
  bool placed = (l->file && !l->implied) || l->caller;
  if (!name && !l->scope && !placed) return;
  msc_puts(w, " loc(");
  if (l->scope) msc_put_string(w, l->scope), msc_puts(w, "(");
  if (name || l->scope) msc_put_string(w, name ? name : "");
  if (placed) {
    bool wrap = name || l->scope;
    if (wrap) msc_puts(w, "(");
    put_calls(w, l);
    if (wrap) msc_puts(w, ")");
  }
  msc_puts(w, l->scope ? "))" : ")");
}

/* ---- ops ---- */

static void put_indent(msc_printer *w, int indent) {
  static const char blanks[] = "                                ";
  for (; indent > 0; indent -= (int)sizeof blanks - 1)
    msc_put(w, blanks, (size_t)(indent < (int)sizeof blanks - 1 ? indent : (int)sizeof blanks - 1));
}

/* The op's name, or its value's when others have the same name; NULL when it is no longer in the function. */
static const char *forward_text(writer *r, const msc_op *op) {
  const value_name *id = op->forward ? msc_table_find(&r->ids, &op->forward) : NULL;
  if (!id || op->forward->block->parent) return NULL;
  const named_op *named = op->forward->name ? msc_table_find(&r->named, &op->forward->name) : NULL;
  bool clear = named && named->op == op->forward && op->forward->name[0] != '%';
  return clear ? op->forward->name : msc_arena_printf(r->w.scratch, "%%%u", id->number);
}

static size_t sorted_in(msc_attr *attrs, size_t num, const char *name, msc_attr_value v) {
  size_t at = num;
  for (; at > 0 && strcmp(attrs[at - 1].name, name) > 0; at--) attrs[at] = attrs[at - 1];
  attrs[at] = (msc_attr){name, v};
  return num + 1;
}

static msc_attr_value text_value(const char *text) { return (msc_attr_value){.kind = MSC_ATTR_STR, .s = text}; }

/* Lists the whole tensors that an op's results are parts of, "" for a result without; false: none has one. */
static bool list_wholes(writer *r, const msc_op *op, msc_attr_value *out) {
  bool any = false;
  for (size_t i = 0; i < op->num_out; i++) any |= op->out[i].whole != NULL;
  if (!any) return false;
  msc_attr_value *v = msc_new_array(r->w.scratch, msc_attr_value, op->num_out);
  for (size_t i = 0; i < op->num_out; i++) v[i] = op->out[i].whole ? msc_type_attr(op->out[i].whole) : text_value("");
  *out = (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {op->num_out, v}};
  return true;
}

static void put_op_attrs(writer *r, const msc_op *op) {
  const char *forward = forward_text(r, op);
  const msc_attr *attrs = op->attrs;
  size_t num = op->num_attrs;
  msc_attr_value wholes;
  bool has_wholes = list_wholes(r, op, &wholes);
  if (forward || has_wholes) {
    msc_attr *all = msc_new_array(r->w.scratch, msc_attr, num + 3);
    if (num) memcpy(all, attrs, num * sizeof *all);
    attrs = all;
    if (forward) num = sorted_in(all, num, MSC_FACT(forward), text_value(forward));
    if (forward && op->letters) num = sorted_in(all, num, "letters", text_value(op->letters));
    if (has_wholes) num = sorted_in(all, num, "part_of", wholes);
  }
  if (num == 0) return;
  msc_puts(&r->w, " ");
  msc_put_attrs(&r->w, attrs, num);
}

static void put_signature(msc_printer *w, const msc_op *op) {
  msc_puts(w, " : (");
  for (size_t i = 0; i < op->num_in; i++) {
    if (i) msc_puts(w, ", ");
    msc_put_type(w, op->in[i].value ? op->in[i].value->type : NULL);
  }
  msc_puts(w, op->num_out == 1 ? ") -> " : ") -> (");
  for (size_t i = 0; i < op->num_out; i++) {
    if (i) msc_puts(w, ", ");
    msc_put_type(w, op->out[i].type);
  }
  if (op->num_out != 1) msc_puts(w, ")");
}

static void print_block(writer *r, const msc_block *b, int indent);

static void print_op(writer *r, const msc_op *op, int indent) {
  msc_printer *w = &r->w;
  put_indent(w, indent);
  if (op->num_out) {
    put_id(r, op);
    if (op->num_out > 1) msc_puts(w, ":"), msc_put_number(w, op->num_out);
    msc_puts(w, " = ");
  }
  msc_puts(w, "\"msc."), msc_puts(w, msc_kind_name(op->kind)), msc_puts(w, "\"(");
  for (size_t i = 0; i < op->num_in; i++) {
    if (i) msc_puts(w, ", ");
    put_use(r, op->in[i].value);
  }
  msc_puts(w, ")");
  if (op->body) {
    msc_puts(w, " ({\n");
    print_block(r, op->body, indent);
    put_indent(w, indent);
    msc_puts(w, "})");
  }
  put_op_attrs(r, op);
  put_signature(w, op);
  put_loc(w, op->loc, op->name);
  msc_puts(w, "\n");
}

static void print_block(writer *r, const msc_block *b, int indent) {
  if (b->num_args) {
    put_indent(&r->w, indent);
    msc_puts(&r->w, "^bb0(");
    for (size_t i = 0; i < b->num_args; i++) {
      if (i) msc_puts(&r->w, ", ");
      put_id(r, b->args[i]);
      msc_puts(&r->w, ": ");
      msc_put_type(&r->w, b->args[i]->type);
    }
    msc_puts(&r->w, "):\n");
  }
  for (const msc_op *op = b->first; op; op = op->next) print_op(r, op, indent + 2);
}

/* ---- functions and modules ---- */

/* An argument's attributes; a name that its %name does not show is among them. */
static msc_attr_array arg_attrs(writer *r, const msc_func *f, size_t i) {
  const msc_value *arg = f->body->args[i];
  const value_name *id = msc_table_find(&r->ids, &arg);
  msc_attr_array all = {f->arg[i].attrs, f->arg[i].num_attrs};
  if (!arg->name || id->text == arg->name || msc_arg_attr(f, i, MSC_FACT(msc_name))) return all;
  msc_attr *attrs = msc_new_array(r->w.scratch, msc_attr, all.num + 1);
  if (all.num) memcpy(attrs, all.attrs, all.num * sizeof *attrs);
  return (msc_attr_array){attrs, sorted_in(attrs, all.num, MSC_FACT(msc_name), text_value(arg->name))};
}

/* The attributes' dictionaries as a list; empty when no argument has any. */
static msc_attr_value all_arg_attrs(writer *r, const msc_func *f) {
  size_t num = f->body->num_args, any = 0;
  msc_attr_value *v = msc_new_array(r->w.scratch, msc_attr_value, num);
  for (size_t i = 0; i < num; i++) {
    msc_attr_array attrs = arg_attrs(r, f, i);
    v[i] = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {attrs.num, attrs.attrs}};
    any += attrs.num;
  }
  return (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {any ? num : 0, v}};
}

static void put_arg_attrs(msc_printer *w, const msc_attr_value *list) {
  msc_puts(w, "arg_attrs = [");
  for (size_t i = 0; i < list->list.num; i++) {
    if (i) msc_puts(w, ",\n                   ");
    msc_put_attrs(w, list->list.v[i].dict.a, list->list.v[i].dict.num);
  }
  msc_puts(w, "]");
}

/* Prints one attribute a line, sorted by name as everywhere, with the function's name and its arguments' attributes in
 * their places. */
static void put_func_attrs(writer *r, const msc_func *f) {
  msc_attr_value args = all_arg_attrs(r, f);
  msc_attr *attrs = msc_new_array(r->w.scratch, msc_attr, f->num_attrs + 2);
  if (f->num_attrs) memcpy(attrs, f->attrs, f->num_attrs * sizeof *attrs);
  size_t num = sorted_in(attrs, f->num_attrs, "sym_name", text_value(f->name));
  if (args.list.num) num = sorted_in(attrs, num, "arg_attrs", text_value(NULL));
  for (size_t i = 0; i < num; i++) {
    msc_puts(&r->w, i ? ",\n      " : "{");
    if (args.list.num && strcmp(attrs[i].name, "arg_attrs") == 0) put_arg_attrs(&r->w, &args);
    else msc_put_named(&r->w, &attrs[i]);
  }
  msc_puts(&r->w, "}");
}

static void put_func(writer *r, const msc_func *f) {
  name_values(r, f);
  msc_puts(&r->w, "  \"msc.func\"() ({\n");
  print_block(r, f->body, 2);
  msc_puts(&r->w, "  }) ");
  put_func_attrs(r, f);
  msc_puts(&r->w, " : () -> ()");
  put_loc(&r->w, f->loc, NULL);
  msc_puts(&r->w, "\n");
}

static void put_module_attrs(msc_printer *w, const msc_module *m) {
  bool mesh = m->mesh.num_axes > 0;
  if (!mesh && !m->num_attrs) return;
  const char *before = " attributes {";
  for (size_t i = 0; i < m->num_attrs || mesh; before = ", ") {
    msc_puts(w, before);
    if (mesh && (i == m->num_attrs || strcmp(m->attrs[i].name, "msc.mesh") > 0)) {
      mesh = false;
      msc_puts(w, "msc.mesh = #msc.mesh<");
      msc_put_string(w, msc_mesh_print(w->scratch, &m->mesh));
      msc_puts(w, ">");
    } else {
      msc_put_named(w, &m->attrs[i++]);
    }
  }
  msc_puts(w, "}");
}

void msc_print_module(const msc_module *m, msc_write_fn *write, void *user) {
  msc_arena *scratch = msc_arena_new(m->ctx);
  writer *r = msc_new(scratch, writer);
  r->w.scratch = r->w.types.index.arena = scratch;
  r->w.mesh = &m->mesh;
  r->w.write = write;
  r->w.user = user;
  msc_puts(&r->w, "module");
  put_module_attrs(&r->w, m);
  msc_puts(&r->w, " {\n");
  for (const msc_func *f = m->first; f; f = f->next) put_func(r, f);
  msc_puts(&r->w, "}\n");
  msc_flush(&r->w);
  msc_arena_free(scratch);
}

char *msc_print_text(const msc_module *m, msc_arena *arena, size_t *out_bytes) {
  msc_text text = {.arena = arena};
  msc_print_module(m, msc_text_write, &text);
  text.text[text.num] = 0;
  if (out_bytes) *out_bytes = text.num;
  return text.text;
}
