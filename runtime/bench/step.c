/* step.c - `ddp bench step`: how long a training step takes, and what of it is matrix products.
 *
 * With --lockstep NAME each rank reads commands, one a line, from the file NAME.RANK (a FIFO), and sleeps in between,
 * so that two programs can be timed in turn, both alive: "steps N", "products N", "comm N", "dump FILE". Rank 0 prints
 * one JSON object per command. The files' end is the program's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/model/cpu/pool.h"
#include "kernels/model/matmul.h"
#include "runtime/base/error.h"
#include "runtime/base/num.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/train.h"

enum {
    MODEL, LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, BATCH, ACCUM, STEPS, WARMUP, WEIGHT_DECAY, CLIP, LOAD, DUMP,
    LOCKSTEP, JSON, N_KNOBS
};

static const struct preset {
    struct model_config model;
    size_t batch;
} presets[] = {
    {{4, 128, 4, 64, 256, false}, 8},
    {{6, 256, 8, 128, 256, false}, 4},
    {{12, 768, 12, 256, 256, false}, 1},
};

static const struct knob knobs[N_KNOBS] = {
    [MODEL] = {.name = "--model", .type = KNOB_ENUM, .def = "tiny", .choices = "tiny|small|12x768",
               .help = "preset of the sizes"},
    [LAYERS] = {.name = "--layers", .type = KNOB_INT, .min = 1, .max = 10000, .help = "blocks (preset)"},
    [WIDTH] = {.name = "--width", .type = KNOB_INT, .min = 1, .max = 1 << 20,
               .help = "width of the residual stream (preset)"},
    [HEADS] = {.name = "--heads", .type = KNOB_INT, .min = 1, .max = 1 << 20, .help = "attention heads (preset)"},
    [CONTEXT] = {.name = "--context", .type = KNOB_INT, .min = 1, .max = 1 << 20,
                 .help = "tokens a sample has (preset)"},
    [VOCAB] = {.name = "--vocab", .type = KNOB_INT, .min = 2, .max = 1 << 20, .help = "vocabulary (preset)"},
    [BATCH] = {.name = "--batch", .type = KNOB_INT, .min = 1, .max = 4096,
               .help = "samples per rank and micro-step (preset)"},
    [ACCUM] = {.name = "--accum", .type = KNOB_INT, .def = "1", .min = 1, .max = 64,
               .help = "micro-steps per step; from 3 on, one of them is timed without summing over ranks"},
    [STEPS] = {.name = "--steps", .type = KNOB_INT, .def = "30", .min = 1, .max = 1000000, .help = "timed steps"},
    [WARMUP] = {.name = "--warmup", .type = KNOB_INT, .def = "6", .max = 1000000, .help = "steps before them"},
    [WEIGHT_DECAY] = {.name = "--weight-decay", .type = KNOB_DOUBLE, .def = "0.1", .max = 1000,
                      .help = "on matrices only"},
    [CLIP] = {.name = "--clip", .type = KNOB_DOUBLE, .def = "1", .max = 1e15,
              .help = "greatest L2 norm of the gradient; 0: any"},
    [LOAD] = {.name = "--load", .type = KNOB_STRING, .help = "file of weights to start from"},
    [DUMP] = {.name = "--dump", .type = KNOB_STRING, .help = "file to write the first weights to (float32, in order)"},
    [LOCKSTEP] = {.name = "--lockstep", .type = KNOB_STRING, .help = "read commands from the files TEXT.RANK"},
    [JSON] = {.name = "--json", .type = KNOB_BOOL, .def = "off", .help = "print JSON, with every digit"},
};

static const char *const time_names[TRAIN_N_TIMES] = {"step_s", "quiet_s", "sync_s", "backward_s", "wait_s"};
enum { T_STEP, T_QUIET, T_SYNC };

struct bench {
    ddp_t *d;
    struct knob_value v[N_KNOBS];
    struct train_config c;
    train_t *train;
};

/* A block of steps, each time and loss in an array of its own [n]; times are the slowest rank's. */
struct block {
    size_t n;
    double *time[TRAIN_N_TIMES], *loss;
};

