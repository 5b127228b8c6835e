#include "spank/step/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 18 /* of one number: fits a uint64_t */
#define PARTS_MAX 8   /* bracketed parts of one expression */

/* One bracketed part, of `count` numbers: text[0..len) lies between the brackets. */
struct part {
    const char *text;
    size_t len, count;
};

/* One expression, and the bracketed parts in it. */
struct expr {
    const char *text;
    size_t len, count, n_parts;
    struct part part[PARTS_MAX];
};

struct range {
    uint64_t lo, hi;
    int width;
};

/* Where a walk stands in one part: at number `at` of `range`, the next range being read from `next`. */
struct cursor {
    const char *next;
    struct range range;
    uint64_t at;
};

static int bad(ddp_error_t *errp, const char *list, const char *why)
{
    return error_set(errp, DDP_E_DATA, EINVAL, "host list \"%.80s\": %s", list, why);
}

static int too_many(ddp_error_t *errp, const char *list)
{
    return error_set(errp, DDP_E_DATA, E2BIG, "host list \"%.80s\": it names more than %u hosts", list,
                     HOSTLIST_HOSTS_MAX);
}

static const char *read_number(const char *p, const char *end, uint64_t *ret, int *ret_width)
{
    const char *start = p;
    for (*ret = 0; p < end && isdigit((unsigned char)*p); p++)
        if (p - start < DIGITS_MAX)
            *ret = *ret * 10 + (uint64_t)(*p - '0');
    *ret_width = (int)(p - start);
    return p > start && *ret_width <= DIGITS_MAX ? p : NULL;
}

/* Reads "7" or "7-12" at p; returns what follows it (a comma is skipped), or NULL. */
static const char *read_range(const char *p, const char *end, struct range *ret)
{
    int width;
    p = read_number(p, end, &ret->lo, &ret->width);
    if (!p)
        return NULL;
    ret->hi = ret->lo;
    if (p < end && *p == '-' && !(p = read_number(p + 1, end, &ret->hi, &width)))
        return NULL;
    if (ret->hi < ret->lo || (p < end && *p != ','))
        return NULL;
    if (p < end && ++p == end) /* a comma with nothing after it */
        return NULL;
    return p;
}

static int read_part(struct part *part, const char *list, ddp_error_t *errp)
{
    const char *end = part->text + part->len;
    part->count = 0;
    if (part->len == 0)
        return bad(errp, list, "nothing between the brackets");
    for (const char *p = part->text; p < end;) {
        struct range r;
        if (!(p = read_range(p, end, &r)))
            return bad(errp, list, "between brackets belong numbers and rising ranges such as 1-3,07");
        if (r.hi - r.lo >= HOSTLIST_HOSTS_MAX || (part->count += (size_t)(r.hi - r.lo) + 1) > HOSTLIST_HOSTS_MAX)
            return too_many(errp, list);
    }
    return 0;
}

/* Reads the expression at p up to a comma outside brackets or the end of the list. */
static int read_expr(const char *p, const char *list, struct expr *ret, ddp_error_t *errp)
{
    size_t fixed = 0; /* bytes outside brackets */
    *ret = (struct expr){.text = p, .count = 1};
    while (*p && *p != ',') {
        if (*p == ']')
            return bad(errp, list, "] without [");
        if (isspace((unsigned char)*p))
            return bad(errp, list, "it has white space in it");
        if (*p != '[') {
            p++;
            fixed++;
            continue;
        }
        size_t len = strcspn(p + 1, "[]");
        if (p[1 + len] != ']')
            return bad(errp, list, p[1 + len] ? "[ within [ ]" : "[ without ]");
        if (ret->n_parts == PARTS_MAX)
            return bad(errp, list, "too many brackets in one name");
        struct part *part = &ret->part[ret->n_parts++];
        *part = (struct part){.text = p + 1, .len = len};
        if (read_part(part, list, errp) < 0)
            return -1;
        if ((ret->count *= part->count) > HOSTLIST_HOSTS_MAX)
            return too_many(errp, list);
        p += len + 2;
    }
    ret->len = (size_t)(p - ret->text);
    if (ret->len == 0)
        return bad(errp, list, "a name is empty");
    if (fixed + ret->n_parts * DIGITS_MAX > HOSTLIST_NAME_MAX)
        return bad(errp, list, "a name is too long");
    return 0;
}

