/* schedule.c: loads schedules of stages made by hand: those that can run are accepted; inconsistent ones, and ones
 * in which stages would wait for each other for ever, are refused before anything runs, with the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/runtime/expect.h"
#include "tests/runtime/make_plan.h"

enum { F0, F1, B0, SECTIONS, ACTIVATION = 0, GRADIENT, BYTES = 64 };

#define SEND(message) {.kind = PLAN_CALL_KIND_MESSAGE, .index = message, .num_buffers = 1, .buffers = {IN(S, 0, BYTES)}}
#define RECEIVE(message)                                                                                \
  {                                                                                                     \
    .kind = PLAN_CALL_KIND_MESSAGE, .index = message, .num_buffers = 1, .buffers = { OUT(S, 0, BYTES) } \
  }

/* A plan under change: forward on two stages, the gradient back to the first; two micro-batches. */
typedef struct {
  plan_text t;
  call_text f0[2], f1[3], b0[1];
} schedule;

static void make_schedule(schedule *s) {
  const call_text f0 = SEND(ACTIVATION), receive = RECEIVE(ACTIVATION), send = SEND(GRADIENT), b0 = RECEIVE(GRADIENT);
  *s = (schedule){.f0 = {f0, f0}, .f1 = {receive, send, send}, .b0 = {b0}};
  s->t = (plan_text){.num_axes = 2,
                     .axes = {2, 1},
                     .input_stride = 64,
                     .num_sections = SECTIONS,
                     .section = {{"f0", 64, 1, s->f0, 0, 1}, {"f1", 64, 2, s->f1, 1, 1}, {"b0", 64, 1, s->b0, 0, 1}},
                     .num_stages = 2,
                     .stage = {{.stride = {64}, .slots = {2}}, {.persistent = 0}},
                     .num_messages = 2,
                     .message = {{0, 1, BYTES, 1}, {1, 0, BYTES, 1}},
                     .num_programs = 1,
                     .program = {{"train",
                                  2,
                                  2,
                                  {4, 2},
                                  {{{0, F0, 0, 0, 0}, {1, F0, 1, 0, 0}, {0, B0, 0, 0, 0}, {1, B0, 1, 0, 0}},
                                   {{0, F1, 0, 0, 0}, {1, F1, 0, 0, 0}}}}}};
}

static mscrt_status *open_schedule(const schedule *s) {
  size_t size;
  mscrt_plan *plan = NULL;
  uint8_t *bytes = make_plan(&s->t, &size);
  mscrt_status *status = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  mscrt_plan_close(plan);
  free(bytes);
  return status;
}

typedef struct {
  const char *expected;
  void (*spoil)(schedule *s, plan_entry *first, plan_entry *second);
} false_schedule;

#define CASE(name, what)                                                 \
  static void name(schedule *s, plan_entry *first, plan_entry *second) { \
    (void)s, (void)first, (void)second;                                  \
    what;                                                                \
  }
/* who waits for ever */
CASE(backward_first, (first[0].section = B0, first[2].section = F0))
CASE(no_room, s->t.section[F0].num = 2)
CASE(never_sent, s->t.section[F1].num = 1)
CASE(crossed, (s->f1[0] = (call_text)SEND(GRADIENT), s->f1[1] = (call_text)RECEIVE(ACTIVATION),
               s->f0[0] = (call_text)RECEIVE(GRADIENT), s->b0[0] = (call_text)SEND(ACTIVATION)))
CASE(missing, s->t.program[0].num[0] = 3)
CASE(missing_send, (s->t.program[0].num[0] = 2, first[0].section = B0, first[1].section = B0))
CASE(twice, (s->t.section[F1].num = 3, s->t.message[GRADIENT].depth = 4))
/* messages that do not fit */
CASE(wrong_stage, s->f1[0].buffers[0].written = 0)
CASE(wrong_size, s->t.message[ACTIVATION].bytes = 2 * BYTES)
CASE(no_message, s->f0[0].index = 7)
CASE(two_buffers, s->f0[0].num_buffers = 2)
CASE(odd_depth, s->t.message[GRADIENT].depth = 3)
CASE(no_such_stage, s->t.message[GRADIENT].to = 2)
/* entries that do not fit */
CASE(no_section, first[3].section = 9)
CASE(others_section, first[3].section = F1)
CASE(no_micro, second[1].micro = 2)
CASE(no_slot, first[1].fb = 2)
CASE(copies, (s->t.section[F0].copies = 2, first[1].micro = 1))
/* stages that do not fit */
CASE(mesh, s->t.axes[0] = 3)
CASE(lanes, s->t.program[0].num_stages = 1)
CASE(odd_slot, s->t.stage[0].stride[0] = 60)
CASE(own_number, s->t.stage[0].micro = 8)
CASE(section_stage, s->t.section[B0].stage = 2)
CASE(no_programs, s->t.num_programs = 0)
CASE(same_name, (s->t.program[1] = s->t.program[0], s->t.num_programs = 2))

