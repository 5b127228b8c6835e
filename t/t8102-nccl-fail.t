#!/bin/bash
# The NCCL communicator when something goes wrong, over a double of NCCL: every rank is told what, and nobody hangs.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/nccl.sh"

# all_told LAYOUT WHAT TEXT N: the last run ended, N ranks were told TEXT, nobody took longer than seconds.
all_told() {
    is "$2, nodes of $1" "$(told "$3")" "$4"
    is "... soon" \
        "$(sed -nE 's/.*told within ([0-9]+)\..*/\1/p' <<<"$out" | sort -n | tail -1 | sed 's/^[0-5]$/soon/')" soon
    ok "... nobody is left" until_true 5 nobody_probes
}

for layout in 3 2,1; do
    script
    probe $layout --die-before-start 1
    all_told $layout "killed before the wire-up" 'rank 1 \([^)]*\) died' 2
    probe $layout --die-in-op 1
    all_told $layout "killed in an operation" 'rank 1 \([^)]*\) died' 2
    is "... both abort" "$(grep -c '^rank [02] abort' <<<"$log")" 2
    is "... and free" "$(grep -c '^rank [02] free' <<<"$log")" 4
    probe $layout --abort-in-op 0
    all_told $layout "aborts in an operation" 'rank 0 \([^)]*\) aborted: the disk is full' 3
    probe $layout --leave-in-op 2
    all_told $layout "leaves in an operation" \
        'rank 2 \([^)]*\) left the job while rank [01] waits in an operation of NCCL' 2
    probe $layout --late 2 --timeout 1
    all_told $layout "does not come" \
        'rank 2 \([^)]*\) did not come before the deadline; rank [01] waited in the wire-up of NCCL' 3
    script "rank 1 init kill"
    probe $layout
    all_told $layout "killed in the wire-up" 'rank 1 \([^)]*\) died' 2
    script "init hang"
    probe $layout --timeout 1
    all_told $layout "a wire-up that never ends" \
        'all ranks wait in the wire-up of NCCL, and nothing moves: .*NCCL_SOCKET_IFNAME' 3
    is "... all abort" "$(grep -c abort <<<"$log")" 3
    script "rank 1 group at 3 async 6 connection closed by remote peer"
    probe $layout
    lost='remote process exited .*connection closed by remote peer\): another rank or the network'
    all_told $layout "an error after three operations" "an operation of NCCL failed: $lost" 3
    is "... told by the rank that has it" "$(told 'rank 1 \([^)]*\) aborted: an operation of NCCL failed')" 2
    is "... after two that went well" "$(grep -c '^rank 1 allreduce' <<<"$log")" 6
done

script "rank 1 init error 1 Cuda failure 'no kernel image'"
probe 2,1
all_told 2,1 "a wire-up that is refused" \
    "the wire-up of NCCL failed: unhandled cuda error \(Cuda failure 'no kernel image'" 3
script "rank 2 allreduce at 5 error 3 a bug"
probe 2,1
all_told 2,1 "a call that fails within a group" \
    'an operation of NCCL failed: internal error \(a bug\): NCCL_DEBUG=INFO' 3
script "rank 0 id error 2 no interface"
probe 2,1
all_told 2,1 "no id" 'the wire-up of NCCL failed: unhandled system error \(no interface\): check NCCL_SOCKET_IFNAME' 3
is "... before anybody begins" "$(grep -c init <<<"$log")" 0
script "version 23007" "rank 1 window error 1 Cuda failure 1 'invalid argument'"
probe 3
all_told 3 "a window that one rank is refused" "the registration of a window with NCCL failed: unhandled cuda error "\
"\(Cuda failure 1 'invalid argument'\): NCCL_WIN_ENABLE=0, on all ranks, goes without" 3
is "... all abort, and free" "$(grep -c abort <<<"$log") $(grep -c ' free$' <<<"$log")" "3 3"
script "version 23007" "rank 2 window async 3 a bug"
probe 3
all_told 3 "a window that fails on the way" 'the registration of a window with NCCL failed: internal error \(a bug\)' 3
script "version 23007" "rank 0 window hang"
probe 3 --timeout 1
in_window='all ranks wait in the registration of a window with NCCL, and nothing moves: NCCL_WIN_ENABLE=0, on all ranks'
all_told 3 "a window that never comes" "$in_window" 3
script "version 23007" "rank 1 window none"
probe 3 --timeout 1
all_told 3 "a window that one rank has not (NCCL_WIN_ENABLE=0 for it alone)" "$in_window" 3
script "version 23007" "rank 1 window kill"
probe 3
all_told 3 "killed in a window" 'rank 1 \([^)]*\) died' 2
script "version 23007"
probe 3 --die-in-op 1
all_told 3 "killed in an operation in a window" 'rank 1 \([^)]*\) died' 2
is "... both abort with the window open, then free" \
    "$(sed -nE 's/^rank 2 (window|unwindow|abort|free)( .*)?$/\1/p' <<<"$log" | xargs)" "window abort free free"
script "rank 1 group at 2 hang"
probe 3 --timeout 1
all_told 3 "an operation that one rank never puts on its stream" 'all ranks wait in an operation of NCCL' 3
script "finalize hang"
probe 2,1 --timeout 1
all_told 2,1 "an end that never comes" 'all ranks wait in the end of NCCL' 3
script "rank 0 destroy block"
probe 2 --timeout 1
all_told 2 "ncclCommDestroy does not return" 'rank 0: .*ncclCommDestroy does not return: end this process' 1
script "abort block"
probe 2,1 --timeout 1 --die-in-op 1
all_told 2,1 "nor does ncclCommAbort: the cause is told all the same" 'rank 1 \([^)]*\) died' 2

ok "nothing of ours is in /dev/shm" sh -c '! ls /dev/shm | grep -i ddp'
done_testing
