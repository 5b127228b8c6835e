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

const struct knob *knob_split(const struct knob *knobs, size_t n, const char *word, const char **ret_value)
{
    size_t length = strcspn(word, "=");
    for (const struct knob *k = knobs; k < knobs + n; k++) {
        if (strlen(k->name) != length || memcmp(k->name, word, length))
            continue;
        *ret_value = word[length] ? word + length + 1 : NULL;
        return k;
    }
    return NULL;
}

size_t knob_text_max(const struct knob *k)
{
    return k->max > 0 && k->max < KNOB_TEXT_MAX ? (size_t)k->max : KNOB_TEXT_MAX;
}

const char *knob_range(const struct knob *k, char *buf, size_t size)
{
    switch (k->type) {
    case KNOB_BOOL:
        snprintf(buf, size, "on|off");
        break;
    case KNOB_INT:
        snprintf(buf, size, "%.0f..%.0f", k->min, k->max);
        break;
    case KNOB_DOUBLE:
        snprintf(buf, size, "%.10g..%.10g", k->min, k->max);
        break;
    case KNOB_ENUM:
        snprintf(buf, size, "%s", k->choices);
        break;
    case KNOB_STRING:
    case KNOB_PATH:
        snprintf(buf, size, "%s", k->value ? k->value : "TEXT");
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
    case KNOB_PATH:
        v->path = text;
        return text[0] || k->min < 1 ? 0 : -1;
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
    if (!is_known && k->type == KNOB_PATH)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s: %s wants a name after it: %s", source, k->name, k->help);
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

/* ---- fields ---- */

static void store(const struct knob *k, const struct knob_value *v, char *field)
{
    switch (k->type) {
    case KNOB_BOOL:
        *(bool *)field = v->b;
        break;
    case KNOB_INT:
        if (k->size == sizeof(int))
            *(int *)field = (int)v->i;
        else
            *(int64_t *)field = v->i;
        break;
    case KNOB_DOUBLE:
        *(double *)field = v->d;
        break;
    case KNOB_ENUM:
        *(int *)field = v->choice;
        break;
    case KNOB_STRING:
        memcpy(field, v->text, sizeof v->text);
        break;
    case KNOB_PATH:
        *(const char **)field = v->path;
        break;
    }
}

void knob_store(const struct knob *knobs, size_t n, const struct knob_value *values, void *object)
{
    for (size_t i = 0; i < n; i++)
        if (knobs[i].size && values[i].is_set)
            store(&knobs[i], &values[i], (char *)object + knobs[i].offset);
}

void knob_clear(const struct knob *knobs, size_t n, void *object)
{
    const struct knob_value unset = {.i = -1, .d = -1};
    for (size_t i = 0; i < n; i++)
        if (knobs[i].size)
            store(&knobs[i], &unset, (char *)object + knobs[i].offset);
}

static void format_choice(const char *choices, int choice, char *buf, size_t size)
{
    while (choice-- > 0)
        choices += strcspn(choices, "|") + 1;
    snprintf(buf, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

static void format(const struct knob *k, const char *field, char *buf, size_t size)
{
    switch (k->type) {
    case KNOB_BOOL:
        snprintf(buf, size, "%s", *(const bool *)field ? "on" : "off");
        break;
    case KNOB_INT:
        snprintf(buf, size, "%lld", k->size == sizeof(int) ? *(const int *)field : (long long)*(const int64_t *)field);
        break;
    case KNOB_DOUBLE:
        num_format(*(const double *)field, buf, size);
        break;
    case KNOB_ENUM:
        format_choice(k->choices, *(const int *)field, buf, size);
        break;
    case KNOB_STRING:
        snprintf(buf, size, "%s", field);
        break;
    case KNOB_PATH:
        snprintf(buf, size, "%s", *(const char *const *)field ? *(const char *const *)field : "");
        break;
    }
}

const char *knob_format(const struct knob *k, const void *object, char *buf, size_t size)
{
    bool is_number = k->type == KNOB_INT || k->type == KNOB_DOUBLE;
    format(k, (const char *)object + k->offset, buf, size);
    if (!buf[0] || (is_number && !strcmp(buf, "-1")))
        snprintf(buf, size, "(unset)");
    return buf;
}
