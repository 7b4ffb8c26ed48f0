/* check_schedule.c: the stages, programs and messages of a plan in; checked ones out: every entry can run, and no
 * program deadlocks.
 *
 * The check for deadlock executes a program without data: each stage in its turn runs until it would wait for a message
 * or for a free slot of a mailbox. Messages arrive in order, so the order in which stages run does not matter. */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/plan.h"

#define MAX_STAGES 4096
#define MAX_DEPTH (1 << 20)

/* ---- stages ---- */

static mscrt_status *check_plan_stage(plan_stage t, mscrt_stage *s) {
  s->bytes[PLAN_SPACE_PERSISTENT] = plan_stage_persistent_bytes(t);
  s->bytes[PLAN_SPACE_HOST] = plan_stage_host_bytes(t);
  s->bytes[PLAN_SPACE_DISK] = plan_stage_disk_bytes(t);
  s->micro = (uint64_t)plan_stage_micro(t);
  if (plan_stage_carried_stride_num(t) > MSCRT_NUM_CARRIED ||
      plan_stage_carried_slots_num(t) != plan_stage_carried_stride_num(t))
    return mscrt_bad_plan("its lists have impossible lengths");
  for (uint32_t k = 0; k < plan_stage_carried_stride_num(t); k++) {
    s->bytes[PLAN_SPACE_CARRIED_FB + k] = plan_stage_carried_stride(t, k);
    s->slots[k] = plan_stage_carried_slots(t, k);
    if (s->slots[k] > UINT16_MAX) return mscrt_bad_plan("%u slots", s->slots[k]);
    if (s->slots[k] && s->bytes[PLAN_SPACE_CARRIED_FB + k] > MSCRT_MAX_BYTES / s->slots[k])
      return mscrt_bad_plan("slots of %" PRIu64 " bytes", s->bytes[PLAN_SPACE_CARRIED_FB + k]);
    if (s->bytes[PLAN_SPACE_CARRIED_FB + k] % 64)
      return mscrt_bad_plan("slots of %" PRIu64 " bytes are not aligned", s->bytes[PLAN_SPACE_CARRIED_FB + k]);
  }
  uint64_t persistent = s->bytes[PLAN_SPACE_PERSISTENT];
  if (persistent > MSCRT_MAX_BYTES) return mscrt_bad_plan("a memory of %" PRIu64 " bytes", persistent);
  for (int i = PLAN_SPACE_HOST; i <= PLAN_SPACE_DISK; i++)
    if (s->bytes[i] > MSCRT_MAX_BYTES) return mscrt_bad_plan("a memory of %" PRIu64 " bytes", s->bytes[i]);
  if (s->bytes[PLAN_SPACE_DISK] % MSCRT_DISK_PAGE)
    return mscrt_bad_plan("%" PRIu64 " bytes of a disk are no whole pages", s->bytes[PLAN_SPACE_DISK]);
  if (s->micro != UINT64_MAX && (s->micro % 8 || s->micro > persistent || persistent - s->micro < 8))
    return mscrt_bad_plan("its micro-batch's number lies at %" PRIu64, s->micro);
  return NULL;
}

mscrt_status *mscrt_check_stages(mscrt_plan *p) {
  uint32_t num_stages = plan_plan_stages_num(p->root);
  p->num_stages = num_stages ? num_stages : 1;
  p->input_slots = plan_plan_input_slots(p->root);
  p->copies = 1;
  if (p->num_stages > MAX_STAGES || (p->num_stages > 1 && (p->mesh.num_axes < 1 || p->mesh.size[0] != p->num_stages)))
    return mscrt_bad_plan("%u stages, which are not the first axis of the mesh", p->num_stages);
  if (p->input_slots < 1 || p->input_slots > 65536) return mscrt_bad_plan("%u slots of inputs", p->input_slots);
  MSCRT_CHECK(mscrt_new_array(&p->stage, p->num_stages));
  if (!num_stages)
    p->stage[0] =
        (mscrt_stage){.bytes[PLAN_SPACE_PERSISTENT] = plan_plan_persistent_bytes(p->root), .micro = UINT64_MAX};
  for (uint32_t i = 0; i < num_stages; i++) {
    mscrt_status *s = check_plan_stage(plan_plan_stages(p->root, i), &p->stage[i]);
    if (s) return mscrt_add_prefix(s, "stage %u", i);
  }
  for (uint32_t i = 0; i < p->num_sections; i++) {
    plan_section s = plan_plan_sections(p->root, i);
    if (plan_section_stage(s) >= p->num_stages)
      return mscrt_bad_plan("section %u is of stage %u", i, plan_section_stage(s));
    if (plan_section_copies(s) < 1 || p->input_slots % plan_section_copies(s))
      return mscrt_bad_plan("section %u works on %u micro-batches of %u slots", i, plan_section_copies(s),
                            p->input_slots);
    if (plan_section_copies(s) > 1 && !plan_plan_programs_num(p->root))
      return mscrt_bad_plan("section %u works on several micro-batches of no program", i);
    if (plan_section_copies(s) > p->copies) p->copies = plan_section_copies(s);
    uint64_t *scratch = &p->stage[plan_section_stage(s)].bytes[PLAN_SPACE_SCRATCH];
    if (plan_section_scratch_bytes(s) > *scratch) *scratch = plan_section_scratch_bytes(s);
  }
  return NULL;
}

