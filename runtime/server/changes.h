/* changes.h: which bytes of a server's values have changed since a version of its shard: calls that updated them in,
 * spans out, so that a worker pulls the rows of a table that steps have updated, and not the whole table. */
#ifndef MSCRT_CHANGES_H
#define MSCRT_CHANGES_H

#include "runtime/server/answer_push_pull.h"
#include "runtime/server/share.h"

typedef struct mscrt_changes mscrt_changes;

/* Begins to note changes of the values of one server's share. */
mscrt_status *mscrt_changes_new(const mscrt_shares *shares, const mscrt_share *share, mscrt_changes **out_changes);
/* Forgets all versions: all calls are to be noted with later ones than those that are asked for. */
void mscrt_forget_changes(mscrt_changes *c);
void mscrt_changes_free(mscrt_changes *c);
/* Notes what a call, which has run, has written: rows of a table that it has updated lazily, all of other values. */
void mscrt_note_changes(mscrt_changes *c, const mscrt_record *call, uint64_t version);
/* Finds what has changed after version `since`; MSCRT_NO_VERSION: all that workers pull. The spans ascend, lie apart,
 * and are valid until the next call. */
void mscrt_find_changes(mscrt_changes *c, uint64_t since, int64_t *out_num, const mscrt_value_span **out_span);

#endif
