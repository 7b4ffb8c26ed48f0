/* measured_choices.h: the file options.choices: what was measured of products, a line for each: a key and what was
 * chosen. */
#ifndef MSCRT_MEASURED_CHOICES_H
#define MSCRT_MEASURED_CHOICES_H

#include <stdbool.h>

#include "runtime/context.h"

enum { MSCRT_CHOICE_KEY = 640 }; /* bytes of a key, and at most as many of what is behind it */

/* Gives `read` what is behind the key in each line that has it. Returns whether it took any: the last is the choice. */
bool mscrt_choice_find(const char *path, const char *key, bool (*read)(const char *text, void *out), void *out);
/* Appends a line with one write, so that lines of ranks that measure at the same time do not mix. */
mscrt_status *mscrt_choice_append(const char *path, const char *line);

/* Copies the products of the plan to c->matmul, with tiles as they were measured fastest here. With the option tune,
 * rank 0 measures those that are not in the file, for some seconds at most. */
mscrt_status *mscrt_choose_tiles(mscrt_context *c);

#endif
