/* folder.h - folders of checkpoints: look who is there, make things durable, remove. */
#ifndef DDP_RUNTIME_CKPT_FOLDER_H
#define DDP_RUNTIME_CKPT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define FOLDER_PATH_MAX 4096

/* "DIR/NAME" into ret; -1 where it is too long. */
int folder_path(char ret[FOLDER_PATH_MAX], const char *dir, const char *name, ddp_error_t *errp);

/* "step-00000100" */
void folder_name(uint64_t step, char ret[32]);

/* The step of "step-00000100"; false: `name` is no such name. */
bool folder_step(const char *name, uint64_t *ret);

/* Calls f for every entry of dir but "." and "..", until it returns less than 0, which is then returned. Entries may go
 * away meanwhile. A folder that is not there has none. */
typedef int folder_f(void *ctx, const char *dir, const char *name, ddp_error_t *errp);
int folder_each(const char *dir, folder_f *f, void *ctx, ddp_error_t *errp);

/* The steps that have a folder in dir, rising, with a manifest or without; malloc, the caller frees (NULL: none). */
int folder_steps(const char *dir, uint64_t **ret, size_t *ret_n, ddp_error_t *errp);

bool folder_has_manifest(const char *path); /* true also where it cannot be told */

int folder_sync(const char *path, ddp_error_t *errp);

/* Removes a checkpoint's folder, its manifest first and durably: what is left of it at any moment is no checkpoint. One
 * that is not there is removed. */
int folder_remove(const char *path, ddp_error_t *errp);

#endif
