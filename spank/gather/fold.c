#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain.h"
#include "spank/gather/gather.h"
#include "spank/step/hostlist.h"

/* A report and where it stood. */
struct item {
    const struct gather_report *report;
    size_t at;
};

/* items[first..first + n) have the same text; `at` is the place of the first of them. */
struct class {
    size_t first, n, at;
};

/* By text, those without one last; within a text as they stood. */
static int compare_items(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    const char *s = a->report->text, *t = b->report->text;
    int c = s && t ? strcmp(s, t) : (s == NULL) - (t == NULL);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

static int compare_classes(const void *x, const void *y)
{
    const struct class *a = x, *b = y;
    if (a->n != b->n)
        return a->n < b->n ? 1 : -1;
    return (a->at > b->at) - (a->at < b->at);
}

static char *list_nodes(const struct item *items, size_t n)
{
    const char **names = calloc(n, sizeof *names);
    char *list = NULL;
    for (size_t i = 0; names && i < n; i++)
        names[i] = items[i].report->node;
    if (names)
        list = hostlist_compress(names, n, NULL);
    free(names);
    return list;
}

static void put_block(FILE *out, const char *nodes, const char *text)
{
    const char *end = strchr(text, '\n');
    if (!end || !end[1]) {
        fprintf(out, "ddp: %s: %.*s\n", nodes, (int)strcspn(text, "\n"), text);
        return;
    }
    fprintf(out, "ddp: %s:\n", nodes);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        fprintf(out, "  %.*s\n", (int)strcspn(p, "\n"), p);
}

/* items[0..n) of one text. 0, or -1. */
static int put_class(FILE *out, const struct item *items, size_t n)
{
    char *nodes = list_nodes(items, n);
    if (!nodes)
        return -1;
    if (items->report->text && *items->report->text)
        put_block(out, nodes, items->report->text);
    else if (!items->report->text)
        fprintf(out, "ddp: %s: %s ranks run (ddp check: is ddp.so there?)\n", nodes,
                n > 1 ? "have not told where their" : "has not told where its");
    free(nodes);
    return 0;
}

/* Sorts the items and fills classes[], those with a text first; returns how many there are. */
static size_t classify(struct item *items, size_t n, struct class *classes)
{
    size_t n_classes = 0, n_told = 0;
    qsort(items, n, sizeof *items, compare_items);
    for (size_t i = 0; i < n; i++) {
        const char *text = items[i].report->text, *last = i ? items[i - 1].report->text : NULL;
        if (i == 0 || (last == NULL) != (text == NULL) || (text && strcmp(text, last)))
            classes[n_classes++] = (struct class){i, 0, items[i].at};
        classes[n_classes - 1].n++;
        n_told = text ? n_classes : n_told;
    }
    qsort(classes, n_told, sizeof *classes, compare_classes);
    return n_classes;
}

char *gather_fold(const struct gather_report *reports, size_t n)
{
    char *text = NULL;
    size_t size = 0, n_classes;
    struct item *items = calloc(n, sizeof *items);
    struct class *classes = calloc(n, sizeof *classes);
    FILE *out = items && classes ? open_memstream(&text, &size) : NULL;
    int rc = out ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < n; i++)
        items[i] = (struct item){&reports[i], i};
    n_classes = rc == 0 ? classify(items, n, classes) : 0;
    for (size_t i = 0; rc == 0 && i < n_classes; i++)
        rc = put_class(out, items + classes[i].first, classes[i].n);
    if (out && fclose(out) != 0)
        rc = -1;
    if (rc < 0) {
        free(text);
        text = NULL;
    }
    if (text)
        plain_lines(text);
    free(items);
    free(classes);
    return text;
}
