#include "runtime/record/number.h"

#include <locale.h>
#include <math.h>
#include <string.h>

/* A number as printf has it. */
static void put_digits(FILE *f, const char *text)
{
    const char *point = localeconv()->decimal_point, *at = strstr(text, point);
    if (at)
        fprintf(f, "%.*s.%s", (int)(at - text), text, at + strlen(point));
    else
        fputs(text, f);
}

void number_put(FILE *f, double x)
{
    char text[64];
    if (fabs(x) < 1e15 && x == floor(x))
        snprintf(text, sizeof text, "%.0f", x);
    else
        snprintf(text, sizeof text, "%.9g", x);
    put_digits(f, text);
}

void number_put_ms(FILE *f, double seconds)
{
    char text[512]; /* of DBL_MAX, too */
    snprintf(text, sizeof text, "%.3f", seconds);
    put_digits(f, text);
}
