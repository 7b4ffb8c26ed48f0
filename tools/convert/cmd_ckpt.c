/* cmd_ckpt.c: msc ckpt: a checkpoint, or another file or folder with parameters, in; its contents, whether it is sound,
 * how it differs from another, or the same tensors in other slices and files, out. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/plan/plan.h"
#include "tools/run/checkpoint_folders.h"
#include "tools/convert/ckpt.h"

static uint64_t bytes_of_stored(const mscrt_stored *t) {
  return t->known ? mscrt_stored_elems(t) * mscrt_dtype_bytes(t->dtype) : 0;
}

static uint64_t all_bytes(const mscrt_archive *a) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < a->num; i++) bytes += bytes_of_stored(&a->tensor[i]);
  return bytes;
}

/* ---- ls ---- */

static json_t *shape_json(int num, const int64_t *size) {
  json_t *list = json_array();
  for (int d = 0; d < num; d++) json_array_append_new(list, json_integer(size[d]));
  return list;
}

static json_t *tensor_json(const mscrt_archive *a, const mscrt_stored *t) {
  char hash[20];
  json_t *shards = json_array();
  for (uint32_t i = 0; i < t->num; i++) {
    const mscrt_shard *s = &a->shard[t->first + i];
    json_t *one = json_pack("{s:s, s:o, s:o}", "file", a->file[s->file].name, "begin",
                            shape_json(t->view_rank, s->box.begin), "size", shape_json(t->view_rank, s->box.size));
    snprintf(hash, sizeof hash, "%016" PRIx64, s->xxh3);
    if (s->hashed) json_object_set_new(one, "xxh3", json_string(hash));
    json_array_append_new(shards, one);
  }
  return json_pack("{s:s, s:s, s:o, s:b, s:I, s:o}", "name", t->name, "dtype",
                   t->known ? mscrt_dtype_name(t->dtype) : "not supported", "shape", shape_json(t->rank, t->shape),
                   "state", t->state, "bytes", (json_int_t)bytes_of_stored(t), "shards", shards);
}

static void print_json(json_t *j) {
  char *text = json_dumps(j, JSON_COMPACT);
  printf("%s\n", text ? text : "{}");
  free(text);
  json_decref(j);
}

static json_t *archive_json(const mscrt_archive *a) {
  json_t *j = json_pack("{s:s, s:s}", "path", a->path, "kind", a->kind), *tensors = json_array(), *files = json_array();
  if (a->is_checkpoint)
    json_object_update_new(
        j, json_pack("{s:I, s:I, s:I, s:I}", "step", (json_int_t)a->progress.step, "seed", (json_int_t)a->progress.seed,
                     "samples", (json_int_t)a->progress.samples, "ranks", (json_int_t)a->progress.ranks));
  for (uint32_t i = 0; i < a->num_files; i++) json_array_append_new(files, json_string(a->file[i].name));
  for (uint32_t i = 0; i < a->num; i++) json_array_append_new(tensors, tensor_json(a, &a->tensor[i]));
  json_object_set_new(j, "files", files);
  json_object_set_new(j, "tensors", tensors);
  return j;
}

static void print_stored(const mscrt_stored *t) {
  char shape[MSCRT_SHAPE_TEXT], *name = cli_printable(t->name);
  printf("%-40s %-5s %-20s %12" PRIu64 " bytes in %u shard%s%s\n", name ? name : "?",
         t->known ? mscrt_dtype_name(t->dtype) : "?",
         t->rank <= MSCRT_MAX_RANK ? mscrt_shape_text(t->rank, t->shape, shape) : "?", bytes_of_stored(t), t->num,
         t->num == 1 ? "" : "s", t->state ? ", state" : "");
  free(name);
}

static int list_archive(cli *c, mscrt_archive *a) {
  if (c->json) {
    print_json(archive_json(a));
    return CLI_OK;
  }
  printf("%s: %s", a->path, a->kind);
  if (a->is_checkpoint)
    printf(", step %" PRIu64 ", seed %" PRIu64 ", %" PRIu64 " samples read, of %u rank%s, plan %016" PRIx64,
           a->progress.step, a->progress.seed, a->progress.samples, a->progress.ranks,
           a->progress.ranks == 1 ? "" : "s", a->progress.plan);
  printf("\n");
  for (uint32_t i = 0; i < a->num; i++) print_stored(&a->tensor[i]);
  printf("%u tensors, %" PRIu64 " bytes in %u file%s\n", a->num, all_bytes(a), a->num_files,
         a->num_files == 1 ? "" : "s");
  return CLI_OK;
}

/* ---- verify ---- */

