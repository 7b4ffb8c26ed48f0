/* pass.h: the context that a pass runs in; how passes are chosen, run, checked, dumped and reproduced. */
#ifndef MSC_PASSES_PASS_H
#define MSC_PASSES_PASS_H

#include "passes/cluster.h"

typedef struct msc_config msc_config; /* passes/config/config.h */
typedef struct msc_pass_ctx msc_pass_ctx;
typedef bool msc_pass_fn(msc_pass_ctx *pass, msc_module *m);

/* The checkpoints of pass.def, in its order. */
typedef enum {
#define PASS(stage, name, target, line)
#define CHECKPOINT(stage, name, line) MSC_AT_##name,
#include "passes/pass.def"
#undef PASS
#undef CHECKPOINT
} msc_checkpoint;

/* One row of pass.def: a pass, or a checkpoint. */
typedef struct {
  const char *stage; /* its folder: "1_simplify" */
  const char *name;  /* its name on the command line, and the name of a pass's file */
  const char *line;  /* what the pass does, or what holds at the checkpoint, in one line */
  unsigned targets;  /* MSC_ON_...: the pass runs on modules for these targets only */
  msc_pass_fn *run;  /* false: it reported an error, or it is a bug; NULL: the row is a checkpoint */
  msc_checkpoint at; /* of a checkpoint */
} msc_pass_info;

typedef struct msc_pass_stat {
  const char *what; /* "ops removed" */
  int64_t count;
  struct msc_pass_stat *next;
} msc_pass_stat;

/* Data that passes keep from one run to the next, for as long as the caller keeps this memory.  See msc_kept_at. */
typedef struct msc_pass_memory msc_pass_memory;

/* The report of one pass that has run. */
typedef struct {
  const msc_pass_info *pass;
  int number;                 /* from 1 on; of msc_run_stretch, among the passes of pass.def */
  uint64_t pass_ns, verify_ns; /* the second also of texts kept for a reproducer */
  const msc_pass_stat *stats; /* in the order they were counted */
  const msc_module *module;
  const char *text;           /* the IR after the pass; NULL unless wanted (see want_text) */
  size_t bytes;
  bool changed;               /* the text differs from the one before; only with text */
  bool is_trial;              /* as the options say */
} msc_pass_report;

enum {
  MSC_VERIFY_OFF,
  MSC_VERIFY_IR,       /* the verifier, after each pass; of a large module, after each stage */
  MSC_VERIFY_TEXT,     /* and print, parse, compare */
  MSC_VERIFY_NUMERICS, /* and execute small functions before and after */
};

typedef struct {
  const char *passes;        /* "dce,cse": just these, in this order; NULL: those of pass.def between from and until */
  const char *from, *until;  /* first and last pass, or checkpoints; NULL: of all */
  int verify;                /* MSC_VERIFY_... */
  const msc_config *config;  /* NULL: every key has its default */
  const msc_cluster *cluster; /* what is compiled for; NULL: the shipped description `cpu` */
  double time_limit_s;       /* of the search for strategies; 0: none */
  msc_pass_memory *of_cluster; /* what passes keep for later runs on the same cluster; NULL: nothing */
  msc_pass_memory *of_text;    /* the same for those on modules of one text, with one configuration; NULL: nothing */
  int cpu_level;             /* x86-64 level of the machine, 1 to 4; 0: 3 */
  /* existing folder that gets 000-input.mlir and 017-dce.mlir after each pass that changed it; or NULL */
  const char *dump_dir;
  bool want_text;            /* reports carry the IR; implied by dump_dir */
  const char *flags;         /* of the command line, to be repeated in a reproducer's first line; or NULL */
  void *user;                /* of the functions below; each may be NULL */
  void (*after)(void *user, const msc_pass_report *report);
  bool is_trial; /* the module is a copy on which the caller only tries the passes */
  void (*remark)(void *user, const msc_pass_info *pass, const msc_op *op, const char *text);
  /* Called before each pass with a test case, IR and the line to run it, for a report if the pass crashes; called again
   * after it with NULLs, when the texts are freed.  Not for a large module without want_text: making its text takes too
   * long, and the msc command is its test case. */
  void (*before)(void *user, const msc_pass_info *pass, const char *line, const char *text, size_t bytes);
  /* A pass hit a bug: `text` is a complete test case, its first line is how to run it; NULL of a large module. */
  void (*reproducer)(void *user, const msc_pass_info *pass, const char *text, size_t bytes);
  /* Called at every checkpoint that the run reaches.  It may read and change the module and run stretches on copies of
   * it; false ends the run, which returns false. */
  bool (*at)(void *at_user, msc_module *m, msc_checkpoint at);
  void *at_user;
} msc_pass_options;

