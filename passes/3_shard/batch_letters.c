/* batch_letters: the batch of the inputs -> of every group the letter that carries it, which the mode's default cuts.
 *
 * Samples are followed from the inputs to their readers, in program order. What depends on no sample, but is read
 * beside some, is found from its readers: random draws, and what was stretched along the batch from a constant, as
 * the first state of a recurrent network. */
#include <string.h>

#include "ir/fact.h"
#include "passes/3_shard/shard.h"

typedef struct {
  const shard_graph *g;
  int8_t *letter_of_group; /* the batch; -1: none */
  int8_t *dim;             /* by value: its batch dimension; -1: none */
  bool *drawn; /* by value: it is a random draw, or elementwise ops, as the casts of compute_type, made it */
} batch_search;

/* The first letter of a dimension; -1: it has none. */
static int major_letter(const shard_op *o, int tensor, int d) {
  const msc_dim_letters *own = &o->rule.tensor[tensor].dim[d];
  return own->num ? own->letter[0] : -1;
}

/* The result's dimension that begins with this letter; -1: none. */
static int dim_of_letter(const shard_op *o, int tensor, int letter) {
  for (int d = 0; d < o->rule.tensor[tensor].rank; d++)
    if (major_letter(o, tensor, d) == letter) return d;
  return -1;
}

static bool leads_group(const batch_search *s, const shard_op *o) { return s->g->group[o->group].leader == o->op; }

/* ---- random draws ---- */

/* Sets `drawn`, in program order. */
static void find_drawn(batch_search *s) {
  for (size_t i = 0; i < s->g->num_ops; i++) {
    const msc_op *op = s->g->op[i].op;
    bool is = msc_info(op)->flags & MSC_RANDOM;
    for (size_t k = 0; k < op->num_in && msc_form_of(op) == MSC_FORM_ELEMENTWISE; k++)
      is |= s->drawn[op->in[k].value->id];
    for (size_t k = 0; k < op->num_out; k++) s->drawn[op->out[k].id] = is;
  }
}

/* If v is drawn at random, and its dimension d runs along the batch of its reader though it depends on no sample: makes
 * that dimension the batch of the op that computes it and of the draw, so that each rank draws for its own samples. */
static void mark_draw(batch_search *s, const msc_value *v, int d) {
  const msc_op *op = v->def;
  if (!op || s->dim[v->id] >= 0 || !s->drawn[v->id]) return;
  const shard_op *o = &s->g->op[op->id];
  int letter = major_letter(o, o->rule.num_in, d);
  if (o->group < 0 || letter < 0) return;
  /* A cast shares the group of the op whose layout it has: that op's letter counts. */
  if (leads_group(s, o)) s->letter_of_group[o->group] = (int8_t)letter;
  s->dim[v->id] = (int8_t)d;
  for (int t = 0; t < o->rule.num_in; t++)
    for (int k = 0; k < o->rule.tensor[t].rank; k++)
      if (major_letter(o, t, k) == letter) mark_draw(s, op->in[t].value, k);
}

/* ---- what follows samples ---- */

/* Finds the batch dimensions of the results of a gradient op: those whose letter stands for the batch of the op that it
 * is the gradient of. An op that is its own leader, which simplification may leave of the gradient of an op that is
 * gone, reads them. */
static void mark_gradient_results(batch_search *s, const shard_op *o) {
  int batch = s->letter_of_group[o->group];
  for (int t = 0; batch >= 0 && t < o->op->num_out; t++)
    for (int d = 0; d < o->rule.tensor[o->rule.num_in + t].rank; d++) {
      int letter = major_letter(o, o->rule.num_in + t, d);
      if (letter >= 0 && o->to_group[letter] == batch) s->dim[o->op->out[t].id] = (int8_t)d;
    }
}

/* The letter of the first operand's batch dimension that the op may cut; -1: none. */
static int letter_of_operands(const batch_search *s, const shard_op *o) {
  for (int t = 0; t < o->rule.num_in; t++) {
    int d = s->dim[o->op->in[t].value->id], l = d >= 0 ? major_letter(o, t, d) : -1;
    /* if the op is not expanded, its kernel needs this letter whole */
    bool kept = l >= 0 && o->rule.letter[l].expands && !msc_has_no_kernel(o->op);
    if (l >= 0 && o->rule.letter[l].role != MSC_REP && !kept) return l;
  }
  return -1;
}

static void mark_results(batch_search *s, const shard_op *o, int letter) {
  for (int t = 0; t < o->op->num_out; t++) {
    int d = dim_of_letter(o, o->rule.num_in + t, letter);
    if (d >= 0) s->dim[o->op->out[t].id] = (int8_t)d;
  }
}

