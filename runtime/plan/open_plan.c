/* open_plan.c: the bytes of plan.bin in; an opened plan out. In this order it copies the bytes, checks structure,
 * version, checksum, contents, trust and CPU, and maps the code. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "ir/fbs/flatbuf.h"
#include "runtime/plan/plan.h"

#define VERSION 1
#define MAX_TABLES 2000000

/* ---- checksum ---- */

/* XXH3 of the file, with the checksum field taken as zero. */
static bool checksum_of(const uint8_t *bytes, size_t size, const uint8_t *field, uint64_t *out_sum) {
  static const uint8_t zero[8];
  XXH3_state_t *state = XXH3_createState();
  if (!state) return false;
  size_t before = (size_t)(field - bytes);
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, bytes, before);
  XXH3_64bits_update(state, zero, sizeof zero);
  XXH3_64bits_update(state, field + sizeof zero, size - before - sizeof zero);
  *out_sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return true;
}

static mscrt_status *check_sum(mscrt_plan *p) {
  const uint8_t *field = flatbuf_inline(p->root.at, 25);
  if (!field) return mscrt_fail(MSCRT_INPUT, "the plan has no checksum");
  if (!checksum_of(p->bytes, p->size, field, &p->hash)) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  return p->hash == plan_plan_checksum(p->root)
             ? NULL
             : mscrt_fail(MSCRT_INPUT, "the plan is damaged: its checksum does not match");
}

/* ---- opening ---- */

static mscrt_status *check_structure(mscrt_plan *p) {
  flatbuf_fault fault;
  if (!flatbuf_verify(&plan_schema, p->bytes, p->size, MAX_TABLES, &fault))
    return mscrt_fail(MSCRT_INPUT,
                      "not a plan, or a damaged one: %s (%s%s%s%sbyte %u); msc compile makes plans of models",
                      fault.what, fault.table ? fault.table : "", fault.field ? "." : "",
                      fault.field ? fault.field : "", fault.table ? ", " : "", fault.at);
  p->root = plan_plan_root(p->bytes);
  if (plan_plan_version(p->root) != VERSION)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "the plan has version %u, this runtime reads version %d: compile the model again",
                      plan_plan_version(p->root), VERSION);
  return NULL;
}

static mscrt_status *verify_opened(mscrt_plan *p) {
  MSCRT_CHECK(check_structure(p));
  MSCRT_CHECK(check_sum(p));
  return mscrt_add_prefix(mscrt_check_plan(p), "the plan contradicts itself");
}

static mscrt_status *verify_and_map(mscrt_plan *p, bool trusted) {
  MSCRT_CHECK(verify_opened(p));
  if (plan_plan_code_num(p->root) == 0 && plan_plan_images_num(p->root) == 0) return NULL;
  if (!trusted) return mscrt_fail(MSCRT_UNTRUSTED, "the plan holds native code, and nobody vouched for it");
  if (plan_plan_code_num(p->root) == 0) return NULL;
  MSCRT_CHECK(mscrt_check_cpu(p));
  p->code_bytes = plan_plan_code_num(p->root);
  return mscrt_map_code(plan_plan_code_data(p->root), p->code_bytes, (size_t)plan_plan_code_text(p->root), &p->code);
}

/* True if the caller trusts native code. Options of callers that know fewer fields are extended by zeros. */
static bool is_native_trusted(const mscrt_plan_options *o) {
  return o && o->struct_size >= offsetof(mscrt_plan_options, trust_native) + sizeof o->trust_native && o->trust_native;
}

/* Opens a plan from bytes, which it owns from now on, also if it fails. */
static mscrt_status *open_bytes(uint8_t *bytes, size_t size, const mscrt_plan_options *options, mscrt_plan **out_plan) {
  mscrt_plan *p = NULL;
  *out_plan = NULL;
  mscrt_status *s = mscrt_new_array(&p, 1);
  if (s) {
    free(bytes);
    return s;
  }
  p->bytes = bytes;
  p->size = size;
  s = verify_and_map(p, is_native_trusted(options));
  if (s) mscrt_plan_close(p);
  else *out_plan = p;
  return s;
}

static mscrt_status *allocate_private(size_t size, uint8_t **out_bytes) {
  if (size > FLATBUF_MAX_BYTES) return mscrt_fail(MSCRT_INPUT, "%zu bytes are too large for a plan", size);
  *out_bytes = aligned_alloc(FLATBUF_ALIGN, (size + FLATBUF_ALIGN) / FLATBUF_ALIGN * FLATBUF_ALIGN);
  return *out_bytes ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "no memory for a plan of %zu bytes", size);
}

mscrt_status *mscrt_plan_open(const void *bytes, size_t size, const mscrt_plan_options *options,
                              mscrt_plan **out_plan) {
  MSCRT_NEEDS(out_plan && (bytes || !size));
  uint8_t *copy;
  *out_plan = NULL;
  MSCRT_CHECK(allocate_private(size, &copy));
  if (size) memcpy(copy, bytes, size);
  return open_bytes(copy, size, options, out_plan);
}

mscrt_status *mscrt_plan_open_layouts(const void *bytes, size_t size, mscrt_plan **out_plan) {
  mscrt_plan *p;
  *out_plan = NULL;
  MSCRT_CHECK(mscrt_new_array(&p, 1));
  mscrt_status *s = allocate_private(size, &p->bytes);
  p->size = size;
  if (!s && size) memcpy(p->bytes, bytes, size);
  if (!s) s = verify_opened(p);
  if (s) mscrt_plan_close(p);
  else *out_plan = p;
  return s;
}

mscrt_status *mscrt_plan_verify(const void *bytes, size_t size) {
  MSCRT_NEEDS(bytes || !size);
  mscrt_plan *p;
  mscrt_status *s = mscrt_plan_open_layouts(bytes, size, &p);
  mscrt_plan_close(p);
  return s;
}

mscrt_status *mscrt_plan_read(const char *path, const mscrt_plan_options *options, mscrt_plan **out_plan) {
  MSCRT_NEEDS(path && out_plan);
  mscrt_blob b;
  uint8_t *bytes = NULL;
  *out_plan = NULL;
  MSCRT_CHECK(mscrt_blob_open(path, &b));
  mscrt_status *s = allocate_private((size_t)b.bytes, &bytes);
  if (!s) s = mscrt_blob_read(&b, 0, bytes, (size_t)b.bytes);
  size_t size = (size_t)b.bytes;
  mscrt_blob_close(&b);
  if (s) {
    free(bytes);
    return s;
  }
  return mscrt_add_prefix(open_bytes(bytes, size, options, out_plan), "%s", path);
}

const mscrt_plan *mscrt_plan_keep(const mscrt_plan *plan) {
  atomic_fetch_add(&((mscrt_plan *)(uintptr_t)plan)->keepers, 1);
  return plan;
}

void mscrt_plan_close(mscrt_plan *p) {
  if (!p || atomic_fetch_sub(&p->keepers, 1) > 0) return;
  mscrt_unmap_code(p->code, p->code_bytes);
  free(p->layout);
  free(p->split);
  free(p->matmul);
  free(p->graph);
  free(p->collective);
  free(p->parameter);
  free(p->input);
  free(p->output);
  free(p->cache);
  free(p->stage);
  free(p->only);
  free(p->bytes);
  free(p);
}
