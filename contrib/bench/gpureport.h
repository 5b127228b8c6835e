/* gpureport.h - what the benchmarks on a GPU share: medians, and how a result is told: a line for people, and
 * for contrib/gpu-check a JSON object a line, all of one form:
 *   {"what": "...", "median": 1.2, "unit": "ms", "q1": 1.1, "q3": 1.3, "limit": 1.0, "ratio": 0.83,
 *    "ratio_of": "...", "goal": ">= 0.9", "reached": false}
 * limit, ratio, goal and reached are null where there is none. Over the emulator nothing is reached or missed. What
 * could not be measured has "failed": "why", and null for median, q1 and q3. */
#ifndef DDP_CONTRIB_BENCH_GPUREPORT_H
#define DDP_CONTRIB_BENCH_GPUREPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/base/stats.h"

struct report_entry {
    const char *what, *unit;
    struct stats stats;
    double limit;         /* what nothing can beat, in the same unit; 0: none */
    double ratio;         /* 0: none */
    const char *ratio_of; /* "of a copy", "of bare NCCL" */
    double goal;          /* for the ratio; 0: none */
    bool at_most;         /* else at least */
    const char *note;     /* for people alone; NULL: none */
    const char *members;  /* more of the JSON object, ", \"count\": 12"; NULL: none */
};

/* The table's head; then entries; then what is not written yet. `path`: the JSON lines go there, too; NULL: nowhere.
 * 0, or -1 with *errp filled. */
int report_begin(const char *path, bool is_emulated, const char *title, ddp_error_t *errp);
void report_entry(const struct report_entry *e);
void report_failed(const char *what, const char *why);
int report_end(ddp_error_t *errp);

#endif
