#include "spank/activity.h"

#define WAITS_MAX 0.05    /* of a core: a program's other threads look after something now and then */
#define COMPUTES_MIN 0.15 /* far less than one: cores may be shared with much else */
#define LATE 2            /* times ACTIVITY_S: this process, too, has stood still */

static enum activity_kind kind_of(const struct activity *p, uint64_t now_ns, uint64_t used_ns)
{
    double passed = (double)(now_ns - p->at_ns), used = (double)(used_ns - p->used_ns);
    if (!p->at_ns || passed <= 0 || passed > LATE * ACTIVITY_S * 1e9 || used_ns < p->used_ns)
        return ACTIVITY_MIXED;
    if (used <= WAITS_MAX * passed)
        return ACTIVITY_WAITS;
    return used >= COMPUTES_MIN * passed ? ACTIVITY_COMPUTES : ACTIVITY_MIXED;
}

/* One look that differs changes nothing: who has waited in vain may be busy with saying so. */
enum activity_kind activity_take(struct activity *p, uint64_t now_ns, uint64_t used_ns)
{
    enum activity_kind k = kind_of(p, now_ns, used_ns);
    if (k == p->last)
        p->is = k;
    else if (k != p->is && p->last != p->is)
        p->is = ACTIVITY_MIXED;
    *p = (struct activity){now_ns, used_ns, k, p->is};
    return p->is;
}
