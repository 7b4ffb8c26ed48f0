/* check_messages: checks the functions of a pipeline program, and reports messages that nobody sends or receives, of
 * another type or micro-batch, or in another order than they were sent; values carried between sections that nobody
 * sets; and stages that wait for ever. The attributes `program`, `section`, `stage`, `chunk`, `micro`, `copies` tell
 * what a function is. */
#include <stdlib.h>
#include <string.h>

#include "passes/6_pipeline/pipeline.h"
#include "passes/check.h"

/* A section, and its attributes. */
typedef struct {
  msc_func *f;
  msc_program_kind program;
  msc_section_kind section;
  int64_t stage, chunk, micro, copies;
  size_t num_messages, num_runs;
  const msc_op **message; /* its send and receive ops, in order */
  int64_t *run;           /* micro-batches for which the lane of its stage runs it, in order */
} part;

typedef struct {
  const msc_op *op;
  size_t part;
  int64_t message;
  int64_t done; /* how often it has happened while lanes are run */
} message_end;

typedef struct {
  msc_module *m;
  msc_arena *arena;
  size_t num_parts, num_ends;
  part *part;
  message_end *end; /* sorted by message; a send comes before its receipt */
} message_checker;

static int64_t count_attr(const msc_func *f, const char *name, int64_t otherwise) {
  const msc_attr_value *v = msc_func_attr(f, name);
  return v ? v->kind == MSC_ATTR_INT && v->i >= 0 ? v->i : -1 : otherwise;
}

static bool is_kind_once(int64_t kind) { return kind == MSC_SECTION_U || kind == MSC_SECTION_P; }

static bool runs_once(const part *p) { return is_kind_once(p->section); }

static bool read_section(msc_func *f, part *p) {
  *p = (part){f,
              msc_fact_read(f, program, MSC_NUM_PROGRAM_KINDS),
              msc_section_of(f),
              count_attr(f, MSC_FACT(stage), -1),
              count_attr(f, MSC_FACT(chunk), 0),
              count_attr(f, MSC_FACT(micro), -1),
              count_attr(f, MSC_FACT(copies), 1),
              0,
              0,
              NULL,
              NULL};
  return (p->program != MSC_NUM_PROGRAM_KINDS && p->section != MSC_NUM_SECTION_KINDS && p->stage >= 0 &&
          p->chunk >= 0 && p->micro >= 1 && p->copies >= 1) ||
         msc_error(f->module->ctx, MSC_E_PLAN, f->loc,
                   "%s: a function of a program needs `section`, `stage` and `micro`, and `copies` of 1 at least",
                   f->name);
}

static int compare_message_ends(const void *a, const void *b) {
  const message_end *x = a, *y = b;
  if (x->message != y->message) return x->message < y->message ? -1 : 1;
  return x->op->kind == y->op->kind ? 0 : x->op->kind == OP_stage_send ? -1 : 1;
}

/* Lists the sections and the ends of their messages. A function without `program` is on no stage and has no
 * messages. */
static bool find_message_ends(message_checker *z) {
  size_t parts = 0, ends = 0;
  bool ok = true;
  for (msc_func *f = z->m->first; f; f = f->next) {
    parts++;
    for (msc_op *op = f->body->first; op; op = op->next) ends += msc_is_message(op);
  }
  z->part = msc_new_array(z->arena, part, parts);
  z->end = msc_new_array(z->arena, message_end, ends);
  const msc_op **message = msc_new_array(z->arena, const msc_op *, ends);
  for (msc_func *f = z->m->first; f; f = f->next) {
    if (!msc_func_attr(f, MSC_FACT(program))) continue;
    part *p = &z->part[z->num_parts];
    ok &= read_section(f, p);
    p->message = &message[z->num_ends];
    for (msc_op *op = f->body->first; op; op = op->next) {
      if (!msc_is_message(op)) continue;
      p->message[p->num_messages++] = op;
      z->end[z->num_ends++] = (message_end){op, z->num_parts, msc_op_int(op, "message"), 0};
    }
    z->num_parts++;
  }
  qsort(z->end, z->num_ends, sizeof *z->end, compare_message_ends);
  return ok;
}

/* ---- one message ---- */

static bool report_mismatch(const msc_op *op, int64_t message, const msc_op *other, const char *what) {
  msc_op_error(op, MSC_E_PLAN, "%s: message %" PRId64 " %s", msc_kind_name(op->kind), message, what);
  msc_note(msc_op_ctx(op), other->loc, "the other end is here");
  return false;
}

