/* explain_better.c - what a user could change to get a better place. */
#include <stdlib.h>

#include "topology/show/explain.h"

/* Sentences are apart by a space. */
static struct text *next(struct telling *tell)
{
    if (tell->t.n)
        text_add(&tell->t, " ");
    return &tell->t;
}

/* How many cores of the machine are beside its GPU. */
static int n_beside(const struct telling *tell)
{
    return coreset_count(&tell->pl->home[tell->p->gpu]);
}

static void better_near(struct telling *tell)
{
    int in_pool = tell_home_cores(tell), all = n_beside(tell);
    if (tell->p->n_near == tell->p->n_cores)
        return;
    if (in_pool == 0) {
        text_add(next(tell), "This step holds no core beside ");
        show_add_gpu(&tell->t, tell->inv, tell->p->gpu);
        text_add(&tell->t,
                 ": ask for --exclusive, or for --gres-flags=enforce-binding where the site's gres.conf names the "
                 "cores of its GPUs.");
    } else if (in_pool < all) {
        text_printf(next(tell), "This step holds %d of the %d cores beside its GPU: --exclusive gives it all.", in_pool,
                    all);
    } else if (tell_is_dealt(tell)) {
        text_printf(next(tell),
                    "No more than %d cores are beside its GPU, for all ranks whose GPU is there: with fewer cores per "
                    "rank (--cpus-per-task) all could be near ones.",
                    all);
    }
}

static int count_idle_devices(const struct telling *tell)
{
    bool is_used[INVENTORY_GPUS_MAX] = {false};
    int n = tell->r->n_devices;
    for (int r = 0; r < tell->n_ranks; r++)
        if (tell->s->place[r].device >= 0)
            is_used[tell->s->place[r].device] = true;
    for (int i = 0; i < tell->r->n_devices; i++)
        n -= is_used[i];
    return n;
}

static void better_gpu(struct telling *tell)
{
    int g = tell->r->n_devices, n_idle = tell->pl->is_same_list ? count_idle_devices(tell) : 0;
    if (tell->p->gpu >= 0 && tell->p->n_gpu_sharing > 1)
        text_printf(next(tell), "NCCL refuses two ranks on one GPU: %s.",
                    tell->pl->is_same_list && tell->n_ranks > g ? "start as many tasks on a node as it has GPUs "
                                                                  "(--ntasks-per-node)"
                                                                : "give each task a GPU of its own (--gpus-per-node)");
    if (n_idle)
        text_printf(next(tell), "%d of the %d GPUs have no rank: --ntasks-per-node=%d uses them.", n_idle, g, g);
    if (tell->n_ranks > 1 && !tell->pl->is_same_list)
        text_add(next(tell),
                 "Tasks that do not see each other's GPUs (--gpus-per-task, --gpu-bind) cannot copy between them "
                 "directly: --gpus-per-node shows all GPUs to all of them.");
}

/* What it would have were masks free. */
static void better_mask(struct telling *tell)
{
    struct placement_request request = *tell->s->request;
    struct place *place = calloc((size_t)tell->n_ranks, sizeof *place);
    request.keep = NULL;
    if (!place || placement_choose(&request, place, NULL) < 0) {
        tell->t.is_lost = true;
    } else if (!cpus_equal(&place[tell->rank].cpus, &tell->p->cpus)) {
        text_add(next(tell), "Were its CPUs free to change, it would have ");
        text_cpus_short(&tell->t, &place[tell->rank].cpus);
        if (tell_has_home(tell))
            text_printf(&tell->t, ", %d of %d cores beside its GPU", place[tell->rank].n_near,
                        place[tell->rank].n_cores);
        text_add(&tell->t, ".");
    }
    free(place);
}

void tell_better(struct telling *tell)
{
    if (tell->p->reason == PLACE_KEPT)
        better_mask(tell);
    else if (tell_has_home(tell))
        better_near(tell);
    if (tell->p->device >= 0)
        better_gpu(tell);
    if (tell->p->reason == PLACE_SHARED)
        text_add(next(tell), "A core for each rank: ask for one (--cpus-per-task=1 or more), or start fewer tasks.");
}
