/* certificate.c: checks the lower bound that a search reports against strategies drawn at random: each is written
 * into the program op by op, as a user would, and priced; none may cost less. Wide networks must get a strategy at
 * all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "passes/config/config.h"
#include "passes/pass.h"

enum { MOST_VALUES = 512, MOST_AXES = 4, NUM_GRAPHS = 24, NUM_WAYS = 24, SLOW_GRAPHS = 200, SLOW_WAYS = 60 };

static uint64_t seed;

static uint64_t draw(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* ---- networks ---- */

typedef struct {
  msc_arena *arena;
  const char *body, *args, *roles;
  struct {
    const char *name, *type;
    int rank;
    int64_t dim[4];
    bool used;
  } value[MOST_VALUES];
  int num, ops, num_args;
} network;

static const char *type_text(network *n, int rank, const int64_t *dim) {
  const char *text = "tensor<";
  for (int d = 0; d < rank; d++) text = msc_arena_printf(n->arena, "%s%" PRId64 "x", text, dim[d]);
  return msc_arena_printf(n->arena, "%sf32>", text);
}

static int add_value(network *n, const char *name, int rank, const int64_t *dim) {
  n->value[n->num].name = name, n->value[n->num].type = type_text(n, rank, dim), n->value[n->num].rank = rank;
  if (rank) memcpy(n->value[n->num].dim, dim, (size_t)rank * sizeof *dim);
  return n->num++;
}

static int add_argument(network *n, const char *role, int rank, const int64_t *dim) {
  const char *name = msc_arena_printf(n->arena, "%%a%d", n->num_args++), *comma = n->num_args > 1 ? ", " : "";
  n->args = msc_arena_printf(n->arena, "%s%s%s: %s", n->args, comma, name, type_text(n, rank, dim));
  n->roles = msc_arena_printf(n->arena, "%s%s{msc.name = \"%s\", msc.role = \"%s\"}", n->roles, comma, name + 1, role);
  return add_value(n, name, rank, dim);
}

static int add_op(network *n, const char *op, int a, int b, const char *attrs, int rank, const int64_t *dim) {
  const char *name = msc_arena_printf(n->arena, "%%v%d", n->ops);
  const char *other = b < 0 ? "" : msc_arena_printf(n->arena, ", %s", n->value[b].name);
  const char *other_type = b < 0 ? "" : msc_arena_printf(n->arena, ", %s", n->value[b].type);
  n->value[a].used = true;
  if (b >= 0) n->value[b].used = true;
  n->body =
      msc_arena_printf(n->arena, "%s    %s = \"msc.%s\"(%s%s) %s : (%s%s) -> %s loc(\"op%d\")\n", n->body, name, op,
                       n->value[a].name, other, attrs, n->value[a].type, other_type, type_text(n, rank, dim), n->ops);
  n->ops++;
  return add_value(n, name, rank, dim);
}

static int64_t draw_size(void) {
  static const int64_t sizes[] = {64, 96, 128, 30, 50, 256, 384, 512, 1024, 37, 72, 2048};
  return sizes[draw(sizeof sizes / sizeof *sizes)];
}

static int with_shape(const network *n, int like, int from) {
  for (int i = from; i < n->num; i++)
    if (i != like && n->value[i].rank == n->value[like].rank &&
        !memcmp(n->value[i].dim, n->value[like].dim, (size_t)n->value[i].rank * sizeof(int64_t)))
      return i;
  return -1;
}

static void add_product(network *n, int x) {
  const int64_t *d = n->value[x].dim;
  bool ta = draw(3) == 0, tb = draw(3) == 0;
  int64_t m = d[ta], k = d[!ta], size = draw_size();
  int w = add_argument(n, "parameter", 2, tb ? (int64_t[]){size, k} : (int64_t[]){k, size});
  const char *attrs =
      msc_arena_printf(n->arena, "{transpose_a = %s, transpose_b = %s}", ta ? "true" : "false", tb ? "true" : "false");
  add_op(n, "matmul", x, w, attrs, 2, (int64_t[]){m, size});
}

