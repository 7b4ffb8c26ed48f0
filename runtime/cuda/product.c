/* product.c: computes matrix products by cuBLASLt: describes the problem and chooses an algorithm at load, then calls
 * it.
 *
 * The library is column major and reads our matrices as their transposes.  So it computes c' = b' a', whose rows are
 * our columns, and our bias of columns is one of rows, the only one that it knows. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/product.h"

static mscrt_status *check_status(lt_result r, const char *what) {
  return r ? mscrt_fail(MSCRT_ENVIRONMENT, "cuBLASLt: %s failed with status %u", what, r) : NULL;
}

#define LT(l, function, ...) MSCRT_CHECK(check_status((l)->function(__VA_ARGS__), #function))

mscrt_status *mscrt_products_open(mscrt_context *c) {
  MSCRT_CHECK(mscrt_new_array(&mscrt_cuda_of(c)->products, 1));
  mscrt_products *p = mscrt_cuda_of(c)->products;
  MSCRT_CHECK(mscrt_cublas_load(&p->lt, mscrt_cuda_of(c)->driver));
  MSCRT_CHECK(mscrt_new_array(&p->product, c->plan->num_matmuls));
  LT(&p->lt, cublasLtCreate, &p->handle);
  return NULL;
}

/* ---- problems ---- */

static unsigned cuda_type(mscrt_dtype d) {
  static const unsigned types[] = {[MSCRT_F32] = MSCRT_CUDA_R_32F,
                                   [MSCRT_F16] = MSCRT_CUDA_R_16F,
                                   [MSCRT_BF16] = MSCRT_CUDA_R_16BF,
                                   [MSCRT_F64] = MSCRT_CUDA_R_64F};
  return types[d];
}

