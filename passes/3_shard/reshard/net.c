/* net.c: few atoms in; the graph of all their states, and least times over it, out.
 *
 * A search over strategies asks for the times from one layout to many others, for many types.  What leads where is the
 * same for all of them: only which states divide the type and how many bytes a part has differ.  So the graph is made
 * once, state by state as they are reached, with the verb and the group on every step, and a row of times is one pass
 * of Dijkstra's algorithm over it.  Exchanges are not in the graph: one may end the way into a layout that is asked
 * for, from any state. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

enum { MOST_ATOMS = 5, MOST_STATES = 5000, MINOR = 256 };

/* ns * MINOR + exchanges << 6 + steps with traffic << 3 + slices */
typedef int64_t price;
static const price NEVER = INT64_MAX;
enum { ONE_EXCHANGE = 1 << 6, ONE_STEP = 1 << 3 };

typedef struct {
  int to;
  uint16_t atoms;
  uint8_t verb;
} arc;

struct reshard_net {
  reshard_net *next;
  int rank, num_atoms;
  msc_subaxis digit[MOST_ATOMS];
  int num, num_arcs, cap_arcs;
  reshard_state *state;
  int64_t (*parts)[MSC_MAX_RANK];
  int64_t (*place_of)[MOST_ATOMS]; /* of every atom in a state: 0 free, 1 partial, else dimension and parts before it */
  uint8_t *used, *sliced; /* atoms; those that the last steps of the way there, slices, have added */
  int *table; /* open addressing, state + 1 */
  uint32_t table_size;
  int *begin, *end; /* arcs out of a state; begin -1: not made yet */
  arc *arc;
  msc_arena *arena;
  reshard_problem p;           /* bytes of a type that every cut divides */
  msc_reshard_options options; /* of p */
  /* by group: size, and per verb the time without bytes; bytes per ns */
  int64_t group[1 << MOST_ATOMS];
  double fixed[EXCHANGE + 1][1 << MOST_ATOMS], rate[1 << MOST_ATOMS];
  /* of one row */
  int64_t *local;
  price *dist;
  int *heap, *place, *order; /* heap of states; where they are in it; in order of time */
  int *came, *into;          /* by which state and which step; -1: the source */
  int heap_num, num_order;
};

/* ---- states ---- */

