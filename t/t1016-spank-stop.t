#!/bin/bash
# Programs that are stopped in time (--ddp=on,stop=SIGNAL@SECONDS) and whose job is requeued by the guards, under a real
# Slurm: any program, and libddp's. Slurm's own signals do not reach guards here (proctrack/linuxproc); one that comes
# to a guard, as by proctrack/cgroup, is the test's.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"

# Only the backfill scheduler starts heterogeneous jobs; by default it looks twice a minute.
cluster_up 4 --conf SchedulerParameters=bf_interval=1
lines() { ddp_lines "${1:-$tmp/step.err}"; }
all_ready() { [ "$(find "$tmp/out" -name '[0-9].pid' -size +0 | wc -l)" -eq "$n" ]; }
guard_of() { cat "$tmp/out/$1.pid"; }
restarted() { cluster_run scontrol -o show job "$job"; [[ $out =~ Restarts=1\  ]]; }
forget() { ( cluster_run scancel "$job" ); }
cat >"$tmp/program" <<'PROGRAM'
# OUT CODE: says who its guard is, waits for the signal, saves, which takes rank 0 no time and others a second, and ends
trap 'date +%s%N >>"$1/$RANK.got"' USR1
echo "$PPID" >"$1/$RANK.pid"
until [ -s "$1/$RANK.got" ]; do sleep 0.05; done
[ "$RANK" = 0 ] || sleep 1
echo >"$1/$RANK.saved"
exit "$2"
PROGRAM
# shellcheck disable=SC2016
catch='exec bash "$0/../program" "$0" '
# shellcheck disable=SC2016
default='echo $PPID >"$0/$RANK.pid"; exec sleep 100'
run_step() { # SRUN-ARGUMENTS: a step of eight ranks, which have begun when it returns; sets $step
    n=8
    rm -rf "$tmp"/out/*
    timeout -k 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun "$@" >"$tmp/step.out" \
        2>"$tmp/step.err" &
    step=$!
    until_true 60 all_ready || diag "$(cat "$tmp/step.err")"
}
start() { # KEYS OPTIONS COMMAND: on four nodes
    # shellcheck disable=SC2086
    run_step --ddp=on,"$1" -N4 -n8 --ntasks-per-node=2 $2 bash -c "$3" "$tmp/out"
}
finish() { rc=0; wait $step || rc=$?; }
got() { cat "$tmp"/out/*.got; }
all_saved() { [ "$(saved)" -eq 8 ]; }
saved() { find "$tmp/out" -name '*.saved' | wc -l; }
span_ms() { got | sort | sed -n '1p;$p' | xargs | awk '{ print int(($2 - $1) / 1e6) }'; }

# ---- the signal ----
start stop=USR1 "" "$catch 75"
kill -USR1 "$(guard_of 5)"
finish
is "a guard gets the signal: each rank gets it, once" "$(got | wc -l)" 8
ok "... within a second" [ "$(span_ms)" -lt 1000 ]
is "... all have saved, also after the first has ended, with their exit code" "$rc $(saved)" "75 8"
is "... which is said once" "$(lines)" "ddp: stop: all ranks get SIGUSR1, to save and end"

start stop=USR1 "" "$catch 75"
kill -TERM "$(guard_of 2)"
kill -TERM "$(guard_of 0)"
until_true 30 test -s "$tmp/out/7.got"
kill -TERM "$(guard_of 0)" "$(guard_of 7)"
finish
is "Slurm's SIGTERM is a stop, and does not disturb it later" "$rc $(got | wc -l) $(saved)" "75 8 8"

# Where Slurm ends a job, its script is killed, and srun with that, before or after the programs have had SIGTERM.
for first in srun guard; do
    # shellcheck disable=SC2016
    start stop=USR1 "" 'trap "echo >>$0/$RANK.term" TERM; trap "date +%s%N >>$0/$RANK.got" USR1
        echo $PPID >"$0/$RANK.pid"
        until [ -s "$0/$RANK.got" ]; do sleep 0.05; done
        for ((i = 0; i < 50; i++)); do sleep 0.1; done; echo >"$0/$RANK.saved"; exit 75'
    [ $first = srun ] || kill -TERM "$(guard_of 1)"
    kill_srun "$tmp/out"
    [ $first = guard ] || kill -TERM "$(guard_of 1)"
    finish
    ok "srun is killed, $first first: all save" until_true 60 all_saved
    is "... undisturbed" "$(find "$tmp/out" -name '*.term' | wc -l)" 0
done

# shellcheck disable=SC2016
start stop=USR1 -K0 '[ $RANK = 0 ] && { echo $PPID >"$0/0.pid"; exit 1; }; '"$catch 75"
until_true 30 grep -q '^ddp: rank 0 (n1) exited with code 1 ' "$tmp/step.err"
kill -USR1 "$(guard_of 5)"
finish
is "where a death does not end the step (-K0), the others are stopped, although rank 0 has ended" \
    "$(got | wc -l) $(saved)" "7 7"

start stop=USR1@55 "-t 1" 'echo $DDP_END_TIME >"$0/$RANK.end"; '"$catch 75"
finish
is "at the job's end less 55 s" "$rc $(got | wc -l) $(saved)" "75 8 8"
ok "... within a second" [ "$(span_ms)" -lt 1000 ]
is "... of which all know when" "$(cat "$tmp"/out/*.end | sort -u | wc -l)" 1
off=$(($(got | head -n 1 | cut -c1-10) + 55 - $(cat "$tmp/out/0.end")))
ok "... and it is then" [ $off -ge -1 -a $off -le 2 ] || diag "$off s off"

start stop=USR1 "" "$default"
kill -USR1 "$(guard_of 3)"
finish
like "programs that do not catch it end by it, and that is no failure" "$rc $(lines)" \
    "^138 ddp: stop: .*ddp: rank [0-7] \(n[1-4]\) was ended by SIGUSR1, the stop's signal, .* s: the step ends$"

# shellcheck disable=SC2016
start stop=USR1 "" '[ $RANK -lt 2 ] || exec bash "$0/../program" "$0" 75; '"$default"
kill -USR1 "$(guard_of 5)"
finish
is "... and those that save have the time" "$(saved)" 6

start stop=USR1,stop_code=9,restarts=2 "" 'exec bash "$0/../program" "$0" $((RANK == 3 ? 1 : 9))'
kill -USR1 "$(guard_of 3)"
finish
like "a program that fails to save is named, and none starts again after a stop" "$rc $(lines)" \
    '^[1-9][0-9]* ddp: stop: .*ddp: rank 3 \(n2\) exited with code 1 after [0-9]+ s: the step ends$'

# ---- a step of two components, whose nodes Slurm lists in another order; without PMIx: t1002-spank-environment.t ----
start_het() { # KEYS COMMAND
    run_step --ddp=on,mpi=none,"$1" -w n4 -n2 bash -c "$2" "$tmp/out" : -w n1,n2,n3 -n6 bash -c "$2" "$tmp/out"
}
start_het stop=USR1 "$catch 75"
kill -USR1 "$(guard_of 5)"
finish
is "heterogeneous: all ranks are stopped, which is said once" "$rc $(got | wc -l) $(saved) $(lines)" \
    "75 8 8 ddp: stop: all ranks get SIGUSR1, to save and end"
# shellcheck disable=SC2016
start_het stop=USR1 'echo $PPID >"$0/$RANK.pid"; [ $RANK != 3 ] || until [ -e "$0/go" ]; do sleep 0.05; done
    [ $RANK != 3 ] || exit 3; exec bash "$0/../program" "$0" 75'
touch "$tmp/out/go"
finish
like "... a death is no stop for the other component" "$(got | wc -l) $(lines)" \
    "^0 ddp: rank 3 \(n.\) exited with code 3 after [0-9]+ s: the step ends$"

# A guard that stands still holds up the restart, after which nobody catches the signal, however busy the machine is.
# shellcheck disable=SC2016
start restarts=2 "" '[ $DDP_RESTART = 0 ] || exec sleep 100; '"$catch 75"
guards=$(cat "$tmp"/out/*.pid) stands=$(guard_of 5)
kill -STOP "$stands"
kill -KILL "$(pgrep -P "$(guard_of 0)")"
until_true 30 grep -q '^ddp: rank 0 (n1) was killed by signal 9 .*: restart 1 of 2$' "$tmp/step.err"
rm "$tmp"/out/*
# shellcheck disable=SC2086
kill -USR1 $guards
kill -CONT "$stands"
finish
like "without stop=: a stop while programs are started again: none is" "$rc $(lines | tail -n 1)" \
    '^1(38|43) ddp: rank [0-7] \(n[1-4]\) was ended by SIGUSR1, the stop.s signal, .* s: the step ends$'
is "... nor goes on" "$(saved)" 0

# ---- requeued ----
submit() { # N KEYS COMMAND: a batch job with N ranks that have begun when it returns; sets $job
    n=$1
    rm -rf "$tmp"/out/*
    printf '#!/bin/sh\nsrun bash -c '\''%s'\'' %s\necho "srun ended with $?"\n' "$3" "$tmp/out" >"$tmp/job"
    cluster_run sbatch --parsable --ddp="on,requeue=auto,$2" -N2 -n"$n" --requeue --open-mode=append -o "$tmp/out/log" \
        "$tmp/job"
    job=$out
    until_true 60 all_ready || diag "$(cat "$tmp/out/log")"
}
log() { lines "$tmp/out/log"; }
requeued="ddp: job [0-9]+ is requeued: restart 1 of at most 100"

submit 4 stop=USR1 "$catch 75"
kill -USR1 "$(guard_of 1)"
ok "all have saved: the job is requeued" until_true 60 restarted
is "... all have saved" "$(saved)" 4
like "... which is said" "$(log)" "ddp: stop: .*$requeued$"
forget

submit 4 stop=USR1 '[ $RANK -lt 2 ] || exec bash "$0/../program" "$0" 75; '"$default"
kill -USR1 "$(guard_of 1)"
ok "some have saved, some have not caught it: requeued" until_true 60 restarted
like "... which is said" "$(log)" "ddp: stop: .*ddp: rank [01] .* ended by SIGUSR1.*$requeued$"
is "... and who saves has the time" "$(saved)" 2
forget

# rank 3 never comes: the others are within ddp_init
train="$top_builddir/train --data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32"
submit 4 stop=USR1 'echo $PPID >"$0/$RANK.pid"; [ $RANK = 3 ] && exec sleep 100; exec '"$train"
kill -USR1 "$(guard_of 0)"
ok "libddp's programs, before they have begun: requeued" until_true 60 restarted
like "... which is said" "$(log)" "ddp: stop: .*ended by SIGUSR1.*$requeued$"
forget

submit 4 guard 'echo $PPID >"$0/$RANK.pid"; exec '"$train --steps 1000000 --log-every 20 --ckpt $tmp/out/ckpt"
until_true 60 grep -q "^step 20/" "$tmp/out/log"
cluster_run scancel --signal=USR1 "$job"
ok "libddp's, later, without a stop of the guards': requeued" until_true 60 restarted
like "... by the guards alone" "$(grep "requeued" "$tmp/out/log")" "^$requeued$"
forget

start stop=USR1,requeue=auto "" "$catch 75"
kill -USR1 "$(guard_of 0)"
finish
like "a step by hand: the command that goes on is said" "$rc $(lines)" \
    "75 .*an interactive one; to go on: srun --ddp=on,stop=USR1,requeue=auto -N4 -n8 .* bash -c "
start stop=USR1,requeue=auto "" 'exec bash "$0/../program" "$0" $((RANK == 3 ? 0 : 75))'
kill -USR1 "$(guard_of 0)"
finish
is "who ends with 0 has not saved: nothing is requeued" "$rc $(lines | wc -l)" "75 1"
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$out" ""
done_testing
