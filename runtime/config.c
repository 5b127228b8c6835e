#include "runtime/config.h"

#include <errno.h>
#include <string.h>

#define PREFIX "--ddp-"

const struct knob config_knobs[CONFIG_COUNT] = {
    [CONFIG_TIMEOUT] = {.name = "timeout",
                        .env = "DDP_TIMEOUT",
                        .type = KNOB_DOUBLE,
                        .def = "300",
                        .min = 0.1,
                        .max = 86400,
                        .help = "seconds that any wait for another rank may take"},
    [CONFIG_INTERFACE] = {.name = "interface",
                          .env = "DDP_INTERFACE",
                          .type = KNOB_STRING,
                          .max = 15,
                          .help = "network interface between nodes (default: the one towards MASTER_ADDR)"},
};

/* argument is "--ddp-KEY=VALUE". */
static int set_from_argument(struct config *cfg, const char *argument, ddp_error_t *errp)
{
    char key[32];
    const char *name = argument + strlen(PREFIX), *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    if (len < sizeof key) {
        memcpy(key, name, len);
        key[len] = 0;
        const struct knob *k = knob_find(config_knobs, CONFIG_COUNT, key);
        if (k && eq)
            return knob_parse(k, eq + 1, PREFIX, &cfg->value[k - config_knobs], errp);
        if (k)
            return error_set(errp, DDP_E_USAGE, EINVAL, "%s lacks a value: write %s=VALUE", argument, argument);
    }
    return error_set(errp, DDP_E_USAGE, EINVAL, "unknown option %.100s: there are --ddp-timeout=SECONDS and "
                     "--ddp-interface=NAME", argument);
}

int config_load(struct config *cfg, int *argc, char ***argv, ddp_error_t *errp)
{
    if (knob_load(config_knobs, CONFIG_COUNT, cfg->value, errp) < 0)
        return -1;
    if (!argc || !argv)
        return 0;
    char **v = *argv;
    for (int i = 1; i < *argc; i++)
        if (!strncmp(v[i], PREFIX, strlen(PREFIX)) && set_from_argument(cfg, v[i], errp) < 0)
            return -1;
    int kept = 1;
    for (int i = 1; i < *argc; i++)
        if (strncmp(v[i], PREFIX, strlen(PREFIX)))
            v[kept++] = v[i];
    if (*argc > 0) {
        *argc = kept;
        v[kept] = NULL;
    }
    return 0;
}

double config_timeout_s(const struct config *cfg)
{
    return cfg->value[CONFIG_TIMEOUT].d;
}

const char *config_interface(const struct config *cfg)
{
    const struct knob_value *v = &cfg->value[CONFIG_INTERFACE];
    return v->is_set && v->text[0] ? v->text : NULL;
}
