/* knob_argv.c - a command line by a table of knobs, and the help that lists them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/base/knob.h"
#include "runtime/base/nearest.h"

#define HELP_INDENT 22
#define HELP_COLUMNS 110

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int unknown(const struct knob *knobs, size_t n, const char *word, const char *lister, ddp_error_t *errp)
{
    char meant[80];
    struct nearest near = nearest_to(word, 2);
    for (size_t i = 0; i < n; i++)
        nearest_try(&near, knobs[i].name);
    return error_set(errp, DDP_E_USAGE, EINVAL, "there is no option %.64s%s %s lists them", word,
                     nearest_text(&near, ":", meant, sizeof meant), lister);
}

int knob_take(const struct knob *knobs, size_t n, const char *lister, int argc, char **argv, int *i,
              struct knob_value *values, ddp_error_t *errp)
{
    const char *text = NULL;
    const struct knob *k = knob_split(knobs, n, argv[*i], &text);
    if (!k)
        return unknown(knobs, n, argv[*i], lister, errp);
    if (!text && k->type == KNOB_BOOL)
        text = "on";
    if (!text && *i + 1 < argc && !begins(argv[*i + 1], "--"))
        text = argv[++*i];
    if (!text)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s wants a value after it: %s", k->name, k->help);
    return knob_parse(k, text, "command line", &values[k - knobs], errp);
}

int knob_argv(const struct knob *knobs, size_t n, const char *lister, int argc, char **argv, struct knob_value *values,
              int *ret_rest, ddp_error_t *errp)
{
    int i = 1;
    if (knob_load(knobs, n, values, errp) < 0)
        return -1;
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--"); i++) {
        if (is_help(argv[i]))
            return 1;
        if (knob_take(knobs, n, lister, argc, argv, &i, values, errp) < 0)
            return -1;
    }
    if (i < argc && !ret_rest)
        return unknown(knobs, n, argv[i], lister, errp);
    if (ret_rest)
        *ret_rest = i + (i < argc && !strcmp(argv[i], "--"));
    return 0;
}

/* The words of text, from a column on, in lines of HELP_COLUMNS at most. */
static void put_words(FILE *f, const char *text, size_t column)
{
    for (size_t n; *text; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        if (column + 1 + n > HELP_COLUMNS) {
            fprintf(f, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        }
        fprintf(f, " %.*s", (int)n, text);
        column += 1 + n;
    }
    fprintf(f, "\n");
}

static void help_knob(FILE *f, const struct knob *k)
{
    static const char *const by_type[] = {
        [KNOB_BOOL] = "",      [KNOB_INT] = " N",       [KNOB_DOUBLE] = " X",
        [KNOB_ENUM] = " NAME", [KNOB_STRING] = " TEXT", [KNOB_PATH] = " NAME",
    };
    char text[512];
    bool has_choices = k->type == KNOB_ENUM, has_default = k->def && k->type != KNOB_BOOL;
    int n = fprintf(f, "  %s%s%s", k->name, k->value ? " " : "", k->value ? k->value : by_type[k->type]);
    if (n > 0 && n < HELP_INDENT)
        fprintf(f, "%*s", HELP_INDENT - n, "");
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s", k->help, has_choices ? ": " : "", has_choices ? k->choices : "",
             has_default ? " [" : "", has_default && k->env ? k->env : "", has_default && k->env ? ", else " : "",
             has_default ? k->def : "", has_default ? "]" : "");
    put_words(f, text, n < HELP_INDENT ? HELP_INDENT : (size_t)n);
}

void knob_help(FILE *f, const struct knob *knobs, size_t n)
{
    for (const struct knob *k = knobs; k < knobs + n; k++)
        help_knob(f, k);
}
