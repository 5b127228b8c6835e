/* The warning for steps that hide GPUs, from srun's command line and variables. */
#include "t/unit/spank/vars.h"

#include "spank/hiding.h"

/* Arguments joined by "|"; variables "NAME=VALUE" joined by "|". Returns who is named, or NULL. */
static const char *guilty(const char *line, const char *variables, char *text, size_t size)
{
    char args[512];
    struct vars v = {0};
    size_t n = strlen(line) + 1;
    memcpy(args, line, n);
    for (size_t i = 0; i < n; i++)
        if (args[i] == '|')
            args[i] = 0;
    while (*variables) {
        char name[64], value[64];
        int used = 0;
        assert_int_equal(sscanf(variables, "%63[^=]=%63[^|]%n", name, value, &used), 2);
        put(&v, name, value);
        variables += used + (variables[used] == '|');
    }
    struct cmdline c = cmdline_read(args, n);
    if (!hiding_warn(&c, lookup, &v, text, size))
        return NULL;
    text[strcspn(text, " ")] = 0;
    return text;
}

static void what_hides_gpus_is_named(void **state)
{
    (void)state;
    static const struct { const char *line, *variables, *want; } cases[] = {
        {"srun|-n2|--gpus-per-node=2|a", "", NULL},
        {"srun|-n2|--gpus-per-task=1|a", "", "--gpus-per-task"},
        {"srun|-n2|--gpus-per-task|1|a", "", "--gpus-per-task"},
        {"srun|-n2|--gpus-per-t|1|--ddp=on|a", "", "--gpus-per-task"},
        {"srun|-n2|a|--gpus-per-task=1", "", NULL},
        {"srun|-n1|a|:|-n1|--gpus-per-task=1|b", "", "--gpus-per-task"},
        {"srun|-n2|a", "SLURM_GPUS_PER_TASK=1", "SLURM_GPUS_PER_TASK"},
        {"srun|-n2|--gpus-per-task=1|a", "SLURM_GPUS_PER_TASK=1", "--gpus-per-task"},
        {"srun|--gpus-per-task=1|--gpu-bind=none|a", "", NULL},
        {"srun|--gpus-per-task=1|a", "SLURM_GPU_BIND=none", NULL},
        {"srun|--gpus-per-task=1|--gpu-bind=verbose,none|a", "", NULL},
        {"srun|--gpus-per-node=4|--gpu-bind=closest|a", "", "--gpu-bind"},
        {"srun|--gpus-per-node=4|--gpu-bind|single:1|a", "", "--gpu-bind"},
        {"srun|--gpus-per-node=4|--gpu-bind=v,map_gpu:0,1|a", "", "--gpu-bind"},
        {"srun|--gpu-bind=none|a", "SLURM_GPU_BIND=single:1", NULL},
        {"srun|a", "SLURM_GPU_BIND=single:1", "SLURM_GPU_BIND"},
        {"srun|--ntasks-per-gpu=1|a", "", "--ntasks-per-gpu"},
        {"srun|--ntasks-per-node=1|--gpus=2|a", "", NULL},
        {"srun|-N4|--ntasks-per-node=1|--gpus-per-task=1|a", "", NULL},
        {"srun|-N4|--ntasks-per-node=2|--gpus-per-task=1|a", "SLURM_NTASKS_PER_NODE=1", "--gpus-per-task"},
        {"srun|--gpus-per-task=1|a", "SLURM_NTASKS_PER_NODE=1", NULL},
        {"srun|--tres-per-task=cpu=2,gres/gpu=1|a", "", "--tres-per-task"},
        {"srun|--tres-per-task=gres:gpu:1|a", "", "--tres-per-task"},
        {"srun|--tres-per-task=cpu=2|a", "", NULL},
        {"srun|a", "SLURM_TRES_PER_TASK=gres/gpu=1", "SLURM_TRES_PER_TASK"},
        {"srun|--tres-bind=gres/gpu:single:1|a", "", "--tres-bind"},
        {"srun|--tres-bind=gres/gpu:per_task:1|a", "", "--tres-bind"},
        {"srun|a", "SLURM_TRES_PER_TASK=gres/gpu=1|SLURM_TRES_BIND=gres/gpu:per_task:1", "SLURM_TRES_PER_TASK"},
        {"srun|a", "SLURM_TRES_PER_TASK=gres/gpu=1|SLURM_TRES_BIND=gres/gpu:single:1", "SLURM_TRES_BIND"},
        {"srun|--tres-bind=gres/gpu:none|--gpus-per-task=1|a", "", NULL},
        {"srun|--tres-bind=gres/nic:single:1|a", "", NULL},
        {"srun|--gpus-per-task=1|a", "CUDA_VISIBLE_DEVICES=MIG-a", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[320];
        const char *got = guilty(cases[i].line, cases[i].variables, text, sizeof text);
        if ((got && cases[i].want) ? strcmp(got, cases[i].want) : got != cases[i].want)
            fail_msg("%s with %s: got %s", cases[i].line, cases[i].variables, got ? got : "no word");
    }
}

static void the_warning_says_what_to_write(void **state)
{
    (void)state;
    struct vars v = {0};
    struct cmdline c = {.gpus_per_task = "1"};
    char text[320];
    assert_true(hiding_warn(&c, lookup, &v, text, sizeof text));
    assert_non_null(strstr(text, "peer-to-peer"));
    assert_non_null(strstr(text, "write --gpus-per-node=N in its place"));
    assert_non_null(strstr(text, "not for MIG instances"));
    assert_true(strlen(text) < sizeof text - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_hides_gpus_is_named),
    cmocka_unit_test(the_warning_says_what_to_write),
};
UNIT_MAIN(tests)
