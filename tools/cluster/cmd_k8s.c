/* cmd_k8s.c: msc k8s PLAN: the number of ranks of a plan in; Kubernetes manifests that run it out, one document after
 * the other: a Secret that the user fills in once, a headless Service, and the job in one of five forms. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "runtime/mscrt.h"
#include "tools/cli.h"
#include "tools/status.h"

enum { PORT = 29500, SCHEDULER_PORT = 8118, GRACE_S = 30, NAME_ROOM = 41, MOST_SERVERS = 64 };

typedef struct {
  cli *c;
  cli_output *out;
  int ranks, workers, local; /* of the plan; pods; ranks of each pod */
  int servers;               /* of parameters, which are in the pod of all ranks */
  char name[NAME_ROOM];
  const char *image, *plan, *form;
} manifest;

/* One line, `deep` levels in. */
static void __attribute__((format(printf, 3, 4))) put(const manifest *m, int deep, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(msc_context_arena(m->c->ctx), fmt, ap);
  va_end(ap);
  cli_printf(m->out, "%*s%s\n", 2 * deep, "", text);
}

/* A YAML string in double quotes, which are JSON's. */
static const char *quote(const manifest *m, const char *text) {
  msc_arena *a = msc_context_arena(m->c->ctx);
  const char *out = "\"";
  for (; *text; text++)
    if (*text == '"' || *text == '\\') out = msc_arena_printf(a, "%s\\%c", out, *text);
    else if ((unsigned char)*text < 0x20) out = msc_arena_printf(a, "%s\\u%04x", out, (unsigned)*text);
    else out = msc_arena_printf(a, "%s%c", out, *text);
  return msc_arena_printf(a, "%s\"", out);
}

/* ---- parts ---- */

static void put_manifest_head(const manifest *m, const char *version, const char *kind, const char *suffix) {
  put(m, 0, "---");
  put(m, 0, "apiVersion: %s", version);
  put(m, 0, "kind: %s", kind);
  put(m, 0, "metadata:");
  put(m, 1, "name: %s%s", m->name, suffix);
  put(m, 1, "labels:");
  put(m, 2, "app.kubernetes.io/name: %s", m->name);
}

static void put_token(const manifest *m) {
  put(m, 0, "# The token with which ranks recognize each other, once for the namespace:");
  put(m, 0,
      "#   kubectl create secret generic %s-token --from-literal=token=\"$(head -c 32 /dev/urandom | base64 -w0)\"",
      m->name);
}

/* The names of pods resolve before the pods are ready: ranks wait for each other before they are. */
static void put_service(const manifest *m, const char *suffix, const char *selector) {
  put_manifest_head(m, "v1", "Service", suffix);
  put(m, 0, "spec:");
  put(m, 1, "clusterIP: None");
  put(m, 1, "publishNotReadyAddresses: true");
  put(m, 1, "selector:");
  put(m, 2, "%s", selector);
}

static void put_variable(const manifest *m, int deep, const char *name, const char *value) {
  put(m, deep, "- name: %s", name);
  put(m, deep, "  value: %s", quote(m, value));
}

static void put_secret_variable(const manifest *m, int deep) {
  put(m, deep, "- name: MSC_TOKEN");
  put(m, deep, "  valueFrom:");
  put(m, deep, "    secretKeyRef:");
  put(m, deep, "      name: %s-token", m->name);
  put(m, deep, "      key: token");
}

/* Writes the command msc run, with the arguments that the user gave for it. */
static void put_run_command(const manifest *m, int deep) {
  static const char *const run[] = {"msc", "run"};
  for (int i = 0; i < 2; i++) put(m, deep, "- %s", quote(m, run[i]));
  put(m, deep, "- %s", quote(m, m->plan));
  put(m, deep, "- %s", quote(m, "--trust-native"));
  for (int i = 1; i < m->c->num_operands; i++) put(m, deep, "- %s", quote(m, m->c->operands[i]));
}

