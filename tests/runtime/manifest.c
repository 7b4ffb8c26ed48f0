/* manifest.c: manifests that are refused, each with the reason, and one that comes back as it was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/data/archive.h"

#define HEAD                                                                                           \
  "{\"format\":\"msc "                                                                                 \
  "checkpoint\",\"version\":1,\n\"step\":7,\"seed\":18446744073709551615,\"samples\":448,\"ranks\":2," \
  "\"plan\":\"0123456789abcdef\",\"model\":\"00000000000000ff\",\n"
#define FILES "\"files\":[\n{\"name\":\"a.safetensors\",\"bytes\":100},\n{\"name\":\"b.safetensors\",\"bytes\":100}],\n"
#define SUM   "\"xxh3\":\"0011223344556677\"}"
#define W     "\"tensors\":{\n\"w\":{\"dtype\":\"F32\",\"shape\":[4,6],\"view\":[4,2,3],\"state\":true,\"shards\":["
#define UPPER "\n  {\"file\":0,\"at\":4,\"begin\":[0,0,0],\"size\":[4,1,3]," SUM
#define LOWER "\n  {\"file\":1,\"at\":52,\"begin\":[0,1,0],\"size\":[4,1,3]," SUM
#define END   ",\n\"xxh3\":\"0123456789abcdef\"}\n"

static mscrt_status *parse(const char *text, mscrt_archive *a) {
  mscrt_blob b;
  assert_null(mscrt_blob_of(text, strlen(text), &b));
  assert_null(mscrt_archive_new("dir", false, "checkpoint", a));
  mscrt_status *s = mscrt_manifest_parse(&b, false, a);
  if (!s) s = mscrt_archive_sort(a);
  mscrt_blob_close(&b);
  return s;
}

static void refuses(const char *text, const char *why) {
  mscrt_archive a;
  mscrt_status *s = parse(text, &a);
  if (!s || !strstr(mscrt_status_text(s), why)) fail_msg("'%s' is not in '%s'", why, mscrt_status_text(s));
  mscrt_status_free(s);
  mscrt_archive_close(&a);
}

static void test_refused(void **state) {
  (void)state;
  refuses("", "this is no checkpoint of msc at byte 0");
  refuses("{\"format\":\"msc checkpoint\",\"version\":2", "version 2 of the format; this msc reads version 1");
  refuses("{\"format\":\"msc checkpoint\",\"version\":1,\"steps\":7", "step, seed, samples, ranks, plan and model");
  refuses(HEAD "\"tensors\":{", "files are expected");
  refuses(HEAD "\"files\":[{\"name\":\"../a\",\"bytes\":1}]", "'../a' is no file of this folder");
  refuses(HEAD "\"files\":[{\"name\":\"..\",\"bytes\":1}]", "'..' is no file of this folder");
  refuses(HEAD "\"files\":[{\"name\":\"/etc/passwd\",\"bytes\":1}]", "'/etc/passwd' is no file of this folder");
  refuses(HEAD "\"files\":[{\"name\":\"a\",\"bytes\":0}]", "a file is not {name, bytes}");
  refuses(HEAD FILES W UPPER LOWER "]}}" END, "']' is expected");
  refuses(HEAD FILES W UPPER "]}}" END, "the shards of 'w' have 12 of its 24 elements");
  refuses(HEAD FILES W UPPER "," UPPER "]}}" END, "shards of 'w' overlap");
  refuses(HEAD FILES W UPPER "," LOWER "]}}", "the manifest does not end with its checksum");
  refuses(HEAD FILES W UPPER "," LOWER "]}}" END "x", "something follows the object");
  refuses(HEAD FILES W "{\"file\":2,\"at\":4,\"begin\":[0,0,0],\"size\":[4,2,3]," SUM "]}}" END,
          "a shard is in no file");
  refuses(HEAD FILES W "{\"file\":0,\"at\":4,\"begin\":[0,0],\"size\":[4,6]," SUM "]}}" END,
          "another number of dimensions");
  refuses(HEAD FILES W "{\"file\":0,\"at\":5,\"begin\":[0,0,0],\"size\":[4,2,3]," SUM "]}}" END, "leaves its file");
  refuses(HEAD FILES W "{\"file\":0,\"at\":0,\"begin\":[1,0,0],\"size\":[4,2,3]," SUM "]}}" END, "leaves the tensor");
  refuses(HEAD FILES W "{\"file\":0,\"at\":0,\"begin\":[0,0,0],\"size\":[4,0,3]," SUM "]}}" END, "a shard is empty");
  refuses(HEAD FILES W "{\"file\":0,\"at\":0,\"begin\":[0,0,0],\"size\":[4611686018427387904,4,3]," SUM "]}}" END,
          "a shard is empty or leaves its file");
  refuses(HEAD FILES "\"tensors\":{\"w\":{\"dtype\":\"F32\",\"shape\":[4,6],\"view\":[5,6],\"shards\":[]}}" END,
          "'w' has no shape that fits");
  refuses(HEAD FILES "\"tensors\":{\"w\":{\"dtype\":\"F31\",\"shape\":[4,6],\"shards\":[]}}" END, "no element type");
  refuses(HEAD FILES
          "\"tensors\":{\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"shards\":[]},"
          "\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"shards\":[]}}" END,
          "two tensors are called 'w'");
}

static void test_written_as_read(void **state) {
  static const char want[] = HEAD FILES W UPPER "," LOWER "]}}";
  char folder[] = "/tmp/msc-manifest-XXXXXX", path[64], text[sizeof want + 64] = "";
  mscrt_archive a, again = {0};
  (void)state;
  assert_non_null(mkdtemp(folder));
  assert_null(parse(HEAD FILES W UPPER "," LOWER "]}}" END, &a));
  assert_true(a.progress.step == 7 && a.progress.seed == UINT64_MAX && a.progress.samples == 448 &&
              a.progress.ranks == 2);
  assert_true(a.progress.plan == 0x0123456789abcdef && a.progress.model == 255 && a.num_files == 2 && a.num == 1);
  assert_true(a.tensor[0].state && a.tensor[0].rank == 2 && a.tensor[0].view_rank == 3 && a.tensor[0].num == 2);
  assert_null(mscrt_manifest_write(&a, folder));
  mscrt_archive_close(&a);
  snprintf(path, sizeof path, "%s/manifest.json", folder);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fread(text, 1, sizeof text - 1, f), sizeof want - 1 + sizeof END - 1);
  fclose(f);
  assert_memory_equal(text, want, sizeof want - 1);
  assert_null(mscrt_archive_open(folder, &again)); /* sealed */
  mscrt_archive_close(&again);
  text[strstr(text, "\"step\":7") + 7 - text] = '6';
  f = fopen(path, "w");
  assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
  mscrt_status *s = mscrt_archive_open(folder, &again);
  assert_non_null(strstr(mscrt_status_text(s), "is damaged: its checksum is wrong"));
  mscrt_status_free(s);
  mscrt_status_free(mscrt_remove_folder(folder));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_written_as_read)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
