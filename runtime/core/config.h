/* config.h - libddp's own settings in one table, from which come both the fields that callers read and the rows by
 * which values are checked. Values are taken from DDP_* variables, then from --ddp-KEY=VALUE options, then from
 * ddp_option; the last one counts.
 *
 * A new setting is a row here, its reader, a line in the table of doc/user.md, which t/unit/core/config.c compares, and
 * an item of doc/man/libddp.7, which t/t0009 does. */
#ifndef DDP_RUNTIME_CORE_CONFIG_H
#define DDP_RUNTIME_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/base/knob.h"
#include "runtime/base/settings.h"
#include "runtime/comm/comm.h"
#include "runtime/data/data.h"
#include "runtime/grads/hook.h"
#include "runtime/optimizer/zero_cpu.h"
#include "runtime/sched/requeue.h"

/* Which ranks must have the same value, and until when it can be set. */
enum config_scope {
    CONFIG_ALIKE, /* all ranks the same, until ddp_commit */
    CONFIG_OWN,   /* a rank's own: no collective depends on it; until ddp_commit */
    CONFIG_EARLY, /* a rank's own, needed when the communicator is created: not by ddp_option */
};

/* X(type, field, scope, members of struct knob). A number without a default that nobody names is -1, such a text "". */
#define CONFIG_SETTINGS(X)                                                                                             \
    X(double, timeout_s, EARLY, .name = "timeout", .def = "300", SETTING_TIMEOUT)                                      \
    X(knob_text_t, interface, EARLY, .name = "interface", SETTING_INTERFACE)                                           \
    X(enum comm_progress_mode, progress, EARLY, .name = "progress", .env = "DDP_PROGRESS", .type = KNOB_ENUM,          \
      .def = "auto", .choices = "auto|caller|thread",                                                                  \
      .help = "who moves collectives in flight: the calls of the program, or a thread")                                \
    X(knob_text_t, device, OWN, .name = "device", .env = "DDP_DEVICE", .type = KNOB_STRING, .def = "auto", .max = 4,   \
      .help = "what to compute on: auto, cpu, cuda, or the number of a GPU")                                           \
    X(bool, share_device, ALIKE, .name = "share-device", .env = "DDP_SHARE_DEVICE", .type = KNOB_BOOL, .def = "off",   \
      .help = "ranks of a node may have the same GPU")                                                                 \
    X(knob_text_t, nccl_log, OWN, .name = "nccl-log", .env = "DDP_NCCL_LOG", .type = KNOB_STRING, .max = 240,          \
      .help = "file for NCCL's own log; %r in it becomes the rank")                                                    \
    X(bool, deterministic, ALIKE, .name = "deterministic", .env = "DDP_DETERMINISTIC", .type = KNOB_BOOL,              \
      .def = "off", .help = "GPUs sum gradients in the processor's order, to its bits, whatever NCCL does")            \
    X(double, bucket_mb, ALIKE, .name = "bucket-mb", .env = "DDP_BUCKET_MB", .type = KNOB_DOUBLE, .min = 1e-4,         \
      .max = 1e6, .help = "MiB of gradients that travel together (default: planned from what is measured)")            \
    X(double, first_bucket_mb, ALIKE, .name = "first-bucket-mb", .env = "DDP_FIRST_BUCKET_MB", .type = KNOB_DOUBLE,    \
      .min = 1e-4, .max = 1e6, .help = "MiB of the first bucket (default: 1, or planned)")                             \
    X(bool, find_unused, ALIKE, .name = "find-unused", .env = "DDP_FIND_UNUSED", .type = KNOB_BOOL, .def = "off",      \
      .help = "parameters not marked ready when a backward pass ends were not used in it")                             \
    X(enum compress, compress, ALIKE, .name = "compress", .env = "DDP_COMPRESS", .type = KNOB_ENUM, .def = "none",     \
      .choices = "none|bf16|f16", .help = "type in which gradients travel")                                            \
    X(knob_text_t, loss_scale, ALIKE, .name = "loss-scale", .env = "DDP_LOSS_SCALE", .type = KNOB_STRING,              \
      .def = "auto", .max = 24,                                                                                        \
      .help = "factor for losses, for gradients in 16 bits: off, dynamic, a power of two, or auto: dynamic where a "   \
              "GPU computes in float16")                                                                               \
    X(enum zero_mode, zero, ALIKE, .name = "zero", .env = "DDP_ZERO", .type = KNOB_ENUM, .def = "auto",                \
      .choices = "auto|0|1",                                                                                           \
      .help = "ZeRO stage: 1 spreads the optimizer's state over the ranks; auto: on one node of CPUs")                 \
    X(enum data_order, order, ALIKE, .name = "order", .env = "DDP_ORDER", .type = KNOB_ENUM, .def = "ledger",          \
      .choices = "ledger|distributed",                                                                                 \
      .help = "order of samples: each once an epoch, or as PyTorch's DistributedSampler")                              \
    X(int, verify, ALIKE, .name = "verify", .env = "DDP_VERIFY", .type = KNOB_INT, .max = 1e6,                         \
      .help = "steps within which a rank whose parameters are not the others' is found; 0: never (default: 50; 0 on "  \
              "GPUs, and where the optimizer's state is spread)")                                                      \
    X(knob_text_t, trace, OWN, .name = "trace", .env = "DDP_TRACE", .type = KNOB_STRING, .max = 240,                   \
      .help = "file for a trace of every step (Chrome trace events); %r in it becomes the rank")                       \
    X(knob_text_t, record, OWN, .name = "record", .env = "DDP_RECORD", .type = KNOB_STRING, .max = 240,                \
      .help = "file to which rank 0 adds what the run does, as JSON lines, over restarts and requeues")               \
    X(knob_text_t, prometheus, OWN, .name = "prometheus", .env = "DDP_PROMETHEUS", .type = KNOB_STRING, .max = 240,    \
      .help = "file that rank 0 keeps the run's present numbers in, in Prometheus' text format")                       \
    X(int64_t, ckpt_every, ALIKE, .name = "ckpt-every", .env = "DDP_CKPT_EVERY", .type = KNOB_INT, .max = 1e15,        \
      .help = "steps between checkpoints; 0: on request only (default: by their cost)")                                \
    X(int64_t, snapshot_every, ALIKE, .name = "snapshot-every", .env = "DDP_SNAPSHOT_EVERY", .type = KNOB_INT,         \
      .max = 1e15,                                                                                                     \
      .help = "steps between snapshots in memory, for programs that are started again; 0: none (default: as often as " \
              "costs 1% of the time)")                                                                                 \
    X(int, keep, ALIKE, .name = "keep", .env = "DDP_KEEP", .type = KNOB_INT, .def = "2", .min = 1, .max = 1e6,         \
      .help = "newest checkpoints that stay")                                                                          \
    X(bool, ckpt_required, ALIKE, .name = "ckpt-required", .env = "DDP_CKPT_REQUIRED", .type = KNOB_BOOL,              \
      .def = "off", .help = "a checkpoint that fails ends training")                                                   \
    X(bool, ckpt_private, ALIKE, .name = "ckpt-private", .def = "off", SETTING_CKPT_PRIVATE)                           \
    X(double, ckpt_file_mb, ALIKE, .name = "ckpt-file-mb", .env = "DDP_CKPT_FILE_MB", .type = KNOB_DOUBLE,             \
      .def = "4096", .min = 1e-3, .max = 1e9,                                                                          \
      .help = "MiB that a file of a checkpoint holds at most, unless one tensor is larger")                            \
    X(knob_text_t, stop_signals, ALIKE, .name = "stop-signals", .env = "DDP_STOP_SIGNALS", .type = KNOB_STRING,        \
      .def = "TERM,USR1,USR2,INT", .max = 32,                                                                          \
      .help = "which of SIGTERM, SIGUSR1, SIGUSR2 and SIGINT stop the job after a step; none")                         \
    X(double, stop_within_s, ALIKE, .name = "stop-within", .env = "DDP_STOP_WITHIN", .type = KNOB_DOUBLE,              \
      .def = "10", .max = 1e9, .help = "seconds: in steps that take longer, a stop does not wait for the step's end")  \
    X(double, mtbf_hours, ALIKE, .name = "mtbf", .env = "DDP_MTBF", .type = KNOB_DOUBLE, .min = 1e-3, .max = 1e6,      \
      .help = "hours between failures of this job, for when checkpoints pay (default: what is observed)")              \
    X(enum requeue_mode, requeue, ALIKE, .name = "requeue", .def = "off", SETTING_REQUEUE)                             \
    X(int, requeue_limit, ALIKE, .name = "requeue-limit", SETTING_REQUEUE_LIMIT)                                       \
    X(knob_text_t, requeue_exclude, ALIKE, .name = "requeue-exclude", .env = "DDP_REQUEUE_EXCLUDE",                    \
      .type = KNOB_STRING, .max = 240, .help = "nodes that it is not to run on again")

