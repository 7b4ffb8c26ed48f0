/* measured_choices.h: the file options.choices: a line for each measured product, of a key and what was chosen. */
#ifndef MSCRT_MEASURED_CHOICES_H
#define MSCRT_MEASURED_CHOICES_H

#include <stdbool.h>

#include "runtime/context.h"

enum { MSCRT_CHOICE_KEY = 640 }; /* most bytes of a key, and most bytes of the text behind it */

/* Calls `read` with the text behind the key for each line that begins with the key. `read` returns false for a text
 * that it refuses, else it sets *out: the last line counts. Returns whether it accepted any. */
bool mscrt_choice_find(const char *path, const char *key, bool (*read)(const char *text, void *out), void *out);
/* Appends a line with one write, so that lines of ranks that measure at the same time do not mix. */
mscrt_status *mscrt_choice_append(const char *path, const char *line);

/* Copies the products of the plan to c->matmul, with the tiles that were measured fastest on this machine. With the
 * option tune, rank 0 measures products that are not in the file, for some seconds at most. */
mscrt_status *mscrt_choose_tiles(mscrt_context *c);

#endif
