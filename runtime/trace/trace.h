/* trace.h: what ran when, what ranks did last with each other, and lines for the caller's log. */
#ifndef MSCRT_TRACE_H
#define MSCRT_TRACE_H

#include "runtime/context.h"

/* ---- log.c ---- */

/* Writes a line to the log of the caller, if it has one. */
void mscrt_log_line(const mscrt_context *c, mscrt_log_level level, const char *fmt, ...) MSCRT_PRINTF(3, 4);

/* ---- timeline.c: what ran when ---- */

mscrt_status *mscrt_timeline_new(uint32_t room, mscrt_timeline **out_timeline);
void mscrt_timeline_free(mscrt_timeline *t);
/* Records an event; accepts NULL. Collectives are recorded by one thread, everything else by one thread. */
void mscrt_timeline_put(mscrt_timeline *t, mscrt_event_kind kind, const mscrt_execution *x, int64_t begin_ns);
/* Records an event that ended at end_ns, not just now. */
void mscrt_timeline_put_past(mscrt_timeline *t, mscrt_event_kind kind, const mscrt_execution *x, int64_t begin_ns,
                             int64_t end_ns);
/* The current time; 0 if nothing is measured. */
int64_t mscrt_timeline_now(const mscrt_timeline *t);

/* ---- flight_recorder.c: the last operations with other ranks ---- */

mscrt_status *mscrt_flight_new(uint32_t partitions, mscrt_flight **out_flight);
void mscrt_flight_free(mscrt_flight *f);
/* These record that an operation begins and return its number, which mscrt_flight_end needs. mscrt_flight_all is for a
 * gather or barrier of all ranks; `name` must stay valid. */
uint64_t mscrt_flight_collective(mscrt_flight *f, const mscrt_record *call, int64_t step);
uint64_t mscrt_flight_message(mscrt_flight *f, const mscrt_record *call, int64_t step);
uint64_t mscrt_flight_all(mscrt_flight *f, bool gathers, const char *name, uint64_t bytes, int64_t step);
void mscrt_flight_end(mscrt_flight *f, uint64_t number);

#endif
