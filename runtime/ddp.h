/* ddp.h - libddp: one data-parallel training job out of N processes.
 *
 * A process calls ddp_init, declares its parameters, commits, and then loops: ddp_batch_next, the model's forward and
 * backward pass, ddp_grad_ready per parameter, ddp_backward_end, ddp_step. linear.c, among the installed examples, is a
 * whole program.
 *
 * Rules that hold throughout:
 * - One thread drives a handle. A child that the process forks has no part in it: its calls, but those that only look,
 *   fail; ddp_finalize and ddp_abort do nothing there.
 * - libddp owns parameters, gradients and optimizer state. ddp_param_add only declares; tensors exist from ddp_commit
 *   on, in an arena that never moves; pointers hold until ddp_finalize.
 * - A function that returns int gives 0, or -1 with *errp filled (errp may be NULL). After a failed collective the
 *   handle is broken: only ddp_abort and ddp_finalize may follow.
 * - Every wait has a deadline (DDP_TIMEOUT, seconds). When a rank dies, every other rank's wait ends with an error of
 *   domain DDP_E_PEER that names it.
 * - Functions marked "collective" must be called by every rank, in the same order, and not between a micro-step's first
 *   ddp_grad_ready and its ddp_backward_end, when gradients are on their way.
 * - A program runs with every later libddp.so.0 as it is. A struct may grow: it crosses with the size that the
 *   program's header knows (below, "sizes"), fields are added at its end, and 0 in them means what was done before.
 *   With an earlier libddp, fields that it does not know read 0, and one that the program has set is refused
 *   (DDP_E_USAGE).
 *   ddp_error, ddp_world and ddp_hook_info do not grow.
 */
#ifndef DDP_H
#define DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DDP_ERROR_DEFINED
#define DDP_ERROR_DEFINED
/* begin ddp_error */
typedef struct ddp_error {
    int domain;     /* enum ddp_domain */
    int code;       /* an errno, or a code of that domain; never 0 */
    char text[256]; /* one line, no newline at its end */
} ddp_error_t;
enum ddp_domain {
    DDP_E_USAGE = 1, /* the caller passed or configured something wrong */
    DDP_E_SYSTEM,    /* the operating system refused; code is errno */
    DDP_E_BOOT,      /* wire-up failed */
    DDP_E_COMM,      /* a collective failed */
    DDP_E_PEER,      /* another rank died, left or aborted */
    DDP_E_TIMEOUT,   /* a deadline passed */
    DDP_E_DATA,      /* a file's content is wrong */
    DDP_E_LAYOUT,    /* ranks disagree on the parameters */
};
/* end ddp_error */
#endif

#define DDP_VERSION "0.1.0"

/* Exit code of a program that was asked to stop and has saved a checkpoint: run it again and it goes on (EX_TEMPFAIL of
 * sysexits.h). */
#define DDP_EXIT_STOPPED 75

typedef struct ddp ddp_t;
typedef struct ddp_work ddp_work_t;

#ifndef DDP_DTYPE_DEFINED
#define DDP_DTYPE_DEFINED
/* begin ddp_dtype */
enum ddp_dtype { DDP_F32, DDP_F64, DDP_BF16, DDP_F16, DDP_I32, DDP_I64 };
enum ddp_op { DDP_SUM, DDP_MIN, DDP_MAX };
/* end ddp_dtype */
#endif

/* Where this process stands. Ranks are 0..size-1; nodes 0..n_nodes-1 in the order of their lowest rank; local ranks
 * count the ranks of one node in rank order. */
struct ddp_world {
    int rank, size;
    int local_rank, local_size;
    int node, n_nodes;
};

/* A parameter's tensors: n_elems elements each, 64-byte aligned, borrowed until ddp_finalize; device memory where
 * ddp_device said that this rank computes on a GPU. From the last ddp_backward_end of a step to ddp_step grad holds the
 * sum over all ranks (times the loss scale), not to be written (its norm is known by then); with zero=1 only on the
 * rank that owns the element. */
struct ddp_param {
    void *value, *grad;
    void *copy; /* on a GPU, with DDP_KEEP_BF16 or _F16: the value, always, rounded to nearest even; else NULL */
    size_t n_elems;
    enum ddp_dtype dtype, copy_dtype; /* copy_dtype: DDP_BF16 or DDP_F16; without a copy dtype */
};

/* One micro-step's work. */
struct ddp_batch {
    const uint64_t *sample; /* [n_samples] sample numbers, borrowed until the next ddp_batch_next */
    size_t n_samples;       /* at most batch_per_shard; fewer at an epoch's end, where it may be 0 */
    int shard;              /* logical shard number; without shards the rank */
    uint64_t epoch;         /* counts from 0 */
    float grad_scale;       /* multiply the loss's gradient by this (1 where losses are not scaled) */
    bool sync;              /* the last micro-step of a step: ddp_step follows ddp_backward_end */
};

/* What ddp_step did. */
struct ddp_step {
    uint64_t step;    /* optimizer steps done, this one included */
    double loss;      /* sum of all ranks' loss_sum / sum of all ranks' n_tokens */
    double grad_norm; /* L2 norm of the averaged gradient, before clipping */
    double lr;         /* used in this step */
    double loss_scale; /* likewise; 1 where losses are not scaled */
    bool skipped;     /* nothing was changed: a gradient was not finite, or no rank had a sample in the step but such as
                         have joined (ddp_join): bad_param is -1 then, loss and grad_norm are 0 */
    bool stop;        /* the scheduler or the user wants the job to end: checkpoint and leave */
    int stop_signal;  /* then: the signal that said so (SIGTERM); 0: the job's time is nearly over */
    bool cut;         /* then: it came inside a long step, which goes on after a resume: nothing was changed, and
                         `step`, `loss` and so on are those of the step before; all but `step` are 0 where this
                         program has taken none, as right after a resume */
    bool checkpoint;  /* a checkpoint is due */
    int bad_param;    /* id of the first parameter whose gradient was not finite (then skipped is set); -1: none */
};

