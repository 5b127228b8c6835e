/* A double of libpmix for tests (t2004): one rank, which is its own server. The call that PMIX_DOUBLE_HANG names does
 * not return, or is not answered. With PMIX_DOUBLE_LATE it has a card of a program before, and takes 1.5 s to tell it.
 * Not a PMIx library: what the boot does not call is missing. */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_key_t put_key;
static char put_data[4096];
static size_t put_n;

static bool is_earlier(const char *key)
{
    return getenv("PMIX_DOUBLE_LATE") && !strcmp(key, "ddp.boot.1");
}

struct late {
    pmix_value_cbfunc_t f;
    void *arg;
};

static void *tell_late(void *arg)
{
    struct late *l = arg;
    pmix_value_t v = {.type = PMIX_BYTE_OBJECT, .data.bo = {"earlier", 7}};
    usleep(1500000);
    l->f(PMIX_SUCCESS, &v, l->arg);
    free(l);
    return NULL;
}

static pmix_status_t get_late(pmix_value_cbfunc_t f, void *arg)
{
    pthread_t thread;
    struct late *l = malloc(sizeof *l);
    if (!l)
        return PMIX_ERR_NOMEM;
    *l = (struct late){f, arg};
    if (pthread_create(&thread, NULL, tell_late, l) != 0)
        return PMIX_ERROR;
    pthread_detach(thread);
    return PMIX_SUCCESS;
}

static void hang_in(const char *call)
{
    const char *which = getenv("PMIX_DOUBLE_HANG");
    while (which && !strcmp(which, call))
        pause();
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    hang_in("PMIx_Init");
    memset(proc, 0, sizeof *proc);
    snprintf(proc->nspace, sizeof proc->nspace, "double");
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    hang_in("PMIx_Finalize");
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *val)
{
    (void)scope;
    if (val->type != PMIX_BYTE_OBJECT || val->data.bo.size > sizeof put_data || is_earlier(key))
        return PMIX_ERR_BAD_PARAM;
    snprintf(put_key, sizeof put_key, "%s", key);
    put_n = val->data.bo.size;
    memcpy(put_data, val->data.bo.bytes, put_n);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
    hang_in("PMIx_Commit");
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo,
                          pmix_value_cbfunc_t cbfunc, void *cbdata)
{
    const char *silent = getenv("PMIX_DOUBLE_HANG");
    pmix_value_t v = {.type = PMIX_UINT32};
    pmix_status_t status = PMIX_SUCCESS;
    (void)info;
    (void)ninfo;
    if (silent && !strcmp(silent, "PMIx_Get_nb"))
        return PMIX_SUCCESS;
    if (proc->rank == 0 && is_earlier(key))
        return get_late(cbfunc, cbdata);
    v.data.uint32 = 1;
    if (proc->rank == 0 && put_n && !strcmp(key, put_key)) {
        v.type = PMIX_BYTE_OBJECT;
        v.data.bo.bytes = put_data;
        v.data.bo.size = put_n;
    } else if (proc->rank != PMIX_RANK_WILDCARD) {
        status = PMIX_ERR_NOT_FOUND;
    }
    cbfunc(status, &v, cbdata);
    return PMIX_SUCCESS;
}

const char *PMIx_Error_string(pmix_status_t status)
{
    return status == PMIX_SUCCESS ? "SUCCESS" : status == PMIX_ERR_TIMEOUT ? "TIMEOUT" : "ERROR";
}
