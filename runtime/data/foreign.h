/* foreign.h: readers of what other programs write, each for one row of the table of formats in archive.c. */
#ifndef MSCRT_FOREIGN_H
#define MSCRT_FOREIGN_H

#include "runtime/data/archive.h"

/* index.c: model.safetensors.index.json, which says in which file each tensor is. */
mscrt_status *mscrt_parse_index(mscrt_blob *b, mscrt_archive *a);
/* dcp.c: .metadata, which says where the chunks of tensors are in .distcp files. */
mscrt_status *mscrt_parse_dcp(mscrt_blob *b, mscrt_archive *a);
/* torch_file.c: the tensors of a file of torch.save; those of nested dictionaries have names with dots. */
mscrt_status *mscrt_parse_torch(mscrt_archive *a, uint32_t file);
/* megatron.c: folders with a folder mp_rank_.. for each rank. */
bool mscrt_is_megatron(const char *folder);
mscrt_status *mscrt_open_megatron(const char *folder, mscrt_archive *a);

#endif
