/* search_oracle.c: checks the exact search against every strategy of a small training graph, priced one by one, with
 * and without a memory limit; the search by pieces against the exact one; searches that share what they found against
 * searches on their own; and the runner-up of explain against every other choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "passes/3_shard/explain/explain.h"
#include "passes/config/config.h"
#include "passes/pass.h"

enum { NUM_OPS = 3, MOST = 32 };

static const char network[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%x: tensor<BATCHx768xf32>, %y: tensor<BATCHxi32>, %w: tensor<768x1536xf32>, %v: tensor<1536x384xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) : (tensor<BATCHx768xf32>, tensor<768x1536xf32>) -> tensor<BATCHx1536xf32> "
    "loc(\"up\")\n"
    "    %1 = \"msc.relu\"(%0) : (tensor<BATCHx1536xf32>) -> tensor<BATCHx1536xf32> loc(\"relu\")\n"
    "    %2 = \"msc.matmul\"(%1, %v) : (tensor<BATCHx1536xf32>, tensor<1536x384xf32>) -> tensor<BATCHx384xf32> "
    "loc(\"down\")\n"
    "    %3 = \"msc.softmax_cross_entropy\"(%2, %y) : (tensor<BATCHx384xf32>, tensor<BATCHxi32>) -> tensor<f32> "
    "loc(\"loss\")\n"
    "    \"msc.return\"(%3) : (tensor<f32>) -> ()\n"
    "  }) {arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"y\", msc.role = \"label\"}, {msc.name = "
    "\"w\", msc.role = \"parameter\"}, {msc.name = \"v\", msc.role = \"parameter\"}],\n"
    "      loss = 0 : i64, optimizer = {kind = \"adam\", lr = 0.001 : f32}, results = [\"loss\"], sym_name = "
    "\"forward\"} : () -> ()\n"
    "}\n";

typedef struct {
  const char *batch, *mesh, *mode, *cluster;
} setting;

typedef struct {
  int64_t ns, bytes;
} told;

static void after(void *user, const msc_pass_report *r) {
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    if (!strcmp(s->what, "ns")) ((told *)user)->ns = s->count;
    else if (!strcmp(s->what, "bytes kept")) ((told *)user)->bytes = s->count;
}

/* A value with two users, which search and explain may bring into a layout once for both. */
static const char residual[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%x: tensor<BATCHx768xf32>, %y: tensor<BATCHxi32>, %w: tensor<768x384xf32>, %v: tensor<384x384xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) : (tensor<BATCHx768xf32>, tensor<768x384xf32>) -> tensor<BATCHx384xf32> "
    "loc(\"in\")\n"
    "    %1 = \"msc.matmul\"(%0, %v) : (tensor<BATCHx384xf32>, tensor<384x384xf32>) -> tensor<BATCHx384xf32> "
    "loc(\"up\")\n"
    "    %2 = \"msc.add\"(%0, %1) : (tensor<BATCHx384xf32>, tensor<BATCHx384xf32>) -> tensor<BATCHx384xf32> "
    "loc(\"add\")\n"
    "    %3 = \"msc.softmax_cross_entropy\"(%2, %y) : (tensor<BATCHx384xf32>, tensor<BATCHxi32>) -> tensor<f32> "
    "loc(\"loss\")\n"
    "    \"msc.return\"(%3) : (tensor<f32>) -> ()\n"
    "  }) {arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"y\", msc.role = \"label\"}, {msc.name = "
    "\"w\", msc.role = \"parameter\"}, {msc.name = \"v\", msc.role = \"parameter\"}],\n"
    "      loss = 0 : i64, optimizer = {kind = \"adam\", lr = 0.001 : f32}, results = [\"loss\"], sym_name = "
    "\"forward\"} : () -> ()\n"
    "}\n";

static const char *network_for(msc_context *ctx, const char *network_text, const char *batch) {
  char *text = msc_arena_alloc(msc_context_arena(ctx), strlen(network_text) + 512), *out = text;
  for (const char *p = network_text; *p;) {
    if (!strncmp(p, "BATCH", 5)) {
      out += sprintf(out, "%s", batch);
      p += 5;
    } else {
      *out++ = *p++;
    }
  }
  return text;
}

static told searched(msc_context *ctx, msc_module *m, const msc_config *config, const char *cluster, const char *from,
                     const char *until) {
  told t = {-1, -1};
  msc_pass_options o = {.from = from,
                        .until = until,
                        .config = config,
                        .cluster = msc_cluster_named(ctx, cluster),
                        .user = &t,
                        .after = after};
  if (!msc_run_passes(ctx, m, &o)) fail_msg("%s", msc_diags(ctx)->text);
  return t;
}

