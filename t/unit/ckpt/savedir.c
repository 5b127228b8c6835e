/* A folder of checkpoints into which others, or the user himself, have put links and folders: none of them leads
 * writing or removing elsewhere. Another owner's: as root only. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ckpt/savedir.h"
#include "t/lib/folder.h"

#define STRANGER 1 /* a uid, */
#define ANOTHER 2  /* and one more */

static struct savedir dir;

static const char *at(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_folder, name);
    return p;
}

static void make_file(const char *name)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static void give_to(const char *name, uid_t uid)
{
    assert_int_equal(lchown(at(name), uid, uid), 0);
}

static void give_away(const char *name)
{
    give_to(name, STRANGER);
}

/* ck, the folder of checkpoints; out, something else of the user's. */
static int set_up(void **state)
{
    assert_int_equal(folder_make(state), 0);
    make_folder("ck");
    make_folder("out");
    make_file("out/manifest.json");
    assert_int_equal(savedir_open(&dir, at("ck"), NULL, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    savedir_close(&dir);
    return folder_remove(state);
}

static void removes_what_is_its_own(void **state)
{
    struct stat st;
    ddp_error_t e;
    (void)state;
    make_folder("ck/step-1");
    make_file("ck/step-1/a");
    assert_int_equal(symlink(at("out/manifest.json"), at("ck/step-1/b")), 0);
    assert_int_equal(symlink(at("out"), at("ck/step-1/c")), 0);
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 0);
    assert_int_equal(stat(at("ck/step-1"), &st), -1);
    assert_int_equal(stat(at("out/manifest.json"), &st), 0);
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 0); /* it is not there */
}

static void links_are_left_and_named(void **state)
{
    struct savedir in;
    struct stat st;
    ddp_error_t e;
    (void)state;
    assert_int_equal(symlink(at("out"), at("ck/step-1")), 0);
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 1);
    assert_error_has(e, "ck/step-1 is a link");
    assert_int_equal(savedir_enter(&in, &dir, "step-1", &e), -1);
    assert_error_has(e, "ck/step-1 is a link");
    assert_int_equal(savedir_make(&in, &dir, "step-1", &e), -1);
    assert_error_has(e, "ck/step-1 is a link");
    assert_int_equal(lstat(at("ck/step-1"), &st), 0);
    assert_int_equal(stat(at("out/manifest.json"), &st), 0);
}

static void files_are_written_under_one_name_only(void **state)
{
    ddp_error_t e;
    (void)state;
    assert_int_equal(symlink(at("out/manifest.json"), at("ck/a")), 0);
    assert_int_equal(savedir_open_file(&dir, "a", &e), -1);
    assert_error_has(e, "ck/a is a link");
    assert_int_equal(link(at("out/manifest.json"), at("ck/b")), 0);
    assert_int_equal(savedir_open_file(&dir, "b", &e), -1);
    assert_error_has(e, "one name");
    assert_int_equal(mkfifo(at("ck/c"), 0600), 0);
    assert_int_equal(savedir_open_file(&dir, "c", &e), -1); /* and nobody waits for a reader */
    assert_error_has(e, "cannot write");
    int fd = savedir_open_file(&dir, "d", &e);
    assert_true(fd >= 0);
    close(fd);
}

static void others_things_are_left_and_named(void **state)
{
    struct savedir in;
    struct stat st;
    ddp_error_t e;
    (void)state;
    if (geteuid() != 0)
        return;
    make_folder("ck/step-1");
    make_file("ck/step-1/a");
    give_away("ck/step-1");
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 1);
    assert_error_has(e, "ck/step-1 belongs to another user (uid 1)");
    assert_int_equal(savedir_make(&in, &dir, "step-1", &e), -1);
    assert_error_has(e, "ck/step-1 belongs to another user (uid 1)");
    assert_int_equal(stat(at("ck/step-1/a"), &st), 0);
    make_file("ck/a");
    give_away("ck/a");
    assert_int_equal(savedir_open_file(&dir, "a", &e), -1);
    assert_error_has(e, "ck/a belongs to another user (uid 1)");

    /* Where what this user makes has another owner, as in an export that squashes users, that one is no stranger. */
    make_folder("ck/probe");
    give_away("ck/probe");
    assert_int_equal(savedir_see(&dir, "probe", &e), 0);
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 0);
}

