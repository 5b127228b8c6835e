#!/bin/bash
# Slurm's ways to stop a job, on a real one: the job saves at one step on all ranks, ends with exit code 75, and is
# requeued once where it should be. (That it then goes on takes two minutes: t9105.)
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
. "$(dirname "$0")/lib/requeue.sh"
cluster_up 2 --cpus 4 --conf KillWait=30 --conf PreemptType=preempt/partition_prio --conf PreemptMode=REQUEUE \
    --conf 'PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=30' \
    --conf 'PartitionName=high Nodes=ALL PriorityTier=9'

DDP_TEST_TERM=1 submit usr1 -N2 -n2
cluster_run scancel --signal=USR1 "$job"
ok "scancel --signal=USR1: it ends" job_is "$job" PENDING
is "... saved, by all ranks" "$(saved usr1) $(steps_said usr1)" "1 1"
like "... and said" "$(log_of usr1)" "train: stopped by SIGUSR1, with a checkpoint"
is "... requeued once, by rank 0" "$(field "$job" Restarts) $(grep -c "job $job is requeued: restart 1 of at most 100" \
    "$(log usr1)")" "1 1"
is "... after \`trap : TERM\` the script waits for srun" "$(grep '^srun ended' "$(log usr1)")" "srun ended with 75"
unlike "... and no rank was killed" "$(log_of usr1)" "Killed|exit code 1[^0-9]|died"
forget "$job"

DDP_REQUEUE_EXCLUDE=n1 submit excluded -N1 -n2
cluster_run scancel --signal=USR1 "$job"
kept_off() { [ "$(field "$1" ExcNodeList)" = "$2" ]; }
ok "a node that is named: the job is kept off it" until_true 60 kept_off "$job" n1 || diag "$(log_of excluded)"
ok "... and requeued" job_is "$job" PENDING
forget "$job"

submit array -N1 -n2 --array=1-2 -o "$cluster_dir/home/array.%a"
until_true 60 grep -qs 'step 20/' "$cluster_dir/home/array.2" # the other one may have begun alone
cluster_run scancel --signal=TERM "${job}_2"
ok "an array's task: requeued" job_is "${job}_2" PENDING
is "... and that one alone" "$(field "${job}_1" JobState) $(field "${job}_1" Restarts)" "RUNNING 0"
forget "$job"

submit cancelled -N1 -n2
cluster_run scancel "$job"
ok "scancel: it ends" job_is "$job" CANCELLED
is "... saved" "$(saved cancelled)" 1
is "... and stays cancelled" "$(field "$job" Restarts)" 0

submit requeued -N1 -n2
cluster_run scontrol requeue "$job"
ok "scontrol requeue: it waits" job_is "$job" PENDING
is "... saved, requeued once" "$(saved requeued) $(field "$job" Restarts)" "1 1"
forget "$job"

submit preempted -N2 -n2 -p low
cluster_run sbatch --parsable -p high -N2 --exclusive -o /dev/null --wrap "sleep 600"
other=$out
ok "preemption with a GraceTime: it waits" job_is "$job" PENDING
is "... saved, requeued once" "$(saved preempted) $(field "$job" Restarts)" "1 1"
ok "... and the other job runs" job_is "$other" RUNNING
forget "$job" "$other"

submit drained -N1 -n2 -w n1
cluster_run scontrol show node n1 # as a user: no more than that
"$top_srcdir/contrib/cluster" run --dir "$cluster_dir" --user root scontrol update nodename=n1 state=drain reason=test
at=$(last_step drained)
ok "a node that drains: the job goes on" until_true 30 goes_on drained "$at"
cluster_run scancel --signal=USR2 "$job"
ok "... and is requeued when told to" job_is "$job" PENDING
is "... saved" "$(saved drained)" 1
"$top_srcdir/contrib/cluster" run --dir "$cluster_dir" --user root scontrol update nodename=n1 state=resume
forget "$job"

DDP_TEST_PATH=/nowhere submit noscontrol -N1 -n2
cluster_run scancel --signal=USR1 "$job"
ok "no scontrol beside the ranks: the batch script requeues" job_is "$job" PENDING
like "... since rank 0 said so" "$(log_of noscontrol)" "there is no scontrol here"
is "... and ddp requeue says so" "$(log_of noscontrol | grep '^ddp requeue:')" \
    "ddp requeue: job $job is requeued: restart 1 of at most 100"
is "... by srun's exit code" "$(grep -c '^srun ended with 75$' "$(log noscontrol)")" 1
forget "$job"

DDP_REQUEUE=auto "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on,timeout=99 -N1 -n2 -J inter \
    "${train[@]}" --ckpt "$cluster_dir/home/inter.ckpt" >"$(log inter)" 2>&1 &
srun=$!
until_true 60 grep -q 'step 20/' "$(log inter)"
cluster_run squeue -h -n inter -o %A
cluster_run scancel --signal=TERM "$out"
rc=0
wait $srun || rc=$?
is "srun by hand: exit code" "$rc" 75
again="srun --ddp=on,timeout=99 -N1 -n2 -pmain ${train[0]} .*--ckpt $cluster_dir/home/inter.ckpt"
like "... and the command that goes on" "$(log_of inter)" "an interactive one; to go on: $again"
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$out" ""
done_testing
