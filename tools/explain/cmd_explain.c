/* cmd_explain.c: msc explain: a diagnostic code in, its explanation out; or a plan or a model in, why every op is
 * cut as it is and what that costs out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/explain/explain_plan.h"
#include "tools/explain/roofline.h"

/* "E0102", "e102" or "102"; 0: not a code. */
static unsigned code_number(const char *text) {
  if (*text == 'E' || *text == 'e') text++;
  char *end;
  unsigned long n = strtoul(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && n < 10000 ? (unsigned)n : 0;
}

static int report_unknown_code(cli *c, const char *text) {
  msc_error(c->ctx, MSC_E_NONE, NULL, "there is no diagnostic code '%s'; the codes are:", text);
#define DIAG(name, number, title, story) msc_note(c->ctx, NULL, "E%04d %s", number, title);
#include "ir/diag.def"
#undef DIAG
  return CLI_INPUT;
}

static int explain_code(cli *c, const char *text, unsigned number) {
  const char *title = msc_code_title((msc_code)number);
  if (!title) return report_unknown_code(c, text);
  const char *story = msc_code_story((msc_code)number);
  if (!c->json) {
    printf("E%04u: %s\n\n%s\n", number, title, story);
    return CLI_OK;
  }
  json_t *j = json_pack("{s:o, s:s, s:s}", "code", json_sprintf("E%04u", number), "title", title, "story", story);
  json_dumpf(j, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(j);
  return CLI_OK;
}

/* ---- plans ---- */

static const char *member_text(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static double member_number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static double member_us(const json_t *way, const char *key) { return member_number(way, key) / 1e3; }

/* Lines about ops, collected so that layers that are alike are printed once. */
typedef struct {
  cli *c;
  json_t *said; /* name without its numbers, and text -> [what is said, names ...] */
} sayings;

static sayings new_sayings(cli *c) { return (sayings){c, json_object()}; }

/* Notes that `what` is said of `name`.  `ways` names other ops; layers whose names differ in numbers only are alike. */
static void say_with(sayings *s, const char *name, const char *what, const char *ways) {
  msc_arena *a = msc_context_arena(s->c->ctx);
  char *key = msc_arena_printf(a, "%s\n%s\n%s", cli_name_of_alike(s->c, name), what, cli_name_of_alike(s->c, ways));
  json_t *said = json_object_get(s->said, key);
  if (!said) {
    json_object_set_new(s->said, key, said = json_array());
    json_array_append_new(said, json_string(msc_arena_printf(a, "%s%s", what, ways)));
  }
  json_array_append_new(said, json_string(name));
}

static void say(sayings *s, const char *name, const char *what) { say_with(s, name, what, ""); }

/* Prints the lines in the order in which they were noted; `before` precedes each, `others` the further names. */
static void print_sayings(cli_output *out, sayings *s, const char *before, const char *others) {
  const char *key;
  json_t *said;
  json_object_foreach(s->said, key, said) {
    size_t last = json_array_size(said) - 1;
    cli_printf(out, "%s%s%s\n", before, json_string_value(json_array_get(said, 1)),
               json_string_value(json_array_get(said, 0)));
    if (last > 1)
      cli_printf(out, "%s%zu more, the last of them: %s\n", others, last - 1,
                 json_string_value(json_array_get(said, last)));
  }
  json_decref(s->said);
}

static const char *next_text(cli *c, const json_t *op) {
  const json_t *chosen = json_object_get(op, "chosen"), *next = json_object_get(op, "next");
  double more = member_number(op, "next_costs_ns") / 1e3;
  if (json_is_true(json_object_get(op, "own_order")))
    return "its digits are in an order that only its user can give: no other way is compared";
  if (!next && member_number(op, "ways") < 0)
    return "it is put as no search would put it: other ways were not compared";
  if (!next) return member_number(op, "ways") ? "no other way is allowed" : "too many ways to compare";
  return msc_arena_printf(msc_context_arena(c->ctx),
                          "next best: %s, would take %.1f us %s (work %+.1f, layout changes %+.1f), %.0f bytes kept",
                          member_text(next, "cuts"), more < 0 ? -more : more, more < 0 ? "less" : "more",
                          member_us(next, "work_ns") - member_us(chosen, "work_ns"),
                          member_us(next, "move_ns") - member_us(chosen, "move_ns"), member_number(next, "bytes"));
}

/* "{d} from dense1 (net.py:3) through relu1, add": the last ops of a long way. */
static const char *way_text(cli *c, const json_t *digits) {
  enum { MOST_NAMED = 6 };
  msc_arena *a = msc_context_arena(c->ctx);
  const json_t *through = json_object_get(digits, "through");
  size_t num = json_array_size(through), first = num > MOST_NAMED ? num - MOST_NAMED : 0;
  bool all_named = !first && member_number(digits, "left_out") == 0;
  const char *all = msc_arena_printf(a, "%s from %s", member_text(digits, "digits"), member_text(digits, "from"));
  if (*member_text(digits, "loc")) all = msc_arena_printf(a, "%s (%s)", all, member_text(digits, "loc"));
  for (size_t i = first; i < num; i++)
    all = msc_arena_printf(a, "%s%s%s", all,
                           i > first   ? ", "
                           : all_named ? " through "
                                       : " through ..., ",
                           json_string_value(json_array_get(through, i)));
  return all;
}

static const char *inherited_text(cli *c, const json_t *op) {
  const char *all = "";
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(op, "inherited"), i, one) all =
      msc_arena_printf(msc_context_arena(c->ctx), "%s\n    propagated: %s", all, way_text(c, one));
  return all;
}

static void say_conflict(sayings *s, const json_t *one) {
  const json_t *here = json_object_get(one, "here"), *there = json_object_get(one, "there");
  bool elsewhere = !strcmp(member_text(there, "digits"), "{}"); /* it is in another dimension of the value */
  char *place = msc_arena_printf(msc_context_arena(s->c->ctx), ": at dimension %.0f of ", member_number(one, "dim"));
  say_with(
      s, member_text(one, "op"), place,
      msc_arena_printf(msc_context_arena(s->c->ctx), "%s, %s, but %s%s; the search decided", member_text(one, "value"),
                       way_text(s->c, here), elsewhere ? "there in another dimension, " : "", way_text(s->c, there)));
}

static const char *percent_text(cli *c, double ns, double of) {
  return msc_arena_printf(msc_context_arena(c->ctx), "%+.1f us (%+.2f %%)", (ns - of) / 1e3,
                          of > 0 ? 100 * (ns - of) / of : 0);
}

/* Text on what the whole step costs if the op is cut in another way. */
static const char *instead_text(cli *c, const json_t *all, const json_t *op) {
  enum { MOST_NAMED = 4 };
  msc_arena *a = msc_context_arena(c->ctx);
  const json_t *one, *figures = json_object_get(all, "figures");
  const char *lines = "";
  size_t i;
  json_array_foreach(json_object_get(op, "instead"), i, one) {
    const json_t *changed = json_object_get(one, "changed");
    size_t num = json_array_size(changed);
    lines = msc_arena_printf(a, "%s\n    with %s: the step %s: work %+.1f, layout changes %+.1f, %+.0f bytes kept; ",
                             lines, member_text(json_object_get(one, "way"), "cuts"),
                             percent_text(c, member_number(one, "step_ns"), member_number(figures, "step_ns")),
                             member_us(one, "work_ns"), member_us(one, "move_ns"),
                             member_number(one, "bytes") - member_number(figures, "bytes"));
    lines = num ? msc_arena_printf(a, "%s%zu other %s", lines, num, num > 1 ? "ops change" : "op changes")
                : msc_arena_printf(a, "%sno other op changes", lines);
    for (size_t k = 0; k < num && k < MOST_NAMED; k++)
      lines = msc_arena_printf(a, "%s%s%s", lines, k ? "; " : ": ", json_string_value(json_array_get(changed, k)));
    if (num > MOST_NAMED) lines = msc_arena_printf(a, "%s; ...", lines);
  }
  return lines;
}

static void say_op(sayings *s, const json_t *all, const json_t *op) {
  const json_t *chosen = json_object_get(op, "chosen");
  say_with(
      s, member_text(op, "op"),
      msc_arena_printf(
          msc_context_arena(s->c->ctx),
          ": %s (%s)%s%s\n    %s %s\n    %s\n    work %.1f us, layout changes %.1f us, %.0f bytes kept\n    %s",
          member_text(chosen, "cuts"), member_text(op, "by"), *member_text(op, "loc") ? " at " : "",
          member_text(op, "loc"), member_text(op, "kind"), member_text(op, "letters"), member_text(chosen, "layouts"),
          member_us(chosen, "work_ns"), member_us(chosen, "move_ns"), member_number(chosen, "bytes"),
          next_text(s->c, op)),
      msc_arena_printf(msc_context_arena(s->c->ctx), "%s%s", inherited_text(s->c, op), instead_text(s->c, all, op)));
}

static void say_collective(sayings *s, const json_t *c) {
  msc_arena *a = msc_context_arena(s->c->ctx);
  const json_t *bound = json_object_get(c, "lower_bound"), *step;
  size_t i;
  const char *what =
      msc_arena_printf(a, ": %s %s -> %s, %.1f us, %.0f bytes", member_text(c, "shape"), member_text(c, "from"),
                       member_text(c, "to"), member_us(c, "ns"), member_number(c, "bytes"));
  if (bound && json_is_integer(bound)) what = msc_arena_printf(a, "%s (at least %.0f)", what, json_number_value(bound));
  json_array_foreach(json_object_get(c, "steps"), i, step) what =
      msc_arena_printf(a, "%s%s %s", what, i ? "," : ":", member_text(step, "op"));
  say(s, msc_arena_printf(a, "%s -> %s", member_text(c, "from_op"), member_text(c, "to_op")), what);
}

/* True if `name` is that of the op, a recomputed copy of it, its gradient, or an update of its parameters. */
static bool is_op_or_gradient(const char *name, const char *op) {
  size_t n = strlen(op);
  const char *rest = strncmp(name, op, n) ? NULL : name + n;
  return rest && (!*rest || !strcmp(rest, ".grad") || !strcmp(rest, ".recompute") ||
                  (*rest == '.' && strlen(rest) > 7 && !strcmp(rest + strlen(rest) - 7, ".update")));
}

static bool is_change_of_op(const json_t *c, const char *op) {
  return !op || is_op_or_gradient(member_text(c, "from_op"), op) || is_op_or_gradient(member_text(c, "to_op"), op);
}

static int compare_ns(const void *a, const void *b) {
  double x = member_number(*(json_t *const *)a, "ns"), y = member_number(*(json_t *const *)b, "ns");
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Prints bytes and time of the collectives by cause, and those that take longest. */
static void print_causes(cli_output *out, const json_t *all) {
  static const char *const causes[] = {"forward", "backward", "gradients of parameters", "parameters and inputs",
                                       "results"};
  enum { DEAREST = 10 };
  const json_t *changes = json_object_get(all, "collectives");
  json_t *one, *dearest[DEAREST + 1];
  size_t i, kept = 0;
  for (size_t c = 0; c < sizeof causes / sizeof *causes; c++) {
    size_t num = 0;
    double ns = 0, bytes = 0;
    json_array_foreach(changes, i, one) if (!strcmp(member_text(one, "cause"), causes[c])) num++,
        ns += member_number(one, "ns"), bytes += member_number(one, "bytes");
    if (num) cli_printf(out, "    %s: %zu, %.0f bytes, %.1f us\n", causes[c], num, bytes, ns / 1e3);
  }
  json_array_foreach(changes, i, one) {
    dearest[kept] = one;
    qsort(dearest, ++kept, sizeof *dearest, compare_ns);
    if (kept > DEAREST) kept = DEAREST;
  }
  for (i = 0; i < kept; i++)
    cli_printf(out, "%s%s -> %s %.1f us", i ? ", " : "    the dearest: ", member_text(dearest[i], "from_op"),
               member_text(dearest[i], "to_op"), member_number(dearest[i], "ns") / 1e3);
  cli_printf(out, "\n");
}

/* Prints the number of collectives and the time that they take one after the other. */
static void print_changes(cli_output *out, const json_t *all, const char *op) {
  const json_t *one;
  size_t i, num = 0;
  double ns = 0, bytes = 0;
  json_array_foreach(json_object_get(all, "collectives"), i, one) {
    if (!is_change_of_op(one, op)) continue;
    num++, ns += member_number(one, "ns"), bytes += member_number(one, "bytes");
  }
  if (num)
    cli_printf(out,
               "layout changes: %zu, %.0f bytes, %.1f us one after the other; gradients travel together, and some wait "
               "beside other work\n",
               num, bytes, ns / 1e3);
  else cli_printf(out, "layout changes: none\n");
  if (num && !op) print_causes(out, all);
}

static void print_head(cli_output *out, const json_t *all) {
  double stages = member_number(all, "stages");
  cli_printf(out, "%s for %.0f ranks, ", member_text(all, "plan"), member_number(all, "ranks"));
  if (stages > 1) cli_printf(out, "%.0f stages, each on a ", stages);
  cli_printf(out, "mesh %s; a step takes %.3f ms on the described cluster\n", member_text(all, "mesh"),
             member_number(all, "predicted_step_ms"));
  const json_t *search = json_object_get(all, "search");
  double ns = member_number(search, "step_ns"), least = member_number(search, "at_least_ns");
  if (!search) return;
  if (json_is_true(json_object_get(search, "data_parallel")))
    cli_printf(out, "data parallelism was taken: its whole plan is predicted faster than what the search found\n");
  const char *of = member_text(search, "compared");
  double micro = member_number(search, "micro_batches");
  cli_printf(out, "the search's own figure is %.3f ms", ns / 1e6);
  if (micro > 1) cli_printf(out, " for each of %.0f micro-batches", micro);
  cli_printf(out, "; ");
  if (least <= 0) return cli_printf(out, "how much less is possible was not looked at\n");
  if (strcmp(of, "all") != 0) cli_printf(out, "of strategies with %s none takes less", of);
  else cli_printf(out, "no strategy takes less");
  if (least >= ns) cli_printf(out, "\n");
  else cli_printf(out, " than %.3f ms, %.1f %% below\n", least / 1e6, 100 * (ns - least) / ns);
}

/* Prints what the user's strategies and the memory limit cost, by the search's prices. */
static void print_figures(cli *c, cli_output *out, const json_t *all) {
  const json_t *figures = json_object_get(all, "figures");
  double step = member_number(figures, "step_ns"), least = member_number(figures, "least_ns"),
         free_ns = member_number(figures, "free_ns");
  if (step > 0 && !json_object_get(all, "search"))
    cli_printf(out, "by the prices of the searches, nothing beside other work, it is %.3f ms\n", step / 1e6);
  if (least > 0 && least < step) {
    bool is_least = member_number(json_object_get(all, "search"), "at_least_ns") > 0;
    const char *why = is_least ? "with more memory" : "searched for the least time";
    cli_printf(out, "%s it could be %.3f ms, %s: it would keep %.0f bytes, this plan keeps %.0f\n", why, least / 1e6,
               percent_text(c, least, step), member_number(figures, "least_bytes"), member_number(figures, "bytes"));
  }
  if (free_ns > 0 && free_ns < least)
    cli_printf(out, "without the strategies that the user gave it could be %.3f ms, %s\n", free_ns / 1e6,
               percent_text(c, free_ns, step));
}

/* Prints what gradients_mean divides the gradients by. */
static void print_mean(cli_output *out, const json_t *all) {
  const json_t *over = json_object_get(all, "gradients_over");
  if (over)
    cli_printf(out, "gradients_mean: all gradients are divided by %" JSON_INTEGER_FORMAT ", the parts of the batch\n",
               json_integer_value(over));
}

static void print_rank(cli_output *out, const json_t *all) {
  const json_t *rank = json_object_get(all, "rank"), *digit, *one;
  const char *axis;
  size_t i;
  if (!rank) return;
  cli_printf(out, "rank %.0f", member_number(rank, "rank"));
  if (member_number(all, "stages") > 1) cli_printf(out, ", stage %.0f", member_number(rank, "stage"));
  json_object_foreach(json_object_get(rank, "at"), axis, digit) {
    cli_printf(out, "; %s %" JSON_INTEGER_FORMAT ", with ranks", axis, json_integer_value(digit));
    json_array_foreach(json_object_get(json_object_get(rank, "with"), axis), i, one)
        cli_printf(out, " %" JSON_INTEGER_FORMAT, json_integer_value(one));
  }
  cli_printf(out, "\n");
}

static void print_offload(cli_output *out, const json_t *all) {
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(all, "offload"), i, one) {
    cli_printf(out, "offload, stage %.0f: %.0f bytes live in host memory, %.0f on disk; a step makes %.0f transfers, ",
               member_number(one, "stage"), member_number(one, "host_bytes"), member_number(one, "disk_bytes"),
               member_number(one, "transfers"));
    cli_printf(out, "%.0f bytes, %.3f ms, %.1f %% of it hidden\n", member_number(one, "moved_bytes"),
               member_number(one, "transfer_ms"), 100 * member_number(one, "hidden"));
    if (!member_number(one, "moved_bytes")) continue;
    cli_printf(out, "    %.1f operations per byte moved: at most %.1f %% of the device's peak\n",
               member_number(one, "intensity"), 100 * member_number(one, "efficiency"));
  }
}

static void print_servers(cli_output *out, const json_t *all) {
  const json_t *servers = json_object_get(all, "servers");
  if (servers)
    cli_printf(out,
               "servers: %zu parameters, %.0f bytes, live on parameter servers, with %.0f bytes of state; in a step "
               "every rank pushes %.0f bytes and pulls %.0f\n",
               json_array_size(json_object_get(servers, "parameters")), member_number(servers, "parameter_bytes"),
               member_number(servers, "state_bytes"), member_number(servers, "pushed_bytes"),
               member_number(servers, "parameter_bytes"));
  if (servers && !strcmp(member_text(servers, "mode"), "async")) {
    cli_printf(out, "    updated with each push: workers do not wait for one another");
    if (json_object_get(servers, "staleness"))
      cli_printf(out, ", but at %.0f steps ahead of the slowest", member_number(servers, "staleness"));
    cli_printf(out, "\n");
  }
  if (servers && member_number(servers, "copies") > 1)
    cli_printf(out, "    every server has a copy, which goes on when it is lost\n");
}

static void print_caches(cli_output *out, const json_t *all) {
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(all, "caches"), i, one) {
    cli_printf(out,
               "cache of '%s': %.0f of %.0f rows lie on the device, with their state %.0f bytes; all take %.0f %s, and "
               "%.0f in host memory to find them",
               member_text(one, "table"), member_number(one, "rows"), member_number(one, "table_rows"),
               member_number(one, "device_bytes"), member_number(one, "home_bytes"),
               strcmp(member_text(one, "home"), "disk") ? "in host memory" : "on disk",
               member_number(one, "index_bytes"));
    if (json_object_get(one, "pool_bytes"))
      cli_printf(out, ", %.0f to swap them", member_number(one, "pool_bytes"));
    cli_printf(out, "\n");
    cli_printf(out,
               "    a step names %.0f rows; %.1f %% of them are there if they are drawn by Zipf's law, exponent %.2f, ",
               member_number(one, "numbers"), 100 * member_number(one, "hit_rate"), member_number(one, "zipf"));
    if (json_object_get(one, "columns"))
      cli_printf(out, "from the whole table, and %.1f %% if each of %.0f columns has a part of it",
                 100 * member_number(one, "hit_rate_by_column"), member_number(one, "columns"));
    else cli_printf(out, "from the whole table");
    cli_printf(out, "\n");
  }
}

/* Prints which products a library computes, and how many it may. */
static void print_products(cli *c, cli_output *out, const json_t *all, const char *op) {
  const json_t *one;
  size_t i, measured = 0;
  sayings products = new_sayings(c);
  json_array_foreach(json_object_get(all, "products"), i, one) {
    if (op && !is_op_or_gradient(member_text(one, "op"), op)) continue;
    bool preferred = !strcmp(member_text(one, "library"), "preferred");
    measured += !preferred;
    if (preferred)
      say(&products, member_text(one, "op"),
          msc_arena_printf(msc_context_arena(c->ctx),
                           ": a library, where it is installed, computes the product of %.0f x %.0f x %.0f: %s",
                           member_number(one, "m"), member_number(one, "n"), member_number(one, "k"),
                           member_text(one, "why")));
  }
  print_sayings(out, &products, "", "    the same for ");
  if (measured)
    cli_printf(out,
               "%zu matrix product%s: by the plan's own kernels, or by a library where --autotune measures it to be "
               "faster, since deterministic is false\n",
               measured, measured > 1 ? "s" : "");
}

static void print_plan(cli *c, cli_output *out, const json_t *all, const char *op) {
  const json_t *one;
  size_t i;
  sayings ops = new_sayings(c), conflicts = new_sayings(c), changes = new_sayings(c), warnings = new_sayings(c);
  print_head(out, all);
  print_rank(out, all);
  print_figures(c, out, all);
  print_mean(out, all);
  print_offload(out, all);
  print_servers(out, all);
  print_caches(out, all);
  json_array_foreach(json_object_get(all, "ops"), i, one) if (!op || !strcmp(member_text(one, "op"), op))
      say_op(&ops, all, one);
  print_sayings(out, &ops, "", "    the same for ");
  json_array_foreach(json_object_get(all, "conflicts"), i, one) if (!op || !strcmp(member_text(one, "op"), op))
      say_conflict(&conflicts, one);
  print_sayings(out, &conflicts, "conflict: ", "    the same for ");
  json_array_foreach(json_object_get(all, "parameters"), i, one) if (!op)
      cli_printf(out, "%s: %s\n", member_text(one, "parameter"), member_text(one, "optimizer"));
  print_products(c, out, all, op);
  print_changes(out, all, op);
  json_array_foreach(json_object_get(all, "collectives"), i, one) if (is_change_of_op(one, op))
      say_collective(&changes, one);
  print_sayings(out, &changes, "", "    the same for ");
  json_array_foreach(json_object_get(all, "warnings"), i, one) if (!op || strstr(json_string_value(one), op))
      say(&warnings, json_string_value(one), "");
  print_sayings(out, &warnings, "warning: ", "    and ");
}

/* ---- two plans ---- */

static const json_t *find_op(const json_t *all, const char *name) {
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(all, "ops"), i, one) if (!strcmp(member_text(one, "op"), name)) return one;
  return NULL;
}

