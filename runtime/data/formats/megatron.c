/* megatron.c: a folder of Megatron-LM's, with a folder mp_rank_TT or mp_rank_TT_PPP for each rank of tensor and
 * pipeline parallelism, in; the whole tensors of its model out.
 *
 * The files do not say how a tensor is cut, so a table of its names does (Shoeybi et al. 2019; the names of the library
 * before and since megatron.core). Layers of a stage are numbered from 0 there: here they go on from the stage before.
 * A name that is not in the table is refused where there are several ranks. The optimizer's state is left out. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/foreign.h"
#include "runtime/data/formats/torch_file.h"

#define FILE_NAME "model_optim_rng.pt"
#define MAX_PARTS 1024

/* How ranks of tensor parallelism hold a tensor; GATED: its rows are two matrices, each of which is cut. */
typedef enum { WHOLE, ROWS, COLUMNS, GATED } cutting;

static const struct {
  const char *end;
  cutting cut;
} rules[] = {
    {"word_embeddings.weight", ROWS},
    {"output_layer.weight", ROWS},
    {"lm_head.weight", ROWS},
    {"query_key_value.weight", ROWS},
    {"query_key_value.bias", ROWS},
    {"linear_qkv.weight", ROWS},
    {"linear_qkv.bias", ROWS},
    {"dense_h_to_4h.weight", GATED},
    {"dense_h_to_4h.bias", GATED},
    {"linear_fc1.weight", GATED},
    {"linear_fc1.bias", GATED},
    {"dense_4h_to_h.weight", COLUMNS},
    {"linear_fc2.weight", COLUMNS},
    {"attention.dense.weight", COLUMNS},
    {"linear_proj.weight", COLUMNS},
    {"dense_4h_to_h.bias", WHOLE},
    {"linear_fc2.bias", WHOLE},
    {"attention.dense.bias", WHOLE},
    {"linear_proj.bias", WHOLE},
    {"position_embeddings.weight", WHOLE},
    {"layernorm.weight", WHOLE},
    {"layernorm.bias", WHOLE},
    {"layer_norm_weight", WHOLE},
    {"layer_norm_bias", WHOLE},
    {"final_layernorm.weight", WHOLE},
    {"final_layernorm.bias", WHOLE},
    {"norm.weight", WHOLE},
};

static bool find_rule(const char *name, cutting *out) {
  size_t n = strlen(name);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    size_t k = strlen(rules[i].end);
    if (n < k || strcmp(name + n - k, rules[i].end)) continue;
    *out = rules[i].cut;
    return true;
  }
  return false;
}

/* ---- names ---- */

/* "decoder.layers.3.x" of a stage behind `before` layers: a new name, which the caller frees; *out_layers: one more
 * than the largest number so far. */
static char *global_name(const char *name, int64_t before, int64_t *out_layers) {
  const char *layers = strstr(name, "layers.");
  char *end = NULL, *made = NULL;
  int64_t number = layers ? strtoll(layers + 7, &end, 10) : -1;
  if (!layers || end == layers + 7 || *end != '.' || number < 0 || number > INT32_MAX) return strdup(name);
  if (before + number + 1 > *out_layers) *out_layers = before + number + 1;
  if (asprintf(&made, "%.*slayers.%" PRId64 "%s", (int)(layers - name), name, before + number, end) < 0) return NULL;
  return made;
}

/* ---- tensors of all parts of one stage ---- */

typedef struct {
  mscrt_archive *a;
  int parts;
  uint32_t first_file; /* that of part 0 */
  mscrt_archive *part; /* the tensors of each part, as they are there */
  bool gated;
} stage;

/* Adds the shards of part p of `parts`, which has the tensor t. */
static mscrt_status *add_part(stage *g, const mscrt_stored *t, int p, cutting cut) {
  const mscrt_shard *from = &g->part[p].shard[t->first];
  mscrt_shard s = {.file = g->first_file + (uint32_t)p, .at = from->at};
  memcpy(s.box.size, t->shape, sizeof t->shape);
  int halves = cut == GATED ? 2 : 1, d = cut == COLUMNS;
  int64_t rows = t->shape[d] / halves;
  for (int h = 0; h < halves; h++) {
    s.box.size[d] = rows;
    s.box.begin[d] = (int64_t)h * rows * g->parts + (int64_t)p * rows;
    MSCRT_CHECK(mscrt_archive_add_shard(g->a, &s));
    s.at += mscrt_stored_elems(t) / (uint64_t)halves * mscrt_dtype_bytes(t->dtype);
  }
  return NULL;
}

