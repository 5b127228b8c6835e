#include "runtime/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
    [CONFIG_PROGRESS] = {.name = "progress",
                         .env = "DDP_PROGRESS",
                         .type = KNOB_ENUM,
                         .def = "auto",
                         .choices = "auto|caller|thread",
                         .help = "who moves collectives in flight: the calls of the program, or a thread"},
    [CONFIG_DEVICE] = {.name = "device",
                       .env = "DDP_DEVICE",
                       .type = KNOB_STRING,
                       .def = "auto",
                       .max = 4,
                       .help = "what to compute on: auto, cpu, cuda, or the number of a GPU"},
    [CONFIG_SHARE_DEVICE] = {.name = "share-device",
                             .env = "DDP_SHARE_DEVICE",
                             .type = KNOB_BOOL,
                             .def = "off",
                             .help = "ranks of a node may have the same GPU"},
    [CONFIG_NCCL_LOG] = {.name = "nccl-log",
                         .env = "DDP_NCCL_LOG",
                         .type = KNOB_STRING,
                         .max = 240,
                         .help = "file for NCCL's own log; %r in it becomes the rank"},
    [CONFIG_DETERMINISTIC] = {.name = "deterministic",
                              .env = "DDP_DETERMINISTIC",
                              .type = KNOB_BOOL,
                              .def = "off",
                              .help = "GPUs sum gradients in the processor's order, to its bits, whatever NCCL does"},
    [CONFIG_BUCKET_MB] = {.name = "bucket-mb",
                          .env = "DDP_BUCKET_MB",
                          .type = KNOB_DOUBLE,
                          .min = 1e-4,
                          .max = 1e6,
                          .help = "MiB of gradients that travel together (default: planned from what is measured)"},
    [CONFIG_FIRST_BUCKET_MB] = {.name = "first-bucket-mb",
                                .env = "DDP_FIRST_BUCKET_MB",
                                .type = KNOB_DOUBLE,
                                .min = 1e-4,
                                .max = 1e6,
                                .help = "MiB of the first bucket (default: 1, or planned)"},
    [CONFIG_FIND_UNUSED] = {.name = "find-unused",
                            .env = "DDP_FIND_UNUSED",
                            .type = KNOB_BOOL,
                            .def = "off",
                            .help = "parameters not marked ready when a backward pass ends were not used in it"},
    [CONFIG_COMPRESS] = {.name = "compress",
                         .env = "DDP_COMPRESS",
                         .type = KNOB_ENUM,
                         .def = "none",
                         .choices = "none|bf16|f16",
                         .help = "type in which gradients travel"},
    [CONFIG_LOSS_SCALE] = {.name = "loss-scale",
                           .env = "DDP_LOSS_SCALE",
                           .type = KNOB_STRING,
                           .def = "auto",
                           .max = 24,
                           .help = "factor for losses, for gradients in 16 bits: off, dynamic, a power of two, or auto: dynamic "
                                   "where a GPU computes in float16"},
    [CONFIG_ZERO] = {.name = "zero",
                     .env = "DDP_ZERO",
                     .type = KNOB_ENUM,
                     .def = "auto",
                     .choices = "auto|0|1",
                     .help = "ZeRO stage: 1 spreads the optimizer's state over the ranks; auto: on one node of CPUs"},
    [CONFIG_ORDER] = {.name = "order",
                      .env = "DDP_ORDER",
                      .type = KNOB_ENUM,
                      .def = "ledger",
                      .choices = "ledger|distributed",
                      .help = "order of samples: each once an epoch, or as PyTorch's DistributedSampler"},
    [CONFIG_TRACE] = {.name = "trace",
                      .env = "DDP_TRACE",
                      .type = KNOB_STRING,
                      .max = 240,
                      .help = "file for a trace of every step (Chrome trace events); %r in it becomes the rank"},
    [CONFIG_CKPT_EVERY] = {.name = "ckpt-every",
                           .env = "DDP_CKPT_EVERY",
                           .type = KNOB_INT,
                           .min = 0,
                           .max = 1e15,
                           .help = "steps between checkpoints; 0: on request only"},
    [CONFIG_KEEP] = {.name = "keep",
                     .env = "DDP_KEEP",
                     .type = KNOB_INT,
                     .def = "2",
                     .min = 1,
                     .max = 1e6,
                     .help = "newest checkpoints that stay"},
    [CONFIG_CKPT_REQUIRED] = {.name = "ckpt-required",
                              .env = "DDP_CKPT_REQUIRED",
                              .type = KNOB_BOOL,
                              .def = "off",
                              .help = "a checkpoint that fails ends training"},
    [CONFIG_CKPT_PRIVATE] = {.name = "ckpt-private",
                             .env = "DDP_CKPT_PRIVATE",
                             .type = KNOB_BOOL,
                             .def = "off",
                             .help = "checkpoints go only into folders of one's own that nobody else can write to"},
    [CONFIG_CKPT_FILE_MB] = {.name = "ckpt-file-mb",
                             .env = "DDP_CKPT_FILE_MB",
                             .type = KNOB_DOUBLE,
                             .def = "4096",
                             .min = 1e-3,
                             .max = 1e9,
                             .help = "MiB that a file of a checkpoint holds at most, unless one tensor is larger"},
    [CONFIG_STOP_SIGNALS] = {.name = "stop-signals",
                             .env = "DDP_STOP_SIGNALS",
                             .type = KNOB_STRING,
                             .def = "TERM,USR1,USR2,INT",
                             .max = 32,
                             .help = "which of SIGTERM, SIGUSR1, SIGUSR2 and SIGINT stop the job after a step; none"},
    [CONFIG_STOP_WITHIN] = {.name = "stop-within",
                            .env = "DDP_STOP_WITHIN",
                            .type = KNOB_DOUBLE,
                            .def = "10",
                            .min = 0,
                            .max = 1e9,
                            .help = "seconds: in steps that take longer, a stop does not wait for the step's end"},
    [CONFIG_MTBF] = {.name = "mtbf",
                     .env = "DDP_MTBF",
                     .type = KNOB_DOUBLE,
                     .min = 1e-3,
                     .max = 1e6,
                     .help = "hours between failures of this job, for when checkpoints pay (default: what is observed)"},
    [CONFIG_REQUEUE] = {.name = "requeue",
                        .env = "DDP_REQUEUE",
                        .type = KNOB_ENUM,
                        .def = "off",
                        .choices = "off|auto",
                        .help = "auto: a batch job that was asked to stop and has saved goes back into the queue"},
    [CONFIG_REQUEUE_LIMIT] = {.name = "requeue-limit",
                              .env = "DDP_REQUEUE_LIMIT",
                              .type = KNOB_INT,
                              .def = "100",
                              .min = 0,
                              .max = 1e6,
                              .help = "restarts after which it does not"},
    [CONFIG_REQUEUE_EXCLUDE] = {.name = "requeue-exclude",
                                .env = "DDP_REQUEUE_EXCLUDE",
                                .type = KNOB_STRING,
                                .max = 240,
                                .help = "nodes that it is not to run on again"},
};

