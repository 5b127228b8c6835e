/* topo.c - `ddp topo`: a machine, and where ranks would go on it. */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/knob.h"
#include "runtime/base/num.h"
#include "runtime/cli/cli.h"
#include "topology/devices.h"
#include "topology/show.h"

enum { XML, RANKS, CPUS, GPUS, FORMAT, EXPLAIN, N_KNOBS };
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SVG };

struct view {
    const char *xml, *cpus, *gpus;
    enum format format;
    int n_ranks, explain; /* -1: not given */
};
#define AT(field) KNOB_FIELD(struct view, field)

static const struct knob knobs[N_KNOBS] = {
    [XML] = {.name = "--xml", AT(xml), .type = KNOB_PATH, .min = 1, .value = "FILE",
             .help = "a machine recorded by \"lstopo FILE.xml\", instead of this one"},
    [RANKS] = {.name = "--ranks", AT(n_ranks), .type = KNOB_INT, .min = 1, .max = PLACEMENT_RANKS_MAX,
               .help = "how many ranks; without it one per GPU, without GPUs one per NUMA node"},
    [CPUS] = {.name = "--cpus", AT(cpus), .type = KNOB_PATH, .value = "LIST",
              .help = "CPUs that the step holds, as in 0-15,128-143; without it those that this process may use, with "
                      "--xml those that the record allows"},
    [GPUS] = {.name = "--gpus", AT(gpus), .type = KNOB_PATH, .value = "LIST",
              .help = "GPUs that the ranks see, in this order: numbers, bus ids or UUIDs, or \"none\"; without it what "
                      "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and SLURM_STEP_GPUS say, else all"},
    [FORMAT] = {.name = "--format", AT(format), .type = KNOB_ENUM, .def = "text", .choices = "text|json|svg",
                .value = "FORMAT", .help = "svg is a picture"},
    [EXPLAIN] = {.name = "--explain", AT(explain), .type = KNOB_INT, .min = 0, .max = PLACEMENT_RANKS_MAX - 1,
                 .value = "RANK", .help = "says in sentences why this rank gets what it gets"},
};

static int help(void)
{
    printf("usage: ddp topo [--xml FILE] [--ranks N] [--cpus LIST] [--gpus LIST] [--format text|json|svg] "
           "[--explain RANK]\n"
           "\n"
           "Shows a machine (packages, NUMA nodes, cores, GPUs, NICs) and where --ddp=on would place the ranks of one "
           "node.\n"
           "\n");
    knob_help(stdout, knobs, N_KNOBS);
    printf("\nThe rule is in ddp-topo(1). Exit code: 0; 1: the machine or FILE cannot be read; 2: wrong usage.\n");
    return 0;
}

/* All that show.h needs, in one piece of memory. */
struct scene {
    struct inventory inv;
    struct cpus cpus;
    struct devices devices;
    char about[256];
    struct placement_request request;
    struct placement_rank *rank;
    struct place *place;
};

/* 0; 1: help is asked for; -1. */
static int parse(int argc, char **argv, struct view *o, ddp_error_t *errp)
{
    struct knob_value v[N_KNOBS];
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp topo --help\"", argc, argv, v, NULL, errp);
    if (rc != 0)
        return rc;
    knob_clear(knobs, N_KNOBS, o);
    knob_store(knobs, N_KNOBS, v, o);
    if (o->explain >= 0 && o->format != FORMAT_TEXT)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--explain writes text: leave out --format %s", v[FORMAT].text);
    return 0;
}

/* The CPUs of the step; *ret_why: whose they are. */
static int choose_cpus(const struct view *o, struct scene *s, const char **ret_why, ddp_error_t *errp)
{
    struct cpus known;
    char text[96], unknown[96];
    *ret_why = o->cpus ? "--cpus" : o->xml ? "all that the record allows" : "all that this process may use";
    s->cpus = s->inv.allowed;
    if (o->cpus && cpus_parse(o->cpus, &s->cpus, errp) < 0)
        return error_prefix(errp, "--cpus");
    if (!o->cpus && !o->xml && sched_getaffinity(0, sizeof s->cpus, (cpu_set_t *)&s->cpus) < 0)
        return error_errno(errp, "this process's CPU mask cannot be read");
    known = s->cpus;
    cpus_and(&known, &s->inv.all);
    if (o->cpus && !cpus_equal(&known, &s->cpus)) {
        for (size_t i = 0; i < CPUS_WORDS; i++)
            s->cpus.word[i] &= ~known.word[i];
        return error_set(errp, DDP_E_USAGE, EINVAL, "--cpus: %.64s has no CPU %s: its CPUs are %s", s->inv.origin,
                         cpus_format(&s->cpus, unknown, sizeof unknown), cpus_format(&s->inv.all, text, sizeof text));
    }
    s->cpus = known;
    if (cpus_count(&known) == 0)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "%s: no CPU of %.64s is left: name some with --cpus, its CPUs are %s", *ret_why, s->inv.origin,
                         cpus_format(&s->inv.all, text, sizeof text));
    return 0;
}

static int add_device(struct scene *s, const char *name, ddp_error_t *errp)
{
    int gpu = inventory_find_gpu(&s->inv, name);
    if (gpu < 0 && s->inv.n_gpus == 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--gpus: \"%.40s\": no GPU is known of %.64s: leave --gpus out",
                         name, s->inv.origin);
    if (gpu < 0)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "--gpus: \"%.40s\" is none of the %zu GPUs of %.64s: name them by the "
                         "numbers or bus ids that \"ddp topo\" shows",
                         name, s->inv.n_gpus, s->inv.origin);
    for (int i = 0; i < s->devices.n; i++)
        if (s->devices.gpu[i] == gpu)
            return error_set(errp, DDP_E_USAGE, EINVAL, "--gpus: \"%.40s\" is a GPU that was named before it", name);
    s->devices.gpu[s->devices.n++] = (int16_t)gpu;
    return 0;
}