static double moved_bytes(const json_t *all) {
  const json_t *one;
  size_t i;
  double bytes = 0;
  json_array_foreach(json_object_get(all, "collectives"), i, one) bytes += member_number(one, "bytes");
  return bytes;
}

static json_t *pack_two(const json_t *a, const json_t *b) { return json_pack("{s:O, s:O}", "a", a, "b", b); }

/* Returns the differences of two plans: {"ops": [{"op", "a": WAY, "b": WAY}], "only_a": [NAME], "only_b": [NAME],
 * ...}. */
static json_t *compare_plans(const json_t *a, const json_t *b) {
  json_t *ops = json_array(), *only_a = json_array(), *only_b = json_array(), *one;
  size_t i;
  json_array_foreach(json_object_get(a, "ops"), i, one) {
    const json_t *other = find_op(b, member_text(one, "op"));
    if (!other) json_array_append_new(only_a, json_string(member_text(one, "op")));
    else if (strcmp(member_text(json_object_get(one, "chosen"), "layouts"),
                    member_text(json_object_get(other, "chosen"), "layouts"))) {
      json_t *pair = pack_two(json_object_get(one, "chosen"), json_object_get(other, "chosen"));
      json_object_set_new(pair, "op", json_string(member_text(one, "op")));
      json_array_append_new(ops, pair);
    }
  }
  json_array_foreach(json_object_get(b, "ops"), i, one) if (!find_op(a, member_text(one, "op")))
      json_array_append_new(only_b, json_string(member_text(one, "op")));
  return json_pack("{s:o, s:o, s:o, s:o, s:{s:f, s:f}}", "ops", ops, "only_a", only_a, "only_b", only_b,
                   "predicted_step_ms",
                   pack_two(json_object_get(a, "predicted_step_ms"), json_object_get(b, "predicted_step_ms")),
                   "moved_bytes", "a", moved_bytes(a), "b", moved_bytes(b));
}

