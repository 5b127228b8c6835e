#!/bin/bash
# Jobs that Slurm stops go on by themselves, and end where one that nobody stopped does, bit for bit. Slurm lets a
# requeued job wait for two minutes, so they are all stopped side by side.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
. "$(dirname "$0")/lib/requeue.sh"
cluster_up 3 --cpus 8 --conf KillWait=30 --conf PreemptType=preempt/partition_prio --conf PreemptMode=REQUEUE \
    --conf 'PartitionName=low Nodes=n3 PriorityTier=1 GraceTime=30' \
    --conf 'PartitionName=high Nodes=n3 PriorityTier=9'

# Ends after 400 steps; the others after any number.
train=("$top_builddir/train" --model tiny --steps 400 --log-every 20 --data /usr/share/common-licenses/GPL-3
    --print-hash)
cluster_run srun --ddp=on -N2 -n2 "${train[@]}"
want=$(sed -n 's/^params hash //p' <<<"$out")
like "nobody stops it" "$want" '^[0-9a-f]{16}$'
submit hash -N2 -n2
hash=$job
cluster_run scancel --signal=USR1 "$hash"

train=("$top_builddir/train" --model tiny --steps 1000000 --log-every 20 --data /usr/share/common-licenses/GPL-3
    --ddp-ckpt-every=0)
submit limit -n2 -w n1 -t 1
limit=$job
submit early -n2 -w n2 -t 2 --signal=USR1@30
early=$job
submit script -n2 -w n2 -t 2 --signal=B:USR1@30
script=$job
submit preempted -n2 -p low
preempted=$job
cluster_run sbatch --parsable -p high --exclusive -o /dev/null --wrap "sleep 20"

resumed() { grep -q '^resumed from' "$(log "$1")"; }
stopped() { grep -Eqs "job $2 is requeued" "$(log "$1")"; }
for case in "hash $hash" "limit $limit" "early $early" "script $script" "preempted $preempted"; do
    # shellcheck disable=SC2086
    ok "${case% *}: stopped, saved and requeued" until_true 120 stopped $case
done
like "limit: before the limit" "$(log_of limit)" "train: stopped by the end of its time, with a checkpoint"
unlike "... and Slurm did not have to" "$(log_of limit)" "DUE TO TIME LIMIT"
like "early: by --signal=USR1@30" "$(log_of early)" "train: stopped by SIGUSR1"
like "script: by --signal=B:USR1@30" "$(log_of script)" "batch script got USR1.*train: stopped by SIGUSR1"
like "preempted: by SIGTERM" "$(log_of preempted)" "train: stopped by SIGTERM"
for name in hash limit early script preempted; do
    ok "$name: goes on" until_true 300 resumed $name
    like "... where it stopped" "$(log_of $name)" "step-0*([0-9]+) committed.*resumed from .*step-0*"
done
cluster_run scancel "$limit" "$early" "$script" "$preempted"
ended() { grep -q '^srun ended with 0' "$(log hash)"; }
ok "hash: ends" until_true 120 ended
is "... where the one that nobody stopped does" "$(sed -n 's/^params hash //p' "$(log hash)" | tail -n 1)" "$want"
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$out" ""
done_testing
