/* onednn.c: oneDNN 2, loaded with dlopen, or else a library that has sgemm. Of oneDNN one primitive per distinct tile
 * shape, made at load; one set of memory objects per worker, since a call sets the addresses in them; scratch memory is
 * ours, so the library keeps none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "runtime/kernels/onednn.h"
#include "runtime/kernels/sgemm.h"

#define NAME "libdnnl.so.2"

#define FUNCTIONS(X)                                                                                            \
  X(dnnl_engine_create)                                                                                         \
  X(dnnl_engine_destroy)                                                                                        \
  X(dnnl_stream_create) X(dnnl_stream_destroy) X(dnnl_memory_desc_init_by_strides) X(dnnl_memory_desc_get_size) \
      X(dnnl_memory_create) X(dnnl_memory_destroy) X(dnnl_memory_set_data_handle) X(dnnl_primitive_attr_create) \
          X(dnnl_primitive_attr_destroy) X(dnnl_primitive_attr_set_scratchpad_mode)                             \
              X(dnnl_primitive_attr_set_post_ops) X(dnnl_post_ops_create) X(dnnl_post_ops_destroy)              \
                  X(dnnl_post_ops_append_eltwise) X(dnnl_matmul_desc_init) X(dnnl_primitive_desc_create)        \
                      X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md) X(dnnl_primitive_create)   \
                          X(dnnl_primitive_destroy) X(dnnl_primitive_execute) X(dnnl_version)

enum { SRC, WEIGHTS, DST, BIAS, SCRATCH, NUM_ARGS };

typedef struct {
  dnnl_memory_t memory[NUM_ARGS];
  dnnl_exec_arg_t arg[NUM_ARGS];
} worker_args;

struct mscrt_tile {
  mscrt_tile *next;
  mscrt_library *library;
  mscrt_matmul key; /* m, n: of the tile */
  int64_t row_stride, lda, ldb;
  dnnl_primitive_t primitive;
  int num_args;
  size_t scratch_bytes;
  worker_args *args; /* per worker */
};

typedef struct {
  dnnl_stream_t stream;
  void *scratch;
} worker_state;

struct mscrt_library {
  void *handle, *threads;
#define X(f) __typeof__(&f) f;
  FUNCTIONS(X)
#undef X
  void (*set_threads)(int);
  int (*get_threads)(void);
  char name[40];
  int workers;
  dnnl_engine_t engine;
  worker_state *worker;
  mscrt_tile *tiles;
  mscrt_sgemm *sgemm; /* NULL: oneDNN 2 */
};

/* ---- loading ---- */

static mscrt_status *find_functions(mscrt_library *l) {
  /* The library is never unloaded: it has thread-local state of other threads. */
  l->handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!l->handle) {
    const char *why = dlerror();
    return mscrt_fail(
        MSCRT_ENVIRONMENT,
        "the plan multiplies matrices with oneDNN, but %s cannot be loaded; install the package libdnnl2 (%s)", NAME,
        why ? why : "unknown reason");
  }
