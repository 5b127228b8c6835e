/* report.c - `ddp report`: what runs wrote down, as text or as one page. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/knob.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/report/report.h"

enum { HTML, N_KNOBS };
struct wish {
    const char *html;
    const char *file[REPORT_RUNS_MAX];
    int n;
};
static const struct knob knobs[N_KNOBS] = {
    [HTML] = {.name = "--html", KNOB_FIELD(struct wish, html), .type = KNOB_PATH, .min = 1, .value = "OUT",
              .help = "write one page of HTML to OUT, which is replaced at once when all of it is on disk"},
};

static int help(void)
{
    printf("usage: ddp report [--html OUT] FILE...\n"
           "\n"
           "Shows what a run wrote down (--ddp-record=FILE): speed, where the time of a step went, what happened, and\n"
           "what all of the time was worth; of two or more runs, up to %d, the same side by side.\n"
           "\n", REPORT_RUNS_MAX);
    knob_help(stdout, knobs, N_KNOBS);
    printf("\nThe page needs nothing beside itself. Exit code: 0; 1: a FILE is no record, or OUT cannot be written;\n"
           "2: wrong usage.\n");
    return 0;
}

static int fail(const ddp_error_t *e)
{
    fflush(stdout);
    fprintf(stderr, "ddp report: %s\n", e->text);
    return e->domain == DDP_E_USAGE ? CLI_USAGE : EXIT_FAILURE;
}

/* ---- the command line: options and files in any order ---- */

static int wrong(ddp_error_t *errp, const char *why)
{
    return error_set(errp, DDP_E_USAGE, EINVAL, "%s: see \"ddp report --help\"", why);
}

/* 0; 1: help is asked for; -1. */
static int parse(int argc, char **argv, struct wish *w, ddp_error_t *errp)
{
    struct knob_value v[N_KNOBS];
    bool is_over = false;
    if (knob_load(knobs, N_KNOBS, v, errp) < 0)
        return -1;
    for (int i = 1; i < argc; i++) {
        if (!is_over && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")))
            return 1;
        if (!is_over && !strcmp(argv[i], "--")) {
            is_over = true;
        } else if (!is_over && argv[i][0] == '-' && argv[i][1]) {
            if (knob_take(knobs, N_KNOBS, "\"ddp report --help\"", argc, argv, &i, v, errp) < 0)
                return -1;
        } else if (w->n == REPORT_RUNS_MAX) {
            return error_set(errp, DDP_E_USAGE, EINVAL, "more than %d files: see \"ddp report --help\"",
                             REPORT_RUNS_MAX);
        } else {
            w->file[w->n++] = argv[i];
        }
    }
    knob_clear(knobs, N_KNOBS, w);
    knob_store(knobs, N_KNOBS, v, w);
    return w->n ? 0 : wrong(errp, "no file given");
}

/* ---- the page's file ---- */

static char temporary[4096];

static void leave(int sig)
{
    unlink(temporary);
    _exit(128 + sig);
}

/* Signals that end the command remove what it was writing. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signal(signals[i], leave) == SIG_IGN)
            signal(signals[i], SIG_IGN);
}

/* What is there already is to be a file, and none of the records. */
static int check_out(const struct wish *w, ddp_error_t *errp)
{
    struct stat out, in;
    if (stat(w->html, &out) < 0)
        return errno == ENOENT ? 0 : error_errno(errp, "--html: %.160s", w->html);
    if (!S_ISREG(out.st_mode))
        return error_set(errp, DDP_E_USAGE, EINVAL, "--html: %.160s is no file: name one", w->html);
    for (int i = 0; i < w->n; i++)
        if (stat(w->file[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return error_set(errp, DDP_E_USAGE, EINVAL, "--html: %.160s is a record to read: name another file",
                             w->html);
    return 0;
}

static FILE *open_temporary(const char *path, ddp_error_t *errp)
{
    char token[17];
    if (io_random_hex(token, 8, errp) < 0)
        return NULL;
    if (snprintf(temporary, sizeof temporary, "%s.%s", path, token) >= (int)sizeof temporary) {
        error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "--html: the path is too long");
        return NULL;
    }
    catch_signals();
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        error_errno(errp, "--html: %.160s", path);
        io_close(fd);
    }
    return f;
}

static int write_page(const struct wish *w, const struct report_run *runs, ddp_error_t *errp)
{
    FILE *f = check_out(w, errp) < 0 ? NULL : open_temporary(w->html, errp);
    if (!f)
        return -1;
    report_page(f, runs, w->n);
    bool is_written = fflush(f) == 0 && !ferror(f) && fsync(fileno(f)) == 0;
    int rc = is_written ? 0 : error_errno(errp, "--html: writing %.160s", w->html);
    fclose(f);
    if (rc == 0 && rename(temporary, w->html) < 0)
        rc = error_errno(errp, "--html: %.160s", w->html);
    if (rc < 0)
        unlink(temporary);
    return rc;
}

/* ---- all of it ---- */

static int show(const struct wish *w, const struct report_run *runs, ddp_error_t *errp)
{
    if (w->html)
        return write_page(w, runs, errp);
    setlocale(LC_CTYPE, "");
    if (w->n == 1)
        report_text(stdout, &runs[0], !strcmp(nl_langinfo(CODESET), "UTF-8"));
    else
        report_columns(stdout, runs, w->n);
    return 0;
}

int cli_report(int argc, char **argv)
{
    static struct report_run runs[REPORT_RUNS_MAX];
    struct wish w = {0};
    ddp_error_t e = {0};
    int rc = parse(argc, argv, &w, &e), n = 0;
    if (rc > 0)
        return help();
    for (; rc == 0 && n < w.n; n += rc == 0)
        rc = report_run_read(w.file[n], &runs[n], &e);
    if (rc == 0)
        rc = show(&w, runs, &e);
    while (n > 0)
        report_run_clear(&runs[--n]);
    return rc < 0 ? fail(&e) : 0;
}
