#include "config.h" /* program_invocation_short_name */
#include "runtime/record/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/begins.h"

#define WORDS_MAX 16 /* that are looked at */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Such as -u, -OO: options of Python's without a value. */
static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] && !word[1 + strspn(word + 1, "bBdEiIOPqsSuv")];
}

static int second_word(int argc, char *const *argv)
{
    int i = 1;
    if (!begins(last_part(argv[0]), "python"))
        return i;
    while (i < argc && is_flag(argv[i]))
        i++;
    return i < argc && !strcmp(argv[i], "-m") ? i + 1 : i;
}

void program_name(int argc, char *const *argv, char ret[PROGRAM_NAME_MAX + 1])
{
    ret[0] = 0;
    if (argc < 1)
        return;
    int n = snprintf(ret, PROGRAM_NAME_MAX + 1, "%.60s", last_part(argv[0])), i = second_word(argc, argv);
    if (i < argc && *argv[i] && *argv[i] != '-')
        snprintf(ret + n, PROGRAM_NAME_MAX + 1 - (size_t)n, " %.60s", last_part(argv[i]));
}

void program_own_name(char ret[PROGRAM_NAME_MAX + 1])
{
    char text[4096];
    char *word[WORDS_MAX];
    int n_words = 0;
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    for (size_t at = 0; at < n && n_words < WORDS_MAX; at += strlen(text + at) + 1)
        word[n_words++] = text + at;
    program_name(n_words, word, ret);
    if (!*ret)
        snprintf(ret, PROGRAM_NAME_MAX + 1, "%.60s", program_invocation_short_name);
}
