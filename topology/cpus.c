#include "topology/cpus.h"

#include <stdio.h>
#include <string.h>

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

const char *cpus_format(const struct cpus *set, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    for (unsigned lo = 0; lo < CPUS_MAX; lo++) {
        if (!cpus_has(set, lo))
            continue;
        unsigned hi = lo;
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
        lo = hi;
    }
    if (!used)
        memcpy(buf, "none", 5);
    return buf;
}
