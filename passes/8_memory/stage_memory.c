/* stage_memory.c: bytes of every stage, from lowered and allocated sections, and the room that is left on it.
 *
 * Bytes are counted as codegen places them: every value starts a cache line, and values of one name are counted once
 * per stage. */
#include "passes/8_memory/stage_costs.h"
#include "ir/table.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/offsets/offsets.h"

#include <stdlib.h>

enum { USUAL_MAILBOX_DEPTH = 4 /* the most messages that a mailbox usually holds */ };

/* ---- names ---- */

typedef MSC_TABLE(const char *) names; /* seen so far */

static bool add_if_new(names *n, const char *name) {
  uint32_t before = msc_table_num(n);
  msc_table_at(n, &name);
  return msc_table_num(n) > before;
}

static const char *argument_name(const msc_func *f, size_t i) {
  const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_name));
  return v ? v->s : f->body->args[i]->name;
}

/* ---- what is carried ---- */

/* The bytes that a section carries in slots of one class. F has an argument for everything that it makes for B and
 * W, B for everything that it makes for W. */
int64_t msc_carried_bytes(const msc_module *m, msc_slot_class slot_class, int64_t stage, int64_t chunk) {
  const msc_func *f =
      msc_find_section(m, MSC_PROGRAM_TRAIN, slot_class == MSC_SLOT_BW ? MSC_SECTION_B : MSC_SECTION_F, stage, chunk);
  int64_t bytes = 0;
  for (size_t i = 0; f && i < f->body->num_args; i++)
    if (msc_arg_role(f, i) == MSC_ROLE_CARRIED && msc_fact_read(&f->arg[i], msc_class, MSC_NUM_SLOTS) == slot_class)
      bytes += msc_round_to_lines(msc_type_bytes(f->body->args[i]->type));
  return bytes;
}

static int64_t slot_bytes(const msc_module *m, const msc_pipeline_shape *shape, const msc_stage_list *l, int stage) {
  int64_t bytes = 0;
  for (int slot_class = 0; slot_class < MSC_NUM_SLOTS; slot_class++) {
    int64_t most = 0;
    for (int c = 0; c < shape->chunks; c++) {
      int64_t one = msc_carried_bytes(m, (msc_slot_class)slot_class, stage, c);
      if (one > most) most = one;
    }
    bytes += most * l->num_slots[slot_class];
  }
  return bytes;
}

static bool is_input(const msc_func *f, size_t arg) { return msc_arg_role(f, arg) <= MSC_ROLE_MASK; }

static bool has_inputs(const msc_func *f) {
  bool any = false;
  for (size_t i = 0; f && i < f->body->num_args; i++) any |= is_input(f, i);
  return any;
}

/* The most micro-batches whose inputs are in use at once: from the first entry of a micro-batch that reads inputs to
 * its last. */
static int num_batches_in_use(msc_arena *scratch, const msc_module *m, const msc_stage_list *l, int stage,
                              int micro_batches) {
  int *left = msc_new_array(scratch, int, micro_batches), num = 0, most = 0;
  bool *reads = msc_new_array(scratch, bool, l->num_entries), *begun = msc_new_array(scratch, bool, micro_batches);
  for (int i = 0; i < l->num_entries; i++) {
    const msc_entry *e = &l->entry[i];
    reads[i] = has_inputs(msc_find_section(m, MSC_PROGRAM_TRAIN, (msc_section_kind)e->work, stage, e->chunk));
    left[e->micro_batch] += reads[i];
  }
  for (int i = 0; i < l->num_entries; i++) {
    int j = l->entry[i].micro_batch;
    if (!reads[i]) continue;
    if (!begun[j]) num++;
    begun[j] = true;
    if (num > most) most = num;
    if (--left[j] == 0) num--;
  }
  return most;
}

/* The bytes of one batch of the inputs of all functions, each input once. */
static int64_t batch_bytes(msc_arena *scratch, const msc_module *m) {
  size_t num = 0;
  int64_t bytes = 0;
  for (const msc_func *f = m->first; f; f = f->next) num += f->body->num_args;
  names seen = {.index.arena = scratch};
  for (const msc_func *f = m->first; f; f = f->next)
    for (size_t i = 0; i < f->body->num_args; i++)
      if (is_input(f, i) && add_if_new(&seen, argument_name(f, i)))
        bytes += msc_round_to_lines(msc_type_bytes(f->body->args[i]->type));
  return bytes;
}

