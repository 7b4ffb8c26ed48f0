/* mesh_shape.h: the meshes worth searching when none is given. */
#ifndef MSC_PASSES_3_SHARD_MESH_SHAPE_H
#define MSC_PASSES_3_SHARD_MESH_SHAPE_H

#include "passes/cluster.h"

enum { SHARD_MESH_AXES = 3, SHARD_MAX_SHAPES = 512, SHARD_MOST_IN_ALL_ORDERS = 16 };

typedef struct {
  int num;
  int64_t size[SHARD_MESH_AXES];
} shard_mesh_shape;

/* Lists the shapes of meshes to be searched and returns how many. Up to SHARD_MOST_IN_ALL_ORDERS devices these are all
 * factorisations into up to three axes, in every order. For more devices they are those with the most axes, up to
 * three, in which axes within one level of links are in descending order; a shape with an axis that crosses the border
 * between two levels is left out if there are others. */
int shard_mesh_shapes(const msc_cluster *cluster, int64_t devices, shard_mesh_shape *out_shape);
/* Does shard_mesh_shapes list all factorisations of this number of devices? */
bool shard_are_all_shapes(int64_t devices);
/* The number of prime factors, each counted as often as it divides. */
int shard_count_primes(int64_t n);

#endif
