/* board.h - memory in which the ranks of one node exchange facts before their programs start. slurmstepd maps it before
 * it forks the tasks, so all tasks share it. It has no name, no file and no descriptor; a task's mapping ends at exec,
 * and the memory is freed with the last mapping. slurmstepd never reads it, because the tasks, which write to it,
 * belong to the user.
 *
 * Slurm forks all tasks of a node first and starts them then; each runs task_init without waiting for another
 * (slurmstepd's _fork_all_tasks and exec_task, 22.05 to 26.05). So a task may wait in task_init for the node's other
 * tasks.
 *
 * The order of calls: each rank posts once; board_wait; then each rank reads what all have posted. The first rank that
 * asks for the machine's inventory, or for the network interface, finds it, and all ranks use that one. Every wait has
 * a deadline, since another rank may have died. */
#ifndef DDP_SPANK_BOARD_H
#define DDP_SPANK_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/nccl.h"
#include "topology/placement.h"

struct board;

/* In slurmstepd: creates a board for n_ranks (1 to PLACEMENT_RANKS_MAX) tasks. It costs one mmap: pages are allocated
 * when they are written to. NULL: not possible. */
struct board *board_create(int n_ranks);

/* Unmaps the board from this process. NULL is allowed. */
void board_destroy(struct board *b);

int board_size(const struct board *b);

/* Posts this rank's facts; each rank calls it once. */
void board_post(struct board *b, int local_rank, const struct placement_rank *facts);

/* Waits until all ranks have posted. *ret (borrowed, [board_size]) is then what they have posted. 0, or -1 with
 * DDP_E_TIMEOUT at the deadline (clock.h, as all deadlines here); the error says how many have not posted. */
int board_wait(struct board *b, uint64_t deadline, const struct placement_rank **ret, ddp_error_t *errp);

/* Fills *ret by the deadline, as inventory_load does. */
typedef int board_load_f(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp);

/* The node's inventory. The first rank that asks calls load; all ranks get the result (borrowed), or NULL with the
 * error. Also NULL if the result is not there by the deadline. */
const struct inventory *board_inventory(struct board *b, board_load_f *load, void *arg, uint64_t deadline,
                                        ddp_error_t *errp);

/* Finds the name of the interface towards the step's other nodes by the deadline. 0 or -1, as nccl_step_interface. */
typedef int board_find_f(void *arg, uint64_t deadline, char ret[NCCL_INTERFACE_TEXT], ddp_error_t *errp);

/* The node's interface towards the step's others: the first rank that asks calls find; all ranks get the result, as of
 * board_inventory. A look-up takes 0.4 ms of a core, which 8 ranks on a node took from each other. */
const char *board_interface(struct board *b, board_find_f *find, void *arg, uint64_t deadline, ddp_error_t *errp);

/* Local rank 0 calls board_shown once it has shown the user where the node's ranks run; the other ranks wait for that.
 * False: not by the deadline. */
void board_shown(struct board *b);
bool board_wait_shown(struct board *b, uint64_t deadline);

/* This rank does not use the board any more; the last rank to leave gives the memory back. */
void board_leave(struct board *b);

#endif
