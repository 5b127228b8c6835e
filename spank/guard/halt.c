#include "spank/guard/halt.h"

#include "runtime/base/clock.h"

#define LATE_S 1.0 /* the guard was stopped, too */

bool guard_halt_take(struct guard_halt *h, int signo)
{
    bool was_told = h->is_told;
    *h = (struct guard_halt){.signo = signo, .at = signo ? deadline_in(GUARD_HALT_S) : 0, .is_told = signo && was_told};
    if (h->is_told)
        h->at = 0;
    return was_told && !signo;
}

int guard_halt_wait_ms(const struct guard_halt *h)
{
    return h->at ? deadline_left_ms(h->at) : -1;
}

bool guard_halt_step(struct guard_halt *h)
{
    uint64_t now = clock_ns();
    if (!h->at || now < h->at)
        return false;
    if (now - h->at > (uint64_t)(LATE_S * NS_PER_S)) {
        h->at = deadline_in(GUARD_HALT_S);
        return false;
    }
    h->at = 0;
    h->is_told = true;
    return true;
}
