/* plan.h: a lowered module as a plan: the records that plan.fbs holds, in memory, and their bytes. */
#ifndef MSC_CODEGEN_PLAN_H
#define MSC_CODEGEN_PLAN_H

#include "codegen/codegen.h"
#include "ir/ir.h"
#include "passes/6_pipeline/schedule/schedule.h"
#include "passes/8_memory/homes.h"
#include "passes/time_model.h"
#include "plan_fbs.h"

enum { MSC_FLAG_BYTES = 64 }; /* bytes behind a section's scratch: the error flag of kernels that check indices */

/* The strategy of one op, for people to read: layouts of operands and results, and who decided them. */
typedef struct {
  const char *op, *text, *by;
} msc_decision;

typedef struct {
  uint64_t batch, m, n, k, stride_a, stride_b, tile_m, tile_n, tile_bytes;
  msc_dtype dtype;
  bool transpose_a, transpose_b, bias, relu, generated, wide, gelu, slope, add, after_first, aux, sum_a, sum_b, pairs,
      b_lies;
  uint32_t pack, multiply, width, blocks; /* generated only */
  uint64_t shared_columns, panel_bytes, room_bytes;
  uint8_t library; /* PLAN_LIBRARY_USE_...: may a CPU's library compute it instead? */
} msc_plan_matmul;

enum { MSC_PLAN_OPERANDS = 10 };

typedef struct {
  msc_dtype dtype;
  uint64_t shape[4], stride[4];
} msc_plan_operand;

/* An op that a GPU's library computes as one graph; see plan.fbs. */
typedef struct {
  uint8_t kind;
  bool causal, deterministic, relu;
  size_t num_operands;
  msc_plan_operand operand[MSC_PLAN_OPERANDS];
  double scale;
  uint64_t step[2], dilation[2], padding[2], bytes;
  bool on_cpu, pairs;
  uint32_t pack, multiply, width; /* on a CPU */
} msc_plan_graph;

typedef struct {
  uint8_t verb;
  msc_dtype dtype;
  int rank;
  uint64_t shape[MSC_MAX_RANK];
  uint32_t from, to; /* into layouts; UINT32_MAX: none */
  msc_reduction reduction;
  uint32_t halo_dim;
  uint64_t halo_lo, halo_hi, halo_step;
  size_t num_axes, num_pairs;
  plan_sub_axis axis[MSC_MAX_SUBAXES];
  uint32_t root;
  uint32_t *pair;
  size_t num_members; /* > 0: all of these at once */
  uint32_t *member;
} msc_plan_collective;

typedef struct msc_plan_call {
  uint8_t kind;   /* PLAN_CALL_KIND_... */
  uint32_t index; /* into kernels, matmuls, collectives, messages, graphs or caches */
  size_t num_buffers;
  plan_ref *buffer;
  const msc_launch *launch; /* of a kernel */
  struct msc_plan_call *epilogue;
  const msc_op *op;
  uint64_t bytes, flops, predicted_ns;
  msc_cost_grid grid;
  msc_dtype dtype; /* of its arithmetic */
  bool is_product, checks;
  uint8_t served; /* see plan.fbs */
  uint32_t strips;
  bool goes_on;
} msc_plan_call;

/* A change of layout, for people and for the counts of `msc compile --json`. */
typedef struct {
  uint32_t section, call;
  uint8_t verb;
  const char *axes, *value;
  const msc_layout *from, *to; /* NULL: none */
  uint64_t bytes;              /* bytes that one device receives */
  int num_digits;              /* digits of the group that it works in */
  msc_subaxis digit[MSC_MAX_SUBAXES];
} msc_plan_transfer;

typedef struct {
  const msc_func *func;
  const char *name;
  size_t num_calls;
  msc_plan_call *call;
  uint64_t scratch_bytes;
  uint32_t stage;
  bool inputs; /* a call reads one */
  uint32_t copies; /* micro-batches side by side */
  uint64_t begin_ns; /* predicted, before its first call */
} msc_plan_section;

typedef struct {
  uint64_t persistent_bytes, sum_bytes /* part of persistent_bytes: sums over micro-batches */,
      copy_bytes /* part of persistent_bytes: copies of parameters that all micro-batches read */,
      carried_stride[MSC_NUM_SLOTS]; /* by class: spaces carried_fb, carried_fw, carried_bw */
  uint32_t carried_slots[MSC_NUM_SLOTS];
  uint64_t home_bytes[MSC_NUM_HOMES]; /* of the homes cpu and disk, which are the spaces host and disk */
  uint64_t micro; /* offset in persistent of the micro-batch's number; UINT64_MAX: the stage keeps none */
} msc_plan_stage;