/* Where a rank's time goes: every moment from its first ddp_batch_next on is in one part. On a GPU this is the time of
 * the stream of ddp_stream, as far as the GPU has come: a part has what was enqueued in it, and the time in which the
 * stream then had nothing to do. After ddp_state_open it counts from there, or from ddp_state_resume, and is EXPOSED in
 * ddp_state_step, CHECKPOINT, what ddp_state_part says, or OTHER. */
enum ddp_part {
    DDP_PART_DATA,       /* from ddp_batch_next to DDP_MARK_FORWARD */
    DDP_PART_FORWARD,    /* to DDP_MARK_BACKWARD, or the first ddp_grad_ready */
    DDP_PART_BACKWARD,   /* to ddp_backward_end */
    DDP_PART_EXPOSED,    /* there: the wait for sums, and so for slower ranks */
    DDP_PART_OPTIMIZER,  /* in ddp_step */
    DDP_PART_CHECKPOINT, /* training stood still for a checkpoint or a snapshot */
    DDP_PART_OTHER,      /* between steps, and whatever else */
    DDP_PARTS
};

/* What happened so far, on this rank. Times are sums over the synchronised backward passes; take differences. */
struct ddp_metrics {
    uint64_t steps;           /* synchronised backward passes */
    double backward_s;        /* from the first ddp_grad_ready to ddp_backward_end */
    double wait_s;            /* in ddp_backward_end, until the sums were there */
    uint64_t bytes_reduced;   /* that this rank put into reductions of gradients */
    uint64_t tcp_bytes_sent;  /* payload that this rank sent to other nodes, all collectives */
    int n_buckets;            /* of the present plan */
    double alpha_s;           /* a reduction of B bytes takes about alpha_s + B * beta_s_per_byte; */
    double beta_s_per_byte;   /* 0: not measured (a bucket size was chosen, or too few steps) */
    int slow_rank;            /* the last found to compute more than 1.2 times as long as the median rank, in the median
                                 of 50 steps; or the first of a node that sends at less than a third of the median
                                 node's rate; -1: none */
    double slow_factor;       /* how many times as long, or slower; 0: none */
    char slow[128];           /* that in words, with its node; "": none */
    double part_s[7];         /* by enum ddp_part; they add up to wall_s, the time since the first ddp_batch_next */
    double wall_s;
    double hidden_s;          /* buckets travelled while backward passes still computed; on a GPU 0: not known */
    double baseline_s;        /* all ranks' mean: what a step computes (data, forward, backward) where nothing travels
                                 beside it; 0: not known, as on a GPU */
    double efficiency;        /* that and the optimizer, over the mean step without CHECKPOINT and OTHER, in the run
                                 but its first step: 0.9 with N ranks is the speed of 0.9 N times one; 0: not known */
    double end_t;             /* when the job's time is over, in seconds since 1970, as Slurm said last; 0: not known,
                                 as on other ranks than 0, and where no folder for checkpoints is open */
    double barrier_p50_s;     /* a barrier of all ranks, on this one: of the last 256, of which there is at most one */
    double barrier_p99_s;     /* every 50 steps, half and 99% took at most so long; 0: not known */
};

/* The optimizer and its schedule.
 * adamw: Loshchilov and Hutter, arXiv:1711.05101, algorithm 2, as PyTorch applies it: value *= 1 - lr * weight_decay,
 * then the Adam update with bias correction at t = step + 1 (steps in which the parameter was not used count, unlike in
 * PyTorch). Weight decay acts on parameters of two or more dimensions,
 * unless DDP_NO_DECAY. sgd: value -= lr * gradient, with the same decay; nothing is kept beside values.
 * Schedule: linear from 0 over `warmup` steps (step s uses lr * (s + 1) / warmup), then a half cosine from lr down to
 * min_lr at step `total`; total 0: constant after the warm-up (Loshchilov and Hutter, arXiv:1608.03983). */
struct ddp_optimizer {
    const char *rule; /* one of DDP_RULES; NULL: adamw */
    float lr, min_lr;
    float beta1, beta2, eps, weight_decay;
    float clip; /* greatest L2 norm of the whole gradient; 0: no clipping */
    uint64_t warmup, total;
};
#define DDP_RULES "adamw|sgd"

/* Wires this process up with its peers (srun --ddp=on, `ddp run`, or alone) and opens the communicator. Collective.
 * argc and argv may be NULL; options beginning with "--ddp-" are taken out of them. Returns a handle that
 * ddp_finalize frees, or NULL. */
ddp_t *ddp_init(int *argc, char ***argv, ddp_error_t *errp);

/* Leaves the job and frees everything. Accepts NULL. Peers that still wait for this rank get an error. */
void ddp_finalize(ddp_t *d);

/* Tells every rank that this one gives up, with `why` (one line) for their errors, and returns: the caller exits
 * with `code`. A `why` that begins with "rank R: ", as errors do that come from another rank's, is told as R's. The
 * handle accepts only ddp_finalize afterwards. Accepts NULL. */
void ddp_abort(ddp_t *d, int code, const char *why);

