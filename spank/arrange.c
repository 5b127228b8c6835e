#include "spank/arrange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/devices.h"

struct arranger {
    const struct arrange_facts *f;
    struct arrangement *a;
    int n_ranks, rank;   /* local ones */
    const char *record;  /* topo=; NULL: this machine */
    ddp_error_t *errp;
    bool is_unreadable;  /* this machine: it was tried */
    bool has_met;        /* the others: request.rank is what they came with, not copies of this rank's facts */
};

static const char *text_of(const struct keys *o, enum ddp_key key)
{
    return o->key[key].is_set && o->key[key].text[0] ? o->key[key].text : NULL;
}

/* The first warning is the one to read. */
static void warn(struct arranger *g, const char *what, const char *then)
{
    if (!g->a->warning[0])
        snprintf(g->a->warning, sizeof g->a->warning, "%s: %s", what, then);
}

static const struct inventory *load(struct arranger *g, board_load_f *f, void *arg, ddp_error_t *errp)
{
    struct arrangement *a = g->a;
    if (a->board)
        return board_inventory(a->board, f, arg, g->f->deadline, errp);
    a->own_inventory = calloc(1, sizeof *a->own_inventory);
    if (!a->own_inventory)
        return error_errno(errp, "no memory for the topology"), NULL;
    return f(arg, g->f->deadline, a->own_inventory, errp) == 0 ? a->own_inventory : NULL;
}

static int load_record(struct arranger *g)
{
    g->a->inventory = load(g, g->f->load_record, (void *)(uintptr_t)g->record, g->errp);
    return g->a->inventory ? 0 : error_prefix(g->errp, "topo (%s)", g->f->keys->key[KEY_TOPO].source);
}

static void load_machine(struct arranger *g, bool with_io)
{
    ddp_error_t e;
    g->a->inventory = load(g, g->f->load[with_io], NULL, &e);
    g->is_unreadable = !g->a->inventory;
    if (g->is_unreadable)
        warn(g, e.text, "ranks keep the CPUs that Slurm gave them");
}

/* What this task came with. */
static void read_own(struct arranger *g, struct placement_rank *ret)
{
    struct devices d = {.n = 0};
    ddp_error_t e;
    if (!g->record && devices_list(g->a->inventory, &g->f->step->gpus, &d, &e) < 0)
        warn(g, e.text, "it gets no GPU");
    memset(ret, 0, sizeof *ret);
    ret->mask = g->f->mask;
    ret->n_devices = d.n;
    memcpy(ret->device, d.gpu, sizeof ret->device);
}

/* What all ranks came with, this one's facts for all where they did not meet: then all keep what they have. */
static int meet(struct arranger *g)
{
    struct arrangement *a = g->a;
    struct placement_rank own;
    ddp_error_t e;
    read_own(g, &own);
    if (a->board) {
        board_post(a->board, g->rank, &own);
        g->has_met = board_wait(a->board, g->f->deadline, &a->request.rank, &e) == 0;
        if (g->has_met)
            return 0;
        a->is_alone = true;
        warn(g, e.text, "this rank keeps the CPUs that Slurm gave it");
    } else if (g->n_ranks > 1) {
        warn(g, g->n_ranks > PLACEMENT_RANKS_MAX ? "the ranks of this node are too many to be placed"
                                                 : "the ranks of this node cannot share memory before they start",
             "they keep the CPUs that Slurm gave them");
    }
    a->own_rank = calloc((size_t)g->n_ranks, sizeof own);
    if (!a->own_rank)
        return error_errno(g->errp, "no memory for the ranks' CPU masks");
    for (int i = 0; i < g->n_ranks; i++)
        a->own_rank[i] = own;
    a->request.rank = a->own_rank;
    if (g->n_ranks > 1)
        a->request.keep = "the ranks of this node did not meet";
    return 0;
}

/* Ranks of a record have all that the record allows, and its GPUs, or as many as Slurm gave. */
static int make_recorded(struct arranger *g)
{
    struct arrangement *a = g->a;
    struct placement_rank all = {.mask = a->inventory->allowed};
    int given = g->f->step->n_gpus, n = (int)a->inventory->n_gpus;
    all.n_devices = (int16_t)(given && given < n ? given : n);
    for (int i = 0; i < INVENTORY_GPUS_MAX; i++)
        all.device[i] = (int16_t)(i < all.n_devices ? i : -1);
    if (!a->own_rank)
        a->own_rank = calloc((size_t)g->n_ranks, sizeof all);
    if (!a->own_rank)
        return error_errno(g->errp, "no memory for the ranks' CPU masks");
    for (int i = 0; i < g->n_ranks; i++)
        a->own_rank[i] = all;
    a->request.rank = a->own_rank;
    return 0;
}

struct masks {
    struct cpus together;
    size_t n_cpus; /* of all ranks, one by one */
    int n_devices;
};

static struct masks add_up(const struct placement_request *r)
{
    struct masks m = {.n_cpus = 0};
    for (int i = 0; i < r->n_ranks; i++) {
        cpus_or(&m.together, &r->rank[i].mask);
        m.n_cpus += cpus_count(&r->rank[i].mask);
        m.n_devices += r->rank[i].n_devices;
    }
    return m;
}

