/* calls.c: a lowered function in; a section of calls, whose operands have places in memory, and their code out. */
#include <string.h>

#include "codegen/plan/section.h"
#include "ir/alias.h"
#include "ir/gemm.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/gpu/rest.h"
#include "passes/8_memory/peak.h"

msc_plan_call *msc_plan_new_call(calling *c, uint8_t kind, const msc_op *op) {
  msc_plan_section *s = c->section;
  msc_grow(c->p->arena, s->call, s->num_calls);
  msc_plan_call *call = &s->call[s->num_calls++];
  memset(call, 0, sizeof *call);
  call->kind = kind;
  call->op = op;
  call->served = (uint8_t)msc_op_int(op, MSC_FACT(served));
  c->p->served |= call->served > 0;
  return call;
}

/* ---- kernels ---- */

/* Lists the buffers of all launches of an op: operands, results, working memory, error flag. */
static const plan_ref *kernel_buffers(calling *c, const msc_op *op, const msc_kernel_call *k) {
  plan_ref *b = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out + 2);
  size_t num = 0, operands = op->num_in + op->num_out;
  bool on_host = msc_runs_on_host(op);
  for (size_t i = 0; i < op->num_in; i++) b[num++] = msc_plan_place_of(c, op->in[i].value, false);
  for (size_t i = 0; i < op->num_out; i++) b[num++] = msc_plan_place_of(c, &op->out[i], true);
  if (k->scratch_bytes)
    b[num++] = msc_plan_place_in_scratch(c, on_host, (uint64_t)msc_op_int(op, MSC_FACT(work)), k->scratch_bytes);
  if (k->checks) b[num++] = msc_plan_place_in_scratch(c, on_host, on_host ? c->host_scratch : c->scratch, 4);
  for (size_t i = operands; i < num; i++) b[i].written = true;
  return b;
}

static void fill_launch(calling *c, msc_plan_call *call, const msc_op *op, const plan_ref *all, const msc_launch *l) {
  call->kind = msc_runs_on_host(op) ? PLAN_CALL_KIND_HOST_KERNEL : PLAN_CALL_KIND_KERNEL;
  call->op = op;
  call->index = l->kernel;
  call->launch = l;
  call->buffer = msc_new_array(c->p->arena, plan_ref, l->num_buffers + 1);
  call->num_buffers = l->num_buffers;
  for (size_t i = 0; i < l->num_buffers; i++) call->buffer[i] = all[l->buffer[i]];
  call->bytes = l->bytes;
  call->flops = l->flops;
  call->grid = msc_plan_grid(l->extent, l->grain, l->threads);
  call->checks = l->checks;
}

/* Reports a launch that has more blocks than a grid may have, because a block computes only its own items. */
static bool check_units(const msc_op *op, const msc_launch *l) {
  const msc_target *target = msc_target_of_op(op);
  uint64_t units = ((uint64_t)l->extent + (uint64_t)l->grain - 1) / (uint64_t)l->grain;
  return units <= target->most_units ||
         msc_op_error(op, MSC_E_UNSUPPORTED,
                      "its kernel works on %" PRIu64 " parts, and at most %" PRIu64 " can be launched at once on %s",
                      units, target->most_units, target->name);
}

/* Gives the call of an op in tiles the kernel that takes them. Tiles stay in the cache: neither moves their bytes. */
static bool add_epilogue(calling *c, const msc_op *op, msc_plan_call *call) {
  msc_kernel_call k;
  MSC_TRY(msc_codegen_add(c->cg, op->next, &k));
  call->epilogue = msc_new(c->p->arena, msc_plan_call);
  fill_launch(c, call->epilogue, op->next, kernel_buffers(c, op->next, &k), &k.launch[0]);
  uint64_t all = (uint64_t)msc_type_bytes(op->out[0].type);
  call->epilogue->bytes -= all < call->epilogue->bytes ? all : call->epilogue->bytes;
  return true;
}

/* Gives a call in tiles, a unit of items each, a result that is as large as a tile. */
static bool call_in_tiles(calling *c, const msc_op *op, msc_plan_call *call) {
  uint64_t all = (uint64_t)msc_type_bytes(op->out[0].type), row_bytes = all / (uint64_t)call->launch->extent;
  call->bytes -= all < call->bytes ? all : call->bytes;
  call->buffer[op->num_in].bytes = row_bytes * (uint64_t)call->launch->grain;
  return add_epilogue(c, op, call);
}

