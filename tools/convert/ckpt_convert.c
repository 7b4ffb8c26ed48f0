/* ckpt_convert.c: an archive, and a map of names, in; its whole tensors as one safetensors file, or as a folder of
 * files as Hugging Face's libraries read them, out. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/convert/ckpt.h"

int ckpt_report(cli *c, mscrt_status *s) {
  return s && mscrt_status_code(s) == MSCRT_INPUT ? status_of_rank(c, NULL, MSC_E_FORMAT, s)
                                                  : status_of_rank(c, NULL, MSC_E_DATA, s);
}

bool ckpt_leaves_out(const cli *c, const mscrt_stored *t) { return cli_flag(c, "parameters") && t->state; }

#define SHARD_BYTES ((int64_t)5 << 30)

typedef struct {
  cli *c;
  mscrt_archive *a;
  const char **name; /* by tensor: in the output */
  uint8_t *skip, *transposed;
} conversion;

/* ---- names ---- */

/* Matches text with a pattern that has at most one *; what the star stands for. */
static bool matches(const char *pattern, const char *text, const char **out_star, size_t *out_bytes) {
  const char *star = strchr(pattern, '*');
  size_t before = star ? (size_t)(star - pattern) : strlen(pattern), after = star ? strlen(star + 1) : 0,
         all = strlen(text);
  *out_star = text + before;
  if (!star) return !strcmp(pattern, text) && ((*out_bytes = 0), true);
  if (all < before + after || strncmp(pattern, text, before) || strcmp(star + 1, text + all - after)) return false;
  *out_bytes = all - before - after;
  return true;
}

static const char *fill_star(cli *c, const char *pattern, const char *text, size_t bytes) {
  const char *star = strchr(pattern, '*');
  if (!star) return msc_arena_printf(msc_context_arena(c->ctx), "%s", pattern);
  return msc_arena_printf(msc_context_arena(c->ctx), "%.*s%.*s%s", (int)(star - pattern), pattern, (int)bytes, text,
                          star + 1);
}

static bool wrong_map(cli *c, const char *key, const char *why) {
  return msc_error(c->ctx, MSC_E_FORMAT, cli_loc(c, cli_text(c, "map")), "'%s': %s", key, why);
}

/* Applies one member of the map to all tensors. */
static bool apply_member(conversion *k, const char *key, json_t *value) {
  cli *c = k->c;
  bool named = json_is_object(value), reverse = cli_flag(c, "reverse"), used = false, transposes = false;
  json_t *transpose = named ? json_object_get(value, "transpose") : NULL;
  const char *other = json_string_value(named ? json_object_get(value, "name") : value);
  if (named && (!other || (transpose && !json_is_boolean(transpose)) || json_object_size(value) != 1u + !!transpose))
    return wrong_map(c, key, "an object has the members name, a text, and transpose, true or false");
  if (!other && !json_is_null(value))
    return wrong_map(c, key, "neither a name, null nor {\"name\": ..., \"transpose\": ...}");
  transposes = json_is_true(transpose);
  for (const char *p = key, *q = other;; p = q, q = NULL) {
    if (p && strchr(p, '*') && strchr(strchr(p, '*') + 1, '*')) return wrong_map(c, key, "more than one *");
    if (!q) break;
  }
  if (other && !strchr(key, '*') != !strchr(other, '*')) return wrong_map(c, key, "a * on one side only");
  if (reverse && !other) return true;
  const char *from = reverse ? other : key, *to = reverse ? key : other;
  for (uint32_t i = 0; i < k->a->num; i++) {
    const mscrt_stored *t = &k->a->tensor[i];
    const char *star;
    size_t bytes;
    if (!matches(from, t->name, &star, &bytes)) continue;
    used = true;
    if (transposes && (t->rank != 2 || !t->known)) return wrong_map(c, key, "what is transposed must be a matrix");
    k->name[i] = to ? fill_star(c, to, star, bytes) : t->name;
    k->skip[i] = !to || ckpt_leaves_out(c, t);
    k->transposed[i] = transposes;
  }
  return used || strchr(from, '*') || wrong_map(c, from, "there is no such tensor");
}