static int count_same(const struct placement_request *r, const struct cpus *mask)
{
    int n = 0;
    for (int i = 0; i < r->n_ranks; i++)
        n += cpus_equal(&r->rank[i].mask, mask);
    return n > 0 ? n : 1;
}

/* Neither task/affinity nor task/cgroup made these masks: together they have more CPUs than the step holds. Where that
 * is not the whole machine, hardware threads that Slurm does not count (one CPU per core in slurm.conf) are allowed
 * for. */
static bool is_unconfined(const struct inventory *inv, const struct cpus *masks, int held)
{
    if (held <= 0)
        return true;
    return cpus_count(masks) > (size_t)held &&
           (cpus_within(&inv->all, masks) || inventory_count_cores(inv, masks) > (size_t)held);
}

static const char *find_keep(const struct arranger *g)
{
    const struct arrange_facts *f = g->f;
    if (f->keys->key[KEY_BIND].choice == BIND_NONE)
        return "bind=none";
    return f->is_bound_by_user ? "--cpu-bind was given" : NULL;
}

/* Without an inventory: nothing to decide but which of the devices, of which nothing is known. */
static void place_simply(struct arranger *g)
{
    struct arrangement *a = g->a;
    int n = a->request.rank[g->rank].n_devices;
    a->one = (struct place){.cpus = g->f->mask, .n_sharing = a->n_same_mask, .device = n ? g->rank % n : -1, .gpu = -1,
                            .numa = -1, .nic = -1, .nic_distance = DISTANCE_ACROSS,
                            .reason = a->request.keep ? PLACE_KEPT : PLACE_OWN};
    a->mine = &a->one;
    a->n_same = a->n_same_mask;
}

static int place(struct arranger *g)
{
    struct arrangement *a = g->a;
    if (g->n_ranks > PLACEMENT_RANKS_MAX) {
        place_simply(g);
        return 0;
    }
    a->request.inventory = a->inventory;
    a->place = calloc((size_t)g->n_ranks, sizeof *a->place);
    if (!a->place)
        return error_errno(g->errp, "no memory for the ranks' places");
    if (placement_choose(&a->request, a->place, g->errp) < 0)
        return -1;
    a->mine = &a->place[g->rank];
    for (int i = 0; i < g->n_ranks; i++)
        a->n_same += cpus_equal(&a->place[i].cpus, &a->mine->cpus);
    return 0;
}

static int arrange_recorded(struct arranger *g)
{
    if (load_record(g) < 0 || meet(g) < 0)
        return -1;
    g->a->n_same_mask = count_same(&g->a->request, &g->f->mask);
    g->a->request.keep = NULL;
    return make_recorded(g) < 0 ? -1 : place(g);
}

static int arrange_machine(struct arranger *g)
{
    struct arrangement *a = g->a;
    const struct keys *o = g->f->keys;
    if (o->key[KEY_VERBOSE].b || g->f->step->n_gpus > 0)
        load_machine(g, true);
    a->request.keep = find_keep(g);
    if (meet(g) < 0)
        return -1;
    struct masks m = add_up(&a->request);
    a->n_same_mask = count_same(&a->request, &g->f->mask);
    bool is_overlap = m.n_cpus > cpus_count(&m.together);
    if (!a->inventory && !g->is_unreadable && (m.n_devices || (is_overlap && !a->request.keep)))
        load_machine(g, m.n_devices > 0);
    if (!a->inventory) {
        place_simply(g);
        return 0;
    }
    if (!a->request.keep && is_unconfined(a->inventory, &m.together, g->f->step->cpus_on_node))
        a->request.keep = "Slurm confines no task here";
    return place(g);
}

int arrange(const struct arrange_facts *f, struct arrangement *ret, ddp_error_t *errp)
{
    struct arranger g = {.f = f, .a = ret, .n_ranks = f->step->local_size, .rank = f->step->local_rank,
                         .record = text_of(f->keys, KEY_TOPO), .errp = errp};
    memset(ret, 0, sizeof *ret);
    ret->board = f->board;
    ret->is_recorded = g.record;
    ret->is_trial = f->keys->key[KEY_BIND].choice == BIND_PRINT;
    ret->request.n_ranks = g.n_ranks;
    int rc = g.record ? arrange_recorded(&g) : arrange_machine(&g);
    if (ret->is_trial)
        ret->n_same = ret->n_same_mask;
    if (!g.has_met) /* of the others nothing is known */
        ret->n_same = 1;
    return rc;
}

bool arrange_show(const struct arrangement *a, struct show *ret)
{
    if (!a->place)
        return false;
    *ret = (struct show){.inventory = a->inventory, .request = &a->request, .place = a->place};
    return true;
}

void arrange_destroy(struct arrangement *a)
{
    int saved = errno;
    if (!a)
        return;
    if (a->board)
        board_leave(a->board);
    free(a->own_inventory);
    free(a->own_rank);
    free(a->place);
    memset(a, 0, sizeof *a);
    errno = saved;
}