struct msc_pass_ctx {
  msc_context *ctx;
  msc_arena *scratch;       /* freed when the pass is done */
  const msc_config *config; /* as in the options: may be NULL */
  const msc_pass_options *options;
  const msc_pass_info *info;
  msc_pass_stat *stats, *last_stat;
  bool unchanged;           /* set by a pass that had nothing to do: the IR is not verified again */
  bool changes_meaning;     /* set by a pass after which functions are meant to give other numbers */
};

#define PASS(stage, name, target, line) msc_pass_fn pass_##name;
#define CHECKPOINT(stage, name, line)
#include "passes/pass.def"
#undef PASS
#undef CHECKPOINT

/* The result of a pass that this configuration or module does not ask for. */
static inline bool msc_not_asked_for(msc_pass_ctx *pass) { return pass->unchanged = true; }

/* ---- 1_simplify/annotations.c ---- */

/* True if the user gave the op a strategy, a layout or a limit, or said what it sees of the batch: then passes leave
 * the op as it is, since they could not honour the annotation otherwise. */
bool msc_has_user_constraint(const msc_op *op);

/* ---- pass.c ---- */

/* The rows of pass.def. */
size_t msc_num_rows(void);
const msc_pass_info *msc_row(size_t i);
const msc_pass_info *msc_find_pass(const char *name);

/* Verifies m, runs the chosen passes over it and verifies after each.  On false the diagnostics say why: errors of the
 * user's, or MSC_E_INTERNAL for a bug, which also went to `reproducer`. */
bool msc_run_passes(msc_context *ctx, msc_module *m, const msc_pass_options *options);
/* Runs all passes between two checkpoints; m is at the first of them. */
bool msc_run_stretch(msc_context *ctx, msc_module *m, const msc_pass_options *options, msc_checkpoint from,
                     msc_checkpoint until);

/* Has the module so many ops that verifying or printing it takes longer than most passes? */
bool msc_is_large(const msc_module *m);

const msc_cluster *msc_pass_cluster(const msc_pass_ctx *pass);
/* Bytes that a rank may need: the key memory_limit, else what the described device has. */
int64_t msc_memory_limit(const msc_config *config, const msc_cluster *cluster);
/* The key micro_batch_interleaved; where it is `auto`, the chosen number, which the module's attribute msc.copies has.
 */
int64_t msc_copies_of(const msc_pass_ctx *pass, const msc_module *m);
/* Makes a memory in which nothing is kept; all that passes keep there lies in its arena. */
msc_pass_memory *msc_pass_memory_new(msc_arena *arena);
msc_arena *msc_pass_memory_arena(const msc_pass_memory *memory);
/* The pointer that belongs to `key` in a memory, NULL at first.  `key` is the address of a static variable of the pass.
 */
void **msc_kept_at(msc_pass_memory *memory, const void *key);
/* Adds to a counter that is shown with the pass.  `what` is a literal. */
void msc_stat(msc_pass_ctx *pass, const char *what, int64_t count);
/* Explains a decision: what, why, its cost, the runner-up.  Does nothing when options->remark is NULL.  op may be NULL.
 */
void msc_remark(msc_pass_ctx *pass, const msc_op *op, const char *fmt, ...) MSC_PRINTF(3, 4);

/* ---- compare.c ---- */

/* Compares two modules of one context: names, types, attributes, operands, places.  NULL: they are equal; else text in
 * `arena` that names the first difference. */
const char *msc_find_difference(const msc_module *a, const msc_module *b, msc_arena *arena);

#endif
