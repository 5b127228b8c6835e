/* A machine's cores in a file: what is written is read, and nothing else is believed. Only root can write it. */
#include "config.h" /* unshare */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/folder.h"
#include "topology/cache.h"

static struct inventory machine, found; /* large */
static char folder[80], file[96];

static int write_now(void)
{
    ddp_error_t e;
    uint64_t here;
    return cache_machine(&here) == 0 ? cache_write(folder, here, &machine, &e) : -1;
}

static int begin(void **state)
{
    ddp_error_t e;
    int rc = folder_make(state);
    umask(077); /* slurmd's may be as strict */
    snprintf(folder, sizeof folder, "%s/cache", test_folder);
    snprintf(file, sizeof file, "%s/cache/" CACHE_FILE, test_folder);
    if (rc < 0 || inventory_load(NULL, true, &machine, &e) < 0)
        return -1;
    return geteuid() == 0 ? write_now() : 0;
}

static int try_read(void)
{
    memset(&found, 0, sizeof found);
    return cache_read(folder, &found);
}

static void assert_same_cores(void)
{
    assert_string_equal(found.cpu_model, machine.cpu_model);
    assert_int_equal(found.n_cores, machine.n_cores);
    assert_int_equal(found.n_numas, machine.n_numas);
    assert_int_equal(found.n_packages, machine.n_packages);
    assert_int_equal(found.n_caches, machine.n_caches);
    assert_true(cpus_equal(&found.all, &machine.all));
    assert_memory_equal(found.core, machine.core, machine.n_cores * sizeof *machine.core);
    assert_memory_equal(found.numa, machine.numa, machine.n_numas * sizeof *machine.numa);
}

static int count_files(void)
{
    char command[128];
    int n = -1;
    snprintf(command, sizeof command, "find %s -mindepth 1 | wc -l", folder);
    FILE *f = popen(command, "r");
    assert_true(f && fscanf(f, "%d", &n) == 1);
    pclose(f);
    return n;
}

static void cores_are_read_anew_without_a_cache(void **state)
{
    (void)state;
    ddp_error_t e;
    memset(&found, 0, sizeof found);
    assert_int_equal(inventory_load_cached("/nonexistent", true, deadline_in(10), &found, &e), 0);
    assert_same_cores();
    assert_int_equal(found.n_gpus, machine.n_gpus);
    assert_int_equal(found.n_nics, machine.n_nics);
    assert_true(found.has_io);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct stat st;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(try_read(), 0);
    assert_same_cores();
    assert_int_equal(found.n_gpus + found.n_nics, 0);
    assert_true(stat(folder, &st) == 0 && (st.st_mode & 07777) == 0755);
    assert_true(stat(file, &st) == 0 && (st.st_mode & 07777) == 0644);
    assert_int_equal(count_files(), 1);
}

/* The file says that the machine is another one. */
static void the_cache_takes_the_place_of_reading_cores(void **state)
{
    (void)state;
    ddp_error_t e;
    unit_needs(geteuid() == 0, "root's rights");
    strcpy(machine.cpu_model, "Cached CPU");
    assert_int_equal(write_now(), 0);
    assert_int_equal(inventory_load_cached(folder, true, deadline_in(10), &found, &e), 0);
    assert_string_equal(found.cpu_model, "Cached CPU");
    assert_string_equal(found.origin, machine.origin);
    assert_int_equal(found.n_nics, machine.n_nics); /* as they are now */
    assert_true(found.has_io);
    setenv("HWLOC_COMPONENTS", "-x86", 1);
    int rc = inventory_load_cached(folder, false, deadline_in(10), &found, &e);
    unsetenv("HWLOC_COMPONENTS");
    assert_int_equal(rc, 0);
    assert_string_not_equal(found.cpu_model, "Cached CPU");
}

static void slurmd_writes_what_a_child_process_reads(void **state)
{
    (void)state;
    ddp_error_t e;
    unit_needs(geteuid() == 0, "root's rights");
    strcpy(machine.cpu_model, "Cached CPU");
    assert_int_equal(write_now(), 0);
    assert_int_equal(inventory_store(folder, deadline_in(10), &e), 0);
    assert_int_equal(try_read(), 0);
    assert_string_not_equal(found.cpu_model, "Cached CPU");
    strcpy(machine.cpu_model, found.cpu_model);
    assert_same_cores();
    assert_string_equal(found.origin, machine.origin);
    setenv("HWLOC_XMLFILE", "/nonexistent", 1);
    int rc = inventory_store(folder, deadline_in(10), &e);
    unsetenv("HWLOC_XMLFILE");
    assert_int_equal(rc, -1);
    assert_error_has(e, "HWLOC_ variables are set");
    assert_int_equal(access(file, F_OK), -1); /* what is there no more is not believed */
}