static void the_way_there(void **state)
{
    struct savedir d;
    struct stat st, same;
    char text[256];
    ddp_error_t e;
    (void)state;
    assert_int_equal(symlink("ck", at("relative")), 0);
    assert_int_equal(symlink(at("relative"), at("absolute")), 0);
    assert_int_equal(symlink("../out", at("ck/up")), 0);
    static const char *const good[] = {"ck", "ck/", "./ck/../ck//.", "relative", "absolute/", "absolute/up/../ck"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (savedir_open(&d, at(good[i]), NULL, &e) < 0)
            fail_msg("%s: %s", good[i], e.text);
        savedir_close(&d);
    }
    assert_int_equal(symlink("out/new/a", at("new")), 0);
    assert_int_equal(savedir_create(&d, at("new/b"), &e), 0);
    assert_true(fstat(d.fd, &st) == 0 && stat(at("out/new/a/b"), &same) == 0 && st.st_ino == same.st_ino);
    savedir_close(&d);
    assert_int_equal(symlink("loop", at("loop")), 0);
    assert_int_equal(savedir_open(&d, at("loop"), NULL, &e), -1);
    assert_error_has(e, "links lead nowhere");
    assert_int_equal(savedir_open(&d, at("none/ck"), NULL, &e), -1);
    assert_error_has(e, "No such file or directory");
    assert_int_equal(savedir_open(&d, at("out/manifest.json"), NULL, &e), -1);
    assert_error_has(e, "Not a directory");
    if (geteuid() == 0) {
        give_away("relative");
        assert_int_equal(savedir_open(&d, at("absolute"), NULL, &e), -1);
        assert_error_has(e, "relative is a link of another user's (uid 1)");
        assert_int_equal(savedir_create(&d, at("relative/x"), &e), -1);
        assert_int_equal(stat(at("ck/x"), &st), -1);
        make_folder("theirs");
        give_away("theirs");
        assert_int_equal(symlink(at("ck"), at("theirs/ck")), 0);
        give_away("theirs/ck");
        assert_int_equal(savedir_open(&d, at("theirs/ck"), NULL, &e), -1);
        assert_error_has(e, "a link of another user's (uid 1) leads to what is not his");
        make_folder("theirs/own");
        give_away("theirs/own");
        assert_int_equal(symlink("own", at("theirs/link")), 0);
        give_away("theirs/link");
        assert_int_equal(savedir_open(&d, at("theirs/link"), NULL, &e), 0); /* it is for him to say where that lies */
        savedir_close(&d);
        assert_int_equal(savedir_create(&d, at("theirs/ck/new"), &e), -1);
        assert_int_equal(stat(at("ck/new"), &st), -1);
    }
    assert_false(savedir_is_shared(&dir, false, text, sizeof text));
}

/* Each may say where his own things lie, and not by another's word. */
static void a_strangers_link_leads_to_no_other_strangers(void **state)
{
    static const uid_t uids[] = {STRANGER, ANOTHER};
    static const char *const names[] = {"one", "two"}, *const links[] = {"one/link", "two/link"};
    struct savedir d;
    ddp_error_t e;
    (void)state;
    if (geteuid() != 0)
        return;
    make_folder("two");
    make_folder("two/own");
    give_to("two/own", ANOTHER);
    assert_int_equal(symlink("own", at("two/link")), 0);
    make_folder("one");
    assert_int_equal(symlink("../two/link", at("one/link")), 0);
    for (int i = 0; i < 2; i++) {
        give_to(names[i], uids[i]);
        give_to(links[i], uids[i]);
    }
    assert_int_equal(savedir_open(&d, at("two/link"), NULL, &e), 0);
    savedir_close(&d);
    assert_int_equal(savedir_open(&d, at("one/link"), NULL, &e), -1);
    assert_error_has(e, "link is a link of another user's (uid 2)");
    give_to("one", ANOTHER);
    give_to("one/link", ANOTHER);
    assert_int_equal(savedir_open(&d, at("one/link"), NULL, &e), 0); /* all of it is one stranger's */
    savedir_close(&d);
}

