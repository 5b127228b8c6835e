/* record.h - reads a record of a machine safely, also one that was made to do harm.
 *
 * hwloc's import trusts its input: its assertions fail if objects contradict one another (hwloc 2.9: a record without a
 * NUMA node). So a child process imports the record (apart.h). */
#ifndef DDP_TOPOLOGY_RECORD_H
#define DDP_TOPOLOGY_RECORD_H

#include "topology/apart.h"

enum { RECORD_SIZE_MAX = 16 << 20 }; /* bytes; a machine of 1000 cores has some 1 MiB */

/* How records are read here. */
struct record_reader {
    import_f *import;
    int major_max;    /* of the format that import reads: 2 for <topology version="2.0"> */
    uint64_t deadline; /* for reading the file and for import (clock.h) */
};

/* Reads the file, and calls `import` in a child process with *inv as the caller has filled it.
 * 0, or -1 with *inv untouched: DDP_E_DATA (no such file, not a record, too large, or one that makes hwloc crash),
 * DDP_E_SYSTEM (memory, processes), DDP_E_TIMEOUT. */
int record_load(const struct record_reader *reader, const char *path, struct inventory *inv, ddp_error_t *errp);

/* The same for a record in memory, where text[n] is a NUL; `what` names it in errors. */
int record_load_text(const struct record_reader *reader, const char *text, size_t n, const char *what,
                     struct inventory *inv, ddp_error_t *errp);

#endif
