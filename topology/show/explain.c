/* explain.c - why a rank got what it got: doc/placement.md, section by section, with this rank's numbers. */
#include "topology/show/explain.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/num.h"

enum { TOPIC_COLUMNS = 8, COLUMNS = 110 };

static bool is_of_pool(const struct telling *tell, int r)
{
    return tell->pl->pool_of[r] == tell->pl->pool_of[tell->rank];
}

static void tell_pool(struct telling *tell)
{
    text_printf(&tell->t, ": %d core%s, CPUs ", tell->pool->n_cores, PLURAL(tell->pool->n_cores));
    text_cpus_short(&tell->t, &tell->pool->cpus);
    text_add(&tell->t, ".");
    int others = (int)tell->inv->n_cores - tell->pool->n_cores;
    if (others)
        text_printf(&tell->t, " %d of the machine's %zu cores are not in it.", others, tell->inv->n_cores);
}

static void tell_mask(struct telling *tell)
{
    struct text *t = &tell->t;
    if (tell->p->reason == PLACE_KEPT) {
        text_add(t, "CPUs stay as they were given: ");
        text_ascii(t, placement_why(tell->s->request, tell->p), 0);
        text_add(t, ". GPU, memory node and NIC follow from these CPUs.");
    } else if (tell->pool->n_cores == 0) {
        text_add(t, "Its mask names no CPU that this machine has, so it stays as it is.");
    } else if (tell->n_ranks == 1) {
        text_add(t, "It is the node's only rank and has all that the step holds");
        tell_pool(tell);
    } else if (tell->pl->is_one_pool) {
        text_printf(t,
                    "All %d ranks of the node share one pool, the union of their masks, since they see GPUs whose "
                    "place is known",
                    tell->n_ranks);
        tell_pool(tell);
    } else if (tell->pool->n_ranks == 1) {
        text_add(t, "No other rank's mask touches its own, so it keeps what Slurm gave it");
        tell_pool(tell);
    } else {
        text_add(t, "The masks of ");
        tell_ranks(tell, is_of_pool);
        text_add(t, " overlap, so they share one pool, the union of them");
        tell_pool(tell);
    }
}

/* "Of these, 4 are beside CPUs of its pool, 4 are away from it." */
static void tell_costs(struct telling *tell)
{
    enum { BESIDE, NOT_TOLD, IN_PACKAGE, AWAY, N };
    static const char *const words[N] = {
        [BESIDE] = "beside CPUs of its pool",
        [NOT_TOLD] = "at a place that is not told",
        [IN_PACKAGE] = "only in a package of its pool",
        [AWAY] = "away from its pool",
    };
    static const int of_cost[] = {BESIDE, IN_PACKAGE, AWAY};
    int n[N] = {0};
    for (int i = 0; i < tell->r->n_devices; i++) {
        int gpu = tell->r->device[i];
        n[gpu < 0 || !tell->pl->has_home[gpu] ? NOT_TOLD : of_cost[placing_cost(tell->pl, tell->rank, gpu)]]++;
    }
    const char *comma = " Of these, ";
    for (int c = 0; c < N; c++) {
        if (!n[c])
            continue;
        text_add(&tell->t, comma);
        if (n[c] == tell->r->n_devices && n[c] > 1)
            text_printf(&tell->t, "all are %s", words[c]);
        else
            text_printf(&tell->t, "%d %s %s", n[c], n[c] == 1 ? "is" : "are", words[c]);
        comma = ", ";
    }
    text_add(&tell->t, ".");
}

static bool has_first_choice(const struct telling *tell, int r)
{
    return tell->s->place[r].device == tell->rank % tell->r->n_devices;
}

/* All ranks see one list. */
static void tell_match(struct telling *tell)
{
    int g = tell->r->n_devices, first = tell->rank % g;
    text_printf(&tell->t, "All ranks see the same %d device%s: ", g, PLURAL(g));
    if (tell->n_ranks <= g)
        text_add(&tell->t, "no two ranks get the same one.");
    else if (tell->n_ranks % g == 0)
        text_printf(&tell->t, "each serves %d ranks.", tell->n_ranks / g);
    else
        text_printf(&tell->t, "each serves %d or %d ranks.", tell->n_ranks / g, tell->n_ranks / g + 1);
    tell_costs(tell);
    text_printf(&tell->t,
                " The least total distance comes first, then the device of the rank's own number%s: for rank %d "
                "that is device %d",
                tell->n_ranks > g ? " (modulo their number)" : "", tell->rank, first);
    if (tell->p->device == first) {
        text_add(&tell->t, ", which it has.");
        return;
    }
    bool is_farther = placing_cost(tell->pl, tell->rank, tell->r->device[first]) >
                      placing_cost(tell->pl, tell->rank, tell->p->gpu);
    text_printf(&tell->t, ", which %s; ", is_farther ? "lies farther" : "would make the total worse");
    tell_ranks(tell, has_first_choice);
    text_printf(&tell->t, " has it, and it has device %d.", tell->p->device);
}

