/* cluster.c: the JSON text of a described cluster in; its figures, or every fault of it at its place, out. */
#include "passes/cluster.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *text;
} shipped[] = {
#define EMBEDDED(name, text) {#name, text},
#include "clusters.h"
#undef EMBEDDED
};
enum { NUM_SHIPPED = sizeof shipped / sizeof *shipped };

typedef struct {
  msc_context *ctx;
  const char *file, *text, *end;
  const json_t *json;
  msc_cluster *out;
  bool ok;
} cluster_reader;

/* ---- places ---- */

static const char *skip_blanks(const char *p, const char *end) {
  while (p < end && strchr(" \t\r\n", *p) && *p) p++;
  return p;
}

static const char *skip_json_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : end;
}

/* Skips the value at p; the text is known to be valid. */
static const char *skip_value(const char *p, const char *end) {
  int depth = 0;
  do {
    if (p >= end) return end;
    if (*p == '"') {
      p = skip_json_string(p, end);
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    if (*p == '}' || *p == ']') depth--;
    p++;
  } while (depth > 0 || (p < end && !strchr(",}] \t\r\n", *p)));
  return p;
}

/* Finds member `key` of the object at p, or item `index` of the array at p; NULL: there is none. */
static const char *find_member_text(const char *p, const char *end, const char *key, int index) {
  bool object = *p == '{';
  size_t n = key ? strlen(key) : 0;
  p = skip_blanks(p + 1, end);
  for (int i = 0; p < end && *p != '}' && *p != ']'; i++) {
    const char *name = p;
    if (object) {
      p = skip_blanks(skip_json_string(p, end), end);
      p = skip_blanks(p + 1, end);
    }
    if (object ? key && !strncmp(name + 1, key, n) && name[n + 1] == '"' : i == index) return object ? name : p;
    p = skip_blanks(skip_value(p, end), end);
    if (p < end && *p == ',') p = skip_blanks(p + 1, end);
  }
  return NULL;
}

static const char *skip_to_value(const char *name, const char *end) {
  if (*name != '"') return name;
  const char *p = skip_blanks(skip_json_string(name, end), end);
  return p < end && *p == ':' ? skip_blanks(p + 1, end) : name;
}

/* The location of "levels.1.size", or of the innermost value around it that exists. */
static const msc_loc *loc_of_path(const cluster_reader *r, const char *path) {
  const char *p = skip_blanks(r->text, r->end), *here = p;
  for (const char *word = path; *word && (*skip_to_value(p, r->end) == '{' || *skip_to_value(p, r->end) == '[');) {
    char key[64];
    size_t n = strcspn(word, ".");
    snprintf(key, sizeof key, "%.*s", (int)n, word);
    const char *next = find_member_text(skip_to_value(p, r->end), r->end, key, atoi(key));
    if (!next) break;
    here = p = next;
    word += n + (word[n] == '.');
  }
  msc_loc loc = {.file = r->file, .line = 1, .col = 1};
  for (const char *q = r->text; q < here; q++) {
    loc.col++;
    if (*q == '\n') loc.line++, loc.col = 1;
  }
  return msc_loc_of(r->ctx, &loc);
}

static void MSC_PRINTF(3, 4) report_wrong(cluster_reader *r, const char *path, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  msc_verror(r->ctx, MSC_DIAG_ERROR, MSC_E_CLUSTER, loc_of_path(r, path), NULL, fmt, ap);
  va_end(ap);
  r->ok = false;
}

/* ---- figures ---- */

static const json_t *find_json_member(const json_t *object, const char *path) {
  const char *dot = strrchr(path, '.');
  return json_object_get(object, dot ? dot + 1 : path);
}

/* Reads a number of at least 1.  `path` names it in messages; its last word is the member of `object`. */
static double read_figure(cluster_reader *r, const json_t *object, const char *path, bool needed) {
  const json_t *v = find_json_member(object, path);
  if (!v && needed) report_wrong(r, path, "%s is missing", path);
  if (!v) return 0;
  double x = json_is_number(v) ? json_number_value(v) : NAN;
  if (x >= 1 && x <= 1e18) return x;
  if (!json_is_number(v)) report_wrong(r, path, "%s must be a number", path);
  else report_wrong(r, path, "%s is %g; it must be from 1 to 1e18", path, x);
  return 0;
}

/* Reads a whole number of at least 1, as read_figure does. */
static int64_t read_whole_number(cluster_reader *r, const json_t *object, const char *path, bool needed) {
  double x = read_figure(r, object, path, needed);
  if (x == 0 || (x == floor(x) && x <= 4e18)) return (int64_t)x;
  report_wrong(r, path, "%s is %g; it must be a whole number", path, x);
  return 0;
}

static const char *read_words(cluster_reader *r, const json_t *object, const char *path) {
  const json_t *v = find_json_member(object, path);
  if (json_is_string(v)) return msc_intern(r->ctx, json_string_value(v));
  report_wrong(r, path, v ? "%s must be a text" : "%s is missing", path);
  return "";
}

/* Reports members of `object` that are not known: they are mistakes. */
static void check_known_members(cluster_reader *r, const json_t *object, const char *path, size_t num,
                                const char *const *known) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)object, name, value) {
    bool found = false;
    for (size_t i = 0; i < num; i++) found |= !strcmp(known[i], name);
    if (found) continue;
    const char *near = msc_nearest(name, known, num),
               *full = msc_arena_printf(msc_lasting_arena(r->ctx), "%s%s%s", path, *path ? "." : "", name);
    if (near) report_wrong(r, full, "unknown key '%s'; did you mean '%s'?", full, near);
    else report_wrong(r, full, "unknown key '%s'", full);
  }
}

