/* dnn_text.c: an engine and its graph in, a text out, and back: "{cuDNN VERSION ENGINE", then the objects of the graph,
 * what is linked to before who links to it: type, attributes as name, type, number and values, of links the
 * numbers of objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin/dnn.h"

enum { MOST_OBJECTS = 1024 };

typedef struct {
  FILE *out;
  int num;
  const dnn_object *object[MOST_OBJECTS];
} writing;

static int number_of(writing *w, const dnn_object *o);

static const dnn_object *linked(const dnn_attribute *a, int64_t i) {
  const dnn_object *to;
  memcpy(&to, a->value + i * (int64_t)sizeof to, sizeof to);
  return to;
}

static void write_attribute(writing *w, const dnn_attribute *a) {
  bool is_link = a->type == MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR;
  fprintf(w->out, " %u %u %ld", a->name, a->type, (long)a->num);
  for (int64_t i = 0; is_link && i < a->num; i++) fprintf(w->out, " %d", number_of(w, linked(a, i)));
  for (size_t i = 0; !is_link && i < (size_t)a->num * dnn_bytes_of(a->type); i++) fprintf(w->out, " %d", a->value[i]);
}

/* Writes it when it is new. */
static int number_of(writing *w, const dnn_object *o) {
  int num = 0;
  for (int i = 0; i < w->num; i++)
    if (w->object[i] == o) return i;
  for (int i = 0; i < o->num; i++) {
    num += o->attribute[i].type != MSCRT_CUDNN_TYPE_HANDLE;
    for (int64_t k = 0; o->attribute[i].type == MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR && k < o->attribute[i].num; k++)
      number_of(w, linked(&o->attribute[i], k));
  }
  fprintf(w->out, "; %u %d", o->type, num);
  for (int i = 0; i < o->num; i++)
    if (o->attribute[i].type != MSCRT_CUDNN_TYPE_HANDLE) write_attribute(w, &o->attribute[i]);
  w->object[w->num] = o;
  return w->num++;
}

char *dnn_write(const dnn_object *graph, int64_t engine, size_t version) {
  char *text;
  size_t bytes;
  writing w = {.out = open_memstream(&text, &bytes)};
  fprintf(w.out, "{cuDNN %zu %ld", version, (long)engine);
  number_of(&w, graph);
  fputs("}", w.out);
  fclose(w.out);
  return text;
}

/* ---- back ---- */

static long next_number(const char **at) {
  char *end;
  long n = strtol(*at, &end, 10);
  if (end == *at) standin_broken("a damaged engine at %.20s", *at);
  return *at = end, n;
}

static void read_attribute(const char **at, dnn_object *o, dnn_object *const *before) {
  unsigned char value[DNN_BYTES];
  unsigned name = (unsigned)next_number(at), type = (unsigned)next_number(at);
  int64_t num = next_number(at);
  for (int64_t i = 0; type == MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR && i < num; i++)
    memcpy(value + i * (int64_t)sizeof o, &before[next_number(at)], sizeof o);
  for (size_t i = 0; type != MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR && i < (size_t)num * dnn_bytes_of(type); i++)
    value[i] = (unsigned char)next_number(at);
  dnn_put(o, name, type, num, value);
}

dnn_object *dnn_read(const char *text, size_t version, int64_t *out_engine, dnn_object ***out_own, int *out_num) {
  size_t made_by;
  int head = 0;
  long engine;
  if (sscanf(text, "{cuDNN %zu %ld%n", &made_by, &engine, &head) != 2 || made_by != version) return NULL;
  *out_engine = engine;
  *out_own = calloc(MOST_OBJECTS, sizeof **out_own);
  *out_num = 0;
  for (text += head; *text == ';';) {
    dnn_object *o = (*out_own)[(*out_num)++] = calloc(1, sizeof *o);
    text++;
    o->type = (unsigned)next_number(&text), o->final = true;
    for (long num = next_number(&text); num; num--) read_attribute(&text, o, *out_own);
  }
  return (*out_own)[*out_num - 1];
}
