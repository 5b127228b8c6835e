/* watch_impl.h - the data structures of watch.h. Private to watch*.c. */
#ifndef DDP_RUNTIME_WATCH_IMPL_H
#define DDP_RUNTIME_WATCH_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/notice.h"
#include "runtime/comm/watch_board.h"

enum { FRAME_MAGIC = 0x64647077, FRAME_CAUSE = 1, FRAME_LEFT, FRAME_WAITS };

/* What one leader sends to another. */
struct watch_frame {
    uint32_t magic, type;
    uint64_t cause;        /* FRAME_CAUSE */
    int32_t rank, suspect; /* FRAME_LEFT, FRAME_WAITS */
    char text[WATCH_TEXT_MAX + 1];
};

struct watch_link {
    struct watch_peer peer;
    bool is_open; /* read by the watch thread only; the descriptor is closed in watch_destroy */
    struct watch_frame in;
    size_t n_in;
};

struct watch {
    const struct world *world;
    struct watch_board *board;
    int rank, node, local, local_size;
    struct watch_link *local_links, *remote_links;
    size_t n_local, n_remote;
    struct notice notice; /* read by the watch thread only; sent to, and closed, under the lock */
    flight_t *flight;
    const char *timeout_name;
    struct pollfd *polls;
    int wake_fd, event_fd;
    struct {
        uint64_t deadline; /* of the wait that is late */
        uint64_t since;    /* when its culprit was last another rank */
        int culprit;
        uint64_t not_before; /* nobody is late earlier: this process stood still (watch_is_late) */
    } late;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool is_idle; /* the thread polls, and then reads is_left before it touches anything else */
    atomic_bool is_left; /* and ends: watch_destroy has not waited for it */
    pthread_mutex_t lock; /* over the fields below: what this rank has already sent on */
    bool told_cause;
    bool *told_left;     /* [local_size] */
    int32_t *told_waits; /* [local_size] */
};

/* An eventfd used as a flag. */
void watch_fd_signal(int fd);
void watch_fd_clear(int fd);

/* Sends on what is new on the board. The caller's thread and the watch thread both call this before they act on
 * anything new. */
void watch_sync(watch_t *w);

/* board_raise, and wakes and informs all ranks. */
void watch_raise_cause(watch_t *w, struct cause c, const char *text);

void *watch_thread(void *watch);

#endif