/* -1 where a rank has died or aborted, as far as this one knows by now: collectives fail, and *errp says why. Else 0.
 * Waits for nothing. Any thread may call; not collective. */
int ddp_check(const ddp_t *d, ddp_error_t *errp);

const struct ddp_world *ddp_world(const ddp_t *d);

/* What this rank computes on, as the options device and share-device say. */
struct ddp_device {
    bool is_gpu;
    int ordinal;        /* of the GPU, as cudaSetDevice counts */
    char name[128];     /* "NVIDIA H200"; "" for the processor */
    size_t memory_free; /* bytes, now; the processor's: of the node, or of its control group if that is less */
    double peak_flops;  /* the GPU's, dense bfloat16 FLOP/s; 0: not known */
    double timeout_s;   /* DDP_TIMEOUT: for a program's own waits for its GPU, so that they end when the others' do */
    char note[256];     /* one line for the user, where `auto` found no GPU that it can use; else "" */
};

/* Finds it out, after the options and before ddp_commit. Collective: what stops one rank stops all. DDP_E_USAGE: a GPU
 * is demanded (device=cuda) and there is none, two ranks would share one, some ranks have one and others do not. Where
 * it is a GPU, parameters, gradients and optimizer state are in its memory from ddp_commit on, and gradients travel by
 * NCCL. A program that does not call this computes on the processor. */
static inline int ddp_device(ddp_t *d, struct ddp_device *ret, ddp_error_t *errp);

/* The CUDA stream (cudaStream_t) on which the program computes, if ddp_device said GPU; else it is ignored. Before
 * ddp_commit; without it the default stream. A gradient is complete, for ddp_grad_ready, when all is done that the
 * stream was asked for before; what ddp_batch_next zeroes and ddp_step changes is so for what the stream is asked for
 * after. So the program need not wait for its stream. */
int ddp_stream(ddp_t *d, void *stream, ddp_error_t *errp);

/* Sets an option of libddp(7) ("bucket-mb", "4"), before ddp_commit; every rank the same. Options that ddp_init needs
 * come too late here. */
int ddp_option(ddp_t *d, const char *key, const char *value, ddp_error_t *errp);

enum ddp_param_flags {
    DDP_NO_DECAY = 1,
    DDP_KEEP_BF16 = 2, /* on a GPU: keep ddp_param.copy, in bfloat16 */
    DDP_KEEP_F16 = 4,  /* on a GPU: keep ddp_param.copy, in float16, and scale losses, unless the option loss-scale says
                          otherwise; a job keeps copies in one of the two types */
    DDP_PAD_ROWS = 8,  /* behind value, grad and copy lie more rows, up to a multiple of DDP_PAD_MULTIPLE rows */
};

/* What DDP_PAD_ROWS adds is for matrix products, which are slow where a matrix is not whole tiles: a row is what one
 * index of the first dimension has. In value and copy these rows are zeros, and not to be written. In grad they are
 * zeroed with it, and what is added to them is nobody's gradient: it does not count in the norm, changes no value and
 * is in no checkpoint. */
#define DDP_PAD_MULTIPLE 128

/* Declares a parameter of shape[0..ndim) before ddp_commit; name is copied, unique and at most 127 bytes; ndim 1..8,
 * every dimension >= 1. dtype is DDP_F32 in this version. Returns its id (0, 1, ... in registration order) or -1; the
 * error is kept and returned by ddp_commit. */
int ddp_param_add(ddp_t *d, const char *name, enum ddp_dtype dtype, const size_t *shape, int ndim, unsigned flags);

/* What travels in place of float32 gradients: every rank encodes, the encodings are summed over the ranks as numbers of
 * type wire (DDP_BF16 and DDP_F16 are added in float32), and every rank decodes the sums. */
struct ddp_hook_info {
    int param;    /* its id */
    size_t first; /* the first of the n elements, in the parameter */
    int n_ranks;
};
struct ddp_hook {
    enum ddp_dtype wire;
    /* wire[0..n) from grad[0..n): once per parameter and step, all of it, from ddp_grad_ready or ddp_backward_end. */
    void (*encode)(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info);
    /* grad[0..n) from sums: any part of a parameter, any number of times, also from another thread, while encode runs;
     * each element depends on its sum alone, so that all ranks get the same. */
    void (*decode)(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info);
    void *ctx;
};

/* Sets the hook, which is copied, before ddp_commit; the same on every rank. What a hook keeps from step to step (the
 * error that its rounding made, say) is no part of a checkpoint: a program that wants the same bits saves it itself.
 * The option compress=bf16|f16 sets one that rounds to nearest even; f16 divides by the number of ranks before and
 * multiplies after, so that a sum does not overflow where its average would not. */
static inline int ddp_hook(ddp_t *d, const struct ddp_hook *hook, ddp_error_t *errp);

/* Compares the layout (names, shapes, types, order) between all ranks, and allocates parameters (zeroed), gradients and
 * optimizer state. Settings and *opt are compared too. Collective. A difference names the first thing that differs and
 * both ranks: DDP_E_LAYOUT where it is a parameter, else DDP_E_USAGE. */
static inline int ddp_commit(ddp_t *d, const struct ddp_optimizer *opt, ddp_error_t *errp);

/* The tensors of parameter id; all zero where id is unknown or before ddp_commit. */
static inline struct ddp_param ddp_param_get(const ddp_t *d, int id);

/* Parameter id's value to, and from, the processor's memory, n_elems floats, wherever it lies; waits until it is done.
 * A write comes between steps, and is refused after ddp_checkpoint before ddp_checkpoint_wait or the next ddp_step. Not
 * collective. */