static int verify_archive(cli *c, mscrt_archive *a) {
  bool hashed = a->num_shards > 0;
  mscrt_status *s = mscrt_archive_verify(a);
  for (uint32_t i = 0; i < a->num_shards; i++) hashed = hashed && a->shard[i].hashed;
  if (s) return ckpt_report(c, s);
  if (c->json)
    print_json(json_pack("{s:s, s:b, s:b, s:I}", "path", a->path, "ok", 1, "checksums", hashed, "bytes",
                         (json_int_t)all_bytes(a)));
  else
    printf("%s: %s, %u tensors, %" PRIu64 " bytes in %u file%s\n", a->path,
           hashed ? "sound" : "complete, without checksums", a->num, all_bytes(a), a->num_files,
           a->num_files == 1 ? "" : "s");
  return CLI_OK;
}

/* ---- merge, slice ---- */

static int merge_archive(cli *c, mscrt_archive *a) {
  const char *out = cli_text(c, "o");
  size_t n = out ? strlen(out) : 0;
  if (!out) return cli_usage(c, "merge: -o W.safetensors is missing");
  if (n < 12 || strcmp(out + n - 12, ".safetensors")) return cli_usage(c, "merge: -o names a .safetensors file");
  return ckpt_convert(c, a, out);
}

static int open_plan(cli *c, mscrt_plan **out_plan) {
  cli_bytes bytes;
  const char *path = cli_text(c, "plan");
  if (!cli_read(c, path, &bytes)) return CLI_INPUT;
  return status_report(c, path, "", mscrt_plan_open_layouts(bytes.data, bytes.size, out_plan));
}

/* Checks that all parameters of the plan are there, in their shapes; state that is missing begins as the plan says. */
static int check_for_plan(cli *c, const mscrt_plan *p, const mscrt_archive *a) {
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    const mscrt_variable *v = &p->parameter[i];
    const mscrt_stored *t = mscrt_archive_find(a, v->name);
    char have[MSCRT_SHAPE_TEXT], want[MSCRT_SHAPE_TEXT];
    if (!t && !v->state)
      msc_error(c->ctx, MSC_E_DATA, cli_loc(c, a->path), "lacks the parameter '%s' of the plan", v->name);
    if (!t) continue;
    if (!t->known || t->rank != v->model_rank || memcmp(t->shape, v->model_shape, sizeof *t->shape * (size_t)t->rank))
      msc_error(c->ctx, MSC_E_DATA, cli_loc(c, a->path), "tensor '%s' has shape %s, the plan's parameter %s", t->name,
                t->known ? mscrt_shape_text(t->rank, t->shape, have) : "that is not supported",
                mscrt_shape_text(v->model_rank, v->model_shape, want));
    else if (!mscrt_converts(t->dtype, v->dtype) || mscrt_is_float(t->dtype) != mscrt_is_float(v->dtype))
      msc_error(c->ctx, MSC_E_DATA, cli_loc(c, a->path), "tensor '%s' has %s elements, the plan's parameter %s",
                t->name, mscrt_dtype_name(t->dtype), mscrt_dtype_name(v->dtype));
  }
  return msc_num_errors(c->ctx) ? CLI_INPUT : CLI_OK;
}

