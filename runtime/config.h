/* config.h - libddp's own settings: one table; values from DDP_* variables, then from --ddp-KEY=VALUE options. */
#ifndef DDP_RUNTIME_CONFIG_H
#define DDP_RUNTIME_CONFIG_H

#include "runtime/base/error.h"
#include "runtime/base/knob.h"

enum config_key { CONFIG_TIMEOUT, CONFIG_INTERFACE, CONFIG_COUNT };

extern const struct knob config_knobs[CONFIG_COUNT];

struct config {
    struct knob_value value[CONFIG_COUNT];
};

/* Reads the environment, then takes every "--ddp-KEY=VALUE" out of argv (both may be NULL; argv stays NULL-terminated).
 * An unknown key or a value out of range is an error that names it; argv is then unchanged. */
int config_load(struct config *cfg, int *argc, char ***argv, ddp_error_t *errp);

double config_timeout_s(const struct config *cfg);
const char *config_interface(const struct config *cfg); /* NULL: not named */

#endif