int ddp_param_read(ddp_t *d, int id, float *ret, ddp_error_t *errp);
int ddp_param_write(ddp_t *d, int id, const float *value, ddp_error_t *errp);

/* Bytes that this rank holds of each kind, padding included; all 0 before ddp_commit. */
struct ddp_memory {
    size_t values, grads;
    size_t copies;      /* DDP_KEEP_BF16, DDP_KEEP_F16 */
    size_t moments;     /* of the optimizer */
    size_t moments_all; /* of all parameters: more than moments where each rank keeps a part (DDP_ZERO) */
    size_t partials;    /* sums of shards (ddp_data_open) */
    size_t encoded;     /* gradients as they travel, where a hook or `compress` changes them */
    size_t snapshot;    /* of a checkpoint, once a folder is open for some, or two of them, where guards hold them;
                           always the processor's memory */
};
static inline struct ddp_memory ddp_memory(const ddp_t *d);

/* Every rank gets rank 0's parameter values. Collective. */
int ddp_sync_params(ddp_t *d, ddp_error_t *errp);

/* Borders that libddp cannot see, of enum ddp_part, in a micro-step: the samples are in memory, so that forward begins;
 * the loss is known, so that backward begins. Without the first there is no DATA, without the second backward begins
 * with the first ddp_grad_ready. On a GPU it records an event: not in a stream that is being captured. */
enum ddp_mark { DDP_MARK_FORWARD, DDP_MARK_BACKWARD };
void ddp_mark(ddp_t *d, enum ddp_mark mark);

/* Adds an event to the run's record (the option `record`; ddp-record(5) has the events that libddp writes): event is
 * letters of a-z, digits and _, at most 31, none of libddp's own; members is JSON on one line, "\"step\": 3", or "",
 * each name once, without event and t, at most a million bytes. On ranks other than 0, or without a record, nothing
 * happens; a record that cannot be written is a warning of ddp_checkpoint_status, and no error here. Not collective.
 * DDP_E_USAGE: not such a name, not such members, or before ddp_commit and ddp_state_open. */
int ddp_record(ddp_t *d, const char *event, const char *members, ddp_error_t *errp);

/* When all steps are done and all is saved: ends the run's record, reads all of it, restarts and requeues before this
 * one too, and says what their time was worth (ddp-report(1)). *ret_line: on rank 0 of a run with a record, one line
 * for the user, "goodput 91.3% of 2 h 14 min: useful 2 h 02 min, lost 3 min 05 s ..."; else NULL. Borrowed until
 * ddp_finalize. Under Slurm the job's comment says it too, behind what it had said before; what goes wrong there is a
 * warning of ddp_checkpoint_status. Collective; it takes as long as Slurm's controller, up to ten seconds. Where it is
 * not called, ddp_finalize does the same for the comment. */
int ddp_goodput(ddp_t *d, const char **ret_line, ddp_error_t *errp);

/* Starts the data order: n_samples samples, batch_per_shard of them per micro-step and rank, accum micro-steps per
 * step. All ranks pass the same numbers. The position in it is an epoch and how many of its samples all ranks together
 * have taken, so that training can go on from it on any number of ranks.
 *
 * The option order=ledger (the default): every sample comes once an epoch, in an order drawn from seed and epoch,
 * whatever stops and resumes happen between, and on whatever numbers of ranks. A step takes the next
 * batch_per_shard x accum x ranks samples. An epoch's last step takes what remains: evenly spread over the ranks, in no
 * more micro-steps than that needs; a rank may get none (n_samples 0). It then marks its parameters as ever, ready
 * with the zeros that their gradients are, or unused.
 * order=distributed: the order of PyTorch's DistributedSampler with shuffle=True, that seed and set_epoch called: rank
 * r of R takes entries r, r+R, ... of torch.randperm(n) seeded with seed + epoch, padded by its own head to a multiple
 * of R (after a resume on other ranks: of what the epoch has left). Nothing of an epoch is left over: its last
 * micro-step takes what remains, and may be shorter. It takes 8 bytes of memory a sample.
 *
 * shards = V >= 1 makes results independent of the number of ranks: V and the number of ranks R are powers of two, V a
 * multiple of R, accum is 1, every node holds an aligned power-of-two block of ranks. A step has V shards of
 * batch_per_shard samples; rank r computes shards rV/R .. (r+1)V/R - 1, one a micro-step, each into gradients that
 * ddp_batch_next zeroed. Which samples a shard takes depends on V alone (order=distributed: that with V replicas).
 * Gradients and losses are summed in the fixed tree over shard numbers, so losses, norms and parameters are the same
 * bits for every R that divides V, as long as the model keeps to this: what a shard adds up to depends on its samples
 * and the parameters alone, not on shards before it, nor on the number of threads; random numbers are drawn from (seed,
 * step, sample). The shards of an epoch's last step may have fewer samples, one more or less, or none. It takes
 * log2(V/R) buffers as large as the gradients.
 *
 * Collective. What stops one rank stops all. Fails when a step would need more samples than there are.
 * From here until ddp_finalize SIGTERM, SIGUSR1, SIGUSR2 and SIGINT (the option stop-signals says which), to any rank,
 * set ddp_step.stop on all ranks after the same step instead of ending the process; further ones are then ignored, but
 * a second SIGINT ends it. A program's own handlers and signals that it ignores stay as they are. */
int ddp_data_open(ddp_t *d, uint64_t n_samples, size_t batch_per_shard, int accum, int shards, uint64_t seed,
                  ddp_error_t *errp);

/* The next micro-step. Zeroes the gradients at the first micro-step of a step; later ones add to them. With shards it
 * zeroes them at every one. */