static bool call_kernel(calling *c, const msc_op *op) {
  msc_kernel_call k;
  MSC_TRY(msc_codegen_add(msc_runs_on_host(op) ? c->host : c->cg, op, &k));
  for (size_t i = 0; i < k.num_launches; i++) MSC_TRY(check_units(op, &k.launch[i]));
  const plan_ref *all = kernel_buffers(c, op, &k);
  for (size_t i = 0; i < k.num_launches; i++) {
    msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_KERNEL, op);
    fill_launch(c, call, op, all, &k.launch[i]);
    if (msc_runs_in_tiles(op)) MSC_TRY(call_in_tiles(c, op, call));
  }
  return true;
}

/* ---- products ---- */

/* The operands of a product whose buffers follow those of a, b and c. */
static const msc_gemm_extra behind[] = {MSC_GEMM_BIAS, MSC_GEMM_ADD, MSC_GEMM_AUX, MSC_GEMM_SUM_A, MSC_GEMM_SUM_B};

static void add_further_buffers(calling *c, const msc_op *op, msc_plan_call *call) {
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
    const msc_value *read = msc_gemm_operand(op, behind[i]), *written = msc_gemm_result(op, behind[i]);
    if (read || written) call->buffer[call->num_buffers++] = msc_plan_place_of(c, read ? read : written, !read);
  }
}

static uint32_t number_matmul(msc_plan *p, const msc_plan_matmul *m) {
  for (size_t i = 0; i < p->num_matmuls; i++)
    if (memcmp(&p->matmul[i], m, sizeof *m) == 0) return (uint32_t)i;
  msc_grow(p->arena, p->matmul, p->num_matmuls);
  p->matmul[p->num_matmuls] = *m;
  return (uint32_t)p->num_matmuls++;
}

/* Lists the buffers of the op that does the rest of a gemm.  Its working memory is the library's workspace. */
static const plan_ref *rest_buffers(calling *c, const msc_op *rest, msc_value *const *result, uint64_t scratch_bytes) {
  plan_ref *all = msc_new_array(c->p->arena, plan_ref, rest->num_in + rest->num_out + 1);
  size_t num = 0;
  for (size_t i = 0; i < rest->num_in; i++) all[num++] = msc_plan_place_of(c, rest->in[i].value, false);
  for (size_t i = 0; i < rest->num_out; i++) all[num++] = msc_plan_place_of(c, result[i], true);
  all[num] = (plan_ref){.bytes = scratch_bytes, .space = PLAN_SPACE_TILE, .written = true};
  return all;
}

/* Appends the kernels of one op of the rest to *last, a product's call or an epilogue. */
static bool append_rest(calling *c, const msc_op *gemm, const msc_rest *rest, msc_plan_call **last) {
  msc_kernel_call k;
  MSC_TRY(msc_codegen_add(c->cg, rest->op, &k));
  const plan_ref *all = rest_buffers(c, rest->op, rest->result, k.scratch_bytes);
  for (size_t i = 0; i < k.num_launches && k.scratch_bytes <= c->p->workspace_bytes; i++) {
    MSC_TRY(check_units(gemm, &k.launch[i]));
    *last = (*last)->epilogue = msc_new(c->p->arena, msc_plan_call);
    fill_launch(c, *last, gemm, all, &k.launch[i]);
    (*last)->bytes = (*last)->flops = 0; /* those of the product's call are of all that it does */
  }
  return true;
}

/* Gives a call of a GPU's library the kernels that do what the library does besides the product, for a library that
 * refuses to, or takes longer. */
static bool add_rest(calling *c, msc_op *gemm, msc_plan_call *call) {
  msc_rests rests;
  bool ok = msc_insert_rests(gemm, &rests);
  for (size_t i = 0; ok && i < rests.num; i++) ok = append_rest(c, gemm, &rests.op[i], &call);
  for (size_t i = 0; i < rests.num; i++) msc_op_erase(rests.op[i].op);
  return ok;
}

