/* meeting.h - the boot server's address in one `ddp run`: a unix socket in a folder that only this user may enter.
 * (Other users could flood an abstract socket, which all users can reach.) */
#ifndef DDP_RUNTIME_CLI_RUN_MEETING_H
#define DDP_RUNTIME_CLI_RUN_MEETING_H

#include "runtime/base/error.h"

struct meeting {
    char dir[96];   /* empty: none was made */
    char addr[112]; /* for boot_server_create: unix:DIR/boot */
};

/* Creates the folder, mode 0700: in TMPDIR if the socket's path is short enough there, else in /tmp, which containers
 * usually see (unlike XDG_RUNTIME_DIR, which is also removed at the user's last logout). -1: neither is possible. */
int meeting_open(struct meeting *m, ddp_error_t *errp);

/* Removes the socket and the folder; any process may call it, more than once. */
void meeting_close(const struct meeting *m);

#endif
