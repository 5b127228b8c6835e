/* notice.h - the guard's word (door.h) that the step ends, and of whose death. It ends what nothing else would: waits
 * for a rank that died where nobody watched it yet, or that is on a node which says nothing more. And the program's
 * word to its guard, which cannot see by itself for whom the ranks that fail have waited. */
#ifndef DDP_BASE_NOTICE_H
#define DDP_BASE_NOTICE_H

#include "runtime/base/error.h"
#include "runtime/base/frame.h"

#define NOTICE_TEXT_MAX 255 /* bytes */
#define NOTICE_THEN ", and then " /* in such a text: before what came of it */

/* The connection to the guard of this task; begins as {.fd = -1}. */
struct notice {
    int fd;
    struct frame in;
};

/* What has come. 1: a death: of *ret_rank, told by `text`; 0: none yet; -1: the guard has gone. */
int notice_next(struct notice *n, int *ret_rank, char text[NOTICE_TEXT_MAX + 1]);

/* Tells the guard whom this program has found to be the cause, in case that it ends by it. */
void notice_tell(const struct notice *n, int rank, const char *text);

/* From the boot to the watch: until another call takes it away, waits of io.h in this thread end by the notice, too.
 * The descriptor goes over; notice_take: from here to the caller, -1: there is none. */
void notice_heed(int fd);
int notice_take(void);
int notice_fd(void); /* of this thread, to poll; -1: none */
void notice_tell_early(int rank, const char *text); /* notice_tell, until then */

/* It was readable. -1: *errp says whose death; 0: there was none. */
int notice_check(ddp_error_t *errp);

#endif
