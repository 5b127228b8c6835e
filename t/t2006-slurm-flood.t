#!/bin/bash
# Where rank 0's boot server listens under srun, and that floods of another user's on its node harm no job. t9206 has
# more of them.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
probe=$top_builddir/t/lib/bootprobe
unset DDP_BOOT DDP_BOOT_ADDR DDP_NODE DDP_INTERFACE
DDP_BOOT=pmix "$probe" >"$tmp/have.out" 2>&1
grep -q "lacks PMIx" "$tmp/have.out" && skip_all "this build lacks PMIx"
ip netns list >"$tmp/netns.out" 2>&1 || skip_all "needs network namespaces (iproute2)"
uid=$(id -u nobody)

cluster_up 2 --netns

# ---- one address, where it is known ----
listening() { # the addresses that processes of the user listen at on n1
    cluster_exec n1 cat /proc/net/tcp /proc/net/tcp6 |
        awk -v uid="$uid" '$4 == "0A" && $8 == uid { sub(/:.*/, "", $2); print $2 }' >"$tmp/listening"
    test -s "$tmp/listening"
}
listens() { # DESC WANT OPTION...: while rank 1 is late; again where rank 0 gave up before it was looked at
    local desc=$1 want=$2 trial step
    for trial in 1 2 3; do
        cluster_run srun -K --ddp=on "${@:3}" "$probe" --stall 1 --timeout 5 &
        step=$!
        until_true 30 is_seen_or_over
        wait "$step"
        [ ! -s "$tmp/listening" ] || break
    done
    like "$desc" "$(xargs <"$tmp/listening")" "$want" || diag "$(cat "$tmp/run.out" "$tmp/run.err")"
}
is_seen_or_over() { listening || ! kill -0 "$step" 2>"$tmp/kill.err"; }
address=$(cluster_exec n1 getent ahostsv4 n1 | awk '{ print $1; exit }')
IFS=. read -r a b c d <<<"$address"
table=$(printf '%02X%02X%02X%02X' "$d" "$c" "$b" "$a") # as /proc/net/tcp has it
listens "all ranks on one node: the loopback address" "^0100007F$" -N1 -n2
listens "... over PMI as well" "^0100007F$" --ddp=on,mpi=pmi2 -N1 -n2
listens "two nodes: the address that MASTER_ADDR has" "^$table$" -N2 -n2
MASTER_ADDR=127.0.0.1 listens "where MASTER_ADDR tells nothing: all addresses" "^0{8}|0{32}$" -N2 -n2
DDP_INTERFACE=eth0 MASTER_ADDR=127.0.0.1 listens "... but for DDP_INTERFACE's" "^$table$" -N2 -n2

# ---- floods ----
flood() { # WAY THREADS: until flood_end, at what ranks listen at; slurmstepd has ports as the user, too
    cluster_exec n1 setpriv --reuid daemon --regid daemon --clear-groups "$top_builddir/t/lib/flood" 120 "$2" "$1" \
        "$uid" "$address" >"$tmp/flood.out" 2>&1 &
    flood=$!
    until_true 30 grep -q flooding "$tmp/flood.out"
}
flood_end() {
    kill "$flood"
    wait "$flood" 2>"$tmp/wait.err"
}
run_deadline=40
unharmed() { # N WAY THREADS [KEYS of --ddp]
    local i bad=""
    flood "$2" "$3"
    for ((i = 0; i < $1; i++)); do
        cluster_run srun -K "--ddp=on${4:-}" -N2 -n4 \
            "$top_builddir/train" --data /usr/share/common-licenses/GPL-3 --steps 1
        [ "$rc" -eq 0 ] || bad+=" $rc $err"
    done
    flood_end
    is "$1 of $1 jobs are unharmed by a flood: $2, $3 threads${4:-}" "$bad" ""
}
unharmed $((5 * ${times:=1})) silence 2
unharmed $((3 * times)) close 4
unharmed $((3 * times)) garbage 4
unharmed $((4 * times)) close 4 ,mpi=pmi2
done_testing
