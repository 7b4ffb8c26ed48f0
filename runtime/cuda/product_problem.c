/* product_problem.c: describes a matrix product to cuBLASLt, and issues it with a given algorithm.
 *
 * The library is column major and reads our matrices as their transposes.  So it computes c' = b' a', whose rows are
 * our columns, and our bias of columns is one of rows, the only one that it knows. */
#include "runtime/cuda/product.h"

mscrt_status *mscrt_product_check(lt_result r, const char *what) {
  return r ? mscrt_fail(MSCRT_ENVIRONMENT, "cuBLASLt: %s failed with status %u", what, r) : NULL;
}

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
  MSCRT_LT(lt, cublasLtMatrixLayoutCreate, out_layout, cuda_type(dtype), (uint64_t)columns, (uint64_t)rows, columns);
  MSCRT_LT(lt, cublasLtMatrixLayoutSetAttribute, *out_layout, MSCRT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
           sizeof batch);
  MSCRT_LT(lt, cublasLtMatrixLayoutSetAttribute, *out_layout, MSCRT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
           &stride, sizeof stride);
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
    MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, product, MSCRT_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &buffer[bias],
             sizeof buffer[bias]);
  if (aux)
    MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, product, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &buffer[aux],
             sizeof buffer[aux]);
  return NULL;
}

/* Describes the product alone. */
static mscrt_status *describe_plain(mscrt_cublas_api *lt, const mscrt_matmul *m, lt_product *out_product) {
  bool f64 = m->dtype == MSCRT_F64;
  int32_t first = m->transpose_b ? MSCRT_CUBLAS_OP_T : MSCRT_CUBLAS_OP_N,
          second = m->transpose_a ? MSCRT_CUBLAS_OP_T : MSCRT_CUBLAS_OP_N;
  MSCRT_LT(lt, cublasLtMatmulDescCreate, out_product, f64 ? MSCRT_CUBLAS_COMPUTE_64F : MSCRT_CUBLAS_COMPUTE_32F,
           f64 ? MSCRT_CUDA_R_64F : MSCRT_CUDA_R_32F);
  MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, *out_product, MSCRT_CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, *out_product, MSCRT_CUBLASLT_MATMUL_DESC_TRANSB, &second,
           sizeof second);
  return NULL;
}

static mscrt_status *describe_epilogue(mscrt_cublas_api *lt, const mscrt_matmul *m, const mscrt_product *p) {
  uint32_t epilogue = mscrt_product_epilogue(m);
  int64_t aux_columns = m->relu ? (m->n + 127) / 128 * 128 : m->n;
  MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, p->whole, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
           sizeof epilogue);
  if (m->aux)
    MSCRT_LT(lt, cublasLtMatmulDescSetAttribute, p->whole, MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_columns,
             sizeof aux_columns);
  return set_pointers(lt, m, p->whole, p->buffer);
}

lt_product mscrt_product_desc(const mscrt_product *p) { return p->apart ? p->plain : p->whole; }

mscrt_status *mscrt_product_describe(mscrt_cublas_api *lt, const mscrt_matmul *m, mscrt_product *p) {
  MSCRT_CHECK(describe_plain(lt, m, &p->whole));
  MSCRT_CHECK(describe_epilogue(lt, m, p));
  if (p->call->epilogue) MSCRT_CHECK(describe_plain(lt, m, &p->plain));
  MSCRT_CHECK(
      make_layout(lt, m, m->dtype, m->transpose_a ? m->k : m->m, m->transpose_a ? m->m : m->k, m->stride_a, &p->a));
  MSCRT_CHECK(
      make_layout(lt, m, m->dtype, m->transpose_b ? m->n : m->k, m->transpose_b ? m->k : m->n, m->stride_b, &p->b));
  return make_layout(lt, m, m->wide ? MSCRT_F32 : m->dtype, m->m, m->n, m->m * m->n, &p->c);
}

uint32_t mscrt_product_alignment(const mscrt_product *p, int operand) {
  uint64_t lowest = p->low_bits[operand] & -p->low_bits[operand];
  return lowest && lowest < MSCRT_CUDA_ALIGN ? (uint32_t)lowest : MSCRT_CUDA_ALIGN;
}

mscrt_status *mscrt_product_call(mscrt_context *c, const mscrt_matmul *m, const mscrt_product *p, bool adds,
                                 void *const *buffer, const lt_algorithm *algorithm) {
  static const struct {
    double one, zero;
    float one_f32, zero_f32;
  } factor = {1, 0, 1, 0};
  mscrt_cuda *g = mscrt_cuda_of(c);
  mscrt_cublas_api *lt = &g->products->lt;
  bool f64 = m->dtype == MSCRT_F64;
  const void *one = f64 ? (const void *)&factor.one : &factor.one_f32,
             *zero = f64 ? (const void *)&factor.zero : &factor.zero_f32;
  g->follows_kernel = false;
  if (!p->apart) MSCRT_CHECK(set_pointers(lt, m, p->whole, buffer));
  MSCRT_LT(lt, cublasLtMatmul, g->products->handle, mscrt_product_desc(p), one, buffer[1], p->b, buffer[0], p->a,
           adds ? one : zero, buffer[m->add ? m->at[MSCRT_AT_ADD] : 2], p->c, buffer[2], p->c, algorithm,
           (void *)(uintptr_t)g->workspace, g->workspace_bytes, g->stream);
  return NULL;
}