static bool is_early(enum config_key key)
{
    return key == CONFIG_TIMEOUT || key == CONFIG_INTERFACE || key == CONFIG_PROGRESS;
}

/* Ranks may differ in these: no collective depends on them. */
static bool is_own(enum config_key key)
{
    return is_early(key) || key == CONFIG_TRACE || key == CONFIG_DEVICE || key == CONFIG_NCCL_LOG;
}

static int unknown(const char *prefix, const char *key, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "unknown option %s%.60s: doc/user.md lists them", prefix, key);
}

/* argument is "--ddp-KEY=VALUE". */
static int set_from_argument(struct config *cfg, const char *argument, ddp_error_t *errp)
{
    char key[32];
    const char *name = argument + strlen(PREFIX), *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    const struct knob *k = NULL;
    if (len < sizeof key) {
        memcpy(key, name, len);
        key[len] = 0;
        k = knob_find(config_knobs, CONFIG_COUNT, key);
    }
    if (!k)
        return unknown(PREFIX, name, errp);
    if (!eq)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s lacks a value: write %s=VALUE", argument, argument);
    char option[sizeof PREFIX + sizeof key];
    snprintf(option, sizeof option, PREFIX "%s", key);
    struct knob named = *k; /* as the user wrote it, should its value be refused */
    named.name = option;
    return knob_parse(&named, eq + 1, "command line", &cfg->value[k - config_knobs], errp);
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

int config_set(struct config *cfg, const char *key, const char *value, ddp_error_t *errp)
{
    const struct knob *k = knob_find(config_knobs, CONFIG_COUNT, key);
    if (!k)
        return unknown("", key, errp);
    enum config_key i = (enum config_key)(k - config_knobs);
    if (is_early(i))
        return error_set(errp, DDP_E_USAGE, EINVAL, "option %s takes effect in ddp_init: set %s or pass "
                         PREFIX "%s=%.60s", k->name, k->env, k->name, value);
    return knob_parse(k, value, "ddp_option", &cfg->value[i], errp);
}

char *config_shared_text(const struct config *cfg, const char *hook)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (!is_own((enum config_key)i))
            fprintf(f, "%s=%s\n", config_knobs[i].name, cfg->value[i].is_set ? cfg->value[i].text : "(unset)");
    fprintf(f, "hook=%s\n", hook);
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

int config_explain(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp)
{
    size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
    while (*a && *b && na == nb && !memcmp(a, b, na)) {
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
        na = strcspn(a, "\n");
        nb = strcspn(b, "\n");
    }
    return error_set(errp, DDP_E_USAGE, EINVAL, "ranks have different settings: %.*s on rank %d, %.*s on rank %d; "
                     "start every rank with the same options and DDP_* variables",
                     (int)(na < 60 ? na : 60), a, rank_a, (int)(nb < 60 ? nb : 60), b, rank_b);
}

double config_timeout_s(const struct config *cfg)
{
    return cfg->value[CONFIG_TIMEOUT].d;
}

static const char *text_of(const struct config *cfg, enum config_key key)
{
    const struct knob_value *v = &cfg->value[key];
    return v->is_set && v->text[0] ? v->text : NULL;
}

const char *config_interface(const struct config *cfg)
{
    return text_of(cfg, CONFIG_INTERFACE);
}

const char *config_trace(const struct config *cfg)
{
    return text_of(cfg, CONFIG_TRACE);
}

const char *config_stop_signals(const struct config *cfg)
{
    return cfg->value[CONFIG_STOP_SIGNALS].text;
}

double config_stop_within_s(const struct config *cfg)
{
    return cfg->value[CONFIG_STOP_WITHIN].d;
}

double config_mtbf_s(const struct config *cfg)
{
    const struct knob_value *v = &cfg->value[CONFIG_MTBF];
    return v->is_set ? v->d * 3600 : 0;
}

bool config_requeue(const struct config *cfg)
{
    return cfg->value[CONFIG_REQUEUE].choice == 1;
}

int config_requeue_limit(const struct config *cfg)
{
    return (int)cfg->value[CONFIG_REQUEUE_LIMIT].i;
}

const char *config_requeue_exclude(const struct config *cfg)
{
    return text_of(cfg, CONFIG_REQUEUE_EXCLUDE);
}

int config_progress(const struct config *cfg)
{
    return cfg->value[CONFIG_PROGRESS].choice;
}

const char *config_device(const struct config *cfg)
{
    return cfg->value[CONFIG_DEVICE].text;
}

bool config_share_device(const struct config *cfg)
{
    return cfg->value[CONFIG_SHARE_DEVICE].b;
}

const char *config_nccl_log(const struct config *cfg)
{
    return text_of(cfg, CONFIG_NCCL_LOG);
}

bool config_deterministic(const struct config *cfg)
{
    return cfg->value[CONFIG_DETERMINISTIC].b;
}

static size_t mb_or(const struct config *cfg, enum config_key key, double otherwise)
{
    const struct knob_value *v = &cfg->value[key];
    return (size_t)((v->is_set ? v->d : otherwise) * (1 << 20));
}

size_t config_bucket_bytes(const struct config *cfg)
{
    return mb_or(cfg, CONFIG_BUCKET_MB, 25);
}

size_t config_first_bucket_bytes(const struct config *cfg)
{
    size_t first = mb_or(cfg, CONFIG_FIRST_BUCKET_MB, 1), other = config_bucket_bytes(cfg);
    return cfg->value[CONFIG_FIRST_BUCKET_MB].is_set || first < other ? first : other;
}

bool config_plans_buckets(const struct config *cfg)
{
    return !cfg->value[CONFIG_BUCKET_MB].is_set && !cfg->value[CONFIG_FIRST_BUCKET_MB].is_set;
}

bool config_find_unused(const struct config *cfg)
{
    return cfg->value[CONFIG_FIND_UNUSED].b;
}

enum config_compress config_compress(const struct config *cfg)
{
    return (enum config_compress)cfg->value[CONFIG_COMPRESS].choice;
}

const char *config_loss_scale(const struct config *cfg)
{
    return cfg->value[CONFIG_LOSS_SCALE].text;
}

enum data_order config_order(const struct config *cfg)
{
    return (enum data_order)cfg->value[CONFIG_ORDER].choice;
}

enum config_zero config_zero(const struct config *cfg)
{
    return (enum config_zero)cfg->value[CONFIG_ZERO].choice;
}

int64_t config_ckpt_every(const struct config *cfg)
{
    const struct knob_value *v = &cfg->value[CONFIG_CKPT_EVERY];
    return v->is_set ? v->i : -1;
}

int config_keep(const struct config *cfg)
{
    return (int)cfg->value[CONFIG_KEEP].i;
}

bool config_ckpt_required(const struct config *cfg)
{
    return cfg->value[CONFIG_CKPT_REQUIRED].b;
}

bool config_ckpt_private(const struct config *cfg)
{
    return cfg->value[CONFIG_CKPT_PRIVATE].b;
}

uint64_t config_ckpt_file_bytes(const struct config *cfg)
{
    return (uint64_t)mb_or(cfg, CONFIG_CKPT_FILE_MB, 4096);
}
