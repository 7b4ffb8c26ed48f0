/* check_call.c: checks every call of a plan: its operands lie inside their spaces and are as large as it needs. */
#include <stdlib.h>
#include <string.h>

#include "runtime/kernels/builtin.h"
#include "runtime/plan/plan.h"

static const char *const space_names[MSCRT_NUM_SPACES] = {"persistent", "scratch",    "input",      "constant",
                                                          "tile",       "carried_fb", "carried_fw", "carried_bw",
                                                          "host",       "disk"};

/* Checks that a ref lies inside its space. The scratch of a section may be smaller than that of the largest section. */
static mscrt_status *check_range(const mscrt_plan *p, plan_section section, plan_ref r) {
  uint64_t room = r.space == PLAN_SPACE_SCRATCH ? plan_section_scratch_bytes(section)
                                                : mscrt_room(p, plan_section_stage(section), r.space);
  if (r.space == PLAN_SPACE_INPUT) room *= plan_section_copies(section);
  if (r.offset > room || r.bytes > room - r.offset)
    return mscrt_bad_plan("bytes %" PRIu64 " + %" PRIu64 " of space %s, which has %" PRIu64, r.offset, r.bytes,
                          space_names[r.space], room);
  if (r.written > 1) return mscrt_bad_plan("written is %d", r.written);
  if (r.written && (r.space == PLAN_SPACE_CONSTANT || r.space == PLAN_SPACE_INPUT))
    return mscrt_bad_plan("space %s is not written", space_names[r.space]);
  if (r.space == PLAN_SPACE_TILE && r.offset != 0) return mscrt_bad_plan("a tile starts at 0");
  return NULL;
}

/* Checks a ref of a kernel that the host runs beside a GPU. */
static mscrt_status *check_host_ref(const mscrt_plan *p, plan_section section, plan_ref r) {
  if (r.space != PLAN_SPACE_HOST && r.space != PLAN_SPACE_CONSTANT) return mscrt_bad_plan("space %d", r.space);
  return check_range(p, section, r);
}

/* Checks a ref that a call computes with, which must be on the device. */
static mscrt_status *check_ref(const mscrt_plan *p, plan_section section, plan_ref r, bool tile_allowed) {
  if (mscrt_is_offloaded(r.space) || (r.space == PLAN_SPACE_TILE && !tile_allowed))
    return mscrt_bad_plan("space %d", r.space);
  return check_range(p, section, r);
}

/* Checks a ref of a kernel of the device; where that is the host, kernels update what lives in its memory there. */
static mscrt_status *check_kernel_ref(const mscrt_plan *p, plan_section section, plan_ref r, bool tile_allowed) {
  bool away = r.space == PLAN_SPACE_HOST && !p->target->has_images;
  return away ? check_range(p, section, r) : check_ref(p, section, r, tile_allowed);
}

static mscrt_status *check_dim_starts(const mscrt_plan *p, plan_call c) {
  for (uint32_t i = 0; i < plan_call_starts_num(c); i++) {
    plan_start s = plan_call_starts(c, i);
    uint32_t layout = plan_start_layout(s), rank = plan_start_shape_num(s);
    int64_t shape[MSCRT_MAX_RANK];
    uint64_t bytes;
    if (plan_start_index(s) >= plan_call_dims_num(c))
      return mscrt_bad_plan("start %u is for dimension argument %u", i, plan_start_index(s));
    if (layout >= p->num_layouts || (uint32_t)p->layout[layout].rank != rank || plan_start_dim(s) >= rank)
      return mscrt_bad_plan("start %u has no such layout or dimension", i);
    memcpy(shape, plan_start_shape_data(s), rank * sizeof *shape);
    if (!mscrt_shape_bytes((int)rank, shape, 1, &bytes)) return mscrt_bad_plan("start %u: the shape is too large", i);
    if (!msc_box_shape_ok(&p->layout[layout], shape))
      return mscrt_bad_plan("start %u: the parts do not add up to the shape", i);
  }
  return NULL;
}

/* Bytes of buffer i of a kernel, or of what all units have of it together, if each has a tile of its own. */
static uint64_t bytes_in_all_units(plan_call c, uint32_t i) {
  plan_ref r = plan_call_buffers(c, i);
  uint64_t grain = plan_call_grain(c), all;
  if (r.space != PLAN_SPACE_TILE || !grain) return r.bytes;
  return __builtin_mul_overflow(r.bytes / grain, plan_call_extent(c), &all) ? 0 : all;
}

