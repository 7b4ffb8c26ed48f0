/* mesh_shape.h: the meshes worth searching when none is given. */
#ifndef MSC_PASSES_3_SHARD_MESH_SHAPE_H
#define MSC_PASSES_3_SHARD_MESH_SHAPE_H

#include "passes/cluster.h"

enum { SHARD_MESH_AXES = 3, SHARD_MAX_SHAPES = 512 };

typedef struct {
  int num;
  int64_t size[SHARD_MESH_AXES];
} shard_mesh_shape;

/* Factorisations of the device count into as many axes as it allows, up to three: a mesh with fewer axes holds no strategy that
 * one of these lacks.  Axes within one level of links may change places, so only descending ones are listed; those that
 * straddle the end of a level are left out where others exist.  Returns how many. */
int shard_mesh_shapes(const msc_cluster *cluster, int64_t devices, shard_mesh_shape *out_shape);

#endif
