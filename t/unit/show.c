/* How placements are shown, on machines made up here. */
#include "t/unit/unit.h"

#include <jansson.h>

#include "topology/show.h"
#include "topology/show/layout.h"
#include "topology/show/text.h"

/* Control characters, markup, no UTF-8, text that turns its direction; 63 bytes cut within a character. */
#define HOSTILE "a<b>&\"'\x1b[31m\n\xff\xe2\x80\xae\xc3\xa9]]>\xc3"

struct machine {
    struct inventory inv;
    struct placement_rank rank[64];
    struct place place[64];
    struct placement_request request;
    struct show show;
};

static struct machine *m;

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

static void add_gpu(int bus, int numa, int root, int bridge)
{
    struct inventory_gpu *g = &m->inv.gpu[m->inv.n_gpus++];
    memset(g, 0, sizeof *g);
    add_pci(&g->pci, bus, numa, root, bridge);
    snprintf(g->name, sizeof g->name, "NVIDIA H100 80GB HBM3");
}

static void add_nic(const char *name, int bus, int numa, int root, int bridge)
{
    struct inventory_nic *n = &m->inv.nic[m->inv.n_nics++];
    memset(n, 0, sizeof *n);
    add_pci(&n->pci, bus, numa, root, bridge);
    n->kind = NIC_INFINIBAND;
    n->is_active = true;
    snprintf(n->verbs, sizeof n->verbs, "%s", name);
}

/* Cores of two threads, CPU i and i + n_cores; caches of n_per_cache cores. */
static void add_cores(int n_packages, int n_numas, int n_cores, int n_per_cache)
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

static int set_up(void **state)
{
    (void)state;
    m = calloc(1, sizeof *m);
    if (!m)
        return -1;
    snprintf(m->inv.origin, sizeof m->inv.origin, "made-up");
    m->inv.has_io = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(m);
    return 0;
}

/* n ranks that may use everything and see all GPUs, placed by the rule. */
static void place(int n)
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

/* Two packages of two nodes, a switch with a GPU and a NIC in the first of each. */
static void two_gpus(void)
{
    add_cores(2, 4, 8, 2);
    add_gpu(0x1b, 0, 1, 2);
    add_gpu(0x9d, 2, 3, 4);
    add_nic("mlx5_0", 0x1c, 0, 1, 2);
    add_nic("mlx5_1", 0x9e, 2, 3, 4);
}

#define assert_has(text, part)                                                                                         \
    do {                                                                                                               \
        if (!strstr((text), (part)))                                                                                   \
            fail_msg("lacks \"%s\":\n%s", (part), (text));                                                             \
    } while (0)

#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        if (strstr((text), (part)))                                                                                    \
            fail_msg("has \"%s\":\n%s", (part), (text));                                                               \
    } while (0)

static void names_are_cleaned(void **state)
{
    (void)state;
    struct text t = {0};
    text_name(&t, HOSTILE, 0);
    text_add(&t, "|");
    text_ascii(&t, "\xc3\xa9 H100", 0);
    text_add(&t, "|");
    text_name(&t, "0123456789", 5);
    text_add(&t, "|");
    text_name(&t, "\xed\xa0\x80\xf5\xc0\xaf\xe2\x82", 0); /* a surrogate, too high, too long, cut off */
    char *s = text_take(&t);
    assert_string_equal(s, "a<b>&\"'?[31m???\xc3\xa9]]>?|? H100|0123~|????????");
    free(s);
}

static void markup_is_escaped(void **state)
{
    (void)state;
    struct text t = {0};
    text_xml(&t, "<a b='c'>&\"");
    char *s = text_take(&t);
    assert_string_equal(s, "&lt;a b=&#39;c&#39;&gt;&amp;&quot;");
    free(s);
}

