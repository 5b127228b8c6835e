/* resume.c - checkpoints: this version writes none, and says so rather than start over beside one. */
#include <errno.h>
#include <sys/stat.h>

#include "runtime/handle.h"

EXPORT int ddp_resume(ddp_t *d, const char *dir, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE, "ddp_resume", errp) < 0)
        return -1;
    struct stat st;
    int found = d->world.rank == 0 && stat(dir, &st) == 0;
    if (comm_bcast(d->comm, &found, sizeof found, 0, errp) < 0)
        return handle_break(d);
    if (found)
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "%.150s exists, but this version cannot read checkpoints: move it "
                         "away to start from step 0", dir);
    return 0;
}