/* Writes the arguments of msc launch that start a pod's ranks. The pod takes its number from JOB_COMPLETION_INDEX;
 * master: the address of rank 0, NULL: from the PET_ variables. With servers of parameters there is one pod, which
 * needs no address that others reach. */
static void put_launch(const manifest *m, int deep, const char *master) {
  put(m, deep, "- \"msc\"");
  put(m, deep, "- \"launch\"");
  put(m, deep, "- \"-n\"");
  put(m, deep, "- \"%d\"", m->local);
  if (m->servers) {
    put(m, deep, "- \"--servers\"");
    put(m, deep, "- \"%d\"", m->servers);
  } else if (master) {
    put(m, deep, "- \"--nodes\"");
    put(m, deep, "- \"%d\"", m->workers);
    put(m, deep, "- \"--master\"");
    put(m, deep, "- %s", quote(m, master));
  }
  put(m, deep, "- \"--grace\"");
  put(m, deep, "- \"%d\"", GRACE_S - 5);
  put(m, deep, "- \"--\"");
  put_run_command(m, deep);
}

static void put_security(const manifest *m, int deep) {
  put(m, deep, "securityContext:");
  put(m, deep + 1, "allowPrivilegeEscalation: false");
  put(m, deep + 1, "readOnlyRootFilesystem: true");
  put(m, deep + 1, "capabilities:");
  put(m, deep + 2, "drop: [\"ALL\"]");
}

/* Writes the beginning of a pod's spec, up to its container's name and image. */
static void put_pod(const manifest *m, int deep, const char *subdomain, const char *container) {
  put(m, deep, "restartPolicy: Never");
  if (subdomain) put(m, deep, "subdomain: %s", subdomain);
  put(m, deep, "terminationGracePeriodSeconds: %d", GRACE_S);
  put(m, deep, "securityContext:");
  put(m, deep + 1, "runAsNonRoot: true");
  put(m, deep + 1, "runAsUser: 10001");
  put(m, deep + 1, "runAsGroup: 10001");
  put(m, deep + 1, "seccompProfile:");
  put(m, deep + 2, "type: RuntimeDefault");
  put(m, deep, "volumes:");
  put(m, deep, "- name: tmp");
  put(m, deep, "  emptyDir: {}");
  put(m, deep, "containers:");
  put(m, deep, "- name: %s", container);
  put(m, deep, "  image: %s", quote(m, m->image));
  put_security(m, deep + 1);
  put(m, deep, "  volumeMounts:");
  put(m, deep, "  - name: tmp");
  put(m, deep, "    mountPath: /tmp");
}

/* Writes after which exit codes a Job fails at once: wrong input, wrong usage and bugs, which a second attempt would
 * meet again. After others, such as a lost peer, Kubernetes starts the pod again. */
static void put_failure_policy(const manifest *m, int deep) {
  put(m, deep, "podFailurePolicy:");
  put(m, deep, "  rules:");
  put(m, deep, "  - action: Ignore");
  put(m, deep, "    onPodConditions:");
  put(m, deep, "    - type: DisruptionTarget");
  put(m, deep, "      status: \"True\"");
  put(m, deep, "  - action: FailJob");
  put(m, deep, "    onExitCodes:");
  put(m, deep, "      operator: In");
  put(m, deep, "      values: [1, 2, 70]");
}

static void put_indexed_job_spec(const manifest *m, int deep, const char *subdomain, const char *master) {
  put(m, deep, "completionMode: Indexed");
  put(m, deep, "completions: %d", m->workers);
  put(m, deep, "parallelism: %d", m->workers);
  put(m, deep, "backoffLimit: %d", 3 * m->workers);
  put_failure_policy(m, deep);
  put(m, deep, "template:");
  put(m, deep, "  metadata:");
  put(m, deep, "    labels:");
  put(m, deep, "      app.kubernetes.io/name: %s", m->name);
  put(m, deep, "  spec:");
  put_pod(m, deep + 2, subdomain, "ranks");
  put(m, deep + 2, "  command:");
  put_launch(m, deep + 3, master);
  put(m, deep + 2, "  env:");
  put_secret_variable(m, deep + 3);
}