#define X(f)                              \
  *(void **)&l->f = dlsym(l->handle, #f); \
  if (!l->f) return mscrt_fail(MSCRT_ENVIRONMENT, "%s has no function %s", NAME, #f);
  FUNCTIONS(X)
#undef X
  const dnnl_version_t *v = l->dnnl_version();
  if (v->major != 2)
    return mscrt_fail(MSCRT_ENVIRONMENT, "%s is oneDNN %d.%d, version 2 is needed", NAME, v->major, v->minor);
  snprintf(l->name, sizeof l->name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return NULL;
}

/* Finds the number of threads of OpenMP, which oneDNN has brought along; a build without it has none to limit, or one
 * of its own. */
static void find_threads(mscrt_library *l) {
  l->threads = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (!l->threads) return;
  *(void **)&l->set_threads = dlsym(l->threads, "omp_set_num_threads");
  *(void **)&l->get_threads = dlsym(l->threads, "omp_get_max_threads");
}

static mscrt_status *check_onednn(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return NULL;
  if (status == dnnl_out_of_memory) return mscrt_fail(MSCRT_NO_MEMORY, "oneDNN: out of memory (%s)", what);
  return mscrt_fail(MSCRT_ENVIRONMENT, "oneDNN: %s failed with status %d", what, (int)status);
}

mscrt_status *mscrt_library_open(int workers, mscrt_library **out_library) {
  mscrt_library *l = NULL;
  mscrt_status *s = NULL;
  *out_library = NULL;
  MSCRT_CHECK(mscrt_new_array(&l, 1));
  l->workers = workers;
  s = find_functions(l);
  if (s) l->sgemm = mscrt_sgemm_open();
  if (!s || l->sgemm) find_threads(l);
  if (l->sgemm) {
    mscrt_status_free(s);
    *out_library = l;
    return NULL;
  }
  if (s) goto fail;
  MSCRT_GOTO(check_onednn(l->dnnl_engine_create(&l->engine, dnnl_cpu, 0), "dnnl_engine_create"));
  MSCRT_GOTO(mscrt_new_array(&l->worker, workers));
  for (int i = 0; i < workers; i++)
    MSCRT_GOTO(check_onednn(l->dnnl_stream_create(&l->worker[i].stream, l->engine, dnnl_stream_default_flags),
                            "dnnl_stream_create"));
  *out_library = l;
  return NULL;
fail:
  mscrt_library_close(l);
  return s;
}

static void free_tile(mscrt_tile *t) {
  mscrt_library *l = t->library;
  for (int w = 0; t->args && w < l->workers; w++)
    for (int i = 0; i < NUM_ARGS; i++)
      if (t->args[w].memory[i]) l->dnnl_memory_destroy(t->args[w].memory[i]);
  if (t->primitive) l->dnnl_primitive_destroy(t->primitive);
  free(t->args);
  free(t);
}

void mscrt_library_close(mscrt_library *l) {
  if (!l) return;
  for (mscrt_tile *t = l->tiles, *next; t; t = next) {
    next = t->next;
    free_tile(t);
  }
  for (int i = 0; l->worker && i < l->workers; i++) {
    if (l->worker[i].stream) l->dnnl_stream_destroy(l->worker[i].stream);
    free(l->worker[i].scratch);
  }
  if (l->engine) l->dnnl_engine_destroy(l->engine);
  mscrt_sgemm_close(l->sgemm);
  if (l->threads) dlclose(l->threads);
  if (l->handle) dlclose(l->handle);
  free(l->worker);
  free(l);
}

const char *mscrt_library_name(const mscrt_library *l) { return l->sgemm ? mscrt_sgemm_name(l->sgemm) : l->name; }

void mscrt_library_enter_worker(const mscrt_library *l) {
  if (l->set_threads) l->set_threads(1);
}

int mscrt_library_enter(const mscrt_library *l) {
  if (l->sgemm && mscrt_sgemm_counts_threads(l->sgemm)) return mscrt_sgemm_enter(l->sgemm);
  int before = l->get_threads ? l->get_threads() : 0;
  if (l->set_threads) l->set_threads(1);
  return before;
}

void mscrt_library_leave(const mscrt_library *l, int before) {
  if (l->sgemm && mscrt_sgemm_counts_threads(l->sgemm)) mscrt_sgemm_leave(l->sgemm, before);
  else if (l->set_threads && before > 0) l->set_threads(before);
}

/* ---- tiles ---- */

typedef struct {
  dnnl_memory_desc_t src, weights, dst, bias;
} descs;

static mscrt_status *describe_operands(const mscrt_tile *t, descs *d) {
  const mscrt_library *l = t->library;
  const mscrt_matmul *k = &t->key;
  dnnl_data_type_t type = k->dtype == MSCRT_F32 ? dnnl_f32 : k->dtype == MSCRT_BF16 ? dnnl_bf16 : dnnl_f16;
  dnnl_dims_t src = {k->m, k->k}, weights = {k->k, k->n}, dst = {k->m, k->n}, bias = {1, k->n};
  dnnl_dims_t src_step = {t->lda, 1}, weights_step = {t->ldb, 1}, dst_step = {t->row_stride, 1}, bias_step = {k->n, 1};
  if (k->transpose_a) src_step[0] = 1, src_step[1] = t->lda;
  if (k->transpose_b) weights_step[0] = 1, weights_step[1] = t->ldb;
  MSCRT_CHECK(check_onednn(l->dnnl_memory_desc_init_by_strides(&d->src, 2, src, type, src_step),
                           "describing the first operand"));
  MSCRT_CHECK(check_onednn(l->dnnl_memory_desc_init_by_strides(&d->weights, 2, weights, type, weights_step),
                           "describing the second operand"));
  MSCRT_CHECK(
      check_onednn(l->dnnl_memory_desc_init_by_strides(&d->dst, 2, dst, type, dst_step), "describing the result"));
  return check_onednn(l->dnnl_memory_desc_init_by_strides(&d->bias, 2, bias, type, bias_step), "describing the bias");
}

static mscrt_status *make_attr(const mscrt_library *l, bool relu, dnnl_primitive_attr_t *out_attr) {
  dnnl_post_ops_t ops = NULL;
  mscrt_status *s = check_onednn(l->dnnl_primitive_attr_create(out_attr), "dnnl_primitive_attr_create");
  if (s) return s;
  s = check_onednn(l->dnnl_primitive_attr_set_scratchpad_mode(*out_attr, dnnl_scratchpad_mode_user),
                   "asking for our own scratch");
  if (!s && relu) s = check_onednn(l->dnnl_post_ops_create(&ops), "dnnl_post_ops_create");
  if (!s && relu) s = check_onednn(l->dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0), "adding relu");
  if (!s && relu) s = check_onednn(l->dnnl_primitive_attr_set_post_ops(*out_attr, ops), "adding relu");
  if (ops) l->dnnl_post_ops_destroy(ops);
  return s;
}

static mscrt_status *make_primitive(mscrt_tile *t, const descs *d, dnnl_memory_desc_t *out_scratch) {
  const mscrt_library *l = t->library;
  dnnl_matmul_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  mscrt_status *s = NULL;
  MSCRT_GOTO(make_attr(l, t->key.relu, &attr));
  MSCRT_GOTO(check_onednn(l->dnnl_matmul_desc_init(&op, &d->src, &d->weights, t->key.bias ? &d->bias : NULL, &d->dst),
                          "dnnl_matmul_desc_init"));
  if (l->dnnl_primitive_desc_create(&pd, &op, attr, l->engine, NULL) != dnnl_success) {
    s = mscrt_fail(MSCRT_ENVIRONMENT, "oneDNN has no %s matmul for this CPU", mscrt_dtype_name(t->key.dtype));
    goto fail;
  }
  *out_scratch = *l->dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  t->scratch_bytes = l->dnnl_memory_desc_get_size(out_scratch);
  MSCRT_GOTO(check_onednn(l->dnnl_primitive_create(&t->primitive, pd), "dnnl_primitive_create"));
fail:
  if (pd) l->dnnl_primitive_desc_destroy(pd);
  if (attr) l->dnnl_primitive_attr_destroy(attr);
  return s;
}

static mscrt_status *make_args(mscrt_tile *t, const descs *d, const dnnl_memory_desc_t *scratch) {
  static const int names[NUM_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD};
  const dnnl_memory_desc_t *desc[NUM_ARGS] = {&d->src, &d->weights, &d->dst, t->key.bias ? &d->bias : NULL,
                                              t->scratch_bytes ? scratch : NULL};
  const mscrt_library *l = t->library;
  MSCRT_CHECK(mscrt_new_array(&t->args, l->workers));
  for (int w = 0; w < l->workers; w++) {
    t->num_args = 0;
    for (int i = 0; i < NUM_ARGS; i++) {
      if (!desc[i]) continue;
      MSCRT_CHECK(check_onednn(l->dnnl_memory_create(&t->args[w].memory[i], desc[i], l->engine, DNNL_MEMORY_NONE),
                               "dnnl_memory_create"));
      t->args[w].arg[t->num_args++] = (dnnl_exec_arg_t){names[i], t->args[w].memory[i]};
    }
  }
  return NULL;
}

static bool same_tile(const mscrt_tile *a, const mscrt_tile *b) {
  const mscrt_matmul *x = &a->key, *y = &b->key;
  return x->dtype == y->dtype && x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a &&
         x->transpose_b == y->transpose_b && x->bias == y->bias && x->relu == y->relu && a->lda == b->lda &&
         a->ldb == b->ldb && a->row_stride == b->row_stride;
}

static mscrt_status *make_tile(mscrt_tile *t) {
  descs d;
  dnnl_memory_desc_t scratch;
  MSCRT_CHECK(describe_operands(t, &d));
  MSCRT_CHECK(make_primitive(t, &d, &scratch));
  return make_args(t, &d, &scratch);
}

/* BLAS has integers of 32 bits. */
static mscrt_status *check_sgemm_takes(const mscrt_tile *t) {
  const char *name = mscrt_sgemm_name(t->library->sgemm);
  if (t->key.dtype != MSCRT_F32)
    return mscrt_fail(MSCRT_ENVIRONMENT, "%s has no %s matmul", name, mscrt_dtype_name(t->key.dtype));
  bool fits = t->lda <= INT32_MAX && t->ldb <= INT32_MAX && t->row_stride <= INT32_MAX && t->key.m <= INT32_MAX &&
              t->key.n <= INT32_MAX && t->key.k <= INT32_MAX;
  return fits ? NULL : mscrt_fail(MSCRT_UNSUPPORTED, "%s has no matrices as large", name);
}

/* Finds or makes the primitive for rows x columns of the product, with `row_stride` elements between rows of c. */
static mscrt_status *find_tile(mscrt_library *l, const mscrt_matmul *m, int64_t rows, int64_t columns,
                               int64_t row_stride, const mscrt_tile **out_tile) {
  mscrt_tile *t, *known;
  MSCRT_CHECK(mscrt_new_array(&t, 1));
  t->library = l;
  t->key = *m;
  t->key.m = rows;
  t->key.n = columns;
  t->row_stride = row_stride;
  t->lda = m->transpose_a ? m->m : m->k;
  t->ldb = m->transpose_b ? m->k : m->n;
  for (known = l->tiles; known && !same_tile(known, t); known = known->next) {}
  if (known) {
    free(t);
    *out_tile = known;
    return NULL;
  }
  t->next = l->tiles;
  l->tiles = t;
  int before = mscrt_library_enter(l);
  mscrt_status *s = l->sgemm ? check_sgemm_takes(t) : make_tile(t);
  mscrt_library_leave(l, before);
  *out_tile = t;
  return s ? mscrt_add_prefix(s, "tile of %" PRId64 " x %" PRId64 " x %" PRId64, rows, columns, m->k) : NULL;
}

mscrt_status *mscrt_library_tiles(mscrt_library *l, const mscrt_matmul *m, const mscrt_tile *out_tile[2][2]) {
  int64_t rows[2] = {m->tile_m, m->m - (m->tiles_m - 1) * m->tile_m},
          columns[2] = {m->tile_n, m->n - (m->tiles_n - 1) * m->tile_n};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      MSCRT_CHECK(find_tile(l, m, rows[i], columns[j], m->tile_bytes ? columns[j] : m->n, &out_tile[i][j]));
  return NULL;
}

/* The elements between the first and the last of a matrix whose lines are `step` apart. */
static size_t matrix_extent(bool transposed, int64_t rows, int64_t columns, int64_t step) {
  return (size_t)(transposed ? (columns - 1) * step + rows : (rows - 1) * step + columns);
}

/* Runs each kind of product once: the library makes its machine code in the first product of a kind, and that must
 * not happen in the first step. */
static mscrt_status *run_first_products(mscrt_library *l) {
  mscrt_status *s = NULL;
  int before = mscrt_library_enter(l);
  for (mscrt_tile *t = l->tiles; t && !s; t = t->next) {
    const mscrt_matmul *k = &t->key;
    size_t a = matrix_extent(k->transpose_a, k->m, k->k, t->lda), b = matrix_extent(k->transpose_b, k->k, k->n, t->ldb),
           c = matrix_extent(false, k->m, k->n, t->row_stride);
    size_t elems = a > b ? a : b;
    float *in = calloc(elems > (size_t)k->n ? elems : (size_t)k->n, sizeof *in), *out = calloc(c, sizeof *out);
    if (!in || !out) s = mscrt_fail(MSCRT_NO_MEMORY, "no memory to try a matmul");
    else if (!mscrt_tile_run(t, 0, in, in, out, in)) s = mscrt_fail(MSCRT_ENVIRONMENT, "oneDNN failed in a trial");
    free(in);
    free(out);
  }
  mscrt_library_leave(l, before);
  return s;
}

mscrt_status *mscrt_library_ready(mscrt_library *l) {
  size_t bytes = 0;
  for (mscrt_tile *t = l->tiles; t; t = t->next)
    if (t->scratch_bytes > bytes) bytes = t->scratch_bytes;
  for (int w = 0; bytes && w < l->workers; w++) {
    free(l->worker[w].scratch);
    l->worker[w].scratch = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!l->worker[w].scratch) return mscrt_fail(MSCRT_NO_MEMORY, "no memory for %zu bytes of oneDNN's scratch", bytes);
    for (mscrt_tile *t = l->tiles; t; t = t->next)
      if (t->args[w].memory[SCRATCH])
        MSCRT_CHECK(check_onednn(l->dnnl_memory_set_data_handle(t->args[w].memory[SCRATCH], l->worker[w].scratch),
                                 "giving scratch"));
  }
  return run_first_products(l);
}

bool mscrt_tile_run(const mscrt_tile *t, int worker, const void *a, const void *b, void *c, const void *bias) {
  const mscrt_library *l = t->library;
  if (l->sgemm) return mscrt_sgemm_run(l->sgemm, &t->key, t->lda, t->ldb, t->row_stride, a, b, c, bias);
  dnnl_memory_t *memory = t->args[worker].memory;
  const void *data[BIAS + 1] = {a, b, c, bias};
  for (int i = SRC; i <= BIAS; i++)
    if (memory[i] && l->dnnl_memory_set_data_handle(memory[i], (void *)(uintptr_t)data[i]) != dnnl_success)
      return false;
  return l->dnnl_primitive_execute(t->primitive, l->worker[worker].stream, t->num_args, t->args[worker].arg) ==
         dnnl_success;
}
