#include <stdlib.h>
#include <string.h>

#include "t/lib/ref_place.h"

enum { STATES_MAX = 300000, UNKNOWN = -1, IMPOSSIBLE = 1 << 20 };

struct search {
    int n_ranks, n_devices, at_least, at_most;
    const uint8_t *cost;
    int n_counts; /* (at_most + 1)^n_devices */
    int *least;   /* [n_ranks + 1][n_counts] the least sum of ranks from here on, given how many each device has */
};

static int count_of(const struct search *s, int counts, int device)
{
    for (; device > 0; device--)
        counts /= s->at_most + 1;
    return counts % (s->at_most + 1);
}

static int one_more(const struct search *s, int counts, int device)
{
    int unit = 1;
    for (; device > 0; device--)
        unit *= s->at_most + 1;
    return counts + unit;
}

static int least_from(const struct search *s, int rank, int counts)
{
    int *memo = &s->least[rank * s->n_counts + counts];
    if (*memo != UNKNOWN)
        return *memo;
    int best = rank < s->n_ranks ? IMPOSSIBLE : 0;
    for (int d = 0; d < s->n_devices; d++) {
        if (rank == s->n_ranks && count_of(s, counts, d) < s->at_least)
            best = IMPOSSIBLE;
        if (rank == s->n_ranks || count_of(s, counts, d) == s->at_most)
            continue;
        int sum = s->cost[rank * s->n_devices + d] + least_from(s, rank + 1, one_more(s, counts, d));
        best = sum < best ? sum : best;
    }
    return *memo = best;
}

bool ref_match(int n_ranks, int n_devices, const uint8_t *cost, int at_least, int at_most, int *ret_device)
{
    struct search s = {n_ranks, n_devices, at_least, at_most, cost, 1, NULL};
    for (int d = 0; d < n_devices; d++)
        if ((s.n_counts *= at_most + 1) > STATES_MAX / (n_ranks + 1))
            return false;
    size_t bytes = (size_t)(n_ranks + 1) * (size_t)s.n_counts * sizeof *s.least;
    s.least = malloc(bytes);
    memset(s.least, 0xff, bytes);
    for (int r = 0, counts = 0; r < n_ranks; r++) {
        int want = least_from(&s, r, counts), found = -1;
        for (int far = 0; far < n_devices && found < 0; far++)
            for (int d = 0; d < n_devices; d++)
                if ((d - r % n_devices + n_devices) % n_devices == far && count_of(&s, counts, d) < at_most &&
                    cost[r * n_devices + d] + least_from(&s, r + 1, one_more(&s, counts, d)) == want)
                    found = d;
        ret_device[r] = found;
        counts = one_more(&s, counts, found);
    }
    free(s.least);
    return true;
}

void ref_match_all(int n_ranks, int n_devices, const uint8_t *cost, int at_least, int at_most, int *ret_device)
{
    long n = 1, best = IMPOSSIBLE;
    for (int r = 0; r < n_ranks; r++)
        n *= n_devices;
    for (long k = 0; k < n; k++) { /* rank 0's digit is the highest: in the rule's order */
        int device[16], count[16] = {0}, sum = 0;
        long rest = k;
        for (int r = n_ranks - 1; r >= 0; r--, rest /= n_devices) {
            device[r] = (int)(rest % n_devices + r) % n_devices;
            count[device[r]]++;
            sum += cost[r * n_devices + device[r]];
        }
        bool is_allowed = true;
        for (int d = 0; d < n_devices; d++)
            is_allowed &= count[d] >= at_least && count[d] <= at_most;
        if (is_allowed && sum < best) {
            best = sum;
            memcpy(ret_device, device, (size_t)n_ranks * sizeof *device);
        }
    }
}
