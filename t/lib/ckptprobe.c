/* ckptprobe.c - a small program that trains, writes checkpoints and goes on from them, for shell tests:
 *
 *   ckptprobe DIR [KEY=VALUE...] [--ddp-KEY=VALUE...]
 *     steps=12       end after that step
 *     shards=0       logical shards (ddp_data_open)
 *     resume=DIR     where to go on from (DIR); none: do not
 *     open=off       DIR is opened before the first step
 *     load=PATH      values from there, first; "NULL": that call with none
 *     stop=0         SIGTERM to the last rank before that step
 *     kill=0         SIGKILL to all of this rank, 0, after that step
 *     wait=off       ddp_checkpoint_wait after each checkpoint
 *     last=off       a checkpoint at the end
 *     best=off       before it, one in DIR.best
 *     pause=0        $PROBE_PAUSE, a command, after that step
 *     join=0         all ranks but 0 have no more data after that step
 *     settle=off     leave the last checkpoint to ddp_finalize
 *     leave=0        all ranks but 0 leave without a word within the step after that
 *     abort=off      ddp_abort while rank 0 commits
 *     calls=off      instead: calls that are refused; prints "ok"
 *     memory=0       the last rank gets no memory for just so many bytes at once, from ddp_commit on
 *     sgd=off  small=off (another model)  extra=off (one more parameter)
 *     samples=1000
 *
 * With PROBE_SLOW_COPY in the environment copying takes long against a step.
 *
 * Rank 0 prints "resumed STEP", each "step N LOSS", "params HASH", "status COMMITTED FAILED LAST", "postponed N",
 * "warning TEXT" when it changes; every rank on an error "rank R: TEXT". Exit code 75 where it stopped. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/hash.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ddp.h"

static const char *const defaults[][2] = {
    {"steps", "12"}, {"shards", "0"},   {"resume", ""}, {"load", ""},    {"stop", "0"},   {"kill", "0"},
    {"wait", "off"}, {"last", "off"},   {"pause", "0"},  {"sgd", "off"},  {"small", "off"}, {"extra", "off"},
    {"samples", "1000"}, {"join", "0"}, {"settle", "off"}, {"best", "off"}, {"calls", "off"}, {"leave", "0"},
    {"open", "off"}, {"memory", "0"},   {"abort", "off"},
};
enum { N_KEYS = sizeof defaults / sizeof *defaults };
static const char *values[N_KEYS];
static int n_params;
static ddp_error_t e;

/* The linker brings the writer's calls here. */
uint64_t __real_checksum_copy(void *to, const void *from, size_t n, uint64_t first);
uint64_t __wrap_checksum_copy(void *to, const void *from, size_t n, uint64_t first);
uint64_t __wrap_checksum_copy(void *to, const void *from, size_t n, uint64_t first)
{
    if (getenv("PROBE_SLOW_COPY"))
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return __real_checksum_copy(to, from, n, first);
}

/* And the committer's, which with abort=on goes on when the job has ended, and it has had time to free all. */
static atomic_bool is_committing, has_aborted;
int __real_manifest_make(struct manifest *ret, const struct files *f, const uint64_t *checksum,
                         const struct manifest_state *state, ddp_error_t *errp);
int __wrap_manifest_make(struct manifest *ret, const struct files *f, const uint64_t *checksum,
                         const struct manifest_state *state, ddp_error_t *errp);
static bool is_on(const char *key);
int __wrap_manifest_make(struct manifest *ret, const struct files *f, const uint64_t *checksum,
                         const struct manifest_state *state, ddp_error_t *errp)
{
    const struct timespec while_ = {.tv_nsec = 200000000}, moment = {.tv_nsec = 1000000};
    atomic_store(&is_committing, true);
    while (is_on("abort") && !atomic_load(&has_aborted))
        nanosleep(&moment, NULL);
    if (is_on("abort"))
        nanosleep(&while_, NULL);
    return __real_manifest_make(ret, f, checksum, state, errp);
}

