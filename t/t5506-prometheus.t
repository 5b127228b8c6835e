#!/bin/bash
# A run's numbers for Prometheus: the text keeps to its format, and says what the record says; the file is replaced
# whole and stays; one that cannot be written never ends training.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"
text=/usr/share/common-licenses/GPL-3
check=(/usr/bin/python3 "$top_srcdir/t/lib/promcheck")
export DDP_TIMEOUT=60 OMP_NUM_THREADS=1
unset "${!SLURM@}"
cd "$tmp" || exit 1
/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null ||
    diag "without prometheus_client's parser: contrib/deps installs it"

small=(--layers 1 --width 32 --context 32 --batch 4 --val-windows 4 --log-every 0 --data $text --model tiny)
train() { run "$top_builddir/ddp" run -n 2 --layout 1,1 "$top_builddir/train" "${small[@]}" "$@"; }
# value METRIC: of what promcheck has printed
value() { sed -n "s/^$1 //p" <<<"$out"; }
# recorded FILE EXPRESSION: of the record's lines l
recorded() {
    /usr/bin/python3 -c 'import json, sys
l = [json.loads(x) for x in open(sys.argv[1])]
i = [x for x in l if x["event"] == "interval"]
print("%.6g" % eval(sys.argv[2]))' "$@"
}
near() { awk -v a="$(value "$1")" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d * d <= 1e-8 * b * b) }'; }

# A colon, quotes: the text has the program's name as it is.
ln -s "$(realpath "$top_builddir/train")" 'a "b\'
export SLURM_JOB_ID=77 SLURM_STEP_ID=3
run "$top_builddir/ddp" run -n 2 './a "b\' "${small[@]}" --steps 120 --ckpt c --ckpt-every 60 \
    --ddp-prometheus=a.prom --ddp-record=a
unset SLURM_JOB_ID SLURM_STEP_ID
is "a run with numbers for Prometheus" "$rc" 0 || diag "$err"
is "... has labels" "$(grep '^ddp_up{' a.prom)" 'ddp_up{jobid="77",stepid="3",program="a \"b\\"} 0'
is "... and no other file" "$(ls -d a.prom*)" a.prom
run "${check[@]}" a.prom
is "its text keeps to the format" "$rc:$err" "0:" || diag "$(cat a.prom)"
is "what there is" "$(sed 's/ .*//' <<<"$out" | paste -sd' ')" "ddp_up ddp_failed ddp_start_timestamp_seconds \
ddp_last_update_timestamp_seconds ddp_ranks ddp_nodes ddp_restarts_total ddp_requeues_total ddp_step ddp_steps_total \
ddp_skipped_steps_total ddp_items_total ddp_loss ddp_learning_rate ddp_gradient_norm ddp_step_seconds \
ddp_hidden_communication_seconds_total ddp_efficiency_ratio ddp_barrier_seconds ddp_memory_peak_bytes \
ddp_checkpoints_total ddp_checkpoint_step ddp_checkpoint_bytes ddp_checkpoint_timestamp_seconds \
ddp_time_seconds_total{part=data} \
ddp_time_seconds_total{part=forward} ddp_time_seconds_total{part=backward} ddp_time_seconds_total{part=exposed} \
ddp_time_seconds_total{part=optimizer} ddp_time_seconds_total{part=checkpoint} ddp_time_seconds_total{part=other}"
for name in $(grep -o '^# TYPE [a-z_]*' a.prom | cut -d' ' -f3) ddp_slow_rank_ratio; do
    grep -q "^|.*\`$name[{\`].*| $(sed -n "s/^# TYPE $name //p" a.prom)" "$top_srcdir/doc/user.md" || echo "$name"
done >unsaid
is "the guide has them, with their types" "$(cat unsaid)" ""
is "ranks, nodes, steps, items" "$(value ddp_ranks) $(value ddp_nodes) $(value ddp_step) $(value ddp_steps_total) \
$(value ddp_items_total)" "2 1 120 120 30720"
for pair in 'ddp_loss=i[-1]["loss"]' 'ddp_learning_rate=i[-1]["lr"]' 'ddp_gradient_norm=i[-1]["grad_norm"]' \
    'ddp_step_seconds=i[-1]["wall_s"] / i[-1]["steps"]' 'ddp_memory_peak_bytes=max(i[-1]["memory_bytes"])' \
    'ddp_efficiency_ratio=i[-1]["efficiency"]' \
    'ddp_barrier_seconds=[x["barrier_s"] for x in i if x["barrier_s"]][-1]' \
    'ddp_hidden_communication_seconds_total=sum(x["hidden_s"] for x in i)' \
    'ddp_time_seconds_total{part=backward}=sum(x["parts"]["backward"] for x in i)' \
    'ddp_time_seconds_total{part=other}=sum(x["parts"]["other"] for x in i)' \
    'ddp_checkpoints_total=sum(x["event"] == "checkpoint" for x in l)' \
    'ddp_checkpoint_bytes=[x for x in l if x["event"] == "checkpoint"][-1]["bytes"]'; do
    name=${pair%%=[i\[sm]*}
    want=$(recorded a "${pair#"$name="}")
    ok "$name is the record's" near "$name" "$want" || diag "$(value "$name") $want"
done
like "its time is now" "$(($(date +%s) - $(value ddp_last_update_timestamp_seconds)))" '^[0-9]?[0-9]$'

while IFS='|' read -r what broken; do
    sed "$broken" a.prom >broken
    run "${check[@]}" broken
    is "caught: $what" "$rc:${err:+said}" 1:said
done <<'PLANTED'
a family that comes twice|$p;/^# .* ddp_up /p;/^ddp_up/p
a name without a unit's total|s/ddp_items_total/ddp_items/
a quote that is not escaped|s/\\"b/"b/
a sample of no family|s/^ddp_loss/ddp_lose/
no number|s/^\(ddp_loss.*}\).*/\1 nan,/
PLANTED