/* ---- parts ---- */

static void read_gpu(cluster_reader *r, const json_t *gpu) {
  static const char *const known[] = {"arch",        "multiprocessors", "clock_hz", "memory_clock_hz",
                                      "cache_bytes", "shared_bytes",    "threads",  "blocks"};
  msc_cluster_gpu *g = &r->out->gpu;
  int64_t *const figures[] = {&g->arch,        &g->multiprocessors, &g->clock_hz, &g->memory_clock_hz,
                              &g->cache_bytes, &g->shared_bytes,    &g->threads,  &g->blocks};
  if (!json_is_object(gpu)) {
    report_wrong(r, "device.gpu", "device.gpu must be an object");
    return;
  }
  check_known_members(r, gpu, "device.gpu", sizeof known / sizeof *known, known);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    *figures[i] =
        read_whole_number(r, gpu, msc_arena_printf(msc_lasting_arena(r->ctx), "device.gpu.%s", known[i]), true);
}

/* Reads an object with a rate per element type into out[]. Of an absent type out[] stays 0. */
static void read_rates(cluster_reader *r, const json_t *rates, const char *path, bool needs_f32, double *out) {
  const char *types[MSC_NUM_DTYPES];
  if (!json_is_object(rates)) {
    report_wrong(r, path, rates ? "%s must be an object with a number per element type" : "%s is missing", path);
    return;
  }
  for (int d = 0; d < MSC_NUM_DTYPES; d++) types[d] = msc_dtype_name((msc_dtype)d);
  check_known_members(r, rates, path, MSC_NUM_DTYPES, types);
  for (int d = 0; d < MSC_NUM_DTYPES; d++)
    out[d] = read_figure(r, rates, msc_arena_printf(msc_lasting_arena(r->ctx), "%s.%s", path, types[d]),
                         needs_f32 && d == MSC_F32);
}