static void block_free(struct block *k)
{
    for (size_t j = 0; j < TRAIN_N_TIMES; j++)
        free(k->time[j]);
    free(k->loss);
}

static int block_create(struct block *k, size_t n, ddp_error_t *errp)
{
    *k = (struct block){.n = n};
    bool is_full = (k->loss = bench_private(n * sizeof(double), errp));
    for (size_t j = 0; j < TRAIN_N_TIMES; j++)
        is_full = (k->time[j] = bench_private(n * sizeof(double), errp)) && is_full;
    if (is_full)
        return 0;
    block_free(k);
    return -1;
}

static int slowest(struct bench *b, double *x, size_t n, ddp_error_t *errp)
{
    ddp_work_t *w = ddp_allreduce(b->d, x, n, DDP_F64, DDP_MAX, errp);
    return w ? ddp_wait(w, errp) : -1;
}

static int run_steps(struct bench *b, struct block *k, ddp_error_t *errp)
{
    for (size_t i = 0; i < k->n; i++) {
        struct train_times t;
        double all[TRAIN_N_TIMES];
        if (train_step(b->train, &t, &k->loss[i], errp) < 0)
            return -1;
        memcpy(all, &t, sizeof all);
        for (size_t j = 0; j < TRAIN_N_TIMES; j++)
            k->time[j][i] = all[j];
    }
    for (size_t j = 0; j < TRAIN_N_TIMES; j++)
        if (slowest(b, k->time[j], k->n, errp) < 0)
            return -1;
    return 0;
}

typedef int measure_f(train_t *t, double *ret_s, ddp_error_t *errp);

/* x[0..n): n times what `measure` says, the slowest rank's. */
static int run_measure(struct bench *b, measure_f *measure, double *x, size_t n, ddp_error_t *errp)
{
    for (size_t i = 0; i < n; i++)
        if (measure(b->train, &x[i], errp) < 0)
            return -1;
    return slowest(b, x, n, errp);
}

static bool prints(const struct bench *b)
{
    return ddp_world(b->d)->rank == 0;
}

static void json_array(const char *name, const double *x, size_t n)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.9g", i ? ", " : "", x[i]);
    printf("]");
}

static void json_block(const struct block *k)
{
    for (size_t j = 0; j < TRAIN_N_TIMES; j++) {
        json_array(time_names[j], k->time[j], k->n);
        printf(", ");
    }
    json_array("loss", k->loss, k->n);
}

static void json_setting(const struct bench *b)
{
    const struct ddp_world *w = ddp_world(b->d);
    const struct model_config *m = &b->c.model;
    printf("\"ranks\": %d, \"nodes\": %d, \"threads\": %d, \"products\": \"%s\", \"layers\": %zu, \"width\": %zu, "
           "\"heads\": %zu, \"context\": %zu, \"vocab\": %zu, \"batch\": %zu, \"accum\": %d, \"parameters\": %zu",
           w->size, w->n_nodes, pool_threads(), kernel_matmul_name(), m->layers, m->width, m->heads, m->context,
           m->vocab, b->c.batch, b->c.accum, train_n_elems(b->train));
}

/* ---- lockstep ---- */

static int command_steps(struct bench *b, size_t n, ddp_error_t *errp)
{
    struct block k;
    if (block_create(&k, n, errp) < 0)
        return -1;
    int rc = run_steps(b, &k, errp);
    if (rc == 0 && prints(b)) {
        printf("{");
        json_block(&k);
        printf("}\n");
    }
    block_free(&k);
    return rc;
}

static int command_measure(struct bench *b, const char *name, measure_f *measure, size_t n, ddp_error_t *errp)
{
    double *x = bench_private(n * sizeof *x, errp);
    int rc = x ? run_measure(b, measure, x, n, errp) : -1;
    if (rc == 0 && prints(b)) {
        printf("{");
        json_array(name, x, n);
        printf("}\n");
    }
    free(x);
    return rc;
}

