/* settings.h - those settings of libddp (runtime/core/config.h) that can also be given as a key of the plugin
 * (spank/keys/keys.c) or as an option of `ddp requeue`. A value is checked by the same row wherever it is given, and
 * reaches libddp in the environment variable. Each macro has the members of struct knob except the name, and except the
 * default where only libddp has one. */
#ifndef DDP_BASE_SETTINGS_H
#define DDP_BASE_SETTINGS_H

#include "runtime/base/knob.h"

#define SETTING_TIMEOUT                                                                                                \
    .env = "DDP_TIMEOUT", .type = KNOB_DOUBLE, .min = 0.1, .max = 86400,                                               \
    .help = "seconds that any wait for another rank may take"

#define SETTING_INTERFACE                                                                                              \
    .env = "DDP_INTERFACE", .type = KNOB_STRING, .max = 15, .value = "NAME",                                           \
    .help = "network interface between nodes; unset: the one towards MASTER_ADDR"

#define SETTING_CKPT_PRIVATE                                                                                           \
    .env = "DDP_CKPT_PRIVATE", .type = KNOB_BOOL,                                                                      \
    .help = "checkpoints go only into folders of one's own that nobody else can write to"

#define SETTING_REQUEUE                                                                                                \
    .env = "DDP_REQUEUE", .type = KNOB_ENUM, .choices = "off|auto",                                                    \
    .help = "auto: a batch job that was asked to stop and has saved goes back into the queue"

#define SETTING_REQUEUE_LIMIT                                                                                          \
    .env = "DDP_REQUEUE_LIMIT", .type = KNOB_INT, .def = "100", .min = 0, .max = 1e6,                                  \
    .help = "restarts after which a job is not requeued"

#endif
