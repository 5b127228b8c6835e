/* words.c - names of things, the same in table, drawing, picture and explanation. */
#include "runtime/base/num.h"
#include "topology/show/impl.h"

void show_add_gpu(struct text *t, const struct inventory *inv, int gpu)
{
    char bus[INVENTORY_BUS_TEXT];
    text_printf(t, "GPU %d (%s, ", gpu, inventory_bus(&inv->gpu[gpu].pci, bus));
    text_name(t, inv->gpu[gpu].name, 0);
    text_add(t, ")");
}

void show_add_node(struct text *t, const struct inventory *inv, int numa)
{
    text_printf(t, "node %d", inv->numa[numa].os_index);
}

void show_add_bytes(struct text *t, uint64_t n_bytes)
{
    double mib = (double)n_bytes / (1 << 20);
    if (mib < 1024)
        text_printf(t, "%.0f MiB", mib);
    else if (mib < 10 * 1024)
        text_printf(t, "%.1f GiB", mib / 1024);
    else
        text_printf(t, "%.0f GiB", mib / 1024);
}

int show_add_ranks(struct text *t, const bool *is_in, int n)
{
    int n_in = 0, n_runs = 0, run = 0;
    for (int i = 0; i < n; i++) {
        n_in += is_in[i];
        n_runs += is_in[i] && (i == 0 || !is_in[i - 1]);
    }
    text_add(t, n_in == 1 ? "rank " : n_in ? "ranks " : "no rank");
    for (int i = 0; i < n; i++) {
        int last = i;
        if (!is_in[i])
            continue;
        while (last + 1 < n && is_in[last + 1])
            last++;
        text_printf(t, "%s%d", run == 0 ? "" : run + 1 == n_runs ? " and " : ", ", i);
        if (last > i)
            text_printf(t, "%s%d", last == i + 1 && n_in == 2 ? " and " : "-", last);
        run++;
        i = last;
    }
    return n_in;
}

static void add_count(struct text *t, size_t n, const char *what)
{
    if (n)
        text_printf(t, "%s%zu %s%s", t->n ? ", " : "", n, what, PLURAL(n));
}

void show_add_machine(struct text *t, const struct inventory *inv)
{
    struct text own = {0};
    text_name(&own, inv->cpu_model, 0);
    add_count(&own, inv->n_packages, "package");
    add_count(&own, inv->n_numas, "NUMA node");
    add_count(&own, inv->n_cores, "core");
    add_count(&own, cpus_count(&inv->all), "CPU");
    add_count(&own, inv->n_gpus, "GPU");
    add_count(&own, inv->n_nics, "NIC");
    if (!inv->has_io)
        text_add(&own, ", GPUs and NICs not looked for");
    text_move(t, &own);
}