static bool call_matmul(calling *c, const msc_op *op) {
  msc_plan_matmul m;
  const msc_target *target = msc_target_of(c->p->module);
  memset(&m, 0, sizeof m); /* clears the padding, too: equal products are found by their bytes */
  MSC_TRY(msc_plan_product(c->cg, op, target, &m));
  if (c->p->workspace_bytes < target->product_workspace) c->p->workspace_bytes = target->product_workspace;
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_MATMUL, op);
  call->index = number_matmul(c->p, &m);
  call->buffer = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out);
  for (size_t i = 0; i < 2; i++) call->buffer[i] = msc_plan_place_of(c, op->in[i].value, false);
  call->buffer[2] = msc_plan_place_of(c, &op->out[0], true);
  if (m.tile_bytes) call->buffer[2].bytes = m.tile_bytes;
  call->num_buffers = 3;
  add_further_buffers(c, op, call);
  call->flops = (uint64_t)msc_op_flops(op, c->p->arena);
  uint64_t made = m.tile_bytes ? 0 : m.m * m.n;
  call->bytes = m.batch * (m.m * m.k + m.k * m.n + made) * (uint64_t)msc_dtype_bytes(m.dtype);
  if (target->is_gpu) return add_rest(c, (msc_op *)(uintptr_t)op, call);
  if (!m.tile_bytes) return true;
  return add_epilogue(c, op, call);
}

/* ---- graphs of a GPU's library ---- */

static uint32_t number_graph(msc_plan *p, const msc_plan_graph *g) {
  for (size_t i = 0; i < p->num_graphs; i++)
    if (memcmp(&p->graph[i], g, sizeof *g) == 0) return (uint32_t)i;
  msc_grow(p->arena, p->graph, p->num_graphs);
  p->graph[p->num_graphs] = *g;
  return (uint32_t)p->num_graphs++;
}

/* Returns the bytes from the first element of an operand to its last; elements of other values may lie between. */
static uint64_t operand_span(const msc_plan_operand *o) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += (o->shape[d] - 1) * o->stride[d];
  return (last + 1) * (uint64_t)msc_dtype_bytes(o->dtype);
}

static bool call_graph(calling *c, const msc_op *op) {
  msc_plan_graph g;
  msc_plan_graph_of(op, &g);
  if (msc_target_of(c->p->module)->graphs_have_kernels) MSC_TRY(msc_plan_graph_kernels(c->cg, op, &g));
  else if (c->p->workspace_bytes < g.bytes) c->p->workspace_bytes = g.bytes;
  msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_GRAPH, op);
  call->index = number_graph(c->p, &g);
  call->buffer = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out);
  plan_ref *next = call->buffer;
  for (size_t i = 0; i < op->num_in; i++) *next++ = msc_plan_place_of(c, op->in[i].value, false);
  for (size_t i = 0; i < op->num_out; i++) *next++ = msc_plan_place_of(c, &op->out[i], true);
  call->num_buffers = (size_t)(next - call->buffer);
  for (size_t i = 0; i < call->num_buffers; i++) call->buffer[i].bytes = operand_span(&g.operand[i]);
  call->flops = (uint64_t)msc_op_flops(op, c->p->arena);
  call->bytes = (uint64_t)msc_graph_bytes(op);
  return true;
}

/* ---- sections ---- */

static bool call_op(calling *c, const msc_op *op) {
  if (msc_is_graph(op)) return call_graph(c, op);
  if (msc_is_view(op) || msc_moves_nothing(op)) return true;
  if (msc_is_message(op)) return msc_plan_call_message(c, op);
  if (msc_is_transfer(op)) return msc_plan_call_transfer(c, op);
  switch (op->kind) {
    case OP_return: return true;
    case OP_constant: c->constant[op->id] = msc_plan_put_constant(c, op); return true;
    case OP_comm: return msc_plan_call_collective(c, op);
    case OP_gemm: return call_matmul(c, op);
    case OP_admit: return msc_plan_call_admit(c, op);
    default: break;
  }
  return msc_runs_in_tiles(op->prev) || call_kernel(c, op);
}

/* Adds copies of results that are the new value of an argument but do not lie in its place. */
static bool copy_ties(calling *c) {
  const msc_op *ret = c->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(c->f, i);
    if (arg < 0) continue;
    plan_ref from = msc_plan_place_of(c, ret->in[i].value, false), to = c->arg[arg];
    if (from.space == to.space && from.offset == to.offset) continue;
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (from.space == PLAN_SPACE_HOST || to.space == PLAN_SPACE_HOST)
      return msc_op_error(ret, MSC_E_INTERNAL, "what the host updates does not lie where it did");
    if (msc_arg_attr(c->f, (size_t)arg, MSC_FACT(msc_cached)))
      return msc_op_error(ret, MSC_E_INTERNAL, "updated rows of a cache do not lie where they did");
    if (maker && msc_op_int(maker, MSC_FACT(served)) == 1)
      return msc_op_error(maker, MSC_E_INTERNAL, "what a server updates does not lie where the parameter does");
    const msc_type *t = ret->in[i].value->type;
    msc_plan_collective v = {.verb = MSC_EXCHANGE, .dtype = t->dtype, .rank = t->rank};
    for (int d = 0; d < t->rank; d++) v.shape[d] = (uint64_t)t->dim[d];
    v.from = v.to = msc_plan_layout(c->p, msc_layout_replicated(c->p->ctx, t->rank));
    msc_plan_call *call = msc_plan_new_call(c, PLAN_CALL_KIND_COLLECTIVE, ret);
    call->index = msc_plan_number_collective(c->p, &v);
    call->buffer = msc_new_array(c->p->arena, plan_ref, 2);
    call->buffer[0] = from;
    call->buffer[1] = to;
    call->buffer[1].written = true;
    call->num_buffers = 2;
  }
  return true;
}

