/* mscrt.h: the runtime of msc: executes plan.bin as one rank of a job.  C11, also C++; needs no compiler.
 *
 * A rank that trains 500 steps and saves the result (with one rank, `address` stays NULL):
 *
 *   static mscrt_status *train(int rank, int ranks, const char *address) {
 *     mscrt_plan *plan = NULL;
 *     mscrt_data *data = NULL;
 *     mscrt_context *ctx = NULL;
 *     mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
 *     mscrt_options options = {.struct_size = sizeof options, .rank = rank, .ranks = ranks, .address = address,
 *                                .seed = 1};
 *     mscrt_source files[] = {{"x", "images.idx.gz"}, {"y", "labels.idx.gz"}};
 *     double loss;
 *     mscrt_status *s = mscrt_plan_read("plan.bin", &trust, &plan);
 *     if (!s) s = mscrt_data_open(plan, 2, files, NULL, &data);
 *     if (!s) s = mscrt_open(plan, &options, &ctx);       // meets the other ranks, makes the initial weights
 *     if (!s) s = mscrt_set_data(ctx, data);
 *     if (!s) s = mscrt_run(ctx, "train", 500, &loss);    // the loss of the last step
 *     if (!s) s = mscrt_save(ctx, "trained.safetensors"); // every rank calls it, rank 0 writes
 *     mscrt_close(ctx);
 *     mscrt_data_close(data);
 *     mscrt_plan_close(plan);
 *     return s;
 *   }
 *
 *   mscrt_status *s = train(0, 1, NULL);
 *   if (s) fprintf(stderr, "%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
 *   mscrt_status_free(s);
 *
 * Rules.  Every call that can fail returns NULL or a status, which its receiver frees.  Contexts are independent: any
 * number per process, each used by one thread at a time, but for mscrt_cancel and mscrt_dump_flight; a plan and a data
 * set may be shared and outlive their contexts. Contexts and teams belong to the process that opened them: in one that
 * it forks, calls return MSCRT_ARGUMENT, and mscrt_close and mscrt_end do nothing. The library has no global state,
 * installs no signal handler, never exits, aborts or prints.  Option structs start with struct_size, so they can grow;
 * what is zero is the default.  Where it is not said that a pointer may be NULL, calls that can fail return
 * MSCRT_ARGUMENT for it; others need it.  A plan holds native code: it is executed only when the caller says
 * trust_native. */
#ifndef MSCRT_H
#define MSCRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSCRT_API __attribute__((visibility("default")))
#define MSCRT_MAX_RANK 8 /* dimensions of a tensor */

/* ---- status ---- */

/*          name         exit code of a program that ends with it */
#define MSCRT_STATUSES(X)                                                                                       \
  X(OK, 0)                                                                                                      \
  X(ARGUMENT, 2)    /* a call of this library was wrong */                                                      \
  X(INPUT, 1)       /* plan, data or weights are wrong, or do not fit each other */                             \
  X(UNTRUSTED, 1)   /* native code that nobody vouched for */                                                   \
  X(UNSUPPORTED, 1) /* right, but this version cannot do it */                                                  \
  X(ENVIRONMENT, 3) /* file system, CPU, missing library */                                                     \
  X(NO_MEMORY, 3)                                                                                               \
  X(PEER, 3)  /* another rank is gone, failed or does not answer */                                             \
  X(STUCK, 3) /* a GPU does not come to its end; its memory goes with the process, which should end by _exit */ \
  X(BUG, 70)                                                                                                    \
  X(CANCELLED, 130) /* mscrt_cancel */

typedef enum {
#define X(name, exit) MSCRT_##name,
  MSCRT_STATUSES(X)
#undef X
} mscrt_code;

typedef struct mscrt_status mscrt_status;

MSCRT_API mscrt_code mscrt_status_code(const mscrt_status *s);   /* of NULL: MSCRT_OK */
MSCRT_API int mscrt_status_exit(const mscrt_status *s);          /* the exit code above */
MSCRT_API const char *mscrt_status_text(const mscrt_status *s);  /* one line, no newline; of NULL: "ok" */
MSCRT_API const char *mscrt_status_trail(const mscrt_status *s); /* a line per level it passed; may be "" */
MSCRT_API void mscrt_status_free(mscrt_status *s);

/* ---- tensors ---- */

/* In the order of the plan's schema. */
typedef enum {
  MSCRT_F32, MSCRT_F16, MSCRT_BF16, MSCRT_F64, MSCRT_I1, MSCRT_I8, MSCRT_I16, MSCRT_I32, MSCRT_I64,
  MSCRT_U8, MSCRT_U16, MSCRT_U32, MSCRT_U64, MSCRT_NUM_DTYPES
} mscrt_dtype;

typedef enum { MSCRT_DATA, MSCRT_LABEL, MSCRT_MASK } mscrt_role;

typedef struct {
  const char *name; /* the plan's: valid until it is closed */
  mscrt_dtype dtype;
  int rank;
  int64_t shape[MSCRT_MAX_RANK];        /* of the whole tensor */
  int64_t begin[MSCRT_MAX_RANK];        /* the box this rank holds; of a plan: the whole tensor */
  int64_t size[MSCRT_MAX_RANK];
  /* the size of the buffer: the box is at its beginning, padding may follow in every dimension */
  int64_t room[MSCRT_MAX_RANK];
  void *data;                           /* row major, in the rank's memory; of a plan: NULL */
} mscrt_tensor;

