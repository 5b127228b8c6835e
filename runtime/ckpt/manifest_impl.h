/* manifest_impl.h - the members of manifest.json that hold struct manifest_state, as a table; private to
 * runtime/ckpt. */
#ifndef DDP_RUNTIME_CKPT_MANIFEST_IMPL_H
#define DDP_RUNTIME_CKPT_MANIFEST_IMPL_H

#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/members.h"

enum field_type { FIELD_U64, FIELD_INT, FIELD_TEXT, FIELD_REAL };

/* "data", "seed": the member "seed" of the object "data". */
struct manifest_field {
    const char *object, *name; /* object NULL: a member of the manifest itself */
    enum field_type type;
    size_t offset, size;       /* in struct manifest_state */
    bool is_later;             /* older manifests lack its object: zero then */
};

#define MANIFEST_FIELDS 30
extern const struct manifest_field manifest_field[MANIFEST_FIELDS];

#define MANIFEST_FORMAT "slurm-ddp checkpoint"
/* How the text ends: its checksum, 16 digits, comes after all that the checksum covers. */
#define MANIFEST_LAST "\n  \"checksum\": "
#define MANIFEST_TAIL_BYTES ((size_t)(1 + 16 + 1 + 3)) /* "0123456789abcdef" in quotes, and "\n}\n" */

#endif
