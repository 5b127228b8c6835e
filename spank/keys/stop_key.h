/* stop_key.h - the key stop: by which signal programs are asked to save and end, and when. Pure.
 *
 *   SIGNAL[@SECONDS]   USR1@120: at the job's end less 120 s, and whenever one rank is sent it
 *   none               not at all */
#ifndef DDP_SPANK_KEYS_STOP_KEY_H
#define DDP_SPANK_KEYS_STOP_KEY_H

#include "runtime/base/error.h"

#define STOP_BEFORE_MAX_S 1000000
#define STOP_END_VARIABLE "SLURM_DDP_END" /* from srun to its tasks: when the job ends, seconds since 1970 */

struct stop_key {
    int signal;   /* 0: none */
    int before_s; /* the job's end; 0: its time is not looked at */
};

/* 0, or -1 with DDP_E_USAGE: `source` and the text, and what is allowed. */
int stop_key_parse(const char *text, const char *source, struct stop_key *ret, ddp_error_t *errp);

/* "SIGUSR1" of a signal that stop_key_parse knows, else "a signal". */
const char *stop_key_name(int signal);

#endif
