/* train - the reference trainer: options, data and model put together, and the loop (runtime/train/loop.h) run over
 * them. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/model/cpu/pool.h"
#include "runtime/base/begins.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/ddp.h"
#include "runtime/train/account.h"
#include "runtime/train/config_json.h"
#include "runtime/train/job.h"
#include "runtime/train/live.h"
#include "runtime/train/losslog.h"
#include "runtime/train/start.h"

enum { EXIT_USAGE = 2 };

#define LOG_APART_S 5.0 /* between lines, where nobody says how many there are to be */

/* sort: "", or "warning: ". */
static void say(const struct ddp_world *w, const char *sort, const char *text)
{
    if (w && w->size > 1)
        fprintf(stderr, "train: %srank %d: %s\n", sort, w->rank, error_of_rank(text, w->rank));
    else
        fprintf(stderr, "train: %s%s\n", sort, text);
}

static void complain(const struct ddp_world *w, const char *text)
{
    say(w, "", text);
}

/* Do all ranks go on? Each gives the exit code with which it cannot, and why (*e), or 0; it gets the greatest, or -1
 * where they cannot agree: *e is then what came first. When all failed in the same words, only rank 0 says them; a rank
 * that failed in its own way names itself. */
static int agree(ddp_t *d, int code, ddp_error_t *e)
{
    const struct ddp_world *w = ddp_world(d);
    const char *text = e->text;
    int64_t hash = code ? (int64_t)(hash_text(text) >> 1) : 0, all[3] = {code, hash, -hash};
    ddp_error_t why;
    ddp_work_t *work = ddp_allreduce(d, all, 3, DDP_I64, DDP_MAX, &why);
    if (!work || ddp_wait(work, &why) < 0) {
        *e = code ? *e : why; /* what came first */
        return -1;
    }
    if (!all[0])
        return 0;
    bool same = all[1] == -all[2];
    if (code && same && w->rank == 0)
        fprintf(stderr, "train: %s\n", text);
    else if (code && !same)
        complain(w, text);
    ddp_barrier(d, NULL); /* nobody leaves before it is said: a launcher may end the others */
    if (code)
        ddp_abort(d, code, text);
    else
        ddp_barrier(d, NULL); /* which that ends: whoever leaves first, guards hear who failed, and why */
    return (int)all[0];
}

static bool is_own(const char *products)
{
    return begins(products, "own ");
}

/* With shards every rank must get the same bits. Our own products do, on any processor; a BLAS's may depend on it. */
static int check_products(ddp_t *d, const struct job *j, ddp_error_t *errp)
{
    char first[64];
    const char *mine = lm_about(&j->model).products;
    const struct options *o = &j->o;
    snprintf(first, sizeof first, "%s", mine);
    if (!o->shards)
        return 0;
    if (ddp_bcast(d, first, sizeof first / sizeof(int32_t), DDP_I32, 0, errp) < 0)
        return -1;
    if (strcmp(mine, first) == 0 || (is_own(mine) && is_own(first)))
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "--shards=%d: matrix products are %s here and %s on rank 0, which may"
                     " differ in their last bits: give every rank the same DDP_MATMUL and OPENBLAS_CORETYPE", o->shards,
                     mine, first);
}

static int set_number(ddp_t *d, const char *key, int64_t value, ddp_error_t *errp)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return value < 0 ? 0 : ddp_option(d, key, text, errp);
}

/* What a checkpoint holds of this program: the config.json with which it loads into transformers' GPT2LMHeadModel, and
 * what the bits may depend on. */
static int describe(ddp_t *d, const struct job *j, ddp_error_t *errp)
{
    char threads[16], data[96];
    snprintf(threads, sizeof threads, "%d", pool_threads());
    tokens_describe(j->data, data, sizeof data);
    if (ddp_checkpoint_note(d, "products", lm_about(&j->model).products, errp) < 0 ||
        ddp_checkpoint_note(d, "data", data, errp) < 0 || ddp_checkpoint_note(d, "threads", threads, errp) < 0)
        return -1;
    char *text = config_json_make(&j->o.model);
    int rc = text ? ddp_checkpoint_attach(d, CONFIG_JSON_NAME, text, errp)
                  : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for config.json");
    free(text);
    return rc;
}

