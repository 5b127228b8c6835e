#!/bin/bash
# The end of a job's time: a job saves and stops before it, whether Slurm said it in the environment or the controller
# has to be asked; an extended limit counts; a controller that says nothing holds up nothing.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"
unset "${!SLURM_@}" "${!DDP_@}"

mkdir "$tmp/bin"
answer() { # SECONDS: the job ends in so many, says scontrol
    cat >"$tmp/bin/scontrol" <<SCRIPT
#!/bin/sh
echo "\$*" >>"$tmp/asked"
echo "JobId=5 JobName=x UserId=u(1) JobState=RUNNING BatchFlag=1 EndTime=$(($(date +%s) + $1)) NodeList=n1"
SCRIPT
    chmod 755 "$tmp/bin/scontrol"
}
start() { # ENV...: in the background; sets $launcher
    rm -rf "$tmp/out" "$tmp/asked" "$tmp/ckpt"
    DDP_TEST_MARK=$tmp env "$@" SLURM_JOB_ID=5 PATH="$tmp/bin:$PATH" PROBE_PACE_MS=50 timeout -k 5 120 \
        "$top_builddir/ddp" run -n 2 "$top_builddir/t/unit/train-probe" --layers 1 --width 32 --heads 2 --context 32 \
        --batch 2 --steps 1000000 --log-every 1 --data /usr/share/common-licenses/GPL-3 \
        --ckpt "$tmp/ckpt" --ddp-ckpt-every=0 >"$tmp/out" 2>"$tmp/err" </dev/null &
    launcher=$!
    until_true 60 grep -qs 'step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
}
end() { rc=0; wait $launcher || rc=$?; }
steps() { tail -n 1 "$tmp/out" | sed -n 's|^step \([0-9]*\)/.*|\1|p'; }
is_past() { [ "$(date +%s)" -gt "$1" ]; }
saved() { find "$tmp/ckpt" -name manifest.json | wc -l; }

answer 30
start
end
is "asked of the controller: the job stops before its end" "$rc $(saved)" "75 1"
like "... and says why" "$(cat "$tmp/err")" "train: stopped by the end of its time, with a checkpoint"
ok "... which has not come yet" test "$(date +%s)" -lt "$(sed -n 's/.*EndTime=\([0-9]*\) .*/\1/p' "$tmp/bin/scontrol")"
is "... asked twice: at first, and whether it holds" "$(cat "$tmp/asked")" $'-o show job 5\n-o show job 5'

answer 1000
now=$(date +%s)
start SLURM_JOB_END_TIME=$((now + 22))
ok "in the environment, but extended since: goes on" until_true 60 is_past $((now + 10))
at=$(steps)
goes_on() { [ "$(steps)" -gt $((at + 2)) ]; }
ok "... beyond the last moment" until_true 30 goes_on
is "... asked once, since it was known" "$(cat "$tmp/asked")" "-o show job 5"
kill -TERM "$(training "$tmp" 1)"
end
is "... until it is told to stop" "$rc" 75

printf '#!/bin/sh\nexec sleep 1000\n' >"$tmp/bin/scontrol"
start
kill -TERM "$(training "$tmp" 0)"
end
is "a controller that does not answer holds up nothing" "$rc $(saved)" "75 1"
done_testing
