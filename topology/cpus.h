/* cpus.h - a set of CPUs by their OS numbers, laid out like the kernel's affinity mask. Pure. */
#ifndef DDP_TOPOLOGY_CPUS_H
#define DDP_TOPOLOGY_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define CPUS_MAX 8192 /* Linux's own limit */
#define CPUS_WORDS (CPUS_MAX / 64)

struct cpus {
    uint64_t word[CPUS_WORDS]; /* CPU i is bit i % 64 of word i / 64 */
};

void cpus_add(struct cpus *set, unsigned cpu); /* CPUs from CPUS_MAX on are ignored */
bool cpus_has(const struct cpus *set, unsigned cpu);
size_t cpus_count(const struct cpus *set);
bool cpus_equal(const struct cpus *a, const struct cpus *b);
bool cpus_within(const struct cpus *part, const struct cpus *whole);
bool cpus_touch(const struct cpus *a, const struct cpus *b); /* some CPU is in both */
unsigned cpus_next(const struct cpus *set, unsigned from);   /* its lowest CPU from `from` on; CPUS_MAX: none */
void cpus_or(struct cpus *set, const struct cpus *other);
void cpus_and(struct cpus *set, const struct cpus *other);

/* Reads "0-3,8" (cpus_format's form, also "none"; ascending order is not asked for, overlaps are allowed) and "0-46:2",
 * every second one, as taskset does. 0, or -1 with DDP_E_USAGE, which names the item, and *ret untouched: not a number,
 * CPUS_MAX or more, a range backwards, an empty item, a step of 0. */
int cpus_parse(const char *text, struct cpus *ret, ddp_error_t *errp);

/* "0-3,8", "none"; a text too long for buf ends in "...". size is at least 8. Returns buf. */
const char *cpus_format(const struct cpus *set, char *buf, size_t size);

#endif
