/* commit_clean.c - what is no longer wanted: old checkpoints, broken ones, and what killed jobs left. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/ckpt/commit_impl.h"

#define PROBE "-probe" /* behind .saving-TOKEN */
#define PROBE_S 60     /* the ranks' look for it takes less */

struct removal {
    const struct savedir *dir;
    const char *token;
    ddp_error_t failed; /* the first that could not be removed */
    ddp_error_t left; /* the first that was left, because it is a link or another user's */
    int n_left;
};

static int remove_folder(struct removal *r, const char *name, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    int rc = savedir_remove(r->dir, name, &why);
    if (rc > 0 && r->n_left++ == 0)
        r->left = why;
    if (rc < 0 && errp)
        *errp = why;
    return rc < 0 ? -1 : 0;
}

/* One that cannot be removed leaves the others none the better. */
static void remove_or_note(struct removal *r, const char *name)
{
    ddp_error_t why = {0};
    if (remove_folder(r, name, &why) < 0 && !r->failed.code)
        r->failed = why;
}

static void leave(struct removal *r, const char *name)
{
    if (r->n_left++ == 0)
        error_set(&r->left, DDP_E_USAGE, EEXIST, "%s/%s was saved by another job since this one looked, and stays: "
                  "give each a folder", FOLDER_BRIEF(r->dir->path), name);
}

static int retain_in(struct removal *r, uint64_t newest, const struct folder_steps *seen, int keep,
                     const struct folder_steps *but, ddp_error_t *errp)
{
    struct folder_steps s = {0};
    int n_kept = 0, rc = savedir_each(r->dir, folder_note_step, &s, errp);
    folder_sort_steps(&s);
    for (size_t i = s.n; rc == 0 && i-- > 0;) {
        char name[32];
        if (but && folder_has_step(but, s.step[i]))
            continue;
        folder_name(s.step[i], name);
        bool is_others = s.step[i] != newest && !folder_has_step(seen, s.step[i]);
        if (is_others && savedir_has_own(r->dir, name))
            leave(r, name);
        else if (is_others) /* nor a checkpoint */
            continue;
        else if (s.step[i] <= newest && n_kept < keep)
            n_kept += savedir_has_own(r->dir, name); /* what another has put there counts for none */
        else
            remove_or_note(r, name);
    }
    free(s.step);
    return rc;
}

void commit_probe_name(const char *token, char ret[COMMIT_PROBE_MAX])
{
    snprintf(ret, COMMIT_PROBE_MAX, COMMIT_SAVING "%.40s" PROBE, token);
}

static bool is_probe(const char *name)
{
    size_t n = strlen(name);
    return begins(name, COMMIT_SAVING) && n > strlen(PROBE) && !strcmp(name + n - strlen(PROBE), PROBE);
}

