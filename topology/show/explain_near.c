/* explain_near.c - sections 3 to 6 of doc/placement.md in sentences: cores, memory node, NIC. */
#include "runtime/base/num.h"
#include "topology/show/explain.h"

static bool has_same_core(const struct telling *tell, int r)
{
    return cpus_touch(&tell->s->place[r].cpus, &tell->p->cpus);
}

void tell_share(struct telling *tell)
{
    int m = tell->pool->n_cores, n = tell->pool->n_ranks;
    text_printf(&tell->t, "%d core%s for %d rank%s: ", m, PLURAL(m), n, PLURAL(n));
    if (m < n) {
        text_add(&tell->t, "every rank has one, with others. This one serves ");
        tell_ranks(tell, has_same_core);
    } else if (m % n == 0) {
        text_printf(&tell->t, "%d each", m / n);
    } else {
        text_printf(&tell->t, "%d each, and %d rank%s one more, %s; this one has %d", m / n, m % n,
                    m % n == 1 ? " has" : "s have",
                    tell->pl->is_one_pool ? "first where the GPU's home has cores to spare" : "spread over them",
                    tell->p->n_cores);
    }
    text_add(&tell->t, ".");
}

static bool has_same_home(const struct telling *tell, int r)
{
    int gpu = tell->s->place[r].gpu;
    if (gpu < 0 || !tell->pl->has_home[gpu])
        return false;
    struct coreset a = coreset_and(&tell->pl->home[gpu], &tell->pool->cores);
    struct coreset b = coreset_and(&tell->pl->home[tell->p->gpu], &tell->pool->cores);
    return coreset_equal(&a, &b);
}

/* Where those of its cores come from that are not beside its GPU. */
static void tell_added(struct telling *tell)
{
    struct coreset mine, in_package;
    placing_cores(tell->pl, &tell->p->cpus, &mine);
    in_package = coreset_and(&mine, &tell->pl->package[tell->p->gpu]);
    struct coreset near = coreset_and(&in_package, &tell->pl->home[tell->p->gpu]);
    int n_package = coreset_count(&in_package) - coreset_count(&near);
    int n_far = tell->p->n_cores - tell->p->n_near - n_package;
    if (n_package)
        text_printf(&tell->t, " %d of its cores %s in the GPU's package, where others were free,", n_package,
                    n_package == 1 ? "lies" : "lie");
    if (n_far)
        text_printf(&tell->t, " %d %s elsewhere,", n_far, n_far == 1 ? "lies" : "lie");
    text_add(&tell->t, " since every rank gets its number of cores before any idles.");
}

static void tell_home(struct telling *tell)
{
    int n_home = tell_home_cores(tell);
    if (n_home == 0) {
        text_add(&tell->t, "The pool has no core beside its GPU.");
    } else {
        text_printf(&tell->t, "The pool has %d core%s beside its GPU, for ", n_home, PLURAL(n_home));
        int n = tell_ranks(tell, has_same_home);
        text_add(&tell->t, n > 1 ? ", each a run of neighbours; " : "; ");
        if (tell->p->n_near == n_home)
            text_add(&tell->t, n_home == 1 ? "it is this rank's." : "all of them are this rank's.");
        else
            text_printf(&tell->t, "%d of them %s this rank's.", tell->p->n_near, tell->p->n_near == 1 ? "is" : "are");
    }
    if (tell->p->n_near < tell->p->n_cores)
        tell_added(tell);
}

void tell_cores(struct telling *tell)
{
    text_printf(&tell->t, "It has %d core%s, CPUs ", tell->p->n_cores, PLURAL(tell->p->n_cores));
    text_cpus_short(&tell->t, &tell->p->cpus);
    text_add(&tell->t, ". ");
    if (!tell_is_dealt(tell) && tell_has_home(tell))
        text_printf(&tell->t, "%d of them %s beside its GPU.", tell->p->n_near, tell->p->n_near == 1 ? "is" : "are");
    else if (tell_is_dealt(tell) && tell_has_home(tell))
        tell_home(tell);
    else if (tell_is_dealt(tell))
        text_add(&tell->t, "Cores are dealt in hwloc's order, in which neighbours share caches, then NUMA nodes, then "
                           "packages.");
}