/* Describes a row-major matrix of rows x columns, which the library reads as columns x rows. */
static mscrt_status *make_layout(mscrt_cublas_api *lt, const mscrt_matmul *m, mscrt_dtype dtype, int64_t rows,
                                 int64_t columns, int64_t stride, lt_layout *out_layout) {
  int32_t batch = (int32_t)m->batch;
  LT(lt, cublasLtMatrixLayoutCreate, out_layout, cuda_type(dtype), (uint64_t)columns, (uint64_t)rows, columns);
  LT(lt, cublasLtMatrixLayoutSetAttribute, *out_layout, MSCRT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
  LT(lt, cublasLtMatrixLayoutSetAttribute, *out_layout, MSCRT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
     sizeof stride);
  return NULL;
}

/* The epilogue as cuBLASLt's bits.  Its first operand, A, is our b. */
uint32_t mscrt_product_epilogue(const mscrt_matmul *m) {
  uint32_t e = 0;
  if (m->slope) return m->relu ? MSCRT_CUBLASLT_EPILOGUE_DRELU : MSCRT_CUBLASLT_EPILOGUE_DGELU;
  if (m->sum_a || m->sum_b) return m->sum_b ? MSCRT_CUBLASLT_EPILOGUE_BGRADA : MSCRT_CUBLASLT_EPILOGUE_BGRADB;
  if (m->relu) e = m->aux ? MSCRT_CUBLASLT_EPILOGUE_RELU_AUX : MSCRT_CUBLASLT_EPILOGUE_RELU;
  if (m->gelu) e = m->aux ? MSCRT_CUBLASLT_EPILOGUE_GELU_AUX : MSCRT_CUBLASLT_EPILOGUE_GELU;
  if (m->bias) e |= MSCRT_CUBLASLT_EPILOGUE_BIAS;
  return e ? e : MSCRT_CUBLASLT_EPILOGUE_DEFAULT;
}

/* Sets the addresses of bias and aux.  A bias, and the sums that are a bias's gradient, share one attribute. */
static mscrt_status *set_pointers(mscrt_cublas_api *lt, const mscrt_matmul *m, lt_product product,
                                  void *const *buffer) {
  uint8_t bias = m->at[MSCRT_AT_BIAS] ? m->at[MSCRT_AT_BIAS] : m->at[MSCRT_AT_SUM], aux = m->at[MSCRT_AT_AUX];
  if (bias)
    LT(lt, cublasLtMatmulDescSetAttribute, product, MSCRT_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &buffer[bias],
       sizeof buffer[bias]);
  if (aux)
    LT(lt, cublasLtMatmulDescSetAttribute, product, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &buffer[aux],
       sizeof buffer[aux]);
  return NULL;
}

/* Describes a product.  f16 and bf16 are summed in f32; f32 is not computed in a narrower type. */
static mscrt_status *make_problem(mscrt_cublas_api *lt, const mscrt_matmul *m, mscrt_product *p) {
  bool f64 = m->dtype == MSCRT_F64;
  int32_t first = m->transpose_b ? MSCRT_CUBLAS_OP_T : MSCRT_CUBLAS_OP_N,
          second = m->transpose_a ? MSCRT_CUBLAS_OP_T : MSCRT_CUBLAS_OP_N;
  uint32_t epilogue = mscrt_product_epilogue(m);
  int64_t aux_columns = m->relu ? (m->n + 127) / 128 * 128 : m->n;
  LT(lt, cublasLtMatmulDescCreate, &p->product, f64 ? MSCRT_CUBLAS_COMPUTE_64F : MSCRT_CUBLAS_COMPUTE_32F,
     f64 ? MSCRT_CUDA_R_64F : MSCRT_CUDA_R_32F);
  LT(lt, cublasLtMatmulDescSetAttribute, p->product, MSCRT_CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  LT(lt, cublasLtMatmulDescSetAttribute, p->product, MSCRT_CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  LT(lt, cublasLtMatmulDescSetAttribute, p->product, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (m->aux)
    LT(lt, cublasLtMatmulDescSetAttribute, p->product, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_columns,
       sizeof aux_columns);
  MSCRT_CHECK(set_pointers(lt, m, p->product, p->buffer));
  MSCRT_CHECK(
      make_layout(lt, m, m->dtype, m->transpose_a ? m->k : m->m, m->transpose_a ? m->m : m->k, m->stride_a, &p->a));
  MSCRT_CHECK(
      make_layout(lt, m, m->dtype, m->transpose_b ? m->n : m->k, m->transpose_b ? m->k : m->n, m->stride_b, &p->b));
  return make_layout(lt, m, m->wide ? MSCRT_F32 : m->dtype, m->m, m->n, m->m * m->n, &p->c);
}

/* ---- algorithms ---- */

uint32_t mscrt_product_alignment(const mscrt_product *p, int operand) {
  uint64_t lowest = p->low_bits[operand] & -p->low_bits[operand];
  return lowest && lowest < MSCRT_CUDA_ALIGN ? (uint32_t)lowest : MSCRT_CUDA_ALIGN;
}

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
  LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, MSCRT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
     &g->workspace_bytes, sizeof g->workspace_bytes);
  LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, MSCRT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &in_f32,
     sizeof in_f32);
  for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
    uint32_t bytes = mscrt_product_alignment(p, alignments[i].operand);
    LT(lt, cublasLtMatmulPreferenceSetAttribute, preference, alignments[i].attribute, &bytes, sizeof bytes);
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

/* Chooses the fastest algorithm, from an earlier measurement or one now; without either, the library's first choice. */
static mscrt_status *choose_algorithm(mscrt_context *c, const mscrt_matmul *m, mscrt_product *p) {
  mscrt_cublas_api *lt = &mscrt_cuda_of(c)->products->lt;
  lt_preference preference;
  lt_candidate candidate[MSCRT_CANDIDATES];
  int num = 0;
  if (c->o.choices && mscrt_choice_load(c, m, p)) return NULL;
  LT(lt, cublasLtMatmulPreferenceCreate, &preference);
  mscrt_status *s = set_preferences(lt, mscrt_cuda_of(c), m, p, preference);
  lt_result r =
      s ? 0
        : lt->cublasLtMatmulAlgoGetHeuristic(mscrt_cuda_of(c)->products->handle, p->product, p->b, p->a, p->c, p->c,
                                             preference, c->o.tune ? MSCRT_CANDIDATES : 1, candidate, &num);
  lt->cublasLtMatmulPreferenceDestroy(preference);
  MSCRT_CHECK(s);
  if (r || num < 1 || candidate[0].state) return report_no_algorithm(c, m, r);
  p->algorithm = candidate[0].algorithm;
  return c->o.tune ? mscrt_choice_measure(c, m, p, num, candidate) : NULL;
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
    if (p->product[i].used) MSCRT_CHECK(make_problem(&p->lt, m, &p->product[i]));
    if (c->o.tune && c->o.ranks > 1) MSCRT_CHECK(choose_for_all_ranks(c, m, &p->product[i]));
    else if (p->product[i].used) MSCRT_CHECK(choose_algorithm(c, m, &p->product[i]));
  }
  return NULL;
}

mscrt_status *mscrt_product_call(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, bool adds,
                                 void *const *buffer, const lt_algorithm *algorithm) {
  static const struct { double one, zero; float one_f32, zero_f32; } factor = {1, 0, 1, 0};
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_cublas_api *lt = &g->products->lt;
  bool f64 = m->dtype == MSCRT_F64;
  const void *one = f64 ? (const void *)&factor.one : &factor.one_f32,
             *zero = f64 ? (const void *)&factor.zero : &factor.zero_f32;
  MSCRT_CHECK(set_pointers(lt, m, p->product, buffer));
  LT(lt, cublasLtMatmul, g->products->handle, p->product, one, buffer[1], p->b, buffer[0], p->a, adds ? one : zero,
     buffer[m->add ? m->at[MSCRT_AT_ADD] : 2], p->c, buffer[2], p->c, algorithm, (void *)(uintptr_t)g->workspace,
     g->workspace_bytes, g->stream);
  return NULL;
}

mscrt_status *mscrt_product_issue(mscrt_context *c, const mscrt_turn *t) {
  const mscrt_product *p = &mscrt_cuda_of(c)->products->product[t->record->index];
  const mscrt_matmul *m = t->record->matmul;
  bool adds = m->add && !(m->after_first && t->micro == 0);
  return mscrt_product_call(c, m, p, adds, mscrt_buffers_of(c, t->record, t->slots, 0), &p->algorithm);
}

void mscrt_products_close(mscrt_context *c) {
  mscrt_products *p = mscrt_cuda_of(c)->products;
  if (!p) return;
  for (uint32_t i = 0; p->product && i < c->plan->num_matmuls; i++) {
    mscrt_product *one = &p->product[i];
    if (one->product) p->lt.cublasLtMatmulDescDestroy(one->product);
    if (one->a) p->lt.cublasLtMatrixLayoutDestroy(one->a);
    if (one->b) p->lt.cublasLtMatrixLayoutDestroy(one->b);
    if (one->c) p->lt.cublasLtMatrixLayoutDestroy(one->c);
  }
  if (p->handle) p->lt.cublasLtDestroy(p->handle);
  free(p->product);
  free(p);
}
