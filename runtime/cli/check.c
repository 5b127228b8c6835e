/* check.c - `ddp check`: are these ranks, nodes and links fit for a long job? Every rank runs it; rank 0 says it. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/knob.h"
#include "runtime/base/num.h"
#include "runtime/cli/check/check.h"
#include "runtime/cli/cli.h"

#define TRIES 3        /* measurements of what seems slow */
#define TIMEOUT_S "30" /* of every wait, unless DDP_TIMEOUT says another */

enum { DIR, MIB, JSON, N_KNOBS };

struct options {
    const char *dir;
    int mib;
    bool is_json;
};
#define AT(field) KNOB_FIELD(struct options, field)

static const struct knob knobs[N_KNOBS] = {
    [DIR] = {.name = "--dir", AT(dir), .type = KNOB_PATH, .min = 1, .value = "DIR",
             .help = "the folder of checkpoints, which is then looked at, too"},
    [MIB] = {.name = "--mib", AT(mib), .type = KNOB_INT, .def = "64", .min = 1, .max = 65536,
             .help = "MiB that each node writes there at most, into a file without a name"},
    [JSON] = {.name = "--json", AT(is_json), .type = KNOB_BOOL, .def = "off", .help = "print JSON"},
};

static int help(void)
{
    printf("usage: srun --ddp=on [OPTION...] ddp check [--dir DIR] [--mib N] [--json]\n"
           "\n"
           "Looks, in seconds and before a long job, at the ranks that it is started on: versions, binding, memory,\n"
           "clocks, the speed of memory and of the links between nodes, GPUs, the folder of checkpoints. One line for\n"
           "each: ok, warn or FAIL, what was found, on which node, and the cure.\n"
           "\n");
    knob_help(stdout, knobs, N_KNOBS);
    printf("\nExit code: 0; 1: something failed; 2: wrong usage. It is rank 0's, and so srun's.\n");
    return 0;
}

/* In a step of many, one says it. */
static bool is_first_task(void)
{
    const char *task = getenv("SLURM_PROCID"), *rank = getenv("RANK");
    const char *own = task && *task ? task : rank;
    return !own || !*own || !strcmp(own, "0");
}

static int refuse(const ddp_error_t *e)
{
    if (is_first_task())
        fprintf(stderr, "ddp check: %s\n", e->text);
    return CLI_USAGE;
}

/* ---- from the ranks ---- */

/* What each rank has of a struct: [size], malloc. */
static void *gather(ddp_t *d, const void *mine, size_t bytes, ddp_error_t *errp)
{
    void *all = calloc((size_t)ddp_world(d)->size, bytes);
    if (!all)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for what %d ranks say", ddp_world(d)->size);
    else if (ddp_allgather(d, mine, bytes / sizeof(int32_t), DDP_I32, all, errp) == 0)
        return all;
    free(all);
    return NULL;
}
_Static_assert(sizeof(struct check_facts) % sizeof(int32_t) == 0 && sizeof(struct check_speed) % sizeof(int32_t) == 0 &&
                   sizeof(struct check_folder) % sizeof(int32_t) == 0,
               "sent as int32");

static int take_facts(ddp_t *d, struct check_facts *mine, struct check *c, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(d);
    mine->node = w->node;
    mine->local = w->local_rank;
    c->size = w->size;
    c->n_nodes = w->n_nodes;
    c->facts = gather(d, mine, sizeof *mine, errp);
    if (!c->facts)
        return -1;
    c->first = calloc((size_t)c->n_nodes, sizeof *c->first);
    if (!c->first)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d nodes", c->n_nodes);
    for (int r = c->size - 1; r >= 0; r--)
        c->first[c->facts[r].node] = r;
    return 0;
}

/* What is slow is measured again: of memory the best counts, of the share of a core the mean. Others' work is no fault
 * of a node as long as it does not stay. */
