/* measured_trace.c: the events of ranks in; a file for Perfetto and chrome://tracing out. */
#include "tools/run/measured_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool part_path(const char *path, int rank, char *out, size_t room) {
  int n = snprintf(out, room, "%s.%d.part", path, rank);
  return n > 0 && (size_t)n < room;
}

static json_t *json_or_empty(const char *s) {
  json_t *t = s ? json_string(s) : NULL; /* NULL also for what is no UTF-8 */
  return t ? t : json_string(s ? "?" : "");
}

static json_t *event_json(const mscrt_event *e, int rank, int64_t begin_ns) {
  static const char *const kinds[MSCRT_NUM_EVENT_KINDS] = {"section", "call", "wait", "collective", "transfer", "wait"};
  bool waits = e->kind == MSCRT_EVENT_WAIT || e->kind == MSCRT_EVENT_TRANSFER_WAIT;
  int thread = e->kind == MSCRT_EVENT_COLLECTIVE ? 1 : e->kind == MSCRT_EVENT_TRANSFER ? 2 : 0;
  json_t *name = waits ? json_sprintf("wait: %s", e->name) : json_or_empty(e->name),
         *args = json_pack("{s:I, s:o, s:o}", "step", (json_int_t)e->step + 1, "loc", json_or_empty(e->loc), "section",
                           json_or_empty(e->section));
  if (e->call != UINT32_MAX) json_object_set_new(args, "call", json_integer(e->call));
  return json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", name ? name : json_or_empty("wait"),
                   "cat", kinds[e->kind], "pid", rank, "tid", thread, "ts", (double)(e->begin_ns - begin_ns) / 1e3,
                   "dur", (double)(e->end_ns - e->begin_ns) / 1e3, "args", args);
}

static json_t *label_event(const char *what, int rank, int thread, const char *name) {
  return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", rank, "tid", thread, "args", "name",
                   name);
}

bool trace_part(const char *path, int rank, const mscrt_context *ctx, int64_t begin_ns) {
  char part[4096], process[32];
  if (!part_path(path, rank, part, sizeof part)) return errno = ENAMETOOLONG, false;
  json_t *all = json_array();
  snprintf(process, sizeof process, "rank %d", rank);
  json_array_append_new(all, label_event("process_name", rank, 0, process));
  json_array_append_new(all, label_event("thread_name", rank, 0, "calls"));
  json_array_append_new(all, label_event("thread_name", rank, 1, "collectives"));
  json_array_append_new(all, label_event("thread_name", rank, 2, "transfers"));
  for (size_t i = 0; i < mscrt_num_events(ctx); i++) {
    mscrt_event e = mscrt_event_at(ctx, i);
    json_array_append_new(all, event_json(&e, rank, begin_ns));
  }
  bool ok = json_dump_file(all, part, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0;
  json_decref(all);
  return ok;
}

int trace_check(cli *c, const char *path, int rank) {
  char part[4096];
  struct stat info;
  int fd = -1;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) errno = EISDIR;
  else if (!part_path(path, rank, part, sizeof part)) errno = ENAMETOOLONG;
  else fd = open(part, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0 && errno == ENXIO) return CLI_OK; /* a pipe that nobody reads yet */
  if (fd < 0) {
    msc_write_error(c->ctx, cli_loc(c, path), errno, "cannot write");
    return CLI_INPUT;
  }
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) unlink(part);
  close(fd);
  return CLI_OK;
}

void trace_drop_parts(const char *path, int first, int num) {
  char part[4096];
  for (int r = first; r < first + num; r++)
    if (part_path(path, r, part, sizeof part)) unlink(part);
}

int trace_join(cli *c, const char *path, int first, int num) {
  char part[4096];
  json_t *all = json_array();
  for (int r = first; r < first + num; r++) {
    if (!part_path(path, r, part, sizeof part)) continue;
    json_t *events = json_load_file(part, 0, NULL);
    if (events) json_array_extend(all, events); /* a rank that failed has left none */
    json_decref(events);
    unlink(part);
  }
  json_t *file = json_pack("{s:o, s:s}", "traceEvents", all, "displayTimeUnit", "ms");
  char *dump = json_dumps(file, JSON_COMPACT | JSON_REAL_PRECISION(15));
  int code = dump ? cli_write_file(c, path, dump, strlen(dump)) : CLI_ENVIRONMENT;
  free(dump);
  json_decref(file);
  return code;
}
