#include "runtime/cli/verdict/verdict.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain.h"

static const char *const level_names[] = {"ok", "warn", "FAIL"};

struct verdict *verdict_add(struct verdicts *l, enum verdict_level level, const char *item, const char *cure,
                            const char *fmt, ...)
{
    struct verdict *v = &l->of[l->n < VERDICT_MAX ? l->n++ : VERDICT_MAX - 1];
    va_list ap;
    free(v->nodes);
    *v = (struct verdict){.level = level, .item = item};
    va_start(ap, fmt);
    vsnprintf(v->found, sizeof v->found, fmt, ap);
    va_end(ap);
    snprintf(v->cure, sizeof v->cure, "%s", cure ? cure : "");
    plain_line(v->found);
    plain_line(v->cure);
    return v;
}

/* True if `node` is an item of the list. */
static bool has(const char *list, const char *node)
{
    size_t n = strlen(node);
    for (const char *p = list; (p = strstr(p, node)); p += n)
        if ((p == list || p[-1] == ',') && (!p[n] || p[n] == ','))
            return true;
    return false;
}

static void add_name(char **list, const char *node)
{
    size_t n = *list ? strlen(*list) : 0, size = n + strlen(node) + 2;
    if (!*node || (*list && has(*list, node)))
        return;
    char *longer = realloc(*list, size);
    if (!longer)
        return;
    *list = longer;
    snprintf(longer + n, size - n, "%s%s", n ? "," : "", node);
}

void verdict_blame(struct verdict *v, const char *node)
{
    add_name(&v->nodes, node);
    if (v->nodes)
        plain_line(v->nodes);
}

bool verdicts_failed(const struct verdicts *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->of[i].level == VERDICT_FAIL)
            return true;
    return false;
}

char *verdicts_exclude(const struct verdicts *l)
{
    char *all = NULL;
    for (size_t i = 0; i < l->n; i++) {
        bool is_at_fault = l->of[i].level == VERDICT_FAIL && l->of[i].nodes;
        char *copy = is_at_fault ? strdup(l->of[i].nodes) : NULL, *rest = copy, *node;
        while ((node = strsep(&rest, ",")))
            add_name(&all, node);
        free(copy);
    }
    return all;
}

void verdicts_clear(struct verdicts *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->of[i].nodes);
    *l = (struct verdicts){.n = 0};
}

void verdicts_print(FILE *f, const struct verdicts *l)
{
    size_t count[3] = {0};
    char *exclude = verdicts_exclude(l);
    for (size_t i = 0; i < l->n; i++) {
        const struct verdict *v = &l->of[i];
        count[v->level]++;
        fprintf(f, "%-4s  %-11s %s%s%s\n", level_names[v->level], v->item, v->found, *v->cure ? ": " : "", v->cure);
    }
    fprintf(f, "%zu ok, %zu to look at, %zu failed", count[VERDICT_OK], count[VERDICT_WARN], count[VERDICT_FAIL]);
    if (exclude)
        fprintf(f, "; without what failed: --exclude=%s", exclude);
    fprintf(f, "\n");
    free(exclude);
}

/* "n3,n7", or NULL, as an array. */
static json_t *names(const char *list)
{
    char *copy = list ? strdup(list) : NULL, *rest = copy, *node;
    json_t *a = json_array();
    while ((node = strsep(&rest, ",")))
        json_array_append_new(a, json_string(node));
    free(copy);
    return a;
}

struct json_t *verdicts_json(const struct verdicts *l)
{
    char *exclude = verdicts_exclude(l);
    json_t *items = json_array();
    for (size_t i = 0; i < l->n; i++) {
        const struct verdict *v = &l->of[i];
        json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:s, s:o}", "item", v->item, "verdict",
                                               level_names[v->level], "found", v->found, "cure", v->cure, "nodes",
                                               names(v->nodes)));
    }
    json_t *j = json_pack("{s:i, s:o, s:o, s:b}", "version", 1, "items", items, "exclude", names(exclude), "failed",
                          verdicts_failed(l));
    free(exclude);
    return j;
}

int verdicts_write(FILE *f, struct json_t *j)
{
    bool is_written = j && json_dumpf(j, f, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', f) != EOF;
    json_decref(j);
    return is_written ? 0 : 1;
}
