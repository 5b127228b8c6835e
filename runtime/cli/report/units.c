/* units.c - numbers, times and texts for people. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "runtime/cli/report/report.h"

const char *report_si(double x, const char *unit, char *buf, size_t size)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;
    for (; fabs(x) >= 999.5 && i < sizeof prefix / sizeof *prefix - 1; i++)
        x /= 1000;
    bool is_word = *unit >= 'a' && *unit <= 'z';
    snprintf(buf, size, "%.3g %s%s%s", x, prefix[i], is_word && i ? " " : "", unit);
    return buf;
}

const char *report_percent(double share, char *buf, size_t size)
{
    if (isnan(share))
        snprintf(buf, size, "?");
    else
        snprintf(buf, size, "%.1f %%", 100 * share);
    return buf;
}

const char *report_number(double x, char *buf, size_t size)
{
    snprintf(buf, size, "%.4g", x);
    return buf;
}

static const char *format(double t, const char *how, char *buf, size_t size)
{
    time_t s = (time_t)t;
    struct tm tm;
    if (!localtime_r(&s, &tm) || strftime(buf, size, how, &tm) == 0)
        snprintf(buf, size, "?");
    return buf;
}

const char *report_date(double t, char *buf, size_t size)
{
    return format(t, "%Y-%m-%d %H:%M:%S", buf, size);
}

const char *report_clock(double t, double span_s, char *buf, size_t size)
{
    return format(t, span_s < 64800 ? "%H:%M:%S" : span_s < 15e6 ? "%m-%d %H:%M" : "%Y-%m-%d", buf, size);
}

double report_tick(double span, int n)
{
    if (!(span > 0) || !isfinite(span))
        return 1;
    double least = span / n, power = pow(10, floor(log10(least)));
    double ratio = least / power;
    return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

void report_escape(FILE *f, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\'': fputs("&#39;", f); break;
        default: fputc(*text, f);
        }
}