static int find_device(ddp_t *d, const struct options *o, struct ddp_device *ret, ddp_error_t *errp)
{
    if (o->device && ddp_option(d, "device", o->device, errp) < 0)
        return -1;
    return ddp_device(d, ret, errp);
}

static int prepare(ddp_t *d, struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    int n = job_replicas(o, ddp_world(d));
    double scale = o->scale_lr ? n : 1;
    struct ddp_optimizer opt = {
        .rule = o->eval ? "sgd" : o->optimizer, /* which keeps no moments */
        .lr = (float)(o->lr * scale),
        .min_lr = (float)(o->min_lr * scale),
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .eps = (float)o->eps,
        .weight_decay = (float)o->weight_decay,
        .clip = (float)o->clip,
        .warmup = job_warmup_steps(j, n),
        .total = o->steps,
    };
    if (set_number(d, "ckpt-every", o->ckpt_every, errp) < 0 || set_number(d, "keep", o->keep, errp) < 0 ||
        loop_prepare(d, &j->model, &opt, o->seed, errp) < 0)
        return -1;
    return describe(d, j, errp);
}

static struct loop_options loop_options_of(const struct job *j)
{
    const struct options *o = &j->o;
    return (struct loop_options){.steps = o->steps,
                                 .log_every = o->log_every,
                                 .log_apart_s = o->has_log_every ? 0 : LOG_APART_S,
                                 .val_every = o->val_every,
                                 .quiet = o->quiet,
                                 .json = j->json,
                                 .ckpt = o->ckpt};
}

/* The log has the steps up to the checkpoint, and no others. */
static int begin_log(const ddp_t *d, const struct job *j, bool resumed, ddp_error_t *errp)
{
    const char *path = j->o.log_json;
    uint64_t step = ddp_steps_done(d), last, n_missing;
    struct loop_options lo = loop_options_of(j);
    struct ddp_checkpoint_status s;
    if (!j->json)
        return 0;
    if (!resumed)
        return losslog_begin(j->json, path, errp);
    ddp_checkpoint_status(d, &s);
    if (losslog_resume(j->json, path, step, s.resumed_skipped, loop_begins_validating(d, &j->model, &lo), &last,
                       &n_missing, errp) < 0)
        return -1;
    if (n_missing)
        fprintf(stderr, "train: --log-json: %s lacks %" PRIu64 " steps before step %" PRIu64 "\n", path,
                n_missing, last);
    if (last < step)
        fprintf(stderr, "train: --log-json: %s ends with step %" PRIu64 ", the checkpoint is of step %" PRIu64
                ": it lacks the steps between\n", path, last, step);
    return 0;
}

/* With --resume OTHER --ckpt DIR what was saved in DIR since is newer, when the same command is run again. */
static int resume(ddp_t *d, const struct options *o, ddp_error_t *errp)
{
    int rc = 0;
    if (o->ckpt && o->resume && !o->may_start_over && !job_lies_in(o->resume, o->ckpt))
        rc = ddp_resume(d, o->ckpt, errp);
    if (rc || !o->resume)
        return rc;
    /* ddp_resume would make the folder, for checkpoints to come. Rank 0 says whether it is there, as with all of it. */
    int32_t is_there = o->may_start_over || access(o->resume, F_OK) == 0 || errno != ENOENT;
    if (ddp_bcast(d, &is_there, 1, DDP_I32, 0, errp) < 0)
        return -1;
    return is_there ? ddp_resume(d, o->resume, errp) : 0;
}

