/* cmd_flight.c: msc flight DIR: the flight records of ranks in; out, the last operation that all its ranks have done,
 * the first one that they do not agree on, who keeps whom waiting, and the time that each rank waited. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ir/table.h"
#include "tools/cli.h"

typedef struct {
  int rank, num;     /* of the recorder; number of members */
  const char *group; /* "0,1,2" */
  const int *member;
  int64_t index, bytes, step, begin_ns, end_ns; /* times since 1970, of the clock of the host; end 0: not ended */
  const char *op, *name, *loc;
} operation;

typedef struct {
  bool there;
  int64_t step, num, left_out, lost_ns;
  const char *reason;
  const operation *last; /* that has begun */
} recorder;

typedef struct {
  cli *c;
  int ranks, files;
  const char *plan;
  recorder *rank;
  size_t num, room;
  operation *op;
  const operation *common; /* one of the last cluster that all members have done */
  int64_t common_end_ns;
  const operation *divergence; /* one of the first cluster that is not the same on all */
  size_t divergence_num;
  json_t *stuck;
} merging;

/* ---- reading ---- */

static const char *text_member(const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

static int64_t integer_member(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static bool add_operation(merging *m, int rank, const json_t *o, int64_t epoch_ns) {
  msc_arena *a = msc_context_arena(m->c->ctx);
  json_t *ranks = json_object_get(o, "ranks");
  if (!json_is_object(o) || !json_is_integer(json_object_get(o, "begin_ns"))) return false;
  if (!json_is_array(ranks)) return true; /* a message: its two ends need not be recorded */
  msc_reserve(a, m->op, m->room, m->num + 1);
  operation *p = &m->op[m->num++];
  *p = (operation){.rank = rank,
                   .num = (int)json_array_size(ranks),
                   .group = "",
                   .index = integer_member(o, "index"),
                   .bytes = integer_member(o, "bytes"),
                   .step = integer_member(o, "step"),
                   .begin_ns = integer_member(o, "begin_ns") + epoch_ns,
                   .op = text_member(o, "op"),
                   .name = text_member(o, "name"),
                   .loc = text_member(o, "loc")};
  if (json_is_integer(json_object_get(o, "end_ns"))) p->end_ns = integer_member(o, "end_ns") + epoch_ns;
  int *member = msc_new_array(a, int, p->num + 1);
  for (int i = 0; i < p->num; i++) {
    int64_t r = json_integer_value(json_array_get(ranks, (size_t)i));
    if (r < 0 || r >= m->ranks) return false;
    member[i] = (int)r;
    p->group = msc_arena_printf(a, "%s%s%d", p->group, i ? "," : "", (int)r);
  }
  p->member = member;
  return true;
}

/* Reads one file; false after a report. */
static bool read_record(merging *m, const char *path) {
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error), *o;
  size_t i;
  int rank = (int)integer_member(root, "rank"), ranks = (int)integer_member(root, "ranks");
  const char *plan = text_member(root, "plan");
  if (!root || !json_is_array(json_object_get(root, "operations")) || ranks < 1 || ranks > 1 << 20 || rank < 0 ||
      rank >= ranks)
    return msc_error(m->c->ctx, MSC_E_DATA, cli_loc(m->c, path), "not a flight record: %s",
                     root ? "it names no valid rank" : error.text);
  if (!m->files) {
    m->ranks = ranks, m->plan = plan;
    m->rank = msc_new_array(msc_context_arena(m->c->ctx), recorder, ranks);
  }
  if (ranks != m->ranks || strcmp(plan, m->plan))
    return msc_error(m->c->ctx, MSC_E_DATA, cli_loc(m->c, path), "the record is of another job than the others");
  if (m->rank[rank].there)
    return msc_error(m->c->ctx, MSC_E_DATA, cli_loc(m->c, path), "there are two records of rank %d", rank);
  m->files++;
  m->rank[rank] = (recorder){.there = true,
                             .step = integer_member(root, "step"),
                             .left_out = integer_member(root, "left_out"),
                             .reason = text_member(root, "reason")};
  json_array_foreach(json_object_get(root, "operations"), i, o) {
    if (!add_operation(m, rank, o, integer_member(root, "epoch_ns")))
      return msc_error(m->c->ctx, MSC_E_DATA, cli_loc(m->c, path), "operation %zu is malformed", i);
    m->rank[rank].num++;
  }
  return true; /* the texts are the tree's, which stays */
}

static int read_folder(merging *m, const char *path) {
  DIR *folder = opendir(path);
  bool ok = true;
  if (!folder) {
    msc_error(m->c->ctx, MSC_E_FILE, cli_loc(m->c, path), "cannot be read: %s", strerror(errno));
    return CLI_INPUT;
  }
  for (struct dirent *d; ok && (d = readdir(folder));) {
    size_t n = strlen(d->d_name);
    if (strncmp(d->d_name, "rank-", 5) || n < 5 || strcmp(d->d_name + n - 5, ".json")) continue;
    ok = read_record(m, msc_arena_printf(msc_context_arena(m->c->ctx), "%s/%s", path, d->d_name));
  }
  closedir(folder);
  if (ok && !m->files)
    ok =
        msc_error(m->c->ctx, MSC_E_FILE, cli_loc(m->c, path), "there is no flight record (rank-*.json) in this folder");
  return ok ? CLI_OK : CLI_INPUT;
}

/* ---- merging ---- */

static int compare_operations(const void *a, const void *b) {
  const operation *x = a, *y = b;
  int by_group = strcmp(x->group, y->group);
  if (by_group) return by_group;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return x->rank - y->rank;
}

static bool is_same_operation(const operation *x, const operation *y) {
  return !strcmp(x->op, y->op) && !strcmp(x->name, y->name) && x->bytes == y->bytes && x->step == y->step;
}

static const operation *find_in(const operation *first, size_t num, int rank) {
  for (size_t i = 0; i < num; i++)
    if (first[i].rank == rank) return &first[i];
  return NULL;
}

/* True if the rank has not reached this operation of its group yet. Operations that its record no longer has are
 * done. */
static bool is_behind(const merging *m, const operation *of, int rank) {
  int64_t last = -1;
  if (!m->rank[rank].there) return true;
  for (size_t i = 0; i < m->num; i++)
    if (m->op[i].rank == rank && !strcmp(m->op[i].group, of->group) && m->op[i].index > last) last = m->op[i].index;
  return last < of->index;
}

static json_t *operation_json(const operation *p) {
  return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "op", p->op, "name", p->name, "loc", p->loc, "step",
                   (json_int_t)p->step, "bytes", (json_int_t)p->bytes, "ranks", p->group);
}