/* And libddp's calls for memory. */
static size_t missing;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    return missing && n == missing ? NULL : __real_malloc(n);
}
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return missing && strlen(text) + 1 == missing ? NULL : __real_strdup(text);
}

static const char *text(const char *key)
{
    for (int i = 0; i < N_KEYS; i++)
        if (!strcmp(defaults[i][0], key))
            return values[i] ? values[i] : defaults[i][1];
    abort();
}

static uint64_t number(const char *key)
{
    return strtoull(text(key), NULL, 10);
}

static bool is_on(const char *key)
{
    return !strcmp(text(key), "on");
}

static int parse(int argc, char **argv)
{
    for (int a = 2; a < argc; a++) {
        char *eq = strchr(argv[a], '=');
        int i = 0;
        while (eq && i < N_KEYS && (strlen(defaults[i][0]) != (size_t)(eq - argv[a]) ||
                                    strncmp(defaults[i][0], argv[a], (size_t)(eq - argv[a])) != 0))
            i++;
        if (!eq || i == N_KEYS)
            return fprintf(stderr, "ckptprobe: what is %s?\n", argv[a]), -1;
        values[i] = eq + 1;
    }
    return argc < 2 ? fprintf(stderr, "ckptprobe: DIR is missing\n"), -1 : 0;
}

/* Small and large, with ends within pages and blocks. */
static int declare(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = 1e-2f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .weight_decay = .1f, .clip = 1};
    opt.rule = is_on("sgd") ? "sgd" : NULL;
    ddp_param_add(d, "big", DDP_F32, (size_t[]){is_on("small") ? 100 : 300, 1100}, 2, 0);
    ddp_param_add(d, "bias", DDP_F32, (size_t[]){7}, 1, 0);
    ddp_param_add(d, "block", DDP_F32, (size_t[]){4096}, 1, 0);
    ddp_param_add(d, "odd", DDP_F32, (size_t[]){3, 5, 331}, 3, DDP_NO_DECAY);
    n_params = 4;
    if (is_on("extra"))
        n_params = ddp_param_add(d, "extra", DDP_F32, (size_t[]){2}, 1, 0) + 1;
    missing = ddp_world(d)->rank == ddp_world(d)->size - 1 ? number("memory") : 0;
    if (ddp_commit(d, &opt, &e) || ddp_checkpoint_attach(d, "config.json", "{\"model_type\": \"probe\"}\n", &e) ||
        ddp_checkpoint_note(d, "products", "none", &e))
        return -1;
    for (int p = 0; p < n_params; p++)
        for (size_t i = 0; i < ddp_param_get(d, p).n_elems; i++)
            ((float *)ddp_param_get(d, p).value)[i] = (float)((i * 37 + (size_t)p) % 101) / 100 - .5f;
    return 0;
}

/* One sample's gradient, in a way that depends on the sample and the values. */
static double add_gradient(ddp_t *d, uint64_t sample)
{
    double loss = 0;
    for (int p = 0; p < n_params; p++) {
        struct ddp_param t = ddp_param_get(d, p);
        float *g = t.grad;
        const float *v = t.value;
        for (size_t i = 0; i < t.n_elems; i++) {
            float r = v[i] - (float)((sample * 31 + i * 7) % 13 - 6.0);
            g[i] += r;
            loss += (double)(r * r);
        }
    }
    return loss;
}

static int step(ddp_t *d, struct ddp_step *s)
{
    struct ddp_batch b;
    do {
        double loss = 0;
        if (ddp_batch_next(d, &b, &e))
            return -1;
        for (size_t i = 0; i < b.n_samples; i++)
            loss += add_gradient(d, b.sample[i]);
        for (int p = n_params - 1; p >= 0; p--)
            ddp_grad_ready(d, p);
        if (ddp_backward_end(d, loss, b.n_samples, &e))
            return -1;
    } while (!b.sync);
    return ddp_step(d, s, &e);
}