/* Where training begins: at a checkpoint, with weights, or at step 0. */
static int begin(ddp_t *d, const struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    struct ddp_checkpoint_status s;
    int resumed = resume(d, o, errp);
    if (resumed < 0)
        return -1;
    if (!resumed && o->resume && !o->may_start_over)
        return error_set(errp, DDP_E_DATA, ENOENT, "--resume=%.150s: there is no checkpoint: name a folder that has "
                         "some, or one of them", o->resume);
    if (o->ckpt && ddp_checkpoint_open(d, o->ckpt, errp) < 0)
        return -1;
    if (!resumed && o->init && ddp_load(d, o->init, "transformer", errp) < 0)
        return -1;
    ddp_checkpoint_status(d, &s);
    if (resumed && ddp_world(d)->rank == 0 && !o->quiet)
        printf("resumed from %s, at step %" PRIu64 "\n", s.path, ddp_steps_done(d));
    if (resumed && ddp_steps_done(d) >= o->steps && ddp_world(d)->rank == 0)
        fprintf(stderr, "train: --steps=%" PRIu64 " are done: nothing is left to train\n", o->steps);
    return begin_log(d, j, resumed, errp);
}

/* "SIGTERM" from SIGTERM; 0: no signal. */
static const char *stopped_by(int signum)
{
    static const struct {
        int signum;
        const char *name;
    } known[] = {{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGINT, "SIGINT"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].signum == signum)
            return known[i].name;
    return "the end of its time";
}

static void warn(void *ctx, const char *text)
{
    say(ddp_world(ctx), "warning: ", text);
}

/* The hash of all parameters, which must be the same on all ranks. */
static int print_hash(ddp_t *d, const struct job *j, ddp_error_t *errp)
{
    uint64_t hash;
    if (loop_params_hash(d, &j->model, &hash, errp) < 0)
        return -1;
    int64_t mine = (int64_t)(hash >> 1), all[2] = {mine, -mine};
    ddp_work_t *work = ddp_allreduce(d, all, 2, DDP_I64, DDP_MAX, errp);
    if (!work || ddp_wait(work, errp) < 0)
        return -1;
    if (all[0] != -all[1])
        return error_set(errp, DDP_E_COMM, EIO, "parameters differ between ranks: their hash is %016" PRIx64 " here",
                         hash);
    if (ddp_world(d)->rank == 0)
        printf("params hash %016" PRIx64 "\n", hash);
    return 0;
}

/* --eval: the validation loss of the weights that --init has loaded. */
static int evaluate(ddp_t *d, const struct job *j, ddp_error_t *errp)
{
    double loss;
    if (loop_validate(d, &j->model, &loss, errp) < 0)
        return -1;
    if (ddp_world(d)->rank == 0)
        printf("val loss %.6f, of %zu windows of %zu tokens\n", loss, j->model.n_windows, j->o.model.context);
    return j->o.print_hash ? print_hash(d, j, errp) : 0;
}

/* What the run's time was worth, its restarts and requeues included, where it keeps a record. */
static int say_goodput(ddp_t *d, bool is_quiet, ddp_error_t *errp)
{
    struct ddp_checkpoint_status before = {0}, after = {0};
    const char *line;
    ddp_checkpoint_status(d, &before);
    if (ddp_goodput(d, &line, errp) < 0)
        return -1;
    ddp_checkpoint_status(d, &after);
    if (line && !is_quiet)
        puts(line);
    if (strcmp(before.warning, after.warning))
        warn(d, after.warning);
    return 0;
}

