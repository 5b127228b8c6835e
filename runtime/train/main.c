/* train - the reference trainer: options, data and model put together, and the loop (runtime/loop.h) run over them. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/matmul.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/ddp.h"
#include "runtime/loop.h"
#include "runtime/train/lm.h"
#include "runtime/train/options.h"
#include "runtime/train/tokens.h"

enum { EXIT_USAGE = 2 };

struct job {
    struct options o;
    tokens_t *data, *val;
    struct lm_part train_part, val_part;
    struct loop_model model;
    uint64_t n_samples;
    FILE *json;
};

static void job_close(struct job *j)
{
    if (j->model.destroy)
        j->model.destroy(j->model.self);
    tokens_close(j->data);
    tokens_close(j->val);
}

/* Did every line of --log-json reach the file? */
static bool json_close(struct job *j)
{
    FILE *f = j->json;
    j->json = NULL;
    if (!f)
        return true;
    bool failed = ferror(f);
    return fclose(f) == 0 && !failed;
}

static int open_data(struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    j->data = tokens_open(o->data.path, o->data.n, errp);
    if (!j->data)
        return -1;
    if (!o->val.n)
        return lm_split(j->data, o->model.context, &j->train_part, &j->val_part, errp);
    j->val = tokens_open(o->val.path, o->val.n, errp);
    if (!j->val)
        return -1;
    j->train_part = (struct lm_part){j->data, 0, tokens_count(j->data)};
    j->val_part = (struct lm_part){j->val, 0, tokens_count(j->val)};
    bool short_train = !lm_windows(&j->train_part, o->model.context);
    if (short_train || !lm_windows(&j->val_part, o->model.context))
        return error_set(errp, DDP_E_DATA, 0, "%s: %" PRIu64 " tokens are less than one window of %zu: give more data"
                         " or a smaller --context", short_train ? "--data" : "--val",
                         short_train ? j->train_part.count : j->val_part.count, o->model.context + 1);
    return 0;
}

/* Ranks, or the shards that take their place: how many samples of a step, and which rates, depends on these. */
static int n_replicas(const struct options *o, const struct ddp_world *w)
{
    return o->shards ? o->shards : w->size;
}

static int check_batch(const struct job *j, int n, ddp_error_t *errp)
{
    double wanted = (double)j->o.batch * j->o.accum * n;
    if (wanted <= (double)j->n_samples)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "--batch=%zu x --accum=%d x %d %s is %.0f samples a step, but the"
                     " data has only %" PRIu64 " of %zu tokens: take a smaller --batch or more --data", j->o.batch,
                     j->o.accum, n, j->o.shards ? "shards" : "ranks", wanted, j->n_samples, j->o.model.context);
}

static uint64_t warmup_steps(const struct job *j, int n)
{
    uint64_t per_replica = (j->n_samples + (uint64_t)n - 1) / (uint64_t)n;
    uint64_t per_step = j->o.batch * (uint64_t)j->o.accum;
    return options_warmup_steps(&j->o, (per_replica + per_step - 1) / per_step);
}

static int check_warmup(const struct job *j, int n, ddp_error_t *errp)
{
    uint64_t warmup = warmup_steps(j, n);
    if (warmup <= j->o.steps)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "--warmup is %" PRIu64 " steps, more than --steps=%" PRIu64
                     ": take a shorter one", warmup, j->o.steps);
}

static int open_json(struct job *j, ddp_error_t *errp)
{
    if (!j->o.log_json)
        return 0;
    j->json = fopen(j->o.log_json, "we");
    return j->json ? 0 : error_errno(errp, "--log-json: %s cannot be written", j->o.log_json);
}

/* All that can go wrong on one rank alone, before ranks depend on each other. */
static int job_open(struct job *j, int argc, char **argv, const struct ddp_world *w, ddp_error_t *errp)
{
    if (options_parse(argc, argv, &j->o, errp) < 0 || open_data(j, errp) < 0)
        return -1;
    j->n_samples = lm_windows(&j->train_part, j->o.model.context);
    int n = n_replicas(&j->o, w);
    if (check_batch(j, n, errp) < 0 || check_warmup(j, n, errp) < 0 ||
        (w->rank == 0 && open_json(j, errp) < 0))
        return -1;
    return lm_create(&j->model, &j->o.model, j->o.batch, &j->train_part, &j->val_part, j->o.val_windows, errp);
}

static void complain(const struct ddp_world *w, const char *text)
{
    if (w && w->size > 1)
        fprintf(stderr, "train: rank %d: %s\n", w->rank, text);
    else
        fprintf(stderr, "train: %s\n", text);
}

/* Do all ranks go on? Each gives the exit code with which it cannot, or 0; it gets the greatest, or -1 as errp says.
 * When all failed in the same words, only rank 0 says them; a rank that failed in its own way names itself. */
