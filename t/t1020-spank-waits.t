#!/bin/bash
# In which calls programs wait: ddp-waits beside programs of known calls; and under a real Slurm what guards make of it,
# where all wait and not for the same.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
[ -x "$top_builddir/ddp-waits" ] || skip_all "ddp-waits was not built: it needs libdw"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"

# The calls' names, and nothing of the libraries that have them. Each waits for ever, but for "epoll": until its file is
# there. What a shell computes is less.
cat >"$tmp/calls.c" <<'C'
#define _GNU_SOURCE
#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* Something is done after it, so that it is no jump. */
#define CALL(name, symbol, what)                                                                                       \
    void name(void) __asm__(symbol) __attribute__((noinline, visibility("default")));                                \
    void name(void)                                                                                                  \
    {                                                                                                                \
        what;                                                                                                        \
        puts("it goes on");                                                                                          \
    }
static int fds[2];
static volatile size_t room = 100;
static char *volatile in_room;
CALL(bcast, "PMPI_Bcast", pause())
CALL(reduce, "MPI_Allreduce", poll(NULL, 0, -1))
CALL(receive, "MPI_Recv", (void)!read(fds[0], (char[1]){0}, 1))
CALL(wait_receive, "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPi", pause())
CALL(gather, "_ZN4gloo9allgatherERNS_16AllgatherOptionsE", (in_room = alloca(room), wait_receive()))
CALL(look, "MPI_Wait", for (;;) usleep(20000))

static void *thread(void *arg)
{
    (void)arg;
    reduce();
    return NULL;
}

static int wait_for_file(const char *path)
{
    struct epoll_event e;
    int fd = epoll_create1(0), rc;
    while (access(path, F_OK) < 0)
        if ((rc = epoll_wait(fd, &e, 1, 500)) != 0) /* EINTR, if anything stopped it */
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t t;
    while (clock() < CLOCKS_PER_SEC / 20 || pipe(fds) < 0)
        ;
    if (strstr(what, "thread") && pthread_create(&t, NULL, thread, NULL) != 0)
        return 1;
    if (!strcmp(what, "join-thread"))
        pthread_join(t, NULL);
    if (!strcmp(what, "read-thread"))
        (void)!read(fds[0], (char[1]){0}, 1);
    if (!strcmp(what, "bcast") || !strcmp(what, "bcast-thread"))
        bcast();
    if (!strcmp(what, "reduce"))
        reduce();
    if (!strcmp(what, "receive"))
        receive();
    if (!strcmp(what, "gather"))
        gather();
    if (!strcmp(what, "inner"))
        wait_receive();
    if (!strcmp(what, "look")) {
        puts("there");
        fflush(stdout);
        look();
    }
    if (!strcmp(what, "sleep"))
        nanosleep(&(struct timespec){1000, 0}, NULL);
    return !strcmp(what, "epoll") && argc > 2 ? wait_for_file(argv[2]) : 1;
}
C
compile() { ${CC:-cc} -O2 -pthread "${@:2}" -o "$tmp/$1" "$tmp/calls.c"; }
ok "the program" compile calls -rdynamic
ok "... with frame pointers" compile pointers -rdynamic -fno-omit-frame-pointer
ok "... and without symbols" compile stripped -s

ask() { "$top_builddir/ddp-waits" "$@" 2>"$tmp/ask.err" | tr -d '\0'; } # PID...
says() { [ "$(ask "$1")" = "$2" ]; }
case_of() { # WANT PROGRAM ARGUMENT...
    local want=$1
    shift
    "$@" >"$tmp/calls.out" 2>&1 &
    ok "${*##*/}: $want" until_true 20 says $! "$want" || diag "$(ask $!)" "$(<"$tmp/ask.err")"
    kill $!
    wait $! 2>"$tmp/wait.err"
}
for program in calls pointers; do
    case_of "cMPI_Bcast" "$tmp/$program" bcast
    case_of "cMPI_Allreduce" "$tmp/$program" reduce
    case_of "mMPI_Recv" "$tmp/$program" receive
    case_of "cgloo::allgather" "$tmp/$program" gather
    case_of "cgloo" "$tmp/$program" inner
    case_of "cMPI_Allreduce" "$tmp/$program" join-thread
    case_of "cMPI_Bcast" "$tmp/$program" bcast-thread
    case_of "oread" "$tmp/$program" read-thread
    case_of "onanosleep" "$tmp/$program" sleep
