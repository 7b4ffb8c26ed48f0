/* read_grid.h: how commands read (device matrix, tensor map), shapes and rank lists from options, and print
 * them as JSON. */
#ifndef MSC_TOOLS_READ_GRID_H
#define MSC_TOOLS_READ_GRID_H

#include <jansson.h>

#include "ir/layout/grid.h"
#include "tools/cli.h"

/* Each reports at the option and returns false. */
bool read_sizes(cli *c, const char *option, const char *text, int max, int *out_num, int64_t *out_size);
/* The shape of a tensor, "16,16,16"; "" is a scalar, a dimension may be empty. */
bool read_shape(cli *c, const char *option, const char *text, int *out_rank, int64_t *out_dim);
/* Device matrix, tensor map and shape from three texts, "2,1,4", "1,[2,0],-1" and "32,784". */
bool read_grid(cli *c, const char *matrix, const char *map, const char *shape, msc_grid *out_grid);
/* Reads them from {"device_matrix": [..], "tensor_map": [..], "shape": [..]}; a missing shape is that of `like`. */
bool read_grid_json(cli *c, const char *option, const json_t *j, const msc_grid *like, msc_grid *out_grid);
/* "0..7", "5,3,1" or both mixed; in the context's arena, each rank once. */
bool read_ranks(cli *c, const char *option, const char *text, int64_t *out_num, int64_t **out_rank);

json_t *cli_sizes_json(int num, const int64_t *size);
json_t *map_json(const msc_grid *g);

#endif
