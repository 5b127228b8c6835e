#include "runtime/base/json_read.h"

#include <errno.h>
#include <stdio.h>

json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *ret_why)
{
    errno = 0; /* which nothing but malloc sets to ENOMEM */
    json_t *root = json_loadb(text, n, flags, ret_why);
    if (root)
        return root;
    if (errno == ENOMEM)
        snprintf(ret_why->text, sizeof ret_why->text, "no memory to read it");
    else
        errno = EINVAL;
    return NULL;
}
