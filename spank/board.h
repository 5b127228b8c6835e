/* board.h - where the ranks of one node meet before their programs start: memory that slurmstepd maps before it forks
 * the tasks, and that each of them therefore shares. Nothing of it has a name, a file or a descriptor; a task's view of
 * it ends with exec, the memory with the last of them. slurmstepd never reads it: the tasks, which write to it, are the
 * user's.
 *
 * Slurm forks all tasks of a node and only then lets them go, each into task_init without waiting for another
 * (slurmstepd's _fork_all_tasks and exec_task, 22.05 to 26.05), so that a task may wait there for its siblings.
 *
 * In order: each rank posts once; board_wait; then all read what all have posted. One rank loads the machine's
 * inventory, whichever comes first, and all read that one. No wait is without an end: a sibling may have died. */
#ifndef DDP_SPANK_BOARD_H
#define DDP_SPANK_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "topology/placement.h"

struct board;

/* In slurmstepd: a board for n_ranks (1 to PLACEMENT_RANKS_MAX) tasks. As cheap as an mmap: pages come when they are
 * written to. NULL: not possible. */
struct board *board_create(int n_ranks);

/* Ends this process's view. NULL is allowed. */
void board_destroy(struct board *b);

int board_size(const struct board *b);

/* This rank's facts, once. */
void board_post(struct board *b, int local_rank, const struct placement_rank *facts);

/* Waits until all have posted. *ret (borrowed, [board_size]) is then what all posted. 0, or -1 with DDP_E_TIMEOUT at
 * the deadline (clock.h, as all deadlines here): how many have not come. */
int board_wait(struct board *b, uint64_t deadline, const struct placement_rank **ret, ddp_error_t *errp);

/* Fills *ret by the deadline, as inventory_load does. */
typedef int board_load_f(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp);

/* The node's inventory: the first rank to ask calls load, all get what it found (borrowed), or its error. NULL also
 * where it has not come by the deadline. */
const struct inventory *board_inventory(struct board *b, board_load_f *load, void *arg, uint64_t deadline,
                                        ddp_error_t *errp);

/* Local rank 0 has shown the user where the node's ranks run; the others wait for that. False: not by the deadline. */
void board_shown(struct board *b);
bool board_wait_shown(struct board *b, uint64_t deadline);

/* This rank reads nothing more of the board: the last one to leave gives the memory back. */
void board_leave(struct board *b);

#endif
