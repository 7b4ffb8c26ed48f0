/* transports.h: tests of collectives in; the same tests on every transport, and on shared memory of hosts of several
 * sizes. */
#ifndef MSC_TESTS_TRANSPORTS_H
#define MSC_TESTS_TRANSPORTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/comm/comm.h"
#include "runtime/wait.h"
#include "tests/runtime/job.h"

enum { ARENA = 16 << 20 };

static const mscrt_transport *comm_api; /* the transport that is tested */
static int ranks_per_host; /* where they share memory: so many neighbours; < 0: so many hosts take turns */

static uint64_t host_of(int rank) {
  if (!ranks_per_host) return 0;
  return (uint64_t)(1 + (ranks_per_host < 0 ? rank % -ranks_per_host : rank / ranks_per_host));
}

typedef struct {
  uint8_t first[MSCRT_MAX_RANK + 1];
  msc_digit digit[8];
  msc_box_layout layout;
} layout_room;

/* "0,1;2" : dimension 0 cut by axes 0 and 1, dimension 1 by axis 2; "|0": partial over axis 0 */
static const msc_box_layout *layout_of(const msc_box_mesh *mesh, const char *text, int rank, layout_room *room) {
  int d = 0;
  *room = (layout_room){0};
  msc_box_layout *l = &room->layout;
  *l = (msc_box_layout){.rank = rank, .first = room->first, .digit = room->digit};
  for (; *text; text++) {
    if (*text >= '0' && *text <= '9')
      room->digit[l->num++] = (msc_digit){(uint32_t)(*text - '0'), 1, (uint32_t)mesh->size[*text - '0']};
    if (*text == ';') room->first[++d] = (uint8_t)l->num;
    if (*text == '|')
      while (d < rank) room->first[++d] = (uint8_t)l->num;
  }
  while (d < rank) room->first[++d] = (uint8_t)l->num;
  assert_true(msc_box_layout_ok(mesh, l));
  return l;
}

/* Returns the number of tests that failed. */
static int run_on_all_transports(const struct CMUnitTest *tests, size_t num) {
  static const struct {
    const char *name;
    const mscrt_transport *transport;
    int ranks_per_host;
  } rows[] = {{"shared memory", &mscrt_comm_local, 0},   {"tcp", &mscrt_comm_tcp, 0},
              {"hosts of two", &mscrt_comm_hosts, 2},    {"hosts of three", &mscrt_comm_hosts, 3},
              {"a host of all", &mscrt_comm_hosts, 16},  {"hosts that take turns", &mscrt_comm_hosts, -2}};
  int failed = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    comm_api = rows[i].transport, ranks_per_host = rows[i].ranks_per_host;
    failed += _cmocka_run_group_tests(rows[i].name, tests, num, NULL, NULL);
  }
  return failed;
}

#endif