static msc_config *config_for(msc_context *ctx, const setting *s, const char *mode, int64_t limit) {
  msc_config *c = msc_config_new(ctx);
  assert_true(msc_config_set(c, "parallel_mode=auto_parallel"));
  assert_true(msc_config_set(c, msc_arena_printf(msc_context_arena(ctx), "search_mode=%s", mode)));
  assert_true(msc_config_set(c, msc_arena_printf(msc_context_arena(ctx), "mesh=%s", s->mesh)));
  if (limit) assert_true(msc_config_set(c, msc_arena_printf(msc_context_arena(ctx), "memory_limit=%" PRId64, limit)));
  assert_true(msc_config_check(c));
  return c;
}

/* All ways to put the axes on the letters: as values of `sharding`. */
static int all_shardings(msc_context *ctx, const msc_mesh *mesh, const char *letters, const char *whole,
                         msc_attr_value *out) {
  int num_letters = (int)strlen(letters), num = 0, total = 1;
  for (int a = 0; a < mesh->num_axes; a++) total *= num_letters + 1;
  for (int code = 0; code < total; code++) {
    msc_attr *attrs = NULL;
    size_t n = 0;
    bool ok = true;
    for (int l = 0; l < num_letters; l++) {
      const char *text = "{";
      for (int a = 0, rest = code; a < mesh->num_axes; a++, rest /= num_letters + 1) {
        if (rest % (num_letters + 1) != l) continue;
        text = msc_arena_printf(msc_context_arena(ctx), "%s%s%s", text, text[1] ? "," : "", mesh->axis[a].name);
        ok &= !strchr(whole, letters[l]);
      }
      char name[2] = {letters[l], 0};
      const msc_layout *digits;
      text = msc_arena_printf(msc_context_arena(ctx), "%s}", text);
      assert_true(msc_digits_parse(ctx, mesh, NULL, text, &digits));
      msc_put_attr(ctx, &attrs, &n, name, msc_digits_attr(digits));
    }
    if (ok) out[num++] = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {n, attrs}};
  }
  return num;
}

static void fix(msc_op *op, const msc_attr_value *sharding) {
  msc_op_set(op, "sharding", *sharding);
  msc_op_set(op, "by", msc_str(msc_op_ctx(op), "user"));
}

static void free_ops(msc_func *f) {
  for (msc_op *o = f->body->first; o; o = o->next) msc_op_unset(o, "sharding"), msc_op_unset(o, "by");
}

static told best_within(const told *all, int num, int64_t limit) {
  told best = {INT64_MAX, 0};
  for (int i = 0; i < num; i++)
    if (all[i].bytes <= limit && all[i].ns < best.ns) best = all[i];
  return best;
}

/* The ops of the forward part that the user named: up, relu, down, loss. */
static void named_ops(msc_func *f, msc_op **out_op) {
  int num = 0;
  for (msc_op *o = f->body->first; o && num < 4; o = o->next)
    if (!o->forward && o->name && strcmp(o->name, "optimizer.step")) out_op[num++] = o;
  assert_int_equal(num, 4);
}

