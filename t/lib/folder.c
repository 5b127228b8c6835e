#include "config.h" /* nftw */

#include "t/lib/folder.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>

#include "t/unit/unit.h"

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

void folder_put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", test_folder, path);
    for (char *p = full + strlen(test_folder) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
            *p = '/';
        }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}
