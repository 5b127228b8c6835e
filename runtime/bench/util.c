/* util.c - what the verbs of `ddp bench` share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/num.h"
#include "runtime/bench/bench.h"

int bench_bytes(const char *option, const char *text, size_t *ret, ddp_error_t *errp)
{
    static const char units[] = "KMG";
    char digits[32];
    size_t n = strspn(text, "0123456789");
    const char *unit = text[n] ? strchr(units, text[n]) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t x;
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    if ((text[n] && (!unit || text[n + 1])) || n >= sizeof digits || num_u64(digits, (uint64_t)1 << 40, &x) < 0 || !x ||
        x << shift >> shift != x || x << shift > (uint64_t)1 << 40)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s=%.64s is not a size: write bytes, or 64K, 25M, 1G (at most"
                         " 1024G)", option, text);
    *ret = (size_t)(x << shift);
    return 0;
}

static int reduce(ddp_t *d, void *x, size_t n, enum ddp_dtype dtype, enum ddp_op op, ddp_error_t *errp)
{
    ddp_work_t *w = ddp_allreduce(d, x, n, dtype, op, errp);
    return w ? ddp_wait(w, errp) : -1;
}

int bench_stats_over_ranks(ddp_t *d, double *x, size_t n, struct stats *ret, ddp_error_t *errp)
{
    if (reduce(d, x, n, DDP_F64, DDP_MAX, errp) < 0)
        return -1;
    *ret = stats_of(x, n);
    return 0;
}

int bench_sum_over_ranks(ddp_t *d, int64_t *x, ddp_error_t *errp)
{
    return reduce(d, x, 1, DDP_I64, DDP_SUM, errp);
}

void bench_json_stats(FILE *f, const char *name, struct stats s, double scale)
{
    fprintf(f, "\"%s\": {\"median\": %.9g, \"q1\": %.9g, \"q3\": %.9g, \"min\": %.9g, \"max\": %.9g}", name,
            s.median * scale, s.q1 * scale, s.q3 * scale, s.min * scale, s.max * scale);
}

double bench_now_s(void)
{
    return (double)clock_ns() / NS_PER_S;
}

void *bench_private(size_t n_bytes, ddp_error_t *errp)
{
    size_t n = (n_bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, n ? n : 64);
    if (!p) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu bytes: take a smaller -e", n_bytes);
        return NULL;
    }
    memset(p, 0, n);
    return p;
}