/* As a program does whose loader fails. */
static int leave(ddp_t *d)
{
    struct ddp_batch b;
    if (ddp_batch_next(d, &b, &e))
        return -1;
    ddp_grad_ready(d, n_params - 1);
    ddp_finalize(d);
    exit(1);
}

static bool is_in_flight(ddp_t *d)
{
    struct ddp_checkpoint_status c;
    return ddp_checkpoint_status(d, &c) == 0 && c.in_flight;
}

/* One that has changed. */
static void print_warning(ddp_t *d)
{
    static char last[sizeof((struct ddp_checkpoint_status *)0)->warning];
    struct ddp_checkpoint_status c;
    ddp_checkpoint_status(d, &c);
    if (strcmp(c.warning, last) != 0)
        printf("warning %s\n", c.warning);
    strcpy(last, c.warning);
}

static int save_best(ddp_t *d, const char *dir)
{
    char best[200];
    snprintf(best, sizeof best, "%s.best", dir);
    return is_on("best") ? ddp_checkpoint(d, best, &e) : 0;
}

static int train(ddp_t *d, const char *dir)
{
    const struct ddp_world *w = ddp_world(d);
    struct ddp_step s = {.step = ddp_steps_done(d)};
    uint64_t end = w->rank && number("join") ? number("join") : number("steps");
    while (s.step < end && !s.stop) {
        if (number("leave") && s.step == number("leave") && w->rank)
            return leave(d);
        if (is_on("abort") && atomic_load(&is_committing)) {
            ddp_abort(d, 1, "that is asked for");
            atomic_store(&has_aborted, true);
            return error_set(&e, DDP_E_USAGE, EINVAL, "aborted");
        }
        if (s.step + 1 == number("stop") && w->rank == w->size - 1)
            raise(SIGTERM);
        if (step(d, &s))
            return -1;
        if (w->rank == 0) {
            printf("step %d %a\n", (int)s.step, s.loss);
            fflush(stdout);
        }
        if (s.step == number("steps") && save_best(d, dir))
            return -1;
        if ((s.checkpoint || s.stop || (is_on("last") && s.step == number("steps"))) && ddp_checkpoint(d, dir, &e))
            return -1;
        if (s.stop && is_in_flight(d))
            return puts("the stop's checkpoint is in flight still"), -1;
        if (is_on("wait") && ddp_checkpoint_wait(d, &e))
            return -1;
        print_warning(d);
        if (s.step == number("pause") && w->rank == 0 && system(getenv("PROBE_PAUSE")) != 0)
            return fprintf(stderr, "PROBE_PAUSE failed\n"), -1;
        if (s.step == number("kill") && w->rank == 0)
            raise(SIGKILL);
    }
    if (number("join") && ddp_join(d, &e))
        return -1;
    return !is_on("settle") && ddp_checkpoint_wait(d, &e) ? -1 : s.stop;
}

static void report(ddp_t *d)
{
    struct ddp_checkpoint_status c;
    uint64_t hash = HASH_START;
    for (int p = 0; p < n_params; p++) {
        struct ddp_param t = ddp_param_get(d, p);
        for (size_t i = 0; i < t.n_elems; i++) {
            uint32_t word;
            memcpy(&word, (float *)t.value + i, sizeof word);
            hash = hash_step(hash, word);
        }
    }
    ddp_checkpoint_status(d, &c);
    if (ddp_world(d)->rank == 0)
        printf("params %016llx\nstatus %d %d %d\npostponed %d\n", (unsigned long long)hash, (int)c.n_committed,
               (int)c.n_failed, (int)c.last_step, (int)c.n_postponed);
    print_warning(d);
}

