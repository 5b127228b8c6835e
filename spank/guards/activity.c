#include "spank/guards/activity.h"

#define WAITS_MAX 0.05    /* of a core: a program's other threads look after something now and then */
#define COMPUTES_MIN 0.15 /* far less than one: cores may be shared with much else */
#define LATE 2            /* times ACTIVITY_S: this process, too, has stood still */

bool activity_is_low(const struct activity *p, uint64_t now_ns, uint64_t used_ns)
{
    return (double)(used_ns - p->used_ns) <= WAITS_MAX * (double)(now_ns - p->at_ns);
}

/* Where what it has started has ended, its time is missing. */
static bool is_low_below(const struct activity *p, uint64_t now_ns, uint64_t used_ns, uint64_t below_ns)
{
    if (below_ns == ACTIVITY_UNKNOWN || p->below_ns == ACTIVITY_UNKNOWN || below_ns < p->below_ns)
        return false;
    return activity_is_low(p, now_ns, used_ns + below_ns - p->below_ns);
}

static enum activity_kind kind_of(const struct activity *p, uint64_t now_ns, uint64_t used_ns, uint64_t below_ns)
{
    double passed = (double)(now_ns - p->at_ns), used = (double)(used_ns - p->used_ns);
    if (!p->at_ns || passed <= 0 || passed > LATE * ACTIVITY_S * 1e9 || used_ns < p->used_ns)
        return ACTIVITY_MIXED;
    if (activity_is_low(p, now_ns, used_ns))
        return is_low_below(p, now_ns, used_ns, below_ns) ? ACTIVITY_WAITS : ACTIVITY_MIXED;
    return used >= COMPUTES_MIN * passed ? ACTIVITY_COMPUTES : ACTIVITY_MIXED;
}

/* One look that differs changes nothing: who has waited in vain may be busy with saying so. */
enum activity_kind activity_take(struct activity *p, uint64_t now_ns, uint64_t used_ns, uint64_t below_ns)
{
    enum activity_kind k = kind_of(p, now_ns, used_ns, below_ns);
    if (k == p->last)
        p->is = k;
    else if (k != p->is && p->last != p->is)
        p->is = ACTIVITY_MIXED;
    *p = (struct activity){now_ns, used_ns, below_ns, k, p->is};
    return p->is;
}
