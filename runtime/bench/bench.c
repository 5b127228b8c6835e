/* bench.c - `ddp bench`: its verbs. */
#include "runtime/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"

static const struct bench_verb *const verbs[] = {&bench_allreduce, &bench_reducer, &bench_step};
#define N_VERBS (sizeof verbs / sizeof *verbs)

static void help(FILE *f)
{
    fprintf(f, "usage: ddp bench VERB [OPTION...]\n"
               "Measures on the ranks that it is started on; rank 0 prints:\n"
               "  ddp run -n 2 ddp bench allreduce -b 1M -e 128M\n"
               "  srun --ddp=on -N 4 ddp bench allreduce\n\n");
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(f, "  %-10s  %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(f, "\nddp bench VERB --help lists a verb's options. Exit code: 0; 1: a wrong result or an error; 2: wrong "
               "usage.\n");
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

static void complain(const ddp_t *d, const char *text)
{
    const struct ddp_world *w = d ? ddp_world(d) : NULL;
    if (w && w->size > 1)
        fprintf(stderr, "ddp bench: rank %d: %s\n", w->rank, text);
    else
        fprintf(stderr, "ddp bench: %s\n", text);
}

/* Every rank has the same options and fails alike: rank 0 says it, the others wait until it is said. */
static int refuse(ddp_t *d, const ddp_error_t *e)
{
    if (ddp_world(d)->rank == 0)
        fprintf(stderr, "ddp bench: %s\n", e->text);
    ddp_barrier(d, NULL);
    return BENCH_USAGE;
}

static int run(const struct bench_verb *v, int argc, char **argv)
{
    ddp_error_t e = {0};
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d) {
        complain(NULL, e.text);
        return e.domain == DDP_E_USAGE ? BENCH_USAGE : EXIT_FAILURE;
    }
    int code = v->run(d, argc, argv, &e);
    if (code < 0 && e.domain == DDP_E_USAGE) {
        code = refuse(d, &e);
    } else if (code < 0) {
        complain(d, e.text);
        ddp_abort(d, EXIT_FAILURE, e.text);
        code = EXIT_FAILURE;
    }
    ddp_finalize(d);
    return code;
}

int bench_main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, name))
            continue;
        if (!wants_help(argc - 1, argv + 1))
            return run(verbs[i], argc - 1, argv + 1);
        verbs[i]->help(stdout);
        return 0;
    }
    if (wants_help(argc, argv)) {
        help(stdout);
        return 0;
    }
    fprintf(stderr, "ddp bench: \"%.64s\" is not one of its verbs: \"ddp bench --help\" lists them\n", name);
    return BENCH_USAGE;
}
