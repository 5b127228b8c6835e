/* port.h - the port of MASTER_PORT, and others of the step. Pure: every node computes the same ports from the same
 * facts. Some of them are secrets that srun draws for the step, so that no other user on rank 0's node knows a port
 * before somebody listens there, whichever of the others he has seen. */
#ifndef DDP_SPANK_NET_PORT_H
#define DDP_SPANK_NET_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/base/siphash.h"

#define PORT_STEPS_PER_JOB 16 /* this many successive steps of one job always have different ports */

/* The variable with srun's random number, decimal, less than 2^32. It begins with SLURM_, so that --export=NONE keeps
 * it. */
#define PORT_DRAW_VARIABLE "SLURM_DDP_DRAW"

#define PORT_LEAST_OF_GUARDS 32 /* a range of fewer has one port for them, and MASTER_PORT */

struct port_range {
    int min, max; /* both inclusive, min <= max */
};

struct port_facts {
    uint32_t job, step, restart; /* job: in a heterogeneous job, the leader's id */
    uint32_t draw;               /* srun's random number; 0: none, and anybody can compute the port */
    unsigned char key[SIPHASH_KEY_LEN]; /* of the token of the step's guards (guards.h); zeroes: there is none */
};

/* The range is used in blocks of 16 (n = its size, rounded down to whole blocks):
 *
 *     min + (17 job + 16 draw + step + restart (n / 2 + 1)) mod n
 *
 * The draw chooses the block, so steps of one job whose ids differ by less than 16 get different ports whatever their
 * draws are. The place within the block is (job + step) mod 16: steps of two jobs get the same port with a probability
 * of 16/n if their places are the same, else never. Without a draw n / 17 successive jobs with up to 16 steps each get
 * different ports, and a restarted step does not get the port of its last run, which may still be in TIME_WAIT. A range
 * of fewer than 32 ports is one block: n successive steps get different ports, and the draw changes nothing. */
int port_derive(const struct port_facts *f, struct port_range range);

/* What else listens: the guards of a node (its number), programs that are started again (0). */
#define PORT_OF_GUARDS "guards"
#define PORT_OF_RESTART "restart"

/* The n-th port for that: the one of MASTER_PORT with another draw, a hash of all this by the key. Two of them can be
 * the same. */
int port_derive_other(const struct port_facts *f, const char *what, int number, int n, struct port_range range);

/* Fills in draw and key from the values of PORT_DRAW_VARIABLE and GUARDS_VARIABLE; NULL: none. */
void port_take_secrets(struct port_facts *f, const char *draw, const char *token);

/* Reads the value of PORT_DRAW_VARIABLE. A text that is no such number counts as 0; only the user can have set one. */
uint32_t port_draw_parse(const char *text);

/* The first port of SLURM_STEP_RESV_PORTS: "12000-12003", "12000,12005-12007". 0, or -1 with DDP_E_DATA. */
int port_first_reserved(const char *text, int *ret, ddp_error_t *errp);

/* Reads the text of /proc/sys/net/ipv4/ip_local_port_range, "32768 60999". False: it is something else. */
bool port_ephemeral_parse(const char *text, struct port_range *ret);

bool port_in(int port, struct port_range range);

/* What the kernel gives to any program: the range, but for those of a list (num_list_has). */
struct port_ephemeral {
    struct port_range range;
    const char *reserved; /* of /proc/sys/net/ipv4/ip_local_reserved_ports */
};

bool port_is_ephemeral(int port, const struct port_ephemeral *e);

#endif