/* The parameters of a plan have the shape of the model. In memory a tensor may have more dimensions: a weight [k,
 * 3n] whose product is split in three is [k, 3, n] in mscrt_local, with the same elements in the same order. */

/* ---- plans ---- */

typedef struct mscrt_plan mscrt_plan;

typedef struct {
  size_t struct_size;
  bool trust_native; /* the caller knows where this plan comes from */
} mscrt_plan_options;

/* Copies the bytes and verifies all of them before any is used. options may be NULL. */
MSCRT_API mscrt_status *mscrt_plan_open(const void *bytes, size_t size, const mscrt_plan_options *options,
                                        mscrt_plan **out_plan);
MSCRT_API mscrt_status *mscrt_plan_read(const char *path, const mscrt_plan_options *options, mscrt_plan **out_plan);
/* Contexts of the plan go on; the last of them frees it. */
MSCRT_API void mscrt_plan_close(mscrt_plan *plan);
/* Only verifies a plan, for plans that are not to be executed, or not on this machine. */
MSCRT_API mscrt_status *mscrt_plan_verify(const void *bytes, size_t size);
/* Checks that mscrt_load could read `path`: that it has all parameters of the plan, in shapes and types that
 * mscrt_load accepts. */
MSCRT_API mscrt_status *mscrt_plan_check_weights(const mscrt_plan *plan, const char *path);
/* Checks that mscrt_resume could read the checkpoint `path`. Reads all of it, for its checksums. *out_step: the number
 * of training steps after which it was written. */
MSCRT_API mscrt_status *mscrt_plan_check_checkpoint(const mscrt_plan *plan, const char *path, int64_t *out_step);

/* Returns the folder of the files with initial values that the model names, relative to the folder of the plan ("": the
 * same folder); NULL: it names none. mscrt_load_weights reads these files. */
MSCRT_API const char *mscrt_plan_weights(const mscrt_plan *plan);
/* Checks that these files are in `folder`, have the tensors that the model names, and have the hashes that the model
 * states; a file with a hash is read whole. */
MSCRT_API mscrt_status *mscrt_plan_check_files(const mscrt_plan *plan, const char *folder);

MSCRT_API int mscrt_plan_ranks(const mscrt_plan *plan);
MSCRT_API const char *mscrt_plan_model(const mscrt_plan *plan); /* name of the model */
/* the configuration it was compiled with, JSON: {"KEY": {"value": V, "from": ORIGIN}, ...} */
MSCRT_API const char *mscrt_plan_config(const mscrt_plan *plan);
/* Returns the predicted time of a training step on the cluster that the plan was compiled for. *out_exposed_ns: the
 * part of it that communication adds. */
MSCRT_API int64_t mscrt_plan_predicted_ns(const mscrt_plan *plan, int64_t *out_exposed_ns);
/* Returns how many micro-batches one run of a section reads; 0: there is no such section. */
MSCRT_API uint32_t mscrt_plan_micro(const mscrt_plan *plan, const char *section);
MSCRT_API bool mscrt_plan_has(const mscrt_plan *plan, const char *section);
MSCRT_API size_t mscrt_plan_num_inputs(const mscrt_plan *plan);
MSCRT_API void mscrt_plan_input(const mscrt_plan *plan, size_t i, mscrt_tensor *out_tensor, mscrt_role *out_role);
MSCRT_API size_t mscrt_plan_num_parameters(const mscrt_plan *plan); /* optimizer state included */
MSCRT_API void mscrt_plan_parameter(const mscrt_plan *plan, size_t i, mscrt_tensor *out_tensor, bool *out_is_state);
MSCRT_API size_t mscrt_plan_num_outputs(const mscrt_plan *plan);
MSCRT_API void mscrt_plan_output(const mscrt_plan *plan, size_t i, mscrt_tensor *out_tensor, const char **out_section);
/* The dimension along which the samples of an input or output lie; -1: none. */
MSCRT_API int mscrt_plan_input_batch(const mscrt_plan *plan, size_t i);
MSCRT_API int mscrt_plan_output_batch(const mscrt_plan *plan, size_t i);
/* True if the output depends on labels. */
MSCRT_API bool mscrt_plan_output_reads_labels(const mscrt_plan *plan, size_t i);
/* True if the losses of several batches of section "forward" give that of all their samples: as their mean, then
 * *out_divisor is NULL, or as a mean weighted by the output *out_divisor, the number of labels that are not ignored,
 * say. False: the loss pairs samples, or draws numbers, and what their mean tells depends on the batches. */
MSCRT_API bool mscrt_plan_loss_adds_up(const mscrt_plan *plan, const char **out_divisor);

/* ---- data ---- */

typedef struct mscrt_data mscrt_data;

/* file: idx (also gzipped), npy, safetensors (FILE:tensor chooses one), .csv or .tsv (FILE:column,column), a folder
 * of PNG and JPEG images or of folders of them, which are classes, a tar archive of samples KEY.EXTENSION as WebDataset
 * has it (FILE:EXTENSION), else raw tokens: u8, or FILE:u16, FILE:i32. */