static const false_schedule false_schedules[] = {
  {"program 'train' cannot end: stage 0 waits for ever at its entry 0, message 1", backward_first},
  {"program 'train' cannot end: stage 0 waits for ever at its entry 1, message 0", no_room},
  {"program 'train' cannot end: stage 0 waits for ever at its entry 2, message 1", never_sent},
  {"program 'train' cannot end: stage 0 waits for ever at its entry", crossed},
  {"program 'train': message 1 is sent more often than received", missing},
  {"program 'train' cannot end: stage 0 waits for ever at its entry 0, message 1", missing_send},
  {"program 'train': message 1 is sent more often than received", twice},
  {"section 'f1', call 0: message 0 is not this stage's", wrong_stage},
  {"section 'f0', call 0: 64 bytes for a message of 128", wrong_size},
  {"section 'f0', call 0: message 7 of 2", no_message},
  {"section 'f0', call 0: 2 buffers", two_buffers},
  {"message 1 goes from stage 1 to stage 0 of 2, 3 at once", odd_depth},
  {"message 1 goes from stage 1 to stage 2 of 2, 1 at once", no_such_stage},
  {"program 'train', stage 0, entry 3: section 9 is not of the stage", no_section},
  {"program 'train', stage 0, entry 3: section 1 is not of the stage", others_section},
  {"program 'train', stage 1, entry 1: micro-batch 2 of 2, 1 at once", no_micro},
  {"program 'train', stage 0, entry 1: slot 2 of 2", no_slot},
  {"program 'train', stage 0, entry 1: micro-batch 1 of 2, 2 at once", copies},
  {"2 stages, which are not the first axis of the mesh", mesh},
  {"program 'train' is for 1 stages", lanes},
  {"stage 0: slots of 60 bytes are not aligned", odd_slot},
  {"stage 0: its micro-batch's number lies at 8", own_number},
  {"section 2 is of stage 2", section_stage},
  {"several stages and no programs", no_programs},
  {"two programs are called 'train'", same_name},
};

static void false_schedules_are_refused(void **state) {
  (void)state;
  schedule s;
  make_schedule(&s);
  expect_ok(open_schedule(&s));
  for (size_t i = 0; i < sizeof false_schedules / sizeof *false_schedules; i++) {
    make_schedule(&s);
    false_schedules[i].spoil(&s, s.t.program[0].entry[0], s.t.program[0].entry[1]);
    expect_text(open_schedule(&s), MSCRT_INPUT, false_schedules[i].expected);
  }
}

/* Both stages send twice before they receive: whether they wait for ever is a matter of how many messages may
 * be under way. */
static void depth_decides(void **state) {
  (void)state;
  schedule s;
  make_schedule(&s);
  plan_entry *second = s.t.program[0].entry[1];
  s.t.section[F1].num = 1;
  s.t.section[SECTIONS] = (section_text){"b1", 64, 1, s.f1 + 1, 1, 1};
  s.t.num_sections = SECTIONS + 1;
  s.t.program[0].num[1] = 4;
  for (uint32_t i = 0; i < 4; i++) second[i] = (plan_entry){i % 2, i < 2 ? SECTIONS : F1, 0, 0, 0};
  expect_text(open_schedule(&s), MSCRT_INPUT,
              "program 'train' cannot end: stage 0 waits for ever at its entry 1, message 0");
  s.t.message[ACTIVATION].depth = 2;
  expect_ok(open_schedule(&s));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(false_schedules_are_refused), cmocka_unit_test(depth_decides)};
  return cmocka_run_group_tests_name("runtime/schedule", tests, NULL, NULL);
}