static inline int ddp_batch_next(ddp_t *d, struct ddp_batch *ret, ddp_error_t *errp);

/* The samples that the next ddp_batch_next will give, which may be none, without taking them: so that a loader brings
 * them in meanwhile. Borrowed until the next ddp_batch_peek. ddp_join and ddp_resume move on: what was peeked before is
 * then not what comes. Not collective. */
int ddp_batch_peek(ddp_t *d, const uint64_t **ret_sample, size_t *ret_n, ddp_error_t *errp);

/* Parameter id's gradient of this micro-step is complete: it must not be written again before the next
 * ddp_batch_next. Outside a micro-step it is an error, which the next call returns. */
void ddp_grad_ready(ddp_t *d, int id);

/* Instead of ddp_grad_ready: parameter id took no part in this micro-step; it adds nothing. A parameter that no rank
 * used in any micro-step of a step keeps its value and its moments in ddp_step (it does not even decay). With the
 * option find-unused=on, this is what ddp_backward_end does for every parameter that was not marked. */
void ddp_grad_unused(ddp_t *d, int id);

/* Ends a micro-step: loss_sum is the sum (not mean) of the losses over its n_tokens items, and gradients are those
 * of that sum. On the last micro-step (sync) gradients, losses and counts are then summed over all ranks; gradients'
 * sums are started during the micro-step, as they are marked. Collective then. A parameter marked twice, or never, is
 * an error that names it on every rank. */
int ddp_backward_end(ddp_t *d, double loss_sum, uint64_t n_tokens, ddp_error_t *errp);

/* Divides the summed gradient by the global count of items, clips, and takes one optimizer step. */
static inline int ddp_step(ddp_t *d, struct ddp_step *ret, ddp_error_t *errp);

/* A rank that has no more data joins, between two steps, instead of ddp_batch_next, while others still train: it takes
 * part in their reductions with gradients of zero and no items and takes the same optimizer steps, until all ranks have
 * joined. Collective in this sense: the others call what a step calls, and nothing else that is collective, until they
 * join too. The samples that would have been this rank's in those steps count as taken: afterwards all ranks are at the
 * same place in the data. Not with shards. 0: all have joined, training may go on; 1: the job is to stop
 * (ddp_step.stop), which the others are told at the same step; -1: error. */
int ddp_join(ddp_t *d, ddp_error_t *errp);

/* ---- checkpoints ----
 *
 * dir is a folder that all nodes share; a checkpoint is a folder in it, step-00000100, of safetensors files and a
 * manifest (user.md, "Checkpoints: the format"). It does not depend on the number of ranks that wrote it. */

/* After ddp_data_open, before the first step: restores parameters, optimizer and data position from the newest
 * checkpoint in dir, or from the one before where the newest is broken (ddp_checkpoint_status.warning says what is);
 * dir may also be one checkpoint, the newest of its folder. Nothing is believed before its checksum was compared. With
 * --ddp=restarts=, a program that was started again goes on from a snapshot in memory of a later step, where all ranks
 * have one (the option snapshot-every). Where bits may differ from those of a run that was not stopped (other ranks,
 * ranks that lie otherwise on the nodes, another processor), ddp_checkpoint_status.warning says so.
 * Collective. 1: resumed, ddp_steps_done says where; 0: there is none, training starts at step 0; -1: error, the same
 * on all ranks, also where every checkpoint there is broken (what the parameters are then is not said), or is one of
 * other parameters, or of data of another number of samples, seed or order. */
int ddp_resume(ddp_t *d, const char *dir, ddp_error_t *errp);

/* After ddp_step: begins a checkpoint of the present step in dir, and returns. It is copied beside the next forward
 * and backward pass, for which ddp_step waits before it changes a parameter, written beside the steps that follow by
 * a thread, and committed when all ranks have written; until then it does not exist. At most one is in flight: where
 * one is, nothing is begun, and ddp_step sets `checkpoint` again when it is over; where no step follows,
 * ddp_checkpoint_wait and ddp_finalize take it. One in flight to another folder than dir is waited for first. After a
 * step that set `stop`, returns when it is committed. A checkpoint that fails (full disk, a folder that vanished) is
 * counted and does not end training; with the option ckpt-required=on the call fails that finds out, here or in
 * ddp_step. The first call with a dir opens it, as ddp_checkpoint_open does, unless that or ddp_resume has. The `keep`
 * newest checkpoints stay. A step that dir has already is not written again. Values must not be written between this
 * and the next ddp_step. Collective. */
int ddp_checkpoint(ddp_t *d, const char *dir, ddp_error_t *errp);

/* Best before the first step, with no checkpoint in flight: opens dir for ddp_checkpoint without going on from
 * what lies there, so that no step is in vain where that fails: dir is made, found to be the same folder on every node
 * and to have no checkpoints (but those that ddp_resume was given, or this program has saved), and the memory for saves
 * is taken. A folder that cannot be written is a warning, with ckpt-required=on an error. One that is open stays so.
 * Collective. */
int ddp_checkpoint_open(ddp_t *d, const char *dir, ddp_error_t *errp);

/* Between steps: returns when the checkpoint in flight, and one that ddp_checkpoint was asked for meanwhile, are
 * committed or have failed, as ddp_checkpoint_status then says (last_step, n_failed); -1 where ddp_checkpoint would. 0
 * is no promise that the step was saved: a program exits with DDP_EXIT_STOPPED only where last_step is the step that it
 * stopped after, else with 1 (rank 0 has the status's warning). Here, and in ddp_checkpoint after a stop, the ranks
 * compare all of their parameters (option verify), since no step may follow that would; -1 (DDP_E_DATA) where they
 * differ. Collective; ddp_finalize waits, too. */