static int parse_devices(struct scene *s, const char *list, ddp_error_t *errp)
{
    char *copy = strdup(list), *rest = copy, *name;
    int rc = copy ? 0 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for --gpus");
    while (rc == 0 && strcmp(list, "none") && (name = strsep(&rest, ",")))
        rc = add_device(s, name, errp);
    free(copy);
    return rc;
}

/* The devices that every rank sees; *ret_why: who says so, NULL: they are all of the machine's. */
static int choose_devices(const struct view *o, struct scene *s, const char **ret_why, ddp_error_t *errp)
{
    struct devices_facts f = {getenv("CUDA_VISIBLE_DEVICES"), getenv("ROCR_VISIBLE_DEVICES"),
                              getenv("SLURM_STEP_GPUS")};
    *ret_why = "--gpus";
    if (o->gpus)
        return parse_devices(s, o->gpus, errp);
    if (!o->xml && devices_source(&f)) {
        *ret_why = devices_source(&f);
        if (devices_list(&s->inv, &f, &s->devices, errp) < 0)
            return error_prefix(errp, "%s, which --gpus would replace", *ret_why);
        return 0;
    }
    *ret_why = NULL;
    s->devices.n = (int16_t)s->inv.n_gpus;
    for (int i = 0; i < s->devices.n; i++)
        s->devices.gpu[i] = (int16_t)i;
    return 0;
}

static int count_numas(const struct scene *s)
{
    int n = 0;
    for (size_t i = 0; i < s->inv.n_numas; i++) {
        struct cpus cpus = inventory_numa_cpus(&s->inv, i);
        cpus_and(&cpus, &s->cpus);
        n += cpus_count(&cpus) > 0;
    }
    return n ? n : 1;
}

/* How many ranks, and the line that says what was taken from where. */
static void choose_ranks(const struct view *o, struct scene *s, const char *whose_cpus, const char *whose_gpus)
{
    int n = o->n_ranks > 0 ? o->n_ranks : s->devices.n ? s->devices.n : count_numas(s);
    const char *why = o->n_ranks > 0 ? "as asked" : s->devices.n ? "one per GPU" : "one per NUMA node";
    char cpus[64], gpus[64] = "";
    if (whose_gpus)
        snprintf(gpus, sizeof gpus, "; %d GPU%s by %s", s->devices.n, PLURAL(s->devices.n), whose_gpus);
    snprintf(s->about, sizeof s->about, "%d rank%s, %s; CPUs %s (%s)%s", n, PLURAL(n), why,
             cpus_format(&s->cpus, cpus, sizeof cpus), whose_cpus, gpus);
    s->request = (struct placement_request){.inventory = &s->inv, .n_ranks = n};
}

static int fill_scene(const struct view *o, struct scene *s, ddp_error_t *errp)
{
    const char *whose_cpus = NULL, *whose_gpus = NULL;
    if (inventory_load(o->xml, true, &s->inv, errp) < 0 || choose_cpus(o, s, &whose_cpus, errp) < 0 ||
        choose_devices(o, s, &whose_gpus, errp) < 0)
        return -1;
    choose_ranks(o, s, whose_cpus, whose_gpus);
    int n = s->request.n_ranks;
    if (o->explain >= n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--explain %d: there %s, 0 to %d: ask for more with --ranks",
                         o->explain, n == 1 ? "is one rank" : "are fewer ranks", n - 1);
    s->rank = calloc((size_t)n, sizeof *s->rank);
    s->place = calloc((size_t)n, sizeof *s->place);
    if (!s->rank || !s->place)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d ranks", n);
    for (int r = 0; r < n; r++) {
        s->rank[r].mask = s->cpus;
        s->rank[r].n_devices = s->devices.n;
        memcpy(s->rank[r].device, s->devices.gpu, sizeof s->devices.gpu);
    }
    s->request.rank = s->rank;
    return placement_choose(&s->request, s->place, errp);
}

static char *write_scene(const struct view *o, const struct scene *s)
{
    struct show show = {&s->inv, &s->request, s->place, s->about};
    if (o->explain >= 0)
        return show_explain(&show, o->explain);
    if (o->format == FORMAT_JSON)
        return show_json(&show);
    return o->format == FORMAT_SVG ? show_svg(&show) : show_text(&show);
}

static int fail(const ddp_error_t *e)
{
    fprintf(stderr, "ddp topo: %s\n", e->text);
    return e->domain == DDP_E_USAGE ? CLI_USAGE : EXIT_FAILURE;
}

static int show_scene(const struct view *o, struct scene *s)
{
    ddp_error_t e = {0};
    if (fill_scene(o, s, &e) < 0)
        return fail(&e);
    char *text = write_scene(o, s);
    if (!text) {
        error_set(&e, DDP_E_SYSTEM, ENOMEM, "no memory for the output");
        return fail(&e);
    }
    fputs(text, stdout);
    free(text);
    return 0;
}

int cli_topo(int argc, char **argv)
{
    struct view o;
    ddp_error_t e = {0};
    int rc = parse(argc, argv, &o, &e);
    if (rc != 0)
        return rc > 0 ? help() : fail(&e);
    struct scene *s = calloc(1, sizeof *s);
    if (!s) {
        error_set(&e, DDP_E_SYSTEM, ENOMEM, "no memory for the machine's tables");
        return fail(&e);
    }
    int code = show_scene(&o, s);
    free(s->rank);
    free(s->place);
    free(s);
    return code;
}
