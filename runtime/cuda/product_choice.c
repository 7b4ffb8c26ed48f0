/* product_choice.c: a product in; its fastest algorithm out, measured once per GPU, library and problem, and kept in a
 * file with a line for each: "GPU|library|problem|" and the algorithm's eight words; eight zeros: the product is apart,
 * and the problem without an epilogue has a line.  A damaged line, or one of another library, is ignored. */
#include <stdio.h>
#include <string.h>

#include "runtime/execute/measured_choices.h"
#include "runtime/cuda/product.h"

enum { LINE = MSCRT_CHOICE_KEY, ROUNDS = 5 };

static void write_choice_key(const mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, char key[LINE]) {
  snprintf(key, LINE,
           "%s|%zu|%s %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " strides %" PRId64 " %" PRId64
           " transposed %d %d epilogue %u add %d wide %d aligned %u %u %u workspace %" PRIu64 "|",
           mscrt_cuda_of(c)->name, mscrt_cuda_of(c)->products->lt.cublasLtGetVersion(), mscrt_dtype_name(m->dtype),
           m->batch, m->m, m->n, m->k, m->stride_a, m->stride_b, m->transpose_a, m->transpose_b,
           p->apart ? MSCRT_CUBLASLT_EPILOGUE_DEFAULT : mscrt_product_epilogue(m), m->add, m->wide,
           mscrt_product_alignment(p, 0), mscrt_product_alignment(p, 1), mscrt_product_alignment(p, 2),
           mscrt_cuda_of(c)->workspace_bytes);
}

static bool read_algorithm(const char *text, void *out) {
  int end = 0;
  lt_algorithm got;
  uint64_t *w = got.data;
  int num =
      sscanf(text, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 "%n",
             &w[0], &w[1], &w[2], &w[3], &w[4], &w[5], &w[6], &w[7], &end);
  if (num != 8 || text[end] != '\n') return false;
  memcpy(out, &got, sizeof got);
  return true;
}

static bool is_supported(mscrt_context *c, const mscrt_product *p, const lt_algorithm *a) {
  mscrt_products *all = mscrt_cuda_of(c)->products;
  lt_candidate checked;
  return !all->lt.cublasLtMatmulAlgoCheck(all->handle, mscrt_product_desc(p), p->b, p->a, p->c, p->c, a, &checked) &&
         checked.workspace_bytes <= mscrt_cuda_of(c)->workspace_bytes;
}

static const lt_algorithm apart; /* stands in the file for an algorithm of products that are apart */

static bool load_algorithm(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, lt_algorithm *out) {
  char key[LINE];
  write_choice_key(c, m, p, key);
  return mscrt_choice_find(c->o.choices, key, read_algorithm, out);
}

bool mscrt_choice_load(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p) {
  lt_algorithm kept;
  p->apart = false;
  if (!load_algorithm(c, m, p, &kept)) return false;
  p->apart = p->plain && !memcmp(&kept, &apart, sizeof kept);
  bool is_known = (!p->apart || load_algorithm(c, m, p, &kept)) && is_supported(c, p, &kept);
  if (is_known) p->algorithm = kept;
  else p->apart = false;
  return is_known;
}

static mscrt_status *append_choice(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p,
                                   const lt_algorithm *algorithm) {
  char line[2 * LINE];
  const uint64_t *w = algorithm->data;
  write_choice_key(c, m, p, line);
  size_t n = strlen(line);
  for (int i = 0; i < 8; i++)
    n += (size_t)snprintf(line + n, sizeof line - n, "%" PRIx64 "%s", w[i], i < 7 ? " " : "\n");
  return mscrt_choice_append(c->o.choices, line);
}

mscrt_status *mscrt_choice_keep(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p) {
  mscrt_product whole = *p;
  MSCRT_CHECK(append_choice(c, m, p, &p->algorithm));
  whole.apart = false;
  return p->apart ? append_choice(c, m, &whole, &apart) : NULL;
}

/* Issues a call of the product, and the rest of it if it is apart. */
static mscrt_status *issue_once(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p,
                                const lt_algorithm *a) {
  MSCRT_CHECK(mscrt_product_call(c, m, p, m->add, p->buffer, a));
  for (const mscrt_record *r = p->call->epilogue; r && p->apart; r = r->epilogue)
    MSCRT_CHECK(mscrt_cuda_launch(c, r, r->buffers));
  return NULL;
}

/* Times several calls in a row, after one that loads the kernel. */
static mscrt_status *time_algorithm(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p,
                                    const lt_algorithm *a, cu_event begin, cu_event end, float *out_ms) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  MSCRT_CHECK(issue_once(c, m, p, a));
  MSCRT_CUDA(cu, cuEventRecord, begin, mscrt_cuda_of(c)->stream);
  for (int i = 0; i < ROUNDS; i++) MSCRT_CHECK(issue_once(c, m, p, a));
  MSCRT_CUDA(cu, cuEventRecord, end, mscrt_cuda_of(c)->stream);
  MSCRT_CHECK(mscrt_cuda_wait(c));
  MSCRT_CUDA(cu, cuEventElapsedTime, out_ms, begin, end);
  return NULL;
}

static mscrt_status *choose_fastest(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p, int num,
                                    const lt_candidate *candidate, cu_event begin, cu_event end, float *out_ms) {
  for (int i = 0; i < num; i++) {
    float ms = 0;
    if (candidate[i].state) continue;
    MSCRT_CHECK(time_algorithm(c, m, p, &candidate[i].algorithm, begin, end, &ms));
    if (i && ms >= *out_ms) continue;
    *out_ms = ms;
    p->algorithm = candidate[i].algorithm;
  }
  return NULL;
}

mscrt_status *mscrt_choice_measure(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p, int num,
                                   const lt_candidate *candidate, float *out_ms) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  cu_event begin = NULL, end = NULL;
  cu_result r = cu->cuEventCreate(&begin, 0);
  if (!r) r = cu->cuEventCreate(&end, 0);
  mscrt_status *s =
      r ? mscrt_cuda_failure(cu, r, "cuEventCreate") : choose_fastest(c, m, p, num, candidate, begin, end, out_ms);
  if (begin) cu->cuEventDestroy_v2(begin);
  if (end) cu->cuEventDestroy_v2(end);
  return s;
}

/* ---- ranks ---- */

mscrt_status *mscrt_choice_is_mine(mscrt_context *c, bool here, bool *out_is) {
  uint64_t own = here ? (uint64_t)(c->o.ranks - c->o.rank) : 0, first = own;
  MSCRT_CHECK(c->transport->max(c->comm, own, &first, &(mscrt_site){.name = "who measures a product"}));
  *out_is = here && own == first;
  return NULL;
}

mscrt_status *mscrt_choice_share(mscrt_context *c, mscrt_product *p, bool is_mine, bool *out_fits) {
  lt_algorithm theirs;
  for (int i = 0; i < 8; i++)
    MSCRT_CHECK(c->transport->max(c->comm, is_mine ? p->algorithm.data[i] : 0, &theirs.data[i],
                                  &(mscrt_site){.name = "a measured product"}));
  uint64_t theirs_apart = 0;
  MSCRT_CHECK(c->transport->max(c->comm, is_mine && p->apart, &theirs_apart,
                                &(mscrt_site){.name = "a measured product"}));
  if (p) p->apart = theirs_apart;
  *out_fits = !p || is_mine || is_supported(c, p, &theirs);
  if (p && *out_fits) p->algorithm = theirs;
  return NULL;
}
