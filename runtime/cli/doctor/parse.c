/* parse.c - the formats of Slurm's configuration. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/begins.h"
#include "runtime/cli/doctor/doctor.h"

const char *doctor_get(const char *config, const char *key, char *buf, size_t size)
{
    size_t len = strlen(key);
    for (const char *line = config; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        line += strspn(line, " \t");
        size_t name = strcspn(line, " \t=\n");
        const char *value = line + strcspn(line, "=\n");
        if (name != len || strncasecmp(line, key, len) != 0 || *value != '=')
            continue;
        value += 1 + strspn(value + 1, " \t");
        size_t n = strcspn(value, "\n");
        static const char *const units[] = {" sec", " min", " hours", " days"};
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (n >= strlen(units[i]) && begins(value + n - strlen(units[i]), units[i]))
                n -= strlen(units[i]);
        snprintf(buf, size, "%.*s", (int)n, value);
        if (!strcmp(buf, "(null)") || !strcmp(buf, "(none)"))
            buf[0] = 0;
        return buf;
    }
    return NULL;
}

const char *doctor_word(const char **at, char *ret, size_t size)
{
    *at += strspn(*at, " \t");
    size_t n = strcspn(*at, " \t");
    snprintf(ret, size, "%.*s", (int)n, *at);
    *at += n;
    return ret;
}

/* "required PATH ARGS", "optional PATH ARGS", "include PATTERN", in lower case, as Slurm wants them. A relative pattern
 * is beside the file. */
static void parse_line(struct doctor *d, const char *file, int number, const char *line,
                       void (*include)(struct doctor *d, const char *pattern))
{
    char how[16], path[DOCTOR_PATH_MAX];
    doctor_word(&line, how, sizeof how);
    doctor_word(&line, path, sizeof path);
    bool is_required = !strcmp(how, "required");
    if (!strcmp(how, "include") && include && *path) {
        char pattern[2 * DOCTOR_PATH_MAX];
        const char *slash = strrchr(file, '/');
        snprintf(pattern, sizeof pattern, "%.*s%s", *path == '/' || !slash ? 0 : (int)(slash - file + 1), file, path);
        include(d, pattern);
    }
    if ((!is_required && strcmp(how, "optional") != 0) || !*path || d->n_lines == DOCTOR_LINES_MAX)
        return;
    struct doctor_line *l = &d->line[d->n_lines++];
    *l = (struct doctor_line){.number = number, .is_required = is_required};
    snprintf(l->file, sizeof l->file, "%s", file);
    snprintf(l->plugin, sizeof l->plugin, "%s", path);
    snprintf(l->args, sizeof l->args, "%s", line + strspn(line, " \t"));
}

void doctor_parse(struct doctor *d, const char *file, const char *text,
                  void (*include)(struct doctor *d, const char *pattern))
{
    char *copy = strdup(text), *rest = copy, *line;
    for (int number = 1; copy && (line = strsep(&rest, "\n")); number++) {
        line[strcspn(line, "#\r")] = 0;
        parse_line(d, file, number, line, include);
    }
    free(copy);
}

const struct doctor_line *doctor_own_line(const struct doctor *d, const struct doctor_line *behind)
{
    for (size_t i = behind ? (size_t)(behind - d->line) + 1 : 0; i < d->n_lines; i++) {
        const char *slash = strrchr(d->line[i].plugin, '/');
        if (!strcmp(slash ? slash + 1 : d->line[i].plugin, "ddp.so"))
            return &d->line[i];
    }
    return NULL;
}
