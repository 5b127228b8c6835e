#include "spank/step/hostlist.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 18 /* of one number, as hostlist.c reads them */

/* A name, cut before its last number. */
struct name {
    const char *text;
    size_t prefix, width; /* bytes before the number, digits of it; width 0: none */
    uint64_t number;
};

/* A list as it grows. Allocated for all names at full length, so that it never runs out. */
struct text {
    char *buf;
    size_t used;
};

static int read_name(const char *text, struct name *ret, ddp_error_t *errp)
{
    size_t len = strlen(text), at = len;
    if (len == 0 || len > HOSTLIST_NAME_MAX || strcspn(text, ",[] \t\r\n\v\f") < len)
        return error_set(errp, DDP_E_DATA, EINVAL, "\"%.80s\" is no host name", text);
    while (at > 0 && len - at < DIGITS_MAX && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    *ret = (struct name){text, at, len - at, 0};
    for (const char *p = text + at; *p; p++)
        ret->number = ret->number * 10 + (uint64_t)(*p - '0');
    return 0;
}

static int compare_prefix(const struct name *a, const struct name *b)
{
    size_t n = a->prefix < b->prefix ? a->prefix : b->prefix;
    int c = memcmp(a->text, b->text, n);
    return c ? c : (a->prefix > b->prefix) - (a->prefix < b->prefix);
}

static int compare(const void *x, const void *y)
{
    const struct name *a = x, *b = y;
    int c = compare_prefix(a, b);
    if (!c)
        c = (a->number > b->number) - (a->number < b->number);
    return c ? c : (a->width > b->width) - (a->width < b->width);
}

/* Whether a range that begins with `first` and has come to a goes on with b: [08-10], [8-10]. */
static bool continues(const struct name *first, const struct name *a, const struct name *b)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%0*llu", (int)first->width, (unsigned long long)a->number + 1);
    return a->width > 0 && b->number == a->number + 1 && (size_t)n == b->width;
}

static void put(struct text *t, const char *bytes, size_t n)
{
    memcpy(t->buf + t->used, bytes, n);
    t->used += n;
}

/* The ranges of names[0..n), which share a prefix and have numbers: "1-3,07". */
static void put_ranges(struct text *t, const struct name *names, size_t n)
{
    for (size_t i = 0, last; i < n; i = last + 1) {
        for (last = i; last + 1 < n && continues(&names[i], &names[last], &names[last + 1]); last++)
            ;
        put(t, ",", i > 0);
        put(t, names[i].text + names[i].prefix, names[i].width);
        put(t, "-", last > i);
        put(t, names[last].text + names[last].prefix, last > i ? names[last].width : 0);
    }
}

/* One expression for names[0..n), which share a prefix. */
static void put_group(struct text *t, const struct name *names, size_t n)
{
    put(t, ",", t->used > 0);
    put(t, names->text, names->prefix);
    put(t, "[", n > 1);
    put_ranges(t, names, n);
    put(t, "]", n > 1);
}

/* Sorts, drops what is there twice, returns how many are left. */
static size_t sort_names(struct name *names, size_t n)
{
    size_t kept = 0;
    qsort(names, n, sizeof *names, compare);
    for (size_t i = 0; i < n; i++)
        if (!kept || compare(&names[kept - 1], &names[i]))
            names[kept++] = names[i];
    return kept;
}

/* A name without a number stands alone: it sorts before "name0", the only one that shares its prefix and number. */
static size_t group_length(const struct name *names, size_t n)
{
    size_t len = 1;
    while (names->width > 0 && len < n && names[len].width > 0 && compare_prefix(names, &names[len]) == 0)
        len++;
    return len;
}

char *hostlist_compress(const char *const *names, size_t n, ddp_error_t *errp)
{
    struct text t = {0};
    size_t size = 1;
    struct name *sorted = n ? calloc(n, sizeof *sorted) : NULL;
    if (n == 0) {
        error_set(errp, DDP_E_DATA, EINVAL, "no host names to make a list of");
        return NULL;
    }
    for (size_t i = 0; sorted && i < n; i++) {
        if (read_name(names[i], &sorted[i], errp) < 0)
            goto fail;
        size += strlen(names[i]) + 3; /* a comma and, for a name alone in its group, brackets */
    }
    t.buf = sorted ? malloc(size) : NULL;
    if (!t.buf) {
        error_errno(errp, "a list of %zu hosts", n);
        goto fail;
    }
    n = sort_names(sorted, n);
    for (size_t i = 0, len; i < n; i += len) {
        len = group_length(&sorted[i], n - i);
        put_group(&t, &sorted[i], len);
    }
    t.buf[t.used] = 0;
fail:
    free(sorted);
    return t.buf;
}
