/* The table of ranks and its notes, on machines made up here. */
#include "t/unit/unit.h"

#include "t/unit/topology/showing.h"

static void assert_table(const char *want)
{
    char *t = show_table(&m->show);
    assert_string_equal(t, want);
    free(t);
}

static void table_has_a_line_per_rank(void **state)
{
    (void)state;
    two_gpus();
    place(2);
    assert_table(
        "rank  GPU                                   cores      CPUs       memory   NIC                  why\n"
        "   0  0 0000:1b:00.0 NVIDIA H100 80GB HBM3  4, 2 near  0-3,8-11   node 0   mlx5_0, same switch  beside its "
        "GPU\n"
        "   1  1 0000:9d:00.0 NVIDIA H100 80GB HBM3  4, 2 near  4-7,12-15  node 16  mlx5_1, same switch  beside its "
        "GPU\n"
        "note: ranks 0 and 1: only some of the cores are beside the GPU: no more of those are left\n");
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
    assert_table("rank  cores       CPUs  memory  why\n"
                 " 0-3  1, 4 ranks  0,2   node 0  one core, shared\n"
                 " 4-7  1, 4 ranks  1,3   node 0  one core, shared\n"
                 "note: ranks 0-7: more ranks than cores: ask for a core per rank (--cpus-per-task)\n");
}

static void many_ranks_in_turn_are_folded(void **state)
{
    (void)state;
    add_cores(2, 2, 40, 20);
    place(20);
    assert_table(" rank  cores   CPUs                 memory  why\n"
                 "  0-9  2 each  0-19,40-59 in turn   node 0  an equal share of the cores\n"
                 "10-19  2 each  20-39,60-79 in turn  node 8  an equal share of the cores\n");
    place(16);
    char *t = show_table(&m->show);
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

static const struct CMUnitTest tests[] = {
    CASE(table_has_a_line_per_rank),
    CASE(equal_tables_mean_equal_nodes),
    CASE(alike_ranks_are_folded),
    CASE(many_ranks_in_turn_are_folded),
    CASE(ranks_of_other_places_are_not_folded),
    CASE(notes_name_what_deserves_attention),
    CASE(unknown_devices_are_not_called_shared),
};
UNIT_MAIN(tests)
