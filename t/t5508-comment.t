#!/bin/bash
# The goodput in the comments of jobs that have several: a task's of an array, a component's of a heterogeneous job; the
# others stay as the user wrote them.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
mkdir -m 777 "$tmp/out"
chmod 755 "$tmp"
cluster_up 2 --cpus 4 --conf SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
train="$top_builddir/train --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 3 --val-windows 1 --quiet"
train+=" --data /usr/share/common-licenses/GPL-3 --ddp-record=$tmp/out/record"
# comments ID: of each part of the job
comments() {
    cluster_run squeue -h -r -t all -j "$1" -o '%i %k'
    sed 's/goodput .*/goodput/' <<<"$out" | sort
}

cat >"$tmp/out/array" <<JOB
#!/bin/sh
#SBATCH --ddp=on -N1 -n1 --comment=mine --array=1-2
[ \$SLURM_ARRAY_TASK_ID = 1 ] || srun $train\$SLURM_ARRAY_JOB_ID
JOB
cluster_run sbatch --parsable -W -o "$tmp/out/log" "$tmp/out/array"
job=$out
is "an array's task has the comment alone" "$(comments "$job")" "${job}_1 mine
${job}_2 mine | ddp: goodput" || diag "$(cat "$tmp/out/log")"

het() { # GROUPS
    cat >"$tmp/out/het" <<JOB
#!/bin/sh
#SBATCH --ddp=on -N1 -n1 --comment=mine
#SBATCH hetjob
#SBATCH -N1 -n1 --comment=other
srun --het-group=$1 $train\$SLURM_JOB_ID
JOB
    cluster_run sbatch --parsable -W -o "$tmp/out/log" "$tmp/out/het"
    job=$out
}
het 0,1
is "a heterogeneous job's step: rank 0's component" "$(comments "$job")" "$job+0 mine | ddp: goodput
$job+1 other" || diag "$(cat "$tmp/out/log")"
het 1
is "... and of one in another component, that" "$(comments "$job")" "$job+0 mine
$job+1 other | ddp: goodput" || diag "$(cat "$tmp/out/log")"
done_testing
