/* Why a rank got what it got, on machines made up here. */
#include "t/unit/unit.h"

#include "t/unit/topology/showing.h"

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

static void a_missing_memory_node_is_told(void **state)
{
    (void)state;
    two_gpus();
    m->rank[0].mask = inventory_numa_cpus(&m->inv, 0);
    place(1);
    assert_explained(0, (const char *const[]){"what it starts computes beside all of its GPUs", NULL});
    m->inv.n_gpus = 0;
    m->inv.numa[0].memory_bytes = 0;
    m->rank[0].n_devices = 0;
    place(1);
    assert_explained(0, (const char *const[]){"there is none with memory that all of its cores belong to", NULL});
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

static const struct CMUnitTest tests[] = {
    CASE(reasons_are_told),
    CASE(restrictions_are_told),
    CASE(crowds_are_told),
    CASE(lists_of_their_own_are_told),
    CASE(machines_without_gpus_are_told),
    CASE(a_missing_memory_node_is_told),
    CASE(unknown_places_are_told),
};
UNIT_MAIN(tests)