/* Checks that the buffers of a built-in kernel hold what its dims say it touches. */
static mscrt_status *check_builtin(plan_call c, plan_kernel k, uint32_t num) {
  uint64_t bytes[MSC_MOST_BUILTIN_BUFFERS] = {0};
  int64_t dims[MSC_MOST_BUILTIN_DIMS] = {0};
  uint32_t num_dims = plan_call_dims_num(c);
  if (!plan_kernel_builtin(k)) return NULL;
  uint32_t scalars = plan_kernel_builtin(k) == MSC_BUILTIN_LAZY ? MSC_LAZY_SCALARS : 0;
  if (plan_call_scalars_num(c) != scalars)
    return mscrt_bad_plan("%u scalars for kernel %s, which reads %u", plan_call_scalars_num(c), plan_kernel_name(k),
                          scalars);
  for (uint32_t i = 0; i < num && i < MSC_MOST_BUILTIN_BUFFERS; i++) bytes[i] = bytes_in_all_units(c, i);
  for (uint32_t i = 0; i < num_dims && i < MSC_MOST_BUILTIN_DIMS; i++) dims[i] = plan_call_dims(c, i);
  if (mscrt_builtin_fits(plan_kernel_builtin(k), num, bytes, num_dims, dims, plan_call_extent(c))) return NULL;
  return mscrt_bad_plan("its buffers do not hold what kernel %s touches", plan_kernel_name(k));
}

static mscrt_status *check_kernel_call(const mscrt_plan *p, plan_section section, plan_call c, bool epilogue) {
  if (plan_call_index(c) >= plan_plan_kernels_num(p->root))
    return mscrt_bad_plan("kernel %u of %u", plan_call_index(c), plan_plan_kernels_num(p->root));
  plan_kernel k = plan_plan_kernels(p->root, plan_call_index(c));
  uint32_t num = plan_call_buffers_num(c);
  bool on_host = plan_call_kind(c) == PLAN_CALL_KIND_HOST_KERNEL;
  if (p->target->has_images ? on_host != !plan_kernel_threads(k) : on_host)
    return mscrt_bad_plan("kernel %s is of another machine", plan_kernel_name(k));
  if (num != plan_kernel_num_buffers(k) || plan_call_dims_num(c) != plan_kernel_num_dims(k) ||
      plan_call_scalars_num(c) != plan_kernel_num_scalars(k))
    return mscrt_bad_plan("%u buffers, %u dimensions and %u scalars for kernel %s, which takes %u, %u and %u", num,
                          plan_call_dims_num(c), plan_call_scalars_num(c), plan_kernel_name(k),
                          plan_kernel_num_buffers(k), plan_kernel_num_dims(k), plan_kernel_num_scalars(k));
  for (uint32_t i = 0; i < num; i++) {
    plan_ref r = plan_call_buffers(c, i);
    bool in_tile = epilogue || mscrt_is_tile_of_kernel(p, c, i);
    mscrt_status *s = on_host ? check_host_ref(p, section, r) : check_kernel_ref(p, section, r, in_tile);
    if (s) return mscrt_add_prefix(s, "buffer %u", i);
  }
  MSCRT_CHECK(check_builtin(c, k, num));
  uint64_t extent = plan_call_extent(c), grain = plan_call_grain(c);
  if (extent > INT64_MAX || grain < 1 || grain > INT64_MAX ||
      extent / grain >= (on_host ? (uint64_t)INT64_MAX : p->target->most_units))
    return mscrt_bad_plan("%" PRIu64 " items in units of %" PRIu64, extent, grain);
  if (plan_call_served(c) > 2) return mscrt_bad_plan("served by %u", plan_call_served(c));
  if (plan_call_checks(c)) {
    plan_ref flag = plan_call_buffers(c, num ? num - 1 : 0);
    if (!num || epilogue || flag.space != (on_host ? PLAN_SPACE_HOST : PLAN_SPACE_SCRATCH) || flag.bytes < 4 ||
        flag.offset % 4 || !flag.written)
      return mscrt_bad_plan("its error flag is not 4 bytes of scratch that it writes");
  }
  return check_dim_starts(p, c);
}

