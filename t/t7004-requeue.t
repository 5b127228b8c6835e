#!/bin/bash
# ddp requeue: what a batch script asks of the controller, and what it is told. scontrol is a script of ours.
. "$(dirname "$0")/lib/tap.sh"
ddp=$top_builddir/ddp
unset "${!SLURM_@}" "${!DDP_@}"

mkdir "$tmp/bin" "$tmp/none"
cat >"$tmp/bin/scontrol" <<'SCRIPT'
#!/bin/bash
here=$(dirname "$0")
echo "$*" >>"$here/asked"
case $1 in
-o) cat "$here/job" ;;
requeue)
    cp "$here/../run.err" "$here/said"
    [ ! -e "$here/refuse" ] || { cat "$here/refuse" >&2; mv "$here/after" "$here/job" 2>"$here/mv"; exit 1; }
    ;;
update) [ ! -e "$here/keep" ] || { echo "slurm_update error: Access denied" >&2; exit 1; } ;;
esac
SCRIPT
chmod 755 "$tmp/bin/scontrol"
job() { # STATE [KEY=VALUE...]: what it says
    echo "JobId=1 JobName=x UserId=u(1) Requeue=1 Restarts=0 BatchFlag=1 ExcNodeList=(null) JobState=$1" |
        sed "$(printf 's/\\<%s=[^ ]*/%s=%s/;' $(for kv in "${@:2}"; do echo "${kv%%=*} ${kv%%=*} ${kv#*=}"; done))"
}
ask() { # ENV... -- ARGUMENT...: runs ddp requeue; sets $asked
    local env=()
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    rm -f "$tmp/bin/asked"
    run env PATH="$tmp/bin:$PATH" "${env[@]}" "$ddp" requeue "${@:2}"
    asked=$(cat "$tmp/bin/asked" 2>"$tmp/cat")
}

job RUNNING >"$tmp/bin/job"
for code in 0 1 143; do
    ask SLURM_JOB_ID=12 -- $code
    is "code $code: nothing is done, and it is passed on" "$rc $err$asked" "$code "
done
ask SLURM_JOB_ID=12 -- 75
is "code 75: requeued" "$rc $asked" $'0 -o show job 12\nrequeue 12'
is "... and said" "$err" "ddp requeue: job 12 is requeued: restart 1 of at most 100"
is "... before Slurm is asked to, whose signals may end srun" "$(cat "$tmp/bin/said")" "$err"
ask SLURM_JOB_ID=12 SLURM_ARRAY_JOB_ID=10 SLURM_ARRAY_TASK_ID=2 -- 75
is "of an array this task alone" "$rc $asked" $'0 -o show job 10_2\nrequeue 10_2'
ask SLURM_JOB_ID=12 SLURM_RESTART_COUNT=3 -- --limit 3 75
is "not after so many restarts" "$rc $asked" "75 -o show job 12"
like "... and said" "$err" "was restarted 3 times, the limit .*; to go on: scontrol requeue 12"
ask SLURM_JOB_ID=12 SLURM_RESTART_COUNT=3 DDP_REQUEUE_LIMIT=3 -- 75
is "... nor by the variable" "$rc $asked" "75 -o show job 12"
ask SLURM_JOB_ID=12 -- --exclude "n3,n[5-6]" 75
is "nodes to leave out" "$asked" $'-o show job 12\nrequeue 12\nupdate JobId=12 ExcNodeList=n3,n[5-6]'
job RUNNING "ExcNodeList=n1" >"$tmp/bin/job"
ask SLURM_JOB_ID=12 -- --exclude n3 75
like "... besides those that are left out already" "$asked" "ExcNodeList=n1,n3"
touch "$tmp/bin/keep"
ask SLURM_JOB_ID=12 -- --exclude n3 75
is "... which Slurm refuses: requeued all the same, and said" "$rc $err" \
    "0 ddp requeue: job 12 is requeued: restart 1 of at most 100
ddp requeue: job 12 is requeued, but may run on n3 again: scontrol: exit code 1: slurm_update error: Access denied"
rm "$tmp/bin/keep"

job COMPLETING >"$tmp/bin/job"
ask SLURM_JOB_ID=12 -- 75
is "a job that was cancelled stays so" "$rc $asked" "75 -o show job 12"
like "... and it is said" "$err" "being cancelled"
job COMPLETING Restarts=1 >"$tmp/bin/job"
ask SLURM_JOB_ID=12 -- 75
is "a job that Slurm requeues is left alone" "$rc $asked $err" \
    "0 -o show job 12 ddp requeue: job 12 is requeued already"
job RUNNING Requeue=0 >"$tmp/bin/job"
ask SLURM_JOB_ID=12 -- 75
like "--no-requeue" "$rc $err" "^75 .*submit it with --requeue"
job RUNNING BatchFlag=0 >"$tmp/bin/job"
ask SLURM_JOB_ID=12 -- 75
like "an interactive job" "$rc $err" "^75 .*requeues batch jobs only.*; to go on: run the same srun again$"
ask -- 75
like "no job" "$rc $err" "^75 .*no job of Slurm's.*; to go on: run the same srun again$"

job RUNNING >"$tmp/bin/job"
echo "slurm_requeue error: Requested operation is presently disabled" >"$tmp/bin/refuse"
ask SLURM_JOB_ID=12 -- 75
like "Slurm refuses" "$rc $(tail -n 1 <<<"$err")" \
    "^75 ddp requeue: job 12 is not requeued: .*presently disabled.*scontrol requeue 12\$"
job PENDING Restarts=1 >"$tmp/bin/after"
ask SLURM_JOB_ID=12 -- 75
is "... since it was faster" "$rc $err" "0 ddp requeue: job 12 is requeued: restart 1 of at most 100"
run env PATH="$tmp/none" SLURM_JOB_ID=12 "$ddp" requeue 75
like "no scontrol" "$rc $err" '^75 .*not requeued: there is no scontrol here'

# --- the batch script of doc/user.md that passes a signal on; srun is a script of ours, which ends after the trap ---
cat >"$tmp/bin/srun" <<'SCRIPT'
#!/bin/bash
[ -z "${SRUN_CODE:-}" ] || exit "$SRUN_CODE"
here=$(dirname "$0")
trap 'exit 75' USR1
echo $$ >"$here/trains"
read -r <>"$here/never"
SCRIPT
printf '#!/bin/sh\necho "$*"\n' >"$tmp/bin/ddp"
chmod 755 "$tmp/bin/srun" "$tmp/bin/ddp"
mkfifo "$tmp/bin/never"
sed -n '/^    srun \.\.\. &/,/^    ddp requeue/s/^    //p' "$top_srcdir/doc/user.md" >"$tmp/batch"
ended() { ! grep -qs "^State:.[^Z]" "/proc/$1/status"; }
sleeps() { grep -q '^State:.S' "/proc/$1/status"; }
waits() { # PID: srun reads, where a signal is not lost, and the script waits with its trap set
    [ -s "$tmp/bin/trains" ] && sleeps "$(cat "$tmp/bin/trains")" && sleeps "$1" &&
        (((0x$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status") >> ($(kill -l USR1) - 1) & 1) == 1))
}
for shell in "sh" "bash" "bash --posix"; do
    rm -f "$tmp/bin/trains"
    # shellcheck disable=SC2086
    PATH="$tmp/bin:$PATH" $shell "$tmp/batch" >"$tmp/out" 2>"$tmp/err" &
    batch=$!
    until_true 60 waits $batch || diag "$shell does not wait: $(cat "$tmp/err")"
    kill -USR1 $batch
    until_true 60 ended $batch || { diag "$shell does not end: it is killed" && kill -KILL $batch; }
    wait $batch 2>"$tmp/wait.err"
    is "$shell: a script that passes a signal on ends with srun's exit code" "$(cat "$tmp/out" "$tmp/err")" "requeue 75"
    # shellcheck disable=SC2086
    run env SRUN_CODE=137 PATH="$tmp/bin:$PATH" $shell "$tmp/batch"
    is "$shell: ... also with one above 128 and without a signal" "$out$err" "requeue 137"
done

for args in "" "x" "75 75" "256" "--limit" "--limit x 75" "--nope 75"; do
    # shellcheck disable=SC2086
    run "$ddp" requeue $args
    like "wrong usage: ddp requeue $args" "$rc $(wc -l <<<"$err") $err" \
        "^2 1 ddp requeue: .*(--help|: use --limit=0..1000000|wants a value)"
done
done_testing
