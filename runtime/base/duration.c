#include "runtime/base/duration.h"

#include <math.h>
#include <stdio.h>

const char *duration_text(double s, char *buf, size_t size)
{
    double whole = floor(s + 0.5);
    if (isnan(s))
        snprintf(buf, size, "?");
    else if (s * 1e6 < 999.5) /* what is 1000 in three digits is the next unit's */
        snprintf(buf, size, "%.3g us", s * 1e6);
    else if (s * 1e3 < 999.5)
        snprintf(buf, size, "%.3g ms", s * 1e3);
    else if (s < 59.95)
        snprintf(buf, size, "%.1f s", s);
    else if (whole < 3600)
        snprintf(buf, size, "%.0f min %02.0f s", floor(whole / 60), fmod(whole, 60));
    else if (whole < 86400)
        snprintf(buf, size, "%.0f h %02.0f min", floor(whole / 3600), floor(fmod(whole, 3600) / 60));
    else
        snprintf(buf, size, "%.0f d %02.0f h", floor(whole / 86400), floor(fmod(whole, 86400) / 3600));
    return buf;
}
