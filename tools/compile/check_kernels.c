/* check_kernels.c: fused ops in; the differences between their kernels' results and the interpreter's out. */
#include "tools/compile/check_kernels.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/codegen.h"
#include "ir/interp/interp.h"
#include "runtime/kernels/builtin.h"

enum { BESIDE = 256, FILLING = 0xA5 }; /* bytes around a buffer, which no kernel may write */

static const int64_t MOST_WORK = 50000000; /* scalar operations of the interpreter: about a second */
static const double TOLERANCE = 1e-5; /* of the largest element, beside what changes of the operands' last place do */

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  msc_func *func; /* the op and nothing else */
  const msc_op *op;
  const msc_loc *loc; /* and what it is called, in the module */
  const char *name;
  msc_kernel_call call;
} kernel_case;

typedef struct {
  void *memory;
  size_t bytes;
  const msc_machine_code *code;
} loaded;

/* ---- one op as a function ---- */

static msc_op *op_number(const msc_func *f, size_t number) {
  msc_op *op = f->body->first;
  while (op && number--) op = op->next;
  return op;
}

/* Gives the function one argument for each distinct operand of the op. */
static void add_arguments(msc_func *h, msc_op *op) {
  msc_value *was[256];
  for (size_t i = 0; i < op->num_in; i++) was[i] = op->in[i].value;
  for (size_t i = 0; i < op->num_in; i++) {
    size_t first = 0;
    while (was[first] != was[i]) first++;
    msc_set_operand(op, i, first < i ? op->in[first].value : msc_add_arg(h->body, was[i]->type, NULL));
  }
}

/* Makes a function that holds only op `number` of a copy of f; neither copy is in a module. */
static bool copy_op_alone(kernel_case *k, msc_func *f, size_t number) {
  msc_func *copy = msc_func_clone(f, "copy of all"), *h = msc_func_new(f->module, "kernel");
  msc_op *op = op_number(copy, number);
  msc_value *out[256];
  k->func = h, k->op = op, k->loc = op->loc, k->name = op->name;
  bool ok = op->num_in < 256 && op->num_out < 256;
  for (size_t i = 0; ok && i < op->num_out; i++) out[i] = &op->out[i];
  if (ok) {
    msc_op_unlink(op);
    add_arguments(h, op);
    for (size_t i = 0; i < op->num_out; i++) /* what followed reads nothing of it any more */
      while (op->out[i].uses) {
        msc_use *u = op->out[i].uses;
        msc_set_operand(u->user, (size_t)(u - u->user->in), msc_add_arg(copy->body, op->out[i].type, NULL));
      }
    msc_append(h->body, op);
    op->body->func = h;
    msc_append_return(h, op->num_out, out, op->loc);
  }
  msc_func_remove(copy);
  msc_func_remove(h);
  return ok;
}

/* ---- code ---- */

static bool load_code(msc_context *ctx, const msc_machine_code *code, loaded *out) {
  *out = (loaded){.code = code, .bytes = ((size_t)code->num_bytes + 4095) / 4096 * 4096};
  if (!out->bytes) return true; /* kernels of the runtime only */
  size_t text = ((size_t)code->text_bytes + 4095) / 4096 * 4096;
  out->memory = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (out->memory == MAP_FAILED)
    return msc_error(ctx, MSC_E_OUT_OF_MEMORY, NULL, "check-numerics: no memory for kernels: %s", strerror(errno));
  memcpy(out->memory, code->bytes, code->num_bytes);
  if (mprotect(out->memory, text, PROT_READ | PROT_EXEC) == 0) return true;
  munmap(out->memory, out->bytes);
  return msc_error(ctx, MSC_E_UNSUPPORTED, NULL, "check-numerics: generated code cannot be executed here: %s",
                   strerror(errno));
}

static mscrt_kernel *find_kernel_entry(const loaded *l, uint32_t number) {
  const msc_kernel *k = &l->code->kernel[number];
  mscrt_kernel *fn;
  void *entry = (char *)l->memory + k->entry;
  memcpy(&fn, &entry, sizeof fn);
  return k->builtin ? mscrt_builtin(k->builtin) : fn;
}

/* ---- a run ---- */

typedef struct {
  size_t bytes;
  char *room, *data;
} buffer;