/* Reads the range at p, which read_part has seen. */
static void enter_range(struct cursor *c, const struct part *part, const char *p)
{
    c->next = read_range(p, part->text + part->len, &c->range);
    c->at = c->range.lo;
}

/* To number i of the part, from its beginning. */
static void seek(struct cursor *c, const struct part *part, size_t i)
{
    for (enter_range(c, part, part->text); i > c->range.hi - c->range.lo; enter_range(c, part, c->next))
        i -= (size_t)(c->range.hi - c->range.lo) + 1;
    c->at = c->range.lo + i;
}

/* To the next number; false: from the last to the first. */
static bool advance(struct cursor *c, const struct part *part)
{
    bool is_last = c->next == part->text + part->len;
    if (c->at < c->range.hi) {
        c->at++;
        return true;
    }
    enter_range(c, part, is_last ? part->text : c->next);
    return !is_last;
}

static void seek_host(struct cursor *c, const struct expr *e, size_t i)
{
    for (size_t k = e->n_parts; k-- > 0; i /= e->part[k].count)
        seek(&c[k], &e->part[k], i % e->part[k].count);
}

/* The last part counts fastest. */
static void advance_host(struct cursor *c, const struct expr *e)
{
    for (size_t k = e->n_parts; k-- > 0 && !advance(&c[k], &e->part[k]);)
        ;
}

/* The name where the cursors stand; the buffer is large enough (read_expr saw to it). */
static void put_host(char *out, const struct expr *e, const struct cursor *c)
{
    size_t k = 0;
    for (const char *p = e->text; p < e->text + e->len;) {
        if (*p == '[') {
            out += sprintf(out, "%0*llu", c[k].range.width, (unsigned long long)c[k].at);
            p += e->part[k++].len + 2;
        } else {
            *out++ = *p++;
        }
    }
    *out = 0;
}

/* Walks the expressions: *pos is NULL at first, then where the next one starts. 1: *ret is one; 0: the end; -1. */
static int next_expr(const char *list, const char **pos, struct expr *ret, ddp_error_t *errp)
{
    const char *p = *pos ? *pos : list;
    if (*pos && !*p)
        return 0;
    if (read_expr(p, list, ret, errp) < 0)
        return -1;
    p += ret->len;
    *pos = *p ? p + 1 : p;
    if (*p == ',' && !p[1])
        return bad(errp, list, "a name is empty");
    return 1;
}

int hostlist_count(const char *list, size_t *ret, ddp_error_t *errp)
{
    size_t n = 0;
    const char *pos = NULL;
    struct expr e;
    int rc;
    if (!list || !*list)
        return error_set(errp, DDP_E_DATA, EINVAL, "the host list is empty");
    while ((rc = next_expr(list, &pos, &e, errp)) > 0)
        if ((n += e.count) > HOSTLIST_HOSTS_MAX)
            return too_many(errp, list);
    if (rc == 0)
        *ret = n;
    return rc;
}

int hostlist_nth(const char *list, size_t i, char *buf, ddp_error_t *errp)
{
    size_t n;
    const char *pos = NULL;
    struct expr e;
    if (hostlist_count(list, &n, errp) < 0)
        return -1;
    if (i >= n)
        return error_set(errp, DDP_E_DATA, ERANGE, "host list \"%.80s\": it has %zu hosts, no number %zu", list, n, i);
    while (next_expr(list, &pos, &e, errp) > 0) {
        if (i < e.count) {
            struct cursor at[PARTS_MAX];
            seek_host(at, &e, i);
            put_host(buf, &e, at);
            return 0;
        }
        i -= e.count;
    }
    return -1;
}

int hostlist_each(const char *list, int (*f)(const char *host, void *arg), void *arg, ddp_error_t *errp)
{
    size_t n;
    const char *pos = NULL;
    struct expr e;
    if (hostlist_count(list, &n, errp) < 0)
        return -1;
    while (next_expr(list, &pos, &e, errp) > 0) {
        struct cursor at[PARTS_MAX];
        seek_host(at, &e, 0);
        for (size_t i = 0; i < e.count; i++, advance_host(at, &e)) {
            char host[HOSTLIST_NAME_MAX + 1];
            put_host(host, &e, at);
            int rc = f(host, arg);
            if (rc)
                return rc;
        }
    }
    return 0;
}