static bool apply_map(conversion *k) {
  const char *path = cli_text(k->c, "map"), *key;
  cli_bytes text;
  json_error_t error;
  json_t *value;
  if (!path) return true;
  MSC_TRY(cli_read(k->c, path, &text));
  json_t *map = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
  bool ok = json_is_object(map);
  if (!map)
    msc_error(k->c->ctx, MSC_E_FORMAT, cli_loc(k->c, path), "line %d, column %d: %s", error.line, error.column,
              error.text);
  else if (!ok) msc_error(k->c->ctx, MSC_E_FORMAT, cli_loc(k->c, path), "not an object {\"NAME\": \"OTHER\", ...}");
  if (ok) /* names without a star count more than those with one */
    for (int exact = 0; exact < 2; exact++)
      json_object_foreach(map, key, value) if (ok && !strchr(key, '*') == (exact == 1)) ok =
          apply_member(k, key, value);
  json_decref(map);
  return ok;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool check_names_differ(const conversion *k) {
  const char **sorted = msc_new_array(msc_context_arena(k->c->ctx), const char *, k->a->num + 1);
  size_t num = 0;
  for (uint32_t i = 0; i < k->a->num; i++)
    if (!k->skip[i]) sorted[num++] = k->name[i];
  qsort(sorted, num, sizeof *sorted, compare_names);
  for (size_t i = 1; i < num; i++)
    if (!strcmp(sorted[i - 1], sorted[i]))
      return msc_error(k->c->ctx, MSC_E_FORMAT, cli_loc(k->c, cli_text(k->c, "map")), "two tensors become '%s'",
                       sorted[i]);
  return true;
}

/* ---- files ---- */

static mscrt_status *write_range(const conversion *k, const char *path, uint32_t first, uint32_t num) {
  mscrt_whole_file w = {path, first, num, k->skip, k->name, k->transposed};
  mscrt_shard *shard = NULL;
  uint64_t bytes;
  MSCRT_CHECK(mscrt_new_array(&shard, (size_t)num + 1));
  mscrt_status *s = mscrt_archive_write(k->a, &w, shard, &bytes);
  free(shard);
  return s;
}

static uint64_t bytes_of_tensor(const conversion *k, uint32_t i) {
  const mscrt_stored *t = &k->a->tensor[i];
  return k->skip[i] || !t->known ? 0 : mscrt_stored_elems(t) * mscrt_dtype_bytes(t->dtype);
}

/* The end of the file that begins with tensor `first`: the first tensor with which it would be too large. */
static uint32_t end_of_file(const conversion *k, uint32_t first, uint64_t most) {
  uint64_t bytes = bytes_of_tensor(k, first);
  uint32_t end = first + 1;
  for (; end < k->a->num; end++) {
    bytes += bytes_of_tensor(k, end);
    if (bytes > most) break;
  }
  return end;
}

static mscrt_status *write_shard_index(const conversion *k, const char *folder, const uint32_t *file, uint32_t num) {
  json_t *map = json_object();
  char name[64], *path = NULL;
  json_int_t total = 0;
  mscrt_file out;
  for (uint32_t i = 0; i < k->a->num; i++) {
    if (k->skip[i]) continue;
    snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", file[i] + 1, num);
    json_object_set_new_nocheck(map, k->name[i], json_string(name));
    total += (json_int_t)bytes_of_tensor(k, i);
  }
  json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
  char *text = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
  mscrt_status *s = text && asprintf(&path, "%s/model.safetensors.index.json", folder) >= 0
                        ? mscrt_file_begin(path, &out)
                        : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (!s) s = mscrt_file_end(&out, mscrt_file_write(&out, text, strlen(text)));
  json_decref(index);
  free(text);
  free(path);
  return s;
}

static mscrt_status *write_files(const conversion *k, const char *folder, uint64_t most) {
  uint32_t *file = msc_new_array(msc_context_arena(k->c->ctx), uint32_t, k->a->num + 1), num = 0;
  for (uint32_t first = 0, end; first < k->a->num; first = end, num++) {
    end = end_of_file(k, first, most);
    for (uint32_t i = first; i < end; i++) file[i] = num;
  }
  for (uint32_t first = 0, end; first < k->a->num; first = end) {
    const char *path = num == 1 ? msc_arena_printf(msc_context_arena(k->c->ctx), "%s/model.safetensors", folder)
                                : msc_arena_printf(msc_context_arena(k->c->ctx), "%s/model-%05u-of-%05u.safetensors",
                                                   folder, file[first] + 1, num);
    for (end = first + 1; end < k->a->num && file[end] == file[first];) end++;
    MSCRT_CHECK(write_range(k, path, first, end - first));
  }
  return num > 1 ? write_shard_index(k, folder, file, num) : NULL;
}

static mscrt_status *write_folder(const conversion *k, const char *path) {
  mscrt_folder f;
  MSCRT_CHECK(mscrt_folder_begin(path, NULL, &f));
  mscrt_status *s = write_files(k, f.partial, (uint64_t)cli_int(k->c, "shard-bytes", SHARD_BYTES));
  s = mscrt_folder_end(&f, s);
  mscrt_folder_free(&f);
  return s;
}

int ckpt_convert(cli *c, mscrt_archive *a, const char *path) {
  msc_arena *arena = msc_context_arena(c->ctx);
  size_t n = strlen(path);
  bool one = n >= 12 && !strcmp(path + n - 12, ".safetensors");
  conversion k = {c, a, msc_new_array(arena, const char *, a->num + 1), msc_new_array(arena, uint8_t, a->num + 1),
                  msc_new_array(arena, uint8_t, a->num + 1)};
  if (cli_flag(c, "reverse") && !cli_text(c, "map")) return cli_usage(c, "--reverse needs --map");
  if (one && cli_text(c, "shard-bytes")) return cli_usage(c, "--shard-bytes needs a folder for -o");
  if (cli_int(c, "shard-bytes", 1) < 1) return cli_usage(c, "--shard-bytes is at least 1");
  for (uint32_t i = 0; i < a->num; i++) k.name[i] = a->tensor[i].name, k.skip[i] = ckpt_leaves_out(c, &a->tensor[i]);
  if (!apply_map(&k) || !check_names_differ(&k) || !cli_claim_output(c, path)) return CLI_INPUT;
  return ckpt_report(c, one ? write_range(&k, path, 0, a->num) : write_folder(&k, path));
}