static void print_difference(cli_output *out, const json_t *d, const char *op) {
  const json_t *one, *ms = json_object_get(d, "predicted_step_ms"), *bytes = json_object_get(d, "moved_bytes");
  size_t i;
  json_array_foreach(json_object_get(d, "ops"), i, one) {
    const json_t *a = json_object_get(one, "a"), *b = json_object_get(one, "b");
    if (op && strcmp(member_text(one, "op"), op)) continue;
    cli_printf(out, "%s\n  - %s, work %.1f us, layout changes %.1f us\n  + %s, work %.1f us, layout changes %.1f us\n",
               member_text(one, "op"), member_text(a, "layouts"), member_us(a, "work_ns"), member_us(a, "move_ns"),
               member_text(b, "layouts"), member_us(b, "work_ns"), member_us(b, "move_ns"));
  }
  json_array_foreach(json_object_get(d, "only_a"), i, one) cli_printf(out, "- %s\n", json_string_value(one));
  json_array_foreach(json_object_get(d, "only_b"), i, one) cli_printf(out, "+ %s\n", json_string_value(one));
  cli_printf(out, "%zu ops are cut differently; a step takes %.3f and %.3f ms, a rank receives %.0f and %.0f bytes\n",
             json_array_size(json_object_get(d, "ops")), member_number(ms, "a"), member_number(ms, "b"),
             member_number(bytes, "a"), member_number(bytes, "b"));
}

