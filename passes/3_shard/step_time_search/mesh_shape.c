/* mesh_shape.c: a number of devices and a cluster -> the shapes of meshes that are searched (see mesh_shape.h). */
#include "passes/3_shard/step_time_search/mesh_shape.h"

#include <string.h>

#include "passes/time_model.h"

int shard_count_primes(int64_t n) {
  int num = 0;
  for (int64_t p = 2; n > 1; p++) {
    if (p * p > n) p = n;
    for (; n % p == 0; n /= p) num++;
  }
  return num;
}

/* Finds the level of links of each axis; false: an axis crosses the border between two levels. */
static bool find_levels(const msc_cluster *cluster, const shard_mesh_shape *s, int *out_level) {
  msc_mesh mesh = {.num_axes = s->num};
  msc_cost cost;
  bool whole = true;
  for (int a = 0; a < s->num; a++) mesh.axis[a].size = s->size[a];
  msc_cost_of(cluster, &mesh, &cost);
  for (int a = 0; a < s->num; a++) {
    out_level[a] = msc_cost_level(&cost, (msc_subaxis){(uint16_t)a, 1, (uint32_t)s->size[a]});
    if (out_level[a] > 0 && cluster->level[out_level[a] - 1].size % cost.stride[a] == 0 &&
        cluster->level[out_level[a] - 1].size > cost.stride[a])
      whole = false;
  }
  return whole;
}

static bool is_descending_within_levels(const shard_mesh_shape *s, const int *level) {
  for (int a = 1; a < s->num; a++)
    if (level[a] == level[a - 1] && s->size[a] > s->size[a - 1]) return false;
  return true;
}

typedef enum { WHOLE_LEVELS, STRADDLING, ALL } which_shapes;

static bool is_wanted(const msc_cluster *cluster, const shard_mesh_shape *s, which_shapes which) {
  int level[SHARD_MESH_AXES];
  return which == ALL ||
         (find_levels(cluster, s, level) == (which == WHOLE_LEVELS) && is_descending_within_levels(s, level));
}

/* Adds the shapes in which axes before `axis` have the sizes in s and the others multiply to `left`. */
static void add_shapes(const msc_cluster *cluster, shard_mesh_shape s, int axis, int64_t left, which_shapes which,
                       shard_mesh_shape *out, int *num) {
  if (axis + 1 < s.num) {
    for (int64_t k = 2; k <= left / 2; k++) {
      if (left % k) continue;
      s.size[axis] = k;
      add_shapes(cluster, s, axis + 1, left / k, which, out, num);
    }
    return;
  }
  s.size[axis] = left;
  if (left < 2 && s.num > 1) return;
  if (*num == SHARD_MAX_SHAPES || !is_wanted(cluster, &s, which)) return;
  out[(*num)++] = s;
}

bool shard_are_all_shapes(int64_t devices) { return devices <= SHARD_MOST_IN_ALL_ORDERS; }

int shard_mesh_shapes(const msc_cluster *cluster, int64_t devices, shard_mesh_shape *out_shape) {
  shard_mesh_shape s;
  int primes = shard_count_primes(devices),
      most = primes < 1                 ? 1
             : primes < SHARD_MESH_AXES ? primes
                                        : SHARD_MESH_AXES,
      num = 0;
  memset(&s, 0, sizeof s);
  s.num = most;
  if (!shard_are_all_shapes(devices)) {
    add_shapes(cluster, s, 0, devices, WHOLE_LEVELS, out_shape, &num);
    if (num == 0) add_shapes(cluster, s, 0, devices, STRADDLING, out_shape, &num);
    return num;
  }
  for (s.num = most; s.num > 0; s.num--) add_shapes(cluster, s, 0, devices, ALL, out_shape, &num);
  return num;
}
