#!/bin/bash
# The record of a run: what happened, line by line, over stops, resumes and failures; and it never ends training.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"
text=/usr/share/common-licenses/GPL-3
check=(/usr/bin/python3 "$top_srcdir/t/lib/recordcheck" "$top_srcdir/doc/record.schema.json")
is_wrong() { ! "${check[@]}" "$1" 2>"$tmp/wrong"; }
probe=$top_builddir/t/lib/apiprobe
export DDP_TIMEOUT=60 OMP_NUM_THREADS=1
cd "$tmp" || exit 1

train() { run "$top_builddir/ddp" run -n 2 --layout 1,1 "$top_builddir/train" --data $text --model tiny "$@"; }
small=(--layers 1 --width 32 --context 32 --batch 4 --val-windows 4 --log-every 0)

# Fewer steps than the 50 after which a rank that other work holds up has a line, too.
train "${small[@]}" --steps 45 --ddp-record=a
is "a run with a record" "$rc" 0 || diag "$err"
like "the global batch is said at the start" "$out" \
    $'\n''global batch: 4 samples x 2 ranks = 8 samples, 256 tokens'$'\n'
like "where a step's time went is said at the end" "$out" \
    "a step's [0-9.]+ ms: data [0-9.]+%, forward [0-9.]+%, backward .* other [0-9.]+%"
like "... and the efficiency, with how it was found" "$out" \
    'efficiency [0-9.]+%, [0-9.]+ times one rank: a step computes [0-9.]+ ms .*passes whose buckets waited'
like "... and what all of it was worth" "$(tail -n 1 <<<"$out")" \
    '^goodput [0-9.]+% of [0-9.]+ m?s: useful [0-9.]+ m?s, (checkpoint [0-9.]+ [mu]?s, )?data [0-9.]+ [mu]?s, start-up '
like "... and what a barrier takes" "$out" $'\n''a barrier takes [0-9.e+]+ us, 99% of them at most [0-9.e+]+ us'
like "... which the record has, too" "$(sed -n '/"interval"/s/.*"barrier_s": \([^,]*\),.*/\1/p' a | paste -sd' ')" \
    '^null [0-9.e-]+[0-9]$'
run "${check[@]}" a
is "its lines" "$rc:$out" "0:start train interval interval validation end" || diag "$err"
unlike "... in which data, forward and backward took some time" "$(grep interval a)" '"(data|forward|backward)": 0[,}]'
for broken in 's/"wall_s": /&1/' 's/"exposed": /&1/' 's/"memory_bytes": \[[0-9]*, /"memory_bytes": [/' \
    's/"how"/"who"/' 's/"items": [0-9]*/&.5/'; do
    sed "$broken" a >broken
    ok "a planted fault is noticed: $broken" is_wrong broken
done

train "${small[@]}" --accum 3 --steps 60 --ddp-record=accum
like "with accumulation the baseline comes from micro-steps that do not synchronise" "$out" \
    "efficiency [0-9.]+%.*\(micro-steps that do not synchronise\)"
like "... from the first on" "$(grep -m 1 interval accum)" '"baseline_s": 0'

# Stopped, and gone on: one file.
mark=$tmp/mark
# begun NAME OPTION...: two ranks in the background, once they have written an interval; $launcher
begun() {
    DDP_TEST_MARK=$mark timeout -k 5 120 "$top_builddir/ddp" run -n 2 "$top_builddir/train" --data $text --model tiny \
        "${small[@]}" --steps 1000000 --ddp-record="$1" "${@:2}" >out 2>err </dev/null &
    launcher=$!
    until_true 60 grep -qs '"step": 50,' "$1" || diag "training did not start: $(cat err)"
}
begun b --ckpt c --ckpt-every 0 --ddp-requeue=auto
kill -USR1 "$(training "$mark" 1)"
wait $launcher
is "a run that is stopped" "$?" 75
like "... and not requeued, which its user is told and the record is not" "$(cat err)" 'this is no job of Slurm.s'
printf '{"event": "inter' >>b
step=$(sed -n 's/.*"event": "stop", .*"step": \([0-9]*\), "signal": "USR1"}/\1/p' b)
train "${small[@]}" --steps $((step + 20)) --ckpt c --resume c --ddp-record=b
is "... and goes on" "$rc" 0 || diag "$err"
grep -v '^{"event": "inter$' b >whole
is "the piece of a line of a process that was killed has a line of its own" $(($(wc -l <b) - $(wc -l <whole))) 1
like "the lines of both" "$("${check[@]}" whole 2>&1)" \
    '^start train( interval)+ stop checkpoint end start resume train interval interval validation checkpoint end$'
like "the resume" "$(grep resume whole)" "\"step\": $step, \"from\": \"c/step-[0-9]*\", \"took_s\": 0"
like "the end of the first" "$(grep -m 1 '"end"' whole)" '"how": "stopped"'