/* ---- the command ---- */

static bool check_op_known(cli *c, const json_t *all, const char *op) {
  if (!op || find_op(all, op)) return true;
  const json_t *ops = json_object_get(all, "ops"), *one;
  const char **names = msc_new_array(msc_context_arena(c->ctx), const char *, json_array_size(ops) + 1);
  size_t i;
  json_array_foreach(ops, i, one) names[i] = member_text(one, "op");
  const char *near = msc_nearest(op, names, json_array_size(ops));
  if (near) return msc_error(c->ctx, MSC_E_NONE, NULL, "the plan has no op '%s'; did you mean '%s'?", op, near);
  return msc_error(c->ctx, MSC_E_NONE, NULL, "the plan has no op '%s'", op);
}

/* Reads the plan, and checks that --cluster says what a model is compiled for; an exit code. */
static int read_explained(cli *c, const char *path) {
  const cli_plan *p = cli_read_plan(c, path, cli_flag(c, "redundancy"));
  if (!p) return CLI_INPUT;
  if (!cli_text(c, "cluster") || p->of_model || cli_flag(c, "roofline")) return CLI_OK;
  return cli_usage(c, "--cluster goes with a model, or with --roofline");
}

static int explain_plans(cli *c, const char *path, const char *op) {
  const char *other = cli_text(c, "diff");
  json_t *a = cli_explain_plan(c, path, op, cli_text(c, "instead")),
         *b = a && other ? cli_explain_plan(c, other, NULL, NULL) : NULL, *d = a && b ? compare_plans(a, b) : NULL;
  int code = CLI_INPUT;
  if (a && (!other || b) && check_op_known(c, a, op)) {
    cli_output *out = cli_open(c, NULL);
    char *dumped = c->json ? json_dumps(d ? d : a, JSON_COMPACT) : NULL;
    if (dumped) cli_printf(out, "%s\n", dumped);
    else if (d) print_difference(out, d, op);
    else print_plan(c, out, a, op);
    free(dumped);
    code = cli_close(c, out);
  }
  json_decref(a), json_decref(b), json_decref(d);
  return code;
}