typedef struct {
  const char *input, *file;
} mscrt_source;

typedef struct {
  size_t struct_size;
  int64_t train_begin, train_end; /* the samples [begin, end) for training; 0, 0: all; end INT64_MAX: to the last */
  int64_t eval_begin, eval_end;   /* and for evaluation; 0, 0: none */
  bool in_order;                  /* every epoch in file order instead of permuted by (seed, epoch) */
  /* True: the files hold only what rank `rank` reads: its part (mscrt_plan_part) of the first batch, of the second, and
   * so on. The ranges above still count samples of whole batches, and batches are permuted instead of samples. Inputs
   * that the rank does not read need no file. */
  bool parts;
  int rank;
  /* For mscrt_predict alone: labels need no files, the evaluation range (0, 0: all samples) may be shorter than a
   * batch, and nothing is trained. */
  bool only_predict;
  /* True: all samples that are decoded one by one, of pictures, tar archives and tables of text, are tried, and damaged
   * ones are left out: the others are counted without them, in all files. False: the first that is read ends a run. */
  bool skip_damaged;
} mscrt_data_options;

/* Opens the files and checks kinds, shapes and counts against the plan's inputs.  options may be NULL. */
MSCRT_API mscrt_status *mscrt_data_open(const mscrt_plan *plan, size_t num, const mscrt_source *sources,
                                        const mscrt_data_options *options, mscrt_data **out_data);
MSCRT_API void mscrt_data_close(mscrt_data *data);
MSCRT_API int64_t mscrt_data_samples(const mscrt_data *data);         /* in the files, without those left out */
/* How many samples skip_damaged has left out; *out_first: what is wrong with the first, as long as the data set is
 * open; NULL: none. */
MSCRT_API int64_t mscrt_data_left_out(const mscrt_data *data, const char **out_first);
MSCRT_API int64_t mscrt_data_steps_per_epoch(const mscrt_data *data); /* whole batches of the training range */
/* False if an input of the role label has no file, which only_predict allows: its values are then zeros. */
MSCRT_API bool mscrt_data_has_labels(const mscrt_data *data);

/* ---- contexts ---- */

typedef struct mscrt_context mscrt_context; /* a plan at work, as one rank */

typedef enum { MSCRT_LOG_INFO, MSCRT_LOG_WARNING } mscrt_log_level;
typedef void mscrt_log_fn(void *user, mscrt_log_level level, const char *text);
/* Returns memory of `bytes` bytes, aligned to 64; NULL: there is none. */
typedef void *mscrt_allocate_fn(void *user, size_t bytes);
typedef void mscrt_release_fn(void *user, void *memory, size_t bytes);

/* Whether collectives run beside calls that do not need them, in a thread of their own. */
typedef enum {
  MSCRT_OVERLAP_IDLE,   /* when a core is free for the thread; always on the device "timed" */
  MSCRT_OVERLAP_ALWAYS,
  MSCRT_OVERLAP_NEVER
} mscrt_overlap;

