/* json.c - machine and placement as one JSON object; doc/placement.md lists its keys. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "topology/show/impl.h"

/* The text, which it frees, as a JSON string; NULL: no memory. */
static json_t *take(struct text *t)
{
    char *s = text_take(t);
    json_t *j = s ? json_string(s) : NULL;
    free(s);
    return j;
}

/* A name from outside, or null where it is empty. */
static json_t *name_or_null(const char *name)
{
    struct text t = {0};
    if (!name || !name[0])
        return json_null();
    text_name(&t, name, 0);
    return take(&t);
}

static json_t *cpus_of(const struct cpus *set)
{
    struct text t = {0};
    text_cpus(&t, set);
    return take(&t);
}

static json_t *known(long long value)
{
    return value < 0 ? json_null() : json_integer(value);
}

/* The array with the item, which it takes; NULL, and nothing left, where memory was short for one of them. */
static json_t *with(json_t *array, json_t *item)
{
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *numas_of(const struct inventory *inv)
{
    json_t *a = json_array();
    for (size_t i = 0; i < inv->n_numas; i++) {
        struct cpus cpus = inventory_numa_cpus(inv, i);
        a = with(a, json_pack("{s:i, s:o, s:o, s:I, s:I}", "node", inv->numa[i].os_index, "package",
                              known(inv->numa[i].package), "cpus", cpus_of(&cpus), "cores",
                              (json_int_t)inventory_count_cores(inv, &cpus), "memory_bytes",
                              (json_int_t)inv->numa[i].memory_bytes));
    }
    return a;
}

/* The number by which Linux calls a NUMA node. */
static json_t *node_of(const struct inventory *inv, int numa)
{
    return known(numa < 0 ? -1 : inv->numa[numa].os_index);
}

static json_t *cores_of(const struct inventory *inv)
{
    json_t *a = json_array();
    for (size_t i = 0; i < inv->n_cores; i++) {
        const struct inventory_core *c = &inv->core[i];
        struct cpus cpus = inventory_core_cpus(inv, i);
        a = with(a, json_pack("{s:o, s:o, s:o, s:o}", "package", known(c->package), "node", node_of(inv, c->numa),
                              "cache", known(c->cache), "cpus", cpus_of(&cpus)));
    }
    return a;
}

static json_t *bus_of(const struct inventory_pci *pci)
{
    char bus[INVENTORY_BUS_TEXT];
    return json_string(inventory_bus(pci, bus));
}

static json_t *distances_of(const struct inventory *inv, size_t gpu, bool to_nics)
{
    json_t *a = json_array();
    for (size_t i = 0; i < (to_nics ? inv->n_nics : inv->n_gpus); i++) {
        const struct inventory_pci *other = to_nics ? &inv->nic[i].pci : &inv->gpu[i].pci;
        bool is_self = !to_nics && i == gpu;
        a = with(a, is_self ? json_null()
                            : json_string(inventory_distance_name(inventory_distance(&inv->gpu[gpu].pci, other))));
    }
    return a;
}

static json_t *links_of(const struct inventory *inv, size_t gpu)
{
    json_t *a = json_array();
    for (size_t i = 0; i < inv->n_gpus; i++)
        a = with(a, json_integer(inv->link_mbps[gpu][i]));
    return a;
}

static json_t *gpus_of(const struct inventory *inv)
{
    json_t *a = json_array();
    for (size_t i = 0; i < inv->n_gpus; i++) {
        const struct inventory_gpu *g = &inv->gpu[i];
        a = with(a, json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "bus", bus_of(&g->pci),
                              "vendor", g->vendor == VENDOR_AMD ? "AMD" : "NVIDIA", "name", name_or_null(g->name),
                              "uuid", name_or_null(g->uuid), "package", known(g->pci.package), "node",
                              node_of(inv, g->pci.numa), "cpus", cpus_of(&g->pci.local), "has_locality",
                              inventory_has_home(inv, &g->pci), "gpu_distance", distances_of(inv, i, false),
                              "nic_distance", distances_of(inv, i, true), "link_mbps", links_of(inv, i)));
    }
    return a;
}

