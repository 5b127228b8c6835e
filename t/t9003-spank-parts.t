#!/bin/bash
# Steps that fall apart into parts of their nodes, on a real Slurm that has not noticed yet: the part of most goes on;
# srun ends 150 s after one of few where none goes on. 4 minutes.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_need
ip netns list >"$tmp/netns.out" 2>&1 || skip_all "needs network namespaces (iproute2)"
mkdir -m 777 "$tmp/out"

cluster_up 14 --netns # SlurmdTimeout is 300: for so long srun waits for the tasks of nodes that are down
lines() { ddp_lines "$tmp/$1.err"; } # STEP
said() { lines "$1" | grep -qE "$2"; }
# Rank 0 fails once: of a step that has been started again all guards have met.
# shellcheck disable=SC2016
program='[ $DDP_RESTART != 0 ] || [ $RANK != 0 ] || exit 1
    echo >"$0.$DDP_RESTART.$SLURMD_NODENAME"; until [ -e "$0.go" ]; do sleep 0.1; done; exit 3'
begin() { # STEP NODES OPTIONS: a task on each node; sets $begun
    timeout -vk 5 400 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,"$3" -w "$2" \
        --ntasks-per-node=1 bash -c "$program" "$tmp/out/$1" >"$tmp/$1.out" 2>"$tmp/$1.err" &
    begun=$!
}
runs() { [ "$(find "$tmp/out" -name "$1.$2.n*" | wc -l)" -eq "$3" ]; } # STEP GENERATION TASKS
ended() { # STEP PID: waits for srun; sets $code, $at
    wait "$2"
    code=$? at=$SECONDS
    ! grep '^timeout: sending signal' "$tmp/$1.err"
}
nothing_left() { ! cluster_pids "$@" | xargs -r ps -o comm= -p | grep -v '^slurmd$'; } # NODE...

begin cut n11,n12,n13,n14 restarts=2,min_nodes=3
cut=$begun
begin most n4,n5,n6,n7 restarts=2,min_nodes=3
most=$begun
begin few n1,n2,n3 restarts=3,min_nodes=2
few=$begun
begin spare n8,n9,n10 restarts=3,spares=1
spare=$begun
all_run() { runs cut 1 4 && runs most 1 4 && runs few 1 3 && runs spare 1 2; }
ok "four steps run" until_true 90 all_run

cluster_exec n14 ip link set eth0 down
ok "a node's link is cut: the others go on" until_true 60 runs cut 2 3
touch "$tmp/out/cut.go"
ok "... and srun ends" ended cut $cut
is "... with their programs' code" "$code" 3 || diag "$(<"$tmp/cut.err")"
cluster_exec n14 ip link set eth0 up # slurmstepd asks for its controller until then
ok "... and nothing is left" until_true 120 nothing_left n11 n12 n13 n14

# n7 still reaches srun, and says so first: when the other two steps end, its srun has looked for others.
for node in n4 n5 n6; do
    address=$(awk -v node=$node '$2 == node { print $1 }' "$cluster_dir"/hosts.*)
    cluster_exec n7 ip route add blackhole "$address"
done
ends='is cut off, or the others are down: it reaches 1 of . nodes only, and ends; they may go on without it$'
ok "a node that is cut off from the others ends its part" until_true 60 said most "^ddp: node n7 $ends"
ok "... and nothing is left there" until_true 30 nothing_left n7
ok "... and the others go on" until_true 60 runs most 2 3

for node in n1 n2; do cluster_exec $node ip link set eth0 down; done # without a word to srun or n3
cluster_die n1 n2
cluster_die n8 n9
ok "two of three nodes are lost with their slurmd: the third ends" until_true 60 said few \
    "^ddp: node n3 $ends"
few_said=$SECONDS
ok "... also where that is a spare" until_true 60 said spare "^ddp: node n10 $ends"
spare_said=$SECONDS

end='^ddp: some nodes could not reach the others, and ended 150 s ago, .*: the step ends$'
ok "srun ends" ended spare $spare
is "... with 1, of which the spare's guard has seen to" "$code" 1 || diag "$(<"$tmp/spare.err")"
ok "... 150 s later ($((at - spare_said)) s)" test $((at - spare_said)) -ge 150 -a $((at - spare_said)) -le 190
is "... for which there is a reason" "$(lines spare | grep -c "$end")" 1
ok "... and nothing is left" until_true 30 nothing_left n10

ok "where the root of most was among the lost, without a word, srun ends, too" ended few $few
is "... with the code of what its signal has ended" "$code" 143 || diag "$(<"$tmp/few.err")"
ok "... 150 s after it has found that ($((at - few_said)) s)" test $((at - few_said)) -ge 150 -a \
    $((at - few_said)) -le 230
is "... for which there is a reason" "$(lines few | grep -c "$end")" 1
ok "... and nothing is left" until_true 30 nothing_left n3

touch "$tmp/out/most.go"
ok "the part of most has gone on, and ends" ended most $most
is "... with its programs' code, of which only n7's was higher" "$code $(grep -c 'code 3$' "$tmp/most.err")" "143 3" ||
    diag "$(<"$tmp/most.err")"
unlike "... of which srun knew" "$(lines most)" "ended 150 s ago"
ok "... and nothing is left" until_true 30 nothing_left n4 n5 n6 n7
done_testing