static void add_one(network *n) {
  int x = (int)(draw(2) ? n->num - 1 - (int)draw(n->num < 4 ? (uint64_t)n->num : 4) : (int)draw((uint64_t)n->num)),
      y = with_shape(n, x, (int)draw((uint64_t)n->num));
  const int64_t *d = n->value[x].dim;
  switch (draw(7)) {
    case 0:
    case 1: add_product(n, x); break;
    case 2: add_op(n, "relu", x, -1, "", 2, d); break;
    case 3: add_op(n, draw(2) ? "add" : "mul", x, y < 0 ? x : y, "", 2, d); break;
    case 4: add_op(n, "softmax", x, -1, "{axis = -1 : i64}", 2, d); break;
    case 5: add_op(n, "transpose", x, -1, "{perm = [1, 0]}", 2, (int64_t[]){d[1], d[0]}); break;
    default: add_op(n, "add", x, y < 0 ? x : y, "", 2, d);
  }
}

static void add_picture_op(network *n) {
  int x = n->num - 1;
  while (n->value[x].rank != 4 || n->value[x].name[1] == 'a') {
    if (n->value[x].rank == 4 && x == 0) break;
    x--;
  }
  const int64_t *d = n->value[x].dim;
  int64_t size[] = {16, 24, 32, 64}, o = size[draw(4)], stride = 1 + (int64_t)draw(2), h = (d[2] - 1) / stride + 1;
  const char *attrs =
      msc_arena_printf(n->arena, "{padding = [1, 1, 1, 1], stride = [%d, %d]}", (int)stride, (int)stride);
  int y = with_shape(n, x, 0);
  if (draw(2))
    add_op(n, "conv2d", x, add_argument(n, "parameter", 4, (int64_t[]){o, d[1], 3, 3}), attrs, 4,
           (int64_t[]){d[0], o, h, h});
  else if (d[2] >= 8 && draw(2))
    add_op(n, "max_pool", x, -1, msc_arena_printf(n->arena, "{kernel = [2, 2], stride = [2, 2]}"), 4,
           (int64_t[]){d[0], d[1], d[2] / 2, d[3] / 2});
  else if (y >= 0) add_op(n, "add", x, y, "", 4, d);
  else add_op(n, "relu", x, -1, "", 4, d);
}

/* Its loss: a sum of everything that no op reads. */
static const char *finished(network *n) {
  int sum = -1;
  for (int i = 0, made = n->num; i < made; i++) {
    if (n->value[i].used || n->value[i].name[1] == 'a') continue;
    int one =
        add_op(n, "reduce_sum", i, -1, n->value[i].rank == 4 ? "{dims = [0, 1, 2, 3]}" : "{dims = [0, 1]}", 0, NULL);
    sum = sum < 0 ? one : add_op(n, "add", sum, one, "", 0, NULL);
  }
  return msc_arena_printf(
      n->arena,
      "module {\n  \"msc.func\"() ({\n  ^bb0(%s):\n%s    \"msc.return\"(%s) : (tensor<f32>) -> ()\n  }) {arg_attrs = "
      "[%s], loss = 0 : i64,"
      " optimizer = {kind = \"sgd\", lr = 0.1 : f32}, results = [\"loss\"], sym_name = \"forward\"} : () -> ()\n}\n",
      n->args, n->body, n->value[sum].name, n->roles);
}

static const char *draw_network(msc_arena *arena, int num_ops, bool pictures) {
  network *n = msc_new(arena, network);
  *n = (network){.arena = arena, .body = "", .args = "", .roles = ""};
  if (pictures) add_argument(n, "data", 4, (int64_t[]){draw(2) ? 32 : 12, 8, 32, 32});
  else add_argument(n, "data", 2, (int64_t[]){draw_size(), draw_size()});
  if (!pictures) add_product(n, 0);
  else
    add_op(n, "conv2d", 0, add_argument(n, "parameter", 4, (int64_t[]){16, 8, 3, 3}), "{padding = [1, 1, 1, 1]}", 4,
           (int64_t[]){n->value[0].dim[0], 16, 32, 32});
  while (n->ops < num_ops && n->num < MOST_VALUES / 2) (pictures ? add_picture_op : add_one)(n);
  return finished(n);
}

