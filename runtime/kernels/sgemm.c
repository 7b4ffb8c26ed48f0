/* sgemm.c: see sgemm.h. The declarations here are those of the libraries' own headers: row-major matrices. */
#include "runtime/kernels/sgemm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int onednn_sgemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                         const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef void blas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                        int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef struct {
  int major, minor, patch;
} onednn_version; /* the first members of dnnl_version_t */

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 }; /* of BLAS */

struct mscrt_sgemm {
  void *handle;
  char name[40];
  onednn_sgemm *onednn;
  blas_sgemm *blas;
  void (*set_threads)(int); /* of the process; NULL: the library has no such number */
  int (*get_threads)(void);
};

static bool find_function(const mscrt_sgemm *g, const char *name, void *out) {
  void *f = dlsym(g->handle, name);
  memcpy(out, &f, sizeof f);
  return f != NULL;
}

static bool find_onednn(mscrt_sgemm *g) {
  const onednn_version *(*version)(void);
  if (!find_function(g, "dnnl_sgemm", &g->onednn) || !find_function(g, "dnnl_version", &version)) return false;
  const onednn_version *v = version();
  snprintf(g->name, sizeof g->name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return true;
}

/* Its configuration begins with its name and version, "OpenBLAS 0.3.21 DYNAMIC_ARCH". A build whose integers have 64
 * bits says so there, and is not what is declared here. */
static bool find_openblas(mscrt_sgemm *g) {
  const char *(*config)(void);
  if (!find_function(g, "cblas_sgemm", &g->blas) || !find_function(g, "openblas_get_config", &config) ||
      !find_function(g, "openblas_set_num_threads", &g->set_threads) ||
      !find_function(g, "openblas_get_num_threads", &g->get_threads) || strstr(config(), "USE64BITINT"))
    return false;
  int length = 0;
  sscanf(config(), "OpenBLAS %*31s%n", &length);
  snprintf(g->name, sizeof g->name, "%.*s", length ? length : 8, length ? config() : "OpenBLAS");
  return true;
}

static const struct {
  const char *file;
  bool (*find)(mscrt_sgemm *g);
} libraries[] = {{"libdnnl.so.3", find_onednn}, {"libopenblas.so.0", find_openblas}};

mscrt_sgemm *mscrt_sgemm_open(void) {
  mscrt_sgemm *g = calloc(1, sizeof *g);
  for (size_t i = 0; g && i < sizeof libraries / sizeof *libraries; i++) {
    /* The library is never unloaded: it has thread-local state of other threads. */
    *g = (mscrt_sgemm){.handle = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (g->handle && libraries[i].find(g)) return g;
    if (g->handle) dlclose(g->handle);
  }
  free(g);
  return NULL;
}

void mscrt_sgemm_close(mscrt_sgemm *g) {
  if (g) dlclose(g->handle);
  free(g);
}

const char *mscrt_sgemm_name(const mscrt_sgemm *g) { return g->name; }

bool mscrt_sgemm_counts_threads(const mscrt_sgemm *g) { return g->set_threads != NULL; }

int mscrt_sgemm_enter(const mscrt_sgemm *g) {
  int before = g->get_threads();
  if (before > 1) g->set_threads(1);
  return before;
}

void mscrt_sgemm_leave(const mscrt_sgemm *g, int before) {
  if (before > 1) g->set_threads(before);
}

bool mscrt_sgemm_run(const mscrt_sgemm *g, const mscrt_matmul *m, int64_t lda, int64_t ldb, int64_t ldc, const float *a,
                     const float *b, float *c, const float *bias) {
  float beta = m->bias ? 1 : 0;
  for (int64_t i = 0; i < m->m && m->bias; i++) memcpy(c + i * ldc, bias, (size_t)m->n * sizeof *c);
  if (g->onednn) {
    if (g->onednn(m->transpose_a ? 'T' : 'N', m->transpose_b ? 'T' : 'N', m->m, m->n, m->k, 1, a, lda, b, ldb, beta, c,
                  ldc))
      return false;
  } else {
    g->blas(ROW_MAJOR, m->transpose_a ? TRANSPOSED : AS_IT_IS, m->transpose_b ? TRANSPOSED : AS_IT_IS, (int)m->m,
            (int)m->n, (int)m->k, 1, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
  }
  for (int64_t i = 0; i < m->m && m->relu; i++)
    for (int64_t j = 0; j < m->n; j++) c[i * ldc + j] = c[i * ldc + j] < 0 ? 0 : c[i * ldc + j];
  return true;
}