typedef struct {
  const char *name;
  uint32_t micro, *num_entries; /* per stage, so is entry */
  plan_entry **entry;
} msc_plan_program;

typedef struct {
  uint32_t from, to; /* stages */
  uint32_t depth;    /* most messages that are under way at once */
  uint64_t bytes;
} msc_plan_message;

typedef struct {
  const char *name;
  const msc_type *global; /* with its layout */
  const msc_func *func;   /* the function that has its attributes */
  size_t arg;
  plan_ref ref;
  uint32_t stage;                /* of a parameter or state: the stage whose ranks hold it */
  bool copy;                     /* another stage holds the original */
  size_t same;                   /* of a parameter or state: 1 + index of the previous one with this name; 0: none */
  uint32_t num_readers, *reader; /* of an input: the stages that read it, ascending */
} msc_plan_variable;

enum { MSC_MOST_CACHED = 3 }; /* most values of one cache: a table and its state */

/* See Cache in plan.fbs. */
typedef struct {
  const char *table;
  uint32_t stage;
  size_t num;                          /* of the cached values; value 0 is the table */
  uint32_t parameter[MSC_MOST_CACHED]; /* into parameters */
  plan_ref at[MSC_MOST_CACHED], index;
  uint64_t rows, whole;      /* rows of the cache; rows of the rank's part of the table */
  uint64_t numbers, columns; /* how many rows a step names; how many of them one sample names */
  uint64_t swaps;            /* on a GPU: the most that an admit brings */
  plan_ref pool;
  uint32_t kernel[MSC_MOST_CACHED];
} msc_plan_cache;

typedef struct {
  const char *name;
  uint32_t program, stage;
  const msc_type *global;
  plan_ref ref;
  /* labels: the output depends on labels; adds_up, divisor: see passes/2_train/outputs.c */
  bool loss, labels, adds_up, divisor;
  int batch_dim; /* -1: none */
} msc_plan_output;

/* The bytes of a plan.bin. */
typedef struct {
  const void *bytes;
  size_t num_bytes;
} msc_plan_file;

typedef struct msc_plan {
  msc_context *ctx;
  msc_arena *arena;
  const msc_module *module;
  size_t num_layouts, num_matmuls, num_graphs, num_collectives, num_sections, num_parameters, num_inputs, num_outputs,
      num_transfers, num_decisions, num_caches;
  const msc_layout **layout;
  msc_plan_matmul *matmul;
  msc_plan_graph *graph;
  msc_plan_collective *collective;
  msc_plan_section *section;
  uint32_t num_stages, num_programs, num_messages, input_slots;
  msc_plan_stage *stage;
  msc_plan_program *program;  /* programs without lanes, each one section */
  msc_plan_message *message;  /* by number */
  msc_plan_variable *parameter, *input;
  msc_plan_output *output;
  msc_plan_cache *cache;
  msc_plan_transfer *transfer;
  const msc_decision *decision;
  unsigned char *constants;
  uint64_t constant_bytes, persistent_bytes, input_stride, predicted_step_ns, exposed_comm_ns;
  msc_machine_code code;
  bool copies_in_place;       /* transfers within the host's memory run where they stand, by the calls' threads */
  bool early_launch;          /* a GPU's kernels that wait by themselves may begin before the one before has ended */
  uint64_t workspace_bytes;   /* what a GPU's libraries need */
  uint64_t memory_bytes;      /* of a rank in all */
  const char **engine;        /* of each graph, in the words of the library; NULL: none, of all or of one */
  uint64_t engines_version;   /* of that library */
  int engines_arch;           /* of the GPU, as 90 */
  const char *config, *model; /* JSON; name */
  /* predictions of the search for the least time, from facts of the function; -1: there was no search */
  struct {
    int64_t step_ns, least_step_ns, least_plan_ns;
    bool data_parallel; /* what the search found was not taken: data parallelism was */
  } search;
  const char *strategies;     /* JSON of strategy_ckpt_save_file; not in plan.bin */
  const char *cluster;        /* JSON */
  const void *searched;       /* the IR text from which `layouts` was computed, packed by zlib */
  size_t searched_packed, searched_bytes;
  uint64_t model_hash;
  const char *offload_path; /* NULL: nothing is on disk */
  uint64_t offload_block;
  bool served;        /* parameters live on servers */
  bool asynchronous;  /* servers do not wait for all workers */
  uint32_t staleness; /* if asynchronous: how many steps a worker may be ahead; UINT32_MAX: no bound */
  int copies;         /* copies of each server; 0 means 1 */
  size_t num_smaller;
  const msc_plan_file *smaller; /* plans for fewer ranks inside this plan, the one for most ranks first */
  const char *model_folder; /* relative to that of the plan; NULL: the same */
  bool has_code;
} msc_plan;

/* ---- plan/programs.c ---- */

