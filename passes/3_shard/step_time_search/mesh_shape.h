/* mesh_shape.h: the meshes worth searching when none is given. */
#ifndef MSC_PASSES_3_SHARD_MESH_SHAPE_H
#define MSC_PASSES_3_SHARD_MESH_SHAPE_H

#include "passes/cluster.h"

enum { SHARD_MESH_AXES = 3, SHARD_MAX_SHAPES = 512, SHARD_MOST_IN_ALL_ORDERS = 16 };

typedef struct {
  int num;
  int64_t size[SHARD_MESH_AXES];
} shard_mesh_shape;

/* Lists the shapes of meshes to be searched. For few devices that is every factorisation into up to three axes, in
 * every order, so that a given mesh of so many axes holds nothing that is missing. For more devices it is those with
 * the greatest number of axes, up to three; axes within one level of links are in descending order, and shapes with
 * an axis that crosses the border between two levels are left out where others exist. Returns how many. */
int shard_mesh_shapes(const msc_cluster *cluster, int64_t devices, shard_mesh_shape *out_shape);
bool shard_are_all_shapes(int64_t devices);
/* Prime factors, each as often as it divides. */
int shard_count_primes(int64_t n);

#endif
