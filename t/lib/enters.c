/* enters.c - a SPANK plugin that, like pyxis, moves each task into a container in its task_init: a user and a mount
 * namespace of its own, in which the folder that plugstack.conf gives it is empty. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(enters, 1)

static int write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    int rc = fputs(text, f) < 0 ? -1 : 0;
    return fclose(f) == 0 ? rc : -1;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
    char uid[64], gid[64];
    if (ac != 1 || spank_remote(sp) != 1)
        return 0;
    snprintf(uid, sizeof uid, "%u %u 1\n", getuid(), getuid());
    snprintf(gid, sizeof gid, "%u %u 1\n", getgid(), getgid());
    prctl(PR_SET_DUMPABLE, 1); /* else its own files in /proc are root's */
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write_file("/proc/self/setgroups", "deny") < 0 ||
        write_file("/proc/self/uid_map", uid) < 0 || write_file("/proc/self/gid_map", gid) < 0 ||
        mount("none", av[0], "tmpfs", 0, NULL) < 0) {
        slurm_error("enters: no container can be made here: %m");
        return -1;
    }
    return 0;
}
