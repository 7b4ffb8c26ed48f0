/* plan.h: a verified plan. Names, calls, code and constants stay in the bytes of the file; tables that are read often
 * are unpacked once. Everything was checked: users of this header may follow any index and offset in it. */
#ifndef MSCRT_PLAN_H
#define MSCRT_PLAN_H

#include "ir/abi/attention.h"
#include "ir/abi/pools.h"
#include "ir/abi/product.h"
#include "ir/abi/windows.h"
#include "ir/layout/box.h"
#include "plan_fbs.h"
#include "runtime/comm/comm.h"
#include "runtime/data/data.h"
#include "runtime/runtime.h"

#define MSCRT_MAX_DIMS 1024      /* limit of the dims of a kernel; also of its buffers and scalars */
#define MSCRT_NUM_SPACES 10
#define MSCRT_NUM_CARRIED 3      /* spaces from PLAN_SPACE_CARRIED_FB on */
#define MSCRT_BY_LIBRARY UINT32_MAX

/* A parameter, state, input or output, and where it lies in memory. */
typedef struct {
  const char *name;
  mscrt_dtype dtype;
  int rank;
  int64_t shape[MSCRT_MAX_RANK];
  const msc_box_layout *layout;
  plan_ref ref;
  /* parameters */
  int model_rank;                       /* rank in the model and in files, with the same elements in the same order */
  int64_t model_shape[MSCRT_MAX_RANK];  /* the shape there, mostly equal to `shape` */
  const char *init;
  const char *tensor; /* the tensor in a file of weights with the initial value; NULL: `init` says it */
  uint32_t weights;   /* number of that file in the plan's weight_files */
  bool state, owned; /* owned: state that belongs to a parameter */
  /* inputs */
  mscrt_role role;
  int batch_dim; /* -1: none; of outputs too */
  bool whole;
  /* outputs */
  uint32_t program;
  bool loss, labels;     /* labels: it depends on one */
  bool adds_up, divisor; /* of outputs, as plan.fbs says */
  /* parameters and outputs: the stage whose ranks hold it */
  uint32_t stage;
  bool copy;                     /* a copy of the parameter of another stage */
} mscrt_variable;

typedef enum { MSCRT_AT_BIAS, MSCRT_AT_ADD, MSCRT_AT_AUX, MSCRT_AT_SUM, MSCRT_NUM_BEHIND } mscrt_behind;

typedef struct {
  mscrt_dtype dtype;
  int64_t batch, m, n, k, stride_a, stride_b, tile_m, tile_n, tiles_m, tiles_n, tiles;
  uint64_t tile_bytes;
  bool transpose_a, transpose_b, bias, relu;
  bool wide, gelu, slope, add, after_first, aux, sum_a, sum_b; /* on a GPU; see Matmul in plan.fbs */
  uint8_t num_operands, at[MSCRT_NUM_BEHIND];     /* numbers of the operands behind c; 0: absent */
  uint32_t pack, multiply;       /* kernels; MSCRT_BY_LIBRARY: both done by oneDNN */
  int64_t width, blocks;         /* columns of a panel; parts of k that are summed separately */
  uint8_t library;               /* PLAN_LIBRARY_USE_...: oneDNN may compute it in place of these kernels */
  bool b_lies;                   /* b is read in place, but for columns that fill no panel, which are packed */
  int64_t traits;                /* mscrt_product_traits, and whether sums are rounded */
  int packing;                   /* MSC_PACKED_...: what an element of panels is */
  int64_t shared_columns;        /* columns packed at once for all workers; 0: every worker packs those of its tile */
  uint64_t panel_bytes, room_bytes;
} mscrt_matmul;

/* The element type of c and of operands added to it. */
static inline mscrt_dtype mscrt_result_dtype(const mscrt_matmul *m) { return m->wide ? MSCRT_F32 : m->dtype; }

/* The argument of kernels that says how b is read in place: elements from term to term; negative: elements from column
 * to column of a transposed b; 0: b is packed. */
static inline int64_t mscrt_step_of_lying_b(const mscrt_matmul *m) {
  return !m->b_lies ? 0 : m->transpose_b ? -m->k : m->n;
}

/* Elements that packing so many columns of b writes. */
static inline int64_t mscrt_panel_elems(const mscrt_matmul *m, int64_t columns) {
  int64_t units = msc_product_units(m->k, m->blocks, m->packing);
  return msc_product_is_filled(m->k, m->blocks, m->packing) ? msc_product_filled_panel_elems(columns, units, m->width)
                                                            : msc_product_panel_elems(columns, units, m->width);
}

#define MSCRT_GRAPH_OPERANDS 10

/* Four dimensions; strides in elements. */
typedef struct {
  mscrt_dtype dtype;
  int64_t dim[4], stride[4];
} mscrt_graph_tensor;

