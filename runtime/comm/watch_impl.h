/* watch_impl.h - a watch's inside. Private to watch*.c. */
#ifndef DDP_RUNTIME_WATCH_IMPL_H
#define DDP_RUNTIME_WATCH_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/comm/watch_board.h"

enum { FRAME_MAGIC = 0x64647077, FRAME_CAUSE = 1, FRAME_LEFT, FRAME_WAITS };

/* What leaders tell each other. */
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
    struct pollfd *polls;
    int wake_fd, event_fd;
    struct {
        uint64_t deadline, since; /* of the present late wait; when its culprit was last another */
        int culprit;
    } late;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* over what follows: who was told what */
    bool told_cause;
    bool *told_left;     /* [local_size] */
    int32_t *told_waits; /* [local_size] */
};

/* An eventfd, as a flag. */
void watch_fd_signal(int fd);
void watch_fd_clear(int fd);

/* Passes on what is new on the board. Both threads call it: whoever acts on news has first passed it on. */
void watch_sync(watch_t *w);

/* board_raise, and everyone learns of it. */
void watch_raise_cause(watch_t *w, struct cause c, const char *text);

void *watch_thread(void *watch);

#endif