/* ---- forms ---- */

static const char *first_pod(const manifest *m) {
  return msc_arena_printf(msc_context_arena(m->c->ctx), "%s-0.%s:%d", m->name, m->name, PORT);
}

static void put_job(const manifest *m) {
  const char *selector = msc_arena_printf(msc_context_arena(m->c->ctx), "app.kubernetes.io/name: %s", m->name);
  put_service(m, "", selector);
  put_manifest_head(m, "batch/v1", "Job", "");
  put(m, 0, "spec:");
  put_indexed_job_spec(m, 1, m->name, first_pod(m));
}

static void put_jobset(const manifest *m) {
  const char *master = msc_arena_printf(msc_context_arena(m->c->ctx), "%s-ranks-0-0.%s:%d", m->name, m->name, PORT);
  put_manifest_head(m, "jobset.x-k8s.io/v1alpha2", "JobSet", "");
  put(m, 0, "spec:");
  put(m, 1, "network:");
  put(m, 2, "enableDNSHostnames: true");
  put(m, 2, "publishNotReadyAddresses: true");
  put(m, 1, "failurePolicy:");
  put(m, 2, "maxRestarts: 3");
  put(m, 1, "replicatedJobs:");
  put(m, 1, "- name: ranks");
  put(m, 1, "  replicas: 1");
  put(m, 1, "  template:");
  put(m, 1, "    spec:");
  put_indexed_job_spec(m, 4, NULL, master);
}

static void put_trainjob(const manifest *m) {
  put_manifest_head(m, "trainer.kubeflow.org/v1alpha1", "TrainJob", "");
  put(m, 0, "spec:");
  put(m, 1, "runtimeRef:");
  put(m, 2, "name: torch-distributed");
  put(m, 1, "trainer:");
  put(m, 2, "image: %s", quote(m, m->image));
  put(m, 2, "numNodes: %d", m->workers);
  put(m, 2, "numProcPerNode: %d", m->local);
  put(m, 2, "command:");
  put_launch(m, 2, NULL);
  put(m, 2, "env:");
  put_secret_variable(m, 2);
}

static void put_mpi_replica(const manifest *m, const char *kind, int replicas, const char *container) {
  put(m, 2, "%s:", kind);
  put(m, 3, "replicas: %d", replicas);
  put(m, 3, "template:");
  put(m, 4, "spec:");
  put_pod(m, 5, NULL, container);
}

/* mpirun starts the ranks; they meet over TCP at the first worker. */
static void put_mpijob(const manifest *m) {
  const char *worker = msc_arena_printf(msc_context_arena(m->c->ctx), "%s-worker-0.%s", m->name, m->name);
  put_manifest_head(m, "kubeflow.org/v2beta1", "MPIJob", "");
  put(m, 0, "spec:");
  put(m, 1, "slotsPerWorker: %d", m->local);
  put(m, 1, "mpiImplementation: OpenMPI");
  put(m, 1, "sshAuthMountPath: /home/mpiuser/.ssh");
  put(m, 1, "runPolicy:");
  put(m, 2, "cleanPodPolicy: Running");
  put(m, 1, "mpiReplicaSpecs:");
  put_mpi_replica(m, "Launcher", 1, "launcher");
  put(m, 6, "command:");
  put(m, 6, "- \"mpirun\"");
  put(m, 6, "- \"-n\"");
  put(m, 6, "- \"%d\"", m->ranks);
  static const char *const kept[] = {"MSC_TOKEN", "MASTER_ADDR", "MASTER_PORT"};
  for (int i = 0; i < 3; i++) {
    put(m, 6, "- \"-x\"");
    put(m, 6, "- \"%s\"", kept[i]);
  }
  put_run_command(m, 6);
  put(m, 6, "env:");
  put_variable(m, 6, "MASTER_ADDR", worker);
  put_variable(m, 6, "MASTER_PORT", msc_arena_printf(msc_context_arena(m->c->ctx), "%d", PORT));
  put_secret_variable(m, 6);
  put_mpi_replica(m, "Worker", m->workers, "worker");
  put(m, 6, "command: [\"/usr/sbin/sshd\", \"-De\", \"-f\", \"/home/mpiuser/.sshd_config\"]");
}

