/* inject.c - lets contrib/bench/faults make an unchanged program fail: loaded into it by LD_PRELOAD, it notes the
 * program's pid in $FAULT_DIR/RANK.pid, and on a real-time signal it exits, loops or takes memory without end, having
 * noted when in $FAULT_DIR/at. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_0 = 1, EXIT_3, LOOP, MEMORY, KINDS }; /* from SIGRTMIN on */

static char at[4096];

static void note(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 && write(fd, text, strlen(text)) > 0)
        close(fd);
}

static void note_time(void)
{
    char text[32] = "0000000000.000000000\n";
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (int i = 9; i >= 0; i--, t.tv_sec /= 10)
        text[i] = (char)('0' + t.tv_sec % 10);
    for (int i = 19; i > 10; i--, t.tv_nsec /= 10)
        text[i] = (char)('0' + t.tv_nsec % 10);
    note(at, text);
}

static void take_memory(void)
{
    const size_t n = 16 << 20;
    for (;;) {
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED)
            memset(p, 1, n);
    }
}

static void fail(int signo)
{
    int kind = signo - SIGRTMIN;
    note_time();
    if (kind == EXIT_0 || kind == EXIT_3)
        _exit(kind == EXIT_0 ? 0 : 3);
    if (kind == MEMORY)
        take_memory();
    for (;;)
        ;
}

__attribute__((constructor)) static void begin(void)
{
    const char *dir = getenv("FAULT_DIR"), *rank = getenv("RANK");
    struct sigaction a = {.sa_handler = fail};
    char path[4096], text[64];
    if (!dir || !rank)
        return;
    snprintf(at, sizeof at, "%s/at", dir);
    snprintf(path, sizeof path, "%s/%s.pid", dir, rank);
    snprintf(text, sizeof text, "%d\n", getpid());
    note(path, text); /* the first process of the task; not those that it starts */
    for (int kind = EXIT_0; kind < KINDS; kind++)
        sigaction(SIGRTMIN + kind, &a, NULL);
}
