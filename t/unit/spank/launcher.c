/* Programs that start others. */
#include "t/unit/unit.h"

#include "spank/launcher.h"

static void launchers_are_told_by_their_command(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum launcher want;
    } cases[] = {
        {"torchrun train.py", LAUNCHER_TORCH},
        {"/opt/venv/bin/torchrun --nproc-per-node=2 train.py", LAUNCHER_TORCH},
        {"python -m torch.distributed.run train.py", LAUNCHER_TORCH},
        {"/usr/bin/python3.11 -u -W ignore -m torch.distributed.launch train.py", LAUNCHER_TORCH},
        {"python3 -X dev /opt/venv/bin/torchrun train.py", LAUNCHER_TORCH},
        {"python3 -mtorch.distributed.run train.py", LAUNCHER_TORCH},
        {"python3 -Wignore -um torch.distributed.run train.py", LAUNCHER_TORCH},
        {"accelerate launch train.py", LAUNCHER_TORCH},
        {"python train.py torchrun", LAUNCHER_NONE},
        {"python -m trainer torchrun", LAUNCHER_NONE},
        {"python -c torchrun", LAUNCHER_NONE},
        {"python -uc -mtorchrun", LAUNCHER_NONE},
        {"python --check-hash-based-pycs always train.py", LAUNCHER_NONE},
        {"python -", LAUNCHER_NONE},
        {"python -m", LAUNCHER_NONE},
        {"python", LAUNCHER_NONE},
        {"torchrun.sh", LAUNCHER_NONE},
        {"./train torchrun", LAUNCHER_NONE},
        {"orted -mca ess slurm", LAUNCHER_MPI},
        {"/opt/openmpi/bin/prted --daemonize", LAUNCHER_MPI},
        {"hydra_pmi_proxy --control-port n1:1", LAUNCHER_MPI},
        {"orteds", LAUNCHER_NONE},
    };
    assert_int_equal(launcher_of(0, NULL), LAUNCHER_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[100], *argv[12], *rest = NULL;
        int argc = 0;
        snprintf(line, sizeof line, "%s", cases[i].line);
        for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            argv[argc++] = word;
        if (launcher_of(argc, argv) != cases[i].want)
            fail_msg("%s: %d", cases[i].line, (int)launcher_of(argc, argv));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(launchers_are_told_by_their_command),
};
UNIT_MAIN(tests)
