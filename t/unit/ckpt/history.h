/* history.h - a folder with two checkpoints and what a killed job left, for unit tests of commits: a checkpoint of step
 * 30 is saved there. The calls of runtime/ckpt go by way of history.c (-Wl,--wrap), which counts them: before any of
 * them the process dies or another job takes the folder over, or it fails. */
#ifndef DDP_T_UNIT_CKPT_HISTORY_H
#define DDP_T_UNIT_CKPT_HISTORY_H

#include <stdbool.h>

#include "runtime/ckpt/savedir.h"
#include "t/lib/folder.h"
#include "t/unit/unit.h"

#define TOKEN "0123456789abcdef"
#define OTHER "aaaaaaaaaaaaaaaa"
enum { HISTORY_DIED = 99 }; /* the exit code */

extern struct history {
    char dir[96];           /* below test_folder */
    bool has_same;          /* a checkpoint of step 30 is there already */
    bool is_uncommitted;    /* the last save, by what commit has returned */
    int n_gaps;             /* how often neither of the two of step 30 had its name */
    char calls[16384];      /* since history_make, a line each */
    int left;               /* calls until the one that does not happen; -1: all do */
    int fails_with;         /* 0: the process dies instead */
    int taken_at;           /* calls until take_over; -1: never */
    void (*take_over)(void);
    bool is_full;           /* the disk, of what a killed job left */
    bool cannot_exchange;   /* as on NFS */
    const char *unsynced;   /* a line of calls whose fsync fails; NULL: none */
    int sync_error;         /* so */
} history;

int history_open(void **state); /* the set-up of a group of tests, of which folder_remove is the end */

void history_make(void); /* anew */

/* In the folder. A checkpoint's files hold its name. */
void history_write(const char *folder, const char *name, const char *text);
void history_make_folder(const char *name);
void history_make_checkpoint(const char *name, bool is_whole);
bool history_has(const char *name);
bool history_is_checkpoint(const char *name); /* it is there, and then whole */

/* What commit.h has, there, by this job (TOKEN). */
int history_clean(const char *token, ddp_error_t *e);
int history_make_saving(uint64_t step, struct savedir *ret, ddp_error_t *e);
int history_commit(uint64_t step, const char *text, ddp_error_t *e);
int history_retain(uint64_t newest, int keep, ddp_error_t *e);
int history_forget(uint64_t step, ddp_error_t *e);
int history_abandon(ddp_error_t *e);
int history_leave(const char *token);

/* step-00000030 is written, committed, and the oldest one goes. */
int history_save(ddp_error_t *e);

/* What commit.h promises, whatever happened. Returns whether step 30 is there. */
bool history_check(void);
void history_check_next(bool had_new); /* the next job cleans up, and commits */

#endif
