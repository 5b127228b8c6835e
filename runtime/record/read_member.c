/* read_member.c - one member of a line. */
#include <math.h>
#include <string.h>

#include "runtime/base/plain.h"
#include "runtime/record/read_impl.h"

#define SECONDS_MAX 1e12 /* of a time or a duration: 30000 years */

/* A copy, cut between two characters, and plain. NULL: no memory. */
static char *copy_text(const char *text, size_t n)
{
    if (n > RECORD_TEXT_MAX) {
        n = RECORD_TEXT_MAX;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    char *copy = strndup(text, n);
    if (copy)
        plain_line(copy);
    return copy;
}

static bool is_count(const json_t *v)
{
    double d = json_number_value(v);
    return json_is_integer(v) ? json_integer_value(v) >= 0 : d >= 0 && d <= 9e15 && floor(d) == d;
}

static uint64_t count(const json_t *v)
{
    return json_is_integer(v) ? (uint64_t)json_integer_value(v) : (uint64_t)json_real_value(v);
}

bool record_store(const json_t *v, enum record_type type, void *at)
{
    double d = json_number_value(v);
    switch (type) {
    case MEMBER_TEXT:
        return json_is_string(v) &&
               (*(char **)at = copy_text(json_string_value(v), json_string_length(v))) != NULL;
    case MEMBER_COUNT:
        *(uint64_t *)at = json_is_number(v) && is_count(v) ? count(v) : 0;
        return json_is_number(v) && is_count(v);
    case MEMBER_INT:
        *(int *)at = json_is_number(v) && is_count(v) && count(v) < INT32_MAX ? (int)count(v) : -1;
        return *(int *)at >= 0;
    case MEMBER_REAL:
    case MEMBER_SECONDS:
        break;
    }
    *(double *)at = d;
    return json_is_number(v) && (type == MEMBER_REAL || (d >= 0 && d <= SECONDS_MAX));
}

/* What a member is that is not there. */
static bool store_none(enum record_type type, void *at)
{
    if (type == MEMBER_TEXT)
        return (*(char **)at = strdup("")) != NULL;
    if (type == MEMBER_INT)
        *(int *)at = -1;
    else if (type == MEMBER_COUNT)
        *(uint64_t *)at = 0;
    else if (type == MEMBER_REAL || type == MEMBER_SECONDS)
        *(double *)at = NAN;
    return true;
}

int record_bad(ddp_error_t *errp, const char *event, const char *member, const char *why)
{
    return error_set(errp, DDP_E_DATA, EINVAL, "a line \"%s\" %s %s: see ddp-record(5)", event, why, member);
}

int record_members(const json_t *line, const char *event, const struct record_member *m, void *to, ddp_error_t *errp)
{
    for (; m->name; m++) {
        const json_t *v = json_object_get(line, m->name);
        bool is_there = v && !json_is_null(v);
        if (!is_there && m->is_needed)
            return record_bad(errp, event, m->name, "lacks");
        void *at = (char *)to + m->offset;
        bool is_told = is_there && record_store(v, m->type, at);
        if (!is_told && ((is_there && !record_is_programs(record_event_of(event))) || !store_none(m->type, at)))
            return record_bad(errp, event, m->name, "has an impossible");
    }
    return 0;
}

