/* keys.h - the keys of --ddp, of the site file and of the environment: one table, one parser. Pure.
 *
 * --ddp=ITEM[,ITEM...], ITEM is on, off, KEY=VALUE, or KEY alone for a key whose type is on|off. Any item but off turns
 * the step on; on and off together are refused; a key given twice counts as last given. No key's value holds a
 * comma. */
#ifndef DDP_SPANK_KEYS_KEYS_H
#define DDP_SPANK_KEYS_KEYS_H

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/base/knob.h"

#define KEYS_TEXT_MAX 4096   /* bytes of the whole argument */
#define SITE_SOURCE "site file" /* knob_value.source of a value from the site file */

#define DEFAULT_SOURCE "default" /* of one from the table */

/* What srun has set for itself and its tasks, as DDP_SET lists what a task got. */
#define SRUN_SET_VARIABLE "SLURM_DDP_SET"
/* What holds of keys_of_step but for the defaults, "guard=on,stop=USR1@60,port_min=20000,port_max=29999"; unset: srun
 * has not prepared the step. It begins with SLURM_, so that --export=NONE keeps it. */
#define SRUN_KEYS_VARIABLE "SLURM_DDP_KEYS"

enum ddp_key {
    KEY_BIND,
    KEY_GUARD,
    KEY_INTERFACE,
    KEY_MIN_NODES,
    KEY_MPI,
    KEY_OMP,
    KEY_PORT,
    KEY_REQUEUE,
    KEY_RESTARTS,
    KEY_RESV_PORTS,
    KEY_SPARES,
    KEY_STOP,
    KEY_STOP_CODE,
    KEY_TIMEOUT,
    KEY_TOPO,
    KEY_VERBOSE,
    KEY_USER_COUNT, /* keys below are for users and site, keys from here on for the site alone */
    KEY_CKPT_PRIVATE = KEY_USER_COUNT,
    KEY_ENABLED,
    KEY_GUARD_SILENT,
    KEY_NCCL_IB_HCA,
    KEY_NCCL_SOCKET_IFNAME,
    KEY_PORT_MIN,
    KEY_PORT_MAX,
    KEY_SRUN_PORT_MIN,
    KEY_SRUN_PORT_MAX,
    KEY_COUNT
};
enum { BIND_AUTO, BIND_NONE, BIND_PRINT }; /* choices of KEY_BIND */
enum { MPI_AUTO, MPI_PMIX, MPI_PMI2, MPI_NONE }; /* choices of KEY_MPI */

extern const struct knob ddp_keys[KEY_COUNT];

enum ddp_mode { DDP_MODE_UNSET, DDP_MODE_OFF, DDP_MODE_ON };

struct keys {
    enum ddp_mode mode;
    struct knob_value key[KEY_COUNT]; /* is_set: the user or the site gave a value */
};

/* Keys that all tasks of a step must have alike, or some would wait for guards, or other programs, that never come.
 * srun hands them on as they hold for it, and what a node's own site file says of them does not count
 * (task_options). Those of ports, the last ones, only where srun's host has a site file: then always. */
enum { KEYS_OF_STEP = 12, KEYS_OF_PORTS = 4 };
extern const enum ddp_key keys_of_step[KEYS_OF_STEP];

/* How a caller looks up a variable: its value, borrowed, or NULL. */
typedef const char *(*lookup_f)(const char *name, void *arg);

/* The argument of --ddp, or of SLURM_DDP; `source` says which in errors. *ret is overwritten. 0, or -1 with
 * DDP_E_USAGE: an unknown key (the error suggests the nearest and lists all), a value out of range, an empty or too
 * long text. */
int keys_parse(const char *text, const char *source, struct keys *ret, ddp_error_t *errp);

/* The same of SRUN_KEYS_VARIABLE, which has keys of the site alone, too, and says no mode. */
int keys_parse_srun(const char *text, struct keys *ret, ddp_error_t *errp);

/* The mode, and the keys of `text`, or where that is NULL of the variable SLURM_DDP. Else as keys_resolve. */
int keys_asked(const char *text, lookup_f lookup, void *arg, struct keys *ret, ddp_error_t *errp);

/* Decides all keys and the mode of one step. A key's value comes from `text` (the command line), else its DDP_*
 * variable, else `site`, else the table's default. The mode comes from `text`, else the variable SLURM_DDP, else it is
 * off; if it is off, keys are not read. `text` and `site` may be NULL. topo implies bind=print, which implies
 * verbose; restarts and stop imply guard. A stop that stop_key.h cannot read is an error here, as are spares and
 * min_nodes without restarts. */
int keys_resolve(const char *text, lookup_f lookup, void *arg, const struct keys *site, struct keys *ret,
                    ddp_error_t *errp);

bool keys_have_stop(const struct keys *o); /* and not stop=none */

/* The step's programs may go on without some of its nodes: spares or min_nodes are given. */
bool keys_are_elastic(const struct keys *o);

/* The variable (NAME=VALUE) is a key's but for a slip of the keyboard, so that nobody reads it: true, with a sentence
 * that says so. */
bool keys_have_slip(const char *variable, char *buf, size_t size);

/* The paragraph about --ddp in `srun --help`. Returns buf. */
const char *keys_help(char *buf, size_t size);

/* Sets the error for `name`, which is none of the first n keys of the table. The error names the source and the nearest
 * key, and ends with `cure`, which says where the keys are. Returns -1. */
int keys_unknown(const char *name, size_t n, int domain, const char *source, const char *cure, ddp_error_t *errp);

#endif
