/* target.h: what a module is lowered for.  A target is a struct of numbers and functions that passes and codegen read;
 * nobody asks which target it is.  One more is a row in ir/abi/target.h, a file with its constant, as target_cuda.c,
 * and its name among the sets below. */
#ifndef MSC_PASSES_TARGET_H
#define MSC_PASSES_TARGET_H

#include "ir/abi/target.h"
#include "ir/ir.h"
#include "passes/config/config.h"

/* Sets of targets, as rows of pass.def and kernel.def name them. */
enum { MSC_ON_CPU = 1 << MSC_TARGET_cpu, MSC_ON_CUDA = 1 << MSC_TARGET_cuda, MSC_ON_ANY = MSC_ON_CPU | MSC_ON_CUDA };

struct msc_nester;
struct msc_nest_launch;

typedef struct msc_target {
  /* set from the target's row in ir/abi/target.h */
  const char *name;              /* as in --target and in a module's attribute msc.target */
  unsigned bit;                  /* MSC_ON_... */
  uint64_t most_units;           /* the most units of work of one launch */

  /* what the command line may say for this target, and the defaults */
  int least_arch;                /* the least that --target NAME:sm_ARCH may say; 0: it takes no architecture */
  const char *cluster;           /* the description compiled for without --cluster; NULL: this machine's */
  bool deterministic;            /* the key `deterministic` when it is absent */

  /* code and memory */
  bool is_gpu;                   /* blocks of threads share a kernel's items, and the host waits for it once per step */
  bool makes_ptx;                /* code is PTX; else x86-64 */
  bool is_host;                  /* values lie in the host's memory */
  /* what ops are lowered for that the host runs beside the device (primitive_target); NULL: there is no other host */
  const struct msc_target *host;
  bool has_servers;              /* state of the optimizer may live on servers */
  bool is_elastic;               /* plans may bring along those of fewer ranks */
  uint32_t steps_of_input;       /* steps whose batches have room at once; 0: as many batches as the schedule needs */

  /* products */
  bool widens_products;          /* products of f16 and bf16 get a result in f32: widen.c */
  bool cuts_products;            /* the library is called tile by tile, so that several threads compute a product */
  bool graphs_have_kernels;      /* kernels compute the products of a graph of a plan; else a library computes it all */
  bool takes_strides;            /* products and convolutions read and write parts of larger arrays: views.c */
  uint64_t product_workspace;    /* bytes that the library wants for its best algorithms */

  /* kernels */
  int vector_bytes;              /* the size of a vector that fusion assumes */
  int flops_of_byte;             /* operations of simple arithmetic that take as long as a byte moved, for fusion */
  bool joins_readers;            /* independent kernels that read one large value run as one: fuse.c */
  bool joins_small_kernels;      /* independent kernels run as one, to save launches: fuse.c */
  bool remakes_cheap_values;     /* the backward computes again what costs no traffic: narrow.c */
  bool adds_atomically;          /* threads may add to one place in whatever order */
  bool sums_in_blocks;           /* sums follow the op's attribute `blocks`; else their order is the threads' */
  bool finds_labels;             /* a loss finds its label's element while it sums the row; else it reads it again */
  bool blocks_scatters;          /* sums of scattered rows follow the attribute `blocks`, too */
  bool pools_in_runtime;         /* the runtime has kernels for pools of f32; else they are loop nests */
  bool keeps_rows;               /* a kernel keeps a row that it reads in several phases */
  int64_t scatter_threads;       /* threads that share the rows of a sum in order; 0: one thread sums all rows */
  /* A reduction runs in two launches where one would have fewer items than `few_items` for more operations and bytes
   * than `long_work`, or `long_tail` of one that has a tail, and more than two parts of so many points. */
  uint64_t few_items, long_work, long_tail, part_points;
  int (*lanes)(const struct msc_nester *n);              /* elements of a vector */
  uint64_t (*items)(const struct msc_nester *n);         /* units of work that threads can share */
  int64_t (*part)(const struct msc_nester *n, int axis); /* positions of `axis` in a part of a long reduction */
  /* Sets items, grain and threads of a launch. */
  void (*shape)(const struct msc_nester *n, struct msc_nest_launch *l);
} msc_target;

/* What a target's constant has from its row. */
#define MSC_TARGET_ROW(id) .name = #id, .bit = 1u << MSC_TARGET_##id, .most_units = (uint32_t)MSC_MOST_UNITS_##id

#define X(id, most_units, has_images, calls_whole) extern const msc_target msc_target_##id;
MSC_TARGETS(X)
#undef X

/* NULL: there is no such target. */
const msc_target *msc_target_named(const char *name);
/* Returns the names of all targets, with `between` between them. */
const char *msc_target_names(msc_arena *arena, const char *between);
/* The one target of a set; NULL: it has several. */
const msc_target *msc_target_alone(unsigned set);
/* The target that the module's attribute msc.target names; without the attribute the CPU. */
const msc_target *msc_target_of(const msc_module *m);
/* True if the host runs the op in the program of a device: the op is marked primitive_target. */
bool msc_runs_on_host(const msc_op *op);
/* What the op is lowered for: its module's target, or, if it runs on the host, that target's host. */
const msc_target *msc_target_of_op(const msc_op *op);
/* The key `deterministic`, or the target's default. */
bool msc_is_deterministic(const msc_module *m, const msc_config *config);

#endif