/* The copy (of several micro-batches side by side) that the message belongs to. */
static int64_t copy_attr_of(const msc_op *op) {
  return msc_op_attr(op, MSC_FACT(copy)) ? msc_op_int(op, MSC_FACT(copy)) : 0;
}

static bool check_message_pair(const message_checker *z, const message_end *send, const message_end *recv) {
  const part *from = &z->part[send->part], *to = &z->part[recv->part];
  const msc_type *a = send->op->in[0].value->type, *b = recv->op->out[0].type;
  int64_t m = send->message;
  if (a != b) return report_mismatch(recv->op, m, send->op, "is of another type than what is sent");
  if (send->op->name != recv->op->name)
    return report_mismatch(recv->op, m, send->op, "is of another value than what is sent");
  if (msc_op_int(send->op, MSC_FACT(stage)) != to->stage)
    return report_mismatch(send->op, m, recv->op, "goes to another stage than receives it");
  if (msc_op_int(recv->op, MSC_FACT(stage)) != from->stage)
    return report_mismatch(recv->op, m, send->op, "comes from another stage than sends it");
  /* chunks of one stage may follow each other */
  if (from == to) return report_mismatch(recv->op, m, send->op, "stays in its section");
  if (from->program != to->program) return report_mismatch(recv->op, m, send->op, "is of another program");
  if (copy_attr_of(send->op) != copy_attr_of(recv->op))
    return report_mismatch(recv->op, m, send->op, "is of another micro-batch than what is sent");
  bool same = runs_once(from) == runs_once(to) && from->micro == to->micro && from->copies == to->copies;
  return same ||
         report_mismatch(recv->op, m, send->op,
                         "is received more or less often than it is sent, once for each micro-batch or once in a step");
}

static bool check_message(const message_checker *z, const message_end *first, size_t num) {
  const char *what = num == 1 ? first->op->kind == OP_stage_send ? "is received by nobody" : "is sent by nobody" : NULL;
  if (what)
    return msc_op_error(first->op, MSC_E_PLAN, "%s: message %" PRId64 " %s", msc_kind_name(first->op->kind),
                        first->message, what);
  if (num > 2 || first->op->kind == first[1].op->kind)
    return report_mismatch(first[num - 1].op, first->message, first->op,
                           "has more ends than two: one that sends it, and one that receives it");
  return check_message_pair(z, first, first + 1);
}

static bool check_messages(const message_checker *z) {
  bool ok = true;
  for (size_t i = 0, next; i < z->num_ends; i = next) {
    for (next = i; next < z->num_ends && z->end[next].message == z->end[i].message; next++) continue;
    ok &= check_message(z, &z->end[i], next - i);
  }
  return ok;
}

/* ---- lanes ---- */

typedef struct {
  const message_checker *z;
  msc_program_kind program;
  const msc_attr_value *lanes; /* a list per stage */
  part ***part;                /* by stage and entry */
} lane_run;

static bool is_lanes(const msc_attr_value *v) {
  bool ok = v->kind == MSC_ATTR_LIST;
  for (size_t s = 0; ok && s < v->list.num; s++) {
    const msc_attr_value *lane = &v->list.v[s];
    ok = lane->kind == MSC_ATTR_LIST && lane->list.num % MSC_LANE_FIELDS == 0;
    for (size_t i = 0; ok && i < lane->list.num; i++) ok = lane->list.v[i].kind == MSC_ATTR_INT;
  }
  return ok;
}

static part *find_section_of_entry(const lane_run *r, size_t stage, size_t entry) {
  const msc_attr_value *e = &r->lanes->list.v[stage].list.v[entry * MSC_LANE_FIELDS];
  int64_t kind = e[MSC_LANE_SECTION].i;
  for (size_t i = 0; i < r->z->num_parts && kind >= 0 && kind < MSC_NUM_SECTIONS; i++) {
    part *p = &r->z->part[i];
    bool here = p->stage == (int64_t)stage && p->program == r->program && p->section == kind;
    if (here && (is_kind_once(kind) || p->chunk == e[MSC_LANE_CHUNK].i)) return p;
  }
  return NULL;
}

static size_t num_lane_entries(const lane_run *r, size_t stage) {
  return r->lanes->list.v[stage].list.num / MSC_LANE_FIELDS;
}

