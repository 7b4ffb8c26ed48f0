/* products.c: the stand-in's cuBLASLt: a plain product, column major, with the epilogues that the runtime asks for.
 * Attributes it does not know are a broken rule, so nothing is left out silently. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin/standin.h"

struct cublasLtContext { int unused; };
struct lt_product_struct {
  unsigned compute, scale;
  int32_t transpose[2];
  uint32_t epilogue;
  const void *bias, *aux;
  int64_t aux_ld;
};
struct lt_layout_struct { unsigned type; uint64_t rows, columns; int64_t ld, stride; int32_t batch; };
struct lt_preference_struct { uint64_t workspace; uint32_t alignment[4], reductions; };

API size_t cublasLtGetVersion(void) { return 130000; }

API unsigned cublasLtCreate(lt_handle *out) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  *out = calloc(1, sizeof **out);
  standin_count("cuBLASLt handles", 1);
  return 0;
}

API unsigned cublasLtDestroy(lt_handle h) {
  free(h);
  standin_count("cuBLASLt handles", -1);
  return standin_call(__func__);
}

/* ---- problems ---- */

API unsigned cublasLtMatmulDescCreate(lt_product *out, unsigned compute, unsigned scale) {
  *out = calloc(1, sizeof **out);
  **out = (struct lt_product_struct){.compute = compute, .scale = scale, .epilogue = MSCRT_CUBLASLT_EPILOGUE_DEFAULT};
  standin_count("cuBLASLt products", 1);
  return standin_call(__func__);
}

API unsigned cublasLtMatmulDescDestroy(lt_product p) {
  free(p);
  standin_count("cuBLASLt products", -1);
  return standin_call(__func__);
}

static void set(void *field, size_t room, const void *value, size_t bytes) {
  if (bytes != room) standin_broken("an attribute of %zu bytes is given %zu", room, bytes);
  memcpy(field, value, bytes);
}

API unsigned cublasLtMatmulDescSetAttribute(lt_product p, unsigned attribute, const void *value, size_t bytes) {
  switch (attribute) {
    case MSCRT_CUBLASLT_MATMUL_DESC_TRANSA: set(&p->transpose[0], 4, value, bytes); break;
    case MSCRT_CUBLASLT_MATMUL_DESC_TRANSB: set(&p->transpose[1], 4, value, bytes); break;
    case MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE: set(&p->epilogue, 4, value, bytes); break;
    case MSCRT_CUBLASLT_MATMUL_DESC_BIAS_POINTER: set(&p->bias, sizeof p->bias, value, bytes); break;
    case MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: set(&p->aux, sizeof p->aux, value, bytes); break;
    case MSCRT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: set(&p->aux_ld, sizeof p->aux_ld, value, bytes); break;
    default: standin_broken("attribute %u of a product", attribute);
  }
  return standin_call(__func__);
}

API unsigned cublasLtMatrixLayoutCreate(lt_layout *out, unsigned type, uint64_t rows, uint64_t columns, int64_t ld) {
  *out = calloc(1, sizeof **out);
  **out = (struct lt_layout_struct){type, rows, columns, ld, 0, 1};
  if (ld < (int64_t)rows) standin_broken("columns of %lu rows, %ld apart", (unsigned long)rows, (long)ld);
  standin_count("cuBLASLt layouts", 1);
  return standin_call(__func__);
}

API unsigned cublasLtMatrixLayoutDestroy(lt_layout l) {
  free(l);
  standin_count("cuBLASLt layouts", -1);
  return standin_call(__func__);
}

API unsigned cublasLtMatrixLayoutSetAttribute(lt_layout l, unsigned attribute, const void *value, size_t bytes) {
  if (attribute == MSCRT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) set(&l->batch, 4, value, bytes);
  else if (attribute == MSCRT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) set(&l->stride, 8, value, bytes);
  else standin_broken("attribute %u of a layout", attribute);
  return standin_call(__func__);
}

API unsigned cublasLtMatmulPreferenceCreate(lt_preference *out) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  *out = calloc(1, sizeof **out);
  **out = (struct lt_preference_struct){.alignment = {256, 256, 256, 256}, .reductions = 7};
  standin_count("cuBLASLt preferences", 1);
  return 0;
}

