/* fuzz_plan: any bytes as a plan, with the checksum made right where there is one; what is accepted and holds no
 * code is run. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "runtime/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void seal(uint8_t *bytes, size_t size) {
  flatbuf_fault fault;
  if (!flatbuf_verify(&plan_schema, bytes, size, 100000, &fault)) return;
  uint8_t *field = (uint8_t *)(uintptr_t)flatbuf_inline(plan_plan_root(bytes).at, 25);
  if (!field) return;
  memset(field, 0, 8);
  uint64_t sum = XXH3_64bits(bytes, size);
  memcpy(field, &sum, 8);
}

/* Small ones only: the library makes code for every new product. */
static bool is_small(const mscrt_plan *p) {
  uint64_t bytes = 0;
  for (int i = 0; i < MSCRT_NUM_SPACES; i++) bytes += p->space_bytes[i];
  for (uint32_t i = 0; i < p->num_matmuls; i++)
    if (p->matmul[i].m > 16 || p->matmul[i].n > 16 || p->matmul[i].k > 16 || p->matmul[i].batch > 16) return false;
  return p->ranks == 1 && bytes < 1 << 20 && p->num_matmuls < 4;
}

static void run(mscrt_plan *p) {
  mscrt_context *ctx;
  mscrt_status *s = mscrt_open(p, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 1}, &ctx);
  for (uint32_t i = 0; !s && i < p->num_inputs; i++) {
    uint64_t bytes;
    void *batch =
        mscrt_shape_bytes(p->input[i].rank, p->input[i].shape, mscrt_dtype_bytes(p->input[i].dtype), &bytes) &&
                bytes < 1 << 20
            ? calloc(bytes + 1, 1)
            : NULL;
    if (batch) s = mscrt_set_input(ctx, p->input[i].name, batch, (size_t)bytes);
    free(batch);
  }
  if (!s && p->num_sections) s = mscrt_run(ctx, plan_section_name(plan_plan_sections(p->root, 0)), 1, NULL);
  mscrt_status_free(s);
  mscrt_close(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  uint8_t *copy = aligned_alloc(FLATBUF_ALIGN, (bytes + FLATBUF_ALIGN) / FLATBUF_ALIGN * FLATBUF_ALIGN);
  mscrt_plan *plan;
  if (bytes) memcpy(copy, data, bytes);
  seal(copy, bytes);
  mscrt_status_free(mscrt_plan_verify(copy, bytes));
  mscrt_status *s = mscrt_plan_open(copy, bytes, NULL, &plan); /* nobody vouches for code */
  if (!s && is_small(plan)) run(plan);
  mscrt_status_free(s);
  mscrt_plan_close(plan);
  free(copy);
  return 0;
}