static bool record_runs(const lane_run *r, size_t stage) {
  r->part[stage] = msc_new_array(r->z->arena, part *, num_lane_entries(r, stage) + 1);
  for (size_t i = 0; i < num_lane_entries(r, stage); i++) {
    part *p = r->part[stage][i] = find_section_of_entry(r, stage, i);
    if (!p)
      return msc_error(r->z->m->ctx, MSC_E_PLAN, NULL, "msc.lanes: entry %zu of stage %zu of %s is no section", i,
                       stage, msc_program_kind_name(r->program));
    if (!p->run) p->run = msc_new_array(r->z->arena, int64_t, num_lane_entries(r, stage));
    p->run[p->num_runs++] = r->lanes->list.v[stage].list.v[i * MSC_LANE_FIELDS + MSC_LANE_MICRO].i;
  }
  return true;
}

/* Checks that the section runs once for each of its micro-batches, or groups of copies. An update, and a section before
 * the first micro-batch, must run once per step. */
static bool check_section_runs(const message_checker *z, const part *p) {
  int64_t times = runs_once(p) ? 1 : p->micro / p->copies;
  bool *seen = msc_new_array(z->arena, bool, times + 1), ok = (int64_t)p->num_runs == times;
  for (size_t i = 0; ok && !runs_once(p) && i < p->num_runs; i++) {
    int64_t k = p->run[i] / p->copies;
    ok = p->run[i] >= 0 && p->run[i] % p->copies == 0 && k < times && !seen[k];
    if (ok) seen[k] = true;
  }
  return ok ||
         msc_error(z->m->ctx, MSC_E_PLAN, p->f->loc,
                   "msc.lanes: %s does not run once for each of its %" PRId64 " micro-batches, %" PRId64 " at a time",
                   p->f->name, p->micro, p->copies);
}

/* Messages arrive in the order in which they were sent, so both sides must run the micro-batches in the same order. */
static bool check_message_order(const message_checker *z) {
  for (size_t i = 0; i + 1 < z->num_ends; i += 2) {
    const part *from = &z->part[z->end[i].part], *to = &z->part[z->end[i + 1].part];
    if (runs_once(from) || from->num_runs != to->num_runs ||
        !memcmp(from->run, to->run, from->num_runs * sizeof *from->run))
      continue;
    return report_mismatch(z->end[i + 1].op, z->end[i].message, z->end[i].op,
                           "is received for the micro-batches in another order than it is sent");
  }
  return true;
}

static message_end *find_message_end(const lane_run *r, const msc_op *op) {
  const message_end key = {.op = op, .message = msc_op_int(op, "message")};
  return bsearch(&key, r->z->end, r->z->num_ends, sizeof key, compare_message_ends);
}

/* Runs the messages of a section from number `from` on; returns the number of the message that must wait, or of all
 * messages. */
static size_t run_section_messages(const lane_run *r, const part *p, size_t from) {
  for (; from < p->num_messages; from++) {
    message_end *e = find_message_end(r, p->message[from]);
    if (e->op->kind == OP_stage_recv && e->done == e[-1].done) break;
    e->done++;
  }
  return from;
}

/* Runs the lanes without data: stages take turns, each goes on until it would wait. Whether all come to the end does
 * not depend on the order of turns. */
static bool check_progress(const lane_run *r) {
  size_t stages = r->lanes->list.num, *at = msc_new_array(r->z->arena, size_t, stages + 1),
         *message = msc_new_array(r->z->arena, size_t, stages + 1);
  for (bool any = true; any;) {
    any = false;
    for (size_t s = 0; s < stages; s++)
      for (; at[s] < num_lane_entries(r, s); at[s]++, message[s] = 0, any = true) {
        const part *p = r->part[s][at[s]];
        size_t before = message[s];
        message[s] = run_section_messages(r, p, before);
        any |= message[s] != before;
        if (message[s] < p->num_messages) break;
      }
  }
  for (size_t s = 0; s < stages; s++) {
    if (at[s] == num_lane_entries(r, s)) continue;
    const msc_op *op = r->part[s][at[s]]->message[message[s]];
    return msc_op_error(op, MSC_E_PLAN,
                        "stage_recv: stage %zu waits for ever for message %" PRId64 ", in entry %zu of msc.lanes", s,
                        msc_op_int(op, "message"), at[s]);
  }
  return true;
}

static bool check_program(const message_checker *z, msc_program_kind program, const msc_attr_value *lanes) {
  lane_run r = {z, program, lanes, NULL};
  bool ok = is_lanes(lanes);
  if (!ok)
    return msc_error(z->m->ctx, MSC_E_PLAN, NULL,
                     "msc.lanes: %s must be a list of %d numbers per entry for every stage",
                     msc_program_kind_name(program), MSC_LANE_FIELDS);
  r.part = msc_new_array(z->arena, part **, lanes->list.num + 1);
  for (size_t s = 0; ok && s < lanes->list.num; s++) ok = record_runs(&r, s);
  for (size_t i = 0; ok && i < z->num_parts; i++)
    if (z->part[i].program == program) ok = check_section_runs(z, &z->part[i]);
  return ok && check_progress(&r);
}