int ddp_checkpoint_wait(ddp_t *d, ddp_error_t *errp);

/* For the last checkpoint of a run, or of one that stops, where no step is to follow and ddp_checkpoint_wait has
 * returned, but last_step is not this step. Where what it lacked was space (ENOSPC, EDQUOT), so that somebody may free
 * some: waits, for a second, later for longer, up to 30, and returns 1: call ddp_checkpoint and ddp_checkpoint_wait
 * again, and then this. The status's warning then says, once, what is waited for: pass it on before that. 0: it failed
 * by another cause, or so for DDP_TIMEOUT, or the job's end or a signal that stops the run has come. With
 * ckpt-required=on it follows those calls also where they have failed, between steps, and -1 means that their error
 * stays, of another cause; else the handle is usable again. Collective. */
int ddp_checkpoint_retry(ddp_t *d, ddp_error_t *errp);

/* Adds a small file, text, to every checkpoint: "config.json". After ddp_commit, before ddp_resume and ddp_checkpoint;
 * the same on every rank. Both texts are copied. */
int ddp_checkpoint_attach(ddp_t *d, const char *name, const char *text, ddp_error_t *errp);

/* What libddp cannot know, for the manifest of every checkpoint: "products", the matrix products, whose bits may
 * differ, and "data", which data the samples are (a hash of the files' names and sizes, say): ddp_resume warns where
 * either differs; "threads", how many each rank has, which it does not compare: a program whose bits depend on them
 * tells them with the products. */
int ddp_checkpoint_note(ddp_t *d, const char *key, const char *text, ddp_error_t *errp);

/* After ddp_commit: the parameters' values alone, from safetensors: dir is such a file, or a folder (a checkpoint, or a
 * model as others publish it) with model.safetensors, else with model.safetensors.index.json and the files that it
 * names; other files there are not looked at. Each parameter NAME is there as NAME or as PREFIX.NAME (prefix NULL:
 * none), with its shape, as F32, F16 or BF16; tensors that nobody declared are not looked at. Collective. */
int ddp_load(ddp_t *d, const char *dir, const char *prefix, ddp_error_t *errp);

/* Optimizer steps done, those before ddp_resume included. */
uint64_t ddp_steps_done(const ddp_t *d);

struct ddp_checkpoint_status {
    uint64_t n_committed, n_failed, n_postponed; /* by this run; these and the steps are the same on all ranks */
    uint64_t last_step;    /* of the last one that was committed, or resumed from; not from memory; UINT64_MAX: none, so
                            * that step 0 is one */
    uint64_t resumed_step; /* 0: not resumed */
    double blocked_s;      /* of the last save, on this rank: training stood still; */
    double copy_s, write_s, commit_s; /* copying, writing, commit (rank 0) beside training */
    uint64_t bytes;        /* of a whole checkpoint */
    bool in_flight;
    char path[256];    /* of the last one committed or resumed from; a longer one without its beginning; "memory": a
                        * snapshot that guards held */
    char warning[1024]; /* on rank 0: all from before the first step, then those of the last step that had any: a save
                         * that failed, a broken checkpoint, another machine, a folder that others can write to, what
                         * is wrong with NCCL; "": none */
    uint64_t resumed_skipped; /* steps skipped in a row, after resumed_step and before that checkpoint was taken: they
                               * do not come again */
    int failed_rank;      /* where n_failed is not 0: whose error the last of them was, the same on all ranks: an abort
                           * with "rank R: " tells it as that rank's (ddp_abort) */
    char failed_node[64]; /* and that rank's node; "": not known */
};
static inline int ddp_checkpoint_status(const ddp_t *d, struct ddp_checkpoint_status *ret);

/* For programs that save by means of their own: has the batch job put back into the queue (of an array this task
 * alone), once, where that is possible; ddp_requeue_note says what became of it. To be called when all is saved; then
 * the program exits with DDP_EXIT_STOPPED. Not needed with ddp_checkpoint and the option requeue=auto. Collective; it
 * takes as long as Slurm's controller, up to a minute. */
int ddp_requeue(ddp_t *d, ddp_error_t *errp);

/* After ddp_requeue, or a step that set `stop` and its checkpoint, with the option requeue=auto (or
 * --ddp=requeue=auto): what became of the job, one line for the user; else NULL. On rank 0 alone. A batch job is back
 * in the queue then, where that was possible; of an interactive one the line holds the command that goes on. Borrowed
 * until ddp_finalize. */
const char *ddp_requeue_note(const ddp_t *d);

/* ---- beside another framework's training ----
 *
 * Where parameters, gradients and steps are another framework's (PyTorch: the Python package slurm_ddp), a program has
 * the order of the samples, stops and checkpoints alone: after ddp_init and ddp_option it calls ddp_state_open, in
 * place of ddp_param_add, ddp_commit and ddp_data_open, and ddp_state_step after each of its own steps. Its state is
 * tensors in its own memory, and a text. ddp_checkpoint_wait, ddp_checkpoint_status, ddp_steps_done, ddp_requeue_note
 * and the collectives below go as ever. */

/* Samples at places [first, first + n) of epoch `epoch`, in the order=ledger (ddp_data_open) of n_samples samples.
 * Needs no handle; any thread may call. DDP_E_USAGE: there are no such places. */
int ddp_ledger(uint64_t n_samples, uint64_t seed, uint64_t epoch, uint64_t first, size_t n, uint64_t *ret,
               ddp_error_t *errp);