/* Sets what pass outputs has noted about the model's result of this name. */
static void note_batch(const calling *c, msc_plan_output *o) {
  const msc_module *m = c->f->module;
  const msc_attr_value *all = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_outputs));
  o->batch_dim = -1;
  for (size_t i = 0; all && i < all->list.num; i++) {
    const msc_attr_value *v = all->list.v[i].list.v;
    if (strcmp(v[0].s, o->name)) continue;
    o->batch_dim = (int)v[1].i;
    o->labels = v[2].b;
    o->divisor = !strcmp(v[3].s, "divisor");
    o->adds_up = o->divisor || !strcmp(v[3].s, "adds_up");
  }
}

static void note_outputs(calling *c) {
  msc_plan *p = c->p;
  const msc_op *ret = c->f->body->last;
  const msc_attr_value *names = msc_func_attr(c->f, MSC_FACT(results)), *loss = msc_func_attr(c->f, MSC_FACT(loss));
  const msc_attr_value *layouts = msc_func_attr(c->f, MSC_FACT(result_layouts)),
                       *shapes = msc_func_attr(c->f, MSC_FACT(result_shapes));
  for (size_t i = 0; i < ret->num_in; i++) {
    if (msc_tied_argument(c->f, i) >= 0) continue;
    msc_grow(p->arena, p->output, p->num_outputs);
    msc_plan_output *o = &p->output[p->num_outputs++];
    o->name = names && i < names->list.num ? names->list.v[i].s : msc_arena_printf(p->arena, "result%zu", i);
    o->program = c->program;
    o->stage = c->section->stage;
    o->global = msc_plan_global_type(p, ret->in[i].value->type, shapes ? &shapes->list.v[i] : NULL,
                            layouts ? &layouts->list.v[i] : NULL);
    o->ref = msc_plan_place_of(c, ret->in[i].value, false);
    o->loss = loss && (size_t)loss->i == i;
    note_batch(c, o);
  }
}

msc_plan_calls *msc_plan_calls_begin(msc_plan *p, msc_codegen *cg, msc_codegen *host) {
  calling *c = msc_new(p->arena, calling);
  c->p = p, c->cg = cg, c->host = host, c->kept.index.arena = p->arena;
  return c;
}

bool msc_plan_add_section(msc_plan_calls *c, msc_func *f, uint32_t program) {
  msc_plan *p = c->p;
  msc_numbering n = msc_number(f->body);
  msc_grow(p->arena, p->section, p->num_sections);
  c->f = f, c->program = program;
  c->section = &p->section[p->num_sections++];
  *c->section = (msc_plan_section){.func = f,
                                   .name = f->name,
                                   .stage = (uint32_t)msc_fact_read(f, stage, 0),
                                   .copies = (uint32_t)msc_fact_read(f, copies, 1)};
  c->arg = msc_new_array(p->arena, plan_ref, f->body->num_args);
  c->constant = msc_new_array(p->arena, uint64_t, n.num_ops);
  c->scratch = (uint64_t)msc_fact_read(f, scratch, 0);
  c->section->scratch_bytes = c->scratch + MSC_FLAG_BYTES;
  for (size_t i = 0; i < f->body->num_args; i++) c->arg[i] = msc_plan_place_argument(c, i);
  msc_plan_place_away_from_device(c);
  for (const msc_op *op = f->body->first; op; op = op->next) MSC_TRY(call_op(c, op));
  MSC_TRY(copy_ties(c));
  note_outputs(c);
  if (msc_target_of(p->module)->is_host) msc_plan_find_chains(p, c->section);
  return true;
}
