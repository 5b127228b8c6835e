/* Which functions are calls in which ranks wait for each other. */
#include "config.h"
#include "t/unit/unit.h"

#include "runtime/stack/callname.h"

static void symbols_of_calls_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *symbol, *name;
        enum callname kind;
    } cases[] = {
        {"_ZN4gloo9broadcastERNS_16BroadcastOptionsE", "gloo::broadcast", CALLNAME_COLLECTIVE},
        {"_ZN4gloo12_GLOBAL__N_19allreduceERKNS_6detail20OptionsE", "gloo::allreduce", CALLNAME_COLLECTIVE},
        {"MPI_Bcast", "MPI_Bcast", CALLNAME_COLLECTIVE},
        {"PMPI_Allreduce", "MPI_Allreduce", CALLNAME_COLLECTIVE},
        {"MPI_Reduce_scatter_block", "MPI_Reduce_scatter_block", CALLNAME_COLLECTIVE},
        {"MPI_Neighbor_alltoall", "MPI_Neighbor_alltoall", CALLNAME_COLLECTIVE},
        {"MPI_Reduce_local", "MPI_Reduce_local", CALLNAME_MESSAGE},
        {"MPI_Recv", "MPI_Recv", CALLNAME_MESSAGE},
        {"PMPI_Wait", "MPI_Wait", CALLNAME_MESSAGE},
        {"PMIx_Fence", "PMIx_Fence", CALLNAME_MESSAGE},
        {"ncclCommInitRank", "ncclCommInitRank", CALLNAME_MESSAGE},
        {"shmem_barrier_all", "shmem_barrier_all", CALLNAME_MESSAGE},
        {"_ZN4c10d8TCPStore6doWaitEN3c108ArrayRefISsEENSt6chronoE", "c10d::TCPStore", CALLNAME_MESSAGE},
        {"_ZN4c10d8TCPStoreC1ENSt7__cxx11E", "c10d::TCPStore", CALLNAME_MESSAGE},
        {"_ZN4c10d16ProcessGroupGloo8RecvWork4waitENSt6chronoE", "c10d::RecvWork", CALLNAME_MESSAGE},
        {"_ZNK4c10d12_GLOBAL__N_18SendWork4waitEv", "c10d::SendWork", CALLNAME_MESSAGE},
        {"_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPi", "gloo", CALLNAME_INNER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64] = "";
        assert_int_equal(callname_find(cases[i].symbol, name, sizeof name), cases[i].kind);
        assert_string_equal(name, cases[i].name);
    }
}

/* Those that wait for work, in PyTorch, say, do so in ranks that compute, too. */
static void other_symbols_are_not(void **state)
{
    (void)state;
    static const char *const symbols[] = {
        "", "_", "_Z", "_ZN", "_ZN4", "_ZN0", "_ZN4gloo", "_ZN4glooE", "_ZN99gloo9broadcastE",
        "_ZN18446744073709551616gloo",
        "_ZN4gloo9transport3tcp4Loop3runEv", "_ZN4gloo7ContextC1Ev", "_ZN4gloo4SlotE", "_ZN4c10d4Work4waitENSt6chronoE",
        "_ZN4c10d16ProcessGroupGloo7runLoopEi", "_ZN4c10d8TCPStor", "doWait",
        "_ZN4c10d6detail16LibUVStoreDaemon3runEv",
        "_ZN6doWait8TCPStore6doWaitE", "_ZN1a1b1c1d1e1f1g1h1i1jE", "MPI_", "MPIR_Bcast", "PMPI", "nccl",
        "nccl_net_ofi_init", "ddp_barrier", "MPI_File_read_at", "_ZN4gloo12_GLOBAL__N_1E", "pthread_cond_wait", "poll",
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        char name[64] = "as it was";
        if (callname_find(symbols[i], name, sizeof name))
            fail_msg("%s: %s", symbols[i], name);
        assert_string_equal(name, "as it was");
    }
}

static void a_long_name_is_cut(void **state)
{
    char name[8];
    (void)state;
    assert_int_equal(CALLNAME_COLLECTIVE, callname_find("_ZN4gloo9broadcastE", name, sizeof name));
    assert_string_equal(name, "gloo::b");
    assert_int_equal(CALLNAME_COLLECTIVE, callname_find("MPI_Allreduce", name, sizeof name));
    assert_string_equal(name, "MPI_All");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_of_calls_are_known),
        cmocka_unit_test(other_symbols_are_not),
        cmocka_unit_test(a_long_name_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
