/* share.c: a plan and a number of servers in; the share of each server out (see share.h).
 *
 * Calls of which one reads what another writes form a group. Groups are assigned, the largest first, to the server that
 * has the fewest bytes so far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/memory/memory.h"
#include "runtime/server/apply_pushes.h"
#include "runtime/server/share.h"

/* A served call that only servers run: a kernel. */
typedef struct {
  const mscrt_record *r;
  uint32_t group; /* the number of the first call of its group */
  uint64_t bytes; /* of the first call of a group: bytes of parameters and state that the group writes */
  int server;
} served_call;

typedef struct {
  const mscrt_context *c;
  mscrt_shares *out;
  uint32_t num_calls, num_parts;
  bool sums; /* a part is summed */
  served_call *call;
  mscrt_served_part *part; /* of all servers; `at` counts the calls before it */
} sharing;

static uint32_t group_of(const sharing *s, uint32_t i) {
  while (s->call[i].group != i) i = s->call[i].group;
  return i;
}

/* True if the call writes what ref holds, or a part of it. *out_whole is then true if it surely writes all. */
static bool writes_part_of(const mscrt_record *r, plan_ref ref, bool *out_whole) {
  bool any = false;
  for (uint32_t i = 0; i < r->num_buffers; i++) {
    plan_ref w = r->ref[i];
    if (!w.written || !mscrt_refs_overlap(w, ref)) continue;
    any = true;
    bool covers = w.offset <= ref.offset && w.offset + w.bytes >= ref.offset + ref.bytes;
    *out_whole = *out_whole || (covers && r->kind == PLAN_CALL_KIND_TRANSFER);
  }
  return any;
}

static uint64_t kept_bytes_written(const mscrt_record *r) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < r->num_buffers; i++)
    if (r->ref[i].written && (r->ref[i].space == PLAN_SPACE_PERSISTENT || mscrt_is_offloaded(r->ref[i].space)))
      bytes += r->ref[i].bytes;
  return bytes;
}

/* ---- finding the served calls ---- */

static void count_served(sharing *s) {
  for (uint32_t i = 0; i < s->out->num_sections; i++)
    for (uint32_t k = 0; k < s->out->section[i]->num_calls; k++) {
      const mscrt_record *r = &s->out->section[i]->call[k];
      if (r->served != MSCRT_BY_SERVERS) continue;
      if (r->kind == PLAN_CALL_KIND_COLLECTIVE) s->num_parts += r->num_parts;
      else s->num_calls++;
    }
}

static mscrt_status *list_sections(sharing *s) {
  const mscrt_context *c = s->c;
  uint32_t train = 0;
  if (!mscrt_find_program(c->plan, "train", &train))
    return mscrt_fail(MSCRT_INPUT, "the plan trains nothing, so that servers have nothing to do");
  const mscrt_program *g = &c->program[train];
  MSCRT_CHECK(mscrt_new_array(&s->out->section, g->num));
  for (uint32_t i = 0; i < g->num; i++) {
    const mscrt_section *section = &c->section[g->entry[i].section];
    bool any = false;
    for (uint32_t k = 0; k < section->num_calls; k++) any |= section->call[k].served != 0;
    if (any) s->out->section[s->out->num_sections++] = section;
  }
  return NULL;
}

/* Puts a call into the groups of those that wrote its inputs. What was in their place before a transfer filled it does
 * not count; a kernel may write a part of what it says, so what was there before it counts, too. */
static void join_groups_of_inputs(sharing *s, uint32_t own) {
  const mscrt_record *r = s->call[own].r;
  for (uint32_t k = 0; k < r->num_buffers; k++) {
    bool whole = r->ref[k].written;
    for (uint32_t before = own; before-- > 0 && !whole;) {
      if (!writes_part_of(s->call[before].r, r->ref[k], &whole)) continue;
      s->call[group_of(s, own)].group = group_of(s, before);
    }
  }
}

/* True for an all_reduce that sums whole values of all ranks in the order of ranks. */
static bool adds_ranks_in_order(const sharing *s, const mscrt_exchange *e) {
  bool right = e->verb == MSC_ALL_REDUCE && e->reduction == MSC_SUM && e->slices && e->num_cuts > 0 &&
               e->num_terms == s->out->ranks;
  for (int t = 0; right && t < e->num_terms; t++) right = e->peers[t] == s->out->first_rank + t;
  return right;
}

/* True for an all_gather after which all workers have the same, also the first, whose context a server has. */
static bool gathers_from_all(const sharing *s, const mscrt_exchange *e) {
  return e->verb == MSC_ALL_GATHER && e->num_terms == 1 && !e->fill && e->group.num == s->out->ranks;
}

bool mscrt_is_gathered(const mscrt_served_part *p) { return p->record->part[p->part].e->verb == MSC_ALL_GATHER; }

uint64_t mscrt_served_bytes(const mscrt_served_part *p) {
  const mscrt_exchange *e = p->record->part[p->part].e;
  return mscrt_is_gathered(p) ? e->src_bytes : (uint64_t)e->elems * mscrt_dtype_bytes(e->dtype);
}