static bool has_same_gpu(const struct telling *tell, int r)
{
    const struct place *a = &tell->s->place[r], *b = tell->p;
    return a->device >= 0 && (tell->pl->is_same_list ? a->device == b->device : a->gpu >= 0 && a->gpu == b->gpu);
}

static void tell_place_of_gpu(struct telling *tell)
{
    if (tell->p->gpu < 0) {
        text_add(&tell->t, " This device is not in the inventory, so nothing is known of its place.");
        return;
    }
    text_printf(&tell->t, " Device %d is ", tell->p->device);
    show_add_gpu(&tell->t, tell->inv, tell->p->gpu);
    if (tell_has_home(tell)) {
        struct cpus local = tell->inv->gpu[tell->p->gpu].pci.local;
        cpus_and(&local, &tell->inv->all);
        text_add(&tell->t, "; CPUs ");
        text_cpus_short(&tell->t, &local);
        text_add(&tell->t, " are beside it.");
    } else {
        text_add(&tell->t, tell->inv->n_numas > 1 ? "; the machine does not tell where it sits (a virtual machine?)."
                                                  : "; all CPUs are equally near.");
    }
    if (tell->p->n_gpu_sharing > 1) {
        text_add(&tell->t, " It serves ");
        tell_ranks(tell, has_same_gpu);
        text_add(&tell->t, ".");
    }
}

static void tell_gpu(struct telling *tell)
{
    if (tell->p->device < 0) {
        text_add(&tell->t, "It sees none.");
        return;
    }
    if (tell->pl->is_same_list) {
        tell_match(tell);
    } else {
        text_printf(&tell->t, "The ranks see different devices, so each chooses among its own, this one among %d:",
                    tell->r->n_devices);
        text_add(&tell->t,
                 " the one that the fewest ranks before it have, then the nearest, then from its own number on.");
        tell_costs(tell);
    }
    tell_place_of_gpu(tell);
}

/* The paragraph written in tell->t, broken at spaces, beside its topic. */
static void end_paragraph(struct telling *tell, struct text *out, const char *topic)
{
    char *s = text_take(&tell->t), *rest = s, *word;
    out->is_lost |= !s;
    if (s && s[0]) {
        size_t column = TOPIC_COLUMNS;
        text_add(out, topic);
        text_pad(out, TOPIC_COLUMNS);
        while ((word = strsep(&rest, " "))) {
            size_t n = text_columns(word);
            if (column > TOPIC_COLUMNS && column + n + 1 > COLUMNS) {
                text_trim(out);
                text_add(out, "\n");
                text_pad(out, TOPIC_COLUMNS);
                column = TOPIC_COLUMNS;
            }
            text_printf(out, "%s ", word);
            column += n + 1;
        }
        text_trim(out);
        text_add(out, "\n");
    }
    free(s);
}

static void tell_all(struct telling *tell, struct text *out)
{
    static const struct {
        const char *topic;
        void (*tell)(struct telling *tell);
    } topics[] = {{"mask", tell_mask},     {"GPU", tell_gpu}, {"share", tell_share},  {"cores", tell_cores},
                  {"memory", tell_memory}, {"NIC", tell_nic}, {"better", tell_better}};
    text_printf(out, "rank %d of %d on ", tell->rank, tell->n_ranks);
    text_name(out, tell->inv->origin, 0);
    text_add(out, ": ");
    text_ascii(out, placement_why(tell->s->request, tell->p), 0);
    text_add(out, "\n");
    if (tell->s->about) {
        text_name(out, tell->s->about, 0);
        text_add(out, "\n");
    }
    text_add(out, "\n");
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (topics[i].tell == tell_share && (!tell_is_dealt(tell) || tell->pool->n_ranks == 1))
            continue;
        topics[i].tell(tell);
        end_paragraph(tell, out, topics[i].topic);
    }
}

char *show_explain(const struct show *s, int rank)
{
    int n = s->request->n_ranks;
    struct telling tell = {.s = s, .inv = s->inventory, .rank = rank, .n_ranks = n, .r = &s->request->rank[rank],
                           .p = &s->place[rank], .pl = placing_create(s->request, NULL),
                           .is_in = calloc((size_t)n, sizeof *tell.is_in)};
    struct text out = {0};
    if (tell.pl && tell.is_in && placing_pools(tell.pl, NULL) == 0 && placing_gpus(tell.pl, NULL) == 0) {
        tell.pool = &tell.pl->pool[tell.pl->pool_of[rank]];
        tell_all(&tell, &out);
    } else {
        out.is_lost = true;
    }
    placing_destroy(tell.pl);
    free(tell.is_in);
    return text_take(&out);
}