/* ---- prices ---- */

typedef struct {
  const char *text, *cluster, *setting[2]; /* the mesh, or the number of devices; NULL: no further one */
  uint64_t seed;                           /* of the strategy; 0: none is given */
  int64_t ns, least_ns, any_ns;            /* any_ns: at least of any plan; -1: that cannot be */
  int64_t not_compared;                    /* 1: uneven parts, 2: some meshes, 4: parts of axes */
} pricing;

static void after(void *user, const msc_pass_report *r) {
  pricing *p = user;
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    if (!strcmp(s->what, "ns")) p->ns = s->count;
    else if (!strcmp(s->what, "ns at least")) p->least_ns = s->count;
    else if (!strcmp(s->what, "ns of any plan at least")) p->any_ns = s->count;
    else if (!strcmp(s->what, "not compared")) p->not_compared = s->count;
}

/* Axes on letters as they come; a part has one element at least. */
static void draw_strategy(msc_context *ctx, const msc_mesh *mesh, msc_op *op) {
  msc_arena *a = msc_context_arena(ctx);
  msc_rule rule;
  msc_attr *attrs = NULL;
  size_t num = 0;
  int64_t parts[MSC_MAX_LETTERS];
  const char *text[MSC_MAX_LETTERS];
  if (!msc_rule_of(op, a, &rule) || !rule.num_letters) return;
  for (int l = 0; l < rule.num_letters; l++) parts[l] = 1, text[l] = "{";
  bool first_only = draw(2); /* many axes on one letter */
  int favourite = (int)draw(rule.num_letters);
  for (int x = 0; x < mesh->num_axes; x++) {
    int l = first_only && draw(3) ? favourite : (int)draw(rule.num_letters);
    if (draw(5) == 0 || rule.letter[l].role == MSC_REP || parts[l] * mesh->axis[x].size > rule.letter[l].size) continue;
    parts[l] *= mesh->axis[x].size;
    text[l] = msc_arena_printf(a, "%s%s%s", text[l], text[l][1] ? "," : "", mesh->axis[x].name);
  }
  for (int l = 0; l < rule.num_letters; l++) {
    char name[2] = {rule.letter[l].name, 0};
    const msc_layout *digits;
    assert_true(msc_digits_parse(ctx, mesh, NULL, msc_arena_printf(a, "%s}", text[l]), &digits));
    msc_put_attr(ctx, &attrs, &num, name, msc_digits_attr(digits));
  }
  msc_op_set(op, "sharding", (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, attrs}});
  msc_op_set(op, "by", msc_str(ctx, "user"));
}

static bool price(msc_context *ctx, void *arg) {
  pricing *p = arg;
  msc_module *m = msc_parse(ctx, "network", p->text, strlen(p->text));
  msc_config *c = msc_config_new(ctx);
  assert_non_null(m);
  assert_true(msc_config_set(c, "parallel_mode=auto_parallel"));
  for (int i = 0; i < 2 && p->setting[i]; i++) assert_true(msc_config_set(c, p->setting[i]));
  assert_true(msc_config_check(c));
  msc_pass_options o = {
      .until = "strategies", .config = c, .cluster = msc_cluster_named(ctx, p->cluster), .user = p, .after = after};
  if (!msc_run_passes(ctx, m, &o)) return false;
  uint64_t kept = seed;
  seed = p->seed;
  msc_func *f = msc_find_func(m, "train");
  int share = 1 + (int)draw(4); /* of the ops that are the search's */
  for (msc_op *op = f->body->first; op && p->seed; op = op->next)
    if (!op->forward && op->name && strcmp(op->name, "optimizer.step") != 0 && draw(8) >= (uint64_t)share)
      draw_strategy(ctx, &m->mesh, op);
  seed = kept;
  o.from = "propagate", o.until = "search";
  return msc_run_passes(ctx, m, &o);
}

