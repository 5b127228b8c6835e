/* mpi.c - see mpi.h. */
#include "config.h"
#include "spank/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/keys.h"

static bool path_of(const char *folder, const char *file, char *ret, size_t size)
{
    return snprintf(ret, size, "%s/%s", folder, file) < (int)size && access(ret, F_OK) == 0;
}

/* Slurm's PMIx plugin opens PMIx's library in its init(), as Slurm calls it when it loads the plugin: that alone says
 * whether the library is there, where the plugin looks, and of the version that it was built with. The plugin stays
 * loaded for srun, which loads it next. */
static bool does_load(const char *path)
{
    void *plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    int (*init)(void) = NULL;
    if (plugin)
        *(void **)&init = dlsym(plugin, "init");
    if (init && init() == 0)
        return true;
    if (plugin)
        dlclose(plugin);
    return false;
}

const char *mpi_choose(int choice, const char *folder, bool *ret_is_broken)
{
    char path[PATH_MAX];
    *ret_is_broken = false;
    if (choice == MPI_NONE)
        return NULL;
    if (choice == MPI_PMIX)
        return "pmix";
    if (choice == MPI_AUTO && path_of(folder, "mpi_pmix.so", path, sizeof path)) {
        if (does_load(path))
            return "pmix";
        *ret_is_broken = true;
    }
    return choice == MPI_PMI2 || path_of(folder, "mpi_pmi2.so", path, sizeof path) ? "pmi2" : NULL;
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