static void cpu_lists_are_short(void **state)
{
    (void)state;
    static const struct {
        const char *list, *full, *brief;
    } cases[] = {
        {"none", "none", "none"},
        {"0", "0", "0"},
        {"0-3,8", "0-3,8", "0-3,8"},
        {"0,2,4,6", "0,2,4,6", "0-6:2"},
        {"0,2", "0,2", "0,2"},
        {"0,64", "0,64", "0,64"},
        {"1,5,9,100-102", "1,5,9,100-102", "1-9:4,100-102"},
        {"8190,8191", "8190-8191", "8190-8191"},
        {"0,2-4", "0,2-4", "0,2-4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cpus set = {{0}};
        struct text full = {0}, brief = {0};
        ddp_error_t e;
        assert_int_equal(cpus_parse(cases[i].list, &set, &e), 0);
        text_cpus(&full, &set);
        text_cpus_short(&brief, &set);
        char *a = text_take(&full), *b = text_take(&brief);
        assert_string_equal(a, cases[i].full);
        assert_string_equal(b, cases[i].brief);
        struct cpus back;
        assert_int_equal(cpus_parse(b, &back, &e), 0);
        assert_true(cpus_equal(&set, &back));
        free(a);
        free(b);
    }
}

static void table_has_a_line_per_rank(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    char *t = show_table(&m->show);
    assert_string_equal(
        t, "rank  GPU                                   cores      CPUs       memory   NIC                  why\n"
           "   0  0 0000:1b:00.0 NVIDIA H100 80GB HBM3  4, 2 near  0-3,8-11   node 0   mlx5_0, same switch  beside its "
           "GPU\n"
           "   1  1 0000:9d:00.0 NVIDIA H100 80GB HBM3  4, 2 near  4-7,12-15  node 16  mlx5_1, same switch  beside its "
           "GPU\n"
           "note: ranks 0 and 1: only some of the cores are beside the GPU: no more of those are left\n");
    free(t);
}

static void equal_tables_mean_equal_nodes(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    char *a = show_table(&m->show);
    snprintf(m->inv.origin, sizeof m->inv.origin, "another");
    char *b = show_table(&m->show);
    assert_string_equal(a, b);
    m->inv.nic[1].is_active = false;
    place(2);
    char *c = show_table(&m->show);
    assert_string_not_equal(a, c);
    free(a);
    free(b);
    free(c);
}

static void alike_ranks_are_folded(void **state)
{
    (void)state;
    add_cores(1, 1, 2, 2);
    place(8);
    char *t = show_table(&m->show);
    assert_string_equal(t, "rank  cores       CPUs  memory  why\n"
                           " 0-3  1, 4 ranks  0,2   node 0  one core, shared\n"
                           " 4-7  1, 4 ranks  1,3   node 0  one core, shared\n"
                           "note: ranks 0-7: more ranks than cores: ask for a core per rank (--cpus-per-task)\n");
    free(t);
}

static void many_ranks_in_turn_are_folded(void **state)
{
    (void)state;
    add_cores(2, 2, 40, 20);
    place(20);
    char *t = show_table(&m->show);
    assert_string_equal(t, " rank  cores   CPUs                 memory  why\n"
                           "  0-9  2 each  0-19,40-59 in turn   node 0  an equal share of the cores\n"
                           "10-19  2 each  20-39,60-79 in turn  node 8  an equal share of the cores\n");
    free(t);
    place(16);
    t = show_table(&m->show);
    assert_has(t, "\n   9  ");
    free(t);
}

static void ranks_of_other_places_are_not_folded(void **state)
{
    (void)state;
    add_cores(1, 1, 40, 40);
    place(20);
    struct place swapped = m->place[3];
    m->place[3] = m->place[7];
    m->place[7] = swapped;
    char *t = show_table(&m->show);
    assert_has(t, "\n 0-2  ");
    assert_has(t, "\n   3  ");
    assert_has(t, "\n 4-6  ");
    assert_has(t, "\n   7  ");
    assert_has(t, "\n8-19  ");
    free(t);
}

static void notes_name_what_deserves_attention(void **state)
{
    (void)state;
    two_gpus();
    place(4);
    char *t = show_table(&m->show);
    assert_has(t, "note: ranks 0-3: another rank has the same GPU, which NCCL refuses");
    free(t);
    memset(m->rank, 0, sizeof m->rank);
    m->rank[0].mask = m->rank[1].mask = inventory_numa_cpus(&m->inv, 1);
    place(2);
    t = show_table(&m->show);
    assert_has(t, "note: ranks 0 and 1: no core beside the GPU: ask for cores near it");
    free(t);
    m->request.keep = "--cpu-bind was given";
    place(2);
    t = show_table(&m->show);
    assert_has(t, "no core beside the GPU: masks stay");
    assert_has(t, "other ranks may run on the same cores");
    assert_has(t, "--cpu-bind was given");
    free(t);
    m->rank[0].mask = m->rank[1].mask = m->inv.all;
    place(2);
    t = show_table(&m->show);
    assert_has(t, "note: ranks 0 and 1: only some of the cores are beside the GPU: masks stay as they are");
    free(t);
    m->inv.gpu[1].pci.local = m->inv.all;
    m->rank[0].device[0] = -1;
    place(2);
    t = show_table(&m->show);
    assert_has(t, "note: rank 0: the GPU is not in the inventory");
    assert_has(t, "note: rank 1: the machine does not tell where the GPU sits");
    assert_has(t, "0 (not in the inventory)");
    free(t);
}

/* Devices that nobody knows may be different ones behind one number. */
static void unknown_devices_are_not_called_shared(void **state)
{
    (void)state;
    two_gpus();
    for (int r = 0; r < 2; r++) {
        m->rank[r].n_devices = 1;
        m->rank[r].device[0] = -1;
    }
    place(2);
    m->place[0].n_gpu_sharing = m->place[1].n_gpu_sharing = 2;
    char *t = show_table(&m->show), *why = show_explain(&m->show, 0);
    assert_lacks(t, "NCCL");
    assert_lacks(why, "NCCL refuses");
    free(t);
    free(why);
}

static void drawing_shows_places(void **state)
{
    (void)state;
    two_gpus();
    m->inv.link_mbps[0][1] = m->inv.link_mbps[1][0] = 25000;
    for (int r = 0; r < 2; r++)
        m->rank[r].mask = inventory_package_cpus(&m->inv, 0);
    place(2);
    char *t = show_text(&m->show), *table = show_table(&m->show);
    assert_has(t, "made-up: 2 packages, 4 NUMA nodes, 8 cores, 16 CPUs, 2 GPUs, 2 NICs\nranks as in a test\n");
    assert_has(t,
               "package 1\n  NUMA node 16  64 GiB  2 cores  CPUs 4-5,12-13\n    cores      --\n    switch  |  GPU 1 ");
    assert_has(t, "NVIDIA H100 80GB HBM3       <- rank 1\n");
    assert_has(t, "NUMA node 0  64 GiB  2 cores  CPUs 0-1,8-9\n    cores      00\n");
    assert_has(t, "every pair, 25 GB/s");
    assert_has(t, table);
    free(t);
    free(table);
}

static bool is_within(struct box part, struct box whole)
{
    return part.x >= whole.x && part.y >= whole.y && part.x + part.w <= whole.x + whole.w + 0.01 &&
           part.y + part.h <= whole.y + whole.h + 0.01;
}

static bool overlaps(struct box a, struct box b)
{
    return a.x + 0.01 < b.x + b.w && b.x + 0.01 < a.x + a.w && a.y + 0.01 < b.y + b.h && b.y + 0.01 < a.y + a.h;
}

/* A switch above two others, with a GPU and a NIC each and a NIC of its own. */
static void nested_switches_are_told_apart(void **state)
{
    (void)state;
    add_cores(1, 1, 4, 4);
    add_gpu(0x10, 0, 1, 2);
    add_gpu(0x20, 0, 1, 2);
    add_nic("mlx5_0", 0x11, 0, 1, 2);
    add_nic("mlx5_1", 0x21, 0, 1, 2);
    add_nic("mlx5_2", 0x31, 0, 1, 2);
    for (int i = 0; i < 2; i++) {
        struct inventory_pci *pci[] = {&m->inv.gpu[i].pci, &m->inv.nic[i].pci};
        for (int k = 0; k < 2; k++)
            pci[k]->path[pci[k]->depth++] = (uint16_t)(10 + i);
    }
    place(2);
    char *t = show_text(&m->show);
    assert_has(t, "    switch  || GPU 0 ");
    assert_has(t, "\n            || mlx5_0 ");
    assert_has(t, "\n            |\n            || GPU 1 ");
    assert_has(t, "\n            || mlx5_1 ");
    assert_has(t, "\n            |\n            |  mlx5_2 ");
    free(t);
    struct layout *l = layout_create(&m->inv);
    assert_int_equal(l->n_units, 3);
    for (size_t u = 0; u < 3; u++)
        assert_true(is_within(l->unit_box[u], l->outer_box[0]));
    assert_true(is_within(l->nic[0], l->unit_box[0]) && is_within(l->gpu[1], l->unit_box[1]));
    layout_destroy(l);
}

/* ---- JSON ---- */

static json_t *parse_json(void)
{
    char *t = show_json(&m->show);
    json_error_t e;
    json_t *j = json_loads(t, 0, &e);
    if (!j)
        fail_msg("line %d: %s:\n%s", e.line, e.text, t);
    free(t);
    return j;
}

static void json_has_machine_and_ranks(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    json_t *j = parse_json(), *machine = json_object_get(j, "machine"), *ranks = json_object_get(j, "ranks");
    assert_string_equal(json_string_value(json_object_get(machine, "origin")), "made-up");
    assert_true(json_is_null(json_object_get(machine, "cpu_model")));
    assert_int_equal(json_array_size(json_object_get(machine, "cores")), 8);
    json_t *node = json_array_get(json_object_get(machine, "numa_nodes"), 2);
    assert_int_equal(json_integer_value(json_object_get(node, "node")), 16);
    assert_int_equal(json_integer_value(json_object_get(node, "memory_bytes")), INT64_C(64) << 30);
    json_t *gpu = json_array_get(json_object_get(machine, "gpus"), 1);
    assert_string_equal(json_string_value(json_object_get(gpu, "bus")), "0000:9d:00.0");
    assert_string_equal(json_string_value(json_array_get(json_object_get(gpu, "nic_distance"), 1)), "same switch");
    json_t *rank = json_array_get(ranks, 1);
    assert_string_equal(json_string_value(json_object_get(rank, "cpus")), "4-7,12-15");
    assert_int_equal(json_integer_value(json_object_get(rank, "device")), 1);
    assert_int_equal(json_integer_value(json_object_get(rank, "near_cores")), 2);
    assert_string_equal(json_string_value(json_object_get(rank, "reason")), "gpu");
    assert_int_equal(json_array_size(json_object_get(j, "notes")), 1);
    json_decref(j);
}

static void json_says_null_for_none(void **state)
{
    (void)state;
    add_cores(1, 1, 2, 1);
    place(1);
    json_t *j = parse_json(), *rank = json_array_get(json_object_get(j, "ranks"), 0);
    static const char *const keys[] = {"device", "gpu", "nic", "nic_distance"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_is_null(json_object_get(rank, keys[i])))
            fail_msg("%s is not null", keys[i]);
    assert_true(json_is_null(json_object_get(j, "keep")));
    json_decref(j);
}

/* ---- SVG ---- */

/* XML's rules as far as these files use them: elements nest, attributes are quoted, text has no markup of its own. */
static void assert_well_formed(const char *svg)
{
    char open[32][32];
    int depth = 0;
    const char *p = strstr(svg, "?>");
    assert_non_null(p);
    for (p += 2; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 && c != '\n')
            fail_msg("control character %d", c);
        if (c == '&' && !strchr("aglq#", p[1]))
            fail_msg("a bare &: %.40s", p);
        if (c != '<')
            continue;
        bool is_end = p[1] == '/';
        char name[32];
        assert_int_equal(sscanf(p + 1 + is_end, "%31[a-z]", name), 1);
        char quote = 0;
        while (*++p && (quote || *p != '>')) {
            if (*p == '<')
                fail_msg("< in an element: %.40s", p);
            if (*p == '"' || *p == '\'')
                quote = !quote ? *p : quote == *p ? 0 : quote;
        }
        assert_int_equal(*p, '>');
        if (is_end) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (p[-1] != '/') {
            assert_true(depth < 32);
            strcpy(open[depth++], name);
        }
    }
    assert_int_equal(depth, 0);
}