void tell_memory(struct telling *tell)
{
    int numa = tell->p->numa, of_gpu = tell->p->gpu >= 0 ? tell->inv->gpu[tell->p->gpu].pci.numa : -1;
    if (numa < 0) {
        bool serves_all = tell->n_ranks == 1 && tell->r->n_devices > 1;
        text_printf(&tell->t, "No node is best: %s, so memory goes where it is touched first.",
                    serves_all ? "what it starts computes beside all of its GPUs"
                               : "there is none with memory that all of its cores belong to");
        return;
    }
    text_add(&tell->t, "NUMA ");
    show_add_node(&tell->t, tell->inv, numa);
    text_add(&tell->t,
             numa == of_gpu ? ": its GPU sits there, and it has cores there." : ": all of its cores belong to it.");
    text_add(&tell->t, " The task prefers it and takes other memory before it fails; --mem-bind comes first.");
}

/* How many bridges the rank's GPU and a NIC have in common; 0 without a GPU. */
static int common_bridges(const struct telling *tell, size_t nic)
{
    int gpu = tell->p->gpu;
    return gpu < 0 ? 0 : inventory_common_bridges(&tell->inv->gpu[gpu].pci, &tell->inv->nic[nic].pci);
}

/* Counts the active NICs, other than the rank's own, that are of the same kind as that NIC and at the same distance
 * from the rank's GPU. Below nested PCIe switches, `farther` counts those that share fewer switches with the GPU than
 * the rank's NIC does, and !farther counts the others. */
static int count_others(const struct telling *tell, bool farther)
{
    const struct inventory *inv = tell->inv;
    int n = 0, mine = common_bridges(tell, (size_t)tell->p->nic);
    for (size_t i = 0; i < inv->n_nics && tell->p->gpu >= 0; i++) {
        const struct inventory_nic *nic = &inv->nic[i];
        if ((int)i == tell->p->nic || !nic->is_active ||
            (nic->kind == NIC_ETHERNET) != (inv->nic[tell->p->nic].kind == NIC_ETHERNET) ||
            inventory_distance(&inv->gpu[tell->p->gpu].pci, &nic->pci) != tell->p->nic_distance)
            continue;
        bool is_farther = tell->p->nic_distance == DISTANCE_SAME_SWITCH && common_bridges(tell, i) < mine;
        n += is_farther == farther;
    }
    return n;
}

/* How near the NIC is, to its GPU or, without one, to its cores. */
static const char *nearness(const struct telling *tell, const struct inventory_nic *nic)
{
    static const char *const of_gpu[] = {
        [DISTANCE_SAME_SWITCH] = "below the same PCIe switch as its GPU",
        [DISTANCE_SAME_ROOT] = "below the same PCIe root as its GPU",
        [DISTANCE_SAME_PACKAGE] = "in the same package as its GPU",
        [DISTANCE_ACROSS] = "across packages from its GPU: none is nearer",
    };
    if (tell->p->gpu >= 0 && tell->p->nic_distance == DISTANCE_ACROSS &&
        (nic->pci.package < 0 || tell->inv->gpu[tell->p->gpu].pci.package < 0))
        return "at a distance from its GPU that is not told";
    if (tell->p->gpu >= 0)
        return of_gpu[tell->p->nic_distance];
    if (tell->p->nic_distance != DISTANCE_ACROSS)
        return "beside its cores";
    return cpus_within(&tell->inv->all, &nic->pci.local) ? "which is near no core more than another"
                                                         : "not beside its cores: none is";
}

void tell_nic(struct telling *tell)
{
    const struct inventory *inv = tell->inv;
    if (tell->p->nic < 0) {
        text_add(&tell->t, !inv->has_io  ? "Not looked for."
                           : inv->n_nics ? "None is active."
                                         : "The machine has none.");
        return;
    }
    const struct inventory_nic *nic = &inv->nic[tell->p->nic];
    text_ascii(&tell->t, inventory_nic_name(nic), 0);
    text_printf(&tell->t, " (%s), %s.", inventory_nic_kind_name(nic->kind), nearness(tell, nic));
    int n_near = count_others(tell, false), n_outer = count_others(tell, true);
    if (n_outer)
        text_printf(&tell->t, " It shares an inner switch with the GPU; %d more %s below the outer one only.", n_outer,
                    n_outer == 1 ? "is" : "are");
    if (n_near)
        text_printf(&tell->t,
                    " %d more %s as near; it is the one that the fewest ranks before this one have, then the first.",
                    n_near, n_near == 1 ? "is" : "are");
    text_add(&tell->t, nic->kind == NIC_ETHERNET ? " No InfiniBand, RoCE or Slingshot is active here." : "");
    text_add(&tell->t, tell->p->gpu >= 0 ? " NCCL chooses its NICs itself." : "");
}