static json_t *nics_of(const struct inventory *inv)
{
    json_t *a = json_array();
    for (size_t i = 0; i < inv->n_nics; i++) {
        const struct inventory_nic *n = &inv->nic[i];
        a = with(a, json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "bus", bus_of(&n->pci), "kind",
                              inventory_nic_kind_name(n->kind), "active", n->is_active, "verbs", name_or_null(n->verbs),
                              "interface", name_or_null(n->interface), "package", known(n->pci.package), "node",
                              node_of(inv, n->pci.numa), "cpus", cpus_of(&n->pci.local)));
    }
    return a;
}

static json_t *devices_of(const struct placement_rank *r)
{
    json_t *a = json_array();
    for (int i = 0; i < r->n_devices; i++)
        a = with(a, known(r->device[i]));
    return a;
}

static json_t *reason_of(enum place_reason reason)
{
    static const char *const names[] = {
        [PLACE_KEPT] = "kept",   [PLACE_OWN] = "own",       [PLACE_GPU] = "gpu",
        [PLACE_SHARE] = "share", [PLACE_SHARED] = "shared",
    };
    return json_string(names[reason]);
}

static json_t *rank_of(const struct show *s, int rank)
{
    const struct inventory *inv = s->inventory;
    const struct placement_rank *r = &s->request->rank[rank];
    const struct place *p = &s->place[rank];
    const char *distance = p->nic >= 0 ? inventory_distance_name(p->nic_distance) : NULL;
    return json_pack("{s:i, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:i, s:o, s:o, s:s?, s:o, s:o}", "rank", rank,
                     "mask", cpus_of(&r->mask), "devices", devices_of(r), "cpus", cpus_of(&p->cpus), "cores",
                     p->n_cores, "near_cores", p->n_near, "core_ranks", p->n_sharing, "device", known(p->device), "gpu",
                     known(p->gpu), "gpu_ranks", p->n_gpu_sharing, "node", node_of(inv, p->numa), "nic", known(p->nic),
                     "nic_distance", distance, "reason", reason_of(p->reason), "why",
                     name_or_null(placement_why(s->request, p)));
}

static json_t *ranks_of(const struct show *s)
{
    json_t *a = json_array();
    for (int r = 0; r < s->request->n_ranks; r++)
        a = with(a, rank_of(s, r));
    return a;
}

/* The sentences, without "note: ". */
static json_t *notes_of(const struct show *s)
{
    struct text t = {0};
    show_add_notes(&t, s);
    char *all = text_take(&t), *rest = all, *line;
    json_t *a = all ? json_array() : NULL;
    while (all && (line = strsep(&rest, "\n")))
        if (line[0])
            a = with(a, json_string(begins(line, "note: ") ? line + strlen("note: ") : line));
    free(all);
    return a;
}

static json_t *machine_of(const struct inventory *inv)
{
    return json_pack("{s:o, s:o, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "origin", name_or_null(inv->origin),
                     "cpu_model", name_or_null(inv->cpu_model), "has_io", inv->has_io, "packages",
                     (json_int_t)inv->n_packages, "cpus", cpus_of(&inv->all), "allowed", cpus_of(&inv->allowed),
                     "numa_nodes", numas_of(inv), "cores", cores_of(inv), "gpus", gpus_of(inv), "nics", nics_of(inv));
}

char *show_json(const struct show *s)
{
    json_t *j = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "version", 1, "about", name_or_null(s->about), "keep",
                          name_or_null(s->request->keep), "machine", machine_of(s->inventory), "ranks", ranks_of(s),
                          "notes", notes_of(s));
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    struct text t = {0};
    if (text)
        text_printf(&t, "%s\n", text);
    else
        t.is_lost = true;
    free(text);
    return text_take(&t);
}
