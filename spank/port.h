/* port.h - which port the ranks meet at. Pure: every node computes the same number from the same facts, one of them a
 * random number that srun has drawn for the step: nobody else on rank 0's node is to know the port beforehand. */
#ifndef DDP_SPANK_PORT_H
#define DDP_SPANK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define PORT_STEPS_PER_JOB 16 /* so many steps in a row of one job never meet at the same port */

/* srun's number, decimal, less than 2^32. It begins with SLURM_, so that --export=NONE keeps it. */
#define PORT_DRAW_VARIABLE "SLURM_DDP_DRAW"

struct port_range {
    int min, max; /* both inclusive, min <= max */
};

struct port_facts {
    uint32_t job, step, restart; /* a heterogeneous job's is the leader's id */
    uint32_t draw;               /* srun's; 0: none, and everybody can compute the port */
};

/* The range is used in blocks of 16 (n = its size, rounded down to whole blocks):
 *
 *     min + (17 job + 16 draw + step + restart (n / 2 + 1)) mod n
 *
 * What srun drew chooses the block, so that steps of one job whose ids differ by less than 16 get different ports
 * whatever each of them drew. The place within the block is (job + step) mod 16: two jobs' steps meet with a chance of
 * 16/n where theirs is the same, else never. Without a draw n / 17 jobs in a row with up to 16 steps each get different
 * ports, and a restarted step does not come back to a port that may still be in TIME_WAIT. A range of fewer than 16
 * ports is one block: n steps in a row get different ports, and the draw changes nothing. */
int port_derive(const struct port_facts *f, struct port_range range);

/* The value of PORT_DRAW_VARIABLE. What is not such a number, as only the user himself can have set it, counts as 0. */
uint32_t port_draw_parse(const char *text);

/* The first port of SLURM_STEP_RESV_PORTS: "12000-12003", "12000,12005-12007". 0, or -1 with DDP_E_DATA. */
int port_first_reserved(const char *text, int *ret, ddp_error_t *errp);

/* Reads the text of /proc/sys/net/ipv4/ip_local_port_range, "32768 60999". False: it is something else. */
bool port_ephemeral_parse(const char *text, struct port_range *ret);

bool port_in(int port, struct port_range range);

#endif