static bool check_all_lanes(const message_checker *z) {
  const msc_attr_value *lanes = msc_find_attr(z->m->attrs, z->m->num_attrs, MSC_FACT(msc_lanes));
  if (!lanes) return true;
  if (lanes->kind != MSC_ATTR_DICT) return msc_error(z->m->ctx, MSC_E_PLAN, NULL, "msc.lanes: must be a dictionary");
  for (msc_program_kind i = 0; i < MSC_NUM_PROGRAM_KINDS; i++) {
    const msc_attr_value *v = msc_find_attr(lanes->dict.a, lanes->dict.num, msc_program_kind_name(i));
    if (v) MSC_TRY(check_program(z, i, v));
  }
  return check_message_order(z);
}

/* ---- carried values ---- */

typedef struct {
  const part *part;
  const char *name;
  const msc_value *arg;
  bool set;
} carried;

static bool is_set_by_section(const msc_func *f, size_t arg) {
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  for (size_t i = 0; ties && ties->kind == MSC_ATTR_LIST && i < ties->list.num; i++)
    if (ties->list.v[i].kind == MSC_ATTR_INT && ties->list.v[i].i == (int64_t)arg) return true;
  return false;
}

static int compare_carried(const void *a, const void *b) {
  const carried *x = a, *y = b;
  int c = (x->part->program > y->part->program) - (x->part->program < y->part->program);
  if (!c) c = (x->part->stage > y->part->stage) - (x->part->stage < y->part->stage);
  if (!c) c = strcmp(x->name, y->name);
  return c ? c : (int)y->set - (int)x->set;
}

static size_t find_carried(const message_checker *z, carried *out) {
  size_t num = 0;
  for (size_t i = 0; i < z->num_parts; i++) {
    const msc_func *f = z->part[i].f;
    for (size_t a = 0; a < f->body->num_args; a++) {
      const msc_attr_value *name = msc_arg_attr(f, a, MSC_FACT(msc_name));
      msc_role role = msc_arg_role(f, a);
      if ((role != MSC_ROLE_CARRIED && role != MSC_ROLE_SUM) || !name || name->kind != MSC_ATTR_STR) continue;
      if (out) out[num] = (carried){&z->part[i], name->s, f->body->args[a], is_set_by_section(f, a)};
      num++;
    }
  }
  return num;
}

static bool is_same_carried(const carried *a, const carried *b) {
  return a->part->stage == b->part->stage && a->part->program == b->part->program && !strcmp(a->name, b->name);
}

static bool check_carried_value(const message_checker *z, const carried *first, size_t num) {
  msc_context *ctx = z->m->ctx;
  const msc_func *f = first->part->f;
  bool carries = msc_arg_role(f, first->arg->index) == MSC_ROLE_CARRIED;
  if (!first->set)
    return msc_error(ctx, MSC_E_PLAN, f->loc, "%s: nobody sets %s, which it reads", f->name, first->name);
  for (size_t i = 1; i < num; i++) {
    const msc_func *other = first[i].part->f;
    if (first[i].arg->type != first->arg->type)
      return msc_error(ctx, MSC_E_PLAN, other->loc, "%s: %s is of another type than in %s", other->name, first->name,
                       f->name);
    if (carries && first[i].set)
      return msc_error(ctx, MSC_E_PLAN, other->loc, "%s: sets %s, which %s sets", other->name, first->name, f->name);
  }
  return true;
}

static bool check_carried(const message_checker *z) {
  size_t num = find_carried(z, NULL);
  carried *c = msc_new_array(z->arena, carried, num + 1);
  bool ok = true;
  find_carried(z, c);
  qsort(c, num, sizeof *c, compare_carried);
  for (size_t i = 0, next; i < num; i = next) {
    for (next = i; next < num && is_same_carried(&c[next], &c[i]); next++) continue;
    ok &= check_carried_value(z, &c[i], next - i);
  }
  return ok;
}

bool msc_check_messages(msc_module *m) {
  message_checker z = {.m = m, .arena = msc_arena_new(m->ctx)};
  bool ok = find_message_ends(&z) && check_messages(&z);
  ok = ok && check_carried(&z) && check_all_lanes(&z);
  msc_arena_free(z.arena);
  return ok;
}
