/* waits.c - asks ddp-waits, which stands beside this program where that was built, else in ddp.so's folder. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/plain.h"
#include "runtime/cli/ps/ps.h"
#include "runtime/sched/command.h"

#define WAITS_S 5.0

const char *ps_helper(void)
{
    return PLUGINDIR "/" ANSWER_PROGRAM;
}

static bool find_program(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    size_t room = slash ? PATH_MAX - (size_t)(slash + 1 - path) : 0;
    if (room && snprintf(slash + 1, room, "%s", ANSWER_PROGRAM) < (int)room && access(path, X_OK) == 0)
        return true;
    return snprintf(path, PATH_MAX, "%s", ps_helper()) < PATH_MAX && access(path, X_OK) == 0;
}

void ps_find_call(const long *pid, size_t n, bool with_function, char ret[ANSWER_BYTES])
{
    char path[PATH_MAX], text[PS_PROCESSES_MAX][16], answer[ANSWER_BYTES + 1] = "";
    const char *argv[PS_PROCESSES_MAX + 2] = {path};
    ddp_error_t e;
    ret[0] = 0;
    if (!find_program(path)) {
        strcpy(ret, PS_LACKS);
        return;
    }
    for (size_t i = 0; i < n && i < PS_PROCESSES_MAX; i++) {
        snprintf(text[i], sizeof text[i], "%ld", pid[i]);
        argv[i + 1] = text[i];
    }
    if (command_run(argv, deadline_in(WAITS_S), -1, answer, sizeof answer, &e) < 0 || !*answer)
        return;
    if (*answer == ANSWER_OTHER && !with_function)
        return;
    snprintf(ret, ANSWER_BYTES, "%.*s", ANSWER_BYTES - 1, answer + 1);
    plain_line(ret);
}