static mscrt_status *add_whole(stage *g, const mscrt_stored *t, char *name) {
  cutting cut = WHOLE;
  if (g->parts > 1 && !find_rule(name, &cut))
    return mscrt_fail(MSCRT_UNSUPPORTED, "%s: it is not known how '%s' is cut over the %d ranks", g->a->path, name,
                      g->parts);
  if (cut == GATED && !g->gated) cut = ROWS;
  int d = cut == COLUMNS;
  if (cut != WHOLE && (t->rank <= d || (cut == GATED && t->shape[0] % 2)))
    return mscrt_fail(MSCRT_INPUT, "%s: '%s' has no dimension that is cut", g->a->path, name);
  mscrt_stored whole = *t;
  whole.name = name;
  if (cut != WHOLE && __builtin_mul_overflow(t->shape[d], (int64_t)g->parts, &whole.shape[d]))
    return mscrt_fail(MSCRT_INPUT, "%s: '%s' is too large", g->a->path, name);
  memcpy(whole.view, whole.shape, sizeof whole.view);
  MSCRT_CHECK(mscrt_archive_add_tensor(g->a, &whole));
  for (int p = 0; p < (cut == WHOLE ? 1 : g->parts); p++) {
    const mscrt_stored *same = mscrt_archive_find(&g->part[p], t->name);
    if (!same || same->dtype != t->dtype || same->rank != t->rank ||
        memcmp(same->shape, t->shape, sizeof *t->shape * (size_t)t->rank))
      return mscrt_fail(MSCRT_INPUT, "%s: part %d has another '%s' than part 0", g->a->path, p, name);
    if (same->num) MSCRT_CHECK(add_part(g, same, p, cut));
  }
  return NULL;
}

/* Is the name in the archive already? Stages have copies of some tensors, as an embedding that is the output too. */
static bool has_tensor(const mscrt_archive *a, uint32_t num, const char *name) {
  for (uint32_t i = 0; i < num; i++)
    if (!strcmp(a->tensor[i].name, name)) return true;
  return false;
}

static mscrt_status *add_stage(stage *g, int64_t before, int64_t *out_layers) {
  static const char prefix[] = "model.";
  uint32_t known = g->a->num;
  for (uint32_t i = 0; i < g->part[0].num; i++) {
    const mscrt_stored *t = &g->part[0].tensor[i];
    if (strncmp(t->name, prefix, sizeof prefix - 1) || strstr(t->name, "_extra_state")) continue;
    char *name = global_name(t->name + sizeof prefix - 1, before, out_layers);
    if (!name) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
    MSCRT_CHECK(mscrt_archive_add_text(g->a, name));
    if (!has_tensor(g->a, known, name)) MSCRT_CHECK(add_whole(g, t, name));
  }
  return NULL;
}

/* ---- folders ---- */

/* The file of a rank: of tensor parallelism alone, or with its stage. */
static char *file_of_part(const char *folder, int part, int of_stage, bool staged) {
  char *path = NULL;
  int n = staged ? asprintf(&path, "%s/mp_rank_%02d_%03d/" FILE_NAME, folder, part, of_stage)
                 : asprintf(&path, "%s/mp_rank_%02d/" FILE_NAME, folder, part);
  return n < 0 ? NULL : path;
}

static bool has_part(const char *folder, int part, int of_stage, bool staged) {
  struct stat st;
  char *path = file_of_part(folder, part, of_stage, staged);
  bool is = path && stat(path, &st) == 0;
  free(path);
  return is;
}

bool mscrt_is_megatron(const char *folder) { return has_part(folder, 0, 0, false) || has_part(folder, 0, 0, true); }

static mscrt_status *open_part(stage *g, int part, int of_stage, bool staged) {
  char *path = file_of_part(g->a->folder, part, of_stage, staged);
  if (!path) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = mscrt_archive_of_path(path, &g->part[part]);
  if (!s) s = mscrt_archive_add_path(g->a, path);
  free(path);
  return s;
}

static mscrt_status *take_stage(stage *g, int of_stage, bool staged, int64_t before, int64_t *out_layers) {
  mscrt_status *s = mscrt_new_array(&g->part, g->parts);
  g->first_file = g->a->num_files;
  for (int p = 0; p < g->parts && !s; p++) s = open_part(g, p, of_stage, staged);
  if (!s) s = mscrt_torch_flag(&g->part[0], "args", "swiglu", &g->gated);
  if (!s) s = add_stage(g, before, out_layers);
  for (int p = 0; p < g->parts && g->part; p++) mscrt_archive_close(&g->part[p]);
  free(g->part);
  return s;
}

mscrt_status *mscrt_open_megatron(const char *folder, mscrt_archive *a) {
  bool staged = !has_part(folder, 0, 0, false);
  stage g = {.a = a};
  int64_t layers = 0;
  MSCRT_CHECK(mscrt_archive_new(folder, false, "checkpoint of Megatron-LM", a));
  while (g.parts < MAX_PARTS && has_part(folder, g.parts, 0, staged)) g.parts++;
  for (int i = 0; i < MAX_PARTS && (i == 0 || (staged && has_part(folder, 0, i, true))); i++)
    MSCRT_CHECK(take_stage(&g, i, staged, layers, &layers));
  if (!a->num) return mscrt_fail(MSCRT_INPUT, "%s: the files of Megatron-LM have no model", folder);
  return mscrt_archive_sort(a);
}
