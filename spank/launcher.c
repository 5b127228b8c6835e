#include "spank/launcher.h"

#include <stddef.h>
#include <string.h>

#include "runtime/base/begins.h"

static const struct {
    const char *name; /* of a program, or of a Python module */
    enum launcher kind;
} known[] = {
    {"torchrun", LAUNCHER_TORCH},          {"torch.distributed.run", LAUNCHER_TORCH},
    {"accelerate", LAUNCHER_TORCH},        {"torch.distributed.launch", LAUNCHER_TORCH},
    {"accelerate-launch", LAUNCHER_TORCH}, {"accelerate.commands.launch", LAUNCHER_TORCH},
    {"orted", LAUNCHER_MPI},               {"hydra_pmi_proxy", LAUNCHER_MPI},
    {"prted", LAUNCHER_MPI},               {"hydra_bstrap_proxy", LAUNCHER_MPI},
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum launcher find(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].kind;
    return LAUNCHER_NONE;
}

/* The module or script that python runs, by its options (python3(1)); NULL: neither. Those of one letter may stand
 * together, and a value right behind its letter. */
static const char *python_runs(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        const char *letter = argv[i] + strcspn(argv[i], "cmWX");
        if (argv[i][0] != '-')
            return base_of(argv[i]);
        if (*letter == 'c' || !argv[i][1])
            return NULL;
        if (*letter == 'm' && letter[1])
            return letter + 1;
        if (*letter == 'm')
            return i + 1 < argc ? argv[i + 1] : NULL;
        i += *letter && !letter[1];
    }
    return NULL;
}

enum launcher launcher_of(int argc, char *const *argv)
{
    if (argc < 1)
        return LAUNCHER_NONE;
    const char *name = base_of(argv[0]);
    if (begins(name, "python"))
        name = python_runs(argc, argv);
    return name ? find(name) : LAUNCHER_NONE;
}
