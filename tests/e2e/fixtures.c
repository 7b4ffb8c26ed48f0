/* fixtures.c: networks of fixtures/ trained step by step in the interpreter, on one device and cut over four; losses as
 * PyTorch's in the files.  Numbers come from the formulas of formula.py. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include <cmocka.h>

#define FOLDER "tests/e2e/fixtures/"

enum { TOKENS = 16, MAX_STEPS = 1000, STEPS_ON_RANKS = 6 };
static const double tolerance = 1e-5;     /* relative */
static const int64_t max_work = 400000;   /* scalar operations of a step: larger networks are for compiled code */

typedef struct {
  int batch, samples, classes, steps;
  double loss[MAX_STEPS];
} fixture;

/* ---- formula.py in C ---- */

static uint32_t bits(uint32_t seed, uint32_t i) {
  uint32_t x = i * 0x9E3779B1u + seed * 0x85EBCA77u + 0x165667B1u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

static double unit(uint32_t seed, int64_t i) { return (double)(bits(seed, (uint32_t)i) >> 8) / 8388608 - 1; }

static int64_t label(const fixture *x, int64_t sample) { return (7 * sample + 3) % x->classes; }

static double initial(const char *init, size_t arg, int64_t i) {
  if (!strcmp(init, "ones")) return 1;
  return strncmp(init, "uniform:", 8) ? 0 : atof(init + 8) * unit(100 + (uint32_t)arg, i);
}

/* Element p of a sample of `num` elements. */
static double sample_element(const fixture *x, msc_role role, const msc_type *t, int64_t sample, int64_t p,
                             int64_t num) {
  bool is_float = msc_is_float(t->dtype);
  if (role == MSC_ROLE_DATA && !is_float) return (double)(bits(14, (uint32_t)(sample * num + p)) % TOKENS);
  if (role == MSC_ROLE_DATA)
    return fmax(0, (float)(0.25 * unit(11, label(x, sample) * num + p) + 0.75 * unit(12, sample * num + p)));
  if (!is_float) return (double)label(x, sample);
  if (num == x->classes) return 0.5 / x->classes + (p == label(x, sample) ? 0.5 : 0);
  return 0.5 * unit(13, sample * num + p) + 0.25;
}

static void fill_batch(const fixture *x, msc_role role, msc_tensor *t, int step) {
  int64_t num = msc_type_elems(t->type) / x->batch;
  for (int64_t i = 0; i < x->batch * num; i++) {
    int64_t sample = ((int64_t)step * x->batch + i / num) % x->samples;
    msc_tensor_set(t, i, sample_element(x, role, t->type, sample, i % num, num));
  }
}

/* ---- files ---- */

static char *read_file(const char *path, size_t *out_bytes) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("cannot open %s", path);
  char *text = calloc(1, 1 << 20);
  *out_bytes = fread(text, 1, (1 << 20) - 1, f);
  fclose(f);
  return text;
}

static void read_losses(const char *path, fixture *x) {
  size_t bytes;
  char *text = read_file(path, &bytes), *line = strchr(text, '\n');
  assert_int_equal(
      sscanf(text, "# torch %*[^:]: batch %d, %d samples in order, %d classes", &x->batch, &x->samples, &x->classes),
      3);
  for (x->steps = 0; line && line[1] && x->steps < MAX_STEPS; line = strchr(line + 1, '\n'))
    x->loss[x->steps++] = atof(line + 1);
  free(text);
}

/* ---- training ---- */

static msc_tensor *first_values(msc_func *f, msc_arena *arena) {
  msc_tensor *args = msc_new_array(arena, msc_tensor, f->body->num_args);
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_attr_value *init = msc_arg_attr(f, i, "msc.init");
    args[i] = msc_tensor_new(arena, f->body->args[i]->type);
    for (int64_t k = 0, n = msc_type_elems(args[i].type); init && k < n; k++)
      msc_tensor_set(&args[i], k, initial(init->s, i, k));
  }
  return args;
}

