#include "t/unit/unit.h"

#include "t/unit/topology/showing.h"

struct machine *m;

static void add_pci(struct inventory_pci *pci, int bus, int numa, int root, int bridge)
{
    *pci = (struct inventory_pci){.bus = (uint8_t)bus, .numa = (int16_t)numa, .package = -1};
    if (root >= 0) {
        pci->path[pci->depth++] = (uint16_t)root;
        pci->path[pci->depth++] = (uint16_t)bridge;
    }
    if (numa >= 0) {
        pci->package = m->inv.numa[numa].package;
        pci->local = inventory_numa_cpus(&m->inv, (size_t)numa);
    } else {
        pci->local = m->inv.all;
    }
}

void add_gpu(int bus, int numa, int root, int bridge)
{
    struct inventory_gpu *g = &m->inv.gpu[m->inv.n_gpus++];
    memset(g, 0, sizeof *g);
    add_pci(&g->pci, bus, numa, root, bridge);
    snprintf(g->name, sizeof g->name, "NVIDIA H100 80GB HBM3");
}

void add_nic(const char *name, int bus, int numa, int root, int bridge)
{
    struct inventory_nic *n = &m->inv.nic[m->inv.n_nics++];
    memset(n, 0, sizeof *n);
    add_pci(&n->pci, bus, numa, root, bridge);
    n->kind = NIC_INFINIBAND;
    n->is_active = true;
    snprintf(n->verbs, sizeof n->verbs, "%s", name);
}

void add_cores(int n_packages, int n_numas, int n_cores, int n_per_cache)
{
    struct inventory *inv = &m->inv;
    inv->n_packages = (size_t)n_packages;
    inv->n_numas = (size_t)n_numas;
    inv->n_cores = (size_t)n_cores;
    inv->n_caches = (size_t)((n_cores + n_per_cache - 1) / n_per_cache);
    for (int i = 0; i < n_numas; i++)
        inv->numa[i] =
            (struct inventory_numa){(int16_t)(8 * i), (int16_t)(i * n_packages / n_numas), UINT64_C(64) << 30};
    for (int c = 0; c < n_cores; c++) {
        int numa = c * n_numas / n_cores;
        inv->core[c] = (struct inventory_core){inv->numa[numa].package,
                                               (int16_t)numa,
                                               (int16_t)(c / n_per_cache),
                                               2,
                                               {(uint16_t)c, (uint16_t)(c + n_cores)}};
        cpus_add(&inv->all, (unsigned)c);
        cpus_add(&inv->all, (unsigned)(c + n_cores));
    }
    inv->allowed = inv->all;
}

int machine_set_up(void **state)
{
    (void)state;
    m = calloc(1, sizeof *m);
    if (!m)
        return -1;
    snprintf(m->inv.origin, sizeof m->inv.origin, "made-up");
    m->inv.has_io = true;
    return 0;
}

int machine_tear_down(void **state)
{
    (void)state;
    free(m);
    return 0;
}

void place(int n)
{
    m->request = (struct placement_request){&m->inv, n, m->rank, m->request.keep};
    for (int r = 0; r < n; r++) {
        if (!cpus_count(&m->rank[r].mask))
            m->rank[r].mask = m->inv.all;
        if (m->rank[r].n_devices)
            continue;
        m->rank[r].n_devices = (int16_t)m->inv.n_gpus;
        for (int i = 0; i < m->rank[r].n_devices; i++)
            m->rank[r].device[i] = (int16_t)i;
    }
    m->show = (struct show){&m->inv, &m->request, m->place, "ranks as in a test"};
    ddp_error_t e;
    assert_int_equal(placement_choose(&m->request, m->place, &e), 0);
}

void two_gpus(void)
{
    add_cores(2, 4, 8, 2);
    add_gpu(0x1b, 0, 1, 2);
    add_gpu(0x9d, 2, 3, 4);
    add_nic("mlx5_0", 0x1c, 0, 1, 2);
    add_nic("mlx5_1", 0x9e, 2, 3, 4);
}

void place_hostile(void)
{
    two_gpus();
    snprintf(m->inv.origin, sizeof m->inv.origin, "%s", HOSTILE);
    snprintf(m->inv.cpu_model, sizeof m->inv.cpu_model, "<script>%s", HOSTILE);
    for (int i = 0; i < 2; i++) {
        memset(m->inv.gpu[i].name, 'x', 63);
        memcpy(m->inv.gpu[i].name, HOSTILE, sizeof HOSTILE - 1);
        snprintf(m->inv.gpu[i].uuid, sizeof m->inv.gpu[i].uuid, "%s", HOSTILE);
        snprintf(m->inv.nic[i].verbs, sizeof m->inv.nic[i].verbs, "%s", HOSTILE);
        snprintf(m->inv.nic[i].interface, sizeof m->inv.nic[i].interface, "%s", HOSTILE);
    }
    place(2);
    m->show.about = HOSTILE;
}
