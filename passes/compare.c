/* compare.c: two modules of one context in; a text that names their first difference, or NULL, out; pointers and op
 * numbers do not count. */
#include "passes/pass.h"

#include <string.h>

static bool same_attrs(const msc_attr *a, size_t num_a, const msc_attr *b, size_t num_b) {
  if (num_a != num_b) return false;
  for (size_t i = 0; i < num_a; i++)
    if (a[i].name != b[i].name || !msc_attr_equal(&a[i].value, &b[i].value)) return false;
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

static const char *compare_ops(const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind) return "kinds";
  if (a->num_in != b->num_in || a->num_out != b->num_out) return "operand or result counts";
  for (int i = 0; i < a->num_in; i++)
    if (!same_value(a->in[i].value, b->in[i].value)) return "operands";
  for (int i = 0; i < a->num_out; i++)
    if (!same_value(&a->out[i], &b->out[i])) return "result types";
  if (!same_attrs(a->attrs, a->num_attrs, b->attrs, b->num_attrs)) return "attributes";
  if (a->name != b->name) return "names";
  if (!same_loc(a->loc, b->loc)) return "locations";
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
static const char *compare_blocks(const msc_block *block_a, const msc_block *block_b, msc_arena *arena) {
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
    const char *part = compare_ops(a, b);
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

static const char *compare_funcs(const msc_func *a, const msc_func *b, msc_arena *arena) {
  if (a->name != b->name) return msc_arena_printf(arena, "functions '%s' and '%s'", a->name, b->name);
  msc_number(a->body);
  msc_number(b->body);
  const char *why = compare_blocks(a->body, b->body, arena);
  if (why) return msc_arena_printf(arena, "function '%s': %s", a->name, why);
  if (!same_attrs(a->attrs, a->num_attrs, b->attrs, b->num_attrs))
    return msc_arena_printf(arena, "function '%s': attributes differ", a->name);
  for (size_t i = 0; i < a->body->num_args; i++)
    if (!same_attrs(a->arg[i].attrs, a->arg[i].num_attrs, b->arg[i].attrs, b->arg[i].num_attrs))
      return msc_arena_printf(arena, "function '%s': attributes of argument %zu differ", a->name, i);
  return NULL;
}

const char *msc_find_difference(const msc_module *a, const msc_module *b, msc_arena *arena) {
  if (!msc_mesh_equal(&a->mesh, &b->mesh)) return "meshes differ";
  if (!same_attrs(a->attrs, a->num_attrs, b->attrs, b->num_attrs)) return "module attributes differ";
  const msc_func *f = a->first, *g = b->first;
  for (; f && g; f = f->next, g = g->next) {
    const char *why = compare_funcs(f, g, arena);
    if (why) return why;
  }
  return f || g ? "one module has more functions" : NULL;
}