/* Returns true if code is to be made for this plan, which is complete except for its code. */
typedef bool msc_plan_wants_code(void *user, const msc_plan *p);
/* Makes the plan of a module whose passes have all run. Makes the machine code for the target if `wants` says so, or is
 * NULL; its LLVM IR goes to *out_code unless that is NULL (see msc_codegen_want_text). NULL after reporting. */
msc_plan *msc_plan_of(msc_context *ctx, const msc_module *m, const msc_code_target *target, msc_plan_wants_code *wants,
                      void *user, const char **out_code);

/* ---- plan/products.c ---- */

/* Fills in the plan's product for op `gemm`; *out is cleared before. False after a report. */
bool msc_plan_product(msc_codegen *cg, const msc_op *gemm, const msc_target *target, msc_plan_matmul *out);

/* ---- plan/library_classes.c ---- */

/* Why oneDNN is clearly faster than generated kernels for a product of f32 of this class, as a clause; NULL: it is
 * not, as far as was measured. Reads sizes, batch and which operands are transposed. */
const char *msc_why_by_library(const msc_plan_matmul *p);

/* ---- plan/graphs.c ---- */

/* Fills in the plan's graph for an op that a GPU's library computes. */
void msc_plan_graph_of(const msc_op *op, msc_plan_graph *out);
/* Fills in what a CPU needs to compute a graph: kernels of products, and a worker's memory. */
bool msc_plan_graph_kernels(msc_codegen *cg, const msc_op *op, msc_plan_graph *g);

/* ---- plan/calls.c ---- */

/* The state that the sections of a plan share while they are made. It lives in the plan's arena, as the sections do. */
typedef struct msc_plan_calls msc_plan_calls;
msc_plan_calls *msc_plan_calls_begin(msc_plan *p, msc_codegen *cg, msc_codegen *host);
/* Adds a section with its parameters, inputs, outputs, collectives and messages; `program`: the number of its program.
 * False after reporting. */
bool msc_plan_add_section(msc_plan_calls *c, msc_func *f, uint32_t program);
/* Beside a GPU: gives every cache its pool and the kernels that swap its rows, when all sections are made. */
void msc_plan_place_pools(msc_plan_calls *c);
uint32_t msc_plan_layout(msc_plan *p, const msc_layout *l); /* its number, added when new */
/* NULL: replicated */
const msc_layout *msc_plan_layout_of(const msc_plan *p, const msc_attr_value *v, int rank);

/* ---- chains.c ---- */

/* Sets which calls of a section are run strip by strip. */
void msc_plan_find_chains(msc_plan *p, msc_plan_section *s);

/* ---- expected_misses.c ---- */

#define MSC_ZIPF_EXPONENT 1.05 /* exponent of the law by which rows are assumed to be drawn */
/* Returns how many rows a step is expected to bring to a cache that has long been in use and keeps the rows that are
 * used most. numbers: how many rows a step reads. */
double msc_expected_misses(uint64_t rows, uint64_t cached, double numbers);

/* ---- call_times.c ---- */

/* Returns the grid of a launch of so many items; `threads` 0: it is for a CPU, and has none. */
msc_cost_grid msc_plan_grid(uint64_t extent, uint64_t grain, uint32_t threads);
/* True if a call runs in the order of transfers, beside those of a device: it is one, or the host runs it. */
static inline bool msc_plan_runs_beside(const msc_plan_call *c) {
  return c->kind == PLAN_CALL_KIND_TRANSFER || c->kind == PLAN_CALL_KIND_HOST_KERNEL ||
         (c->kind == PLAN_CALL_KIND_ADMIT && c->buffer[c->num_buffers - 1].space == PLAN_SPACE_HOST);
}
/* Returns the predicted time of a call that is no collective. */
uint64_t msc_plan_call_ns(const msc_plan *p, const msc_cost *cost, const msc_plan_call *c);
/* Returns the time from when a section is due to its first call; 0 of those that run once a step, before the first
 * micro-batch and after the last one. `section` is its name. */
uint64_t msc_plan_begin_ns(const msc_cluster *cluster, const char *section);

/* Predicts the time of every call and of a step, the part of a step that communication adds, and the depths of
 * mailboxes. False after reporting that stages wait for each other, which is a bug. */
bool msc_plan_predict_times(msc_plan *p, const msc_cluster *cluster);
/* Returns how often a section runs in a step of the first program, which is train if there is one. */
uint64_t msc_plan_uses(const msc_plan *p, uint32_t section);

/* ---- write_plan.c ---- */

/* Returns the file's bytes, in the context's arena; the same plan gives the same bytes. NULL after reporting. */
const void *msc_plan_bytes(const msc_plan *p, size_t *out_bytes);

#endif
