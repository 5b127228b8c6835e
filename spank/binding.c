#include "spank/binding.h"

#include <string.h>

static bool touches(const struct cpus *core, const struct cpus *set)
{
    struct cpus both = *core;
    cpus_and(&both, set);
    return cpus_count(&both) > 0;
}

size_t binding_cores(const struct cores *cores, const struct cpus *set)
{
    size_t n = 0;
    for (size_t i = 0; i < cores->n; i++)
        n += touches(&cores->core[i], set);
    return n;
}

/* The ranks of this node that have the same mask as this one: how many, and how many of them come before it. */
struct group {
    int size, at;
};

static const char *list_item(const char *list, int i, size_t *ret_len)
{
    for (; i > 0; i--) {
        list = strchr(list, ',');
        if (!list)
            return NULL;
        list++;
    }
    *ret_len = strcspn(list, ",");
    return list;
}

/* One mask in the list (or none) is everybody's; a list with a mask for each rank tells them apart. */
static struct group find_group(const struct binding_facts *f)
{
    struct group g = {f->local_size, f->local_rank};
    size_t mine_len, len;
    const char *list = f->bind_list ? f->bind_list : "";
    const char *mine = list_item(list, f->local_rank, &mine_len);
    if (!strchr(list, ','))
        return g;
    g = (struct group){0, 0};
    for (int i = 0; i < f->local_size; i++) {
        const char *item = list_item(list, i, &len);
        if (!item || !mine)
            return (struct group){1, 0}; /* fewer masks than ranks: not for us to judge */
        if (len == mine_len && !strncmp(item, mine, len)) {
            g.at += i < f->local_rank;
            g.size++;
        }
    }
    return g;
}

/* Neither task/affinity nor task/cgroup made this mask: it has more CPUs than the step holds. Where the mask is not the
 * whole machine, hardware threads that Slurm does not count (one CPU per core in slurm.conf) are allowed for. */
static bool is_unconfined(const struct binding_facts *f, const struct cores *cores)
{
    struct cpus machine = {{0}};
    size_t held = (size_t)f->cpus_on_node;
    for (size_t i = 0; i < cores->n; i++)
        cpus_or(&machine, &cores->core[i]);
    if (f->cpus_on_node <= 0)
        return true;
    return cpus_count(f->mask) > held && (cpus_within(&machine, f->mask) || binding_cores(cores, f->mask) > held);
}

/* Share `at` of `n`: of m cores, those from at * m / n up to (at + 1) * m / n, and at least one. */
static void share_cores(const struct cores *cores, const struct cpus *mask, struct group g, struct binding *ret)
{
    size_t m = binding_cores(cores, mask), n = (size_t)g.size, at = (size_t)g.at, k = 0;
    size_t lo = at * m / n, hi = (at + 1) * m / n;
    if (m == 0)
        return;
    if (hi <= lo)
        hi = lo + 1;
    memset(&ret->cpus, 0, sizeof ret->cpus);
    for (size_t i = 0; i < cores->n; i++) {
        if (!touches(&cores->core[i], mask))
            continue;
        if (k >= lo && k < hi)
            cpus_or(&ret->cpus, &cores->core[i]);
        k++;
    }
    cpus_and(&ret->cpus, mask);
    ret->n_sharing = 0;
    for (size_t r = 0; r < n; r++) /* with more ranks than cores, ranks that start at the same core share it */
        ret->n_sharing += n <= m ? r == at : r * m / n == lo;
    ret->is_changed = !cpus_equal(&ret->cpus, mask);
    ret->why = n <= m ? "an equal share of the cores" : "one core, shared: there are more ranks than cores";
}

struct binding binding_choose(const struct binding_facts *f, const struct cores *cores)
{
    struct group g = find_group(f);
    struct binding b = {.cpus = *f->mask, .n_sharing = g.size};
    if (!f->is_wanted)
        b.why = "bind=none";
    else if (f->is_users)
        b.why = "--cpu-bind was given";
    else if (g.size == 1)
        b.why = "Slurm gave this rank CPUs of its own";
    else if (is_unconfined(f, cores))
        b.why = "Slurm confines no task here";
    else
        share_cores(cores, f->mask, g, &b);
    return b;
}