static void hostile_names_are_harmless(void **state)
{
    (void)state;
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
    json_decref(parse_json());
    char *svg = show_svg(&m->show);
    assert_well_formed(svg);
    assert_lacks(svg, "<script");
    assert_has(svg, "&lt;script&gt;");
    char *texts[] = {svg, show_text(&m->show), show_table(&m->show), show_explain(&m->show, 1)};
    for (size_t i = 0; i < 4; i++) {
        assert_lacks(texts[i], "\x1b");
        assert_lacks(texts[i], "\xff");
        assert_lacks(texts[i], "\xe2\x80\xae");
    }
    for (const char *p = texts[2]; *p; p++)
        assert_true((*p >= ' ' && *p < 0x7f) || *p == '\n');
    for (size_t i = 0; i < 4; i++)
        free(texts[i]);
}

static void picture_names_everything(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    char *svg = show_svg(&m->show);
    assert_well_formed(svg);
    static const char *const parts[] = {
        "made-up", "ranks as in a test", "package 1",         "NUMA node 16",       "GPU 1",
        "mlx5_1",  "0000:9d:00.0",       "core 7: CPUs 7,15", "note: ranks 0 and 1"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_has(svg, parts[i]);
    assert_lacks(svg, "href");
    assert_lacks(svg, "nan");
    free(svg);
}

static void check_layout(const struct layout *l)
{
    struct box all = {0, 0, l->w, l->h}, solid[512];
    size_t n = 0;
    for (size_t c = 0; c < m->inv.n_cores; c++) {
        assert_true(is_within(l->core[c], l->numa[m->inv.core[c].numa]));
        solid[n++] = l->core[c];
    }
    for (size_t i = 0; i < m->inv.n_numas; i++)
        assert_true(is_within(l->numa[i], l->package[m->inv.numa[i].package]));
    for (size_t i = 0; i <= m->inv.n_packages; i++) {
        assert_true(is_within(l->package[i], all));
        for (size_t j = 0; j < i; j++)
            assert_false(l->package[i].w > 0 && l->package[j].w > 0 && overlaps(l->package[i], l->package[j]));
    }
    for (size_t i = 0; i < m->inv.n_gpus; i++) {
        int numa = m->inv.gpu[i].pci.numa;
        solid[n++] = l->gpu[i];
        assert_true(is_within(l->gpu[i], numa < 0 ? l->package[m->inv.n_packages] : l->numa[numa]));
    }
    for (size_t i = 0; i < m->inv.n_nics; i++)
        solid[n++] = l->nic[i];
    for (size_t i = 0; i < n; i++) {
        assert_true(solid[i].w > 0 && is_within(solid[i], all));
        for (size_t j = 0; j < i; j++)
            assert_false(overlaps(solid[i], solid[j]));
    }
}

/* Nothing in the picture lies on or outside of anything else, whatever the machine. */
static void pictures_do_not_overlap(void **state)
{
    (void)state;
    uint32_t x = 12345;
    for (int round = 0; round < 100; round++) {
        int v[8];
        for (int i = 0; i < 8; i++)
            v[i] = (int)((x = x * 1664525 + 1013904223) >> 16);
        memset(m, 0, sizeof *m);
        int n_packages = 1 + v[0] % 4, n_numas = n_packages * (1 + v[1] % 5), n_cores = n_numas * (1 + v[2] % 12);
        add_cores(n_packages, n_numas, n_cores, 1 + v[3] % 9);
        for (int i = 0; i < v[4] % 17; i++)
            add_gpu(i, i % 5 == 4 ? -1 : i * 7 % n_numas, i % 5 == 4 ? -1 : i * 7 % n_numas, 100 + i / (1 + v[6] % 4));
        for (int i = 0; i < v[5] % 11; i++)
            add_nic("mlx5_0", 64 + i, i % 4 == 3 ? -1 : i % n_numas, i % 4 == 3 ? -1 : i % n_numas,
                    100 + i % (1 + v[7] % 9));
        struct layout *l = layout_create(&m->inv);
        assert_non_null(l);
        check_layout(l);
        layout_destroy(l);
        place(1 + v[6] % 40);
        char *svg = show_svg(&m->show), *text = show_text(&m->show), *why = show_explain(&m->show, 0);
        assert_well_formed(svg);
        assert_non_null(text);
        assert_non_null(why);
        free(svg);
        free(text);
        free(why);
    }
}

/* ---- why ---- */

/* The explanation with its lines joined. */
static char *explain(int rank)
{
    char *t = show_explain(&m->show, rank), *to = t;
    assert_non_null(t);
    for (const char *from = t; *from; from++)
        if (*from != '\n')
            *to++ = *from;
        else if (!strncmp(from + 1, "        ", 8)) {
            *to++ = ' ';
            from += 8;
        } else {
            *to++ = '\n';
        }
    *to = 0;
    return t;
}

static void assert_explained(int rank, const char *const *parts)
{
    char *t = explain(rank);
    for (; *parts; parts++)
        assert_has(t, *parts);
    free(t);
}

static void reasons_are_told(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    assert_explained(1, (const char *const[]){
                            "rank 1 of 2 on made-up: beside its GPU", "mask    All 2 ranks of the node share one pool",
                            "8 cores, CPUs 0-15.", "no two ranks get the same one", "device 1, which it has",
                            "GPU 1 (0000:9d:00.0, NVIDIA H100 80GB HBM3)", "CPUs 4-5,12-13 are beside it",
                            "8 cores for 2 ranks: 4 each", "It has 4 cores, CPUs 4-7,12-15.",
                            "The pool has 2 cores beside its GPU, for rank 1; all of them are this rank's.",
                            "2 of its cores lie in the GPU's package", "NUMA node 16: its GPU sits there",
                            "mlx5_1 (InfiniBand), below the same PCIe switch as its GPU",
                            "better  No more than 2 cores are beside its GPU", NULL});
}

static void restrictions_are_told(void **state)
{
    (void)state;
    two_gpus();
    m->rank[0].mask = m->rank[1].mask = inventory_numa_cpus(&m->inv, 1);
    place(2);
    assert_explained(
        1,
        (const char *const[]){
            "6 of the machine's 8 cores are not in it", "1 is only in a package of its pool, 1 is away from its pool",
            "The pool has no core beside its GPU", "NUMA node 8: all of its cores belong to it",
            "This step holds no core beside GPU 1 (0000:9d:00.0, NVIDIA H100 80GB HBM3): ask for --exclusive", NULL});
    m->request.keep = "--cpu-bind was given";
    place(2);
    assert_explained(0, (const char *const[]){"CPUs stay as they were given: --cpu-bind was given.",
                                              "0 of them are beside its GPU",
                                              "Were its CPUs free to change, it would have 2,10", NULL});
}

static void crowds_are_told(void **state)
{
    (void)state;
    two_gpus();
    for (int r = 0; r < 9; r++)
        m->rank[r].mask = inventory_numa_cpus(&m->inv, 0);
    place(9);
    assert_explained(
        8, (const char *const[]){"each serves 4 or 5 ranks", "2 cores for 9 ranks: every rank has one, with others",
                                 "NCCL refuses two ranks on one GPU: start as many tasks", "--cpus-per-task=1", NULL});
}

static void lists_of_their_own_are_told(void **state)
{
    (void)state;
    two_gpus();
    for (int r = 0; r < 2; r++) {
        m->rank[r].n_devices = 1;
        m->rank[r].device[0] = (int16_t)r;
    }
    place(2);
    assert_explained(
        1, (const char *const[]){"The ranks see different devices", "Device 0 is GPU 1", "--gpus-per-node", NULL});
}

static void machines_without_gpus_are_told(void **state)
{
    (void)state;
    add_cores(2, 2, 7, 7);
    add_nic("mlx5_0", 0x1c, 1, 1, 2);
    place(2);
    assert_explained(0, (const char *const[]){"mask    The masks of ranks 0 and 1 overlap", "It sees none.",
                                              "3 each, and 1 rank has one more, spread over them; this one has 3",
                                              "in hwloc's order", "not beside its cores", NULL});
    assert_explained(1, (const char *const[]){"beside its cores", NULL});
    char *t = explain(0);
    assert_lacks(t, "better");
    assert_lacks(t, "NCCL");
    free(t);
    for (int r = 0; r < 2; r++)
        m->rank[r].mask = inventory_numa_cpus(&m->inv, (size_t)r);
    place(2);
    assert_explained(0, (const char *const[]){"No other rank's mask touches its own", NULL});
}

static void unknown_places_are_told(void **state)
{
    (void)state;
    add_cores(2, 2, 8, 4);
    add_gpu(0x1b, -1, -1, -1);
    place(1);
    assert_explained(0, (const char *const[]){"It is the node's only rank", "1 is at a place that is not told",
                                              "does not tell where it sits", "No node is best",
                                              "NIC     The machine has none.", NULL});
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(names_are_cleaned),
        T(markup_is_escaped),
        T(cpu_lists_are_short),
        T(table_has_a_line_per_rank),
        T(equal_tables_mean_equal_nodes),
        T(alike_ranks_are_folded),
        T(many_ranks_in_turn_are_folded),
        T(ranks_of_other_places_are_not_folded),
        T(notes_name_what_deserves_attention),
        T(unknown_devices_are_not_called_shared),
        T(drawing_shows_places),
        T(nested_switches_are_told_apart),
        T(json_has_machine_and_ranks),
        T(json_says_null_for_none),
        T(hostile_names_are_harmless),
        T(picture_names_everything),
        T(pictures_do_not_overlap),
        T(reasons_are_told),
        T(restrictions_are_told),
        T(crowds_are_told),
        T(lists_of_their_own_are_told),
        T(machines_without_gpus_are_told),
        T(unknown_places_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
