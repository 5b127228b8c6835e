/* goodput.h - what the time of a run was worth. Pure.
 *
 * Every second from when the first allocation began (alloc_t; began_t, or the first line, where it is not told) to the
 * last line of the record is in one class, so that their sum is the wall time:
 *
 * useful      steps whose result the run went on with or ended with, and validation. Of an interval: its wall_s without
 *             data and checkpoint.
 * lost        steps that were done again after a failure, as a later generation began before them, all of their time;
 *             and steps after the last checkpoint where the record ends with a failure. What ran after the last
 *             interval when a program was killed is as long as the steps beyond it that were kept, useful, and lost
 *             from there. A run that ended as "done" loses nothing to what follows in the file.
 * restart     from a failure (its line; without one, from the last line of that generation) to the next start
 *             in the same allocation, to when the job was requeued, or to the end of the record.
 * checkpoint  the steps' part of that name, and what stood still outside of intervals.
 * data        the steps' part of that name.
 * queue       from the line that the job was requeued, or the last one of that allocation, to when the next began.
 * start-up    from when an allocation, or within one a program, began to its first step.
 * idle        the rest: time between intervals or after the last one in which there was no validation; between a
 *             program's good end and the next start in the same allocation.
 *
 * A start without a device is of a program that tells no steps: the time of its generation from began_t on is useful
 * where it came to a good end or goes on still, and lost where it failed.
 *
 * A suspension of the job is in no line: its time is of the class of what it interrupts.
 *
 * Time that lines overlap, since clocks are not exact, counts once; a line from before the one above it counts as of
 * that one's time. Goodput is useful time over all but the queue. */
#ifndef DDP_RECORD_GOODPUT_H
#define DDP_RECORD_GOODPUT_H

#include "runtime/record/read.h"

enum goodput_class {
    GOODPUT_USEFUL, GOODPUT_LOST, GOODPUT_RESTART, GOODPUT_CHECKPOINT, GOODPUT_DATA, GOODPUT_QUEUE, GOODPUT_STARTUP,
    GOODPUT_IDLE, GOODPUT_CLASSES
};
extern const char *const goodput_name[GOODPUT_CLASSES];

struct goodput {
    double from_t, to_t;                /* seconds since 1970 */
    double class_s[GOODPUT_CLASSES];    /* their sum is to_t - from_t */
    double share;                       /* useful / (all - queue), 0 to 1; NAN: there is only queue */
};

/* True if b, a later start of the run than a, is in another allocation: the job was requeued, or is another one. A
 * second step in one, as "7.0" and "7.1" of job, is not. */
bool goodput_is_new_allocation(const struct record_start *a, const struct record_start *b);

/* The time from from_t to to_t is of one class. Called in order, without gaps; equal classes may follow each other. */
typedef void (*goodput_f)(void *arg, enum goodput_class c, double from_t, double to_t);

/* f: called for every piece of the time; may be NULL. */
struct goodput goodput_of(const struct record *r, goodput_f f, void *arg);

#define GOODPUT_ALL ((1u << GOODPUT_CLASSES) - 1)
#define GOODPUT_COST (1u << GOODPUT_LOST | 1u << GOODPUT_RESTART) /* what failures have cost */
#define GOODPUT_TEXT_MAX 512 /* times of any length fit */

/* "goodput 91.3% of 2 h 14 min: useful 2 h 02 min, lost 3 min 05 s, restart 40.1 s, data 4.2 s, start-up 20.0 s; queue
 * 5 min 01 s": the time without the queue, and of the classes in the bit mask (1 << GOODPUT_...) those that took any.
 * Returns buf, of GOODPUT_TEXT_MAX bytes. */
const char *goodput_text(const struct goodput *g, unsigned classes, char buf[GOODPUT_TEXT_MAX]);

#endif