/* Returns false if the strategy is refused. */
static bool priced(pricing *p) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  p->ns = p->least_ns = -1, p->not_compared = 0;
  bool ok = msc_protect(ctx, price, p);
  if (!ok && !p->seed)
    for (const msc_diag *d = msc_diags(ctx); d; d = d->next) print_message("%s\n", d->text);
  msc_context_free(ctx);
  return ok;
}

/* ---- comparisons ---- */

/* Strategies here put whole axes of their mesh on letters. */
static bool claims_more(const pricing *p, int64_t ns, bool same_mesh) {
  return !(p->not_compared & (same_mesh ? 1 : 7)) && p->least_ns > ns;
}

typedef struct {
  int64_t devices;
  const char *mesh[5];
} machine;

static const machine machines[] = {
    {2, {"{\"a\":2}"}},
    {6, {"{\"a\":6}", "{\"a\":2,\"b\":3}", "{\"a\":3,\"b\":2}"}},
    {8, {"{\"a\":8}", "{\"a\":2,\"b\":4}", "{\"a\":4,\"b\":2}", "{\"a\":2,\"b\":2,\"c\":2}"}},
    {12, {"{\"a\":12}", "{\"a\":3,\"b\":4}", "{\"a\":2,\"b\":2,\"c\":3}", "{\"a\":6,\"b\":2}"}},
    {16, {"{\"a\":16}", "{\"a\":2,\"b\":8}", "{\"a\":4,\"b\":4}", "{\"a\":2,\"b\":2,\"c\":4}"}},
};

/* Strategies on a mesh that is given, against the certificate for that mesh, and for all meshes of so many devices. */
static int one_network(uint64_t number, int ways, int *out_claimed) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  int cheaper = 0, tried = 0, claimed = 0, meshes = 0;
  seed = number * 7919 + 17;
  const machine *on = &machines[draw(sizeof machines / sizeof *machines)];
  bool pictures = draw(4) == 0;
  const char *text = draw_network(a, 2 + (int)draw(9), pictures),
             *cluster = (const char *[]){"cpu", "a100", "h100"}[draw(3)];
  pricing whole = {
      .text = text, .cluster = cluster, .setting = {msc_arena_printf(a, "device_num=%" PRId64, on->devices)}};
  if (!priced(&whole))
    fail_msg("network %" PRIu64 " on %" PRId64 " devices is refused:\n%s", number, on->devices, text);
  pricing by_digits = whole;
  by_digits.setting[1] = "search_mode=recursive_programming";
  assert_true(priced(&by_digits));
  if (by_digits.ns < whole.ns) {
    print_message("network %" PRIu64 ", %s, %" PRId64 " devices: digit by digit %" PRId64 " ns, exact %" PRId64 "\n%s",
                  number, cluster, on->devices, by_digits.ns, whole.ns, text);
    cheaper++;
  }
  assert_in_range(whole.any_ns, 0, whole.least_ns);
  while (meshes < 5 && on->mesh[meshes]) meshes++;
  for (int i = 0; i < meshes; i++) {
    pricing given = {.text = text, .cluster = cluster, .setting = {msc_arena_printf(a, "mesh=%s", on->mesh[i])}};
    if (!priced(&given)) fail_msg("network %" PRIu64 " on the mesh %s is refused:\n%s", number, on->mesh[i], text);
    claimed += !(given.not_compared & 1) && given.least_ns == given.ns;
    if (given.ns < whole.ns && whole.ns == whole.least_ns) {
      print_message("network %" PRIu64 ", %s: mesh %s takes %" PRId64 " ns, of all meshes %" PRId64
                    ", at least %" PRId64 "\n%s",
                    number, cluster, on->mesh[i], given.ns, whole.ns, whole.least_ns, text);
      cheaper++;
    }
    for (int k = 0; k < ways / meshes; k++) {
      pricing p = given;
      p.seed = draw(1ull << 40) + 1;
      if (!priced(&p) || p.ns < 0) continue;
      tried++;
      assert_true(p.ns >= whole.any_ns);
      if (!claims_more(&given, p.ns, true) && !claims_more(&whole, p.ns, false)) continue;
      print_message("network %" PRIu64 ", %s, mesh %s: strategy %" PRIu64 " takes %" PRId64
                    " ns, none less than %" PRId64 " (%" PRId64 " found), on all meshes %" PRId64 "\n%s",
                    number, cluster, on->mesh[i], p.seed, p.ns, given.least_ns, given.ns, whole.least_ns, text);
      cheaper++;
    }
  }
  assert_true(tried * 4 > ways || ways < 8);
  *out_claimed += claimed;
  msc_context_free(ctx);
  return cheaper;
}

