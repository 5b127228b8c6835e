/* mpi.c - see mpi.h. */
#include "config.h"
#include "spank/mpi.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "spank/keys.h"

/* Of PMIx there may be several, one a release (mpi_pmix_v4.so); mpi_pmix.so names the one that is meant. */
static bool has_plugin(const char *folder, const char *prefix)
{
    bool found = false;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = !strncmp(e->d_name, prefix, strlen(prefix));
    if (d)
        closedir(d);
    return found;
}

const char *mpi_choose(int choice, const char *folder)
{
    if (choice == MPI_NONE)
        return NULL;
    if (choice == MPI_PMIX || (choice == MPI_AUTO && has_plugin(folder, "mpi_pmix")))
        return "pmix";
    return choice == MPI_PMI2 || has_plugin(folder, "mpi_pmi2") ? "pmi2" : NULL;
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
