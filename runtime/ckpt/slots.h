/* slots.h - two snapshots of a rank in memory that outlives its process, a memfd whose descriptor another process keeps
 * (base/handover.h). One is whole while the other is written:
 *
 *   EMPTY -> (its bytes are written) -> SEALED -> EMPTY
 *
 * SEALED is what has a head that is whole by its own checksum; it says which generation and step the bytes are of, and
 * their checksum. A process that dies at any moment leaves a slot EMPTY or SEALED. */
#ifndef DDP_RUNTIME_CKPT_SLOTS_H
#define DDP_RUNTIME_CKPT_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/manifest.h"

#define SLOTS_N 2

struct slots {
    char *map;    /* NULL: not open */
    int fd;
    size_t bytes; /* of a slot's data */
    uint64_t key;
};

/* What a sealed slot says of its bytes. */
struct slots_seal {
    uint64_t generation; /* of the program that wrote them */
    uint64_t folder;     /* a checksum of the path, from "/" on, of the folder that its checkpoints go to, on rank 0 */
    uint64_t sum;        /* of the bytes; the caller knows how it is made */
    struct manifest_state state;
};

/* All bytes of the memory of two slots of n_bytes. */
size_t slots_bytes(size_t n_bytes);

/* Makes empty slots, and touches their memory. key: of what the bytes mean; a program with another one does not read
 * them. -1: memory or descriptors are short. */
int slots_make(struct slots *ret, size_t n_bytes, uint64_t key, ddp_error_t *errp);

/* The slots in the memory of a process before, which slots_close gives back. False: it is of another size, or somebody
 * could make it smaller. Slots with another key are EMPTY. */
bool slots_adopt(struct slots *ret, int fd, size_t n_bytes, uint64_t key);

/* Unmaps them, and returns the descriptor, to the caller; -1 where they are not open. */
int slots_close(struct slots *s);

char *slots_data(const struct slots *s, int i); /* [bytes], aligned to a page */

void slots_clear(struct slots *s, int i); /* -> EMPTY */
void slots_seal(struct slots *s, int i, const struct slots_seal *seal);
bool slots_read(const struct slots *s, int i, struct slots_seal *ret); /* false: EMPTY */

/* A program to which the bytes mean something else has sealed one of them. */
bool slots_are_foreign(const struct slots *s);

#endif