/* See Graph in plan.fbs. */
typedef struct {
  uint8_t kind, num_operands, num_results;
  bool deterministic, causal, relu;
  mscrt_graph_tensor operand[MSCRT_GRAPH_OPERANDS];
  float scale;
  int64_t step[2], dilation[2], padding[2];
  uint64_t bytes;                /* bytes of the workspace; on a CPU of each worker */
  uint32_t pack, multiply;       /* kernels, on a CPU */
  int64_t width;                 /* columns of a panel */
  bool pairs;                    /* an element of a panel is two terms of bf16 */
  const char *engine;            /* text in the bytes of the plan, engine_bytes long without its final 0; NULL: none */
  uint32_t engine_bytes;
} mscrt_graph;

#define MSCRT_MOST_CACHED 3 /* a table and its state */

/* See Cache in plan.fbs. */
typedef struct {
  uint32_t num, rows, parameter[MSCRT_MOST_CACHED], swaps, kernel[MSCRT_MOST_CACHED];
  plan_ref at[MSCRT_MOST_CACHED], index, pool;
} mscrt_plan_cache;

static inline bool mscrt_is_attention(const mscrt_graph *g) { return g->kind < PLAN_GRAPH_KIND_CONV; }

/* Memory of a stage by space (persistent; a slot of carried values; scratch of its largest section), and the number
 * of slots of the carried spaces. */
typedef struct {
  uint64_t bytes[MSCRT_NUM_SPACES], micro;
  uint32_t slots[MSCRT_NUM_CARRIED];
} mscrt_stage;

#define mscrt_bad_plan(...) mscrt_fail(MSCRT_INPUT, __VA_ARGS__)

/* A row of ir/abi/target.h. */
typedef struct {
  const char *name;
  uint64_t most_units;
  bool has_images, calls_whole;
} mscrt_target;

struct mscrt_plan {
  atomic_int keepers;           /* besides whoever opened it, or, if that one has closed it, besides one of them */
  uint8_t *bytes;               /* FLATBUF_ALIGN-ed */
  size_t size;
  uint64_t hash;
  plan_plan root;
  msc_box_mesh mesh;
  int ranks;
  const mscrt_target *target;
  uint32_t num_layouts, num_matmuls, num_graphs, num_collectives, num_sections, num_parameters, num_inputs, num_outputs,
      num_stages, num_programs, input_slots, copies, num_caches;
  mscrt_stage *stage;
  plan_entry *only;             /* for plans without programs: each section is one */
  msc_box_layout *layout;
  const int64_t *(*split)[MSC_BOX_RANK]; /* by layout: borders of parts, in the bytes of the plan */
  mscrt_matmul *matmul;
  mscrt_graph *graph;
  mscrt_collective *collective;
  mscrt_variable *parameter, *input, *output;
  mscrt_plan_cache *cache;
  /* by space, where stages do not differ: the bytes that a ref may reach; for input: one slot; for tile: the largest
   * tile */
  uint64_t space_bytes[MSCRT_NUM_SPACES];
  uint8_t *code;                /* mapped executable; NULL: the plan has none */
  size_t code_bytes;
};

typedef void mscrt_kernel(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);

/* open_plan.c: opens a plan that is only read, not executed: its code is not mapped, so nobody need trust it. */
mscrt_status *mscrt_plan_open_layouts(const void *bytes, size_t size, mscrt_plan **out_plan);
/* Returns the plan, which is there until mscrt_plan_close was called once more. */
const mscrt_plan *mscrt_plan_keep(const mscrt_plan *plan);

/* plan.c */
mscrt_kernel *mscrt_plan_kernel(const mscrt_plan *p, uint32_t index);
const mscrt_variable *mscrt_find_variable(uint32_t num, const mscrt_variable *v, const char *name);
bool mscrt_find_program(const mscrt_plan *p, const char *name, uint32_t *out_program);
const char *mscrt_program_name(const mscrt_plan *p, uint32_t program);
uint32_t mscrt_program_micro(const mscrt_plan *p, uint32_t program); /* micro-batches of one run */
/* The entries that the ranks of a stage run, in order. */
const plan_entry *mscrt_program_lane(const mscrt_plan *p, uint32_t program, uint32_t stage, uint32_t *out_num);
static inline uint32_t mscrt_stage_of(const mscrt_plan *p, int rank) {
  return (uint32_t)rank / ((uint32_t)p->ranks / p->num_stages);
}
bool mscrt_stage_reads(const mscrt_plan *p, uint32_t stage, uint32_t input);
/* Sets the box of a variable that a rank holds and the box of its buffer. mscrt_variable_bytes returns the bytes of a
 * buffer, the same on all ranks. */
void mscrt_variable_box(const mscrt_plan *p, const mscrt_variable *v, int rank, msc_box *out_box, msc_box *out_buffer);
uint64_t mscrt_variable_bytes(const mscrt_variable *v);
/* The bytes of a whole variable, of which ranks may hold parts. */
uint64_t mscrt_whole_bytes(const mscrt_variable *v);
/* True if a parameter is a number that can be changed between steps.  Several stages may have it; all but one of them
 * are copies. */
