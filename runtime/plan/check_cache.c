/* check_cache.c: the caches of rows of tables in a plan in; checked and unpacked caches out. */
#include "ir/abi/row_cache.h"
#include "runtime/plan/plan.h"

#define bad_cache(...) mscrt_bad_plan("the plan contradicts itself: " __VA_ARGS__)

/* Checks that value i of a cache, the table or its state, has as many rows as the table, and room for `rows` of them on
 * the device. */
static mscrt_status *check_cached(const mscrt_plan *p, const mscrt_plan_cache *k, uint32_t i) {
  if (k->parameter[i] >= p->num_parameters) return bad_cache("parameter %u of %u", k->parameter[i], p->num_parameters);
  const mscrt_variable *v = &p->parameter[k->parameter[i]], *table = &p->parameter[k->parameter[0]];
  plan_ref at = k->at[i];
  msc_box box, buffer, own, rows;
  if (!mscrt_is_offloaded(v->ref.space)) return bad_cache("'%s' lives on the device", v->name);
  if (v->rank < 1 || table->rank < 1 || v->stage != table->stage || v->state != (i > 0))
    return bad_cache("'%s' is no table of stage %u, nor state of one", v->name, table->stage);
  mscrt_variable_box(p, v, 0, &box, &buffer);
  mscrt_variable_box(p, table, 0, &own, &rows);
  if (buffer.size[0] < 1 || buffer.size[0] != rows.size[0] || v->layout != table->layout)
    return bad_cache("'%s' has other rows than '%s'", v->name, table->name);
  uint64_t row = mscrt_variable_bytes(v) / (uint64_t)buffer.size[0],
           room = mscrt_room(p, v->stage, PLAN_SPACE_PERSISTENT);
  if (at.space != PLAN_SPACE_PERSISTENT || at.offset > room || at.bytes > room - at.offset ||
      at.bytes / k->rows < row || at.offset % mscrt_dtype_bytes(v->dtype))
    return bad_cache("%u rows of '%s' have no room on the device", k->rows, v->name);
  return NULL;
}

static mscrt_status *check_index(const mscrt_plan *p, const mscrt_plan_cache *k) {
  const mscrt_variable *table = &p->parameter[k->parameter[0]];
  msc_box box, buffer;
  mscrt_variable_box(p, table, 0, &box, &buffer);
  uint64_t room = mscrt_room(p, table->stage, PLAN_SPACE_HOST), rows = (uint64_t)buffer.size[0];
  if (k->rows > rows) return bad_cache("a cache of %u rows for a table of %" PRIu64, k->rows, rows);
  if (k->index.space != PLAN_SPACE_HOST || k->index.offset % 8 || k->index.offset > room ||
      k->index.bytes > room - k->index.offset || rows > (uint64_t)1 << 40 ||
      k->index.bytes < msc_row_index_bytes(rows, k->rows))
    return bad_cache("its index has no room in host memory");
  return NULL;
}

/* Checks what a GPU swaps rows with: the pool has room for all of them, and the kernels are of the right form. */
static mscrt_status *check_swaps(const mscrt_plan *p, plan_cache t, mscrt_plan_cache *k) {
  uint64_t room = mscrt_room(p, p->parameter[k->parameter[0]].stage, PLAN_SPACE_HOST), row_bytes[MSCRT_MOST_CACHED];
  k->pool = plan_cache_pool(t), k->swaps = (uint32_t)plan_cache_swaps(t);
  if (plan_cache_swaps(t) > k->rows || plan_cache_kernels_num(t) != (k->swaps ? k->num : 0))
    return bad_cache("%" PRIu64 " swaps of %u rows by %u kernels", plan_cache_swaps(t), k->rows,
                     plan_cache_kernels_num(t));
  for (uint32_t i = 0; i < k->num && k->swaps; i++) {
    msc_box box, buffer;
    const mscrt_variable *v = &p->parameter[k->parameter[i]];
    mscrt_variable_box(p, v, 0, &box, &buffer);
    row_bytes[i] = mscrt_variable_bytes(v) / (uint64_t)buffer.size[0];
    k->kernel[i] = plan_cache_kernels(t, i);
    if (k->kernel[i] >= plan_plan_kernels_num(p->root))
      return bad_cache("kernel %u of %u", k->kernel[i], plan_plan_kernels_num(p->root));
    plan_kernel f = plan_plan_kernels(p->root, k->kernel[i]);
    if (plan_kernel_threads(f) != MSC_ROW_SWAP_THREADS || plan_kernel_num_buffers(f) != MSC_ROW_SWAP_BUFFERS ||
        plan_kernel_num_dims(f) != MSC_ROW_SWAP_DIMS || plan_kernel_num_scalars(f) ||
        k->at[i].offset % msc_row_unit(row_bytes[i]))
      return bad_cache("kernel %s does not swap rows", plan_kernel_name(f));
  }
  if (k->swaps && (k->pool.space != PLAN_SPACE_HOST || k->pool.offset % MSC_ROW_POOL_LINE || k->pool.offset > room ||
                   k->pool.bytes > room - k->pool.offset ||
                   k->pool.bytes < msc_row_pool_at(k->swaps, k->num, row_bytes)))
    return bad_cache("its pool has no room in host memory");
  return NULL;
}

static mscrt_status *check_cache(const mscrt_plan *p, plan_cache t, mscrt_plan_cache *out) {
  if (plan_cache_rows(t) < 1 || plan_cache_rows(t) > INT32_MAX / 2)
    return bad_cache("%" PRIu64 " rows", plan_cache_rows(t));
  uint32_t num = plan_cache_parameters_num(t);
  if (num < 1 || num > MSCRT_MOST_CACHED || plan_cache_at_num(t) != num) return bad_cache("%u values", num);
  *out = (mscrt_plan_cache){.num = num, .rows = (uint32_t)plan_cache_rows(t), .index = plan_cache_index(t)};
  for (uint32_t i = 0; i < num; i++) {
    out->parameter[i] = plan_cache_parameters(t, i), out->at[i] = plan_cache_at(t, i);
    MSCRT_CHECK(check_cached(p, out, i));
  }
  MSCRT_CHECK(check_index(p, out));
  return p->target->has_images ? check_swaps(p, t, out) : NULL;
}

mscrt_status *mscrt_check_caches(mscrt_plan *p) {
  p->num_caches = plan_plan_caches_num(p->root);
  MSCRT_CHECK(mscrt_new_array(&p->cache, p->num_caches));
  for (uint32_t i = 0; i < p->num_caches; i++)
    MSCRT_CHECK(mscrt_add_prefix(check_cache(p, plan_plan_caches(p->root, i), &p->cache[i]), "cache %u", i));
  return NULL;
}
