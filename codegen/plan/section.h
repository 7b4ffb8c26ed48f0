/* section.h: what the files that make the calls of a section share: the section so far in; places and calls out. */
#ifndef MSC_CODEGEN_PLAN_SECTION_H
#define MSC_CODEGEN_PLAN_SECTION_H

#include "codegen/plan/plan.h"
#include "ir/table.h"

/* The place in a stage's memory of a sum over micro-batches or of a carried value. */
typedef struct {
  const char *name; /* interned */
  uint32_t stage;
  int64_t chunk;
  plan_ref ref;
} inner_place;

typedef struct {
  const char *name; /* interned */
  size_t last;      /* 1 + index of the last parameter or state of that name */
} kept_name;

struct msc_plan_calls {
  msc_plan *p;
  msc_codegen *cg, *host; /* of the target; of its host, NULL: nothing runs there */
  const msc_func *f;
  msc_plan_section *section;
  plan_ref *arg;       /* by argument number */
  uint64_t *constant;  /* of each constant op, by its id: the offset in the plan's constants */
  size_t room_constants;
  uint32_t program;    /* number of the section's program */
  uint64_t scratch;    /* scratch bytes of the section, as pass allocate placed them */
  uint64_t stashed;    /* offset on disk of the values that the section moves off the device */
  uint64_t host_at, host_scratch; /* offset in host memory of what the section makes or keeps there; its bytes */
  size_t num_inner;
  inner_place *inner;
  MSC_TABLE(kept_name) kept;
};

typedef struct msc_plan_calls calling;

/* places.c */

/* Returns a place for argument i: a new one, or that of what has its name already. */
plan_ref msc_plan_place_argument(calling *c, size_t i);
plan_ref msc_plan_place_of(calling *c, const msc_value *v, bool written);
/* Returns a place among the section's values in scratch memory, of the device or of its host. */
plan_ref msc_plan_place_in_scratch(const calling *c, bool on_host, uint64_t offset, uint64_t bytes);
/* Reserves memory of the host and on disk for what the section makes there, or moves there; each section has its
 * own. */
void msc_plan_place_away_from_device(calling *c);
/* Appends the value of a constant to the plan's constants; returns its offset there. */
uint64_t msc_plan_put_constant(calling *c, const msc_op *op);
/* Returns the cache of the table of this name, interned, on the section's stage; NULL: there is none yet. */
msc_plan_cache *msc_plan_find_cache(const calling *c, const char *table);
/* Returns the type of a whole value from that of a rank's part; `shape`, `layout`: as noted, or NULL. */
const msc_type *msc_plan_global_type(const msc_plan *p, const msc_type *local, const msc_attr_value *shape,
                                     const msc_attr_value *layout);

/* calls.c */

/* Appends a call to the section, without buffers. */
msc_plan_call *msc_plan_new_call(calling *c, uint8_t kind, const msc_op *op);

/* moves.c: each appends the call of an op that moves values */

bool msc_plan_call_collective(calling *c, const msc_op *op);
bool msc_plan_call_message(calling *c, const msc_op *op);
bool msc_plan_call_transfer(calling *c, const msc_op *op);
bool msc_plan_call_admit(calling *c, const msc_op *op);
/* Returns the number of a collective in the plan; equal collectives share an entry. */
uint32_t msc_plan_number_collective(msc_plan *p, const msc_plan_collective *v);

#endif
