/* startup.c: a table of environments of launchers -> the rank, size, address and losers that tools/cluster/startup.c
 * reads from each, or its error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/cluster/startup.c"

typedef struct {
  const char *env;     /* NAME=VALUE words */
  const char *is;      /* "FAMILY rank/ranks address", with what else was said; or "error: TEXT" */
} startup_case;

#define TABLE(status, count, devices) \
  "{\"version\":\"1.0\",\"server_count\":" count ",\"status\":\"" status "\",\"super\":1,\"server_list\":[" devices "]}"
#define SERVER(id, devices) "{\"server_id\":\"" id "\",\"host_nic_ip\":\"reserve\",\"device\":[" devices "]}"
#define DEVICE(id, rank) "{\"device_id\":\"" id "\",\"device_ip\":\"192.1.1.6\",\"rank_id\":\"" rank "\"}"

/* Files of the cases. This host is node-a, 10.0.0.1. */
static const struct { const char *path, *text; } files[] = {
  {"two.json", TABLE("completed", "\"2\"", SERVER("10.0.0.1", DEVICE("0", "0") "," DEVICE("1", "1")) ","
                     SERVER("10.0.0.2", DEVICE("0", "2") "," DEVICE("1", "3")))},
  {"one.json", TABLE("completed", "1", SERVER("10.0.0.1", "{\"device_id\":3,\"rank_id\":0}"))},
  {"far.json", TABLE("completed", "\"1\"", SERVER("10.0.0.9", DEVICE("0", "0") "," DEVICE("1", "1")))},
  {"later.json", TABLE("initializing", "\"1\"", SERVER("10.0.0.1", DEVICE("0", "0")))},
  {"count.json", TABLE("completed", "\"3\"", SERVER("10.0.0.1", DEVICE("0", "0")))},
  {"gap.json", TABLE("completed", "\"1\"", SERVER("10.0.0.1", DEVICE("0", "0") "," DEVICE("1", "2")))},
  {"twice.json", TABLE("completed", "\"1\"", SERVER("10.0.0.1", DEVICE("0", "0") "," DEVICE("1", "0")))},
  {"device.json", TABLE("completed", "\"1\"", SERVER("10.0.0.1", DEVICE("0", "0") "," DEVICE("0", "1")))},
  {"text.json", TABLE("completed", "\"1\"", SERVER("10.0.0.1", DEVICE("zero", "0")))},
  {"empty.json", TABLE("completed", "\"0\"", "")},
  {"bad.json", "{\"server_list\":"},
  {"none.json", "{\"status\":\"completed\"}"},
};

#define MS "MS_SCHED_HOST=sched MS_SCHED_PORT=8118 MS_WORKER_NUM=4 "
#define OMPI "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
#define TORCH "MASTER_ADDR=10.0.0.1 MASTER_PORT=2345 WORLD_SIZE=4 RANK=3 "

