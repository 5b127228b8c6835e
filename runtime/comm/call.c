/* call.c - a collective call's number, and its failure. */
#include "runtime/comm/wireup.h"

uint64_t comm_number(comm_t *c, enum watch_what what, uint64_t args)
{
    uint64_t number = c->shm.begun + 1, call = watch_call(what, comm_mix(number, args));
    flight_call(c->flight, watch_what_name(what));
    shm_begin(&c->shm, call);
    if (c->tcp)
        tcp_begin(c->tcp, number, call);
    return call;
}

bool comm_why(const comm_t *c, ddp_error_t *ret)
{
    if (!c || !c->watch || !watch_is_broken(c->watch))
        return false;
    watch_error(c->watch, ret);
    return true;
}

int comm_fail(comm_t *c, ddp_error_t *errp)
{
    watch_abort(c->watch, errp ? errp->text : "a communicator call failed");
    return -1;
}
