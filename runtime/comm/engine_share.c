/* engine_share.c - one rank's share of an operation: sums over the node's ranks, copies to them, the word that it is
 * done. */
#include <string.h>

#include "kernels/reduce.h"
#include "runtime/comm/wireup.h"

void engine_reduce_node(comm_t *c, const struct op *o, const struct comm_piece *p, size_t at, size_t n, bool into_all)
{
    if (c->local_size == 1)
        return;
    size_t offset = p->offset_bytes + at * dtype_size(p->dtype);
    for (int l = 0; l < c->local_size; l++)
        c->in[l] = c->out[l] = segment_part(o->segment, l) + offset;
    void *own = segment_part(o->segment, c->local) + offset;
    kernel_reduce_tree(into_all ? c->out : &own, into_all ? c->local_size : 1, c->in, c->local_size, n, p->dtype,
                       o->work->op);
}

void engine_spread(comm_t *c, struct comm_segment *s, size_t offset_bytes, size_t n)
{
    for (int l = 0; l < c->local_size; l++)
        if (l != c->local)
            memcpy(segment_part(s, l) + offset_bytes, segment_part(s, c->local) + offset_bytes, n);
}

void engine_end_share(comm_t *c)
{
    struct engine *e = &c->engine;
    e->reduced++;
    e->is_walking = false;
    atomic_store(&engine_slot(c, c->local)->reduced, e->reduced);
    if (ENGINE_ALL_AT(c, reduced, c->n_owners, e->reduced))
        shm_ring(&c->shm);
}
