#include "t/lib/placements.h"

static const struct placement placements[] = {
    {"1", true, 1, {0}},
    {"2", true, 2, {0}},
    {"3", false, 3, {0}},
    {"4", true, 4, {0}},
    {"7", false, 7, {0}},
    {"16", true, 16, {0}},
    {"1,1", true, 2, {0, 1}},
    {"1,1,1", true, 3, {0, 1, 2}},
    {"2,2", true, 4, {0, 0, 1, 1}},
    {"cyclic 2,2", false, 4, {0, 1, 0, 1}},
    {"2,1,1", true, 4, {0, 0, 1, 2}},
    {"1,2,4", false, 7, {0, 1, 1, 2, 2, 2, 2}},
    {"4,2,1", true, 7, {0, 0, 0, 0, 1, 1, 2}},
    {"3,3,1", false, 7, {0, 0, 0, 1, 1, 1, 2}},
    {"4 x 4", true, 16, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}},
    {"4,8,4", false, 16, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2}},
    {"3,2", false, 5, {0, 0, 0, 1, 1}},
    {"7 nodes", true, 7, {0, 1, 2, 3, 4, 5, 6}},
};
enum { N_PLACEMENTS = sizeof placements / sizeof *placements };


/* with_comm NULL: f. */
static bool run_each(rank_f *f, comm_rank_f *with_comm)
{
    for (const struct placement *p = placements; p < placements + N_PLACEMENTS; p++) {
        struct job j = {.size = p->size, .node_of = p->node_of, .arg = p};
        if (with_comm ? job_run_comm(&j, with_comm) : job_run(&j, f))
            continue;
        fprintf(stderr, "# nodes of %s ranks\n", p->name);
        return false;
    }
    return true;
}

bool placements_run(rank_f *f)
{
    return run_each(f, NULL);
}

bool placements_run_comm(comm_rank_f *f)
{
    return run_each(NULL, f);
}