#define CONFIG_FIELD(type, field, ...) type field;
struct config {
    CONFIG_SETTINGS(CONFIG_FIELD)
};
#undef CONFIG_FIELD

extern const struct knob config_knobs[];
extern const size_t config_n_knobs;

/* Reads the environment, then takes every "--ddp-KEY=VALUE" out of argv (both may be NULL; argv stays NULL-terminated).
 * An unknown key, a variable whose name is a setting's but for a slip, or a value out of range is an error that names
 * it; argv is then unchanged. */
int config_load(struct config *cfg, int *argc, char ***argv, ddp_error_t *errp);

/* Sets one key from text. A key of CONFIG_EARLY comes too late here: an error that says how to set it. */
int config_set(struct config *cfg, const char *key, const char *value, ddp_error_t *errp);

/* The settings of CONFIG_ALIKE, one "KEY=VALUE" a line, "hook=HOOK" and "libddp=VERSION"; malloc, the caller frees.
 * NULL: no memory. For two texts that differ, of ranks a and b, config_explain fills *errp with the first key that
 * differs and returns -1. */
char *config_shared_text(const struct config *cfg, const char *hook);
int config_explain(const char *text_a, int rank_a, const char *text_b, int rank_b, ddp_error_t *errp);

/* The text of a setting, or NULL if none was given. */
static inline const char *config_text(const knob_text_t text)
{
    return text[0] ? text : NULL;
}

#endif