static int measure_ranks(ddp_t *d, const struct check_facts *mine, struct check *c, ddp_error_t *errp)
{
    struct check_speed speed = {0}, median;
    double cpu = 0;
    int n_slow = 1;
    uint8_t *slow = calloc((size_t)c->size, sizeof *slow);
    int rc = slow ? check_clocks(d, &speed, errp) : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory");
    for (int i = 1; rc == 0 && i <= TRIES && n_slow > 0; i++) { /* all see the same */
        struct check_speed now = {.skew_s = speed.skew_s};
        rc = check_memory(d, mine->left_bytes, &now, errp);
        speed.memory_gbs = now.memory_gbs > speed.memory_gbs ? now.memory_gbs : speed.memory_gbs;
        cpu += now.cpu;
        speed.cpu = cpu / i;
        free(c->speed);
        c->speed = rc == 0 ? gather(d, &speed, sizeof speed, errp) : NULL;
        rc = c->speed ? 0 : -1;
        n_slow = rc == 0 ? check_slow_ranks(c, slow, &median) : 0;
    }
    free(slow);
    return rc;
}

static bool has_slow_links(const struct check *c)
{
    bool *is_slow = calloc((size_t)c->n_nodes, sizeof *is_slow), found = false;
    double gbs, latency_s;
    found = is_slow && check_slow_nodes(c, is_slow, &gbs, &latency_s) > 0;
    for (size_t i = 0; is_slow && !found && i < c->n_links; i++)
        found = check_slow_link(&c->link[i], is_slow, gbs, latency_s);
    free(is_slow);
    return found;
}

static int measure_links(ddp_t *d, struct check *c, ddp_error_t *errp)
{
    int rc = check_links(d, c, errp);
    for (int i = 2; rc == 0 && i <= TRIES && has_slow_links(c); i++)
        rc = check_links(d, c, errp);
    return rc;
}

/* Of libddp's waits, which has read the same. */
static double timeout_s(void)
{
    double s = 0;
    return num_double(getenv("DDP_TIMEOUT"), 0, 86400, &s) == 0 ? s : atof(TIMEOUT_S);
}

static int measure(ddp_t *d, const struct options *o, struct check_facts *mine, struct check *c, ddp_error_t *errp)
{
    struct check_folder folder = {.is_asked = 0};
    c->dir = o->dir;
    if (take_facts(d, mine, c, errp) < 0 || measure_ranks(d, mine, c, errp) < 0 || measure_links(d, c, errp) < 0 ||
        (o->dir && check_folder(d, o->dir, o->mib, timeout_s(), &folder, errp) < 0))
        return -1;
    c->folder = gather(d, &folder, sizeof folder, errp);
    return c->folder ? 0 : -1;
}

/* ---- what is said ---- */

static struct json_t *links_json(const struct check *c)
{
    json_t *links = json_array();
    for (size_t i = 0; i < c->n_links; i++) {
        const struct check_link *l = &c->link[i];
        json_array_append_new(links, json_pack("{s:[s, s], s:f, s:f, s:s}", "nodes",
                                               c->facts[c->first[l->a]].host, c->facts[c->first[l->b]].host, "gbs",
                                               l->gbs, "latency_us", l->latency_s * 1e6, "error", l->error));
    }
    return links;
}

static struct json_t *ranks_json(const struct check *c)
{
    json_t *ranks = json_array();
    char cpus[256];
    for (int r = 0; r < c->size; r++) {
        uint64_t left = c->facts[r].left_bytes;
        json_array_append_new(ranks, json_pack("{s:i, s:s, s:s, s:o, s:f, s:f, s:f, s:f}", "rank", r, "node",
                                               c->facts[r].host, "cpus",
                                               cpus_format(&c->facts[r].mask, cpus, sizeof cpus), "memory_free_bytes",
                                               left == UINT64_MAX ? json_null() : json_integer((json_int_t)left),
                                               "memory_gbs", c->speed[r].memory_gbs, "cpu", c->speed[r].cpu, "skew_s",
                                               c->speed[r].skew_s, "skew_bound_s", c->speed[r].skew_bound_s));
    }
    return ranks;
}

static int write_json(const struct check *c, const struct verdicts *l)
{
    json_t *j = verdicts_json(l);
    if (j) {
        json_object_set_new(j, "seconds", json_real(c->took_s));
        json_object_set_new(j, "ranks", ranks_json(c));
        json_object_set_new(j, "links", links_json(c));
    }
    return verdicts_write(stdout, j);
}

