/* print_nests.c: a lowered module in; the programs of its kernels as text out (print_nests.h). */
#include "tools/compile/print_nests.h"

#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/nest/program.h"

/* True if parsing the program's text gives the same program. */
static bool parses_to_same(msc_context *ctx, msc_arena *arena, const msc_program *p, const char *text) {
  msc_program again;
  return msc_nest_parse(ctx, "nest", text, strlen(text), arena, &again) &&
         !memcmp(&again.head, &p->head, sizeof p->head) &&
         !memcmp(again.instr, p->instr, sizeof *p->instr * p->head.num_instrs);
}

static void print_launch(msc_arena *arena, const msc_op *op, const msc_nest_launch *l, msc_text *out) {
  const msc_program_head *h = &l->program.head;
  const char *line = msc_arena_printf(arena, "// %s%s%s%s: extent %" PRIu64 ", grain %" PRIu64 ", bytes %" PRIu64
                                      ", flops %" PRIu64 ", buffers", msc_kind_name(op->kind), op->name ? " " : "",
                                      op->name ? op->name : "", l->suffix, l->extent, l->grain, l->bytes, l->flops);
  for (int i = 0; i < h->num_buffers; i++) line = msc_arena_printf(arena, "%s %" PRIu32, line, l->buffer[i]);
  for (int i = 0; i < h->num_dims; i++)
    line = msc_arena_printf(arena, "%s%s %" PRId64, line, i ? "" : ", dims", l->dims[i]);
  for (int i = 0; i < h->num_scalars; i++)
    line = msc_arena_printf(arena, "%s%s %g", line, i ? "" : ", scalars", l->scalars[i]);
  msc_text_write(out, line, strlen(line));
  msc_text_write(out, "\n", 1);
}

static bool print_op(msc_context *ctx, msc_nester *n, msc_arena *arena, const msc_op *op, msc_text *out) {
  msc_nest_info info;
  msc_nest_launch *launch;
  if (!msc_nest_launches(n, arena, op, &info, &launch))
    return msc_op_error(op, MSC_E_INTERNAL, "%s: no kernel: %s", msc_kind_name(op->kind), msc_nest_why(n));
  for (int i = 0; i < info.num_launches; i++) {
    const msc_program *p = &launch[i].program;
    const char *text = msc_nest_text(p, arena), *fault = msc_nest_find_fault(p, arena);
    print_launch(arena, op, &launch[i], out);
    msc_text_write(out, text, strlen(text));
    if (fault) return msc_op_error(op, MSC_E_INTERNAL, "%s: its kernel is wrong: %s", msc_kind_name(op->kind), fault);
    if (!parses_to_same(ctx, arena, p, text))
      return msc_op_error(op, MSC_E_INTERNAL, "%s: its kernel's text is another program", msc_kind_name(op->kind));
  }
  return true;
}

bool print_nests(msc_context *ctx, const msc_module *m, msc_text *out) {
  msc_arena *arena = msc_arena_new(ctx);
  msc_nester *n = msc_nester_new(ctx, arena, msc_target_of(m));
  bool ok = true;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next)
      if (msc_nest_can_fuse(op) && !msc_is_view(op)) ok = print_op(ctx, n, arena, op, out) && ok;
  msc_arena_free(arena);
  return ok;
}