done
case_of "opause" "$tmp/stripped" bcast
"$tmp/calls" look >"$tmp/calls.out" 2>&1 &
until_true 20 test -s "$tmp/calls.out"
is "who only looks now and then does not wait" "$(ask $!) $(ask $!) $(ask $!)" "o o o"
kill $!
"$tmp/calls" bcast >"$tmp/calls.out" 2>&1 &
one=$!
"$tmp/calls" sleep >"$tmp/calls.out" 2>&1 &
two=$!
both() { [ "$(ask $one $two)" = cMPI_Bcast ] && [ "$(ask $two $one)" = cMPI_Bcast ]; }
ok "two processes, of which one is in a call" until_true 20 both
kill $two
"$tmp/calls" reduce >"$tmp/calls.out" 2>&1 &
two=$!
both() { [ "$(ask $one $two)" = "mMPI_Allreduce and MPI_Bcast" ]; }
ok "... each in another one" until_true 20 both
kill $one $two
"$tmp/calls" epoll "$tmp/go" &
waiting=$!
ok "a program is asked about" until_true 20 says $waiting "oepoll_wait"
ok "... again" until_true 20 says $waiting "oepoll_wait"
touch "$tmp/go"
wait $waiting
is "... and notices nothing" $? 0
for arguments in "" 1x 12:x 0; do
    # shellcheck disable=SC2086
    run "$top_builddir/ddp-waits" $arguments
    like "usage: ${arguments:-none}" "$rc $err" "^2 usage: .*ddp-waits PID\.\.\.$"
done
run "$top_builddir/ddp-waits" 999999999
like "no such process" "$rc $err" "^1 .*ddp-waits: /proc/999999999/mem: No such file"
"$tmp/calls" bcast >"$tmp/calls.out" 2>&1 &
until_true 20 says $! "cMPI_Bcast"
waits=$(awk '/^voluntary/ { print $2 }' "/proc/$!/status")
top=0xfffffffffffffff0
printf '%s\n' '1' 'x y z' '5 5 0 running' '6 6 0' "$! $! $waits 34 $top $top" '7 7 0 0x1' '' |
    "$top_builddir/ddp-waits" $!:3 3<"/proc/$!/mem" | tr -d '\0' >"$tmp/odd"
is "lines that lead nowhere" "$(<"$tmp/odd")" "o"
kill $!

# ---- under Slurm ----
ip netns list >"$tmp/netns.out" 2>&1 || { diag "no network namespaces (iproute2)" && done_testing && exit; }
source "$top_srcdir/t/lib/cluster.sh"
cluster_up 5 --netns
differ='all ranks wait, and not in the same collective: rank 2 \(n3\) in'
lines() { ddp_lines "$tmp/step.err"; }
said() { lines | grep -qE "$1"; }
nodes=4 option=on,guard
start() { # COMMAND...: a step of four ranks on as many nodes, or more
    timeout -k 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" \
        srun --ddp=$option -N$nodes -n$nodes "$@" >"$tmp/step.out" 2>"$tmp/step.err" &
    step=$!
}

# A shell is beside each program; rank 1's is told to give up.
mkfifo -m 666 "$tmp/out/go"
# shellcheck disable=SC2016
start bash -c 'call=reduce; [ $RANK = 2 ] && call=bcast
    "$0/calls" $call & [ $RANK = 1 ] && read -r _ <"$0/out/go" && exit 1; wait' "$tmp"
ok "all wait, and not in the same call" until_true 60 said \
    "^ddp: warning: $differ MPI_Bcast, the 3 others in MPI_Allreduce$"
timeout 20 bash -c 'echo now >"$0"' "$tmp/out/go"
wait $step
like "... which is said again with what ends the step" "$(lines | tail -1)" \
    '^ddp: all ranks had waited for [0-9]+ s: rank 2 \(n3\) in MPI_Bcast, the 3 others in MPI_Allr.*, and then rank 1 '
is "... and no more" "$(lines | wc -l)" 2
waits() { # SECONDS: until rank 1 gives up
    # shellcheck disable=SC2016
    start bash -c '[ $RANK = 3 ] && exec "$0/calls" sleep; [ $RANK = 1 ] || exec "$0/calls" reduce
        timeout '"$1"' "$0/calls" reduce; exit 1' "$tmp"
    wait $step
    said '^ddp: all ranks had waited for [0-9]* s: rank 3 \(n4\) in nanosleep, the 3 others in MPI_Allreduce, and '
}
ok "one that is in no such call is named when others give up" eval 'waits 12 || waits 24'
unlike "... and not before: it may go on" "$(lines)" "warning"

# On the fifth node a guard waits, with restarts, for another to be lost.
# shellcheck disable=SC2016
nodes=5 option=on,restarts=1,spares=1 start bash -c 'call=reduce; [ $RANK = 2 ] && call=bcast; exec "$0/calls" $call' \
    "$tmp"
ok "beside a spare, too" until_true 60 said "^ddp: warning: $differ MPI_Bcast, the 3 others in MPI_Allreduce$"
( cluster_run scancel --me )
wait $step

# A PyTorch program that knows of nothing; where its libraries are stripped, not each call has a name.
python=${DDP_TEST_PYTHON:-/usr/bin/python3}
if [ "$python" != none ] && "$python" -c 'import torch.distributed' 2>"$tmp/torch.err"; then
    cat >"$tmp/loop.py" <<'PYTHON'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1000)
dist.all_reduce(x)
dist.broadcast(x, 0) if dist.get_rank() == 2 else dist.all_reduce(x)
PYTHON
    start "$python" "$tmp/loop.py"
    ok "PyTorch: another collective is named" until_true 90 said \
        "^ddp: warning: $differ gloo::broadcast, the 3 others in gloo"
    ( cluster_run scancel --me )
    wait $step
fi
done_testing
