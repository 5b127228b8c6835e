#!/bin/bash
# One job of ./train whose rank 1 is killed and started again, and which is requeued: one line says at the end what its
# time was worth, its classes add up to the time from the first allocation to the end, and the job's comment has it.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
mkdir -m 777 "$tmp/out"
chmod 755 "$tmp"
# So short a credential is what lets a requeued job start soon; else it waits two minutes.
cluster_up 2 --cpus 4 --conf KillWait=30 --conf "AuthInfo=socket=$cluster_dir/munge/socket,cred_expire=6" \
    --conf SchedulerParameters=sched_interval=2,bf_interval=2
log=$tmp/out/log
echo "1 150" >"$tmp/out/kills"
chmod 666 "$tmp/out/kills"
cat >"$tmp/out/job" <<JOB
#!/bin/sh
#SBATCH --ddp=on,requeue=auto,restarts=1 -N2 -n2 --requeue --open-mode=append
#SBATCH --comment=mine
export SLURM_CPU_BIND=none PROBE_PACE_MS=10
[ -z "\$SLURM_RESTART_COUNT" ] || : >$tmp/out/kills
export SLURM_JOB_START_TIME=\${SLURM_JOB_START_TIME:-\$(date +%s)} # Slurm says it from 23.02 on
srun $top_srcdir/t/lib/victim $tmp/out/kills $tmp/out/steps $top_builddir/t/unit/train-probe --layers 1 --width 32 \\
    --heads 2 --context 32 --batch 2 --steps 800 --log-every 100 --val-windows 4 --ddp-snapshot-every=0 \\
    --data /usr/share/common-licenses/GPL-3 --ckpt $tmp/out/ckpt --ddp-ckpt-every=100 --log-json $tmp/out/steps \\
    --ddp-record=$tmp/out/record
echo "srun ended with \$?"
sleep 20
JOB
cluster_run sbatch --parsable -o "$log" "$tmp/out/job"
job=$out
comment() { cluster_run squeue -h -j "$job" -o %k; }
steps() { [ "$(wc -l <"$tmp/out/steps")" -ge "$1" ]; }
said() { [ "$(grep -c "$1" "$log")" = "$2" ]; }

ok "rank 1 is killed, and started again" until_true 60 grep -qs '"restart": 1' "$tmp/out/record" ||
    diag "$(cat "$log")"
ok "... and goes on" until_true 60 grep -qs '^step 200/' "$log"
cluster_run scancel --signal=USR1 "$job"
ok "it stops, saved and requeued" until_true 60 said "job $job is requeued" 1 || diag "$(cat "$log")"
ok "... as the record says, by its guard" until_true 30 grep -q '"event": "requeue".*"by": "guard"' "$tmp/out/record"
ok "... and says what it was worth so far" until_true 30 said '^goodput ' 1
comment
like "... also behind the user's comment, while it waits" "$out" \
    '^mine \| ddp: goodput [0-9.]+% of .*: lost .*, restart '
ok "it goes on, to the end" until_true 200 said '^srun ended with 0' 1 || diag "$(cat "$log")"

line=$(sed '1,/job .* is requeued/d' "$log" | grep '^goodput ')
is "then one line says what all of it was worth" "$(said '^goodput ' 2 && grep -c . <<<"$line")" 1
like "... with what was lost, restarted, waited for" "$line" \
    '^goodput [0-9.]+% of .*: useful .*, lost .*, restart .*, start-up .*; queue '
comment
like "... and so does the comment, in place of the former one" "$out" \
    "^mine \| ddp: ${line%%:*}: lost [0-9.]+ m?s, restart [0-9.]+ m?s\$"
cluster_run scontrol -o show job "$job"
like "... scontrol, too" "$out" " Comment=mine \| ddp: goodput "
cat >"$tmp/sum" <<'PY'
import json, re, sys
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
FIGURE = r"(\d+)(\.\d+)? (us|ms|s|min|h)\b"
def seconds(text):
    return sum(float(n + part) * UNITS[unit] for n, part, unit in re.findall(FIGURE, text))
def rounding(text):
    return sum(.5 * 10 ** -max(len(part) - 1, 0) * UNITS[unit] for _, part, unit in re.findall(FIGURE, text))
line, record = sys.argv[1], [json.loads(text) for text in open(sys.argv[2])]
record = [event for event in record if "by" not in event]  # a guard's own end comes after the program's
classes = line.split(":", 1)[1]
sum_s = seconds(classes)
wall_s = record[-1]["t"] - record[0]["alloc_t"]
share = seconds(line.split("useful")[1].split(",")[0]) / (sum_s - seconds(line.split("queue")[1]))
print(f"{sum_s:.1f} of {wall_s:.1f} s, {share:.3f}")
told = float(re.match(r"goodput ([\d.]+)%", line)[1]) / 100
sys.exit(not (record[-1]["event"] == "end" and abs(sum_s - wall_s) < .005 * wall_s + rounding(classes)
              and abs(share - told) < .01))
PY
run python3 "$tmp/sum" "$line" "$tmp/out/record"
is "the classes add up to the time from the first allocation to the end" "$rc" 0
diag "$line; $out; $err"
cluster_run "$top_builddir/ddp" report "$tmp/out/record"
like "ddp report says the same" "$out" $'\n'"${line%%:*}: useful time"
like "... of one restart and one requeue" "$out" "interruptions +1 restart, 1 requeue"
cluster_run scancel "$job"
done_testing
