/* commit.h - from written files to a checkpoint that exists, on rank 0.
 *
 *   SAVING     DIR/.saving-TOKEN-step-N/ holds files, some of them perhaps not whole
 *   WRITTEN    every rank has written and fsynced its part of it, and it is fsynced itself
 *   RENAMED    DIR/step-N/ is that folder, without a manifest; DIR is fsynced
 *   COMMITTED  DIR/step-N/manifest.json is there, whole, and DIR/step-N is fsynced
 *
 * Only COMMITTED is a checkpoint. Whenever the process dies, what is left is either a whole checkpoint, or one of the
 * states before, which nobody reads and the next job removes. At every moment after the first commit a good checkpoint
 * exists: an old one is removed only when a newer one is COMMITTED, its manifest first. Nothing outside DIR is written
 * or removed, whoever has put links into it (savedir.h). */
#ifndef DDP_RUNTIME_CKPT_COMMIT_H
#define DDP_RUNTIME_CKPT_COMMIT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/files.h"
#include "runtime/ckpt/savedir.h"

#define COMMIT_TOKEN_BYTES 8 /* 16 hexadecimal digits */

/* Opens "DIR/.saving-TOKEN-step-00000100" to write to; creates it (it may be there: every rank calls this). */
int commit_folder(const struct savedir *dir, const char *token, uint64_t step, struct savedir *ret, ddp_error_t *errp);

/* WRITTEN -> COMMITTED. A step-N that exists already (left without a manifest, broken, with fewer micro-steps of the
 * step after it, cut.h, or by another framework, which has changed something since) is replaced. If the file system can
 * exchange names (RENAME_EXCHANGE; NFS cannot), there is no moment without either, else one between two renames, after
 * which commit_recover finds the old one. DDP_E_USAGE: this job has not taken dir over (commit_clean), or another job
 * has taken it over since, even if that job has left; or step-N is a link or another user's, which stays. */
int commit(const struct savedir *dir, const char *token, uint64_t step, const char *manifest, size_t n,
           ddp_error_t *errp);

/* Removes the folder of a save of f that is given up: also what f has beside a checkpoint's usual files, for which
 * savedir_remove would leave all. */
int commit_abandon(const struct savedir *dir, const char *token, uint64_t step, const struct files *f,
                   ddp_error_t *errp);

/* Removes the checkpoints of `seen` but the `keep` newest up to step `newest`, which this job has just committed. Those
 * of `but` (NULL: none) stay, and count for none, as do links, other users' folders and what is not of `seen`: another
 * job has saved it. Returns 0; *errp then names what was left so (code 0: nothing). DDP_E_USAGE as commit. */
int commit_retain(const struct savedir *dir, const char *token, uint64_t newest, const struct folder_steps *seen,
                  int keep, const struct folder_steps *but, ddp_error_t *errp);

/* Both take off the list what they have done; -1: *errp says why for the first that is left on it. DDP_E_USAGE as
 * commit: all of it is left.
 * commit_forget removes these checkpoints, which the job found broken when it resumed, so that none of them counts as
 * one that is kept; otherwise it returns as commit_retain. commit_suspect renames those of them that are this user's to
 * suspect-step-N, so that no job resumes from them; it returns how many. */
int commit_forget(const struct savedir *dir, const char *token, struct folder_steps *steps, ddp_error_t *errp);
int commit_suspect(const struct savedir *dir, const char *token, struct folder_steps *steps, ddp_error_t *errp);

/* Takes dir over: DIR/.writer then holds this job's token. Another job that still runs there (on a node that the
 * scheduler has given up, perhaps) can neither commit nor remove any more. Then removes what killed jobs left:
 * .saving-* of other tokens, and step-* without a manifest; .saving-TOKEN-probe only when it is a minute old, since a
 * job that starts looks for it. 0: dir is this job's; *errp then names what could not be removed (code 0: nothing).
 * DDP_E_USAGE: this user has a checkpoint there beyond step `known`, the newest that this job knows of or has reached:
 * it is another job's, which has got further and keeps dir. */
int commit_clean(const struct savedir *dir, const char *token, uint64_t known, ddp_error_t *errp);

/* ".saving-TOKEN-probe", the file in dir by which ranks see that theirs is one folder (savedir_probe). Pure. */
#define COMMIT_PROBE_MAX 64
void commit_probe_name(const char *token, char ret[COMMIT_PROBE_MAX]);

/* -1 where dir is this job's no more: DDP_E_USAGE, EBUSY; or where that cannot be told. */
int commit_check(const struct savedir *dir, const char *token, ddp_error_t *errp);

/* Gives a checkpoint its name back that a job which died between two renames has left under another (see commit), if it
 * is own: call savedir_probe first. */
void commit_recover(const struct savedir *dir);

/* Called when the job leaves: removes DIR/.writer if it holds this job's token. */
void commit_leave(const struct savedir *dir, const char *token);

#endif