uint64_t mscrt_all_bytes(const mscrt_share *share) {
  return share->value_bytes + share->state_bytes + share->other_bytes;
}

static mscrt_status *list_part(sharing *s, const mscrt_record *r, uint32_t number) {
  const mscrt_exchange *e = r->part[number].e;
  s->part[s->num_parts++] = (mscrt_served_part){.record = r, .part = number, .at = s->num_calls};
  if (gathers_from_all(s, e)) return NULL;
  if (s->sums && e->dtype != s->out->dtype)
    return mscrt_fail(MSCRT_UNSUPPORTED, "servers sum gradients of one element type, not of %s and %s",
                      mscrt_dtype_name(s->out->dtype), mscrt_dtype_name(e->dtype));
  s->out->dtype = e->dtype;
  s->sums = true;
  return NULL;
}

static mscrt_status *list_served(sharing *s) {
  count_served(s);
  MSCRT_CHECK(mscrt_new_array(&s->call, s->num_calls));
  MSCRT_CHECK(mscrt_new_array(&s->part, s->num_parts));
  s->num_calls = s->num_parts = 0;
  for (uint32_t i = 0; i < s->out->num_sections; i++)
    for (uint32_t k = 0; k < s->out->section[i]->num_calls; k++) {
      const mscrt_record *r = &s->out->section[i]->call[k];
      bool sums = r->kind == PLAN_CALL_KIND_COLLECTIVE && r->served;
      for (uint32_t p = 0; sums && p < r->num_parts; p++)
        if (!adds_ranks_in_order(s, r->part[p].e) && !gathers_from_all(s, r->part[p].e))
          return mscrt_fail(MSCRT_UNSUPPORTED, "%s: servers add what ranks push in the order of their numbers",
                            r->name);
      if (r->served != MSCRT_BY_SERVERS) continue;
      for (uint32_t p = 0; r->kind == PLAN_CALL_KIND_COLLECTIVE && p < r->num_parts; p++)
        MSCRT_CHECK(list_part(s, r, p));
      if (r->kind == PLAN_CALL_KIND_COLLECTIVE) continue;
      uint32_t own = s->num_calls;
      s->call[s->num_calls++] = (served_call){.r = r, .group = own};
      join_groups_of_inputs(s, own);
    }
  return NULL;
}

/* ---- sharing them out ---- */

static void assign_groups_to_servers(sharing *s) {
  uint64_t has[MSCRT_MOST_SERVERS] = {0};
  for (uint32_t i = 0; i < s->num_calls; i++) {
    s->call[group_of(s, i)].bytes += kept_bytes_written(s->call[i].r);
    s->call[i].server = -1;
  }
  for (;;) {
    uint32_t best = s->num_calls;
    int server = 0;
    for (uint32_t i = 0; i < s->num_calls; i++)
      if (s->call[i].group == i && s->call[i].server < 0 &&
          (best == s->num_calls || s->call[i].bytes > s->call[best].bytes))
        best = i;
    if (best == s->num_calls) break;
    for (int k = 1; k < s->out->num; k++)
      if (has[k] < has[server]) server = k;
    has[server] += s->call[best].bytes + 1;
    s->call[best].server = server;
  }
  for (uint32_t i = 0; i < s->num_calls; i++) s->call[i].server = s->call[group_of(s, i)].server;
}

/* True if a call of the server, later in the plan than the part, reads it. */
static bool needs_part(const sharing *s, int server, const mscrt_served_part *part) {
  plan_ref to = part->record->ref[2 * part->part + 1];
  for (uint32_t i = (uint32_t)part->at; i < s->num_calls; i++) {
    const mscrt_record *r = s->call[i].r;
    for (uint32_t k = 0; k < r->num_buffers && s->call[i].server == server; k++)
      if (!r->ref[k].written && mscrt_refs_overlap(to, r->ref[k])) return true;
  }
  return false;
}

static bool updates(const sharing *s, int server, const mscrt_variable *v) {
  if (v->stage != s->c->stage) return false;
  for (uint32_t i = 0; i < s->num_calls; i++)
    for (uint32_t k = 0; k < s->call[i].r->num_buffers && s->call[i].server == server; k++)
      if (s->call[i].r->ref[k].written && mscrt_refs_overlap(v->ref, s->call[i].r->ref[k])) return true;
  return false;
}

/* True if each worker updates the variable, and each server does, or it is a number that can be set. */
static bool is_of_both(const sharing *s, const mscrt_variable *v) {
  if (v->stage != s->c->stage) return false;
  if (mscrt_is_scalar(v)) return true;
  for (uint32_t i = 0; i < s->out->num_sections; i++)
    for (uint32_t k = 0; k < s->out->section[i]->num_calls; k++) {
      const mscrt_record *r = &s->out->section[i]->call[k];
      for (uint32_t b = 0; b < r->num_buffers && r->served == MSCRT_BY_BOTH; b++)
        if (r->ref[b].written && mscrt_refs_overlap(v->ref, r->ref[b])) return true;
    }
  return false;
}

