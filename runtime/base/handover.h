/* handover.h - memory that outlives a program: its guard keeps it (door.h, DOOR_KEEP) and hands it to the program of
 * the same rank in the next generation. It is gone with the guard. */
#ifndef DDP_BASE_HANDOVER_H
#define DDP_BASE_HANDOVER_H

#include <stdbool.h>

enum handover_kind { HANDOVER_OWN, HANDOVER_GUEST, HANDOVER_KINDS }; /* of the rank, and of another one */

struct handover {
    bool is_there;  /* a guard keeps memory; else nothing below counts */
    int guard;      /* the connection to it */
    int memory[HANDOVER_KINDS]; /* what the program before had kept; -1: nothing */
    int generation; /* of programs, from 0 */
};

/* From the boot to whoever keeps something, in one thread: the descriptors go over. handover_take: {0} where there
 * is none, or it was taken. */
void handover_put(const struct handover *h);
struct handover handover_take(void);

/* Has the guard keep this descriptor's memory in place of what it has kept of that kind; -1: nothing. Borrowed. */
void handover_keep(const struct handover *h, enum handover_kind kind, int memory);

/* Has nothing of that kind kept, and closes what was handed over of it. */
void handover_forget(struct handover *h, enum handover_kind kind);

void handover_close(struct handover *h); /* a zeroed struct is allowed */

#endif
