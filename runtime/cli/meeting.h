/* meeting.h - where the ranks of one `ddp run` meet: a unix socket in a folder that only this user may enter. Strangers
 * could flood an abstract name, which all users see. */
#ifndef DDP_CLI_MEETING_H
#define DDP_CLI_MEETING_H

#include "runtime/base/error.h"

struct meeting {
    char dir[96];   /* empty: none was made */
    char addr[112]; /* for boot_server_create: unix:DIR/boot */
};

/* Makes the folder, mode 0700: in TMPDIR where the socket's path is short enough there, else in /tmp, which containers
 * see as a rule (XDG_RUNTIME_DIR they do not, and it goes with the last login). -1: in none of them. */
int meeting_open(struct meeting *m, ddp_error_t *errp);

/* Removes it and what is left of the socket; any process may, more than once. */
void meeting_close(const struct meeting *m);

#endif
