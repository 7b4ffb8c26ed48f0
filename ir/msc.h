/* msc.h: the compiler of msc as a library: a model in memory in, the bytes of plan.bin out.  C11, also C++.
 *
 * A model that a program holds, compiled for eight ranks; runtime/mscrt.h executes the plan, in this process or
 * another:
 *
 *   static bool compile(const char *name, const void *model, size_t bytes) {
 *     static const char keys[] = "{\"device_num\": 8, \"parallel_mode\": \"auto_parallel\", "
 *                                "\"search_mode\": \"sharding_propagation\"}";
 *     msc_compiler *c = msc_compiler_new(NULL);
 *     const void *plan;
 *     size_t plan_bytes;
 *     if (!c) return false; // out of memory
 *     bool ok = msc_compiler_configure(c, "keys", keys, sizeof keys - 1);
 *     ok = ok && msc_compiler_compile(c, name, model, bytes, &plan, &plan_bytes);
 *     for (size_t i = 0; i < msc_compiler_num_messages(c); i++) {
 *       msc_message m = msc_compiler_message(c, i);
 *       fprintf(stderr, "%s:%u:%u: %s%s%s\n", m.file ? m.file : "msc", m.line, m.column, m.text, *m.code ? " " : "",
 *               m.code);
 *     }
 *     ok = ok && execute(plan, plan_bytes);
 *     msc_compiler_free(c); // and the plan
 *     return ok;
 *   }
 *
 * Rules.  A compiler compiles one model; any number of compilers may exist, each used by one thread at a time, but for
 * msc_compiler_cancel.  What a compiler gives out is its own and lives until it is freed; what it is given is copied.
 * The library has no global state, reads no environment variable, and never prints or exits: a call that fails returns
 * false, and the messages say why.  Only a bug in msc aborts.  Option structs start with struct_size, so they can grow;
 * what is zero is the default. */
#ifndef MSC_H
#define MSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSC_API __attribute__((visibility("default")))
#define MSC_VERSION "0.1.0"

MSC_API const char *msc_version(void); /* version of the library that is linked */

/* ---- a compiler ---- */

typedef struct msc_compiler msc_compiler;

/* A size for a dimension that a model.fbs leaves open: "batch", or "x.1" for dimension 1 of input x. */
typedef struct {
  const char *name;
  int64_t size;
} msc_open_size;

typedef struct {
  size_t struct_size;
  size_t max_bytes; /* most bytes of memory for programs and plans; 0: no bound */
  /* what the plan runs on: "cpu", "cuda", or with machine code for one GPU "cuda:sm_90"; NULL: "cpu" */
  const char *target;
  const char *cpu;     /* that it runs on, as "znver3" or "x86-64-v4"; NULL: this machine's */
  /* devices and links that costs are computed for: a shipped description, as "a100"; NULL: "cpu", for cuda "h100" */
  const char *cluster;
  double time_limit_s; /* limit of the search for strategies; 0: none */
  size_t num_sizes;
  const msc_open_size *sizes;
} msc_compiler_options;

/* Makes a compiler; options may be NULL. Returns NULL if memory is exhausted. */
MSC_API msc_compiler *msc_compiler_new(const msc_compiler_options *options);
MSC_API void msc_compiler_free(msc_compiler *c); /* accepts NULL */

/* ---- configuration ---- */

/* Sets keys of `msc config`, given as one JSON object; a later call wins over an earlier one. `name` stands for the
 * text in messages. false after reporting every bad key. */
MSC_API bool msc_compiler_configure(msc_compiler *c, const char *name, const char *json, size_t bytes);
/* Returns the value of a key as JSON, its default where none was given; NULL: there is no such key, or no memory. */
MSC_API const char *msc_compiler_value(msc_compiler *c, const char *key);

/* ---- compiling ---- */

/* Compiles a model, the bytes of a model.fbs or of IR text, which are told apart by their content. May be called once
 * per compiler. false after reporting everything that is wrong with the model or with the configuration. */
MSC_API bool msc_compiler_compile(msc_compiler *c, const char *name, const void *model, size_t bytes,
                                  const void **out_plan, size_t *out_bytes);

/* Makes a compilation end soon, with false and the message E0126; the compiler can then only be freed. Any thread or
 * signal handler may call it, before or while another thread compiles. */
MSC_API void msc_compiler_cancel(msc_compiler *c);

/* What one rank of a plan needs and is predicted to do, on the stage that needs most. */
typedef struct {
  size_t struct_size;
  int64_t ranks, stages;
  uint64_t memory_bytes; /* all of what follows */
  uint64_t parameters, state, sums, carried, messages, alignment, inputs, scratch, constants, workspace;
  int64_t predicted_step_ns, exposed_comm_ns; /* exposed: time in which only links work */
} msc_report;

/* Reports on the plan that was compiled; false: there is none. */
MSC_API bool msc_compiler_report(const msc_compiler *c, msc_report *out_report);

/* ---- messages ---- */

typedef enum { MSC_MESSAGE_ERROR, MSC_MESSAGE_WARNING, MSC_MESSAGE_NOTE, MSC_MESSAGE_REMARK } msc_message_kind;

typedef struct {
  msc_message_kind kind; /* a note belongs to the message before it */
  char code[8];          /* "E0109", as `msc explain` takes it; "" where there is none */
  const char *text;      /* one line */
  const char *file;      /* NULL: no place is known, line and column are 0 */
  uint32_t line, column;
  const char *op;        /* name of the op concerned, or NULL */
} msc_message;

/* Returns the number of messages so far, which are in order. */
MSC_API size_t msc_compiler_num_messages(const msc_compiler *c);
/* Returns message i, whose texts live as long as c; if there are fewer messages, one whose texts are "". */
MSC_API msc_message msc_compiler_message(const msc_compiler *c, size_t i);

#ifdef __cplusplus
}
#endif
#endif
