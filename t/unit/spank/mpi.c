/* Which MPI plugin a step is started with, by what Slurm has. (t/t2007 asks srun.) */
#include "t/unit/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "spank/keys/keys.h"
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

static bool loads(const char *type)
{
    assert_string_equal(type, "mpi/pmix");
    return true;
}

static bool does_not_load(const char *type)
{
    return type[0] != 'm';
}

static bool is_not_asked(const char *type)
{
    fail_msg("%s is loaded", type);
    return false;
}

static void says(int choice, const char *dir, mpi_loads_f *f, const char *want, bool is_broken)
{
    bool was_broken = !is_broken;
    const char *got = mpi_choose(choice, dir, f, &was_broken);
    assert_string_equal(got ? got : "(as it is)", want);
    assert_int_equal(was_broken, is_broken);
}

static void what_slurm_has_decides(void **state)
{
    (void)state;
    make("mpi_cray_shasta.so");
    says(MPI_AUTO, test_folder, is_not_asked, "(as it is)", false); /* as where the folder cannot be read: */
    says(MPI_AUTO, "/nonexistent", is_not_asked, "(as it is)", false);
    make("mpi_pmi2.so");
    says(MPI_AUTO, test_folder, is_not_asked, "pmi2", false);
    make("mpi_pmix_v4.so"); /* without mpi_pmix.so it serves --mpi=pmix_v4 alone */
    says(MPI_AUTO, test_folder, is_not_asked, "pmi2", false);
    make("mpi_pmix.so");
    says(MPI_AUTO, test_folder, loads, "pmix", false);
    says(MPI_PMI2, test_folder, is_not_asked, "pmi2", false);
    says(MPI_NONE, test_folder, is_not_asked, "(as it is)", false);
}

static void a_plugin_that_does_not_load_is_not_taken(void **state)
{
    (void)state;
    make("mpi_pmix.so");
    says(MPI_AUTO, test_folder, does_not_load, "(as it is)", true);
    make("mpi_pmi2.so");
    says(MPI_AUTO, test_folder, does_not_load, "pmi2", true);
}

static void what_was_asked_for_is_taken_unseen(void **state)
{
    (void)state;
    says(MPI_PMIX, "/nonexistent", is_not_asked, "pmix", false);
    says(MPI_PMI2, "/nonexistent", is_not_asked, "pmi2", false);
}

static void without_slurm_all_loads(void **state)
{
    (void)state;
    assert_true(mpi_loads("mpi/pmix"));
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
    cmocka_unit_test(without_slurm_all_loads),
    cmocka_unit_test(what_was_asked_for_is_taken_unseen),
    cmocka_unit_test(a_functions_library_names_its_folder),
};

UNIT_MAIN(tests)