static bool refs_overlap(plan_ref a, plan_ref b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/* Checks the kernel that takes the tiles of another one, each a unit of its items: it has as many items for each of
 * these as there are elements, and writes to nothing that other units read. */
static mscrt_status *check_taker(const mscrt_plan *p, plan_section section, plan_call c) {
  plan_call e = plan_call_epilogue(c);
  uint32_t num = plan_call_buffers_num(c), tile = 0;
  uint64_t extent = plan_call_extent(c), items = plan_call_extent(e), row_bytes;
  while (tile < num && !mscrt_is_tile_of_kernel(p, c, tile)) tile++;
  if (tile == num) return mscrt_bad_plan("a kernel has no epilogue");
  if (plan_call_kind(e) != PLAN_CALL_KIND_KERNEL || has_plan_call_epilogue(e) || plan_call_checks(e))
    return mscrt_bad_plan("its epilogue is no kernel, or one that checks");
  row_bytes = plan_call_buffers(c, tile).bytes / plan_call_grain(c);
  if (!extent || !items || items % extent || row_bytes % (items / extent) ||
      row_bytes / (items / extent) > (uint64_t)INT64_MAX)
    return mscrt_bad_plan("its epilogue has %" PRIu64 " items for %" PRIu64 " rows of %" PRIu64 " bytes", items, extent,
                          row_bytes);
  for (uint32_t i = 0; i < plan_call_buffers_num(e); i++) {
    plan_ref r = plan_call_buffers(e, i);
    for (uint32_t j = 0; j < num; j++)
      if (j != tile && r.written && refs_overlap(r, plan_call_buffers(c, j)))
        return mscrt_bad_plan("its epilogue writes to buffer %u, which other units read", j);
  }
  return mscrt_add_prefix(check_kernel_call(p, section, e, true), "epilogue");
}

static mscrt_status *check_operand_ref(plan_ref r, uint64_t elems, mscrt_dtype dtype) {
  uint64_t need = elems * mscrt_dtype_bytes(dtype);
  if (r.bytes < need) return mscrt_bad_plan("%" PRIu64 " bytes where %" PRIu64 " are needed", r.bytes, need);
  return r.offset % mscrt_dtype_bytes(dtype) ? mscrt_bad_plan("its address is not aligned") : NULL;
}

typedef struct {
  uint64_t elems;
  mscrt_dtype dtype;
  bool written;
} product_operand;

static product_operand product_operand_of(const mscrt_matmul *m, uint32_t i) {
  uint64_t last = (uint64_t)(m->batch - 1), c = (uint64_t)(m->batch * m->m * m->n);
  mscrt_dtype dtype = mscrt_result_dtype(m);
  if (i == 0) return (product_operand){(uint64_t)(m->m * m->k) + last * (uint64_t)m->stride_a, m->dtype, false};
  if (i == 1) return (product_operand){(uint64_t)(m->n * m->k) + last * (uint64_t)m->stride_b, m->dtype, false};
  if (i == m->at[MSCRT_AT_BIAS]) return (product_operand){(uint64_t)m->n, dtype, false};
  if (i == m->at[MSCRT_AT_SUM]) return (product_operand){(uint64_t)(m->sum_a ? m->m : m->n), dtype, true};
  if (i != m->at[MSCRT_AT_AUX]) return (product_operand){c, dtype, i == 2};
  if (m->relu) return (product_operand){(uint64_t)m->m * (uint64_t)((m->n + 127) / 128 * 16), MSCRT_U8, !m->slope};
  return (product_operand){c, dtype, !m->slope};
}

/* Checks that no result overlaps operand i; only c may be the operand that is added to it. */
static mscrt_status *check_results_apart(const mscrt_matmul *m, plan_call c, uint32_t i) {
  plan_ref r = plan_call_buffers(c, i);
  for (uint32_t k = 2; k < m->num_operands; k++) {
    plan_ref y = plan_call_buffers(c, k);
    bool in_place = k == 2 && i == m->at[MSCRT_AT_ADD] && y.offset == r.offset && y.bytes == r.bytes;
    if (k != i && product_operand_of(m, k).written && refs_overlap(r, y) && !in_place)
      return mscrt_bad_plan("a result lies in it");
  }
  return NULL;
}

/* Checks a kernel that makes a product's results from the plain product on a GPU: it writes to these and to the
 * workspace alone. */
static mscrt_status *check_rest(const mscrt_plan *p, plan_section section, const mscrt_matmul *m, plan_call c,
                                plan_call e) {
  if (plan_call_kind(e) != PLAN_CALL_KIND_KERNEL || plan_call_checks(e))
    return mscrt_bad_plan("its epilogue is no kernel, or one that checks");
  for (uint32_t i = 0; i < plan_call_buffers_num(e); i++) {
    plan_ref r = plan_call_buffers(e, i);
    bool known = !r.written || r.space == PLAN_SPACE_TILE;
    for (uint32_t k = 2; k < m->num_operands && !known; k++) {
      plan_ref y = plan_call_buffers(c, k);
      known = y.written && y.space == r.space && y.offset == r.offset && y.bytes == r.bytes;
    }
    if (!known) return mscrt_bad_plan("its epilogue writes to buffer %u, which is no result", i);
  }
  return mscrt_add_prefix(check_kernel_call(p, section, e, true), "epilogue");
}

enum { MOST_RESTS = 4 };

static mscrt_status *check_rests(const mscrt_plan *p, plan_section section, const mscrt_matmul *m, plan_call c) {
  plan_call e = c;
  for (int i = 0; has_plan_call_epilogue(e); i++) {
    if (i == MOST_RESTS) return mscrt_bad_plan("more than %d kernels do its rest", MOST_RESTS);
    e = plan_call_epilogue(e);
    MSCRT_CHECK(check_rest(p, section, m, c, e));
  }
  return NULL;
}

static mscrt_status *check_matmul_call(const mscrt_plan *p, plan_section section, plan_call c) {
  if (plan_call_index(c) >= p->num_matmuls)
    return mscrt_bad_plan("matmul %u of %u", plan_call_index(c), p->num_matmuls);
  const mscrt_matmul *m = &p->matmul[plan_call_index(c)];
  uint32_t num = plan_call_buffers_num(c);
  if (num != m->num_operands) return mscrt_bad_plan("%u operands", num);
  for (uint32_t i = 0; i < num; i++) {
    plan_ref r = plan_call_buffers(c, i);
    product_operand o = product_operand_of(m, i);
    bool in_tile = i == 2 && m->tile_bytes > 0;
    mscrt_status *s = check_ref(p, section, r, in_tile);
    if (!s && in_tile != (r.space == PLAN_SPACE_TILE)) s = mscrt_bad_plan("space %s", space_names[r.space]);
    if (!s && !in_tile) s = check_operand_ref(r, o.elems, o.dtype);
    if (!s && r.written != o.written) s = mscrt_bad_plan("only results are written");
    if (s || (s = check_results_apart(m, c, i))) return mscrt_add_prefix(s, "operand %u", i);
  }
  if (has_plan_call_epilogue(c) && p->target->calls_whole) return check_rests(p, section, m, c);
  if (!has_plan_call_epilogue(c)) return m->tile_bytes ? mscrt_bad_plan("tiles that nobody takes") : NULL;
  plan_call e = plan_call_epilogue(c);
  if (plan_call_kind(e) != PLAN_CALL_KIND_KERNEL || has_plan_call_epilogue(e))
    return mscrt_bad_plan("its epilogue is no kernel");
  uint64_t elems = product_operand_of(m, 2).elems;
  if (plan_call_extent(e) != elems)
    return mscrt_bad_plan("its epilogue has %" PRIu64 " items for %" PRIu64 " elements", plan_call_extent(e), elems);
  for (uint32_t i = 0; i < plan_call_buffers_num(e); i++)
    for (uint32_t j = 0; j < num; j++)
      if (j != 2 && plan_call_buffers(e, i).written && refs_overlap(plan_call_buffers(e, i), plan_call_buffers(c, j)))
        return mscrt_bad_plan("its epilogue writes to operand %u, which other tiles read", j);
  return mscrt_add_prefix(check_kernel_call(p, section, e, true), "epilogue");
}

/* The number of elements from the first element of all heads at one position to the last. */
static uint64_t span_of_heads(const mscrt_graph_tensor *t) {
  return (uint64_t)(t->dim[1] - 1) * (uint64_t)t->stride[1] + (uint64_t)(t->dim[3] - 1) * (uint64_t)t->stride[3] + 1;
}

/* True if two results of an attention share rows: they lie side by side in rows of equal length, one row per
 * position. */
static bool share_rows(const mscrt_graph *g, plan_call c, uint32_t i, uint32_t k) {
  const mscrt_graph_tensor *a = &g->operand[i], *b = &g->operand[k];
  uint64_t row = (uint64_t)a->stride[2], bytes = mscrt_dtype_bytes(a->dtype);
  if (!mscrt_is_attention(g) || a->dtype != b->dtype || a->stride[2] != b->stride[2] || (uint64_t)a->stride[0] % row ||
      (uint64_t)b->stride[0] % row)
    return false;
  uint64_t at = plan_call_buffers(c, i).offset / bytes % row, other = plan_call_buffers(c, k).offset / bytes % row,
           behind = (other + row - at) % row;
  return behind >= span_of_heads(a) && behind + span_of_heads(b) <= row;
}

/* Checks a graph call: results overlap no other operand, and every operand is aligned as the library needs. */
static mscrt_status *check_graph_call(const mscrt_plan *p, plan_section section, plan_call c) {
  enum { ALIGNMENT = 16 };
  if (plan_call_index(c) >= p->num_graphs) return mscrt_bad_plan("graph %u of %u", plan_call_index(c), p->num_graphs);
  const mscrt_graph *g = &p->graph[plan_call_index(c)];
  uint32_t num = plan_call_buffers_num(c), first_result = g->num_operands - g->num_results;
  if (num != g->num_operands) return mscrt_bad_plan("%u operands", num);
  for (uint32_t i = 0; i < num; i++) {
    plan_ref r = plan_call_buffers(c, i);
    mscrt_status *s = check_ref(p, section, r, false);
    if (!s) s = check_operand_ref(r, mscrt_graph_span(&g->operand[i]), g->operand[i].dtype);
    if (!s && r.offset % ALIGNMENT) s = mscrt_bad_plan("its address is not aligned");
    if (!s && r.written != (i >= first_result)) s = mscrt_bad_plan("only results are written");
    for (uint32_t k = first_result; k < num && !s; k++)
      if (k != i && refs_overlap(r, plan_call_buffers(c, k)) && !(i >= first_result && share_rows(g, c, i, k)))
        s = mscrt_bad_plan("a result lies in it");
    if (s) return mscrt_add_prefix(s, "operand %u", i);
  }
  return NULL;
}

static uint64_t source_elems(const mscrt_collective *c) {
  int64_t size[MSCRT_MAX_RANK];
  uint64_t elems = 0;
  memcpy(size, c->shape, sizeof size);
  if (c->from) msc_box_largest(c->from, c->shape, size);
  mscrt_shape_bytes(c->rank, size, 1, &elems);
  return elems;
}

static uint64_t destination_elems(const mscrt_collective *c) {
  int64_t size[MSCRT_MAX_RANK];
  uint64_t elems = 0;
  mscrt_largest_destination(c, size);
  mscrt_shape_bytes(c->rank, size, 1, &elems);
  return elems;
}

/* Checks value i of a collective. */
static mscrt_status *check_value_of_collective(const mscrt_plan *p, plan_section section, plan_call c, uint32_t i) {
  const mscrt_collective *k = &p->collective[plan_call_index(c)];
  if (k->num_members) k = &p->collective[k->members[i]];
  plan_ref src = plan_call_buffers(c, 2 * i), dst = plan_call_buffers(c, 2 * i + 1);
  MSCRT_CHECK(mscrt_add_prefix(check_ref(p, section, src, false), "source"));
  MSCRT_CHECK(mscrt_add_prefix(check_ref(p, section, dst, false), "destination"));
  MSCRT_CHECK(mscrt_add_prefix(check_operand_ref(src, source_elems(k), k->dtype), "source"));
  MSCRT_CHECK(mscrt_add_prefix(check_operand_ref(dst, destination_elems(k), k->dtype), "destination"));
  if (src.space == PLAN_SPACE_CONSTANT || !dst.written || src.written)
    return mscrt_bad_plan("its source is a constant, or not only its destination is written");
  bool in_place = src.space == dst.space && src.offset == dst.offset && k->verb == MSC_ALL_REDUCE;
  return refs_overlap(src, dst) && !in_place ? mscrt_bad_plan("source and destination overlap") : NULL;
}

static int compare_refs(const void *a, const void *b) {
  const plan_ref *x = a, *y = b;
  if (x->space != y->space) return x->space < y->space ? -1 : 1;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Checks that no value of a collective is written where another is read or written. */
static mscrt_status *check_values_apart(plan_call c) {
  uint32_t num = 0;
  plan_ref *r;
  mscrt_status *s = NULL;
  if (plan_call_buffers_num(c) <= 2) return NULL;
  MSCRT_CHECK(mscrt_new_array(&r, plan_call_buffers_num(c)));
  for (uint32_t i = 0; i < plan_call_buffers_num(c); i += 2) {
    plan_ref src = plan_call_buffers(c, i), dst = plan_call_buffers(c, i + 1);
    if (dst.bytes) r[num++] = dst;
    /* equal: the value is reduced in place */
    if (src.bytes && (src.space != dst.space || src.offset != dst.offset)) r[num++] = src;
  }
  qsort(r, num, sizeof *r, compare_refs);
  for (uint64_t i = 0, end = 0, written = 0; i < num && !s; i++) {
    if (i == 0 || r[i].space != r[i - 1].space) end = written = 0;
    if (r[i].offset < (r[i].written ? end : written)) s = mscrt_bad_plan("its values overlap");
    if (r[i].offset + r[i].bytes > end) end = r[i].offset + r[i].bytes;
    if (r[i].written && r[i].offset + r[i].bytes > written) written = r[i].offset + r[i].bytes;
  }
  free(r);
  return s;
}

static mscrt_status *check_collective_call(const mscrt_plan *p, plan_section section, plan_call c) {
  if (plan_call_index(c) >= p->num_collectives)
    return mscrt_bad_plan("collective %u of %u", plan_call_index(c), p->num_collectives);
  uint32_t num = p->collective[plan_call_index(c)].num_members;
  if (num == 0) num = 1;
  if (plan_call_buffers_num(c) / 2 != num || plan_call_buffers_num(c) % 2)
    return mscrt_bad_plan("%u buffers", plan_call_buffers_num(c));
  for (uint32_t i = 0; i < num; i++) {
    mscrt_status *s = check_value_of_collective(p, section, c, i);
    if (s) return num > 1 ? mscrt_add_prefix(s, "value %u", i) : s;
  }
  return check_values_apart(c);
}

static mscrt_status *check_message_call(const mscrt_plan *p, plan_section section, plan_call c) {
  if (plan_call_index(c) >= plan_plan_messages_num(p->root))
    return mscrt_bad_plan("message %u of %u", plan_call_index(c), plan_plan_messages_num(p->root));
  plan_message m = plan_plan_messages(p->root, plan_call_index(c));
  if (plan_call_buffers_num(c) != 1) return mscrt_bad_plan("%u buffers", plan_call_buffers_num(c));
  plan_ref r = plan_call_buffers(c, 0);
  MSCRT_CHECK(check_ref(p, section, r, false));
  if (r.bytes < plan_message_bytes(m))
    return mscrt_bad_plan("%" PRIu64 " bytes for a message of %" PRIu64, r.bytes, plan_message_bytes(m));
  if (plan_section_stage(section) != (r.written ? plan_message_to(m) : plan_message_from(m)))
    return mscrt_bad_plan("message %u is not this stage's", plan_call_index(c));
  return NULL;
}

/* A transfer moves all of its destination, between the device and where a value lives. */
static mscrt_status *check_transfer_call(const mscrt_plan *p, plan_section section, plan_call c) {
  if (plan_call_buffers_num(c) != 2) return mscrt_bad_plan("%u buffers", plan_call_buffers_num(c));
  plan_ref src = plan_call_buffers(c, 0), dst = plan_call_buffers(c, 1);
  for (uint32_t i = 0; i < 2; i++) {
    plan_ref r = plan_call_buffers(c, i);
    if (r.space >= MSCRT_NUM_SPACES || r.space == PLAN_SPACE_TILE) return mscrt_bad_plan("space %d", r.space);
    MSCRT_CHECK(check_range(p, section, r));
    if (r.space == PLAN_SPACE_DISK && r.offset % MSCRT_DISK_PAGE)
      return mscrt_bad_plan("it begins within a page of the disk");
  }
  if (mscrt_is_offloaded(src.space) == mscrt_is_offloaded(dst.space))
    return mscrt_bad_plan("from space %s to %s", space_names[src.space], space_names[dst.space]);
  if (src.bytes != dst.bytes || src.written || !dst.written)
    return mscrt_bad_plan("%" PRIu64 " bytes to %" PRIu64 ", or not only its destination is written", src.bytes,
                          dst.bytes);
  return NULL;
}

/* Checks a ref of an admit, which beside a GPU the host runs. */
static mscrt_status *check_ref_of_admit(const mscrt_plan *p, plan_section section, plan_ref r) {
  return p->target->has_images ? check_host_ref(p, section, r) : check_ref(p, section, r, false);
}

/* An admit reads buffers with numbers of rows, and writes as many buffers with their slots in a cache. dims: whether
 * rows are updated, then the element type of each buffer of numbers. */
static mscrt_status *check_admit_call(const mscrt_plan *p, plan_section section, plan_call c) {
  uint32_t all = plan_call_buffers_num(c), num = all / 2;
  if (plan_call_index(c) >= p->num_caches) return mscrt_bad_plan("cache %u of %u", plan_call_index(c), p->num_caches);
  if (p->parameter[p->cache[plan_call_index(c)].parameter[0]].stage != plan_section_stage(section))
    return mscrt_bad_plan("cache %u is not this stage's", plan_call_index(c));
  if (!num || all % 2 || plan_call_dims_num(c) != num + 1 || plan_call_starts_num(c))
    return mscrt_bad_plan("%u buffers with %u dimensions", all, plan_call_dims_num(c));
  uint64_t most = 0; /* rows that it brings */
  for (uint32_t i = 0; i < num; i++) {
    plan_ref numbers = plan_call_buffers(c, i), slots = plan_call_buffers(c, num + i);
    int64_t dtype = plan_call_dims(c, i + 1);
    MSCRT_CHECK(mscrt_add_prefix(check_ref_of_admit(p, section, numbers), "buffer %u", i));
    MSCRT_CHECK(mscrt_add_prefix(check_ref_of_admit(p, section, slots), "buffer %u", num + i));
    most += slots.bytes / 4;
    if (dtype != MSCRT_I32 && dtype != MSCRT_I64) return mscrt_bad_plan("numbers of rows of type %" PRId64, dtype);
    mscrt_status *s = check_operand_ref(numbers, slots.bytes / 4, (mscrt_dtype)dtype);
    if (!s) s = check_operand_ref(slots, slots.bytes / 4, MSCRT_I32);
    if (!s && (numbers.written || !slots.written)) s = mscrt_bad_plan("only results are written");
    for (uint32_t k = 0; k < all && !s; k++)
      if (k != num + i && refs_overlap(slots, plan_call_buffers(c, k)))
        s = mscrt_bad_plan("a result lies in buffer %u", k);
    if (s) return mscrt_add_prefix(s, "buffer %u", i);
  }
  const mscrt_plan_cache *k = &p->cache[plan_call_index(c)];
  if (p->target->has_images && k->swaps < k->rows && k->swaps < most)
    return mscrt_bad_plan("%" PRIu64 " rows for a pool of %u", most, k->swaps);
  return NULL;
}

static mscrt_status *check_call(const mscrt_plan *p, plan_section section, plan_call c) {
  switch (plan_call_kind(c)) {
    case PLAN_CALL_KIND_KERNEL:
    case PLAN_CALL_KIND_HOST_KERNEL:
      MSCRT_CHECK(check_kernel_call(p, section, c, false));
      return has_plan_call_epilogue(c) ? check_taker(p, section, c) : NULL;
    case PLAN_CALL_KIND_MATMUL: return check_matmul_call(p, section, c);
    case PLAN_CALL_KIND_COLLECTIVE:
      return has_plan_call_epilogue(c) ? mscrt_bad_plan("a collective has no epilogue")
                                       : check_collective_call(p, section, c);
    case PLAN_CALL_KIND_MESSAGE:
      return has_plan_call_epilogue(c) ? mscrt_bad_plan("a message has no epilogue")
                                       : check_message_call(p, section, c);
    case PLAN_CALL_KIND_GRAPH:
      return has_plan_call_epilogue(c) ? mscrt_bad_plan("a graph has no epilogue") : check_graph_call(p, section, c);
    case PLAN_CALL_KIND_TRANSFER:
      return has_plan_call_epilogue(c) ? mscrt_bad_plan("a transfer has no epilogue")
                                       : check_transfer_call(p, section, c);
    case PLAN_CALL_KIND_ADMIT:
      return has_plan_call_epilogue(c) ? mscrt_bad_plan("an admit has no epilogue") : check_admit_call(p, section, c);
    default: return mscrt_bad_plan("kind %d", plan_call_kind(c));
  }
}

/* Checks that threads can run a call strip by strip: strips divide its items or rows, and it needs no memory of a
 * thread or an input slot. */
static mscrt_status *check_strips(const mscrt_plan *p, plan_section section, uint32_t index) {
  plan_call c = plan_section_calls(section, index);
  uint32_t strips = plan_call_strips(c);
  if (plan_call_goes_on(c) && (!index || !strips || plan_call_strips(plan_section_calls(section, index - 1)) != strips))
    return mscrt_bad_plan("it goes on in %u strips, and the call before it has others", strips);
  if (!strips) return NULL;
  for (uint32_t i = 0; i < plan_call_buffers_num(c); i++) {
    uint8_t space = plan_call_buffers(c, i).space;
    if (space != PLAN_SPACE_PERSISTENT && space != PLAN_SPACE_SCRATCH && space != PLAN_SPACE_CONSTANT)
      return mscrt_bad_plan("buffer %u of a call in strips is in space %s", i, space_names[space]);
  }
  bool is_kernel = plan_call_kind(c) == PLAN_CALL_KIND_KERNEL,
       fits = is_kernel || plan_call_kind(c) == PLAN_CALL_KIND_MATMUL;
  if (fits && is_kernel) {
    fits = plan_call_extent(c) % strips == 0 && !plan_call_checks(c) &&
           !plan_kernel_builtin(plan_plan_kernels(p->root, plan_call_index(c)));
  } else if (fits) {
    const mscrt_matmul *m = &p->matmul[plan_call_index(c)];
    fits = m->m % strips == 0 && m->b_lies && m->n % m->width == 0 && !m->transpose_a && m->batch == 1 &&
           !m->tile_bytes && !has_plan_call_epilogue(c);
  }
  return fits ? NULL : mscrt_bad_plan("it has no %u strips", strips);
}

bool mscrt_is_tile_of_kernel(const mscrt_plan *p, plan_call c, uint32_t i) {
  plan_ref r = plan_call_buffers(c, i);
  uint32_t kernel = plan_call_index(c);
  return plan_call_kind(c) == PLAN_CALL_KIND_KERNEL && has_plan_call_epilogue(c) && r.space == PLAN_SPACE_TILE &&
         r.written && i == MSC_SEGMENTS_Y && plan_call_grain(c) && r.bytes % plan_call_grain(c) == 0 &&
         r.bytes <= MSCRT_MOST_TILE_BYTES && kernel < plan_plan_kernels_num(p->root) &&
         plan_kernel_builtin(plan_plan_kernels(p->root, kernel)) == MSC_BUILTIN_SEGMENTS;
}

void mscrt_note_tiles_of_kernels(mscrt_plan *p) {
  for (uint32_t i = 0; i < p->num_sections; i++) {
    plan_section section = plan_plan_sections(p->root, i);
    for (uint32_t j = 0; j < plan_section_calls_num(section); j++) {
      plan_call c = plan_section_calls(section, j);
      for (uint32_t k = 0; k < plan_call_buffers_num(c); k++) {
        uint64_t bytes = mscrt_is_tile_of_kernel(p, c, k) ? plan_call_buffers(c, k).bytes : 0;
        if (bytes > p->space_bytes[PLAN_SPACE_TILE]) p->space_bytes[PLAN_SPACE_TILE] = bytes;
      }
    }
  }
}

mscrt_status *mscrt_check_calls(const mscrt_plan *p) {
  for (uint32_t i = 0; i < p->num_sections; i++) {
    plan_section section = plan_plan_sections(p->root, i);
    for (uint32_t j = 0; j < plan_section_calls_num(section); j++) {
      plan_call c = plan_section_calls(section, j);
      mscrt_status *s = check_call(p, section, c);
      if (!s) s = check_strips(p, section, j);
      const char *name = plan_call_name(c);
      if (s)
        return mscrt_add_prefix(s, "section '%s', call %u%s%s", plan_section_name(section), j, name ? " of " : "",
                                name ? name : "");
    }
  }
  return NULL;
}
