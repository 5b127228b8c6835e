/* Drawings in text and in SVG, on machines made up here. */
#include "t/unit/unit.h"

#include "t/unit/topology/showing.h"
#include "topology/show/layout.h"

static bool is_within(struct box part, struct box whole)
{
    return part.x >= whole.x && part.y >= whole.y && part.x + part.w <= whole.x + whole.w + 0.01 &&
           part.y + part.h <= whole.y + whole.h + 0.01;
}

static bool overlaps(struct box a, struct box b)
{
    return a.x + 0.01 < b.x + b.w && b.x + 0.01 < a.x + a.w && a.y + 0.01 < b.y + b.h && b.y + 0.01 < a.y + a.h;
}

static void drawing_shows_places(void **state)
{
    (void)state;
    two_gpus();
    m->inv.link_mbps[0][1] = m->inv.link_mbps[1][0] = 25000;
    for (int r = 0; r < 2; r++)
        assert_int_equal(cpus_parse("0-3,8-11", &m->rank[r].mask, NULL), 0); /* package 0 */
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
    place_hostile();
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

static void check_layout(struct layout *l)
{
    struct box all = {0, 0, l->w, l->h}, solid[512];
    size_t n = 0;
    for (size_t c = 0; c < m->inv.n_cores; c++) {
        assert_true(is_within(l->core[c], l->node[layout_node(&m->inv, c)]));
        assert_true(is_within(l->core[c], *layout_package(l, m->inv.core[c].package)));
        solid[n++] = l->core[c];
    }
    for (size_t i = 0; i < m->inv.n_numas; i++)
        assert_true(is_within(l->node[i], *layout_package(l, m->inv.numa[i].package)));
    for (int i = -1; i < (int)m->inv.n_packages; i++) {
        struct box b = *layout_package(l, i);
        assert_true(is_within(b, all));
        for (int j = -1; j < i; j++) {
            struct box other = *layout_package(l, j);
            assert_false(b.w > 0 && other.w > 0 && overlaps(b, other));
        }
    }
    for (size_t i = 0; i < m->inv.n_gpus; i++) {
        int numa = m->inv.gpu[i].pci.numa;
        solid[n++] = l->gpu[i];
        assert_true(is_within(l->gpu[i], numa < 0 ? l->outside : l->node[numa]));
    }
    for (size_t i = 0; i < m->inv.n_nics; i++)
        solid[n++] = l->nic[i];
    for (size_t i = 0; i < n; i++) {
        assert_true(solid[i].w > 0 && is_within(solid[i], all));
        for (size_t j = 0; j < i; j++)
            assert_false(overlaps(solid[i], solid[j]));
    }
}

/* The last node goes, as of a machine whose user may have memory of the other nodes only. */
static void drop_node(void)
{
    int last = (int)--m->inv.n_numas;
    for (size_t c = 0; c < m->inv.n_cores; c++)
        if (m->inv.core[c].numa == last)
            m->inv.core[c].numa = -1;
}

static void cores_without_a_node_are_drawn(void **state)
{
    (void)state;
    add_cores(2, 2, 8, 2);
    drop_node();
    place(2);
    char *t = show_text(&m->show), *svg = show_svg(&m->show);
    assert_has(t, "package 0\n  NUMA node 0  64 GiB  4 cores  CPUs 0-3,8-11\n    cores      00 00\n");
    assert_has(t, "package 1\n  no NUMA node  4 cores  CPUs 4-7,12-15\n    cores      11 11\n");
    assert_has(svg, ">no NUMA node<");
    assert_has(svg, "core 7: CPUs 7,15");
    free(t);
    free(svg);
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
        if (n_numas > 1 && round % 4 == 0) {
            drop_node();
            n_numas--;
        }
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

static const struct CMUnitTest tests[] = {
    CASE(drawing_shows_places),
    CASE(nested_switches_are_told_apart),
    CASE(hostile_names_are_harmless),
    CASE(picture_names_everything),
    CASE(cores_without_a_node_are_drawn),
    CASE(pictures_do_not_overlap),
};
UNIT_MAIN(tests)
