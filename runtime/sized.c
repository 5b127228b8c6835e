#include "runtime/sized.h"

#include <errno.h>
#include <string.h>

#include "runtime/ddp.h"

static void copy(void *ret, size_t n, const void *from, size_t n_from)
{
    size_t both = n < n_from ? n : n_from;
    memcpy(ret, from, both);
    memset((char *)ret + both, 0, n - both);
}

int sized_take(void *ret, size_t known, const void *from, size_t size, const char *call, ddp_error_t *errp)
{
    const char *bytes = from;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return error_set(errp, DDP_E_USAGE, ENOTSUP, "%s: the program sets what libddp " DDP_VERSION " does not "
                             "know: it needs the libddp that it was built with, or a later one", call);
    copy(ret, known, from, size);
    return 0;
}

void sized_give(void *ret, size_t size, const void *from, size_t known)
{
    copy(ret, size, from, known);
}
