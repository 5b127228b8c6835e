/* What the table of NCCL's functions holds, by version of the library: a double (t/lib/nccldouble), opened by its path
 * before, so that its name is found loaded. A process each, since a library stays open. */
#include "t/unit/unit.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/nccl/lib.h"

struct scene {
    const char *version;
    bool is_scalable, has_windows;
    const char *refusal; /* NULL: it is taken */
};

static int double_open(const struct scene *s)
{
    char path[512], script[64], text[64];
    const char *root = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/t/lib/nccldouble/.libs/libnccl.so.2", root ? root : ".");
    snprintf(script, sizeof script, "/tmp/ddp-nccl-lib.%d", (int)getpid());
    snprintf(text, sizeof text, "version %s\n", s->version);
    FILE *f = fopen(script, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        return -1;
    setenv("NCCLDOUBLE_SCRIPT", script, 1);
    unsetenv("NCCLDOUBLE_LOG");
    int version, (*get_version)(int *);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib)
        *(void **)&get_version = dlsym(lib, "ncclGetVersion");
    int rc = lib && get_version(&version) == 0 ? 0 : -1; /* reads the script */
    if (!lib)
        fprintf(stderr, "# %s\n", dlerror());
    unlink(script);
    return rc;
}

/* Two ids for one rank: what counts is which function takes them. */
static int try_two_ids(const struct nccl_lib *lib)
{
    unsigned char ids[2 * NCCL_ID_BYTES] = {0};
    char second[8 + NCCL_ID_BYTES];
    void *comm = NULL;
    setenv("NCCLDOUBLE_DIR", "/tmp", 1);
    if (lib->unique_id(ids) != NCCL_OK || lib->unique_id(ids + NCCL_ID_BYTES) != NCCL_OK ||
        lib->init(&comm, 1, 0, ids, 2) != NCCL_IN_PROGRESS)
        return -1;
    snprintf(second, sizeof second, "/tmp/%.*s", NCCL_ID_BYTES, (char *)ids + NCCL_ID_BYTES);
    unlink(second); /* the double's file for an id that nobody meets at */
    while (lib->state(comm) == NCCL_IN_PROGRESS)
        ;
    return lib->state(comm) == NCCL_OK && lib->abort(comm) == NCCL_OK ? 0 : -1;
}

static int check(const struct scene *s)
{
    ddp_error_t e = {0};
    if (double_open(s) < 0)
        return 1;
    const struct nccl_lib *lib = nccl_lib_open(&e);
    if (s->refusal)
        return !lib && strstr(e.text, s->refusal) ? 0 : 2;
    if (!lib || nccl_lib_open(&e) != lib || lib->version != atoi(s->version))
        return 3;
    if (lib->has[NCCL_SCALABLE] != s->is_scalable || lib->has[NCCL_WINDOWS] != s->has_windows)
        return 4;
    return s->is_scalable && try_two_ids(lib) < 0 ? 5 : 0;
}

static void test_versions(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {"2708", false, false, "NCCL 2.7.8, which is too old"},
        {"21805", false, false, "NCCL 2.18.5, which is too old"},
        {"21901", false, false, NULL},
        {"22207", false, false, NULL},
        {"22304", true, false, NULL},
        {"22707", true, false, NULL},
        {"22809", true, false, NULL},
        {"23004", true, false, NULL},
        {"23007", true, true, NULL},
        {"23102", true, true, NULL},
        {"30000", false, false, "NCCL 3.0.0, another major version than this build's 2."},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            _exit(check(&scenes[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("NCCL %s: status %x", scenes[i].version, status);
    }
}

static void test_version_text(void **state)
{
    (void)state;
    char buf[32];
    assert_string_equal(nccl_version_text(22809, buf), "2.28.9");
    assert_string_equal(nccl_version_text(23004, buf), "2.30.4");
    assert_string_equal(nccl_version_text(2804, buf), "2.8.4");
    assert_string_equal(nccl_version_text(20908, buf), "2.9.8");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_versions),
    cmocka_unit_test(test_version_text),
};
UNIT_MAIN(tests)
