/* page.c - runs as one page of HTML: no script, nothing from elsewhere, and a policy that says so. */
#include <string.h>

#include "runtime/cli/report/report.h"
#include "runtime/ddp.h"

static void put_title(FILE *f, const struct report_run *runs, int n)
{
    const struct record_start *s = runs->start;
    if (n > 1) {
        for (int i = 0; i < n; i++) {
            fputs(i == 0 ? "" : i + 1 < n ? ", " : " and ", f);
            report_escape(f, runs[i].name);
        }
        return;
    }
    report_escape(f, *s->program ? s->program : runs->name);
    if (*s->job) {
        fputs(", job ", f);
        report_escape(f, s->job);
    }
    fputs(": ", f);
    report_escape(f, runs->how);
}

static void put_head(FILE *f, const struct report_run *runs, int n)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "img-src data:\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
          "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\"><title>", f);
    put_title(f, runs, n);
    fputs("</title>\n<style>", f);
    fputs(report_style, f);
    fputs("</style></head><body>\n<header><h1>", f);
    put_title(f, runs, n);
    fputs("</h1></header>\n", f);
}

/* ---- figures to see first, of one run ---- */

static void put_tile(FILE *f, const char *name, const char *text)
{
    if (!*text)
        return;
    fprintf(f, "<div><dt>%s</dt><dd>", name);
    report_escape(f, text);
    fputs("</dd></div>", f);
}

static void put_tiles(FILE *f, const struct report_run *r)
{
    static const char *const wanted[] = {"took", "last loss", "throughput", "scaling efficiency", "goodput"};
    char text[REPORT_TEXT_MAX];
    fputs("<dl class=\"tiles\">", f);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int k = 0; k < REPORT_FACTS; k++)
            if (!strcmp(report_fact_label[k], wanted[i]))
                put_tile(f, wanted[i], report_fact(r, k, text, sizeof text));
    fputs("</dl>\n", f);
}

/* ---- all facts ---- */

static void put_fact(FILE *f, const struct report_run *runs, int n, int fact)
{
    char text[REPORT_TEXT_MAX];
    bool is_there = false;
    for (int i = 0; i < n; i++)
        is_there |= *report_fact(&runs[i], fact, text, sizeof text) != 0;
    if (!is_there)
        return;
    fprintf(f, "<tr><th scope=\"row\">%s</th>", report_fact_label[fact]);
    for (int i = 0; i < n; i++) {
        fputs("<td>", f);
        report_escape(f, report_fact(&runs[i], fact, text, sizeof text));
        fputs("</td>", f);
    }
    fputs("</tr>", f);
}

static void put_nodes(FILE *f, const struct report_run *runs, int n)
{
    fputs("<tr><th scope=\"row\">nodes</th>", f);
    for (int i = 0; i < n; i++) {
        const struct record_start *s = runs[i].start;
        fputs("<td>", f);
        for (int k = 0; k < s->n_nodes && k < 16; k++) {
            fputs(k ? " " : "", f);
            report_escape(f, s->node[k]);
        }
        fputs(s->n_nodes > 16 ? " ...</td>" : "</td>", f);
    }
    fputs("</tr>", f);
}

static void put_facts(FILE *f, const struct report_run *runs, int n)
{
    fputs("<section><h2>Facts</h2><div class=\"wide\" role=\"region\" aria-label=\"Facts\" tabindex=\"0\">"
          "<table class=\"facts\">", f);
    if (n > 1) {
        fputs("<thead><tr><th></th>", f);
        for (int i = 0; i < n; i++) {
            fprintf(f, "<th scope=\"col\"><i style=\"background:var(--r%d)\"></i>", i);
            report_escape(f, runs[i].name);
            fputs("</th>", f);
        }
        fputs("</tr></thead>", f);
    }
    fputs("<tbody>", f);
    for (int k = 0; k < REPORT_FACTS; k++)
        put_fact(f, runs, n, k);
    put_nodes(f, runs, n);
    fputs("<tr><th scope=\"row\">record</th>", f);
    for (int i = 0; i < n; i++) {
        fputs("<td>", f);
        report_escape(f, runs[i].path);
        fputs("</td>", f);
    }
    fputs("</tr></tbody></table></div></section>\n", f);
}

void report_page(FILE *f, const struct report_run *runs, int n)
{
    put_head(f, runs, n);
    if (n == 1)
        put_tiles(f, runs);
    fputs("<main>\n", f);
    report_strips(f, runs, n);
    report_charts(f, runs, n);
    put_facts(f, runs, n);
    fputs("</main>\n<p class=\"soft small\">ddp report, of slurm-ddp " DDP_VERSION ". What the words mean: "
          "ddp-report(1), ddp-record(5).</p>\n</body></html>\n", f);
}
