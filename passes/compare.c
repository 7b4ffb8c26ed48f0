/* compare.c: two modules of one context in; the first difference that is more than identity out. */
#include "passes/pass.h"

#include <string.h>

/* Two modules with the same mesh. */
typedef struct {
  const msc_mesh *mesh;
  msc_arena *arena;
} comparing;

static bool same_attrs(const comparing *c, const msc_attr *a, size_t num_a, const msc_attr *b, size_t num_b);

/* True if the values are equal, or one is a layout and the other its text, which the parser leaves as it is. */
static bool same_attr_value(const comparing *c, const msc_attr_value *a, const msc_attr_value *b) {
  if (a->kind == MSC_ATTR_STR && b->kind == MSC_ATTR_LAYOUT) return same_attr_value(c, b, a);
  if (a->kind == MSC_ATTR_LAYOUT && b->kind == MSC_ATTR_STR)
    return !strcmp(msc_layout_print(c->arena, c->mesh, a->layout), b->s);
  if (a->kind == MSC_ATTR_DICT && b->kind == MSC_ATTR_DICT)
    return same_attrs(c, a->dict.a, a->dict.num, b->dict.a, b->dict.num);
  if (a->kind != MSC_ATTR_LIST || b->kind != MSC_ATTR_LIST) return msc_attr_equal(a, b);
  if (a->list.num != b->list.num) return false;
  for (size_t i = 0; i < a->list.num; i++)
    if (!same_attr_value(c, &a->list.v[i], &b->list.v[i])) return false;
  return true;
}

static bool same_attrs(const comparing *c, const msc_attr *a, size_t num_a, const msc_attr *b, size_t num_b) {
  if (num_a != num_b) return false;
  for (size_t i = 0; i < num_a; i++)
    if (a[i].name != b[i].name || !same_attr_value(c, &a[i].value, &b[i].value)) return false;
  return true;
}

/* True if the location is implied or unknown; it is not printed, so parsing gives it no file. */
static bool is_implied(const msc_loc *l) { return l->implied || !l->file; }

static bool same_loc(const msc_loc *a, const msc_loc *b) {
  for (; a && b; a = a->caller, b = b->caller) {
    if (a == b) return true;
    if (is_implied(a) != is_implied(b)) return false;
    if (is_implied(a)) return true;
    if (a->file != b->file || a->line != b->line || a->col != b->col || a->scope != b->scope) return false;
  }
  return a == b;
}

static bool same_value(const msc_value *a, const msc_value *b) {
  return a->id == b->id && a->type == b->type && a->whole == b->whole;
}

static const char *compare_ops(const comparing *c, const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind) return "kinds";
  if (a->num_in != b->num_in || a->num_out != b->num_out) return "operand or result counts";
  for (int i = 0; i < a->num_in; i++)
    if (!same_value(a->in[i].value, b->in[i].value)) return "operands";
  for (int i = 0; i < a->num_out; i++)
    if (!same_value(&a->out[i], &b->out[i])) return "result types";
  if (!same_attrs(c, a->attrs, a->num_attrs, b->attrs, b->num_attrs)) return "attributes";
  if (a->name != b->name) return "names";
  if (!same_loc(a->loc, b->loc)) return "places";
  if (!a->body != !b->body) return "regions";
  if (!a->forward != !b->forward || (a->forward && a->forward->id != b->forward->id)) return "forward ops";
  if (!a->letters != !b->letters || (a->letters && strcmp(a->letters, b->letters))) return "letters";
  return NULL;
}

static const char *compare_args(const msc_block *a, const msc_block *b, msc_arena *arena) {
  if (a->num_args != b->num_args) return msc_arena_printf(arena, "%zu and %zu arguments", a->num_args, b->num_args);
  for (size_t i = 0; i < a->num_args; i++)
    if (!same_value(a->args[i], b->args[i]) || a->args[i]->name != b->args[i]->name)
      return msc_arena_printf(arena, "argument %zu differs", i);
  return NULL;
}

/* Compares two blocks.  Nested regions are walked without recursion: into a body, and out through its parent. */
static const char *compare_blocks(const comparing *c, const msc_block *block_a, const msc_block *block_b) {
  msc_arena *arena = c->arena;
  const char *why = compare_args(block_a, block_b, arena);
  const msc_op *a = block_a->first, *b = block_b->first;
  const msc_block *top = block_a;
  while (!why) {
    if (!a != !b) return "one block is longer";
    if (!a) {
      if (block_a == top) return NULL;
      a = block_a->parent, b = block_b->parent;
      block_a = a->block, block_b = b->block;
      a = a->next, b = b->next;
      continue;
    }
    const char *part = compare_ops(c, a, b);
    if (part) return msc_arena_printf(arena, "op %" PRIu32 " (%s): %s differ", a->id, msc_kind_name(a->kind), part);
    if (a->body) {
      block_a = a->body, block_b = b->body;
      why = compare_args(block_a, block_b, arena);
      a = block_a->first, b = block_b->first;
    } else {
      a = a->next, b = b->next;
    }
  }
  return why;
}

static const char *compare_funcs(const comparing *c, const msc_func *a, const msc_func *b) {
  msc_arena *arena = c->arena;
  if (a->name != b->name) return msc_arena_printf(arena, "functions '%s' and '%s'", a->name, b->name);
  msc_number(a->body);
  msc_number(b->body);
  const char *why = compare_blocks(c, a->body, b->body);
  if (why) return msc_arena_printf(arena, "function '%s': %s", a->name, why);
  if (!same_attrs(c, a->attrs, a->num_attrs, b->attrs, b->num_attrs))
    return msc_arena_printf(arena, "function '%s': attributes differ", a->name);
  for (size_t i = 0; i < a->body->num_args; i++)
    if (!same_attrs(c, a->arg[i].attrs, a->arg[i].num_attrs, b->arg[i].attrs, b->arg[i].num_attrs))
      return msc_arena_printf(arena, "function '%s': attributes of argument %zu differ", a->name, i);
  return NULL;
}

static bool same_mesh(const msc_mesh *a, const msc_mesh *b) {
  if (a->num_axes != b->num_axes) return false;
  for (int i = 0; i < a->num_axes; i++)
    if (a->axis[i].name != b->axis[i].name || a->axis[i].size != b->axis[i].size) return false;
  return true;
}

const char *msc_modules_differ(const msc_module *a, const msc_module *b, msc_arena *arena) {
  comparing c = {&a->mesh, arena};
  if (!same_mesh(&a->mesh, &b->mesh)) return "meshes differ";
  if (!same_attrs(&c, a->attrs, a->num_attrs, b->attrs, b->num_attrs)) return "module attributes differ";
  const msc_func *f = a->first, *g = b->first;
  for (; f && g; f = f->next, g = g->next) {
    const char *why = compare_funcs(&c, f, g);
    if (why) return why;
  }
  return f || g ? "one module has more functions" : NULL;
}