static buffer buffer_of(msc_arena *a, size_t bytes) {
  buffer b = {.bytes = bytes, .room = msc_arena_alloc(a, bytes + 2 * BESIDE + 64)};
  memset(b.room, FILLING, bytes + 2 * BESIDE + 64);
  b.data = b.room + BESIDE + (64 - (uintptr_t)(b.room + BESIDE) % 64) % 64;
  return b;
}

static bool has_clean_guards(const buffer *b) {
  for (const char *p = b->room; p < b->room + b->bytes + 2 * BESIDE + 64; p++)
    if ((p < b->data || p >= b->data + b->bytes) && *p != (char)FILLING) return false;
  return true;
}

static void run_in_pieces(const loaded *l, const msc_launch *k, const buffer *list) {
  void *buffers[256];
  for (size_t i = 0; i < k->num_buffers; i++) buffers[i] = list[k->buffer[i]].data;
  int64_t extent = (int64_t)k->extent, middle = extent / 3; /* in two pieces, as threads take it */
  if (middle) find_kernel_entry(l, k->kernel)(buffers, 0, middle, k->dims, k->scalars);
  if (extent) find_kernel_entry(l, k->kernel)(buffers, middle, extent, k->dims, k->scalars);
}

/* Runs a kernel on the buffers of its call: operands, results, scratch, error flag. */
static bool execute(const kernel_case *k, const loaded *l, const msc_tensor *args, msc_tensor *out) {
  buffer list[600];
  size_t num = 0;
  for (size_t i = 0; i < k->op->num_in; i++) {
    const msc_tensor *t = &args[k->op->in[i].value->index];
    list[num] = buffer_of(k->arena, (size_t)msc_type_bytes(t->type));
    memcpy(list[num].data, t->data, list[num].bytes);
    num++;
  }
  for (size_t i = 0; i < k->op->num_out; i++) {
    list[num] = buffer_of(k->arena, (size_t)msc_type_bytes(k->op->out[i].type));
    out[i] = (msc_tensor){k->op->out[i].type, list[num++].data};
  }
  if (k->call.scratch_bytes) list[num++] = buffer_of(k->arena, k->call.scratch_bytes);
  list[num++] = buffer_of(k->arena, 4);
  memset(list[num - 1].data, 0, 4);
  for (size_t i = 0; i < k->call.num_launches; i++) run_in_pieces(l, &k->call.launch[i], list);
  for (size_t i = 0; i < num; i++)
    if (!has_clean_guards(&list[i]))
      return msc_error(k->ctx, MSC_E_INTERNAL, k->loc, "check-numerics: %s: its kernel writes beside buffer %zu",
                       k->name ? k->name : "fused", i);
  return true;
}

/* ---- comparing ---- */

static double largest_magnitude(const msc_tensor *t) {
  double most = 0;
  for (int64_t i = 0; i < msc_type_elems(t->type); i++) {
    double v = fabs(msc_tensor_get(t, i));
    if (v > most && v < INFINITY) most = v;
  }
  return most;
}

/* The largest difference between elements; infinite where only one of two elements is a number. */
static double largest_difference(const msc_tensor *a, const msc_tensor *b, int64_t *out_at) {
  double most = 0;
  for (int64_t i = 0; i < msc_type_elems(a->type); i++) {
    double x = msc_tensor_get(a, i), y = msc_tensor_get(b, i);
    if (x == y || (x != x && y != y)) continue;
    double d = fabs(x - y) < INFINITY ? fabs(x - y) : INFINITY;
    if (d > most) most = d, *out_at = i;
  }
  return most;
}

static msc_tensor *interpret_case(const kernel_case *k, const msc_tensor *args) {
  msc_tensor *out = msc_new_array(k->arena, msc_tensor, k->op->num_out + 1);
  return msc_interpret(k->func, k->arena, args, out) ? out : NULL;
}