/* Runs one step; new values take their arguments' places by the attribute `ties`. */
static double step_once(msc_context *ctx, msc_func *f, msc_tensor *args) {
  msc_arena *arena = msc_arena_new(ctx);
  size_t num = f->body->last->num_in;
  msc_tensor *results = msc_new_array(arena, msc_tensor, num);
  const msc_attr_value *ties = msc_func_attr(f, "ties");
  bool on_ranks = f->body->args[0]->type->layout != NULL;
  assert_true(on_ranks ? msc_interpret_ranks(f, arena, args, results) : msc_interpret(f, arena, args, results));
  assert_int_equal(ties->list.num, num);
  for (size_t i = 0; i < num; i++) {
    int64_t arg = ties->list.v[i].i;
    if (arg >= 0) memcpy(args[arg].data, results[i].data, (size_t)msc_type_bytes(results[i].type));
  }
  double loss = msc_tensor_get(&results[msc_func_attr(f, "loss")->i], 0);
  msc_arena_free(arena);
  return loss;
}

static void train(msc_context *ctx, msc_func *f, const fixture *x, const char *name, int steps) {
  msc_tensor *args = first_values(f, msc_context_arena(ctx));
  double worst = 0;
  for (int step = 0; step < steps; step++) {
    for (size_t i = 0; i < f->body->num_args; i++)
      if (msc_arg_role(f, i) == MSC_ROLE_DATA || msc_arg_role(f, i) == MSC_ROLE_LABEL)
        fill_batch(x, msc_arg_role(f, i), &args[i], step);
    double loss = step_once(ctx, f, args), off = fabs(loss - x->loss[step]) / fabs(x->loss[step]);
    if (!(off <= tolerance)) fail_msg("%s: loss of step %d is %.9g, PyTorch's %.9g", name, step, loss, x->loss[step]);
    if (off > worst) worst = off;
  }
  print_message("%s: %d steps, largest difference %.1e\n", name, steps, worst);
}

/* `keys`: configuration, "a=1 b=2"; with the empty one only the single-device part of the pipeline runs. */
static void train_file(const char *name, const char *keys) {
  char path[512], words[256];
  fixture x;
  size_t bytes;
  snprintf(path, sizeof path, FOLDER "%.200s.losses", name);
  read_losses(path, &x);
  snprintf(path, sizeof path, FOLDER "%.200s.mlir", name);
  char *text = read_file(path, &bytes), *rest = strcpy(words, keys);
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_config *config = msc_config_new(ctx);
  for (char *key; (key = strsep(&rest, " "));)
    if (*key) assert_true(msc_config_set(config, key));
  msc_module *m = msc_parse(ctx, path, text, bytes);
  msc_pass_options options = {.until = *keys ? "redistribute" : "tidy", .verify = MSC_VERIFY_TEXT, .config = config};
  bool ok = m && msc_run_passes(ctx, m, &options),
       mixes = !ok && strstr(msc_diags(ctx)->text, "mixes samples of the batch");
  if (!ok && !mixes) fail_msg("%s: %s", path, msc_diags(ctx)->text);
  if (mixes) { /* statistics over the batch: no replica sees it */
    print_message("%s: not by replicas\n", name);
    msc_context_free(ctx);
    free(text);
    return;
  }
  msc_func *f = msc_find_func(m, "train");
  assert_non_null(f);
  assert_int_equal(*keys != 0, f->body->args[0]->type->layout != NULL);
  if (msc_interpret_work(f) <= max_work) train(ctx, f, &x, name, *keys ? STEPS_ON_RANKS : x.steps);
  else print_message("%s: left to compiled code\n", name);
  msc_context_free(ctx);
  free(text);
}

static int is_network(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 5 && !strcmp(e->d_name + n - 5, ".mlir");
}

static void train_all(const char *keys) {
  struct dirent **entry;
  int num = scandir(FOLDER, &entry, is_network, alphasort);
  assert_true(num >= 8);
  for (int i = 0; i < num; i++) {
    entry[i]->d_name[strlen(entry[i]->d_name) - 5] = 0;
    train_file(entry[i]->d_name, keys);
    free(entry[i]);
  }
  free(entry);
}

static void one_device(void **state) { (void)state, train_all(""); }
static void semi_auto(void **state) { (void)state, train_all("device_num=4 parallel_mode=semi_auto_parallel"); }
static void searched(void **state) {
  (void)state, train_all("device_num=4 parallel_mode=auto_parallel search_mode=sharding_propagation");
}
static void replicas(void **state) {
  (void)state, train_all("device_num=4 parallel_mode=data_parallel gradients_mean=true");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_device), cmocka_unit_test(semi_auto),
                                     cmocka_unit_test(searched), cmocka_unit_test(replicas)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
