/* zip.c: a range of a file that is a zip archive in; where its members lie out. Only members that are stored as they
 * are can be read: torch.save compresses nothing. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/formats/torch_file.h"

#define END_BYTES     22
#define MEMBER_BYTES  46
#define LOCAL_BYTES   30
#define MAX_DIRECTORY ((uint64_t)256 << 20)

static uint64_t little_endian_at(const uint8_t *p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}

/* Where the directory is, from the record at the end, and from the longer one before it where numbers do not fit. */
static mscrt_status *find_directory(const mscrt_zip *z, uint64_t *out_at, uint64_t *out_bytes, uint64_t *out_num) {
  uint8_t end[END_BYTES], locator[20], longer[56];
  if (z->bytes < END_BYTES) return mscrt_bad_file(z->b, "zip: %" PRIu64 " bytes", z->bytes);
  uint64_t at = z->bytes - END_BYTES;
  MSCRT_CHECK(mscrt_blob_read(z->b, z->at + at, end, sizeof end));
  if (little_endian_at(end, 4) != 0x06054b50 || little_endian_at(end + 20, 2))
    return mscrt_bad_file(z->b, "zip: no directory at the end of the %" PRIu64 " bytes", z->bytes);
  *out_num = little_endian_at(end + 10, 2);
  *out_bytes = little_endian_at(end + 12, 4);
  *out_at = little_endian_at(end + 16, 4);
  if (*out_num == 0xffff || *out_bytes == 0xffffffff || *out_at == 0xffffffff) {
    if (at < sizeof locator) return mscrt_bad_file(z->b, "zip: %s", "no long directory");
    MSCRT_CHECK(mscrt_blob_read(z->b, z->at + at - sizeof locator, locator, sizeof locator));
    uint64_t long_at = little_endian_at(locator + 8, 8);
    if (little_endian_at(locator, 4) != 0x07064b50 || long_at > at || at - long_at < sizeof longer)
      return mscrt_bad_file(z->b, "zip: %s", "no long directory");
    MSCRT_CHECK(mscrt_blob_read(z->b, z->at + long_at, longer, sizeof longer));
    *out_num = little_endian_at(longer + 32, 8);
    *out_bytes = little_endian_at(longer + 40, 8);
    *out_at = little_endian_at(longer + 48, 8);
  }
  if (*out_bytes > MAX_DIRECTORY || *out_at > at || *out_bytes > at - *out_at || *out_num > *out_bytes / MEMBER_BYTES)
    return mscrt_bad_file(z->b, "zip: %s", "the directory leaves the file");
  return NULL;
}

/* Reads the numbers that do not fit 32 bits from the extra field, where they have this order. */
static void read_long_numbers(const uint8_t *extra, uint64_t bytes, mscrt_zip_member *m, uint64_t *stored) {
  uint64_t *number[] = {&m->bytes, stored, &m->header};
  for (uint64_t at = 0; at + 4 <= bytes;) {
    uint64_t id = little_endian_at(extra + at, 2), size = little_endian_at(extra + at + 2, 2), from = at + 4;
    if (size > bytes - from) return;
    for (int i = 0; i < 3 && id == 1; i++)
      if (*number[i] == 0xffffffff && from + 8 <= at + 4 + size) {
        *number[i] = little_endian_at(extra + from, 8);
        from += 8;
      }
    at += 4 + size;
  }
}

static mscrt_status *take_members(mscrt_zip *z, const uint8_t *text, uint64_t bytes, uint64_t num) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < num; i++) {
    const uint8_t *p = text + at;
    if (bytes - at < MEMBER_BYTES || little_endian_at(p, 4) != 0x02014b50)
      return mscrt_bad_file(z->b, "zip: member %" PRIu64 " of the directory is none", i);
    uint64_t name = little_endian_at(p + 28, 2), extra = little_endian_at(p + 30, 2),
             rest = little_endian_at(p + 32, 2), stored = little_endian_at(p + 20, 4);
    mscrt_zip_member *m = &z->member[z->num];
    *m = (mscrt_zip_member){.bytes = little_endian_at(p + 24, 4), .header = little_endian_at(p + 42, 4)};
    if (bytes - at - MEMBER_BYTES < name + extra + rest)
      return mscrt_bad_file(z->b, "zip: member %" PRIu64 " leaves the directory", i);
    read_long_numbers(p + MEMBER_BYTES + name, extra, m, &stored);
    m->name = z->names;
    memcpy(z->names, p + MEMBER_BYTES, (size_t)name);
    z->names += name;
    *z->names++ = 0;
    m->is_stored = little_endian_at(p + 10, 2) == 0 && stored == m->bytes;
    z->num++;
    at += MEMBER_BYTES + name + extra + rest;
  }
  return NULL;
}

static int compare_members(const void *a, const void *b) {
  return strcmp(((const mscrt_zip_member *)a)->name, ((const mscrt_zip_member *)b)->name);
}

mscrt_status *mscrt_zip_open(const mscrt_blob *b, uint64_t at, uint64_t bytes, mscrt_zip *z) {
  uint64_t from = 0, directory = 0, num = 0;
  uint8_t *text = NULL;
  *z = (mscrt_zip){.b = b, .at = at, .bytes = bytes};
  if (at > b->bytes || bytes > b->bytes - at) return mscrt_bad_file(b, "truncated: %" PRIu64 " bytes", b->bytes);
  MSCRT_CHECK(find_directory(z, &from, &directory, &num));
  mscrt_status *s = mscrt_new_array(&text, directory + 1);
  if (!s) s = mscrt_new_array(&z->member, num + 1);
  if (!s) s = mscrt_new_array(&z->all_names, directory + num + 1);
  z->names = z->all_names;
  if (!s) s = mscrt_blob_read(b, at + from, text, (size_t)directory);
  if (!s) s = take_members(z, text, directory, num);
  free(text);
  if (s) mscrt_zip_close(z);
  else qsort(z->member, z->num, sizeof *z->member, compare_members);
  return s;
}

void mscrt_zip_close(mscrt_zip *z) {
  free(z->member);
  free(z->all_names);
  *z = (mscrt_zip){0};
}

mscrt_status *mscrt_zip_find(const mscrt_zip *z, const char *name, uint64_t *out_at, uint64_t *out_bytes) {
  mscrt_zip_member key = {.name = (char *)(uintptr_t)name};
  const mscrt_zip_member *m = z->num ? bsearch(&key, z->member, z->num, sizeof key, compare_members) : NULL;
  uint8_t local[LOCAL_BYTES];
  char clean[96];
  mscrt_clean_text(name, SIZE_MAX, clean, sizeof clean);
  if (!m) return mscrt_bad_file(z->b, "zip: no member '%s'", clean);
  if (!m->is_stored) return mscrt_bad_file(z->b, "zip: member '%s' is compressed", clean);
  if (m->header > z->bytes || z->bytes - m->header < LOCAL_BYTES)
    return mscrt_bad_file(z->b, "zip: member '%s' leaves the file", clean);
  MSCRT_CHECK(mscrt_blob_read(z->b, z->at + m->header, local, sizeof local));
  uint64_t at = m->header + LOCAL_BYTES + little_endian_at(local + 26, 2) + little_endian_at(local + 28, 2);
  if (little_endian_at(local, 4) != 0x04034b50 || at > z->bytes || m->bytes > z->bytes - at)
    return mscrt_bad_file(z->b, "zip: member '%s' leaves the file", clean);
  *out_at = z->at + at;
  *out_bytes = m->bytes;
  return NULL;
}
