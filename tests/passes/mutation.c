/* mutation.c: random training graphs, partitioned, with one collective removed or doubled: the verifier must refuse
 * them. The few that it accepts are executed to prove that they compute the same, for instance a full sum whose
 * elements need no other place.
 *
 *   MUTATED=1000 build/tests/passes/mutation        that many programs, every collective of each
 *   MUTATED_SEED=17 build/tests/passes/mutation     one of them, with its text and what was not refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/passes/random_results.h"

enum { QUICK_PROGRAMS = 150, SLOW_PROGRAMS = 1000, MAX_USES = 64 };

typedef struct {
  int programs, mutants, accepted, wrong;
} tally;

/* ---- mutation ---- */

static bool communicates(const msc_op *op) {
  return (msc_info(op)->flags & MSC_COLLECTIVE) && op->out[0].type->layout && msc_has_uses(&op->out[0]);
}

typedef struct {
  size_t num;
  struct {
    msc_op *user;
    size_t operand;
  } use[MAX_USES];
} uses;

static uses uses_of(const msc_value *v) {
  uses all = {0};
  for (const msc_use *u = v->uses; u && all.num < MAX_USES; u = u->next)
    all.use[all.num].user = u->user, all.use[all.num++].operand = (size_t)(u - u->user->in);
  return all;
}

static void redirect(const uses *all, msc_value *v) {
  for (size_t i = 0; i < all->num; i++) msc_set_operand(all->use[i].user, all->use[i].operand, v);
}

static bool is_refused(msc_module *m) {
  msc_clear_diags(m->ctx);
  bool refused = !msc_verify(m);
  msc_clear_diags(m->ctx);
  return refused;
}

/* ---- what is let through ---- */

/* `v` in place of the result of op, which is in `all` places. */
static void judge(tally *t, random_graph *g, msc_op *op, const uses *all, msc_value *v, const char *what) {
  msc_func *f = op->block->func;
  redirect(all, v);
  t->mutants++;
  bool accepted = !is_refused(f->module);
  msc_arena *a = msc_arena_new(g->ctx);
  const msc_tensor *mutated = accepted ? random_results(g, a, f) : NULL;
  redirect(all, &op->out[0]);
  t->accepted += accepted;
  if (accepted && !random_same_results(g, f, random_results(g, a, f), mutated)) {
    t->wrong++;
    print_message("%s: %s of %s%s%s is not refused\n", f->name, what, msc_kind_name(op->kind), op->name ? " for " : "",
                  op->name ? op->name : "");
  }
  msc_arena_free(a);
}

static void without(tally *t, random_graph *g, msc_op *op) {
  uses all = uses_of(&op->out[0]);
  judge(t, g, op, &all, op->in[0].value, "removal");
}

static void twice(tally *t, random_graph *g, msc_op *op) {
  uses all = uses_of(&op->out[0]);
  msc_op *again = msc_op_new(op->block->func, (msc_op_kind)op->kind, 1, (msc_value *[]){&op->out[0]}, 1, op->loc);
  for (size_t i = 0; i < op->num_attrs; i++) msc_op_set(again, op->attrs[i].name, op->attrs[i].value);
  again->out[0].type = op->out[0].type;
  msc_insert_after(op, again);
  judge(t, g, op, &all, &again->out[0], "doubling");
  msc_op_erase(again);
}

/* ---- programs ---- */

static bool partitioned(random_graph *g, msc_context *ctx, uint64_t seed) {
  random_graph_make(g, ctx, seed);
  msc_config *config = msc_config_new(ctx);
  for (int i = 0; i < g->num_settings; i++) MSC_TRY(msc_config_set(config, g->setting[i]));
  msc_pass_options options = {.from = "fold", .until = "redistribute", .verify = MSC_VERIFY_IR, .config = config};
  return msc_config_check(config) && msc_run_passes(ctx, g->m, &options);
}

static void one_program(tally *t, uint64_t seed, bool show) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  random_graph g;
  tally before = *t;
  bool done = partitioned(&g, ctx, seed);
  if (done && show) fputs(msc_print_text(g.m, g.arena, &(size_t){0}), stdout);
  for (msc_func *f = done ? g.m->first : NULL; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next)
      if (communicates(op)) {
        without(t, &g, op);
        twice(t, &g, op);
      }
  if (t->mutants > before.mutants) {
    t->programs++;
    assert_true(msc_verify(g.m)); /* every mutation was taken back */
  }
  if (t->wrong > before.wrong) print_message("seed %" PRIu64 "\n", seed);
  msc_context_free(ctx);
}

static void mutants_are_refused(void **state) {
  (void)state;
  const char *number = getenv("MUTATED"), *only = getenv("MUTATED_SEED");
  int programs = number ? atoi(number) : getenv("MSC_TEST_SLOW") ? SLOW_PROGRAMS : QUICK_PROGRAMS;
  tally t = {0};
  if (only) one_program(&t, strtoull(only, NULL, 10), true);
  for (uint64_t seed = 1; !only && t.programs < programs; seed++) one_program(&t, seed, false);
  print_message("%d programs, %d mutants, %d not refused, %d of them wrong\n", t.programs, t.mutants, t.accepted,
                t.wrong);
  assert_int_equal(t.wrong, 0);
  if (!only) assert_true(t.accepted * 25 <= t.mutants); /* mostly one of two steps, which the other does as well */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(mutants_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
