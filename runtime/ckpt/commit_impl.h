/* commit_impl.h - between commit.c and commit_clean.c. */
#ifndef DDP_RUNTIME_CKPT_COMMIT_IMPL_H
#define DDP_RUNTIME_CKPT_COMMIT_IMPL_H

#include "runtime/ckpt/commit.h"

#define COMMIT_SAVING ".saving-"
#define COMMIT_OLD "-old" /* behind the name of a save: what it replaces, meanwhile */
#define COMMIT_WRITER ".writer"
#define COMMIT_SAVING_MAX 96 /* bytes of the name of a save */

/* COMMIT_WRITER then holds this token. */
int commit_take_over(const struct savedir *dir, const char *token, ddp_error_t *errp);

#endif
