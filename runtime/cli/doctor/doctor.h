/* doctor.h - the parts of `ddp doctor`: what this machine says of its Slurm (read.c), and what is wrong with it
 * (judge.c, pure). */
#ifndef DDP_RUNTIME_CLI_DOCTOR_DOCTOR_H
#define DDP_RUNTIME_CLI_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/cli/verdict/verdict.h"

#define DOCTOR_LINES_MAX 64
#define DOCTOR_PATH_MAX 512

/* A plugin that plugstack.conf names, in Slurm's order. */
struct doctor_line {
    char file[DOCTOR_PATH_MAX], plugin[DOCTOR_PATH_MAX], args[DOCTOR_PATH_MAX];
    int number;
    bool is_required;
};

/* All texts are malloc'd, or NULL with the reason in their error. */
struct doctor {
    char *config;           /* of `scontrol show config` */
    char *mpi;              /* of `srun --mpi=list` */
    char *help;             /* of `srun --help` */
    char *version;          /* of `srun --version`: this machine's release, where config has the controller's */
    char config_error[256], mpi_error[256], help_error[256];
    char *cgroup;           /* cgroup.conf; NULL: there is none here that this user may read */
    char cgroup_conf[DOCTOR_PATH_MAX];

    char plugstack[DOCTOR_PATH_MAX], plugstack_error[256];
    bool is_plugstack_known; /* it was found, or is where an option of slurm.conf says */
    struct doctor_line line[DOCTOR_LINES_MAX]; /* [n_lines] */
    size_t n_lines;
    char plugin_error[512]; /* of the ddp.so that a line names; "": it is there */
    unsigned plugin_slurm;  /* the Slurm that it was built for, 0xMMmmpp; 0: it is no SPANK plugin */

    bool has_site;          /* the line has site=/PATH */
    char site_missing[256]; /* that file, where it is not there, and the defaults hold; "": it is */
    bool is_enabled, wants_resv_ports;
    int port;               /* MASTER_PORT of all steps; 0: none is set */
    int port_min, port_max; /* of MASTER_PORT and guards */
    char site_fault[256];   /* what that file names and this machine lacks; "": nothing */
    int srun_port_min, srun_port_max; /* 0: any */
    char site_error[256];   /* why the plugin refuses that file; "": it does not */
    int own_port_min, own_port_max;   /* that the kernel hands out by itself; 0: not known */
    char *reserved_ports;             /* but for these, "8080,20000-29999"; NULL: not known */
};

/* Asks, each with a deadline. Runs scontrol and srun, as this user; starts no job. */
void doctor_read(struct doctor *ret);
void doctor_free(struct doctor *d);

/* The value of a key in what `scontrol show config` prints, or in a file of one key a line, without its unit; "" where
 * it is "(null)" or "(none)". NULL: there is no such key. Returns buf. Pure. */
const char *doctor_get(const char *config, const char *key, char *buf, size_t size);

/* The next word of *at, at most size - 1 bytes, which *at then is behind; "": there is none. Returns ret. Pure. */
const char *doctor_word(const char **at, char *ret, size_t size);

/* Adds the plugins that a text in plugstack.conf's format names, and hands each file pattern that it includes to
 * `include` (NULL: to nobody). Pure but for that. */
void doctor_parse(struct doctor *d, const char *file, const char *text,
                  void (*include)(struct doctor *d, const char *pattern));

/* Where this machine's slurm.conf is, which has Slurm's other files beside it. */
struct doctor_places {
    const char *printed; /* the controller's slurm.conf, as `scontrol show config` prints it */
    const char *conf;    /* SLURM_CONF; NULL: not set */
    const char *cache;   /* the folder of a node without files of its own, /run/slurm/conf */
};

/* The plugstack.conf, or cgroup.conf, that Slurm's programs read here. `printed` is the controller's path: one that is
 * not beside its slurm.conf was set (PlugStackConfig) for all machines, any other is beside each machine's own. Looked
 * for beside SLURM_CONF, unless it was set; then at the printed path; then in the cache. False, and the printed path:
 * it is in none of them. */
bool doctor_find_conf(const char *printed, const struct doctor_places *p, char *ret, size_t size);

/* The file of a plugin: a name without a slash in front is looked for in the folders of PluginDir, with colons between
 * them. False, and the name: it is in none. */
bool doctor_find_plugin(const char *name, const char *dirs, char *ret, size_t size);

/* The first line of ddp.so behind that one (NULL: of all), or NULL. */
const struct doctor_line *doctor_own_line(const struct doctor *d, const struct doctor_line *behind);

void doctor_judge(const struct doctor *d, struct verdicts *ret);

#endif