static void another_folder_in_its_place_is_none(void **state)
{
    struct savedir d;
    ddp_error_t e;
    (void)state;
    assert_int_equal(savedir_open(&d, at("ck"), &dir.known, &e), 0);
    savedir_close(&d);
    assert_int_equal(rename(at("ck"), at("was")) | rename(at("out"), at("ck")), 0);
    assert_int_equal(savedir_open(&d, at("ck"), &dir.known, &e), -1);
    assert_error_has(e, "is another folder than when this job began");
}

static void what_was_moved_here_stays(void **state)
{
    struct stat st;
    ddp_error_t e;
    (void)state;
    make_folder("ck/.saving-x");
    make_file("ck/.saving-x/thesis.tex");
    make_folder("ck/step-1");
    make_folder("ck/step-1/a.json");
    make_folder("ck/step-2");
    make_file("ck/step-2/model-00001-of-00001.safetensors");
    assert_int_equal(chmod(at("ck"), 0777), 0);
    assert_int_equal(savedir_remove(&dir, ".saving-x", &e), 1);
    assert_error_has(e, ".saving-x has thesis.tex in it");
    assert_int_equal(savedir_remove(&dir, "step-1", &e), 1);
    assert_int_equal(stat(at("ck/.saving-x/thesis.tex"), &st) | stat(at("ck/step-1/a.json"), &st), 0);
    assert_int_equal(savedir_remove(&dir, "step-2", &e), 0);
    assert_int_equal(chmod(at("ck"), 0755), 0);
    assert_int_equal(savedir_remove(&dir, ".saving-x", &e), 0); /* nobody else has put it there */
}

static void who_else_may_write_is_said(void **state)
{
    char text[256];
    (void)state;
    assert_int_equal(chmod(at("ck"), 0775), 0);
    assert_true(savedir_is_shared(&dir, false, text, sizeof text) && strstr(text, "its group (gid "));
    assert_int_equal(chmod(at("ck"), 01777), 0);
    assert_true(savedir_is_shared(&dir, false, text, sizeof text) && strstr(text, "everybody can write to it"));
    assert_int_equal(chmod(at("ck"), 0755), 0);
    assert_int_equal(chmod(test_folder, 0777), 0);
    savedir_close(&dir);
    assert_int_equal(savedir_open(&dir, at("ck"), NULL, NULL), 0);
    assert_int_equal(chmod(test_folder, 0700), 0);
    assert_false(savedir_is_shared(&dir, false, text, sizeof text));
    assert_true(savedir_is_shared(&dir, true, text, sizeof text) && strstr(text, "another folder in its place"));
    savedir_close(&dir);
    assert_int_equal(chmod(test_folder, 01777), 0); /* where nobody can rename what is not his */
    assert_int_equal(savedir_open(&dir, at("ck"), NULL, NULL), 0);
    assert_int_equal(chmod(test_folder, 0700), 0);
    assert_false(savedir_is_shared(&dir, true, text, sizeof text));
    if (geteuid() == 0) {
        give_away("ck");
        assert_true(savedir_is_shared(&dir, false, text, sizeof text) &&
                    strstr(text, "belongs to another user (uid 1)"));
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(removes_what_is_its_own),         CASE(links_are_left_and_named),
        CASE(files_are_written_under_one_name_only), CASE(others_things_are_left_and_named),
        CASE(a_strangers_link_leads_to_no_other_strangers),
        CASE(the_way_there),                   CASE(another_folder_in_its_place_is_none),
        CASE(what_was_moved_here_stays),       CASE(who_else_may_write_is_said),
    };
    umask(022);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
