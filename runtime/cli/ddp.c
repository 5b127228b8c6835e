/* ddp.c - the command `ddp`: a table of verbs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/nearest.h"
#include "runtime/base/plain.h"
#include "runtime/bench/bench.h"
#include "runtime/cli/cli.h"
#include "runtime/ddp.h"

static int help(int argc, char **argv);

static const struct verb {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *help;
} verbs[] = {
    {"bench", bench_main, "measure all-reduce and training steps on the ranks that it is started on"},
    {"check", cli_check, "look, in seconds, whether ranks, nodes and links are fit for a long job"},
    {"ckpt", cli_ckpt, "list, verify and show checkpoints, export one as one file"},
    {"doctor", cli_doctor, "look whether this site's Slurm is set up well for --ddp"},
    {"ps", cli_ps, "show the ranks that run, what each does, and who holds up the others"},
    {"report", cli_report, "show what runs wrote down: speed, efficiency, events, what the time was worth"},
    {"requeue", cli_requeue, "put this batch job back into the queue after it was asked to stop and has saved"},
    {"run", cli_run, "start a program N times on this machine, wired up as one job"},
    {"topo", cli_topo, "show this machine, or a recorded one, and where ranks go on it; --explain RANK says why"},
    {"help", help, "show this text"},
};

static const struct verb *find(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

static int wrong_verb(const char *name)
{
    char meant[80], shown[160];
    struct nearest near = nearest_to(name, 2);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        nearest_try(&near, verbs[i].name);
    snprintf(shown, sizeof shown, "%s", name);
    plain_line(shown);
    if (*name)
        fprintf(stderr, "ddp: \"%s\" is not a verb of ddp%s \"ddp help\" lists them\n", shown,
                nearest_text(&near, ":", meant, sizeof meant));
    else
        fprintf(stderr, "ddp: no verb given: \"ddp help\" lists them\n");
    return CLI_USAGE;
}

static int help(int argc, char **argv)
{
    const struct verb *v = argc > 1 ? find(argv[1]) : NULL;
    if (v && v->main != help)
        return v->main(2, (char *[]){argv[1], "--help", NULL});
    if (!v && argc > 1)
        return wrong_verb(argv[1]);
    printf("usage: ddp VERB [ARGUMENTS...]\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        printf("  %-7s  %s\n", verbs[i].name, verbs[i].help);
    printf("\nddp VERB --help says more about a verb, ddp --version names the version.\n");
    return 0;
}

/* What a verb has printed must have gone out, too. */
static int finish(const char *name, int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    fprintf(stderr, "ddp %s: the output cannot be written: is the disk full?\n", name);
    return rc ? rc : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    setvbuf(stderr, NULL, _IOLBF, 0); /* a line is one write (glibc since 2.37) */
    if (!strcmp(name, "--version")) {
        printf("ddp (slurm-ddp) %s\n", DDP_VERSION);
        return finish(name, 0);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    const struct verb *v = find(name);
    if (v)
        return finish(v->name, v->main(argc - 1, argv + 1));
    return wrong_verb(name);
}