/* What all ranks have agreed on after a step. */
struct ddp_state_step {
    uint64_t step;    /* steps done, this one and those before ddp_state_resume included */
    double end_s;     /* when the job's time is over, in seconds since 1970; 0: never, or not known (yet) */
    int stop_signal;  /* as in ddp_step */
    bool stop;        /* the scheduler or the user wants the job to end: save and leave */
    bool checkpoint;  /* a checkpoint is due */
};

/* Begins such a training. Settings are compared. From here until ddp_finalize signals are caught as from ddp_data_open
 * on. Collective. */
int ddp_state_open(ddp_t *d, ddp_error_t *errp);

/* After each step: the ranks agree, by one small sum, whether to stop or to save, and the save in flight moves on.
 * Collective. */
static inline int ddp_state_step(ddp_t *d, struct ddp_state_step *ret, ddp_error_t *errp);

/* From here on this rank's time is in `part`, up to the next call, or to ddp_state_step, after which it is in
 * DDP_PART_OTHER: libddp sees no forward and no backward of another framework's. So a run's record says where the time
 * of its steps goes, and what waited for data. Returns the part before, to come back to, or -1. Not collective. */
int ddp_state_part(ddp_t *d, enum ddp_part part, ddp_error_t *errp);

/* Declares a tensor of all checkpoints from the next ddp_state_save on, the same on every rank but for `data`: name and
 * group are copied; a group's tensors come one after another, and go to files GROUP-*.safetensors; dtype is the name
 * that safetensors has for it ("F32", "BF16", "I64", "U8" ...). data lies in the processor's memory, is borrowed until
 * ddp_state_reset, and read by every save until ddp_state_copied. owner -1: all ranks have the same values, and each
 * writes a part; else rank `owner` writes its own, and the others' data is ignored. */
int ddp_state_add(ddp_t *d, const char *group, const char *name, const char *dtype, const uint64_t *shape, int ndim,
                  const void *data, int owner, ddp_error_t *errp);

/* Forgets the tensors that ddp_state_add declared and frees what ddp_state_resume read. */
int ddp_state_reset(ddp_t *d, ddp_error_t *errp);

/* Begins a checkpoint of the present step in dir, as ddp_checkpoint does: of the tensors declared, and of rank 0's
 * text, which becomes the file state.json. Where one is in flight, nothing is begun: ddp_state_step says when it is
 * over, or call ddp_checkpoint_wait first. After a step that set `stop`, returns when it is committed. Collective. */
int ddp_state_save(ddp_t *d, const char *dir, const char *text, ddp_error_t *errp);

/* Returns when the save in flight has copied its tensors: to be called before they change. Not collective. */
int ddp_state_copied(ddp_t *d, ddp_error_t *errp);

/* The same where some have changed since ddp_state_save: before the next ddp_state_step or ddp_checkpoint_wait. That
 * save fails, as one for want of space does, and ddp_checkpoint_status.warning says `why` (NULL: that they have), of
 * the lowest rank that called this. Where it had failed already, nothing more is said. Not collective. */
int ddp_state_torn(ddp_t *d, const char *why, ddp_error_t *errp);

/* Before the first step: reads the newest checkpoint in dir, or the one before where that is broken, as ddp_resume
 * does, on any number of ranks, into memory that is freed by ddp_state_reset or ddp_finalize; every rank has all of
 * it. Then ddp_state_text is state.json's text; ddp_state_find gives a tensor's bytes by its name, and their number,
 * NULL where there is none; a rank's own (owner >= 0) on all ranks. Collective. 1: there was one, ddp_steps_done says
 * which; 0: there is none; -1. */
int ddp_state_resume(ddp_t *d, const char *dir, ddp_error_t *errp);
const char *ddp_state_text(const ddp_t *d);
const void *ddp_state_find(const ddp_t *d, const char *name, size_t *ret_bytes);

int ddp_barrier(ddp_t *d, ddp_error_t *errp); /* collective */

/* Every rank's data[0..n) becomes root's. Collective. */
int ddp_bcast(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, int root, ddp_error_t *errp);

/* out[r * n ..] = rank r's in[0..n), for all ranks r, in the order of ranks; out: size * n. `in` may be this rank's own
 * place in out. Waits. Collective. */
int ddp_allgather(ddp_t *d, const void *in, size_t n, enum ddp_dtype dtype, void *out, ddp_error_t *errp);

/* Each rank gives each rank bytes of its own, as many as it likes: n_in[r] bytes at in[r] go to rank r, and n_out[r]
 * bytes from rank r come to out[r]; `size` of each. Where there are none, no address is looked at; what a rank gives
 * itself may be in its place already. Where one gives another number of bytes than there is room for, all ranks are
 * told (DDP_E_USAGE), nothing moves, and the handle is not broken. To gather or scatter is to give to one rank alone,
 * or on one rank alone. Waits. Collective. */
int ddp_alltoall(ddp_t *d, const void *const *in, const size_t *n_in, void *const *out, const size_t *n_out,
                 ddp_error_t *errp);

/* out[0..n) = op over all ranks' in[rank * n ..], `rank` being this one; in: size * n, which stays as it is. out may be
 * this rank's own place in `in`. In ddp_allreduce's order, to its bits. Waits. Collective. */
int ddp_reduce_scatter(ddp_t *d, const void *in, size_t n, enum ddp_dtype dtype, enum ddp_op op, void *out,
                       ddp_error_t *errp);

/* Starts data[0..n) = op over all ranks' data, element by element, in the fixed pairwise order of architecture.md,
 * so that bits repeat where ranks lie alike on the nodes, and returns. Collective. data must stay untouched until
 * ddp_wait. NULL on error. */