begun dead
kill -9 "$(training "$mark" 1)"
wait $launcher
like "a rank that died is named" "$(grep failure dead)" '"text": "rank 1 \(.*\) died.*", "rank": 1, "node": "'
like "... and the end is one" "$(tail -n 1 dead)" '"how": "failed"'
steps() { sed -n "/$1/s/.*\"step\": \([0-9]*\).*/\1/p" dead; }
is "... after the same step, which the failure has" "$(steps failure)" "$(steps '"end"')"
ok "... with the steps since the last interval" "${check[@]}" dead

run "$top_builddir/ddp" run -n 2 "$probe" slow 30 --ddp-record=slow
like "a slow rank is named" "$(grep '"slow"' slow)" '"step": 50, "rank": 1, "node": ".*", "factor": [2-3]'
ok "... once" [ "$(grep -c '"slow"' slow)" = 1 ]
run "$top_builddir/ddp" run -n 2 "$probe" options --ddp-record=own
like "a program's own event" "$(cat own)" $'\n''\{"event": "epoch", "t": [0-9.]+, "number": 3\}'$'\n'
run "$top_builddir/ddp" run -n 2 "$probe" diverged --ddp-record=diverged
run "${check[@]}" diverged
like "an interval whose only step was skipped" "$rc:$out $(grep -c '"steps": 0,.*"skipped": 1,' diverged)" \
    '^0:start interval .*end 1$' || diag "$err"
for from in train resume; do
    PROBE_DIR=$tmp/text run "$top_builddir/ddp" run -n 2 "$probe" text --ddp-record=text.$from
    run "${check[@]}" text.$from
    is "another framework's $from" "$rc:$out" "0:start $from interval checkpoint checkpoint end" || diag "$err"
done
run "$top_builddir/ddp" run -n 2 "$probe" moves --ddp-record=moved --ddp-prometheus=moved.prom
like "a program that changes its folder: what its time was worth" "$rc:$err:$out" '^0::.*goodput [0-9.]+% of .*useful'
like "... and its last numbers" "$(<moved.prom)" $'\n''ddp_steps_total\{.*\} 1'$'\n'

# The comment of Slurm's job, in which the user's stays.
mkdir bin
cat >bin/squeue <<'EOF'
#!/bin/sh
echo "squeue: warning: about something" >&2
for format; do :; done
echo "$format" | sed 's/%i/4711/; s/%k/run 7, lr=0.1 | ddp: goodput of before/'
EOF
cat >bin/scontrol <<'EOF'
#!/bin/sh
case $1 in
-o) echo "JobId=4711 JobState=RUNNING BatchFlag=1 Requeue=1 Restarts=0" && exit ;;
requeue) exit ;;
esac
printf '%s\n' "$@" >comment
[ -z "$BROKEN" ] || { echo "slurm_update error: Access denied" >&2; exit 1; }
EOF
chmod 755 bin/*
in_job() {
    SLURM_JOB_ID=4711 SLURM_JOB_END_TIME=4102444800 PATH=$tmp/bin:$PATH train "${small[@]}" --steps 3 --ddp-record=job
}
in_job
is "a job's end is in its train" "$(grep '"event": "train"' job | grep -o '"end_t": [^,}]*')" '"end_t": 4102444800'
is "a job's comment: exit code, no word about it" "$rc$err" 0
like "... ours is behind the user's" "$(<comment)" \
    '^update'$'\n''JobId=4711'$'\n''Comment=run 7, lr=0.1 \| ddp: goodput [0-9.]+% of [0-9.]+ m?s$'
BROKEN=1 in_job
is "refused: it is a warning, once" "$rc $(grep -c . <<<"$err")" "0 1"
like "... which says why" "$err" \
    "^train: warning: rank 0: the goodput is not in the job's comment: scontrol: .*Access denied"
like "... and the line is there" "$out" $'\n''goodput [0-9.]+% of'
SLURM_JOB_ID=4711 PATH=$tmp/bin:$PATH begun requeued --ckpt d --ckpt-every 0 --ddp-requeue=auto
kill -USR1 "$(training "$mark" 1)"
wait $launcher
is "a job that is requeued: so its record says" "$? $(grep '"event": "requeue"' requeued | cut -d, -f3-)" \
    '75  "note": "job 4711 is requeued: restart 1 of at most 100"}' || diag "$(cat err)"

# It never ends training.
ln -s a link
ln -s /dev/full full
cp a before
for bad in link /nowhere/x full .; do
    train "${small[@]}" --steps 3 --ddp-record=$bad
    is "$bad: training goes on, and it is told once" "$rc $(grep -c "record $bad" <<<"$err")" "0 1" || diag "$err"
done
ok "what a link led to is as it was" cmp a before
done_testing
