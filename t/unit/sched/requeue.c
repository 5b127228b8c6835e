#include "t/unit/unit.h"

#include "runtime/sched/requeue.h"

static void when_a_job_is_requeued(void **state)
{
    (void)state;
    static const struct {
        struct slurm_job job;
        int restarts, limit;
        enum requeue_what want;
    } cases[] = {
        {{SLURM_RUNNING, true, true, 0, 0, ""}, 0, 100, REQUEUE_DO},
        {{SLURM_RUNNING, true, true, 0, 0, ""}, 99, 100, REQUEUE_DO},
        {{SLURM_RUNNING, true, true, 0, 0, ""}, 100, 100, REQUEUE_OFTEN},
        {{SLURM_RUNNING, true, true, 0, 0, ""}, 0, 0, REQUEUE_OFTEN},
        {{SLURM_TIMED_OUT, true, true, 0, 0, ""}, 3, 100, REQUEUE_DO},
        {{SLURM_RUNNING, true, false, 0, 0, ""}, 0, 100, REQUEUE_FORBIDDEN},
        {{SLURM_RUNNING, false, false, 0, 0, ""}, 0, 100, REQUEUE_INTERACTIVE},
        {{SLURM_ENDING, false, true, 0, 0, ""}, 0, 100, REQUEUE_INTERACTIVE},
        {{SLURM_REQUEUED, true, true, 0, 0, ""}, 100, 100, REQUEUE_DONE},
        {{SLURM_ENDING, true, true, 0, 0, ""}, 0, 100, REQUEUE_CANCELLED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (requeue_judge(&cases[i].job, cases[i].restarts, cases[i].limit) != cases[i].want)
            fail_msg("case %zu", i);
}

static void the_command_is_fit_for_a_shell(void **state)
{
    (void)state;
    static const char args[] = "./train\0--data\0it's a file\0--x=1\0\0$(rm -rf)\0a\nb";
    static const char *const set[] = {"SLURM_STEP_NUM_NODES", "2", "SLURM_STEP_NUM_TASKS", "4", "SLURM_CPUS_PER_TASK",
                                      "3", "SLURM_JOB_PARTITION", "a b",
                                      "DDP_OPTION", "on,requeue=auto"};
    static const char *const unset[] = {"SLURM_NTASKS_PER_NODE", "SLURM_GPUS_PER_NODE", "SLURM_JOB_ACCOUNT"};
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        unsetenv(unset[i]);
    for (size_t i = 0; i < sizeof set / sizeof *set; i += 2)
        setenv(set[i], set[i + 1], 1);
    char *command = requeue_command(args, sizeof args);
    assert_string_equal(command, "srun --ddp=on,requeue=auto -N2 -n4 -c3 -p'a b' ./train --data 'it'\\''s a file' "
                                 "--x=1 '' '$(rm -rf)' 'a\nb'");
    free(command);
    unsetenv("DDP_OPTION");
    command = requeue_command("x", 1); /* cut short */
    assert_string_equal(command, "srun --ddp=on -N2 -n4 -c3 -p'a b' x");
    free(command);
    unsetenv("SLURM_STEP_NUM_TASKS");
    setenv("WORLD_SIZE", "4", 1);
    command = requeue_command("x\0y", 4);
    assert_string_equal(command, "ddp run -n 4 x y");
    free(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_a_job_is_requeued),
        cmocka_unit_test(the_command_is_fit_for_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