ddp_work_t *ddp_allreduce(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp);

/* Waits for and frees w. Works that are not waited for are freed by ddp_finalize. */
int ddp_wait(ddp_work_t *w, ddp_error_t *errp);

/* n_bytes of memory, zeroed, 64-byte aligned, that ddp_allreduce works on in place, without a copy. Collective, the
 * same n_bytes on every rank. Freed by ddp_finalize. NULL on error. */
void *ddp_alloc(ddp_t *d, size_t n_bytes, ddp_error_t *errp);

static inline int ddp_metrics(const ddp_t *d, struct ddp_metrics *ret);

/* ---- groups of another framework ----
 *
 * Where another framework has started the ranks and numbered them (PyTorch's process groups), and has a store of keys
 * and values that all of them reach. Where strangers reach it, too, they get in nowhere by what they read or change
 * there if the ranks have SLURM_DDP_SECRET, from srun --ddp=on; either all have the same, or none has. */
struct ddp_group {
    int rank, size;   /* of this process in the group, and how many there are */
    const char *node; /* ranks with the same text are on one node and share memory; NULL: as for ddp_init */
    const char *name; /* what errors call this rank, beside its number: at most 63 bytes; NULL: its host's name */
    double timeout_s; /* deadline of every wait; 0: DDP_TIMEOUT; inf: none */
    void *ctx;
    /* Publishes data[0..n) under key, which is used once. 0, or -1 with *errp filled. Called within ddp_group alone. */
    int (*put)(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp);
    /* Waits until key is there, timeout_s at most; copies its value, at most `size` bytes, to data. How many bytes they
     * are, or -1 with *errp filled. */
    long (*get)(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp);
};

/* A handle like ddp_init's, over the ranks of the group, for the collectives above; a process may have several. Of the
 * settings, those that ddp_init needs count, from the environment. Collective over the group. NULL on error. */
static inline ddp_t *ddp_group(const struct ddp_group *group, ddp_error_t *errp);

/* ---- sizes ----
 *
 * What libddp exports in place of the inline functions above: the struct and its size in the caller's header. Other
 * languages call these. */
int ddp_device_sized(ddp_t *d, struct ddp_device *ret, size_t size, ddp_error_t *errp);
int ddp_hook_sized(ddp_t *d, const struct ddp_hook *hook, size_t size, ddp_error_t *errp);
int ddp_commit_sized(ddp_t *d, const struct ddp_optimizer *opt, size_t size, ddp_error_t *errp);
void ddp_param_get_sized(const ddp_t *d, int id, struct ddp_param *ret, size_t size);
void ddp_memory_sized(const ddp_t *d, struct ddp_memory *ret, size_t size);
int ddp_batch_next_sized(ddp_t *d, struct ddp_batch *ret, size_t size, ddp_error_t *errp);
int ddp_step_sized(ddp_t *d, struct ddp_step *ret, size_t size, ddp_error_t *errp);
int ddp_checkpoint_status_sized(const ddp_t *d, struct ddp_checkpoint_status *ret, size_t size);
int ddp_state_step_sized(ddp_t *d, struct ddp_state_step *ret, size_t size, ddp_error_t *errp);
int ddp_metrics_sized(const ddp_t *d, struct ddp_metrics *ret, size_t size);
ddp_t *ddp_group_sized(const struct ddp_group *group, size_t size, ddp_error_t *errp);

static inline int ddp_device(ddp_t *d, struct ddp_device *ret, ddp_error_t *errp)
{
    return ddp_device_sized(d, ret, sizeof *ret, errp);
}
static inline int ddp_hook(ddp_t *d, const struct ddp_hook *hook, ddp_error_t *errp)
{
    return ddp_hook_sized(d, hook, sizeof *hook, errp);
}
static inline int ddp_commit(ddp_t *d, const struct ddp_optimizer *opt, ddp_error_t *errp)
{
    return ddp_commit_sized(d, opt, sizeof *opt, errp);
}
static inline struct ddp_param ddp_param_get(const ddp_t *d, int id)
{
    struct ddp_param p;
    ddp_param_get_sized(d, id, &p, sizeof p);
    return p;
}
static inline struct ddp_memory ddp_memory(const ddp_t *d)
{
    struct ddp_memory m;
    ddp_memory_sized(d, &m, sizeof m);
    return m;
}
static inline int ddp_batch_next(ddp_t *d, struct ddp_batch *ret, ddp_error_t *errp)
{
    return ddp_batch_next_sized(d, ret, sizeof *ret, errp);
}
static inline int ddp_step(ddp_t *d, struct ddp_step *ret, ddp_error_t *errp)
{
    return ddp_step_sized(d, ret, sizeof *ret, errp);
}
static inline int ddp_checkpoint_status(const ddp_t *d, struct ddp_checkpoint_status *ret)
{
    return ddp_checkpoint_status_sized(d, ret, sizeof *ret);
}
static inline int ddp_state_step(ddp_t *d, struct ddp_state_step *ret, ddp_error_t *errp)
{
    return ddp_state_step_sized(d, ret, sizeof *ret, errp);
}
static inline int ddp_metrics(const ddp_t *d, struct ddp_metrics *ret)
{
    return ddp_metrics_sized(d, ret, sizeof *ret);
}
static inline ddp_t *ddp_group(const struct ddp_group *group, ddp_error_t *errp)
{
    return ddp_group_sized(group, sizeof *group, errp);
}

#ifdef __cplusplus
}
#endif
#endif