static int agree(ddp_t *d, int code, const char *text, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(d);
    int64_t hash = code ? (int64_t)(hash_text(text) >> 1) : 0, all[3] = {code, hash, -hash};
    ddp_work_t *work = ddp_allreduce(d, all, 3, DDP_I64, DDP_MAX, errp);
    if (!work || ddp_wait(work, errp) < 0)
        return -1;
    if (!all[0])
        return 0;
    bool same = all[1] == -all[2];
    if (code && same && w->rank == 0)
        fprintf(stderr, "train: %s\n", text);
    else if (code && !same)
        complain(w, text);
    if (ddp_barrier(d, errp) < 0) /* nobody leaves before it is said: a launcher may end the others */
        return -1;
    return (int)all[0];
}

static bool is_own(const char *products)
{
    return strncmp(products, "own ", 4) == 0;
}

/* With shards every rank must get the same bits. Our own products do, on any processor; a BLAS's may depend on it. */
static int check_products(ddp_t *d, const struct options *o, ddp_error_t *errp)
{
    char first[64];
    const char *mine = kernel_matmul_name();
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

static int prepare(ddp_t *d, struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    int n = n_replicas(o, ddp_world(d));
    double scale = o->scale_lr ? n : 1;
    struct ddp_adamw opt = {
        .lr = (float)(o->lr * scale),
        .min_lr = (float)(o->min_lr * scale),
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .eps = (float)o->eps,
        .weight_decay = (float)o->weight_decay,
        .clip = (float)o->clip,
        .warmup = warmup_steps(j, n),
        .total = o->steps,
        .sgd = o->sgd,
    };
    return loop_prepare(d, &j->model, &opt, o->seed, errp);
}

static double mib(size_t bytes)
{
    return (double)bytes / 1048576;
}

static void say_start(const ddp_t *d, const struct job *j)
{
    const struct ddp_world *w = ddp_world(d);
    struct ddp_memory m = ddp_memory(d);
    size_t n = 0;
    for (size_t i = 0; i < j->model.n_params; i++)
        n += ddp_param_get(d, (int)i).n_elems;
    printf("%d ranks on %d nodes, %zu parameters, %" PRIu64 " samples of %zu tokens, %zu validation windows, %s\n",
           w->size, w->n_nodes, n, j->n_samples, j->o.model.context, j->model.n_windows, kernel_matmul_name());
    if (j->o.shards)
        printf("%d shards, %d a rank: %zu bytes (%.1f MiB) of partial sums beside %zu of gradients\n", j->o.shards,
               j->o.shards / w->size, m.partials, mib(m.partials), m.grads);
    if (m.moments < m.moments_all)
        printf("optimizer state: %zu bytes (%.1f MiB) on rank 0 of %zu (%.1f MiB) on all\n", m.moments, mib(m.moments),
               m.moments_all, mib(m.moments_all));
    if (j->o.model.recompute) {
        struct model_config keep = j->o.model;
        keep.recompute = false;
        size_t with = model_activation_bytes(&j->o.model, j->o.batch), all = model_activation_bytes(&keep, j->o.batch);
        printf("activations: %zu bytes (%.1f MiB) a rank, instead of %zu (%.1f MiB) without --recompute\n", with,
               mib(with), all, mib(all));
    }
    fflush(stdout);
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

/* 0: to the end, -1: error, else stopped before: the exit code. */
static int train(ddp_t *d, struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    bool is_first = ddp_world(d)->rank == 0;
    struct loop_options lo = {
        .steps = o->steps, .log_every = o->log_every, .val_every = o->val_every, .json = j->json,
        .out = is_first ? stdout : NULL,
    };
    if (is_first)
        say_start(d, j);
    struct ddp_step last = {0};
    int stopped = loop_run(d, &j->model, &lo, &last, errp);
    if (stopped < 0)
        return -1;
    if (stopped && is_first)
        fprintf(stderr, "train: stopped by %s\n", stopped_by(last.stop_signal));
    if (o->print_hash && is_first)
        printf("params hash %016" PRIx64 "\n", loop_params_hash(d, &j->model));
    return stopped ? 128 + last.stop_signal : 0;
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
    int code = agree(d, job_open(j, argc, argv, ddp_world(d), &e) < 0 ? exit_code(&e) : 0, e.text, &e);
    if (code == 0 && prepare(d, j, &e) < 0)
        return give_up(d, &e);
    if (code == 0) {
        const struct options *o = &j->o;
        int rc = ddp_data_open(d, j->n_samples, o->batch, o->accum, o->shards, o->seed, &e);
        rc = rc < 0 ? rc : check_products(d, o, &e);
        code = agree(d, rc < 0 ? exit_code(&e) : 0, e.text, &e);
    }
    if (code > 0)
        return code;
    int stopped = code == 0 ? train(d, j, &e) : -1;
    if (stopped < 0)
        return give_up(d, &e);
    return stopped;
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
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d) {
        complain(NULL, e.text);
        return exit_code(&e);
    }
    int code = run(d, &j, argc, argv);
    job_close(&j);
    ddp_finalize(d);
    if (!json_close(&j)) {
        fprintf(stderr, "train: --log-json: %s is not complete: is the disk full?\n", j.o.log_json);
        code = code ? code : EXIT_FAILURE;
    }
    if (code == 0 && (fflush(stdout) || ferror(stdout))) {
        complain(NULL, "the output cannot be written: is the disk full?");
        return EXIT_FAILURE;
    }
    return code;
}
