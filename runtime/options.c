/* options.c - settings from the program, and what happened so far. */
#include <errno.h>

#include "runtime/handle.h"

EXPORT int ddp_option(ddp_t *d, const char *key, const char *value, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_option (after ddp_commit)", errp) < 0)
        return -1;
    if (!key || !value)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_option: a key and a value are needed");
    return config_set(&d->config, key, value, errp);
}

EXPORT int ddp_hook(ddp_t *d, const struct ddp_hook *hook, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_hook (after ddp_commit)", errp) < 0)
        return -1;
    if (!hook || !hook->encode || !hook->decode || !dtype_size(hook->wire))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_hook: encode, decode and a type that travels are needed");
    d->hook = *hook;
    return 0;
}

EXPORT int ddp_metrics(const ddp_t *d, struct ddp_metrics *ret)
{
    struct ddp_metrics m = d->reducer.metrics;
    m.tcp_bytes_sent = comm_tcp_bytes_sent(d->comm);
    *ret = m;
    return 0;
}