# Each call on the file: how often it is replaced, what is left of a process that is killed, and of a full disk.
fault=$top_builddir/t/lib/.libs/fault.so
# faulty NAME=VALUE... -- OPTION...: train, whose calls on the folder w are counted
mkdir w
faulty() { run env LD_PRELOAD="$fault" FAULT_DIR="$PWD/w" FAULT_RANK=0 FAULT_LOG="$PWD/calls" "${@:1:$#-1}" \
    "$top_builddir/ddp" run -n 2 "$top_builddir/train" "${small[@]}" --steps "${*: -1}" --ddp-prometheus=w/w.prom; }
began_s=$SECONDS
faulty FAULT_AT=0 700
n=$(grep -c ' rename ' calls)
ok "15 intervals in a moment: at most once a second, and at the start and end" \
    [ "$n" -ge 3 -a "$n" -le $((SECONDS - began_s + 4)) ] || diag "$n in $((SECONDS - began_s)) s: $rc $err"
like "the calls: what a killed process left goes, a new text takes the name" \
    "$(cut -d' ' -f3 calls | head -n 4 | paste -sd' ')" '^unlink open write rename$'
for ((at = 1; at <= 6; at++)); do # of the first two texts
    rm -f w/*
    cp a.prom w/w.prom
    touch w/w.prom.tmp # of another that was killed
    faulty FAULT_AT=$at 60
    died=$rc
    run "${check[@]}" w/w.prom
    is "killed at call $at: a whole text, and no other *.prom" "$died $rc $(ls w/*.prom)" "137 0 w/w.prom" ||
        diag "$err"
done
for call in open rename; do
    rm -f w/*
    cp a.prom w/w.prom
    faulty FAULT_CALL="$call w.prom" FAULT_AT=1 FAULT_TIMES=0 FAULT_DO=ENOSPC 60
    is "$call on a full disk: training goes on, and the old text stays alone" \
        "$rc $(cmp a.prom w/w.prom && ls w)" "0 w.prom" || diag "$err"
done

# While it runs, and when it is killed.
mark=$tmp/mark
# begun FILE OPTION...: two ranks in the background, until the file says that steps were done; $launcher
begun() {
    DDP_TEST_MARK=$mark timeout -k 5 120 "$top_builddir/ddp" run -n 2 "$top_builddir/train" "${small[@]}" \
        --steps 1000000 --ddp-prometheus="$1" "${@:2}" >out 2>err </dev/null &
    launcher=$!
    until_true 60 grep -qs '^ddp_steps_total{.*} [1-9]' "$1" || diag "training did not start: $(cat err)"
}
touch b.prom.tmp # of a run that was killed as it wrote
(umask 027 && begun b.prom && ls -l b.prom | cut -c1-10 >mode && kill -9 "$(training "$mark" 0)"; wait $launcher)
is "its mode is the umask's" "$(cat mode)" -rw-r-----
run "${check[@]}" b.prom
is "rank 0 killed: the last text is whole, and says that it runs" "$rc:$(value ddp_up)" 0:1 || diag "$err"
begun c.prom
kill -9 "$(training "$mark" 1)"
wait $launcher
run "${check[@]}" c.prom
is "another rank killed: it has ended, by a failure" "$rc:$(value ddp_up) $(value ddp_failed)" "0:0 1" || diag "$err"
run "$top_builddir/ddp" run -n 2 "$top_builddir/t/lib/apiprobe" slow 30 --ddp-prometheus=slow.prom
run "${check[@]}" slow.prom
like "a slow rank is named" "$out" 'ddp_slow_rank_ratio\{rank=1,node=[^ ]+\} [23]'

# It never ends training.
ln -s /dev/full full.prom
mkdir folder.prom
for bad in full.prom /nowhere/x.prom folder.prom; do
    train --steps 60 --ddp-prometheus=$bad
    is "$bad: training goes on, and it is told once" "$rc $(grep -c "Prometheus file $bad.*name a" <<<"$err")" "0 1" ||
        diag "$err"
done
is "what is no file stays as it is" "$(readlink full.prom; ls -A folder.prom)" /dev/full
done_testing
