/* startup.h: the environment of a process in; out, which rank of which job it is, as its launcher says.
 *
 * Five families of variables say so. The first that does wins: MSC_*, a rank table, MS_*, mpirun and srun, torch-style.
 * The others are listed as ignored. What a family says must fit together, or the error names the variables that do not.
 * A node's number that nothing else gives is JOB_COMPLETION_INDEX; an address that the winner lacks may come from
 * MSC_ADDRESS or from MASTER_ADDR and MASTER_PORT. */
#ifndef MSC_TOOLS_STARTUP_H
#define MSC_TOOLS_STARTUP_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { STARTUP_WORKER, STARTUP_SCHEDULER, STARTUP_SERVER } startup_role;

/* The environment of a process, as functions: everything that the result depends on. */
typedef struct {
  const char *(*get)(void *user, const char *name); /* a variable; NULL: not set */
  /* A whole file, with a zero byte behind; NULL: it cannot be read. The caller frees it. */
  char *(*read)(void *user, const char *path);
  const char *const *own_addresses; /* of this host, NULL at the end */
  int parent;                       /* the process that started this one */
  void *user;
} startup_environment;

typedef struct {
  const char *family; /* the one that won; NULL: none says that there is a job */
  startup_role role;
  int rank, ranks;                          /* rank -1: the scheduler chooses; always -1 for a scheduler */
  int local_rank, local_ranks, node, nodes; /* -1: nobody said so */
  int servers, server; /* of parameters: how many, and which one a server is, from 1 on; 0: not said */
  const char *server_hosts; /* where they are, MSC_SERVER_HOSTS; NULL: not said */
  char address[288]; /* where ranks meet: HOST:PORT or @NAME; "": the job has one rank */
  char host[256];    /* the address under which others reach this rank; "": the one it reaches the others from */
  char ignored[256]; /* the families that lost and say something else; "": none */
  int topology_ms;   /* to wait for all ranks; 0: not said */
  int silence_ms;    /* a rank silent for so long is lost; 0: not said */
  int generation;    /* number of restarts */
  bool pending;      /* with an error: the rank table is not complete yet, so it may be right later */
  char error[512];   /* "": none */
} startup;

/* False with out->error if the environment contradicts itself or lacks something. */
bool startup_read(const startup_environment *env, startup *out);
/* The environment of this process. */
bool startup_of_process(startup *out);
/* The token of MSC_TOKEN, or of the file MSC_TOKEN_FILE, which only its owner may read; valid as long as the process.
 * NULL: none, or with job->error one that may not be used. */
const char *startup_token(startup *job);

#endif