/* Members of the group that have left a record. */
static size_t count_recorded(const merging *m, const operation *of) {
  size_t num = 0;
  for (int i = 0; i < of->num; i++) num += m->rank[of->member[i]].there;
  return num;
}

/* Notes who waits in an operation that has not ended, and who has not begun it. */
static void note_stuck(merging *m, const operation *first, size_t num) {
  json_t *waiting = json_array(), *missing = json_array();
  for (int i = 0; i < first->num; i++) {
    const operation *own = find_in(first, num, first->member[i]);
    if (own && !own->end_ns) json_array_append_new(waiting, json_integer(own->rank));
    else if (!own && is_behind(m, first, first->member[i]))
      json_array_append_new(missing, json_integer(first->member[i]));
  }
  if (json_array_size(waiting) || json_array_size(missing)) {
    json_t *o = operation_json(first);
    json_object_set_new(o, "waiting", waiting);
    json_object_set_new(o, "not_begun", missing);
    json_array_append_new(m->stuck, o);
  } else {
    json_decref(waiting);
    json_decref(missing);
  }
}

/* The operations of one number in one group, in the order of ranks. Where all that left a record have done it, a rank
 * that left none has done its part, too. */
static void merge_instance(merging *m, const operation *first, size_t num) {
  int64_t latest = 0, end = 0;
  bool done = num == count_recorded(m, first), same = true;
  for (size_t i = 0; i < num; i++) {
    recorder *r = &m->rank[first[i].rank];
    if (first[i].begin_ns > latest) latest = first[i].begin_ns;
    if (first[i].end_ns > end) end = first[i].end_ns;
    done = done && first[i].end_ns;
    same = same && is_same_operation(first, &first[i]);
    if (!r->last || first[i].begin_ns > r->last->begin_ns) r->last = &first[i];
  }
  if (!same && (!m->divergence || first->begin_ns < m->divergence->begin_ns))
    m->divergence = first, m->divergence_num = num;
  for (size_t i = 0; i < num && num == (size_t)first->num; i++)
    m->rank[first[i].rank].lost_ns += latest - first[i].begin_ns;
  if (done && same && end > m->common_end_ns) m->common = first, m->common_end_ns = end;
  if (!done) note_stuck(m, first, num);
}

