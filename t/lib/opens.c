/* opens FILE COMMAND... - runs COMMAND and prints how often FILE was opened meanwhile, by anybody. Exits as COMMAND
 * does. */
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is there to read; equal events in a row would become one, hence also those of closing. */
static int count_opens(int fd)
{
    _Alignas(struct inotify_event) char buf[4096];
    int n = 0;
    ssize_t got;
    while ((got = read(fd, buf, sizeof buf)) > 0)
        for (char *p = buf; p < buf + got; p += sizeof(struct inotify_event) + ((struct inotify_event *)p)->len)
            n += (((struct inotify_event *)p)->mask & IN_OPEN) != 0;
    return n;
}

int main(int argc, char **argv)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), n = 0, status = 0;
    if (argc < 3 || fd < 0 || inotify_add_watch(fd, argv[1], IN_OPEN | IN_CLOSE) < 0)
        return perror("opens"), 125;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, 20);
        n += count_opens(fd);
    }
    printf("%d\n", n + count_opens(fd));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