static int explain_redundancy(cli *c, const char *path) {
  enum { MOST_NAMED = 16 };
  json_t *told = cli_redundancy(c, path), *group;
  size_t i, k;
  if (!told) return CLI_INPUT;
  cli_output *out = cli_open(c, NULL);
  char *dumped = c->json ? json_dumps(told, JSON_COMPACT) : NULL;
  if (dumped) cli_printf(out, "%s\n", dumped);
  json_array_foreach(dumped ? NULL : json_object_get(told, "redundancy"), i, group) {
    size_t num = json_array_size(group);
    cli_printf(out, num > 1 ? "ranks" : "rank");
    for (k = 0; k < num && k < MOST_NAMED; k++)
      cli_printf(out, " %" JSON_INTEGER_FORMAT, json_integer_value(json_array_get(group, k)));
    if (num > MOST_NAMED)
      cli_printf(out, " ... %" JSON_INTEGER_FORMAT, json_integer_value(json_array_get(group, num - 1)));
    cli_printf(
        out, num > 1 ? ": each of these %zu can restore the others\n" : ": nobody else holds all that it holds\n", num);
  }
  if (!dumped && !json_is_true(json_object_get(told, "recoverable")))
    cli_printf(out, "not recoverable from peers; %s\n", member_text(told, "change"));
  json_array_foreach(dumped ? NULL : json_object_get(told, "alone"), i, group) {
    size_t num = json_array_size(json_object_get(group, "ranks")),
           pieces = json_array_size(json_object_get(group, "partial"));
    if (i == MOST_NAMED) cli_printf(out, "  ... %zu more\n", json_array_size(json_object_get(told, "alone")) - i);
    if (i >= MOST_NAMED) continue;
    cli_printf(out, "  %s%s: %zu rank%s of which each holds a part alone", member_text(group, "parameter"),
               json_is_true(json_object_get(group, "state")) ? " (state)" : "", num, num == 1 ? "" : "s");
    cli_printf(out, pieces ? "; of the first %zu others have pieces\n" : "\n", pieces);
  }
  free(dumped);
  json_decref(told);
  return cli_close(c, out);
}