static void merge_recorders(merging *m) {
  if (m->num) qsort(m->op, m->num, sizeof *m->op, compare_operations);
  m->stuck = json_array();
  for (size_t i = 0, n; i < m->num; i += n) {
    for (n = 1; i + n < m->num && m->op[i + n].index == m->op[i].index && !strcmp(m->op[i + n].group, m->op[i].group);)
      n++;
    merge_instance(m, &m->op[i], n);
  }
}

/* ---- printing ---- */

static const char *describe_operation(const merging *m, const operation *p) {
  return msc_arena_printf(msc_context_arena(m->c->ctx), "%s %s%s%s, step %" PRId64 ", %" PRId64 " bytes", p->op,
                          p->name, *p->loc ? " at " : "", p->loc, p->step, p->bytes);
}

static json_t *merged_json(const merging *m) {
  json_t *ranks = json_array(), *missing = json_array(), *divergence = json_array();
  for (int r = 0; r < m->ranks; r++) {
    const recorder *k = &m->rank[r];
    if (!k->there) json_array_append_new(missing, json_integer(r));
    else
      json_array_append_new(ranks, json_pack("{s:i, s:I, s:I, s:f, s:s}", "rank", r, "step", (json_int_t)k->step,
                                             "operations", (json_int_t)(k->num + k->left_out), "lost_ms",
                                             (double)k->lost_ns / 1e6, "reason", k->reason));
  }
  for (size_t i = 0; i < m->divergence_num; i++) {
    json_t *o = operation_json(&m->divergence[i]);
    json_object_set_new(o, "rank", json_integer(m->divergence[i].rank));
    json_array_append_new(divergence, o);
  }
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:O}", "ranks", m->ranks, "without_record", missing, "last_common",
                   m->common ? operation_json(m->common) : json_null(), "divergence", divergence, "of_ranks", ranks,
                   "not_complete", m->stuck);
}

static void print_ranks(const char *what, const json_t *list) {
  size_t i;
  json_t *r;
  if (!json_array_size(list)) return;
  printf("%s", what);
  json_array_foreach(list, i, r) printf("%s%d", i ? ", " : "", (int)json_integer_value(r));
}

static void print_merged(const merging *m, const json_t *all) {
  size_t i;
  json_t *o;
  printf("records of %d of %d ranks\n", m->files, m->ranks);
  print_ranks("no record of ranks ", json_object_get(all, "without_record"));
  if (m->files < m->ranks) printf("\n");
  printf("last operation that all its ranks have done: %s", m->common ? describe_operation(m, m->common) : "none");
  printf(m->common ? ", ranks %s\n" : "\n", m->common ? m->common->group : "");
  if (!m->divergence) printf("first divergence: none\n");
  for (size_t k = 0; k < m->divergence_num; k++)
    printf("%s rank %d: %s\n", k ? "                 " : "first divergence:", m->divergence[k].rank,
           describe_operation(m, &m->divergence[k]));
  json_array_foreach(m->stuck, i, o) {
    printf("not complete: %s %s%s%s, step %" PRId64 ", ranks %s", text_member(o, "op"), text_member(o, "name"),
           *text_member(o, "loc") ? " at " : "", text_member(o, "loc"), integer_member(o, "step"),
           text_member(o, "ranks"));
    print_ranks("; waiting: ", json_object_get(o, "waiting"));
    print_ranks("; has not begun it: ", json_object_get(o, "not_begun"));
    printf("\n");
  }
  printf("%6s %8s %11s %10s  %s\n", "rank", "steps", "operations", "lost ms", "why it was written");
  for (int r = 0; r < m->ranks; r++)
    if (m->rank[r].there)
      printf("%6d %8" PRId64 " %11" PRId64 " %10.3f  %s\n", r, m->rank[r].step, m->rank[r].num + m->rank[r].left_out,
             (double)m->rank[r].lost_ns / 1e6, m->rank[r].reason);
}

static int run_flight(cli *c) {
  merging m = {.c = c};
  int code = read_folder(&m, c->operands[0]);
  if (code) return code;
  merge_recorders(&m);
  json_t *all = merged_json(&m);
  char *text = c->json ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  if (text) printf("%s\n", text);
  else print_merged(&m, all);
  free(text);
  json_decref(all);
  return CLI_OK;
}

const cli_command cmd_flight = {"DIR", 1, 1, NULL, run_flight};