/* Each byte of the head matters: what has written it, and the machine. */
static void a_file_of_another_version_is_not_believed(void **state)
{
    (void)state;
    unsigned char byte;
    unit_needs(geteuid() == 0, "root's rights");
    int fd = open(file, O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = 0; at < 32; at++) {
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(try_read(), -1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(try_read(), 0);
    close(fd);
}

/* In a mount namespace of this process's own. Returns false where that is not to be had. */
static bool lay_over(const char *path, const char *text)
{
    char other[96];
    snprintf(other, sizeof other, "%s/other", test_folder);
    FILE *f = fopen(other, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(other, path, NULL, MS_BIND, NULL) == 0;
}

static void a_file_of_another_machine_is_not_believed(void **state)
{
    static const char *const paths[] = {"/proc/sys/kernel/random/boot_id", "/sys/devices/system/cpu/online",
                                        "/sys/devices/system/node/online",
                                        "/sys/devices/system/node/has_memory"};
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (access(paths[i], F_OK) < 0)
            continue; /* a kernel without NUMA */
        assert_int_equal(try_read(), 0);
        if (!lay_over(paths[i], "0-4095\n"))
            skip();
        assert_int_equal(try_read(), -1);
        assert_int_equal(umount(paths[i]), 0);
    }
}

static void a_machine_that_changes_meanwhile_is_not_written(void **state)
{
    (void)state;
    ddp_error_t e;
    uint64_t here;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(cache_machine(&here), 0);
    assert_int_equal(cache_write(folder, here + 1, &machine, &e), -1);
    assert_error_has(e, "came or went while they were read");
}

static void a_file_of_another_length_is_not_believed(void **state)
{
    (void)state;
    struct stat st;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size + 1), 0);
    assert_int_equal(try_read(), -1);
    assert_int_equal(truncate(file, st.st_size), 0);
    assert_int_equal(try_read(), 0);
    for (off_t n = st.st_size - 1; n >= 0; n -= n > 64 ? 61 : 1) {
        assert_int_equal(truncate(file, n), 0);
        assert_int_equal(try_read(), -1);
    }
}

/* Whatever its tables hold, no index is out of its range afterwards: also under a sanitizer. */
static void contradicting_tables_are_not_believed(void **state)
{
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    machine.core[0].n_cpus = INVENTORY_THREADS_MAX + 1;
    assert_int_equal(write_now(), 0);
    assert_int_equal(try_read(), -1);
    machine.core[0].n_cpus = 1;
    machine.core[0].package = (int16_t)machine.n_packages;
    assert_int_equal(write_now(), 0);
    assert_int_equal(try_read(), -1);
}

/* Where a bit of the tables is another one each CPU is in one core still, or nothing is believed. */
static void a_flipped_bit_gives_no_cpu_twice(void **state)
{
    (void)state;
    unsigned char byte;
    unit_needs(geteuid() == 0, "root's rights");
    off_t end = 32 + (off_t)(offsetof(struct inventory, core) + machine.n_cores * sizeof *machine.core);
    int fd = open(file, O_RDWR), n_read = 0;
    assert_true(fd >= 0);
    for (off_t at = 32; at < end; at++) {
        unsigned char bit = (unsigned char)(1 << at % 8);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= bit;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        if (try_read() == 0) {
            assert_true(cpus_equal(&found.all, &machine.all));
            for (size_t i = 0; i < found.n_cores; i++) {
                struct cpus set = inventory_core_cpus(&found, i);
                assert_int_equal(inventory_count_cores(&found, &set), 1);
            }
            n_read++;
        }
        byte ^= bit;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_true(n_read > 0 && try_read() == 0);
    close(fd);
}

static void a_file_that_is_not_roots_alone_is_not_believed(void **state)
{
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(chmod(file, 0664), 0);
    assert_int_equal(try_read(), -1);
    assert_int_equal(chmod(file, 0646), 0);
    assert_int_equal(try_read(), -1);
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(chown(file, 65534, 0), 0);
    assert_int_equal(try_read(), -1);
    assert_int_equal(chown(file, 0, 0), 0);
    assert_int_equal(try_read(), 0);
}

static void a_link_or_a_pipe_is_not_believed(void **state)
{
    (void)state;
    char moved[128];
    unit_needs(geteuid() == 0, "root's rights");
    snprintf(moved, sizeof moved, "%s.moved", file);
    assert_int_equal(rename(file, moved), 0);
    assert_int_equal(symlink(moved, file), 0);
    assert_int_equal(try_read(), -1);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0644), 0);
    assert_int_equal(try_read(), -1); /* and is not waited for */
}

static void assert_not_written(const char *reason)
{
    ddp_error_t e = {0};
    uint64_t here;
    assert_int_equal(cache_machine(&here), 0);
    assert_int_equal(cache_write(folder, here, &machine, &e), -1);
    assert_error_has(e, reason);
    assert_error_has(e, folder);
}

static void nothing_is_written_to_anothers_folder(void **state)
{
    (void)state;
    char other[128];
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_not_written("is not root's alone: remove it");
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chown(folder, 65534, 0), 0);
    assert_not_written("is not root's alone: remove it");
    assert_int_equal(count_files(), 0);
    snprintf(other, sizeof other, "%s.other", folder);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(symlink(other, folder), 0);
    assert_not_written("Not a directory");
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    ddp_error_t e;
    uint64_t here;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(cache_machine(&here), 0);
    assert_int_equal(cache_write("/proc/slurm-ddp", here, &machine, &e), -1);
    assert_error_has(e, "/proc/slurm-ddp: ");
}

#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, begin, folder_remove)
static const struct CMUnitTest tests[] = {
    WITH_FOLDER(cores_are_read_anew_without_a_cache),
    WITH_FOLDER(what_is_written_is_read),
    WITH_FOLDER(the_cache_takes_the_place_of_reading_cores),
    WITH_FOLDER(slurmd_writes_what_a_child_process_reads),
    WITH_FOLDER(a_file_of_another_version_is_not_believed),
    WITH_FOLDER(a_file_of_another_machine_is_not_believed),
    WITH_FOLDER(a_machine_that_changes_meanwhile_is_not_written),
    WITH_FOLDER(a_file_of_another_length_is_not_believed),
    WITH_FOLDER(contradicting_tables_are_not_believed),
    WITH_FOLDER(a_flipped_bit_gives_no_cpu_twice),
    WITH_FOLDER(a_file_that_is_not_roots_alone_is_not_believed),
    WITH_FOLDER(a_link_or_a_pipe_is_not_believed),
    WITH_FOLDER(nothing_is_written_to_anothers_folder),
    WITH_FOLDER(a_folder_that_cannot_be_made_is_named),
};
UNIT_MAIN(tests)
