/* compile.h: a module and a configuration in; a plan out. */
#ifndef MSC_CODEGEN_COMPILE_H
#define MSC_CODEGEN_COMPILE_H

#include "codegen/plan/plan.h"
#include "passes/8_memory/peak.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  const msc_config *config;
  msc_code_target target;
  const msc_cluster *cluster;  /* NULL: the shipped description `cpu` */
  double time_limit_s;         /* limit of the search for strategies; 0: none */
  msc_pass_memory *of_cluster; /* what passes keep for each other in this compilation; NULL: msc_compile makes it */
  msc_pass_memory *of_text;    /* what passes keep for each other in all compilations of the same IR text; or NULL */
  const char *model;           /* the model's name, for messages and the plan */
  uint64_t model_hash;         /* of the input's bytes */
  const char *model_folder;    /* relative to the plan's, for its weights; NULL: the same */
  const char *dump_dir;        /* IR after every pass that changed it; or NULL */
  int verify;                  /* MSC_VERIFY_... */
  bool want_text;              /* the callback `after` receives the IR's text */
  const char *flags;           /* repeated in a reproducer; or NULL */
  void *user;                  /* passed to the functions below, each of which may be NULL */
  void (*after)(void *user, const msc_pass_report *report);
  bool is_trial;     /* passed to `after` */
  bool without_code; /* makes no machine code; for callers that read only times and sizes of the plan */
  /* called with the time of each phase that is not a pass; the same name may come several times */
  void (*phase)(void *user, const char *name, uint64_t ns);
  void (*remark)(void *user, const msc_pass_info *pass, const msc_op *op, const char *text);
  void (*before)(void *user, const msc_pass_info *pass, const char *line, const char *text, size_t bytes);
  void (*reproducer)(void *user, const msc_pass_info *pass, const char *text, size_t bytes);
  void (*emitted)(void *user, const char *name, const char *text, size_t bytes); /* generated code, as "kernels.ll" */
  /* called while machine code for one GPU is made, so the plan has no image of it yet; false after a report */
  bool (*meanwhile)(void *user, msc_plan *p);
} msc_compile_options;

/* ---- run_passes.c ---- */

/* Returns the options of the passes that follow from those of a compilation. */
msc_pass_options msc_pass_options_of(const msc_compile_options *o);

/* Reports the end of phase `name`, which began at `begin` (msc_clock_ns()). */
void msc_end_phase(const msc_compile_options *o, const char *name, uint64_t begin);

/* Returns the options of a trial, which runs passes over a copy of the module: nothing is verified, only `after` is
 * called, and the plan has no code. */
msc_compile_options msc_trial_of(const msc_compile_options *o);

/* Runs the passes between two checkpoints, with these options. */
bool msc_compile_stretch(msc_context *ctx, msc_module *m, const msc_compile_options *o, msc_checkpoint from,
                         msc_checkpoint until);

/* ---- compile.c ---- */

/* Compiles m, which is rewritten in place. NULL after reporting; the plan and its bytes (msc_plan_bytes) live in the
 * context's arena. */
msc_plan *msc_compile(msc_context *ctx, msc_module *m, const msc_compile_options *options);

typedef struct {
  msc_plan *plan;
  const void *bytes; /* of plan.bin */
  size_t num_bytes;
  size_t num_ops;    /* of the model */
  size_t num_smaller;
  const int64_t *smaller; /* numbers of ranks of the smaller plans inside, descending (key elastic) */
} msc_compiled;

/* What the user says about the target: "cpu", "cuda" or "cuda:sm_90"; the name of a CPU, NULL: this machine's; and
 * where that was said, for messages. */
typedef struct {
  const char *target, *cpu;
  const msc_loc *target_loc, *cpu_loc;
} msc_target_words;

bool msc_code_target_of(msc_context *ctx, const msc_target_words *words, msc_code_target *out);

/* Compiles a model to the bytes of its plan, all in the context's arena. Fills the options' model and model_hash, and
 * the cluster if they have none. */
bool msc_compile_model(msc_context *ctx, const msc_model_bytes *model, msc_compile_options *options, msc_compiled *out);

/* ---- memory_limit.c ---- */

/* Bytes that one rank allocates, on the stage that needs most. */
typedef struct {
  uint64_t parameters, state;
  uint64_t sums;       /* sums of gradients over micro-batches */
  uint64_t copies;     /* copies of parameters, which all micro-batches read */
  uint64_t carried;    /* values that live from one section of a micro-batch to a later one */
  uint64_t messages;   /* mailboxes for values that other stages send */
  uint64_t alignment;  /* gaps between values, so that each is aligned */
  uint64_t inputs;     /* all slots */
  uint64_t scratch;    /* the largest section's */
  uint64_t constants;
  uint64_t workspace;  /* what a GPU's libraries need */
  uint64_t host, disk; /* bytes of offloaded values, which are not on the device */
} msc_plan_memory;

msc_plan_memory msc_plan_memory_of(const msc_plan *p);
uint64_t msc_plan_rank_bytes(const msc_plan *p);     /* the sum of all but host and disk */
const char *msc_plan_memory_text(const msc_plan *p); /* the same as text, by what fills the memory */
/* Finds the function that needs the most scratch memory, its op at which most of it is in use, and what uses it. */
msc_peak msc_plan_peak_of(const msc_plan *p);

/* Returns the cluster that a plan is compiled for: the described one, or the shipped `cpu`. */
const msc_cluster *msc_cluster_of_options(msc_context *ctx, const msc_compile_options *o);
/* Returns the bytes that a rank may need on that cluster, or by the key memory_limit. */
int64_t msc_limit_of_options(msc_context *ctx, const msc_compile_options *o);
/* Is a plan above that limit refused? Not if the limit comes from a cluster description that ships with msc, which
 * describes no particular machine: there it is only a warning. */
bool msc_limit_binds(msc_context *ctx, const msc_compile_options *o);
/* Checks that a plan fits into the memory of the device, and its offloaded values into host memory or disk. False: the
 * plan is refused, after a report of what fills the memory and what would help. */
bool msc_fits_memory(const msc_plan *p, const msc_compile_options *o);

#endif