typedef struct {
  size_t struct_size;
  int rank, ranks;      /* ranks 0: 1; it must be the plan's number */
  /* of the job, the same on all ranks: a path for a Unix socket, @NAME without a file, or HOST:PORT where rank 0 is */
  const char *address;
  int threads;          /* 0: this host's cores divided by the ranks */
  uint64_t seed;        /* of initial weights and of the order of samples */
  int timeout_ms;       /* of every wait for other ranks and for a GPU; 0: 300,000 */
  mscrt_log_fn *log;    /* NULL: silent */
  void *log_user;
  bool perf_map;        /* write /tmp/perf-PID.map, where `perf` looks for names of generated code */
  bool no_init;         /* leave parameters zero: they will be loaded */
  /* NULL: what the plan was compiled for, "cpu" or "cuda".  "timed": no values; every call sleeps for the time the plan
   * predicts, and the order is checked */
  const char *device;
  double time_scale;    /* factor on these times; 0: 1 */
  mscrt_overlap overlap;
  bool measure;         /* times of calls, for mscrt_get_stats and ... */
  uint32_t events;      /* ... the newest of them, of each thread, for mscrt_event_at */
  /* a file that keeps the fastest algorithm of each matrix product on a GPU, or its fastest tiles on a CPU, measured
   * once; for products not in it, or NULL: the first choice of the library, the plan's tiles */
  const char *choices;
  /* "local": ranks of one host share memory; "hosts": ranks on any hosts, over TCP, which share memory inside a host;
   * "tcp": all over TCP; "mpi": the same, with collectives through the MPI whose mpirun started the ranks; "ucx": the
   * same, through UCX, which is loaded then and knows RDMA hardware; between GPUs "nccl", which needs one GPU per rank.
   * NULL: hosts if the address is HOST:PORT, nccl if there are enough GPUs, else local */
  const char *comm;
  bool tune;            /* products that are not in `choices` are measured and added to it; the same on all ranks */
  int local_ranks;      /* ranks of this host, which share its cores; 0: all */
  /* Of tcp. token: of 22 characters at least, the same on all ranks; without one nothing that other hosts can reach is
   * listened at. host: an address of this host at which others reach this rank; NULL: from where it reaches rank 0.
   * led: mscrt_lead runs in a process of its own, not in rank 0. silence_ms: a rank that says nothing for so long is
   * lost; 0: 30,000. */
  const char *token, *host;
  bool led;
  int silence_ms;
  int meet_ms;          /* to wait for all ranks to join; 0: timeout_ms */
  /* True: the context keeps a copy of its state before each step, so that mscrt_recover can go on after other ranks
   * were lost. It must be equal on all ranks, and is only for the device cpu. The strings of these options must then
   * stay valid as long as the context. */
  bool recover;
  /* allocate: returns the memory of the arena, which need not be zeroed; NULL: the runtime maps it. release (may be
   * NULL) gets that memory when the context is closed. Only for a job of one rank on the device cpu.  Contexts without
   * parameters and state, whose inputs are set before every run and whose outputs are read after it, may have the same
   * memory, if they run one after another. */
  mscrt_allocate_fn *allocate;
  mscrt_release_fn *release;
  void *memory_user;
  const char *offload_path; /* folder of what the plan offloads to disk; NULL: what the plan says */
  /* Of a plan whose parameters live on servers (key parameter_server). servers: how many processes run
   * mscrt_run_server; 0: none, the ranks sum gradients and update parameters themselves, to the same bits. server: the
   * number of this process among them, from 1 on; 0: it is a worker. */
  int servers, server;
  /* With `recover`: the plans of which ranks of this job may bring state (mscrt_leave) when they open this one, in the
   * same order on all ranks. They must stay open as long as that state is kept. */
  const mscrt_plan *const *family;
  int num_family;
  int cores; /* of this host, for its ranks; 0: those that this process may use, which may be only its share */
  /* Another context of this rank, on the device cpu, in whose memory this context has its parameters: for a plan that
   * evaluates, predicts or trains the same model with other batches. The other plan must have all parameters of this
   * one, with the same types and parts. State, as of an optimizer, is shared where both plans have it, and both count
   * the same training steps. The two must run one after another, and this one must be closed first. */
  mscrt_context *parameters_of;
  /* With servers and an address HOST:PORT: where servers are, "A,B,C", the first at A, and so on, in turn; each listens
   * there at the port behind PORT that its number says. The same on all ranks and servers; NULL: all at HOST. */
  const char *server_hosts;
} mscrt_options;

/* Leads a job of options->ranks ranks at options->address, without being one of them, and returns when the job ends:
 * NULL, or a status if it could not start or lost a rank. With `recover` it goes on after a lost rank, with the ranks
 * that are left and new ones. Reads of the options only ranks, address, timeout_ms, token, silence_ms and recover. The
 * ranks themselves are opened with `led`. */
MSCRT_API mscrt_status *mscrt_lead(const mscrt_options *options);
/* Asks the leader of a job which rank this process is to be. The leader answers when every other rank has joined or
 * asked too; it gives processes of one host neighbouring ranks. Reads of the options only ranks, address, timeout_ms,
 * meet_ms, token, led and log. */
MSCRT_API mscrt_status *mscrt_ask_rank(const mscrt_options *options, int *out_rank);

/* Maps memory and code, connects to the other ranks, and makes the initial weights. */
MSCRT_API mscrt_status *mscrt_open(const mscrt_plan *plan, const mscrt_options *options, mscrt_context **out_ctx);
/* Runs the updates of a context that was opened as a server, until all ranks of the job have ended. Its weights are
 * those that the ranks begin with. With `recover`, which the ranks then have too, it waits for those that take the
 * places of lost ones; mscrt_cancel, from another thread, ends it with MSCRT_CANCELLED when no rank is connected any
 * more, and mscrt_leave and mscrt_open_with with a plan for another number of ranks let it go on with what it has. */
MSCRT_API mscrt_status *mscrt_run_server(mscrt_context *ctx);
/* True if updates of parameters can be left to servers. */
MSCRT_API bool mscrt_plan_is_served(const mscrt_plan *plan);
/* How many processes each server is: 2, where one goes on when the other is lost. */
MSCRT_API int mscrt_plan_server_copies(const mscrt_plan *plan);
/* Frees a context; if its work is not finished, the other ranks are told. Accepts NULL. */
MSCRT_API void mscrt_close(mscrt_context *ctx);

/* ---- going on after a rank is lost ---- */

/* How a context that was opened with `recover` began. */
typedef struct {
  size_t struct_size;
  bool from_peers; /* state of step `step` came from the ranks that were left; else all begin anew */
  int64_t step;
  int lost;    /* how many ranks were lost before; 0: none */
  double loss; /* of the last step before `step`; NaN: not known */
} mscrt_recovery;

/* To be called after a call failed with MSCRT_PEER: closes the context, meets the other ranks again at the same
 * address, with new processes (which call mscrt_open, as at first) in the places of lost ranks, and makes the context
 * anew. If mscrt_get_recovery then says from_peers, training goes on where it was: at most the running step is run
 * again, by all. Else only lost ranks had some parts of the state (mscrt_plan_restores), and the context is as after a
 * first mscrt_open. The caller sets data again in both cases. *ctx is NULL after a failure. */
