#include "runtime/base/json_limit.h"

#include <errno.h>

struct count {
    size_t depth, nests, commas;
};

/* What follows the string that begins behind the quote at text[i]. */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    while (++i < n && text[i] != '"')
        i += text[i] == '\\';
    return i + 1;
}

static int over(ddp_error_t *errp, const char *what, unsigned max, const char *of)
{
    return error_set(errp, DDP_E_DATA, E2BIG, "%s: it has more than %u %s: no checkpoint or model has", what, max, of);
}

static int check(const struct count *c, const char *what, ddp_error_t *errp)
{
    if (c->depth > JSON_DEPTH_MAX)
        return over(errp, what, JSON_DEPTH_MAX, "levels of objects and arrays");
    if (c->nests > JSON_NESTS_MAX)
        return over(errp, what, JSON_NESTS_MAX, "objects and arrays");
    if (c->nests + c->commas >= JSON_VALUES_MAX) /* each object or array has one value more than commas, or none */
        return over(errp, what, JSON_VALUES_MAX, "values");
    return 0;
}

int json_limit_check(const char *text, size_t n, const char *what, ddp_error_t *errp)
{
    struct count c = {0, 0, 0};
    for (size_t i = 0; i < n;) {
        switch (text[i]) {
        case '"':
            i = skip_string(text, n, i);
            continue;
        case '{':
        case '[':
            c.depth++;
            c.nests++;
            break;
        case '}':
        case ']':
            c.depth -= c.depth > 0;
            break;
        case ',':
            c.commas++;
            break;
        default:
            i++;
            continue;
        }
        if (check(&c, what, errp) < 0)
            return -1;
        i++;
    }
    return 0;
}