/* Reads the device's peak rates and the rates that large products reach, which are the peak rates if not given. */
static void read_arithmetic(cluster_reader *r, const json_t *device) {
  static const char most[] = "device.flops_per_s", reached[] = "device.product_flops_per_s";
  msc_cluster *c = r->out;
  read_rates(r, find_json_member(device, most), most, true, c->flops_per_s);
  if (find_json_member(device, reached))
    read_rates(r, find_json_member(device, reached), reached, false, c->product_flops_per_s);
  for (int d = 0; d < MSC_NUM_DTYPES; d++) {
    double *peak = &c->flops_per_s[d], *rate = &c->product_flops_per_s[d];
    if (*peak <= 0) *peak = c->flops_per_s[MSC_F32];
    if (*rate <= 0) *rate = *peak;
    const char *path = msc_arena_printf(msc_lasting_arena(r->ctx), "%s.%s", reached, msc_dtype_name((msc_dtype)d));
    if (*rate > *peak) report_wrong(r, path, "%s is %g, which exceeds the peak %g", path, *rate, *peak);
  }
}

static void read_device(cluster_reader *r) {
  enum { HOST = 25000000000, DISK = 1000000000 }; /* of PCIe 4; of disks of servers, past the page cache */
  static const char *const known[] = {
      "name",          "flops_per_s", "product_flops_per_s", "memory_bytes",     "bytes_per_s", "launch_ns",
      "collective_ns", "section_ns",  "host_bytes_per_s",    "disk_bytes_per_s", "gpu"};
  const json_t *device = json_object_get(r->json, "device");
  msc_cluster *c = r->out;
  if (!json_is_object(device)) {
    report_wrong(r, "device", device ? "device must be an object" : "device is missing");
    return;
  }
  check_known_members(r, device, "device", sizeof known / sizeof *known, known);
  c->device = read_words(r, device, "device.name");
  c->memory_bytes = read_whole_number(r, device, "device.memory_bytes", true);
  c->bytes_per_s = read_figure(r, device, "device.bytes_per_s", true);
  c->host_bytes_per_s = read_figure(r, device, "device.host_bytes_per_s", false);
  c->disk_bytes_per_s = read_figure(r, device, "device.disk_bytes_per_s", false);
  if (c->host_bytes_per_s <= 0) c->host_bytes_per_s = fmin(c->bytes_per_s / 2, (double)HOST);
  if (c->disk_bytes_per_s <= 0) c->disk_bytes_per_s = DISK;
  c->launch_ns = read_whole_number(r, device, "device.launch_ns", true);
  if (json_object_get(device, "gpu")) read_gpu(r, json_object_get(device, "gpu"));
  c->collective_ns = read_whole_number(r, device, "device.collective_ns", false);
  if (!c->collective_ns) c->collective_ns = c->launch_ns;
  c->section_ns = read_whole_number(r, device, "device.section_ns", false);
  read_arithmetic(r, device);
}

static void read_level(cluster_reader *r, size_t i, const json_t *level, bool last) {
  static const char *const known[] = {"name", "size", "latency_ns", "bytes_per_s", "shared_by"};
  msc_arena *a = msc_lasting_arena(r->ctx);
  const char *path = msc_arena_printf(a, "levels.%zu", i);
  msc_cluster_level *l = &r->out->level[i];
  if (!json_is_object(level)) {
    report_wrong(r, path, "%s must be an object", path);
    return;
  }
  check_known_members(r, level, path, sizeof known / sizeof *known, known);
  l->name = read_words(r, level, msc_arena_printf(a, "%s.name", path));
  l->latency_ns = read_whole_number(r, level, msc_arena_printf(a, "%s.latency_ns", path), true);
  l->bytes_per_s = read_figure(r, level, msc_arena_printf(a, "%s.bytes_per_s", path), true);
  double shared = read_figure(r, level, msc_arena_printf(a, "%s.shared_by", path), false);
  if (shared > 0) l->bytes_per_s /= shared;
  const char *size_path = msc_arena_printf(a, "%s.size", path);
  l->size = read_whole_number(r, level, size_path, !last);
  if (last || l->size == 0) l->size = INT64_MAX;
  else if (i && l[-1].size && l->size % l[-1].size)
    report_wrong(r, size_path, "%s is %" PRId64 "; it must be a multiple of the level inside it, %" PRId64, size_path,
                 l->size, l[-1].size);
}