bool mscrt_is_scalar(const mscrt_variable *v);
mscrt_wanted mscrt_wanted_of(const mscrt_variable *input);

/* True if values in this space have a slot for each micro-batch in use; true if they live in host memory or on disk. */
static inline bool mscrt_has_slots(uint32_t space) {
  return space == PLAN_SPACE_INPUT || (space >= PLAN_SPACE_CARRIED_FB && space <= PLAN_SPACE_CARRIED_BW);
}
static inline bool mscrt_is_offloaded(uint32_t space) { return space >= PLAN_SPACE_HOST; }
enum { MSCRT_DISK_PAGE = 4096 }; /* values in the space disk begin at a multiple of it */

/* The bytes of a space that a ref of a section of this stage may reach. */
static inline uint64_t mscrt_room(const mscrt_plan *p, uint32_t stage, uint8_t space) {
  bool own = space == PLAN_SPACE_PERSISTENT || space > PLAN_SPACE_TILE;
  if (space == PLAN_SPACE_TILE && p->target->calls_whole) return plan_plan_workspace_bytes(p->root);
  return own ? p->stage[stage].bytes[space] : p->space_bytes[space];
}

/* check_plan.c: unpacks into p while it checks; everything in p is valid afterwards. */
mscrt_status *mscrt_check_plan(mscrt_plan *p);
/* Returns the number of micro-batches of one training step. */
int64_t mscrt_train_micro(const mscrt_plan *p);

#define MSCRT_MAX_BYTES MSC_MOST_POOL_BYTES

/* check_schedule.c, in this order; the last one after the calls. */
mscrt_status *mscrt_check_stages(mscrt_plan *p);
mscrt_status *mscrt_check_programs(mscrt_plan *p);
mscrt_status *mscrt_check_messages(mscrt_plan *p);
mscrt_status *mscrt_check_deadlock(const mscrt_plan *p);

/* check_product.c: after the kernels. */
mscrt_status *mscrt_check_products(mscrt_plan *p);

/* check_graph.c */
bool mscrt_kernel_takes(const mscrt_plan *p, uint32_t kernel, uint32_t buffers, uint32_t dims);
mscrt_status *mscrt_check_graphs(mscrt_plan *p);
/* The sizes of a convolution or attention on a CPU, and how a convolution is cut into units. */
msc_windows mscrt_windows_of(const mscrt_graph *g);
msc_attention mscrt_attention_of(const mscrt_graph *g);
msc_windows_cut mscrt_windows_cut(const mscrt_graph *g);
uint64_t mscrt_graph_span(const mscrt_graph_tensor *t); /* elements from its first to its last in memory */

/* check_cache.c, after the parameters */
mscrt_status *mscrt_check_caches(mscrt_plan *p);

enum { MSCRT_MOST_TILE_BYTES = 64 << 20 };

/* check_call.c */
mscrt_status *mscrt_check_calls(const mscrt_plan *p);
/* True if buffer i of a call is the result of a kernel that exists a unit of items at a time, for an epilogue. */
bool mscrt_is_tile_of_kernel(const mscrt_plan *p, plan_call c, uint32_t i);
/* Sees to it that the space of tiles has room for those of kernels; before calls are checked. */
void mscrt_note_tiles_of_kernels(mscrt_plan *p);

/* check_cpu.c: refuses code for features that this CPU, or its operating system, does not have, and names all. */
mscrt_status *mscrt_check_cpu(const mscrt_plan *p);
/* What kernels of products want to know of this CPU: MSC_PRODUCT_STORES_WHOLE and others. */
int64_t mscrt_product_traits(void);
/* Returns those of a CPU that cpuid describes: whether it has leaf 0x8000001a, which only AMD's have; eax of that leaf;
 * eax of leaf 1. Virtual machines may hide that the units of Zen 5 servers are 512 bits wide. */
int64_t mscrt_traits_of_cpu(bool tells_widths, uint32_t widths, uint32_t signature);

/* code.c: maps machine code into pages of its own, never writable and executable at once. */
mscrt_status *mscrt_map_code(const uint8_t *code, size_t bytes, size_t text_bytes, uint8_t **out_code);
void mscrt_unmap_code(uint8_t *code, size_t bytes);
/* Writes /tmp/perf-PID.map, where perf finds the names of kernels. */
mscrt_status *mscrt_write_perf_map(const mscrt_plan *p);

/* init.c */
bool mscrt_init_ok(const char *init, mscrt_dtype dtype);
/* Computes the initial values of a box of a tensor, from (seed, name, element number), into a buffer of out_box; the
 * rest of the buffer is zeros. */
void mscrt_init_box(const mscrt_variable *v, uint64_t seed, const msc_box *box, const msc_box *out_box, void *out);

#endif