static bool against_all(msc_context *ctx, void *arg) {
  const setting *s = arg;
  const char *text = network_for(ctx, network, s->batch);
  msc_module *m = msc_parse(ctx, "network", text, strlen(text));
  assert_non_null(m);
  const msc_config *exact = config_for(ctx, s, "dynamic_programming", 0);
  searched(ctx, m, exact, s->cluster, "annotations", "strategies");
  msc_func *f = msc_find_func(m, "train");
  msc_op *op[4];
  named_ops(f, op);
  msc_attr_value of_matmul[MOST], of_relu[MOST], of_loss[MOST];
  int matmuls = all_shardings(ctx, &m->mesh, "mkn", "", of_matmul),
      relus = all_shardings(ctx, &m->mesh, "AB", "", of_relu),
      losses = all_shardings(ctx, &m->mesh, "Ac", "c", of_loss);
  if (m->mesh.num_axes > 1) losses = 1; /* to save time the search places this op's */
  told *all = msc_new_array(msc_context_arena(ctx), told, matmuls * relus * matmuls * losses);
  int num = 0;
  for (int i = 0; i < matmuls; i++)
    for (int r = 0; r < relus; r++)
      for (int k = 0; k < matmuls; k++)
        for (int l = 0; l < losses; l++) {
          fix(op[0], &of_matmul[i]), fix(op[1], &of_relu[r]), fix(op[2], &of_matmul[k]);
          if (losses > 1) fix(op[3], &of_loss[l]);
          else free_ops(f);
          if (losses == 1) fix(op[0], &of_matmul[i]), fix(op[1], &of_relu[r]), fix(op[2], &of_matmul[k]);
          all[num++] = searched(ctx, m, exact, s->cluster, "search", "search");
        }
  free_ops(f);
  told found = searched(ctx, m, exact, s->cluster, "search", "search"), best = best_within(all, num, INT64_MAX);
  free_ops(f);
  told by_pieces = searched(ctx, m, config_for(ctx, s, "recursive_programming", 0), s->cluster, "search", "search");
  print_message("batch %s, mesh %s, %s: best of all %" PRId64 ", exact %" PRId64 ", by pieces %" PRId64 " ns\n",
                s->batch, s->mesh, s->cluster, best.ns, found.ns, by_pieces.ns);
  assert_int_equal(found.ns, best.ns);
  assert_true(by_pieces.ns >= found.ns && by_pieces.ns * 100 <= found.ns * 101);
  if (losses == 1) return true; /* its memory was not looked at one by one */
  int64_t least = best.bytes;
  for (int i = 0; i < num; i++)
    if (all[i].bytes < least) least = all[i].bytes;
  for (int part = 0; part < 4 && least < best.bytes; part++) {
    int64_t limit = least + (best.bytes - least) * part / 4;
    free_ops(f);
    found = searched(ctx, m, config_for(ctx, s, "dynamic_programming", limit), s->cluster, "search", "search");
    print_message("  within %" PRId64 " bytes: best of all %" PRId64 ", exact %" PRId64 " ns\n", limit,
                  best_within(all, num, limit).ns, found.ns);
    assert_int_equal(found.ns, best_within(all, num, limit).ns);
    assert_true(found.bytes <= limit);
  }
  return true;
}