MSCRT_API mscrt_status *mscrt_recover(mscrt_context **ctx);

/* The state of a rank that has left its job (mscrt_leave). */
typedef struct mscrt_kept mscrt_kept;

/* The two halves of mscrt_recover, for ranks that go on as another number of ranks. mscrt_leave closes the context, at
 * the end of a step or after a failure, and returns its state in *out_kept, which the caller frees. mscrt_open_with
 * opens another plan of the same model (one of `family`) and spreads the state that ranks bring over all ranks, however
 * it was cut before. `kept` stays the caller's; NULL: this rank brings no state. It tries for meet_ms to meet the
 * others. */
MSCRT_API mscrt_status *mscrt_leave(mscrt_context **ctx, mscrt_kept **out_kept);
MSCRT_API mscrt_status *mscrt_open_with(const mscrt_plan *plan, const mscrt_options *options, const mscrt_kept *kept,
                                        mscrt_context **out_ctx);
/* Accepts NULL. */
MSCRT_API void mscrt_kept_free(mscrt_kept *kept);
/* The plans for fewer ranks that the plan contains (key elastic), the one with the most ranks first. mscrt_plan_smaller
 * returns the bytes of one, which are valid until the plan is closed. */
MSCRT_API size_t mscrt_plan_num_smaller(const mscrt_plan *plan);
MSCRT_API const void *mscrt_plan_smaller(const mscrt_plan *plan, size_t i, size_t *out_bytes);
/* Before mscrt_recover or mscrt_leave: returns the rank whose loss made a call fail; -1: it is not known. The process
 * of that rank may be stopped instead of gone: it must be ended before another is started in its place. */
MSCRT_API int mscrt_lost_rank(const mscrt_context *ctx);
MSCRT_API void mscrt_get_recovery(const mscrt_context *ctx, mscrt_recovery *out_recovery);
/* True if a new process in the place of the lost rank `rank` could get all its state from other ranks. lost[r]: rank r
 * is lost, too. If it returns false, *out_parameter (out_parameter may be NULL) is the number of a parameter of which
 * only lost ranks hold that part. */
MSCRT_API bool mscrt_plan_restores(const mscrt_plan *plan, int rank, const bool *lost, size_t *out_parameter);

/* Makes the following runs read their batches from a data set, which must stay open as long as the context.  Step 0
 * reads the first batch of epoch 0.  If the data set was opened with `parts`, every rank calls this with a data set of
 * its own, and all must have the same number of batches. */
MSCRT_API mscrt_status *mscrt_set_data(mscrt_context *ctx, const mscrt_data *data);
/* Without a data set: sets the whole batch of one input for the next step, in the element type of the input; this
 * rank reads its box of it. For a training step of several micro-batches (mscrt_plan_micro) `batch` has the samples of
 * all of them, one micro-batch behind the other along the dimension of the samples. */
MSCRT_API mscrt_status *mscrt_set_input(mscrt_context *ctx, const char *name, const void *batch, size_t bytes);
/* Sets the batch like mscrt_set_input, but without a copy where that is possible: `batch` must stay valid and unchanged
 * until another batch is set or the context is closed. A copy is made if there are several ranks, if the device is not
 * cpu, if a call writes to the input, or if `batch` is not aligned for the element type. */
MSCRT_API mscrt_status *mscrt_borrow_input(mscrt_context *ctx, const char *name, const void *batch, size_t bytes);
/* Makes the following runs of a section write an output into `data`, row major, which must stay valid until this is
 * called again (data NULL: back to the runtime's own memory) or the context is closed; mscrt_read finds the output
 * there. On the device cpu calls write to `data` directly if no other value overlaps only part of the output's memory
 * in the arena (the key own_outputs ensures this); else the output is copied after each run. For jobs of one rank. */
MSCRT_API mscrt_status *mscrt_borrow_output(mscrt_context *ctx, const char *section, const char *name, void *data,
                                            size_t bytes);
/* Sets an input like mscrt_set_input, but `part` is only the box of this rank (mscrt_plan_part), row major. */
MSCRT_API mscrt_status *mscrt_set_part(mscrt_context *ctx, const char *name, const void *part, size_t bytes);
/* Returns the box of an input that a rank reads; data is NULL. */
MSCRT_API mscrt_status *mscrt_plan_part(const mscrt_plan *plan, int rank, const char *name, mscrt_tensor *out_tensor);

/* Runs a section `steps` times; sections whose name is not "train" run on the samples of the evaluation range, from its
 * start.  out_loss (may be NULL): the last step's, NaN when the section has no loss. */
MSCRT_API mscrt_status *mscrt_run(mscrt_context *ctx, const char *section, int64_t steps, double *out_loss);

/* Ranks of one job that live in this process. */
typedef struct mscrt_ranks mscrt_ranks;

/* The whole batch of an input, as mscrt_borrow_input takes it. */
typedef struct {
  const char *input;
  const void *data;
  size_t bytes;
} mscrt_batch;

/* Starts threads with which one call steps several ranks: contexts[0 .. num-1], each of another rank, all of the same
 * plan. They stay the caller's, who may use each of them between the calls, and closes them after mscrt_ranks_free. */
