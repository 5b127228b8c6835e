/* mpi.c - see mpi.h. */
#include "config.h"
#include "spank/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/keys/keys.h"

static bool has_plugin(const char *folder, const char *file)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path && access(path, F_OK) == 0;
}

/* Slurm's own loader: what it says of a plugin that does not load it has told the user. A Slurm without such a function
 * counts as one whose plugins load. */
bool mpi_loads(const char *type)
{
    void *(*load)(const char *type, int n_functions, const char *names[], void *functions[]) = NULL;
    *(void **)&load = dlsym(RTLD_DEFAULT, "slurm_plugin_load_and_link");
    return !load || load(type, 0, NULL, NULL);
}

const char *mpi_choose(int choice, const char *folder, mpi_loads_f *loads, bool *ret_is_broken)
{
    *ret_is_broken = false;
    if (choice == MPI_NONE)
        return NULL;
    if (choice == MPI_PMIX)
        return "pmix";
    if (choice == MPI_AUTO && has_plugin(folder, "mpi_pmix.so")) {
        if (loads("mpi/pmix"))
            return "pmix";
        *ret_is_broken = true;
    }
    return choice == MPI_PMI2 || has_plugin(folder, "mpi_pmi2.so") ? "pmi2" : NULL;
}

int mpi_folder(const void *function, char *ret, int size)
{
    Dl_info info;
    if (!dladdr(function, &info) || !info.dli_fname || snprintf(ret, (size_t)size, "%s", info.dli_fname) >= size)
        return -1;
    char *slash = strrchr(ret, '/');
    if (!slash)
        return -1;
    *slash = 0;
    return 0;
}
