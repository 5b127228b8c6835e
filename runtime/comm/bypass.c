#include "runtime/comm/bypass.h"

#define GAIN 0.85 /* of the time in use: what is changed for */

static void begin(struct bypass *b, uint64_t from, uint64_t period)
{
    b->from = from;
    b->period = period;
    b->best_ns[0] = b->best_ns[1] = UINT64_MAX;
}

struct bypass bypass_init(void)
{
    struct bypass b = {.is_on = false};
    begin(&b, 0, BYPASS_FIRST);
    return b;
}

bool bypass_of(const struct bypass *b, uint64_t n)
{
    bool is_trial = n >= b->from + b->period - BYPASS_TRIAL;
    return b->is_on != is_trial;
}

static void decide(struct bypass *b, uint64_t next)
{
    bool is_known = b->best_ns[0] < UINT64_MAX && b->best_ns[1] < UINT64_MAX;
    bool is_better = is_known && (double)b->best_ns[1] < GAIN * (double)b->best_ns[0];
    uint64_t longer = 2 * b->period < BYPASS_LONGEST ? 2 * b->period : BYPASS_LONGEST;
    b->is_on = b->is_on != is_better;
    begin(b, next, is_better ? BYPASS_FIRST : longer);
}

void bypass_took(struct bypass *b, uint64_t n, uint64_t ns)
{
    if (n < b->from) /* on its way when the period began */
        return;
    uint64_t at = n - b->from, ends[2] = {b->period - BYPASS_TRIAL - BYPASS_LAST, b->period};
    for (int i = 0; i < 2; i++)
        if (at < ends[i] && at + BYPASS_LAST >= ends[i] && ns < b->best_ns[i])
            b->best_ns[i] = ns;
    if (at + 1 >= b->period)
        decide(b, n + 1);
}