/* 0 where a call that failed did so for that reason. */
static int refused(int rc, const char *why)
{
    if (rc == -1 && strstr(e.text, why))
        return 0;
    printf("%d: \"%s\" lacks \"%s\"\n", rc, e.text, why);
    return -1;
}

static int calls(ddp_t *d, const char *dir)
{
    struct ddp_batch b;
    struct ddp_step s;
    const float *value = ddp_param_get(d, 0).grad;
    if (refused(ddp_checkpoint_note(d, "colour", "red", &e), "there are products=TEXT, data=TEXT and threads=N") ||
        refused(ddp_checkpoint_note(d, "threads", "many", &e), "threads=many") ||
        refused(ddp_checkpoint_note(d, "products", "a\nb", &e), "one line") || ddp_checkpoint_wait(d, &e) ||
        refused(ddp_resume(d, "", &e), "is no folder's name") || ddp_batch_next(d, &b, &e) ||
        refused(ddp_checkpoint(d, dir, &e), "a micro-step is open") ||
        refused(ddp_checkpoint_open(d, dir, &e), "a micro-step is open") ||
        refused(ddp_checkpoint_wait(d, &e), "a micro-step is open"))
        return -1;
    for (int p = n_params - 1; p >= 0; p--)
        ddp_grad_ready(d, p);
    if (ddp_backward_end(d, 1, 1, &e) || refused(ddp_checkpoint(d, dir, &e), "call ddp_step first") ||
        ddp_step(d, &s, &e) || refused(ddp_resume(d, dir, &e), "before the first step") ||
        ddp_param_write(d, 0, value, &e) || ddp_checkpoint(d, dir, &e) ||
        refused(ddp_param_write(d, 0, value, &e), "call ddp_checkpoint_wait first") ||
        refused(ddp_checkpoint_open(d, "x", &e), "in flight: call ddp_checkpoint_wait") ||
        refused(ddp_checkpoint_attach(d, "a", "b", &e), "before ddp_resume"))
        return -1;
    if (ddp_world(d)->size > 1 &&
        (ddp_checkpoint_wait(d, &e) || ddp_param_write(d, 0, value, &e) ||
         refused(ddp_checkpoint(d, ddp_world(d)->rank ? "/tmp/a" : "/tmp/b", &e), "name the same folder")))
        return -1;
    return puts("ok"), 0;
}

int main(int argc, char **argv)
{
    ddp_t *d = ddp_init(&argc, &argv, &e);
    int rc = -1, resumed = 0;
    if (!d || parse(argc, argv) < 0)
        return fprintf(stderr, "%s\n", e.text), 1;
    const char *dir = argv[1], *from = *text("resume") ? text("resume") : dir;
    const char *load = strcmp(text("load"), "NULL") ? text("load") : NULL;
    if (declare(d) == 0 && ((load && !*load) || ddp_load(d, load, "old", &e) == 0) &&
        ddp_data_open(d, number("samples"), 2, 1, (int)number("shards"), 42, &e) == 0)
        resumed = strcmp(from, "none") != 0 ? ddp_resume(d, from, &e) : 0;
    if (!e.code && resumed >= 0 && is_on("open") && ddp_checkpoint_open(d, dir, &e) < 0)
        resumed = -1;
    if (resumed > 0 && ddp_world(d)->rank == 0)
        printf("resumed %d\n", (int)ddp_steps_done(d));
    if (!e.code && resumed >= 0)
        rc = is_on("calls") ? calls(d, dir) : train(d, dir);
    if (rc < 0)
        fprintf(stderr, "rank %d: %s\n", ddp_world(d)->rank, e.text);
    else if (!is_on("calls"))
        report(d);
    if (rc < 0)
        ddp_barrier(d, NULL); /* so that none hears of another's end before its own error */
    if (rc < 0)
        ddp_abort(d, 1, e.text);
    ddp_finalize(d);
    return rc < 0 ? 1 : rc > 0 ? DDP_EXIT_STOPPED : 0;
}
