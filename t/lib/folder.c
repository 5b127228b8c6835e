#include "config.h" /* nftw */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "t/lib/folder.h"

char test_folder[64];

int folder_make(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/ddp-unit-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int folder_remove(void **state)
{
    (void)state;
    return nftw(test_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