static const startup_case cases[] = {
    /* nobody says so */
    {"", "alone"},
    {"HOME=/root JOB_COMPLETION_INDEX=3", "alone"},
    {"RANK=1", "alone"},
    {"MASTER_ADDR=10.0.0.1", "alone"},
    {"WORLD_SIZE= RANK=1", "alone"},
    /* own */
    {"MSC_RANKS=2 MSC_RANK=1 MSC_ADDRESS=a:1", "MSC_* 1/2 a:1"},
    {"MSC_RANKS=2 MSC_ADDRESS=a:1", "MSC_* -1/2 a:1"},
    {"MSC_RANKS=2 MSC_RANK=1 MSC_ADDRESS=@job MSC_LOCAL_RANK=1 MSC_LOCAL_RANKS=2", "MSC_* 1/2 @job local 1/2"},
    {"MSC_RANKS=2 MSC_RANK=2 MSC_ADDRESS=a:1",
     "error: MSC_RANK=2 contradicts MSC_RANKS=2: ranks are counted from 0"},
    {"MSC_RANK=2", "error: MSC_RANK is set, MSC_RANKS is not"},
    {"MSC_RANKS=2 MSC_RANK=1", "error: MSC_* says rank 1 of 2, but nothing says where ranks meet; set MASTER_ADDR, or "
                               "MSC_ADDRESS=HOST:PORT with a host of rank 0"},
    {"MSC_RANKS=two MSC_RANK=1", "error: MSC_RANKS: 'two' is no whole number from 1 to 1048576"},
    {"MSC_RANKS=2 MSC_RANK=1 MSC_ADDRESS=a:1 MSC_HOST=10.1.1.1", "MSC_* 1/2 a:1 host 10.1.1.1"},
    {"MSC_RANKS=4 MSC_RANK=3 " TORCH, "MSC_* 3/4 10.0.0.1:2345"},
    {"MSC_RANKS=2 MSC_RANK=1 " TORCH, "MSC_* 1/2 10.0.0.1:2345 ignored torch-style (rank 3 of 4)"},
    /* rank table */
    {"RANK_TABLE_FILE=two.json RANK_ID=3", "rank table 3/4 10.0.0.1:29500 local 1/2 node 1/2 host 10.0.0.2"},
    {"RANK_TABLE_FILE=two.json DEVICE_ID=1", "rank table 1/4 10.0.0.1:29500 local 1/2 node 0/2 host 10.0.0.1"},
    {"RANK_TABLE_FILE=one.json", "rank table 0/1 local 0/1 node 0/1 host 10.0.0.1"},
    {"RANK_TABLE_FILE=two.json RANK_ID=2 MSC_ADDRESS=[::1]:99",
     "rank table 2/4 [::1]:99 local 0/2 node 1/2 host 10.0.0.2"},
    {"RANK_TABLE_FILE=two.json",
     "error: two.json: both rank 0 and rank 1 are on this host; set RANK_ID or DEVICE_ID"},
    {"RANK_TABLE_FILE=two.json RANK_ID=4",
     "error: RANK_ID=4 contradicts RANK_TABLE_FILE: two.json has no such rank_id"},
    {"RANK_TABLE_FILE=two.json RANK_ID=1 DEVICE_ID=0",
     "error: RANK_ID=1 contradicts DEVICE_ID=0: in two.json it has device_id 1"},
    {"RANK_TABLE_FILE=two.json RANK_ID=1 RANK_SIZE=8",
     "error: RANK_TABLE_FILE's number of ranks=4 contradicts RANK_SIZE=8"},
    {"RANK_TABLE_FILE=far.json DEVICE_ID=0",
     "error: far.json: no server of the table has an address of this host; set RANK_ID"},
    {"RANK_TABLE_FILE=later.json RANK_ID=0",
     "wait: later.json: the status of the rank table is 'initializing', not 'completed'"},
    {"RANK_TABLE_FILE=absent.json RANK_ID=0", "wait: RANK_TABLE_FILE: absent.json cannot be read"},
    {"RANK_TABLE_FILE=count.json RANK_ID=0", "error: count.json: server_count is 3, server_list has 1 entries"},
    {"RANK_TABLE_FILE=gap.json RANK_ID=0", "error: gap.json: the table has 2 ranks, but none has rank_id 1"},
    {"RANK_TABLE_FILE=twice.json RANK_ID=0",
     "error: twice.json: rank_id 0 occurs twice, at servers 10.0.0.1 and 10.0.0.1"},
    {"RANK_TABLE_FILE=device.json RANK_ID=0", "error: device.json: device_id 0 occurs twice at server 10.0.0.1"},
    {"RANK_TABLE_FILE=text.json RANK_ID=0",
     "error: text.json: device 0 of server 10.0.0.1 has no device_id or no rank_id that is a number"},
    {"RANK_TABLE_FILE=empty.json RANK_ID=0", "error: empty.json: the rank table has no device"},
    {"RANK_TABLE_FILE=none.json RANK_ID=0", "error: none.json: the rank table has no server_list"},
    {"RANK_TABLE_FILE=bad.json RANK_ID=0", "error: bad.json:1:15: the rank table is no JSON: *"},
    /* dynamic networking */
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=1", "MS_* 1/4 sched:8118"},
    {MS "MS_ROLE=MS_WORKER", "MS_* -1/4 sched:8118"},
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=pod-a", "MS_* -1/4 sched:8118"},
    {MS "MS_ROLE=MS_WORKER JOB_COMPLETION_INDEX=2", "MS_* 2/4 sched:8118"},
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=1 MS_WORKER_IP=10.0.0.1", "MS_* 1/4 sched:8118 host 10.0.0.1"},
    {MS "MS_ROLE=MS_SCHED", "MS_* -1/4 sched:8118 scheduler"},
    {MS "MS_ROLE=MS_PSERVER MS_SERVER_NUM=2", "MS_* -1/4 sched:8118 server of 2"},
    {MS "MS_ROLE=MS_PSERVER MS_SERVER_NUM=2 MS_NODE_ID=2",
     "error: MS_NODE_ID=2 contradicts MS_SERVER_NUM=2: servers are counted from 0"},
    {"MSC_RANKS=2 MSC_SERVERS=2 MSC_SERVER=1 MSC_ADDRESS=@x", "MSC_* -1/2 @x server of 2"},
    {"MSC_RANKS=2 MSC_SERVERS=2 MSC_SERVER=3 MSC_ADDRESS=@x",
     "error: MSC_SERVER=3 contradicts MSC_SERVERS=2: servers are counted from 1"},
    {"MSC_RANKS=2 MSC_SERVERS=2 MSC_SERVER=1 MSC_RANK=0 MSC_ADDRESS=@x",
     "error: MSC_SERVER=1 contradicts MSC_RANK=0"},
    {MS "MS_ROLE=MS_SERVER MS_SERVER_NUM=2", "MS_* -1/4 sched:8118 server of 2"},
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=0 MS_TOPO_TIMEOUT=60 MS_NODE_TIMEOUT=5",
     "MS_* 0/4 sched:8118 topology 60000 silence 5000"},
    {MS "MS_ROLE=MS_PSERVER", "error: MS_ROLE=MS_PSERVER contradicts MS_SERVER_NUM, which is 0 or not set"},
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=4",
     "error: MS_NODE_ID=4 contradicts MS_WORKER_NUM=4: ranks are counted from 0"},
    {MS "MS_ROLE=WORKER", "error: MS_ROLE: 'WORKER' is none of MS_SCHED, MS_WORKER, MS_PSERVER"},
    {"MS_ROLE=MS_WORKER MS_SCHED_HOST=a MS_SCHED_PORT=8118", "error: MS_ROLE is set, MS_WORKER_NUM is not"},
    {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2 MS_SCHED_PORT=8118", "error: MS_ROLE is set, MS_SCHED_HOST is not"},
    {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2 MS_SCHED_HOST=a", "error: MS_ROLE is set, MS_SCHED_PORT is not"},
    {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2 MS_SCHED_HOST=a MS_SCHED_PORT=80",
     "error: MS_SCHED_PORT: '80' is no whole number from 1024 to 65535"},
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=1 " TORCH, "MS_* 1/4 sched:8118 ignored torch-style (rank 3 of 4)"},
    /* mpirun, srun */
    {OMPI "MASTER_ADDR=10.0.0.1", "mpirun 2/4 10.0.0.1:29500 local 0/2"},
    {OMPI "MSC_ADDRESS=h:7 PMIX_RANK=2", "mpirun 2/4 h:7 local 0/2"},
    {OMPI "MSC_ADDRESS=h:7 PMIX_RANK=1", "error: OMPI_COMM_WORLD_RANK=2 contradicts PMIX_RANK=1"},
    {OMPI, "error: mpirun says rank 2 of 4, but nothing says where ranks meet; set MASTER_ADDR, or "
           "MSC_ADDRESS=HOST:PORT with a host of rank 0"},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
     "PMIX_NAMESPACE=375521281",
     "mpirun 1/2 @msc-job-375521281 local 1/2"},
    {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=2", "error: OMPI_COMM_WORLD_RANK=2 contradicts "
                                                      "OMPI_COMM_WORLD_SIZE=2: ranks are counted from 0"},
    {"OMPI_COMM_WORLD_SIZE=2", "error: OMPI_COMM_WORLD_SIZE is set, OMPI_COMM_WORLD_RANK is not"},
    {"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", "mpirun 0/1"},
    {"PMI_SIZE=2 PMI_RANK=1 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "mpirun 1/2 @msc-parent-77 local 1/2"},
    {"PMI_SIZE=2 PMI_RANK=1 MPI_LOCALRANKID=3 MPI_LOCALNRANKS=2",
     "error: MPI_LOCALRANKID=3 contradicts MPI_LOCALNRANKS=2: ranks are counted from 0"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_LOCALID=1 SLURM_JOB_ID=5 SLURM_STEP_ID=0",
     "mpirun 1/2 @msc-5-0 local 1/2"},
    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 MASTER_ADDR=n0", "mpirun 1/2 n0:29500"},
    {"PMIX_RANK=1", "error: PMIX_RANK is set, but no variable says how many ranks there are; set MSC_RANK and "
                    "MSC_RANKS"},
    {OMPI TORCH, "mpirun 2/4 10.0.0.1:2345 local 0/2 ignored torch-style (rank 3 of 4)"},
    /* torch-style */
    {TORCH, "torch-style 3/4 10.0.0.1:2345"},
    {TORCH "MS_NODE_TIMEOUT=2", "torch-style 3/4 10.0.0.1:2345 silence 2000"},
    {TORCH "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RESTART_COUNT=2",
     "torch-style 3/4 10.0.0.1:2345 local 1/2 restart 2"},
    {"WORLD_SIZE=2 RANK=0 MASTER_ADDR=fe80::1", "torch-style 0/2 [fe80::1]:29500"},
    {"WORLD_SIZE=2 RANK=1", "error: torch-style says rank 1 of 2, but nothing says where ranks meet; set MASTER_ADDR, "
                            "or MSC_ADDRESS=HOST:PORT with a host of rank 0"},
    {"WORLD_SIZE=2 RANK=2 MASTER_ADDR=a", "error: RANK=2 contradicts WORLD_SIZE=2: ranks are counted from 0"},
    {"WORLD_SIZE=2 MASTER_ADDR=a", "error: WORLD_SIZE is set, RANK is not"},
    {"WORLD_SIZE=2 MASTER_ADDR=a JOB_COMPLETION_INDEX=1", "torch-style 1/2 a:29500 node 1/-1"},
    {"WORLD_SIZE=2 RANK=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a",
     "error: LOCAL_RANK=2 contradicts LOCAL_WORLD_SIZE=2: ranks are counted from 0"},
    {"WORLD_SIZE=2 RANK=1 MASTER_ADDR=a MASTER_PORT=0", "error: MASTER_PORT: '0' is no whole number from 1 to 65535"},
    {"PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=1 LOCAL_RANK=1 PET_MASTER_ADDR=m PET_MASTER_PORT=7",
     "torch-style 3/4 m:7 local 1/2 node 1/2"},
    {"PET_NNODES=2 PET_MASTER_ADDR=m JOB_COMPLETION_INDEX=1", "torch-style 1/2 m:29500 local -1/1 node 1/2"},
    {"PET_NNODES=2 PET_MASTER_ADDR=m", "error: PET_NNODES is set, PET_NODE_RANK is not"},
    {"PET_NNODES=1:4 PET_MASTER_ADDR=m PET_NODE_RANK=0",
     "error: PET_NNODES=1:4: a range of nodes is not supported; give one number"},
    {"PET_NNODES=2 PET_NODE_RANK=0 PET_NPROC_PER_NODE=2 WORLD_SIZE=2 PET_MASTER_ADDR=m",
     "error: WORLD_SIZE=2 contradicts PET_NNODES=2 times 2 processes of each"},
    {"PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=2 RANK=1 LOCAL_RANK=0 PET_MASTER_ADDR=m",
     "error: RANK=1 contradicts node 1 with 2 processes of each and LOCAL_RANK=0"},
    {"PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=m",
     "error: there are 2 processes of each node, and LOCAL_RANK is not set"},
    {"PET_NNODES=2 PET_NODE_RANK=2 PET_MASTER_ADDR=m",
     "error: PET_NODE_RANK=2 contradicts PET_NNODES=2: ranks are counted from 0"},
    {"PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=m MASTER_ADDR=n",
     "error: MASTER_ADDR=n contradicts PET_MASTER_ADDR=m"},
    {"PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=m PET_MASTER_PORT=1 MASTER_PORT=2",
     "error: PET_MASTER_PORT=1 contradicts MASTER_PORT=2"},
    /* a loser may be wrong */
    {MS "MS_ROLE=MS_WORKER MS_NODE_ID=0 WORLD_SIZE=2 RANK=5",
     "MS_* 0/4 sched:8118 ignored torch-style (RANK=5 contradicts WORLD_SIZE=2: ranks are counted from 0)"},
    {"RANK_TABLE_FILE=one.json WORLD_SIZE=4 RANK=1 MASTER_ADDR=a",
     "rank table 0/1 local 0/1 node 0/1 host 10.0.0.1 ignored torch-style (rank 1 of 4)"},
};

static const char *get_word(void *user, const char *name) {
  static char values[16][512]; /* the last sixteen answers stay */
  static int next;
  const char *text = user, *at = text;
  for (size_t n = strlen(name); (at = strstr(at, name)); at++)
    if ((at == text || at[-1] == ' ') && at[n] == '=') {
      size_t bytes = strcspn(at + n + 1, " ");
      char *value = values[next++ % 16];
      memcpy(value, at + n + 1, bytes);
      value[bytes] = 0;
      return value;
    }
  return NULL;
}

static char *read_file(void *user, const char *path) {
  (void)user;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (!strcmp(path, files[i].path)) return strdup(files[i].text);
  return NULL;
}

static void describe(const startup *s, char *out, size_t room) {
  size_t n = 0;
#define PUT(...) n += (size_t)snprintf(out + n, room - n, __VA_ARGS__)
  out[0] = 0;
  if (!s->family) {
    PUT("alone");
    return;
  }
  PUT("%s %d/%d%s%s", s->family, s->rank, s->ranks, s->address[0] ? " " : "", s->address);
  if (s->local_rank >= 0 || s->local_ranks >= 0) PUT(" local %d/%d", s->local_rank, s->local_ranks);
  if (s->node >= 0) PUT(" node %d/%d", s->node, s->nodes);
  if (s->host[0]) PUT(" host %s", s->host);
  if (s->role == STARTUP_SCHEDULER) PUT(" scheduler");
  if (s->role == STARTUP_SERVER) PUT(" server of %d", s->servers);
  if (s->topology_ms) PUT(" topology %d", s->topology_ms);
  if (s->silence_ms) PUT(" silence %d", s->silence_ms);
  if (s->generation) PUT(" restart %d", s->generation);
  if (s->ignored[0]) PUT(" ignored %s", s->ignored);
}

static void environments(void **state) {
  static const char *const own[] = {"node-a", "10.0.0.1", "127.0.0.1", NULL};
  int wrong = 0, num = (int)(sizeof cases / sizeof *cases);
  (void)state;
  for (int i = 0; i < num; i++) {
    startup s;
    char is[1024];
    startup_environment env = {get_word, read_file, own, 77, (void *)(uintptr_t)cases[i].env};
    if (startup_read(&env, &s)) describe(&s, is, sizeof is);
    else snprintf(is, sizeof is, "%s: %s", s.pending ? "wait" : "error", s.error);
    size_t n = strlen(cases[i].is);
    bool prefix = n && cases[i].is[n - 1] == '*';
    if (prefix ? !strncmp(is, cases[i].is, n - 1) : !strcmp(is, cases[i].is)) continue;
    print_error("%s\n  is     %s\n  wanted %s\n", cases[i].env, is, cases[i].is);
    wrong++;
  }
  print_message("%d environments\n", num);
  assert_int_equal(wrong, 0);
}

/* The environment of the test itself is whole or empty, and reading it never fails for want of addresses. */
static void this_process(void **state) {
  startup s;
  (void)state;
  setenv("MSC_RANKS", "3", 1);
  setenv("MSC_RANK", "2", 1);
  setenv("MSC_ADDRESS", "@here", 1);
  assert_true(startup_of_process(&s));
  assert_int_equal(s.rank, 2);
  assert_string_equal(s.address, "@here");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(environments), cmocka_unit_test(this_process)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