static int find(const reshard_net *n, const reshard_problem *p, const reshard_state *s) {
  reshard_key key = msc_reshard_key(p, s);
  uint64_t h = ((uint64_t)key ^ (uint64_t)(key >> 64) * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
  for (uint32_t at = (uint32_t)(h >> 40);; at++) {
    int *slot = &n->table[at & (n->table_size - 1)];
    if (!*slot || msc_reshard_key(p, &n->state[*slot - 1]) == key) return (int)(slot - n->table);
  }
}

static int number(const reshard_net *n, const reshard_problem *p, const reshard_state *s) {
  return n->table[find(n, p, s)] - 1;
}

static void add_state(reshard_net *n, const reshard_state *s) {
  int i = n->num++;
  n->state[i] = *s;
  n->table[find(n, &n->p, s)] = i + 1;
  n->used[i] = (uint8_t)msc_reshard_used(&n->p, s);
  for (int a = 0; a < n->num_atoms; a++) n->place_of[i][a] = s->partial >> a & 1;
  for (int d = 0; d < n->rank; d++) {
    n->parts[i][d] = 1;
    for (int k = 0; k < s->num[d]; k++) {
      n->place_of[i][s->atom[d][k]] = n->parts[i][d] * MSC_MAX_RANK + d + 2;
      n->parts[i][d] *= n->p.size[s->atom[d][k]];
    }
  }
}

/* Every atom from `atom` on is free, partial, or anywhere in a dimension. */
static void list_states(reshard_net *n, int atom, reshard_state *s) {
  if (atom == n->num_atoms) {
    add_state(n, s);
    return;
  }
  list_states(n, atom + 1, s);
  s->partial |= 1u << atom;
  list_states(n, atom + 1, s);
  s->partial &= ~(1u << atom);
  for (int d = 0; d < n->rank; d++)
    for (int at = 0; at <= s->num[d]; at++) {
      memmove(&s->atom[d][at + 1], &s->atom[d][at], (size_t)(s->num[d] - at));
      s->atom[d][at] = (uint8_t)atom;
      s->num[d]++;
      list_states(n, atom + 1, s);
      s->num[d]--;
      memmove(&s->atom[d][at], &s->atom[d][at + 1], (size_t)(s->num[d] - at));
    }
}

/* By how many atoms cut: those in any order, dealt to the dimensions, the rest free or partial. */
static int64_t count_states(int num_atoms, int rank) {
  int64_t sum = 0;
  for (int m = 0; m <= num_atoms; m++) {
    int64_t ways = (int64_t)1 << (num_atoms - m);
    for (int i = 0; i < m; i++) ways = ways * (num_atoms - i) * (rank + i) / (i + 1);
    sum += ways; /* C(n,m) m! C(m+r-1,m) = n!/(n-m)! (r)(r+1).../m! */
  }
  return sum;
}

static void add_arc(void *user, const reshard_state *to, const reshard_edge *edge) {
  reshard_net *n = user;
  if (n->num_arcs == n->cap_arcs) {
    arc *old = n->arc;
    n->cap_arcs = n->cap_arcs ? 2 * n->cap_arcs : 1024;
    n->arc = msc_new_array(n->arena, arc, n->cap_arcs);
    if (old) memcpy(n->arc, old, (size_t)n->num_arcs * sizeof *old);
  }
  n->arc[n->num_arcs++] = (arc){number(n, &n->p, to), (uint16_t)edge->atoms, (uint8_t)edge->verb};
}

/* ---- making one ---- */

static void put_groups(reshard_net *n, const reshard_problem *p) {
  for (uint32_t g = 1; g < 1u << n->num_atoms; g++) {
    n->group[g] = msc_reshard_atoms_size(p, g);
    n->rate[g] = 0;
    for (int a = 0; a < n->num_atoms; a++)
      if ((g >> a & 1) && p->bytes_per_ns[a] > 0 && (n->rate[g] == 0 || p->bytes_per_ns[a] < n->rate[g]))
        n->rate[g] = p->bytes_per_ns[a];
    /* one peer */
    for (int v = ALL_GATHER; v <= EXCHANGE; v++)
      n->fixed[v][g] = msc_reshard_fixed_ns(p, (reshard_verb)v, g, v == EXCHANGE ? 2 : n->group[g]);
  }
}

/* A type that every cut divides. */
static const msc_type *divisible(const reshard_problem *p) {
  int64_t dim[MSC_MAX_RANK], devices = msc_mesh_size(p->mesh);
  for (int d = 0; d < p->rank; d++) dim[d] = devices;
  return msc_type_of(p->ctx, MSC_I8, p->rank, dim, NULL);
}

static reshard_net *make(msc_arena *arena, const reshard_problem *like) {
  const msc_type *type = divisible(like);
  int64_t num = count_states(like->num_atoms, like->rank);
  if (num > MOST_STATES || msc_type_bytes(type) < 0 || msc_type_bytes(type) > INT64_MAX / 4) return NULL;
  reshard_net *n = msc_new(arena, reshard_net);
  *n = (reshard_net){
      .rank = like->rank, .num_atoms = like->num_atoms, .arena = arena, .p = *like, .options = *like->options};
  n->options.time = false;
  n->p.type = type, n->p.options = &n->options, n->p.elem_bytes = 1, n->p.total_bytes = msc_type_bytes(type);
  memset(&n->p.to, 0, sizeof n->p.to);
  n->p.to_local = n->p.to_terms = n->p.to_copies = 1;
  for (int a = 0; a < n->num_atoms; a++) n->digit[a] = n->p.digit[a][0];
  n->state = msc_new_array(arena, reshard_state, num);
  n->parts = msc_arena_alloc(arena, (size_t)num * sizeof *n->parts);
  n->place_of = msc_arena_alloc(arena, (size_t)num * sizeof *n->place_of);
  n->used = msc_new_array(arena, uint8_t, num);
  n->sliced = msc_new_array(arena, uint8_t, num);
  for (n->table_size = 64; n->table_size < 4 * num;) n->table_size *= 2;
  n->table = msc_new_array(arena, int, n->table_size);
  n->begin = msc_new_array(arena, int, num);
  n->end = msc_new_array(arena, int, num);
  reshard_state empty = {.partial = 0};
  list_states(n, 0, &empty);
  n->p.to.partial = (1u << n->num_atoms) - 1; /* free edges into every atom, if there are free edges */
  for (int i = 0; i < n->num; i++) n->begin[i] = -1;
  put_groups(n, like);
  n->local = msc_new_array(arena, int64_t, num);
  n->dist = msc_new_array(arena, price, num);
  n->heap = msc_new_array(arena, int, num);
  n->place = msc_new_array(arena, int, num);
  n->order = msc_new_array(arena, int, num);
  n->came = msc_new_array(arena, int, num);
  n->into = msc_new_array(arena, int, num);
  return n;
}

reshard_net *msc_reshard_net_for(reshard_net **nets, msc_arena *arena, const reshard_problem *p) {
  if (p->num_atoms > MOST_ATOMS || p->options->peak || !p->options->time || p->uneven ||
      count_states(p->num_atoms, p->rank) > MOST_STATES)
    return NULL;
  for (int a = 0; a < p->num_atoms; a++)
    if (p->num_digits[a] > 1) return NULL;
  for (reshard_net *n = *nets; n; n = n->next) {
    bool same = n->rank == p->rank && n->num_atoms == p->num_atoms;
    for (int a = 0; a < p->num_atoms && same; a++) same = !memcmp(&n->digit[a], &p->digit[a][0], sizeof n->digit[a]);
    if (same) return n;
  }
  reshard_net *n = make(arena, p);
  if (n) n->next = *nets, *nets = n;
  return n;
}

/* ---- one row ---- */

static int64_t step_bytes(reshard_verb verb, int64_t k, int64_t local) {
  if (verb == ALL_GATHER) return (k - 1) * local;
  if (verb == ALL_REDUCE) return msc_reshard_all_reduce_bytes(k, local);
  return verb == PERMUTE ? local : local - local / k;
}

static price price_of_ns(int64_t ns, int minor) { return ns > NEVER / MINOR / 4 ? NEVER / 4 : ns * MINOR + minor; }

static price step_price(const reshard_net *n, const arc *a, int64_t local) {
  if (a->verb == SLICE) return 1;
  int64_t bytes = step_bytes((reshard_verb)a->verb, n->group[a->atoms], local);
  double rate = n->rate[a->atoms];
  return price_of_ns(msc_reshard_whole_ns(n->fixed[a->verb][a->atoms] + (rate > 0 ? (double)bytes / rate : 0)),
                     ONE_STEP);
}

static bool comes_first(const reshard_net *n, int a, int b) {
  return n->dist[a] != n->dist[b] ? n->dist[a] < n->dist[b] : a < b;
}

static void sift_up(reshard_net *n, int i, int state) {
  for (; i && comes_first(n, state, n->heap[(i - 1) / 2]); i = (i - 1) / 2)
    n->place[n->heap[i] = n->heap[(i - 1) / 2]] = i;
  n->place[n->heap[i] = state] = i;
}

static int pop(reshard_net *n) {
  int top = n->heap[0], last = n->heap[--n->heap_num], i = 0;
  for (int child; (child = 2 * i + 1) < n->heap_num; i = child) {
    if (child + 1 < n->heap_num && comes_first(n, n->heap[child + 1], n->heap[child])) child++;
    if (!comes_first(n, n->heap[child], last)) break;
    n->place[n->heap[i] = n->heap[child]] = i;
  }
  n->place[n->heap[i] = last] = i;
  return top;
}

static void open_row(reshard_net *n, const reshard_problem *p) {
  for (int i = 0; i < n->num; i++) {
    int64_t local = p->total_bytes;
    for (int d = 0; d < n->rank && local >= 0; d++) {
      if (p->type->dim[d] % n->parts[i][d]) local = -1;
      else local /= n->parts[i][d];
    }
    n->local[i] = local;
    n->dist[i] = NEVER;
    n->place[i] = n->came[i] = n->into[i] = -1;
  }
  n->heap_num = n->num_order = 0;
}

static void make_arcs(reshard_net *n, int s) {
  reshard_wanted all = {.budget = INT64_MAX, .movable = (1u << n->num_atoms) - 1, .twins = true, .no_exchange = true};
  if (n->begin[s] >= 0) return;
  n->begin[s] = n->num_arcs;
  msc_reshard_expand(&n->p, &n->state[s], &all, add_arc, n);
  n->end[s] = n->num_arcs;
}

/* Until `left` of the marked states are reached. */
static void run_row(reshard_net *n, const reshard_problem *p, const bool *wanted, int left) {
  open_row(n, p);
  int source = number(n, p, &p->from);
  n->dist[source] = 0;
  sift_up(n, n->heap_num++, source);
  while (n->heap_num && left) {
    int s = pop(n);
    if (n->dist[s] >= NEVER / 2) return;
    n->order[n->num_order++] = s;
    bool by_slice = n->into[s] >= 0 && n->arc[n->into[s]].verb == SLICE;
    n->sliced[s] = by_slice ? (uint8_t)(n->sliced[n->came[s]] | (n->used[s] & ~n->used[n->came[s]])) : 0;
    left -= wanted[s];
    make_arcs(n, s);
    for (int i = n->begin[s]; i < n->end[s]; i++) {
      const arc *a = &n->arc[i];
      if (n->local[a->to] < 0) continue;
      price c = n->dist[s] + step_price(n, a, n->local[s]);
      if (c >= n->dist[a->to]) continue;
      bool known = n->place[a->to] >= 0;
      n->dist[a->to] = c, n->came[a->to] = s, n->into[a->to] = i;
      sift_up(n, known ? n->place[a->to] : n->heap_num++, a->to);
    }
  }
}

/* Does some dimension hold an atom where the other state has another?  Then some device has nothing of
 * what it needs. */
static bool disagree(const reshard_net *n, int u, int v) {
  const reshard_state *a = &n->state[u], *b = &n->state[v];
  for (int d = 0; d < n->rank; d++)
    for (int i = 0; i < a->num[d] && i < b->num[d]; i++)
      if (a->atom[d][i] != b->atom[d][i]) return true;
  return false;
}

/* What an exchange costs at least: with one peer over the group that it would have.  A slice before it to a place that
 * is not the target's only makes it dearer. */
static price least_exchange(const reshard_net *n, int u, int to) {
  uint32_t moved = 0;
  for (int a = 0; a < n->num_atoms; a++) moved |= (uint32_t)(n->place_of[u][a] != n->place_of[to][a]) << a;
  if (moved & n->sliced[u]) return NEVER / 2;
  uint32_t group = n->used[u] & ~n->used[to] ? moved : moved & n->used[u];
  uint32_t lost = n->state[u].partial & ~n->state[to].partial, gained = n->state[to].partial & ~n->state[u].partial;
  int64_t held = gained || disagree(n, u, to) ? 0 : n->local[u] < n->local[to] ? n->local[u] : n->local[to];
  int64_t lacks = (lost && !gained ? n->group[lost] : 1) * n->local[to] - held;
  return price_of_ns(
      msc_reshard_whole_ns(n->fixed[EXCHANGE][group] + (n->rate[group] > 0 ? (double)lacks / n->rate[group] : 0)),
      ONE_EXCHANGE + ONE_STEP);
}

/* The best exchange into `to` that beats the collectives. */
static price best_exchange(const reshard_net *n, const reshard_problem *p, int to, int *out_from,
                           reshard_edge *out_edge) {
  price best = n->dist[to], least = price_of_ns(msc_reshard_least_cost(p, 0), 0);
  *out_from = -1;
  if (p->options->no_alltoall) return best;
  for (int i = 0; i < n->num_order; i++) {
    int u = n->order[i];
    if (n->dist[u] + least >= best) break;
    if (u == to || n->dist[u] + least_exchange(n, u, to) >= best) continue;
    reshard_edge e;
    if (!msc_reshard_exchange(p, &n->state[u], &n->state[to], &e)) continue;
    price c = n->dist[u] + price_of_ns(e.ns, ONE_EXCHANGE + ONE_STEP);
    if (c < best) best = c, *out_from = u, *out_edge = e;
  }
  return best;
}

void msc_reshard_net_costs(reshard_net *n, const reshard_problem *p, msc_arena *scratch, int num,
                           const reshard_state *to, int64_t *out_ns) {
  bool *wanted = msc_new_array(scratch, bool, n->num);
  int *at = msc_new_array(scratch, int, num), left = 0;
  for (int i = 0; i < num; i++) {
    at[i] = number(n, p, &to[i]);
    left += !wanted[at[i]];
    wanted[at[i]] = true;
  }
  run_row(n, p, wanted, left);
  for (int i = 0; i < num; i++) {
    int from;
    reshard_edge e;
    price c = best_exchange(n, p, at[i], &from, &e);
    out_ns[i] = c == NEVER ? -1 : c / MINOR;
  }
}

/* Slices that follow each other are one step. */
static void join_slices(reshard_path *path) {
  int num = 0;
  for (int i = 0; i < path->num; i++) {
    if (num && path->edge[num - 1].verb == SLICE && path->edge[i].verb == SLICE) num--;
    path->state[num] = path->state[i];
    path->edge[num++] = path->edge[i];
  }
  path->num = num;
}

bool msc_reshard_net_path(reshard_net *n, const reshard_problem *p, msc_arena *arena, reshard_path *out_path) {
  bool *wanted = msc_new_array(arena, bool, n->num);
  int to = number(n, p, &p->to), from, num = 0;
  reshard_edge exchange;
  wanted[to] = true;
  run_row(n, p, wanted, 1);
  if (best_exchange(n, p, to, &from, &exchange) == NEVER) return false;
  for (int s = from >= 0 ? from : to; n->came[s] >= 0; s = n->came[s]) num++;
  out_path->num = num + (from >= 0);
  out_path->state = msc_new_array(arena, reshard_state, out_path->num + 1);
  out_path->edge = msc_new_array(arena, reshard_edge, out_path->num + 1);
  if (from >= 0) out_path->state[num] = p->to, out_path->edge[num] = exchange;
  for (int s = from >= 0 ? from : to; n->came[s] >= 0; s = n->came[s]) {
    const arc *a = &n->arc[n->into[s]];
    int64_t local = n->local[n->came[s]];
    out_path->state[--num] = n->state[s];
    out_path->edge[num] = (reshard_edge){.verb = (reshard_verb)a->verb, .atoms = a->atoms};
    if (a->verb == SLICE) continue;
    out_path->edge[num].bytes = step_bytes((reshard_verb)a->verb, n->group[a->atoms], local);
    out_path->edge[num].ns = step_price(n, a, local) / MINOR;
  }
  join_slices(out_path);
  return true;
}
