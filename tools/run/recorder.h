/* recorder.h: the flight record of a rank as a file: written after a failure, and whenever SIGUSR1 asks for it. */
#ifndef MSC_TOOLS_RECORDER_H
#define MSC_TOOLS_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/mscrt.h"
#include "tools/cli.h"

typedef struct {
  char path[4200];           /* "": none is written */
  const mscrt_context *ctx;
  bool has_thread;
  pthread_t thread;
  atomic_bool ends;
} recorder;

/* Makes the folder and blocks SIGUSR1, for all threads and processes that are started later. False after a report. */
bool recorder_prepare(cli *c, const char *folder);
/* Begins to listen for SIGUSR1; folder NULL: nothing is recorded. An old file of the rank goes. */
void recorder_start(recorder *r, const char *folder, int rank, const mscrt_context *ctx);
/* Stops listening; after a failure the record is written. */
void recorder_stop(recorder *r, const mscrt_status *failure);

#endif