static void test_none_takes_less(void **state) {
  (void)state;
  const char *only = getenv("CERTIFICATE");
  bool slow = getenv("MSC_TEST_SLOW") != NULL;
  uint64_t first = only ? strtoull(only, NULL, 10) : 1, num = only ? 1 : slow ? SLOW_GRAPHS : NUM_GRAPHS;
  int cheaper = 0, claimed = 0;
  for (uint64_t i = first; i < first + num; i++)
    cheaper += one_network(i, slow || only ? SLOW_WAYS : NUM_WAYS, &claimed);
  print_message("%d certificates of all strategies\n", claimed);
  assert_int_equal(cheaper, 0);
  assert_true(only || (uint64_t)claimed > num); /* else they claim nothing */
}

/* Square values that are read again and again: too wide for one elimination, whatever the mesh. */
static const char *draw_wide_network(msc_arena *arena, int num_ops) {
  int64_t square[] = {64, 64};
  network *n = msc_new(arena, network);
  *n = (network){.arena = arena, .body = "", .args = "", .roles = ""};
  for (int i = 0; i < 5; i++) add_argument(n, i ? "parameter" : "data", 2, square);
  while (n->ops < num_ops) {
    int recent = n->num < 12 ? n->num : 12,
        x = draw(2) ? (int)draw((uint64_t)n->num) : n->num - 1 - (int)draw((uint64_t)recent),
        y = (int)draw((uint64_t)n->num);
    switch (draw(4)) {
      case 0: add_op(n, "transpose", x, -1, "{perm = [1, 0]}", 2, square); break;
      case 1: add_op(n, "softmax", x, -1, "{axis = -1 : i64}", 2, square); break;
      default: add_op(n, draw(2) ? "matmul" : "add", x, y, "", 2, square);
    }
  }
  return finished(n);
}

static void test_wide_networks(void **state) {
  (void)state;
  int open = 0, num = getenv("MSC_TEST_SLOW") ? 60 : 6;
  for (int i = 0; i < num; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    seed = (uint64_t)i + 1;
    int devices = i % 3 == 2 ? 64 : i % 3 == 1 ? 6 : 2;
    const char *text = draw_wide_network(msc_context_arena(ctx), i % 6 == 5 ? 150 : 50);
    pricing p = {.text = text,
                 .cluster = "h100",
                 .setting = {msc_arena_printf(msc_context_arena(ctx), "device_num=%d", devices),
                             i % 2 ? "search_mode=recursive_programming" : NULL}};
    if (!priced(&p)) fail_msg("wide network %d on %d devices is refused", i, devices);
    assert_true(p.ns > 0 && p.least_ns <= p.ns);
    open += p.least_ns < p.ns;
    msc_context_free(ctx);
  }
  assert_true(open > 0); /* else they are not wide */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wide_networks), cmocka_unit_test(test_none_takes_less)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
