#!/bin/bash
# A node that stands still after Slurm has woken the rest of a suspended step: its slurmstepd was killed meanwhile, or
# it has gone down. The others know that a minute later. The signals are Slurm's, sent by the test.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_need
ip netns list >"$tmp/netns.out" 2>&1 || skip_all "needs network namespaces (iproute2)"
mkdir -m 777 "$tmp/out"
cluster_up 2 --netns
all_run() { [ "$(find "$tmp/out" -name '[0-9]' -size +0 | wc -l)" -eq 2 ]; }
said() { ddp_lines "$tmp/step.err" | grep -qE "$1"; }
# shellcheck disable=SC2016
timeout -k 5 200 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,guard -N2 -n2 \
    bash -c 'echo $PPID $$ >"$0/$RANK"; while sleep 0.1; do :; done' "$tmp/out" \
    >"$tmp/step.out" 2>"$tmp/step.err" &
step=$!
until_true 60 all_run || diag "$(<"$tmp/step.err")"
read -r guard0 _ <"$tmp/out/0"
read -r guard1 program1 <"$tmp/out/1"
kill -TSTP "$guard0" "$guard1"
sleep 2 # as Slurm does
kill -STOP "$guard1" "$program1"
kill -CONT "$guard0"
ok "a node that is not woken with the others is named" until_true 100 said \
    '^ddp: node n2 \(rank 1\) has been silent for [56][0-9] s to node n1: it is down, or the network to it:'
kill -CONT "$guard1" "$program1" # so that they end
ok "... and srun ends" until_true 60 eval '! kill -0 $step'
is "... and that is said once" "$(ddp_lines "$tmp/step.err" | grep -c ': the step ends$')" 1
done_testing
