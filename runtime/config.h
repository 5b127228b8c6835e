/* config.h - libddp's own settings: one table; values from DDP_* variables, then from --ddp-KEY=VALUE options, then
 * from ddp_option. */
#ifndef DDP_RUNTIME_CONFIG_H
#define DDP_RUNTIME_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/base/knob.h"
#include "runtime/data/data.h"

enum config_key {
    CONFIG_TIMEOUT,
    CONFIG_INTERFACE,
    CONFIG_PROGRESS,
    CONFIG_DEVICE,
    CONFIG_SHARE_DEVICE,
    CONFIG_NCCL_LOG,
    CONFIG_DETERMINISTIC,
    CONFIG_BUCKET_MB,
    CONFIG_FIRST_BUCKET_MB,
    CONFIG_FIND_UNUSED,
    CONFIG_COMPRESS,
    CONFIG_LOSS_SCALE,
    CONFIG_ZERO,
    CONFIG_ORDER,
    CONFIG_TRACE,
    CONFIG_CKPT_EVERY,
    CONFIG_KEEP,
    CONFIG_CKPT_REQUIRED,
    CONFIG_CKPT_PRIVATE,
    CONFIG_CKPT_FILE_MB,
    CONFIG_STOP_SIGNALS,
    CONFIG_STOP_WITHIN,
    CONFIG_MTBF,
    CONFIG_REQUEUE,
    CONFIG_REQUEUE_LIMIT,
    CONFIG_REQUEUE_EXCLUDE,
    CONFIG_COUNT
};
enum config_zero { ZERO_AUTO, ZERO_OFF, ZERO_ON };
enum config_compress { COMPRESS_NONE, COMPRESS_BF16, COMPRESS_F16 };

extern const struct knob config_knobs[CONFIG_COUNT];

struct config {
    struct knob_value value[CONFIG_COUNT];
};

/* Reads the environment, then takes every "--ddp-KEY=VALUE" out of argv (both may be NULL; argv stays NULL-terminated).
 * An unknown key or a value out of range is an error that names it; argv is then unchanged. */
int config_load(struct config *cfg, int *argc, char ***argv, ddp_error_t *errp);

/* Sets one key from text. Keys that the communicator needs when it is created (timeout, interface, progress) come too
 * late here: an error that says how to set them. */
int config_set(struct config *cfg, const char *key, const char *value, ddp_error_t *errp);

/* The settings that all ranks must share, one "KEY=VALUE" a line, and "hook=HOOK"; malloc, the caller frees. NULL: no
 * memory. Two that differ, of ranks a and b: config_explain fills *errp with the first key that does, and returns
 * -1. */
char *config_shared_text(const struct config *cfg, const char *hook);
int config_explain(const char *text_a, int rank_a, const char *text_b, int rank_b, ddp_error_t *errp);

double config_timeout_s(const struct config *cfg);
const char *config_interface(const struct config *cfg); /* NULL: not named */
int config_progress(const struct config *cfg); /* enum comm_progress_mode */
const char *config_device(const struct config *cfg); /* for device_wish_parse */
bool config_share_device(const struct config *cfg);
bool config_deterministic(const struct config *cfg);
const char *config_nccl_log(const struct config *cfg); /* NULL: none */
size_t config_bucket_bytes(const struct config *cfg);       /* 25 MiB where not named */
size_t config_first_bucket_bytes(const struct config *cfg); /* not named: 1 MiB, or as above if less */
bool config_plans_buckets(const struct config *cfg);        /* neither of the two is named */
bool config_find_unused(const struct config *cfg);
enum config_compress config_compress(const struct config *cfg);
const char *config_loss_scale(const struct config *cfg); /* for scaler_parse */
enum data_order config_order(const struct config *cfg);
enum config_zero config_zero(const struct config *cfg);
const char *config_trace(const struct config *cfg); /* NULL: none */
int64_t config_ckpt_every(const struct config *cfg); /* steps; 0: on request only; -1: not named */
int config_keep(const struct config *cfg);
bool config_ckpt_required(const struct config *cfg);
bool config_ckpt_private(const struct config *cfg);
uint64_t config_ckpt_file_bytes(const struct config *cfg);
const char *config_stop_signals(const struct config *cfg); /* for stop_parse */
double config_stop_within_s(const struct config *cfg);
double config_mtbf_s(const struct config *cfg); /* 0: not named */
bool config_requeue(const struct config *cfg);
int config_requeue_limit(const struct config *cfg);
const char *config_requeue_exclude(const struct config *cfg); /* NULL: none */

#endif