/* By the clock that has just stamped .writer, the folder's: no two nodes' clocks have to agree. */
static bool is_young_probe(const struct savedir *dir, const char *name)
{
    struct stat probe, writer;
    return is_probe(name) && fstatat(dir->fd, name, &probe, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(dir->fd, COMMIT_WRITER, &writer, AT_SYMLINK_NOFOLLOW) == 0 &&
           writer.st_mtime - probe.st_mtime < PROBE_S;
}

/* What is left of others' saves, and checkpoints that are none. */
static bool is_litter(const struct removal *r, const char *name)
{
    char own[COMMIT_SAVING_MAX];
    uint64_t step;
    snprintf(own, sizeof own, COMMIT_SAVING "%.40s-", r->token);
    if (begins(name, COMMIT_SAVING))
        return !begins(name, own) && !is_young_probe(r->dir, name);
    return folder_step(name, &step) && !folder_has_manifest(r->dir->fd, name);
}

static int remove_litter(void *arg, const char *path, const char *name, ddp_error_t *errp)
{
    struct removal *r = arg;
    ddp_error_t why;
    (void)path, (void)errp;
    if (begins(name, COMMIT_WRITER "-")) {
        if (savedir_remove_file(r->dir, name, &why) < 0 && !r->failed.code)
            r->failed = why;
    } else if (is_litter(r, name) && !(is_probe(name) && savedir_remove_file(r->dir, name, NULL) == 0)) {
        remove_or_note(r, name);
    }
    return 0;
}

/* Says what was left. */
static int end_removal(const struct removal *r, int rc, ddp_error_t *errp)
{
    if (rc == 0 && errp && r->n_left < 2)
        *errp = r->left;
    else if (rc == 0)
        error_set(errp, r->left.domain, r->left.code, "%.230s (and %d more)", r->left.text, r->n_left - 1);
    return rc;
}

int commit_retain(const struct savedir *dir, const char *token, uint64_t newest, const struct folder_steps *seen,
                  int keep, const struct folder_steps *but, ddp_error_t *errp)
{
    struct removal r = {.dir = dir};
    if (commit_check(dir, token, errp) < 0)
        return -1;
    if (retain_in(&r, newest, seen, keep, but, errp) < 0)
        return -1;
    if (r.failed.code && errp)
        *errp = r.failed;
    return r.failed.code ? -1 : end_removal(&r, 0, errp);
}

/* It stays on the list, of which so many have been kept; the first of them says why. */
static void leave_on_list(struct folder_steps *s, size_t *n_left, uint64_t step, const ddp_error_t *why,
                          ddp_error_t *errp)
{
    if (*n_left == 0 && errp)
        *errp = *why;
    s->step[(*n_left)++] = step;
}

int commit_forget(const struct savedir *dir, const char *token, struct folder_steps *s, ddp_error_t *errp)
{
    struct removal r = {.dir = dir};
    size_t n_left = 0;
    if (commit_check(dir, token, errp) < 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        char name[32];
        ddp_error_t why;
        folder_name(s->step[i], name);
        if (remove_folder(&r, name, &why) < 0)
            leave_on_list(s, &n_left, s->step[i], &why, errp);
    }
    s->n = n_left;
    return end_removal(&r, n_left ? -1 : 0, errp);
}

/* Returns how many: 0 where it is gone, or not this user's. */
static int set_aside(const struct savedir *dir, uint64_t step, ddp_error_t *errp)
{
    char name[32], suspect[48];
    folder_name(step, name);
    snprintf(suspect, sizeof suspect, "suspect-%s", name);
    int has = savedir_look(dir, name, errp);
    if (has == 0)
        return 0;
    if (has < 0 || savedir_remove(dir, suspect, errp) != 0 || savedir_rename(dir, name, suspect, errp) < 0)
        return error_prefix(errp, "cannot set %s aside (rename it, or what is in its way)", name);
    return 1;
}

int commit_suspect(const struct savedir *dir, const char *token, struct folder_steps *s, ddp_error_t *errp)
{
    size_t n_left = 0;
    int n = 0;
    if (commit_check(dir, token, errp) < 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        ddp_error_t why;
        int rc = set_aside(dir, s->step[i], &why);
        if (rc < 0)
            leave_on_list(s, &n_left, s->step[i], &why, errp);
        else
            n += rc;
    }
    s->n = n_left;
    return n_left || savedir_sync(dir, errp) < 0 ? -1 : n;
}

/* Nobody else has got further than this job knows of. */
static int check_known(const struct savedir *dir, uint64_t known, ddp_error_t *errp)
{
    struct folder_steps s = {0};
    int rc = savedir_each(dir, folder_note_step, &s, errp);
    for (size_t i = 0; rc == 0 && i < s.n; i++) {
        char name[32];
        folder_name(s.step[i], name);
        if (s.step[i] > known && savedir_has_own(dir, name))
            rc = error_set(errp, DDP_E_USAGE, EBUSY, "%s has %s, which another job has saved since this one "
                           "looked, and which is further: end one of them, or give each a folder",
                           FOLDER_BRIEF(dir->path), name);
    }
    free(s.step);
    return rc;
}

int commit_clean(const struct savedir *dir, const char *token, uint64_t known, ddp_error_t *errp)
{
    struct removal r = {.dir = dir, .token = token};
    ddp_error_t why;
    if (check_known(dir, known, errp) < 0 || commit_take_over(dir, token, errp) < 0)
        return -1;
    if (savedir_each(dir, remove_litter, &r, &why) < 0)
        r.failed = why;
    end_removal(&r, 0, errp);
    if (r.failed.code && errp)
        *errp = r.failed;
    return 0;
}

/* From ".saving-TOKEN-step-00000100-old", whole, to step-00000100, where that is missing. */
static int put_back(void *arg, const char *path, const char *name, ddp_error_t *errp)
{
    const struct removal *r = arg;
    const char *step = strstr(name, "-step-"), *end = name + strlen(name) - strlen(COMMIT_OLD);
    char done[32];
    uint64_t number;
    (void)path, (void)errp;
    if (!begins(name, COMMIT_SAVING) || !step || end <= step || strcmp(end, COMMIT_OLD) != 0)
        return 0;
    snprintf(done, sizeof done, "%.*s", (int)(end - step - 1), step + 1);
    if (folder_step(done, &number) && savedir_has_own(r->dir, name) &&
        faccessat(r->dir->fd, done, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        savedir_rename(r->dir, name, done, NULL);
    return 0;
}

void commit_recover(const struct savedir *dir)
{
    struct removal r = {.dir = dir};
    savedir_each(dir, put_back, &r, NULL);
}