/* ---- programs ---- */

static mscrt_status *check_entry(const mscrt_plan *p, uint32_t stage, uint32_t micro, plan_entry e) {
  if (e.section >= p->num_sections || plan_section_stage(plan_plan_sections(p->root, e.section)) != stage)
    return mscrt_bad_plan("section %u is not of the stage", e.section);
  uint32_t copies = plan_section_copies(plan_plan_sections(p->root, e.section));
  if (e.micro >= micro || micro % copies || e.micro % copies)
    return mscrt_bad_plan("micro-batch %u of %u, %u at once", e.micro, micro, copies);
  const uint16_t slot[MSCRT_NUM_CARRIED] = {e.fb, e.fw, e.bw};
  for (int k = 0; k < MSCRT_NUM_CARRIED; k++)
    if (slot[k] && slot[k] >= p->stage[stage].slots[k])
      return mscrt_bad_plan("slot %u of %u", slot[k], p->stage[stage].slots[k]);
  return NULL;
}

static mscrt_status *check_lane(const mscrt_plan *p, uint32_t program, uint32_t stage) {
  uint32_t num;
  const plan_entry *e = mscrt_program_lane(p, program, stage, &num);
  for (uint32_t i = 0; i < num; i++) {
    mscrt_status *s = check_entry(p, stage, mscrt_program_micro(p, program), e[i]);
    if (s) return mscrt_add_prefix(s, "program '%s', stage %u, entry %u", mscrt_program_name(p, program), stage, i);
  }
  return NULL;
}

/* Makes each section a program, for a plan without programs. */
static mscrt_status *make_programs_of_sections(mscrt_plan *p) {
  p->num_programs = p->num_sections;
  if (p->num_stages > 1) return mscrt_bad_plan("several stages and no programs");
  MSCRT_CHECK(mscrt_new_array(&p->only, p->num_sections + 1));
  for (uint32_t i = 0; i < p->num_sections; i++) p->only[i].section = (uint16_t)i;
  return NULL;
}

mscrt_status *mscrt_check_programs(mscrt_plan *p) {
  p->num_programs = plan_plan_programs_num(p->root);
  if (!p->num_programs) return make_programs_of_sections(p);
  if (p->num_programs > 64) return mscrt_bad_plan("%u programs", p->num_programs);
  for (uint32_t i = 0; i < p->num_programs; i++) {
    plan_program g = plan_plan_programs(p->root, i);
    if (plan_program_stages_num(g) != p->num_stages)
      return mscrt_bad_plan("program '%s' is for %u stages", plan_program_name(g), plan_program_stages_num(g));
    if (plan_program_micro(g) < 1 || plan_program_micro(g) > 1 << 20)
      return mscrt_bad_plan("program '%s' has %u micro-batches", plan_program_name(g), plan_program_micro(g));
    for (uint32_t j = 0; j < i; j++)
      if (!strcmp(plan_program_name(g), mscrt_program_name(p, j)))
        return mscrt_bad_plan("two programs are called '%s'", plan_program_name(g));
    for (uint32_t k = 0; k < p->num_stages; k++) MSCRT_CHECK(check_lane(p, i, k));
  }
  return NULL;
}

/* ---- messages ---- */

mscrt_status *mscrt_check_messages(mscrt_plan *p) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < plan_plan_messages_num(p->root); i++) {
    plan_message m = plan_plan_messages(p->root, i);
    if (plan_message_from(m) >= p->num_stages || plan_message_to(m) >= p->num_stages || plan_message_depth(m) < 1 ||
        plan_message_depth(m) > MAX_DEPTH || (plan_message_depth(m) & (plan_message_depth(m) - 1)))
      return mscrt_bad_plan("message %u goes from stage %u to stage %u of %u, %u at once", i, plan_message_from(m),
                            plan_message_to(m), p->num_stages, plan_message_depth(m));
    if (plan_message_bytes(m) > MSCRT_MAX_BYTES / plan_message_depth(m) ||
        (total += plan_message_bytes(m) * plan_message_depth(m)) > MSCRT_MAX_BYTES)
      return mscrt_bad_plan("message %u has %" PRIu64 " bytes", i, plan_message_bytes(m));
  }
  return NULL;
}