static void read_levels(cluster_reader *r) {
  const json_t *levels = json_object_get(r->json, "levels");
  size_t num = json_array_size(levels);
  if (!json_is_array(levels) || num < 1 || num > MSC_MAX_LEVELS) {
    report_wrong(r, "levels",
                 levels ? "levels must be a list of 1 to %d objects, innermost first"
                        : "levels is missing, a list of 1 to %d objects",
                 MSC_MAX_LEVELS);
    return;
  }
  r->out->num_levels = (int)num;
  for (size_t i = 0; i < num; i++) read_level(r, i, json_array_get(levels, i), i + 1 == num);
}

static int compare_measures(const void *a, const void *b) {
  const msc_cluster_measure *x = a, *y = b;
  if (x->verb != y->verb) return x->verb < y->verb ? -1 : 1;
  if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
  if (x->level != y->level) return x->level > y->level ? -1 : 1; /* those that say a level first */
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* "all_reduce, ... or permute" */
static const char *measured_words(msc_arena *a) {
  const char *text = "", *last = NULL;
  for (unsigned v = 0; v < MSC_NUM_VERBS; v++) {
    if (!msc_verb_is((msc_verb)v, MSC_VERB_MEASURED)) continue;
    if (last) text = msc_arena_printf(a, "%s%s%s", text, *text ? ", " : "", last);
    last = msc_verb_name((msc_verb)v);
  }
  return msc_arena_printf(a, "%s or %s", text, last);
}

/* Returns the number of the level that a measured collective names; -1: it names none. */
static int read_level_name(cluster_reader *r, const json_t *row, const char *path) {
  if (!find_json_member(row, path)) return -1;
  const char *name = read_words(r, row, path);
  for (int l = 0; l < r->out->num_levels; l++)
    if (r->out->level[l].name && !strcmp(r->out->level[l].name, name)) return l;
  if (*name) report_wrong(r, path, "%s is '%s', which is none of the levels", path, name);
  return -1;
}

static void read_measures(cluster_reader *r) {
  static const char *const known[] = {"op", "ranks", "bytes", "ns", "level"};
  const json_t *list = json_object_get(r->json, "collectives");
  msc_arena *a = msc_lasting_arena(r->ctx);
  if (list && !json_is_array(list)) report_wrong(r, "collectives", "collectives must be a list");
  r->out->num_measures = json_array_size(list);
  r->out->measure = msc_new_array(a, msc_cluster_measure, r->out->num_measures);
  for (size_t i = 0; i < r->out->num_measures; i++) {
    const json_t *row = json_array_get(list, i);
    const char *path = msc_arena_printf(a, "collectives.%zu", i);
    msc_cluster_measure *m = &r->out->measure[i];
    if (!json_is_object(row)) {
      report_wrong(r, path, "%s must be an object", path);
      continue;
    }
    check_known_members(r, row, path, sizeof known / sizeof *known, known);
    const char *verb = read_words(r, row, msc_arena_printf(a, "%s.op", path));
    m->verb = msc_verb_parse(verb);
    if (!msc_verb_is(m->verb, MSC_VERB_MEASURED))
      report_wrong(r, msc_arena_printf(a, "%s.op", path), "%s.op must be %s", path, measured_words(a));
    m->level = read_level_name(r, row, msc_arena_printf(a, "%s.level", path));
    m->ranks = read_whole_number(r, row, msc_arena_printf(a, "%s.ranks", path), true);
    m->bytes = read_whole_number(r, row, msc_arena_printf(a, "%s.bytes", path), true);
    m->ns = read_whole_number(r, row, msc_arena_printf(a, "%s.ns", path), true);
  }
  if (r->out->num_measures) qsort(r->out->measure, r->out->num_measures, sizeof *r->out->measure, compare_measures);
}

static int compare_products(const void *a, const void *b) {
  const msc_cluster_product *x = a, *y = b;
  if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
  return x->flops < y->flops ? -1 : x->flops > y->flops;
}

static msc_dtype read_type_name(cluster_reader *r, const json_t *row, const char *path) {
  const char *word = read_words(r, row, path);
  msc_dtype dtype = MSC_F32;
  if (*word && !msc_dtype_parse(word, &dtype))
    report_wrong(r, path, "%s is '%s', which is no element type", path, word);
  return dtype;
}

static void read_products(cluster_reader *r) {
  static const char *const known[] = {"type", "rows", "inner", "columns", "ns"};
  const json_t *list = json_object_get(r->json, "products");
  msc_arena *a = msc_lasting_arena(r->ctx);
  if (list && !json_is_array(list)) report_wrong(r, "products", "products must be a list");
  r->out->num_products = json_array_size(list);
  r->out->product = msc_new_array(a, msc_cluster_product, r->out->num_products);
  for (size_t i = 0; i < r->out->num_products; i++) {
    const json_t *row = json_array_get(list, i);
    const char *path = msc_arena_printf(a, "products.%zu", i);
    msc_cluster_product *p = &r->out->product[i];
    if (!json_is_object(row)) {
      report_wrong(r, path, "%s must be an object", path);
      continue;
    }
    check_known_members(r, row, path, sizeof known / sizeof *known, known);
    p->dtype = read_type_name(r, row, msc_arena_printf(a, "%s.type", path));
    p->flops = 2;
    for (int k = 1; k < 4; k++)
      p->flops *= (double)read_whole_number(r, row, msc_arena_printf(a, "%s.%s", path, known[k]), true);
    p->ns = read_whole_number(r, row, msc_arena_printf(a, "%s.ns", path), true);
  }
  if (r->out->num_products) qsort(r->out->product, r->out->num_products, sizeof *r->out->product, compare_products);
}

/* ---- the whole file ---- */

static bool read_cluster(msc_context *ctx, void *arg) {
  static const char *const known[] = {"device", "levels", "collectives", "products"};
  cluster_reader *r = arg;
  r->out = msc_new(msc_lasting_arena(ctx), msc_cluster);
  check_known_members(r, r->json, "", sizeof known / sizeof *known, known);
  read_device(r);
  read_levels(r);
  read_measures(r);
  read_products(r);
  return r->ok;
}

const msc_cluster *msc_cluster_read(msc_context *ctx, const char *name, const char *text, size_t bytes) {
  cluster_reader r = {.ctx = ctx, .file = msc_intern(ctx, name), .text = text, .end = text + bytes, .ok = true};
  msc_loc loc = {.file = r.file, .line = 1, .col = 1};
  json_error_t error;
  json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!json) {
    if (error.line > 0) loc.line = (uint32_t)error.line;
    if (error.column > 0) loc.col = (uint32_t)error.column;
    msc_error(ctx, MSC_E_SYNTAX, msc_loc_of(ctx, &loc), "%s", error.text);
    return NULL;
  }
  r.json = json;
  bool ok = json_is_object(json);
  if (!ok)
    msc_error(ctx, MSC_E_CLUSTER, msc_loc_of(ctx, &loc),
              "a cluster description must be one JSON object with device and levels");
  ok = ok && msc_protect(ctx, read_cluster, &r); /* json is not the arena's: it must be freed in any case */
  json_decref(json);
  if (ok) r.out->text = msc_intern_n(ctx, text, bytes);
  return ok ? r.out : NULL;
}

const msc_cluster *msc_cluster_named(msc_context *ctx, const char *name) {
  for (size_t i = 0; i < NUM_SHIPPED; i++)
    if (!strcmp(shipped[i].name, name)) {
      const void **known = msc_memo_of(ctx, &shipped[i], NULL);
      if (*known) return *known;
      msc_cluster *c = msc_arena_copy(msc_lasting_arena(ctx),
                                      msc_cluster_read(ctx, name, shipped[i].text, strlen(shipped[i].text)), sizeof *c);
      c->is_shipped = true;
      return *known = c;
    }
  return NULL;
}

const char *msc_cluster_names(msc_arena *arena) {
  const char *text = "";
  for (size_t i = 0; i < NUM_SHIPPED; i++)
    text = msc_arena_printf(arena, "%s%s%s", text, i ? ", " : "", shipped[i].name);
  return text;
}