int64_t *msc_stage_slot_bytes(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape,
                              const msc_schedule *s) {
  int64_t *bytes = msc_new_array(pass->scratch, int64_t, shape->stages), batch = batch_bytes(pass->scratch, m);
  int batches = 0;
  int64_t copies = msc_copies_of(pass, m);
  for (int i = 0; i < shape->stages; i++) {
    int own = num_batches_in_use(pass->scratch, m, &s->stage[i], i, s->micro_batches);
    if (own > batches) batches = own;
  }
  for (int i = 0; i < shape->stages; i++)
    bytes[i] = slot_bytes(m, shape, &s->stage[i], i) + (batches + 1) * copies * batch;
  return bytes;
}

/* ---- room ---- */

/* The bytes of the arguments except carried values and inputs. */
static int64_t fixed_argument_bytes(const msc_pass_ctx *pass, names *seen, const msc_func *f) {
  int64_t bytes = 0;
  for (size_t i = 0; i < f->body->num_args; i++) {
    if (msc_arg_role(f, i) == MSC_ROLE_CARRIED || is_input(f, i) || !add_if_new(seen, argument_name(f, i))) continue;
    if (msc_home_of(pass->config, f, i) != MSC_HOME_DEVICE) continue;
    bytes += msc_round_to_lines(msc_type_bytes(f->body->args[i]->type));
  }
  return bytes;
}

static int64_t op_bytes(const msc_func *f) {
  int64_t bytes = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    if (msc_is_constant_op(op)) bytes += msc_round_to_lines(msc_type_bytes(op->out[0].type));
    if (op->kind == OP_stage_recv)
      bytes += USUAL_MAILBOX_DEPTH * msc_round_to_lines(msc_type_bytes(op->out[0].type)) + 2 * MSC_ALIGN;
  }
  return bytes;
}

static int64_t stage_of_section(const msc_func *f) { return msc_fact_read(f, stage, 0); }

/* The bytes that stay allocated during the whole step. */
static int64_t fixed_bytes(const msc_pass_ctx *pass, const msc_module *m, int64_t stage) {
  int64_t bytes = MSC_ALIGN; /* the flag that kernels set when an index is out of range */
  size_t num = 0;
  for (const msc_func *f = m->first; f; f = f->next) num += f->body->num_args;
  names seen = {.index.arena = pass->scratch};
  for (const msc_func *f = m->first; f; f = f->next)
    if (stage_of_section(f) == stage) bytes += fixed_argument_bytes(pass, &seen, f) + op_bytes(f);
  return bytes;
}

static int64_t scratch_bytes(const msc_module *m, int64_t stage) {
  int64_t most = 0;
  for (const msc_func *f = m->first; f; f = f->next) {
    int64_t needs = msc_fact_read(f, scratch, 0);
    if (stage_of_section(f) == stage && needs > most) most = needs;
  }
  return most;
}

uint64_t msc_room_for_values(msc_pass_ctx *pass, const msc_func *f) {
  const msc_module *m = f->module;
  msc_pipeline_shape shape = msc_pipeline_shape_of(pass->config, pass->scratch);
  int64_t room = msc_memory_limit(pass->config, msc_pass_cluster(pass)) -
                 fixed_bytes(pass, m, stage_of_section(f)) -
                 2 * msc_copies_of(pass, m) * batch_bytes(pass->scratch, m);
  for (int slot_class = 0; slot_class < MSC_NUM_SLOTS && !shape.joined; slot_class++)
    for (int c = 0; c < shape.chunks; c++)
      room -= shape.stages * msc_carried_bytes(m, (msc_slot_class)slot_class, stage_of_section(f), c);
  return room > 0 ? (uint64_t)room : 0;
}

int64_t *msc_stage_room(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape) {
  int64_t *room = msc_new_array(pass->scratch, int64_t, shape->stages),
          limit = msc_memory_limit(pass->config, msc_pass_cluster(pass));
  for (int i = 0; i < shape->stages; i++) {
    int64_t fixed = fixed_bytes(pass, m, i) + scratch_bytes(m, i);
    room[i] = limit > fixed ? limit - fixed : 0;
  }
  return room;
}
