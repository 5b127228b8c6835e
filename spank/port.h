/* port.h - which port the ranks meet at. Pure: every node computes the same number from the same facts. */
#ifndef DDP_SPANK_PORT_H
#define DDP_SPANK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define PORT_STEPS_PER_JOB 16 /* ports from one job id to the next */

struct port_range {
    int min, max; /* both inclusive, min <= max */
};

/* min + (job * PORT_STEPS_PER_JOB + step + restart * (n / 2 + 1)) mod n, n the size of the range. So n / 16 jobs in a
 * row with up to 16 steps each get different ports (a hash of the same would collide among 200 jobs), and a restarted
 * step does not come back to a port that may still be in TIME_WAIT. Heterogeneous jobs: `job` is the leader's id. */
int port_derive(uint32_t job, uint32_t step, uint32_t restart, struct port_range range);

/* The first port of SLURM_STEP_RESV_PORTS: "12000-12003", "12000,12005-12007". 0, or -1 with DDP_E_DATA. */
int port_first_reserved(const char *text, int *ret, ddp_error_t *errp);

/* Reads the text of /proc/sys/net/ipv4/ip_local_port_range, "32768 60999". False: it is something else. */
bool port_ephemeral_parse(const char *text, struct port_range *ret);

bool port_in(int port, struct port_range range);

#endif