static int explain_roofline(cli *c, const char *plan) {
  const msc_cluster *cluster;
  json_t *told = cli_cluster(c, &cluster) ? cli_roofline(c, plan, cli_text(c, "trace"), cluster) : NULL;
  if (!told) return CLI_INPUT;
  cli_output *out = cli_open(c, NULL);
  char *dumped = c->json ? json_dumps(told, JSON_COMPACT) : NULL;
  if (dumped) cli_printf(out, "%s\n", dumped);
  else cli_print_roofline(c, out, told);
  free(dumped);
  json_decref(told);
  return cli_close(c, out);
}

static int run_explain(cli *c) {
  const char *what = c->operands[0];
  unsigned number = code_number(what);
  if (number) return explain_code(c, what, number);
  if ((*what == 'E' || *what == 'e') && strspn(what + 1, "0123456789") == strlen(what + 1))
    return report_unknown_code(c, what);
  if (cli_text(c, "trace") && !cli_flag(c, "roofline")) return cli_usage(c, "--trace goes with --roofline");
  if (cli_text(c, "instead") && c->num_operands < 2)
    return msc_error(c->ctx, MSC_E_NONE, NULL, "--instead needs the op that is to be cut otherwise"), CLI_USAGE;
  int code = read_explained(c, what);
  if (code != CLI_OK) return code;
  if (cli_flag(c, "redundancy")) return explain_redundancy(c, what);
  if (cli_flag(c, "roofline")) return explain_roofline(c, what);
  return explain_plans(c, what, c->num_operands > 1 ? c->operands[1] : NULL);
}

static const cli_option options[] = {
    {"diff", CLI_TEXT, "PLAN", "what another plan does differently"},
    {"instead", CLI_TEXT, "CUTS", "what the whole step would cost with OP cut like this: 'm {dp}, k {tp}'"},
    {"redundancy", CLI_FLAG, NULL,
     "for every rank who could restore it: who holds the same parts of all parameters and their state"},
    {"roofline", CLI_FLAG, NULL,
     "of every call of a step the bytes, the arithmetic, what bounds it and the time that it needs at least"},
    {"trace", CLI_TEXT, "t.json",
     "with --roofline: what the calls took, from `msc run --trace`; what memory could do faster"},
    {"cluster", CLI_TEXT, "FILE|NAME",
     "the machine for which a model is compiled, or, with --roofline, on which a plan ran (msc calibrate); absent: "
     "what the plan was compiled for"},
    CLI_MODEL_OPTIONS,
    {0},
};
const cli_command cmd_explain = {"PLAN|MODEL|CODE [OP]", 1, 2, options, run_explain};
