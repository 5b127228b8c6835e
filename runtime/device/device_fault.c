/* device_fault.c - what an error is told as, and what it does to a device. For device.c and its backends. */
#include <errno.h>
#include <stdio.h>

#include "runtime/device/device_impl.h"

const char *device_title(const device_t *d, char *buf, size_t size)
{
    snprintf(buf, size, "GPU %d (%.40s, %s)", d->info.ordinal, d->info.name[0] ? d->info.name : "unknown",
             d->info.bus_id);
    return buf;
}

int device_cause(const device_t *d, ddp_error_t *errp)
{
    return error_set(errp, d->cause.domain, d->cause.code, "%s", d->cause.text);
}

int device_break(device_t *d, const ddp_error_t *cause, ddp_error_t *errp)
{
    if (!atomic_exchange(&d->has_cause, true)) {
        d->cause = *cause;
        atomic_store(&d->is_broken, true);
    }
    if (atomic_load(&d->is_broken))
        return device_cause(d, errp);
    return error_set(errp, cause->domain, cause->code, "%s", cause->text); /* another thread is at it */
}

int device_fail(device_t *d, int code, const char *call, const char *detail, ddp_error_t *errp)
{
    char who[96];
    struct device_fault f;
    ddp_error_t e = {0};
    d->ops->explain(code, &f);
    error_set(&e, DDP_E_SYSTEM, f.is_no_memory ? ENOMEM : EIO, "rank %d: %s: %s%s: %s%s%s", d->rank,
              device_title(d, who, sizeof who), call, detail, f.name ? f.name : "", f.name ? ": " : "", f.meaning);
    if (f.is_fatal)
        return device_break(d, &e, errp);
    return error_set(errp, e.domain, e.code, "%s", e.text);
}