/* Variables of the scheduler and of workers; a worker's number is its JOB_COMPLETION_INDEX. */
static void put_role_variables(const manifest *m, int deep, const char *role) {
  msc_arena *a = msc_context_arena(m->c->ctx);
  put(m, deep, "env:");
  put_variable(m, deep, "MS_ROLE", role);
  put_variable(m, deep, "MS_SCHED_HOST", msc_arena_printf(a, "%s-scheduler", m->name));
  put_variable(m, deep, "MS_SCHED_PORT", msc_arena_printf(a, "%d", SCHEDULER_PORT));
  put_variable(m, deep, "MS_WORKER_NUM", msc_arena_printf(a, "%d", m->ranks));
  put_secret_variable(m, deep);
}

static void put_role_template(const manifest *m, const char *role) {
  put(m, 1, "template:");
  put(m, 2, "metadata:");
  put(m, 3, "labels:");
  put(m, 4, "app.kubernetes.io/name: %s", m->name);
  put(m, 4, "app.kubernetes.io/component: %s", role);
  put(m, 2, "spec:");
  put_pod(m, 3, NULL, role);
  put(m, 4, "command:");
  put_run_command(m, 4);
}

static void put_roles(const manifest *m) {
  put_service(m, "-scheduler", "app.kubernetes.io/component: scheduler");
  put(m, 2, "app.kubernetes.io/name: %s", m->name);
  put_manifest_head(m, "batch/v1", "Job", "-scheduler");
  put(m, 0, "spec:");
  put(m, 1, "backoffLimit: 3");
  put_failure_policy(m, 1);
  put_role_template(m, "scheduler");
  put_role_variables(m, 4, "MS_SCHED");
  put_manifest_head(m, "batch/v1", "Job", "-worker");
  put(m, 0, "spec:");
  put(m, 1, "completionMode: Indexed");
  put(m, 1, "completions: %d", m->ranks);
  put(m, 1, "parallelism: %d", m->ranks);
  put(m, 1, "backoffLimit: %d", 3 * m->ranks);
  put_failure_policy(m, 1);
  put_role_template(m, "worker");
  put_role_variables(m, 4, "MS_WORKER");
}

/* ---- the command ---- */

/* A name that Kubernetes accepts: small letters, digits and dashes, from a letter on. */
static void set_name(manifest *m, const char *text) {
  size_t n = 0;
  for (; *text && n + 1 < sizeof m->name; text++) {
    char ch = (char)tolower((unsigned char)*text);
    bool letter = ch >= 'a' && ch <= 'z', digit = ch >= '0' && ch <= '9';
    if (letter || (n && digit)) m->name[n++] = ch;
    else if (n && m->name[n - 1] != '-') m->name[n++] = '-';
  }
  while (n && m->name[n - 1] == '-') n--;
  m->name[n] = 0;
  if (!n) snprintf(m->name, sizeof m->name, "msc");
}

/* Reads how many servers of parameters there are. They share memory with the ranks, so all are in one pod. */
static int read_servers(manifest *m, bool served) {
  cli *c = m->c;
  if (!cli_text(c, "servers")) return CLI_OK;
  int64_t servers = cli_int(c, "servers", 0);
  if (servers < 1 || servers > MOST_SERVERS) return cli_usage(c, "--servers is 1 to %d", MOST_SERVERS);
  if (!served)
    return cli_usage(c,
                     "--servers: no parameter of the plan lives on servers: compile it for several ranks with --set "
                     "'parameter_server={\"mode\":\"sync\"}'");
  if (strcmp(m->form, "job") && strcmp(m->form, "jobset"))
    return cli_usage(c, "--servers goes with --form job and jobset, where msc launch starts them beside the ranks");
  if (cli_int(c, "workers", 1) != 1)
    return cli_usage(c, "--servers: servers of parameters are in one pod with all their ranks: --workers is 1");
  m->servers = (int)servers, m->workers = 1;
  return CLI_OK;
}

