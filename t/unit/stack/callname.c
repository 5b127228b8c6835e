/* Which functions are calls in which ranks wait for each other. */
#include "config.h"
#include "t/unit/unit.h"

#include "runtime/stack/callname.h"

static void symbols_of_calls_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *symbol, *name;
    } cases[] = {
        {"_ZN4gloo9broadcastERNS_16BroadcastOptionsE", "gloo::broadcast"},
        {"_ZN4gloo12_GLOBAL__N_19allreduceERKNS_6detail20AllreduceOptionsImplE", "gloo::allreduce"},
        {"_ZN4c10d8TCPStore6doWaitEN3c108ArrayRefISsEENSt6chronoE", "c10d::TCPStore"},
        {"_ZN4c10d8TCPStoreC1ENSt7__cxx11E", "c10d::TCPStore"},
        {"_ZN4c10d16ProcessGroupGloo8RecvWork4waitENSt6chronoE", "c10d::RecvWork"},
        {"_ZNK4c10d12_GLOBAL__N_18SendWork4waitEv", "c10d::SendWork"},
        {"MPI_Bcast", "MPI_Bcast"}, {"PMPI_Allreduce", "MPI_Allreduce"}, {"PMIx_Fence", "PMIx_Fence"},
        {"ncclCommInitRank", "ncclCommInitRank"}, {"shmem_barrier_all", "shmem_barrier_all"},
        {"ddp_barrier", "ddp_barrier"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64] = "";
        assert_int_equal(callname_find(cases[i].symbol, name, sizeof name), CALLNAME_CALL);
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
        "nccl_net_ofi_init", "ddp_", "ddp_Barrier", "_ZN4gloo12_GLOBAL__N_1E", "pthread_cond_wait", "poll",
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        char name[64] = "as it was";
        if (callname_find(symbols[i], name, sizeof name))
            fail_msg("%s: %s", symbols[i], name);
        assert_string_equal(name, "as it was");
    }
}

/* Where a library was stripped, that is all that there is. */
static void what_lies_below_a_call_is_known(void **state)
{
    char name[64];
    (void)state;
    assert_int_equal(callname_find("_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPi", name, sizeof name),
                     CALLNAME_INNER);
    assert_string_equal(name, "gloo");
}

static void a_long_name_is_cut(void **state)
{
    char name[8];
    (void)state;
    assert_int_equal(CALLNAME_CALL, callname_find("_ZN4gloo9broadcastE", name, sizeof name));
    assert_string_equal(name, "gloo::b");
    assert_int_equal(CALLNAME_CALL, callname_find("MPI_Allreduce", name, sizeof name));
    assert_string_equal(name, "MPI_All");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_of_calls_are_known),
        cmocka_unit_test(other_symbols_are_not),
        cmocka_unit_test(what_lies_below_a_call_is_known),
        cmocka_unit_test(a_long_name_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
