/* ckpt.h: shared by the two files of msc ckpt. */
#ifndef MSC_TOOLS_CKPT_H
#define MSC_TOOLS_CKPT_H

#include "runtime/data/rank_slices.h"
#include "tools/cli.h"
#include "tools/status.h"

/* Reports a status about files, whose text names them; the exit code. */
int ckpt_report(cli *c, mscrt_status *s);
/* True if --parameters leaves out a tensor of the archive. */
bool ckpt_leaves_out(const cli *c, const mscrt_stored *t);

/* ckpt_convert.c: whole tensors of an archive into one safetensors file, or into a folder of several with an index;
 * with --map under other names. An exit code. */
int ckpt_convert(cli *c, mscrt_archive *a, const char *path);

#endif
