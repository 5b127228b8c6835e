#include "runtime/ckpt/members.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_limit.h"
#include "runtime/base/json_read.h"
#include "runtime/base/num.h"

json_t *members_read(const char *text, size_t n, const char *what, ddp_error_t *errp)
{
    json_error_t why;
    if (json_limit_check(text, n, what, errp) < 0)
        return NULL;
    json_t *root = json_read(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root && errno == ENOMEM) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "%s: %s", what, why.text);
    } else if (!root) {
        error_set(errp, DDP_E_DATA, EINVAL, "%s: byte %d: %s", what, why.position, why.text);
    } else if (!json_is_object(root)) {
        error_set(errp, DDP_E_DATA, EINVAL, "%s: not a JSON object", what);
        json_decref(root);
        return NULL;
    }
    return root;
}

int members_u64(const json_t *value, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        v = (uint64_t)json_integer_value(value);
    else if (!json_is_string(value) || num_u64(json_string_value(value), UINT64_MAX, &v) < 0 || v <= INT64_MAX)
        return -1;
    if (v > max)
        return -1;
    *ret = v;
    return 0;
}

json_t *members_make_u64(uint64_t value)
{
    char text[24];
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

int members_int(const json_t *value, int *ret)
{
    uint64_t v;
    if (members_u64(value, INT_MAX, &v) < 0)
        return -1;
    *ret = (int)v;
    return 0;
}

int members_text(const json_t *value, char *ret, size_t size)
{
    if (!json_is_string(value) || json_string_length(value) >= size)
        return -1;
    memcpy(ret, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

int members_checksum(const json_t *value, uint64_t *ret)
{
    char hex[17];
    if (members_text(value, hex, sizeof hex) < 0 || strspn(hex, "0123456789abcdef") != 16)
        return -1;
    *ret = strtoull(hex, NULL, 16);
    return 0;
}

json_t *members_make_checksum(uint64_t value)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, value);
    return json_string(hex);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *members_twice(const char **name, size_t n)
{
    if (n)
        qsort(name, n, sizeof *name, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(name[i - 1], name[i]))
            return name[i];
    return NULL;
}
