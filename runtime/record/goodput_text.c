/* goodput_text.c - what the time of a run was worth, in one line. */
#include <math.h>

#include "runtime/base/duration.h"
#include "runtime/record/goodput.h"

static const char *const short_name[GOODPUT_CLASSES] = {"useful", "lost",  "restart",  "checkpoint",
                                                        "data",   "queue", "start-up", "idle"};

static bool is_named(const struct goodput *g, unsigned classes, enum goodput_class c)
{
    return classes & 1u << c && g->class_s[c] > 0;
}

const char *goodput_text(const struct goodput *g, unsigned classes, char buf[GOODPUT_TEXT_MAX])
{
    char took[32];
    const char *before = ": ";
    double queue_s = g->class_s[GOODPUT_QUEUE];
    int n = snprintf(buf, GOODPUT_TEXT_MAX, "goodput %.1f%% of %s", isnan(g->share) ? 0 : 100 * g->share,
                     duration_text(g->to_t - g->from_t - queue_s, took, sizeof took));
    for (enum goodput_class c = 0; c < GOODPUT_CLASSES; c++)
        if (c != GOODPUT_QUEUE && is_named(g, classes, c)) {
            n += snprintf(buf + n, GOODPUT_TEXT_MAX - (size_t)n, "%s%s %s", before, short_name[c],
                          duration_text(g->class_s[c], took, sizeof took));
            before = ", ";
        }
    if (is_named(g, classes, GOODPUT_QUEUE))
        snprintf(buf + n, GOODPUT_TEXT_MAX - (size_t)n, "; queue %s", duration_text(queue_s, took, sizeof took));
    return buf;
}
