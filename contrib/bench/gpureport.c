#include "contrib/bench/gpureport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    FILE *json;
    const char *path;
    bool is_emulated;
} to;

int report_begin(const char *path, bool is_emulated, const char *title, ddp_error_t *errp)
{
    to.path = path;
    to.is_emulated = is_emulated;
    to.json = path ? fopen(path, "w") : NULL;
    if (path && !to.json)
        return error_errno(errp, "cannot write %s", path);
    printf("%s%s\n%-44s %10s %-4s %21s %10s  %s\n", title, is_emulated ? " (emulated: no figure says anything)" : "",
           "", "median", "", "quartiles", "limit", "ratio");
    return 0;
}

static bool is_reached(const struct report_entry *e)
{
    return e->at_most ? e->ratio <= e->goal : e->ratio >= e->goal;
}

static void print_line(const struct report_entry *e)
{
    char quartiles[40], limit[24] = "", ratio[120] = "", goal[40] = "";
    snprintf(quartiles, sizeof quartiles, "%.4g-%.4g", e->stats.q1, e->stats.q3);
    if (e->limit > 0)
        snprintf(limit, sizeof limit, "%.4g", e->limit);
    if (e->ratio > 0)
        snprintf(ratio, sizeof ratio, "%.3f %s", e->ratio, e->ratio_of);
    if (e->ratio > 0 && e->goal > 0)
        snprintf(goal, sizeof goal, " (%s %g%s)", e->at_most ? "at most" : "at least", e->goal,
                 to.is_emulated ? "" : is_reached(e) ? ": reached" : ": MISSED");
    printf("%-44s %10.4g %-4s %21s %10s  %s%s%s%s\n", e->what, e->stats.median, e->unit, quartiles, limit, ratio, goal,
           e->note ? " " : "", e->note ? e->note : "");
    fflush(stdout);
}

static void print_number(const char *name, double x)
{
    if (x > 0)
        fprintf(to.json, ", \"%s\": %.9g", name, x);
    else
        fprintf(to.json, ", \"%s\": null", name);
}

void report_entry(const struct report_entry *e)
{
    bool is_judged = e->ratio > 0 && e->goal > 0 && !to.is_emulated;
    print_line(e);
    if (!to.json)
        return;
    fprintf(to.json, "{\"what\": \"%s\", \"median\": %.9g, \"unit\": \"%s\", \"q1\": %.9g, \"q3\": %.9g", e->what,
            e->stats.median, e->unit, e->stats.q1, e->stats.q3);
    print_number("limit", e->limit);
    print_number("ratio", e->ratio);
    fprintf(to.json, ", \"ratio_of\": \"%s\"", e->ratio_of ? e->ratio_of : "");
    if (e->goal > 0)
        fprintf(to.json, ", \"goal\": \"%s %g\"", e->at_most ? "<=" : ">=", e->goal);
    else
        fprintf(to.json, ", \"goal\": null");
    fprintf(to.json, ", \"reached\": %s%s}\n", !is_judged ? "null" : is_reached(e) ? "true" : "false",
            e->members ? e->members : "");
    fflush(to.json);
}

void report_failed(const char *what, const char *why)
{
    printf("%-44s failed: %s\n", what, why);
    fflush(stdout);
    if (!to.json)
        return;
    fprintf(to.json, "{\"what\": \"%s\", \"median\": null, \"unit\": \"\", \"q1\": null, \"q3\": null, \"limit\": null",
            what);
    fprintf(to.json, ", \"ratio\": null, \"ratio_of\": \"\", \"goal\": null, \"reached\": null, \"failed\": \"");
    for (const char *c = why; *c; c++)
        fputc(*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '\'' : *c, to.json);
    fprintf(to.json, "\"}\n");
    fflush(to.json);
}

int report_end(ddp_error_t *errp)
{
    if (!to.json)
        return 0;
    bool bad = ferror(to.json);
    bad = fclose(to.json) != 0 || bad;
    to.json = NULL;
    return bad ? error_errno(errp, "cannot write %s", to.path) : 0;
}
