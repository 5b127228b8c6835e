/* nccl.h - what NCCL is told about the network: which interface, and whether somebody has told it already. */
#ifndef DDP_SPANK_NCCL_H
#define DDP_SPANK_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/keys.h"

enum { NCCL_INTERFACE_TEXT = 32 };

/* Whether the text of a nccl.conf sets the variable: lines NAME=VALUE, nothing trimmed, # first makes a comment
 * (NCCL's src/misc/param.cc, setEnvFile). Pure. */
bool nccl_conf_sets(const char *text, size_t n, const char *name);

/* Whether the environment, $NCCL_CONF_FILE (without it ~/.nccl.conf) or /etc/nccl.conf sets it. The environment comes
 * first for NCCL, so what we set there would overrule those files. Reads files as whoever calls. */
bool nccl_is_configured(const char *name, lookup_f lookup, void *arg);

/* The interface of the route to host, on host's own node the one that has its address: "eth0" into buf. 0, or -1 with an
 * error: unknown by the deadline (clock.h), loopback, or not one interface alone. */
int nccl_interface(const char *host, uint64_t deadline, char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp);

#endif
