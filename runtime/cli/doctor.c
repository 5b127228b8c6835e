/* doctor.c - `ddp doctor`: is this site's Slurm set up well for --ddp? */
#include <stdlib.h>

#include "runtime/base/knob.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/doctor/doctor.h"

enum { JSON, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [JSON] = {.name = "--json", .type = KNOB_BOOL, .def = "off", .help = "print JSON"},
};

static int help(void)
{
    printf("usage: ddp doctor [--json]\n"
           "\n"
           "Reads on this machine, as an ordinary user, what Slurm's own commands, plugstack.conf and cgroup.conf\n"
           "say, and says whether each setting that matters to --ddp is well: ok, warn or FAIL, and the line to\n"
           "change. No job is started. Run it on a submit host, and on a node by srun.\n"
           "\n");
    knob_help(stdout, knobs, N_KNOBS);
    printf("\nExit code: 0; 1: something failed; 2: wrong usage.\n");
    return 0;
}

int cli_doctor(int argc, char **argv)
{
    struct knob_value v[N_KNOBS];
    ddp_error_t e;
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp doctor --help\"", argc, argv, v, NULL, &e);
    if (rc > 0)
        return help();
    if (rc < 0) {
        fprintf(stderr, "ddp doctor: %s\n", e.text);
        return CLI_USAGE;
    }
    struct doctor *d = calloc(1, sizeof *d);
    struct verdicts *l = calloc(1, sizeof *l);
    int code = EXIT_FAILURE;
    if (d && l) {
        doctor_read(d);
        doctor_judge(d, l);
        code = verdicts_failed(l) ? EXIT_FAILURE : EXIT_SUCCESS;
        if (v[JSON].b && verdicts_write(stdout, verdicts_json(l)) != 0)
            code = EXIT_FAILURE;
        if (!v[JSON].b)
            verdicts_print(stdout, l);
        doctor_free(d);
    }
    if (l)
        verdicts_clear(l);
    free(l);
    free(d);
    return code;
}