static int command_dump(struct bench *b, const char *path, ddp_error_t *errp)
{
    if (!prints(b))
        return 0;
    if (train_dump(b->train, path, errp) < 0)
        return -1;
    printf("{}\n");
    return 0;
}

static int obey(struct bench *b, const char *verb, const char *argument, ddp_error_t *errp)
{
    int n = 0;
    if (!strcmp(verb, "dump"))
        return command_dump(b, argument, errp);
    if (num_int(argument, 1, 1000000, &n) == 0 && !strcmp(verb, "steps"))
        return command_steps(b, (size_t)n, errp);
    if (n && !strcmp(verb, "products"))
        return command_measure(b, "products_s", train_products, (size_t)n, errp);
    if (n && !strcmp(verb, "comm"))
        return command_measure(b, "comm_s", train_comm, (size_t)n, errp);
    return error_set(errp, DDP_E_DATA, EINVAL, "--lockstep: \"%.32s %.64s\" is no command: there are steps N, products "
                     "N, comm N, dump FILE", verb, argument);
}

static int lockstep(struct bench *b, ddp_error_t *errp)
{
    char path[512], line[512];
    snprintf(path, sizeof path, "%s.%d", b->v[LOCKSTEP].text, ddp_world(b->d)->rank);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_errno(errp, "--lockstep: %s cannot be read", path);
    int rc = 0;
    if (prints(b)) {
        printf("{");
        json_setting(b);
        printf("}\n");
        fflush(stdout);
    }
    while (rc == 0 && fgets(line, sizeof line, f)) {
        char *argument = line, *verb = strsep(&argument, " \n");
        argument = argument ? argument : line + sizeof line - 1;
        argument[strcspn(argument, "\n")] = 0;
        rc = obey(b, verb, argument, errp);
        fflush(stdout);
    }
    fclose(f);
    return rc;
}

/* ---- by itself ---- */

static void print_line(const char *name, struct stats s)
{
    printf("%-26s %9.3f  %9.3f .. %.3f\n", name, s.median * 1e3, s.q1 * 1e3, s.q3 * 1e3);
}

static void print_table(const struct bench *b, const struct block *k, const double *loss, struct stats products)
{
    const struct ddp_world *w = ddp_world(b->d);
    const struct model_config *m = &b->c.model;
    struct stats step = stats_of(k->time[T_STEP], k->n);
    printf("# %d ranks on %d nodes, %d threads each, %s\n"
           "# %zu layers, width %zu, %zu heads, context %zu, vocabulary %zu: %zu parameters; %zu samples x %d per "
           "rank\n# %zu steps after %lld, the slowest rank's; milliseconds\n",
           w->size, w->n_nodes, pool_threads(), kernel_matmul_name(), m->layers, m->width, m->heads, m->context,
           m->vocab, train_n_elems(b->train), b->c.batch, b->c.accum, k->n, (long long)b->v[WARMUP].i);
    printf("%-26s %9s  %9s\n", "#", "median", "quartiles");
    print_line("step", step);
    if (b->c.accum > 2)
        print_line("a micro-step, not summed", stats_of(k->time[T_QUIET], k->n));
    if (b->c.accum > 2)
        print_line("a micro-step, summed", stats_of(k->time[T_SYNC], k->n));
    print_line("its matrix products alone", products);
    printf("# %.0f tokens/s; loss %.6f at step 0", (double)m->context * (double)b->c.batch * b->c.accum * w->size /
           step.median, loss[0]);
    if (b->v[WARMUP].i + (int64_t)k->n > 5)
        printf(", %.6f at step 5", loss[5]);
    printf("\n");
}