/* How much the result changes when the operands change in their last place. */
static double sensitivity(const kernel_case *k, const msc_tensor *args, const msc_tensor *want, size_t result) {
  double most = 0;
  for (int round = 1; round <= 3; round++) {
    msc_tensor *other = msc_new_array(k->arena, msc_tensor, k->func->body->num_args + 1);
    for (size_t i = 0; i < k->func->body->num_args; i++) {
      const msc_type *t = args[i].type;
      bool exact = !msc_is_float(t->dtype);
      double step = t->dtype == MSC_F64 ? 0x1p-51 : t->dtype == MSC_F32 ? 0x1p-22 : 0x1p-8;
      other[i] = msc_tensor_new(k->arena, t);
      for (int64_t e = 0; e < msc_type_elems(t); e++)
        msc_tensor_set(
            &other[i], e,
            msc_tensor_get(&args[i], e) * (exact ? 1 : 1 + step * (double)((e * 7 + round * 5 + (int64_t)i) % 3 - 1)));
    }
    int64_t at;
    const msc_tensor *got = interpret_case(k, other);
    if (got) most = fmax(most, largest_difference(&want[result], &got[result], &at));
  }
  return most;
}

static bool is_narrow(const kernel_case *k) {
  for (const msc_op *op = k->op->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_in; i++)
      if (op->in[i].value->type->dtype == MSC_BF16 || op->in[i].value->type->dtype == MSC_F16) return true;
  return false;
}

static bool check_case(const kernel_case *k, const loaded *l) {
  const msc_tensor *args = msc_random_args(k->arena, k->func, 1), *want = interpret_case(k, args);
  msc_tensor *got = msc_new_array(k->arena, msc_tensor, k->op->num_out + 1);
  bool ok = true;
  if (!want) return false;
  MSC_TRY(execute(k, l, args, got));
  for (size_t i = 0; i < k->op->num_out; i++) {
    int64_t at = 0;
    double off = largest_difference(&want[i], &got[i], &at),
           allowed = (is_narrow(k) ? 0.05 : TOLERANCE) * largest_magnitude(&want[i]);
    if (off <= allowed || off <= allowed + 50 * sensitivity(k, args, want, i)) continue;
    ok = msc_error(k->ctx, MSC_E_INTERNAL, k->loc,
                   "check-numerics: %s: element %" PRId64 " of result %zu is %.9g, its kernel computes %.9g",
                   k->name ? k->name : "fused", at, i, msc_tensor_get(&want[i], at), msc_tensor_get(&got[i], at));
  }
  return ok;
}

/* ---- all ---- */

static bool depends_on_rank(const msc_kernel_call *call) {
  for (size_t i = 0; i < call->num_launches; i++)
    if (call->launch[i].num_starts) return true;
  return false;
}

static bool gather_cases(msc_context *ctx, msc_arena *a, msc_func *f, msc_codegen *cg, kernel_case *out, size_t *num) {
  size_t number = 0;
  for (msc_op *op = f->body->first; op; op = op->next, number++) {
    kernel_case *k = &out[*num];
    if (op->kind != OP_fused) continue;
    *k = (kernel_case){.ctx = ctx, .arena = a};
    if (!copy_op_alone(k, f, number) || msc_interpret_work(k->func) > MOST_WORK) continue;
    MSC_TRY(msc_codegen_add(cg, k->op, &k->call));
    *num += !depends_on_rank(&k->call);
  }
  return true;
}

static size_t num_fused(const msc_module *m) {
  size_t n = 0;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next) n += op->kind == OP_fused;
  return n;
}

bool check_kernels(msc_context *ctx, msc_module *m) {
  size_t num = 0, most = num_fused(m);
  msc_machine_code code;
  loaded l;
  bool ok = true;
  if (!most || !msc_target_of(m)->is_host) return true;
  msc_arena *a = msc_arena_new(ctx);
  kernel_case *k = msc_new_array(a, kernel_case, most + 1);
  msc_codegen *cg = msc_codegen_begin(ctx, &(msc_code_target){.target = &msc_target_cpu});
  for (msc_func *f = m->first; f && ok; f = f->next) ok = cg && gather_cases(ctx, a, f, cg, k, &num);
  if (!ok && cg) msc_codegen_abandon(cg);
  ok = ok && msc_codegen_finish(cg, &code) && load_code(ctx, &code, &l);
  for (size_t i = 0; i < num && ok; i++) ok = check_case(&k[i], &l);
  if (ok && l.memory) munmap(l.memory, l.bytes);
  msc_arena_free(a);
  return ok;
}
