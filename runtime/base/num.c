#include "runtime/base/num.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(int code)
{
    errno = code;
    return -1;
}

static bool is_digits(const char *s)
{
    if (!*s)
        return false;
    for (; *s; s++)
        if (!isdigit((unsigned char)*s))
            return false;
    return true;
}

int num_i64(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    if (!text || !is_digits(text[0] == '-' ? text + 1 : text))
        return fail(EINVAL);
    errno = 0;
    long long v = strtoll(text, NULL, 10);
    if (errno || v < min || v > max)
        return fail(ERANGE);
    *ret = v;
    return 0;
}

int num_int(const char *text, int min, int max, int *ret)
{
    int64_t v;
    if (num_i64(text, min, max, &v) < 0)
        return -1;
    *ret = (int)v;
    return 0;
}

int num_u64(const char *text, uint64_t max, uint64_t *ret)
{
    if (!text || !is_digits(text))
        return fail(EINVAL);
    errno = 0;
    unsigned long long v = strtoull(text, NULL, 10);
    if (errno || v > max)
        return fail(ERANGE);
    *ret = v;
    return 0;
}

/* Numbers have a point, whatever language the program has chosen: this thread's, until uselocale(what is returned).
 * The C library makes nothing for "C", which nobody has to free. */
static locale_t use_points(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

int64_t num_variable(const char *name, int64_t max)
{
    int64_t n = 0;
    num_i64(getenv(name), 0, max, &n);
    return n;
}

int num_double(const char *text, double min, double max, double *ret)
{
    if (!text || !*text || strspn(text, "0123456789.eE+-") != strlen(text))
        return fail(EINVAL);
    char *end;
    locale_t was = use_points();
    errno = 0;
    double v = strtod(text, &end);
    uselocale(was);
    if (end == text || *end)
        return fail(EINVAL);
    if (!isfinite(v) || v < min || v > max)
        return fail(ERANGE);
    *ret = v;
    return 0;
}

void num_format(double x, char *buf, size_t size)
{
    locale_t was = use_points();
    int digits = 6;
    do
        snprintf(buf, size, "%.*g", digits, x);
    while (strtod(buf, NULL) != x && ++digits <= 17);
    uselocale(was);
}

int num_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"on", "yes", "true", "1"}, *const no[] = {"off", "no", "false", "0"};
    for (size_t i = 0; text && i < sizeof yes / sizeof *yes; i++) {
        if (!strcmp(text, yes[i]))
            return *ret = true, 0;
        if (!strcmp(text, no[i]))
            return *ret = false, 0;
    }
    return fail(EINVAL);
}

bool num_list_has(const char *list, int low, int high)
{
    int first, last, n;
    for (; low <= high && sscanf(list, "%d%n", &first, &n) == 1; list += n + (list[n] == ',')) {
        list += n;
        n = 0;
        if (sscanf(list, "-%d%n", &last, &n) != 1)
            last = first;
        if (first <= low && low <= last)
            low = last + 1;
    }
    return low > high;
}