MSCRT_API mscrt_status *mscrt_ranks_new(int num, mscrt_context *const *contexts, mscrt_ranks **out_ranks);
/* What mscrt_borrow_input of these batches and then mscrt_run do, on all ranks at the same time; one of them works in
 * the thread of the caller. No rank runs if an input of any cannot be set. *out_loss (may be NULL): of a rank that
 * knows the loss. Of several failures it returns one that is not about another rank. Ranks of the job that are not
 * among these must run the same section elsewhere. */
MSCRT_API mscrt_status *mscrt_ranks_run(mscrt_ranks *ranks, const char *section, int64_t steps, size_t num_batches,
                                        const mscrt_batch *batches, double *out_loss);
/* Accepts NULL. */
MSCRT_API void mscrt_ranks_free(mscrt_ranks *ranks);

/* Makes the running or the next mscrt_run, mscrt_evaluate or mscrt_predict of this context end with MSCRT_CANCELLED.
 * With one rank it ends before its next step, and the context can go on from there. With several ranks, of which none
 * may go ahead of the others, all give up at once, even while they wait: the calls of the other ranks end with
 * MSCRT_PEER, and so does a wait of this rank outside a step. May be called from any thread; for a job of one rank also
 * from a signal handler. */
MSCRT_API void mscrt_cancel(mscrt_context *ctx);

typedef struct {
  size_t struct_size;
  /* of all samples together where mscrt_plan_loss_adds_up, else mean over the batches; NaN: there is no loss, or no
   * whole batch */
  double loss;
  /* share of labels that have the largest output; NaN: no integer labels, no [batch, classes] output, or
   * data in parts */
  double accuracy;
  int64_t samples; /* seen: all where mscrt_plan_loss_adds_up or there is no loss, else whole batches only */
} mscrt_evaluation;

/* Runs section "forward" over the evaluation range of the data set. Every rank calls it and gets the same numbers. */
MSCRT_API mscrt_status *mscrt_evaluate(mscrt_context *ctx, mscrt_evaluation *out_evaluation);

/* Where an output goes: a .npy file. */
typedef struct {
  const char *output, *file;
} mscrt_sink;

/* Runs section "forward" over the evaluation range of the data set and writes outputs: a row for each sample, in their
 * order. A last batch that is not full is filled up with copies of its samples, whose rows are not written. An
 * output without a dimension of samples can be written only if the range is exactly one batch. bf16 becomes f32. Every
 * rank calls it, rank 0 writes; files appear when they are complete. */
MSCRT_API mscrt_status *mscrt_predict(mscrt_context *ctx, size_t num, const mscrt_sink *sinks);
/* Checks everything that mscrt_predict would refuse, and that the files can be written. Leaves nothing behind. */
MSCRT_API mscrt_status *mscrt_check_predict(const mscrt_data *data, size_t num, const mscrt_sink *sinks);

/* Returns this rank's part of a parameter, a state, or an output of the section that ran last, in place; for a GPU a
 * copy that is valid until the next call. */
MSCRT_API mscrt_status *mscrt_local(mscrt_context *ctx, const char *name, mscrt_tensor *out_tensor);
/* Gathers the whole tensor from all ranks: every rank calls it; those that pass NULL get nothing. */
MSCRT_API mscrt_status *mscrt_read(mscrt_context *ctx, const char *name, void *out_data, size_t bytes);

/* Numbers that can be changed between steps: the states of one float element, as "optimizer.lr" of a plan that was
 * compiled with variable_lr (of the second group of parameters "optimizer.lr.1"), and "optimizer.momentum" and others
 * of one compiled with variable_hypers. */
MSCRT_API size_t mscrt_plan_num_scalars(const mscrt_plan *plan);
MSCRT_API const char *mscrt_plan_scalar(const mscrt_plan *plan, size_t i, double *out_initial);
/* Sets a number that steps from the next one on use; every rank must set the same value. */
MSCRT_API mscrt_status *mscrt_set_scalar(mscrt_context *ctx, const char *name, double value);

/* Loads parameters (and state, if it is there) from a safetensors file, a checkpoint of any layout and number of ranks,
 * a folder of safetensors files with or without an index, or what PyTorch wrote; a rank reads only its own boxes. */
MSCRT_API mscrt_status *mscrt_load(mscrt_context *ctx, const char *path);
/* Loads the parameters for which the model names files, from its folder (mscrt_plan_weights), and the optimizer's state
 * if these files have it; a rank reads only its own boxes. */
MSCRT_API mscrt_status *mscrt_load_weights(mscrt_context *ctx, const char *folder);
/* Saves whole parameters to a safetensors file: every rank calls it, rank 0 writes; the old file stays until the new
 * one is complete. */
MSCRT_API mscrt_status *mscrt_save(mscrt_context *ctx, const char *path);
/* Makes the folder `path` with parameters, state, the number of steps done and the seed: a file per rank, or one of
 * all if the plan was compiled with integrated_save, and a manifest. mscrt_resume, before data is set, goes on from
 * there with any layout and number of ranks, where both compute the same sums bit for bit; numbers that the checkpoint
 * lacks (mscrt_plan_scalar) begin as the plan says. Both are called by every rank. A checkpoint that has the name
 * already is replaced when the new one is complete. */