API unsigned cublasLtMatmulPreferenceDestroy(lt_preference p) {
  free(p);
  standin_count("cuBLASLt preferences", -1);
  return standin_call(__func__);
}

API unsigned cublasLtMatmulPreferenceSetAttribute(lt_preference p, unsigned attribute, const void *value,
                                                  size_t bytes) {
  unsigned operand = attribute - MSCRT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (attribute == MSCRT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) set(&p->workspace, 8, value, bytes);
  else if (attribute == MSCRT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) set(&p->reductions, 4, value, bytes);
  else if (operand < 4) set(&p->alignment[operand], 4, value, bytes);
  else standin_broken("attribute %u of a preference", attribute);
  return standin_call(__func__);
}

/* ---- algorithms: what they rely on is in them, and checked at the call ---- */

enum { WORKSPACE, ALIGNMENT, NUMBER = ALIGNMENT + 4 };

API unsigned cublasLtMatmulAlgoGetHeuristic(lt_handle h, lt_product p, lt_layout a, lt_layout b, lt_layout c,
                                            lt_layout d, lt_preference preference, int num, lt_candidate *out,
                                            int *out_num) {
  unsigned failed = standin_call(__func__);
  (void)h, (void)a, (void)b, (void)c, (void)d;
  if (failed) return failed;
  if (p->epilogue != MSCRT_CUBLASLT_EPILOGUE_DEFAULT && !standin_number("MSC_STANDIN_EPILOGUES", 1))
    return MSCRT_CUBLAS_STATUS_NOT_SUPPORTED;
  if (p->compute == MSCRT_CUBLAS_COMPUTE_32F && preference->reductions & ~2u)
    standin_broken("a sum in parts of a narrower type is allowed");
  *out_num = num < 3 ? num : 3;
  for (int i = 0; i < *out_num; i++) {
    out[i] = (lt_candidate){.workspace_bytes = (size_t)preference->workspace, .waves = 1};
    out[i].algorithm.data[WORKSPACE] = preference->workspace;
    out[i].algorithm.data[NUMBER] = (uint64_t)i;
    for (int k = 0; k < 4; k++) out[i].algorithm.data[ALIGNMENT + k] = preference->alignment[k];
  }
  return 0;
}

API unsigned cublasLtMatmulAlgoCheck(lt_handle h, lt_product p, lt_layout a, lt_layout b, lt_layout c, lt_layout d,
                                     const lt_algorithm *algorithm, lt_candidate *out) {
  unsigned failed = standin_call(__func__);
  (void)h, (void)p, (void)a, (void)b, (void)c, (void)d;
  if (failed) return failed;
  *out = (lt_candidate){.algorithm = *algorithm, .workspace_bytes = (size_t)algorithm->data[WORKSPACE]};
  return algorithm->data[ALIGNMENT] ? 0 : MSCRT_CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- products ---- */

typedef struct {
  struct lt_product_struct p;
  struct lt_layout_struct a, b, c;
  const char *pa, *pb, *add; /* add: NULL when its factor is 0 */
  char *pc;
} job;

static size_t bytes_of(unsigned type) { return type == MSCRT_CUDA_R_64F ? 8 : type == MSCRT_CUDA_R_32F ? 4 : 2; }

static double load(unsigned type, const char *at) {
  float f;
  double d;
  uint16_t h;
  memcpy(&h, at, 2);
  if (type == MSCRT_CUDA_R_16F) return (double)mscrt_from_f16(h);
  if (type == MSCRT_CUDA_R_16BF) return (double)mscrt_from_bf16(h);
  if (type == MSCRT_CUDA_R_32F) return memcpy(&f, at, 4), (double)f;
  return memcpy(&d, at, 8), d;
}

static void save(unsigned type, char *at, double v) {
  uint16_t h = type == MSCRT_CUDA_R_16F ? mscrt_to_f16((float)v) : mscrt_to_bf16((float)v);
  float f = (float)v;
  memcpy(at, bytes_of(type) == 2 ? (void *)&h : type == MSCRT_CUDA_R_32F ? (void *)&f : (void *)&v, bytes_of(type));
}

static const char *element(const struct lt_layout_struct *l, const char *base, int64_t batch, uint64_t row,
                           uint64_t column) {
  return base + (size_t)(batch * l->stride + (int64_t)row + (int64_t)column * l->ld) * bytes_of(l->type);
}

static double sum_of(const job *j, int64_t batch, uint64_t row, uint64_t column) {
  uint64_t terms = j->p.transpose[0] ? j->a.rows : j->a.columns;
  double sum = 0;
  for (uint64_t k = 0; k < terms; k++) {
    double a = load(j->a.type,
                    j->p.transpose[0] ? element(&j->a, j->pa, batch, k, row) : element(&j->a, j->pa, batch, row, k));
    double b = load(j->b.type, j->p.transpose[1] ? element(&j->b, j->pb, batch, column, k)
                                                 : element(&j->b, j->pb, batch, k, column));
    sum = j->c.type == MSCRT_CUDA_R_64F ? sum + a * b : (double)((float)sum + (float)a * (float)b);
  }
  return sum;
}

/* ---- epilogues: bits, but for DRELU and DGELU, which are eight and sixty-four ---- */

enum {
  RELU = 2,
  BIAS = 4,
  SLOPE_OF_RELU = 8,
  GELU = 32,
  SLOPE_OF_GELU = 64,
  AUX = 128,
  SUMS = MSCRT_CUBLASLT_EPILOGUE_BGRADA | MSCRT_CUBLASLT_EPILOGUE_BGRADB
};

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x) {
  double t = tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 3 * 0.044715 * x * x);
}