/* A message that a section sends or receives. */
typedef struct {
  uint32_t message;
  bool receives;
} message_step;

/* The progress of one stage in a program. */
typedef struct {
  const plan_entry *entry;
  uint32_t num, at, step; /* number of entries; the current one; finished steps of its section */
} walker;

typedef struct {
  const mscrt_plan *p;
  uint32_t *first; /* by section: its first step; its steps are step[first[section]] .. step[first[section + 1] - 1] */
  message_step *step;
  uint32_t *under_way; /* by message: how many are under way */
  walker *stage;
} dry_run;

static mscrt_status *list_steps(dry_run *d) {
  uint32_t num = 0;
  MSCRT_CHECK(mscrt_new_array(&d->first, d->p->num_sections + 1));
  for (int fill = 0; fill < 2; fill++) {
    if (fill) MSCRT_CHECK(mscrt_new_array(&d->step, num + 1));
    num = 0;
    for (uint32_t i = 0; i < d->p->num_sections; i++) {
      plan_section section = plan_plan_sections(d->p->root, i);
      d->first[i] = num;
      for (uint32_t k = 0; k < plan_section_calls_num(section); k++) {
        plan_call c = plan_section_calls(section, k);
        if (plan_call_kind(c) != PLAN_CALL_KIND_MESSAGE) continue;
        if (fill) d->step[num] = (message_step){plan_call_index(c), plan_call_buffers(c, 0).written};
        num++;
      }
    }
  }
  d->first[d->p->num_sections] = num;
  return NULL;
}

/* Runs a stage until it would wait; true if it made any progress. */
static bool run_walker(dry_run *d, walker *w) {
  bool any = false;
  for (; w->at < w->num; w->at++, w->step = 0, any = true) {
    uint32_t section = w->entry[w->at].section, first = d->first[section], num = d->first[section + 1] - first;
    for (; w->step < num; w->step++, any = true) {
      const message_step *s = &d->step[first + w->step];
      uint32_t *n = &d->under_way[s->message];
      if (s->receives ? *n == 0 : *n == plan_message_depth(plan_plan_messages(d->p->root, s->message))) return any;
      *n += s->receives ? UINT32_MAX : 1;
    }
  }
  return any;
}

static mscrt_status *report_stuck(const dry_run *d, uint32_t program) {
  for (uint32_t i = 0; i < d->p->num_stages; i++) {
    const walker *w = &d->stage[i];
    if (w->at == w->num) continue;
    uint32_t message = d->step[d->first[w->entry[w->at].section] + w->step].message;
    return mscrt_bad_plan("program '%s' cannot end: stage %u waits for ever at its entry %u, message %u",
                          mscrt_program_name(d->p, program), i, w->at, message);
  }
  for (uint32_t i = 0; i < plan_plan_messages_num(d->p->root); i++)
    if (d->under_way[i])
      return mscrt_bad_plan("program '%s': message %u is sent more often than received",
                            mscrt_program_name(d->p, program), i);
  return NULL;
}

static mscrt_status *run_program_dry(dry_run *d, uint32_t program) {
  bool any = true;
  memset(d->under_way, 0, plan_plan_messages_num(d->p->root) * sizeof *d->under_way);
  for (uint32_t i = 0; i < d->p->num_stages; i++) {
    d->stage[i] = (walker){0};
    d->stage[i].entry = mscrt_program_lane(d->p, program, i, &d->stage[i].num);
  }
  while (any) {
    any = false;
    for (uint32_t i = 0; i < d->p->num_stages; i++) any |= run_walker(d, &d->stage[i]);
  }
  return report_stuck(d, program);
}

mscrt_status *mscrt_check_deadlock(const mscrt_plan *p) {
  dry_run d = {.p = p};
  mscrt_status *s = NULL;
  if (p->num_stages == 1) return NULL;
  MSCRT_CHECK(mscrt_new_array(&d.under_way, plan_plan_messages_num(p->root) + 1));
  s = mscrt_new_array(&d.stage, p->num_stages);
  if (!s) s = list_steps(&d);
  for (uint32_t i = 0; i < p->num_programs && !s; i++) s = run_program_dry(&d, i);
  free(d.under_way);
  free(d.stage);
  free(d.first);
  free(d.step);
  return s;
}