/* Appends a variable to those of a share; *bytes: of those before it, counted on. */
static void list_value(mscrt_share *share, const mscrt_variable *v, uint64_t *bytes) {
  uint32_t at = share->num_values + share->num_states + share->num_others;
  share->value[at] = (mscrt_served_value){v, *bytes, v->ref.bytes};
  *bytes += v->ref.bytes;
}

/* Gives the parts that a server needs places in a push: those that are gathered, or those that are summed. */
static void place_parts(const sharing *s, int server, bool gathered, mscrt_share *share) {
  for (uint32_t i = 0; i < s->num_parts; i++) {
    if (mscrt_is_gathered(&s->part[i]) != gathered || !needs_part(s, server, &s->part[i])) continue;
    mscrt_served_part *part = &share->part[share->num_parts++];
    *part = s->part[i];
    part->at = share->push_bytes;
    share->push_bytes += mscrt_served_bytes(part);
    if (!gathered) share->elems += part->record->part[part->part].e->elems;
  }
}

static mscrt_status *make_share(sharing *s, int server) {
  mscrt_share *share = &s->out->share[server];
  MSCRT_CHECK(mscrt_new_array(&share->part, s->num_parts));
  MSCRT_CHECK(mscrt_new_array(&share->value, s->c->plan->num_parameters));
  MSCRT_CHECK(mscrt_new_array(&share->runs, s->num_calls));
  for (uint32_t i = 0; i < s->num_calls; i++) share->runs[i] = s->call[i].server == server;
  place_parts(s, server, false, share);
  place_parts(s, server, true, share);
  for (uint32_t i = 0; i < s->c->plan->num_parameters; i++) {
    const mscrt_variable *v = &s->c->plan->parameter[i];
    if (v->state || !updates(s, server, v)) continue;
    list_value(share, v, &share->value_bytes), share->num_values++;
  }
  for (uint32_t i = 0; i < s->c->plan->num_parameters; i++) {
    const mscrt_variable *v = &s->c->plan->parameter[i];
    if (!v->state || !updates(s, server, v)) continue;
    list_value(share, v, &share->state_bytes), share->num_states++;
  }
  for (uint32_t i = 0; i < s->c->plan->num_parameters; i++) {
    const mscrt_variable *v = &s->c->plan->parameter[i];
    if (updates(s, server, v) || !is_of_both(s, v)) continue;
    list_value(share, v, &share->other_bytes), share->num_others++;
  }
  return NULL;
}

int mscrt_server_of_stage(const mscrt_context *c, int number) {
  return (int)c->stage + number * (int)c->plan->num_stages;
}

mscrt_status *mscrt_shares_new(const mscrt_context *c, mscrt_shares *out_shares) {
  sharing s = {.c = c, .out = out_shares};
  mscrt_status *failure = NULL;
  int stages = (int)c->plan->num_stages, ranks = c->o.ranks / stages,
      num = (c->o.servers + stages - 1 - (int)c->stage) / stages;
  *out_shares = (mscrt_shares){.first_rank = (int)c->stage * ranks, .ranks = ranks, .num = num};
  if (ranks > MSCRT_MOST_WORKERS)
    return mscrt_fail(MSCRT_ARGUMENT, "%d workers of servers: %d at most", ranks, MSCRT_MOST_WORKERS);
  failure = mscrt_new_array(&out_shares->share, num);
  if (!failure) failure = list_sections(&s);
  if (!failure) failure = list_served(&s);
  if (!failure) assign_groups_to_servers(&s);
  for (int i = 0; i < num && !failure; i++) failure = make_share(&s, i);
  free(s.call);
  free(s.part);
  if (failure) mscrt_shares_free(out_shares);
  return failure;
}

void mscrt_shares_free(mscrt_shares *s) {
  for (int i = 0; s->share && i < s->num; i++) free(s->share[i].part), free(s->share[i].value), free(s->share[i].runs);
  free(s->share);
  free(s->section);
  *s = (mscrt_shares){0};
}

/* The host of server process number `server`: that of its place in the list of hosts, which begins anew at its end;
 * with no list the job's. *out_bytes: the bytes of its name. */
static const char *host_of_server(const mscrt_options *o, int server, int *out_bytes) {
  const char *list = o->server_hosts, *at = list;
  if (!list || !*list) {
    *out_bytes = (int)(strrchr(o->address, ':') - o->address);
    return o->address;
  }
  for (int i = 0; i < server; i++) {
    const char *comma = strchr(at, ',');
    at = comma ? comma + 1 : list;
  }
  *out_bytes = (int)strcspn(at, ",");
  return at;
}

mscrt_status *mscrt_server_address(const mscrt_options *o, int server, char *out, size_t room) {
  int n, bytes;
  if (mscrt_is_network_address(o->address)) {
    const char *host = host_of_server(o, server, &bytes);
    n = snprintf(out, room, "%.*s:%d", bytes, host, atoi(strrchr(o->address, ':') + 1) + 1 + server);
  } else {
    n = snprintf(out, room, "%s-server-%d", o->address, server);
  }
  return n > 0 && (size_t)n < room ? NULL : mscrt_fail(MSCRT_ARGUMENT, "the address of a server is too long");
}