/* Element of aux, or its byte and bit. */
static char *aux_at(const job *j, uint64_t row, uint64_t column) {
  uint64_t at = row + column * (uint64_t)j->p.aux_ld;
  return (char *)(uintptr_t)j->p.aux + (j->p.epilogue & (RELU | SLOPE_OF_RELU) ? at / 8 : at * bytes_of(j->c.type));
}

static double with_function(const job *j, uint64_t row, uint64_t column, double v) {
  uint32_t e = j->p.epilogue;
  int bit = 1 << row % 8;
  if (e & SLOPE_OF_RELU) return *aux_at(j, row, column) & bit ? v : 0;
  if (e & SLOPE_OF_GELU) return v * gelu_slope(load(j->c.type, aux_at(j, row, column)));
  if (e & AUX && e & RELU)
    *aux_at(j, row, column) = (char)(v > 0 ? *aux_at(j, row, column) | bit : *aux_at(j, row, column) & ~bit);
  if (e & AUX && e & GELU) save(j->c.type, aux_at(j, row, column), v);
  if (e & GELU) return gelu(v);
  return e & RELU && !(v > 0) ? (v == v ? 0 : v) : v;
}

/* The terms of a row of a, or a column of b. */
static void save_sums(const job *j) {
  bool of_a = j->p.epilogue & MSCRT_CUBLASLT_EPILOGUE_BGRADA;
  const struct lt_layout_struct *l = of_a ? &j->a : &j->b;
  bool along_rows = of_a == !j->p.transpose[!of_a]; /* row i of op(a) is the storage's row i */
  uint64_t num = along_rows ? l->rows : l->columns, terms = along_rows ? l->columns : l->rows;
  for (uint64_t i = 0; i < num; i++) {
    float sum = 0;
    for (uint64_t k = 0; k < terms; k++)
      sum += (float)load(l->type, element(l, of_a ? j->pa : j->pb, 0, along_rows ? i : k, along_rows ? k : i));
    save(j->c.type, (char *)(uintptr_t)j->p.bias + i * bytes_of(j->c.type), (double)sum);
  }
}

static bool run_job(void *argument) {
  const job *j = argument;
  for (int64_t batch = 0; batch < j->c.batch; batch++)
    for (uint64_t column = 0; column < j->c.columns; column++)
      for (uint64_t row = 0; row < j->c.rows; row++) {
        double v = sum_of(j, batch, row, column);
        if (j->add) v += load(j->c.type, element(&j->c, j->add, batch, row, column));
        if (j->p.epilogue & BIAS) v += load(j->c.type, (const char *)j->p.bias + row * bytes_of(j->c.type));
        save(j->c.type, (char *)(uintptr_t)element(&j->c, j->pc, batch, row, column), with_function(j, row, column, v));
      }
  if (j->p.epilogue & SUMS) save_sums(j);
  return true;
}