MSCRT_API mscrt_status *mscrt_checkpoint(mscrt_context *ctx, const char *path);
/* Write a checkpoint while the next steps run. mscrt_checkpoint_begin copies the state that is to be written; if an
 * earlier checkpoint is still being written, it waits for its end first. mscrt_checkpoint_end, called by every rank
 * between steps, returns the failure of any rank, after which the context can go on. wait: it returns only when the
 * checkpoint has its name, or has failed. *out_ended (may be NULL): no checkpoint is being written any more. */
MSCRT_API mscrt_status *mscrt_checkpoint_begin(mscrt_context *ctx, const char *path);
MSCRT_API mscrt_status *mscrt_checkpoint_end(mscrt_context *ctx, bool wait, bool *out_ended);
MSCRT_API mscrt_status *mscrt_resume(mscrt_context *ctx, const char *path);
/* Checks that mscrt_save could write there now, so that an error is found before training. Leaves nothing behind. */
MSCRT_API mscrt_status *mscrt_check_save(const char *path);
/* Checks that mscrt_checkpoint could write there now. Leaves nothing behind. */
MSCRT_API mscrt_status *mscrt_check_checkpoint(const char *path);

typedef struct {
  size_t struct_size;
  int64_t steps;           /* training steps done */
  int threads;
  uint64_t arena_bytes;    /* parameters, state, inputs and scratch of this rank */
  uint64_t received_bytes; /* by collectives, from other ranks, and from servers of parameters */
  /* With `measure`, times summed over all sections run so far: of calls; of collectives, including waiting for other
   * ranks; in which only collectives ran; from the begin of each section to its end. */
  int64_t compute_ns, collective_ns, exposed_ns, section_ns;
  /* For a GPU: the time of the host to issue the last step, which then runs by itself; otherwise 0. */
  int64_t launch_ns;
  /* planned_bytes: the memory that the plan states for a rank, 0: it states none: arena, constants (constant_bytes) and
   * workspace of libraries. Not in it, as they depend on threads and ranks: thread_bytes, which products use in all
   * threads, and link_bytes, which ranks of a host share to meet and to exchange small messages. */
  uint64_t planned_bytes, constant_bytes, thread_bytes, link_bytes;
  /* Of parameters in files, by this rank: bytes read, and bytes of its boxes. */
  uint64_t loaded_bytes, needed_bytes;
  /* Of parameters and state in host memory and on disk: their bytes; with `measure`, time of their transfers, and time
   * in which calls waited for these. */
  uint64_t host_bytes, disk_bytes;
  int64_t transfer_ns, transfer_wait_ns;
  /* Of batches of the data set: the time in which sections waited for them, or for small ones the time of reading them;
   * bytes read from files, but not those read when the data set was opened, nor of samples that are decoded. */
  int64_t data_wait_ns;
  uint64_t data_bytes;
  /* Of tables with a cache (cache_rows), by this rank: rows that steps named, each as often as it was named, and those
   * that had to be brought from where the table lives. */
  uint64_t cache_rows, cache_misses;
} mscrt_stats;

MSCRT_API void mscrt_get_stats(const mscrt_context *ctx, mscrt_stats *out_stats);

/* ---- what ran when ---- */

typedef enum {
  MSCRT_EVENT_SECTION,
  MSCRT_EVENT_COMPUTE,
  MSCRT_EVENT_WAIT,
  MSCRT_EVENT_COLLECTIVE,
  MSCRT_EVENT_TRANSFER,
  MSCRT_EVENT_TRANSFER_WAIT,
  MSCRT_NUM_EVENT_KINDS
} mscrt_event_kind;

/* WAIT: waits for collectives, before the call of this name; TRANSFER_WAIT: for transfers between the device and where
 * values live. A collective may run in a thread of its own, and so does a transfer, beside the other events. */
typedef struct {
  mscrt_event_kind kind;
  const char *name, *loc, *section; /* the plan's */
  uint32_t call;                    /* number in the section; UINT32_MAX: it is the section itself */
  int64_t step, begin_ns, end_ns;   /* of CLOCK_MONOTONIC: the same for all ranks of a host */
} mscrt_event;

/* To be called between runs. Events of a kind are in the order of their ends. */
MSCRT_API size_t mscrt_num_events(const mscrt_context *ctx);
MSCRT_API mscrt_event mscrt_event_at(const mscrt_context *ctx, size_t i);
/* The sum over all events of a kind, including those no longer kept. */
MSCRT_API int64_t mscrt_event_ns(const mscrt_context *ctx, mscrt_event_kind kind);

/* Writes the last 2,000 operations of this rank with others as JSON, for `msc flight`: which, with whom, when. reason:
 * why it is written; may be NULL. May be called from any thread, also while the context waits for other ranks. */
MSCRT_API mscrt_status *mscrt_dump_flight(const mscrt_context *ctx, const char *path, const char *reason);

/* ---- collectives of a program's own ---- */

