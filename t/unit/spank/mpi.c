/* Which MPI plugin a step is started with, by what Slurm has. (t/t2007 asks srun.) */
#include "t/unit/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "spank/keys.h"
#include "spank/mpi.h"
#include "t/lib/folder.h"

static void make(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static void says(int choice, const char *dir, const char *want)
{
    bool is_broken;
    const char *got = mpi_choose(choice, dir, &is_broken);
    assert_string_equal(got ? got : "(as it is)", want);
    assert_false(is_broken);
}

static void what_slurm_has_decides(void **state)
{
    (void)state;
    make("mpi_cray_shasta.so");
    says(MPI_AUTO, test_folder, "(as it is)"); /* as where the folder cannot be read: */
    says(MPI_AUTO, "/nonexistent", "(as it is)");
    make("mpi_pmi2.so");
    says(MPI_AUTO, test_folder, "pmi2");
    make("mpi_pmix_v4.so"); /* without mpi_pmix.so it serves --mpi=pmix_v4 alone */
    says(MPI_AUTO, test_folder, "pmi2");
    says(MPI_PMI2, test_folder, "pmi2");
    says(MPI_NONE, test_folder, "(as it is)");
}

static void a_plugin_that_does_not_load_is_not_taken(void **state)
{
    (void)state;
    bool is_broken = false;
    make("mpi_pmix.so"); /* no library at all */
    assert_null(mpi_choose(MPI_AUTO, test_folder, &is_broken));
    make("mpi_pmi2.so");
    assert_string_equal(mpi_choose(MPI_AUTO, test_folder, &is_broken), "pmi2");
    assert_true(is_broken);
    says(MPI_PMIX, test_folder, "pmix");
    says(MPI_PMI2, test_folder, "pmi2");
}

static void what_was_asked_for_is_taken_unseen(void **state)
{
    (void)state;
    says(MPI_PMIX, "/nonexistent", "pmix");
    says(MPI_PMI2, "/nonexistent", "pmi2");
}

static void a_functions_library_names_its_folder(void **state)
{
    (void)state;
    char dir[512];
    assert_int_equal(mpi_folder((const void *)(uintptr_t)fopen, dir, sizeof dir), 0);
    assert_int_equal(access(dir, R_OK | X_OK), 0);
    assert_int_equal(mpi_folder((const void *)(uintptr_t)fopen, dir, 4), -1);
    assert_int_equal(mpi_folder(&dir, dir, sizeof dir), -1); /* on the stack, which is no library's */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(what_slurm_has_decides, folder_make, folder_remove),
    cmocka_unit_test_setup_teardown(a_plugin_that_does_not_load_is_not_taken, folder_make, folder_remove),
    cmocka_unit_test(what_was_asked_for_is_taken_unseen),
    cmocka_unit_test(a_functions_library_names_its_folder),
};

UNIT_MAIN(tests)
