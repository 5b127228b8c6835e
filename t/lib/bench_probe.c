/* bench_probe.c - the command `ddp` with a planted fault, for t4301: linked with ld's --wrap around two calls of
 * libddp, so that everything else is the real one. PROBE_FAULT=element: on rank 1, one element of each all-reduce's
 * result is wrong. */
#include <stdlib.h>
#include <string.h>

#include "runtime/ddp.h"

ddp_work_t *__real_ddp_allreduce(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *e);
int __real_ddp_wait(ddp_work_t *w, ddp_error_t *errp);
ddp_work_t *__wrap_ddp_allreduce(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *e);
int __wrap_ddp_wait(ddp_work_t *w, ddp_error_t *errp);

#define BIG_ELEMS 1000 /* what is measured; what the bench exchanges beside it is smaller */

static unsigned char *spoil; /* in the present all-reduce; NULL: nothing */

ddp_work_t *__wrap_ddp_allreduce(ddp_t *d, void *data, size_t n, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *e)
{
    bool is_planted = getenv("PROBE_FAULT") && !strcmp(getenv("PROBE_FAULT"), "element");
    spoil = is_planted && n >= BIG_ELEMS && ddp_world(d)->rank == 1 ? (unsigned char *)data + n / 2 : NULL;
    return __real_ddp_allreduce(d, data, n, dtype, op, e);
}

int __wrap_ddp_wait(ddp_work_t *w, ddp_error_t *errp)
{
    int rc = __real_ddp_wait(w, errp);
    if (rc == 0 && spoil)
        *spoil ^= 1;
    return rc;
}