/* Ranks that exchange data, without a plan: all of a job, or some of them.
 *
 *   mscrt_team *all = NULL, *pair = NULL;                     // in each of the processes of `msc launch -n 4 -- prog`
 *   mscrt_status *s = mscrt_init(NULL, NULL, &all);
 *   float sum, own = (float)mscrt_rank(all);
 *   if (!s) s = mscrt_all_reduce(all, MSCRT_F32, MSCRT_OF_SUM, &own, &sum, 1);     // 6 on all of them
 *   int ranks[] = {mscrt_rank(all) / 2 * 2, mscrt_rank(all) / 2 * 2 + 1};
 *   if (!s) s = mscrt_group(all, 2, ranks, &pair);
 *   if (!s) s = mscrt_all_reduce(pair, MSCRT_F32, MSCRT_OF_SUM, &own, &sum, 1);    // 1 on two of them, 5 on two
 *   mscrt_end(pair);
 *   mscrt_end(all);
 *
 * Values are combined in the order of ranks, the same bits on all ranks and with all backends. Every member calls the
 * same collectives in the same order, from one thread at a time; ranks and roots are numbers within the team. After a
 * failure the job is over: no collective of it can follow. */
typedef struct mscrt_team mscrt_team;

typedef enum { MSCRT_OF_SUM, MSCRT_OF_MAX, MSCRT_OF_MIN, MSCRT_OF_PROD } mscrt_operation;

/* Joins a job. backend: "local" for ranks of one host, "hosts" or "tcp" for ranks on any hosts, "mpi" or "ucx"
 * likewise, with collectives through MPI or UCX; NULL: hosts if the address is HOST:PORT. Of the options it takes rank,
 * ranks, address, timeout_ms, meet_ms, silence_ms, local_ranks, token, host, led; with ranks 0, or options NULL,
 * MSC_RANK, MSC_RANKS, MSC_ADDRESS and MSC_TOKEN say them, which `msc launch` sets, and without these the job has this
 * rank alone. A context of the same job meets at another address. */
MSCRT_API mscrt_status *mscrt_init(const char *backend, const mscrt_options *options, mscrt_team **out_all);
/* Ends a team. For the team of all ranks this ends the job for this rank; its groups are ended before. Accepts NULL. */
MSCRT_API void mscrt_end(mscrt_team *team);
/* Makes a group of some ranks, which count in ascending order. Every rank of the job calls it, also one that is not in
 * its list; lists of one call that have a rank in common are equal. At most 63 in a job. */
MSCRT_API mscrt_status *mscrt_group(mscrt_team *all, int num, const int *ranks, mscrt_team **out_group);
MSCRT_API int mscrt_rank(const mscrt_team *team); /* of this process; -1: it is not in the group */
MSCRT_API int mscrt_group_size(const mscrt_team *team);
/* Where a rank is on an axis of the mesh of a plan, and how many there are; false: there is no such axis. */
MSCRT_API bool mscrt_plan_axis(const mscrt_plan *plan, const char *axis, int rank, int *out_index, int *out_size);

/* dst: element i is the combination of element i of src of all ranks, `count` elements. dst may be src. */
MSCRT_API mscrt_status *mscrt_all_reduce(mscrt_team *team, mscrt_dtype dtype, mscrt_operation operation,
                                         const void *src, void *dst, int64_t count);
/* dst: `count` elements of src of every rank, in the order of ranks. */
MSCRT_API mscrt_status *mscrt_all_gather(mscrt_team *team, mscrt_dtype dtype, const void *src, void *dst,
                                         int64_t count);
/* src: `count` elements for each rank, in the order of ranks; dst: those for this rank, combined over all ranks. */
MSCRT_API mscrt_status *mscrt_reduce_scatter(mscrt_team *team, mscrt_dtype dtype, mscrt_operation operation,
                                             const void *src, void *dst, int64_t count);
/* src: `count` elements for each rank; dst: the `count` elements of each rank for this one; in the order of ranks. */
MSCRT_API mscrt_status *mscrt_all_to_all(mscrt_team *team, mscrt_dtype dtype, const void *src, void *dst,
                                         int64_t count);
MSCRT_API mscrt_status *mscrt_broadcast(mscrt_team *team, mscrt_dtype dtype, int root, void *data, int64_t count);
/* Messages between two ranks arrive in their order, with the bytes with which they were sent. A send may wait until
 * the other rank receives. */
MSCRT_API mscrt_status *mscrt_send(mscrt_team *team, int to, const void *data, size_t bytes);
MSCRT_API mscrt_status *mscrt_receive(mscrt_team *team, int from, void *data, size_t bytes);
MSCRT_API mscrt_status *mscrt_barrier(mscrt_team *team);

/* Returns the largest `value` of all ranks; every rank calls it. */
MSCRT_API mscrt_status *mscrt_max(mscrt_context *ctx, uint64_t value, uint64_t *out_max);
/* Every rank calls it after every training step. *out_stop: some rank passed `asked`, and all ranks are to stop; it
 * becomes true on all ranks after the same step. All ranks wait for one another here, unless mscrt_ranks_run_apart. */
MSCRT_API mscrt_status *mscrt_stop_together(mscrt_context *ctx, bool asked, bool *out_stop);
/* True if ranks do not wait for one another in a step: they push to servers that are asynchronous. */
MSCRT_API bool mscrt_ranks_run_apart(const mscrt_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
