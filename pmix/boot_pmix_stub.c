/* boot_pmix_stub.c - in place of boot_pmix.c in a build without pmix.h. */
#include <errno.h>

#include "pmix/boot_impl.h"

int boot_pmix_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    (void)b;
    (void)deadline;
    return error_set(errp, DDP_E_BOOT, ENOSYS, "this build of slurm-ddp lacks PMIx, which srun jobs need: install the "
                     "Debian package libpmix-dev and build again");
}
