/* product.c: computes matrix products by cuBLASLt: chooses an algorithm for each at load, then calls it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/product.h"
#include "runtime/execute/execute.h"
#include "runtime/trace/trace.h"

mscrt_status *mscrt_products_open(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->products, 1));
  mscrt_products *p = mscrt_cuda_of(c)->products;
  MSCRT_CHECK(mscrt_cublas_load(&p->lt, mscrt_cuda_of(c)->driver));
  MSCRT_CHECK(mscrt_new_array(&p->product, c->plan->num_matmuls));
  MSCRT_LT(&p->lt, cublasLtCreate, &p->handle);
  return NULL;
}

/* ---- algorithms ---- */

static mscrt_status *set_preferences(mscrt_cublas_api *lt, const mscrt_cuda *g, const mscrt_matmul *m,
                                     const mscrt_product *p, lt_preference preference) {
  const struct {
    unsigned attribute;
    int operand;
  } alignments[] = {{MSCRT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 1},
                    {MSCRT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 0},
                    {MSCRT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, m->add ? m->at[MSCRT_AT_ADD] : 2},
                    {MSCRT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 2}};
  uint32_t in_f32 = MSCRT_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts of k are not summed in a narrower type */
  MSCRT_LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, MSCRT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           &g->workspace_bytes, sizeof g->workspace_bytes);
  MSCRT_LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, MSCRT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           &in_f32, sizeof in_f32);
  for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
    uint32_t bytes = mscrt_product_alignment(p, alignments[i].operand);
    MSCRT_LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, alignments[i].attribute, &bytes, sizeof bytes);
  }
  return NULL;
}

static mscrt_status *report_no_algorithm(mscrt_context *c, const mscrt_matmul *m, lt_result r) {
  bool is_simple = !m->add && !m->wide &&
                   !(mscrt_product_epilogue(m) & ~(uint32_t)MSCRT_CUBLASLT_EPILOGUE_RELU_BIAS &
                     ~(uint32_t)MSCRT_CUBLASLT_EPILOGUE_DEFAULT);
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "cuBLASLt %zu has no algorithm for a product of %s, %" PRId64 " x %" PRId64 " x %" PRId64
                    " with epilogue %u, within %" PRIu64 " bytes on %s (status %u)%s",
                    mscrt_cuda_of(c)->products->lt.cublasLtGetVersion(), mscrt_dtype_name(m->dtype), m->m, m->n, m->k,
                    mscrt_product_epilogue(m), mscrt_cuda_of(c)->workspace_bytes, mscrt_cuda_of(c)->name, r,
                    is_simple ? "" : "; compile with --set library_epilogues=false");
}

/* Asks the library for algorithms of the product, whole or apart; *out_num 0: it has none, and *out_result says why. */
static mscrt_status *ask_library(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p,
                                 lt_candidate *candidate, int *out_num, lt_result *out_result) {
  mscrt_cublas_api *lt = &mscrt_cuda_of(c)->products->lt;
  lt_preference preference;
  *out_num = 0, *out_result = 0;
  MSCRT_LT(lt, cublasLtMatmulPreferenceCreate, &preference);
  mscrt_status *s = set_preferences(lt, mscrt_cuda_of(c), m, p, preference);
  if (!s)
    *out_result = lt->cublasLtMatmulAlgoGetHeuristic(mscrt_cuda_of(c)->products->handle, mscrt_product_desc(p), p->b,
                                                     p->a, p->c, p->c, preference, c->o.tune ? MSCRT_CANDIDATES : 1,
                                                     candidate, out_num);
  lt->cublasLtMatmulPreferenceDestroy(preference);
  if (*out_result || *out_num < 1 || candidate[0].state) *out_num = 0;
  return s;
}

/* Chooses the algorithm of the product as it is, whole or apart. *out_ms: its time, if it is measured; *out_found
 * false: the library has no algorithm. */
static mscrt_status *choose_form(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p, bool *out_found,
                                 float *out_ms, lt_result *out_result) {
  lt_candidate candidate[MSCRT_CANDIDATES];
  int num;
  *out_ms = 0;
  MSCRT_CHECK(ask_library(c, m, p, candidate, &num, out_result));
  *out_found = num > 0;
  if (!num) return NULL;
  p->algorithm = candidate[0].algorithm;
  return c->o.tune ? mscrt_choice_measure(c, m, p, num, candidate, out_ms) : NULL;
}

/* Chooses the fastest algorithm, from an earlier measurement or one now; without either, the library's first choice.
 * The product is apart where that was measured to be faster, or where the library has no algorithm for all of it. */