static bool is_same_folder(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int slice(cli *c, mscrt_archive *a) {
  const char *out = cli_text(c, "o");
  mscrt_plan *p = NULL;
  if (!out || !cli_text(c, "plan")) return cli_usage(c, "slice: --plan plan.bin and -o DIR are missing");
  if (is_same_folder(out, a->folder)) {
    msc_error(c->ctx, MSC_E_FILE, cli_loc(c, out), "cannot write: it is an input of this command");
    return CLI_INPUT;
  }
  int code = open_plan(c, &p);
  if (code == CLI_OK) code = check_for_plan(c, p, a);
  if (code == CLI_OK) {
    mscrt_progress to = a->progress;
    to.plan = p->hash;
    to.model = plan_plan_model_hash(p->root);
    to.ranks = (uint32_t)p->ranks;
    code = ckpt_report(c, mscrt_checkpoint_slices(p, &to, out, a));
  }
  mscrt_plan_close(p);
  return code;
}

/* ---- diff ---- */

#define CHUNK ((uint64_t)1 << 16) /* elements */

typedef struct {
  cli *c;
  mscrt_archive *a, *b;
  json_t *found;
  uint64_t different;
} comparing;

static void say_different(comparing *k, const char *name, const char *fmt, ...) MSC_PRINTF(3, 4);

static void say_different(comparing *k, const char *name, const char *fmt, ...) {
  char text[256], *clean = cli_printable(name);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  k->different++;
  if (k->c->json)
    json_array_append_new(k->found, json_pack("{s:s, s:s}", "name", clean ? clean : "?", "difference", text));
  else printf("%s: %s\n", clean ? clean : "?", text);
  free(clean);
}

typedef struct {
  uint64_t num, first;
  double largest;
} distance;

static double float_at(const mscrt_stored *t, const uint8_t *data, uint64_t i) {
  double v = 0;
  mscrt_convert(MSCRT_F64, &v, 1, t->dtype, data + i * mscrt_dtype_bytes(t->dtype), false, false, 1);
  return v;
}

static void compare_chunk(const mscrt_stored *t, uint64_t at, uint64_t num, const uint8_t *x, const uint8_t *y,
                          distance *d) {
  size_t bytes = mscrt_dtype_bytes(t->dtype);
  for (uint64_t i = 0; i < num; i++) {
    if (!memcmp(x + i * bytes, y + i * bytes, bytes)) continue;
    if (!d->num++) d->first = at + i;
    double off = mscrt_is_float(t->dtype) ? fabs(float_at(t, x, i) - float_at(t, y, i)) : 0;
    if (off > d->largest || isnan(off)) d->largest = off;
  }
}

static mscrt_status *compare_values(comparing *k, const mscrt_stored *x, const mscrt_stored *y, uint8_t *room,
                                    distance *d) {
  uint64_t elems = mscrt_stored_elems(x);
  for (uint64_t at = 0; at < elems; at += CHUNK) {
    uint64_t num = elems - at < CHUNK ? elems - at : CHUNK;
    MSCRT_CHECK(mscrt_archive_elements(k->a, x, at, num, room));
    MSCRT_CHECK(mscrt_archive_elements(k->b, y, at, num, room + 8 * CHUNK));
    compare_chunk(x, at, num, room, room + 8 * CHUNK, d);
  }
  return NULL;
}

static mscrt_status *compare_tensor(comparing *k, const mscrt_stored *x, uint8_t *room) {
  const mscrt_stored *y = mscrt_archive_find(k->b, x->name);
  char have[MSCRT_SHAPE_TEXT], want[MSCRT_SHAPE_TEXT];
  distance d = {0};
  if (!y) {
    say_different(k, x->name, "only in %.200s", k->a->path);
  } else if (!x->known || !y->known) {
    say_different(k, x->name, "its element type or rank is not supported");
  } else if (x->dtype != y->dtype) {
    say_different(k, x->name, "%s and %s", mscrt_dtype_name(x->dtype), mscrt_dtype_name(y->dtype));
  } else if (x->rank != y->rank || memcmp(x->shape, y->shape, sizeof *x->shape * (size_t)x->rank)) {
    say_different(k, x->name, "%s and %s", mscrt_shape_text(x->rank, x->shape, have),
                  mscrt_shape_text(y->rank, y->shape, want));
  } else {
    MSCRT_CHECK(compare_values(k, x, y, room, &d));
    if (d.num && mscrt_is_float(x->dtype))
      say_different(k, x->name, "%" PRIu64 " of %" PRIu64 " elements, the first is number %" PRIu64 ", by %.6g at most",
                    d.num, mscrt_stored_elems(x), d.first, d.largest);
    else if (d.num)
      say_different(k, x->name, "%" PRIu64 " of %" PRIu64 " elements, the first is number %" PRIu64, d.num,
                    mscrt_stored_elems(x), d.first);
  }
  return NULL;
}

static int diff(cli *c, mscrt_archive *a, mscrt_archive *b) {
  comparing k = {.c = c, .a = a, .b = b, .found = json_array()};
  uint8_t *room = NULL;
  mscrt_status *s = mscrt_allocate((void **)&room, 16 * CHUNK, 1);
  for (uint32_t i = 0; i < a->num && !s; i++)
    if (!ckpt_leaves_out(c, &a->tensor[i])) s = compare_tensor(&k, &a->tensor[i], room);
  for (uint32_t i = 0; i < b->num && !s; i++)
    if (!ckpt_leaves_out(c, &b->tensor[i]) && !mscrt_archive_find(a, b->tensor[i].name))
      say_different(&k, b->tensor[i].name, "only in %.200s", b->path);
  free(room);
  if (!s && c->json) print_json(json_pack("{s:b, s:O}", "equal", !k.different, "differences", k.found));
  else if (!s && !k.different) printf("equal: %u tensors, %" PRIu64 " bytes\n", a->num, all_bytes(a));
  json_decref(k.found);
  return s ? ckpt_report(c, s) : k.different ? CLI_INPUT : CLI_OK;
}

/* ---- the command ---- */

typedef int on_archive(cli *c, mscrt_archive *a);

static int convert_archive(cli *c, mscrt_archive *a) {
  if (!cli_text(c, "o")) return cli_usage(c, "convert: -o OUT is missing");
  return ckpt_convert(c, a, cli_text(c, "o"));
}

static const struct {
  const char *name;
  on_archive *run;
  bool many; /* also of all checkpoints of a folder of --ckpt-dir */
  const char *options[6];
} verbs[] = {
    {"ls", list_archive, true, {0}},
    {"verify", verify_archive, true, {0}},
    {"merge", merge_archive, false, {"o", "parameters", "map", "reverse"}},
    {"slice", slice, false, {"o", "plan"}},
    {"convert", convert_archive, false, {"o", "parameters", "map", "reverse", "shard-bytes"}},
    {"diff", NULL, false, {"parameters"}},
};

static int with_archive(cli *c, const char *path, on_archive *run) {
  mscrt_archive a;
  int code = ckpt_report(c, mscrt_archive_open(path, &a));
  if (code != CLI_OK) return code;
  for (uint32_t i = 0; i < a.num_files; i++) cli_note_input(c, a.file[i].path);
  cli_note_input(c, path);
  code = run(c, &a);
  mscrt_archive_close(&a);
  return code;
}

/* Runs a function on the archive at a path. Of a folder of checkpoints it runs on the newest, as --resume does, or with
 * `many` on all of them, the newest first. */
static int with_archives(cli *c, const char *path, on_archive *run, bool many) {
  char one[CHECKPOINT_PATH];
  int64_t step = checkpoint_below(path, INT64_MAX);
  int worst = CLI_OK;
  if (step < 0) return with_archive(c, path, run);
  for (bool first = true; step >= 0 && (many || first); step = checkpoint_below(path, step), first = false) {
    int code = checkpoint_path(path, step, one) ? with_archive(c, one, run) : CLI_INPUT;
    worst = code > worst ? code : worst;
  }
  return worst;
}

/* Compares two archives; of a folder of checkpoints the newest. */
static int with_both(cli *c) {
  char room[2][CHECKPOINT_PATH];
  const char *first = checkpoint_newest(c->operands[1], room[0]), *second = checkpoint_newest(c->operands[2], room[1]);
  mscrt_archive a, b;
  int code = ckpt_report(c, mscrt_archive_open(first, &a));
  if (code != CLI_OK) return code;
  code = ckpt_report(c, mscrt_archive_open(second, &b));
  if (code == CLI_OK) {
    code = diff(c, &a, &b);
    mscrt_archive_close(&b);
  }
  mscrt_archive_close(&a);
  return code;
}

static int run_ckpt(cli *c) {
  static const char *const all[] = {"o", "parameters", "map", "reverse", "shard-bytes", "plan"};
  for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++) {
    if (strcmp(c->operands[0], verbs[v].name)) continue;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      bool takes = false;
      for (int k = 0; k < 6 && verbs[v].options[k]; k++) takes |= !strcmp(all[i], verbs[v].options[k]);
      bool is_flag = !strcmp(all[i], "parameters") || !strcmp(all[i], "reverse");
      bool given = is_flag ? cli_flag(c, all[i]) : cli_text(c, all[i]) != NULL;
      if (given && !takes) return cli_usage(c, "%s takes no %s%s", verbs[v].name, all[i][1] ? "--" : "-", all[i]);
    }
    int want = verbs[v].run ? 2 : 3;
    if (c->num_operands != want)
      return cli_usage(c, "%s takes %s", verbs[v].name, want == 2 ? "one path" : "two paths");
    return verbs[v].run ? with_archives(c, c->operands[1], verbs[v].run, verbs[v].many) : with_both(c);
  }
  return cli_usage(c, "'%s' is none of ls, verify, merge, slice, convert, diff", c->operands[0]);
}

static const cli_option options[] = {
    {"o", CLI_TEXT, "OUT", "the safetensors file, or the folder, to write"},
    {"plan", CLI_TEXT, "plan.bin", "slice: whose ranks the slices are for"},
    {"parameters", CLI_FLAG, NULL, "leave out what is the optimizer's"},
    {"map", CLI_TEXT, "names.json",
     "other names: {\"NAME\": \"OTHER\", ...}; one * in both stands for any text; in place of OTHER {\"name\": OTHER, "
     "\"transpose\": true} turns a matrix, null leaves a tensor out"},
    {"reverse", CLI_FLAG, NULL, "use the map the other way: from OTHER to NAME"},
    {"shard-bytes", CLI_BYTES, "N",
     "convert: files of a folder have at most so many bytes of tensors (default 5G), with an index if there are "
     "several"},
    {0},
};
const cli_command cmd_ckpt = {"ls|verify|merge|slice|convert|diff PATH [PATH]", 2, 3, options, run_ckpt};
