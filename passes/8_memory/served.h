/* served.h: who runs an op of a program whose parameters live on servers: the values of the fact `served`. */
#ifndef MSC_PASSES_SERVED_H
#define MSC_PASSES_SERVED_H

enum {
  MSC_BY_WORKERS,
  MSC_BY_SERVERS, /* in place of the workers */
  MSC_BY_BOTH,
  MSC_BY_EACH,    /* a sum over all workers, of which each takes its own values */
  MSC_NUM_SERVED
};

#endif