static void mark_inputs(batch_search *s) {
  const msc_func *f = s->g->func;
  for (size_t i = 0; i < f->body->num_args; i++) {
    if (msc_arg_role(f, i) > MSC_ROLE_MASK || f->body->args[i]->type->rank == 0) continue;
    const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_batch_dim));
    int64_t d = v && v->kind == MSC_ATTR_INT ? v->i : 0;
    if (d >= 0 && d < f->body->args[i]->type->rank) s->dim[f->body->args[i]->id] = (int8_t)d;
  }
}

/* Follows samples through all ops, in program order. */
static void follow_samples(batch_search *s) {
  for (size_t i = 0; i < s->g->num_ops; i++) {
    const shard_op *o = &s->g->op[i];
    if (o->group < 0 || msc_info(o->op)->flags & MSC_UPDATE) continue;
    if (o->op->forward) {
      mark_gradient_results(s, o);
      continue;
    }
    int letter = letter_of_operands(s, o);
    if (leads_group(s, o)) s->letter_of_group[o->group] = (int8_t)letter;
    if (letter < 0) continue;
    for (int t = 0; t < o->rule.num_in; t++)
      for (int d = 0; d < o->rule.tensor[t].rank; d++)
        if (major_letter(o, t, d) == letter) mark_draw(s, o->op->in[t].value, d);
    mark_results(s, o, letter);
  }
}

/* ---- what is stretched along the batch ---- */

/* Is dimension d of result t only repetition: no operand has it, or those that do have it as repetition, too? The bits
 * of `repeats`, by value, tell that of dimensions. */
static bool is_repeated(const shard_op *o, int t, int d, const uint32_t *repeats) {
  int letter = major_letter(o, o->rule.num_in + t, d);
  bool any = false;
  for (int i = 0; i < o->rule.num_in && letter >= 0; i++)
    for (int k = 0; k < o->rule.tensor[i].rank; k++) {
      if (major_letter(o, i, k) != letter) continue;
      if (!(repeats[o->op->in[i].value->id] >> k & 1)) return false;
      any = true;
    }
  return any || (letter >= 0 && msc_form_of(o->op) == MSC_FORM_STRETCH);
}

static const uint32_t *find_repeated(const batch_search *s) {
  uint32_t *repeats = msc_new_array(s->g->arena, uint32_t, s->g->num_values);
  for (size_t i = 0; i < s->g->num_ops; i++) {
    const shard_op *o = &s->g->op[i];
    for (int t = 0; o->group >= 0 && !o->op->forward && t < o->op->num_out; t++)
      for (int d = 0; d < o->op->out[t].type->rank; d++)
        repeats[o->op->out[t].id] |= (uint32_t)is_repeated(o, t, d, repeats) << d;
  }
  return repeats;
}

/* Do all readers of v in the model have its dimension d along their batch? */
static bool is_batch_to_readers(const batch_search *s, const msc_value *v, int d) {
  bool any = false;
  for (const msc_use *u = v->uses; u; u = u->next) {
    if (u->user->forward) continue; /* as its forward op has it */
    if (u->user->block != s->g->func->body) return false;
    const shard_op *o = &s->g->op[u->user->id];
    int t = (int)(u - u->user->in), letter = o->group >= 0 && t < o->rule.num_in ? major_letter(o, t, d) : -1;
    if (letter < 0 || o->to_group[letter] < 0 || s->letter_of_group[o->group] != o->to_group[letter]) return false;
    any = true;
  }
  return any;
}

/* Gives ops without samples whose results are repeated along the batch of their readers that dimension as their batch,
 * from the last op to the first: so ranks compute a sum over the batch of its gradient as they do for other samples. */
static void mark_repeated(batch_search *s) {
  const uint32_t *repeats = find_repeated(s);
  for (size_t i = s->g->num_ops; i-- > 0;) {
    const shard_op *o = &s->g->op[i];
    if (o->group < 0 || o->op->forward || o->op->num_out != 1 || !leads_group(s, o)) continue;
    const msc_value *v = &o->op->out[0];
    for (int d = 0; d < v->type->rank && s->letter_of_group[o->group] < 0; d++) {
      int letter = major_letter(o, o->rule.num_in, d);
      if (!(repeats[v->id] >> d & 1) || o->rule.letter[letter].role == MSC_REP || !is_batch_to_readers(s, v, d))
        continue;
      s->letter_of_group[o->group] = (int8_t)letter;
      s->dim[v->id] = (int8_t)d;
    }
  }
}

const int8_t *shard_batch_letters(const shard_graph *g) {
  batch_search s = {g, msc_new_array(g->arena, int8_t, g->num_groups + 1),
                    msc_new_array(g->arena, int8_t, g->num_values), msc_new_array(g->arena, bool, g->num_values)};
  memset(s.dim, -1, g->num_values);
  memset(s.letter_of_group, -1, g->num_groups);
  find_drawn(&s);
  mark_inputs(&s);
  follow_samples(&s);
  mark_repeated(&s);
  return s.letter_of_group;
}