static void print_json(const struct bench *b, const struct block *k, const double *loss, const double *products,
                       size_t n)
{
    printf("{\"bench\": \"step\", ");
    json_setting(b);
    printf(", ");
    json_block(k);
    printf(", ");
    json_array("products_s", products, n);
    printf(", \"loss_at_0\": %.9g", loss[0]);
    if (b->v[WARMUP].i + (int64_t)k->n > 5)
        printf(", \"loss_at_5\": %.9g", loss[5]);
    printf("}\n");
}

#define N_PRODUCTS 5

static int measure(struct bench *b, struct block *warmup, struct block *k, ddp_error_t *errp)
{
    double loss[6] = {0}, products[N_PRODUCTS];
    if (run_steps(b, warmup, errp) < 0 || run_steps(b, k, errp) < 0 ||
        run_measure(b, train_products, products, N_PRODUCTS, errp) < 0)
        return -1;
    for (size_t i = 0; i < 6 && i < warmup->n + k->n; i++)
        loss[i] = i < warmup->n ? warmup->loss[i] : k->loss[i - warmup->n];
    if (prints(b) && b->v[JSON].b)
        print_json(b, k, loss, products, N_PRODUCTS);
    else if (prints(b))
        print_table(b, k, loss, stats_of(products, N_PRODUCTS));
    return 0;
}

static int alone(struct bench *b, ddp_error_t *errp)
{
    struct block warmup = {0}, k = {0};
    int rc = -1;
    if (block_create(&warmup, (size_t)b->v[WARMUP].i, errp) == 0 && block_create(&k, (size_t)b->v[STEPS].i, errp) == 0)
        rc = measure(b, &warmup, &k, errp);
    block_free(&warmup);
    block_free(&k);
    return rc;
}

/* ---- options ---- */

static void use(const struct knob_value *v, size_t *ret)
{
    if (v->is_set)
        *ret = (size_t)v->i;
}

static int parse(struct bench *b, int argc, char **argv, ddp_error_t *errp)
{
    const struct knob_value *v = b->v;
    if (knob_argv(knobs, N_KNOBS, "\"ddp bench step --help\"", argc, argv, b->v, NULL, errp) < 0)
        return -1;
    b->c = (struct train_config){
        .model = presets[v[MODEL].choice].model,
        .batch = presets[v[MODEL].choice].batch,
        .accum = (int)v[ACCUM].i,
        .optimizer = {.lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f,
                      .weight_decay = (float)v[WEIGHT_DECAY].d, .clip = (float)v[CLIP].d},
        .load = v[LOAD].is_set ? v[LOAD].text : NULL,
    };
    struct model_config *m = &b->c.model;
    use(&v[LAYERS], &m->layers);
    use(&v[WIDTH], &m->width);
    use(&v[HEADS], &m->heads);
    use(&v[CONTEXT], &m->context);
    use(&v[VOCAB], &m->vocab);
    use(&v[BATCH], &b->c.batch);
    if (m->width % m->heads)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--width=%zu cannot be divided among --heads=%zu: take a width that"
                         " is a multiple of the heads", m->width, m->heads);
    return 0;
}

static int run(ddp_t *d, int argc, char **argv, ddp_error_t *errp)
{
    struct bench b = {.d = d};
    if (parse(&b, argc, argv, errp) < 0)
        return -1;
    b.train = train_create(d, &b.c, errp);
    int rc = b.train ? 0 : -1;
    if (rc == 0 && b.v[DUMP].is_set && prints(&b))
        rc = train_dump(b.train, b.v[DUMP].text, errp);
    if (rc == 0)
        rc = (b.v[LOCKSTEP].is_set ? lockstep : alone)(&b, errp);
    train_destroy(b.train);
    return rc;
}

static void help(FILE *f)
{
    fprintf(f, "usage: ddp bench step [OPTION...]\n"
               "Trains a GPT on made-up tokens: a step's time, that of its matrix products alone, and the first "
               "losses.\nOMP_NUM_THREADS is the number of threads per rank (1 where unset).\n\n");
    knob_help(f, knobs, N_KNOBS);
}

const struct bench_verb bench_step = {"step", "time of a training step, and of its matrix products alone", run, help};
