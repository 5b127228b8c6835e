/* apiprobe.c - small libddp programs for shell tests, one per word: apiprobe CASE. Prints "ok" on every rank, or what
 * is wrong; exit code 1 then. */
#include <stdlib.h>
#include <string.h>

#include "t/lib/apiprobe.h"

ddp_error_t e;
uint64_t n_samples = 1000;
size_t n_elems;
bool in_thread, is_silent;

int open_three(ddp_t *d, size_t elems, int accum)
{
    static const char *const name[] = {"head", "body", "tail"};
    struct ddp_optimizer opt = {.lr = .5f, .rule = "sgd"};
    for (int i = 0; i < 3; i++)
        ddp_param_add(d, name[i], DDP_F32, &elems, 1, 0);
    return ddp_commit(d, &opt, &e) < 0 ? -1 : ddp_data_open(d, n_samples, 2, accum, 0, 1, &e);
}

int micro_step(ddp_t *d, const int *marks, int n_marks, bool *ret_sync)
{
    struct ddp_batch k;
    if (ddp_batch_next(d, &k, &e) < 0)
        return -1;
    *ret_sync = k.sync;
    bool wrong = k.sync && ddp_world(d)->rank == 1;
    for (int i = 0; i < (wrong ? n_marks : 3); i++)
        ddp_grad_ready(d, wrong ? marks[i] : 2 - i);
    return ddp_backward_end(d, 1, 2, wrong && is_silent ? NULL : &e);
}

static void copy_encode(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(wire, grad, n * sizeof *grad);
}

static void copy_decode(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(grad, wire, n * sizeof *grad);
}

struct ddp_hook copy_hook(void)
{
    return (struct ddp_hook){.wire = DDP_F32, .encode = copy_encode, .decode = copy_decode};
}

static const struct {
    const char *name;
    int (*run)(ddp_t *d);
} cases[] = {
    {"allreduce", case_allreduce},
    {"gather", case_gather},
    {"options", case_options},
    {"twice", case_twice},
    {"never", case_never},
    {"silent", case_silent},
    {"unknown", case_unknown},
    {"no-values", case_no_values},
    {"no-plan", case_no_plan},
    {"leave", case_leave},
    {"abort", case_abort},
    {"check", case_check},
    {"fork", case_fork},
    {"optimizer", case_optimizer},
    {"no-optimizer", case_no_optimizer},
    {"data", case_data},
    {"stray", case_stray},
    {"refuse", case_refuse},
    {"two-hooks", case_two_hooks},
    {"shards", case_shards},
    {"shards-join", case_shards_join},
    {"diverged", case_diverged},
    {"nan", case_nan},
    {"slow", case_slow},
    {"moves", case_moves},
    {"join", case_join},
    {"join-stop", case_join_stop},
    {"join-rest", case_join_rest},
    {"join-saved", case_join_saved},
    {"peek", case_peek},
    {"empty", case_empty},
    {"text", case_text},
    {"memory", case_memory},
    {"values", case_values},
    {"kept", case_kept},
};

int main(int argc, char **argv)
{
    int rc = 2;
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d)
        return fprintf(stderr, "%s\n", e.text), 1;
    in_thread = argc > 2 && !strcmp(argv[2], "thread");
    n_elems = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            rc = cases[i].run(d);
    if (rc == 0)
        puts("ok");
    ddp_finalize(d);
    return rc;
}
