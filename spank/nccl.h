/* nccl.h - NCCL's network settings, and gloo's: which interface to set, and whether the user or the site has set one
 * already. */
#ifndef DDP_SPANK_NCCL_H
#define DDP_SPANK_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/keys/keys.h"

enum { NCCL_INTERFACE_TEXT = 32 };

/* True if the text of a nccl.conf sets the variable: lines NAME=VALUE, nothing trimmed; a line that begins with # is a
 * comment (NCCL's src/misc/param.cc, setEnvFile). Pure. */
bool nccl_conf_sets(const char *text, size_t n, const char *name);

/* True if the environment, $NCCL_CONF_FILE (without it ~/.nccl.conf) or /etc/nccl.conf sets the variable. NCCL prefers
 * the environment, so a value that we set there would overrule those files. Reads the files with the caller's
 * rights. */
bool nccl_is_configured(const char *name, lookup_f lookup, void *arg);

/* The name of the interface ("eth0" into buf) of the route to host; on host's own node, the interface that has its
 * address. 0, or -1 with an error: not known by the deadline (clock.h), loopback, or not a single interface. */
int nccl_interface(const char *host, uint64_t deadline, char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp);

/* The same for the other nodes of a step: the route to `master`. On that node itself `list` names the step's nodes, and
 * the route is that to the first of them that is not `own`: a node's own name is often a loopback address to it
 * (127.0.1.1, on Debian). So may be another name of it in `master`, which is looked up first. On other nodes the list
 * is NULL. */
int nccl_step_interface(const char *master, const char *list, const char *own, uint64_t deadline,
                        char buf[NCCL_INTERFACE_TEXT], ddp_error_t *errp);

#endif