static void test_against_all(void **state) {
  (void)state;
  static const setting settings[] = {
    {"8", "{\"a\":4}", "", "cpu"},
    {"4096", "{\"a\":8}", "", "h100"},
    {"96", "{\"a\":3}", "", "a100"},
    {"192", "{\"a\":3}", "", "h100"}, /* the smallest, one between, and the fastest */
    {"96", "{\"a\":2,\"b\":2}", "", "h100"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    assert_true(msc_protect(ctx, against_all, (void *)(uintptr_t)&settings[i]));
    msc_context_free(ctx);
  }
}

typedef struct {
  setting s;
  const char *network;
  struct { const char *letters, *whole; } rule[4]; /* of the named ops */
} runner_up;

static msc_module *read_again(msc_context *ctx, const char *text) {
  msc_module *m = msc_parse(ctx, "network", text, strlen(text));
  assert_non_null(m);
  return m;
}

/* What the searched program costs with one op put otherwise. */
static int64_t priced_with(msc_context *ctx, const setting *s, const char *text, const msc_config *config, int which,
                           const msc_attr_value *way) {
  msc_module *m = read_again(ctx, text);
  msc_op *op[4];
  named_ops(msc_find_func(m, "train"), op);
  fix(op[which], way);
  return searched(ctx, m, config, s->cluster, "search", "search").ns;
}

/* Each op is put every other way, with the others where they are. */
static bool other_ways(msc_context *ctx, void *arg) {
  const runner_up *u = arg;
  const setting *s = &u->s;
  const msc_config *exact = config_for(ctx, s, "dynamic_programming", 0);
  msc_module *m = read_again(ctx, network_for(ctx, u->network, s->batch));
  int64_t best = searched(ctx, m, exact, s->cluster, "annotations", "search").ns;
  const char *text = msc_print_text(m, msc_context_arena(ctx), &(size_t){0});
  msc_func *f = msc_find_func(m = read_again(ctx, text), "train");
  msc_pass_options o = {.config = exact, .cluster = msc_cluster_named(ctx, s->cluster)};
  msc_pass_ctx pass = {
      .ctx = ctx, .scratch = msc_context_arena(ctx), .config = exact, .options = &o, .info = msc_find_pass("search")};
  shard_explanation x;
  assert_true(shard_explain(&pass, f, NULL, NULL, &x));
  assert_int_equal(x.figures.step_ns, best);
  assert_int_equal(x.figures.kept_ns, best);
  assert_int_equal(x.figures.free_ns, best);
  /* without the copies that the search made: they may move */
  text = msc_print_text(m, msc_context_arena(ctx), &(size_t){0});
  msc_op *op[4];
  msc_attr_value way[MOST];
  named_ops(f, op);
  for (int i = 0; i < 4; i++) {
    int64_t next = INT64_MAX;
    const char *chosen = msc_attr_text(pass.scratch, &m->mesh, msc_op_attr(op[i], "sharding"));
    int ways = all_shardings(ctx, &m->mesh, u->rule[i].letters, u->rule[i].whole, way);
    for (int k = 0; k < ways; k++) {
      if (!strcmp(msc_attr_text(pass.scratch, &m->mesh, &way[k]), chosen)) continue;
      int64_t ns = priced_with(ctx, s, text, exact, i, &way[k]);
      if (ns < next) next = ns;
    }
    const shard_reason *r = NULL;
    for (size_t k = 0; k < x.num; k++)
      if (x.reason[k].op == op[i]) r = &x.reason[k];
    assert_non_null(r);
    assert_int_equal(r->next.work_ns + r->next.move_ns - r->chosen.work_ns - r->chosen.move_ns, next - best);
  }
  return true;
}

static void test_runner_up(void **state) {
  (void)state;
  static const runner_up cases[] = {
    {{"4096", "{\"a\":8}", "", "h100"}, network, {{"mkn", ""}, {"AB", ""}, {"mkn", ""}, {"Ac", ""}}},
    {{"96", "{\"a\":3}", "", "a100"}, network, {{"mkn", ""}, {"AB", ""}, {"mkn", ""}, {"Ac", ""}}},
    {{"4096", "{\"a\":2,\"b\":4}", "", "h100"}, network, {{"mkn", ""}, {"AB", ""}, {"mkn", ""}, {"Ac", ""}}},
    {{"4096", "{\"a\":8}", "", "h100"}, residual, {{"mkn", ""}, {"mkn", ""}, {"AB", ""}, {"Ac", ""}}},
    {{"96", "{\"a\":2,\"b\":4}", "", "a100"}, residual, {{"mkn", ""}, {"mkn", ""}, {"AB", ""}, {"Ac", ""}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    assert_true(msc_protect(ctx, other_ways, (void *)(uintptr_t)&cases[i]));
    msc_context_free(ctx);
  }
}

/* The text after a search of the module in `text`. */
static const char *text_searched(msc_context *ctx, const char *text, const msc_config *config, msc_pass_memory *kept,
                                 told *out) {
  msc_module *m = read_again(ctx, text);
  msc_pass_options o = {.from = "search",
                        .until = "search",
                        .config = config,
                        .cluster = msc_cluster_named(ctx, "h100"),
                        .of_text = kept,
                        .user = out,
                        .after = after};
  if (!msc_run_passes(ctx, m, &o)) fail_msg("%s", msc_diags(ctx)->text);
  return msc_print_text(m, msc_context_arena(ctx), &(size_t){0});
}

/* With less and less memory, by searches that share what they found and by searches on their own: the same. */
static bool sharing_answers(msc_context *ctx, void *arg) {
  const setting *s = arg;
  msc_pass_memory *kept = msc_pass_memory_new(msc_context_arena(ctx));
  msc_module *m = read_again(ctx, network_for(ctx, residual, s->batch));
  searched(ctx, m, config_for(ctx, s, s->mode, 0), s->cluster, "annotations", "propagate");
  const char *text = msc_print_text(m, msc_context_arena(ctx), &(size_t){0});
  told of = {0, 0}, first = {0, 0};
  for (int part = 8; part > 5; part--) {
    const msc_config *config = config_for(ctx, s, s->mode, part < 8 ? first.bytes * part / 8 : 0);
    const char *alone = text_searched(ctx, text, config, NULL, &of);
    if (part == 8) first = of;
    for (int again = 0; again < 2; again++)
      assert_string_equal(text_searched(ctx, text, config, kept, &of), alone);
  }
  return true;
}

static void test_sharing_answers(void **state) {
  (void)state;
  static const setting settings[] = {
    {"4096", "{\"a\":8}", "dynamic_programming", "h100"},
    {"96", "{\"a\":2,\"b\":4}", "dynamic_programming", "h100"},
    {"4096", "{\"a\":4,\"b\":4}", "recursive_programming", "h100"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    assert_true(msc_protect(ctx, sharing_answers, (void *)(uintptr_t)&settings[i]));
    msc_context_free(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all), cmocka_unit_test(test_runner_up),
                                     cmocka_unit_test(test_sharing_answers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