/* The exit code. */
static int say(const struct options *o, const struct check *c)
{
    struct verdicts *l = calloc(1, sizeof *l);
    if (!l)
        return EXIT_FAILURE;
    check_judge(c, l);
    int code = verdicts_failed(l) ? EXIT_FAILURE : EXIT_SUCCESS;
    if (o->is_json && write_json(c, l) != 0)
        code = EXIT_FAILURE;
    if (!o->is_json) {
        printf("ddp check: %d rank%s on %d node%s, %.1f s\n", c->size, PLURAL(c->size), c->n_nodes,
               PLURAL(c->n_nodes), c->took_s);
        verdicts_print(stdout, l);
    }
    verdicts_clear(l);
    free(l);
    return code;
}

/* Ranks that do not meet: a line by the first task alone, where all fail alike. */
static int say_alone(const struct options *o, const char *found, const char *cure)
{
    struct verdicts *l = calloc(1, sizeof *l);
    if (l && is_first_task()) {
        verdict_add(l, VERDICT_FAIL, "ranks", cure, "%s", found);
        if (o->is_json)
            verdicts_write(stdout, verdicts_json(l));
        else
            verdicts_print(stdout, l);
        verdicts_clear(l);
    }
    free(l);
    return is_first_task() ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* How many tasks whoever started this says that there are: the first that is set decides, since a step's own says more
 * than what a script has left there. */
static int tasks_said(void)
{
    static const char *const names[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "WORLD_SIZE"};
    int n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && num_int(text, 1, 1 << 30, &n) == 0)
            return n;
    }
    return 1;
}

static const char singletons[] = "start it with \"srun --ddp=on\", or with \"srun --mpi=pmix\" or \"--mpi=pmi2\"";

/* A wait that failed names the rank; rank 0 says it, or, where it is the one, rank 1. */
static int say_error(ddp_t *d, const ddp_error_t *e)
{
    int rank = ddp_world(d)->rank;
    if (rank == 0 || (rank == 1 && begins(e->text, "rank 0 ")))
        fprintf(stderr, "ddp check: FAIL: %s\n", e->text);
    ddp_abort(d, EXIT_FAILURE, e->text);
    return EXIT_FAILURE;
}

/* Only rank 0 exits with 1 where something failed: Slurm would kill the others, and take seconds for it. */
static int run(ddp_t *d, const struct options *o, struct check_facts *mine, uint64_t start)
{
    struct check c = {.size = 0};
    ddp_error_t e = {0};
    int rank = ddp_world(d)->rank, code = EXIT_SUCCESS;
    int rc = measure(d, o, mine, &c, &e);
    c.took_s = (double)(clock_ns() - start) / NS_PER_S;
    if (rc < 0)
        code = say_error(d, &e);
    ddp_finalize(d);
    if (rc == 0 && rank == 0)
        code = say(o, &c);
    free(c.facts);
    free(c.speed);
    free(c.folder);
    free(c.first);
    free(c.link);
    return code;
}

int cli_check(int argc, char **argv)
{
    struct knob_value v[N_KNOBS];
    struct options o;
    struct check_facts mine;
    uint64_t start = clock_ns();
    ddp_error_t e = {0};
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp check --help\"", argc, argv, v, NULL, &e);
    if (rc != 0)
        return rc > 0 ? help() : refuse(&e);
    knob_clear(knobs, N_KNOBS, &o);
    knob_store(knobs, N_KNOBS, v, &o);
    setenv("DDP_TIMEOUT", TIMEOUT_S, 0);
    check_look(&mine);
    ddp_t *d = ddp_init(NULL, NULL, &e);
    if (!d && e.domain == DDP_E_BOOT && e.code == ENOTCONN)
        return say_alone(&o, e.text, NULL);
    if (!d) {
        fprintf(stderr, "ddp check: FAIL: %s: %s\n", mine.host, e.text);
        return EXIT_FAILURE;
    }
    int code, n = getenv("DDP_BOOT_ADDR") ? 1 : tasks_said();
    if (ddp_world(d)->size == 1 && n > 1) {
        char found[128];
        snprintf(found, sizeof found, "%d tasks were started, but each sees itself alone", n);
        code = say_alone(&o, found, singletons);
        ddp_finalize(d);
    } else {
        code = run(d, &o, &mine, start);
    }
    return code;
}
