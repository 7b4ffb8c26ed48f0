/* flight_recorder.c: the flight recorder of a rank: operations with other ranks in; the last of them as JSON out, when
 * something went wrong. Several threads record: a thread gets its record by increasing a counter, and the writer skips
 * a record whose number shows that a thread is writing it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/trace/trace.h"
#include "runtime/wait.h"

#define MOST_RECORDS 2000

typedef enum { COLLECTIVE, GATHER, BARRIER, SENT, RECEIVED } kind_of_operation;

typedef struct {
  _Atomic uint64_t number; /* of all operations, from 1; 0: being written */
  uint8_t kind;
  msc_verb verb;
  const char *name, *loc;   /* the plan's */
  const mscrt_members *group; /* of a collective; NULL: all ranks */
  int peer;                 /* of a message */
  uint64_t index;           /* number of the operation in its group, from 0 */
  uint64_t bytes;
  int64_t step, begin_ns;
  _Atomic int64_t end_ns; /* 0: it has not ended */
} flight_record;

struct mscrt_flight {
  _Atomic uint64_t next;
  uint64_t *in_group; /* by partition: operations so far */
  _Atomic uint64_t in_messages;
  flight_record record[MOST_RECORDS];
};

mscrt_status *mscrt_flight_new(uint32_t partitions, mscrt_flight **out_flight) {
  mscrt_status *s = mscrt_new_array(out_flight, 1);
  if (!s) s = mscrt_new_array(&(*out_flight)->in_group, partitions);
  return s;
}

void mscrt_flight_free(mscrt_flight *f) {
  if (f) free(f->in_group);
  free(f);
}

/* Begins a record; the caller fills it and then sets its number. */
static flight_record *begin_record(mscrt_flight *f, uint64_t *out_number) {
  *out_number = atomic_fetch_add(&f->next, 1) + 1;
  flight_record *r = &f->record[(*out_number - 1) % MOST_RECORDS];
  atomic_store(&r->number, 0);
  r->name = r->loc = NULL, r->group = NULL, r->peer = -1;
  r->begin_ns = mscrt_now_ns();
  atomic_store_explicit(&r->end_ns, 0, memory_order_relaxed);
  return r;
}

uint64_t mscrt_flight_collective(mscrt_flight *f, const mscrt_record *call, int64_t step) {
  uint64_t number;
  const mscrt_exchange *e = call->part[0].e;
  flight_record *r = begin_record(f, &number);
  r->kind = COLLECTIVE, r->verb = e->verb, r->name = call->name, r->loc = call->loc, r->group = &e->group;
  r->index = f->in_group[e->group.partition]++, r->step = step, r->bytes = 0;
  for (uint32_t i = 0; i < call->num_parts; i++) r->bytes += call->part[i].e->dst_bytes;
  atomic_store(&r->number, number);
  return number;
}

uint64_t mscrt_flight_all(mscrt_flight *f, bool gathers, const char *name, uint64_t bytes, int64_t step) {
  uint64_t number;
  flight_record *r = begin_record(f, &number);
  r->kind = gathers ? GATHER : BARRIER, r->verb = gathers ? MSC_ALL_GATHER : MSC_ALL_REDUCE, r->name = name;
  r->index = f->in_group[0]++, r->step = step, r->bytes = bytes;
  atomic_store(&r->number, number);
  return number;
}

uint64_t mscrt_flight_message(mscrt_flight *f, const mscrt_record *call, int64_t step) {
  uint64_t number;
  flight_record *r = begin_record(f, &number);
  r->kind = call->receives ? RECEIVED : SENT, r->name = call->name, r->loc = call->loc, r->peer = call->channel.peer;
  r->index = atomic_fetch_add(&f->in_messages, 1), r->step = step, r->bytes = call->channel.bytes;
  atomic_store(&r->number, number);
  return number;
}

