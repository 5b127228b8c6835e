# shellcheck shell=bash disable=SC2154
# requeue.sh - for shell tests that stop training jobs of a cluster: source it after cluster.sh.
#
#   submit NAME OPTION...   a batch job that trains, with requeue=auto; returns when it does; sets $job; its script
#                           passes SIGUSR1 on to srun; DDP_TEST_TERM=1: Slurm's SIGTERM does not end it
#   field JOB KEY           what scontrol says
#   job_is JOB STATE        waits until it is in that state
#   log NAME, log_of NAME   the file, its text
#   saved NAME              how many checkpoints it has
#   steps_said NAME         how many different steps its ranks stopped at
#   last_step NAME, goes_on NAME STEP
#   forget JOB...           cancels them

# At a pace that leaves the processors to Slurm.
export PROBE_PACE_MS=10
train=("$top_builddir/t/unit/train-probe" --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 1000000
    --log-every 20 --data /usr/share/common-licenses/GPL-3 --ddp-ckpt-every=0)
log() { echo "$cluster_dir/home/$1.log"; }
log_of() { cat "$cluster_dir/home/$1.log"; }
saved() { find "$cluster_dir/home/$1.ckpt" -name manifest.json | wc -l; }
last_step() { sed -n 's|^step \([0-9]*\)/.*|\1|p' "$(log "$1")" | tail -n 1; }
steps_said() { sed -n 's|^checkpoint step-\([0-9]*\) committed.*|\1|p' "$(log "$1")" | sort -u | wc -l; }
goes_on() { [ "$(last_step "$1")" -gt $(($2 + 20)) ]; }
field() { cluster_run scontrol -o show job "$1"; grep -oE " $2=[^ ]*" <<<"$out" | head -n 1 | cut -d= -f2; }
in_state() { [ "$(field "$1" JobState)" = "$2" ]; }
job_is() { until_true 60 in_state "$1" "$2"; }
started() { grep -qs 'step 20/' "$cluster_dir/home/$1".[lt12]*; }
forget() {
    cluster_run scancel "$@"
    for job in "$@"; do job_is "$job" CANCELLED; done
}

submit() { # NAME OPTION...
    local name=$1
    shift
    cat >"$cluster_dir/home/$name.job" <<JOB
#!/bin/sh
#SBATCH --ddp=on,requeue=auto --requeue --open-mode=append
export SLURM_CPU_BIND=none PROBE_PACE_MS=$PROBE_PACE_MS
[ -z "\$DDP_TEST_PATH" ] || export PATH_BEFORE=\$PATH PATH=\$DDP_TEST_PATH
\${PATH_BEFORE:+/usr/bin/}srun ${train[*]} --ckpt $cluster_dir/home/$name.ckpt\${SLURM_ARRAY_TASK_ID} &
trap 'echo batch script got USR1; kill -USR1 \$!' USR1
[ -z "\$DDP_TEST_TERM" ] || trap : TERM
wait \$!
code=\$?
[ \$code -le 128 ] || { wait \$!; code=\$?; } # it was the trap that ended the first
echo "srun ended with \$code"
PATH=\${PATH_BEFORE:-\$PATH}
$top_builddir/ddp requeue \$code
JOB
    chmod 755 "$cluster_dir/home/$name.job"
    cluster_run sbatch --parsable -t 30 -J "$name" -o "$(log "$name")" "$@" "$cluster_dir/home/$name.job"
    job=$out
    until_true 60 started "$name" || diag "job $job does not train: $err $(log_of "$name")"
}
