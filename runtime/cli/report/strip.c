/* strip.c - the time of runs: what it was worth in sum, and when. */
#include <inttypes.h>
#include <math.h>

#include "runtime/cli/report/report.h"

#define PLACES 500

static const char *const colour[GOODPUT_CLASSES] = {"useful", "lost", "restart", "checkpoint",
                                                    "data",   "queue", "startup", "idle"};

static void put_places(FILE *f, const enum goodput_class *place)
{
    for (int i = 0, end; i < PLACES; i = end) {
        for (end = i + 1; end < PLACES && place[end] == place[i]; end++)
            ;
        fprintf(f, "<path style=\"fill:var(--%s)\" d=\"M%d 0h%dv24h%dz\"/>", colour[place[i]], i * 2, (end - i) * 2,
                (i - end) * 2);
    }
}

static void put_strip(FILE *f, const struct report_run *r)
{
    struct report_lane lane = {.f = f};
    double from_t = r->goodput.from_t, span_s = r->goodput.to_t - from_t;
    enum goodput_class place[PLACES];
    struct report_event event[REPORT_EVENTS_MAX];
    size_t left_out, n = report_events(r, event, &left_out);
    char from[32], to[32];
    fputs("<div class=\"strip\"><div class=\"lane\" aria-hidden=\"true\">", f);
    for (size_t i = 0; i < n; i++)
        if (report_is_marked(&event[i]) && span_s > 0)
            report_lane_put(&lane, &event[i], fmin(fmax((event[i].t - from_t) / span_s, 0), 1), -1);
    report_lane_end(&lane);
    fputs("</div><svg viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\" role=\"img\">"
          "<title>What the time was spent on, from begin to end; its sums and the events are in the tables</title>", f);
    if (report_places(r, PLACES, place))
        put_places(f, place);
    fprintf(f, "</svg><div class=\"ends\"><span>%s</span><span>%s</span></div></div>",
            report_clock(from_t, span_s, from, sizeof from),
            report_clock(r->goodput.to_t, span_s, to, sizeof to));
}

/* One bar of the sums. */
static void put_bar(FILE *f, const struct report_run *r)
{
    double all = r->goodput.to_t - r->goodput.from_t, at = 0;
    fputs("<div class=\"strip\"><svg viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" role=\"img\">"
          "<title>Goodput: the shares of the table below</title>", f);
    for (int c = 0; c < GOODPUT_CLASSES && all > 0; c++) {
        double width = 1000 * r->goodput.class_s[c] / all;
        if (width > 0)
            fprintf(f, "<path style=\"fill:var(--%s)\" d=\"M%.2f 0h%.2fv24h%.2fz\"/>", colour[c], at, width, -width);
        at += width;
    }
    fputs("</svg></div>", f);
}

static void put_sums(FILE *f, const struct report_run *r)
{
    double all = r->goodput.to_t - r->goodput.from_t;
    char took[32], share[32];
    fputs("<table class=\"sums\"><tbody>", f);
    for (int c = 0; c < GOODPUT_CLASSES; c++)
        if (r->goodput.class_s[c] > 0)
            fprintf(f, "<tr><th scope=\"row\"><i style=\"background:var(--%s)\"></i>%s</th><td class=\"n\">%s</td>"
                    "<td class=\"n\">%s</td></tr>", colour[c], goodput_name[c],
                    duration_text(r->goodput.class_s[c], took, sizeof took),
                    report_percent(r->goodput.class_s[c] / all, share, sizeof share));
    fprintf(f, "<tr><th scope=\"row\">sum</th><td class=\"n\">%s</td><td class=\"n\">100 %%</td></tr></tbody></table>",
            duration_text(all, took, sizeof took));
}

static void put_events(FILE *f, const struct report_run *r, bool is_open)
{
    struct report_event event[REPORT_EVENTS_MAX];
    size_t left_out, n = report_events(r, event, &left_out);
    double span_s = r->goodput.to_t - r->goodput.from_t;
    char when[32];
    fprintf(f, "<details%s><summary>Events</summary><div class=\"wide\"><table class=\"events\"><thead><tr>"
            "<th scope=\"col\">when</th><th scope=\"col\">step</th><th scope=\"col\">what</th><th></th></tr></thead>"
            "<tbody>", is_open ? " open" : "");
    for (size_t i = 0; i < n; i++) {
        if (left_out && i == REPORT_EVENTS_MAX / 2)
            fprintf(f, "<tr><td></td><td></td><td></td><td>%zu more</td></tr>", left_out);
        fprintf(f, "<tr><td>%s</td><td class=\"n\">", report_clock(event[i].t, span_s, when, sizeof when));
        if (r->record.has_steps)
            fprintf(f, "%" PRIu64, event[i].step);
        fprintf(f, "</td><td class=\"%s\">%s</td><td>", event[i].kind, event[i].kind);
        report_escape(f, event[i].text);
        fputs("</td></tr>", f);
    }
    fputs("</tbody></table></div></details>", f);
}

static void put_run(FILE *f, const struct report_run *r, bool is_alone)
{
    char share[32];
    fputs("<div><h3>", f);
    report_escape(f, r->name);
    fprintf(f, ": goodput %s</h3>", report_percent(r->goodput.share, share, sizeof share));
    put_strip(f, r);
    fputs(is_alone ? "<div class=\"two\"><div>" : "<div>", f);
    put_bar(f, r);
    put_sums(f, r);
    fputs("</div>", f);
    put_events(f, r, is_alone);
    fputs(is_alone ? "</div></div>" : "</div>", f);
}

void report_strips(FILE *f, const struct report_run *runs, int n)
{
    fprintf(f, "<section><h2>What the time was worth</h2><p class=\"soft small\">Goodput is useful time over all but "
            "the queue. F: failure, R: requeue, S: stop.</p><div class=\"%s\">", n > 1 ? "two" : "one");
    for (int i = 0; i < n; i++)
        put_run(f, &runs[i], n == 1);
    fputs("</div></section>\n", f);
}