static void check_operand(const struct lt_layout_struct *l, const void *at, const lt_algorithm *algorithm,
                          int operand) {
  int64_t elems = (l->batch - 1) * l->stride + (int64_t)(l->columns - 1) * l->ld + (int64_t)l->rows;
  standin_check_memory((cu_address)(uintptr_t)at, (size_t)elems * bytes_of(l->type), "an operand of cublasLtMatmul");
  if ((uintptr_t)at % algorithm->data[ALIGNMENT + operand])
    standin_broken("an operand is less aligned than its algorithm was told");
}

static void check_shapes(const job *j) {
  uint64_t rows = j->p.transpose[0] ? j->a.columns : j->a.rows, inner = j->p.transpose[0] ? j->a.rows : j->a.columns;
  uint64_t columns = j->p.transpose[1] ? j->b.rows : j->b.columns,
           inner_b = j->p.transpose[1] ? j->b.columns : j->b.rows;
  if (rows != j->c.rows || columns != j->c.columns || inner != inner_b || j->a.batch != j->c.batch ||
      j->b.batch != j->c.batch)
    standin_broken("a product of shapes that do not fit");
  bool f64 = j->c.type == MSCRT_CUDA_R_64F;
  if (j->p.compute != (f64 ? MSCRT_CUBLAS_COMPUTE_64F : MSCRT_CUBLAS_COMPUTE_32F) ||
      j->p.scale != (f64 ? MSCRT_CUDA_R_64F : MSCRT_CUDA_R_32F))
    standin_broken("a product that is summed in another type");
}

static void check_epilogue(const job *j) {
  uint32_t e = j->p.epilogue;
  uint64_t width = e & (RELU | SLOPE_OF_RELU) ? 128 : 8,
           bias = e & MSCRT_CUBLASLT_EPILOGUE_BGRADB ? j->c.columns : j->c.rows;
  size_t bytes = e & (RELU | SLOPE_OF_RELU) ? (size_t)j->p.aux_ld / 8 : (size_t)j->p.aux_ld * bytes_of(j->c.type);
  if (e & (BIAS | SUMS))
    standin_check_memory((cu_address)(uintptr_t)j->p.bias, bias * bytes_of(j->c.type), "a bias or its gradient");
  if (e & (AUX | SUMS) && j->c.batch > 1) standin_broken("epilogue %u of a batch", e);
  if (!(e & AUX)) return;
  if ((uint64_t)j->p.aux_ld < j->c.rows || (uint64_t)j->p.aux_ld % width)
    standin_broken("aux has columns of %ld for %lu rows", (long)j->p.aux_ld, (unsigned long)j->c.rows);
  if ((uintptr_t)j->p.aux % 16) standin_broken("aux is not aligned");
  standin_check_memory((cu_address)(uintptr_t)j->p.aux, j->c.columns * bytes, "aux");
}

API unsigned cublasLtMatmul(lt_handle h, lt_product p, const void *alpha, const void *a, lt_layout la, const void *b,
                            lt_layout lb, const void *beta, const void *c, lt_layout lc, void *d, lt_layout ld,
                            const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, cu_stream s) {
  unsigned failed = standin_call(__func__);
  (void)h;
  if (failed) return failed;
  job j = {*p, *la, *lb, *ld, a, b, NULL, d};
  check_shapes(&j);
  check_operand(la, a, algorithm, 0);
  check_operand(lb, b, algorithm, 1);
  check_operand(lc, c, algorithm, 2);
  check_operand(ld, d, algorithm, 3);
  if (algorithm->data[WORKSPACE] > workspace_bytes)
    standin_broken("a workspace of %zu bytes for an algorithm that uses %lu", workspace_bytes,
                   (unsigned long)algorithm->data[WORKSPACE]);
  if (workspace_bytes) standin_check_memory((cu_address)(uintptr_t)workspace, workspace_bytes, "the workspace");
  double scale = p->scale == MSCRT_CUDA_R_64F ? *(const double *)alpha : (double)*(const float *)alpha,
         add = p->scale == MSCRT_CUDA_R_64F ? *(const double *)beta : (double)*(const float *)beta;
  if (scale != 1 || (add != 0 && add != 1)) standin_broken("a product with factors");
  if (add == 1) j.add = c;
  check_epilogue(&j);
  standin_issue(s, j.p.epilogue == MSCRT_CUBLASLT_EPILOGUE_DEFAULT ? "product" : "whole", run_job, &j, sizeof j);
  return 0;
}
