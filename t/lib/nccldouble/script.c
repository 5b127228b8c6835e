/* script.c - what the double answers. See double.h. */
#include "t/lib/nccldouble/double.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RULES = 64, MAX_CALLS = 32, TEXT = 256 };

struct rule {
    int rank, at; /* -1: any */
    char call[32], what[32], text[TEXT];
    int n;
};

static struct rule rules[MAX_RULES];
static int n_rules = -1, version = NCCL_VERSION_CODE;
static struct {
    char name[32];
    int n;
} counts[MAX_CALLS];
static char last[TEXT];

static int own_rank(void)
{
    const char *text = getenv("RANK");
    text = text ? text : getenv("SLURM_PROCID");
    return text ? atoi(text) : 0;
}

static void bad(const char *line)
{
    fprintf(stderr, "nccldouble: bad line in NCCLDOUBLE_SCRIPT: %s\n", line);
    abort();
}

static void parse(char *line)
{
    struct rule r = {.rank = -1, .at = -1};
    char *rest = line;
    int used = 0;
    line[strcspn(line, "#\n")] = 0;
    if (line[strspn(line, " ")] == 0 || sscanf(line, "version %d", &version) == 1)
        return;
    if (sscanf(rest, "rank %d %n", &r.rank, &used) == 1)
        rest += used;
    if (sscanf(rest, "%31s %n", r.call, &used) != 1)
        bad(line);
    rest += used;
    if (sscanf(rest, "at %d %n", &r.at, &used) == 1)
        rest += used;
    if (sscanf(rest, "%31s %n", r.what, &used) != 1)
        bad(line);
    rest += used;
    if (sscanf(rest, "%d %n", &r.n, &used) == 1)
        rest += used;
    snprintf(r.text, sizeof r.text, "%s", rest);
    if (!strstr(" progress error async hang block kill none ", r.what) || n_rules == MAX_RULES)
        bad(line);
    rules[n_rules++] = r;
}

static void load(void)
{
    char line[512];
    const char *path = getenv("NCCLDOUBLE_SCRIPT");
    FILE *f = path ? fopen(path, "re") : NULL;
    n_rules = 0;
    while (f && fgets(line, sizeof line, f))
        parse(line);
    if (f)
        fclose(f);
}

int script_version(void)
{
    if (n_rules < 0)
        load();
    return version;
}

static int count(const char *call)
{
    int i = 0;
    while (counts[i].name[0] && strcmp(counts[i].name, call) != 0)
        i++;
    if (i == MAX_CALLS - 1)
        abort();
    snprintf(counts[i].name, sizeof counts[i].name, "%s", call);
    return ++counts[i].n;
}

struct answer script_call(const char *call)
{
    script_version();
    int n = count(call), rank = own_rank();
    for (int i = 0; i < n_rules; i++) {
        const struct rule *r = &rules[i];
        if (strcmp(r->call, call) != 0 || (r->rank >= 0 && r->rank != rank) || (r->at >= 0 && r->at != n))
            continue;
        if (!strcmp(r->what, "kill"))
            raise(SIGKILL);
        while (!strcmp(r->what, "block"))
            pause();
        if (!strcmp(r->what, "progress"))
            return (struct answer){DO_PROGRESS, r->n};
        if (!strcmp(r->what, "hang"))
            return (struct answer){DO_HANG, 0};
        if (!strcmp(r->what, "none"))
            return (struct answer){DO_NONE, 0};
        snprintf(last, sizeof last, "%s", r->text);
        return (struct answer){!strcmp(r->what, "error") ? DO_ERROR : DO_ASYNC, r->n};
    }
    return (struct answer){DO_OK, 0};
}

const char *script_text(void)
{
    return last;
}

ncclResult_t script_say(ncclResult_t code, const char *text)
{
    snprintf(last, sizeof last, "%s", text);
    return code;
}

void script_log(const char *format, ...)
{
    char line[512];
    const char *path = getenv("NCCLDOUBLE_LOG");
    if (!path)
        return;
    int n = snprintf(line, sizeof line, "rank %d ", own_rank());
    va_list ap;
    va_start(ap, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
    va_end(ap);
    line[n++] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        fprintf(stderr, "nccldouble: cannot write %s\n", path);
    close(fd);
}
