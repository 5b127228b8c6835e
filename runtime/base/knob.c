#include "runtime/base/knob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"

const struct knob *knob_find(const struct knob *knobs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(knobs[i].name, name) || (knobs[i].env && !strcmp(knobs[i].env, name)))
            return &knobs[i];
    return NULL;
}

size_t knob_text_max(const struct knob *k)
{
    size_t room = sizeof ((struct knob_value *)NULL)->text - 1;
    return k->max > 0 && k->max < (double)room ? (size_t)k->max : room;
}

const char *knob_range(const struct knob *k, char *buf, size_t size)
{
    switch (k->type) {
    case KNOB_BOOL:
        snprintf(buf, size, "on|off");
        break;
    case KNOB_INT:
    case KNOB_DOUBLE:
        snprintf(buf, size, "%.10g..%.10g", k->min, k->max);
        break;
    case KNOB_ENUM:
        snprintf(buf, size, "%s", k->choices);
        break;
    case KNOB_STRING:
        snprintf(buf, size, "TEXT");
        break;
    }
    return buf;
}

/* Index of text in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int i = 0;
    for (const char *p = choices; len; i++, p++) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, text, n))
            return i;
        p += n;
        if (!*p)
            break;
    }
    return -1;
}

static int parse(const struct knob *k, const char *text, struct knob_value *v)
{
    switch (k->type) {
    case KNOB_BOOL:
        return num_bool(text, &v->b);
    case KNOB_INT:
        return num_i64(text, (int64_t)k->min, (int64_t)k->max, &v->i);
    case KNOB_DOUBLE:
        return num_double(text, k->min, k->max, &v->d);
    case KNOB_ENUM:
        v->choice = choice_index(k->choices, text);
        return v->choice < 0 ? -1 : 0;
    case KNOB_STRING:
        return strlen(text) <= knob_text_max(k) ? 0 : -1;
    }
    return -1;
}

int knob_parse(const struct knob *k, const char *text, const char *source, struct knob_value *ret, ddp_error_t *errp)
{
    struct knob_value v = {.is_set = true, .source = source};
    char range[160];
    bool is_known = parse(k, text, &v) == 0;
    if (!is_known && k->type == KNOB_STRING)
        return error_set(errp, DDP_E_USAGE, E2BIG, "%s: %s=%.64s is too long: %zu bytes are allowed", source, k->name,
                         text, knob_text_max(k));
    if (!is_known)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: %s=%.64s is not allowed: use %s=%s", source, k->name, text,
                         k->name, knob_range(k, range, sizeof range));
    snprintf(v.text, sizeof v.text, "%s", text);
    *ret = v;
    return 0;
}

int knob_load(const struct knob *knobs, size_t n, struct knob_value *values, ddp_error_t *errp)
{
    for (size_t i = 0; i < n; i++) {
        const char *env = knobs[i].env ? getenv(knobs[i].env) : NULL;
        values[i] = (struct knob_value){.source = "default"};
        if (env && knob_parse(&knobs[i], env, knobs[i].env, &values[i], errp) < 0)
            return -1;
        if (!env && knobs[i].def && knob_parse(&knobs[i], knobs[i].def, "default", &values[i], errp) < 0)
            return -1;
    }
    return 0;
}