static mscrt_status *choose_algorithm(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p) {
  bool is_whole, is_apart = false;
  float ms, apart_ms;
  lt_result r;
  if (c->o.choices && mscrt_choice_load(c, m, p)) return NULL;
  p->apart = false;
  MSCRT_CHECK(choose_form(c, m, p, &is_whole, &ms, &r));
  if (p->plain && (!is_whole || c->o.tune)) {
    lt_algorithm whole = p->algorithm;
    lt_result again;
    p->apart = true;
    MSCRT_CHECK(choose_form(c, m, p, &is_apart, &apart_ms, &again));
    if (is_whole && !(is_apart && apart_ms < ms)) p->apart = false, p->algorithm = whole;
  }
  if (!is_whole && !is_apart) return report_no_algorithm(c, m, r);
  mscrt_cuda_of(c)->products->num_refused += !is_whole;
  return c->o.tune ? mscrt_choice_keep(c, m, p) : NULL;
}

/* Tells of products that the library refuses to make with all that belongs to them. */
static void tell_refused(mscrt_context *c) {
  const mscrt_products *p = mscrt_cuda_of(c)->products;
  if (p->num_refused)
    mscrt_log_line(c, MSCRT_LOG_WARNING,
                   "rank %d: cuBLASLt %zu has no algorithm for %u of the products with what is done to their results: "
                   "kernels do that after them",
                   c->o.rank, p->lt.cublasLtGetVersion(), p->num_refused);
}

/* Chooses one algorithm for all ranks of a stage; all ranks must call this, also without the product.  Each stage
 * chooses for itself, since addresses of operands differ. */
static mscrt_status *choose_for_all_ranks(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p) {
  for (uint32_t stage = 0; stage < c->plan->num_stages; stage++) {
    bool here = p->used && c->stage == stage, mine, fits;
    MSCRT_CHECK(mscrt_choice_is_mine(c, here, &mine));
    if (mine) MSCRT_CHECK(choose_algorithm(c, m, p));
    MSCRT_CHECK(mscrt_choice_share(c, here ? p : NULL, mine, &fits));
    if (!fits) MSCRT_CHECK(choose_algorithm(c, m, p));
  }
  return NULL;
}

/* ---- calls ---- */

static void note_addresses(const mscrt_context *c, const mscrt_record *r, mscrt_product *p) {
  p->used = true;
  p->call = r;
  memcpy(p->buffer, r->buffers, r->num_buffers * sizeof *p->buffer);
  for (uint32_t i = 0; i < r->num_buffers; i++) p->low_bits[i] |= mscrt_cuda_low_bits(c, r, i);
}

mscrt_status *mscrt_products_ready(mscrt_context *c) {
  mscrt_products *p = mscrt_cuda_of(c)->products;
  for (uint32_t i = 0; i < c->plan->num_sections; i++)
    for (uint32_t k = 0; k < c->section[i].num_calls; k++) {
      const mscrt_record *r = &c->section[i].call[k];
      if (r->kind == PLAN_CALL_KIND_MATMUL) note_addresses(c, r, &p->product[r->index]);
    }
  for (uint32_t i = 0; i < c->plan->num_matmuls; i++) {
    const mscrt_matmul *m = &c->plan->matmul[i];
    if (m->batch > INT32_MAX)
      return mscrt_fail(MSCRT_UNSUPPORTED, "a product of %" PRId64 " matrices at once", m->batch);
    if (p->product[i].used) MSCRT_CHECK(mscrt_product_describe(&p->lt, m, &p->product[i]));
    if (c->o.tune && c->o.ranks > 1) MSCRT_CHECK(choose_for_all_ranks(c, m, &p->product[i]));
    else if (p->product[i].used) MSCRT_CHECK(choose_algorithm(c, m, &p->product[i]));
  }
  tell_refused(c);
  return NULL;
}

mscrt_status *mscrt_product_issue(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_product *p = &mscrt_cuda_of(c)->products->product[t->record->index];
  const mscrt_matmul *m = t->record->matmul;
  bool adds = m->add && !(m->after_first && t->micro == 0);
  MSCRT_CHECK(mscrt_product_call(c, m, p, adds, mscrt_buffers_of(c, t->record, t->slots, 0), &p->algorithm));
  for (const mscrt_record *r = t->record->epilogue; r && p->apart; r = r->epilogue)
    MSCRT_CHECK(mscrt_cuda_launch(c, r, mscrt_buffers_of(c, r, t->slots, 1)));
  return NULL;
}

void mscrt_products_close(mscrt_context *c) {
  mscrt_products *p = mscrt_cuda_of(c)->products;
  if (!p) return;
  for (uint32_t i = 0; p->product && i < c->plan->num_matmuls; i++) {
    mscrt_product *one = &p->product[i];
    if (one->whole) p->lt.cublasLtMatmulDescDestroy(one->whole);
    if (one->plain) p->lt.cublasLtMatmulDescDestroy(one->plain);
    if (one->a) p->lt.cublasLtMatrixLayoutDestroy(one->a);
    if (one->b) p->lt.cublasLtMatrixLayoutDestroy(one->b);
    if (one->c) p->lt.cublasLtMatrixLayoutDestroy(one->c);
  }
  if (p->handle) p->lt.cublasLtDestroy(p->handle);
  free(p->product);
  free(p);
}
