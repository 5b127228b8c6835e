/* line.h - what whoever writes a record and whoever reads it must both know of its lines: their version, their length,
 * and the names of events and of a step's parts. */
#ifndef DDP_RECORD_LINE_H
#define DDP_RECORD_LINE_H

#include <stdbool.h>
#include <string.h>

#define RECORD_VERSION 1           /* member v of a start */
#define RECORD_LINE_MAX (2u << 20) /* bytes of a line; four numbers for each of 16384 ranks take up to 1 MiB */

enum record_event {
    RECORD_START, RECORD_TRAIN, RECORD_RESUME, RECORD_INTERVAL, RECORD_VALIDATION, RECORD_CHECKPOINT, RECORD_SLOW,
    RECORD_STOP, RECORD_REQUEUE, RECORD_FAILURE, RECORD_END, RECORD_EVENTS
};

static inline const char *record_event_name(enum record_event event)
{
    static const char *const name[RECORD_EVENTS] = {"start", "train", "resume", "interval", "validation", "checkpoint",
                                                    "slow",  "stop",  "requeue", "failure",  "end"};
    return name[event];
}

/* RECORD_EVENTS: it is none of these. */
static inline enum record_event record_event_of(const char *name)
{
    enum record_event event = RECORD_START;
    while (event < RECORD_EVENTS && strcmp(name, record_event_name(event)) != 0)
        event++;
    return event;
}

/* A program writes these itself (ddp_record), libddp and guards all others: what it gives in another form does not make
 * the record unreadable. */
static inline bool record_is_programs(enum record_event event)
{
    return event == RECORD_TRAIN || event == RECORD_VALIDATION;
}

/* Where the time of a step goes: enum ddp_part's. */
enum record_part {
    RECORD_DATA, RECORD_FORWARD, RECORD_BACKWARD, RECORD_EXPOSED, RECORD_OPTIMIZER, RECORD_SAVING, RECORD_OTHER,
    RECORD_PARTS
};

static inline const char *record_part_name(int part)
{
    static const char *const name[RECORD_PARTS] = {"data",      "forward",    "backward", "exposed",
                                                   "optimizer", "checkpoint", "other"};
    return name[part];
}

#endif
