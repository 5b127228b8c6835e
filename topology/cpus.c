#include "topology/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/num.h"

void cpus_add(struct cpus *set, unsigned cpu)
{
    if (cpu < CPUS_MAX)
        set->word[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool cpus_has(const struct cpus *set, unsigned cpu)
{
    return cpu < CPUS_MAX && (set->word[cpu / 64] >> cpu % 64 & 1);
}

size_t cpus_count(const struct cpus *set)
{
    size_t n = 0;
    for (size_t i = 0; i < CPUS_WORDS; i++)
        n += (size_t)__builtin_popcountll(set->word[i]);
    return n;
}

bool cpus_equal(const struct cpus *a, const struct cpus *b)
{
    return !memcmp(a, b, sizeof *a);
}

bool cpus_within(const struct cpus *part, const struct cpus *whole)
{
    for (size_t i = 0; i < CPUS_WORDS; i++)
        if (part->word[i] & ~whole->word[i])
            return false;
    return true;
}

bool cpus_touch(const struct cpus *a, const struct cpus *b)
{
    for (size_t i = 0; i < CPUS_WORDS; i++)
        if (a->word[i] & b->word[i])
            return true;
    return false;
}

unsigned cpus_next(const struct cpus *set, unsigned from)
{
    for (unsigned w = from / 64; w < CPUS_WORDS; w++) {
        uint64_t rest = set->word[w];
        if (w == from / 64)
            rest &= ~UINT64_C(0) << from % 64;
        if (rest)
            return w * 64 + (unsigned)__builtin_ctzll(rest);
    }
    return CPUS_MAX;
}

void cpus_or(struct cpus *set, const struct cpus *other)
{
    for (size_t i = 0; i < CPUS_WORDS; i++)
        set->word[i] |= other->word[i];
}

void cpus_and(struct cpus *set, const struct cpus *other)
{
    for (size_t i = 0; i < CPUS_WORDS; i++)
        set->word[i] &= other->word[i];
}

/* One item, "7", "3-5" or "0-46:2", of len characters. */
static int parse_item(const char *item, size_t len, struct cpus *set)
{
    char text[32];
    int lo, hi, step = 1;
    if (len >= sizeof text)
        return -1;
    memcpy(text, item, len);
    text[len] = 0;
    char *dash = strchr(text, '-');
    char *colon = dash ? strchr(dash, ':') : NULL;
    if (dash)
        *dash = 0;
    if (colon)
        *colon = 0;
    if (colon && num_int(colon + 1, 1, CPUS_MAX - 1, &step) < 0)
        return -1;
    if (num_int(text, 0, CPUS_MAX - 1, &lo) < 0 || num_int(dash ? dash + 1 : text, 0, CPUS_MAX - 1, &hi) < 0 || hi < lo)
        return -1;
    for (int i = lo; i <= hi; i += step)
        cpus_add(set, (unsigned)i);
    return 0;
}

int cpus_parse(const char *text, struct cpus *ret, ddp_error_t *errp)
{
    struct cpus set = {{0}};
    for (const char *p = strcmp(text, "none") ? text : NULL; p;) {
        size_t len = strcspn(p, ",");
        if (len == 0)
            return error_set(errp, DDP_E_USAGE, EINVAL, "the list of CPUs \"%.64s\" has an empty item", text);
        if (parse_item(p, len, &set) < 0)
            return error_set(errp, DDP_E_USAGE, EINVAL,
                             "\"%.*s\" in a list of CPUs: write numbers below %d and rising ranges, 0-3,8",
                             len > 32 ? 32 : (int)len, p, CPUS_MAX);
        p = p[len] ? p + len + 1 : NULL;
    }
    *ret = set;
    return 0;
}

const char *cpus_format(const struct cpus *set, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    for (unsigned lo = cpus_next(set, 0), hi; lo < CPUS_MAX; lo = cpus_next(set, hi + 1)) {
        hi = lo;
        while (cpus_has(set, hi + 1))
            hi++;
        char part[32];
        int n = lo == hi ? snprintf(part, sizeof part, "%s%u", used ? "," : "", lo)
                         : snprintf(part, sizeof part, "%s%u-%u", used ? "," : "", lo, hi);
        if (used + (size_t)n + 4 > size) {
            memcpy(buf + used, "...", 4);
            return buf;
        }
        memcpy(buf + used, part, (size_t)n + 1);
        used += (size_t)n;
    }
    if (!used)
        memcpy(buf, "none", 5);
    return buf;
}