/* 0: to the end, -1: error, else stopped before: the exit code. */
static int train(ddp_t *d, struct job *j, const struct ddp_device *device, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    bool is_first = ddp_world(d)->rank == 0;
    struct loop_options lo = loop_options_of(j);
    struct live live;
    lo.out = is_first ? stdout : NULL;
    if (is_first && !o->quiet && live_open(&live, stdout)) {
        lo.live = &live;
        lo.log_every = o->has_log_every ? o->log_every : 0; /* the block shows what is between */
    }
    lo.warn = warn;
    lo.warn_ctx = d;
    if (device->is_gpu) {
        lo.flops_per_token = model_flops_per_token(&o->model);
        lo.peak_flops = j->dtype == DDP_F32 ? 0 : device->peak_flops; /* it is that of 16-bit types */
    }
    if (is_first && !o->quiet)
        start_say(d, j, device);
    struct ddp_step last = {0};
    if (account_begin(d, j, lo.peak_flops, errp) < 0)
        return -1;
    int stopped = loop_run(d, &j->model, &lo, &last, errp);
    live_hide(lo.live);
    if (stopped < 0)
        return -1;
    if (is_first && !o->quiet)
        account_say(d, j, device);
    if (stopped && is_first)
        fprintf(stderr, "train: stopped by %s%s\n", stopped_by(last.stop_signal),
                o->ckpt ? ", with a checkpoint: run the same again to go on" : "");
    if (ddp_requeue_note(d))
        fprintf(stderr, "train: %s\n", ddp_requeue_note(d));
    if ((o->print_hash && print_hash(d, j, errp) < 0) || say_goodput(d, o->quiet, errp) < 0)
        return -1;
    return !stopped ? EXIT_SUCCESS : o->ckpt ? DDP_EXIT_STOPPED : 128 + last.stop_signal;
}

static int exit_code(const ddp_error_t *e)
{
    return e->domain == DDP_E_USAGE ? EXIT_USAGE : EXIT_FAILURE;
}

static int give_up(ddp_t *d, const ddp_error_t *e)
{
    complain(ddp_world(d), e->text);
    ddp_abort(d, EXIT_FAILURE, e->text);
    return exit_code(e);
}

/* From a wired-up process to its exit code. */
static int run(ddp_t *d, struct job *j, int argc, char **argv)
{
    ddp_error_t e = {0};
    struct ddp_device device;
    int code = agree(d, job_open(j, argc, argv, ddp_world(d), &e) < 0 ? exit_code(&e) : 0, &e);
    if (code == 0)
        code = agree(d, find_device(d, &j->o, &device, &e) < 0 ? exit_code(&e) : 0, &e);
    if (code == 0)
        code = agree(d, job_open_model(j, ddp_world(d), &device, &e) < 0 ? exit_code(&e) : 0, &e);
    if (code == 0 && prepare(d, j, &e) < 0)
        return give_up(d, &e);
    if (code == 0 && j->o.eval) {
        code = agree(d, ddp_load(d, j->o.init, "transformer", &e) < 0 ? exit_code(&e) : 0, &e);
        return code < 0 || (code == 0 && evaluate(d, j, &e) < 0) ? give_up(d, &e) : code;
    }
    if (code == 0) {
        const struct options *o = &j->o;
        int rc = ddp_data_open(d, j->n_samples, o->batch, o->accum, o->shards, o->seed, &e);
        rc = rc < 0 ? rc : check_products(d, j, &e);
        code = agree(d, rc < 0 ? exit_code(&e) : 0, &e);
    }
    if (code == 0) {
        int rc = begin(d, j, &e);
        code = agree(d, rc < 0 ? exit_code(&e) : 0, &e);
    }
    if (code > 0)
        return code;
    int ended = code == 0 ? train(d, j, &device, &e) : -1;
    return ended < 0 ? give_up(d, &e) : ended;
}

int main(int argc, char **argv)
{
    if (options_want(argc, argv, "--help")) {
        options_help(stdout);
        return 0;
    }
    if (options_want(argc, argv, "--version"))
        return puts("train (slurm-ddp) " DDP_VERSION) < 0;
    ddp_error_t e = {0};
    struct job j = {0};
    setvbuf(stderr, NULL, _IOLBF, 0); /* glibc since 2.37 else writes a line in pieces, between which others' come */
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d) {
        complain(NULL, e.text);
        return exit_code(&e);
    }
    int code = run(d, &j, argc, argv);
    ddp_finalize(d);
    job_close(&j);
    if (!job_close_log(&j)) {
        fprintf(stderr, "train: --log-json: %s is not complete: is the disk full?\n", j.o.log_json);
        code = code ? code : EXIT_FAILURE;
    }
    if (code == 0 && (fflush(stdout) || ferror(stdout))) {
        complain(NULL, "the output cannot be written: is the disk full?");
        return EXIT_FAILURE;
    }
    return code;
}