void mscrt_flight_end(mscrt_flight *f, uint64_t number) {
  flight_record *r = &f->record[(number - 1) % MOST_RECORDS];
  if (atomic_load(&r->number) == number) atomic_store(&r->end_ns, mscrt_now_ns());
}

/* ---- writing ---- */

static void put_quoted(FILE *out, const char *text) {
  fputc('"', out);
  for (; text && *text; text++)
    if (*text == '"' || *text == '\\') fprintf(out, "\\%c", *text);
    else if ((unsigned char)*text < 0x20) fprintf(out, "\\u%04x", *text);
    else fputc(*text, out);
  fputc('"', out);
}

static void put_record(FILE *out, const mscrt_context *c, const flight_record *r) {
  static const char *const kinds[] = {NULL, "gather", "barrier", "send", "receive"};
  int64_t end = atomic_load(&r->end_ns);
  fprintf(out, "{\"index\":%" PRIu64 ",\"op\":\"%s\",\"name\":", r->index,
          r->kind == COLLECTIVE ? msc_verb_name(r->verb) : kinds[r->kind]);
  put_quoted(out, r->name);
  fprintf(out, ",\"loc\":");
  put_quoted(out, r->loc);
  fprintf(out, ",\"bytes\":%" PRIu64 ",\"step\":%" PRId64 ",\"begin_ns\":%" PRId64 ",\"end_ns\":", r->bytes,
          mscrt_step_number(r->step), r->begin_ns);
  if (end) fprintf(out, "%" PRId64, end);
  else fprintf(out, "null");
  if (r->peer >= 0) fprintf(out, ",\"peer\":%d}", r->peer);
  else {
    int num = r->group ? r->group->num : c->o.ranks;
    fprintf(out, ",\"ranks\":[");
    for (int i = 0; i < num; i++) fprintf(out, "%s%d", i ? "," : "", r->group ? r->group->member[i] : i);
    fprintf(out, "]}");
  }
}

static int64_t clock_difference(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - mscrt_now_ns();
}

static bool write_records(FILE *out, const mscrt_context *c, const char *reason) {
  const mscrt_flight *f = c->flight;
  uint64_t last = atomic_load(&f->next), first = last > MOST_RECORDS ? last - MOST_RECORDS : 0;
  bool comma = false;
  fprintf(out,
          "{\"rank\":%d,\"ranks\":%d,\"plan\":\"%016" PRIx64 "\",\"step\":%" PRId64 ",\"written_ns\":%" PRId64
          ",\"epoch_ns\":%" PRId64 ",\"left_out\":%" PRIu64 ",\"reason\":",
          c->o.rank, c->o.ranks, c->plan->hash, c->step, mscrt_now_ns(), clock_difference(), first);
  put_quoted(out, reason ? reason : "");
  fprintf(out, ",\"operations\":[");
  for (uint64_t n = first; n < last; n++) {
    const flight_record *r = &f->record[n % MOST_RECORDS];
    flight_record whole;
    uint64_t before = atomic_load(&r->number);
    memcpy(&whole, r, sizeof whole);
    if (before != n + 1 || atomic_load(&r->number) != before) continue; /* a newer one is being written */
    fprintf(out, "%s\n", comma ? "," : "");
    put_record(out, c, &whole);
    comma = true;
  }
  fprintf(out, "]}\n");
  return !ferror(out);
}

mscrt_status *mscrt_dump_flight(const mscrt_context *c, const char *path, const char *reason) {
  MSCRT_NEEDS(c && path);
  char temporary[4200];
  if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >= (int)sizeof temporary)
    return mscrt_fail(MSCRT_ARGUMENT, "the path of a flight record is too long");
  FILE *out = fopen(temporary, "we");
  if (!out) return mscrt_fail_path(path, "cannot be written");
  bool ok = write_records(out, c, reason);
  ok = fclose(out) == 0 && ok;
  if (ok && rename(temporary, path) == 0) return NULL;
  remove(temporary);
  return mscrt_fail_path(path, "cannot be written");
}
