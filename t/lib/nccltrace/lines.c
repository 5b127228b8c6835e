/* lines.c - see lines.h. */
#include "t/lib/nccltrace/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/nccltrace/trace.h"

static void die(const char *path, int number, const char *what)
{
    fprintf(stderr, "nccltrace: rank %d: %s line %d: %s\n", own_rank(), path, number, what);
    _exit(REFUSED);
}

/* "NUMBER AT TOOK TEXT = CODE [x N] [; NOTE]" */
static bool parse(char *row, struct line *ret)
{
    int used = 0;
    double at_ms;
    row[strcspn(row, "\n")] = 0;
    if (sscanf(row, "%*d %lf %lf %n", &at_ms, &ret->took_ms, &used) != 2 || used == 0)
        return false;
    char *equals = strstr(row + used, " = "), *note = equals ? strstr(equals, " ; ") : NULL;
    if (!equals || sscanf(equals, " = %d", &ret->code) != 1)
        return false;
    *equals = 0;
    ret->text = strdup(row + used);
    ret->note = strdup(note ? note + 3 : "");
    return ret->text && ret->note;
}

void lines_read(struct lines *ret, const char *path)
{
    char row[4 * TEXT];
    int number = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        die(path, 0, "cannot be opened");
    *ret = (struct lines){0};
    while (fgets(row, sizeof row, f)) {
        struct line l = {.number = ++number};
        if (row[0] == '#')
            continue;
        if (ret->has_end || !parse(row, &l))
            die(path, number, ret->has_end ? "comes behind the end" : "not a line of a trace");
        ret->has_end = !strcmp(l.text, "end");
        if (ret->has_end) {
            free(l.text);
            free(l.note);
            continue;
        }
        ret->line = realloc(ret->line, (ret->n + 1) * sizeof *ret->line);
        if (!ret->line)
            abort();
        ret->line[ret->n++] = l;
    }
    fclose(f);
}
