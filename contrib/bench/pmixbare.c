/* pmixbare.c - the least that a program needs to know its peers through PMIx: what contrib/bench/launch compares with.
 *
 * Init, one value of each rank, a collecting fence, the last rank's value read, finalize. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static void check(pmix_status_t rc, const char *what)
{
    if (rc == PMIX_SUCCESS)
        return;
    fprintf(stderr, "pmixbare: %s: %s\n", what, PMIx_Error_string(rc));
    exit(1);
}

int main(void)
{
    pmix_proc_t me, peer;
    pmix_value_t mine, *size, *got;
    pmix_info_t collect = {.key = PMIX_COLLECT_DATA, .value = {.type = PMIX_BOOL, .data = {.flag = true}}};

    check(PMIx_Init(&me, NULL, 0), "init");
    PMIX_LOAD_PROCID(&peer, me.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&peer, PMIX_JOB_SIZE, NULL, 0, &size), "size");
    PMIX_VALUE_CONSTRUCT(&mine);
    mine.type = PMIX_UINT32;
    mine.data.uint32 = me.rank;
    check(PMIx_Put(PMIX_GLOBAL, "bare", &mine), "put");
    check(PMIx_Commit(), "commit");
    check(PMIx_Fence(&peer, 1, &collect, 1), "fence");
    peer.rank = size->data.uint32 - 1;
    check(PMIx_Get(&peer, "bare", NULL, 0, &got), "get");
    if (got->data.uint32 != peer.rank)
        check(PMIX_ERROR, "the last rank's value");
    check(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
}