static int read_plan(manifest *m) {
  cli *c = m->c;
  cli_bytes bytes;
  mscrt_plan *plan;
  mscrt_plan_options o = {.struct_size = sizeof o, .trust_native = true}; /* nothing of it is executed */
  if (!cli_read(c, c->operands[0], &bytes)) return CLI_INPUT;
  int code = status_report(c, c->operands[0], "", mscrt_plan_open(bytes.data, bytes.size, &o, &plan));
  if (code) return code;
  m->ranks = mscrt_plan_ranks(plan);
  m->workers = (int)cli_int(c, "workers", m->ranks);
  code = read_servers(m, mscrt_plan_is_served(plan));
  const char *name = cli_text(c, "name");
  set_name(m, name ? name : mscrt_plan_model(plan));
  mscrt_plan_close(plan);
  if (code) return code;
  return name && strcmp(name, m->name)
             ? cli_usage(c,
                         "--name: '%s' is no name of Kubernetes, which has small letters, digits and dashes and at "
                         "most %d of them; '%s' is one",
                         name, NAME_ROOM - 1, m->name)
             : CLI_OK;
}

static int run_k8s(cli *c) {
  static const struct {
    const char *form;
    void (*put)(const manifest *m);
  } forms[] = {{"job", put_job},
               {"jobset", put_jobset},
               {"trainjob", put_trainjob},
               {"mpijob", put_mpijob},
               {"roles", put_roles}};
  manifest m = {.c = c, .image = cli_text(c, "image"), .plan = cli_text(c, "plan"), .form = cli_text(c, "form")};
  if (!m.image) return cli_usage(c, "--image is needed");
  if (!m.plan) m.plan = "/job/plan.bin";
  if (!m.form) m.form = "job";
  int code = read_plan(&m);
  if (code) return code;
  bool roles = !strcmp(m.form, "roles");
  if (m.workers < 1 || m.ranks % m.workers)
    return cli_usage(c, "--workers %d: the plan's %d ranks do not divide among them", m.workers, m.ranks);
  if (roles && m.workers != m.ranks)
    return cli_usage(c, "--form roles: a worker is one rank, so there are %d", m.ranks);
  m.local = m.ranks / m.workers;
  m.out = cli_open(c, cli_text(c, "o"));
  if (!m.out) return CLI_INPUT;
  put_token(&m);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (!strcmp(m.form, forms[i].form)) forms[i].put(&m);
  return cli_close(c, m.out);
}

static const cli_option options[] = {
    {"image", CLI_TEXT, "IMAGE", "container image that has msc, the plan and the data"},
    {"workers", CLI_INT, "N", "pods; default: one for each rank of the plan; with --servers one for all"},
    {"servers", CLI_INT, "S",
     "servers of parameters, of a plan with the key parameter_server, which msc launch starts in one pod with all "
     "ranks, and their copies; absent: none, and ranks sum gradients themselves, to the same bits"},
    {"form", CLI_CHOICE, "job|jobset|trainjob|mpijob|roles",
     "an indexed Job with its Service (default), a JobSet, a TrainJob or MPIJob of Kubeflow, or a scheduler and "
     "workers "
     "with MS_ROLE"},
    {"plan", CLI_TEXT, "PATH", "where the image has the plan; default /job/plan.bin"},
    {"name", CLI_TEXT, "NAME", "of the job; default: the model's"},
    {"o", CLI_TEXT, "FILE", "write here instead of stdout"},
    {0},
};
const cli_command cmd_k8s = {"PLAN [-- ARGUMENT-OF-MSC-RUN ...]", 1, -1, options, run_k8s};
